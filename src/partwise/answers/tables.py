"""What an MCVQ fitted to a table of several kinds of columns says, in the user's own terms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from partwise.contracts import Array
from partwise.data import ColumnGroup, RowBlock
from partwise.data.frames import NewColumn, frame_of, index_of
from partwise.data.table import TableColumn
from partwise.likelihoods.predictive import Levels
from partwise.models import dependence as information
from partwise.models import predict

# Profiles: a number is high or low from this many deviations on, a level worth naming from this
# difference of shares on; and words for shares.
TELLING_DEVIATIONS = 0.5
VERY = 1.5
TELLING_SHARE = 0.1
WORDS = ((0.9, "nearly always"), (0.6, "mostly"), (0.3, "often"), (0.0, "at times"))


def describe(estimator: Any) -> None:
    """Set what is learned of a table's columns alone."""
    schema = estimator._schema
    estimator.kinds_ = np.array([column.kind for column in schema.columns])
    named = zip(schema.names, schema.columns, strict=True)
    estimator.column_levels_ = {name: c.levels for name, c in named if c.has_levels}
    estimator.level_shares_ = {}
    for group, law in zip(estimator._columns, estimator._laws(), strict=True):
        if law.probability is not None:
            for i, d in enumerate(group.index):
                shares = estimator._by_part(law.probability[:, :, i].T, np.nan)
                estimator.level_shares_[schema.names[d]] = shares
    for d in np.flatnonzero(estimator.kinds_ == "ignored"):
        estimator.means_[:, :, d] = estimator.variances_[:, :, d] = np.nan


def state_columns(estimator: Any, coded: Array, frame: str) -> list[NewColumn]:
    """State of every part in every row as columns, and the class if there are classes.

    ``frame`` is the kind of table that they are for, as `frame_of` names it.
    """
    polars = frame == "polars"
    dtype = "Int64" if polars else "int64"
    states = estimator._states_of(estimator._posteriors(coded))
    columns = [
        NewColumn(f"part{k}", "number", dtype, states[:, k].astype(float))
        for k in range(estimator.n_parts_)
    ]
    if hasattr(estimator, "classes_"):
        label = estimator._class_proba(coded).argmax(axis=1)
        levels = tuple(estimator.classes_.tolist())
        text = "String" if polars else "object"
        columns.append(NewColumn("class", "level", text, label, levels))
    return columns


def fill(estimator: Any, X: Any, coded: Array, filled: Array) -> Any:
    """X with its holes filled from ``filled``; ``coded`` is X as numbers."""
    if estimator._schema is not None:
        return estimator._schema.fill(X, coded, filled)
    return np.where(np.isnan(coded), filled, coded).astype(estimator._dtype, copy=False)


def draw(
    estimator: Any, coded: Array, generators: Sequence[np.random.Generator]
) -> Iterator[Array]:
    """Rows with their missing entries drawn given the observed ones, once for each generator."""
    posteriors = _posteriors_by_class(estimator, coded)
    row, column = np.nonzero(np.isnan(coded))
    gates, first = np.cumsum(estimator._theta.gates, axis=0), estimator._first
    for rng in generators:
        states = np.empty((len(coded), len(first) - 1), np.int64)
        m = posteriors(rng)
        for k, (lo, hi) in enumerate(pairwise(first)):
            above = np.cumsum(m[:, lo:hi], axis=1, dtype=float)
            u = rng.random((len(coded), 1)) * above[:, -1:]
            states[:, k] = lo + np.minimum((above <= u).sum(axis=1), hi - lo - 1)
        u = rng.random(len(row)) * gates[-1, column]
        part = np.minimum((gates[:, column] <= u).sum(axis=0), len(gates) - 1)
        out = np.where(np.isnan(coded), 0.0, coded)  # zero stays in columns without a model
        for group, law in zip(estimator._columns, estimator._laws(), strict=True):
            place = np.full(coded.shape[1], -1)
            place[group.index] = np.arange(len(group.index))
            own = np.flatnonzero(place[column] >= 0)
            r, d = row[own], column[own]
            value = law.at((states[r, part[own]], place[d])).sample(rng)
            out[r, d] = _decoded(group, value, place[d])
        yield out


def _decoded(group: ColumnGroup, values: Array, columns: Array) -> Array:
    """X's units of model-unit values standing in ``columns`` of the group."""
    if group.levels is not None:
        return group.levels[values.astype(np.int64)]
    return values * group.scale[columns] + group.shift[columns]


