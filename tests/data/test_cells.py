"""Tables by their cells, and folds over these."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from partwise import CellKFold, ObservedCells
from tests.common.helpers import punch_holes


def holed(C=30, D=8, seed=0):
    rng = np.random.default_rng(seed)
    return punch_holes(rng.normal(size=(C, D)), 0.4, rng)


def as_sparse(X):
    """What is observed, a stored zero and a stored NaN among it."""
    X = np.where(np.isnan(X), 0.0, X)
    X = sparse.csr_array(X)
    X.data[0], X.data[3] = 0.0, np.nan
    return X


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["dense", "frame", "csr_array", "csr_matrix"])
def test_cells_keep_the_kind_of_table(kind, dtype):
    X = holed().astype(dtype)
    if kind == "frame":
        given = pd.DataFrame(X, columns=list("abcdefgh"), index=np.arange(30) + 5)
    elif kind == "dense":
        given = X
    else:
        given = getattr(sparse, kind)(as_sparse(X))
    cells = ObservedCells(given)
    assert len(cells) == cells.shape[0]
    some = cells[np.arange(0, len(cells), 3), ...]
    assert_array_equal(some.rows, cells.rows[::3])
    table, others = some.table(), some.others()
    assert type(table) is type(given)
    assert len(others) == len(cells) - len(some)
    assert np.intersect1d(others.rows * 8 + others.columns, some.rows * 8 + some.columns).size == 0
    if kind == "frame":
        assert list(table.columns) == list("abcdefgh")
        assert_array_equal(table.index, given.index)
        table = table.to_numpy()
    if sparse.issparse(table):
        assert table.nnz == len(some)
        table = table.toarray()
        assert_array_equal(table[some.rows, some.columns], some.values)
    else:
        assert_array_equal(table[some.rows, some.columns], some.values)
        assert np.isnan(table).sum() == table.size - len(some)
        assert_array_equal(cells.table(), X)
    assert table.dtype == dtype


def test_a_choice_among_chosen_cells_knows_no_others():
    cells = ObservedCells(holed())
    inner = cells[10:40][[0, 5]]
    assert len(inner.others()) == 28
    assert_array_equal(inner.rows, cells.rows[[10, 15]])
    assert len(cells[3]) == 1
    assert len(cells[np.arange(len(cells)) < 7]) == 7


def test_absent_zeros_are_cells_if_told_so():
    X = sparse.csr_array(np.eye(3))
    assert len(ObservedCells(X)) == 3
    cells = ObservedCells(X, sparse_absent="zero")
    assert len(cells) == 9
    assert_array_equal(cells.table(), np.eye(3))


@pytest.mark.parametrize("form", [ObservedCells, np.asarray, lambda X: as_sparse(X)])
def test_folds_spread_every_row_and_keep_every_column(form):
    X = holed(60, 8)
    X[:, 2] = np.nan
    X[4, 2] = 1.0  # a single cell
    X[:, 5] = np.nan
    X[3:5, 5] = 1.0
    X = form(X)
    cells = X if isinstance(X, ObservedCells) else ObservedCells(X)
    folds = CellKFold(4, random_state=0)
    assert folds.get_n_splits() == 4
    times = np.zeros(len(cells), int)
    sizes = []
    for train, test in folds.split(X):
        assert len(np.intersect1d(train, test)) == 0
        assert len(train) + len(test) == len(cells)
        times[test] += 1
        sizes.append(len(test))
        share = np.bincount(cells[test].rows, minlength=60)
        count = np.bincount(cells.rows, minlength=60)
        assert np.all(np.abs(share - count / 4) < 2)
        assert_array_equal(np.unique(cells[train].columns), np.unique(cells.columns))
    assert times.max() == 1
    assert (times == 0).sum() <= 2
    assert max(sizes) - min(sizes) <= 2
    first = [next(iter(CellKFold(4, random_state=0).split(X)))[1] for _ in range(2)]
    assert_array_equal(*first)


def test_what_they_refuse():
    with pytest.raises(ValueError, match="n_splits=1 must be"):
        CellKFold(1)
    with pytest.raises(ValueError, match="more than there are cells, 2"):
        next(CellKFold(3).split([[1.0, 2.0]]))
    with pytest.raises(ValueError, match="a table of rows and columns"):
        ObservedCells([1.0, 2.0])
    with pytest.raises(ValueError, match=r"sparse_absent='no'"):
        ObservedCells([[1.0]], sparse_absent="no")
