"""Parts with states of rows that have undergone unknown transformations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, TypeAlias

import numpy as np

from partwise.contracts import Array, DType, Runner
from partwise.data import BlockSource, ColumnGroup, RowBlock
from partwise.data.moved import MovingSource, canvas_columns
from partwise.data.rows import is_sparse
from partwise.fitted import FittedParts, GatedCore, GatedModel, SavedState, core_of
from partwise.fitting.checkpoint import SearchMemo
from partwise.fitting.family import Family, Starts
from partwise.fitting.options import PartsOptions, TrainingRows
from partwise.fitting.states import States, states_of_rows
from partwise.likelihoods import Dirichlet
from partwise.models.class_variable import ClassVariable
from partwise.models.gating import Gates
from partwise.models.moving import Moving, MovingParams, MovingPrepared
from partwise.models.transformations import Transformations
from partwise.starts.congeal import found_places

MovingModel: TypeAlias = GatedModel[MovingParams, MovingPrepared]
FittedMoving: TypeAlias = FittedParts[MovingParams, MovingPrepared]

# Likelihoods whose values mean the same in every column.
MOVABLE = ("gaussian", "bernoulli", "poisson")

# Cells of the rows that a start looks at.
MOST_CELLS = 8_000_000


@dataclass(frozen=True)
class MovingStates(Family[MovingParams, MovingPrepared]):
    """Parts of an MCVQ that describes a canvas, of which rows show a part each."""

    size_name = States.size_name
    background = States.background
    probe = States.probe
    starts: ClassVar[Starts] = States.starts
    sums_without_prior = States.sums_without_prior

    @cached_property
    def _states(self) -> States:
        return States(self.options)

    @property
    def _moves(self) -> Transformations:
        assert self.options.transformations is not None
        return self.options.transformations

    def check_sizes(self, sizes: tuple[int, ...], n_rows: int, n_columns: int) -> None:
        """Refuse more states than rows."""
        self._states.check_sizes(sizes, n_rows, n_columns)

    def on_canvas(
        self, rows: TrainingRows, columns: tuple[ColumnGroup, ...]
    ) -> tuple[ColumnGroup, ...]:
        """Columns of the canvas; refuse rows and options that transformations do not support."""
        moves, n_columns = self._moves, rows.X.shape[1]
        reason = refused(self.options, rows)
        if reason is not None:
            raise ValueError(f"transformations need {reason}.")
        check_columns(moves, n_columns)
        found = canvas_columns(columns[0], rows.X, rows.weight, moves.maps, moves.n_canvas)
        return (found,)

    def source(
        self, rows: TrainingRows, columns: tuple[ColumnGroup, ...], labels: Array | None
    ) -> BlockSource:
        """Rows in blocks that can be seen under transformations."""
        return MovingSource(rows.X, columns, rows.weight, self._moves.maps, labels=labels)

    def core(
        self,
        columns: tuple[ColumnGroup, ...],
        n_columns: int,
        dtype: DType,
        sizes: tuple[int, ...],
        classes: ClassVariable,
        totals: Array | None,
    ) -> Moving:
        """The model for a canvas with these columns."""
        canvas = self._states.core(columns, n_columns, dtype, sizes, classes, totals)
        prior = self.options.prior
        return Moving(canvas, self._moves, Dirichlet(prior.states if prior else 0.0))

    def core_in(self, model: MovingModel) -> Moving:
        """The model itself."""
        return core_of(model, Moving)

    def start(
        self,
        core: GatedCore[MovingParams, MovingPrepared],
        source: BlockSource,
        background: bool,
        rng: np.random.Generator,
    ) -> MovingParams:
        """First parameters, from rows placed by a template of one state."""
        model, some = self.core_in(core), source
        canvas, start = model.canvas, self.starts[self.options.init]
        if len(model.maps) > 1:  # with one there is nothing to find
            some = source.sample(MOST_CELLS, rng)
        assert isinstance(some, MovingSource)

        def template(n_states: int) -> Moving:
            sizes, none = (n_states,), ClassVariable()
            return self.core(some.canvas, model.n_columns, canvas.dtype, sizes, none, None)

        rows, counts = found_places(template, start, some, sum(canvas.n_states), rng)
        stats, gates = start(rows, canvas.n_states, background, rng)
        share = float(source.weight.sum() / some.weight.sum())
        return model.parameters(canvas.start(stats.scaled(share), gates), counts * share)

    def search(
        self,
        core: GatedCore[MovingParams, MovingPrepared],
        source: BlockSource,
        runner: Runner,
        rng: np.random.Generator,
        late: Callable[[], bool],
        memo: SearchMemo,
    ) -> tuple[MovingParams, list[dict[str, object]]]:
        """Sizes are given: `refused` says so before."""
        raise NotImplementedError

    def sizes_in(self, params: MovingParams) -> tuple[int, ...]:
        """Numbers of states."""
        return params.n_states

    def below(
        self,
        model: MovingModel,
        prepared: MovingPrepared,
        block: RowBlock,
        g: int,
        rows: Array,
        columns: Array,
        values: Array,
    ) -> Array:
        """Intervals are not calibrated."""
        raise NotImplementedError

    def saved(self, fitted: FittedMoving) -> dict[str, object]:
        """Parameters of the canvas, and expected rows under each transformation."""
        params = fitted.params.canvas
        return {
            "theta": {"chi": params.chi, "state_counts": params.state_counts},
            "schema": None,
            "transformation_counts": fitted.params.counts,
        }

    def restored(
        self, core: GatedCore[MovingParams, MovingPrepared], state: SavedState, gate: Gates
    ) -> MovingParams:
        """Parameters from a file."""
        kept, model = state["theta"], self.core_in(core)
        canvas = model.canvas.parameters(kept["chi"], gate, kept["state_counts"])
        return model.parameters(canvas, state["transformation_counts"])

    def n_saved(self, state: SavedState) -> int:
        """Number of classes."""
        return self._states.n_saved(state)

    def row_labels(self, fitted: FittedMoving, source: BlockSource, kept: Array) -> Array:
        """State of every part in the training rows, (C, K), -1 for rows without weight."""
        first = self.core_in(fitted.model).first
        return states_of_rows(fitted, first, source, kept, self.options.ascent.n_jobs)


def check_columns(moves: Transformations, n_columns: int) -> None:
    """Refuse transformations of rows with other columns."""
    if moves.n_columns != n_columns:
        raise ValueError(
            f"transformations are of rows with {moves.n_columns} columns, but X has {n_columns}; "
            "give the image_shape of the rows of X."
        )


def refused(options: PartsOptions, rows: TrainingRows) -> str | None:
    """What transformations need that is not so, in words."""
    if is_sparse(rows.X):
        return "dense X; pass X.toarray(), with NaN for missing values"
    if rows.schema is not None or not isinstance(options.likelihood, str):
        return "columns of one kind; choose one likelihood by name instead of a table's kinds"
    if options.likelihood not in MOVABLE:
        names = ", ".join(f'"{name}"' for name in MOVABLE)
        return f"a likelihood whose values mean the same in every column: one of {names}"
    if not options.is_tied or options.inference != "variational":
        return 'gating="annealed" or "tied" and inference="variational"'
    if options.is_sought:
        return 'numbers of parts and states; "auto" compares models of rows that stay in place'
    return None
