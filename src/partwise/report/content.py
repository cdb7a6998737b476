"""The page's content as plain values, which `collect` makes and `render` writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, TypedDict

# What the page's own code reads: plain values, and arrays as `pack` writes them.
Live = dict[str, object]


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
    """A part, its columns, and its states or factors."""

    number: int
    color: str
    vectors: list[Vector]
    n_left_out: int
    profile: list[ProfileLine]
    classes: list[list[Cell]]
    agreement: float | None
    gate: str | None


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
    live: Mapping[str, object] | None
    summary: list[tuple[str, str]]
