"""Every view gives the same two linear maps, however its entries are stored.

Truth is the tensor T (P, n, D) of sufficient statistics, zero where an entry is missing, and sums
over it written out with einsum.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, special

from partwise import MCVQ, drift
from partwise.contracts import Layout
from partwise.data import BlockSource, few, kernels, learn_columns
from partwise.data.entries import MOST_VALUES
from partwise.likelihoods import Prior
from tests.common.helpers import punch_holes, random_entries

N_ROWS, N_COLUMNS = 23, 7


class View(NamedTuple):
    source: BlockSource
    block: Any
    T: Any  # (P, n, D)


def truth(X, group):
    """Sufficient statistics (P, n, D) of X (NaN missing), zero where missing."""
    seen = ~np.isnan(X)
    if group.levels is not None:
        return np.stack([level == X for level in group.levels]).astype(float)
    z = np.where(seen, (X - group.shift) / group.scale, 0.0)
    powers = [seen.astype(float), z, z * z]
    return np.stack(powers[: group.likelihood.n_statistics])


def few_values(likelihood, shape, rng):
    if likelihood == "gaussian":
        return rng.choice([-2.5, 0.0, 1.0, 4.0], size=shape)
    return random_entries(likelihood, shape, rng)


STORAGES = {
    "complete": lambda X: X,
    "masked": lambda X: X,
    "csr_matrix": sparse.csr_matrix,
    "csr_array": sparse.csr_array,
}


def stored(X, kind, absent_zero):
    """X as sparse with the right entries left out, or dense as it is."""
    if not kind.startswith("csr"):
        return X
    kept = ~np.isnan(X) & (X != 0) if absent_zero else ~np.isnan(X)
    rows, columns = np.nonzero(kept)
    return STORAGES[kind]((X[kept], (rows, columns)), shape=X.shape)


def make_view(likelihood, kind, absent_zero=False, *, few=False, dtype=float, D=N_COLUMNS, seed=0):
    rng = np.random.default_rng(seed)
    make = few_values if few else random_entries
    X = make(likelihood, (N_ROWS, D), rng)
    if absent_zero:
        X[rng.random(X.shape) < 0.5] = 0.0
    elif kind != "complete":
        X = punch_holes(X, 0.3, rng)
    X = X.astype(dtype)
    data = stored(X, kind, absent_zero)
    weight = rng.uniform(0.5, 2.0, N_ROWS)
    columns = learn_columns(data, likelihood, weight, absent_zero, Prior())
    source = BlockSource(data, columns, weight)
    assert source.n_blocks == 1
    return View(source, source.block(0), truth(X.astype(float), columns[0]))


# (likelihood, kind, absent zero, few values): all the ways in which entries are stored.
VIEWS = {
    f"{likelihood}-{kind}{'-zero' if zero else ''}{'-few' if few else ''}": (
        likelihood,
        kind,
        zero,
        few,
    )
    for likelihood in ("gaussian", "bernoulli", "poisson", "categorical")
    for kind in STORAGES
    for zero in (False, True)
    for few in (False, True)
    if (kind.startswith("csr") or not zero) and (likelihood == "gaussian" or not few)
}

LAYOUTS = {
    "undecided": Layout(np.full(N_COLUMNS, -1), (2, 3)),
    "decided": Layout(np.array([1, 0, 1, 1, 0, 1, 0]), (2, 3)),
    "mixed": Layout(np.array([1, -1, 0, -1, 0, 1, -1]), (3, 2)),
    "ragged": Layout(np.array([2, -1, 0, 2, 1, -1, 0]), (1, 4, 2)),
    "idle part": Layout(np.array([2, 2, -1, 0, 0, 2, -1]), (2, 3, 1)),
    "one part": Layout(np.zeros(N_COLUMNS, int), (3,)),
}


def part_of(layout):
    return np.repeat(np.arange(len(layout.n_states)), layout.n_states)


def counted(layout):
    """Which states a column's weights reach, (S, D)."""
    return (layout.parts < 0) | (layout.parts == part_of(layout)[:, None])


