"""Monte Carlo EM of the tied model: one part per column for all rows, sampled.

A sweep samples the states of all rows given the parts of the columns and the parameters, then the
part of every column given the states, with its parameters integrated out:

    p(r_d = k | s) proportional to a_k prod_j p(x_d of the rows in state j of part k),

a product of evidences. While the chain burns in, pairs of parts are merged and split again: the
columns of both are grouped again by their dependence, a few sweeps settle states and parts of these
columns alone, and the result is taken or not by Metropolis' rule on the joint density of the rows'
entries, states and parts. The rule leaves out how probable the proposals were: moves look for good
parts, and samples count only after the last of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from partwise.contracts import Array, Layout, Runner, Stats
from partwise.data import BlockSource, RowBlock, RowSource, learn_columns
from partwise.engine import Monitor
from partwise.engine.progress import ProgressBar
from partwise.fitted import Fitted, FittedParts, core_of
from partwise.fitting.checkpoint import Checkpoint, FitLog
from partwise.fitting.course import finished, warn_of_holes
from partwise.fitting.family import Family
from partwise.fitting.labels import read_labels
from partwise.fitting.options import Listen, Listener, TrainingRows
from partwise.fitting.record import recorded
from partwise.models.class_variable import ClassVariable
from partwise.models.mcvq import MCVQ, MCVQParams, MCVQPrepared
from partwise.models.selection import draw
from partwise.runners import runner_of
from partwise.starts import dependence_start
from partwise.typing import PathLike

StateFamily: TypeAlias = Family[MCVQParams, MCVQPrepared]
FittedStates: TypeAlias = FittedParts[MCVQParams, MCVQPrepared]

# Share of the sweeps that are not counted, pairs of parts that are split again after each of them,
# and sweeps in which a proposed split settles.
BURN_IN = 0.5
SPLITS_PER_SWEEP = 2
SETTLING_SWEEPS = 4

# Most columns for which it is counted how often two of them share a part.
MAX_PAIRED_COLUMNS = 2000


@dataclass(frozen=True, eq=False)
class TiedState:
    """Parts of the columns (D,), one-hot states of the rows (S, C), and what follows from them."""

    parts: Array
    states: Array
    stats: Stats  # sums of the rows, no column decided
    evidence: Array  # log evidence of every column in every part, (K, D)

    def parameters(self, core: MCVQ) -> MCVQParams:
        """Parameters given states and parts."""
        gates = np.arange(len(core.n_states))[:, None] == self.parts
        return core.start(self.stats, gates.astype(float))

    def joint(self, core: MCVQ) -> float:
        """Log joint density of entries, states and parts, but for the base measure."""
        columns = np.arange(core.n_columns)
        entries = float(self.evidence[self.parts, columns].sum())
        parts = -core.n_columns * float(np.log(len(core.n_states)))
        return entries + parts + log_states(core, self.stats.states)


def log_states(core: MCVQ, counts: Array) -> float:
    """Log probability of the rows' states, (1, S), the priors b integrated out."""
    total = 0.0
    for prior, own in core.parts_of(counts):
        alpha, (n,) = prior.concentration, own
        total += special.gammaln(len(n) * alpha) - special.gammaln(len(n) * alpha + n.sum())
        total += float(np.sum(special.gammaln(alpha + n) - special.gammaln(alpha)))
    return total


def column_evidence(core: MCVQ, stats: Stats) -> Array:
    """Log evidence of every column in every part given the rows' states, (K, D)."""
    out = np.zeros((len(core.n_states), core.n_columns))
    for prior, columns, packed in zip(core.priors, core.columns, stats.sums, strict=True):
        out[:, columns] = core.by_part(prior.evidence(packed.shared))
    return out


