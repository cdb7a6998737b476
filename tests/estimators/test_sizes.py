"""Numbers of parts and states by the evidence."""

import functools
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

import partwise
from partwise import MCVQ, Prior, RowSource, SizeOptions, make_shapes
from partwise.data import BlockSource, learn_columns, source
from partwise.fitting.checkpoint import FitLog
from partwise.fitting.options import SearchLimits
from partwise.fitting.state_moves import NEAR, StateMoves, move_key
from partwise.fitting.state_search import End, Search, _are_uncertain
from partwise.fitting.state_trials import Trials
from partwise.fitting.states import SEARCH_RESOLUTION
from partwise.likelihoods import Dirichlet
from partwise.models.class_variable import ClassVariable
from partwise.models.sizes import Judge, Part, add_overlaps, added
from partwise.runners import Serial
from tests.common.tables import REAL_TABLES, real_table
from tests.reference import sizes as reference

SIZES = (2, 3, 4)


def draw(likelihood="gaussian", n=300, per_part=8, n_idle=4, seed=0):
    """Rows of three parts with 2, 3 and 4 states, columns that depend on nothing, and the truth."""
    rng = np.random.default_rng(seed)
    parts = np.append(np.repeat(np.arange(3), per_part), np.full(n_idle, -1))
    states = np.stack([rng.integers(J, size=n) for J in SIZES], axis=1)
    value = np.zeros((n, len(parts)), int)
    for d, k in enumerate(parts):
        value[:, d] = 0 if k < 0 else rng.permutation(SIZES[k])[states[:, k]]
    if likelihood == "gaussian":
        X = 2.0 * value + rng.normal(0, 0.5, value.shape)
    elif likelihood == "bernoulli":
        X = (rng.random(value.shape) < np.where(value == 0, 0.97, 0.03)).astype(float)
    elif likelihood == "poisson":
        X = rng.poisson(np.array([0.5, 5.0, 20.0, 60.0])[value]).astype(float)
    else:
        noise = rng.random(value.shape) < 0.1
        X = np.where(noise, rng.integers(4, size=value.shape), value).astype(float)
    return X, parts, states


def auto(X, *, y=None, sample_weight=None, n_parts="auto", n_states="auto", **arguments):
    model = MCVQ(n_parts, n_states, **{"random_state": 0, **arguments})
    return model.fit(X, y, sample_weight=sample_weight)


def trials(X, prior, n_states=None):
    """Trials of a search about to begin."""
    columns = learn_columns(X, "gaussian", np.ones(len(X)), False, prior)
    family = MCVQ(prior=prior)._family()
    core = family.core(columns, X.shape[1], X.dtype, (1, 1), ClassVariable(), None)
    return Trials(
        core, BlockSource(X, columns, np.ones(len(X))), Serial(), np.random.default_rng(0),
        SearchLimits(None, n_states, None, 1e-3),
    )  # fmt: skip


@pytest.mark.ci
@pytest.mark.parametrize("missing", [pytest.param(0.0, marks=pytest.mark.slow), 0.2])
def test_shapes_have_three_parts_of_nine_states(missing):
    X = make_shapes().data
    X = np.where(np.random.default_rng(0).random(X.shape) < missing, np.nan, X)
    model = auto(X)
    assert model.n_parts_ == 3
    assert model.n_states_.tolist() == [9, 9, 9]


@functools.cache
def drawn_and_found(likelihood):
    """What `draw` gives, and a model of it."""
    X, parts, states = draw(likelihood, n=200)
    return X, parts, states, auto(X, likelihood=likelihood)


@pytest.mark.parametrize(
    "likelihood",
    [
        "gaussian",
        pytest.param("categorical", marks=pytest.mark.ci),
        pytest.param("bernoulli", marks=pytest.mark.slow),
        pytest.param("poisson", marks=pytest.mark.slow),
    ],
)
@pytest.mark.ci
def test_sizes_of_every_likelihood(likelihood):
    X, parts, states, model = drawn_and_found(likelihood)
    assert model.n_parts_ == 3
    assert adjusted_rand_score(parts[parts >= 0], model.parts_[parts >= 0]) == 1.0
    # The prior of a number of counts is the column's own share, and a chance likeness may outdo it.
    assert np.mean(model.parts_[parts < 0] == -1) >= (1.0 if likelihood == "gaussian" else 0.5)
    for k, J in enumerate(SIZES):
        mine = model.parts_[np.flatnonzero(parts == k)[0]]
        assert model.n_states_[mine] == J
        assert adjusted_rand_score(states[:, k], model.predict_states(X)[:, mine]) > 0.9


