"""Learn from a stream of blocks of rows: stepwise EM on running sums.

Every call of ``partial_fit`` takes one E-step on its rows and blends their sums s into running ones
(Cappe & Moulines 2009; Liang & Klein 2009), from which the M-step follows:

    S <- (1 - rate) W'/W S + rate W'/w s,   rate = (w / rows seen)^decay

w is the summed weight of the rows, W that of the rows which S stands for. For blocks of one size
the rate is t^-decay. Until there are enough rows for a good start, they are kept, and fitted as by
``fit`` whenever their number has doubled, since single steps cannot repair a poor start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from partwise.contracts import Array, Stats
from partwise.data import BlockSource, ColumnGroup, RowSource
from partwise.fitted import AnyFitted, Batch, FittedParts, Running
from partwise.fitting.course import Classes, fit_rows
from partwise.fitting.family import Family, totals_of
from partwise.fitting.labels import known_labels, read_labels
from partwise.fitting.options import Listen, TrainingRows
from partwise.models.gated import GatedCore, P, R
from partwise.runners import runner_of

# Rows are kept for a good start up to this number of bytes.
MOST_BYTES = 1 << 28

# Rows of a step where they are not in memory: so the parameters do not depend on how the rows are
# divided into files.
STREAMED_ROWS = 1 << 14


@dataclass(frozen=True)
class StreamingOptions:
    """How ``partial_fit`` learns from one block after another.

    Parameters
    ----------
    decay : float, default=0.6
        Above 0.5, up to 1: the power with which new rows lose influence. With 1 all rows ever seen
        count alike, even those that were looked at with the first, poor parameters.
    half_life : float or None, default=None
        For data that drift: rows after which what was learned before counts half. None forgets
        nothing for good: the more rows were seen, the less the parameters move.
    warm_up : int, default=10000
        Rows that are kept, and learned as by ``fit`` whenever they have doubled, before steps
        begin. 0 begins them after the first call, which should then be large.

    Examples
    --------
    >>> from partwise import MCVQ, StreamingOptions, make_shapes
    >>> model = MCVQ(3, 9, streaming=StreamingOptions(warm_up=300), random_state=0)
    >>> X = make_shapes().data
    >>> for i in range(0, len(X), 81):
    ...     model = model.partial_fit(X[i : i + 81])
    >>> model.n_samples_seen_
    729
    """

    decay: float = 0.6
    half_life: float | None = None
    warm_up: int = 10_000

    def __post_init__(self) -> None:
        if not 0.5 < self.decay <= 1.0:
            raise ValueError(
                f"StreamingOptions(decay={self.decay!r}): must be above 0.5 and at most 1."
            )
        if self.half_life is not None and not self.half_life > 0:
            raise ValueError(
                f"StreamingOptions(half_life={self.half_life!r}): must be positive, or None."
            )
        if not self.warm_up >= 0:
            raise ValueError(f"StreamingOptions(warm_up={self.warm_up!r}): must be 0 or more rows.")


def refused(family: Family[P, R], fitted: AnyFitted | None) -> str | None:
    """The option that the running sums of a stream do not support, if any."""
    options = family.options
    if options.inference == "gibbs":
        return 'inference="gibbs"'
    if options.gating == "factorised":
        return 'gating="factorised"'
    if options.transformations is not None:
        return "transformations"
    if options.class_chain:
        return "class_chain=True"
    if options.part_groups is not None:
        return "part_groups"
    if family.has_latent:
        return f'likelihood="{options.likelihood_name}"'
    # The number of rows behind parameters follows from their uncertainty, which needs a prior.
    learned = fitted is not None and fitted.running is None
    if learned and options.prior is None and not family.sums_without_prior:
        return "a model of prior=None that fit has learned; begin with partial_fit"
    return None


def learn_rows(
    family: Family[P, R],
    how: StreamingOptions,
    rows: TrainingRows,
    y: ArrayLike | None,
    classes: ArrayLike | None,
    listen: Listen,
    fitted: FittedParts[P, R] | None,
) -> FittedParts[P, R]:
    """Learn from some more rows; those that are not in memory `STREAMED_ROWS` at a time.

    ``fitted`` was learned from the rows before, if any.
    """
    X, kept = rows.X, rows.kept
    if not isinstance(X, RowSource):
        return learn_block(family, how, rows, y, classes, listen, fitted)
    if y is not None:
        y, n_classes = np.asarray(y), family.options.n_classes
        if fitted is None and classes is None and not isinstance(n_classes, str):
            classes = read_labels(y, n_classes, len(kept))[0]
            y = None if classes is None else y
    # Rows without weight are not in X; each belongs to the block of the row before it.
    edges = [0, *np.flatnonzero(kept)[STREAMED_ROWS::STREAMED_ROWS].tolist(), len(kept)]
    lo = 0
    for begin, end in pairwise(edges):
        hi = min(lo + STREAMED_ROWS, X.shape[0])
        some = X[lo:hi].astype(X.dtype if fitted is None else fitted.dtype, copy=False)
        block = replace(rows, X=some, weight=rows.weight[lo:hi], kept=kept[begin:end])
        own = None if y is None else y[begin:end]
        fitted = learn_block(family, how, block, own, classes, listen, fitted)
        classes, lo = None, hi
    assert fitted is not None
    return fitted


def learn_block(
    family: Family[P, R],
    how: StreamingOptions,
    rows: TrainingRows,
    y: ArrayLike | None,
    classes: ArrayLike | None,
    listen: Listen,
    fitted: FittedParts[P, R] | None,
) -> FittedParts[P, R]:
    """Learn from some more rows; ``fitted`` was learned from the rows before, if any."""
    assert not isinstance(rows.X, RowSource)
    names, labels = _labels_of(family, fitted, y, classes, len(rows.kept))
    batch = Batch(rows.X, rows.weight, None if labels is None else labels[rows.kept])
    n_seen = len(rows.kept)
    if fitted is None:
        return _fit(family, how, rows, batch, names, listen, n_seen)
    run = _running(family, fitted)
    n_seen += fitted.record.n_rows or 0
    if run.kept is not None:
        kept = run.kept.beside(batch)
        full = kept.X.shape[0] >= how.warm_up or kept.n_bytes > MOST_BYTES
        if full or len(kept.weight) >= 2 * run.at_last_fit or _new_levels(fitted, batch):
            return _fit(family, how, rows, kept, names, listen, n_seen)
        run = replace(run, kept=kept)
    fitted = _step(family, fitted, batch, run, how)
    return replace(fitted, record=replace(fitted.record, n_rows=n_seen))


def _fit(
    family: Family[P, R],
    how: StreamingOptions,
    rows: TrainingRows,
    batch: Batch,
    names: Array | None,
    listen: Listen,
    n_seen: int,
) -> FittedParts[P, R]:
    """Learn from all rows at hand, as `fit` does."""
    everyone = np.ones(len(batch.weight), bool)
    rows = replace(rows, X=batch.X, weight=batch.weight, kept=everyone)
    deadline = family.options.ascent.deadline()
    fitted = fit_rows(family, rows, Classes(names, batch.labels), listen, deadline)
    wait = len(batch.weight) < how.warm_up and batch.n_bytes <= MOST_BYTES
    core, source = family.core_in(fitted.model), _source(family, batch, fitted.columns)
    run = replace(
        _running(family, fitted),
        stats=_total(family, core, core.begin(fitted.params), source),
        kept=batch if wait else None,
        at_last_fit=len(batch.weight),
    )
    # The stream keeps no rows, so there are no labels of them.
    return replace(
        fitted, running=run, record=replace(fitted.record, n_rows=n_seen, row_labels=None)
    )


def _running(family: Family[P, R], fitted: FittedParts[P, R]) -> Running:
    """What the stream, or the fit before it, has left behind."""
    if fitted.running is not None:
        return fitted.running
    core, weight = family.core_in(fitted.model), fitted.record.weight
    assert weight is not None
    return Running(None, totals_of(core), core.chooser.weight, weight, weight, None, 0)


def _step(
    family: Family[P, R],
    fitted: FittedParts[P, R],
    rows: Batch,
    run: Running,
    how: StreamingOptions,
) -> FittedParts[P, R]:
    """One step of stepwise EM."""
    source = _source(family, rows, _seen_columns(fitted, rows))
    core = family.core_in(fitted.model)
    before = core.sums_of(fitted.params) if run.stats is None else run.stats
    prepared = core.begin(fitted.params)
    stats = _total(family, core, prepared, source)
    w = float(rows.weight.sum())
    fade = 1.0 if how.half_life is None else 0.5 ** (w / how.half_life)
    seen, weight = run.seen + w, run.weight * fade + w
    rate = max((w / seen) ** how.decay, 1.0 - fade)
    old, new = (1.0 - rate) * weight / run.weight, rate * weight / w
    totals = family.totals(source)
    column_weight = old * run.column_weight + new * source.column_weight()
    columns = tuple(replace(g, weight=column_weight[g.index]) for g in source.columns)

    def core_with(totals: Array | None) -> GatedCore[P, R]:
        of = columns, fitted.n_columns, fitted.dtype
        return family.core(*of, core.sizes, core.classes, totals)

    whole = core_with(None if totals is None else totals * (weight / w))
    bound = whole.bound(prepared, stats.scaled(weight / w)) / weight
    blended = None
    if totals is not None:
        assert run.totals is not None
        blended = old * run.totals + new * totals
    core, stats = core_with(blended), before.scaled(old) + stats.scaled(new)
    record = replace(
        fitted.record,
        trace=np.append(fitted.record.trace, bound),
        bound=float(bound),
        n_iter=fitted.record.n_iter + 1,
        converged=False,
        weight=weight,
    )
    return replace(
        fitted,
        model=core,
        params=cast(P, core.maximize_running(prepared, stats).params),  # the core made them
        columns=columns,
        record=record,
        running=Running(stats, blended, column_weight, weight, seen, run.kept, run.at_last_fit),
    )


def _source(family: Family[P, R], rows: Batch, columns: tuple[ColumnGroup, ...]) -> BlockSource:
    return BlockSource(rows.X, columns, rows.weight, labels=rows.labels, n_powers=family.n_powers)


def _total(family: Family[P, R], core: GatedCore[P, R], prepared: R, source: BlockSource) -> Stats:
    """Sums over all rows."""
    with runner_of(family.options.ascent.n_jobs, source) as runner:
        return runner.total(core, prepared, source, [None] * source.n_blocks)


def _labels_of(
    family: Family[P, R],
    fitted: AnyFitted | None,
    y: ArrayLike | None,
    classes: ArrayLike | None,
    n_rows: int,
) -> tuple[Array | None, Array | None]:
    """Names of the classes, which the first call fixes, and the number of each row's."""
    n_classes = family.options.n_classes
    if isinstance(n_classes, str):
        raise ValueError('n_classes="auto" looks at all rows at once; give partial_fit a number.')
    if fitted is None and classes is None:
        return read_labels(y, n_classes, n_rows)
    names: Array | None
    if fitted is None:
        names = np.unique(np.asarray(classes))
        if n_classes not in (None, len(names)):
            raise ValueError(
                f"n_classes={n_classes}, but classes names {len(names)}; give as many."
            )
    else:
        names = fitted.classes
        if classes is not None and (
            names is None or list(np.unique(np.asarray(classes))) != list(names)
        ):
            raise ValueError(
                "classes differs from that of the first call; leave it out from then on."
            )
    if names is None:
        if read_labels(y, None, n_rows)[0] is not None:
            raise ValueError(
                "y names classes, but the rows before had none; give y, or classes, in the first "
                "call, or set n_classes."
            )
        return None, None
    return names, np.full(n_rows, -1) if y is None else known_labels(y, names, n_rows)


