"""MCVQ as its users meet it: recovery of planted parts, verbs, holes, input of all forms."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import partwise
from partwise import MCVQ, Prior, make_faces, make_shapes

LIKELIHOODS = ["gaussian", "bernoulli", "poisson", "categorical"]


def draw(likelihood, n=200, K=2, J=3, per_part=6, seed=0):
    """Rows with clear parts of any likelihood, and the true parts and states."""
    rng = np.random.default_rng(seed)
    parts = np.repeat(np.arange(K), per_part)
    states = rng.integers(J, size=(n, K))
    levels = rng.permuted(np.tile(np.arange(J), (len(parts), 1)), axis=1)  # (D, J)
    value = levels[np.arange(len(parts)), states[:, parts]]
    if likelihood == "gaussian":
        X = 3.0 * value + rng.normal(0, 0.5, value.shape)
    elif likelihood == "bernoulli":
        X = (rng.random(value.shape) < np.array([0.03, 0.97, 0.03])[value]).astype(float)
    elif likelihood == "poisson":
        X = rng.poisson(np.array([0.5, 5.0, 20.0])[value]).astype(float)
    else:
        noise = rng.random(value.shape) < 0.1
        X = np.where(noise, rng.integers(J, size=value.shape), value).astype(float)
    return X, parts, states


def punch(X, share=0.2, seed=1):
    holes = np.random.default_rng(seed).random(X.shape) < share
    return np.where(holes, np.nan, X), holes


def every_output(model, X):
    """All arrays the verbs give."""
    lower, upper = model.predict_interval(X)
    rows, states = model.sample(5, random_state=0)
    return {
        "transform": model.transform(X),
        "reconstruct": model.reconstruct(X),
        "impute": model.impute(X),
        "lower": lower,
        "upper": upper,
        "score_samples": model.score_samples(X),
        "anomaly_scores": model.anomaly_scores(X),
        "states": model.predict_states(X),
        "rows": rows,
        "drawn states": states,
        "gates_": model.gates_,
        "means_": model.means_,
        "variances_": model.variances_,
        "state_priors_": model.state_priors_,
        "lower_bounds_": model.lower_bounds_,
    }


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("gating", ["annealed", "tied", "standard", "factorised"])
def test_finds_planted_parts_with_holes(likelihood, gating):
    X, parts, states = draw(likelihood, per_part=15)
    X, _ = punch(X, 0.1)
    model = MCVQ(2, 3, likelihood=likelihood, gating=gating, random_state=0).fit(X)
    assert adjusted_rand_score(parts, model.parts_) == 1.0
    found = model.predict_states(X)
    for k in range(2):
        part = np.bincount(model.parts_[parts == k]).argmax()
        assert adjusted_rand_score(states[:, k], found[:, part]) > 0.8


@pytest.mark.parametrize("seed", [0, *(pytest.param(i, marks=pytest.mark.ci) for i in (1, 2))])
@pytest.mark.parametrize("n_states", [9, 12])
def test_shapes_are_reconstructed_and_filled(n_states, seed):
    shapes, rng = make_shapes(), np.random.default_rng(seed)
    allowed = np.flatnonzero(~(shapes.states < 3).all(axis=1))  # never are all three near the top
    chosen = rng.choice(allowed, 100, replace=False)
    train, test = shapes.data[chosen], np.delete(shapes.data, chosen, axis=0)
    model = MCVQ(3, n_states, random_state=seed).fit(train)
    assert np.sqrt(np.mean((model.reconstruct(test) - test) ** 2)) <= 0.01
    removed = rng.random(train.shape) < 0.3
    holed = np.where(removed, np.nan, train)
    filled = model.fit(holed).impute(holed)
    assert np.sqrt(np.mean((filled - train)[removed] ** 2)) <= 0.05
    np.testing.assert_array_equal(filled[~removed], train[~removed])


@pytest.mark.ci
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_faces_fall_into_their_parts(seed):
    faces = make_faces(600, random_state=seed)
    drawn = faces.masks >= 0
    model = MCVQ(5, 10, random_state=seed).fit(faces.data)
    assert adjusted_rand_score(faces.masks[drawn], model.parts_[drawn]) >= 0.9


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_verbs_keep_shape_and_dtype_and_give_no_nan(likelihood, dtype):
    X, _, _ = draw(likelihood, n=60)
    X = punch(X)[0].astype(dtype)
    model = MCVQ(2, [3, 2], likelihood=likelihood, random_state=0).fit(X)
    out = every_output(model, X)
    assert out["transform"].shape == (60, 5)
    np.testing.assert_allclose(out["transform"][:, :3].sum(axis=1), 1, rtol=1e-5)
    assert out["impute"].shape == out["lower"].shape == X.shape
    assert out["anomaly_scores"].shape == out["states"].shape == (60, 2)
    assert model.means_.shape[:3] == (2, 3, X.shape[1])
    assert np.isnan(model.means_[1, 2]).all()
    assert model.state_priors_[1, 2] == 0
    for name in ("transform", "reconstruct", "impute", "lower", "upper", "rows", "gates_"):
        assert out[name].dtype == dtype, name
    for name, values in out.items():
        if name not in ("means_", "variances_"):
            assert np.isfinite(values).all(), name
    assert np.all(out["lower"] <= out["upper"])


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_imputation_beats_the_column_average(likelihood):
    truth, _, _ = draw(likelihood, n=400)
    X, holes = punch(truth)
    model = MCVQ(2, 3, likelihood=likelihood, random_state=0).fit(X)
    filled = model.impute(X)
    guess = np.broadcast_to(np.nanmean(X, axis=0), X.shape)
    assert np.mean((filled - truth)[holes] ** 2) < 0.5 * np.mean((guess - truth)[holes] ** 2)
    if likelihood in ("bernoulli", "categorical"):
        assert np.isin(filled, np.unique(truth)).all()


@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_intervals_cover_what_they_promise(coverage):
    truth, _, _ = draw("gaussian", n=600)
    X, holes = punch(truth)
    lower, upper = MCVQ(2, 3, random_state=0).fit(X).predict_interval(X, coverage)
    inside = ((lower <= truth) & (truth <= upper))[holes].mean()
    assert abs(inside - coverage) < 0.04


def test_scores_add_up_over_parts():
    X, _, _ = draw("gaussian")
    model = MCVQ(2, 3, random_state=0).fit(X)
    result = model.row_likelihood(X)
    assert np.all(result.standard_error == 0)
    assert model.gates_.max(axis=1).min() == 1
    np.testing.assert_allclose(-model.anomaly_scores(X).sum(axis=1), result.log_likelihood)
    np.testing.assert_allclose(model.score(X), result.log_likelihood.mean())


@pytest.mark.parametrize("absent", ["unobserved", "zero"])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csc_matrix])
def test_sparse_equals_dense(likelihood, absent, container):
    X, _, _ = draw(likelihood, n=80)
    X = np.where(np.random.default_rng(3).random(X.shape) < 0.4, 0.0, X)
    if likelihood == "categorical":
        X = X + (absent == "unobserved") * (X > 0)
    dense = np.where(X == 0, np.nan, X) if absent == "unobserved" else X
    arguments = {
        "likelihood": likelihood,
        "sparse_absent": absent,
        "random_state": 0,
        "init": "random",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        a = MCVQ(2, 2, **arguments).fit(dense)
        b = MCVQ(2, 2, **arguments).fit(container(X))
    np.testing.assert_allclose(a.lower_bound_, b.lower_bound_, rtol=1e-6)
    # New rows are scored alike by one and the same model, stored either way.
    np.testing.assert_allclose(b.transform(container(X)), b.transform(dense), atol=1e-6)
    np.testing.assert_allclose(b.score_samples(container(X)), b.score_samples(dense), rtol=1e-6)
    np.testing.assert_allclose(b.anomaly_scores(container(X)), b.anomaly_scores(dense), rtol=1e-6)


def test_scores_are_in_the_users_units():
    X, _, _ = draw("gaussian")
    model = MCVQ(2, 3, random_state=0).fit(X)
    scaled = MCVQ(2, 3, random_state=0).fit(100.0 * X)
    expected = model.score_samples(X) - X.shape[1] * np.log(100.0)
    np.testing.assert_allclose(scaled.score_samples(100.0 * X), expected, rtol=1e-6)


def test_explanation_names_what_decided():
    X, _, _ = draw("gaussian")
    model = MCVQ(2, 3, random_state=0).fit(X)
    parts = model.explain(X[0])
    assert [p["part"] for p in parts] == [0, 1]
    assert [p["state"] for p in parts] == model.predict_states(X[:1])[0].tolist()
    total = sum(p["log_likelihood"] for p in parts)
    np.testing.assert_allclose(total, model.score_samples(X[:1])[0])
    columns = parts[0]["columns"]
    assert all(model.parts_[int(c["column"].removeprefix("x"))] == 0 for c in columns)
    assert columns[0]["evidence"] >= columns[-1]["evidence"] > 0


def test_given_states_are_drawn_from():
    shapes = make_shapes()
    model = MCVQ(3, 9, random_state=0).fit(shapes.data)
    states = model.predict_states(shapes.data[:20])
    rows, returned = model.sample(20, states=states, random_state=1)
    np.testing.assert_array_equal(returned, states)
    assert np.abs(rows - shapes.data[:20]).max() < 0.2
    with pytest.raises(ValueError, match="states must have shape"):
        model.sample(20, states=states + 9)


def test_pandas_names_come_through():
    pd = pytest.importorskip("pandas")
    X, _, _ = draw("gaussian")
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])
    model = MCVQ(2, 3, random_state=0).set_output(transform="pandas").fit(frame)
    assert list(model.transform(frame).columns[:4]) == [
        "part0_state0",
        "part0_state1",
        "part0_state2",
        "part1_state0",
    ]
    assert model.explain(X[0])[0]["columns"][0]["column"].startswith("c")
    assert make_pipeline(StandardScaler(), model).fit_transform(frame).shape == (200, 6)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"likelihood": "categorical"},
        {"gating": "factorised", "prior": None},
        {"prior": Prior(states=0.5, spread=0.2)},
        {"inference": "gibbs", "max_iter": 5},
    ],
)
def test_saved_models_say_the_same(arguments, tmp_path):
    X, _, _ = draw(arguments.get("likelihood", "gaussian"), n=80)
    X, _ = punch(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = MCVQ(2, 3, random_state=0, **arguments).fit(X)
    model.save(tmp_path / "model.safetensors")
    again = partwise.load(tmp_path / "model.safetensors")
    assert again.get_params() == model.get_params()
    for name, values in every_output(model, X).items():
        np.testing.assert_array_equal(every_output(again, X)[name], values, err_msg=name)


def test_time_budget_keeps_the_best_so_far():
    X, _, _ = draw("gaussian")
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model = MCVQ(2, 3, max_time=1e-9, random_state=0).fit(X)
    assert np.isfinite(model.score(X))


def test_callbacks_hear_every_sweep_and_may_stop():
    pytest.importorskip("sklearn.callback")

    class Counter:
        def __init__(self, stop_at):
            self.sweeps, self.stop_at = 0, stop_at

        def setup(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context):
            if context.task_name == "sweep":
                self.sweeps += 1
                return self.sweeps >= self.stop_at
            return False

        def teardown(self, estimator, context):
            pass

    X, _, _ = draw("gaussian")
    # Without annealing a start is one ascent, however numbers are rounded.
    one, several = Counter(10**6), Counter(10**6)
    model = MCVQ(2, 3, gating="standard", tol=1e-9, random_state=0)
    model.set_callbacks(one).fit(X)
    assert one.sweeps == model.n_iter_ + 1 == len(model.lower_bounds_)
    model.set_params(n_init=3).set_callbacks(several).fit(X)
    assert several.sweeps > one.sweeps + model.n_iter_ + 1
    # With it there may be a second ascent; a callback that stops the first stops the fit.
    for gating in "standard", "annealed":
        model = MCVQ(2, 3, gating=gating, tol=1e-9, random_state=0)
        hasty = Counter(2)
        model.set_callbacks(hasty).fit(X)
        assert hasty.sweeps == 2
        assert model.n_iter_ == 1


def test_progress_is_shown_only_when_asked(capsys):
    X, _, _ = draw("gaussian")
    MCVQ(2, 3, random_state=0).fit(X)
    assert capsys.readouterr() == ("", "")
    MCVQ(2, 3, random_state=0, verbose=1).fit(X)
    out, err = capsys.readouterr()
    assert out == ""
    assert "MCVQ" in err


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("absent", ["unobserved", "zero"])
def test_rows_may_be_stored_otherwise_than_in_fit(likelihood, absent):
    X, _, _ = draw(likelihood, n=80)
    X = np.where(np.random.default_rng(3).random(X.shape) < 0.4, 0.0, X)
    if likelihood == "categorical":
        X = X + (absent == "unobserved") * (X > 0)
    dense = np.where(X == 0, np.nan, X) if absent == "unobserved" else X
    stored = sparse.csr_array(X)
    model = MCVQ(2, 2, likelihood=likelihood, sparse_absent=absent, random_state=0).fit(dense)
    for verb in ("transform", "score_samples", "anomaly_scores", "reconstruct", "impute"):
        np.testing.assert_allclose(
            getattr(model, verb)(stored), getattr(model, verb)(dense), rtol=1e-6, err_msg=verb
        )


@pytest.mark.ci
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_weak_binary_parts_do_not_end_in_the_background(missing):
    truth, found = np.repeat(np.arange(3), 10), []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        states = rng.integers(0, 4, (600, 3))
        p = rng.beta(0.4, 0.4, (3, 4, 10))
        X = np.hstack([rng.random((600, 10)) < p[k][states[:, k]] for k in range(3)]).astype(float)
        X[rng.random(X.shape) < missing] = np.nan
        model = MCVQ(3, 4, likelihood="bernoulli", random_state=0).fit(X)
        found.append(adjusted_rand_score(truth, model.parts_))
    assert np.median(found) > 0.9


def test_columns_of_noise_end_in_the_background():
    X, parts, _ = draw("gaussian", n=400)
    noise = np.random.default_rng(5).standard_normal((400, 40))
    model = MCVQ(2, 3, random_state=0).fit(np.hstack([X, noise]))
    assert adjusted_rand_score(parts, model.parts_[: len(parts)]) == 1.0
    assert np.mean(model.parts_[len(parts) :] == -1) > 0.9
    assert np.all((model.state_priors_ > 0.05).sum(axis=1) == 3)


class TestBadInput:
    """One clear sentence that names what is wrong and what to do."""

    X = draw("gaussian", n=30)[0]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"gating": "loose"}, "gating"),
            ({"n_parts": 0}, "n_parts"),
            ({"n_states": [2, 2, 2]}, "n_states"),
            ({"n_states": 31}, "n_states=31 is more than n_samples=30"),
            ({"likelihood": "bernoulli"}, 'needs 0, 1 or NaN.*likelihood="gaussian"'),
            ({"likelihood": "poisson"}, "needs counts"),
            ({"likelihood": "categorical"}, "too many for"),
            ({"max_time": -1}, "max_time"),
            ({"prior": "flat"}, "prior"),
        ],
    )
    def test_arguments(self, arguments, message):
        X = np.repeat(self.X, 2, axis=1) if arguments.get("likelihood") else self.X
        with pytest.raises(ValueError, match=message):
            MCVQ(**{"n_parts": 2, "n_states": 2, **arguments}).fit(X)

    def test_counts_too_large_to_be_summed(self):
        with pytest.raises(ValueError, match=r"takes counts up to 1e\+15; choose"):
            MCVQ(1, 2, likelihood="poisson").fit([[1.0], [2.0], [1e16]])

    def test_infinity(self):
        X = self.X.copy()
        X[3, 4] = np.inf
        with pytest.raises(ValueError, match=r"infinity.*replace such entries by NaN"):
            MCVQ(2, 2).fit(X)

    def test_shapes_and_kinds(self):
        with pytest.raises(ValueError, match="2D array"):
            MCVQ(2, 2).fit(self.X[0])
        with pytest.raises(ValueError, match=r"holds .a. in row 0, column 0"):
            MCVQ(2, 2).fit(np.array([["a", "b"], ["c", "d"]], dtype=object))
        model = MCVQ(2, 2, random_state=0).fit(self.X)
        with pytest.raises(ValueError, match="features"):
            model.transform(self.X[:, :3])
        with pytest.raises(ValueError, match="column for every state"):
            model.inverse_transform(np.ones((2, 3)))
        with pytest.raises(ValueError, match="coverage"):
            model.predict_interval(self.X, 1.0)
        with pytest.raises(ValueError, match="one row"):
            model.explain(self.X)
        with pytest.raises(NotFittedError):
            MCVQ().transform(self.X)

    def test_unseen_category(self):
        X = draw("categorical")[0]
        model = MCVQ(2, 3, likelihood="categorical", random_state=0).fit(X)
        X[0, 0] = 7
        with pytest.raises(ValueError, match="category 7, which was not seen in fit"):
            model.transform(X)

    def test_pairings_are_refused_before_work(self):
        X = sparse.csr_array(draw("poisson")[0])
        with pytest.raises(ValueError, match=r"X\.toarray"):
            MCVQ(2, 2, likelihood="poisson", gating="factorised").fit(X)
        model = MCVQ(2, 2, warm_start=True, random_state=0).fit(self.X)
        with pytest.raises(ValueError, match="warm_start"):
            model.set_params(n_states=3).fit(self.X)
        with pytest.raises(ValueError, match="positive number"):
            Prior(states=0)

    def test_weights(self):
        with pytest.raises(ValueError, match="zero"):
            MCVQ(2, 2).fit(self.X, sample_weight=np.zeros(30))


class TestHardData:
    """Handled, with a warning where the user should know, and never NaN in the output."""

    @staticmethod
    def assert_sound(X, **arguments):
        model = MCVQ(**{"n_parts": 2, "n_states": 2, "random_state": 0, **arguments}).fit(X)
        for name, values in every_output(model, X).items():
            assert np.isfinite(values).all(), name
        return model

    def test_rows_and_columns_wholly_missing(self):
        X = draw("gaussian", n=40)[0]
        X[3] = np.nan
        self.assert_sound(X)
        X[:, 5] = np.nan
        with pytest.warns(UserWarning, match="1 of 12 columns have no observed value"):
            model = self.assert_sound(X)
        assert model.parts_[5] == -1

    def test_all_missing(self):
        with pytest.warns(UserWarning, match="no observed value"):
            self.assert_sound(np.full((6, 3), np.nan))

    @pytest.mark.parametrize("likelihood", LIKELIHOODS)
    def test_constant_columns(self, likelihood):
        X = draw(likelihood, n=40)[0]
        X[:, 2] = 1.0
        X[:, 7] = 0.0
        model = self.assert_sound(X, likelihood=likelihood)
        assert model.parts_[2] == model.parts_[7] == -1
        np.testing.assert_allclose(model.reconstruct(X)[:, 2], 1.0, atol=0.05)

    @pytest.mark.parametrize("prior", ["conjugate", None])
    def test_one_row_one_column(self, prior):
        X = draw("gaussian", n=40)[0]
        self.assert_sound(X[:1], n_parts=1, n_states=1, prior=prior)
        self.assert_sound(X[:, :1], prior=prior)
        self.assert_sound(X[:1, :1], n_parts=1, n_states=1, prior=prior)

    @pytest.mark.parametrize("prior", ["conjugate", None])
    @pytest.mark.parametrize("size", [1e-30, 1e30])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_tiny_and_huge_values(self, size, dtype, prior):
        X, parts, _ = draw("gaussian")
        big = (X * size).astype(dtype)
        model = MCVQ(2, 3, random_state=0, prior=prior).fit(big)
        assert adjusted_rand_score(parts, model.parts_) == 1.0
        assert np.isfinite(model.reconstruct(big)).all()
        assert np.isfinite(model.score_samples(big)).all()

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_extreme_new_values(self, dtype):
        X = draw("gaussian")[0].astype(dtype)
        model = MCVQ(2, 3, random_state=0).fit(X)
        X[0, 0], X[1, 3] = (1e25, -1e25) if dtype == np.float32 else (1e200, -1e200)
        for name, values in every_output(model, X).items():
            assert np.isfinite(values).all(), name
        assert model.anomaly_scores(X)[0].max() > 20 * np.median(model.anomaly_scores(X)[2:])

    def test_narrow_tables_of_single_precision(self):
        X = np.random.default_rng(0).integers(0, 2, (60_000, 1)).repeat(3, axis=1)
        bounds = [
            MCVQ(1, 2, random_state=0).fit(X.astype(dtype)).lower_bound_
            for dtype in (np.float32, np.float64)
        ]
        assert abs(bounds[0] - bounds[1]) < 0.1 * abs(bounds[1])

    @pytest.mark.parametrize("prior", ["conjugate", None])
    def test_duplicated_rows(self, prior):
        X = np.repeat(draw("gaussian", n=2)[0], 20, axis=0)
        self.assert_sound(X, prior=prior)
        self.assert_sound(X, prior=prior, gating="standard", init="random")
