"""MCFA's parts and factors from the evidence."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from partwise import MCFA, RowSource, SizeOptions, load
from partwise.plot import SizePathDisplay
from tests.common.factors import drawn_factors
from tests.common.helpers import assert_never_falls

SIZES = (1, 2, 1)


def planted(seed=0, n_rows=300, missing=0.0, n_noise=2):
    rng = np.random.default_rng(seed)
    X, parts, _ = drawn_factors(rng, n_rows, SIZES, width=8, missing=missing)
    noise = rng.normal(size=(n_rows, n_noise))
    return np.hstack([X, noise]), np.append(parts, [-1] * n_noise)


def accepted(model):
    return [move for move in model.size_path_ if move["accepted"]]


@pytest.fixture(scope="module")
def model():
    return MCFA("auto", "auto", random_state=0).fit(planted()[0])


def test_planted_parts_and_factors_are_found(model):
    parts = planted()[1]
    assert model.n_parts_ == 3
    assert adjusted_rand_score(parts, model.parts_) == 1.0
    assert_array_equal(model.parts_[parts == -1], -1)
    own = [model.parts_[parts == k][0] for k in range(3)]
    assert_array_equal(model.n_factors_[own], SIZES)


def test_evidence_never_falls_and_the_fit_goes_on_from_it(model):
    path = accepted(model)
    assert_never_falls([move["evidence"] for move in path] + [path[-1]["evidence"]])
    for before, after in pairwise(path):
        assert_allclose(after["evidence"] - before["evidence"], after["gain"], rtol=1e-6)
    last = model.size_path_[-1]
    assert last["n_parts"] == model.n_parts_ == len(last["n_factors"])
    # Gates that are nearly closed cost a little.
    assert model.lower_bound_ > last["evidence"] / 300 - 0.1
    refused = [move for move in model.size_path_ if not move["accepted"]]
    assert all(move["gain"] <= 0 for move in refused)


@pytest.mark.ci
@pytest.mark.parametrize("missing", [pytest.param(0.0, marks=pytest.mark.slow), 0.2])
def test_other_seeds_and_holes(missing):
    X, parts = planted(seed=3, n_rows=200, missing=missing)
    found = MCFA("auto", "auto", random_state=1).fit(X)
    assert found.n_parts_ == 3
    assert adjusted_rand_score(parts, found.parts_) == 1.0


@pytest.mark.ci
def test_one_of_both_may_be_given():
    X, _ = planted(seed=1, n_rows=150)
    some = MCFA("auto", 2, random_state=0).fit(X)
    assert some.n_parts_ == 3
    assert all(size <= 2 for size in some.size_path_[-1]["n_factors"])
    two = MCFA(2, "auto", random_state=0).fit(X)
    assert two.n_parts_ == 2
    assert two.gates_.shape[1] == 2


@pytest.mark.slow
def test_rows_in_blocks_and_threads_find_the_same(model, monkeypatch):
    monkeypatch.setattr("partwise.data.source.BLOCK_BYTES", 1 << 12)
    X, _ = planted()
    other = MCFA("auto", "auto", random_state=0, n_jobs=2).fit(X)
    assert_array_equal(other.parts_, model.parts_)
    assert_allclose(other.lower_bound_, model.lower_bound_, rtol=1e-6)


@pytest.mark.slow
def test_weights_are_repetition():
    X, _ = planted(n_rows=120, n_noise=0)
    weight = np.ones(120)
    weight[:40] = 2
    twice = np.vstack([X, X[:40]])
    one = MCFA("auto", "auto", random_state=0).fit(X, sample_weight=weight)
    two = MCFA("auto", "auto", random_state=0).fit(twice)
    assert one.n_parts_ == two.n_parts_
    assert_allclose(one.lower_bound_, two.lower_bound_, rtol=1e-3)


@pytest.mark.ci
def test_sparse_classes_and_files(model, tmp_path):
    X, _ = planted(n_rows=100, missing=0.2)
    stored = np.nan_to_num(X)
    y = (stored[:, 0] > 0).astype(int)
    found = MCFA("auto", "auto", random_state=0).fit(sparse.csr_array(stored), y)
    assert found.predict(stored[:5]).shape == (5,)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.n_parts_ == model.n_parts_
    assert len(again.size_path_) == len(model.size_path_)
    X, _ = planted()
    assert_allclose(again.transform(X), model.transform(X))
    assert SizePathDisplay.from_estimator(again).ax_.texts[-1].get_text().startswith("3×")


def test_no_structure_is_said():
    X = np.random.default_rng(0).normal(size=(100, 6))
    with pytest.warns(UserWarning, match="no column depends on another"):
        found = MCFA("auto", "auto", random_state=0).fit(X)
    assert_array_equal(found.parts_, -1)
    for verb in (found.transform, found.reconstruct, found.score_samples, found.anomaly_scores):
        assert np.isfinite(verb(X)).all()
    assert found.sample(3)[0].shape == (3, 6)


def test_time_runs_out_and_bad_sizes():
    X, _ = planted()
    with pytest.warns(ConvergenceWarning, match="reached max_time"):
        found = MCFA("auto", "auto", max_time=1e-3, random_state=0).fit(X)
    assert found.score(X) < np.inf
    for how in ({"prior": None}, {"gating": "factorised"}, {"init": "random"}):
        with pytest.raises(ValueError, match='n_parts="auto"'):
            MCFA("auto", "auto", **how).fit(X)
    whole = MCFA("auto", "auto", sizes=SizeOptions(sample=None))
    with pytest.raises(ValueError, match="outside of memory"):
        whole.fit(RowSource([X[:150], X[150:]]))
    with pytest.raises(ValueError, match="one number per part"):
        MCFA("auto", [2, 3]).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert MCFA("auto", "auto", random_state=0).fit(X[:, :1]).n_parts_ == 1


@pytest.mark.filterwarnings("ignore::UserWarning")  # that nothing depends on anything
def test_sizes_of_columns_that_never_change():
    model = MCFA("auto", "auto", random_state=0).fit(np.ones((10, 3)))
    assert np.isfinite(model.reconstruct(np.ones((10, 3)))).all()


@pytest.mark.ci
def test_sizes_on_a_sample_of_rows_in_memory_or_not(monkeypatch):
    monkeypatch.setattr("partwise.fitting.options.SAMPLE_ROWS", 150)
    X, parts = planted()
    sample = SizeOptions(sample=X.shape[1] * 150, max_states=1)
    found = MCFA("auto", "auto", sizes=sample, random_state=0).fit(X)
    assert adjusted_rand_score(parts, found.parts_) > 0.95
    assert found.n_samples_seen_ == len(X)
    assert found.n_factors_.max() == 1
    outside = MCFA("auto", "auto", sizes=sample, random_state=0).fit(RowSource([X[:150], X[150:]]))
    assert_array_equal(outside.parts_, found.parts_)
    assert_allclose(outside.lower_bound_, found.lower_bound_, rtol=1e-6)