@pytest.fixture(params=VIEWS)
def view(request):
    likelihood, kind, zero, few = VIEWS[request.param]
    return make_view(likelihood, kind, zero, few=few)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def test_entries_are_stored_in_the_ways_meant():
    """The cases reach both the table of codes and the powers."""
    form = {}
    for name in ("gaussian-csr_array", "gaussian-csr_array-few"):
        likelihood, kind, zero, few = VIEWS[name]
        form[name] = make_view(likelihood, kind, zero, few=few).source._forms[0]
    assert form["gaussian-csr_array"].statistics is None
    assert form["gaussian-csr_array-few"].statistics is not None


@pytest.mark.parametrize("name", LAYOUTS)
def test_score_is_the_naive_sum(view, name, rng):
    layout = LAYOUTS[name]
    W = rng.normal(size=(len(view.T), layout.first[-1], N_COLUMNS))
    score = view.block.score([layout.pack(W)], [layout])
    assert_allclose(score, np.einsum("psd,pnd->sn", W * counted(layout), view.T), atol=1e-11)


@pytest.mark.parametrize("name", LAYOUTS)
def test_collect_is_the_naive_sum(view, name, rng):
    layout = LAYOUTS[name]
    m = rng.random((layout.first[-1], N_ROWS))
    (found,) = view.block.collect(m, [layout])
    expected = layout.pack(np.einsum("sn,pnd->psd", m, view.T))
    assert_allclose(found.own, expected.own, atol=1e-11)
    assert_allclose(found.shared, expected.shared, atol=1e-11)


def test_collect_is_the_adjoint_of_score(view, rng):
    """<score(W), M> = <W, collect(M)>, for one block asked with one layout after the other."""
    for layout in [*LAYOUTS.values(), LAYOUTS["undecided"]]:
        W = rng.normal(size=(len(view.T), layout.first[-1], N_COLUMNS))
        M = rng.normal(size=(layout.first[-1], N_ROWS))
        packed = layout.pack(W)
        (sums,) = view.block.collect(M, [layout])
        across = np.sum(view.block.score([packed], [layout]) * M)
        back = np.sum(packed.own * sums.own) + np.sum(packed.shared * sums.shared)
        assert_allclose(across, back, rtol=1e-10)
        naive = np.einsum("psd,sn,pnd->", W * counted(layout), M, view.T, optimize=True)
        assert_allclose(across, naive, rtol=1e-10)


