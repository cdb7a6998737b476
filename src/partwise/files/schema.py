"""Checks of stored values, which can be combined; an error is one sentence.

A check takes one plain value (numbers, text, arrays, and lists and dicts of these) and raises
`MisfitError`, which names the entry. Sizes are symbols: the first array that has a size ``"D"``
sets its value, and all others must agree. A size may be a sum or product, ``"J+1"``, ``"K*J"``.

============  ==================================================================================
check         what passes
============  ==================================================================================
`Array`       an array of a kind of numbers or text, of a shape, within bounds
`Number`      a finite number within bounds
`Whole`       an integer within bounds, which may be a size
`Flag`        True or False
`Text`        text, of some choices
`Plain`       any scalar
`Anything`    any value
`Maybe`       None, or a value that passes another check
`Each`        a list or tuple whose items pass a check; sizes may differ from item to item
`Record`      a dict with these entries, some of which may be absent, and no others
`Mapped`      a dict of any names whose values pass a check
`OneOf`       a value that passes one of several checks
`Apart`       a value that passes a check with separate sizes, except for some shared ones
============  ==================================================================================

Checks may have rules in addition: functions of the value and the sizes that return None, or what is
wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np

Size = int | str
Rule = Callable[..., str | None]  # of the value and the scope
# A record whose entries passed their checks; rules read entries whose kinds are known.
Stored: TypeAlias = dict[str, Any]

# Longest value that is shown in a sentence.
_SHOWN = 60


class MisfitError(ValueError):
    """An entry does not pass its check."""


@dataclass
class Scope:
    """Sizes known so far; sizes of items hide those of the whole."""

    sizes: dict[str, int] = field(default_factory=dict)
    lists: dict[str, list[int]] = field(default_factory=dict)

    def get(self, size: Size) -> int | None:
        """A size, None while it is not known."""
        if isinstance(size, int):
            return size
        if "+" in size:
            left, right = map(self._term, size.split("+"))
            return None if left is None or right is None else left + right
        return self._term(size)

    def _term(self, text: str) -> int | None:
        product = 1
        for factor in text.split("*"):
            value = int(factor) if factor.isdigit() else self.sizes.get(factor)
            if value is None:
                return None
            product *= value
        return product

    def agree(self, size: Size, value: int) -> bool:
        """Whether a size has this value; an unknown size is set to it."""
        known = self.get(size)
        if known is None:
            assert isinstance(size, str)
            if not size.isidentifier():
                raise MisfitError(f"has a size {value} that no other entry determines")
            self.sizes[size] = known = value
        return known == value


class Check(Protocol):
    """A check of one value."""

    def __call__(self, value: object, scope: Scope) -> None:
        """Raise `MisfitError` if the value is wrong."""
        ...


def _shown(value: object) -> str:
    """A value for a message."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    if isinstance(value, dict | list | tuple):
        return f"a {type(value).__name__}"
    text = repr(value)
    if isinstance(value, int | float | str | bool | None):
        return text if len(text) <= _SHOWN and text.isprintable() else f"a long {_kind(value)}"
    return _kind(value)


def _kind(value: object) -> str:
    return type(value).__name__


def _obey(rules: tuple[Rule, ...], value: object, scope: Scope) -> None:
    for rule in rules:
        problem = rule(value, scope)
        if problem is not None:
            raise MisfitError(problem)


def inside(name: str | int, check: Check, value: object, scope: Scope) -> None:
    """Check an entry of a value; the error names the entry."""
    try:
        check(value, scope)
    except MisfitError as error:
        place, problem = error.args if len(error.args) == 2 else ("", error.args[0])
        here = f"[{name}]" if isinstance(name, int) else f".{name}"
        raise MisfitError(here + place, problem) from None


def sentence(error: MisfitError) -> str:
    """The error as a sentence that starts with the entry's name."""
    place, problem = error.args if len(error.args) == 2 else ("", error.args[0])
    return f"{place.lstrip('.') or 'it'} {problem}"


# --- numbers and text ---