def test_evidence_is_the_chain_rule_s():
    X, parts, states = draw(n=40, per_part=3, n_idle=2)
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    prior = Prior(states=0.7)
    made = trials(X, prior)
    order = made.found.rows  # rows as the search samples them
    columns = [np.flatnonzero(parts == k) for k in range(3)]
    begun = made.begun(columns, [states[order, k] for k in range(3)])
    slow = reference.evidence(X, parts, states, SIZES, prior)
    assert made.evidence(begun) == pytest.approx(slow, rel=1e-10)
    assert made.evidence([]) == pytest.approx(
        reference.evidence(X, np.full(len(parts), -1), states[:, :0], (), prior)
        - X.shape[1] * np.log(2),  # one part at least, though it has no column
        rel=1e-10,
    )


def test_columns_outside_the_model_have_no_evidence(monkeypatch):
    X, _, _ = draw(n=40, per_part=3, n_idle=0)
    made = trials(X, Prior())
    made.core = replace(made.core, chooser=replace(made.core.chooser, weight=np.ones(10)))
    assert made.core.n_columns == 10  # the last is in no group
    monkeypatch.setattr(np, "empty", lambda shape, *_: np.full(shape, np.nan))
    found = made.by_column(made.every.sums, np.array([0]))
    np.testing.assert_array_equal(found, [[*made.alone, 0.0]])


def test_evidence_of_added_states_is_that_of_their_rows():
    X, parts, states = draw(n=60, per_part=3, n_idle=0)
    made = trials(X, Prior())
    kind = states[made.found.rows, 2]
    columns = np.flatnonzero(parts == 2)
    (four,) = made.begun([columns], [kind])
    (three,) = made.begun([columns], [np.where(kind == 3, 1, kind)])
    judge = Judge.of(made.core, columns)
    assert judge.worth(added(four, [[0], [1, 3], [2]])) == pytest.approx(judge.worth(three))
    (twice,) = made.begun([columns], [kind + 4 * (np.arange(len(kind)) % 2)])
    groups = sorted(sorted(group) for group in judge.groups(twice))
    assert groups == [[0, 4], [1, 5], [2, 6], [3, 7]]


def test_overlap_is_the_entropy_that_adding_states_loses():
    rng = np.random.default_rng(0)
    m, w = rng.dirichlet(np.ones(4), size=30).T, rng.random(30)
    overlap = np.zeros((4, 4))
    add_overlaps(m, w, overlap)

    def entropy(m):
        return -float(np.sum(w * m * np.log(m)))

    assert np.trace(overlap) == pytest.approx(entropy(m))
    part = Part(np.arange(0), (), m @ w, overlap)
    merged = np.stack([m[0] + m[2], m[1], m[3]])
    assert np.trace(added(part, [[0, 2], [1], [3]]).overlap) == pytest.approx(entropy(merged))
    assert Judge((), Dirichlet(1.0)).states.evidence(m @ w) < 0


def test_evidence_never_falls_and_the_bound_goes_on_from_it():
    X, _, _, model = drawn_and_found("gaussian")
    accepted = [move for move in model.size_path_ if move["accepted"]]
    evidence = np.array([move["evidence"] for move in accepted])
    assert accepted[0]["kind"] == "start"
    assert np.all(np.diff(evidence) >= -1e-9 * np.abs(evidence[-1]))
    assert model.lower_bounds_[-1] * len(X) >= evidence[-1]
    assert accepted[-1]["n_parts"] == model.n_parts_
    assert sorted(accepted[-1]["n_states"]) == sorted(model.n_states_)
    refused = [move for move in model.size_path_ if not move["accepted"]]
    assert refused
    assert max(move["gain"] for move in refused) <= 0


