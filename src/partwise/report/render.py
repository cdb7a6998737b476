"""Render the content as a page, and write the page to a file."""

from __future__ import annotations

import json
import math
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib import resources
from typing import TypedDict

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from sklearn.base import BaseEstimator

from partwise.estimators.imputer import PartsImputer
from partwise.files.atomic import write_atomically
from partwise.plot.view import percent
from partwise.report.collect import collect
from partwise.report.content import Content
from partwise.report.overview import RAREST_USUAL
from partwise.stability import PartStability
from partwise.typing import DataLike, Name, PathLike

# The page's own code: inference, then the panels.
_SCRIPTS = (
    "numeric.js",
    "states.js",
    "factors.js",
    "ratings.js",
    "dom.js",
    "image.js",
    "moving.js",
    "overview.js",
    "table.js",
    "row_reader.js",
    "text.js",
    "interview.js",
    "main.js",
)


def write_report(
    model: BaseEstimator,
    path: PathLike,
    data: DataLike | None = None,
    image_shape: Sequence[int] | None = None,
    title: str = "Partwise report",
    model_file: str | None = None,
    stability: PartStability | None = None,
    row_names: Sequence[Name] | None = None,
    column_names: Sequence[Name] | None = None,
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
        Rows to show and to score; NaN means missing. The page contains some of them.
    image_shape : two int or None, default=None
        Height and width, if the columns are the pixels of an image.
    title : str, default="Partwise report"
        Heading of the page.
    model_file : str or None, default=None
        Name of the file the model was saved to, shown in the lines that load it again.
    stability : PartStability or None, default=None
        Certainty of the parts, from `partwise.part_stability` of this model.
    row_names : sequence of n_samples names, or None, default=None
        Names of rows, such as titles of documents; None takes a frame's index.
    column_names : sequence of n_features names, or None, default=None
        Names of columns, such as the words of a vocabulary; None takes those seen in fit.
    fit_seconds : float or None, default=None
        Duration of the fit, if known.

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
    if isinstance(model, PartsImputer):
        model = model.model_
    names = row_names, column_names
    content = collect(model, data, image_shape, title, model_file, stability, *names, fit_seconds)
    write_atomically(path, render(content).encode())


def render(content: Content) -> str:
    """Render the template; text from data is always escaped.

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
    environment.globals["rarest_usual"] = RAREST_USUAL
    environment.filters["count"] = _count
    environment.filters["breakable"] = _breakable
    environment.filters["short"] = _short
    environment.filters["hundredths"] = _hundredths
    environment.filters["tint"] = _tint
    environment.filters["share"] = _share
    environment.filters["rarest"] = _rarest
    environment.filters["rarity"] = _rarity
    environment.filters["signed"] = _signed
    page: dict[str, object] = dict(content)
    live, bound = content["live"], content["bound"]
    script = "" if live is None else _script()
    page["curve"] = None if bound is None else _curve(bound["values"])
    page["style"] = _static("explorer.css")
    page["script"] = script
    page["live"] = None if live is None else _data(live)
    page["script_hash"] = b64encode(sha256(script.encode()).digest()).decode("ascii")
    return environment.get_template("report.html.j2").render(page) + "\n"


def _static(name: str) -> str:
    return (resources.files("partwise.report") / "static" / name).read_text("utf-8")


def _script() -> str:
    """The page's code in one scope."""
    return "(() => {\n" + '"use strict";\n' + "".join(map(_static, _SCRIPTS)) + "})();"


def _data(live: Mapping[str, object]) -> str:
    """Plain values as JSON that cannot close the element that contains it."""
    text = json.dumps(live, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _count(number: int, noun: str) -> str:
    """A number with its noun in singular or plural."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _share(share: float) -> str:
    """A share in per cent, with a space that does not break."""
    return percent(share).replace(" ", "\u00a0")


def _breakable(name: str) -> Markup:
    """A name that may be broken after its underscores, dots and dashes."""
    return Markup("<wbr>").join(map(escape, re.split(r"(?<=[_.\-/])(?=\w)", name)))


def _short(value: float) -> str:
    """A number with four significant digits."""
    return f"{value:,.4g}"


def _hundredths(value: float) -> str:
    """A number with two decimals, without minus zero."""
    return f"{round(value, 2) + 0.0:.2f}"


def _rarest(n_rows: int) -> int:
    """One in how many rows is told apart at most: about ten times the rows that there are."""
    return 10 ** (math.ceil(math.log10(max(n_rows, 1))) + 1)


def _rarity(nats: float, n_rows: int) -> str:
    """How rare a value is, for minus the logarithm of a probability: one in so many rows."""
    if nats > math.log(_rarest(n_rows)):
        return f"rarer than 1 in {_rarest(n_rows):,}"
    return f"1 in {float(f'{math.exp(nats):.2g}'):,.0f}"


def _signed(value: float) -> str:
    """A number with two decimals and a minus sign as wide as a plus."""
    return _hundredths(value).replace("-", "\u2212")


def _tint(strength: float) -> str:
    """The strength of a cell's color, from -1 to 1, as a percentage."""
    return f"{100 * abs(strength):.0f}%"


class Curve(TypedDict):
    """Points of a line, and labels of its ends."""

    points: str
    steps: int
    low: str
    high: str


def _curve(values: list[float]) -> Curve:
    """The trace in a box of 1000 by 400."""
    low, high = min(values), max(values)
    height, length = (high - low) or 1.0, max(len(values) - 1, 1)
    points = " ".join(
        f"{1000 * i / length:.1f},{400 * (high - value) / height:.1f}"
        for i, value in enumerate(values)
    )
    # As many digits as are needed to see the difference between the ends.
    digits = min(max(2 - math.floor(math.log10(height)), 0), 6)
    return {
        "points": points,
        "steps": len(values) - 1,
        "low": f"{low:,.{digits}f}",
        "high": f"{high:,.{digits}f}",
    }
