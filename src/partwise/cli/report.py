"""``partwise report``: a page about a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partwise.cli.console import nameless, need_folders, say
from partwise.cli.tables import (
    Encoding,
    Header,
    Missing,
    Resize,
    known_columns,
    number_columns,
    parse_image_shape,
    text_columns,
)


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
    missing: Missing = None,
    encoding: Encoding = None,
    header: Header = None,
    resize: Resize = None,
) -> None:
    """Write a page about a saved model: its parts, states or factors, classes, and some rows.

    Examples:

      partwise report survey.safetensors survey.csv -o survey.html

      partwise report faces.safetensors faces.npy --image-shape 32x32
    """
    need_folders(out)
    shape, wanted = parse_image_shape(image_shape), parse_image_shape(resize)
    from partwise import load
    from partwise.reading import read_data
    from partwise.report import write_report

    fitted = load(model)
    rows = None
    if data is not None:
        found = read_data(
            data,
            missing=missing or (),
            texts=text_columns(fitted),
            numbers=number_columns(fitted),
            encoding=encoding,
            header=header,
            resize=wanted,
        )
        rows, shape = known_columns(fitted, found.X, data), shape or found.image_shape
    with nameless():
        write_report(fitted, out, rows, shape, title, model_file=model.name)
    say(f"Wrote {out}.")
