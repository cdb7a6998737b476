"""Answers of a model of parts with states for tables, in the user's terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, cast

import numpy as np
from scipy import special

from partwise.answers.results import make_table
from partwise.answers.rows import map_rows, parts_of
from partwise.answers.states import (
    FittedStates,
    average,
    by_part,
    class_proba,
    class_shares,
    core,
    laws,
    limits,
    marginal,
    posteriors,
    predict_states,
    state_shares,
    tree_prior,
)
from partwise.contracts import Array
from partwise.data import ColumnGroup, RowBlock
from partwise.data.frame_writing import NewColumn
from partwise.data.frames import frame_of, is_pandas, is_polars, names_of
from partwise.data.table import TableColumn
from partwise.data.table_column import LOGGED, number_text
from partwise.fitted import AnyFitted
from partwise.models import dependence as information
from partwise.typing import DataLike, Frame, Name, Value

# Profiles: a number is high or low from this many standard deviations, a level is named from this
# difference of probabilities; and words for probabilities.
TELLING_DEVIATIONS = 0.5
VERY = 1.5
TELLING_SHARE = 0.1
# If nothing differs so much, the largest difference is named from these on.
SLIGHT_DEVIATIONS = 0.15
SLIGHT_SHARE = 0.03
# A level that is rarer than overall by this much is named, too, unless another one is more common.
SELDOM_SHARE = 0.15
# A state with fewer expected rows is not described.
HELD_ROWS = 0.5
# Means of linear columns below this many standard deviations are written as zero.
NOTHING = 1e-3
# Fewer expected cells than this in a state are rounding of the sums.
MIN_CELLS = 1e-3
# Ordered numbers with more levels are described by their mean, unless a level has this share.
FEW_LEVELS = 6
NAMED_SHARE = 0.5
WORDS = ((0.9, "nearly always"), (0.6, "mostly"), (0.3, "often"), (0.0, "at times"))


def attributes(fitted: FittedStates) -> dict[str, object]:
    """Learned attributes of the estimator that only tables have, by name."""
    schema = fitted.schema
    assert schema is not None
    named = zip(schema.names, schema.columns, strict=True)
    shares = {}
    for group, law in zip(fitted.columns, laws(fitted), strict=True):
        if law.probability is not None:
            for i, d in enumerate(group.index):
                shares[schema.names[d]] = by_part(fitted, law.probability[:, :, i].T, np.nan)
    return {
        "kinds_": np.array([column.kind for column in schema.columns]),
        "column_levels_": {name: column.levels for name, column in named if column.has_levels},
        "level_shares_": shares,
    }


def state_columns(
    fitted: FittedStates,
    coded: Array,
    frame: str,
    names: Sequence[str],
    n_jobs: int | None = None,
) -> list[NewColumn]:
    """State of every part in every row as columns, and the class if there are classes.

    ``frame`` is the kind of table, as `frame_of` returns, and ``names`` are those of the parts.
    """
    polars = frame == "polars"
    dtype = "Int64" if polars else "int64"
    states = predict_states(fitted, coded, n_jobs)
    columns = [
        NewColumn(name, "number", dtype, states[:, k].astype(float)) for k, name in enumerate(names)
    ]
    if fitted.classes is not None:
        label = class_proba(fitted, coded, n_jobs).argmax(axis=1)
        text = "String" if polars else "object"
        columns.append(NewColumn("class", "level", text, label, tuple(fitted.classes.tolist())))
    return columns


def aligned(fitted: AnyFitted, X: DataLike) -> DataLike:
    """The columns of the fit in its order, of a data frame with the same names; others as given.

    Columns that the fit did not have are left out. An error names the columns that X lacks.
    """
    if fitted.schema is None or frame_of(X) == "array":
        return X
    known, names = [str(name) for name in fitted.schema.names], [str(n) for n in names_of(X)]
    if known == names or len(set(names)) < len(names):
        return X
    absent = [name for name in known if name not in names]
    if absent:
        listed = ", ".join(repr(name) for name in absent[:8]) + (", ..." if len(absent) > 8 else "")
        raise ValueError(
            f"X lacks the columns {listed} of the fit; add them, with missing values where they "
            "are not known."
        )
    places = [names.index(name) for name in known]
    if is_pandas(X):
        return X.iloc[:, places]
    return cast("Frame", X)[:, places]


def fill(
    fitted: AnyFitted, X: DataLike, coded: Array, filled: Array, sampled: bool = False
) -> Array | Frame:
    """X with its missing values imputed from ``filled``; ``coded`` is X as numbers."""
    if fitted.schema is not None:
        own = aligned(fitted, X)
        found = fitted.schema.fill(own, coded, filled, sampled)
        if own is X:
            return found
        if is_pandas(X):
            return X.assign(**{str(name): found[name] for name in found})[list(X)]
        return cast("Frame", X).with_columns(cast("Frame", found).get_columns())
    return np.where(np.isnan(coded), filled, coded).astype(fitted.dtype, copy=False)


def draw(
    fitted: FittedStates,
    coded: Array,
    generators: Sequence[np.random.Generator],
    n_jobs: int | None = None,
) -> Iterator[Array]:
    """Rows with missing values sampled given the observed ones, once per generator."""
    posteriors = _posteriors_by_class(fitted, coded, n_jobs)
    row, column = np.nonzero(np.isnan(coded))
    gates, first = np.cumsum(fitted.params.gates, axis=0), core(fitted).first
    for rng in generators:
        states = np.empty((len(coded), len(first) - 1), np.int64)
        m = posteriors(rng)
        for k, (lo, hi) in enumerate(pairwise(first)):
            above = np.cumsum(m[:, lo:hi], axis=1, dtype=float)
            u = rng.random((len(coded), 1)) * above[:, -1:]
            states[:, k] = lo + np.minimum((above <= u).sum(axis=1), hi - lo - 1)
        u = rng.random(len(row)) * gates[-1, column]
        part = np.minimum((gates[:, column] <= u).sum(axis=0), len(gates) - 1)
        out = np.where(np.isnan(coded), 0.0, coded)  # columns without a model stay zero
        for group, law in zip(fitted.columns, laws(fitted), strict=True):
            place = np.full(coded.shape[1], -1)
            place[group.index] = np.arange(len(group.index))
            own = np.flatnonzero(place[column] >= 0)
            r, d = row[own], column[own]
            low, high = (end[place[d]] for end in limits(fitted, group))
            value = law.at((states[r, part[own]], place[d])).sample_within(low, high, rng)
            out[r, d] = _decoded(group, value, place[d])
        yield out


def _decoded(group: ColumnGroup, values: Array, columns: Array) -> Array:
    """Values of some ``columns`` of the group in the units of X, from model units."""
    if group.levels is not None:
        return group.levels[values.astype(np.int64)]
    return values * group.scale[columns] + group.shift[columns]


def _posteriors_by_class(
    fitted: FittedStates, coded: Array, n_jobs: int | None = None
) -> Callable[[np.random.Generator], Array]:
    """A function of a generator that returns posteriors (n, S) to sample states from.

    With classes, the states of different parts are independent only given the class, so the class
    is sampled first.
    """
    if fitted.classes is None:
        m = posteriors(fitted, coded, n_jobs)
        return lambda rng: m

    def on_block(block: RowBlock) -> tuple[Array, Array | None]:
        if fitted.params.links is None:
            return fitted.model.propose(fitted.prepared, block), None
        model = core(fitted)
        return model.given_classes(fitted.params, model.evidence(fitted.prepared, block))

    found = map_rows(fitted.columns, coded, on_block, n_jobs)
    given = np.concatenate([piece[0] for piece in found], axis=2)  # (N, S, n)
    paths = [piece[1] for piece in found if piece[1] is not None]  # (G, T, N, n)
    above = np.cumsum(class_proba(fitted, coded, n_jobs), axis=1)
    rows, links = np.arange(len(coded)), fitted.params.links

    def drawn(above: Array, rng: np.random.Generator) -> Array:
        u = rng.random((len(coded), 1)) * above[:, -1:]
        return np.minimum((above <= u).sum(axis=1), above.shape[1] - 1)

    def choose(rng: np.random.Generator) -> Array:
        label = drawn(above, rng)
        if links is None:
            return given[label, :, rows]
        ways = np.concatenate(paths, axis=3)[:, label, :, rows]  # (n, G, N)
        own = np.stack([drawn(np.cumsum(way, axis=1), rng) for way in ways.swapaxes(0, 1)])
        by_state = own[links.groups[core(fitted).part_of]]  # (S, n)
        return given[by_state, np.arange(len(by_state))[:, None], rows].T

    return choose


def place_of(fitted: AnyFitted, name: Name) -> int:
    """Place of a column by name or number."""
    unnamed = fitted.names is None and isinstance(name, str)
    if fitted.schema is None or (unnamed and name not in fitted.schema.names):
        return fitted.place_of(name)
    return fitted.schema.place(name)


def name_of(fitted: AnyFitted, d: int) -> Name:
    """Name of a column as the user has it."""
    return fitted.column_name(d) if fitted.schema is None else fitted.schema.names[d]


def predict_proba_columns(
    fitted: FittedStates, coded: Array, places: Sequence[int], n_jobs: int | None = None
) -> dict[int, Array]:
    """Probability of each level in every row, given the row's observed cells: {place: (n, V)}."""
    wanted = []
    for group, law in zip(fitted.columns, laws(fitted), strict=True):
        own = np.flatnonzero(np.isin(group.index, list(places)))
        if law.probability is not None and len(own):
            wanted.append((group.index[own], law.probability[:, :, own]))

    def on_block(block: RowBlock) -> list[Array]:
        m = fitted.model.infer(fitted.prepared, block)[0].T
        return [level_shares(fitted, m, *one) for one in wanted]

    blocks = map_rows(fitted.columns, coded, on_block, n_jobs, told=fitted.told)
    out: dict[int, Array] = {}
    for i, (columns, _) in enumerate(wanted):
        shares = np.concatenate([found[i] for found in blocks])
        out |= {int(d): shares[:, j] for j, d in enumerate(columns)}
    return out


