"""Progress in a notebook is one line, and asks for no other package."""

import warnings

import pytest

from partwise.engine import progress
from partwise.engine.progress import ProgressBar


def test_a_notebook_has_one_line_that_is_updated(monkeypatch):
    pytest.importorskip("IPython")
    shown = []

    class Handle:
        def update(self, content):
            shown.append(content.data)

    def display(content, display_id=False):
        shown.append(content.data)
        return Handle()

    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr(progress, "NOTEBOOK_INTERVAL", 1e9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ProgressBar("states <1>", 5, True) as bar:
            for step in range(1, 6):
                bar.update(step, -1.0 / step, "states <1>")
    assert len(shown) <= 3
    assert "states &lt;1&gt;: 5/5 sweeps, bound -0.2" in shown[-1]


def test_nothing_is_shown_unless_asked():
    with ProgressBar("title", 5, False) as bar:
        bar.update(1, 0.0, "title")
