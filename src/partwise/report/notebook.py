"""The page inside a notebook."""

from __future__ import annotations

from html import escape
from typing import Any

from partwise.report.collect import collect
from partwise.report.render import render


def show(model: Any, height: int = 900, **content: Any) -> None:
    """Display the page about a fitted model in a notebook, in a frame of its own.

    Parameters
    ----------
    model : estimator
        Fitted.
    height : int, default=900
        Of the frame, in pixels.
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
    # Of another origin than the notebook, the page reaches nothing of it.
    frame = (
        f'<iframe srcdoc="{escape(page)}" sandbox="allow-scripts" title="{escape(repr(model))}" '
        f'style="width: 100%; height: {int(height)}px; border: 0"></iframe>'
    )
    display(HTML(f"<div>{frame}</div>"))
