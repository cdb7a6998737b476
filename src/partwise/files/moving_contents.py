"""Contents of the files of models whose parts move on their own.

Sizes besides those of `partwise.files.contents`: T transformations, and U pixels of the canvas.
"""

from __future__ import annotations

import numpy as np

from partwise.files.pieces import (
    DTYPE,
    GROUPS,
    MAX_VALUE,
    ROUNDING,
    Sizes,
    differ,
    learned,
    model_units,
    positive,
    units_fit,
)
from partwise.files.schema import Array, Number, Record, Scope, Stored, Whole


def _log_shares(value: np.ndarray, scope: Scope) -> str | None:
    """Logarithms of probabilities that sum to 1 along the last axis."""
    wrong = np.abs(np.exp(value).sum(axis=-1) - 1.0) > ROUNDING
    return "contains probabilities that do not sum to 1" if wrong.any() else None


def _log_probability(*shape: int | str) -> Array:
    return Array("float", shape, low=-MAX_VALUE, high=ROUNDING, rules=(_log_shares,))


def _sizes_fit(value: Stored, scope: Scope) -> str | None:
    """Columns and canvas are those of the transformations, and classes have names."""
    moves, state = value["arguments"]["transformations"], value["state"]
    sizes = moves.n_columns, moves.n_canvas, len(moves)
    given = state["learned"]["n_features_in_"]
    found = scope.sizes["D"], scope.sizes["U"], scope.sizes["T"]
    if sizes != found or given != scope.sizes["D"]:
        return f"has transformations of sizes {sizes}, but parameters of {found}"
    if len(state["columns"]) != 1 or len(state["columns"][0]["index"]) != given:
        return "has columns that are not those of the rows"
    if (
        value["arguments"].get("likelihood") != "gaussian"
        or state["columns"][0]["law"] != "gaussian"
    ):
        return "has a likelihood that is not gaussian"
    if state["learned"]["n_parts_"] != scope.sizes["K"]:
        return f"has n_parts_={state['learned']['n_parts_']}, not {scope.sizes['K']}"
    classes = state["learned"].get("classes_")
    named = 1 if classes is None else len(classes)
    return None if named == scope.sizes["N"] else f"has {named} names of {scope.sizes['N']} classes"


MOVING_PARTS = Record(
    {
        "arguments": Sizes(n_parts="K", n_states="J"),
        "state": Record(
            {
                "templates": Record(
                    {
                        "odds": Array("float", ("K", "U"), low=0.0, high=MAX_VALUE),
                        "mean": model_units("K", "J", "U"),
                        "var": positive("K", "J", "U"),
                        "log_rho": _log_probability("K", "T"),
                        "log_b": _log_probability("N", "K", "J"),
                        "log_beta": _log_probability("N"),
                        "back_mean": model_units("D"),
                        "back_var": positive("D"),
                        "outlier": Number(above=0.0, below=1.0),
                    }
                ),
                "noise": Number(above=0.0),
                "columns": GROUPS,
                "dtype": DTYPE,
                "learned": learned(
                    {"classes_": Array("any", ("named",), rules=(differ,))}, n_parts_=Whole(low=1)
                ),
            },
            rules=(units_fit,),
        ),
    },
    rules=(_sizes_fit,),
)
