"""Classes of new rows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import cast

import numpy as np

from partwise.answers.rows import map_rows
from partwise.contracts import Array
from partwise.fitted import AnyFitted, AnyParts
from partwise.fitting.labels import class_numbers, classes_of_rows
from partwise.fitting.sequences import AnyChainCore, AnyChained
from partwise.models.class_chain import Chained, ClassChain, draw_chain, smooth
from partwise.sampling.importance import RowLikelihood
from partwise.typing import Classes, Hybrid, Matrix


def chain_of(fitted: AnyFitted) -> tuple[Array, Array] | None:
    """Probabilities of the first class (N,) and of transitions (N, N); None for rows one by one."""
    chain: Array | None = getattr(fitted.params, "chain", None)
    if chain is None:
        return None
    variable = getattr(fitted.model, "classes", None)
    assert isinstance(variable, ClassChain)
    return variable.means(chain)


def chain_attributes(fitted: AnyFitted) -> dict[str, object]:
    """Learned attributes of classes in sequence, by name; none for rows one by one."""
    found = chain_of(fitted)
    if found is None:
        return {}
    start, transitions = (values.astype(fitted.dtype) for values in found)
    return {"class_start_": start, "class_transitions_": transitions}


def smoothed(fitted: AnyFitted, found: RowLikelihood, bounds: Array) -> tuple[RowLikelihood, Array]:
    """Rows in sequence, from their likelihood under each class, fields (N, n).

    Likelihood of each row given the rows before it, and the probability of every class given the
    whole sequence, (n, N). The samples of other rows count as exact in the standard error.
    """
    chain = chain_of(fitted)
    assert chain is not None
    start, transition = (np.log(np.maximum(values, 1e-300)) for values in chain)
    evidence = found.log_likelihood.T
    told = smooth(evidence, start, transition, bounds)
    z = told.posterior(evidence)
    error = np.sum(z.T * found.standard_error, axis=0)
    with np.errstate(divide="ignore"):
        effective = 1.0 / np.sum(z.T / found.effective_draws, axis=0)
    return RowLikelihood(told.log_z, error, effective), z


def linked(fitted: AnyParts, X: Matrix, bounds: Array, n_jobs: int | None) -> AnyParts:
    """The model for answers about these rows, each given its whole sequence."""
    variable = getattr(fitted.model, "classes", None)
    assert isinstance(variable, ClassChain)
    model: AnyChained = Chained(cast(AnyChainCore, fitted.model), variable, bounds)
    prepared = model.prepare(fitted.params)
    looks = map_rows(fitted.columns, X, partial(model.look, prepared), n_jobs)
    return replace(fitted, told=np.concatenate(model.link(prepared, looks).offsets))


def draw_classes(
    fitted: AnyFitted,
    shares: Array,
    n_samples: int,
    classes: Classes | None,
    hybrid: Hybrid | None,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """Class of each new row (n,), and the class whose prior each of its parts takes (n, K).

    ``classes`` is one for all rows or one per row; by default they are sampled by their ``shares``
    (N,), or as one sequence where they are a chain. ``hybrid`` maps parts to a class, or to a
    mapping of classes to weights, to use instead.
    """
    if not isinstance(n_samples, Integral) or n_samples < 1:
        raise ValueError(f"n_samples={n_samples!r} must be an integer of at least 1.")
    if not isinstance(hybrid, dict | None):
        raise ValueError(f"hybrid={hybrid!r} must map parts to classes, as {{0: 'smile'}}.")
    K, names = fitted.n_parts or 1, fitted.classes
    if names is None:
        if classes is not None or hybrid is not None:
            raise ValueError(
                "classes and hybrid need a class variable; set n_classes, or fit with labels."
            )
        return np.zeros(n_samples, int), np.zeros((n_samples, K), int)
    chain = chain_of(fitted)
    if classes is None and chain is not None:
        rows = draw_chain(*chain, int(n_samples), rng)
    elif classes is None:
        rows = rng.choice(len(shares), n_samples, p=shares / shares.sum())
    else:
        rows = classes_of_rows(classes, names, n_samples)
    by_part = np.repeat(rows[:, None], K, axis=1)
    for part, wanted in (hybrid or {}).items():
        if isinstance(part, bool) or part not in range(K):
            raise ValueError(f"hybrid names part {part!r}, but parts are 0 to {K - 1}.")
        mixture = wanted.items() if isinstance(wanted, dict) else [(wanted, 1.0)]
        numbers = class_numbers([name for name, _ in mixture], names, "hybrid")
        weights = np.array([_number(weight) for _, weight in mixture])
        if numbers.ndim != 1 or not np.all(weights >= 0) or not 0 < weights.sum() < np.inf:
            raise ValueError(
                f"hybrid[{part!r}]={wanted!r} must be one class, or map classes to positive "
                "weights."
            )
        by_part[:, int(part)] = rng.choice(numbers, n_samples, p=weights / weights.sum())
    return rows, by_part


def _number(value: object) -> float:
    """A weight, NaN if the value is not a number."""
    return float(value) if isinstance(value, Real) else np.nan
