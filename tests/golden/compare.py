"""Comparison of answers with those recorded."""

from __future__ import annotations

import numpy as np

Arrays = dict[str, np.ndarray]


def differences(found: Arrays, expected: Arrays, rtol: float) -> list[str]:
    """One line per answer that is not as recorded.

    Words, whole numbers and truth values must be equal. Numbers may differ by ``rtol`` times the
    largest one of the same column (the last axis), since columns have units of their own; of an
    array of one axis, times its largest.
    """
    lines = [f"{name}: no longer answered" for name in expected.keys() - found.keys()]
    lines += [f"{name}: not recorded" for name in found.keys() - expected.keys()]
    for name in expected.keys() & found.keys():
        a, b = found[name], expected[name]
        if a.shape != b.shape:
            lines.append(f"{name}: shape {a.shape}, recorded {b.shape}")
        elif a.dtype.kind != "f" or b.dtype.kind != "f":
            wrong = np.count_nonzero(a != b)
            if wrong:
                lines.append(f"{name}: {wrong} of {a.size} values are not as recorded")
        else:
            away = distance(a, b)
            if not away <= rtol:
                lines.append(f"{name}: off by {away:.1e} of the column's largest value")
    return sorted(lines)


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """Largest difference, in units of the column's largest recorded number."""
    a, b = np.atleast_1d(a), np.atleast_1d(b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    size = np.where(np.isfinite(b), np.abs(b), 0.0)
    axes = tuple(range(b.ndim - 1)) if b.ndim > 1 else None
    scale = np.maximum(size.max(axis=axes, keepdims=True), np.finfo(float).tiny)
    with np.errstate(invalid="ignore", over="ignore"):
        away = np.where(same, 0.0, np.abs(a - b) / scale)
    return float(np.inf if np.isnan(away).any() else away.max())
