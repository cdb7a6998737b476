"""Results as plain containers that read well: text, a table in notebooks, and a data frame.

A `Summary` is a dict of columns and an `Explanation` a list of dicts, so that programs can use them
as such; ``str`` prints them in full sentences, notebooks show a table, and ``to_frame`` returns a
data frame of the library that the model was fitted with.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np

from partwise._text import first_few
from partwise.data.table import number_text
from partwise.typing import Frame, Value

# Width of printed results, and the number of columns of a part named in them.
WIDTH = 100
NAMED_COLUMNS = 8
NAMED_STATES = 6

# What a summary has as part for columns without one, and how it is printed.
NO_PART = "none"
LEFT_OUT = "left out"
_WITHOUT_PART = {NO_PART: "Background columns", LEFT_OUT: "Columns left out of the model"}
_EMPTY = "no columns"

_STYLE = (
    "text-align: left; vertical-align: top; white-space: normal; max-width: 60em; padding: 2px 8px"
)


def make_table(columns: Mapping[str, object], frame: str) -> Frame:
    """Columns by name as a data frame.

    Parameters
    ----------
    columns : mapping of names to sequences of equal length
    frame : {"pandas", "polars", "array"}
        Library; "array" is the one that is installed, pandas first.

    Returns
    -------
    table : pandas or polars DataFrame
    """
    if frame == "pandas" or (frame != "polars" and find_spec("pandas") is not None):
        import pandas as pd

        return pd.DataFrame(dict(columns))
    import polars as pl

    return pl.DataFrame({name: _of_one_type(values) for name, values in columns.items()})


def _of_one_type(values: object) -> object:
    """Values for a polars column, which has one type: as text where a list has several types."""
    if isinstance(values, np.ndarray) and values.dtype != object:
        return values
    assert isinstance(values, Iterable)
    found = [value.item() if isinstance(value, np.generic) else value for value in values]
    kinds = {type(value) for value in found if value is not None}
    if len(kinds) <= 1:
        return found
    as_one = float if kinds == {int, float} else str
    return [None if value is None else as_one(value) for value in found]


class StateGroup(NamedTuple):
    """Similar states of a part with many states, described together."""

    part: str
    states: tuple[int, ...]  # the most frequent first
    share: float
    profile: str


class ClassProfile(NamedTuple):
    """A class of rows: its share of them, and what is typical of it."""

    label: object  # as in ``classes_``
    share: float
    profile: str


class NearDuplicate(NamedTuple):
    """A column that is nearly a copy of another: the correlation, or the share of equal levels."""

    column: str
    other: str
    strength: float


class Summary(dict[str, list[object]]):
    """What `MCVQ.summary` returns: a dict of columns, one row per state.

    Keys are ``part``, ``columns`` (most informative first, separated by commas), ``state``,
    ``share`` of the rows, and ``profile``. The last rows list the background columns, with "none"
    as part, and the columns that the model does not use, with "left out" as part, if there are
    some.

    Parameters
    ----------
    columns : dict of lists
    frame : {"pandas", "polars", "array"}
        Library of the data that were fitted.
    groups : sequence of StateGroup
        Groups of similar states, of parts with many states. Text and notebooks show these parts by
        their groups; the dict and the data frame have every state.
    near_duplicates : sequence of NearDuplicate
        Columns that are nearly copies of others; they are sampled together.
    classes : sequence of ClassProfile
        Classes of the rows, if the model has some.
    doubt : str
        A sentence if another division of the columns is nearly as good, otherwise empty.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from partwise import MCVQ
    >>> iris = load_iris(as_frame=True)
    >>> table = iris.data.assign(species=iris.target_names[iris.target])
    >>> model = MCVQ(n_parts=1, n_states=2, likelihood="auto", random_state=0).fit(table)
    >>> summary = model.summary(n_columns=1)
    >>> summary.to_frame().columns.tolist()
    ['part', 'columns', 'state', 'share', 'profile']
    """

    def __init__(
        self,
        columns: Mapping[str, list[object]],
        frame: str = "array",
        groups: Sequence[StateGroup] = (),
        near_duplicates: Sequence[NearDuplicate] = (),
        classes: Sequence[ClassProfile] = (),
        doubt: str = "",
    ) -> None:
        super().__init__(columns)
        self.doubt = doubt
        self.frame = frame
        self.groups = list(groups)
        self.near_duplicates = list(near_duplicates)
        self.classes = list(classes)

    def to_frame(self) -> Frame:
        """Return a data frame with one row per state.

        Returns
        -------
        table : DataFrame
            Of the library that the model was fitted with; for arrays pandas, if it is installed,
            or polars.
        """
        return make_table(self, self.frame)

    def _rows(self) -> Iterator[tuple[str, str, str, float, str]]:
        """Lines to show: part, its columns, state or states, share and profile."""
        columns = (self[name] for name in ("part", "columns", "state", "share", "profile"))
        grouped: dict[str, list[StateGroup]] = {}
        for group in self.groups:
            grouped.setdefault(group.part, []).append(group)
        for part, names, state, share, profile in zip(*columns, strict=True):
            if part not in grouped:
                yield str(part), str(names), str(state), float(str(share)), str(profile)
                continue
            for group in grouped[str(part)]:
                states = _some([str(j) for j in group.states], NAMED_STATES)
                yield group.part, str(names), states, group.share, group.profile
            grouped[str(part)] = []  # its other states are in these groups

    def __str__(self) -> str:
        lines: list[str] = []
        last = None
        for part, names, state, share, profile in self._rows():
            if part in _WITHOUT_PART:
                lines += ["", *_wrapped(f"{_WITHOUT_PART[part]}: ", names)]
                continue
            if part != last:
                shown = _some(names.split(", "), NAMED_COLUMNS) or _EMPTY
                lines += ["", *_wrapped(f"{part}: ", shown)]
                last = part
            if not names:
                continue
            noun = "states" if "," in state else "state"
            lines += _wrapped(f"  {noun} {state}, {_percent(share)} of the rows: ", profile)
        if self.classes:
            lines += ["", "Classes of rows"]
        for label, share, profile in self.classes:
            lines += _wrapped(f"  class {label}, {_percent(share)} of the rows: ", profile)
        if self.near_duplicates:
            lines += ["", *_wrapped("Near-duplicate columns: ", self._copies())]
        if self.doubt:
            lines += ["", *_wrapped("", self.doubt)]
        if self.groups:
            note = "Similar states are described together; summary(max_states=None) has each."
            lines += ["", note]
        return "\n".join(lines[1:]) or "no parts"

    __repr__ = __str__

    def _copies(self) -> str:
        """Near-duplicate columns in a sentence."""
        told = [f"{one.column} of {one.other} ({one.strength:.3f})" for one in self.near_duplicates]
        return "; ".join(told)

    def _repr_html_(self) -> str:
        rows = []
        last = None
        for part, names, state, share, profile in self._rows():
            if part != last:
                what = _WITHOUT_PART.get(part, part)
                told = _html(what, names or _EMPTY)
                rows.append(f"<tr><th colspan=3 style='{_STYLE}'>{told}</th></tr>")
                last = part
            if names and part not in _WITHOUT_PART:
                rows.append(_html_row(state, _percent(share), profile))
        if self.classes:
            rows.append(f"<tr><th colspan=3 style='{_STYLE}'>Classes of rows</th></tr>")
        for label, share, profile in self.classes:
            rows.append(_html_row(str(label), _percent(share), profile))
        if self.near_duplicates:
            told = _html("Near-duplicate columns", self._copies())
            rows.append(f"<tr><th colspan=3 style='{_STYLE}'>{told}</th></tr>")
        if self.doubt:
            rows.append(f"<tr><th colspan=3 style='{_STYLE}'>{escape(self.doubt)}</th></tr>")
        head = _html_row("state", "rows", "what is typical of it", tag="th")
        return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


class Explanation(list[dict[str, object]]):
    """What ``explain`` returns: a list of dicts, one per part or component.

    Parameters
    ----------
    found : list of dict
        ``columns`` are lists of dict with ``column``, ``value``, ``expected`` and ``evidence``.
    frame : {"pandas", "polars", "array"}
        Library of the data that were fitted.
    part_names : sequence of str
        Names of the parts, by number; "part0", "part1", ... if it is empty.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from partwise import MCVQ
    >>> X = load_iris().data
    >>> model = MCVQ(n_parts=1, n_states=3, random_state=0).fit(X)
    >>> explained = model.explain(X[0], n_columns=2)
    >>> explained[0]["state"] in (0, 1, 2), len(explained.to_frame())
    (True, 2)
    """

    def __init__(
        self,
        found: Sequence[dict[str, object]],
        frame: str = "array",
        part_names: Sequence[str] = (),
    ) -> None:
        super().__init__(found)
        self.frame = frame
        self.part_names = tuple(part_names)

    def to_frame(self) -> Frame:
        """Return a data frame with one row per column that supports a state, or the factors.

        Returns
        -------
        table : DataFrame
            Of the library that the model was fitted with; for arrays pandas, if it is installed,
            or polars.
        """
        kinds = ("part", "component", "class", "state", "probability")
        names = [name for name in kinds if self and name in self[0]]
        rows: dict[str, list[object]] = {
            name: [] for name in (*names, "column", "value", "expected", "evidence")
        }
        for one in self:
            for column in _columns(one):
                told = {**{name: one[name] for name in names}, **column}
                if "part" in told:
                    told["part"] = self._name(one)
                for name, values in rows.items():
                    values.append(told[name])
        return make_table(rows, self.frame)

    def _name(self, one: Mapping[str, object]) -> str:
        """Name of a part or component."""
        if "part" not in one:
            return f"component{one['component']}"
        k = int(str(one["part"]))
        return self.part_names[k] if k < len(self.part_names) else f"part{k}"

    def _title(self, one: Mapping[str, object]) -> str:
        """First line about a part or component."""
        parts = [self._name(one)]
        if "class" in one:
            parts.append(f"class {one['class']}")
        if "state" in one:
            parts.append(f"state {one['state']}")
        if "transformation" in one:
            parts.append(f"transformation {_numbers(one['transformation'])}")
        if "factors" in one:
            parts.append(f"factors {_numbers(one['factors'])}")
        text = ", ".join(parts)
        return f"{text} (probability {one['probability']:.2f})" if "probability" in one else text

    def __str__(self) -> str:
        lines: list[str] = []
        for one in self:
            lines += _wrapped("", self._title(one))
            for c in _columns(one):
                told = f"{_text(c['value'])} (expected {_text(c['expected'])})"
                lines += _wrapped(f"  {c['column']}: ", f"{told}, evidence {c['evidence']:.2f}")
        return "\n".join(lines) or "no parts"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = []
        for one in self:
            title = escape(self._title(one))
            rows.append(f"<tr><th colspan=4 style='{_STYLE}'>{title}</th></tr>")
            for c in _columns(one):
                told = (_text(c["value"]), _text(c["expected"]), f"{c['evidence']:.2f}")
                rows.append(_html_row(str(c["column"]), *told))
        head = _html_row("column", "value", "expected", "evidence", tag="th")
        return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def _numbers(values: object) -> str:
    return ", ".join(number_text(float(value)) for value in np.asarray(values))


def _columns(one: Mapping[str, object]) -> list[dict[str, object]]:
    found = one["columns"]
    assert isinstance(found, list)
    return found


def _text(value: Value) -> str:
    """A value as people write it; text in quotation marks."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, float | int | np.number):
        number = float(value)
        return (
            f"{number:g}"
            if number == round(number, 3) and abs(number) < 1000
            else (number_text(number))
        )
    return str(value)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 else f"{100 * share:.1g} %"


def _some(words: Sequence[str], most: int) -> str:
    """The first of many words; one more than ``most`` is named, too."""
    return first_few(words, most + 1 if len(words) == most + 1 else most)


def _wrapped(start: str, text: str) -> list[str]:
    """Lines of at most `WIDTH` characters, later ones indented."""
    indent = " " * (len(start) - len(start.lstrip()) + 4)
    return textwrap.wrap(start + text, WIDTH, subsequent_indent=indent, break_long_words=False)


def _html(name: str, names: str) -> str:
    return f"{escape(name)}: <span style='font-weight: normal'>{escape(names)}</span>"


def _html_row(*cells: str, tag: str = "td") -> str:
    return "<tr>" + "".join(f"<{tag} style='{_STYLE}'>{escape(c)}</{tag}>" for c in cells) + "</tr>"
