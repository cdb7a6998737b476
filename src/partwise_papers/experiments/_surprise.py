"""Peers from Surprise, where it is installed (``pip install scikit-surprise``)."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import numpy as np
from scipy import sparse

from partwise_papers.experiments._ratings import Held, Split
from partwise_papers.registry import Array

MISSING = "not measured, since Surprise is not installed; pip install scikit-surprise"


def is_installed() -> bool:
    """Whether there are peers to compare with."""
    return importlib.util.find_spec("surprise") is not None


def algorithm(name: str, **options: Any) -> Any:
    """An algorithm with its default settings, for instance ``SVD``."""
    if name.startswith("KNN"):
        options = {"verbose": False} | options
    return getattr(importlib.import_module("surprise"), name)(**options)


def trainset(X: Any, scale: tuple[float, float]) -> Any:
    """Ratings as Surprise wants them; people and items keep their numbers."""
    kind = importlib.import_module("surprise").Trainset
    X = sparse.csr_matrix(X)
    by_item = sparse.csc_matrix(X)

    def lists(M: Any) -> dict[int, list[tuple[int, float]]]:
        pairs = list(zip(M.indices.tolist(), M.data.tolist(), strict=True))
        return {i: pairs[M.indptr[i] : M.indptr[i + 1]] for i in range(len(M.indptr) - 1)}

    people, items = ({i: i for i in range(n)} for n in X.shape)
    return kind(lists(X), lists(by_item), *X.shape, X.nnz, scale, people, items)


def predict(model: Any, held: Held) -> Array:
    """Predictions of held-out ratings, within the scale."""
    pairs = zip(held.row.tolist(), held.column.tolist(), strict=True)
    return np.array([model.predict(u, i).est for u, i in pairs])


def predictions(name: str, split: Split, levels: Array) -> tuple[Array, Array]:
    """Predictions of a split's weak and strong ratings.

    Surprise cannot meet people after it has learned, so it learns from those of both kinds.
    """
    both = sparse.vstack([split.train, split.known], format="csr")
    model = algorithm(name, **({} if name.startswith("KNN") else {"random_state": 0}))
    model.fit(trainset(both, (float(levels[0]), float(levels[-1]))))
    strong = split.strong._replace(row=split.strong.row + split.train.shape[0])
    return predict(model, split.weak), predict(model, strong)
