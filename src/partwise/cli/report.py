"""``partwise report``: a page about a saved model."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from zipfile import BadZipFile

import typer

from partwise.cli.console import fail, say

if TYPE_CHECKING:
    import numpy as np


def parse_image_shape(text: str | None) -> tuple[int, int] | None:
    """Read a height and a width from text such as ``32x32``."""
    if text is None:
        return None
    found = re.fullmatch(r"\s*([1-9]\d*)\s*[x×,]\s*([1-9]\d*)\s*", text.lower())
    if found is None:
        fail(f"Error: {text!r} is not a height and a width, such as 32x32.", 2)
    return int(found[1]), int(found[2])


def read_array(path: Path) -> np.ndarray:
    """Read a table from a ``.npy`` file, or from the only array, or data or X, of a ``.npz``."""
    import numpy as np

    with path.open("rb") as file:
        if not file.read(4).startswith((b"\x93NUM", b"PK")):
            raise ValueError(f"{path} is neither a .npy nor a .npz file of numpy.")
        file.seek(0)
        try:
            content = np.load(file, allow_pickle=False)
            array = content if isinstance(content, np.ndarray) else content[_choose(content.files)]
        except (ValueError, OSError, EOFError, BadZipFile) as error:
            raise ValueError(f"{path} cannot be read: {error}") from error
    if array.ndim > 2:  # a stack of images
        array = array.reshape(len(array), -1)
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise ValueError(
            f"{path} holds an array of shape {array.shape} and type {array.dtype}; "
            "a table of numbers is needed, one row a sample."
        )
    return array


def _choose(names: list[str]) -> str:
    """Choose the array to read from a file with several."""
    for name in ("data", "X"):
        if name in names:
            return name
    if len(names) != 1:
        raise ValueError(
            f"it holds the arrays {', '.join(names) or '(none)'}; call the one to read data or X."
        )
    return names[0]


def report(
    model: Annotated[
        Path,
        typer.Argument(help="Model file, as written by save().", show_default=False),
    ],
    data: Annotated[
        Path | None,
        typer.Argument(help="Rows to show, a .npy or .npz file.", show_default=False),
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
    """Write a page about a saved model: its parts, states or factors, classes, and some rows."""
    shape = parse_image_shape(image_shape)
    from partwise import load
    from partwise.report import write_report

    fitted = load(model)
    rows = None if data is None else read_array(data)
    with warnings.catch_warnings():
        # Files of numpy have no column names; their order is all there is to go by.
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        write_report(fitted, out, rows, shape, title, model_file=model.name)
    say(f"Wrote {out}.")