def level_shares(fitted: FittedStates, m: Array, columns: Array, probability: Array) -> Array:
    """Probability of levels of some columns (n, D', V), given posteriors (n, S).

    ``probability`` (V, S, D') is that in every state.
    """
    mixture = average(fitted, m, columns)
    found = np.stack([mixture(p) for p in probability], axis=-1)
    return found / found.sum(axis=-1, keepdims=True)


def likely_level(fitted: FittedStates, place: int, shares: Array) -> Array:
    """The most probable level of one column (of ordered ones the median), from shares (n, V)."""
    group = next(group for group in fitted.columns if place in group.index)
    return group.decode(group.likelihood.family.likely_code(shares.T)[:, None])[:, 0]


# --- structure ---


def dependence(fitted: FittedStates, columns: Sequence[int] | Array | None = None) -> Array:
    """Mutual information of all pairs of columns, or of some with zeros elsewhere, (D, D)."""
    gates, first = fitted.params.gates, core(fitted).first
    tables: list[Array | None] = [None] * gates.shape[1]
    for d, table in _binned(fitted, range(len(tables)) if columns is None else columns):
        tables[d] = table
    shares, tree = class_shares(fitted), tree_prior(fitted)
    out = information.mutual_information(tables, gates, state_shares(fitted), shares, first)
    if tree is not None:  # parts of one group depend on each other through its classes
        group_of = tree.groups[gates.argmax(axis=0)]
        for g, links in enumerate(np.exp(tree.links)):
            of = np.exp(tree.log_b), shares @ links
            inside = np.ix_(*[np.flatnonzero(group_of == g)] * 2)
            out[inside] = information.mutual_information(tables, gates, *of, first)[inside]
    return out


