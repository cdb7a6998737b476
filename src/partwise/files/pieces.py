"""Contents common to several estimators: sizes, groups of columns, tables, and learned values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from typing import TypedDict, Unpack

import numpy as np

from partwise.data.columns import MIN_SCALE, largest_value
from partwise.data.frame_types import has_type
from partwise.data.frames import unique_names
from partwise.data.table import IGNORED, KINDS, LOGGED, has_levels, law_of_kind
from partwise.files.schema import (
    Anything,
    Array,
    Check,
    ColumnName,
    Each,
    Flag,
    Maybe,
    MisfitError,
    Number,
    Plain,
    Record,
    Rule,
    Scope,
    Stored,
    Text,
    Whole,
)
from partwise.likelihoods import LAWS, ORDERED, law_class
from partwise.models.reference import N_BINS

# Largest number in model units: data beyond are clipped (`partwise.data.columns`), and the square
# of a larger number would overflow.
MAX_VALUE = 1e100
MIN_POSITIVE = 1e-100

# Largest loading of factors of variance 1 in a column of variance 1: the square of a larger one
# leaves no significant digits for the rest.
MAX_LOADING = 1e7

# Unit of a column whose square is beyond the largest number.
WIDEST = 1e150

# Tolerance of sums of probabilities.
ROUNDING = 1e-4

# Number of nominal probabilities of a calibration (`partwise.models.calibration.LEVELS`).
N_CALIBRATION_LEVELS = 65

# Log of the largest ratio of two probabilities in floating point.
MAX_LOG_RATIO = 700.0

MAX_LEVELS = 256  # as in `partwise.data.columns`

# Types of columns, by the names that pandas and polars give them, whose values are text.
_TEXT_TYPES = ("String", "Enum", "Categorical", "str", "string")

_FORMS = ("number", "date", "span", "level", "other")


# --- arguments ---


class Sizes:
    """Arguments, some of which are sizes; the estimator checks the others."""

    def __init__(self, **sizes: str) -> None:
        self._sizes = sizes

    def __call__(self, value: object, scope: Scope) -> None:
        """Set the sizes that are numbers."""
        assert isinstance(value, dict)
        for name, size in self._sizes.items():
            given = value.get(name)
            if isinstance(given, bool):
                raise MisfitError(f".{name}", "is a truth value, not a number")
            if isinstance(given, int):
                scope.agree(size, given)


# --- arrays and rules ---


class _Bounds(TypedDict, total=False):
    low: float
    high: float
    rules: tuple[Rule, ...]


def model_units(*shape: int | str, **bounds: Unpack[_Bounds]) -> Array:
    """Numbers in model units."""
    limits: _Bounds = {"low": -MAX_VALUE, "high": MAX_VALUE}
    return Array("float", shape, **(limits | bounds))


def positive(*shape: int | str) -> Array:
    """Positive numbers."""
    return Array("float", shape, low=MIN_POSITIVE, high=1e308)


def counts(*shape: int | str) -> Array:
    """Summed weights."""
    return Array("float", shape, low=0.0, high=MAX_VALUE)


def adds_up(value: np.ndarray, scope: Scope) -> str | None:
    """Probabilities along the first axis sum to 1."""
    wrong = np.abs(value.sum(axis=0) - 1.0) > ROUNDING
    return "contains probabilities that do not sum to 1" if wrong.any() else None


def differ(value: Iterable[object], scope: Scope) -> str | None:
    """All values are distinct."""
    found = list(value)
    return None if len(set(found)) == len(found) else "contains a value twice"


def _not_empty(value: Sized, scope: Scope) -> str | None:
    return None if len(value) else "is empty"


def spreads(value: np.ndarray, scope: Scope) -> str | None:
    """Matrices on the last two axes are symmetric and have no negative variance."""
    turned = np.swapaxes(value, -1, -2)
    largest = np.abs(value).max(axis=(-1, -2), initial=0.0, keepdims=True)
    if np.any(np.abs(value - turned) > ROUNDING * largest):
        return "is not symmetric"
    least = np.linalg.eigvalsh(0.5 * (value + turned)).min(axis=-1, initial=0.0)
    return "has a negative variance" if np.any(least < -ROUNDING * largest[..., 0, 0]) else None


def is_definite(value: np.ndarray, scope: Scope) -> str | None:
    """Matrices are covariances, and can be inverted."""
    problem = spreads(value, scope)
    if problem is None and value.size:
        values = np.linalg.eigvalsh(value)
        if np.any(values[..., 0] <= 1e-12 * values[..., -1]):
            return "has a variance of 0"
    return problem


def _law_fits(value: Stored, scope: Scope) -> str | None:
    """Levels, statistics and units of a group match its likelihood, if it has one."""
    n_levels = 0 if value["levels"] is None else len(value["levels"])
    if n_levels and len(value["moments"]) != n_levels:
        return f"has {len(value['moments'])} moments of {n_levels} levels"
    if "law" not in value:
        return None if not n_levels or np.all(value["moments"] >= 0) else "has shares below 0"
    name, law = value["law"], LAWS[value["law"]]
    if (value["levels"] is not None) != law.has_levels:
        return f"has levels that do not match the likelihood {name!r}"
    if not n_levels and len(value["moments"]) != law.make(None, 0).family.n_statistics:
        return f"has {len(value['moments'])} moments, which do not match the likelihood {name!r}"
    has_units = np.any(value["shift"] != 0.0) or np.any(value["scale"] != 1.0)
    if has_units and not (law.has_units or law.latent):
        return f"has units that do not match the likelihood {name!r}"
    if law.latent and widest(value) > MAX_VALUE:
        return f"has units that do not match the likelihood {name!r}"
    return law.misfit(value, value["moments"])


_GROUP: dict[str, Check] = {
    "index": Array("int", ("C",), low=0, below="D", rising=True),
    "shift": Array("float", ("C",)),
    "scale": Array("float", ("C",), low=MIN_SCALE),
    "levels": Maybe(
        Array("float", ("V",), rising=True, low=-1e150, high=1e150, rules=(_not_empty,))
    ),
    "weight": counts("C"),
    "moments": model_units("P", "C"),
    "varies": Array("bool", ("C",)),
    "absent_zero": Flag(),
}
_OPTIONAL: dict[str, Check] = {"logged": Flag()}


def group_entries(statistics: int | str) -> dict[str, Check]:
    """Entries of the only group of a model, which has all columns."""
    sizes = {"C": "D", "P": statistics}

    def renamed(check: Check) -> Check:
        if not isinstance(check, Array):
            return check
        shape = tuple(sizes.get(str(size), size) for size in check.shape)
        return Array(**{**vars(check), "shape": shape})

    return {name: renamed(check) for name, check in _GROUP.items()}


def one_group(statistics: int | str) -> Record:
    """The only group of a model with one likelihood, which has all columns."""
    return Record(group_entries(statistics), _OPTIONAL, rules=(_law_fits,))


def _are_disjoint(value: list[Stored], scope: Scope) -> str | None:
    """No column is in two groups."""
    every = np.concatenate([group["index"] for group in value])
    return None if len(np.unique(every)) == len(every) else "has a column in two groups"


GROUPS = Each(
    Record(
        {
            **_GROUP,
            "law": Text(tuple(LAWS)),
        },
        # Values that a likelihood stores, and checks itself.
        {
            **_OPTIONAL,
            **{name: Anything() for law in LAWS.values() for name in law.saved},
            "ordered": Flag(),
            "resolution": Number(low=0.0, high=MAX_VALUE),
            "cuts": Each(Number(low=-MAX_VALUE, high=MAX_VALUE)),
        },
        rules=(_law_fits,),
    ),
    "G",
    own=("C", "P", "V"),
    rules=(_are_disjoint,),
)


def calibration(mapped: int | str) -> Record:
    """Calibrated probabilities, for so many columns."""
    return Record(
        {
            "knots": Array("float", ("maps", N_CALIBRATION_LEVELS), low=-MAX_VALUE, high=MAX_VALUE),
            "map_of": Array("int", (mapped,), low=0, below="maps"),
        }
    )


def _edges_fit(value: np.ndarray, scope: Scope) -> str | None:
    """Ends of bins do not decrease; unused ones are infinite."""
    wrong = np.isnan(value).any() or np.any(value[:, 1:] < value[:, :-1])
    return "has ends of bins that decrease" if wrong else None


def reference(size: str) -> Record:
    """Distribution of the training rows (`partwise.models.reference`), of so many columns."""
    return Record(
        {
            "edges": Array("float", (size, N_BINS - 1), infinite=True, rules=(_edges_fit,)),
            "counts": counts(size, N_BINS + 1),
            "part_edges": Array(
                "float", ("scored", N_BINS - 1), infinite=True, rules=(_edges_fit,)
            ),
            "part_counts": counts("scored", N_BINS + 1),
        }
    )


REFERENCE = reference("D")
DTYPE = Text(("float32", "float64"))
GATE = Record(
    {
        "g": Array("float", ("K", "D"), low=0.0, high=1.0 + ROUNDING, rules=(adds_up,)),
        "counts": counts("K", "D"),
        "log_a": model_units("K", "D"),
        "cost": Number(low=-MAX_VALUE, high=MAX_VALUE),
    }
)
_LEARNED: dict[str, Check] = {
    "lower_bound_": Number(),
    "lower_bounds_": Array("float", ("sweeps",), rules=(_not_empty,)),
    "n_iter_": Whole(),
    "converged_": Flag(),
    "n_features_in_": Whole(low=1),
}
_SEEN: dict[str, Check] = {
    "n_samples_seen_": Whole(),
    "weight_seen_": Number(low=0.0),
    "feature_names_in_": Array("text", ("given",), rules=(differ,)),
}


# Steps of a search for sizes.
PATH = Each(
    Record(
        {"kind": Text(), "gain": Number(), "accepted": Flag()},
        {
            "evidence": Number(),
            "parts": Each(Whole()),
            "n_parts": Whole(),
            "n_states": Each(Whole()),
            "n_factors": Each(Whole()),
        },
    )
)


def learned(may: Mapping[str, Check] | None = None, **entries: Check) -> Record:
    """Learned values of all fits, and entries that a model adds or may add."""
    return Record({**_LEARNED, **entries}, {**_SEEN, **(may or {})}, rules=(_columns_named,))


def _columns_named(value: Stored, scope: Scope) -> str | None:
    """There is one name per column given to fit."""
    names, given = value.get("feature_names_in_"), value["n_features_in_"]
    if names is not None and len(names) != given:
        return f"has {len(names)} names of {given} columns"
    return None


# --- tables ---


def widest(group: Stored) -> float:
    """Largest number among the units of a group."""
    shift, scale = group["shift"], group["scale"]
    return max(float(np.abs(shift).max(initial=0.0)), float(scale.max(initial=0.0)))


def units_fit(value: Stored, scope: Scope) -> str | None:
    """Units can be represented in the dtype; of latent numbers, which are in them, squares, too."""
    groups = value["columns"] if isinstance(value["columns"], list | tuple) else [value["columns"]]
    largest = float(np.finfo(value["dtype"]).max)
    for group in groups:
        latent = "law" in group and LAWS[group["law"]].latent
        ends = max((abs(float(cut)) for cut in group.get("cuts", ())), default=0.0)
        in_units = (ends + widest(group)) / float(group["scale"].min(initial=1.0))
        too_wide = widest(group) > (largest**0.5 if latent else largest)
        if too_wide or (latent and in_units > largest_value(np.dtype(value["dtype"]))):
            return f"has units that {value['dtype']} cannot represent"
    return None


def _levels_fit(value: Stored, scope: Scope) -> str | None:
    """A kind with levels has some; yes or no has two."""
    kind, levels = value["kind"], value["levels"]
    if any(level is None or level != level for level in levels):
        return "has a level that is a missing value"
    if value["dtype"] in _TEXT_TYPES and not all(isinstance(level, str) for level in levels):
        return "has levels that are not text"
    own = None if kind == IGNORED else law_of_kind(kind).own_levels
    if own is not None and len(levels) != len(own):
        return f"has {len(levels)} levels, not {len(own)}"
    if has_levels(kind) and not levels:
        return "has no levels"
    if kind == IGNORED or value["form"] == "other":
        return None if kind == IGNORED else "contains objects, which no model can use"
    if value["form"] == "level" and not has_levels(kind):
        return f"contains levels, but is {kind}"
    if has_levels(kind) and value["form"] != "level":
        numbers = all(isinstance(level, int | float) for level in levels)
        return None if numbers else "has levels that are not numbers"
    return None


def _categories_fit(value: Stored, scope: Scope) -> str | None:
    """Declared levels contain those that are used, and are of their types."""
    declared, levels = value.get("categories", ()), value["levels"]
    if not declared:
        return None
    if any(level is None or level != level for level in declared):
        return "declares a level that is a missing value"
    if value["dtype"] in (*_TEXT_TYPES, "Enum") and not all(isinstance(x, str) for x in declared):
        return "declares levels that are not text"
    return None if all(level in declared for level in levels) else "lacks a level it has declared"


def _ends_ordered(value: Stored, scope: Scope) -> str | None:
    """The range is inside the bounds, and has its lower end first."""
    ordered = value["low"] <= value["smallest"] <= value["largest"] <= value["high"]
    return None if ordered else "has ends in the wrong order"


_TABLE_COLUMN = Record(
    {
        "name": ColumnName(),
        "kind": Text(KINDS),
        "form": Text(_FORMS),
        "dtype": Text(),
        "levels": Each(Plain(), rules=(differ,)),
        "ordered": Flag(),
        "offset": Number(low=-1e300, high=1e300),
        "whole": Flag(),
        "note": Text(),
    },
    may={
        "support": Record(
            {
                **{name: Number(infinite=True) for name in ("low", "high", "smallest", "largest")},
                "step": Number(low=0.0, high=1e300),
            },
            rules=(_ends_ordered,),
        ),
        "categories": Each(Plain(), rules=(differ,)),
        "twin": Record(
            {
                "leader": Whole(),
                "strength": Number(low=0.0, high=1.0),
                "to": Each(Number(low=-1e300, high=1e300)),
                "spread": Maybe(Number(low=0.0, high=1e300)),
            }
        ),
    },
    rules=(_levels_fit, _categories_fit),
)


def _types_known(value: Stored, scope: Scope) -> str | None:
    """Columns have types that exist in their kind of table."""
    for i, column in enumerate(value["columns"]):
        if column["form"] != "other" and not has_type(value["frame"], column["dtype"]):
            return f"has a column {i} of an unknown type"
    return None


def _twins_fit(value: Stored, scope: Scope) -> str | None:
    """Columns follow earlier ones of the same kind, which follow none."""
    for i, column in enumerate(value["columns"]):
        twin = column.get("twin")
        if twin is None:
            continue
        if twin["leader"] >= i:
            return f"has a column {i} that follows a later one"
        leader = value["columns"][twin["leader"]]
        n_levels = len(column["levels"])
        by_level = twin["spread"] is None
        if "twin" in leader or by_level != (n_levels > 0):
            return f"has a column {i} that cannot follow column {twin['leader']}"
        if by_level and (
            len(leader["levels"]) != n_levels or sorted(twin["to"]) != list(range(n_levels))
        ):
            return f"has a column {i} whose levels are not those of column {twin['leader']}"
        if not by_level and (len(twin["to"]) != 2 or twin["to"][1] == 0 or leader["levels"]):
            return f"has a column {i} that no line relates to column {twin['leader']}"
    return None


def _names_agree(value: Stored, scope: Scope) -> str | None:
    """Names are those of the columns, equal ones numbered."""
    agree = value["names"] == unique_names(column["name"] for column in value["columns"])
    return None if agree else "has columns of other names"


def table(size: str) -> Record:
    """A table's columns, so many."""
    return Record(
        {
            "columns": Each(_TABLE_COLUMN, size),
            "names": Each(ColumnName(), size, rules=(differ,)),
            "frame": Text(("pandas", "polars", "array")),
        },
        rules=(_types_known, _names_agree, _twins_fit),
    )


TABLE = table("D")


def kinds_fit(value: Stored, scope: Scope) -> str | None:
    """Groups have the kinds of the table's columns."""
    if value["schema"] is None:
        return None
    for group in value["columns"]:
        for d in group["index"].tolist():
            column = value["schema"]["columns"][d]
            law = None if column["kind"] == IGNORED else law_of_kind(column["kind"])
            if law is None or (law_class(ORDERED) if law.latent else law) is not LAWS[group["law"]]:
                return f"has the column {d} as {column['kind']} and as {group['law']}"
            if law.has_levels and not np.array_equal(
                group["levels"], np.arange(len(column["levels"]))
            ):
                return f"has levels of column {d} that do not match the table's"
            if (column["kind"] == LOGGED) != group.get("logged", False):
                return f"is inconsistent about whether column {d} is logarithms"
    names = value["learned"].get("feature_names_in_")
    if names is not None and names.tolist() != [str(name) for name in value["schema"]["names"]]:
        return "has two different lists of column names"
    given = sum(column["kind"] != IGNORED for column in value["schema"]["columns"])
    grouped = sum(len(group["index"]) for group in value["columns"])
    return None if given == grouped else f"has {grouped} of {given} columns in groups"
