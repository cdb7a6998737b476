"""Shapes: box, triangle and cross at nine heights each (NIPS 5.1, thesis 3.1.2 and 5.2.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from sklearn.metrics import adjusted_rand_score
from sklearn.utils import Bunch

from partwise import CVQ, MCVQ
from partwise.datasets import load_cbcl_faces, make_shapes
from partwise.plot import PicturesDisplay, ReconstructionDisplay, StatesDisplay
from partwise_papers.experiments import register
from partwise_papers.experiments._models import Linear, fitted, length, mean_rms, rms
from partwise_papers.registry import Array, Claim, Finding, Paper, Row, Setting, best, ordered

IMAGE_SHAPE = (11, 11)

# The papers' images are gray-scale and not available; see `make_shapes` for how these were found.
GRAY = (
    "Our drawing of the shapes, gray-scale: solid, blurred by 0.42 pixels, found by the errors of "
    "PCA, NMF and VQ alone."
)
SEEN_AT_TOP = "the 27 images with all shapes in the upper third, as many runs per seed"

_HARD = (
    "PCA has nearly one solution, so where its error differs the images do: no drawing that was "
    "tried gives PCA, NMF and VQ all their printed errors."
)


def drawn() -> bool:
    """Shapes are our own drawing: nothing on them counts as better."""
    return True


def gray() -> Bunch:
    """All shapes, as gray as in the papers."""
    return make_shapes(drawing="gray")


def errors_at_top(model: Any) -> list[float]:
    """R.m.s. error of each image of the kind left out of training."""
    shapes = gray()
    top = shapes.data[(shapes.states < 3).all(axis=1)]
    return [float(error) for error in np.sqrt(np.mean((model.reconstruct(top) - top) ** 2, axis=1))]


# Sizes that have about the length of 5.9e5 bits on shapes (the thesis' own), and of 1.5e6 on faces:
# kind, parts, vectors in all.
SHAPES_SIZES = (
    ("MCVQ", 3, 36), ("PCA", 1, 12), ("MCVQ", 2, 36), ("MCVQ", 4, 36), ("MCVQ", 8, 32),
    ("MCVQ", 6, 36), ("NMF", 1, 12), ("VQ", 1, 38),
)  # fmt: skip
FACES_SIZES = (
    ("PCA", 1, 24), ("NMF", 1, 24), ("MCVQ", 3, 30), ("MCVQ", 6, 30), ("VQ", 1, 32),
)  # fmt: skip


def split(
    seed: int, drawing: Literal["outline", "gray"] = "outline"
) -> tuple[Array, Array, np.random.Generator]:
    """100 training images, none with all three shapes near the top, the 629 others, and the rng.

    Near the top: the upper third of the nine heights.
    """
    shapes = make_shapes(drawing=drawing)
    rng = np.random.default_rng(seed)
    allowed = np.flatnonzero(~(shapes.states < 3).all(axis=1))
    chosen = rng.choice(allowed, 100, replace=False)
    return shapes.data[chosen], np.delete(shapes.data, chosen, axis=0), rng


def shapes_split(seed: int) -> tuple[Array, Array]:
    """The same in gray, without the generator."""
    return split(seed, "gray")[:2]


def top_image() -> Array:
    """All three shapes at the top: an image of the kind left out of training, (1, D)."""
    return gray().data[:1]


def faces_split(seed: int) -> tuple[Array, Array]:
    """1800 faces to learn from and the 629 others, from -1 to 1, not equalized."""
    faces = 2.0 * load_cbcl_faces().data - 1.0
    order = np.random.default_rng(seed).permutation(len(faces))
    return faces[order[:1800]], faces[order[1800:]]


def at_equal_length(
    sizes: Sequence[tuple[str, int, int]],
    make: Callable[[int], tuple[Array, Array]],
    n_seeds: int,
    setting: Setting,
) -> list[Row]:
    """Errors of every model on test rows, over seeds, and its description length."""
    rows: dict[str, Row] = {}
    for seed in range(n_seeds):
        train, test = make(seed)
        for kind, K, V in sizes:
            name = f"{kind} {K}x{V // K}" if K > 1 else f"{kind} {V}"
            setting(f"{name}, seed {seed}")
            model: Any
            if kind in ("MCVQ", "CVQ"):
                kinds = {"MCVQ": MCVQ, "CVQ": CVQ}
                model = fitted(kinds[kind](K, V // K, random_state=seed), train)
            else:
                model = Linear.fit(kind, V, train, seed)
            away = model.reconstruct(test) - test
            row = rows.setdefault(name, {"model": name, "RMS": [], "RMS over all pixels": []})
            row["RMS"].append(mean_rms(away))
            row["RMS over all pixels"].append(rms(away))
            row["description length (bits)"] = length(kind, K, V, test)
    return list(rows.values())


@register("shapes")
def shapes(setting: Setting) -> list[Row]:
    """Reconstruction of unseen shapes and of held-out cells, default settings."""
    n_seeds = setting.choose(fast=5, full=20)
    rows: list[Row] = []
    for n_states in (9, 12):
        complete, holes = [], []
        for seed in range(n_seeds):
            setting(f"3x{n_states}, seed {seed}")
            train, test, rng = split(seed)
            model = MCVQ(3, n_states, random_state=seed)
            complete.append(rms(model.fit(train).reconstruct(test) - test))
            removed = rng.random(train.shape) < 0.3
            filled = model.fit(np.where(removed, np.nan, train)).impute(
                np.where(removed, np.nan, train)
            )
            holes.append(rms((filled - train)[removed]))
        for what, errors, limit in (
            ("629 unseen images", complete, 0.01),
            ("30 % of training cells removed", holes, 0.05),
        ):
            rows.append(
                {
                    "model": f"MCVQ 3x{n_states}",
                    "measured on": what,
                    "RMS": errors,
                    f"seeds of {n_seeds} within limit": float(np.sum(np.array(errors) <= limit)),
                    "limit": limit,
                }
            )
    return rows


def _one_shape_each(rows: Sequence[Row]) -> Finding:
    row = next(row for row in rows if row["model"] == "MCVQ 3x5")
    agree, least = row["parts agree (Rand)"], row.get("parts agree (Rand) least", 0.0)
    return agree > 0.9, f"adjusted Rand index with the shapes {agree:.3f}, at least {least:.3f}"


@register(
    "nips_fig2",
    Paper(
        source="NIPS, Figure 2 (thesis, Figure 3.1)",
        did="MCVQ with 3 VQs of 5 states trained on 100 images of three shapes, none with all "
        "three near the top; each VQ represents one shape. The reconstruction of one such image "
        "had an RMS error of 0.153 (thesis).",
        differs=GRAY + " The dependence start instead of a random one. Five states cannot "
        "represent nine heights, so the error depends on which heights share a state, and the "
        f"thesis shows one image; ours is of {SEEN_AT_TOP}.",
        figures={"RMS at the top": {"MCVQ 3x5": "0.153"}},
        better={"RMS at the top": "lower"},
        stand_in=drawn,
        claims=(
            Claim(
                says="Each VQ specializes to one of the shapes.",
                test=_one_shape_each,
                on_stand_in=True,
            ),
        ),
        why="the thesis shows one image, and its heights may have had their own states; ours is a "
        "mean over all such images. With nine states the error is zero.",
    ),
)
def nips_fig2(setting: Setting) -> list[Row]:
    """Parts of the shapes, MCVQ 3x5 and 3x9, and images unlike those of the training set."""
    data = gray()
    rows: list[Row] = []
    for J in (5, 9):
        row: Row = {"model": f"MCVQ 3x{J}", "RMS at the top": [], "RMS unseen": []}
        row["parts agree (Rand)"] = []
        for seed in setting.seeds(fast=3, full=20, what=f"3x{J}"):
            train, test = shapes_split(seed)
            model = fitted(MCVQ(3, J, random_state=seed), train)
            row["RMS at the top"] += errors_at_top(model)
            row["RMS unseen"].append(rms(model.reconstruct(test) - test))
            inked = data.masks >= 0
            agreement = adjusted_rand_score(data.masks[inked], model.parts_[inked])
            row["parts agree (Rand)"].append(agreement)
            if J == 5 and seed == 0:
                draw_parts(setting, "nips_fig2", model, train)
        rows.append(row)
    return rows


def draw_parts(setting: Setting, name: str, model: Any, train: Array) -> None:
    """Training images, the states of every part, and an image of an unseen kind."""
    setting.draw(
        f"{name}_a",
        lambda: PicturesDisplay.from_groups(
            {"training images": train[:12], "": train[12:24]}, image_shape=IMAGE_SHAPE
        ),
        "24 training images.",
        free=True,
    )
    draw_states(setting, f"{name}_b", model, "Gates of every part, its states and their shares.")
    setting.draw(
        f"{name}_c",
        lambda: ReconstructionDisplay.from_estimator(model, top_image(), image_shape=IMAGE_SHAPE),
        "An image of a kind left out of training, its reconstruction, and the parts of it.",
        free=True,
    )


def draw_states(setting: Setting, name: str, model: Any, caption: str) -> None:
    """Gates and states of every part."""
    setting.draw(
        name,
        lambda: StatesDisplay.from_estimator(model, image_shape=IMAGE_SHAPE),
        caption,
        free=True,
    )


def holistic(setting: Setting, name: str, with_cvq: bool) -> list[Row]:
    """Other methods on shapes, with as many vectors as MCVQ 3x5 has states; and their pictures."""
    top = top_image()
    vectors, remade = {}, {"original": top}
    kinds = ("VQ", "PCA", "NMF", "CVQ" if with_cvq else "MCVQ")
    rows: dict[str, Row] = {}
    for seed in range(setting.choose(fast=2, full=10)):
        train, test = shapes_split(seed)
        for kind in kinds:
            setting(f"{kind}, seed {seed}")
            model: Any
            if kind.endswith("CVQ"):
                made = MCVQ if kind == "MCVQ" else CVQ
                model = fitted(made(3, 5, random_state=seed), train)
                found = model.means_.reshape(-1, train.shape[1])
            else:
                model = Linear.fit(kind, 15, train, seed)
                found = model.vectors
            if seed == 0 and kind != "MCVQ":
                vectors[kind] = found / np.abs(found).max(axis=1, keepdims=True)
                remade[kind] = model.reconstruct(top)
            label = f"{kind} 3x5" if kind.endswith("CVQ") else f"{kind} 15"
            row = rows.setdefault(label, {"model": label, "RMS at the top": [], "RMS unseen": []})
            row["RMS at the top"] += errors_at_top(model)
            row["RMS unseen"].append(rms(model.reconstruct(test) - test))
    errors = np.sort([rows[f"{kind} 15"]["RMS at the top"] for kind in kinds[:3]], axis=0)
    setting.draw(
        f"{name}_vectors",
        lambda: PicturesDisplay.from_groups(vectors, image_shape=IMAGE_SHAPE),
        f"Vectors learned from the shapes by {', '.join(vectors)}.",
        free=True,
    )
    setting.draw(
        f"{name}_test",
        lambda: PicturesDisplay.from_groups(
            {"": np.vstack(list(remade.values()))},
            titles={"": list(remade)},
            image_shape=IMAGE_SHAPE,
        ),
        "An image of a kind left out of training, and what each method makes of it.",
        free=True,
    )
    places = zip(("least", "middle", "largest"), errors, strict=True)
    return [*rows.values()] + [
        {"model": f"{place} of VQ, PCA, NMF", "RMS at the top": error} for place, error in places
    ]


@register(
    "nips_fig3",
    Paper(
        source="NIPS, Figure 3",
        did="VQ, PCA and NMF on the 100 shapes: VQ and PCA are holistic, NMF finds fragments of "
        "shapes but does not group them.",
        differs=GRAY + " 15 vectors each, as many as the states of MCVQ 3x5; the paper gives no "
        f"size. Errors at the top are of {SEEN_AT_TOP}.",
        stand_in=drawn,
        claims=(
            Claim(
                says="MCVQ reconstructs images of a kind left out of training better than VQ, PCA "
                "and NMF.",
                test=best("RMS at the top", "MCVQ 3x5", "VQ 15", "PCA 15", "NMF 15", pick=min),
                on_stand_in=True,
            ),
        ),
    ),
)
def nips_fig3(setting: Setting) -> list[Row]:
    """Other methods on the shapes: vectors of VQ, PCA and NMF, and an image unlike the others."""
    return holistic(setting, "nips_fig3", with_cvq=False)


@register(
    "thesis_fig3_2",
    Paper(
        source="Thesis, Figure 3.2",
        did="VQ, PCA, NMF and CVQ on the shapes; one test image had errors of 0.214, 0.502 and "
        "0.716 by the first three (the scan does not show which is which), and 1.06 by CVQ.",
        differs=GRAY + f" 15 vectors each, CVQ 3x5. Errors are of {SEEN_AT_TOP}; the thesis shows "
        "one.",
        stand_in=drawn,
        figures={
            "RMS at the top": {
                "least of VQ, PCA, NMF": "0.214",
                "middle of VQ, PCA, NMF": "0.502",
                "largest of VQ, PCA, NMF": "0.716",
                "CVQ 3x5": "1.06",
            }
        },
        better={"RMS at the top": "lower"},
        why="these are scikit-learn's methods on one image; the paper's image and sizes are not "
        "known.",
    ),
)
def thesis_fig3_2(setting: Setting) -> list[Row]:
    """Other methods on the shapes, including CVQ, and an image unlike the others."""
    return holistic(setting, "thesis_fig3_2", with_cvq=True)


@register(
    "thesis_table3_1",
    Paper(
        source="Thesis, Table 3.1",
        did="RMS error of 629 unseen shapes after training on 100, at a description length of "
        "about 5.9e5 bits.",
        differs=GRAY + " MCVQ with its default start and priors; also CVQ 3x12, which the thesis "
        "shows but does not measure. RMS is the average over images of each image's RMS error.",
        stand_in=drawn,
        claims=(
            Claim(
                says="Of the sizes of MCVQ that describe the shapes in as many bits, the one with "
                "three VQs, the right number, has the lowest error.",
                test=best(
                    "RMS", "MCVQ 3x12", "MCVQ 2x18", "MCVQ 4x9", "MCVQ 8x4", "MCVQ 6x6", pick=min
                ),
                on_stand_in=True,
            ),
        ),
        figures={
            "RMS": {
                "MCVQ 3x12": "0.21", "PCA 12": "0.22", "MCVQ 2x18": "0.26", "MCVQ 4x9": "0.26",
                "MCVQ 8x4": "0.34", "MCVQ 6x6": "0.35", "NMF 12": "0.35", "VQ 38": "0.49",
            }
        },
        better={"RMS": "lower"},
        why=_HARD + " MCVQ 2x18 has two VQs for three shapes, so its error depends on how they "
        "share them; the thesis does not say.",
    ),
)  # fmt: skip
def thesis_table3_1(setting: Setting) -> list[Row]:
    """Error on unseen shapes at equal description length."""
    return errors_of_shapes(setting)


_ERRORS: dict[int, list[Row]] = {}


def errors_of_shapes(setting: Setting) -> list[Row]:
    """Errors on unseen shapes; the two papers that have them share one run."""
    n_seeds = setting.choose(fast=3, full=20)
    if n_seeds not in _ERRORS:
        sizes = (*SHAPES_SIZES, ("CVQ", 3, 36))
        _ERRORS[n_seeds] = at_equal_length(sizes, shapes_split, n_seeds, setting)
    return _ERRORS[n_seeds]


@register(
    "nips_errors",
    Paper(
        source="NIPS, Section 5.1",
        did="RMS error of 629 unseen shapes at equal description length, 5.9e5 bits; 100 training "
        "images, pixels from -1 to 1.",
        differs=GRAY + " The thesis prints 0.35 where this paper has 0.6 for six VQs.",
        figures={
            "RMS": {
                "MCVQ 3x12": "0.21", "PCA 12": "0.22", "NMF 12": "0.35", "VQ 38": "0.49",
                "MCVQ 6x6": "0.6",
            }
        },
        better={"RMS": "lower"},
        stand_in=drawn,
        claims=(
            Claim(
                says="At equal description length MCVQ 3x12 errs less than PCA, NMF and VQ, in "
                "this order.",
                test=ordered("RMS", "MCVQ 3x12", "PCA 12", "NMF 12", "VQ 38"),
                on_stand_in=True,
            ),
        ),
        why=_HARD,
    ),
)  # fmt: skip
def nips_errors(setting: Setting) -> list[Row]:
    """Error on unseen shapes at equal description length."""
    return errors_of_shapes(setting)


@register(
    "nips_errors_faces",
    Paper(
        source="NIPS, Section 5.1, faces",
        did="RMS error of 629 unseen CBCL faces at equal description length, 1.5e6 bits; 1800 "
        "training faces, pixels from -1 to 1.",
        differs="Sizes are those with the closest description length, since the paper gives none.",
        needs=("cbcl_faces",),
        figures={
            "RMS": {
                "PCA 24": "0.12", "NMF 24": "0.20", "MCVQ 3x10": "0.23", "MCVQ 6x5": "0.23",
                "VQ 32": "0.28",
            }
        },
        better={"RMS": "lower"},
        claims=(
            Claim(
                says="At equal description length PCA errs less than NMF, MCVQ and VQ, in this "
                "order.",
                test=ordered("RMS", "PCA 24", "NMF 24", "MCVQ 6x5", "VQ 32"),
            ),
        ),
    ),
)  # fmt: skip
def nips_errors_faces(setting: Setting) -> list[Row]:
    """Error on unseen faces at equal description length."""
    return at_equal_length(FACES_SIZES, faces_split, setting.choose(fast=1, full=5), setting)
