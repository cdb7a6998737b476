"""Sparse matrices whose indices are looked at before anything follows them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse


def check_indices(X: Any) -> None:
    """Refuse a sparse matrix whose indices lead out of it: compiled kernels follow them."""
    if not sparse.issparse(X) or X.format not in ("csr", "csc"):
        return
    n, D = X.shape if X.format == "csr" else X.shape[::-1]
    ends, indices = X.indptr, X.indices
    if len(ends) == n + 1 and ends[0] == 0 and np.all(ends[1:] >= ends[:-1]):
        used = indices[: ends[-1]]
        whole = ends[-1] <= min(len(indices), len(X.data))
        if whole and (used.size == 0 or (used.min() >= 0 and used.max() < D)):
            return
    raise ValueError(
        f"X is a sparse matrix of shape {X.shape} whose indices do not suit that shape; make it "
        "anew from its entries."
    )


def load_sparse(path: Any) -> Any:
    """Rows of scipy's ``.npz``, whose indices are looked at before they are followed."""
    X = sparse.load_npz(path)
    if X.format == "bsr":
        X.check_format(full_check=True)
    check_indices(X)
    return sparse.csr_array(X)
