"""Drift: tests against scipy, corrected p-values, power, false alarms, and files."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import chi2_contingency
from typer.testing import CliRunner

import partwise
from partwise import CVQ, MCFA, MCVQ, drift, make_survey
from partwise.answers.drift import holm, homogeneity
from partwise.cli import app
from partwise.fitted import fitted_of
from partwise.models.reference import N_BINS, binned, count, edges_between
from partwise.plot import DriftDisplay


def rows(n, seed, D=12):
    """Two parts of states, and background columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    means = np.random.default_rng(7).normal(0, 1.5, size=(2, 3, 4))
    for k in range(2):
        X[:, 4 * k : 4 * k + 4] += means[k][rng.integers(3, size=n)]
    return X


@pytest.fixture(scope="module")
def model():
    return MCVQ(2, 3, random_state=0).fit(rows(1500, 0))


def test_the_test_is_that_of_contingency_tables():
    before, now = np.array([40.0, 60.0, 25.0]), np.array([55.0, 40.0, 30.0])
    expected = chi2_contingency(np.stack([before, now]), correction=False).pvalue
    assert homogeneity(before, now) == pytest.approx(expected, rel=1e-12)
    # Rare bins are merged, empty ones left out, and nothing is compared with nothing.
    merged = chi2_contingency([[40, 60, 3], [55, 40, 9]], correction=False).pvalue
    found = homogeneity(np.array([40.0, 60.0, 1, 0, 2]), np.array([55.0, 40.0, 4, 0, 5]))
    assert found == pytest.approx(merged, rel=1e-12)
    assert homogeneity(np.zeros(3), now) == 1.0
    assert homogeneity(np.array([9.0]), np.array([3.0])) == 1.0


def test_holm():
    p = np.array([0.5, 0.001, 0.02, 0.02])
    np.testing.assert_allclose(holm(p), [0.5, 0.004, 0.06, 0.06])
    assert holm([]).tolist() == []
    assert holm([0.9, 0.8]).max() <= 1.0


def test_bins_of_few_values_of_many_and_of_missing_ones():
    rng = np.random.default_rng(0)
    X = np.stack([rng.integers(3, size=1200), rng.normal(size=1200), np.full(1200, 5.0)], axis=1)
    X[:300, 1] = np.nan
    edges, counts = binned(X, np.ones(1200))
    assert (edges[0] < np.inf).sum() == 2
    assert counts[0, :3].sum() == 1200
    np.testing.assert_allclose(counts[1, :N_BINS], 900 / N_BINS, atol=1)
    assert counts[1, N_BINS] == 300
    assert counts[2, 0] == 1200
    # An integer weight is repetition; the effective number of rows is that of equal weights.
    np.testing.assert_allclose(count(X, np.full(1200, 3.0), edges), counts)


def test_a_shift_is_found_and_named(model):
    new = rows(1500, 1)
    assert drift(model, new).drifted == []
    new[:, 9] += 0.5
    found = drift(model, new)
    assert found.drifted[0] == "x9"
    table = found.to_frame()
    assert table["name"][0] == "x9"
    assert table["p_adjusted"].is_sorted()
    assert 0.1 < table["distance"][0] < 0.4
    assert "x9" in repr(found)
    assert "x9" in found._repr_html_()


def test_missing_values_and_parts(model):
    new = rows(1500, 2)
    new[:300, 10] = np.nan
    found = drift(model, new)
    assert "x10" in found.drifted
    assert found.missing_now[10] == pytest.approx(0.2)
    # Columns that lost their dependence keep their marginals: only the part's scores tell.
    new = rows(1500, 3)
    rng = np.random.default_rng(0)
    for d in range(4):
        new[:, d] = rng.permutation(new[:, d])
    found = drift(model, new)
    part = int(model.parts_[0])
    assert found.drifted == [f"part{part}"]