def _posteriors_by_class(estimator: Any, coded: Array) -> Any:
    """A function of a generator: posteriors (n, S) to draw states from.

    With classes the states of different parts depend on each other, given the class they do not:
    so the class is drawn first.
    """
    if not hasattr(estimator, "classes_"):
        m = estimator._posteriors(coded)
        return lambda rng: m
    model, prepared = estimator._model, estimator._prepared
    given = np.concatenate(
        estimator._map_rows(coded, lambda block, _: model.propose(prepared, block)), axis=2
    )  # (N, S, n)
    above = np.cumsum(estimator._class_proba(coded), axis=1)

    def choose(rng: np.random.Generator) -> Array:
        u = rng.random((len(coded), 1)) * above[:, -1:]
        label = np.minimum((above <= u).sum(axis=1), above.shape[1] - 1)
        return given[label, :, np.arange(len(coded))]

    return choose


def read_given(estimator: Any, given: Any) -> tuple[Array, Any]:
    """Known cells as rows of numbers, and the rows' index: a mapping is one row, a table several.

    A table may have some of the columns only.
    """
    schema = estimator._schema
    if isinstance(given, Mapping) and not hasattr(given, "shape"):
        if schema is not None:
            return schema.encode_row(given).astype(estimator._dtype), None
        return estimator._one_row(given), None
    if schema is not None and frame_of(given) != "array":
        return schema.encode_some(given).astype(estimator._dtype), index_of(given)
    return estimator._check_rows(given, reset=False), index_of(given)


def place_of(estimator: Any, name: Any) -> int:
    """Place of a column by name or number."""
    if estimator._schema is not None:
        return int(estimator._schema.place(name))
    return int(estimator._place_of(name))


def predict_proba_columns(estimator: Any, coded: Array, places: Sequence[int]) -> dict[int, Array]:
    """Probability of each level in every row, given the row's observed cells: {place: (n, V)}."""
    laws = estimator._laws()
    wanted = []
    for g, (group, law) in enumerate(zip(estimator._columns, laws, strict=True)):
        if law.probability is not None:
            wanted += [(g, i, int(d)) for i, d in enumerate(group.index) if d in set(places)]

    def on_block(block: RowBlock, _: int) -> list[Array]:
        m = estimator._model.infer(estimator._prepared, block)[0]
        found = []
        for g, i, d in wanted:
            law = Levels(laws[g].probability[:, :, i : i + 1])
            gates = estimator._theta.gates[:, d : d + 1]
            average = partial(predict.expectation, m=m, gates=gates, part_of=estimator._part_of)
            shares = law.shares(average)[:, :, 0].T
            found.append(shares / shares.sum(axis=1, keepdims=True))
        return found

    blocks = estimator._map_rows(coded, on_block)
    return {d: np.concatenate([found[i] for found in blocks]) for i, (_, _, d) in enumerate(wanted)}


def likely_level(estimator: Any, place: int, shares: Array) -> Array:
    """The likeliest level of one column (of ordered ones the median), by probabilities (n, V)."""
    group = next(group for group in estimator._columns if place in group.index)
    return group.decode(group.likelihood.family.likely_code(shares.T)[:, None])[:, 0]


# --- structure ---


def dependence(estimator: Any) -> Array:
    """Mutual information of all pairs of columns, (D, D)."""
    gates, first = estimator._theta.gates, estimator._first
    shares, classes = estimator._state_shares(), estimator._class_shares()
    tables: list[Array | None] = [None] * gates.shape[1]
    part_of = estimator._part_of
    for group, law in zip(estimator._columns, estimator._laws(), strict=True):
        for i, d in enumerate(group.index):
            live = np.flatnonzero((gates[part_of, d] > 0) & ((classes @ shares) > 0))
            tables[d] = law.bins(i, live)
    return information.mutual_information(tables, gates, shares, classes, first)


class Feature(NamedTuple):
    """A number, or one level, of a column in the states of its part."""

    name: str
    level: str | None
    values: Array  # mean in X's units, or the level's probability, in each state; (J,)
    usual: float  # the same overall
    away: Array  # the difference in standard deviations, (J,)
    column: TableColumn | None

    def text(self, value: float) -> str:
        """A value as a person would write it."""
        if self.level is not None:
            return f"{value:.0%}"
        return f"{value:.3g}" if self.column is None else self.column.text(value)

    def words(self, j: int) -> str:
        """What is typical of a state, "" if nothing is."""
        here, there = self.text(self.values[j]), self.text(self.usual)
        if self.level is None:
            if abs(self.away[j]) < TELLING_DEVIATIONS:
                return ""
            word = "very " if abs(self.away[j]) > VERY else ""
            word += "high" if self.away[j] > 0 else "low"
            return f"{self.name} {word} ({here}, overall {there})"
        if self.values[j] - self.usual < TELLING_SHARE:
            return ""
        word = next(word for least, word in WORDS if self.values[j] >= least)
        return f'{self.name} {word} "{self.level}" ({here}, overall {there})'