@pytest.mark.slow
def test_blocks_and_threads_do_not_matter(monkeypatch):
    X, _, _ = draw(n=400)
    whole = auto(X, n_jobs=1)
    monkeypatch.setattr(source, "BLOCK_BYTES", 100 * X.shape[1] * 8)
    for n_jobs in (1, 2):
        pieces = auto(X, n_jobs=n_jobs)
        assert pieces.parts_.tolist() == whole.parts_.tolist()
        assert pieces.n_states_.tolist() == whole.n_states_.tolist()
        assert [m["kind"] for m in pieces.size_path_] == [m["kind"] for m in whole.size_path_]
        assert pieces.lower_bound_ == pytest.approx(whole.lower_bound_, rel=1e-9)


@pytest.mark.slow
def test_weight_is_repetition_and_sparse_is_dense():
    X, _, _ = draw("poisson", n=150)
    times = np.random.default_rng(0).integers(1, 3, size=len(X))
    weighted = auto(X, likelihood="poisson", sample_weight=times)
    repeated = auto(np.repeat(X, times, axis=0), likelihood="poisson")
    stored = auto(sparse.csr_matrix(X), likelihood="poisson", sample_weight=times)
    for other in (repeated, stored):
        assert other.parts_.tolist() == weighted.parts_.tolist()
        assert other.n_states_.tolist() == weighted.n_states_.tolist()
        assert other.lower_bound_ == pytest.approx(weighted.lower_bound_, rel=1e-6)


@pytest.mark.ci
def test_one_size_alone():
    X, parts, _ = draw(n=150)
    model = auto(X, n_parts=3)
    assert adjusted_rand_score(parts, model.parts_) == 1.0
    assert model.n_states_.tolist() == list(SIZES)
    assert {move["n_parts"] for move in model.size_path_} == {3}
    model = auto(X, n_states=5)
    assert adjusted_rand_score(parts, model.parts_) == 1.0
    assert model.n_states_.tolist() == [5, 5, 5]
    fixed = MCVQ(3, (2, 3, 4), random_state=0).fit(X)
    assert fixed.n_parts_ == 3
    assert fixed.n_states_.tolist() == [2, 3, 4]
    assert not hasattr(fixed, "size_path_")


def every_verb(model, X):
    assert model.transform(X).shape == (len(X), model.n_states_.sum())
    assert model.inverse_transform(model.transform(X)).shape == X.shape
    assert model.predict_states(X).shape == (len(X), model.n_parts_)
    for verb in (model.reconstruct, model.impute):
        assert np.isfinite(verb(X)).all()
    assert np.isfinite(model.predict_interval(X)).all()
    assert model.anomaly_scores(X).shape == (len(X), model.n_parts_)
    assert np.isfinite(model.score_samples(X)).all()
    assert np.isfinite(model.bic(X))
    assert model.sample(3)[1].shape == (3, model.n_parts_)
    assert len(model.explain(X[0])) == model.n_parts_
    assert model.means_.shape[:2] == (model.n_parts_, model.n_states_.max())


@pytest.mark.parametrize("shape", [(300, 8), (60, 1), (2, 6)])
def test_data_without_structure_are_background(shape):
    X = np.random.default_rng(0).normal(size=shape)
    X[1:, :] = X[1:, :] if len(X) > 2 else X[0]  # two rows, the same
    with pytest.warns(UserWarning, match="no column depends on another"):
        model = auto(X)
    assert np.all(model.parts_ == -1)
    assert model.n_parts_ == 1
    assert model.n_states_.tolist() == [1]
    every_verb(model, X)


def test_fewer_rows_than_states():
    X, _, _ = draw(n=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # so few rows may say nothing
        model = auto(X)
    assert model.n_states_.max() <= 5
    every_verb(model, X)
    with pytest.raises(ValueError, match="n_states=9 is more than n_samples=5"):
        auto(X, n_states=9)


def test_time_runs_out():
    X = make_shapes().data
    with pytest.warns(ConvergenceWarning, match="reached max_time=0.001"):
        model = auto(X, max_time=0.001)
    every_verb(model, X[:5])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gating": "standard"}, "selected by the ELBO"),
        ({"prior": None}, "selected by the ELBO"),
        ({"inference": "gibbs"}, "selected by the ELBO"),
        ({"init": "random"}, 'choose init="dependence"'),
        ({"n_states": (2, 3)}, "one number per part"),
    ],
)
def test_what_no_evidence_can_tell_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        auto(draw(n=30)[0], **arguments)


