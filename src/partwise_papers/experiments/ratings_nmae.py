"""MovieLens-1M by Marlin's protocol: one held-out rating of everybody, 5000 people to learn from.

The other 1040 are met later (strong generalization). Sizes, sweeps, priors, penalties and the
members of the average were chosen on splits 100 and 101; splits 0 to 9, reported here, took no part
in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from partwise import MCFA, MCVQ, Prior
from partwise.datasets import load_movielens
from partwise_papers.experiments import _ratings, _surprise, register
from partwise_papers.registry import Array, Row, Setting

N_TRAIN, N_DRAWS = 5000, 10

# NMAE as published: weak, strong.
PUBLISHED = {
    "URP (Marlin 2004)": (0.434, 0.444),
    "MMMF": (0.416, 0.420),
    "ensemble of MMMF": (0.403, 0.407),
    "GP-LVM": (0.403, 0.399),
}

# What marks models that use the set of rated films.
SETS = ", rated_set"

# Algorithms of Surprise, and on how many splits; the slower ones see fewer.
PEERS = {"SVD": 10, "KNNBaseline": 2, "SVDpp": 1}


def members() -> dict[str, Any]:
    """Models; the second is the best single one, and all from there on are averaged.

    These are averaged a second time with ``rated_set=True``.
    """
    ordinal: dict[str, Any] = {"likelihood": "ordinal", "max_iter": 15, "random_state": 0}
    shares: dict[str, Any] = {"likelihood": "categorical", "prior": Prior(counts=3.0)}
    return {
        "MCVQ 5x12, categorical": MCVQ(5, 12, random_state=0, **shares),
        "MCFA 1x16, ordinal": MCFA(1, 16, **ordinal),
        "MCFA 2x12, ordinal": MCFA(2, 12, gating="tied", **ordinal),
        "MCFA 1x32, Gaussian": MCFA(1, 32, max_iter=15, random_state=0),
    }


# Two predictions of every rating: the median, or what is rounded to a level; and the mean, or raw.
Points: TypeAlias = tuple[Array, Array]


class Run(NamedTuple):
    """Errors of one model on one split, and what fitting took."""

    weak: _ratings.Errors
    strong: _ratings.Errors
    seconds: float


def on_draw(
    split: _ratings.Split,
    levels: Array,
    models: Mapping[str, Any],
    peers: Iterable[str],
    progress: Callable[[str], None],
) -> dict[str, Run]:
    """Errors of models, of the average of all but the first, and of peers.

    All but the first also learn what the set of rated films says about tastes.
    """
    found: dict[str, Run] = {}

    def enter(name: str, weak: Points, strong: Points, took: float) -> None:
        found[name] = Run(
            _ratings.errors(*weak, split.weak.value, levels),
            _ratings.errors(*strong, split.strong.value, levels),
            took,
        )

    def enter_shares(name: str, weak: Array, strong: Array, took: float) -> None:
        enter(name, _ratings.points(weak, levels), _ratings.points(strong, levels), took)

    def enter_model(name: str, model: Any, took: float) -> tuple[Array, Array]:
        weak = _ratings.shares(model, split.train, split.weak)
        strong = _ratings.shares(model, split.known, split.strong)
        enter_shares(name, weak, strong, took)
        return weak, strong

    pools: dict[str, list[tuple[Array, Array]]] = {"": [], SETS: []}
    for i, (name, estimator) in enumerate(models.items()):
        progress(name)
        begun = time.perf_counter()
        model = _ratings.fitted(estimator, split.train, levels, max_choice_items=0)
        one = enter_model(name, model, time.perf_counter() - begun)
        if i > 0:
            pools[""].append(one)
            model.set_params(rated_set=True).partial_fit(split.train)
            pools[SETS].append(enter_model(f"{name}{SETS}", model, time.perf_counter() - begun))
    for way, pool in pools.items():
        weak, strong = (np.mean(p, axis=0) for p in zip(*pool, strict=True))
        took = sum(found[name + way].seconds for name in list(models)[1:])
        enter_shares(f"average of the last {len(pool)}{way}", weak, strong, took)
    for name in peers:
        progress(f"Surprise {name}")
        begun = time.perf_counter()
        weak, strong = _surprise.predictions(name, split, levels)
        took = time.perf_counter() - begun
        enter(f"Surprise {name}", (np.rint(weak), weak), (np.rint(strong), strong), took)
    return found


def compare(
    X: Any,
    levels: Array,
    n_train: int,
    n_draws: int,
    models: Mapping[str, Any],
    peers: Mapping[str, int],
    progress: Callable[[str], None],
) -> list[Row]:
    """Errors over splits of people and of held-out ratings; a peer is in its first few splits."""
    found: dict[str, list[Run]] = {}
    for seed in range(n_draws):

        def told(text: str, seed: int = seed) -> None:
            progress(f"split {seed}: {text}")

        split = _ratings.marlin(X, n_train, seed)
        wanted = [name for name, most in peers.items() if seed < most]
        for name, run in on_draw(split, levels, models, wanted, told).items():
            found.setdefault(name, []).append(run)
    single = found[list(models)[1]]
    return [_row(name, runs, single) for name, runs in found.items()]


def _row(name: str, runs: list[Run], single: list[Run]) -> Row:
    """Means and standard errors over splits, and the difference to a single model on the same."""
    row: Row = {"model": name, "draws": len(runs)}
    row |= _ratings.summary("weak", [run.weak.nmae for run in runs])
    row |= _ratings.summary("strong", [run.strong.nmae for run in runs])
    pairs = zip(runs, single, strict=False)
    row |= _ratings.summary("weak above single", [a.weak.nmae - b.weak.nmae for a, b in pairs])
    return row | {
        "weak raw": float(np.mean([run.weak.raw for run in runs])),
        "strong raw": float(np.mean([run.strong.raw for run in runs])),
        "weak RMSE": float(np.mean([run.weak.rmse for run in runs])),
        "strong RMSE": float(np.mean([run.strong.rmse for run in runs])),
        "seconds": float(np.mean([run.seconds for run in runs])),
    }


@register("ratings_nmae")
def ratings_nmae(setting: Setting) -> list[Row]:
    """MovieLens-1M: NMAE of weak and strong generalization, ten splits, with published figures.

    ``weak`` and ``strong`` are NMAE of medians (of Surprise: rounded predictions), ``raw`` that of
    means (of predictions as they are). Eight minutes; with Surprise installed
    nearly twice as long, for SVD++ most of all.
    """
    data = load_movielens("1m")
    levels = np.unique(data.rating)
    peers = PEERS if _surprise.is_installed() and not setting.fast else {}
    models = members()
    if setting.fast:
        models = {name: models[name] for name in list(models)[:2]}
    n_draws = setting.choose(fast=1, full=N_DRAWS)
    rows = compare(data.data, levels, N_TRAIN, n_draws, models, peers, setting)
    if not _surprise.is_installed():
        rows += [{"model": f"Surprise {name}: {_surprise.MISSING}"} for name in PEERS]
    return rows + [
        {"model": f"{name}, published", "weak": weak, "strong": strong}
        for name, (weak, strong) in PUBLISHED.items()
    ]
