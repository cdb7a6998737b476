"""Text files of ratings: user, item, rating."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from partwise.data.frames import shortened
from partwise.data.ratings import role_of
from partwise.data.records import (
    DOUBLE_COLON,
    read_text,
    records,
    refuse_rating_list,
    separator_of,
)

_NEEDED = ("user", "item", "rating")


def read_rating_list(
    path: Path, encoding: str | None = None, columns: Sequence[str] = _NEEDED
) -> tuple[list[str], list[str], list[float]]:
    """Read users, items and ratings from a text file.

    The first line names the columns. If it has only numbers, columns are user, item and rating in
    this order. Separators are commas, semicolons, tabs, bars or double colons. ``columns`` are
    other names of these columns; two of them are users and items, which have ratings of 1.
    """
    text = read_text(path, encoding)
    separator = separator_of(path, text)
    if separator == DOUBLE_COLON:
        text, separator = text.replace(DOUBLE_COLON, "\t"), "\t"
    rows = records(path, text, separator)
    _, first = next(rows)
    names = [cell.strip() for cell in first]
    if columns == _NEEDED and len(names) >= 3 and all(map(_is_number, names)):
        rows = chain([(1, first)], rows)
        places = [0, 1, 2]
    else:
        plain = [str(role_of(name)) for name in names]
        plain = plain if len(set(plain)) == len(plain) else names
        plain = names if set(columns) <= set(names) else plain
        missing = set(columns) - set(plain)
        if missing:
            raise ValueError(
                f"{path} has no column {min(missing)!r} in its first line; name the columns user, "
                "item and rating, or pass their names as --columns (other columns are ignored)."
            )
        places = [plain.index(name) for name in columns]
    user, item, rating = [], [], []
    for line, row in rows:
        cells = [row[place] if place < len(row) else "" for place in places]
        if "" in cells:
            raise ValueError(
                f"{path}, line {line}: the {_NEEDED[cells.index('')]} is missing; add it, or "
                "remove the line."
            )
        user.append(cells[0])
        item.append(cells[1])
        try:
            rating.append(float(cells[2]) if len(cells) > 2 else 1.0)
        except ValueError:
            raise ValueError(
                f"{path}, line {line}: {shortened(cells[2])} is not a rating; write a number, or "
                "remove the line."
            ) from None
    if not rating:
        raise ValueError(f"{path} has column names, but it has no ratings; add some.")
    return user, item, rating


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()


def refuse_rating_columns(path: Path, names: list[str]) -> None:
    """Raise an error if a table is a list of ratings, which `partwise recommend` reads."""
    plain = {name.lower().replace("_", "").removesuffix("id") for name in names}
    if "user" in plain and "rating" in plain and plain & {"item", "movie"}:
        refuse_rating_list(path)
