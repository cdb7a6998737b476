"""What parts and states of ratings hold: JMLR 3.2 with Figure 8, NIPS Figure 5."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from partwise import MCVQ
from partwise.datasets import load_eachmovie, load_movielens
from partwise.plot import BarsDisplay
from partwise_papers.experiments import _ratings, register
from partwise_papers.registry import Array, Claim, Finding, Paper, Row, Setting

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


def describe(X: Any, titles: Sequence[str], levels: Array, model: Any) -> list[Row]:
    """Rows about the gates, every part, and every series."""
    counts = np.bincount(X.indices, minlength=X.shape[1])
    score = typical(model, levels, counts, X.shape[0])
    share = 100 * (model.gates_ > 0.9).mean(axis=0)
    order = np.argsort(-share)
    number = np.full(len(order) + 1, -1)  # parts are numbered by size; the background stays -1
    number[order] = np.arange(len(order))
    parts = number[model.parts_]
    mean_bits = float(bits(model.gates_).mean())
    rows: list[Row] = [
        {"what": "gates, bits", "ours": mean_bits},
        {"what": "gate above 0.9, % of films", "ours": float(share.sum())},
        {"what": "in no part, % of films", "ours": float(100 * np.mean(parts < 0))},
        *series(titles, parts),
    ]
    for k in range(len(order)):
        own = np.flatnonzero(parts == k)
        best = own[np.argsort(-score[own], kind="stable")][:N_TITLES]
        named = "; ".join(titles[d] for d in best if np.isfinite(score[d]))
        rows.append(
            {
                "what": f"part {k}, % of films",
                "ours": float(share[order[k]]),
                "% of ratings": float(100 * counts[own].sum() / counts.sum()),
                "typical": named,
            }
        )
    return rows


@cache
def learned(name: str, seed: int = 0) -> tuple[Any, Any, Array]:
    """MCVQ 5x12 of all ratings of a set, the set, and its levels."""
    data = load_eachmovie() if name == "EachMovie" else load_movielens("1m")
    levels = np.unique(data.rating)
    estimator = MCVQ(5, 12, likelihood="categorical", random_state=seed)
    return _ratings.fitted(estimator, data.data, levels).estimators_[0], data, levels


@register(
    "jmlr_parts",
    Paper(
        source="JMLR, Section 3.2",
        did="MCVQ 5x12 on all ratings: mean gate entropy 0.0475 bits, 98 % of the films with a "
        "gate above 0.9; parts with 14, 33, 9, 20 "
        "and 22 % of the films; the three Star Wars and seven of eight Star Trek films in one "
        "part, all seven Amityville Horror films in another.",
        differs="A sample of EachMovie, and MovieLens-1M (not with `--fast`); ratings as "
        "categories. Typical films are those whose expected rating differs most between the "
        "states of their part.",
        needs=("eachmovie", "movielens"),
        key=("data", "what"),
        figures={
            "ours": {
                "EachMovie, gates, bits": "0.0475",
                "EachMovie, gate above 0.9, % of films": "98",
            }
            | {
                f"EachMovie, part {k}, % of films": f"{share}"
                for k, share in enumerate(PAPER_SHARES)
            },
            "in one part": {
                "EachMovie, series: Star Wars: Episode": "3",
                "EachMovie, series: Star Trek": "7",
                "EachMovie, series: Amityville": "7",
            },
        },
        better={"ours": "same", "in one part": "same"},
    ),
)
def jmlr_parts(setting: Setting) -> list[Row]:
    """Parts of all ratings: their films, entropy of the gates, film series in one part."""
    rows: list[Row] = []
    for name in ("EachMovie", "MovieLens-1M")[: setting.choose(fast=1, full=2)]:
        seeds = []
        for seed in setting.seeds(fast=1, full=3, what=name):
            model, data, levels = learned(name, seed)
            seeds.append(describe(data.data, data.titles.tolist(), levels, model))
        for same in zip(*seeds, strict=True):  # a row of each seed
            row = {"data": name, **same[0]}
            row |= {
                key: [one[key] for one in same] for key in ("ours", "in one part") if key in row
            }
            rows.append(row)
    return rows


# What the films of Figure 8 begin with.
_WARS, _TREK = "Star Wars: Episode", "Star Trek"


def _all_or_none(rows: Sequence[Row]) -> Finding:
    likes = sum(row["likes all"] > 0 for row in rows)
    not_at_all = sum(row["likes none"] < 0 for row in rows)
    told = f"{likes} and {not_at_all} of {len(rows)} films rated above and below the mean"
    return likes == not_at_all == len(rows), told


def _wars_alone(rows: Sequence[Row]) -> Finding:
    wars, trek = (
        float(np.mean([row["Star Wars alone"] for row in rows if row["film"].startswith(kind)]))
        for kind in (_WARS, _TREK)
    )
    return wars > 0 > trek, f"mean rating minus that of all states: {wars:+.2f} and {trek:+.2f}"


@register(
    "jmlr_fig8",
    Paper(
        source="JMLR, Figure 8",
        did="Rating profiles of four states of one part for Star Wars and Star Trek: one likes "
        "all, one none, one only Star Wars, one is undecided. Bars, no numbers.",
        differs="A sample of EachMovie; the four states that fit these descriptions best, in the "
        "part that contains most of the films. Profiles are relative to the mean of the part, "
        "weighted by the state priors.",
        needs=("eachmovie",),
        claims=(
            Claim(
                says="One state likes all of these films, and one likes none.", test=_all_or_none
            ),
            Claim(says="One state likes Star Wars but not Star Trek.", test=_wars_alone),
        ),
    ),
)
def jmlr_fig8(setting: Setting) -> list[Row]:
    """Ratings of Star Wars and Star Trek films by the states of one part, minus their mean."""
    setting("MCVQ 5x12")
    model, data, levels = learned("EachMovie")
    films = {
        kind: np.flatnonzero([title.startswith(kind) for title in data.titles])
        for kind in (_WARS, _TREK)
    }
    every = np.concatenate(list(films.values()))
    part = int(np.bincount(model.parts_[every][model.parts_[every] >= 0]).argmax())
    mean = model.means_[part] @ levels  # (J, D)
    share = model.state_priors_[part]
    profile = mean - share @ mean
    used = np.flatnonzero(share >= 0.01)
    likes = {kind: profile[np.ix_(used, own)].mean(axis=1) for kind, own in films.items()}
    both = profile[np.ix_(used, every)].mean(axis=1)
    chosen = {
        "likes all": used[both.argmax()],
        "likes none": used[both.argmin()],
        "Star Wars alone": used[(likes[_WARS] - likes[_TREK]).argmax()],
        "of two minds": used[np.abs(both).argmin()],
    }
    titles = [str(title).split(" (")[0] for title in data.titles[every]]
    setting.draw(
        "jmlr_fig8",
        lambda: BarsDisplay.from_values(
            {name: profile[j, every] for name, j in chosen.items()},
            titles,
            what="rating above the mean",
        ),
        "Rating profiles of four states, over the mean of the states.",
        free=True,
    )
    return [
        {"film": title, "in the part": bool(model.parts_[d] == part)}
        | {name: float(profile[j, d]) for name, j in chosen.items()}
        for title, d in zip(titles, every, strict=True)
    ]


# Figure 5 of NIPS: what states predicted, and the true ratings of those that the person rated.
FIGURE5 = (
    (5.8, 6), (5.7, 5), (5.4, 5), (5.5, 4), (5.3, 5), (5.2, 4), (1.4, 1), (0.8, 1), (5.6, 6),
    (5.2, 6), (2.1, 3), (2.0, 3), (5.5, 5), (5.3, 6), (3.0, 4), (2.7, 2), (5.4, 6), (5.3, 5),
    (2.6, 2), (2.5, 2), (5.5, 6), (5.3, 4), (5.2, 5), (2.4, 5), (2.0, 4), (1.8, 2), (5.3, 6),
    (4.9, 5), (4.9, 6), (5.4, 5), (5.3, 6), (5.2, 5), (1.9, 4),
)  # fmt: skip
_FIGURE5_ERROR = f"{np.mean([abs(a - b) for a, b in FIGURE5]):.2f}"


@register(
    "nips_fig5",
    Paper(
        source="NIPS, Figure 5 (thesis, Figure 3.4)",
        did="MCVQ 8x6 on two new users: for the most active states of four VQs, the three films "
        "rated most above and below average, with the user's own ratings where they exist. The "
        "mean absolute difference over these is computed from the figure.",
        differs="A sample of EachMovie (1500 users with `--fast`), ratings as categories. A run is "
        "two of 200 new users, as the figure has two; the films of two are listed.",
        needs=("eachmovie",),
        figures={"error on conspicuous films": {"pairs of 200 new people": _FIGURE5_ERROR}},
        better={"error on conspicuous films": "lower"},
        key=("who",),
        why="the paper's figure is of two users and 33 ratings, selected to be shown.",
    ),
)
def nips_fig5(setting: Setting) -> list[Row]:
    """Films that the states of new users rate most differently, and the users' own ratings."""
    data = load_eachmovie()
    rng = np.random.default_rng(2)
    people = rng.permutation(data.data.shape[0])
    if setting.fast:
        people = people[:1500]
    levels = np.unique(data.rating)
    setting("MCVQ 8x6")
    estimator = MCVQ(8, 6, likelihood="categorical", random_state=0)
    train, new = data.data[np.sort(people[200:])], data.data[people[:200]]
    model = _ratings.fitted(estimator, train, levels).estimators_[0]
    mean = model.means_ @ levels  # (K, J, D)
    away = mean - np.einsum("kj,kjd->kd", model.state_priors_, mean)[:, None]
    known = np.bincount(train.indices, minlength=train.shape[1]) >= KNOWN_BY * train.shape[0]
    states = model.predict_states(new)
    large = np.argsort(-np.bincount(model.parts_[(model.parts_ >= 0) & known], minlength=8))[:4]
    errors: list[list[float]] = [[] for _ in range(len(states) // 2)]  # of each pair of users
    rows: list[Row] = []
    for i, own in enumerate(states):
        rated = dict(zip(*_row_of(new, i), strict=True))
        for k, j in enumerate(own):
            films = np.flatnonzero((model.parts_ == k) & known)
            order = films[np.argsort(away[k, j, films])]
            for kind, shown in (("high", order[:-4:-1]), ("low", order[:3])):
                errors[i // 2] += [abs(mean[k, j, d] - rated[d]) for d in shown if d in rated]
                if i < 2 and k in large:
                    told = [
                        f"{str(data.titles[d]).split(' (')[0]} {mean[k, j, d]:.1f} "
                        f"({rated[d]:.0f})" if d in rated
                        else f"{str(data.titles[d]).split(' (')[0]} {mean[k, j, d]:.1f} (-)"
                        for d in shown
                    ]  # fmt: skip
                    rows.append(
                        {"who": f"person {i}", "part": k, "rated": kind, "films": "; ".join(told)}
                    )
    pairs = [float(np.mean(error)) for error in errors if error]
    first: Row = {"who": "pairs of 200 new people", "error on conspicuous films": pairs}
    return [first | {"ratings": sum(len(error) for error in errors)}, *rows]


def _row_of(X: Any, i: int) -> tuple[list[int], list[float]]:
    own = slice(X.indptr[i], X.indptr[i + 1])
    return X.indices[own].tolist(), X.data[own].tolist()