def _binned(fitted: FittedStates, columns: Sequence[int] | Array) -> Iterator[tuple[int, Array]]:
    """Probability of the bins of some columns' values in each state, (S, B)."""
    gates, part_of, overall = fitted.params.gates, core(fitted).part_of, marginal(fitted)
    for group, law in zip(fitted.columns, laws(fitted), strict=True):
        for i in np.flatnonzero(np.isin(group.index, columns)):
            d = int(group.index[i])
            live = np.flatnonzero((gates[part_of, d] > 0) & (overall > 0))
            yield d, law.bins(int(i), live)


def state_information(fitted: FittedStates, columns: Sequence[int] | Array) -> dict[int, float]:
    """Mutual information of some columns and the states of their parts, in nats.

    The diagonal of `dependence`, without the pairs.
    """
    gates, first, overall = fitted.params.gates, core(fitted).first, marginal(fitted)
    return {
        d: information.state_information(table, gates[:, d], overall, first)
        for d, table in _binned(fitted, columns)
    }


class Feature(NamedTuple):
    """A number, or one level, of a column in the states of its part."""

    name: str
    level: str | None
    values: Array  # mean in X's units, or the level's probability, in each state; (J,)
    usual: float  # the same overall
    away: Array  # the difference in standard deviations, (J,)
    column: TableColumn | None
    least: float = 0.0  # means below this are zero, but for the pull of the prior

    def text(self, value: float) -> str:
        """A value as a person would write it."""
        if self.level is not None:
            return f"{value:.0%}"
        value = 0.0 if abs(value) < self.least else value
        if self.column is None:
            return number_text(value)
        if self.column.has_levels:
            return number_text(value, self.column.support.step, self.column.are_years)
        return self.column.text(value)

    def pair(self, j: int) -> tuple[str, str]:
        """The value in a state and the usual one, with a digit more than the deviation has."""
        here, there = self.text(self.values[j]), self.text(self.usual)
        plain = self.column is None or (self.column.form == "number" and self.column.kind != LOGGED)
        difference, largest = (
            abs(self.values[j] - self.usual),
            max(abs(self.values[j]), abs(self.usual)),
        )
        if self.level is not None or not plain or difference == 0.0 or not 0.01 < largest < 1e15:
            return here, there
        deviation = difference / abs(self.away[j])
        if 10.0 ** min(np.floor(np.log10(largest)) - 2, 0) <= 0.101 * deviation:
            return here, there  # three digits tell enough
        decimals = int(np.ceil(1.0 - np.log10(deviation)))
        if self.column is not None and (step := self.column.support.step):
            decimals = min(decimals, round(-np.log10(step)))
        if decimals <= max(len(one.partition(".")[2]) for one in (here, there)):
            return here, there
        return f"{self.values[j]:,.{decimals}f}", f"{self.usual:,.{decimals}f}"

    def words(self, j: int, slight: bool = False) -> str:
        """What is typical of a state, empty if nothing is; ``slight`` differences if asked for."""
        here, there = self.pair(j)
        if self.level is None:
            away = abs(self.away[j])
            if away < (SLIGHT_DEVIATIONS if slight else TELLING_DEVIATIONS) or here == there:
                return ""
            if (self.values[j] > self.usual) != (self.away[j] > 0):
                return ""  # logarithms are above their mean, and yet the mean is below the overall
            word = "very " if away > VERY else "slightly " if slight else ""
            low, high = ("early", "late") if self._is_date else ("low", "high")
            word += high if self.away[j] > 0 else low
            return f"{self.name} {word} ({here}, overall {there})"
        more = self.values[j] - self.usual
        seldom = more <= -SELDOM_SHARE
        if not seldom and more < (SLIGHT_SHARE if slight else TELLING_SHARE):
            return ""
        often = next(word for least, word in WORDS if self.values[j] >= least)
        word = "less often" if seldom else often
        numeric = self.column is None or self.column.form != "level"
        level = self.level if numeric else f'"{self.level}"'
        return f"{self.name} {word} {level} ({here}, overall {there})"

    @property
    def _is_date(self) -> bool:
        return self.column is not None and self.column.form == "date"

    def averaged(self, shares: Array) -> Feature:
        """The feature in groups of states, (G,); ``shares`` (G, J) sum to one in each group."""
        values = shares @ self.values
        if self.column is not None and self.column.kind == LOGGED and self.level is None:
            values = special.logsumexp(self.values, axis=1, b=shares)
        return self._replace(values=values, away=shares @ self.away)