def _new_levels(fitted: AnyFitted, rows: Batch) -> bool:
    """Whether rows hold categories that the columns do not know."""
    for group in fitted.columns:
        own = rows.X[:, group.index]
        values = own.data if sparse.issparse(own) else own
        if group.levels is not None and not np.isin(values[~np.isnan(values)], group.levels).all():
            return True
    return False


def _seen_columns(fitted: AnyFitted, rows: Batch) -> tuple[ColumnGroup, ...]:
    """Columns, with units for those observed for the first time, and which of them vary."""
    return tuple(_seen_group(group, rows) for group in fitted.columns)


def _seen_group(group: ColumnGroup, rows: Batch) -> ColumnGroup:
    still = np.flatnonzero(~group.varies)
    if len(still) == 0:
        return group
    some = rows.X[:, group.index[still]]
    own = group.take(still)
    changes = own.changed_by(some, rows.weight)
    unseen = own.weight <= 0
    shift, scale, varies = group.shift.copy(), group.scale.copy(), group.varies.copy()
    if group.likelihood.has_units and unseen.any():
        new = own.relearned(some, rows.weight)
        shift[still[unseen]], scale[still[unseen]] = new.shift[unseen], new.scale[unseen]
        changes = np.where(unseen, new.varies, changes)
    varies[still] = changes
    return replace(group, shift=shift, scale=scale, varies=varies)
