"""Fitting a model of gated parts, MCVQ or MCFA: one course for both.

First the parts are learned without classes: from a start, through annealing or from a tied solution
to a factorised one. A class variable is then put on top, begun with the parts as they are, and all
is climbed together. An estimator gives its sizes, core, start and description; here is the rest.
"""

from __future__ import annotations

import time
from copy import copy
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np

from partwise._warnings import warn
from partwise.contracts import Array, Stats
from partwise.data import BlockSource, ColumnGroup, RowBlock, by_column, learn_columns
from partwise.data.rows import is_sparse
from partwise.engine import Monitor
from partwise.engine.randomness import as_generator
from partwise.fitting.calibrate import calibrate
from partwise.fitting.checkpoint import FitLog
from partwise.fitting.labels import read_labels
from partwise.fitting.restarts import Stage
from partwise.likelihoods import LAWS, Dirichlet, Prior
from partwise.models.calibration import Calibration
from partwise.models.class_variable import ClassVariable
from partwise.models.gating import Chooser, Gating, Standard, Tied
from partwise.models.rowwise import Rowwise
from partwise.models.selection import Draws, Expected, Selection
from partwise.runners import runner_of
from partwise.starts.classes import class_number, class_start

# Annealing: sweeps in which the temperature falls from the mean number of a column's observations
# (at which a column weighs its evidence per observation, as the standard gating does) to 1. The
# papers lower it linearly; a constant factor spends its sweeps where gates begin to close.
ANNEALING_SWEEPS = 40

# Where columns are of several kinds, states begin roughly (rows are clustered on scores, not by the
# columns' laws), and plain steps take longer to show what the start was worth.
MIXED_PROBE = 20

# Gibbs: rounds over a block averaged in one EM step, and EM steps averaged before the log joint
# density is compared with what it was.
GIBBS_ROUNDS = 4
GIBBS_WINDOW = 10

# Attributes that only some fits set.
OPTIONAL = ("classes_", "class_priors_", "factor_means_", "factor_covariances_", "row_labels_")

# Numbers of evidence that classes begin from; of more rows a sample is taken.
MOST_EVIDENCE = 20_000_000


def fit_gated(estimator: Any, X: Any, y: Any, sample_weight: Any, checkpoint: Any = None) -> Any:
    """Learn from checked arguments; sets all learned attributes."""
    X, weight, kept = estimator._check_fit_rows(X, sample_weight)
    sought = estimator.n_classes == "auto"
    deadline = estimator._deadline()
    names, labels = read_labels(y, None if sought else estimator.n_classes, len(kept))
    if sought and names is None:
        names = _found_classes(estimator, X, weight, kept, deadline)
    labels = None if labels is None or names is None else _with_rows(labels[kept], names)
    return fit_rows(estimator, X, weight, kept, names, labels, deadline, checkpoint)


