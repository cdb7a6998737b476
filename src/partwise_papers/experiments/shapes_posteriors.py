"""Shapes under other posteriors, priors and schedules (NIPS 3, thesis 2.2 and 5.2.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from partwise import MCVQ, Annealing
from partwise_papers.experiments import register
from partwise_papers.experiments._models import entropy_bits, fitted, rms
from partwise_papers.experiments.shapes import GRAY, draw_states, drawn, gray, shapes_split
from partwise_papers.registry import Claim, Finding, Paper, Row, Setting

# As in the papers: random start, maximum likelihood.
_PAPER: dict[str, Any] = {"init": "random", "prior": None}


def _found(rows: Sequence[Row], name: str) -> tuple[float, str]:
    row = next(row for row in rows if row["model"] == name)
    return row["found (%)"], f"{name}: parts found in {row['found (%)']:.0f} % of the seeds"


def _fails_without(rows: Sequence[Row]) -> Finding:
    share, told = _found(rows, "without annealing")
    return share < 50, told


def _succeeds_with(rows: Sequence[Row]) -> Finding:
    share, told = _found(rows, "annealed linearly")
    return share >= 50, told


@register(
    "nips_annealing",
    Paper(
        source="NIPS, Section 3 (thesis, Section 2.2)",
        did="With one selection per column for all images, good results are obtained by an inverse "
        "temperature that is annealed linearly; all experiments use it.",
        differs=GRAY + " MCVQ 3x5 of 100 images, maximum likelihood from random starts; 100 "
        "temperatures from the number of images to 1. Parts are found if the adjusted Rand index "
        "with the shapes is at least 0.9.",
        claims=(
            Claim(
                says="Learning one selection per column fails without annealing.",
                test=_fails_without,
            ),
            Claim(
                says="With annealing learning succeeds from random starts.",
                test=_succeeds_with,
            ),
        ),
    ),
)
def nips_annealing(setting: Setting) -> list[Row]:
    """Parts of the shapes from random starts, with and without annealing."""
    return unconventional(
        setting,
        "nips_annealing",
        {
            "without annealing": _PAPER | {"gating": "tied"},
            "annealed linearly": _PAPER | {"gating": Annealing(100, schedule="linear")},
            "annealed geometrically": _PAPER | {"gating": "annealed"},
            "default": {},
        },
        n_seeds=setting.choose(fast=3, full=20),
    )


def unconventional(
    setting: Setting, name: str, models: dict[str, dict[str, Any]], n_seeds: int
) -> list[Row]:
    """MCVQ 3x5 on shapes under other posteriors or priors: what gates it ends with."""
    data = gray()
    inked = data.masks >= 0
    rows: list[Row] = []
    for label, arguments in models.items():
        row: Row = {"model": label, "entropy (bits)": [], "RMS unseen": []}
        row["parts agree (Rand)"] = []
        for seed in range(n_seeds):
            setting(f"{label}, seed {seed}")
            train, test = shapes_split(seed)
            model = fitted(MCVQ(3, 5, random_state=seed, **arguments), train)
            row["entropy (bits)"].append(entropy_bits(model.gates_[inked]))
            row["RMS unseen"].append(rms(model.reconstruct(test) - test))
            row["parts agree (Rand)"].append(
                adjusted_rand_score(data.masks[inked], model.parts_[inked])
            )
            if not rows and seed == 0:
                draw_states(setting, name, model, f"Gates and states: {label}.")
        row["found (%)"] = 100 * float(np.mean(np.array(row["parts agree (Rand)"]) >= 0.9))
        rows.append(row)
    return rows


_PLAIN: dict[str, Any] = _PAPER | {"gating": "factorised"}


def _no_parts(name: str, least_bits: float) -> Callable[[Sequence[Row]], Finding]:
    """Test that gates have at least so many bits of entropy, and agree with no parts."""

    def test(rows: Sequence[Row]) -> Finding:
        row = next(row for row in rows if row["model"] == name)
        bits, agree = row["entropy (bits)"], row["parts agree (Rand)"]
        told = f"{bits:.2f} bits, adjusted Rand index with the shapes {agree:.3f}"
        return bits >= least_bits and agree < 0.5, told

    return test


@register(
    "thesis_fig5_1",
    Paper(
        source="Thesis, Figure 5.1",
        did="MCVQ on the shapes with the conventional mean-field posterior, one selection per "
        "image: gates of high entropy, no parts.",
        stand_in=drawn,
        claims=(
            Claim(
                says="The conventional posterior leaves gates of high entropy and no parts.",
                test=_no_parts("conventional posterior, random start", least_bits=0.5),
                on_stand_in=True,
            ),
        ),
        differs="Entropies are over the pixels that are part of shapes, where log2(3) = 1.58 bits "
        "means no part at all. Also the same posterior started from a tied solution, which the "
        "2006 paper suggests, and the standard posterior.",
    ),
)
def thesis_fig5_1(setting: Setting) -> list[Row]:
    """The factorised posterior on shapes: from a random start, and from a tied solution."""
    return unconventional(
        setting,
        "thesis_fig5_1",
        {
            "conventional posterior, random start": _PLAIN,
            "conventional posterior, from a tied solution": {"gating": "factorised"},
            "standard posterior, random start": _PLAIN | {"gating": "standard"},
            "default": {},
        },
        setting.choose(fast=1, full=20),
    )


@register(
    "thesis_fig5_2",
    Paper(
        source="Thesis, Figure 5.2",
        did="The same with an entropic prior on the gates, alpha = 15: lower entropy, but no "
        "useful parts.",
        differs=GRAY + " Also other strengths than the thesis' 15.",
        stand_in=drawn,
        claims=(
            Claim(
                says="With the entropic prior parts are not useful either.",
                test=_no_parts("entropic prior, alpha = 15, random start", least_bits=0.0),
                on_stand_in=True,
            ),
        ),
    ),
)
def thesis_fig5_2(setting: Setting) -> list[Row]:
    """An entropic prior on the gates of shapes, of several strengths."""
    return unconventional(
        setting,
        "thesis_fig5_2",
        {
            f"entropic prior, alpha = {alpha:g}, {start}": arguments | {"gate_entropy": alpha}
            for start, arguments in (
                ("random start", _PLAIN),
                ("from a tied solution", {"gating": "factorised"}),
            )
            for alpha in (15.0, 1.0, 50.0)
        },
        setting.choose(fast=1, full=20),
    )
