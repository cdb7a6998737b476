"""NumPy arrays and SciPy sparse arrays."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from scipy import sparse

from partwise._text import plural
from partwise.contracts import Array
from partwise.data.indices import load_sparse
from partwise.files.data import Data, unreadable

# Names and letters of names in a message.
MAX_NAMES, MAX_LETTERS = 8, 40


class _ContentError(ValueError):
    """The file is intact, but contains no usable array."""


def read_arrays(path: Path) -> Data:
    """Read a ``.npy`` array; the only one, or data or X, of a ``.npz``; or a sparse one."""
    try:
        array = _read(path)
    except _ContentError as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    except Exception as error:  # numpy and scipy raise many kinds; all mean a damaged file
        raise unreadable(path, error) from error
    shape = None
    if array.ndim == 3:  # a stack of images
        shape = (int(array.shape[1]), int(array.shape[2]))
        array = array.reshape(len(array), math.prod(shape))
    if array.ndim != 2 or array.dtype.kind not in "biuf" or 0 in array.shape:
        raise ValueError(
            f"{path} contains an array of shape {array.shape} and type {array.dtype}; a table of "
            "numbers with one row per sample (or a stack of images) is needed."
        )
    kind = "a sparse table" if sparse.issparse(array) else "a table"
    kind = kind if shape is None else f"images of {shape[0]}x{shape[1]} pixels,"
    size = " and ".join(map(plural, array.shape, ("row", "column")))
    return Data(array, f"{kind} of {size}", shape)


def _read(path: Path) -> Array | sparse.csr_array:
    with path.open("rb") as file:
        content = np.load(file, allow_pickle=False)
        if isinstance(content, np.ndarray):
            return content
        if not any(name.endswith(".npy") for name in content.zip.namelist()):
            if "xl/workbook.xml" in content.zip.namelist():
                raise _ContentError("it is a workbook; save its table as .csv.")
            raise _ContentError("it contains no array; unpack it, and name a file that comes out.")
        if "format" in content.files and "shape" in content.files:
            return load_sparse(path)
        array = content[_choose(content.files)]
        if not isinstance(array, np.ndarray):
            raise _ContentError("it contains no array.")
        return array


def _choose(names: list[str]) -> str:
    """Choose the array to read from a file with several."""
    for name in ("data", "X"):
        if name in names:
            return name
    if len(names) != 1:
        raise _ContentError(
            f"it contains the arrays {_shown(names) or '(none)'}; name the one to read data or X."
        )
    return names[0]


def _shown(names: list[str]) -> str:
    """The first few names, without what cannot be printed; those of a damaged file may be long."""
    some = [name[:MAX_LETTERS] for name in names[:MAX_NAMES]]
    plain = ["".join(c if c.isprintable() else "?" for c in name) for name in some]
    more = [f"and {len(names) - MAX_NAMES} more"] if len(names) > MAX_NAMES else []
    return ", ".join(plain + more)


def likelihood_of_sparse(X: sparse.csr_array) -> tuple[str, str]:
    """Choose the likelihood of a sparse matrix, and the meaning of absent entries.

    Parameters
    ----------
    X : sparse matrix

    Returns
    -------
    likelihood : {"bernoulli", "poisson", "gaussian"}
        Bernoulli if all values are 1, Poisson if all are counts.
    sparse_absent : {"zero", "unobserved"}
        As in `partwise.MCVQ`.

    Examples
    --------
    >>> from scipy import sparse
    >>> from partwise.files.arrays import likelihood_of_sparse
    >>> likelihood_of_sparse(sparse.csr_array([[0, 2], [1, 0]]))
    ('poisson', 'zero')
    """
    if np.all(X.data == 1):
        return "bernoulli", "zero"
    if np.all((X.data >= 0) & (X.data == np.rint(X.data))):
        return "poisson", "zero"
    return "gaussian", "unobserved"
