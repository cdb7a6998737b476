"""Classes of rows as users give them: labels of any type, with a mark for unknown ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from partwise.contracts import Array
from partwise.data.frames import is_missing


def read_labels(
    y: ArrayLike | None, n_classes: int | None, n_rows: int
) -> tuple[Array | None, Array | None]:
    """Names of the classes (N,), and the number of each row's class (C,), -1 where unknown.

    Without ``n_classes``, y names classes if it holds labels (no fractions) that repeat; otherwise
    it is the target of some later step, and there are no classes.
    """
    if n_classes is not None and n_classes > n_rows:
        raise ValueError(f"n_classes={n_classes} is more than n_samples={n_rows}; lower it.")
    if y is None:
        return (None if n_classes is None else np.arange(n_classes)), None
    y = _as_labels(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        if n_classes is None:
            return None, None
        raise ValueError(f"y has shape {y.shape}, but classes need one label per row.")
    if len(y) != n_rows:
        raise ValueError(_too_few(len(y), n_rows))
    if n_classes is None and y.dtype.kind == "f" and not _whole(y):
        return None, None
    known = _known(y)
    try:
        names, numbers = np.unique(y[known], return_inverse=True)
    except TypeError as error:
        raise ValueError(
            "y mixes labels of different kinds, which cannot be sorted; make them all strings."
        ) from error
    if n_classes is None and not 0 < len(names) <= max(n_rows // 2, 1):
        return None, None
    labels = np.full(n_rows, -1)
    labels[known] = numbers.ravel()
    if len(names) == 0 and n_classes is not None:
        return np.arange(n_classes), labels
    if n_classes is not None and len(names) != n_classes:
        raise ValueError(
            f"n_classes={n_classes}, but y names {len(names)} ({_listing(names)}), and every class "
            "needs labeled rows; give as many labels as classes, or no y to find classes."
        )
    return names, labels


def known_labels(y: ArrayLike, names: Array, n_rows: int) -> Array:
    """Number of each row's class among known names (C,), -1 where unknown."""
    y = np.ravel(_as_labels(y))
    if len(y) != n_rows:
        raise ValueError(_too_few(len(y), n_rows))
    labels, known = np.full(n_rows, -1), _known(y)
    if known.any():
        labels[known] = class_numbers(y[known], names, "y")
    return labels


def _as_labels(y: ArrayLike) -> Array:
    """What was given as labels, as an array of single values."""
    if sparse.issparse(y):
        raise ValueError("y is sparse; pass a dense array, one label per row.")
    try:
        labels = np.asarray(y)
        values = labels.flat if labels.dtype == object else ()
        nested = any(isinstance(one, list | tuple | dict) for one in values)
    except (TypeError, ValueError):  # of different lengths
        nested = True
    if nested:
        raise ValueError("y holds lists; give one label per row, a number or text.")
    return labels


def _too_few(n_labels: int, n_rows: int) -> str:
    return (
        f"y has {n_labels} labels, but X has {n_rows} rows; give one label per row, -1 (or None, "
        "for strings) where it is unknown."
    )


def _known(y: Array) -> Array:
    """Where y is a label: not -1, and neither None nor NaN."""
    if y.dtype.kind in "OUS":
        missing = np.array([is_missing(v) or v == -1 for v in y.tolist()], bool)
    elif y.dtype.kind == "f":
        if not _whole(y):
            raise ValueError(
                "y holds fractions, which name no class; give whole numbers or strings."
            )
        missing = np.isnan(y) | (y == -1)
    elif y.dtype.kind in "mM":
        missing = np.isnat(y)
    else:
        missing = y == -1
    return ~missing


def _whole(y: Array) -> bool:
    """Whether floats are whole numbers, or NaN."""
    return bool(np.all(np.isnan(y) | (y == np.rint(y))))


def class_numbers(asked: object, names: Array, what: str) -> Array:
    """Numbers of classes named by the user."""
    asked = np.asarray(asked)
    same = asked[..., None] == names
    if not np.all(same.any(axis=-1)):
        unknown = asked[~same.any(axis=-1)].ravel()[0]
        raise ValueError(
            f"{what} names the class {unknown!s}, but the model knows only {_listing(names)}."
        )
    return np.asarray(same.argmax(axis=-1))


def classes_of_rows(asked: object, names: Array, n_rows: int) -> Array:
    """Numbers of the classes that new rows shall have (n_rows,), named once or for every row."""
    numbers = class_numbers(asked, names, "classes")
    if numbers.ndim > 1 or (numbers.ndim == 1 and len(numbers) != n_rows):
        raise ValueError(
            f"classes has shape {numbers.shape}, but must be one class or {n_rows}, one per row."
        )
    return np.broadcast_to(numbers, n_rows)


def _listing(names: Array, most: int = 8) -> str:
    shown = ", ".join(str(name) for name in names[:most])
    return shown + (", ..." if len(names) > most else "")
