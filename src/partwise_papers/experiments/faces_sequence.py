"""Faces in sequence, whose conditions are a Markov chain (thesis 2.4 names factorial HMMs)."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import adjusted_rand_score
from sklearn.utils import Bunch

from partwise import MCVQ
from partwise.datasets import make_faces
from partwise_papers.experiments import register
from partwise_papers.registry import Array, Paper, Row, Setting

N_TRAIN, N_TEST = 4000, 2000


def class_densities(faces: Bunch, X: Array) -> Array:
    """Log density of faces under each condition by the true parameters, (n, 5)."""
    variance, rest = faces.noise_std**2, faces.masks < 0
    constant = -0.5 * X.shape[1] * np.log(2 * np.pi * variance)
    errors = ((X[:, rest] - faces.background[rest]) ** 2).sum(axis=1)
    out = np.repeat((constant - 0.5 * errors / variance)[:, None], 5, axis=1)
    for k, (appearance, table) in enumerate(
        zip(faces.appearances, faces.state_tables, strict=True)
    ):
        own = faces.masks == k
        errors = np.stack([((X[:, own] - a) ** 2).sum(axis=1) for a in appearance[:, own]], axis=1)
        least = errors.min(axis=1, keepdims=True)
        weight = np.exp(-0.5 * (errors - least) / variance) @ table.T
        out += np.log(np.maximum(weight, 1e-300)) - 0.5 * least / variance
    return out


def forward(density: Array, start: Array, transitions: Array) -> float:
    """Log-likelihood of a sequence from log densities under each class (n, N), by its rows."""
    total, ahead = 0.0, start
    for row in density:
        top = row.max()
        joint = ahead * np.exp(row - top)
        total += top + np.log(joint.sum())
        ahead = joint / joint.sum() @ transitions
    return float(total)


@register(
    "faces_sequence",
    Paper(
        source="Thesis, Section 2.4 (related work)",
        did="Names factorial hidden Markov models for data in sequence; no experiment.",
        differs="Synthetic faces in sequence (`make_faces(sequence=True)`): 4000 for learning, the "
        "next 2000 held out. Log-likelihood in nats per face, of each face given those before it "
        "with `class_chain=True`. The truth is the forward pass of the true parameters.",
    ),
)
def faces_sequence(setting: Setting) -> list[Row]:
    """Synthetic faces in sequence: gain of a chain of classes over independent rows."""
    found: dict[str, list[Row]] = {}
    for seed in range(setting.choose(fast=1, full=5)):
        faces = make_faces(N_TRAIN + N_TEST, sequence=True, random_state=seed)
        X, held, y = faces.data[:N_TRAIN], faces.data[N_TRAIN:], faces.target
        density = class_densities(faces, held)
        prior, chain = faces.condition_priors, faces.condition_transitions
        alone = forward(density, prior, np.tile(prior, (5, 1))) / N_TEST
        linked = forward(density, prior, chain) / N_TEST
        truth = linked - alone
        row = {"independent": alone, "chain": linked, "gain": truth, "gain / truth's": 1.0}
        found.setdefault("truth", []).append(row)
        for name, labels in (("labeled", y[:N_TRAIN]), ("found", None)):
            setting(f"seed {seed}, classes {name}")
            plain, model = (
                MCVQ(5, 11, n_classes=5, class_chain=chained, random_state=seed).fit(X, labels)
                for chained in (False, True)
            )
            alone, linked = plain.score(held), model.score(held)
            row = {"independent": alone, "chain": linked, "gain": linked - alone}
            row["gain / truth's"] = row["gain"] / truth
            for which, fitted in (("independent", plain), ("chain", model)):
                row[f"adjusted Rand, {which}"] = adjusted_rand_score(
                    y[N_TRAIN:], fitted.predict(held)
                )
            found.setdefault(f"MCVQ, classes {name}", []).append(row)
    return [
        {"model": name, **{key: [row[key] for row in rows] for key in rows[0]}}
        for name, rows in found.items()
    ]