def test_scores_are_of_held_out_rows():
    """A model that overfits gives no alarm of its parts on rows of the same distribution."""
    X = np.random.default_rng(0).normal(size=(2400, 10))
    model = MCVQ(1, 8, prior=None, init="random", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X[:600])
    found = drift(model, X[600:])
    assert "part0" not in found.drifted
    reference = fitted_of(model).reference
    inside = count(model.anomaly_scores(X[:600]), np.ones(600), reference.part_edges)
    upper = slice(N_BINS // 2, N_BINS)  # where rows that the model did not learn are more often
    assert inside[0, upper].sum() < reference.part_counts[0, upper].sum() - 10


@pytest.mark.slow
def test_false_alarms_are_rare():
    """Without a change, 1 % of samples may alarm; 20 of them with 12 columns and 2 parts."""
    alarms = 0
    for seed in range(20):
        model = MCVQ(2, 3, max_iter=30, random_state=0).fit(rows(400, 100 + seed))
        alarms += bool(drift(model, rows(400, 500 + seed)).drifted)
    assert alarms <= 2  # more has a probability of 0.1 %


def test_tables_files_and_the_command(tmp_path):
    frame = make_survey(900, n_parts=2, n_columns_per_kind=1, missing=0.1, random_state=0).frame
    model = MCVQ(2, 4, likelihood="auto", random_state=0).fit(frame[:450])
    assert drift(model, frame[450:]).drifted == []
    path, data = tmp_path / "m.safetensors", tmp_path / "new.csv"
    model.save(path)
    loaded = partwise.load(path)
    changed = frame[450:].copy()
    changed["group0"] = "a"
    for one in (model, loaded):
        assert drift(one, changed).drifted[0] == "group0"
        assert drift(one, pl.from_pandas(changed)).drifted[0] == "group0"
    reference = fitted_of(loaded).reference
    np.testing.assert_array_equal(reference.counts, fitted_of(model).reference.counts)

    changed.to_csv(data, index=False)
    result = CliRunner().invoke(app, ["drift", str(path), str(data)])
    assert result.exit_code == 3, result.stderr
    assert result.stdout.splitlines()[1].startswith("group0")
    frame[450:].to_csv(data, index=False)
    result = CliRunner().invoke(app, ["drift", str(path), str(data), "-o", str(tmp_path / "d.csv")])
    assert result.exit_code == 0, result.stderr


def test_columns_are_found_by_name():
    X = pd.DataFrame(rows(400, 0, 9), columns=list("abcdefghi"))
    model = MCFA(2, 1, random_state=0).fit(X)
    new = pd.DataFrame(rows(400, 1, 9), columns=list("abcdefghi"))
    new["i"] += 2.0
    assert drift(model, new[list("ihgfedcba")]).drifted[0] == "i"


def test_what_has_no_reference_is_refused(model):
    with pytest.raises(ValueError, match="has no reference distribution"):
        drift(CVQ(2, 2, random_state=0).fit(rows(60, 0)), rows(60, 1))
    with pytest.raises(ValueError, match="alpha=0 must be between"):
        drift(model, rows(60, 1), alpha=0)
    with pytest.raises(ValueError, match="X has 3 columns"):
        drift(model, rows(60, 1)[:, :3])


def test_the_picture(model):
    new = rows(1500, 1)
    new[:, 9] += 0.5
    ax = DriftDisplay(drift=drift(model, new)).plot(n_shown=5).ax_
    assert len(ax.patches) == 5
    assert ax.get_yticklabels()[-1].get_text() == "x9"


def test_no_edge_lies_beside_a_pile_of_equal_scores():
    # Discrete columns give few scores, which every fit moves a little: with edges at quantiles,
    # a pile changes its bin whenever the fit changes, and every later row is called different.
    rng = np.random.default_rng(0)
    piles = rng.choice([-3.0, -2.4, 0.1, 0.15, 4.0], p=[0.4, 0.3, 0.1, 0.1, 0.1], size=1000)
    continuous = rng.normal(size=1000)
    scores = np.stack([piles, np.where(piles < 4, piles, 4 + continuous), continuous], axis=1)
    fold = np.arange(1000) % 4
    held_out = scores + 0.01 * np.array([1.0, -1.0, 2.0, -2.0])[fold, None]
    edges = edges_between(scores, held_out)
    before, now = (count(values, np.ones(1000), edges) for values in (held_out, scores))
    assert np.abs(before[0] - now[0]).max() == 0
    assert np.abs(before[1] - now[1]).max() < 10
    assert np.isfinite(edges[2]).all()  # a continuous score has all bins
    at_quantiles = binned(held_out, np.ones(1000))[0]
    moved = count(held_out, np.ones(1000), at_quantiles) - count(
        scores, np.ones(1000), at_quantiles
    )
    assert np.abs(moved[0]).max() > 50
