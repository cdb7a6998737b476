"""Parts with states or factors of rows that have undergone unknown transformations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, TypeAlias, cast

import numpy as np

from partwise.contracts import AnyParams, Array, DType, Runner
from partwise.data import BlockSource, ColumnGroup, RowBlock, learn_columns
from partwise.data.moved import MovingSource, canvas_columns
from partwise.data.rows import is_sparse
from partwise.fitted import AnyCore, AnyParts, FittedParts, core_of
from partwise.fitting.checkpoint import SearchMemo
from partwise.fitting.factors import Factors
from partwise.fitting.family import Family
from partwise.fitting.options import PartsOptions, TrainingRows
from partwise.fitting.states import StateModel, States, states_of_rows
from partwise.likelihoods import Dirichlet
from partwise.models.canvas import Canvas, FactorCanvas, StateCanvas
from partwise.models.class_variable import ClassVariable
from partwise.models.gated import GatedCore, GatedModel
from partwise.models.gating import Gates
from partwise.models.mcfa import MCFA
from partwise.models.mcvq import MCVQ
from partwise.models.moving import Moving, MovingParams, MovingPrepared
from partwise.models.transformations import Transformations
from partwise.starts.congeal import TEMPLATE_STATES, found_places, placed_rows
from partwise.typing import SavedState

MovingModel: TypeAlias = GatedModel[MovingParams, MovingPrepared]
Random: TypeAlias = np.random.Generator
FittedMoving: TypeAlias = FittedParts[MovingParams, MovingPrepared]

# Likelihoods whose values mean the same in every column.
MOVABLE = ("gaussian", "bernoulli", "poisson")

# Cells of the rows that a start looks at.
MOST_CELLS = 8_000_000


@dataclass(frozen=True)
class MovingFamily(Family[MovingParams, MovingPrepared]):
    """Parts of a model that describes a canvas, of which rows show a part each.

    A subclass names the kind of parts (``kind``) and how they start from rows in place.
    """

    kind: ClassVar[type[Family[AnyParams, AnyParams]]]

    def __init_subclass__(cls) -> None:
        """What is said of a kind of parts holds on a canvas, too."""
        for name in ("size_name", "background", "probe", "starts", "sums_without_prior"):
            setattr(cls, name, getattr(cls.kind, name))

    @cached_property
    def _inner(self) -> Family[AnyParams, AnyParams]:
        """The parts of the canvas."""
        return self.kind(self.options)

    @property
    def _moves(self) -> Transformations:
        assert self.options.transformations is not None
        return self.options.transformations

    @abstractmethod
    def first_canvas(
        self, canvas: Canvas, rows: BlockSource, background: bool, share: float, rng: Random
    ) -> object:
        """First parameters of the canvas from rows in place, a ``share`` of all."""

    def check_sizes(self, sizes: tuple[int, ...], n_rows: int, n_columns: int) -> None:
        """As for rows in place."""
        self._inner.check_sizes(sizes, n_rows, n_columns)

    def on_canvas(
        self, rows: TrainingRows, columns: tuple[ColumnGroup, ...]
    ) -> tuple[ColumnGroup, ...]:
        """Columns of the canvas; refuse rows and options that transformations do not support."""
        moves, n_columns = self._moves, rows.X.shape[1]
        reason = refused(self.options, rows)
        if reason is not None:
            raise ValueError(f"transformations need {reason}.")
        if getattr(moves, "by", "row") == "part":
            raise ValueError('Translations(by="part") needs parts with states; use MCVQ.')
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
        totals = np.zeros((3, n_columns)) if totals is None else totals
        found = self._inner.core(columns, n_columns, dtype, sizes, classes, totals)
        return self._moving(canvas_of(found))

    def _moving(self, canvas: Canvas) -> Moving:
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
        """First parameters, from rows placed by templates of states."""
        model, some = self.core_in(core), source
        if len(model.maps) > 1:  # with one there is nothing to find
            some = source.sample(MOST_CELLS, rng)
        assert isinstance(some, MovingSource)
        states, dtype = States(self.options), some.X.dtype

        def template(n_states: int) -> Moving:
            of = some.canvas, model.n_columns, dtype, (n_states,), ClassVariable(), None
            return self._moving(StateCanvas.of(states.core(*of)))

        start = States.starts[self.options.init]
        rows, counts = found_places(template, start, some, self.template_states(core.sizes), rng)
        share = float(source.weight.sum() / some.weight.sum())
        canvas = self.first_canvas(model.canvas, rows, background, share, rng)
        return model.parameters(canvas, counts * share)

    def template_states(self, sizes: tuple[int, ...]) -> int:
        """Most states of a template that places rows."""
        return sum(sizes)

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
        """Numbers of states or factors."""
        return self._inner.sizes_in(params.canvas)

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
        canvas = self.core_in(fitted.model).canvas
        of_canvas = replace(
            cast(AnyParts, fitted), model=cast(AnyCore, canvas), params=fitted.params.canvas
        )
        return {**self._inner.saved(of_canvas), "transformation_counts": fitted.params.counts}

    def restored(
        self, core: GatedCore[MovingParams, MovingPrepared], state: SavedState, gate: Gates
    ) -> MovingParams:
        """Parameters from a file."""
        model = self.core_in(core)
        canvas = self._inner.restored(cast(AnyCore, model.canvas), state, gate)
        return model.parameters(canvas, state["transformation_counts"])

    def n_saved(self, state: SavedState) -> int:
        """Number of classes."""
        return self._inner.n_saved(state)


@dataclass(frozen=True)
class MovingStates(MovingFamily):
    """Parts of an MCVQ of a canvas."""

    kind = States

    def first_canvas(
        self, canvas: Canvas, rows: BlockSource, background: bool, share: float, rng: Random
    ) -> object:
        """First parameters of the canvas, from sums."""
        states = States(self.options)
        core = states.core_in(cast(StateModel, canvas))
        stats, gates = states.first_sums(core, rows, background, rng)
        return canvas.start(stats.scaled(share), gates)

    def revises(self, source: BlockSource) -> bool:
        """As for rows in place."""
        return self._inner.revises(source)

    def revised(
        self,
        core: GatedCore[MovingParams, MovingPrepared],
        source: BlockSource,
        rng: np.random.Generator,
        late: Callable[[], bool],
        params: MovingParams,
    ) -> MovingParams:
        """Parameters with states revised on rows in their most probable places."""
        model, some = self.core_in(core), source
        if len(model.maps) > 1:
            some = source.sample(MOST_CELLS, rng)
        assert isinstance(some, MovingSource)
        rows, _ = placed_rows(model, model.prepare(params), some)
        share = float(source.weight.sum() / some.weight.sum())
        rows = rows.with_rows(rows.X, rows.weight * share)
        canvas = self._inner.revised(cast(AnyCore, model.canvas), rows, rng, late, params.canvas)
        return model.parameters(canvas, params.counts)

    def row_labels(self, fitted: FittedMoving, source: BlockSource, kept: Array) -> Array:
        """State of every part in the training rows, (C, K), -1 for rows without weight."""
        first = self.core_in(fitted.model).first
        return states_of_rows(fitted, first, source, kept, self.options.ascent.n_jobs)


@dataclass(frozen=True)
class MovingFactors(MovingFamily):
    """Parts of an MCFA of a canvas."""

    kind = Factors

    def template_states(self, sizes: tuple[int, ...]) -> int:
        """As many as there are: factors have no number of appearances."""
        return max(TEMPLATE_STATES)

    def first_canvas(
        self, canvas: Canvas, rows: BlockSource, background: bool, share: float, rng: Random
    ) -> object:
        """First parameters of the canvas, from loadings of columns of variance 1."""
        assert isinstance(canvas, FactorCanvas)
        (common,), prior = rows.columns, self.options.prior
        (own,) = learn_columns(rows.X, self.options.likelihood, rows.weight, False, prior)
        unit = BlockSource(rows.X, (own,), rows.weight, n_powers=2)
        loadings, gates = self.starts[self.options.init](unit, canvas.sizes, background, rng)
        params = canvas.start(loadings, gates)
        offset, scale = (own.shift - common.shift) / common.scale, own.scale / common.scale
        return canvas.in_units(params, offset, scale)


def canvas_of(core: object) -> Canvas:
    """A model of parts as a model of a canvas."""
    return FactorCanvas.of(core) if isinstance(core, MCFA) else StateCanvas.of(core_of(core, MCVQ))


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
