"""What several experiments share: quiet fits, errors, entropies, and scikit-learn's baselines."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy.special import entr
from sklearn.cluster import KMeans
from sklearn.decomposition import NMF, PCA
from sklearn.exceptions import ConvergenceWarning

from partwise.metrics import description_length
from partwise_papers.registry import Array

_Model = TypeVar("_Model")


def fitted(model: _Model, *data: Any) -> _Model:
    """Fit a model; that it stops before it has converged is part of the experiment."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*data)  # type: ignore[attr-defined]  # any estimator, ours or not


def rms(difference: Array) -> float:
    """Root of the mean square."""
    return float(np.sqrt(np.mean(difference**2)))


def mean_rms(difference: Array) -> float:
    """Average over images of each image's r.m.s. error, as the papers have it."""
    return float(np.mean(np.sqrt(np.mean(difference**2, axis=1))))


def entropy_bits(gates: Array) -> float:
    """Mean entropy of the columns' gates."""
    return float(entr(gates.astype(float)).sum(axis=1).mean() / np.log(2.0))


class Linear(NamedTuple):
    """PCA, NMF or k-means of scikit-learn, with the vectors that rows are made of."""

    vectors: Array
    reconstruct: Any  # rows to rows

    @classmethod
    def fit(cls, kind: str, n: int, X: Array, seed: int) -> Linear:
        """Learn n vectors: ``kind`` is "PCA", "NMF" or "VQ"."""
        if kind == "VQ":
            means = KMeans(n, n_init=10, random_state=seed).fit(X)
            return cls(means.cluster_centers_, lambda Y: means.cluster_centers_[means.predict(Y)])
        if kind == "PCA":
            pca = PCA(n, random_state=seed).fit(X)
            return cls(pca.components_, lambda Y: pca.inverse_transform(pca.transform(Y)))
        low = float(X.min())  # the darkest is nothing
        nmf = fitted(NMF(n, init="nndsvda", max_iter=1000, random_state=seed), X - low)

        def back(Y: Array) -> Array:
            return nmf.inverse_transform(nmf.transform(np.maximum(Y - low, 0.0))) + low

        return cls(nmf.components_, back)


def length(name: str, K: int, V: int, rows: Array) -> float:
    """Bits of a model with K parts and V vectors in all, and of rows coded with it."""
    # CVQ is counted as if it stored what MCVQ stores.
    kinds = {"MCVQ": "parts", "CVQ": "parts", "VQ": "quantizer", "PCA": "linear", "NMF": "linear"}
    kind: Any = kinds[name]
    return description_length(kind, V, rows.shape[1], len(rows), n_parts=K)