def fit_rows(
    estimator: Any,
    X: Any,
    weight: Array,
    kept: Array,
    names: Array | None,
    labels: Array | None,
    deadline: float,
    checkpoint: Any = None,
) -> Any:
    """Learn from checked rows (those that ``kept`` names, of all), classes and labels."""
    sizes = estimator._sizes(X.shape[0])
    absent_zero = estimator._absent_zero()
    again = estimator.warm_start and hasattr(estimator, "_theta")
    columns = learn_columns(X, estimator._likelihood, weight, absent_zero, prior_of(estimator))
    estimator._warn_of_holes(columns)
    sought = sizes is None and not again
    if again:
        sizes, columns = _resumed(estimator, sizes, columns, names)
    elif sizes is None:
        sizes = (1, estimator._background)  # of no matter
    else:
        estimator.n_parts_ = len(sizes)
        sizes = (*sizes, estimator._background) if wants_background(estimator) else sizes
    background = not sought and len(sizes) > estimator.n_parts_
    log = FitLog(estimator, checkpoint, X, weight, labels)
    rng = log.generator()
    check_pairing(estimator, is_sparse(X) and absent_zero)
    estimator._dtype = X.dtype
    classes = class_variable(estimator, 1 if names is None else len(names))
    source = BlockSource(X, columns, weight, labels=labels, n_powers=estimator._n_powers)
    totals = estimator._totals(source)
    core = estimator._core(columns, sizes, ClassVariable(), totals)
    full = replace(core, classes=classes)

    def begin(i: int, child: np.random.Generator) -> tuple[list[Stage], Any]:
        if again:
            theta = estimator._theta
            return _stages(estimator, full, columns, theta, child, again), theta
        own = core
        if sought:
            search = partial(_search, estimator, core, source, child, deadline)
            theta, path = log.once("start", child, search)
            own = estimator._core(columns, estimator._sizes_in(theta), ClassVariable(), totals)
            log.told[i:] = [path]
            stages = [Stage(estimator._modelled(own, columns))]
        else:
            start = partial(estimator._start, core, source, background, child)
            theta = log.once("start", child, start)
            stages = _stages(estimator, core, columns, theta, child, again)
        if classes.n_classes > 1:
            last, full_own = stages[-1], replace(own, classes=classes)
            enter = partial(_enter_classes, full_own, last.model, source, child)
            model = _with_core(last.model, full_own)
            stages.append(replace(last, model=model, annealing=(), enter=enter))
        return stages, theta

    n_init = 1 if again else estimator.n_init
    model, theta, monitor = estimator._climb_best(source, begin, rng, X, n_init, deadline, log)
    if sought:
        own = estimator._core(columns, estimator._sizes_in(theta), classes, totals)
        model = _with_core(model, own)
    full = core_of(model)
    estimator._columns = columns
    estimator._keep(model, full.finish(theta) if selects_by_row(estimator) else theta)
    if sought:
        estimator.n_parts_ = len(full.sizes) - 1
        estimator.size_path_ = log.told_of_best
        if not (monitor.out_of_time or monitor.interrupted):
            _warn_of_nothing(theta.gates)
    elif not again:
        estimator.__dict__.pop("size_path_", None)
    for name in (*OPTIONAL, "_running"):
        estimator.__dict__.pop(name, None)  # of a fit before
    if names is not None:
        estimator.classes_ = names
    estimator.n_samples_seen_, estimator.weight_seen_ = len(kept), float(weight.sum())
    _describe(estimator, source, monitor, kept, rng.spawn(1)[0])
    log.finish()
    return estimator


def _describe(
    estimator: Any, source: BlockSource, monitor: Monitor, kept: Array, rng: np.random.Generator
) -> None:
    """Set what is told of a fit, and calibrate its intervals."""
    total = float(source.weight.sum())
    estimator.lower_bounds_ = np.asarray(monitor.trace) / total
    estimator.lower_bound_ = float(estimator.lower_bounds_[-1])
    estimator.n_iter_, estimator.converged_ = monitor.n_iter, monitor.converged
    if estimator._inference == "gibbs":
        expected = rowwise(estimator, core_of(estimator._model), Expected())
        estimator._keep(expected, estimator._theta)
        estimator.lower_bound_ = bound_of_draws(estimator, source) / total
    estimator._calibration = calibrate(
        estimator._model, estimator._theta, source, estimator._below, rng, estimator.n_jobs
    )
    estimator._describe()
    estimator._label_rows(source, kept)


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


def restore(estimator: Any, state: dict[str, Any]) -> None:
    """Set what a file holds besides the parameters."""
    estimator._columns = tuple(
        ColumnGroup.restore(group, prior_of(estimator)) for group in state["columns"]
    )
    estimator._dtype = np.dtype(state["dtype"])
    estimator._calibration = Calibration(**state["calibration"])
    # Files of earlier versions have no number of parts besides the argument.
    for learned, value in {"n_parts_": estimator.n_parts, **state["learned"]}.items():
        setattr(estimator, learned, value)


def column_state(columns: tuple[ColumnGroup, ...]) -> list[dict[str, Any]]:
    """Column groups as plain values; `restore` reads them."""
    return [group.state() for group in columns]


