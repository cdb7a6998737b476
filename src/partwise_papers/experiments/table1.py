"""JMLR Table 1: faces told from other images by their density under models of faces.

Models see the 2429 training faces alone, rank-equalized to [-2, 2]. An image counts as a face if
its log density exceeds the threshold that suits the test images best, as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score
from sklearn.mixture import GaussianMixture

from partwise import CVQ, MCFA, MCVQ
from partwise.datasets import load_cbcl_faces
from partwise_papers.experiments import register
from partwise_papers.experiments._models import fitted
from partwise_papers.registry import Array, Claim, Paper, Row, Setting, best, ordered

N_DRAWS = 20  # of as many test non-faces as there are test faces

# Makes a model, with fit and score_samples, from a seed.
Maker: TypeAlias = Callable[[int], Any]


def best_accuracy(faces: Array, others: Array) -> float:
    """Share of images on their side of the best threshold."""
    scores = np.concatenate([faces, others])
    order = np.argsort(-scores, kind="stable")
    gain = np.cumsum(np.where(order < len(faces), 1, -1))
    between = np.append(np.diff(scores[order]) != 0, True)  # no threshold parts equal scores
    return float((max(gain[between].max(), 0) + len(others)) / len(scores))


def _ours(kind: Any, *sizes: int, **arguments: Any) -> Maker:
    """A model of this package."""
    return lambda seed: kind(*sizes, random_state=seed, **arguments)


def _mixture(n_components: int) -> Maker:
    return lambda seed: GaussianMixture(n_components, covariance_type="diag", random_state=seed)


def _pca(n_components: int) -> Maker:
    return lambda seed: PCA(n_components, random_state=seed)


# As in the paper's section 2: random start, maximum likelihood, one selection posterior for all,
# and the 15 EM iterations that both papers give for faces.
SWEEPS = 15
_PLAIN: dict[str, Any] = {"gating": "standard", "init": "random", "prior": None}
_PAPER: dict[str, Any] = {**_PLAIN, "max_iter": SWEEPS}

MAKERS: dict[str, Maker] = {
    "MCVQ 6x14": _ours(MCVQ, 6, 14, **_PAPER),
    "mixture of 60 Gaussians": _mixture(60),
    "MCVQ 6x10": _ours(MCVQ, 6, 10, **_PAPER),
    "probabilistic PCA, 3": _pca(3),
    "Gaussian, diagonal": _mixture(1),
    "mixture of 84 Gaussians": _mixture(84),
    "MCFA 6x3": _ours(MCFA, 6, 3, **_PAPER),
    "MCFA 6x4": _ours(MCFA, 6, 4, **_PAPER),
    "CVQ 6x10": _ours(CVQ, 6, 10),
    "MCVQ 6x14, to convergence": _ours(MCVQ, 6, 14, **_PLAIN),
    "MCVQ 6x14, default settings": _ours(MCVQ, 6, 14),
    "MCVQ 6x10, default settings": _ours(MCVQ, 6, 10),
    "MCFA 6x3, default settings": _ours(MCFA, 6, 3),
}


_PRINTED = {
    "MCVQ 6x14": "0.8305",
    "mixture of 60 Gaussians": "0.8072",
    "MCVQ 6x10": "0.8030",
    "probabilistic PCA, 3": "0.7903",
    "Gaussian, diagonal": "0.7871",
    "mixture of 84 Gaussians": "0.7680",
    "MCFA 6x3": "0.7415",
    "MCFA 6x4": "0.7267",
    "CVQ 6x10": "0.6208",
}


class Ratio:
    """Faces against CBCL's training non-faces: the difference of two MCVQ's log densities.

    Averaged over fits from random starts. Test images and their labels have no part in it.
    """

    def __init__(self, others: Array, n_starts: int) -> None:
        self._others = others
        self._seeds = range(n_starts)

    def fit(self, faces: Array) -> Ratio:
        """Fit both models from every start."""
        make = MAKERS["MCVQ 6x14"]
        self._pairs = [
            [fitted(make(seed), rows) for rows in (faces, self._others)] for seed in self._seeds
        ]
        return self

    def score_samples(self, images: Array) -> Array:
        """Give the mean difference of the log densities."""
        scores = [[model.score_samples(images) for model in pair] for pair in self._pairs]
        return np.mean([ours - theirs for ours, theirs in scores], axis=0)


@register(
    "jmlr_table1",
    Paper(
        source="JMLR, Table 1",
        did="472 test faces and 472 random test non-faces separated by their density under models "
        "of the 2429 training faces, at the threshold that is best on the test images.",
        differs="A run is one fit (of five seeds) and one random set of 472 non-faces (of 20). "
        "MCVQ and MCFA by maximum likelihood, standard gates, random starts and 15 iterations of "
        "variational EM, the number that both papers give for faces: it was fixed by them, though "
        "test accuracies at 5, 30 and 100 iterations and at convergence were seen, too. The "
        "paper's MCVQ was fitted by Monte Carlo EM. Densities are computed, not estimated by "
        "samples from the prior. The last row uses CBCL's training non-faces, which the paper "
        "does not. No choice by held-out training images helps: a mixture of 60 separates those "
        "best and the test images worst, since CBCL's test faces differ from its training faces.",
        needs=("cbcl_faces",),
        figures={"accuracy": _PRINTED},
        better={"accuracy": "higher"},
        claims=(
            Claim(
                says="MCVQ 6x14 has the highest accuracy of all.", test=best("accuracy", *_PRINTED)
            ),
            Claim(
                says="A larger model need not separate better: 60 Gaussians outperform 84.",
                test=ordered("accuracy", "mixture of 84 Gaussians", "mixture of 60 Gaussians"),
            ),
            Claim(
                says="MCVQ separates better with 14 states than with 10.",
                test=ordered("accuracy", "MCVQ 6x10", "MCVQ 6x14"),
            ),
            Claim(
                says="MCVQ outperforms MCFA, and MCFA cooperative vector quantization.",
                test=ordered("accuracy", "CVQ 6x10", "MCFA 6x3", "MCVQ 6x14"),
            ),
        ),
        why="the paper's set of non-faces and its equalization are not known; its diagonal "
        "Gaussian, which has one solution, differs, too. Fewer iterations bring MCVQ nearer to it "
        "(0.83 and 0.82 with 5), but nothing that was seen in training says so.",
    ),
)
def jmlr_table1(setting: Setting) -> list[Row]:
    """CBCL faces against non-faces by density, over seeds."""
    others = load_cbcl_faces(equalize=True).nonfaces
    n_starts = setting.choose(fast=1, full=5)
    against = f"MCVQ 6x14, faces against training non-faces, starts: {n_starts}"
    makers = MAKERS | {against: lambda seed: Ratio(others, n_starts)}
    return separated(makers, setting, {name: 1 if name == against else n_starts for name in makers})


# Directions of probabilistic PCA, of which three are the best in the paper.
PCA_SIZES = (1, 2, 3, 5, 10, 20, 49)


@register(
    "jmlr_pca",
    Paper(
        source="JMLR, Section 3.1 (Table 1)",
        did="Probabilistic PCA achieves its highest accuracy when using only three basis vectors.",
        differs="As for `jmlr_table1`.",
        needs=("cbcl_faces",),
        claims=(
            Claim(
                says="Probabilistic PCA separates faces best with three directions.",
                test=best("accuracy", "probabilistic PCA, 3"),
            ),
        ),
    ),
)
def jmlr_pca(setting: Setting) -> list[Row]:
    """CBCL faces against non-faces by the density of probabilistic PCA, over its directions."""
    makers = {f"probabilistic PCA, {q}": _pca(q) for q in PCA_SIZES}
    return separated(makers, setting, dict.fromkeys(makers, 1))


def separated(
    makers: Mapping[str, Maker], setting: Setting, n_seeds: Mapping[str, int]
) -> list[Row]:
    """Accuracies of models on random sets of non-faces, as many seeds of each as said."""
    images = load_cbcl_faces(equalize=True)
    n_faces = len(images.test_faces)
    labels = np.repeat([1, 0], n_faces)
    rng = np.random.default_rng(0)  # all models meet the same non-faces
    draws = [rng.permutation(len(images.test_nonfaces))[:n_faces] for _ in range(N_DRAWS)]
    rows: list[Row] = []
    for name, make in makers.items():
        row: Row = {"model": name, "accuracy": [], "area under ROC": []}
        rows.append(row)
        for seed in range(n_seeds[name]):
            setting(f"{name}, seed {seed}")
            model = fitted(make(seed), images.data)
            faces = model.score_samples(images.test_faces)
            others = model.score_samples(images.test_nonfaces)
            row["accuracy"] += [best_accuracy(faces, others[draw]) for draw in draws]
            row["area under ROC"] += [
                float(roc_auc_score(labels, np.append(faces, others[draw]))) for draw in draws
            ]
    return rows
