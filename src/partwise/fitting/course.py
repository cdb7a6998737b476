"""Fitting a model of gated parts, with states or factors: one course for both.

First the parts are learned without classes: from a start, through annealing or from a tied solution
to a factorised one. Then a class variable is added, which starts from these parts, and everything
is learned together. A `Family` has what kinds of parts do differently; here is the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from partwise._warnings import warn
from partwise.contracts import Array, Stats
from partwise.data import BlockSource, ColumnGroup, RowBlock, by_column, learn_columns
from partwise.data.rows import is_sparse
from partwise.fitted import Fitted, FittedParts, core_of
from partwise.fitting.calibrate import calibrate
from partwise.fitting.checkpoint import Checkpoint, FitLog, SearchMemo
from partwise.fitting.class_groups import read_groups
from partwise.fitting.family import Family
from partwise.fitting.labels import read_labels
from partwise.fitting.options import Annealing, Listen, Listener, PartsOptions, TrainingRows
from partwise.fitting.record import recorded
from partwise.fitting.restarts import Begun, Stage, fit_best
from partwise.fitting.sequences import chained, without_chain
from partwise.models.calibration import identity
from partwise.models.class_tree import ClassTree, Links
from partwise.models.class_variable import ClassVariable
from partwise.models.gated import GatedCore, GatedModel, P, R
from partwise.models.gating import Gating, Tied
from partwise.models.mcvq import MCVQ, MCVQParams
from partwise.models.rowwise import Rowwise
from partwise.models.selection import Draws, Expected
from partwise.runners import runner_of
from partwise.sampling.randomness import as_generator
from partwise.starts.class_tree import tree_start
from partwise.starts.classes import ClassCore, chain_start, class_number, class_start
from partwise.typing import PathLike

# Annealing: EM iterations in which the temperature falls from the mean number of observations per
# column (at which a column weighs its evidence per observation, as the standard gating does) to 1.
ANNEALING_STEPS = 40

# EM iterations after annealing, before states are split and merged: they then fit their parts.
PLAIN_STEPS = 8

# Where columns are of several kinds, states begin roughly (rows are clustered on scores, not by the
# columns' likelihoods), so more plain EM iterations are needed to judge the start.
MIXED_PROBE = 20

# Gibbs sampling: rounds over a block averaged per EM iteration, and EM iterations averaged before
# the log joint density is compared.
GIBBS_ROUNDS = 4
GIBBS_WINDOW = 10

# Most numbers (rows times states) that classes begin with; of more rows a sample is used.
MOST_EVIDENCE = 20_000_000


@dataclass(frozen=True, eq=False)
class Classes:
    """Names of the classes of rows (N,), and the number of each training row's, -1 if unknown."""

    names: Array | None = None
    labels: Array | None = None

    @property
    def number(self) -> int:
        """N, 1 without classes."""
        return 1 if self.names is None else len(self.names)

    @property
    def are_known(self) -> bool:
        """Whether some rows have labels."""
        return self.labels is not None and bool(np.any(self.labels >= 0))


def fit_parts(
    family: Family[P, R],
    rows: TrainingRows,
    y: ArrayLike | None,
    listen: Listen,
    last: FittedParts[P, R] | None = None,
    checkpoint: PathLike | Checkpoint | None = None,
) -> FittedParts[P, R]:
    """Learn parts, and classes by the labels ``y`` if there are some.

    Parameters
    ----------
    family : Family
        Kind of parts, with the options of the fit.
    rows : TrainingRows
    y : array-like of shape (C,) or None
        Labels of the classes of all rows that were given.
    listen : callable
        Called with the rows before each ascent; gives a `Listener` for as long as it lasts.
    last : Fitted, optional
        Where to go on, instead of a start.
    checkpoint : path or Checkpoint, optional

    Returns
    -------
    fitted : Fitted
    """
    options, deadline = family.options, family.options.ascent.deadline()
    classes = numbered_classes(options, rows, y)
    if options.n_classes == "auto" and classes.names is None:
        classes = Classes(_found_classes(family, rows, listen, last, deadline))
    return fit_rows(family, rows, classes, listen, deadline, last, checkpoint)


