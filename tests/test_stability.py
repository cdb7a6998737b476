"""Do parts that are there come back, and parts of noise not?"""

import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import NotFittedError

from partwise import CVQ, MCFA, MCVQ, ObservedCells, Prior, part_stability
from partwise import stability as module
from tests.reference import stability as reference


def planted(rng, n_noise=0, C=300):
    """Two parts of six columns with three states each, then columns of noise."""
    blocks = []
    for _ in range(2):
        means = rng.permuted(np.tile([[-2.0], [0.0], [2.0]], 6), axis=0)
        blocks.append(means[rng.integers(3, size=C)] + 0.3 * rng.normal(size=(C, 6)))
    return np.hstack([*blocks, rng.normal(size=(C, n_noise))])


def divisions(rng, D, K):
    return rng.integers(-1, K, D), rng.integers(-1, K, D)


@pytest.mark.parametrize("seed", range(5))
def test_matching_and_companions_equal_sets(seed):
    rng = np.random.default_rng(seed)
    parts, refit = divisions(rng, 12, int(rng.integers(1, 5)))
    if parts.max() >= 0 <= refit.max():
        assert_allclose(module._jaccard(parts, refit).sum(), reference.matched(parts, refit).sum())
    assert_allclose(module._companions(parts, refit), reference.companions(parts, refit))


def test_chance_is_that_of_shuffled_columns(monkeypatch):
    monkeypatch.setattr(module, "N_SHUFFLES", 4000)
    parts, refit = np.array([0, 0, 0, 1, 1, -1]), np.array([1, 1, 0, 0, 0, 0])
    found = module._matched(parts, 3, refit, np.random.default_rng(0))
    level = reference.chance(parts, refit)
    expected = (reference.matched(parts, refit) - level) / (1 - level)
    assert_allclose(found[:2], np.maximum(expected, 0.0), atol=0.03)
    assert np.isnan(found[2])  # a part without columns


def test_divisions_that_agree_or_say_nothing():
    rng = np.random.default_rng(0)
    parts = np.repeat([0, 1, 2], 5)
    assert_allclose(module._matched(parts, 3, (parts + 1) % 3, rng), 1.0)
    assert_allclose(module._matched(np.zeros(4, int), 1, np.zeros(4, int), rng), 1.0)
    assert_allclose(module._matched(parts, 3, np.full(15, -1), rng), 0.0)
    assert_allclose(module._matched(np.full(3, -1), 1, np.zeros(3, int), rng), np.nan)
    shuffled = [module._matched(parts, 3, rng.permutation(parts), rng).mean() for _ in range(200)]
    assert np.mean(shuffled) < 0.1


@pytest.mark.ci
@pytest.mark.parametrize("resample", ["halves", "bootstrap", "seeds"])
def test_planted_parts_come_back(resample):
    rng = np.random.default_rng(0)
    X = planted(rng, C=600)
    model = MCVQ(2, 3, random_state=0).fit(X)
    found = part_stability(model, X, n_fits=4, resample=resample, random_state=0)
    assert_allclose(found.part_agreement, 1.0)
    assert_allclose(found.column_agreement, 1.0)
    assert_allclose(found.co_assignment(), model.parts_[:, None] == model.parts_)
    assert_array_equal(found.n_parts, 2)
    assert found.refits.shape == (4, 12)
    assert found.part_agreements.shape == (4, 2)


@pytest.mark.ci
def test_a_part_of_noise_does_not():
    """Columns that a single row binds together come back with that row only."""
    rng = np.random.default_rng(1)
    X = planted(rng, n_noise=6)
    X[17, 12:] = 30.0
    model = MCVQ(3, 3, random_state=0).fit(X)
    odd, real = model.parts_[12], model.parts_[[0, 6]]
    assert_array_equal(np.flatnonzero(model.parts_ == odd), np.arange(12, 18))
    found = part_stability(model, X, n_fits=8, random_state=0)
    # Half of the rows have it half of the time; without it another part is cut in two.
    assert 0.1 < found.part_agreement[odd] < 0.8
    assert found.part_agreement[odd] < found.part_agreement[real].min()
    assert found.column_agreement[12:].max() < 0.9
    sure = part_stability(model, X, n_fits=2, resample="seeds", random_state=0)
    assert_allclose(sure.part_agreement, 1.0)


