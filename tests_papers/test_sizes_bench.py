"""The benches of automatic sizes, on tables so small that they take seconds."""

import numpy as np
import pytest

from partwise_papers.bench import _lace, sizes_grid, sizes_lace


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=(80, 2))
    return kind.repeat(4, axis=1) + 0.2 * rng.normal(size=(80, 8))


@pytest.mark.ci
def test_the_grid_is_chosen_by_cells_and_compared(table):
    told = []
    problem = sizes_grid.Problem(table, "gaussian", (1, 2), (2, 3))
    row = sizes_grid.compare("small", problem, told.append)
    assert row["best of the grid"] == "2x3"
    assert row["automatic"] == "2 x 3 to 3"
    assert len(told) == 5
    assert row["grid / automatic"] == pytest.approx(row["grid (s)"] / row["automatic (s)"])
    # Both have the truth: they may differ by what the priors say.
    assert abs(row["grid: cells"] - row["automatic: cells"]) < 0.2
    trial = sizes_grid.Trial(problem)
    assert len(trial.rows) == 8
    assert len(trial.train) + len(trial.test) == 72 * 8


@pytest.mark.ci
@pytest.mark.parametrize("categories", [False, True])
def test_without_lace_ours_are_measured_and_it_is_said(table, categories, monkeypatch):
    monkeypatch.setattr(_lace, "is_installed", lambda: False)
    X = np.rint(table).clip(0, 2) if categories else table
    rows = sizes_lace.compare("small", sizes_lace.Problem(X, categories), lambda text: None)
    assert "pip install pylace" in rows[-1]["method"]
    measure = "imputed wrongly (%)" if categories else "RMSE (deviations)"
    assert all(np.isfinite(row[measure]) for row in rows[:-1])


class _Column(list):
    def to_numpy(self):
        return np.array(self, dtype=float)


class _Chains:
    """Stands in for Lace: scores settle after a while, everything is 1 and costs 2 nats."""

    def __init__(self, scores):
        self.scores, self.n = scores, 0

    def update(self, n, quiet):
        self.n += n

    def diagnostics(self, name):
        level = self.scores[min(self.n // _lace.ROUND, len(self.scores)) - 1]
        return type("Frame", (), {"to_numpy": lambda _: np.full((self.n, 2), level)})()

    def surprisal(self, column, rows, values):
        assert len(rows) == len(values)
        return {"surprisal": _Column([2.0] * len(rows))}

    def impute(self, column, rows, with_uncertainty):
        return {column: _Column([1.0] * len(rows))}


def test_chains_run_until_their_scores_settle(table):
    trial = sizes_lace.Trial("small", sizes_lace.Problem(table))
    lace = object.__new__(_lace.Lace)
    lace.n_cells = len(trial.train)
    lace.engine = _Chains(np.array([-5.0, -4.0, -3.9999, -3.5, -3.5, -3.5]) * lace.n_cells)
    assert lace.settle(lambda text: None) == 6 * _lace.ROUND
    density, error = trial.judge(lace)
    np.testing.assert_array_equal(density, -2.0)
    np.testing.assert_allclose(error, 1.0 - trial.test.values)