@dataclass(frozen=True)
class Array:
    """An array; ``low`` and ``high`` are inclusive, ``above`` and ``below`` not.

    Kinds are "float", "int", "bool", "text" and "any". ``below`` may be a size; ``rising`` requires
    increasing values along the last axis. Numbers are finite unless ``infinite``.
    """

    kind: str
    shape: tuple[Size, ...]
    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | str | None = None
    rising: bool = False
    infinite: bool = False
    rules: tuple[Rule, ...] = ()

    _KINDS: ClassVar[Mapping[str, str]] = {
        "float": "f", "int": "i", "bool": "b", "text": "UO", "any": "fiubUO",
    }  # fmt: skip

    def __call__(self, value: object, scope: Scope) -> None:
        """Kind, shape, then values."""
        if not isinstance(value, np.ndarray):
            raise MisfitError(f"is {_shown(value)}, not an array")
        if value.dtype.kind not in self._KINDS[self.kind] or value.dtype == np.float16:
            raise MisfitError(f"contains {value.dtype}, not {self.kind}")
        if len(self.shape) != value.ndim:
            raise MisfitError(f"has {value.ndim} axes, not {len(self.shape)}")
        for axis, size in enumerate(self.shape):
            if not scope.agree(size, value.shape[axis]):
                raise MisfitError(f"has shape {value.shape}, not {self._wanted(scope)}")
        if value.dtype.kind == "O":
            for item in value.ravel():
                if not isinstance(item, str if self.kind == "text" else str | int | float):
                    raise MisfitError(f"contains {_shown(item)}")
        elif value.size and value.dtype.kind in "fiu":
            self._bounds(value, scope)
        _obey(self.rules, value, scope)

    def _wanted(self, scope: Scope) -> str:
        known = [scope.get(size) for size in self.shape]
        return f"({', '.join('any' if size is None else str(size) for size in known)})"

    def _bounds(self, value: np.ndarray, scope: Scope) -> None:
        least, most = float(value.min()), float(value.max())
        if not self.infinite and not (np.isfinite(least) and np.isfinite(most)):
            raise MisfitError("contains values that are not finite")
        _bound(self, least, scope)
        _bound(self, most, scope)
        if self.rising and np.any(value[..., 1:] <= value[..., :-1]):
            raise MisfitError("has values that do not increase")


def _bound(check: Array | Number | Whole, value: float, scope: Scope) -> None:
    below = scope.get(check.below) if isinstance(check.below, str) else check.below
    if not (
        (check.low is None or value >= check.low)
        and (check.high is None or value <= check.high)
        and (check.above is None or value > check.above)
        and (below is None or value < below)
    ):
        raise MisfitError(f"has the value {value:g}, which is out of range")


@dataclass(frozen=True)
class Number:
    """A finite number, integer or not."""

    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | str | None = None
    infinite: bool = False
    rules: tuple[Rule, ...] = ()

    def __call__(self, value: object, scope: Scope) -> None:
        """Type, then bounds."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise MisfitError(f"is {_shown(value)}, not a number")
        if not self.infinite and not (-1e308 < value < 1e308):
            raise MisfitError("is not finite")
        _bound(self, value, scope)
        _obey(self.rules, value, scope)


@dataclass(frozen=True)
class Whole:
    """An integer; ``size`` names the size that it is."""

    low: float | None = 0
    high: float | None = 2.0**63 - 1
    above: float | None = None
    below: float | str | None = None
    size: str | None = None
    rules: tuple[Rule, ...] = ()

    def __call__(self, value: object, scope: Scope) -> None:
        """Type, bounds, then the size."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise MisfitError(f"is {_shown(value)}, not an integer")
        if self.size is not None and not scope.agree(self.size, value):
            raise MisfitError(f"is {_shown(value)}, not {scope.get(self.size)}")
        if not math.isfinite(min(abs(value), 2**64)):
            raise MisfitError("is not finite")
        _bound(self, value, scope)
        _obey(self.rules, value, scope)


@dataclass(frozen=True)
class Flag:
    """True or False."""

    def __call__(self, value: object, scope: Scope) -> None:
        """Type."""
        if not isinstance(value, bool):
            raise MisfitError(f"is {_shown(value)}, not True or False")


@dataclass(frozen=True)
class Text:
    """Text; ``choices`` None allows any."""

    choices: tuple[str, ...] | None = None

    def __call__(self, value: object, scope: Scope) -> None:
        """Type, then choices."""
        if not isinstance(value, str) or (self.choices is not None and value not in self.choices):
            wanted = "text" if self.choices is None else f"one of {', '.join(self.choices)}"
            raise MisfitError(f"is {_shown(value)}, not {wanted}")


@dataclass(frozen=True)
class Plain:
    """None, booleans, numbers and text."""

    def __call__(self, value: object, scope: Scope) -> None:
        """Type."""
        if not isinstance(value, bool | int | float | str | None):
            raise MisfitError(f"is {_shown(value)}, not a number or text")


