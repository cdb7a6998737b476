"""Contents of model files: columns of a table as latent Gaussian numbers (`CopulaColumns`)."""

from __future__ import annotations

import numpy as np

from partwise.data.table import IGNORED, LOGGED, has_levels
from partwise.files.pieces import MAX_LEVELS, MAX_VALUE, group_entries
from partwise.files.schema import Array, Each, Flag, Record, Scope, Stored, Text
from partwise.likelihoods.copula import Copula

# D latent numbers of T columns, with E ends of levels at most.
LATENTS = Each(
    Record(
        {
            **group_entries(3),
            "index": Array("int", ("D",), low=0, below="T"),
            "law": Text((Copula.name,)),
            "widths": Array("int", ("D",), low=-1, high=MAX_LEVELS),
            "n_levels": Array("int", ("D",), low=0, high=MAX_LEVELS),
            "edges": Array("float", ("D", "E"), low=-MAX_VALUE, high=MAX_VALUE),
            "logs": Array("bool", ("D",)),
            "knots": Array("float", (3, "knots")),
            "n_knots": Array("int", ("D",), low=0, high=1 << 20),
            "tails": Array("float", (2, "D"), above=0.0),
            "units": Array("float", (2, "D")),
        },
        {"logged": Flag()},
    ),
    1,
)


def latents_fit(value: Stored, scope: Scope) -> str | None:
    """Latent numbers are those of the table's columns, and kernels can rely on them."""
    (group,), columns = value["columns"], value["schema"]["columns"]
    if value["learned"]["n_features_in_"] != len(columns):
        return f"has n_features_in_ that differs from {len(columns)} columns of the table"
    modeled = [d for d, column in enumerate(columns) if column["kind"] != IGNORED]
    if group["levels"] is not None or int(group["n_knots"].sum()) != group["knots"].shape[1]:
        return "has levels or knots that belong to no column"
    d, stop = 0, np.cumsum(group["n_knots"])
    for place in modeled:
        if d >= len(group["index"]):
            return f"has no latent number of column {place}"
        problem = _column_fits(group, d, stop, columns[place], place)
        if problem is not None:
            return f"has latent numbers of column {place} that {problem}"
        d += max(int(group["widths"][d]), 1)
    return None if d == len(group["index"]) else "has latent numbers of no column"


def _column_fits(group: Stored, d: int, stop: np.ndarray, column: Stored, place: int) -> str | None:
    """The latent numbers of a column, the first of which is d."""
    width, V = int(group["widths"][d]), int(group["n_levels"][d])
    own = slice(d, d + max(width, 1))
    if width < 0 or not np.all(group["index"][own] == place) or own.stop > len(stop):
        return "are those of another"
    if np.any(group["logs"][own] != (column["kind"] == LOGGED)):
        return "differ about logarithms"
    if not has_levels(column["kind"]):
        z, x, slope = group["knots"][:, stop[d] - group["n_knots"][d] : stop[d]]
        rise = len(z) > 1 and np.all(np.diff(z) > 0) and np.all(np.diff(x) > 0)
        fits = width == 0 and V == 0 and rise and np.all(slope > 0) and group["units"][1, d] > 0
        return None if fits else "have no monotone map"
    if np.any(group["n_knots"][own]) or len(column["levels"]) != V:
        return "have other levels"
    if width == 1:
        ends = group["edges"][d, : V + 1]
        return None if len(ends) > V and np.all(np.diff(ends) > 0) else "have ends that do not rise"
    alike = np.all(group["n_levels"][own] == V) and np.all(group["widths"][own][1:] == -1)
    return None if width == V and alike else "are not one for each level"
