"""Sparse matrices whose indices lead out of them are refused before a kernel follows them."""

import numpy as np
import pytest
from scipy import sparse

from partwise import MCVQ, RowSource
from partwise.data.indices import check_indices, load_sparse
from partwise.data.ratings import read_ratings
from partwise.files import read_data

X = sparse.csr_array(np.tile(np.eye(4), (5, 1)) + 1.0)


def spoiled(name, at, value, kind=sparse.csr_array):
    out = kind(X)
    array = getattr(out, name).copy()
    array[at] = value
    setattr(out, name, array)
    return out


@pytest.mark.parametrize(
    "bad",
    [
        spoiled("indices", 5, 4), spoiled("indices", 5, -1), spoiled("indptr", 3, 100),
        spoiled("indptr", 3, 0), spoiled("indptr", 0, 2), spoiled("indptr", -1, 10**6),
        spoiled("indices", 5, 99, sparse.csc_array),
    ],
)  # fmt: skip
def test_bad_indices_are_refused(bad, tmp_path):
    for use in (
        check_indices,
        lambda bad: MCVQ(2, 2).fit(bad),
        lambda bad: MCVQ(2, 2, random_state=0, max_iter=2).fit(RowSource([bad, bad])),
        read_ratings,
    ):
        with pytest.raises(ValueError, match="indices do not fit"):
            use(bad)
    np.savez(
        tmp_path / "bad.npz", format=bad.format.encode(), shape=bad.shape, data=bad.data,
        indices=bad.indices, indptr=bad.indptr,
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"cannot be read \("):
        read_data(tmp_path / "bad.npz")


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
def test_good_ones_are_read_from_every_format(kind, tmp_path):
    sparse.save_npz(tmp_path / "x.npz", X.asformat(kind))
    np.testing.assert_array_equal(load_sparse(tmp_path / "x.npz").toarray(), X.toarray())