@pytest.mark.slow
def test_saved_and_resumed(tmp_path):
    X, _, states = draw(n=150)
    model = auto(X, n_init=2, warm_start=True)
    model.save(tmp_path / "model.safetensors")
    loaded = partwise.load(tmp_path / "model.safetensors")
    assert loaded.size_path_ == model.size_path_
    assert loaded.n_parts_ == model.n_parts_
    np.testing.assert_array_equal(loaded.n_states_, model.n_states_)
    np.testing.assert_allclose(loaded.score_samples(X), model.score_samples(X))
    path = model.size_path_
    model.fit(X)
    assert model.size_path_ is path
    assert model.n_iter_ <= 2
    labeled = auto(X, y=states[:, 1])
    assert labeled.n_parts_ == 3
    assert np.mean(labeled.predict(X) == states[:, 1]) > 0.95


@pytest.mark.slow
def test_parts_at_a_time_do_not_matter(monkeypatch):
    X, _, _ = draw(n=150)
    whole = auto(X)
    monkeypatch.setattr("partwise.fitting.state_trials.MOST_SUMS", 3 * X.shape[1] * 5)
    pieces = auto(X)
    assert pieces.parts_.tolist() == whole.parts_.tolist()
    assert pieces.lower_bound_ == pytest.approx(whole.lower_bound_, rel=1e-9)


@pytest.mark.slow
def test_sizes_on_a_sample_of_rows_in_memory_or_not(monkeypatch, tmp_path):
    monkeypatch.setattr("partwise.fitting.options.SAMPLE_ROWS", 200)
    X, parts, states = draw(n=600)
    sample = SizeOptions(sample=X.shape[1] * 200)
    model = auto(X, sizes=sample)
    assert adjusted_rand_score(parts, model.parts_) == 1.0
    assert sorted(model.n_states_) == sorted(SIZES)
    assert model.n_samples_seen_ == len(X)
    assert model.lower_bound_ == pytest.approx(auto(X).lower_bound_, rel=1e-4)
    outside = auto(RowSource([X[:250], X[250:]]), sizes=sample)
    np.testing.assert_array_equal(outside.parts_, model.parts_)
    assert outside.lower_bound_ == pytest.approx(model.lower_bound_, rel=1e-6)
    stored = sparse.csr_matrix(X)
    assert auto(stored, sizes=sample).n_parts_ == 3
    labeled = auto(X, y=states[:, 1], sizes=sample)
    assert np.mean(labeled.predict(X) == states[:, 1]) > 0.95
    labeled.save(tmp_path / "model.safetensors")
    assert partwise.load(tmp_path / "model.safetensors").sizes == sample


def test_states_have_a_largest_number():
    X, _, _ = draw(n=60, per_part=3, n_idle=0)
    assert auto(X, sizes=SizeOptions(max_states=2)).n_states_.max() == 2
    for wrong in ({"sample": 0}, {"max_states": 1.5}, {"sample": "all"}):
        with pytest.raises(ValueError, match="must be a whole number"):
            SizeOptions(**wrong)
    assert SizeOptions().sample_rows(100, 1000) == 100
    assert SizeOptions().sample_rows(10**6, 20 * 10**6) == 50_000
    assert SizeOptions().sample_rows(10**6, 10**9) == 2000
    assert SizeOptions(sample=None).sample_rows(10**6, 10**9) == 10**6


def weather(n=150):
    """Ozone, sun, wind, temperature, month and day: few columns, one of which depends on none."""
    rng = np.random.default_rng(0)
    month, day = 5 + np.arange(n) // 30, 1 + np.arange(n) % 30
    temperature = np.array([65.5, 79, 84, 84, 77])[month - 5] + rng.normal(0, 6.5, n)
    wind = np.clip(10 - 0.17 * (temperature - 78) + rng.normal(0, 3.1, n), 1.7, None)
    sun = np.clip(185 + 2.2 * (temperature - 78) + rng.normal(0, 85, n), 7, 334)
    ozone = np.exp(3.4 + 0.05 * (temperature - 78) - 0.06 * (wind - 10) + rng.normal(0, 0.45, n))
    table = pd.DataFrame({"ozone": ozone, "sun": sun, "wind": wind, "temperature": temperature})
    table = table.round(0).assign(month=month.astype(float), day=day.astype(float))
    return table.mask(rng.random(table.shape) < 0.05)