def test_columns_in_another_order_have_the_same_agreement():
    rng = np.random.default_rng(2)
    parts, refit = divisions(rng, 30, 4)
    order, names = rng.permutation(30), np.append(rng.permutation(4), -1)
    moved = names[parts[order]], names[refit[order]]
    assert_allclose(module._jaccard(*moved)[names[:4]], module._jaccard(parts, refit))
    assert_allclose(module._companions(*moved), module._companions(parts, refit)[order])


@pytest.mark.ci
def test_every_kind_of_input():
    rng = np.random.default_rng(3)
    X = planted(rng, C=60)
    X[rng.random(X.shape) < 0.1] = np.nan
    how = {"n_fits": 2, "random_state": 0}
    model = MCVQ(2, 3, random_state=0).fit(X)
    found = part_stability(model, X, **how)
    for same in (ObservedCells(X), X.tolist()):
        assert_allclose(part_stability(model, same, **how).part_agreement, found.part_agreement)
    frame = pd.DataFrame(X, columns=[f"c{d}" for d in range(X.shape[1])])
    named = MCVQ(2, 3, random_state=0).fit(frame)
    assert_array_equal(part_stability(named, frame, **how).refits, found.refits)
    factors = MCFA(2, 2, random_state=0).fit(X)
    assert part_stability(factors, X, **how).part_agreement.shape == (2,)
    levels = sparse.csr_array(1.0 + (np.nan_to_num(X) > 0))
    ratings = MCVQ(2, 3, likelihood="categorical", random_state=0).fit(levels)
    assert part_stability(ratings, levels, **how).refits.shape == (2, 12)


def test_weights_are_repetition_and_labels_are_kept_together():
    rng = np.random.default_rng(4)
    weight, label = np.array([2.0, 0.0, 1.0, 1.0, 3.0]), np.array([0, 0, 0, 1, 1])
    for resample, n in (("bootstrap", 2), ("halves", 1)):
        drawn = module._resampled(weight, label, resample, rng)
        assert drawn[1] == 0.0
        counts = drawn / np.where(weight > 0, weight, 1.0)
        assert counts[:3].sum() == counts[3:].sum() == n
    X = planted(rng, C=200)
    y = np.where(X[:, 0] > np.median(X[:, 0]), "high", "low")
    model = MCVQ(2, 3, random_state=0).fit(X, y)
    found = part_stability(model, X, y, n_fits=2, sample_weight=np.ones(200), random_state=0)
    assert_allclose(found.part_agreement, 1.0)


def test_seeds_without_a_start_by_dependence_may_differ():
    """Fits from random starts are told apart, and the same random_state gives the same."""
    rng = np.random.default_rng(5)
    X = planted(rng, n_noise=6, C=100)
    how = {"init": "random", "prior": Prior(), "gating": "tied"}
    model = MCVQ(3, 3, random_state=1, **how).fit(X)
    runs = [part_stability(model, X, n_fits=3, resample="seeds", random_state=7) for _ in range(2)]
    assert_array_equal(runs[0].refits, runs[1].refits)
    assert np.any(runs[0].refits != runs[0].refits[0])


def test_progress_is_shown_when_asked(capsys):
    X = planted(np.random.default_rng(6), C=100)
    model = MCVQ(2, 2, random_state=0).fit(X)
    part_stability(model, X, n_fits=1, resample="seeds", random_state=0)
    assert capsys.readouterr().err == ""
    part_stability(model, X, n_fits=1, resample="seeds", random_state=0, verbose=1)
    assert re.search(r"1/1 fits\s+agreement", capsys.readouterr().err)


def test_what_is_refused():
    X = planted(np.random.default_rng(7), C=50)
    with pytest.raises(NotFittedError):
        part_stability(MCVQ(), X)
    model = MCVQ(2, 2, random_state=0).fit(X)
    with pytest.raises(ValueError, match="resample='jackknife'"):
        part_stability(model, X, resample="jackknife")
    with pytest.raises(ValueError, match="n_fits=0"):
        part_stability(model, X, n_fits=0)
    with pytest.raises(ValueError, match="fitted to 12 columns"):
        part_stability(model, X[:, :3])
    with pytest.raises(TypeError, match="CVQ has no parts of columns"):
        part_stability(CVQ(2, 2, tol=1e9, random_state=0).fit(X), X)