@pytest.mark.parametrize("name", [name for name in VIEWS if name.startswith("gaussian")])
def test_single_precision_is_close(name, rng):
    likelihood, kind, zero, few = VIEWS[name]
    view = make_view(likelihood, kind, zero, few=few, dtype=np.float32)
    for layout in LAYOUTS.values():
        W = rng.normal(size=(3, layout.first[-1], N_COLUMNS)).astype(np.float32)
        m = rng.random((layout.first[-1], N_ROWS)).astype(np.float32)
        score = view.block.score([layout.pack(W)], [layout])
        (sums,) = view.block.collect(m, [layout])
        assert score.dtype == np.float32
        # Sums add over blocks and become parameters: single precision is for the data alone.
        assert sums.own.dtype == sums.shared.dtype == np.float64
        naive = np.einsum("psd,pnd->sn", W * counted(layout), view.T)
        # Terms of either sign: the error is relative to their size, not to that of the sum.
        size = np.einsum("psd,pnd->sn", np.abs(W), np.abs(view.T))
        assert np.max(np.abs(score - naive) / size) < 1e-5
        expected = layout.pack(np.einsum("sn,pnd->psd", m.astype(float), view.T))
        top = np.abs(view.T).sum(axis=1).max()
        assert_allclose(sums.own, expected.own, atol=1e-5 * top)
        assert_allclose(sums.shared, expected.shared, atol=1e-5 * top)


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli", "poisson", "categorical"])
@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("kind", ["csr_matrix", "csr_array"])
@pytest.mark.parametrize("D", [1, N_COLUMNS])
def test_complete_rows_stored_as_sparse(likelihood, few, kind, D, rng):
    """Every entry stored: the maps and the base measure of dense rows, however many columns."""
    make = few_values if few else random_entries
    X = make(likelihood, (N_ROWS, D), np.random.default_rng(3))
    weight = np.ones(N_ROWS)
    rows, columns = np.nonzero(np.ones_like(X))
    full = STORAGES[kind]((X.ravel(), (rows, columns)), shape=X.shape)
    assert full.nnz == X.size
    layout = Layout(np.array([0, -1, 1, 1, -1, 0, 1])[:D], (2, 3))
    group = learn_columns(X, likelihood, weight, False, Prior())
    P = group[0].likelihood.n_statistics
    W = rng.normal(size=(P, 5, D))
    m = rng.random((5, N_ROWS))
    dense, other = (BlockSource(data, group, weight).block(0) for data in (X, full))
    packed = layout.pack(W)
    assert_allclose(other.score([packed], [layout]), dense.score([packed], [layout]), atol=1e-11)
    (a,), (b,) = dense.collect(m, [layout]), other.collect(m, [layout])
    assert_allclose(b.own, a.own, atol=1e-11)
    assert_allclose(b.shared, a.shared, atol=1e-11)
    assert_allclose(other.base, dense.base, rtol=1e-13)


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli", "poisson", "categorical"])
def test_mask_of_ones_is_no_mask(likelihood, rng):
    """A row without entries makes the block a masked one and must not touch the others."""
    X = random_entries(likelihood, (N_ROWS, N_COLUMNS), np.random.default_rng(5))
    longer = np.vstack([X, np.full(N_COLUMNS, np.nan)])
    group = learn_columns(X, likelihood, np.ones(N_ROWS), False, Prior())
    plain = BlockSource(X, group, np.ones(N_ROWS)).block(0)
    masked = BlockSource(longer, group, np.ones(N_ROWS + 1)).block(0)
    assert_allclose(masked.base, np.append(plain.base, 0.0))
    for layout in LAYOUTS.values():
        packed = layout.pack(
            rng.normal(size=(group[0].likelihood.n_statistics, layout.first[-1], N_COLUMNS))
        )
        m = rng.random((layout.first[-1], N_ROWS + 1))
        score = masked.score([packed], [layout])
        assert_allclose(score[:, :-1], plain.score([packed], [layout]), atol=1e-11)
        assert_allclose(score[:, -1], 0.0, atol=1e-12)
        (a,), (b,) = masked.collect(m, [layout]), plain.collect(m[:, :-1].copy(), [layout])
        assert_allclose(a.own, b.own, atol=1e-11)
        assert_allclose(a.shared, b.shared, atol=1e-11)


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli", "poisson", "categorical"])
@pytest.mark.parametrize("absent_zero", [False, True])
def test_a_stored_nan_is_missing(likelihood, absent_zero, rng):
    """A NaN takes part in nothing; where an absent entry is a zero it is refused."""
    X = few_values(likelihood, (N_ROWS, N_COLUMNS), np.random.default_rng(9))
    X[2, 3] = X[5, 0] = np.nan
    data = sparse.csr_array(np.where(np.isnan(X), 1.0, X))
    data[2, 3] = data[5, 0] = np.nan
    if not absent_zero:
        rows, columns = np.nonzero(np.ones_like(X))
        data = sparse.csr_array((X.ravel(), (rows, columns)), shape=X.shape)
    weight = rng.uniform(0.5, 2, N_ROWS)
    (dense,) = learn_columns(X, likelihood, weight, False, Prior())
    (group,) = learn_columns(data, likelihood, weight, absent_zero, Prior())
    if absent_zero:
        with pytest.raises(ValueError, match="a missing entry has no place"):
            BlockSource(data, (group,), weight)
        return
    assert_allclose(group.weight, dense.weight)
    assert_allclose(group.scale, dense.scale)
    block = BlockSource(data, (group,), weight).block(0)
    m = rng.random((5, N_ROWS))
    layout = Layout(np.array([0, -1, 1, 1, -1, 0, 1]), (2, 3))
    (sums,) = block.collect(m, [layout])
    expected = layout.pack(np.einsum("sn,pnd->psd", m, truth(X, group)))
    assert_allclose(sums.own, expected.own, atol=1e-11)
    assert_allclose(sums.shared, expected.shared, atol=1e-11)


# --- selections of single entries ---

SELECTING = [name for name in VIEWS if "zero" not in name]


def scatter(view, values):
    """Per-entry values of a view as (..., n, D), zero where there is no entry."""
    n, D = view.T.shape[1:]
    values = np.asarray(values)
    group = view.block.groups[0]
    if hasattr(group, "indices"):
        rows = np.repeat(np.arange(n), np.diff(group.indptr))
        out = np.zeros((*values.shape[:-1], n, D))
        out[..., rows, group.indices] = values
        return out
    return np.moveaxis(np.broadcast_to(values, (*values.shape[:-2], D, n)), -1, -2)


