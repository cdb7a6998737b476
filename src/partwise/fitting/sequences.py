"""Rows in sequence, whose classes are a Markov chain: lengths as users give them, and the model."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from partwise.contracts import AnyParams, Array
from partwise.data import BlockSource, RowBlock
from partwise.fitting.options import PartsOptions, TrainingRows, refuse_others
from partwise.fitting.restarts import Stage
from partwise.models.class_chain import ChainCore, Chained, ClassChain
from partwise.models.class_variable import ClassVariable
from partwise.models.gated import GatedCore, GatedModel, P, R, RowPosteriors
from partwise.runners import runner_of

# A chained model of states or factors.
AnyChained: TypeAlias = Chained[AnyParams, AnyParams, RowPosteriors]
AnyChainCore: TypeAlias = ChainCore[AnyParams, AnyParams, RowPosteriors]


def read_lengths(lengths: ArrayLike | None, n_rows: int, chained: bool) -> Array | None:
    """Where each sequence begins, then the number of rows, (Q + 1,); None for rows one by one."""
    if not chained:
        if lengths is not None:
            raise ValueError("lengths needs class_chain=True, or rows do not follow each other.")
        return None
    if lengths is None:
        return np.array([0, n_rows])
    given = np.asarray(lengths)
    if given.ndim != 1 or given.dtype.kind not in "iu" or np.any(given < 1):
        raise ValueError(f"lengths={lengths!r} must be whole numbers of at least 1.")
    if given.sum() != n_rows:
        raise ValueError(
            f"lengths sum to {given.sum()}, but X has {n_rows} rows; give the number of rows of "
            "every sequence, in order."
        )
    return np.concatenate([[0], np.cumsum(given)]).astype(np.int64)


def with_sequences(
    rows: TrainingRows, lengths: ArrayLike | None, options: PartsOptions, has_latent: bool
) -> TrainingRows:
    """Training rows with the bounds of their sequences, if their classes are a chain."""
    bounds = read_lengths(lengths, len(rows.kept), options.class_chain)
    if bounds is None:
        return rows
    refuse_others("class_chain=True", "class_chain=False", options, has_latent)
    if np.any(rows.weight != 1.0) or not np.all(rows.kept):
        raise ValueError(
            "class_chain=True does not support sample_weight: a row has one place in its sequence; "
            "repeat sequences instead."
        )
    return replace(rows, bounds=bounds)


def chained(
    stage: Stage[GatedModel[P, R], P], variable: ClassVariable, bounds: Array | None
) -> Stage[GatedModel[P, R], P]:
    """The stage whose rows follow each other, if their classes are a chain."""
    if not isinstance(variable, ClassChain):
        return stage
    assert bounds is not None
    model: AnyChained = Chained(cast(AnyChainCore, stage.model), variable, bounds)
    return replace(stage, model=cast(GatedModel[P, R], model))


def without_chain(
    model: GatedModel[P, R], params: P, source: BlockSource, n_jobs: int | None
) -> tuple[GatedModel[P, R], Array | None]:
    """The model of rows one by one, and what the neighbors of each say of its class, (C, N)."""
    found = cast(object, model)
    if not isinstance(found, Chained):
        return model, source.labels
    prepared = found.prepare(params)
    with runner_of(n_jobs, source) as runner:

        def look(block: RowBlock) -> tuple[Array, Array | None]:
            return found.look(prepared, block)

        linked = found.link(prepared, runner.map(look, source))
    return cast(GatedCore[P, R], found.core), np.concatenate(linked.offsets)
