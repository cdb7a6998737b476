"""Images that are not aligned: shifts of rows summed out, against models of fixed pixels."""

from __future__ import annotations

import itertools

import numpy as np
from sklearn.metrics import adjusted_rand_score

from partwise import MCVQ, Translations, make_faces
from partwise.datasets import load_cbcl_faces, load_mnist
from partwise_papers.experiments import register
from partwise_papers.experiments._models import fitted
from partwise_papers.registry import Array, Row, Setting

# Jittered faces: windows of 13x13 out of 19x19, at offsets of up to 3 pixels.
WINDOW, MOST_OFFSET = 13, 3
# Digits: shifts of up to so many pixels.
DIGIT_SHIFT = 4


def jittered_windows() -> tuple[Array, Array, Array]:
    """Windows at random offsets, the middle windows of the same faces, and the offsets."""
    rng = np.random.default_rng(0)
    faces = load_cbcl_faces(equalize=True).data
    faces = faces[rng.permutation(len(faces))[:1600]].reshape(-1, 19, 19)
    offsets = rng.integers(-MOST_OFFSET, MOST_OFFSET + 1, size=(len(faces), 2))
    windows = [_window(face, y, x) for face, (y, x) in zip(faces, offsets, strict=True)]
    return np.stack(windows), np.stack([_window(face, 0, 0) for face in faces]), offsets


def _window(face: Array, y: int, x: int) -> Array:
    lo = MOST_OFFSET
    return face[lo + y : lo + y + WINDOW, lo + x : lo + x + WINDOW].ravel()


def share_within(found: Array, true: Array, most: int = 1) -> float:
    """Share of shifts within so many pixels of the true ones, up to one common shift."""
    reach = range(-2 * MOST_OFFSET, 2 * MOST_OFFSET + 1)
    apart = found - true
    hits = [np.abs(apart - [y, x]).max(axis=1) <= most for y in reach for x in reach]
    return float(np.max(np.mean(hits, axis=1)))


@register("jittered_faces")
def jittered_faces(setting: Setting) -> list[Row]:
    """CBCL windows at unknown offsets: MCVQ 6x10 with and without shifts, 400 of 1600 held out."""
    windows, middle, offsets = jittered_windows()
    seeds = range(setting.choose(fast=1, full=5))
    moves = Translations((WINDOW, WINDOW), max_shift=MOST_OFFSET)
    models = {
        "aligned windows": (middle, None),
        "static": (windows, None),
        "shifts summed out": (windows, moves),
    }
    rows: list[Row] = []
    for name, (X, transformations) in models.items():
        nats, right = [], []
        for seed in seeds:
            setting(f"{name}, seed {seed}")
            model = MCVQ(6, 10, transformations=transformations, random_state=seed)
            fitted(model, X[:1200])
            nats.append(model.score(X[1200:]))
            if transformations is not None:
                right.append(100 * share_within(model.shifts(X[1200:]), offsets[1200:]))
        row: Row = {"model": name, "held-out log-likelihood (nats per face)": nats}
        row["median"] = float(np.median(nats))
        if right:
            row["shifts within one pixel (%)"] = right
            row["median (%)"] = float(np.median(right))
        rows.append(row)
    return rows


SHAPES = (("###", "# #", "###"), (" # ", "# #", "###"), (" # ", "###", " # "))


def moving_shapes(n_rows: int, seed: int, missing: float, side: int = 16) -> tuple[Array, Array]:
    """A box, a triangle and a cross anywhere in images with noise 0.1; their places (n, 3, 2)."""
    rng = np.random.default_rng(seed)
    places = rng.integers(0, side - 2, size=(n_rows, 3, 2))
    ink = np.zeros((n_rows, side, side), bool)
    for k, lines in enumerate(SHAPES):
        shape = np.array([list(line) for line in lines]) == "#"
        for image, (y, x) in zip(ink, places[:, k], strict=True):
            image[y : y + 3, x : x + 3] |= shape
    X = np.where(ink, 1.0, -1.0) + 0.1 * rng.normal(size=ink.shape)
    X[rng.random(X.shape) < missing] = np.nan
    return X.reshape(n_rows, -1), places


def share_placed(found: Array, true: Array) -> float:
    """Least share of the shapes' places that are right, up to a constant per part."""
    K = true.shape[1]
    right = np.empty((K, K))
    for a, b in itertools.product(range(K), repeat=2):
        _, counts = np.unique(found[:, a] - true[:, b], axis=0, return_counts=True)
        right[a, b] = counts.max() / len(true)
    return max(
        min(right[order[k], k] for k in range(K)) for order in itertools.permutations(range(K))
    )