def gather(view, full):
    """The reverse: (..., n, D) in the view's own order of entries."""
    group = view.block.groups[0]
    if hasattr(group, "indices"):
        rows = np.repeat(np.arange(full.shape[-2]), np.diff(group.indptr))
        return np.ascontiguousarray(full[..., rows, group.indices])
    return np.ascontiguousarray(np.moveaxis(full, -1, -2))


@pytest.mark.parametrize("name", SELECTING)
def test_selected_maps_are_naive_sums(name, rng):
    likelihood, kind, zero, few = VIEWS[name]
    view = make_view(likelihood, kind, zero, few=few)
    group, T = view.block.groups[0], view.T
    P = len(T)
    observed = T.sum(axis=0) if likelihood == "categorical" else T[0]
    # A sweep with decided columns comes first: it may rearrange what the block holds.
    before = LAYOUTS["mixed"]
    view.block.score([before.pack(np.zeros((P, 5, N_COLUMNS)))], [before])

    first = np.array([0, 3, 4, 6])
    part = np.repeat(np.arange(3), np.diff(first))
    eta = rng.normal(size=(P, 6, N_COLUMNS))
    m = rng.random((6, N_ROWS))
    G = rng.random((3, N_ROWS, N_COLUMNS)) * observed
    own = gather(view, G)
    weight = rng.uniform(0.5, 2, N_ROWS)
    one_hot = (part == np.arange(3)[:, None]).astype(float)  # (K, S)

    found = scatter(view, group.expected(m, eta, first))
    naive = np.einsum("ks,sn,psd,pnd->knd", one_hot, m, eta, T)
    assert_allclose(found * observed, naive, atol=1e-11)

    naive = np.einsum("snd,psd,pnd->sn", G[part], eta, T)
    assert_allclose(group.score_selected(eta, own, first), naive, atol=1e-11)

    sums = group.collect_selected(m, own, first)
    naive = np.einsum("snd,sn,pnd->psd", G[part], m, T)
    assert_allclose(sums.shared, naive, atol=1e-11)
    assert sums.own.size == 0

    naive = np.einsum("knd,n->kd", G, weight)
    assert_allclose(group.sum_selected(own, weight), naive, atol=1e-11)

    values = rng.normal(size=(N_ROWS, N_COLUMNS))
    naive = (values * observed).sum(axis=1)
    assert_allclose(group.row_sums(gather(view, values)), naive, atol=1e-12)

    log_a = rng.normal(size=(3, N_COLUMNS))
    assert_allclose(scatter(view, group.spread(log_a)) * observed, log_a[:, None] * observed)
    spread_mask = scatter(view, np.ones(own.shape[1:]) * group.observed())
    assert_array_equal(spread_mask, observed)


@pytest.mark.parametrize("absent", [False, True])
def test_entries_of_some_columns(view, absent):
    group, D = view.block.groups[0], N_COLUMNS
    wanted = np.array([0, 3, 4])
    # A sweep with decided columns may rearrange what the block holds.
    before = LAYOUTS["mixed"]
    view.block.score([before.pack(np.zeros((len(view.T), 5, D)))], [before])
    found = group.entries(wanted, absent=absent)
    column = view.source.columns[0]
    if column.levels is None:
        seen, z = view.T[0] > 0, view.T[1]
    else:
        seen, z = view.T.sum(axis=0) > 0, view.T.argmax(axis=0)
    if group.zero_value is not None and not absent:
        zero = group.zero_value
        seen = seen & (z != zero)
    rows, places = np.nonzero(seen[:, wanted])
    assert_array_equal(found.rows, rows)
    assert_array_equal(found.columns, wanted[places])
    assert_allclose(found.values, z[rows, wanted[places]], atol=1e-12)


# --- what is learned of the columns ---


def weighted_moments(x, w):
    seen = ~np.isnan(x)
    if not seen.any():
        return 0.0, 0.0, 0.0
    mean = np.average(x[seen], weights=w[seen])
    return w[seen].sum(), mean, np.average((x[seen] - mean) ** 2, weights=w[seen])


