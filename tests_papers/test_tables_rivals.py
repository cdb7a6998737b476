"""The comparison on real tables, on a drawn one so small that it takes seconds."""

import numpy as np
import pytest

from partwise_papers.bench import _rivals, tables_rivals
from partwise_papers.bench._rivals import Rival
from partwise_papers.registry import Setting

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


def test_numbers_and_back(table):
    holes = tables_rivals.Trial(table).holes
    numbers = _rivals._Numbers(_rivals.Holes(table, {}, holes.levels))
    pd.testing.assert_frame_equal(numbers.table_of(numbers.coded().to_numpy()), table)
    spread = numbers.spread_out()
    assert spread.shape == (120, 6)
    pd.testing.assert_frame_equal(numbers.table_of(numbers.gathered(spread)), table)
    text = holes.as_text()
    assert set(text.table["answer"].dropna()) == {"1", "2", "3"}
    np.testing.assert_array_equal(text.cells["answer"][1].astype(float), holes.cells["answer"][1])


def test_coverage_and_the_classifier(table):
    trial = tables_rivals.Trial(table)
    ends = {}
    for name in ("size", "width"):
        true = trial.holes.cells[name][1].astype(float)
        low = true - 1.0
        low[::2] = true[::2] + 0.5  # half of the intervals miss
        ends[name] = low, true + 1.0
    found = trial.covered({0.5: ends})["covered by 50 %"]
    n = [len(low) for low, _ in ends.values()]
    assert found == pytest.approx(100.0 * sum(k // 2 for k in n) / sum(n))
    asked = []

    def complete(holes):
        asked.append(holes)
        return _rivals.Filled(table[list(holes.table)], 0.0)

    # The last column of levels follows from the others, and is not shown to the imputer.
    assert trial.classified(complete) == 100.0
    assert list(asked[0].table) == ["kind", "size", "width"]
    assert 60 < asked[0].taught.sum() < 100
    nothing = table.assign(kind="a", size=0.0, width=0.0).drop(columns="answer")
    assert trial.classified(lambda holes: _rivals.Filled(nothing, 0.0)) < 80.0


@pytest.mark.parametrize(
    "method", ["PartsImputer", "KNNImputer", "IterativeImputer", "random forests"]
)
def test_rows_that_are_not_taught_change_nothing_in_the_others(table, method, monkeypatch):
    monkeypatch.setattr(_rivals, "N_TREES", 3)
    fill = {**{m: r.fill for m, r in _rivals.RIVALS.items()}, "PartsImputer": tables_rivals.ours}
    holes = tables_rivals.Trial(table).holes
    taught = np.arange(120) < 80
    other = holes.table.copy()
    other.loc[80:, "size"] = 100.0
    given = (holes.table, other)
    first, second = (fill[method](_rivals.Holes(t, {}, holes.levels, taught)).table for t in given)
    pd.testing.assert_frame_equal(first[:80], second[:80])
    known = holes.table["kind"].notna()
    assert (first["kind"] == holes.table["kind"])[known].all()


@pytest.fixture
def small(table, monkeypatch):
    """Two tables, one mask, two rivals and one that is absent."""
    kept = {name: _rivals.RIVALS[name] for name in ("KNNImputer", "IterativeImputer")}
    absent = Rival(_rivals.forests, "no_such_module", "some-package")
    monkeypatch.setattr(tables_rivals, "RIVALS", kept | {"absent": absent})
    masks = {name: tables_rivals.MASKS[name] for name in ("at random",)}
    monkeypatch.setattr(tables_rivals, "MASKS", masks)
    tables = {"iris": lambda: table[:80], "again": lambda: table[:60]}
    monkeypatch.setattr(tables_rivals, "TABLES", tables)
    return [tables_rivals.OURS, *kept]


@pytest.mark.ci
def test_rivals_are_judged_beside_ours_and_absent_ones_named(small):
    rows = tables_rivals.tables_rivals(Setting())
    assert [row["method"] for row in rows[:-1]] == 3 * small
    assert "pip install some-package" in rows[-1]["data"]
    for row in rows[:9]:
        assert row["RMSE"] < 0.6
        assert row["right (%)"] > 80
    ours, single = rows[0], [row for row in rows[3:9] if row["method"] == small[0]]
    assert ours["tables"] == 2
    assert ours["CPU seconds"] == pytest.approx(sum(row["CPU seconds"] for row in single))
    assert sum(row["rank: RMSE"] for row in rows[:3]) == pytest.approx(6.0)
    assert min(row["worst: RMSE"] for row in rows[:3]) >= 1.0
    ratio = rows[1]["CPU seconds"] / ours["CPU seconds"]
    assert rows[1]["time, theirs / ours"] == pytest.approx(ratio)


def test_ranks_and_the_worst_table():
    rows = {
        "PartsImputer": [{"RMSE": 1.0, "CPU seconds": 1.0}, {"RMSE": 3.0, "CPU seconds": 1.0}],
        "other": [{"RMSE": 2.0, "CPU seconds": 2.0}, {"RMSE": 2.0, "CPU seconds": 2.0}],
        "broken": [{"RMSE": 0.5, "CPU seconds": 2.0}, {"failed": "of itself"}],
    }
    ours, other, broken = tables_rivals.summary(rows)
    assert [ours["rank: RMSE"], other["rank: RMSE"], broken["rank: RMSE"]] == [2.0, 2.0, 2.0]
    assert [ours["worst: RMSE"], other["worst: RMSE"], broken["worst: RMSE"]] == [2.0, 4.0, 1.0]
    assert other["time, theirs / ours"] == 2.0
    assert broken["failed"] == 1
    assert "time, theirs / ours" not in broken


@pytest.mark.ci
def test_measurements_are_kept_and_not_made_again(small, tmp_path, monkeypatch):
    setting = Setting(resume=tmp_path)
    rows = tables_rivals.tables_rivals(setting)
    assert len(list(tmp_path.glob("*.json"))) == 6
    next(tmp_path.glob("again*KNN*")).unlink()
    monkeypatch.setattr(tables_rivals, "measured", None)
    setting.minutes = 0.0
    fewer = tables_rivals.tables_rivals(setting)
    assert [row["tables"] for row in fewer[:3]] == [1, 1, 1]
    assert len(fewer) == len(rows) - 1


@pytest.mark.ci
def test_chained_forests_know_levels_by_their_votes(table):
    holes = tables_rivals.Trial(table).holes
    filled = _rivals.RIVALS["random forests"].fill(holes)
    for name, log_p in filled.density.items():
        rows, true = holes.cells[name]
        right = np.asarray(filled.table[name])[rows] == true
        assert np.exp(log_p[right]).min() >= 1 / 3
        assert len(log_p) == len(rows)
    assert set(filled.density) == {"kind", "answer"}
    assert not filled.table.isna().any().any()
