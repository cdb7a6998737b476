"""Checkpoints of fits, mutated in structure or bytes, from which the same fit is called again."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from partwise import CVQ, GVQ, MCFA, MCVQ, AspectModel, BayesianPCA, Checkpoint
from partwise.fitting.checkpoint import FitLog
from tests.fuzz.harness import Content, Kind
from tests.fuzz.models import known_parts, mutated

_X = np.random.default_rng(0).normal(size=(30, 6))
_LEVELS = np.random.default_rng(1).integers(1, 5, (30, 6)).astype(float)

FITS: dict[str, Callable[[Any], Any]] = {
    "states": lambda at: MCVQ(2, 2, max_iter=4, random_state=0).fit(_X, checkpoint=at),
    "classes": lambda at: MCVQ(2, 2, max_iter=4, random_state=0).fit(
        _X, np.arange(30) % 2, checkpoint=at
    ),
    "gibbs": lambda at: MCVQ(2, 2, inference="gibbs", max_iter=4, random_state=0).fit(
        _X, checkpoint=at
    ),
    "factors": lambda at: MCFA(2, 1, max_iter=4, random_state=0).fit(_X, checkpoint=at),
    "codes": lambda at: GVQ(3, n_init=2, max_iter=4, random_state=0).fit(_X, checkpoint=at),
    "sums": lambda at: CVQ(2, 2, max_iter=4, random_state=0).fit(_X, checkpoint=at),
    "directions": lambda at: BayesianPCA(2, max_iter=8, random_state=0).fit(_X, checkpoint=at),
    "aspects": lambda at: AspectModel(2, max_iter=4, random_state=0).fit(_LEVELS, checkpoint=at),
}


class _Killed(BaseException):
    """Stands for the end of the process."""


def _leave(name: str, path: Path) -> bytes:
    """The checkpoint that a fit leaves that is killed after its first sweep."""
    note = FitLog.note

    def noted(log: Any, place: Any) -> None:
        note(log, place)
        raise _Killed

    FitLog.note = noted  # type: ignore[method-assign]
    try:
        FITS[name](Checkpoint(path, every=0))
    except _Killed:
        pass
    finally:
        FitLog.note = note  # type: ignore[method-assign]
    return path.read_bytes()


def _seeds(folder: Path) -> None:
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        for name in FITS:
            (folder / name).mkdir()
            (folder / name / "case").write_text(name)
            _leave(name, folder / name / "fit.checkpoint")


def _mutate(rng: random.Random, seeds: Mapping[str, Content]) -> Content:
    seed = seeds[rng.choice(sorted(seeds))]
    assert isinstance(seed, dict)
    content = seed["fit.checkpoint"]
    return {**seed, "fit.checkpoint": mutated(rng, *known_parts(content), content)}


def _use(path: Path) -> None:
    FITS[(path / "case").read_text()](path / "fit.checkpoint")


KINDS = [Kind("checkpoints", _seeds, _mutate, _use)]
