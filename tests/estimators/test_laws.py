"""Every kind of count and angle through the whole of MCVQ, from fit to file."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import partwise
from partwise import MCFA, MCVQ, PartsImputer
from partwise.data.columns import learn_columns
from tests.common.helpers import assert_never_falls

LAWS = ["negative_binomial", "zero_inflated", "circular"]
PARTS = np.array([0, 0, 0, 0, 1, 1, 1, 1])


def planted(law, n=400, seed=0):
    """Rows of two parts of four columns, in three and two states."""
    rng = np.random.default_rng(seed)
    states = np.stack([rng.integers(3, size=n), rng.integers(2, size=n)], axis=1)
    columns = []
    for d, part in enumerate(PARTS):
        s = (states[:, part] + d) % 3
        if law == "negative_binomial":
            mean = np.array([1.5, 8.0, 40.0])[s]
            columns.append(rng.negative_binomial(3.0, 3.0 / (3.0 + mean)))
        elif law == "zero_inflated":
            rate, share = np.array([2.0, 10.0, 5.0])[s], np.array([0.9, 0.3, 0.7])[s]
            columns.append((rng.poisson(rate) + 1.0) * (rng.random(n) < share))
        else:
            columns.append((np.array([0.3, 2.4, 4.6])[s] + rng.vonmises(0, 8, n)) % (2 * np.pi))
    return np.stack(columns, axis=1).astype(float), states


def with_holes(X, share=0.1, seed=1):
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)


def inside(law, X, lower, upper):
    """Whether cells lie in their intervals; angles on any turn."""
    turns = (-2 * np.pi, 0.0, 2 * np.pi) if law == "circular" else (0.0,)
    return np.any([(X + turn >= lower) & (X + turn <= upper) for turn in turns], axis=0)


@pytest.fixture(scope="module", params=LAWS)
def fitted(request):
    X, states = planted(request.param)
    model = MCVQ(2, 3, likelihood=request.param, random_state=0).fit(with_holes(X))
    return request.param, X, states, model


def test_planted_parts_and_states_are_found(fitted):
    _, X, states, model = fitted
    assert_never_falls(model.lower_bounds_)
    own, other = model.parts_[0], model.parts_[4]
    assert_array_equal(model.parts_, np.where(PARTS == 0, own, other))
    found = model.predict_states(X)
    for k, truth in ((own, states[:, 0]), (other, states[:, 1])):
        pairs = pd.crosstab(found[:, k], truth).to_numpy()
        assert pairs.max(axis=1).sum() > 0.93 * len(X)


@pytest.mark.parametrize("gating", ["annealed", "tied", "standard", "factorised"])
@pytest.mark.parametrize("prior", ["conjugate", None])
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_bound_never_falls(law, prior, gating):
    X, _ = planted(law, 120)
    model = MCVQ(
        2, 3, likelihood=law, prior=prior, gating=gating, init="random", max_iter=25, tol=0.0,
        random_state=0,
    )  # fmt: skip
    model.fit(with_holes(X))
    assert_never_falls(model.lower_bounds_)
    assert np.all(np.isfinite(model.score_samples(X)))


@pytest.mark.ci
@pytest.mark.parametrize(
    "law",
    [pytest.param(law, marks=pytest.mark.slow) if law == "zero_inflated" else law for law in LAWS],
)
def test_sizes_are_found(law):
    X, _ = planted(law, 500)
    model = MCVQ("auto", "auto", likelihood=law, random_state=0).fit(X)
    assert model.n_parts_ == 2
    assert sorted(model.n_states_) == [2, 3]


@pytest.mark.slow
def test_counts_that_spread_need_fewer_states_than_poisson_says():
    X, _ = planted("negative_binomial", 500)
    model = MCVQ("auto", "auto", likelihood="poisson", random_state=0).fit(X)
    assert model.n_states_.sum() > 8


def test_missing_entries_are_imputed_and_intervals_cover(fitted):
    law, X, _, model = fitted
    holed = with_holes(X, 0.2, seed=3)
    hidden = np.isnan(holed)
    filled = model.impute(holed)
    assert np.all(np.isfinite(filled))
    assert_array_equal(filled[~hidden], holed[~hidden])
    lower, upper = model.predict_interval(holed, 0.9)
    share = inside(law, X, lower, upper)[hidden].mean()
    assert 0.86 < share < 0.99
    if law == "circular":
        assert np.all((filled[hidden] >= 0) & (filled[hidden] <= 2 * np.pi))
        error = np.cos(filled[hidden] - X[hidden]).mean()
        assert error > 0.8


def test_draws_are_like_the_data(fitted):
    law, X, _, model = fitted
    drawn, _ = model.sample(2000, random_state=0)
    if law == "circular":
        for f in (np.cos, np.sin):
            assert_allclose(f(drawn).mean(axis=0), f(X).mean(axis=0), atol=0.15)
    else:
        assert_allclose((drawn == 0).mean(axis=0), (X == 0).mean(axis=0), atol=0.08)
        assert_allclose(drawn.mean(axis=0), X.mean(axis=0), rtol=0.25)
    several = model.impute(with_holes(X), n_imputations=2, random_state=0)
    assert np.all(np.isfinite(several))


def test_a_planted_anomalous_cell_is_found(fitted):
    law, X, _, model = fitted
    X = X[:100].copy()
    state_mean = model.reconstruct(X)[7, 2]
    X[7, 2] = (state_mean + np.pi) % (2 * np.pi) if law == "circular" else 10 * X.max()
    found = model.anomalous_cells(X, n_cells=3)
    places = list(zip(np.asarray(found["row"]), np.asarray(found["column"]), strict=True))
    assert any(int(row) == 7 and str(column).endswith("2") for row, column in places)
    assert np.all(np.diff(np.asarray(found["surprise"])) <= 0)
    assert np.all(np.asarray(found["surprise"]) >= -1e-6)


def test_a_file_says_the_same(fitted, tmp_path):
    _, X, _, model = fitted
    model.save(tmp_path / "model.safetensors")
    again = partwise.load(tmp_path / "model.safetensors")
    assert_array_equal(again.transform(X), model.transform(X))
    assert_array_equal(again.score_samples(X), model.score_samples(X))
    assert_array_equal(again.predict_interval(X[:9])[0], model.predict_interval(X[:9])[0])


@pytest.mark.ci
@pytest.mark.parametrize("law", LAWS)
def test_streams_learn(law):
    X, _ = planted(law, 600)
    model = MCVQ(2, 3, likelihood=law, random_state=0)
    for start in range(0, 600, 200):
        model.partial_fit(X[start : start + 200])
    whole = MCVQ(2, 3, likelihood=law, random_state=0).fit(X)
    assert model.score(X) > whole.score(X) - 0.3


@pytest.mark.ci
@pytest.mark.parametrize("law", LAWS)
def test_weights_are_repetition_and_storage_does_not_matter(law):
    X, _ = planted(law, 150)
    weight = np.random.default_rng(0).integers(1, 4, size=len(X))
    groups = learn_columns(X, law, weight.astype(float), False, partwise.Prior())
    again = learn_columns(np.repeat(X, weight, axis=0), law, np.ones(weight.sum()), False,
                          partwise.Prior())  # fmt: skip
    assert_allclose(groups[0].moments, again[0].moments, rtol=1e-9)
    holed = with_holes(X)
    rows, columns = np.nonzero(~np.isnan(holed))
    stored = sparse.csr_matrix((holed[rows, columns], (rows, columns)), shape=X.shape)
    dense = MCVQ(2, 3, likelihood=law, random_state=0).fit(holed)
    same = MCVQ(2, 3, likelihood=law, sparse_absent="unobserved", random_state=0).fit(stored)
    assert_allclose(same.score_samples(stored), dense.score_samples(holed), rtol=1e-6)


@pytest.mark.parametrize("law", ["negative_binomial", "zero_inflated"])
def test_counts_that_a_sparse_matrix_does_not_store_are_zeros(law):
    X, _ = planted(law, 200)
    dense = MCVQ(2, 3, likelihood=law, random_state=0).fit(X)
    same = MCVQ(2, 3, likelihood=law, random_state=0).fit(sparse.csr_matrix(X))
    assert_allclose(same.score_samples(sparse.csr_matrix(X)), dense.score_samples(X), rtol=1e-6)
    assert_allclose(same.anomaly_scores(sparse.csr_matrix(X)), dense.anomaly_scores(X), rtol=1e-6)


def test_angles_that_a_sparse_matrix_does_not_store_are_no_zeros():
    X = sparse.csr_matrix(planted("circular", 60)[0])
    with pytest.raises(ValueError, match="unobserved"):
        MCVQ(2, 3, likelihood="circular", sparse_absent="zero").fit(X)


@pytest.mark.filterwarnings("ignore:Column")
def test_tables_mix_all_kinds(tmp_path):
    n = 300
    counts, states = planted("negative_binomial", n)
    zeros, _ = planted("zero_inflated", n)
    angles, _ = planted("circular", n)
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(
        {
            "visits": counts[:, 0],
            "claims": zeros[:, 0],
            "wind": angles[:, 0],
            "height": 3.0 * states[:, 0] + rng.normal(size=n),
            "town": np.array(["Ulm", "Bonn", "Trier"])[states[:, 0]],
        }
    )
    kinds = {"visits": "negative_binomial", "claims": "zero_inflated", "wind": "circular"}
    holed = frame.mask(rng.random(frame.shape) < 0.1)
    model = MCVQ(1, 3, likelihood=kinds, random_state=0).fit(holed)
    assert list(model.kinds_[:3]) == list(kinds.values())
    filled = model.impute(holed)
    assert filled.notna().all().all()
    lower, _ = model.predict_interval(holed)
    assert np.isfinite(np.asarray(lower["wind"], float)).all()
    assert len(model.sample(5, random_state=0)[0]) == 5
    assert len(model.summary().to_frame()) >= 3
    assert np.isfinite(model.dependence(as_frame=False)).all()
    assert len(model.anomalous_cells(frame)) > 0
    model.save(tmp_path / "table.safetensors")
    again = partwise.load(tmp_path / "table.safetensors")
    pd.testing.assert_frame_equal(again.impute(holed), filled)
    imputed = PartsImputer(1, 3, likelihood=kinds, n_fits=1, random_state=0)
    assert imputed.fit_transform(holed).notna().all().all()
    with pytest.raises(ValueError, match="radians"):
        MCVQ(1, 3, likelihood={"height": "circular"}).fit(frame.assign(height=100.0 + frame.height))


# --- directions in degrees ---


def weather(n=300, seed=0):
    """Wind from around north in winter and from the east in summer, in whole degrees."""
    rng = np.random.default_rng(seed)
    winter = rng.random(n) < 0.6
    wind = np.where(winter, rng.normal(2.0, 18.0, n), rng.normal(120.0, 15.0, n))
    return winter, pd.DataFrame(
        {
            "wind_dir": np.rint(wind) % 360,
            "temperature": np.where(winter, 3.0, 22.0) + rng.normal(0, 2, n),
            "sun": np.where(winter, 2.0, 9.0) + rng.normal(0, 1, n),
        }
    )


def test_degrees_are_circular(tmp_path):
    winter, frame = weather()
    model = MCVQ(1, 2, likelihood="auto", random_state=0).fit(frame)
    assert model.kinds_[0] == "degrees"
    holed = frame.assign(wind_dir=np.nan)
    found = model.impute(holed)["wind_dir"].to_numpy()
    away = np.abs((found - np.where(winter, 2.0, 120.0) + 180.0) % 360.0 - 180.0)
    assert away.max() < 8.0
    lower, upper = (end["wind_dir"].to_numpy() for end in model.predict_interval(holed))
    middle = 0.5 * (lower + upper)
    around = middle + (frame["wind_dir"].to_numpy() - middle + 180.0) % 360.0 - 180.0
    assert 0.85 < np.mean((lower <= around) & (around <= upper)) < 0.97
    assert (upper - lower).max() < 90.0
    rows, _ = model.sample(500, random_state=0)
    assert rows["wind_dir"].between(0, 359).all()
    assert (rows["wind_dir"] == rows["wind_dir"].round()).all()
    model.save(tmp_path / "wind.safetensors")
    again = partwise.load(tmp_path / "wind.safetensors").impute(holed)
    pd.testing.assert_frame_equal(again, model.impute(holed))


def test_degrees_are_radians_in_other_units():
    _, frame = weather()
    radians = frame.assign(wind_dir=np.deg2rad(frame["wind_dir"]))
    one = MCVQ(1, 2, likelihood={"wind_dir": "degrees"}, random_state=0).fit(frame)
    two = MCVQ(1, 2, likelihood={"wind_dir": "circular"}, random_state=0).fit(radians)
    # A density per degree is one per radian, in other units.
    shift = np.log(180.0 / np.pi)
    assert_allclose(one.score_samples(frame) + shift, two.score_samples(radians), atol=1e-6)
    ends = [model.reconstruct(X)["wind_dir"] for model, X in ((one, frame), (two, radians))]
    assert_allclose(np.cos(np.deg2rad(ends[0])), np.cos(ends[1]), atol=0.01)  # whole degrees


def test_other_numbers_up_to_360_stay_numbers():
    """Neither the name nor the values alone make a circle; factors take directions as numbers."""
    rng = np.random.default_rng(0)
    uniform = np.rint(rng.uniform(0, 360, 300))
    frame = pd.DataFrame({"score": uniform, "twice": 2 * uniform + rng.normal(0, 20, 300)})
    assert MCVQ(1, 3, likelihood="auto", random_state=0).fit(frame).kinds_[0] == "gaussian"
    half = frame.rename(columns={"score": "heading"}).assign(heading=uniform / 2)
    assert MCVQ(1, 3, likelihood="auto", random_state=0).fit(half).kinds_[0] == "gaussian"
    _, wind = weather()
    assert MCFA(1, 1, likelihood="auto", random_state=0).fit(wind).kinds_[0] == "gaussian"
    holed = wind.assign(wind_dir=wind["wind_dir"].where(np.arange(300) % 5 > 0))
    imputer = PartsImputer(1, 2, n_factors=1, random_state=0).fit(holed)
    assert imputer.model_.kinds_[0] == "gaussian"
    for end in imputer.predict_interval(holed):
        assert end["wind_dir"].between(0, 360).all()
    with pytest.raises(ValueError, match="needs angles from -360 to 360"):
        MCVQ(1, 2, likelihood={"wind_dir": "degrees"}).fit(wind.assign(wind_dir=400.0))