@dataclass(frozen=True, eq=False)
class TiedSampler:
    """Samples of states and parts; ``core`` is the tied model of the source's columns."""

    core: MCVQ
    source: BlockSource
    runner: Runner

    def state_of(self, parts: Array, states: Array) -> TiedState:
        """Sums and evidence of given parts (D,) and one-hot states (S, C)."""
        layouts = [
            Layout(np.full(len(g.index), -1), self.core.n_states) for g in self.source.columns
        ]

        def on_block(block: RowBlock, m: Array) -> Stats:
            wm = (m * block.weight).astype(block.dtype)
            return Stats(0.0, wm.sum(axis=1, dtype=float)[None], block.collect(wm, layouts))

        pieces = [states[:, lo:hi] for lo, hi in self.source.bounds]
        stats = Stats.total(self.runner.map(on_block, self.source, pieces))
        return TiedState(parts, states, stats, column_evidence(self.core, stats))

    def sweep(self, params: MCVQParams, rng: np.random.Generator) -> TiedState:
        """States given parameters, then parts given states."""
        core, prepared = self.core, self.core.prepare(params)

        def on_block(block: RowBlock) -> Array:
            return core.infer(prepared, block)[0]

        m = np.concatenate(list(self.runner.map(on_block, self.source)), axis=1)
        states = np.concatenate([draw(m[lo:hi], rng) for lo, hi in pairwise(core.first)])
        state = self.state_of(params.gates.argmax(axis=0), states)
        parts = draw(special.softmax(state.evidence, axis=0), rng).argmax(axis=0)
        return replace(state, parts=np.where(core.chooser.weight > 0, parts, state.parts))

    def resplit(self, state: TiedState, rng: np.random.Generator) -> TiedState:
        """Merge two parts, split them again, and keep the result by Metropolis' rule."""
        after, gain = self.propose(state, rng)
        return after if np.log(rng.random()) < gain else state

    def propose(self, state: TiedState, rng: np.random.Generator) -> tuple[TiedState, float]:
        """Two parts merged and split again, and what the log joint density gains by it."""
        core = self.core
        pair = np.sort(rng.choice(len(core.n_states), 2, replace=False))
        columns = np.flatnonzero(np.isin(state.parts, pair))
        if len(columns) < 2:
            return state, 0.0
        spans = [slice(core.first[k], core.first[k + 1]) for k in pair]
        own = self._on(columns, tuple(core.n_states[k] for k in pair))
        before = own.state_of(
            np.searchsorted(pair, state.parts[columns]),
            np.concatenate([state.states[span] for span in spans]),
        )
        params = own.core.start(*dependence_start(own.source, own.core.n_states, False, rng))
        for _ in range(SETTLING_SWEEPS):
            after = own.sweep(params, rng)
            params = after.parameters(own.core)
        gain = after.joint(own.core) - before.joint(own.core)
        parts, states = state.parts.copy(), state.states.copy()
        parts[columns] = pair[after.parts]
        for span, found in zip(spans, np.split(after.states, [own.core.n_states[0]]), strict=True):
            states[span] = found
        return self.state_of(parts, states), gain

    def _on(self, columns: Array, n_states: tuple[int, ...]) -> TiedSampler:
        """A sampler of some columns in some parts."""
        core, chooser = self.core, self.core.chooser
        own = replace(
            core,
            n_states=n_states,
            priors=(core.priors[0].take(columns),),
            columns=(np.arange(len(columns)),),
            chooser=replace(chooser, weight=chooser.weight[columns]),
        )
        return TiedSampler(own, self.source.of_columns(columns), self.runner)


@dataclass(frozen=True, eq=False)
class Sampled:
    """What the samples after burning in agree on."""

    params: MCVQParams
    monitor: Monitor
    together: Array | None  # share of the samples in which two columns have one part, (D, D)


def sample_parts(
    sampler: TiedSampler, params: MCVQParams, monitor: Monitor, rng: np.random.Generator
) -> Sampled:
    """Sweeps until the monitor says stop; parameters from the sums and parts of the samples."""
    core = sampler.core
    K, D = len(core.n_states), core.n_columns
    n_burn, base = int(BURN_IN * monitor.max_iter), base_of(sampler.source)
    chosen, kept, n_kept = np.zeros((K, D)), None, 0
    together = np.zeros((D, D)) if D <= MAX_PAIRED_COLUMNS else None
    while True:
        state = sampler.sweep(params, rng)
        if monitor.n_iter < n_burn and K > 1:
            for _ in range(SPLITS_PER_SWEEP):
                state = sampler.resplit(state, rng)
        params = state.parameters(core)
        done = monitor.stop(state.joint(core) + base)
        if monitor.n_iter >= n_burn or done:
            n_kept += 1
            chosen += params.gates
            kept = state.stats if kept is None else kept + state.stats
            if together is not None:
                together += state.parts[:, None] == state.parts
        if done:
            break
    assert kept is not None
    params = core.start(kept.scaled(1.0 / n_kept), chosen / n_kept)
    return Sampled(params, monitor, None if together is None else together / n_kept)


