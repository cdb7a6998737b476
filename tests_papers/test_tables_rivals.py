"""The comparison on real tables, on a drawn one so small that it takes seconds."""

import numpy as np
import pytest

from partwise_papers.bench import _rivals, tables_rivals
from partwise_papers.bench._rivals import Rival

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
    density = {"size": np.zeros(3), "kind": np.full(2, -1.0)}
    told = trial.log_density(density, False)
    np.testing.assert_allclose(scaled.log_density(density, False), told + np.log(10.0))
    np.testing.assert_array_equal(trial.log_density(density, True), [-1.0, -1.0])


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


def test_rivals_are_judged_beside_ours_and_absent_ones_named(table, monkeypatch):
    kept = {name: _rivals.RIVALS[name] for name in ("KNNImputer", "IterativeImputer")}
    absent = Rival(_rivals.forests, "no_such_module", "some-package")
    monkeypatch.setattr(tables_rivals, "RIVALS", kept | {"absent": absent})
    masks = {name: tables_rivals.MASKS[name] for name in ("at random",)}
    monkeypatch.setattr(tables_rivals, "MASKS", masks)
    monkeypatch.setattr(
        tables_rivals, "TABLES", {"iris": lambda: table, "again": lambda: table[:100]}
    )
    rows = tables_rivals.tables_rivals(lambda text: None)
    methods = [*tables_rivals.OURS, *kept]
    assert [row["method"] for row in rows[:-1]] == 3 * methods
    assert "pip install some-package" in rows[-1]["method"]
    for row in rows[:4]:
        assert row["RMSE"] < 0.6
        assert row["right (%)"] > 80
    assert [row["columns"] for row in rows if "columns" in row] == [4, 4, 4, 4, 8, 8]
    assert rows[8]["CPU seconds"] == pytest.approx(rows[0]["CPU seconds"] + rows[4]["CPU seconds"])
    assert min(rows[i]["log-loss"] for i in (0, 4)) <= rows[8]["log-loss"] < 1.0
    ratio = rows[2]["CPU seconds"] / rows[1]["CPU seconds"]
    assert rows[2]["times PartsImputer, four fits"] == pytest.approx(ratio)
