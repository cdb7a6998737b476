"""The comparison on real tables, on a drawn one so small that it takes seconds."""

import numpy as np
import pytest

from partwise.bench import _rivals, tables_rivals
from partwise.bench._rivals import Rival

pd = pytest.importorskip("pandas")


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=120)
    return pd.DataFrame(
        {
            "kind": np.array(["a", "b", "c"], dtype=object)[kind],
            "size": 5.0 * kind + rng.normal(size=120),
            "width": 3.0 * kind + rng.normal(size=120),
            "answer": kind + 1.0,
        }
    )


def test_hidden_cells_are_judged_in_deviations_and_by_the_nearest_level(table):
    trial = tables_rivals.Trial(table)
    assert set(trial.levels) == {"kind", "answer"}
    rows, true = trial.holes.cells["size"]
    assert trial.holes.table["size"].isna().sum() == len(rows)
    np.testing.assert_array_equal(true, table["size"].to_numpy()[rows])
    assert set(trial.losses(table).values()) == {0.0, 1.0}
    off = table.assign(answer=table["answer"] + 0.4, size=table["size"] + table["size"].std(ddof=0))
    losses = trial.losses(off)
    assert losses["answer"] == 1.0
    assert losses["size"] == pytest.approx(1.0)
    # A density does not depend on the unit once it is in deviations.
    scaled = tables_rivals.Trial(table.assign(size=10.0 * table["size"]))
    density = {"size": np.zeros(3)}
    assert scaled.log_loss(density) == pytest.approx(trial.log_loss(density) - np.log(10.0))


def test_near_the_best(table):
    trial = tables_rivals.Trial(table)
    ours = {"kind": 0.88, "answer": 0.97, "size": 1.02, "width": 1.04}
    best = {"kind": 0.91, "answer": 1.0, "size": 1.0, "width": 1.0}
    near = trial.near(ours, [best, dict.fromkeys(best, 0.5) | {"size": 2.0, "width": 2.0}])
    assert near == {"kind": False, "answer": True, "size": True, "width": False}


def test_numbers_and_back(table):
    holes = tables_rivals.Trial(table).holes
    numbers = _rivals._Numbers(table)
    pd.testing.assert_frame_equal(numbers.table_of(numbers.coded().to_numpy()), table)
    spread = numbers.spread_out()
    assert spread.shape == (120, 6)
    pd.testing.assert_frame_equal(numbers.table_of(numbers.gathered(spread)), table)
    text = holes.as_text()
    assert set(text.table["answer"].dropna()) == {"1", "2", "3"}
    np.testing.assert_array_equal(text.cells["answer"][1].astype(float), holes.cells["answer"][1])


def test_what_is_not_installed_is_said(table, monkeypatch):
    kept = {name: _rivals.RIVALS[name] for name in ("KNNImputer", "IterativeImputer")}
    absent = Rival(_rivals.forests, "no_such_module", "some-package")
    monkeypatch.setattr(tables_rivals, "RIVALS", kept | {"absent": absent})
    rows, near = tables_rivals.compare("small", table, lambda text: None)
    assert "pip install some-package" in rows[-1]["method"]
    assert len(near) == 4
    for row in rows[:3]:
        assert row["RMSE"] < 0.6
        assert row["right (%)"] > 80
    assert rows[0]["log-loss"] < 1.0
    told = tables_rivals.overall(rows, near)
    assert [row["method"] for row in told[1:]] == list(kept)
    assert "1 of 1 tables" in told[0]["method"]
