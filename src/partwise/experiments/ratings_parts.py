"""JMLR 3.2: what the parts of MCVQ 5x12 hold when it learns from all ratings of a set of films.

The paper's gates had 0.0475 bits on average, its parts 14, 33, 9, 20 and 22 % of the films, the
three *Star Wars* films and seven of eight *Star Trek* films were in one part, all seven *Amityville
Horror* films in another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from partwise.contracts import Array
from partwise.datasets import load_eachmovie, load_movielens
from partwise.estimators.mcvq import MCVQ
from partwise.experiments import _ratings, register
from partwise.experiments.registry import Row

PAPER_BITS = 0.0475
PAPER_SHARES = (33, 22, 20, 14, 9)  # % of films with a gate above 0.9, largest first

# Films of fewer people than this share are typical of nothing.
KNOWN_BY = 0.02
N_TITLES = 6
N_SHUFFLES = 2000

COUNTED = ("films", "in one part", "by chance")

# What titles of a series begin with.
SERIES = (
    "Star Wars: Episode",
    "Star Trek",
    "Alien (|Aliens|Alien' (|Alien: ",
    "Amityville",
    "Nightmare on Elm Street",
    "Friday the 13th",
    "Halloween",
    "Godfather",
    "Police Academy",
    "Batman",
    "Lethal Weapon",
    "Die Hard",
    "Rocky (|Rocky I|Rocky V",
    "Jaws",
    "Home Alone",
    "Free Willy",
    "Wallace & Gromit|Wrong Trousers|Close Shave|Grand Day Out",
    "Three Colors",
)


def typical(model: Any, levels: Array, counts: Array, n_people: int) -> Array:
    """How much the expected rating of each film differs between the states of its part, (D,).

    Minus infinity for films that few have rated.
    """
    mean = model.means_ @ levels if model.means_.ndim == 4 else model.means_  # (K, J, D)
    share = model.state_priors_[:, :, None]
    spread = np.sqrt((share * (mean - (share * mean).sum(axis=1, keepdims=True)) ** 2).sum(axis=1))
    own = spread[np.maximum(model.parts_, 0), np.arange(len(counts))]
    return np.where((model.parts_ >= 0) & (counts >= KNOWN_BY * n_people), own, -np.inf)


def bits(gates: Array) -> Array:
    """Entropy of the choice of part of each film."""
    gates = gates.astype(float)
    g = np.column_stack([gates, np.maximum(1.0 - gates.sum(axis=1), 0.0)])  # with the background
    return -np.sum(g * np.log2(np.maximum(g, 1e-300)), axis=1)


def series(titles: Sequence[str], parts: Array) -> list[Row]:
    """Of every series, how many films share a part, and how many would by chance."""
    rng = np.random.default_rng(0)
    rows: list[Row] = []
    for name in SERIES:
        begins = tuple(f"{a}{b}" for b in name.split("|") for a in ("", "A ", "The "))
        own = np.flatnonzero([title.startswith(begins) for title in titles])
        if len(own) < 3:
            continue
        draws = [rng.choice(parts, len(own), replace=False) for _ in range(N_SHUFFLES)]
        rows.append(
            {
                "what": f"series: {name.split('|')[0].rstrip(' (')}",
                "films": len(own),
                "in one part": _together(parts[own]),
                "by chance": float(np.mean([_together(draw) for draw in draws])),
                "which": f"part {np.bincount(parts[own] + 1).argmax() - 1}",
            }
        )
    sums: Row = {key: sum(float(row[key]) for row in rows) for key in COUNTED}
    return [*rows, {"what": "all series", **sums}]


def _together(parts: Array) -> int:
    """Most films that share a part; those in no part count as if in one."""
    return int(np.bincount(parts + 1).max())


def describe(X: Any, titles: Sequence[str], levels: Array, estimator: Any) -> list[Row]:
    """Rows about the gates, every part, and every series."""
    model = _ratings.fitted(estimator, X, levels).estimators_[0]
    counts = np.bincount(X.indices, minlength=X.shape[1])
    score = typical(model, levels, counts, X.shape[0])
    share = 100 * (model.gates_ > 0.9).mean(axis=0)
    order = np.argsort(-share)
    number = np.full(len(order) + 1, -1)  # parts are numbered by size; the background stays -1
    number[order] = np.arange(len(order))
    parts = number[model.parts_]
    mean_bits = float(bits(model.gates_).mean())
    rows: list[Row] = [
        {"what": "gates, bits", "ours": mean_bits, "paper": f"{PAPER_BITS}"},
        {"what": "in no part, % of films", "ours": float(100 * np.mean(parts < 0))},
        *series(titles, parts),
    ]
    for k, paper in enumerate(PAPER_SHARES[: len(order)]):
        own = np.flatnonzero(parts == k)
        best = own[np.argsort(-score[own], kind="stable")][:N_TITLES]
        named = "; ".join(titles[d] for d in best if np.isfinite(score[d]))
        rows.append(
            {
                "what": f"part {k}, % of films",
                "ours": float(share[order[k]]),
                "paper": f"{paper}",
                "% of ratings": float(100 * counts[own].sum() / counts.sum()),
                "typical": named,
            }
        )
    return rows


@register("ratings_parts")
def ratings_parts(progress: Callable[[str], None]) -> list[Row]:
    """JMLR 3.2: parts of MCVQ 5x12 on all ratings: their films, entropy of gates, series.

    Typical films are those whose expected rating differs most between the states of their part.
    A minute or two.
    """
    rows: list[Row] = []
    for name, data in (("EachMovie", load_eachmovie()), ("MovieLens-1M", load_movielens("1m"))):
        progress(name)
        model = MCVQ(5, 12, likelihood="categorical", random_state=0)
        found = describe(data.data, data.titles.tolist(), np.unique(data.rating), model)
        rows += [{"data": name, **row} for row in found]
    return rows