def numbered_classes(options: PartsOptions, rows: TrainingRows, y: ArrayLike | None) -> Classes:
    """Classes of the rows with weight, as labels ``y`` of all rows and ``n_classes`` say."""
    asked = None if options.n_classes == "auto" else options.n_classes
    assert not isinstance(asked, str)
    names, labels = read_labels(y, asked, len(rows.kept))
    if labels is not None and names is not None:
        labels = _with_rows(labels[rows.kept], names)
    return Classes(names, None if names is None else labels)


def fit_rows(
    family: Family[P, R],
    rows: TrainingRows,
    classes: Classes,
    listen: Listen,
    deadline: float,
    last: FittedParts[P, R] | None = None,
    checkpoint: PathLike | Checkpoint | None = None,
) -> FittedParts[P, R]:
    """Learn from rows whose classes are numbered."""
    options, (n_rows, n_columns) = family.options, rows.X.shape
    sizes = family.sizes(n_rows, n_columns)
    kind, absent_zero = options.likelihood, options.absent_zero
    columns = learn_columns(rows.X, kind, rows.weight, absent_zero, options.prior)
    if rows.schema is None:  # else it has warned
        warn_of_holes(columns, n_columns, rows.names)
    columns = family.on_canvas(rows, columns)
    sought = sizes is None and last is None
    if last is not None:
        sizes, columns = _resumed(family, last, sizes, columns, classes)
        n_parts = last.n_parts or 1
    elif sizes is None:
        sizes, n_parts = (1, family.background), 1  # placeholders
    else:
        n_parts = len(sizes)
        sizes = (*sizes, family.background) if options.wants_background else sizes
    labels = classes.labels
    log = FitLog(
        options.random_state,
        checkpoint,
        {**options.arguments, **({} if rows.bounds is None else {"lengths": np.diff(rows.bounds)})},
        rows.X,
        rows.weight,
        labels,
    )
    rng = log.generator()
    check_pairing(options, is_sparse(rows.X) and absent_zero, family.has_latent)
    if options.class_chain and classes.number == 1:
        raise ValueError("class_chain=True needs classes; set n_classes, or give labels y.")
    if options.part_groups is not None and classes.number == 1:
        raise ValueError("part_groups needs classes of rows; set n_classes, or give labels y.")
    variable = family.class_variable(classes.number)
    source = family.source(rows, columns, labels)
    totals = family.totals(source)

    def core_with(sizes: tuple[int, ...], variable: ClassVariable) -> GatedCore[P, R]:
        n_modeled = family.n_modeled(columns, n_columns)
        return family.core(columns, n_modeled, rows.X.dtype, sizes, variable, totals)

    core = core_with(sizes, ClassVariable())

    def begin(listener: Listener, i: int, child: np.random.Generator) -> Begun[GatedModel[P, R], P]:
        if last is not None:
            full = core.with_classes(variable)
            stages = _stages(family, full, columns, last.params, child, n_parts, again=True)
            return [chained(stage, variable, rows.bounds) for stage in stages], last.params
        own, late = core, partial(_is_over, listener, deadline)
        if sought:
            search = partial(_search, family, core, source, child, late, log)
            params, path = log.once("start", child, search)
            own = core_with(family.sizes_in(params), ClassVariable())
            log.note_path(i, path)
            stages = [Stage(family.modeled(own, columns))]
        else:
            background = len(core.sizes) > n_parts
            start = partial(family.start, core, source, background, child)
            params = log.once("start", child, start)
            stages = _stages(family, core, columns, params, child, n_parts)
            if stages[0].annealing and family.revises(source):
                revise = partial(family.revised, core, source, child, late)
                stages = _with_revision(stages[0], revise)
        if variable.n_classes > 1:
            stage, full = stages[-1], own.with_classes(variable)
            enter = partial(_enter_classes, family, full, stage.model, source, rows.bounds, child)
            model = family.with_core(stage.model, full)
            stage = replace(stage, model=model, annealing=(), enter=enter, optional=False)
            stages.append(chained(stage, variable, rows.bounds))
        return stages, params

    ascent = options.ascent if last is None else replace(options.ascent, n_init=1)
    with listen(rows.X) as listener:
        first = partial(begin, listener)
        model, params, monitor = fit_best(source, first, rng, ascent, log, listener, deadline)
    model, told = without_chain(model, params, source, ascent.n_jobs)
    if told is not labels:
        source = family.source(rows, columns, told)
    if sought:
        model = family.with_core(model, core_with(family.sizes_in(params), variable))
    core = family.core_in(model)
    params = core.finish(params) if options.selects_by_row else params
    path = None if last is None else last.record.size_path
    if sought:
        n_parts, path = len(core.sizes) - 1, log.best_path
        if not (monitor.out_of_time or monitor.interrupted):
            _warn_of_nothing(params.gates)
    total = float(rows.weight.sum())
    record = recorded(monitor, total)
    fitted: FittedParts[P, R] = Fitted(
        model,
        params,
        columns,
        n_columns,
        rows.X.dtype,
        replace(record, n_rows=len(rows.kept), weight=total, size_path=path),
        rows.names,
        n_parts,
        rows.schema,
        classes=classes.names,
    )
    fitted = finished(family, fitted, source, rows.kept, rng.spawn(1)[0])
    log.finish()
    return fitted


