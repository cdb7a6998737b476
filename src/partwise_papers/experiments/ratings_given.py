"""NIPS Figure 6: absolute error over the number of ratings that are known of a new person.

The paper learned from 4831 people and met 1000; EachMovie's sample here has 5055, so 4055 are
learned from. For each number x everybody with more than x ratings shows x at random, and all
others are predicted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from partwise import MCFA, MCVQ, AspectModel
from partwise.datasets import load_eachmovie
from partwise.plot import AssociationDisplay
from partwise_papers.experiments import _ratings, register
from partwise_papers.registry import Array, Claim, Finding, Paper, Row, Setting

N_TEST = 1000
GIVEN = (1, 2, 5, 10, 20, 50, 100, 200)


def models() -> dict[str, Any]:
    """MCVQ and the aspect model, which comes first, of the paper's sizes; and factors.

    The temperature is the one that held-out ratings tell on MovieLens (`tempering`).
    """
    states: dict[str, Any] = {"likelihood": "categorical", "random_state": 0}
    return {
        "aspect 50": AspectModel(50, beta=0.9, random_state=0),
        "MCVQ 8x6": MCVQ(8, 6, **states),
        "MCVQ 8x6, 12 classes": MCVQ(8, 6, n_classes=12, **states),
        "mixture of 48": MCVQ(1, 48, **states),
        "MCFA 1x16": MCFA(1, 16, likelihood="ordinal", max_iter=15, random_state=0),
    }


def by_person(error: Array, person: Array) -> tuple[float, float]:
    """Mean over all ratings, and its standard error, people being the units."""
    mean = float(error.mean())
    away = np.bincount(person, error - mean)
    return mean, float(np.sqrt(np.sum(away**2)) / len(error))


def curve(
    X: Any,
    levels: Array,
    estimators: Mapping[str, Any],
    n_test: int,
    given: Sequence[int],
    progress: Callable[[str], None],
) -> list[Row]:
    """Errors of every model for every number of known ratings; differences are paired."""
    rng = np.random.default_rng(0)
    people = rng.permutation(X.shape[0])
    test = X[np.sort(people[:n_test])]
    fitted = {}
    for name, estimator in estimators.items():
        progress(name)
        fitted[name] = _ratings.fitted(estimator, X[np.sort(people[n_test:])], levels)
    rows: list[Row] = []
    for x in given:
        progress(f"{x} ratings")
        able = test[np.diff(test.indptr) > x]
        known, held = _ratings.hold_out(able, rng, x)
        row: Row = {"known ratings": x, "people": able.shape[0], "predicted": len(held.row)}
        rival: Array | None = None
        for name, model in fitted.items():
            median, _ = _ratings.points(_ratings.shares(model, known, held), levels)
            error = np.abs(median - held.value)
            row[name], row[f"{name} se"] = by_person(error, held.row)
            if rival is None:
                rival = error
            else:
                less = by_person(rival - error, held.row)
                row[f"{name} gains"], row[f"{name} gains se"] = less
        rows.append(row)
    return rows


def _below_aspect(name: str) -> Callable[[Sequence[Row]], Finding]:
    """Test that a model errs less than the aspect model at every number of known ratings."""

    def test(rows: Sequence[Row]) -> Finding:
        gains = {row["known ratings"]: row[f"{name} gains"] for row in rows}
        won = [str(x) for x, gain in gains.items() if gain > 0]
        told = f"below at {len(won)} of {len(gains)} numbers of known ratings"
        return len(won) == len(gains), f"{told} ({', '.join(won) or 'none'})"

    return test


@register(
    "nips_fig6",
    Paper(
        source="NIPS, Figure 6 (thesis, Figure 3.5)",
        did="Absolute error by the number of known ratings of a new user, MCVQ 8x6 against an "
        "aspect model of 50 aspects; 4831 training users, 1000 test users. A curve, no numbers: "
        "MCVQ is below the aspect model.",
        differs="The sample of EachMovie has 5055 users, so 4055 are used for training; ratings "
        "as categories, predictive medians. `gains` are relative to the aspect model on the same "
        "ratings; standard errors are over users. With `--fast`, 1500 users, 300 of them for "
        "testing.",
        needs=("eachmovie",),
        claims=(
            Claim(says="MCVQ is below the aspect model.", test=_below_aspect("MCVQ 8x6")),
            Claim(
                says="MCVQ with classes, which are of the 2006 paper, is below the aspect model.",
                test=_below_aspect("MCVQ 8x6, 12 classes"),
            ),
        ),
    ),
)
def nips_fig6(setting: Setting) -> list[Row]:
    """Mean absolute error over the number of known ratings, EachMovie's sample."""
    data = load_eachmovie()
    X, n_test = data.data, N_TEST
    given: Sequence[int] = GIVEN
    if setting.fast:
        some = np.random.default_rng(1).permutation(X.shape[0])[:1500]
        X, n_test, given = X[np.sort(some)], 300, GIVEN[::2]
    rows = curve(X, np.unique(data.rating), models(), n_test, given, setting)
    setting.draw(
        "nips_fig6",
        lambda: AssociationDisplay(
            at=np.array(given, float),
            mean={name: np.array([row[name] for row in rows]) for name in models()},
            spread={name: np.array([row[f"{name} se"] for row in rows]) for name in models()},
            what="known ratings",
        ).plot(),
        "Mean absolute error over the number of known ratings, with standard errors.",
        free=True,
    )
    return rows
