"""Learning from rows that come by in blocks: stepwise EM on running sums.

Every call of ``partial_fit`` takes one E-step on its rows and blends their sums s into running ones
(Cappe & Moulines 2009; Liang & Klein 2009), from which the M-step follows:

    S <- (1 - rate) W'/W S + rate W'/w s,   rate = (w / rows seen)^decay

w is the summed weight of the rows, W that of the rows which S stands for. For blocks of one size
the rate is t^-decay. Until there are enough rows for a good start, they are kept and learned as by
``fit`` whenever they have doubled, since steps lead only as far as the start is good.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from partwise.contracts import Array, Stats
from partwise.data import BlockSource, ColumnGroup, RowSource
from partwise.fitting import course
from partwise.fitting.labels import known_labels, read_labels
from partwise.runners import runner_of

# Rows that wait for a good start are kept as long as they are no more bytes than this.
MOST_BYTES = 1 << 28


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


class Batch(NamedTuple):
    """Checked rows."""

    X: Any
    weight: Array
    labels: Array | None

    def beside(self, other: Batch) -> Batch:
        """These rows, then others."""
        pairs = [self.X, other.X]
        X = sparse.vstack(pairs, format="csr") if sparse.issparse(self.X) else np.vstack(pairs)
        labels = None
        if self.labels is not None and other.labels is not None:
            labels = np.append(self.labels, other.labels)
        return Batch(X, np.append(self.weight, other.weight), labels)

    @property
    def n_bytes(self) -> int:
        """Memory that the entries take."""
        return int(self.X.data.nbytes)


class Running(NamedTuple):
    """What a stream has left behind."""

    stats: Stats | None  # sums at the scale of ``weight``; None: those that the parameters tell
    totals: Array | None  # of the columns, if the model holds them
    column_weight: Array  # C_d, (D,)
    weight: float  # rows that the sums stand for
    seen: float  # summed weight of all rows
    kept: Batch | None  # that wait for a good start
    at_last_fit: int  # rows that parameters were last fitted to


def can_stream(estimator: Any) -> bool:
    """Whether the model's sums tell its parameters, with nothing that rows remember."""
    reason = course.refuses_stream(estimator)
    if reason is not None:
        raise AttributeError(f"partial_fit does not go with {reason}.")
    return True


def learn_block(estimator: Any, X: Any, y: Any, sample_weight: Any, classes: Any) -> Any:
    """Learn from some more rows; sets all learned attributes."""
    first = not hasattr(estimator, "_theta")
    X, weight, kept = estimator._check_fit_rows(X, sample_weight, reset=first)
    if isinstance(X, RowSource):
        raise TypeError("partial_fit learns from rows in memory; pass some of them at a time.")
    names, labels = _labels_of(estimator, y, classes, len(kept), first)
    rows = Batch(X, weight, None if labels is None else labels[kept])
    how = estimator.streaming or StreamingOptions()
    if first:
        return _fit(estimator, rows, names, how, len(kept))
    run, n_seen = _running(estimator), estimator.n_samples_seen_ + len(kept)
    if run.kept is not None:
        rows_kept = run.kept.beside(rows)
        full = rows_kept.X.shape[0] >= how.warm_up or rows_kept.n_bytes > MOST_BYTES
        if full or len(rows_kept.weight) >= 2 * run.at_last_fit or _new_levels(estimator, rows):
            return _fit(estimator, rows_kept, names, how, n_seen)
        run = run._replace(kept=rows_kept)
    _step(estimator, rows, run, how)
    estimator.n_samples_seen_ = n_seen
    return estimator


def _fit(estimator: Any, rows: Batch, names: Any, how: StreamingOptions, n_seen: int) -> Any:
    """Learn from all rows at hand, as `fit` does."""
    everyone = np.ones(len(rows.weight), bool)
    deadline = estimator._deadline()
    course.fit_rows(estimator, rows.X, rows.weight, everyone, names, rows.labels, deadline)
    wait = len(rows.weight) < how.warm_up and rows.n_bytes <= MOST_BYTES
    core = course.core_of(estimator._model)
    source = _source(estimator, rows, estimator._columns)
    estimator._running = _running(estimator)._replace(
        stats=_total(estimator, core, core.begin(estimator._theta), source),
        kept=rows if wait else None,
        at_last_fit=len(rows.weight),
    )
    estimator.n_samples_seen_ = n_seen
    estimator.__dict__.pop("row_labels_", None)  # rows have gone by
    return estimator


def _running(estimator: Any) -> Running:
    """What the stream, or the fit before it, has left behind."""
    run = getattr(estimator, "_running", None)
    if run is None:
        core, weight = course.core_of(estimator._model), estimator.weight_seen_
        totals = getattr(core, "totals", None)
        run = Running(None, totals, core.chooser.weight, weight, weight, None, 0)
    return run


