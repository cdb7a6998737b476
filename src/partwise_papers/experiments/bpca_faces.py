"""Bishop and Winn (2000), Figures 5, 6 and 8: relevances of faces, and sampled faces and digits."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from partwise import BayesianPCAMixture
from partwise.datasets import load_cbcl_faces
from partwise.plot import BarsDisplay, SamplesDisplay
from partwise_papers.experiments import register
from partwise_papers.experiments._models import fitted
from partwise_papers.experiments.bayesian_pca import small_digits
from partwise_papers.registry import Array, Claim, Paper, Row, Setting, ordered

N_FACES = 276  # as many as the paper had
N_SHOWN = 20  # directions in the picture

_OTHER_FACES = (
    "276 CBCL faces of 19x19 pixels, each pixel with mean 0 and variance 1; the paper's (Yale and "
    "Stirling, 26x15) are not available."
)


def some_faces(seed: int) -> tuple[Array, Array]:
    """Faces to learn from, each pixel with mean 0 and variance 1, and all others, scaled alike."""
    faces = load_cbcl_faces().data
    order = np.random.default_rng(seed).permutation(len(faces))
    mean, scale = (f(faces[order[:N_FACES]], axis=0) for f in (np.mean, np.std))
    scaled = (faces[order] - mean) / scale
    return scaled[:N_FACES], scaled[N_FACES:]


@cache
def mixture_of_faces(seed: int) -> BayesianPCAMixture:
    """A mixture that chooses its sizes."""
    return fitted(BayesianPCAMixture(random_state=seed), some_faces(seed)[0])


@register(
    "bpca_fig5",
    Paper(
        source="BPCA, Figure 5",
        did="A mixture of Bayesian PCA of 276 faces ended with 4 components of dimension 5, seen "
        "in the Hinton diagram of the shared relevances.",
        differs=_OTHER_FACES,
        needs=("cbcl_faces",),
        figures={
            "components": {"mixture of Bayesian PCA": "4"},
            "dimension": {"mixture of Bayesian PCA": "5"},
        },
        better={"components": "same", "dimension": "same"},
    ),
)
def bpca_fig5(setting: Setting) -> list[Row]:
    """Components and dimension that a mixture finds in faces."""
    components, dimensions = [], []
    for seed in setting.seeds(fast=1, full=5):
        model = mixture_of_faces(seed)
        components.append(float(model.n_components_))
        dimensions.append(float(model.effective_dimension_))
    variances = 1.0 / np.sort(mixture_of_faces(0).relevances_)[:N_SHOWN]
    setting.draw(
        "bpca_fig5",
        lambda: BarsDisplay.from_values(
            {"276 faces": variances}, [f"direction {i}" for i in range(len(variances))]
        ),
        f"Variances that the shared relevances allow the {N_SHOWN} widest directions.",
        free=True,
    )
    name = "mixture of Bayesian PCA"
    return [{"model": name, "components": components, "dimension": dimensions}]


@register(
    "bpca_fig6",
    Paper(
        source="BPCA, Figure 6",
        did="Faces sampled from a mixture of 4 components are more distinct than those of a single "
        "probabilistic PCA. No numbers.",
        differs=_OTHER_FACES + " Distances are relative to those of real faces: to the nearest "
        "other sampled face, which measures how distinct they are, and to the nearest real face "
        "that was not trained on, which measures how much they look like faces. Probabilistic PCA "
        "has as many directions as the mixture finds.",
        needs=("cbcl_faces",),
        key=("images",),
        claims=(
            Claim(
                says="Faces sampled from a mixture are more distinct than those of a single "
                "probabilistic PCA.",
                test=ordered(
                    "distance to the nearest other", "probabilistic PCA", "mixture of 4",
                    key=("images",),
                ),
            ),
        ),
    ),
)  # fmt: skip
def bpca_fig6(setting: Setting) -> list[Row]:
    """Faces sampled from a mixture of Bayesian PCA, and their distance to real faces."""
    rows: dict[str, Row] = {}
    for seed in setting.seeds(fast=1, full=5):
        faces, others = some_faces(seed)
        others = others[:N_FACES]
        model = fitted(BayesianPCAMixture(4, random_state=seed), faces)
        single = BayesianPCAMixture(1, model.effective_dimension_, prior=None, random_state=seed)
        images = {
            "mixture of 4": model.sample(N_FACES, random_state=seed)[0],
            "probabilistic PCA": fitted(single, faces).sample(N_FACES, random_state=seed)[0],
            "real": faces,
            "the mean face": np.zeros((2, faces.shape[1])),
        }
        apart, between = _nearest(faces, None), _nearest(faces, others)
        for name, some in images.items():
            row = rows.setdefault(name, {"images": name})
            for measure, distance in (
                ("distance to the nearest other", _nearest(some, None) / apart),
                ("distance to the nearest real face", _nearest(some, others) / between),
            ):
                row.setdefault(measure, []).append(distance)
        if seed == 0:
            _draw_faces(setting, model)
    return list(rows.values())


def _draw_faces(setting: Setting, model: BayesianPCAMixture) -> None:
    setting.draw(
        "bpca_fig6",
        lambda: SamplesDisplay.from_estimator(
            model, n_samples=12, random_state=0, image_shape=(19, 19)
        ),
        "Faces sampled from the mixture.",
    )


def _nearest(rows: Array, others: Array | None) -> float:
    """Median distance of rows to the nearest of others, or to the nearest other row."""
    among = rows if others is None else others
    squared = (rows**2).sum(1)[:, None] + (among**2).sum(1) - 2 * rows @ among.T
    if others is None:
        np.fill_diagonal(squared, np.inf)
    return float(np.median(np.sqrt(np.maximum(squared.min(axis=1), 0.0))))


@register(
    "bpca_fig8",
    Paper(
        source="BPCA, Figure 8",
        did="Digits sampled from the ten mixtures, one per digit. No numbers.",
        differs="USPS digits of 8x8 pixels, means of 2x2. The class of the nearest real digit is "
        "counted for each sampled digit.",
        needs=("usps",),
    ),
)
def bpca_fig8(setting: Setting) -> list[Row]:
    """Digits sampled from mixtures of Bayesian PCA, and the class a classifier gives them."""
    X, y, _, _ = small_digits()
    if setting.fast:
        X, y = X[:2000], y[:2000]
    setting("mixtures")
    model: Any = fitted(BayesianPCAMixture(random_state=0), X, y)
    judge = KNeighborsClassifier(3).fit(X, y)
    setting.draw(
        "bpca_fig8",
        lambda: SamplesDisplay.from_estimator(
            model, n_samples=10, random_state=0, image_shape=(8, 8)
        ),
        "Ten sampled digits of each class.",
    )
    rows: list[Row] = []
    for digit in range(10):
        drawn, _ = model.sample(100, classes=digit, random_state=digit)
        seen = 100 * float(np.mean(judge.predict(drawn) == digit))
        rows.append({"digit": digit, "taken for it (%)": seen})
    return rows
