"""``partwise report``: a page about a saved model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from partwise.cli.console import fail, nameless, say
from partwise.cli.tables import known_columns, text_columns


def parse_image_shape(text: str | None) -> tuple[int, int] | None:
    """Read a height and a width from text such as ``32x32``."""
    if text is None:
        return None
    found = re.fullmatch(r"\s*([1-9]\d*)\s*[x×,]\s*([1-9]\d*)\s*", text.lower())
    if found is None:
        fail(f"Error: {text!r} is not a height and a width, such as 32x32.", 2)
    return int(found[1]), int(found[2])


def report(
    model: Annotated[
        Path,
        typer.Argument(help="Model file, as written by save().", show_default=False),
    ],
    data: Annotated[
        Path | None,
        typer.Argument(help="Rows to show, as partwise fit reads.", show_default=False),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write.")] = Path("report.html"),
    image_shape: Annotated[
        str | None,
        typer.Option(
            "--image-shape",
            metavar="HEIGHTxWIDTH",
            help="The columns are the pixels of an image, such as 32x32.",
            show_default=False,
        ),
    ] = None,
    title: Annotated[str, typer.Option("--title", help="Heading of the page.")] = "Partwise report",
) -> None:
    """Write a page about a saved model: its parts, states or factors, classes, and some rows.

    Examples:

      partwise report survey.safetensors survey.csv -o survey.html

      partwise report faces.safetensors faces.npy --image-shape 32x32
    """
    shape = parse_image_shape(image_shape)
    from partwise import load
    from partwise.reading import read_data
    from partwise.report import write_report

    fitted = load(model)
    rows = None
    if data is not None:
        found = read_data(data, texts=text_columns(fitted))
        rows, shape = known_columns(fitted, found.X, data), shape or found.image_shape
    with nameless():
        write_report(fitted, out, rows, shape, title, model_file=model.name)
    say(f"Wrote {out}.")