@pytest.mark.parametrize("size", [1.0, 1e30, 1e-30])
@pytest.mark.parametrize("sparse_rows", [False, True])
def test_learned_units(size, sparse_rows, rng):
    """Weight, mean and standard deviation of a column, whatever its size and offset."""
    X = punch_holes(rng.normal(size=(40, 4)) * [1, 5, 0.1, 2] + [0, 3, -50, 1e4], 0.3, rng) * size
    w = rng.uniform(0.2, 3, 40)
    data = X
    if sparse_rows:
        rows, columns = np.nonzero(~np.isnan(X))
        data = sparse.csr_array((X[rows, columns], (rows, columns)), shape=X.shape)
    (group,) = learn_columns(data, "gaussian", w, False, Prior())
    for d in range(4):
        weight, mean, variance = weighted_moments(X[:, d] / size, w)
        assert_allclose(group.weight[d], weight, rtol=1e-12)
        assert_allclose(group.shift[d] / size, mean, rtol=1e-12, atol=1e-12)
        assert_allclose(group.scale[d] / size, np.sqrt(variance), rtol=1e-9)
    assert group.varies.all()
    Z = group.encode(X, np.arange(4))
    assert np.nanmax(np.abs(Z)) < 10
    assert_allclose(group.decode(Z), X, rtol=1e-12)


@pytest.mark.parametrize("size", [1e30, 1e-30])
def test_extreme_units_in_single_precision(size, rng):
    X = (rng.normal(size=(50, 3)) * size).astype(np.float32)
    (group,) = learn_columns(X, "gaussian", np.ones(50), False, Prior())
    assert_allclose(group.scale / size, (X / np.float32(size)).std(axis=0), rtol=1e-5)
    block = BlockSource(X, (group,), np.ones(50)).block(0)
    layout = Layout(np.full(3, -1), (1,))
    (sums,) = block.collect(np.ones((1, 50), np.float32), [layout])
    assert_allclose(sums.shared[:, 0], [[50] * 3, [0] * 3, [50] * 3], atol=1e-4)


@pytest.mark.parametrize("absent_zero", [False, True])
def test_sparse_columns_learn_what_dense_ones_do(absent_zero, rng):
    X = rng.poisson(1.0, (60, 5)).astype(float)
    X[:, 4] = 0.0
    w = rng.uniform(0.2, 3, 60)
    dense = X if absent_zero else np.where(X == 0, np.nan, X)
    for likelihood in ("gaussian", "poisson", "categorical", "bernoulli"):
        values = np.minimum(dense, 1.0) if likelihood == "bernoulli" else dense
        data = sparse.csr_matrix(np.nan_to_num(values))
        (a,) = learn_columns(values, likelihood, w, False, Prior())
        (b,) = learn_columns(data, likelihood, w, absent_zero, Prior())
        assert_allclose(b.weight, a.weight, rtol=1e-12)
        assert_allclose(b.scale, a.scale, rtol=1e-12)
        assert_array_equal(b.varies, a.varies)
        if likelihood == "gaussian":
            # Zeros must stay zeros where they are not stored, so the mean is not taken out.
            assert_allclose(b.shift + b.scale * b.moments[1], a.shift, rtol=1e-12, atol=1e-12)
            assert not (absent_zero and b.shift.any())
        else:
            assert_allclose(b.moments, a.moments, rtol=1e-12)
        if likelihood == "categorical":
            assert_array_equal(b.levels, a.levels)


def test_constant_and_empty_columns():
    X = np.array([[0.1, 3.0, np.nan, 1e8], [0.1, np.nan, np.nan, 1e8 + 1], [0.1, 5, np.nan, 1e8]])
    (group,) = learn_columns(X, "gaussian", np.ones(3), False, Prior())
    assert_array_equal(group.varies, [False, True, False, True])
    assert_array_equal(group.weight, [3, 2, 0, 3])
    assert np.all(group.scale > 0)
    assert np.all(np.isfinite(group.shift))
    (group,) = learn_columns(np.where(np.isnan(X), np.nan, X > 4), "bernoulli", np.ones(3), False,
                             Prior())  # fmt: skip
    assert_array_equal(group.varies, [False, True, False, False])


