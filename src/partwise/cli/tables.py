"""Options of how files are read, and tables in the terms of a saved model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partwise.cli.console import fail, plural

if TYPE_CHECKING:
    from partwise.files.data import Data

Encoding = Annotated[
    str | None,
    typer.Option("--encoding", help="Of a text file that is not UTF-8, such as latin-1."),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        "--missing", metavar="TEXT", help="A text that means missing, as -99; may be repeated."
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header", help="Whether the first line names the columns; else found out."
    ),
]
Resize = Annotated[
    str | None,
    typer.Option("--resize", metavar="HEIGHTxWIDTH", help="Bring all images to this size."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of all that is drawn by chance.")]


def parse_image_shape(text: str | None) -> tuple[int, int] | None:
    """Read a height and a width from text such as ``32x32``."""
    if text is None:
        return None
    found = re.fullmatch(r"\s*([1-9]\d*)\s*[x×,]\s*([1-9]\d*)\s*", text.lower())
    if found is None:
        fail(f"Error: {text!r} is not a height and a width, such as 32x32.", 2)
    return int(found[1]), int(found[2])


def pair(text: str, option: str, form: str) -> tuple[str, str]:
    """Read what stands before and after the last equals sign."""
    name, sign, value = text.rpartition("=")
    if not sign or not name:
        fail(f"Error: {option} {text!r} is not of the form {form}.", 2)
    return name, value


def schema_of(fitted: Any) -> Any:
    """What a model knows of the columns of a table of several kinds; None of others."""
    return getattr(fitted, "_schema", None)


def read_like(
    fitted: Any,
    path: Path,
    missing: list[str] | None,
    encoding: str | None,
    header: bool | None,
    resize: tuple[int, int] | None,
) -> tuple[Data, Any]:
    """Read a file as the model's rows were: all that it holds, and what the model knows of it."""
    from partwise.files import read_data

    found = read_data(
        path,
        missing=missing or (),
        texts=_text_columns(fitted),
        numbers=_number_columns(fitted),
        encoding=encoding,
        header=header,
        resize=resize,
    )
    return found, _known_columns(fitted, found.X, path)


def _text_columns(fitted: Any) -> list[str]:
    """Columns that held texts when the model was fitted."""
    schema = schema_of(getattr(fitted, "model_", fitted))
    if schema is None:
        return []
    return [
        str(column.name)
        for column in schema.columns
        if any(isinstance(level, str) for level in column.levels)
    ]


def _number_columns(fitted: Any) -> list[str]:
    """Columns that held no texts when the model was fitted."""
    texts = _text_columns(fitted)
    names = map(str, getattr(fitted, "feature_names_in_", ()))
    return [name for name in names if name not in texts]


def _known_columns(fitted: Any, X: Any, path: Path) -> Any:
    """The columns that the model knows, in its order."""
    names = getattr(fitted, "feature_names_in_", None)
    width = getattr(fitted, "n_features_in_", X.shape[1])
    if X.shape[1] != width and (names is None or not hasattr(X, "columns")):
        raise ValueError(
            f"{path} has {plural(X.shape[1], 'column')}, but the model learned from {width}; give "
            "a table like the one it learned from, or fit a model to this one."
        )
    if not hasattr(X, "columns"):
        return X
    if names is None:
        for column in X.get_columns():
            if not column.dtype.is_numeric() and schema_of(fitted) is None:
                raise ValueError(
                    f"{path}: column {column.name!r} holds {column.dtype}, but the model learned "
                    "from numbers alone; give a table like the one it learned from, or fit a model "
                    "to this one."
                )
        return X.to_numpy()
    absent = [name for name in names if name not in X.columns]
    if absent:
        raise ValueError(
            f"{path} lacks the column {absent[0]!r} that the model learned from; add it (it may "
            "be empty), or fit a model to this table."
        )
    return X.select(list(names))