def _step(estimator: Any, rows: Batch, run: Running, how: StreamingOptions) -> None:
    """One step of stepwise EM."""
    source = _source(estimator, rows, _seen_columns(estimator, rows))
    core = course.core_of(estimator._model)
    before = core.sums_of(estimator._theta) if run.stats is None else run.stats
    prepared = core.begin(estimator._theta)
    stats = _total(estimator, core, prepared, source)
    w = float(rows.weight.sum())
    fade = 1.0 if how.half_life is None else 0.5 ** (w / how.half_life)
    seen, weight = run.seen + w, run.weight * fade + w
    rate = max((w / seen) ** how.decay, 1.0 - fade)
    old, new = (1.0 - rate) * weight / run.weight, rate * weight / w
    totals = estimator._totals(source)
    column_weight = old * run.column_weight + new * source.column_weight()
    blended = None if totals is None else old * run.totals + new * totals
    columns = tuple(replace(g, weight=column_weight[g.index]) for g in source.columns)

    def core_of(totals: Array | None) -> Any:
        return estimator._core(columns, core.sizes, core.classes, totals)

    whole = core_of(None if totals is None else totals * (weight / w))
    bound = whole.bound(prepared, stats.scaled(weight / w)) / weight
    core, stats = core_of(blended), before.scaled(old) + stats.scaled(new)
    estimator._columns = columns
    estimator._keep(core, core.maximise_running(prepared, stats).params)
    estimator._running = Running(
        stats, blended, column_weight, weight, seen, run.kept, run.at_last_fit
    )
    estimator.lower_bounds_ = np.append(estimator.lower_bounds_, bound)
    estimator.lower_bound_, estimator.converged_ = float(bound), False
    estimator.n_iter_ += 1
    estimator.weight_seen_ = weight
    estimator._describe()


def _source(estimator: Any, rows: Batch, columns: tuple[ColumnGroup, ...]) -> BlockSource:
    return BlockSource(
        rows.X, columns, rows.weight, labels=rows.labels, n_powers=estimator._n_powers
    )


def _total(estimator: Any, core: Any, prepared: Any, source: BlockSource) -> Stats:
    """Sums over all rows."""
    with runner_of(estimator.n_jobs, source) as runner:
        return runner.total(core, prepared, source, [None] * source.n_blocks)


def _labels_of(
    estimator: Any, y: Any, classes: Any, n_rows: int, first: bool
) -> tuple[Array | None, Array | None]:
    """Names of the classes, which the first call tells, and the number of each row's."""
    if estimator.n_classes == "auto":
        raise ValueError('n_classes="auto" looks at all rows at once; give partial_fit a number.')
    names = getattr(estimator, "classes_", None)
    if first and classes is not None:
        names = np.unique(classes)
        if estimator.n_classes not in (None, len(names)):
            raise ValueError(
                f"n_classes={estimator.n_classes}, but classes names {len(names)}; give as many."
            )
    if first and classes is None:
        return read_labels(y, estimator.n_classes, n_rows)
    if classes is not None and (names is None or list(np.unique(classes)) != list(names)):
        raise ValueError("classes differs from that of the first call; leave it out from then on.")
    if names is None:
        if read_labels(y, None, n_rows)[0] is not None:
            raise ValueError(
                "y names classes, but the rows before had none; give y, or classes, in the first "
                "call, or set n_classes."
            )
        return None, None
    return names, np.full(n_rows, -1) if y is None else known_labels(y, names, n_rows)


def _new_levels(estimator: Any, rows: Batch) -> bool:
    """Whether rows hold categories that the columns do not know."""
    for group in estimator._columns:
        own = rows.X[:, group.index]
        values = own.data if sparse.issparse(own) else own
        if group.levels is not None and not np.isin(values[~np.isnan(values)], group.levels).all():
            return True
    return False


def _seen_columns(estimator: Any, rows: Batch) -> tuple[ColumnGroup, ...]:
    """Columns with the units of those observed for the first time, and who has begun to vary."""
    return tuple(_seen_group(estimator, group, rows) for group in estimator._columns)


def _seen_group(estimator: Any, group: ColumnGroup, rows: Batch) -> ColumnGroup:
    still = np.flatnonzero(~group.varies)
    if len(still) == 0:
        return group
    some = rows.X[:, group.index[still]]
    own = group.take(still)
    changes = own.changed_by(some, rows.weight)
    unseen = own.weight <= 0
    shift, scale, varies = group.shift.copy(), group.scale.copy(), group.varies.copy()
    if group.likelihood.has_units and unseen.any():
        new = own.learned_anew(some, rows.weight)
        shift[still[unseen]], scale[still[unseen]] = new.shift[unseen], new.scale[unseen]
        changes = np.where(unseen, new.varies, changes)
    varies[still] = changes
    return replace(group, shift=shift, scale=scale, varies=varies)