def _search(
    estimator: Any, core: Any, source: BlockSource, rng: np.random.Generator, deadline: float
) -> tuple[Any, list[dict[str, Any]]]:
    """Parameters of the sizes that the evidence wants, and the way there."""
    with runner_of(estimator.n_jobs, source) as runner:
        late = partial(_is_over, estimator, deadline)
        return estimator._search(core, source, runner, rng, late)


def _is_over(estimator: Any, deadline: float) -> bool:
    return bool(estimator._halted) or time.monotonic() > deadline


def _warn_of_nothing(gates: Array) -> None:
    """Say so where no column depends on any part."""
    if not np.any(gates.argmax(axis=0) < len(gates) - 1):
        warn(
            "No column depends on another by the evidence: all columns are background, and the one "
            "part has one state; give n_parts and n_states if you know better."
        )


def is_sought(estimator: Any) -> bool:
    """Whether some size is left to the evidence."""
    sizes = (estimator.n_parts, getattr(estimator, estimator._size_name))
    return any(isinstance(size, str) for size in sizes)


def given(size: Any) -> int | None:
    """A size, None where it is sought."""
    return None if isinstance(size, str) else int(np.max(size))


def check_sought(estimator: Any, size: Any, name: str) -> None:
    """Refuse sizes that no evidence can tell."""
    if not isinstance(size, str | Integral) and isinstance(estimator.n_parts, str):
        raise ValueError(
            f'n_parts="auto" does not go with {name}={size!r}, one number a part; give one number '
            'for all parts, or "auto".'
        )
    if not wants_background(estimator):
        raise ValueError(
            f'n_parts="auto" and {name}="auto" are judged by the evidence; choose '
            'gating="annealed" or "tied", inference="variational" and a prior, or give numbers.'
        )
    if estimator.init != "dependence":
        raise ValueError(
            f'n_parts="auto" and {name}="auto" begin with the columns\' dependence; choose '
            'init="dependence", or give numbers.'
        )


def sizes_of(size: Any, n_parts: int, name: str) -> tuple[int, ...]:
    """Size of every part from one number or one a part."""
    if isinstance(size, Integral):
        return (int(size),) * int(n_parts)
    sizes = tuple(int(j) for j in np.atleast_1d(size))
    if len(sizes) != n_parts or min(sizes, default=0) < 1:
        raise ValueError(
            f"{name}={size!r} must be a number, or {n_parts} positive numbers, one a part "
            "(n_parts)."
        )
    return sizes


def prior_of(estimator: Any) -> Prior | None:
    """Strengths of the priors, None for maximum likelihood."""
    return estimator._usual_prior if isinstance(estimator.prior, str) else estimator.prior


def class_variable(estimator: Any, n_classes: int) -> ClassVariable:
    """The class variable with the estimator's prior."""
    prior = prior_of(estimator)
    return ClassVariable(n_classes, Dirichlet(prior.states if prior else 0.0))


def chooser(estimator: Any, columns: tuple[ColumnGroup, ...]) -> Chooser:
    """How columns choose parts, by the estimator's arguments."""
    prior = prior_of(estimator)
    gating: Gating = Tied() if estimator.gating in ("annealed", "tied") else Standard()
    n_columns = max(estimator.n_features_in_, len(columns[0].index))  # some may have arrived since
    return Chooser(
        gating,
        Dirichlet(prior.gates if prior else 0.0),
        float(estimator.gate_entropy),
        by_column(columns, [group.weight for group in columns], n_columns),
    )


def wants_background(estimator: Any) -> bool:
    """Whether a part without appearances shall take the columns that no other part explains.

    Its evidence can win only where parameters have a prior and a column chooses once.
    """
    tied = estimator.gating in ("annealed", "tied") and estimator._inference == "variational"
    return tied and estimator.prior is not None


def selects_by_row(estimator: Any) -> bool:
    """Whether every row selects parts for its own entries."""
    return estimator._inference == "gibbs" or estimator.gating == "factorised"