def finished(
    family: Family[P, R],
    fitted: FittedParts[P, R],
    source: BlockSource,
    kept: Array,
    rng: np.random.Generator,
) -> FittedParts[P, R]:
    """The fitted model with calibrated intervals and the labels of its rows."""
    n_jobs = family.options.ascent.n_jobs
    if family.options.inference == "gibbs" and family.options.selects_by_row:
        fitted = replace(fitted, model=family.rowwise(family.core_in(fitted.model), Expected()))
        bound = bound_of_samples(fitted, source, n_jobs) / float(source.weight.sum())
        fitted = replace(fitted, record=replace(fitted.record, bound=bound))
    record = replace(fitted.record, row_labels=family.row_labels(fitted, source, kept))
    # Columns of a table may have several latent numbers each; a canvas has more pixels than rows.
    of_table = fitted.schema is not None
    found = identity(fitted.n_columns if of_table else family.core_in(fitted.model).n_columns)
    if family.options.calibrated:
        below = partial(family.below, fitted.model)
        found = calibrate(fitted.model, fitted.params, source, below, rng, n_jobs, of_table)
    return fitted.with_record(record, found)


def _with_rows(labels: Array, names: Array) -> Array:
    """Labels of the rows with weight; every named class must have some, if any has."""
    if np.any(labels >= 0):
        empty = np.setdiff1d(np.arange(len(names)), labels)
        if len(empty):
            raise ValueError(
                f"Class {names[empty[0]]!s} has no row with weight; drop its rows from X and y, or "
                "give them sample_weight."
            )
    return labels


def _search(
    family: Family[P, R],
    core: GatedCore[P, R],
    source: BlockSource,
    rng: np.random.Generator,
    late: Callable[[], bool],
    memo: SearchMemo,
) -> tuple[P, list[dict[str, object]]]:
    """Parameters of the sizes that the ELBO selects, and the moves of the search."""
    some = _size_sample(family, source, rng)
    columns = some.columns
    if some is not source:
        weight = some.column_weight()
        columns = tuple(replace(group, weight=weight[group.index]) for group in columns)
        some = BlockSource(some.X, columns, some.weight, n_powers=family.n_powers)
    coarse = family.to_search(columns)
    if some is not source or coarse is not columns:
        columns = coarse
        totals, dtype = family.totals(some), some.X.dtype
        core = family.core(columns, core.n_columns, dtype, core.sizes, core.classes, totals)
    with runner_of(family.options.ascent.n_jobs, some) as runner:
        return family.search(core, some, runner, rng, late, memo)


def _size_sample(
    family: Family[P, R], source: BlockSource, rng: np.random.Generator
) -> BlockSource:
    """Rows in memory on which sizes are selected: all, or a sample."""
    n_rows, n_columns = source.X.shape
    n_cells = source.X.nnz if is_sparse(source.X) else n_rows * n_columns
    n_sample = family.options.sizes.sample_rows(n_rows, n_cells)
    if n_sample < n_rows:
        return source.of_rows(np.sort(rng.choice(n_rows, n_sample, replace=False)))
    small = source.reads and family.options.sizes.sample is not None
    return source.of_rows(np.arange(n_rows)) if small else source


def _is_over(listener: Listener, deadline: float) -> bool:
    return listener.halted() or time.monotonic() > deadline


def warn_of_holes(columns: tuple[ColumnGroup, ...], n_columns: int, names: Array | None) -> None:
    """Warn of columns without an observed value."""
    empty = by_column(columns, [group.weight for group in columns], n_columns) <= 0
    if empty.any():
        first = int(empty.argmax())
        warn(
            f"{empty.sum()} of {len(empty)} columns have no observed value "
            f"(first: {first if names is None else names[first]}); the model learns nothing "
            "about them, and imputes zero or the first level."
        )