def features(estimator: Any, part: int) -> list[Feature]:
    """What there is to say of a part's states, the columns that they tell most of first."""
    lo, hi = estimator._first[part : part + 2]
    b = (estimator._class_shares() @ estimator._state_shares())[lo:hi]
    b = b / b.sum()
    told = np.diag(estimator.dependence(as_frame=False))
    found: dict[int, list[Feature]] = {}
    for group, law in zip(estimator._columns, estimator._laws(), strict=True):
        for i, d in enumerate(group.index):
            if estimator.parts_[d] != part:
                continue
            column = None if estimator._schema is None else estimator._schema.columns[d]
            name = estimator._column_name(int(d))
            if law.probability is not None:
                levels = range(len(law.probability)) if group.levels is None else group.levels
                found[d] = [
                    _feature(
                        name, f"{v:g}" if column is None else column.text(v), p[lo:hi, i], None, b,
                        column,
                    )
                    for v, p in zip(levels, law.probability, strict=True)
                ]  # fmt: skip
            else:
                values = law.mean[lo:hi, i] * group.scale[i] + group.shift[i]
                variances = law.variance[lo:hi, i] * group.scale[i] ** 2
                found[d] = [_feature(name, None, values, variances, b, column)]
    order = sorted(found, key=lambda d: -told[d])
    return [feature for d in order for feature in found[d]]


def _feature(
    name: str, level: str | None, values: Array, variances: Array | None, b: Array, column: Any
) -> Feature:
    usual = float(b @ values)
    within = values * (1.0 - values) if variances is None else variances
    deviation = float(np.sqrt(b @ (within + (values - usual) ** 2)))
    return Feature(name, level, values, usual, (values - usual) / max(deviation, 1e-300), column)


def summary(estimator: Any, n_columns: int) -> Any:
    """Each part's columns, states, shares and what is typical of them, as a table."""
    rows: dict[str, list[Any]] = {
        name: [] for name in ("part", "columns", "state", "share", "profile")
    }
    for k in range(estimator.n_parts_):
        told = features(estimator, k)
        names = ", ".join(dict.fromkeys(feature.name for feature in told))
        for j, share in shown_states(estimator, k):
            values = (f"part{k}", names, j, share, _profile(told, j, n_columns))
            for name, value in zip(rows, values, strict=True):
                rows[name].append(value)
    background = np.flatnonzero(estimator.parts_ < 0)
    if len(background):
        names = ", ".join(estimator._column_name(int(d)) for d in background)
        for name, value in zip(rows, ("none", names, 0, 1.0, "depend on no part"), strict=True):
            rows[name].append(value)
    return table_of(estimator, rows)


def shown_states(estimator: Any, part: int) -> list[tuple[int, float]]:
    """States of a part that at least one row should be in, and their shares; commonest first."""
    lo, hi = estimator._first[part : part + 2]
    share = (estimator._class_shares() @ estimator._state_shares())[lo:hi]
    order = np.argsort(-share, kind="stable")
    least = 1.0 / max(float(estimator._theta.state_counts[:, lo:hi].sum()), 1.0)
    return [(int(j), float(share[j])) for j in order if share[j] >= least]


def _profile(told: list[Feature], j: int, most: int) -> str:
    """What tells a state from the part's others, in words; a column is named once."""
    found = {
        feature.name: words
        for feature in sorted(told, key=lambda feature: abs(feature.away[j]))
        if (words := feature.words(j))
    }  # of several levels of a column the last, and loudest, stays
    loud = {name: max(abs(f.away[j]) for f in told if f.name == name) for name in found}
    names = sorted(found, key=lambda name: -loud[name])[:most]
    return "; ".join(found[name] for name in names) or "average"


def state_profiles(estimator: Any, part: int) -> dict[str, Any]:
    """A part's states, by numbers and levels of its columns."""
    told = features(estimator, part)
    # Of two levels one tells all.
    first = {f.name: f.level for f in reversed(told)}
    two = {f.name for f in told if sum(g.name == f.name for g in told) == 2}
    told = [f for f in told if f.name not in two or f.level != first[f.name]]
    states = shown_states(estimator, part)
    return {
        "name": [f.name if f.level is None else f"{f.name} = {f.level}" for f in told],
        "state": np.array([j for j, _ in states]),
        "share": np.array([share for _, share in states]),
        "away": np.array([[f.away[j] for f in told] for j, _ in states]).reshape(len(states), -1),
        "text": [[f.text(f.values[j]) for f in told] for j, _ in states],
    }


