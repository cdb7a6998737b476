"""What a fit asks of a kind of gated parts: those with states, those with factors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import ClassVar, Generic, TypeAlias, cast

import numpy as np

from partwise.contracts import Array, DType, Runner
from partwise.data import BlockSource, ColumnGroup, RowBlock, by_column
from partwise.fitted import FittedParts
from partwise.fitting.checkpoint import SearchMemo
from partwise.fitting.class_groups import read_groups
from partwise.fitting.options import PartsOptions, Size, TrainingRows
from partwise.likelihoods import Dirichlet
from partwise.models.class_chain import ClassChain
from partwise.models.class_tree import ClassTree
from partwise.models.class_variable import ClassVariable
from partwise.models.gated import (
    ColumnModel,
    FirstValues,
    GatedCore,
    GatedModel,
    P,
    R,
    RowPosteriors,
)
from partwise.models.gating import Chooser, Gates, Gating, Standard, Tied
from partwise.models.rowwise import Core, Rowwise
from partwise.models.selection import Selection
from partwise.typing import SavedState

# By the value of ``init``: what first parameters are made of, and first gates (K, D).
Starts: TypeAlias = Mapping[
    str,
    Callable[[BlockSource, tuple[int, ...], bool, np.random.Generator], tuple[FirstValues, Array]],
]


@dataclass(frozen=True)
class Family(ABC, Generic[P, R]):
    """A kind of parts, with the options of a fit; P are its parameters, R the same prepared.

    ``size_name`` is the argument that says how large parts are; ``starts`` make first parameters;
    ``background`` is the size of the background part; ``probe`` the plain EM iterations that show
    whether annealing lost what the start knew; ``n_powers`` the powers of entries that blocks hold,
    None for as many as the likelihood has. ``sums_without_prior`` says whether the sums follow from
    the parameters even without a prior.
    """

    options: PartsOptions

    size_name: ClassVar[str]
    background: ClassVar[int]
    probe: ClassVar[int]
    starts: ClassVar[Starts]
    sums_without_prior: ClassVar[bool]

    def revises(self, source: BlockSource) -> bool:
        """Whether `revised` can improve parameters."""
        return False

    @property
    def n_powers(self) -> int | None:
        """Powers of entries that blocks hold."""
        return None

    @abstractmethod
    def check_sizes(self, sizes: tuple[int, ...], n_rows: int, n_columns: int) -> None:
        """Refuse sizes that data of this shape cannot have."""

    @abstractmethod
    def core(
        self,
        columns: tuple[ColumnGroup, ...],
        n_columns: int,
        dtype: DType,
        sizes: tuple[int, ...],
        classes: ClassVariable,
        totals: Array | None,
    ) -> GatedCore[P, R]:
        """The model for some columns, with one posterior of the parts for all rows."""

    @abstractmethod
    def core_in(self, model: GatedModel[P, R]) -> GatedCore[P, R]:
        """The core of a model; a core is its own core."""

    def modeled(self, core: GatedCore[P, R], columns: tuple[ColumnGroup, ...]) -> ColumnModel[P, R]:
        """The model that is fitted: the core, or another model around it."""
        return core

    def totals(self, source: BlockSource) -> Array | None:
        """Sums over rows that the model holds, if it holds some."""
        return None

    def on_canvas(
        self, rows: TrainingRows, columns: tuple[ColumnGroup, ...]
    ) -> tuple[ColumnGroup, ...]:
        """Columns of the model, from those of the rows: the same, unless rows are transformed."""
        return columns

    @property
    def has_latent(self) -> bool:
        """Whether entries stand for latent numbers, of which rows keep posteriors."""
        return self.options.has_latent

    def n_modeled(self, columns: tuple[ColumnGroup, ...], n_columns: int) -> int:
        """Columns of the model, where X has ``n_columns``."""
        return max(n_columns, len(columns[0].index))

    def source(
        self, rows: TrainingRows, columns: tuple[ColumnGroup, ...], labels: Array | None
    ) -> BlockSource:
        """Rows in blocks, for a model of ``columns``."""
        return BlockSource(rows.X, columns, rows.weight, labels=labels, n_powers=self.n_powers)

    def start(
        self,
        core: GatedCore[P, R],
        source: BlockSource,
        background: bool,
        rng: np.random.Generator,
    ) -> P:
        """First parameters."""
        make = self.starts[self.options.init]
        return core.start(*make(source, core.sizes, background, rng))

    def revised(
        self,
        core: GatedCore[P, R],
        source: BlockSource,
        rng: np.random.Generator,
        late: Callable[[], bool],
        params: P,
    ) -> P:
        """Parameters of a higher bound that EM iterations do not reach, or the same.

        Once ``late()`` is true, no further step is taken.
        """
        return params

    def to_search(self, columns: tuple[ColumnGroup, ...]) -> tuple[ColumnGroup, ...]:
        """Columns as they count while sizes are selected."""
        return columns

    @abstractmethod
    def search(
        self,
        core: GatedCore[P, R],
        source: BlockSource,
        runner: Runner,
        rng: np.random.Generator,
        late: Callable[[], bool],
        memo: SearchMemo,
    ) -> tuple[P, list[dict[str, object]]]:
        """Parameters of the sizes that the ELBO selects, and the moves of the search."""

    @abstractmethod
    def sizes_in(self, params: P) -> tuple[int, ...]:
        """Sizes that parameters are for, the background's with them."""

    @abstractmethod
    def below(
        self,
        model: GatedModel[P, R],
        prepared: R,
        block: RowBlock,
        g: int,
        rows: Array,
        columns: Array,
        values: Array,
    ) -> Array:
        """Probability that a cell of group g is below a value, in model units."""

    @abstractmethod
    def saved(self, fitted: FittedParts[P, R]) -> dict[str, object]:
        """Parameters as plain values, the gates aside."""

    @abstractmethod
    def restored(self, core: GatedCore[P, R], state: SavedState, gate: Gates) -> P:
        """Parameters from what `saved` made of them."""

    @abstractmethod
    def n_saved(self, state: SavedState) -> int:
        """Number of classes that `saved` knew of."""

    def row_labels(
        self, fitted: FittedParts[P, R], source: BlockSource, kept: Array
    ) -> Array | None:
        """State of every part in the training rows, (C, K); None for parts without states."""
        return None

    # --- shared ---

    def sizes(self, n_rows: int, n_columns: int) -> tuple[int, ...] | None:
        """Size of every part, None where some are sought."""
        options = self.options
        if options.is_sought:
            self._check_sought()
        if isinstance(options.size, str):
            return None
        n_parts = 1 if isinstance(options.n_parts, str) else options.n_parts
        sizes = sizes_of(options.size, n_parts, self.size_name)
        self.check_sizes(sizes, n_rows, n_columns)
        return None if options.is_sought else sizes

    def _check_sought(self) -> None:
        """Refuse sizes that the ELBO cannot select."""
        options, name = self.options, self.size_name
        if not isinstance(options.size, str | Integral) and isinstance(options.n_parts, str):
            raise ValueError(
                f'n_parts="auto" does not support {name}={options.size!r}, one number per part; '
                'give one number for all parts, or "auto".'
            )
        if not options.wants_background:
            raise ValueError(
                f'n_parts="auto" and {name}="auto" are selected by the ELBO; choose '
                'gating="annealed" or "tied", inference="variational" and a prior, or give numbers.'
            )
        if options.init != "dependence":
            raise ValueError(
                f'n_parts="auto" and {name}="auto" begin with the dependence of columns; choose '
                'init="dependence", or give numbers.'
            )

    def class_variable(self, n_classes: int) -> ClassVariable:
        """The class variable with the prior of the options."""
        options = self.options
        prior = Dirichlet(options.prior.states if options.prior else 0.0)
        if options.part_groups is not None and n_classes > 1:
            n_groups, _ = read_groups(options)
            return ClassTree(n_classes, prior, n_groups, options.n_group_classes or n_classes)
        chained = options.class_chain and n_classes > 1
        return (ClassChain if chained else ClassVariable)(n_classes, prior)

    def chooser(self, columns: tuple[ColumnGroup, ...], n_columns: int) -> Chooser:
        """How columns choose parts."""
        prior = self.options.prior
        gating: Gating = Tied() if self.options.is_tied else Standard()
        return Chooser(
            gating,
            Dirichlet(prior.gates if prior else 0.0),
            self.options.gate_entropy,
            by_column(columns, [group.weight for group in columns], n_columns),
        )

    def rowwise(
        self, core: GatedCore[P, R], select: Selection, n_rounds: int = 2
    ) -> GatedModel[P, R]:
        """The model whose rows select parts for themselves, begun as ``init`` says."""
        own = cast(Core[P, R, RowPosteriors], core)
        return Rowwise(own, select, n_rounds, from_gates=self.options.init == "random")

    def with_core(self, model: GatedModel[P, R], core: GatedCore[P, R]) -> GatedModel[P, R]:
        """The model around another core."""
        if isinstance(model, Rowwise):
            return replace(model, core=cast(Core[P, R, RowPosteriors], core))
        return core


def sizes_of(size: Size, n_parts: int, name: str) -> tuple[int, ...]:
    """Size of every part from one number or one per part."""
    if isinstance(size, Integral):
        return (int(size),) * int(n_parts)
    sizes = tuple(int(j) for j in np.atleast_1d(size))
    if len(sizes) != n_parts or min(sizes, default=0) < 1:
        raise ValueError(
            f"{name}={size!r} must be a number, or {n_parts} positive numbers, one per part "
            "(n_parts)."
        )
    return sizes


def totals_of(core: object) -> Array | None:
    """Sums over rows that a core holds, as `Family.totals` gave them."""
    totals: Array | None = getattr(core, "totals", None)
    return totals
