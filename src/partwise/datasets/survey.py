"""A synthetic survey: columns of five kinds in known parts, with missing values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from sklearn.utils import Bunch

from partwise.contracts import Array
from partwise.data.stores import optional
from partwise.sampling.randomness import as_generator
from partwise.typing import Seed

if TYPE_CHECKING:
    import pandas as pd

_Column: TypeAlias = "Array | pd.Categorical"

KINDS = ("gaussian", "bernoulli", "categorical", "ordinal", "poisson")


def make_survey(
    n_samples: int = 2000,
    *,
    n_parts: int = 4,
    n_columns_per_kind: int = 2,
    missing: float = 0.2,
    missing_by_column: float = 0.0,
    random_state: Seed = None,
) -> Bunch:
    """Generate a table of numbers, yes-or-no answers, categories, ordered answers and counts.

    Every part has columns of all five kinds and three to six states. A column depends only on the
    state of its part.

    Parameters
    ----------
    n_samples : int, default=2000
    n_parts : int, default=4
    n_columns_per_kind : int, default=2
        Columns of each kind in every part.
    missing : float, default=0.2
        Fraction of cells that are removed at random.
    missing_by_column : float, default=0.0
        Fraction of cells that are removed depending on the first column: cells of rows with a large
        number there are removed more often, three times as often in every second column. The first
        column itself is then complete.
    random_state : int, Generator, RandomState or None, default=None

    Returns
    -------
    survey : Bunch
        ``frame``, a pandas DataFrame with missing values; ``complete``, the same table without;
        ``parts`` (D,), the true part of each column; ``states`` (n_samples, n_parts); ``kinds``
        (D,); ``hidden`` (n_samples, D), True where a value was removed.

    Examples
    --------
    >>> from partwise import make_survey
    >>> survey = make_survey(100, n_parts=2, n_columns_per_kind=1, random_state=0)
    >>> list(survey.frame.columns[:3])
    ['number0', 'answer0', 'group0']
    """
    pd = optional("pandas", "make_survey", "pandas")
    rng = as_generator(random_state)
    columns: dict[str, _Column] = {}
    parts: list[int] = []
    kinds: list[str] = []
    states = np.empty((n_samples, n_parts), np.int64)
    for k in range(n_parts):
        J = int(rng.integers(3, 7))
        shares = rng.dirichlet(np.full(J, 5.0))
        states[:, k] = rng.choice(J, n_samples, p=shares)
        for _ in range(n_columns_per_kind):
            for kind in KINDS:
                name, generate = _COLUMNS[kind]
                values = generate(states[:, k], J, rng)
                columns[f"{name}{kinds.count(kind)}"] = values
                parts.append(k)
                kinds.append(kind)
    complete = pd.DataFrame(columns)
    hidden = rng.random(complete.shape) < missing
    if missing_by_column > 0:
        driver = complete.iloc[:, 0].to_numpy(dtype=float)
        rank = np.argsort(np.argsort(driver)) / max(n_samples - 1, 1)  # 0 to 1
        often = np.where(np.arange(complete.shape[1]) % 2, 0.5, 1.5)  # every second column more
        chance = np.clip(2.0 * missing_by_column * rank[:, None] * often, 0.0, 0.95)
        hidden |= rng.random(complete.shape) < chance
        hidden[:, 0] = False
    frame = complete.mask(hidden)
    return Bunch(
        frame=frame,
        complete=complete,
        parts=np.asarray(parts),
        states=states,
        kinds=np.asarray(kinds),
        hidden=hidden,
    )


def _numbers(state: Array, J: int, rng: np.random.Generator) -> Array:
    """Numbers with a random unit and origin."""
    unit, origin = 10.0 ** rng.integers(-2, 4), rng.normal(0.0, 5.0)
    mean = _spread(J, rng, 1.5)
    return unit * (origin + mean[state] + rng.standard_normal(len(state)) * rng.uniform(0.5, 1.0))


def _answers(state: Array, J: int, rng: np.random.Generator) -> Array:
    chance = 1.0 / (1.0 + np.exp(-_spread(J, rng, 2.0)))
    return rng.random(len(state)) < chance[state]


def _groups(state: Array, J: int, rng: np.random.Generator) -> Array:
    V = int(rng.integers(3, 7))
    code = _choose(rng.dirichlet(np.full(V, 0.5), J)[state], rng)
    return np.array(list("abcdef"), dtype=object)[code]


def _ordered(state: Array, J: int, rng: np.random.Generator) -> pd.Categorical:
    import pandas as pd

    number = _spread(J, rng, 1.5)[state] + rng.standard_normal(len(state))
    code = np.searchsorted(np.array([-1.5, -0.5, 0.5, 1.5]), number)
    levels = ["never", "seldom", "at times", "often", "always"]
    return pd.Categorical.from_codes(code, categories=levels, ordered=True)


def _counts(state: Array, J: int, rng: np.random.Generator) -> Array:
    rate = np.exp(1.2 + _spread(J, rng, 0.8))
    return rng.poisson(rate[state])


def _spread(J: int, rng: np.random.Generator, width: float) -> Array:
    """Values of the states, spread out so that they differ in every column."""
    return width * rng.permutation(np.linspace(-1.2, 1.2, J) + rng.normal(0.0, 0.3, J))


def _choose(chance: Array, rng: np.random.Generator) -> Array:
    """One level per row from its probabilities (n, V)."""
    u = rng.random((len(chance), 1))
    return np.minimum((np.cumsum(chance, axis=1) < u).sum(axis=1), chance.shape[1] - 1)


_COLUMNS: dict[str, tuple[str, Callable[[Array, int, np.random.Generator], _Column]]] = {
    "gaussian": ("number", _numbers),
    "bernoulli": ("answer", _answers),
    "categorical": ("group", _groups),
    "ordinal": ("scale", _ordered),
    "poisson": ("count", _counts),
}
