"""The kind of a column of whole numbers, by the held-out likelihood of the possible ones.

A rule by mean and variance takes months, days and hours for counts, and school numbers for
measurements; states are then spent on the misfit. So small models of the column alone compete: its
levels, a uniform distribution between its ends, a mixture of Poisson distributions, and a mixture
of Gaussians, rounded to the column's step. Mixtures stand for the states that a model of the table
will have. Another kind replaces that of the rule only if it predicts held-out values better by more
than chance.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special

from partwise.contracts import Array
from partwise.data.frame_reading import LARGEST_WHOLE

# Levels are considered for so many distinct values, each seen so often on average; or for more,
# if they are codes: few of the possible values between the ends occur.
MOST_LEVELS_OF_NUMBERS = 40
MOST_CODES = 256
OFTEN = 5
CODES_APART = 3.0
# Nats per value by which levels must win for codes: rounding and heaping are worth less.
CODES_GAIN = 0.5

# Values that are compared at most.
MOST_VALUES = 20_000

# Angles have values within so many degrees of both ends, and are told apart from so many on.
NEAR_ENDS = 30.0
SMALLEST_ANGLE = 0.01

# Held-out parts, components and EM iterations of the mixtures, and standard errors to win by.
FOLDS = 4
COMPONENTS = 3
ITERATIONS = 25
ERRORS = 2.0

# A function of values (V,), counts to learn from (V,), and the step: log probability of each value.
Scorer = Callable[[Array, Array, float], Array]


def likely_kind(found: Array, counts: Array, rule: str) -> str:
    """The kind of whole numbers: ``rule``, or one that predicts held-out values better.

    Parameters
    ----------
    found, counts : ndarray of shape (V,)
        Distinct whole numbers in order, and the number of rows of each.
    rule : {"poisson", "gaussian", "lognormal"}
        The kind by mean, variance and skewness.

    Returns
    -------
    kind : str
        ``rule``, "ordinal", "gaussian", or "codes" for numbers that are names.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.data.kinds import likely_kind
    >>> rng = np.random.default_rng(0)
    >>> months, counts = np.unique(rng.integers(1.0, 13.0, 500), return_counts=True)
    >>> likely_kind(months, counts, "poisson")
    'ordinal'
    >>> likely_kind(*np.unique(rng.poisson(4.0, 500), return_counts=True), "poisson")
    'poisson'
    >>> likely_kind(np.array([1224, 1288, 2336, 8854, 9586]), np.full(5, 40), "gaussian")
    'codes'
    """
    found, n_values = found.astype(float), int(counts.sum())
    if np.abs(found).max(initial=0.0) > LARGEST_WHOLE:
        return rule
    step = float(np.gcd.reduce(np.diff(found).astype(np.int64))) if len(found) > 1 else 1.0
    possible = (found[-1] - found[0]) / step + 1.0
    often = n_values >= OFTEN * len(found)
    codes = often and len(found) <= MOST_CODES and possible >= CODES_APART * len(found)
    levels = often and len(found) <= MOST_LEVELS_OF_NUMBERS
    if not (codes or levels or rule == "poisson"):
        return rule
    scores: dict[str, Scorer] = {"gaussian": _gaussians}
    if found[0] >= 0.0 and rule == "poisson":
        scores["poisson"] = _poissons
    if codes or levels:
        scores["ordinal"] = _levels
    held_out = _held_out(found, _some(counts), step, scores)
    uniform = -np.log(possible)  # nothing is learned but the ends
    numbers = max((name for name in scores if name != "ordinal"), key=lambda k: held_out[k].mean())
    if "ordinal" in held_out:
        gain = held_out["ordinal"] - held_out[numbers]
        if codes and gain.mean() > CODES_GAIN:
            return "codes"
        if levels and (_wins(gain) or uniform > held_out[numbers].mean()):
            return "ordinal"
    better = held_out["gaussian"] - held_out.get("poisson", np.zeros(1))
    if rule == "poisson" and (_wins(better) or uniform > held_out[numbers].mean()):
        return "gaussian"
    return rule


def are_directions(found: Array, counts: Array, step: float) -> bool:
    """Whether numbers can be angles in degrees: some near 0, some near 360, and no linear scale.

    Parameters
    ----------
    found, counts : ndarray of shape (V,)
        Distinct numbers from 0 in order, and the number of rows of each.
    step : float
        Resolution of the numbers, 0 if there is none.

    Returns
    -------
    found : bool
        False also if mixtures of Gaussians predict held-out values better than those on the circle.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.data.number_kinds import are_directions
    >>> wind = np.rint(np.random.default_rng(0).normal(0.0, 25.0, 300)) % 360
    >>> are_directions(*np.unique(wind, return_counts=True), 1.0)
    True
    >>> are_directions(*np.unique(wind[wind < 180], return_counts=True), 1.0)
    False
    """
    if found[0] > NEAR_ENDS or not 360.0 - NEAR_ENDS <= found[-1] <= 360.0:
        return False
    scores: dict[str, Scorer] = {"gaussian": _gaussians, "degrees": _directions}
    held_out = _held_out(found, _some(counts), max(step, SMALLEST_ANGLE), scores)
    return not _wins(held_out["gaussian"] - held_out["degrees"])


def _wins(gain: Array) -> bool:
    """Whether a mean gain per value is more than chance."""
    return bool(gain.mean() > ERRORS * gain.std() / np.sqrt(len(gain)))


def _some(counts: Array) -> Array:
    """Counts of about as many rows as are compared at most."""
    share = min(MOST_VALUES / counts.sum(), 1.0)
    return np.maximum(np.rint(counts * share), 1).astype(np.int64)


def _held_out(
    found: Array, counts: Array, step: float, scores: dict[str, Scorer]
) -> dict[str, Array]:
    """Log probability of every value under what was learned without its fold, (n,) each."""
    place = np.repeat(np.arange(len(found)), counts)
    fold = np.random.default_rng(0).permutation(len(place)) % FOLDS
    out = {name: np.empty(len(place)) for name in scores}
    for k in range(FOLDS):
        seen = np.bincount(place[fold != k], minlength=len(found)).astype(float)
        for name, score in scores.items():
            out[name][fold == k] = score(found, seen, step)[place[fold == k]]
    return out


def _levels(found: Array, counts: Array, step: float) -> Array:
    """Shares of the values, one more row spread over them."""
    return np.log((counts + 1.0 / len(counts)) / (counts.sum() + 1.0))


def _poissons(found: Array, counts: Array, step: float) -> Array:
    """A mixture of Poisson distributions."""
    mean = np.maximum(_quantiles(found, counts), 0.1)

    def density() -> Array:
        return special.xlogy(found, mean[:, None]) - mean[:, None] - special.gammaln(found + 1.0)

    share = np.full(COMPONENTS, 1.0 / COMPONENTS)
    for _ in range(ITERATIONS):
        r = _shared(np.log(share)[:, None] + density()) * counts
        total = r.sum(axis=1) + 0.1
        share = total / total.sum()
        mean = np.maximum((r @ found + 0.1 * mean) / total, 1e-3)
    return special.logsumexp(np.log(share)[:, None] + density(), axis=0)


def _gaussians(found: Array, counts: Array, step: float) -> Array:
    """A mixture of Gaussians, each value standing for the interval of a step around it."""
    mean = _quantiles(found, counts)
    overall = counts @ (found - counts @ found / counts.sum()) ** 2 / counts.sum()
    variance = np.full(COMPONENTS, max(overall / COMPONENTS, step**2 / 12.0))

    def probability() -> Array:
        scale = np.sqrt(variance)[:, None]
        away = found - mean[:, None]
        inside = special.ndtr((away + 0.5 * step) / scale) - special.ndtr(
            (away - 0.5 * step) / scale
        )
        return np.log(np.maximum(inside, 1e-12))

    share = np.full(COMPONENTS, 1.0 / COMPONENTS)
    for _ in range(ITERATIONS):
        r = _shared(np.log(share)[:, None] + probability()) * counts
        total = r.sum(axis=1) + 0.1
        share = total / total.sum()
        mean = (r @ found + 0.1 * mean) / total
        away = (found - mean[:, None]) ** 2
        variance = ((r * away).sum(axis=1) + 0.1 * variance) / total
        variance = np.maximum(variance, step**2 / 12.0)
    return special.logsumexp(np.log(share)[:, None] + probability(), axis=0)


def _directions(found: Array, counts: Array, step: float) -> Array:
    """A mixture of von Mises distributions of degrees."""
    x = np.deg2rad(found)
    mean, kappa = np.deg2rad(_quantiles(found, counts)), np.full(COMPONENTS, 2.0)

    def density() -> Array:
        k = kappa[:, None]
        return k * (np.cos(x - mean[:, None]) - 1.0) - np.log(2 * np.pi * special.i0e(k))

    share = np.full(COMPONENTS, 1.0 / COMPONENTS)
    for _ in range(ITERATIONS):
        r = _shared(np.log(share)[:, None] + density()) * counts
        total = r.sum(axis=1) + 0.1
        share = total / total.sum()
        across, up = r @ np.cos(x), r @ np.sin(x)
        mean, length = np.arctan2(up, across), np.hypot(across, up) / total
        kappa = np.minimum(length * (2.0 - length**2) / (1.0 - length**2), np.deg2rad(step) ** -2)
    return special.logsumexp(np.log(share)[:, None] + density(), axis=0) + np.log(np.deg2rad(step))


def _shared(joint: Array) -> Array:
    """Posterior of the components, (K, V)."""
    weight = np.exp(joint - joint.max(axis=0))
    return weight / weight.sum(axis=0)


def _quantiles(found: Array, counts: Array) -> Array:
    """Where components begin: evenly spaced quantiles."""
    below = np.cumsum(counts) / counts.sum()
    places = np.searchsorted(below, (np.arange(COMPONENTS) + 0.5) / COMPONENTS)
    return found[np.minimum(places, len(found) - 1)]
