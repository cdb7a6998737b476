"""A drawn survey: a table of columns of five kinds in parts, with holes, whose truth is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from partwise.contracts import Array
from partwise.data.stores import optional
from partwise.sampling.randomness import as_generator

KINDS = ("gaussian", "bernoulli", "categorical", "ordinal", "poisson")


def make_survey(
    n_samples: int = 2000,
    *,
    n_parts: int = 4,
    n_columns_per_kind: int = 2,
    missing: float = 0.2,
    missing_by_column: float = 0.0,
    random_state: Any = None,
) -> Bunch:
    """Draw a table of numbers, yes-or-no answers, categories, ordered answers and counts.

    Every part has columns of all five kinds and three to six states; a column depends on the state
    of its part alone.

    Parameters
    ----------
    n_samples : int, default=2000
    n_parts : int, default=4
    n_columns_per_kind : int, default=2
        Columns of each kind in every part.
    missing : float, default=0.2
        Share of cells removed by chance.
    missing_by_column : float, default=0.0
        Share of cells removed depending on the table's first column, which is never removed then:
        the larger its number, the more often, and the more so in every second column.
    random_state : int, Generator, RandomState or None, default=None

    Returns
    -------
    survey : Bunch
        ``frame``, a pandas DataFrame with holes; ``complete``, the same without; ``parts`` (D,) the
        true part of each column, ``states`` (n_samples, n_parts), ``kinds`` (D,), ``hidden``
        (n_samples, D).

    Examples
    --------
    >>> from partwise import make_survey
    >>> survey = make_survey(100, n_parts=2, n_columns_per_kind=1, random_state=0)
    >>> list(survey.frame.columns[:3])
    ['number0', 'answer0', 'group0']
    """
    pd = optional("pandas", "Drawn surveys", "pandas")
    rng = as_generator(random_state)
    columns: dict[str, Any] = {}
    parts: list[int] = []
    kinds: list[str] = []
    states = np.empty((n_samples, n_parts), np.int64)
    for k in range(n_parts):
        J = int(rng.integers(3, 7))
        shares = rng.dirichlet(np.full(J, 5.0))
        states[:, k] = rng.choice(J, n_samples, p=shares)
        for _ in range(n_columns_per_kind):
            for kind in KINDS:
                name, draw = _DRAWS[kind]
                values = draw(states[:, k], J, rng)
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
    """Numbers in units of their own."""
    unit, origin = 10.0 ** rng.integers(-2, 4), rng.normal(0.0, 5.0)
    mean = _spread(J, rng, 1.5)
    return unit * (origin + mean[state] + rng.standard_normal(len(state)) * rng.uniform(0.5, 1.0))


def _answers(state: Array, J: int, rng: np.random.Generator) -> Array:
    chance = 1.0 / (1.0 + np.exp(-_spread(J, rng, 2.0)))
    return rng.random(len(state)) < chance[state]


def _groups(state: Array, J: int, rng: np.random.Generator) -> Any:
    V = int(rng.integers(3, 7))
    code = _choose(rng.dirichlet(np.full(V, 0.5), J)[state], rng)
    return np.array(list("abcdef"), dtype=object)[code]


def _ordered(state: Array, J: int, rng: np.random.Generator) -> Any:
    import pandas as pd

    number = _spread(J, rng, 1.5)[state] + rng.standard_normal(len(state))
    code = np.searchsorted(np.array([-1.5, -0.5, 0.5, 1.5]), number)
    levels = ["never", "seldom", "at times", "often", "always"]
    return pd.Categorical.from_codes(code, categories=levels, ordered=True)


def _counts(state: Array, J: int, rng: np.random.Generator) -> Array:
    rate = np.exp(1.2 + _spread(J, rng, 0.8))
    return rng.poisson(rate[state])


def _spread(J: int, rng: np.random.Generator, width: float) -> Array:
    """Values of the states, spread out so that no column is left without a difference."""
    return width * rng.permutation(np.linspace(-1.2, 1.2, J) + rng.normal(0.0, 0.3, J))


def _choose(chance: Array, rng: np.random.Generator) -> Array:
    """One level a row from its probabilities (n, V)."""
    u = rng.random((len(chance), 1))
    return np.minimum((np.cumsum(chance, axis=1) < u).sum(axis=1), chance.shape[1] - 1)


_DRAWS: dict[str, tuple[str, Callable[[Array, int, np.random.Generator], Any]]] = {
    "gaussian": ("number", _numbers),
    "bernoulli": ("answer", _answers),
    "categorical": ("group", _groups),
    "ordinal": ("scale", _ordered),
    "poisson": ("count", _counts),
}
