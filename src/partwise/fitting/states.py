"""Parts with states: what a fit needs to know of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import ClassVar, TypeAlias

import numpy as np

from partwise.contracts import Array, DType, Runner, Stats
from partwise.data import BlockSource, ColumnGroup, RowBlock
from partwise.data.rows import is_sparse
from partwise.engine import Monitor, climb
from partwise.fitted import FittedParts, core_of
from partwise.fitting.checkpoint import SearchMemo
from partwise.fitting.family import Family, Starts
from partwise.fitting.options import SearchLimits
from partwise.fitting.state_moves import StateMoves
from partwise.fitting.state_search import Search
from partwise.fitting.state_trials import Trials
from partwise.likelihoods import Dirichlet
from partwise.models import predict
from partwise.models.class_tree import Links
from partwise.models.class_variable import ClassVariable
from partwise.models.gated import GatedCore, GatedModel, P, R
from partwise.models.gating import Gates
from partwise.models.mcvq import MCVQ, MCVQParams, MCVQPrepared
from partwise.runners import runner_of
from partwise.starts import dependence_start, random_start
from partwise.starts.dependence import ROWS_A_STATE, Dependence, dependence
from partwise.starts.rows import distinct_rows, some_rows
from partwise.typing import SavedState

StateCore: TypeAlias = GatedCore[MCVQParams, MCVQPrepared]
StateModel: TypeAlias = GatedModel[MCVQParams, MCVQPrepared]
FittedStates: TypeAlias = FittedParts[MCVQParams, MCVQPrepared]


# Resolution of entries while sizes are selected, as a fraction of a column's variance. Without it,
# the ELBO of noiseless states grows without bound; a third of it still finds the states of the
# noiseless shapes. The selected model is fitted without it, so that narrow columns stay narrow.
SEARCH_RESOLUTION = 0.01

# Share of the cells that must be observed. In ratings, a twentieth of which is known, the revision
# makes the fit a third longer and hardly changes a prediction.
LEAST_OBSERVED = 0.1

# EM iterations after which two starts are compared.
JUDGED_STEPS = 3

# Cells of the rows on which states are split and merged.
JUDGED_CELLS = 2_000_000


@dataclass(frozen=True)
class States(Family[MCVQParams, MCVQPrepared]):
    """Parts of an MCVQ."""

    size_name = "n_states"
    background = 1  # a part of one state
    probe = 3
    starts: ClassVar[Starts] = {"dependence": dependence_start, "random": random_start}
    sums_without_prior = True  # parameters are shares of the sums, whose weight is known

    def check_sizes(self, sizes: tuple[int, ...], n_rows: int, n_columns: int) -> None:
        """Refuse more states than rows."""
        if max(sizes) > n_rows:
            raise ValueError(
                f"n_states={max(sizes)} is more than n_samples={n_rows}, the rows with weight; "
                "lower n_states or give more rows."
            )

    def start(
        self,
        core: StateCore,
        source: BlockSource,
        background: bool,
        rng: np.random.Generator,
    ) -> MCVQParams:
        """First parameters."""
        return core.start(*self.first_sums(core, source, background, rng))

    def first_sums(
        self, core: StateCore, source: BlockSource, background: bool, rng: np.random.Generator
    ) -> tuple[Stats, Array]:
        """First sums and gates."""
        if self.options.init != "dependence":
            return random_start(source, core.sizes, background, rng)
        quick = self.options.quick_start
        judge = None if quick else partial(_bound_after, core)
        return dependence_start(source, core.sizes, background, rng, quick=quick, judge=judge)

    def revises(self, source: BlockSource) -> bool:
        """Where states have evidence and enough is observed, unless a rough start suffices."""
        observed = sum(group.weight.sum() for group in source.columns)
        enough = observed >= LEAST_OBSERVED * source.weight.sum() * source.X.shape[1]
        return self.options.wants_background and not self.options.quick_start and bool(enough)

    def revised(
        self,
        core: StateCore,
        source: BlockSource,
        rng: np.random.Generator,
        late: Callable[[], bool],
        params: MCVQParams,
    ) -> MCVQParams:
        """Parameters with states split and merged to as many, where that raises the bound.

        Annealing leaves some states without rows and some with rows of two kinds. Of many rows a
        sample is looked at, which determines the states that EM goes on with. If time runs out,
        the parameters are returned as they are.
        """
        own = self.core_in(core)
        some, found = _judged_rows(source, max(own.n_states), rng)
        limits = SearchLimits(len(own.n_states) - 1, None, None, self.options.ascent.tol)
        with runner_of(self.options.ascent.n_jobs, some) as runner:
            trials = Trials(own, some, runner, rng, limits, found, late)
            before = trials.parts_by(params)
            after = StateMoves(trials, late).regrouped(before)
            same = all(new is old for new, old in zip(after, before, strict=True))
            return params if same else trials.parameters(own, after)

    def to_search(self, columns: tuple[ColumnGroup, ...]) -> tuple[ColumnGroup, ...]:
        """Numbers known to a fraction of their variance, unless the user's prior decides."""
        if not self.options.usual_prior:
            return columns
        return tuple(
            replace(group, likelihood=group.likelihood.coarse(SEARCH_RESOLUTION))
            for group in columns
        )

    def core(
        self,
        columns: tuple[ColumnGroup, ...],
        n_columns: int,
        dtype: DType,
        sizes: tuple[int, ...],
        classes: ClassVariable,
        totals: Array | None,
    ) -> MCVQ:
        """The model for some columns."""
        prior, chooser = self.options.prior, self.chooser(columns, n_columns)
        if self.options.is_sought:  # a part of one state has nothing that the background lacks
            idle = np.append(np.asarray(sizes[:-1]) == 1, False)
            chooser = replace(chooser, barred=np.repeat(idle[:, None], len(chooser.weight), 1))
        return MCVQ(
            sizes,
            tuple(group.entry_prior(prior) for group in columns),
            tuple(group.index for group in columns),
            chooser,
            Dirichlet(prior.states if prior else 0.0),
            classes,
            dtype,
        )

    def core_in(self, model: StateModel) -> MCVQ:
        """The core of a model; a core is its own core."""
        return core_of(model, MCVQ)

    def search(
        self,
        core: StateCore,
        source: BlockSource,
        runner: Runner,
        rng: np.random.Generator,
        late: Callable[[], bool],
        memo: SearchMemo,
    ) -> tuple[MCVQParams, list[dict[str, object]]]:
        """Parameters of the sizes that the ELBO selects, and the moves of the search."""
        own = self.core_in(core)
        trials = Trials(own, source, runner, rng, SearchLimits.of(self.options), late=late)
        search = Search(trials, late, memo)
        parts = search.run()
        n_states = (*(part.n_states for part in parts), self.background)
        dtype = source.X.dtype
        sized = self.core(source.columns, own.n_columns, dtype, n_states, own.classes, None)
        return trials.parameters(sized, parts), search.path

    def sizes_in(self, params: MCVQParams) -> tuple[int, ...]:
        """Numbers of states."""
        return params.n_states

    def below(
        self,
        model: StateModel,
        prepared: MCVQPrepared,
        block: RowBlock,
        g: int,
        rows: Array,
        columns: Array,
        values: Array,
    ) -> Array:
        """Probability that a cell of group g is below a value, in model units."""
        core, params = self.core_in(model), prepared.params
        law, gates = core.priors[g].predictive(params.chi[g]), params.gates[:, core.columns[g]]
        m = model.infer(prepared, block)[0]
        return predict.probability_below(law, m, gates, core.part_of, rows, columns, values)

    def saved(self, fitted: FittedStates) -> dict[str, object]:
        """Parameters of the entries, counts of states, and what the columns of a table are."""
        params, schema = fitted.params, fitted.schema
        return {
            "theta": {"chi": params.chi, "state_counts": params.state_counts},
            "schema": None if schema is None else schema.state(),
        }

    def restored(self, core: StateCore, state: SavedState, gate: Gates) -> MCVQParams:
        """Parameters from a file."""
        kept = state["theta"]
        links = Links(**state["links"]) if "links" in state else None
        return self.core_in(core).parameters(kept["chi"], gate, kept["state_counts"], links)

    def n_saved(self, state: SavedState) -> int:
        """Number of classes."""
        if "links" in state:
            return int(state["links"]["counts"].shape[1])
        return len(state["theta"]["state_counts"])

    def row_labels(self, fitted: FittedStates, source: BlockSource, kept: Array) -> Array:
        """State of every part in the training rows, (C, K), -1 for rows without weight."""
        first = self.core_in(fitted.model).first
        return states_of_rows(fitted, first, source, kept, self.options.ascent.n_jobs)


