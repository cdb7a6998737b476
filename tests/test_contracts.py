"""Blocks are refused where they lack what a model needs, before any work, in one sentence."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from partwise.contracts import (
    Additive,
    Entries,
    Latent,
    Layout,
    Pairs,
    Selections,
    check_needs,
    members,
)
from partwise.data import BlockSource, learn_columns
from partwise.data.dense import DenseGroup
from partwise.data.entries import EntryGroup
from partwise.engine import Monitor, climb
from partwise.models.gvq import GVQ
from partwise.runners import Serial

CAPABILITIES = [Additive, Entries, Latent, Pairs, Selections]


def test_members_are_the_names_that_a_capability_declares():
    assert members(Entries) == {"entries", "zero_value"}
    assert members(Latent) == members(Pairs) | {"codes", "row_sums"}


@pytest.mark.parametrize(
    ("view", "lacks"), [(DenseGroup, {Latent}), (EntryGroup, {Additive})], ids=["dense", "entries"]
)
def test_what_each_view_offers(view, lacks):
    for capability in CAPABILITIES:
        if capability in lacks:
            with pytest.raises(
                TypeError, match=rf"capability {capability.__name__}.*{view.__name__}"
            ):
                check_needs(object(), [capability], [view])
        else:
            check_needs(object(), [capability], [view])


def test_a_climb_refuses_blocks_that_lack_a_capability():
    X = sparse.csr_array(np.eye(4))
    columns = learn_columns(X, "gaussian", np.ones(4), True, None)
    source = BlockSource(X, columns, np.ones(4))
    model = GVQ(1, 2, 2, 0.0, None)
    with pytest.raises(TypeError, match=r"GVQ needs the capability Additive .* no additive"):
        climb(model, None, source, Serial(), Monitor(1, 0.0, 4.0))


@pytest.mark.parametrize("by_column", [False, True])
def test_packed_values_are_put_back_in_any_memory_order(by_column):
    rng = np.random.default_rng(0)
    full, onto = rng.normal(size=(2, 3, 5, 4))
    if by_column:
        full, onto = (
            np.ascontiguousarray(a.transpose(0, 2, 1)).transpose(0, 2, 1) for a in (full, onto)
        )
    layout = Layout(np.array([1, -1, 0, 1]), (2, 3))
    own, shared = packed = layout.pack(full)
    assert_array_equal(shared, full[:, :, [1]])
    assert_array_equal(own[:, :, 0], np.pad(full[:, :2, 2], [(0, 0), (0, 1)]))
    assert_array_equal(own[:, :, 2], full[:, 2:, 3])
    back = layout.unpack(packed, onto)
    assert back.strides == full.strides
    expected = full.copy()
    expected[:, :2, [0, 3]], expected[:, 2:, 2] = onto[:, :2, [0, 3]], onto[:, 2:, 2]
    assert_array_equal(back, expected)
