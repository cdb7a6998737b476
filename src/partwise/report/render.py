"""From the dict to a page, and from the page to a file."""

from __future__ import annotations

import json
import math
import os
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from partwise.files.model import write_atomically
from partwise.report.collect import collect
from partwise.stability import PartStability

# The page's own code: arithmetic first, then what is seen of it.
_SCRIPTS = (
    "numeric.js",
    "states.js",
    "factors.js",
    "ratings.js",
    "dom.js",
    "image.js",
    "table.js",
    "text.js",
    "interview.js",
    "main.js",
)


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    data: Any = None,
    image_shape: Sequence[int] | None = None,
    title: str = "Partwise report",
    model_file: str | None = None,
    stability: PartStability | None = None,
    row_names: Sequence[Any] | None = None,
    column_names: Sequence[Any] | None = None,
    fit_seconds: float | None = None,
) -> None:
    """Write a page about a fitted model to one HTML file.

    The page loads nothing from elsewhere. The file is complete or not there: it is written under
    a temporary name in the same folder and then renamed, replacing a file already at `path`.

    Parameters
    ----------
    model : estimator
        Fitted.
    path : str or path-like
        Where to write.
    data : array-like, frame or sparse matrix of shape (n_samples, n_features), or None
        Rows to look at and to score; NaN means missing. The page carries the first of them along.
    image_shape : two int or None, default=None
        Height and width, if the columns are the pixels of an image.
    title : str, default="Partwise report"
        Heading of the page.
    model_file : str or None, default=None
        Name of the file the model was saved to, shown in the lines that load it again.
    stability : PartStability or None, default=None
        How sure the parts are, as `partwise.part_stability` of this model gives it.
    row_names : sequence of n_samples names, or None, default=None
        What rows are called, such as titles of documents; None takes a frame's index.
    column_names : sequence of n_features names, or None, default=None
        What columns are called, such as the words of a vocabulary; None takes those seen in fit.
    fit_seconds : float or None, default=None
        How long the fit took, if it is known.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from partwise import MCVQ, make_shapes
    >>> from partwise.report import write_report
    >>> shapes = make_shapes()
    >>> model = MCVQ(n_parts=3, n_states=9, random_state=0).fit(shapes.data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "report.html"
    ...     write_report(model, path, shapes.data, image_shape=shapes.image_shape)
    ...     path.read_text(encoding="utf-8")[:15]
    '<!doctype html>'
    """
    names = row_names, column_names
    content = collect(model, data, image_shape, title, model_file, stability, *names, fit_seconds)
    write_atomically(path, render(content).encode())


def render(content: dict[str, Any]) -> str:
    """Fill the template; text from data is never taken for markup.

    Parameters
    ----------
    content : dict
        As returned by `collect`.

    Returns
    -------
    page : str
        One HTML document.
    """
    environment = Environment(
        loader=PackageLoader("partwise.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["count"] = _count
    environment.filters["short"] = _short
    environment.filters["hundredths"] = _hundredths
    environment.filters["tint"] = _tint
    page = dict(content)
    live, bound = page.pop("live"), page["bound"]
    page["curve"] = None if bound is None else _curve(bound["values"])
    page["style"] = _static("explorer.css")
    page["script"] = "" if live is None else _script()
    page["live"] = None if live is None else _data(live)
    page["script_hash"] = b64encode(sha256(page["script"].encode()).digest()).decode("ascii")
    return environment.get_template("report.html.j2").render(page) + "\n"


def _static(name: str) -> str:
    return (resources.files("partwise.report") / "static" / name).read_text("utf-8")


def _script() -> str:
    """Join the page's code, one file after the other, in a scope of its own."""
    return "(() => {\n" + '"use strict";\n' + "".join(map(_static, _SCRIPTS)) + "})();"


def _data(live: dict[str, Any]) -> str:
    """Write plain values as JSON that cannot end the element it stands in."""
    text = json.dumps(live, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _count(number: int, noun: str) -> str:
    """Write a number with its noun, in the plural unless it is one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _short(value: float) -> str:
    """Write a number with four digits that count."""
    return f"{value:,.4g}"


def _hundredths(value: float) -> str:
    """Write a probability, or another number near 1, with two decimals; no minus zero."""
    return f"{round(value, 2) + 0.0:.2f}"


def _tint(strength: float) -> str:
    """Write the strength of a cell's colour, from -1 to 1."""
    return f"{100 * abs(strength):.0f}%"


def _curve(values: list[float]) -> dict[str, Any]:
    """Lay the trace out in a box of 1000 by 400."""
    low, high = min(values), max(values)
    height, length = (high - low) or 1.0, max(len(values) - 1, 1)
    points = " ".join(
        f"{1000 * i / length:.1f},{400 * (high - value) / height:.1f}"
        for i, value in enumerate(values)
    )
    # As many digits as tell the two ends apart.
    digits = min(max(2 - math.floor(math.log10(height)), 0), 6)
    ends = {"low": f"{low:,.{digits}f}", "high": f"{high:,.{digits}f}"}
    return {"points": points, "steps": len(values) - 1, **ends}