@dataclass(frozen=True)
class ColumnName:
    """A plain value, or a tuple of them: of a column below several header rows."""

    def __call__(self, value: object, scope: Scope) -> None:
        """Types."""
        for one in value if isinstance(value, tuple) else (value,):
            Plain()(one, scope)


@dataclass(frozen=True)
class Anything:
    """Any value; checked elsewhere."""

    def __call__(self, value: object, scope: Scope) -> None:
        """Accept."""


# --- combinations ---


@dataclass(frozen=True)
class Maybe:
    """None, or a value that passes."""

    check: Check

    def __call__(self, value: object, scope: Scope) -> None:
        """Accept None, check others."""
        if value is not None:
            self.check(value, scope)


@dataclass(frozen=True)
class OneOf:
    """A value that passes one of several checks; errors are those of the last one."""

    checks: tuple[Check, ...]

    def __call__(self, value: object, scope: Scope) -> None:
        """Try one after the other."""
        for check in self.checks[:-1]:
            trial = Scope(dict(scope.sizes), dict(scope.lists))
            try:
                check(value, trial)
            except MisfitError:
                continue
            scope.sizes, scope.lists = trial.sizes, trial.lists
            return
        self.checks[-1](value, scope)


@dataclass(frozen=True)
class Apart:
    """A value with separate sizes; only the sizes in ``shared`` are those of the whole."""

    check: Check
    shared: tuple[str, ...] = ()

    def __call__(self, value: object, scope: Scope) -> None:
        """Check, then return the shared sizes to the scope."""
        inner = Scope({name: scope.sizes[name] for name in self.shared if name in scope.sizes})
        self.check(value, inner)
        scope.sizes.update({k: inner.sizes[k] for k in self.shared if k in inner.sizes})


@dataclass(frozen=True)
class Each:
    """Items of a list or tuple, as many as ``length``.

    Sizes in ``own`` differ from item to item: the first list that has them sets their values, and
    other lists must agree with it item by item. ``total`` is a size that is the sum of the first of
    them.
    """

    check: Check
    length: Size | None = None
    own: tuple[str, ...] = ()
    total: str | None = None
    rules: tuple[Rule, ...] = ()

    def __call__(self, value: object, scope: Scope) -> None:
        """Number, then items."""
        if not isinstance(value, list | tuple):
            raise MisfitError(f"is {_shown(value)}, not a list")
        if self.length is not None and not scope.agree(self.length, len(value)):
            raise MisfitError(f"has {len(value)} items, not {scope.get(self.length)}")
        found: dict[str, list[int]] = {name: [] for name in self.own}
        for i, item in enumerate(value):
            for name in self.own:
                scope.sizes.pop(name, None)
                if name in scope.lists:
                    scope.sizes[name] = scope.lists[name][i]
            inside(i, self.check, item, scope)
            for name in self.own:
                found[name].append(scope.sizes.pop(name, 0))
        scope.lists.update(found)
        if self.total is not None and not scope.agree(self.total, sum(found[self.own[0]])):
            raise MisfitError(f"sums to {sum(found[self.own[0]])}, not {scope.get(self.total)}")
        _obey(self.rules, value, scope)


@dataclass(frozen=True)
class Record:
    """A dict; entries in ``may`` may be absent. They are checked in the order given here."""

    entries: Mapping[str, Check]
    may: Mapping[str, Check] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()

    def __call__(self, value: object, scope: Scope) -> None:
        """Names, then entries, then rules."""
        if not isinstance(value, dict):
            raise MisfitError(f"is {_shown(value)}, not a dict")
        for name in value:
            if name not in self.entries and name not in self.may:
                raise MisfitError(f"has an unknown entry {_shown(name)}")
        for name, check in {**self.entries, **self.may}.items():
            if name in value:
                inside(name, check, value[name], scope)
            elif name in self.entries:
                raise MisfitError(f"has no entry {name!r}")
        _obey(self.rules, value, scope)


@dataclass(frozen=True)
class Mapped:
    """A dict of any names whose values pass."""

    check: Check

    def __call__(self, value: object, scope: Scope) -> None:
        """All values."""
        if not isinstance(value, dict):
            raise MisfitError(f"is {_shown(value)}, not a dict")
        for name, item in value.items():
            inside(name, self.check, item, scope)