def test_units_of_numbers_near_the_largest():
    """The difference of two numbers, or a reconstruction, may be beyond the largest."""
    X = np.array([[1.5e308], [-1.5e308], [1.5e308], [-1.7e308]])
    (group,) = learn_columns(X, "gaussian", np.ones(4), False, Prior())
    Z = group.encode(X, np.arange(1))
    assert_allclose(Z, [[1.0], [-0.94], [1.0], [-1.06]], atol=0.05)
    assert_allclose(group.decode(Z), X, rtol=1e-12)
    assert_array_equal(
        group.decode(np.array([[3.0], [-3.0]])), np.finfo(float).max * np.array([[1], [-1]])
    )
    single = replace(group, scale=np.float32([3.0]), shift=np.float32([1.0]))
    assert single.decode(np.float32([[2.0]])) == 7.0  # without a cast of the largest numbers
    for encode in (few.encode_numbers, kernels.encode_numbers):
        out = np.empty((1, 4))
        assert encode(X, group.shift, group.scale, 1e100, out) == 0
        assert_allclose(out.T, Z, rtol=1e-12)


def test_missing_values_of_r():
    """Its NA is a NaN that signals: numpy warns of it, and np.fmax forgets what was before."""
    X = np.random.default_rng(0).normal(size=(8, 3))
    X[2, 0] = X[5, 1] = np.nan
    other = X.copy()
    other.view(np.uint64)[np.isnan(X)] = 0x7FF00000000007A2
    for rows, plain in ((other, X), (sparse.csr_array(other), sparse.csr_array(X))):
        (group,) = learn_columns(rows, "gaussian", np.ones(8), False, Prior())
        (expected,) = learn_columns(plain, "gaussian", np.ones(8), False, Prior())
        assert_array_equal(group.shift, expected.shift)
        assert_array_equal(group.scale, expected.scale)
    assert_array_equal(group.encode(other, np.arange(3)), group.encode(X, np.arange(3)))
    assert_array_equal(
        MCVQ(2, 2, random_state=0).fit(other).gates_, MCVQ(2, 2, random_state=0).fit(X).gates_
    )
    single = X.astype(np.float32)
    single.view(np.uint32)[np.isnan(X)] = 0x7F8007A2
    model = MCVQ(2, 2, random_state=0).fit(single)
    assert drift(model, single).missing_now.sum() == 0.25


def test_levels_and_their_smoothed_shares():
    X = np.array([[2.0, 7.0], [np.nan, 7.0], [2.0, -1.0], [7.0, np.nan]])
    w = np.array([1.0, 2.0, 3.0, 0.5])
    (group,) = learn_columns(X, "categorical", w, False, Prior())
    assert_array_equal(group.levels, [-1, 2, 7])
    counts = np.array([[0, 3], [4, 0], [0.5, 3]])
    assert_allclose(group.moments, (counts + 1 / 3) / (counts.sum(axis=0) + 1))
    assert_array_equal(group.encode(X, np.arange(2)), [[1, 2], [np.nan, 2], [1, 0], [2, np.nan]])
    with pytest.raises(ValueError, match="category 3"):
        group.encode(np.array([[3.0, 2.0]]), np.arange(2))


@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson"])
def test_smoothed_means(likelihood, rng):
    X = punch_holes(random_entries(likelihood, (30, 3), rng), 0.3, rng)
    w = rng.uniform(0.5, 2, 30)
    (group,) = learn_columns(X, likelihood, w, False, Prior())
    for d in range(3):
        weight, mean, _ = weighted_moments(X[:, d], w)
        assert_allclose(group.moments[:, d], [1, (weight * mean + 0.5) / (weight + 1)])


def test_base_measure_belongs_to_observed_entries(rng):
    counts = punch_holes(random_entries("poisson", (20, 4), rng), 0.3, rng)
    (group,) = learn_columns(counts, "poisson", np.ones(20), False, Prior())
    block = BlockSource(counts, (group,), np.ones(20)).block(0)
    assert_allclose(block.base, -np.nansum(special.gammaln(counts + 1), axis=1))
    X = punch_holes(rng.normal(size=(20, 4)) * [1, 10, 100, 0.1], 0.3, rng)
    (group,) = learn_columns(X, "gaussian", np.ones(20), False, Prior())
    block = BlockSource(X, (group,), np.ones(20)).block(0)
    sd = np.array([np.nanstd(X[:, d]) for d in range(4)])
    assert_allclose(block.base, -(~np.isnan(X) @ np.log(sd)))


