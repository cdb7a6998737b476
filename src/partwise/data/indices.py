"""Sparse matrices, whose indices are checked before use."""

from __future__ import annotations

from typing import TypeGuard

import numpy as np
from scipy import sparse

from partwise.typing import PathLike


def is_csr(X: object) -> TypeGuard[sparse.csr_array]:
    """Whether rows in memory are sparse; checked rows are then CSR."""
    return bool(sparse.issparse(X))


def check_indices(X: object) -> None:
    """Refuse a sparse matrix with indices out of range: compiled kernels do not check them."""
    if not is_csr(X) or X.format not in ("csr", "csc"):
        return
    n, D = X.shape if X.format == "csr" else X.shape[::-1]
    ends, indices = X.indptr, X.indices
    if len(ends) == n + 1 and ends[0] == 0 and np.all(ends[1:] >= ends[:-1]):
        used = indices[: ends[-1]]
        whole = ends[-1] <= min(len(indices), len(X.data))
        if whole and (used.size == 0 or (used.min() >= 0 and used.max() < D)):
            return
    raise ValueError(
        f"X is a sparse matrix of shape {X.shape} whose indices do not fit that shape; "
        "build it again from its entries."
    )


def load_sparse(path: PathLike) -> sparse.csr_array:
    """Rows of scipy's ``.npz``, whose indices are checked before use."""
    X = sparse.load_npz(path)
    if X.format == "bsr":
        X.check_format(full_check=True)
    check_indices(X)
    return sparse.csr_array(X)
