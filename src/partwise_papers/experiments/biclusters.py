"""Biclusters of yeast expression: the papers' related work (Cheng and Church 2000; thesis 2.4)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from sklearn.cluster import SpectralBiclustering, SpectralCoclustering

from partwise import MCVQ
from partwise.datasets import load_yeast
from partwise.plot import StatesDisplay
from partwise_papers.experiments import register
from partwise_papers.experiments._models import fitted
from partwise_papers.registry import Array, Paper, Row, Setting

# Parts of conditions, and states of genes in each.
SIZES = ((3, 10), (4, 12))


def residue(block: Array) -> float:
    """Mean squared residue of Cheng and Church: what rows and columns do not explain by adding."""
    rows, columns = block.mean(axis=1, keepdims=True), block.mean(axis=0, keepdims=True)
    return float(np.mean((block - rows - columns + block.mean()) ** 2))


def judged(X: Array, blocks: Iterable[tuple[Array, Array]]) -> Row:
    """Residues of biclusters (rows, columns), weighted by their cells; all rows X are complete."""
    scores, cells, flat = [], [], []
    for rows, columns in blocks:
        block = X[np.ix_(rows, columns)]
        if min(block.shape) < 2:
            continue  # nothing is left of one row or one column
        scores.append(residue(block))
        cells.append(block.size)
        flat.append(float(np.mean(np.var(block, axis=1))))
    share = np.array(cells) / np.sum(cells)
    return {
        "biclusters": len(scores),
        "mean squared residue": float(share @ np.array(scores)),
        "variance along a gene": float(share @ np.array(flat)),
        "cells in a bicluster (%)": 100 * min(1.0, float(np.sum(cells)) / X.size),
        "genes, median": float(np.median([rows.sum() for rows, _ in blocks])),
    }


@register(
    "yeast_biclusters",
    Paper(
        source="Thesis, Section 2.4 (JMLR, Section 5)",
        did="Compares MCVQ to biclustering, which Cheng and Church (2000) introduced on this "
        "matrix; no experiment.",
        differs="A bicluster is the set of genes in one state of a part and the conditions of "
        "that part. Mean squared residue, weighted by cells, against scikit-learn's spectral "
        "methods with the same number of biclusters; for these the missing cells (34) are imputed "
        "by the mean of the condition. The residue is also small where nothing varies, so the "
        "table includes the variance along a gene. The whole matrix is one bicluster.",
        needs=("yeast",),
    ),
)
def yeast_biclusters(setting: Setting) -> list[Row]:
    """Mean squared residue of biclusters of yeast expression: MCVQ and spectral methods."""
    X = load_yeast().data
    complete = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    everything = np.ones(X.shape[0], bool), np.ones(X.shape[1], bool)
    rows: list[Row] = [{"model": "the whole matrix", **judged(complete, [everything])}]
    # What genes are over all conditions is left to the residue's rows, so it may be taken out.
    centred = X - np.nanmean(X, axis=1, keepdims=True)
    for K, J in SIZES:
        for name, seen in ((f"MCVQ {K}x{J}", X), (f"MCVQ {K}x{J}, genes centered", centred)):
            setting(name)
            model = fitted(MCVQ(K, J, random_state=0), seen)
            found = list(zip(*model.biclusters_, strict=True))
            rows.append({"model": name, **judged(complete, found)})
        if SIZES[0] == (K, J):
            _draw(setting, model)
        for name, spectral in (
            (f"SpectralBiclustering {J}x{K}", SpectralBiclustering((J, K), random_state=0)),
            (f"SpectralCoclustering {K}", SpectralCoclustering(K, random_state=0)),
        ):
            setting(name)
            spectral.fit(complete + 1.0)
            found = list(zip(*spectral.biclusters_, strict=True))
            rows.append({"model": name, **judged(complete, found)})
    return rows


def _draw(setting: Setting, model: MCVQ) -> None:
    setting.draw(
        "yeast_biclusters",
        lambda: StatesDisplay.from_estimator(model),
        "States of every part of the conditions, of genes less their mean.",
        free=True,
    )