def base_of(source: BlockSource) -> float:
    """Log base measure of all entries."""
    return sum(float(block.weight @ block.base) for block in source.blocks())


def fit_tied_draws(
    family: StateFamily,
    rows: TrainingRows,
    y: ArrayLike | None,
    listen: Listen,
    last: FittedStates | None = None,
    checkpoint: PathLike | Checkpoint | None = None,
) -> FittedStates:
    """Learn parts and states by sampling; of several starts the one of the highest density."""
    options, n_columns = family.options, rows.X.shape[1]
    _check(family, rows, y)
    sizes = family.sizes(*rows.X.shape)
    assert sizes is not None
    kind = options.likelihood
    columns = learn_columns(rows.X, kind, rows.weight, options.absent_zero, options.prior)
    warn_of_holes(columns, n_columns, rows.names)
    arguments, deadline = options.arguments, options.ascent.deadline()
    log = FitLog(options.random_state, checkpoint, arguments, rows.X, rows.weight, None)
    source = family.source(rows, columns, None)
    dtype = rows.X.dtype
    core = core_of(family.core(columns, n_columns, dtype, sizes, ClassVariable(), None), MCVQ)
    rng, ascent, found = log.generator(), options.ascent, []
    with (
        listen(rows.X) as listener,
        runner_of(ascent.n_jobs, source) as runner,
        ProgressBar(ascent.name, ascent.max_iter, ascent.verbose) as bar,
    ):
        sampler = TiedSampler(core, source, runner)
        for i, child in enumerate(rng.spawn(1 if last is not None else ascent.n_init)):
            text = f"{ascent.name} start {i + 1}/{ascent.n_init}"
            monitor = _monitor(family, float(rows.weight.sum()), deadline, listener, bar, text)
            first = family.start(core, source, False, child) if last is None else last.params
            found.append(sample_parts(sampler, first, monitor, child))
            if monitor.out_of_time or monitor.interrupted:
                break
        best = max(found, key=lambda one: one.monitor.trace[-1])
        prepared = core.begin(best.params)
        expected = runner.map(lambda block: core.expect(prepared, block, None)[1], source)
        stats = Stats.total(expected)
        listener.on_end(best.monitor)
    total = float(rows.weight.sum())
    record = replace(
        recorded(best.monitor, total), bound=core.bound(prepared, stats) / total,
        n_rows=len(rows.kept), weight=total, co_assignment=best.together,
    )  # fmt: skip
    fitted: FittedStates = Fitted(
        core, best.params, columns, n_columns, dtype, record, rows.names, len(sizes)
    )
    fitted = finished(family, fitted, source, rows.kept, rng.spawn(1)[0])
    log.finish()
    return fitted


def _monitor(
    family: StateFamily,
    weight: float,
    deadline: float,
    listener: Listener,
    bar: ProgressBar,
    text: str,
) -> Monitor:
    """As many sweeps as ``max_iter``: densities of samples do not converge."""
    n = family.options.ascent.max_iter

    def on_step(n_iter: int, joint: float) -> bool:
        bar.update(n_iter, joint, text)
        return listener.on_step(n_iter, joint)

    limits = n, float("-inf"), weight, deadline
    return Monitor(*limits, on_step=on_step, enough=n, halted=listener.halted)


def _check(family: StateFamily, rows: TrainingRows, y: ArrayLike | None) -> None:
    """Refuse what sampling the parts of columns does not support."""
    options, reason = family.options, None
    names, _ = read_labels(y, None, len(rows.kept))
    if family.size_name != "n_states":
        reason = "parts with states (MCVQ); choose another gating for factors"
    elif options.prior is None:
        reason = "a prior, with which it integrates parameters out"
    elif rows.schema is not None:
        reason = "columns of one kind"
    elif isinstance(rows.X, RowSource):
        reason = "rows in memory"
    elif options.n_classes is not None or names is not None:
        reason = "rows without classes; leave out n_classes and y"
    if reason is not None:
        raise ValueError(f'inference="gibbs" with gating="tied" needs {reason}.')
