"""Warnings that point at the caller's line, however deep in the library their cause is found."""

from __future__ import annotations

import inspect
import warnings

# The library, and those that call it on a user's behalf: pipelines, searches, wrapped methods.
_PASSED = frozenset({"partwise", "sklearn", "joblib"})


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning at the innermost line outside of the library and of scikit-learn.

    In a worker thread or process there may be no such line; the outermost one is named there.
    """
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_back is not None and _package(frame.f_globals) in _PASSED:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


def _package(names: dict[str, object]) -> str:
    """The top-level package that a frame's global names belong to."""
    return str(names.get("__name__", "")).partition(".")[0]