def _bound_after(core: StateCore, some: BlockSource, stats: Stats, gates: Array) -> float:
    """Bound per row after a few EM iterations; some rows stand for those of the first sums."""
    weight = float(stats.states.sum()) / len(core.sizes)
    rows = some.with_rows(some.X, some.weight * (weight / some.weight.sum()))
    monitor = Monitor(JUDGED_STEPS, 0.0, weight)
    with runner_of(None, rows) as runner:
        climb(core, core.start(stats, gates), rows, runner, monitor)
    return monitor.trace[-1] / weight


def _judged_rows(
    source: BlockSource, n_states: int, rng: np.random.Generator
) -> tuple[BlockSource, Dependence]:
    """Rows in memory, all or a sample with the weight of all, and their dependence."""
    n_rows, n_columns = source.X.shape
    cells = source.X.nnz if is_sparse(source.X) else n_rows * n_columns
    most = max(n_rows * JUDGED_CELLS // max(cells, 1), ROWS_A_STATE * n_states)
    kinds, weight = distinct_rows(source)
    if most >= n_rows and not source.reads:
        return source, dependence(source, rng, (kinds, weight))
    source.forget()  # the blocks of all rows are not used until EM goes on
    few = some_rows(weight, most, rng)
    some = source.of_rows(kinds[few], weight[few] * (weight.sum() / weight[few].sum()))
    return some, dependence(some, rng, (np.arange(len(few)), some.weight))


def states_of_rows(
    fitted: FittedParts[P, R], first: Array, source: BlockSource, kept: Array, n_jobs: int | None
) -> Array:
    """State of every part in the training rows, (C, K); ``first`` numbers the parts' states."""
    assert fitted.n_parts is not None
    bounds = list(pairwise(first[: fitted.n_parts + 1]))

    def on_block(block: RowBlock) -> Array:
        m = fitted.model.infer(fitted.prepared, block)[0]
        return np.stack([m[lo:hi].argmax(axis=0) for lo, hi in bounds], axis=1)

    # There may be very many rows: labels are no larger than the number of states asks for.
    dtype = np.promote_types(np.int16, np.min_scalar_type(-int(first[-1])))
    labels = np.full((len(kept), fitted.n_parts), -1, dtype)
    rows = None if kept.all() else np.flatnonzero(kept)
    with runner_of(n_jobs, source) as runner:
        for (lo, hi), found in zip(source.bounds, runner.map(on_block, source), strict=True):
            labels[slice(lo, hi) if rows is None else rows[lo:hi]] = found
    return labels