def table_of(estimator: Any, rows: dict[str, list[Any]]) -> Any:
    """Columns by name as a frame of the kind that was fitted, else as they are."""
    frame = "array" if estimator._schema is None else estimator._schema.frame
    if frame == "pandas":
        import pandas as pd

        return pd.DataFrame(rows)
    if frame == "polars":
        import polars as pl

        return pl.DataFrame(rows, strict=False)
    return rows


# --- odd cells ---


def anomalous_cells(estimator: Any, X: Any, coded: Array, n_cells: int) -> Any:
    """The most surprising observed cells, as a table.

    A cell's surprise is how much less likely it is, given the row's other cells, than the likeliest
    values could be: log sum_s w_s max_x p(x | s) - log sum_s w_s p(x | s), w being the posterior of
    the part's states without the cell. It is 0 for the likeliest value, and has no units.
    """
    laws, core, theta = estimator._laws(), estimator._mcvq, estimator._theta
    parts, log_prior = theta.gates.argmax(axis=0), estimator._log_marginal()
    highest = [law.peak for law in laws]

    def on_block(block: RowBlock, _: int) -> list[Array]:
        own = predict.part_densities(block, laws, core.columns, parts, core.first) + log_prior
        found = []
        for g, group in enumerate(estimator._columns):
            for k, (lo, hi) in enumerate(pairwise(core.first[: estimator.n_parts_ + 1])):
                mine = np.flatnonzero((parts[group.index] == k) & group.varies)
                entries = block.groups[g].entries(mine)
                row, i, value = entries.rows, entries.columns, entries.values.astype(float)
                states = np.repeat(np.arange(lo, hi)[:, None], len(i), axis=1)
                here = laws[g].at((states, np.broadcast_to(i, states.shape)))
                density = here.log_density(value)
                without = own[row, lo:hi].T - density  # (J, cells)
                base = group.likelihood.family.base(value)
                reached = np.logaddexp.reduce(own[row, lo:hi].T, axis=0) + base
                best = np.logaddexp.reduce(without + highest[g][lo:hi, i], axis=0)
                state = without.argmax(axis=0)
                share = np.exp(without[state, np.arange(len(i))] - np.logaddexp.reduce(without))
                found.append(np.stack([best - reached, row, group.index[i], state, share]))
        cells = np.concatenate(found, axis=1)
        return [cells[:, np.argsort(-cells[0], kind="stable")[:n_cells]]]

    source = estimator._source(coded)
    blocks = [found[0] for found in estimator._map_rows(coded, on_block)]
    for (start, _), cells in zip(source.bounds, blocks, strict=True):
        cells[1] += start
    cells = np.concatenate(blocks, axis=1)
    cells = cells[:, np.argsort(-cells[0], kind="stable")[:n_cells]]
    return _tell_cells(estimator, X, coded, cells)


def _tell_cells(estimator: Any, X: Any, coded: Array, cells: Array) -> Any:
    """Odd cells in the user's terms, each with what would have been expected in its place."""
    row, d, state = (cells[i].astype(np.int64) for i in (1, 2, 3))
    holed = coded[row].copy()
    holed[np.arange(len(row)), d] = np.nan
    expected = estimator._impute(holed)[np.arange(len(row)), d] if len(row) else np.empty(0)
    index = index_of(X)
    labels = row if index is None else [index[r] for r in row]
    shown: dict[str, list[Any]] = {"value": [], "expected": []}
    for i, (r, c) in enumerate(zip(row, d, strict=True)):
        for name, number in (("value", coded[r, c]), ("expected", expected[i])):
            schema = estimator._schema
            told = float(number) if schema is None else schema.columns[c].value(number)
            shown[name].append(told)
    rows: dict[str, Any] = {
        "row": list(labels),
        "column": [estimator._column_name(int(c)) for c in d],
        **{name: np.array([*values, None], dtype=object)[:-1] for name, values in shown.items()},
        "surprise": [float(v) for v in cells[0]],
        "part": [int(v) for v in estimator.parts_[d]],
        "state": [int(v) for v in state],
        "probability": [float(v) for v in cells[4]],
    }
    return table_of(estimator, rows)
