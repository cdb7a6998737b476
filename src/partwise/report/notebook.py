"""The page inside a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TypedDict, Unpack

from sklearn.base import BaseEstimator

from partwise.report.collect import collect
from partwise.report.render import render
from partwise.stability import PartStability
from partwise.typing import DataLike, Name


class Options(TypedDict, total=False):
    """Arguments of `collect` after the model."""

    data: DataLike | None
    image_shape: Sequence[int] | None
    title: str
    model_file: str | None
    stability: PartStability | None
    row_names: Sequence[Name] | None
    column_names: Sequence[Name] | None
    fit_seconds: float | None


def show(model: BaseEstimator, height: int = 900, **content: Unpack[Options]) -> None:
    """Show the page about a fitted model in a notebook.

    Parameters
    ----------
    model : estimator
        Fitted.
    height : int, default=900
        Height of the frame in pixels.
    **content
        As in `collect`.
    """
    page = render(collect(model, **content))
    try:
        from IPython.display import HTML, display
    except ImportError:
        raise ImportError(
            "show() displays in a notebook and needs IPython; install ipython, or write a file "
            "with partwise.report.write_report(model, path)."
        ) from None
    # The sandbox has another origin than the notebook, so the page cannot access it.
    frame = (
        f'<iframe srcdoc="{escape(page)}" sandbox="allow-scripts allow-downloads" '
        f'title="{escape(repr(model))}" '
        f'style="width: 100%; height: {int(height)}px; border: 0"></iframe>'
    )
    display(HTML(f"<div>{frame}</div>"))
