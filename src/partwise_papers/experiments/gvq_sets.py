"""Codebooks in the plane, and several sets of features: Westerdijk et al., Figures 1 and 6 to 9."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from scipy import ndimage
from sklearn.cluster import KMeans

from partwise import GVQ
from partwise.datasets import load_usps
from partwise.plot import CodebookDisplay, CodesDisplay, FeaturesDisplay
from partwise_papers.experiments import register
from partwise_papers.registry import Array, Claim, Finding, Paper, Row, Setting, ordered

SPREAD = 0.05  # standard deviation of a cluster
N_CODES = 37  # codes that the paper's Figure 9 shows


def ten_clusters(seed: int, n_rows: int = 300) -> Array:
    """Rows of ten round clusters in the plane."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-1.0, 1.0, (10, 2))
    return centres[rng.integers(10, size=n_rows)] + SPREAD * rng.normal(size=(n_rows, 2))


def lattice(seed: int, n_rows: int = 300) -> Array:
    """Rows of eight round clusters at the sums of three vectors in the plane."""
    rng = np.random.default_rng(seed)
    features = np.array([[1.0, 0.1], [0.35, 0.8], [-0.45, 0.45]])
    codes = rng.integers(2, size=(n_rows, 3))
    return 0.5 + codes @ features + SPREAD * rng.normal(size=(n_rows, 2))


@register(
    "gvq_fig1",
    Paper(
        source="GVQ, Figure 1",
        did="Codebook vectors of plain vector quantization, and the same codebook made of three "
        "features: eight codes in the plane.",
        differs="The paper does not give its points; these are scattered around the sums of three "
        "vectors.",
        claims=(
            Claim(
                says="Three features and an origin make the codebook of eight vectors: with four "
                "vectors alone the error is far larger.",
                test=ordered(
                    "mean squared error", "VQ, 8 vectors", "GVQ, 3 features and origin",
                    "VQ, 4 vectors",
                ),
            ),
        ),
    ),
)  # fmt: skip
def gvq_fig1(setting: Setting) -> list[Row]:
    """Eight clusters in the plane by eight vectors, and by three features and an origin."""
    rows: list[Row] = [
        {"model": "VQ, 8 vectors", "vectors": 8, "mean squared error": []},
        {"model": "GVQ, 3 features and origin", "vectors": 4, "mean squared error": []},
        {"model": "VQ, 4 vectors", "vectors": 4, "mean squared error": []},
        {"model": "spread of the clusters", "mean squared error": SPREAD**2},
    ]
    for seed in setting.seeds(fast=3, full=10):
        X = lattice(seed)
        model = GVQ(3, n_init=5, random_state=seed).fit(X)
        found = [KMeans(k, n_init=10, random_state=seed).fit(X).inertia_ / X.size for k in (8, 4)]
        for row, error in zip(rows, (found[0], model.noise_variance_, found[1]), strict=False):
            row["mean squared error"].append(float(error))
        if seed == 0:
            _draw_codebook(setting, "gvq_fig1", model, X)
    return rows


def _draw_codebook(setting: Setting, name: str, model: GVQ, X: Array) -> None:
    setting.draw(
        name,
        lambda: CodebookDisplay.from_estimator(model, X),
        "Rows, the codes (circles), and the features from the origin of their set.",
        free=True,
    )


@register(
    "gvq_fig6",
    Paper(
        source="GVQ, Figure 6",
        did="Two sets of three features on 300 rows of ten clusters in the plane.",
        differs="Eight vectors (six features, two origins) form a codebook of 16; the table also "
        "has k-means with eight and with ten centers, and the spread of the clusters themselves.",
    ),
)
def gvq_fig6(setting: Setting) -> list[Row]:
    """Two sets of three features on ten clusters in the plane."""
    rows: list[Row] = []
    for seed in setting.seeds(fast=2, full=5):
        X = ten_clusters(seed)
        model = GVQ(3, n_sets=2, n_init=10, random_state=seed).fit(X)
        if seed == 0:
            _draw_codebook(setting, "gvq_fig6", model, X)
        row: Row = {
            "seed": seed,
            "GVQ 2x3, mean squared error": model.noise_variance_,
            "codes in use": len(np.unique(model.encode(X), axis=0)),
            "rows without proof": int(np.sum(~model.certificate_.proven)),
        }
        for k in (8, 10):
            means = KMeans(k, n_init=10, random_state=seed).fit(X)
            row[f"k-means {k}"] = float(means.inertia_) / X.size
        rows.append(row | {"spread of the clusters": SPREAD**2})
    return rows


