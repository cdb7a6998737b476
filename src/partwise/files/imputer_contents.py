"""What the file of an imputer holds: models of one table, and how they are blended.

Sizes: D columns; models have their own, as in `partwise.files.contents`.
"""

from __future__ import annotations

import numpy as np

from partwise.data.table import IGNORED, has_levels, law_of_kind
from partwise.files.pieces import MAX_LEVELS, MAX_VALUE, calibration
from partwise.files.rating_contents import Member
from partwise.files.schema import (
    Array,
    Check,
    Each,
    Flag,
    Mapped,
    Maybe,
    MisfitError,
    OneOf,
    Record,
    Scope,
    Stored,
    Text,
    Whole,
    inside,
)
from partwise.likelihoods import LAWS


def _size_options(value: object, scope: Scope) -> None:
    if type(value).__name__ != "SizeOptions":  # the class is read from the file's list of options
        raise MisfitError("is not a SizeOptions")


def _no_regressor(value: object, scope: Scope) -> None:
    raise MisfitError("is a regressor, which files do not hold")


_NUMBER_CURVES = Record(
    {
        "columns": Array("int", ("T",), low=0, below="D"),
        "places": Array("int", ("T",), low=0, below="W"),
        "weight": Array("float", ("T",), low=0.0, high=1.0),
        "width": Array("float", ("T",), above=0.0, high=1.0),
        "coefficients": Array("float", ("W+M", "T")),
        "offset": Array("float", ("T",)),
    }
)
_LEVEL_CURVES = Record(
    {
        "columns": Array("int", ("L",), low=0, below="D", rising=True),
        "n_levels": Array("int", ("L",), low=2, high=MAX_LEVELS),
        "weight": Array("float", ("L",), low=0.0, high=1.0),
        "coefficients": Array("float", ("W+M", "C")),
        "offset": Array("float", ("C",)),
    }
)
_CURVES = Record(
    {
        "center": Array("float", ("W",)),
        "scale": Array("float", ("W",), above=0.0),
        "pairs": Array("int", (2, "M"), low=0, below="W"),
    },
    {"numbers": _NUMBER_CURVES, "levels": _LEVEL_CURVES},
)


def imputer(member: Member) -> Check:
    """The check of a file of an imputer, given that of the models that it averages."""
    return lambda value, scope: _imputer(member, value, scope)


def _imputer(of: Member, value: object, scope: Scope) -> None:
    """Models of one table, and a factor model of its columns as numbers."""
    assert isinstance(value, dict)
    asked = value["arguments"]
    member = {"n_parts": "auto", "likelihood": asked.get("likelihood", "auto")}

    def model(value: object, scope: Scope) -> None:
        of("MCVQ", member, value, scope)

    def factors(value: object, scope: Scope) -> None:
        of("MCFA", {"n_parts": 1}, value, Scope())

    def copula(value: object, scope: Scope) -> None:
        of("MCFA", {"n_parts": 1, "likelihood": "auto"}, value, Scope())

    state = Record(
        {
            "models": Each(model),
            "factors": Maybe(
                Record(
                    {
                        "levels": Array("int", ("D",), low=-1, high=MAX_LEVELS),
                        "numbers": Array("bool", ("D",)),
                        "counts": Array("bool", ("D",)),
                    },
                    {
                        "share": Array("float", ("D",), low=0.0, high=1.0),  # before the copula
                        "weights": Array("float", (3, "D"), low=0.0, high=1.0),
                        "calibration": calibration("D"),
                        "curves": _CURVES,
                        "n_factors": Whole(low=1),
                        "factors": factors,
                        "n_copula": Whole(low=1),
                        "copula": copula,
                    },
                    rules=(_factors_fit,),
                )
            ),
        },
        rules=(_some_models, _levels_agree, _level_curves_fit),
    )
    arguments = Record(
        {},
        {
            "n_parts": OneOf((Text(("auto",)), Whole(low=1))),
            "n_states": OneOf((Text(("auto",)), Each(Whole(low=1)), Whole(low=1))),
            "likelihood": OneOf((Text(), Each(Text()), Mapped(Text()))),
            "n_factors": Whole(),
            "copula": Flag(),
            "loss": Text(("squared", "absolute")),
            "residual": Maybe(_no_regressor),
            "n_fits": Whole(low=1),
            "sizes": Maybe(_size_options),
            "add_states": Flag(),
            "encode": Flag(),
            "n_jobs": Maybe(Whole(low=-MAX_VALUE)),
            "random_state": Maybe(Whole(high=2**32 - 1)),
        },
    )
    inside("arguments", arguments, asked, scope)
    inside("state", state, value["state"], scope)