def features(fitted: FittedStates, part: int) -> list[Feature]:
    """Features of a part's states, of the most informative columns first."""
    lo, hi = core(fitted).first[part : part + 2]
    b = marginal(fitted)[lo:hi]
    b = b / b.sum()
    own = np.flatnonzero(parts_of(fitted) == part)
    told, found = state_information(fitted, own), dict[int, list[Feature]]()
    for g, (group, law) in enumerate(zip(fitted.columns, laws(fitted), strict=True)):
        for i in np.flatnonzero(np.isin(group.index, own)):
            d = int(group.index[i])
            column = None if fitted.schema is None else fitted.schema.columns[d]
            name = fitted.column_name(d)
            if law.probability is not None:
                levels = range(len(law.probability)) if group.levels is None else group.levels
                found[d] = [
                    _feature(
                        name, f"{v:g}" if column is None else column.text(v), p[lo:hi, i], None, b,
                        column,
                    )
                    for v, p in zip(levels, law.probability, strict=True)
                ]  # fmt: skip
                if column is not None and column.has_number_levels and len(levels) > FEW_LEVELS:
                    numbers = np.array(column.levels, dtype=float)
                    chances = law.probability[:, lo:hi, i]
                    means = numbers @ chances
                    away = np.sum(chances * (numbers[:, None] - means) ** 2, axis=0)
                    found[d].insert(0, _feature(name, None, means, away, b, column))
            else:
                mean, variance = law.mean[lo:hi, i], law.variance[lo:hi, i]
                units = group.scale[i], group.shift[i]
                feature = _feature(name, None, mean, variance, b, column, *units)
                if column is not None and column.kind == LOGGED:
                    # No mean exceeds the largest value, whatever the variance of few values.
                    most = float(column.as_encoded(np.array([column.support.largest]))[0])
                    within = variance * group.scale[i] ** 2
                    values = np.fmin(feature.values + 0.5 * within, most)
                    sums = core(fitted).priors[g].sums(fitted.params.chi[g])[:, lo:hi, i]
                    usual = _log_of_mean(sums, *units, most)
                    feature = feature._replace(values=values, usual=usual)
                found[d] = [feature]
    order = sorted(found, key=lambda d: -told[d])
    return [feature for d in order for feature in found[d]]