def has_latent(estimator: Any) -> bool:
    """Whether entries stand for latent numbers, of which rows keep posteriors."""
    name = estimator._likelihood
    return isinstance(name, str) and name in LAWS and LAWS[name].latent


def refuses_stream(estimator: Any) -> str | None:
    """What the sums that `partial_fit` goes on with do not tell all of, if anything."""
    if estimator._inference == "gibbs":
        return 'inference="gibbs"'
    if estimator.gating == "factorised":
        return 'gating="factorised"'
    if has_latent(estimator):
        return f'likelihood="{estimator.likelihood}"'
    # How sure parameters are says from how many rows they come; without a prior they are sure.
    fitted = hasattr(estimator, "_theta") and not hasattr(estimator, "_running")
    if fitted and estimator.prior is None and not estimator._sums_without_prior:
        return "a model of prior=None that fit has learned; begin with partial_fit"
    return None


def check_pairing(estimator: Any, absent_zero: bool) -> None:
    """Refuse selections of entries that are not stored, and levels that are not seen."""
    if has_latent(estimator) and (absent_zero or selects_by_row(estimator)):
        what = 'sparse_absent="zero"' if absent_zero else 'gating="factorised"'
        raise ValueError(
            f'likelihood="{estimator.likelihood}" does not go with {what}; choose '
            'sparse_absent="unobserved" and gating="annealed", "tied" or "standard".'
        )
    if selects_by_row(estimator) and absent_zero:
        gibbs = estimator._inference == "gibbs"
        which = 'inference="gibbs"' if gibbs else 'gating="factorised"'
        raise ValueError(
            f"{which} selects a part for every entry, which sparse X with absent zeros does "
            'not store; pass X.toarray(), or choose gating="annealed", "tied" or "standard" '
            'with inference="variational".'
        )


def rowwise(estimator: Any, core: Any, select: Selection, n_rounds: int = 2) -> Rowwise:
    """The model with selections of rows' own, begun as ``init`` says."""
    return Rowwise(core, select, n_rounds, from_gates=estimator.init == "random")


def core_of(model: Any) -> Any:
    """The model's core, whether or not rows remember something of their own on top of it."""
    return getattr(model, "core", model)


def _with_core(model: Any, core: Any) -> Any:
    return replace(model, core=core) if hasattr(model, "core") else core


def _resumed(
    estimator: Any, sizes: tuple[int, ...] | None, columns: tuple[ColumnGroup, ...], names: Any
) -> tuple[tuple[int, ...], tuple[ColumnGroup, ...]]:
    """Sizes and columns of the last fit, which must suit the new data."""
    core = core_of(estimator._model)
    same = len(columns) == len(estimator._columns) and all(
        type(a.likelihood) is type(b.likelihood) and np.array_equal(a.index, b.index)
        for a, b in zip(estimator._columns, columns, strict=True)
    )
    same &= (1 if names is None else len(names)) == core.classes.n_classes
    old, n_parts = core.sizes, estimator.n_parts_
    if (sizes is not None and old[:n_parts] != sizes) or not same:
        raise ValueError(
            f"warm_start=True needs the columns, n_parts, {estimator._size_name}, classes and "
            "likelihood of the last fit; set warm_start=False to begin anew."
        )
    # Units and levels stay, or the parameters would mean something else.
    kept = [
        replace(a, weight=b.weight, likelihood=b.likelihood, absent_zero=b.absent_zero)
        for a, b in zip(estimator._columns, columns, strict=True)
    ]
    return old, tuple(kept)


