"""Equal rows draw as one, whether they are told apart by their numbers or by a hash of them."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from partwise.data import BlockSource, learn_columns
from partwise.data import rows as data_rows
from partwise.starts import rows


@pytest.mark.parametrize("most_cells", [rows.MOST_CELLS, 0], ids=["numbers", "hash"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_rows_are_one(most_cells, dtype, monkeypatch):
    monkeypatch.setattr(rows, "MOST_CELLS", most_cells)
    monkeypatch.setattr(data_rows, "CHUNK_CELLS", 50)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6)).astype(dtype)
    X[rng.random(X.shape) < 0.2] = np.nan
    X[3, 2], X[4] = 0.0, X[3]
    X[4, 2] = -0.0
    weight = rng.uniform(0.5, 2.0, 40)

    def found(X, weight):
        columns = learn_columns(X, "gaussian", weight, False, None)
        first, total = rows.distinct_rows(BlockSource(X, columns, weight))
        return np.nan_to_num(X[first], nan=9.0), total

    kinds, total = found(X, weight)
    assert len(kinds) == 39
    assert np.isclose(total.sum(), weight.sum())
    order = rng.permutation(80)
    again, twice = found(np.vstack([X, X])[order], np.tile(weight, 2)[order])
    assert_array_equal(again, kinds)
    np.testing.assert_allclose(twice, 2 * total)