def nats(table, *sizes, seed=0):
    """Total bound with the prior of an automatic size."""
    prior = Prior(resolution=SEARCH_RESOLUTION)
    model = MCVQ(*sizes, likelihood="auto", prior=prior, random_state=seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Parts are uncertain")
        return model.fit(table).lower_bound_ * len(table)


@pytest.mark.slow
def test_no_size_of_a_grid_is_better_whatever_the_seed():
    table = weather()
    found = [nats(table, "auto", "auto", seed=seed) for seed in range(3)]
    assert max(found) - min(found) < 2
    assert min(found) > max(nats(table, K, J) for K in (1, 2) for J in (2, 3)) - 1


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL_TABLES)
def test_no_size_of_a_grid_is_better_on_real_tables(name):
    table = real_table(name)
    found = [nats(table, "auto", "auto", seed=seed) for seed in range(10)]
    grid = [nats(table, K, J) for K in range(1, 7) for J in range(1, 7)]
    assert min(found) > max(grid) - 1
    assert max(found) - min(found) < 2


@pytest.mark.ci
def test_states_are_merged_though_that_loses():
    X, _, states = draw(n=60, per_part=4, n_idle=0)
    on, columns = trials(X, Prior()), np.arange(4, 8)
    kind = states[on.found.rows, 1]
    (part,) = on.begun([columns], [kind])
    judge, moves = Judge.of(on.core, columns), StateMoves(on)
    assert len(judge.groups(part)) == part.n_states == 3  # no merge gains
    merged = moves._fewer(part, kind, 1)
    assert len(np.unique(merged)) == 2
    assert len({*zip(kind.tolist(), merged.tolist(), strict=True)}) == 3
    tried = set()
    (after,) = moves.from_trees([part], tried)
    assert on.worth(after) >= on.worth(part)
    assert move_key("fewer 1", columns, after.n_states) in tried  # of clear states none gains


@pytest.mark.ci
def test_other_divisions_of_the_columns_are_tried_at_the_end():
    X, parts, states = draw(n=120, per_part=4, n_idle=0)
    true = [np.flatnonzero(parts == k) for k in range(3)]

    def of(search, columns, kinds):
        own = search.on.found.rows
        begun = search.on.begun(columns, [states[own, k] for k in kinds])
        return search.on.fitted(begun, 20)

    def improved(columns, kinds, ends=()):
        search = Search(trials(X, Prior()), lambda: False, FitLog(0))
        parts = of(search, columns, kinds)
        ends = [of(search, *end) for end in ends]
        moves = list(search.columns.rearranged(parts, ends))
        reached = [search.on.evidence(after) for after in (parts, *(move[1] for move in moves))]
        assert np.all(np.diff(reached) > 0)
        found = moves[-1][1] if moves else parts
        return [kind for kind, _ in moves], sorted(part.columns.tolist() for part in found)

    wanted = [columns.tolist() for columns in true]
    assert improved(true, (0, 1, 2)) == ([], wanted)
    # Half of two parts each in one: another end, or new groups of their columns, tell.
    mixed = [np.array([0, 1, 4, 5]), np.array([2, 3, 6, 7]), true[2]]
    kinds, found = improved(mixed, (0, 1, 2), [(true[:1], (0,))])
    assert kinds[0] == "exchange"
    assert found == wanted
    kinds, found = improved(mixed, (0, 1, 2))
    assert kinds[0] == "regroup"
    assert found == wanted
    # One part has half of two, all other columns none.
    kinds, found = improved(mixed[:1], (0,))
    assert kinds[0] == "regroup"
    assert found == wanted


def test_other_states_are_tried_in_the_division_that_is_nearest():
    X, parts, _ = draw(n=60, per_part=4, n_idle=0)
    search = Search(trials(X, Prior()), lambda: False, FitLog(0))
    nothing = np.zeros(len(search.on.sample), int)
    groups = [np.flatnonzero(parts == k) for k in (0, 1)]
    proposals = [
        ((k,), lambda own=own: search.on.begun([own], [nothing])) for k, own in enumerate(groups)
    ]
    found = search.columns._first_gain([], iter(proposals), set())
    assert found is not None
    assert found[0].n_states > 1
    assert search.on.evidence(found) > search.on.evidence([])
    assert search.columns._first_gain(found, iter(proposals), {(0,), (1,)}) is None