def test_few_values_are_coded_up_to_the_limit():
    """On both sides of the limit the maps are the same."""
    for V in (MOST_VALUES, MOST_VALUES + 1):
        X = (np.arange(3 * V).reshape(V, 3) % V).astype(float) + 1
        data = sparse.csr_array(X)
        columns = learn_columns(data, "poisson", np.ones(V), False, Prior())
        source = BlockSource(data, columns, np.ones(V))
        assert (source._forms[0].statistics is not None) == (V == MOST_VALUES)
        layout = Layout(np.array([0, -1, 0]), (1,))
        (sums,) = source.block(0).collect(np.ones((1, V)), [layout])
        assert_allclose(sums.shared[:, 0, 0], [V, X[:, 1].sum()])
        assert_allclose(sums.own[:, 0], [[V, V], X[:, [0, 2]].sum(axis=0)])


# --- column groups ---


@pytest.mark.parametrize("kind", ["dense", "masked", "csr_array"])
@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli", "poisson", "categorical"])
def test_columns_in_several_groups_are_scored_as_in_one(likelihood, kind, rng):
    X = few_values(likelihood, (N_ROWS, N_COLUMNS), np.random.default_rng(4))
    if kind == "masked":
        X[rng.random(X.shape) < 0.3] = np.nan
    data = sparse.csr_array(X) if kind == "csr_array" else X
    weight = rng.uniform(0.5, 2.0, N_ROWS)
    (whole,) = learn_columns(data, likelihood, weight, False, Prior())
    pieces = (whole.take(np.array([0, 2, 5])), whole.take(np.array([1, 3, 4, 6])))
    one = BlockSource(data, (whole,), weight).block(0)
    two = BlockSource(data, pieces, weight).block(0)
    assert_allclose(two.base, one.base, rtol=1e-12)
    layout = Layout(np.array([0, -1, 1, 1, -1, 0, 1]), (2, 3))
    layouts = [Layout(layout.parts[piece.index], (2, 3)) for piece in pieces]
    P = whole.likelihood.n_statistics
    W = rng.normal(size=(P, 5, N_COLUMNS))
    packed = [part.pack(W[:, :, piece.index]) for part, piece in zip(layouts, pieces, strict=True)]
    assert_allclose(two.score(packed, layouts), one.score([layout.pack(W)], [layout]), atol=1e-10)
    m = rng.random((5, N_ROWS))
    nothing = np.zeros((P, 5, N_COLUMNS))
    (sums,) = one.collect(m, [layout])
    expected = layout.unpack(sums, nothing)
    for part, piece, found in zip(layouts, pieces, two.collect(m, layouts), strict=True):
        full = part.unpack(found, np.zeros((P, 5, len(piece.index))))
        assert_allclose(full, expected[:, :, piece.index], atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_numbers_are_encoded_as_the_kernel_encodes_many(dtype):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(21, 5)).astype(dtype)
    rows[rng.random(rows.shape) < 0.2] = np.nan
    most = np.finfo(dtype).max
    rows[3, 0], rows[4, 0], rows[5, 1] = most, -most, 1e20
    shift, scale = rng.normal(size=5), np.array([1e-9, 0.3, 1.0, 7.0, 1e5])
    slow, fast = np.empty((5, 21), dtype), np.empty((5, 21), dtype)
    counts = [
        encode(rows, shift, scale, 1e15, out)
        for encode, out in ((few.encode_numbers, slow), (kernels.encode_numbers, fast))
    ]
    assert counts[0] == counts[1] == np.isnan(rows).sum()
    assert_array_equal(slow, fast)


def test_few_codes_are_scored_as_the_kernel_scores_many():
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=(11, 6))
    codes[rng.random(codes.shape) < 0.3] = -1  # not stored
    row, column = np.nonzero(codes >= 0)
    key = column * 3 + codes[row, column]
    order = np.argsort(key, kind="stable")
    pointers = np.concatenate([[0], np.cumsum(np.bincount(key, minlength=18))])
    for columns in (np.arange(6), np.array([4, 1]), np.array([], int)):
        table = rng.normal(size=(3, len(columns), 4))
        slow, fast = np.ones((11, 4)), np.ones((11, 4))
        few.score_codes(columns, pointers, row[order], table, slow)
        kernels.score_codes(columns, pointers, row[order], table, fast)
        assert_array_equal(slow, fast)
