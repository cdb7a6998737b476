"""``partwise report``: the explorer of a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partwise.cli.console import keep_inputs, nameless, need_folders, say
from partwise.cli.tables import Reading, parse_image_shape, read_like, reads_tables


@reads_tables
def report(
    model: Annotated[
        Path,
        typer.Argument(help="Model file, written by partwise fit or save().", show_default=False),
    ],
    data: Annotated[
        Path | None,
        typer.Argument(
            help="Rows to show, in a file that partwise fit can read.", show_default=False
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write.")] = Path("report.html"),
    image_shape: Annotated[
        str | None,
        typer.Option(
            "--image-shape",
            metavar="HEIGHTxWIDTH",
            help="Columns are the pixels of an image of this size, such as 32x32.",
            show_default=False,
        ),
    ] = None,
    title: Annotated[
        str | None,
        typer.Option(
            "--title",
            help="Title of the page; by default that of the data.",
            show_default=False,
        ),
    ] = None,
    *,
    reading: Reading,
) -> None:
    """Write the explorer of a saved model: parts, states or factors, classes, and some rows.

    Examples:

      partwise report survey.safetensors survey.csv -o survey.html

      partwise report faces.safetensors faces.npy --image-shape 32x32
    """
    need_folders(out)
    keep_inputs(out, model, data)
    shape = parse_image_shape(image_shape)
    from partwise import load
    from partwise.report import write_report

    fitted = load(model)
    rows, names = None, None
    if data is not None:
        found, rows = read_like(fitted, data, reading)
        shape = shape or found.image_shape
        names = None if shape is not None else found.row_labels
        title = title or f"Parts of {data.name}"
    with nameless():
        write_report(
            fitted, out, rows, shape, title or "Partwise report", model_file=model.name,
            row_names=names,
        )  # fmt: skip
    say(f"Wrote {out}.")