def _warn_of_nothing(gates: Array) -> None:
    """Warn where no column depends on any part."""
    if not np.any(gates.argmax(axis=0) < len(gates) - 1):
        warn(
            "By the ELBO no column depends on another: all columns are background, and the one "
            "part has one state; set n_parts and n_states to fit parts nevertheless."
        )


def check_pairing(options: PartsOptions, absent_zero: bool, has_latent: bool) -> None:
    """Refuse selections of entries that are not stored, and levels that are not seen."""
    if has_latent and (absent_zero or options.selects_by_row):
        gibbs = options.inference == "gibbs"
        rowwise = 'inference="gibbs"' if gibbs else 'gating="factorised"'
        what = 'sparse_absent="zero"' if absent_zero else rowwise
        raise ValueError(
            f'likelihood="{options.likelihood_name}" does not support {what}; choose '
            'sparse_absent="unobserved" and gating="annealed", "tied" or "standard".'
        )
    if options.selects_by_row and absent_zero:
        gibbs = options.inference == "gibbs"
        which = 'inference="gibbs"' if gibbs else 'gating="factorised"'
        raise ValueError(
            f"{which} selects a part for every entry, which sparse X with absent zeros does "
            'not store; pass X.toarray(), or choose gating="annealed", "tied" or "standard" '
            'with inference="variational".'
        )


def _resumed(
    family: Family[P, R],
    last: FittedParts[P, R],
    sizes: tuple[int, ...] | None,
    columns: tuple[ColumnGroup, ...],
    classes: Classes,
) -> tuple[tuple[int, ...], tuple[ColumnGroup, ...]]:
    """Sizes and columns of the last fit, which must suit the new data."""
    core = family.core_in(last.model)
    same = len(columns) == len(last.columns) and all(
        type(a.likelihood) is type(b.likelihood) and np.array_equal(a.index, b.index)
        for a, b in zip(last.columns, columns, strict=True)
    )
    same &= classes.number == core.classes.n_classes and _same_groups(family, last)
    if (sizes is not None and core.sizes[: last.n_parts] != sizes) or not same:
        raise ValueError(
            f"warm_start=True needs the columns, n_parts, {family.size_name}, classes and "
            "likelihood of the last fit; set warm_start=False to begin again."
        )
    # Units and levels stay, or the parameters would mean something else.
    kept = [
        replace(a, weight=b.weight, likelihood=b.likelihood, absent_zero=b.absent_zero)
        for a, b in zip(last.columns, columns, strict=True)
    ]
    return core.sizes, tuple(kept)


def _same_groups(family: Family[P, R], last: FittedParts[P, R]) -> bool:
    """Whether the last fit had the groups of parts, and as many classes of each."""
    links: Links | None = getattr(last.params, "links", None)
    if links is None or family.options.part_groups is None:
        return links is None and family.options.part_groups is None
    _, given = read_groups(family.options)
    found = family.class_variable(links.counts.shape[1])
    assert isinstance(found, ClassTree)
    sizes = links.counts.shape == (found.n_groups, found.n_classes, found.n_group_classes)
    return sizes and (given is None or np.array_equal(given, links.groups[: len(given)]))


def _stages(
    family: Family[P, R],
    core: GatedCore[P, R],
    columns: tuple[ColumnGroup, ...],
    params: P,
    rng: np.random.Generator,
    n_parts: int,
    again: bool = False,
) -> list[Stage[GatedModel[P, R], P]]:
    """Stages of the fit, one after the other."""
    options = family.options
    if options.inference == "gibbs":
        sampler = Draws(int(rng.integers(2**63 - 1)))
        return [Stage(family.rowwise(core, sampler, GIBBS_ROUNDS), window=GIBBS_WINDOW)]
    if options.gating == "factorised":
        stages: list[Stage[GatedModel[P, R], P]] = [Stage(family.rowwise(core, Expected()))]
        if options.init == "dependence" and not again:
            stages.insert(0, Stage(_gated_by(core, Tied())))
        return stages
    if options.gating == "annealed" and n_parts > 1 and not again:
        weight = core.chooser.weight
        hottest = max(weight.sum() / max(np.count_nonzero(weight), 1), 1.0)
        annealing = options.annealing or Annealing(ANNEALING_STEPS)
        barred = None
        if len(core.sizes) > n_parts:
            # Between background and parts no column changes sides while the temperature falls:
            # until the states have formed, one state for all rows looks better than it is.
            is_background = np.arange(len(params.gates))[:, None] == n_parts
            barred = is_background != (params.gates.argmax(axis=0) == n_parts)
        steps = [
            family.modeled(_gated_by(core, Tied(1.0 / t), barred), columns)
            for t in annealing.temperatures(hottest)
        ]
        probe = family.probe if len(columns) == 1 else MIXED_PROBE
        return [Stage(family.modeled(core, columns), steps, probe=probe)]
    return [Stage(family.modeled(core, columns))]