def _log_of_mean(sums: Array, scale: float, shift: float, largest: float) -> float:
    """Logarithm of the mean of a logged column, from its sums (3, J) in the states.

    States count by their observed cells: the mean of a state in which the column is never observed
    is that of its prior, far away. Of all n values with this mean and standard deviation of
    logarithms, none above the ``largest``, those have the largest mean that are of two kinds, a
    share p of them ``t`` standard deviations above the center, where p (1 + t^2) = 1.
    """
    own = sums[:, sums[0] > MIN_CELLS]
    n = own[0]
    center = own[1] / n * scale + shift
    deviation = np.sqrt(np.maximum(own[2] / n - (own[1] / n) ** 2, 0.0)) * abs(scale)
    t = np.sqrt(np.maximum(n - 1.0, 0.0))
    t = np.fmin(t, np.maximum(largest - center, 0.0) / np.maximum(deviation, 1e-300))
    share = 1.0 / (1.0 + t**2)
    logs = center + deviation * t, center - deviation / np.maximum(t, 1e-300)
    most = special.logsumexp(logs, axis=0, b=(share, 1.0 - share))
    means = np.fmin(center + 0.5 * deviation**2, most)
    return float(special.logsumexp(means, b=n / n.sum())) if len(n) else -np.inf


def _feature(
    name: str,
    level: str | None,
    values: Array,
    variances: Array | None,
    b: Array,
    column: TableColumn | None,
    scale: float = 1.0,
    shift: float = 0.0,
) -> Feature:
    """A feature from values in model units, in which squares do not overflow."""
    usual = float(b @ values)
    within = values * (1.0 - values) if variances is None else variances
    deviation = float(np.sqrt(b @ (within + (values - usual) ** 2)))
    z = (values - usual) / max(deviation, 1e-300)
    is_linear = column is not None and column.kind != LOGGED and column.form == "number"
    least = NOTHING * deviation * scale if is_linear and level is None else 0.0
    return Feature(name, level, values * scale + shift, usual * scale + shift, z, column, least)


def shown_states(fitted: FittedStates, part: int) -> list[tuple[int, float]]:
    """States of a part with at least one expected row, and their shares; most frequent first."""
    lo, hi = core(fitted).first[part : part + 2]
    share, rows = marginal(fitted)[lo:hi], fitted.params.state_counts[:, lo:hi].sum(axis=0)
    order = np.argsort(-share, kind="stable")
    # A state without rows has a share, too, that of the prior.
    least = min(HELD_ROWS, float(rows.max(initial=0.0)))
    return [(int(j), float(share[j])) for j in order if rows[j] >= least]