def _stages(
    estimator: Any,
    core: Any,
    columns: tuple[ColumnGroup, ...],
    theta: Any,
    rng: np.random.Generator,
    again: bool,
) -> list[Stage]:
    """Models to climb with one after the other."""
    if estimator._inference == "gibbs":
        draws = Draws(int(rng.integers(2**63 - 1)))
        return [Stage(rowwise(estimator, core, draws, GIBBS_ROUNDS), window=GIBBS_WINDOW)]
    if estimator.gating == "factorised":
        stages = [Stage(rowwise(estimator, core, Expected()))]
        if estimator.init == "dependence" and not again:
            stages.insert(0, Stage(_chosen_by(core, gating=Tied())))
        return stages
    n_parts = estimator.n_parts_
    if estimator.gating == "annealed" and n_parts > 1 and not again:
        weight = core.chooser.weight
        hottest = max(weight.sum() / max(np.count_nonzero(weight), 1), 1.0)
        temperatures = np.geomspace(hottest, 1.0, ANNEALING_SWEEPS, endpoint=False)
        barred = None
        if len(core.sizes) > n_parts:
            # Between background and parts no column changes sides while the temperature falls:
            # until the states have formed, one state for all rows looks better than it is.
            is_background = np.arange(len(theta.gates))[:, None] == n_parts
            barred = is_background != (theta.gates.argmax(axis=0) == n_parts)
        annealing = [
            estimator._modelled(_chosen_by(core, gating=Tied(1.0 / t), barred=barred), columns)
            for t in temperatures
        ]
        probe = estimator._probe if len(columns) == 1 else MIXED_PROBE
        return [Stage(estimator._modelled(core, columns), annealing, probe=probe)]
    return [Stage(estimator._modelled(core, columns))]


def _chosen_by(core: Any, **changes: Any) -> Any:
    return replace(core, chooser=replace(core.chooser, **changes))


def _found_classes(estimator: Any, X: Any, weight: Array, kept: Array, deadline: float) -> Array:
    """Names of as many classes as the parts of a fit without classes tell of."""
    if prior_of(estimator) is None:
        raise ValueError(
            'n_classes="auto" needs a prior: without one more classes always fit better.'
        )
    if estimator.warm_start and hasattr(estimator, "classes_"):
        return estimator.classes_
    plain, rng = copy(estimator), as_generator(estimator.random_state)
    plain.__dict__.pop("_theta", None)  # of a fit before
    fit_rows(plain, X, weight, kept, None, None, deadline)
    source = BlockSource(X, plain._columns, weight, n_powers=plain._n_powers)
    core = replace(core_of(plain._model), classes=class_variable(plain, 1))
    return np.arange(class_number(core, *_evidence(plain._model, source, rng, plain._theta), rng))


def _enter_classes(
    full: Any, model: Any, source: BlockSource, rng: np.random.Generator, theta: Any
) -> Any:
    """Begin the classes with the parts as they are."""
    return class_start(full, *_evidence(model, source, rng, theta), rng)


def _evidence(
    model: Any, source: BlockSource, rng: np.random.Generator, theta: Any
) -> tuple[Any, list[tuple[Array, Array, Array | None]]]:
    """Parameters, and what rows (some, of very many) say of the states, their weights, labels."""
    core = core_of(model)
    prepared = model.begin(theta)
    rows = MOST_EVIDENCE // int(core.first[-1])
    if source.X.shape[0] > rows:
        some = rng.choice(source.X.shape[0], rows, replace=False)
        if source.labels is not None:  # of every class some row
            some = np.append(some, np.unique(source.labels, return_index=True)[1])
        source = source.of_rows(np.unique(some))
    settled = rowwise_as_expected(model)

    def on_block(block: RowBlock) -> tuple[Array, Array, Array | None]:
        return settled.evidence(prepared, block), block.weight, block.labels

    return theta, list(source.each(on_block))


def rowwise_as_expected(model: Any) -> Any:
    """The model without draws."""
    return replace(model, select=Expected()) if isinstance(model, Rowwise) else model


def bound_of_draws(estimator: Any, source: BlockSource) -> float:
    """Factorised lower bound of parameters learned by drawing."""
    model, prepared = estimator._model, estimator._prepared

    def on_block(block: RowBlock) -> float:
        return float(block.weight @ (model.infer(prepared, block)[1] + block.base))

    with runner_of(estimator.n_jobs, source) as runner:
        rows = sum(runner.map(on_block, source))
    return model.bound(prepared, Stats(rows, np.empty(0), ()))
