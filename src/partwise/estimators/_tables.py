"""What an MCVQ fitted to a table of several kinds of columns says, in the user's own terms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import special

from partwise.contracts import Array
from partwise.data import ColumnGroup, RowBlock
from partwise.data.frames import NewColumn, frame_of
from partwise.data.table import TableColumn
from partwise.likelihoods.predictive import Levels, NegativeBinomial, Predictive, StudentT
from partwise.models import dependence as information
from partwise.models import predict

# Profiles: a number is high or low from this many deviations on, a level worth naming from this
# difference of shares on; and words for shares.
TELLING_DEVIATIONS = 0.5
TELLING_SHARE = 0.1
WORDS = ((0.9, "nearly always"), (0.6, "mostly"), (0.3, "often"), (0.0, "at times"))


def describe(estimator: Any) -> None:
    """Set what is learned of a table's columns alone."""
    schema = estimator._schema
    estimator.kinds_ = np.array([column.kind for column in schema.columns])
    estimator.column_levels_ = {c.name: c.levels for c in schema.columns if c.has_levels}
    estimator.level_shares_ = {}
    for group, law in zip(estimator._columns, estimator._laws(), strict=True):
        if isinstance(law, Levels):
            for i, d in enumerate(group.index):
                shares = estimator._by_part(law.probability[:, :, i].T, np.nan)
                estimator.level_shares_[schema.columns[d].name] = shares
        elif group.logged:
            for d in group.index:
                means = np.exp(estimator.means_[:, :, d]) - schema.columns[d].offset
                estimator.means_[:, :, d] = means
    for d in np.flatnonzero(estimator.kinds_ == "ignored"):
        estimator.means_[:, :, d] = estimator.variances_[:, :, d] = np.nan


def is_unordered(group: ColumnGroup, law: Predictive) -> bool:
    """Whether entries are levels without an order, of which the likeliest is told."""
    return isinstance(law, Levels) and not getattr(group.likelihood, "ordered", False)