@pytest.mark.ci
def test_a_column_is_tried_last_with_states_of_its_own():
    X, parts, states = draw(n=120, per_part=4, n_idle=0)
    search = Search(trials(X, Prior()), lambda: False, FitLog(0))
    true = [np.flatnonzero(parts == k) for k in range(3)]
    wrong = [np.arange(3), np.arange(3, 8), true[2]]
    own = list(states[search.on.found.rows].T)
    own[0] = np.zeros_like(own[0])  # in which the column would lose
    begun = search.on.begun(wrong, own)
    found = search.columns.moved_last(begun, set())
    assert sorted(part.columns.tolist() for part in found) == [own.tolist() for own in true]
    assert search.on.evidence(found) > search.on.evidence(begun)
    tried = set()
    assert search.columns.moved_last(found, tried) is None
    n_tried = len(tried)
    assert search.columns.moved_last(found, tried) is None  # what did not gain is not tried again
    assert len(tried) == n_tried
    search = Search(trials(X, Prior()), lambda: True, FitLog(0))
    assert search.columns.moved_last(begun, set()) is None  # time is up


@pytest.mark.ci
def test_divided_columns_go_through_all_moves_again():
    X, parts, states = draw(n=120, per_part=4, n_idle=0)
    search = Search(trials(X, Prior()), lambda: False, FitLog(0))
    rounds = []
    search._improved = lambda name, parts: rounds.append(name) or parts
    own = states[search.on.found.rows]
    true = [np.flatnonzero(parts == k) for k in range(3)]
    mixed = [np.array([0, 1, 4, 5]), np.array([2, 3, 6, 7]), true[2]]
    for columns in (true, mixed):
        begun = search.on.fitted(search.on.begun(columns, list(own.T)), 20)
        found = search._rearranged([End(search.on.evidence(begun), begun, [])], 0)
        assert found.evidence >= search.on.evidence(begun)
    assert rounds == ["rounds of end 0"]  # the true parts were not changed


def test_two_ends_are_crossed_where_each_is_better_in_some_rows():
    rng = np.random.default_rng(0)
    kind = np.repeat([0, 1], 20)
    half = 2.0 * kind[:, None] + rng.normal(0, 0.5, (40, 3))
    X, kind = np.concatenate([half, 20 - half])[:-1], np.append(kind, 3 - kind)[:-1]  # a mirror
    on, columns = trials(X, Prior()), np.arange(3)
    kind = kind[on.found.rows]
    ends = [
        on.begun([columns], [joined[kind]]) for joined in np.array([[0, 0, 1, 2], [0, 1, 2, 2]])
    ]
    (other,), (best,) = sorted(ends, key=lambda end: on.worth(end[0]))
    assert on.worth(best) - on.worth(other) < NEAR
    (found,) = StateMoves(on)._crossed([best], [other])
    assert found.n_states == 4
    assert on.worth(found) > on.worth(best)
    # What is the same or far is left as it is.
    assert StateMoves(on)._crossed([best], [best]) == [best]
    assert StateMoves(on)._crossed([found], [best]) == [best]


def test_uncertain_parts_are_warned_of():
    rng = np.random.default_rng(0)
    a, b = rng.integers(2, size=(2, 60))
    X = np.stack([a, a, b, b], axis=1) * 2.0 + rng.normal(0, 1, (60, 4))
    one, other, joined = (
        [Part(np.array(c), (), np.ones(2), np.zeros((2, 2))) for c in division]
        for division in ([[0, 1], [2, 3]], [[0, 2], [1, 3]], [[0, 1, 2, 3]])
    )
    assert not _are_uncertain(one, one, 0.0, 100.0)
    assert _are_uncertain(one, other, 9.0, 100.0)
    assert not _are_uncertain(one, other, 11.0, 100.0)
    assert _are_uncertain(one, joined, 4.0, 100.0)
    assert not _are_uncertain(one, joined, 9.0, 100.0)
    search = Search(trials(X, Prior()), lambda: False, FitLog(0))
    search._starts = lambda: iter([one, other])
    search._improved = lambda i, parts: parts
    search._polished = lambda found: found[0].parts
    search.on.evidence = lambda parts: -10.0 if parts is one else -11.5
    with pytest.warns(UserWarning, match="another division of the columns is only 1.5 nats worse"):
        assert search.run() == one