def threes_and_fives(seed: int, n_rows: int = 400) -> tuple[Array, Array]:
    """Threes and fives of the USPS training digits, 20 x 20 and binary, and which they are."""
    digits = load_usps()
    rng = np.random.default_rng(seed)
    chosen = rng.choice(np.flatnonzero(np.isin(digits.target, (3, 5))), n_rows, replace=False)
    images = digits.data[chosen].reshape(-1, 16, 16)
    scaled = np.stack([ndimage.zoom(image, 20 / 16, order=1) for image in images])
    return (scaled > 0).reshape(n_rows, -1).astype(float), digits.target[chosen]


@cache
def digits_model(seed: int) -> tuple[GVQ, Array, Array]:
    """Four sets of four binary features of 400 threes and fives, the rows, and their digits."""
    X, digit = threes_and_fives(seed)
    return GVQ(4, n_sets=4, binary=True, n_init=2, random_state=seed).fit(X), X, digit


_DIGITS = "The paper's digits are from the CEDAR disk, ours from USPS, scaled to 20x20."


def _separate(rows: Sequence[Row]) -> Finding:
    """Nine tenths, where half would be no separation."""
    purity = [float(row["purity"]) for row in rows]
    middle = float(np.median(purity))
    return middle >= 0.85, f"median purity {middle:.3f} over {len(purity)} seeds"


@register(
    "gvq_fig8",
    Paper(
        source="GVQ, Figure 8",
        did="Four sets of four binary features and an origin of 400 threes and fives: two sets of "
        "threes, one of fives, one of both. No numbers.",
        differs=_DIGITS,
        needs=("usps",),
        claims=(Claim(says="The sets separate threes and fives without labels.", test=_separate),),
    ),
)
def gvq_fig8(setting: Setting) -> list[Row]:
    """Sets of binary features of threes and fives, and how pure the sets are."""
    rows: list[Row] = []
    for seed in setting.seeds(fast=1, full=5):
        model, X, digit = digits_model(seed)
        own = model.encode(X)[:, 0]
        row: Row = {"seed": seed}
        kept = 0
        for m in range(4):
            threes, fives = (int(np.sum((own == m) & (digit == d))) for d in (3, 5))
            row[f"set {m}: threes, fives"] = f"{threes}, {fives}"
            kept += max(threes, fives)
        rows.append(row | {"purity": kept / len(X)})
    setting.draw(
        "gvq_fig8",
        lambda: FeaturesDisplay.from_estimator(digits_model(0)[0], image_shape=(20, 20)),
        "Features of each set and, last, its origin.",
    )
    return rows


@register(
    "gvq_fig9",
    Paper(
        source="GVQ, Figure 9",
        did="The 37 feature combinations that represent most of the digits. No numbers.",
        differs=_DIGITS,
        needs=("usps",),
    ),
)
def gvq_fig9(setting: Setting) -> list[Row]:
    """The most frequent codes of threes and fives, and the pixels that the codes get wrong."""
    rows: list[Row] = []
    for seed in setting.seeds(fast=1, full=5):
        model, X, _ = digits_model(seed)
        counts = np.sort(np.unique(model.encode(X), axis=0, return_counts=True)[1])[::-1]
        wrong = float(np.mean(np.rint(model.reconstruct(X)) != X))
        row: Row = {"seed": seed, "codes in use": len(counts), "pixels wrong (%)": 100 * wrong}
        row[f"digits in the {N_CODES} commonest (%)"] = 100 * counts[:N_CODES].sum() / len(X)
        rows.append(row)
    setting.draw(
        "gvq_fig9",
        lambda: CodesDisplay.from_estimator(*digits_model(0)[:2], image_shape=(20, 20)),
        f"The {N_CODES} commonest codes, by set, and the share of the digits that have each.",
    )
    return rows
