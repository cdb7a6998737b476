"""Several sets of features: Westerdijk et al., Figures 6 to 9."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import ndimage
from sklearn.cluster import KMeans

from partwise.contracts import Array
from partwise.datasets import load_usps
from partwise.estimators.gvq import GVQ
from partwise.experiments import register
from partwise.experiments.registry import Row

N_SEEDS = 5
SPREAD = 0.05  # standard deviation of a cluster
N_CODES = 37  # codes that the paper's Figure 9 shows


def ten_clusters(seed: int, n_rows: int = 300) -> Array:
    """Rows of ten round clusters in the plane."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-1.0, 1.0, (10, 2))
    return centres[rng.integers(10, size=n_rows)] + SPREAD * rng.normal(size=(n_rows, 2))


@register("gvq_clusters")
def gvq_clusters(progress: Callable[[str], None]) -> list[Row]:
    """Figure 6: two sets of three features on ten clusters in the plane, 300 rows.

    Eight vectors (six features, two origins) make a codebook of 16; k-means with eight and with ten
    centres stands beside it, and the clusters' own spread.
    """
    rows: list[Row] = []
    for seed in range(N_SEEDS):
        progress(f"seed {seed}")
        X = ten_clusters(seed)
        model = GVQ(3, n_sets=2, n_init=10, random_state=seed).fit(X)
        row: Row = {
            "seed": seed,
            "GVQ 2x3, mean squared error": model.noise_,
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


@register("gvq_digits")
def gvq_digits(progress: Callable[[str], None]) -> list[Row]:
    """Figures 7 to 9: 400 threes and fives, four sets of four binary features and an origin.

    The paper's digits are from the CEDAR disk, ours from USPS. It finds two sets of threes, one of
    fives, and one of both; it gives no number.
    """
    rows: list[Row] = []
    for seed in range(N_SEEDS):
        progress(f"seed {seed}")
        X, digit = threes_and_fives(seed)
        model = GVQ(4, n_sets=4, binary=True, n_init=2, random_state=seed).fit(X)
        codes = model.encode(X)
        wrong = float(np.mean(np.rint(model.reconstruct(X)) != X))
        counts = np.sort(np.unique(codes, axis=0, return_counts=True)[1])[::-1]
        row: Row = {"seed": seed}
        kept = 0
        for m in range(4):
            threes = int(np.sum((codes[:, 0] == m) & (digit == 3)))
            fives = int(np.sum((codes[:, 0] == m) & (digit == 5)))
            row[f"set {m}: threes, fives"] = f"{threes}, {fives}"
            kept += max(threes, fives)
        rows.append(
            row
            | {
                "purity": kept / len(X),
                "pixels wrong (%)": 100 * wrong,
                "codes in use": len(counts),
                f"in the {N_CODES} commonest (%)": 100 * counts[:N_CODES].sum() / len(X),
            }
        )
    return rows