def profile_words(told: list[Feature], j: int, most: int) -> str:
    """What distinguishes a state from the part's others, in words; a column is named once."""
    ordered = sorted(told, key=lambda feature: abs(feature.away[j]))
    for slight in (False, True):
        # Of several levels of a column the last, most distinctive one stays.
        rare = [f for f in ordered if f.level is not None and f.values[j] < f.usual]
        common = [f for f in ordered if f.level is None or f.values[j] >= f.usual]
        # Of many ordered numbers the mean, unless one of them is more common than all others.
        both = {f.name for f in told if f.level is None} & {f.name for f in told if f.level}
        means = [f for f in common if f.level is None and f.name in both]
        named = [f for f in common if f.level and f.name in both and f.values[j] >= NAMED_SHARE]
        every = [*rare, *common, *means, *named]
        found = {f.name: words for f in every if (words := f.words(j, slight))}
        loud = {name: max(abs(f.away[j]) for f in told if f.name == name) for name in found}
        names = sorted(found, key=lambda name: -loud[name])[:most]
        if names:
            return "; ".join(found[name] for name in (names[:2] if slight else names))
    one = told[0] if len({feature.name for feature in told}) == 1 else None
    if one is not None and one.level is None:
        here, there = one.pair(j)
        if one.column is None or one.column.kind != LOGGED or here == there:
            return f"{one.name} near its average ({here})"
        # The mean of logarithms is below the logarithm of the mean, which few large values raise.
        return f"{one.name} in the middle ({here}, overall {there})"
    return "average"


def short(told: Sequence[Feature]) -> list[Feature]:
    """Features without the levels of columns that have a mean, too."""
    means = {feature.name for feature in told if feature.level is None}
    return [one for one in told if one.level is None or one.name not in means]


def state_profiles(fitted: FittedStates, part: int) -> dict[str, object]:
    """A part's states, by numbers and levels of its columns."""
    told = short(features(fitted, part))
    # One of two levels is enough.
    first = {f.name: f.level for f in reversed(told)}
    two = {f.name for f in told if sum(g.name == f.name for g in told) == 2}
    told = [f for f in told if f.name not in two or f.level != first[f.name]]
    states = shown_states(fitted, part)
    return {
        "name": [f.name if f.level is None else f"{f.name} = {f.level}" for f in told],
        "state": np.array([j for j, _ in states]),
        "share": np.array([share for _, share in states]),
        "away": np.array([[f.away[j] for f in told] for j, _ in states]).reshape(len(states), -1),
        "text": [[f.text(f.values[j]) for f in told] for j, _ in states],
    }


def frame_kind(fitted: AnyFitted) -> str:
    """Library of the table that was fitted: "pandas", "polars", or "array" for others."""
    return "array" if fitted.schema is None else fitted.schema.frame


def table_of(fitted: FittedStates, rows: Mapping[str, object]) -> Frame | Mapping[str, object]:
    """Columns by name as a frame of the kind that was fitted, otherwise unchanged."""
    frame = frame_kind(fitted)
    return rows if frame == "array" else make_table(rows, frame)


def given_cells(
    fitted: AnyFitted, X: DataLike, coded: Array, rows: Array, columns: Array
) -> list[Value]:
    """Values of cells as the user gave them; ``coded`` is X as numbers.

    Decoded numbers may differ from them in the last digit.
    """
    out = np.empty(len(rows), dtype=object)
    for d in np.unique(columns):
        own = np.flatnonzero(columns == d)
        out[own] = _given_column(fitted, X, coded, rows[own], int(d))
    return out.tolist()


def _given_column(fitted: AnyFitted, X: DataLike, coded: Array, rows: Array, d: int) -> list[Value]:
    """Values of one column of the fit in some rows, as the user gave them."""
    if fitted.schema is None or frame_of(X) == "array":
        values = X if isinstance(X, np.ndarray) and X.shape == coded.shape else coded
        if fitted.schema is not None and values is coded:
            return [fitted.schema.columns[d].value(code) for code in coded[rows, d]]
        return values[rows, d].tolist()
    names = {str(name): i for i, name in enumerate(names_of(X))}
    place = names.get(str(fitted.schema.names[d]), d)
    if is_polars(X):
        return X[:, place].gather(rows).to_list()
    assert is_pandas(X)
    return [plain_value(value) for value in X.iloc[rows, place]]


def row_values(frame: Frame, row: int) -> list[Value]:
    """Values of one row of a data frame."""
    return list(frame.iloc[row] if is_pandas(frame) else frame.row(row))


def plain_value(value: Value) -> Value:
    """A Python number instead of numpy's, which prints its type; other values as they are."""
    number = isinstance(value, np.number | np.bool_) and not isinstance(value, np.timedelta64)
    return np.asarray(value).item() if number else value