def between(n=100, seed=0):
    """Two parts that change places in half of the rows, and a column that both tell equally."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(2, size=(2, n))
    one, other = (4.0 * kind[:, None] + rng.normal(size=(n, 3)) for kind in (a, b))
    last = a + b + rng.normal(size=n)
    return np.vstack([np.column_stack([*parts, last]) for parts in ((one, other), (other, one))])


@pytest.mark.ci
def test_a_column_between_two_parts_is_warned_of():
    """Its two places have the same evidence, whatever the processor."""
    X = between()
    with pytest.warns(UserWarning, match=r"another division of the columns is only 0\.0 nats"):
        model = auto(X)
    assert model.n_parts_ == 2
    assert model.size_path_[-1]["kind"] == "uncertain"
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        auto(X[:, :-1])


def test_divisions_that_were_tried_tell_how_certain_the_parts_are():
    search = Search(trials(draw(n=60, per_part=2)[0], Prior()), lambda: False, FitLog(0))
    one, other, far = (
        [Part(np.array(c), (), np.ones(2), np.zeros((2, 2))) for c in division]
        for division in ([[0, 1], [2, 3]], [[0, 2], [1, 3]], [[0, 3], [1, 2]])
    )
    evidence = {id(one): -10.0, id(other): -11.0, id(far): -40.0}
    search.on.evidence = lambda parts: evidence.get(id(parts), -100.0)
    ends = [End(-10.0, one, []), End(-40.0, far, [])]
    assert search._gap(one, ends) is None
    assert search.columns._gain(far, other) == 29.0
    assert not search.columns.others
    assert search.columns._gain(other, one) == 1.0
    assert search._gap(one, ends) == 1.0  # the parts were better by little
    assert search._gap(other, ends[:1]) == 0.0
    assert search._gap(far, ends[:1]) is None
    assert search.columns._gain(one, other) == -1.0
    assert search._gap(one, ends) == 1.0  # what was tried instead is worse by little


def ring(n=150, D=16, seed=0):
    """Columns on a ring that depend on their neighbors, so that parts may begin anywhere."""
    rng, at = np.random.default_rng(seed), np.arange(D)
    apart = np.minimum(np.abs(at[:, None] - at), D - np.abs(at[:, None] - at))
    X = rng.normal(size=(n, D)) @ np.exp(-0.125 * apart**2.0)
    return X / X.std(axis=0) + 0.3 * rng.normal(size=(n, D))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_parts_without_borders_are_uncertain_and_clear_ones_are_not(seed):
    with pytest.warns(UserWarning, match="Parts are uncertain"):
        auto(ring(seed=seed))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        auto(draw(seed=seed)[0])


@pytest.mark.slow
def test_many_parts_of_many_columns_are_found_in_few_rows():
    """Groups of several true parts gain nothing over no parts, which must not end the search."""
    rng = np.random.default_rng(0)
    states, columns = rng.integers(4, size=(189, 12)), []
    for k in range(12):
        means = rng.normal(0, 1.5, size=(4, 38))
        columns.append(means[states[:, k]] + rng.normal(size=(189, 38)))
    X = np.hstack(columns)
    X[rng.random(X.shape) < 0.05] = np.nan
    model = MCVQ("auto", "auto", random_state=0).fit(X)
    assert model.n_states_.tolist() == [4] * 12
    assert adjusted_rand_score(np.repeat(np.arange(12), 38), model.parts_) > 0.9


@pytest.mark.parametrize(
    ("n_rows", "n_parts", "likelihood"), [(1, 5, "categorical"), (2, 20, None)]
)
def test_states_are_counted_in_one_or_two_rows(n_rows, n_parts, likelihood):
    X = np.random.default_rng(0).integers(3, size=(n_rows, 8)).astype(float)
    X += 0.0 if likelihood else np.linspace(0.0, 0.3, 8)
    model = MCVQ(n_parts, "auto", likelihood=likelihood or "gaussian", max_iter=3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)
    assert np.isfinite(model.transform(X)).all()