def _with_revision(
    stage: Stage[GatedModel[P, R], P], revise: Callable[[P], P]
) -> list[Stage[GatedModel[P, R], P]]:
    """An annealed stage that is short, and one that goes on with what ``revise`` makes of it."""
    first = replace(stage, enough=max(PLAIN_STEPS, stage.probe))
    return [first, Stage(stage.model, enter=revise, optional=True)]


def _gated_by(
    core: GatedCore[P, R], gating: Gating, barred: Array | None = None
) -> GatedCore[P, R]:
    """The core with another gating, in which no column may choose the parts that are ``barred``."""
    return core.with_chooser(replace(core.chooser, gating=gating, barred=barred))


def _found_classes(
    family: Family[P, R],
    rows: TrainingRows,
    listen: Listen,
    last: FittedParts[P, R] | None,
    deadline: float,
) -> Array:
    """Names of the classes, whose number a fit without classes selects."""
    if family.options.prior is None:
        raise ValueError(
            'n_classes="auto" needs a prior: without one more classes always fit better.'
        )
    if last is not None and last.classes is not None:
        return last.classes
    rng = as_generator(family.options.random_state)
    plain = fit_rows(family, rows, Classes(), listen, deadline)
    source = family.source(rows, plain.columns, None)
    core = family.core_in(plain.model).with_classes(family.class_variable(1))
    found = _evidence(family, plain.model, source, rng, plain.params)
    return np.arange(class_number(cast(ClassCore[P], core), *found, rng))


def _enter_classes(
    family: Family[P, R],
    full: GatedCore[P, R],
    model: GatedModel[P, R],
    source: BlockSource,
    bounds: Array | None,
    rng: np.random.Generator,
    params: P,
) -> P:
    """Begin the classes with the parts as they are."""
    found = _evidence(family, model, source, rng, params)
    core = cast(ClassCore[P], full)
    if isinstance(full.classes, ClassTree):
        _, groups = read_groups(family.options)
        begun = cast(MCVQParams, params)
        return cast(P, tree_start(core_of(full, MCVQ), begun, found[1], groups, rng))
    if bounds is not None:
        return chain_start(core, *found, bounds, rng)
    return class_start(core, *found, rng)


def _evidence(
    family: Family[P, R],
    model: GatedModel[P, R],
    source: BlockSource,
    rng: np.random.Generator,
    params: P,
) -> tuple[P, list[tuple[Array, Array, Array | None]]]:
    """Parameters, and what rows (some, of very many) say of the states, their weights, labels."""
    core = family.core_in(model)
    prepared = model.begin(params)
    rows = MOST_EVIDENCE // int(core.first[-1])
    if source.X.shape[0] > rows:
        some = rng.choice(source.X.shape[0], rows, replace=False)
        if source.labels is not None:  # of every class some row
            some = np.append(some, np.unique(source.labels, return_index=True)[1])
        source = source.of_rows(np.unique(some))
    settled = replace(model, select=Expected()) if isinstance(model, Rowwise) else model

    def on_block(block: RowBlock) -> tuple[Array, Array, Array | None]:
        return settled.evidence(prepared, block), block.weight, block.labels

    return params, list(source.each(on_block))


def bound_of_samples(
    fitted: FittedParts[P, R], source: BlockSource, n_jobs: int | None = None
) -> float:
    """Factorised lower bound of parameters learned by sampling."""
    model, prepared = fitted.model, fitted.prepared

    def on_block(block: RowBlock) -> float:
        return float(block.weight @ (model.infer(prepared, block)[1] + block.base))

    with runner_of(n_jobs, source) as runner:
        rows = sum(runner.map(on_block, source))
    return model.bound(prepared, Stats(rows, np.empty(0), ()))
