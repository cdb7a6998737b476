"""What a model file holds of the text file with the rows of the fit: how it was written."""

from __future__ import annotations

from dataclasses import asdict

from partwise.data.text_options import DATE_ORDERS, DURATIONS, ColumnFormat, TextFormat
from partwise.files.schema import Each, Mapped, Record, Scope, Text, Whole

_COLUMN = Record(
    {},
    {
        "decimal": Text((".", ",")),
        "unit": Text(),
        "date_order": Text(tuple(DATE_ORDERS)),
        "first_year": Whole(low=1, high=9900),
        "duration": Text(DURATIONS),
    },
)
_FORMAT = Record({"missing": Each(Text()), "columns": Mapped(_COLUMN)})


def format_state(written: TextFormat) -> dict[str, object]:
    """A format as plain values; of a column only what its values showed."""
    columns = {
        name: {field: value for field, value in asdict(column).items() if value not in ("", None)}
        for name, column in written.columns.items()
    }
    return {"missing": sorted(written.missing), "columns": columns}


def restored_format(state: object) -> TextFormat:
    """The format from what `format_state` gave, after checking it."""
    _FORMAT(state, Scope())
    assert isinstance(state, dict)
    columns = {name: ColumnFormat(**column) for name, column in state["columns"].items()}
    return TextFormat(frozenset(state["missing"]), columns)
