"""How the page writes a table's values, and which of its columns follow others."""

from __future__ import annotations

from partwise.data.table import Schema
from partwise.report.content import Live


def terms(schema: Schema) -> list[Live | None]:
    """How a table's values are written: levels, logarithms, dates, numbers as recorded."""
    out: list[Live | None] = []
    for column in schema.columns:
        own: Live = {}
        if column.has_levels:
            own["levels"] = [column.text(code) for code in range(len(column.levels))]
            own["ordered"] = column.ordered or column.form != "level"
        elif column.form == "date":
            own["date"] = "date" if column.whole else "datetime-local"
        elif column.form == "span":
            own["span"] = True
        elif column.support.step:
            own["step"] = float(column.support.step)
        if column.are_years:
            own["years"] = True
        if column.decimals:
            own["decimals"] = column.decimals
        if column.kind == "lognormal":
            own["offset"] = float(column.offset)
        out.append(own or None)
    return out


def twins(schema: Schema) -> list[Live]:
    """Columns that are nearly copies of others, and how they follow them."""
    return [
        {
            "follower": d,
            "leader": twin.leader,
            "to": [float(value) for value in twin.to],
            "spread": twin.spread,
        }
        for d, twin in schema.twins.items()
    ]
