"""Rows that come by in blocks teach what they would have taught all at once."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from partwise import MCFA, MCVQ, StreamingOptions, load, make_faces
from partwise.fitted import core_of, fitted_of
from partwise.fitting import course
from partwise.models.loadings import RegressionSums, Relevant

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

FACES = make_faces(1200, random_state=0)
X = FACES.data[:, 2::6]
TRAIN, TEST = X[:900], X[900:]
HOLED = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X)
BITS = (X > 0.5).astype(float)
LEVELS = np.rint(3 * np.clip(X, 0, 1)) + 1.0


@pytest.fixture(autouse=True)
def in_haste(monkeypatch):
    monkeypatch.setattr(course, "ANNEALING_STEPS", 10)


def stream(model, X, size=100, passes=1, y=None):
    for _ in range(passes):
        for i in range(0, X.shape[0], size):
            model.partial_fit(X[i : i + size], None if y is None else y[i : i + size])
    return model


def quick(**changes):
    return StreamingOptions(**{"warm_up": 200, **changes})


# --- the batch answer ---


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (MCVQ(4, 4, random_state=0), X),
        pytest.param(
            *(MCVQ(4, 4, gating="standard", prior=None, random_state=0), X),
            marks=pytest.mark.ci,
        ),
        (MCVQ(4, 4, random_state=0), HOLED),
        pytest.param(
            *(MCVQ(4, 4, likelihood="bernoulli", random_state=0), BITS),
            marks=pytest.mark.ci,
        ),
        pytest.param(
            *(MCVQ(4, 4, likelihood="categorical", random_state=0), sparse.csr_array(LEVELS)),
            marks=pytest.mark.ci,
        ),
        pytest.param(
            *(MCVQ(4, 4, likelihood="poisson", random_state=0), sparse.csr_array(LEVELS - 1.0)),
            marks=pytest.mark.ci,
        ),
        pytest.param(*(MCFA(4, 2, tol=1e-2, random_state=0), X), marks=pytest.mark.ci),
        pytest.param(
            *(MCFA(4, 2, gating="tied", prior=None, tol=1e-2, random_state=0), X),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["dense", "flat", "holes", "bits", "sparse", "counts", "factors", "flat factors"],
)
def test_a_stream_ends_near_the_batch(model, data):
    train, test = data[:900], data[900:]
    batch = model.fit(train).score(test)
    streamed = type(model)(**{**model.get_params(), "streaming": quick(warm_up=400)})
    score = stream(streamed, train, passes=2).score(test)
    assert streamed.n_samples_seen_ == 1800
    # On so few rows the two may end in different optima; the digits in test_criteria have 1 %.
    assert score > batch - 0.02 * abs(batch)


@pytest.mark.ci
def test_labels_are_learned_from_a_stream():
    y = np.array(FACES.target_names)[FACES.target]
    model = MCVQ(4, 4, streaming=quick(), random_state=0)
    stream(model, TRAIN, y=y[:900])
    batch = MCVQ(4, 4, random_state=0).fit(TRAIN, y[:900])
    right = [np.mean(m.predict(TEST) == y[900:]) for m in (model, batch)]
    assert right[0] > right[1] - 0.05


@pytest.mark.ci
def test_blocks_in_another_order_teach_the_same():
    model = MCVQ(4, 4, random_state=0)
    one = stream(MCVQ(4, 4, random_state=0, streaming=quick()).fit(TRAIN[:300]), TRAIN[300:])
    other = MCVQ(4, 4, random_state=0, streaming=quick()).fit(TRAIN[:300])
    stream(other, TRAIN[300:][::-1])
    start = model.fit(TRAIN[:300]).score(TEST)
    assert abs(one.score(TEST) - other.score(TEST)) < 0.3 * (one.score(TEST) - start)


# --- one step ---


def test_a_step_blends_sums():
    """Against sums written out from posteriors, one row and state after another."""
    rows, more = BITS[:300], BITS[300:400]
    model = MCVQ(
        3, 3, likelihood="bernoulli", random_state=0, streaming=StreamingOptions(warm_up=0)
    )
    model.partial_fit(rows)

    def sums(some):
        m = np.hstack([model.transform(some), np.ones((len(some), 1))])  # and the background
        return np.stack([m.T @ np.ones_like(some), m.T @ some])

    rate = (100 / 400) ** 0.6
    expected = (1 - rate) * (400 / 300) * sums(rows) + rate * (400 / 100) * sums(more)
    model.partial_fit(more)
    found = (
        fitted_of(model).params.chi[0]
        - core_of(fitted_of(model).model, object).priors[0].chi0[:, None, :]
    )
    assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert model.weight_seen_ == 400
    assert model.n_samples_seen_ == 400


def held(theta):
    """What was learned of the columns."""
    return theta.chi if hasattr(theta, "chi") else [w.mean for w in theta.loadings]


@pytest.mark.ci
def test_sums_are_told_by_parameters():
    rng = np.random.default_rng(0)
    S = rng.normal(size=(50, 3))
    prior, relevance = Relevant(0.02, 0.03, 2.0), np.array([[2.0, 3.0], [1.0, 5.0]])
    sums = RegressionSums(
        (S.T @ S)[None], rng.normal(size=(1, 3)), np.array([60.0]), np.array([50.0])
    )
    found = prior.sums(prior.posterior(sums, relevance), relevance)
    for one, other in zip(sums, found, strict=True):
        assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    for model in (MCVQ(3, 3, gating="standard", random_state=0), MCFA(3, 2, random_state=0)):
        core, theta = fitted_of(model.fit(TRAIN[:200])).model, fitted_of(model).params
        again = core.learn_columns(core.begin(theta), core.sums_of(theta))
        for one, other in zip(held(theta), held(again), strict=True):
            assert_allclose(one, other, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("data", [TRAIN, sparse.csr_array(TRAIN)], ids=["dense", "sparse"])
def test_weight_is_repetition(data):
    weight = np.random.default_rng(0).integers(0, 3, 150)
    twice = np.repeat(np.arange(150), weight)
    models = [MCVQ(3, 3, random_state=0, streaming=quick()).fit(data[:300]) for _ in range(2)]
    models[0].partial_fit(data[300:450], sample_weight=weight)
    models[1].partial_fit(data[300:450][twice])
    assert_allclose(models[0].means_, models[1].means_, rtol=1e-6, atol=1e-8)
    assert_allclose(models[0].lower_bound_, models[1].lower_bound_, rtol=1e-6)


@pytest.mark.parametrize("make", [MCVQ, MCFA])
def test_a_saved_stream_goes_on(make, tmp_path):
    model = stream(make(3, 3, streaming=quick(), random_state=0), TRAIN[:600], 150)
    model.save(tmp_path / "model.safetensors")
    other = load(tmp_path / "model.safetensors")
    assert other.streaming == model.streaming
    for one in (model, other):
        one.partial_fit(TRAIN[600:])
    # Factors' sums are told but for the prior, whose relevances have moved on since.
    assert_allclose(one.gates_, model.gates_, atol=1e-3)
    assert_allclose(one.score_samples(TEST), model.score_samples(TEST), rtol=1e-4)
    assert one.n_samples_seen_ == 900


def test_flat_factors_do_not_go_on_from_a_fit():
    model = MCFA(2, 2, prior=None, random_state=0).fit(TRAIN[:100])
    with pytest.raises(AttributeError) as raised:
        model.partial_fit(TRAIN[100:200])
    assert "prior=None that fit has learned" in str(raised.value.__cause__)


# --- drift ---


@pytest.mark.ci
def test_what_has_drifted_is_forgotten():
    old, new = TRAIN[:450], 1.0 - TRAIN[450:]
    found = {}
    for half_life in (None, 50.0):
        how = quick(half_life=half_life)
        model = stream(MCVQ(4, 4, streaming=how, random_state=0).fit(old), new, 50)
        found[half_life] = model.score(1.0 - TEST)
        weight = model.weight_seen_
    assert found[50.0] > found[None]
    assert_allclose(weight, 100.0, rtol=0.05)  # 50 / (1 - 1/2) for blocks of 50


# --- what rows bring that is new ---


def test_new_columns_are_refused():
    model = MCVQ(2, 2, random_state=0).partial_fit(TRAIN[:50])
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:50, :-1])


def test_new_categories_are_learned_while_rows_wait_and_refused_later():
    few = np.where(LEVELS[:100] == 4.0, np.nan, LEVELS[:100])
    model = MCVQ(2, 2, likelihood="categorical", streaming=quick(warm_up=150), random_state=0)
    model.partial_fit(few)
    assert model.levels_.tolist() == [1.0, 2.0, 3.0]
    model.partial_fit(LEVELS[100:130])
    assert model.levels_.tolist() == [1.0, 2.0, 3.0, 4.0]
    model.partial_fit(LEVELS[130:200])
    with pytest.raises(ValueError, match="category 9"):
        model.partial_fit(np.where(LEVELS[200:300] == 4.0, 9.0, LEVELS[200:300]))


def test_columns_that_begin_to_vary():
    early = TRAIN.copy()
    early[:200, 0] = 3.0
    early[:200, 1] = np.nan
    early[200:, 1] = 1e6 + early[200:, 5]
    model = MCVQ(3, 3, streaming=StreamingOptions(warm_up=0), random_state=0)
    with pytest.warns(UserWarning, match="no observed value"):
        model.partial_fit(early[:200])
    assert (model.parts_[:2] == -1).all()
    group = fitted_of(model).columns[0]
    assert not group.varies[:2].any()
    stream(model, early[200:], passes=3)
    group = fitted_of(model).columns[0]
    assert group.varies[:2].all()
    assert_allclose(group.shift[1], 1e6, rtol=1e-3)
    filled = model.impute(np.where(np.arange(X.shape[1]) == 1, np.nan, early[200:]))[:, 1]
    assert np.abs(filled - early[200:, 1]).mean() < 1.0


# --- classes ---


def test_classes_are_told_once():
    y = FACES.target
    model = MCVQ(2, 2, streaming=StreamingOptions(warm_up=0), random_state=0)
    some = np.flatnonzero(y[:200] != 4)
    model.partial_fit(TRAIN[some], y[some], classes=np.arange(5))
    assert model.classes_.tolist() == [0, 1, 2, 3, 4]
    model.partial_fit(TRAIN[200:400], y[200:400])
    model.partial_fit(TRAIN[400:500])  # without labels
    assert model.class_priors_[4] > 0.03
    with pytest.raises(ValueError, match="class 7"):
        model.partial_fit(TRAIN[:50], np.full(50, 7))
    with pytest.raises(ValueError, match="differs"):
        model.partial_fit(TRAIN[:50], y[:50], classes=[0, 1])
    plain = MCVQ(2, 2, random_state=0).partial_fit(TRAIN[:50])
    with pytest.raises(ValueError, match="the rows before had none"):
        plain.partial_fit(TRAIN[:50], y[:50])


@pytest.mark.ci
def test_fit_begins_anew():
    model = stream(MCVQ(3, 3, streaming=quick(), random_state=0), TRAIN[:500])
    again = model.fit(TRAIN[:300])
    straight = MCVQ(3, 3, random_state=0).fit(TRAIN[:300])
    assert_allclose(again.means_, straight.means_)
    assert again.n_samples_seen_ == 300
    assert again.row_labels_.shape == (300, 3)


def test_rows_that_remember_cannot_stream():
    for model in (
        MCVQ(gating="factorised"),
        MCVQ(inference="gibbs"),
        MCFA(likelihood="ordinal"),
    ):
        assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError) as raised:
        MCVQ(inference="gibbs").partial_fit(TRAIN)
    assert "does not support" in str(raised.value.__cause__)


@pytest.mark.parametrize("wrong", [{"decay": 0.5}, {"half_life": 0}, {"warm_up": -1}])
def test_wrong_options_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        StreamingOptions(**wrong)