@register("moving_shapes")
def shapes_that_move(setting: Setting) -> list[Row]:
    """Box, triangle and cross anywhere in 16x16: places found in 500 new images, by seed.

    The static model for comparison has 3x3 states, which is more parameters than templates have.
    """
    n_rows, n_seeds = setting.choose(fast=(150, 1), full=(500, 20))
    moves = Translations((16, 16), max_shift=8, by="part")
    rows: list[Row] = []
    for missing in (0.0, 0.2):
        right, nats, static = [], [], []
        for seed in range(n_seeds):
            setting(f"missing {missing:.0%}, seed {seed}")
            X = moving_shapes(n_rows, seed, missing)[0]
            new, places = moving_shapes(n_rows, 1000 + seed, missing)
            model = fitted(MCVQ(3, 1, transformations=moves, random_state=seed), X)
            right.append(100 * share_placed(-model.shifts(new), places))
            nats.append(model.score(new))
            static.append(fitted(MCVQ(3, 3, random_state=seed), X).score(new))
        row: Row = {"missing (%)": 100 * missing, "places right, worst shape (%)": right}
        row["seeds with at least 98 %"] = int(np.sum(np.array(right) >= 98.0))
        row["held-out bound (nats per image)"] = nats
        row["static, held-out (nats per image)"] = static
        rows.append(row)
    return rows


def masked_parts(model: MCVQ) -> Array:
    """Part of each pixel with every part at its mean place, -1 where no mask is above one half."""
    moves = model.transformations
    assert moves is not None
    mean = np.rint(model.transformation_priors_ @ moves.values)
    still = [int(np.abs(moves.values - place).sum(axis=1).argmin()) for place in mean]
    masks = np.stack([own[moves.maps[t]] for own, t in zip(model.masks_, still, strict=True)])
    return np.where(masks.max(axis=0) > 0.5, masks.argmax(axis=0), -1)


@register("displaced_faces")
def displaced_faces(setting: Setting) -> list[Row]:
    """Synthetic faces whose parts are displaced by up to 2 pixels: masks against the true parts."""
    n_rows, n_seeds, n_states = setting.choose(fast=(60, 1, 2), full=(600, 20, 11))
    moves = Translations((32, 32), max_shift=2, by="part")
    rows: list[Row] = []
    for name, transformations in (("static", None), ("parts move", moves)):
        agreement = []
        for seed in range(n_seeds):
            setting(f"{name}, seed {seed}")
            faces = make_faces(n_rows, displacement=2, random_state=seed)
            model = MCVQ(5, n_states, transformations=transformations, random_state=seed)
            fitted(model, faces.data)
            found = model.parts_ if transformations is None else masked_parts(model)
            agreement.append(float(adjusted_rand_score(faces.masks, found)))
        row: Row = {"model": name, "adjusted Rand index against the true parts": agreement}
        row["seeds with at least 0.85"] = int(np.sum(np.array(agreement) >= 0.85))
        rows.append(row)
    return rows


@register("shifted_digits")
def shifted_digits(setting: Setting) -> list[Row]:
    """MNIST digits shifted by up to 4 pixels: MCVQ 4x15 with and without shifts, and classes."""
    n_train, n_test = setting.choose(fast=(600, 300), full=(4000, 1000))
    digits = load_mnist()
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(digits.data))[: n_train + n_test]
    images = digits.data[rows].reshape(-1, 28, 28).astype(np.float32)
    X = np.stack([_displaced(image, rng) for image in images])[:, ::2, ::2].reshape(len(images), -1)
    X, y = X + rng.normal(0, 0.05, X.shape).astype(np.float32), digits.target[rows]
    moves = Translations((18, 18), max_shift=DIGIT_SHIFT // 2)
    found: list[Row] = []
    for name, transformations in (("static", None), ("shifts summed out", moves)):
        setting(name)
        model = MCVQ(4, 15, transformations=transformations, random_state=0)
        fitted(model, X[:n_train])
        setting(f"{name}, with classes")
        classes = MCVQ(4, 15, transformations=transformations, random_state=0)
        fitted(classes, X[:n_train], y[:n_train])
        found.append(
            {
                "model": name,
                "held-out log-likelihood (nats per row)": model.score(X[n_train:]),
                "error of classes (%)": 100
                * float(np.mean(classes.predict(X[n_train:]) != y[n_train:])),
            }
        )
    return found


def _displaced(image: Array, rng: np.random.Generator) -> Array:
    """The image at a random place of a field that is larger by the largest shift on each side."""
    field = np.zeros((28 + 2 * DIGIT_SHIFT,) * 2, image.dtype)
    y, x = rng.integers(0, 2 * DIGIT_SHIFT + 1, size=2)
    field[y : y + 28, x : x + 28] = image / max(float(image.max()), 1.0)
    return field
