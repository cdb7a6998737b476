"""The page's content as plain values, which `collect` makes and `render` writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, TypedDict

# What the page's own code reads: plain values, and arrays as `pack` writes them.
Live = dict[str, object]


class Packed(TypedDict):
    """An array as base64 of little-endian numbers."""

    kind: str
    shape: list[int]
    data: str


class Cell(TypedDict):
    """A number with the strength of its color, from -1 to 1; `text` replaces the number."""

    value: float
    tint: float
    text: str | None


class Vector(TypedDict):
    """A state or factor of a part."""

    number: int
    weight: float
    share: str
    picture: NotRequired[str]


class ProfileLine(TypedDict):
    """A column, or a level of one, in the states of its part."""

    name: str
    cells: list[Cell]


class Named(TypedDict):
    """Names of columns, at most as many as a page can hold, and how many there are."""

    n_columns: int
    columns: list[str]


class Part(Named):
    """A part, its columns, and its states or factors; ``n_profiled`` columns are in the profile."""

    number: int
    color: str
    vectors: list[Vector]
    n_left_out: int
    profile: list[ProfileLine]
    n_profiled: int
    classes: list[list[Cell]]
    agreement: float | None
    gate: str | None
    name: str
    states: list[State]
    groups: list[Group]


class State(TypedDict):
    """A state of a table's part: a sentence about it, its strongest words as a name, and rows.

    ``number`` is that of `predict_states`. ``rows`` are names and positions of rows in this state:
    typical ones, or of a state with few rows all of them. ``n_rows`` counts rows that have a value
    in the part's columns.
    """

    number: int
    weight: float
    sentence: str
    name: str
    n_rows: int | None
    is_small: bool
    rows: list[tuple[str, int]]


class Group(TypedDict):
    """Similar states of a part with many, by number, and a sentence about them.

    ``but`` are states of which the opposite of the sentence is true, and what is.
    """

    states: list[int]
    weight: float
    sentence: str
    but: list[tuple[int, str]]


class ColumnLine(TypedDict):
    """A column of a table: kind and why, share of missing values, histogram, part.

    ``used`` says whether the model uses it.
    """

    name: str
    number: int
    part: int
    kind: str
    why: str
    used: bool
    missing: float | None
    hint: bool
    typical: str
    is_log: bool
    bars: list[tuple[str, float]]
    low: str
    high: str


class Tie(TypedDict):
    """Two columns by number, their association in the data and in the model, from 0 to 1.

    The association of two columns with an order is negative if one falls as the other rises.
    ``note`` says where the model has much less than the data.
    """

    a: int
    b: int
    data: float | None
    strength: float
    note: str


class WeakPart(TypedDict):
    """The strongest tie in the data of a part's columns, where it is weak."""

    a: int
    b: int
    most: float


class Ties(TypedDict):
    """The strongest ties, how many there are, and the map: its columns and packed strengths.

    ``of_data`` says whether strengths are those of the data, as soon as there are rows; ``absent``
    of the map are the pairs that the model nearly leaves out. ``weak`` are parts by number.
    """

    pairs: list[Tie]
    of_data: bool
    n_pairs: int
    n_absent: int
    n_columns: int
    weak: dict[int, WeakPart]
    columns: list[int]
    cells: Packed
    absent: Packed


class MissingPattern(TypedDict):
    """Columns that are missing together, and in how many rows exactly these are."""

    columns: list[int]
    n_rows: int


class MissingTogether(TypedDict):
    """Columns whose missing values coincide, and in how many rows all of them are missing."""

    columns: list[int]
    n_rows: int


class MissingWhere(TypedDict):
    """Columns whose missing values another column tells: for which values, and how often.

    ``inside`` and ``outside`` are shares of the rows with these values and of the others.
    """

    columns: list[int]
    other: int
    words: str
    inside: str
    outside: str


class MissingValues(TypedDict):
    """What is missing where, and together."""

    n_rows: int
    n_complete: int
    share: float
    n_columns: int
    together: list[MissingTogether]
    where: list[MissingWhere]
    n_patterns: int
    patterns: list[MissingPattern]


class AnomalousCell(TypedDict):
    """A cell, and what the rest of its row suggests."""

    row: str
    position: int
    column: int
    value: str
    expected: str
    surprise: float


class Overview(TypedDict):
    """What an analyst asks of a table first; without rows, no anomalous cells are known."""

    columns: list[ColumnLine]
    ties: Ties | None
    missing: MissingValues | None
    anomalous: list[AnomalousCell] | None


class Bound(TypedDict):
    """The trace of the evidence lower bound."""

    values: list[float]
    last: float
    n_iter: int
    converged: bool


class ClassShare(TypedDict):
    """A class and its probability."""

    label: str
    weight: float
    share: str


class Scores(TypedDict):
    """How the model describes the rows that it was given."""

    n_rows: int
    n_scored: int
    n_shown: int
    missing: float
    error: float | None
    score: float | None
    limits: tuple[float, float] | None


class Learned(TypedDict):
    """A learned attribute of a model without parts."""

    name: str
    value: str
    pictures: list[str]


class PartsContent(TypedDict):
    """What the page says about parts."""

    noun: str | None
    mixed: bool
    n_refits: int
    left_out: str
    doubt: str
    n_parts: int
    n_vectors: int
    parts: list[Part]
    background: Named | None
    map: str | None


class Content(PartsContent):
    """All that the page says."""

    title: str
    version: str
    kind: str
    thing: str
    model: str
    call: str
    model_file: str | None
    fit_seconds: float | None
    n_features: int
    bound: Bound | None
    classes: list[ClassShare]
    data: Scores | None
    learned: list[Learned]
    uses: list[list[str]]
    overview: Overview | None
    rows_counted: bool
    live: Mapping[str, object] | None
    summary: list[tuple[str, str]]