def _some_models(value: Stored, scope: Scope) -> str | None:
    return None if value["models"] else "has no model"


def _levels_agree(value: Stored, scope: Scope) -> str | None:
    """The factor model has a column for each level of an unordered column."""
    table, factors = value["models"][0]["schema"], value["factors"]
    if factors is None:
        return None
    levels, numbers = factors["levels"], factors["numbers"]
    if np.any(numbers & (levels != 0)):
        return "has factors of a column as levels and as numbers"
    if table is None:
        return None if np.all(levels == 0) else "has factors of levels, but no table"
    for d, column in enumerate(table["columns"]):
        law = None if column["kind"] == IGNORED else law_of_kind(column["kind"])
        wanted = -1 if law is None or not (law.linear or has_levels(column["kind"])) else 0
        if law is not None and law.has_levels and not law.latent:
            wanted = len(column["levels"])
        if levels[d] != wanted:
            return f"has factors of {levels[d]} levels of column {d}, not {wanted}"
        if numbers[d] != (law is not None and law.linear):
            return f"is inconsistent about whether column {d} is a number"
    return None


def _factors_fit(value: Stored, scope: Scope) -> str | None:
    """The factor models have the columns that the table's columns are encoded as, and weights."""
    levels, weights = value["levels"], value.get("weights")
    if weights is None and not {"share", "factors"} <= value.keys():
        return "has no weights"
    names = ("factors", "copula")
    absent = [name for name in names if name not in value]
    if weights is not None:
        if not np.allclose(weights.sum(axis=0), 1.0):
            return "has weights that do not add up to 1"
        if any(weights[1 + names.index(name)].any() for name in absent):
            return f"has weights of {absent[0]}, but no model"
    for name in set(names) - set(absent):
        J = value[name]["n_factors"][0]
        if value.get(f"n_{name}") != J:
            return f"has n_{name}={value.get(f'n_{name}')}, not {J}"
    if "copula" in value and len(value["copula"]["schema"]["columns"]) != len(levels):
        return "has a copula of other columns"
    problem = _curves_fit(value)
    if problem is not None or "factors" not in value:
        return problem
    width = int(np.where(levels == 0, 1, np.maximum(levels, 0)).sum())
    own = value["factors"]["gate"]["g"].shape[1]
    return None if own == width else f"has factors of {own} columns, not {width}"


def _curves_fit(value: Stored) -> str | None:
    """The quadratic regression is of numbers, each of which stands where its column does."""
    if "curves" not in value:
        return None
    curves = value["curves"]
    widths = np.where(value["levels"] == 0, 1, np.maximum(value["levels"], 0))
    if len(curves["center"]) != widths.sum():
        return f"has a regression of {len(curves['center'])} columns, not {widths.sum()}"
    if "numbers" not in curves:
        return None
    columns = curves["numbers"]["columns"]
    if not value["numbers"][columns].all():
        return "has a regression of a column that is not a number"
    first = np.cumsum(widths) - widths
    if not np.array_equal(curves["numbers"]["places"], first[columns]):
        return "has a regression of other columns than it says"
    return None


def _level_curves_fit(value: Stored, scope: Scope) -> str | None:
    """The regression of levels has those of the models, and a logit for all but one of each."""
    own = ((value["factors"] or {}).get("curves") or {}).get("levels")
    if own is None:
        return None
    if len(own["offset"]) != (own["n_levels"] - 1).sum():
        return f"has {len(own['offset'])} logits of {own['n_levels'].sum()} levels"
    known = dict[int, int]()
    for group in value["models"][0]["columns"]:
        levels = group["levels"]
        if levels is None:
            levels = LAWS[group["law"]].make(None, 0).own_levels or ()
        known |= dict.fromkeys(group["index"].tolist(), len(levels))
    for d, n_levels in zip(own["columns"].tolist(), own["n_levels"].tolist(), strict=True):
        if known.get(d) != n_levels:
            return f"has a regression of {n_levels} levels of column {d}, not {known.get(d, 0)}"
    return None