def state_columns(estimator: Any, coded: Array) -> list[NewColumn]:
    """State of every part in every row as columns, and the class if there are classes."""
    polars = estimator._schema is not None and estimator._schema.frame == "polars"
    dtype = "Int64" if polars else "int64"
    states = estimator._states_of(estimator._posteriors(coded))
    columns = [
        NewColumn(f"part{k}", "number", dtype, states[:, k].astype(float))
        for k in range(estimator.n_parts)
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
        out = coded.copy()
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
    model, theta = estimator._model, estimator._theta
    given = np.concatenate(
        estimator._map_rows(coded, lambda block, _: model.propose(theta, block)), axis=2
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
    schema, D = estimator._schema, estimator.n_features_in_
    if isinstance(given, Mapping) and not hasattr(given, "shape"):
        if schema is not None:
            return schema.encode_row(given).astype(estimator._dtype), None
        row = np.full((1, D), np.nan, estimator._dtype)
        for name, value in given.items():
            row[0, place_of(estimator, name)] = value
        return row, None
    if schema is not None and frame_of(given) != "array":
        return schema.encode_some(given).astype(estimator._dtype), getattr(given, "index", None)
    return estimator._check_rows(given, reset=False), getattr(given, "index", None)


def place_of(estimator: Any, name: Any) -> int:
    """Place of a column by name or number."""
    if estimator._schema is not None:
        return int(estimator._schema.place(name))
    names = [estimator._column_name(d) for d in range(estimator.n_features_in_)]
    if str(name) not in names:
        raise ValueError(f"There is no column {name!r}; columns are 0 to {len(names) - 1}.")
    return names.index(str(name))


def level_probabilities(estimator: Any, coded: Array, places: Sequence[int]) -> dict[int, Array]:
    """Probability of each level in every row, given the row's observed cells: {place: (n, V)}."""
    laws = estimator._laws()
    wanted = []
    for g, (group, law) in enumerate(zip(estimator._columns, laws, strict=True)):
        if isinstance(law, Levels):
            wanted += [(g, i, int(d)) for i, d in enumerate(group.index) if d in set(places)]

    def on_block(block: RowBlock, _: int) -> list[Array]:
        m = estimator._model.infer(estimator._theta, block)[0]
        found = []
        for g, i, d in wanted:
            law = Levels(laws[g].probability[:, :, i : i + 1])
            gates = estimator._theta.gates[:, d : d + 1]
            shares = predict.level_shares(law, m, gates, estimator._part_of)[:, :, 0].T
            found.append(shares / shares.sum(axis=1, keepdims=True))
        return found

    blocks = estimator._map_rows(coded, on_block)
    return {d: np.concatenate([found[i] for found in blocks]) for i, (_, _, d) in enumerate(wanted)}


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
            tables[d] = information.binned(law, i, live)
    return information.mutual_information(tables, gates, shares, classes, first)


def parts_table(estimator: Any, n_columns: int) -> Any:
    """Each part's columns, states, shares and what is typical of them, as a table."""
    told = information_of_parts(estimator)
    shares = estimator._class_shares() @ estimator._state_shares()
    rows: dict[str, list[Any]] = {
        name: [] for name in ("part", "columns", "state", "share", "profile")
    }
    for k, (lo, hi) in enumerate(pairwise(estimator._first[: estimator.n_parts + 1])):
        columns = np.flatnonzero(estimator.parts_ == k)
        columns = columns[np.argsort(-told[columns], kind="stable")]
        names = ", ".join(estimator._column_name(int(d)) for d in columns)
        for s in range(lo, hi):
            if shares[s] * len(estimator.row_labels_) < 1.0:
                continue  # no row is in this state
            profile = _profile(estimator, columns, lo, hi, s, shares, n_columns)
            values = (f"part{k}", names, s - lo, float(shares[s]), profile)
            for name, value in zip(rows, values, strict=True):
                rows[name].append(value)
    background = np.flatnonzero(estimator.parts_ < 0)
    if len(background):
        names = ", ".join(estimator._column_name(int(d)) for d in background)
        for name, value in zip(rows, ("none", names, 0, 1.0, "depend on no part"), strict=True):
            rows[name].append(value)
    return table_of(estimator, rows)


def information_of_parts(estimator: Any) -> Array:
    """What the part's state tells of every column, in nats; (D,)."""
    return np.diag(estimator.dependence(as_frame=False))


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


def _profile(
    estimator: Any, columns: Array, lo: int, hi: int, s: int, shares: Array, most: int
) -> str:
    """What tells a state from the part's others, in words."""
    weight = shares[lo:hi] / shares[lo:hi].sum()
    found: list[tuple[float, str]] = []
    wanted = set(columns.tolist())
    for group, law in zip(estimator._columns, estimator._laws(), strict=True):
        for i, d in enumerate(group.index):
            if d not in wanted:
                continue
            column = None if estimator._schema is None else estimator._schema.columns[d]
            name = estimator._column_name(int(d))
            speak = _speak_of_level if isinstance(law, Levels) else _speak_of_number
            found.append(speak(name, column, group, law, i, slice(lo, hi), s, weight))
    found = sorted((one for one in found if one[0] > 0), key=lambda one: -one[0])[:most]
    return "; ".join(text for _, text in found) or "average"


def _speak_of_level(
    name: str, column: TableColumn | None, group: ColumnGroup, law: Any, i: int, part: slice,
    s: int, weight: Array,
) -> tuple[float, str]:  # fmt: skip
    p, usual = law.probability[:, s, i], law.probability[:, part, i] @ weight
    v = int(np.argmax(p - usual))
    if p[v] - usual[v] < TELLING_SHARE:
        return 0.0, ""
    value = float(v) if group.levels is None else float(group.levels[v])
    level = f"{value:g}" if column is None else f'"{column.text(value)}"'
    word = next(word for least, word in WORDS if p[v] >= least)
    loud = float(np.sum(p * np.log(np.maximum(p, 1e-12) / np.maximum(usual, 1e-12))))
    return loud, f"{name} {word} {level} ({p[v]:.0%}, overall {usual[v]:.0%})"


def _speak_of_number(
    name: str, column: TableColumn | None, group: ColumnGroup, law: Predictive, i: int, part: slice,
    s: int, weight: Array,
) -> tuple[float, str]:  # fmt: skip
    means, variances = law.mean[part, i], law.variance[part, i]
    usual = float(weight @ means)
    deviation = float(np.sqrt(weight @ (variances + (means - usual) ** 2)))
    away = (float(law.mean[s, i]) - usual) / max(deviation, 1e-12)
    if abs(away) < TELLING_DEVIATIONS:
        return 0.0, ""
    values = np.array([law.mean[s, i], usual]) * group.scale[i] + group.shift[i]
    here, there = (f"{v:.3g}" if column is None else column.text(v) for v in values)
    word = ("very " if abs(away) > 1.5 else "") + ("high" if away > 0 else "low")
    return 0.5 * away**2, f"{name} {word} ({here}, overall {there})"


# --- odd cells ---


def odd_cells(estimator: Any, X: Any, coded: Array, n_cells: int) -> Any:
    """The most surprising observed cells, as a table.

    A cell's surprise is how much less likely it is, given the row's other cells, than the likeliest
    values could be: log sum_s w_s max_x p(x | s) - log sum_s w_s p(x | s), w being the posterior of
    the part's states without the cell. It is 0 for the likeliest value, and has no units.
    """
    laws, core, theta = estimator._laws(), estimator._mcvq, estimator._theta
    parts, log_prior = theta.gates.argmax(axis=0), estimator._log_marginal()
    highest = [_peaks(law) for law in laws]

    def on_block(block: RowBlock, _: int) -> list[Array]:
        own = predict.part_densities(block, laws, core.columns, parts, core.first) + log_prior
        found = []
        for g, group in enumerate(estimator._columns):
            for k, (lo, hi) in enumerate(pairwise(core.first[: estimator.n_parts + 1])):
                mine = np.flatnonzero((parts[group.index] == k) & group.varies)
                entries = block.groups[g].entries(mine)
                row, i, value = entries.rows, entries.columns, entries.values.astype(float)
                states = np.repeat(np.arange(lo, hi)[:, None], len(i), axis=1)
                here = laws[g].at((states, np.broadcast_to(i, states.shape)))
                density = here.log_density(value)
                without = own[row, lo:hi].T - density  # (J, cells)
                base = _discrete_base(group, value)
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
    index = getattr(X, "index", None)
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


def _discrete_base(group: ColumnGroup, values: Array) -> Array:
    """log 1/x! of counts, which their law leaves out; nothing else depends on the value."""
    counts = group.likelihood.name == "poisson"
    return -special.gammaln(values + 1.0) if counts else np.zeros(len(values))


def _peaks(law: Predictive) -> Array:
    """Largest log density of every state and column, (S, D)."""
    if isinstance(law, StudentT):
        return law.constant
    if isinstance(law, Levels):
        return np.log(law.probability.max(axis=0))
    assert isinstance(law, NegativeBinomial)
    mode = np.floor(np.maximum(law.mean - np.where(np.isinf(law.rate), 0, 1 / law.rate), 0))
    return law.log_density(mode) - special.gammaln(mode + 1.0)
