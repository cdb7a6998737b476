"""What fits, answers and other models ask of models of gated parts, such as MCVQ and MCFA."""

from __future__ import annotations

from typing import ClassVar, Protocol, Self, TypeAlias, TypeVar

from partwise.contracts import AnyParams, AnyView, Array, Block, Source, Stats
from partwise.models.class_variable import ClassVariable
from partwise.models.gating import Chooser
from partwise.models.rowwise import HasGate, Natural

P = TypeVar("P", bound=HasGate)  # parameters of gated parts
P_contra = TypeVar("P_contra", bound=HasGate, contravariant=True)
R = TypeVar("R", bound=Natural[HasGate])  # the same, prepared

# What rows remember from one EM iteration to the next is known to their model alone.
RowsMemory: TypeAlias = AnyParams
# The same of what parameters are first made from, and of posteriors of rows.
FirstValues: TypeAlias = AnyParams
RowPosteriors: TypeAlias = AnyParams


class GatedModel(Protocol[P_contra, R]):
    """A model of gated parts, as fits and answers see it: `Model`, and what it says of rows.

    MCVQ and MCFA are models by themselves; others, such as `Rowwise`, use one as their core.
    """

    needs: ClassVar[tuple[type, ...]]
    remembers: ClassVar[bool]

    def prepare(self, params: P_contra) -> R:
        """Parameters to infer rows with."""
        ...

    def begin(self, params: P_contra) -> R:
        """Parameters to begin to learn with."""
        ...

    def fresh_memory(self, index: int) -> RowsMemory:
        """What block ``index`` remembers before the first EM iteration."""
        ...

    def expect(
        self, prepared: R, block: Block[AnyView], memory: RowsMemory
    ) -> tuple[RowsMemory, Stats]:
        """What rows remember, and their sums."""
        ...

    def maximize(self, prepared: R, stats: Stats) -> R:
        """Parameters that raise the bound given the sums, prepared."""
        ...

    def bound(self, prepared: R, stats: Stats) -> float:
        """Lower bound of the parameters, given the sums taken with them."""
        ...

    def thorough(self, prepared: R) -> R | None:
        """The parameters without short cuts, None if there are none."""
        ...

    def infer(self, prepared: R, block: Block[AnyView]) -> tuple[Array, Array]:
        """Posterior of the rows' states or features of factors, (S, n), and row bounds, (n,)."""
        ...

    def evidence(self, prepared: R, block: Block[AnyView]) -> Array:
        """What the entries say about states or factors, (S, n)."""
        ...

    def propose(self, prepared: R, block: Block[AnyView]) -> Array:
        """Proposals for importance sampling of a row's likelihood, in each class; (N, S, n)."""
        ...

    def without_cells(self, seen: Source, holed: Source) -> Self:
        """The model for rows of ``holed`` instead of ``seen``."""
        ...


class ColumnModel(GatedModel[P, R], Protocol[P, R]):
    """A gated model whose columns can be learned by themselves."""

    def learn_columns(self, prepared: R, stats: Stats) -> P:
        """Parameters of the columns and their gates; the rest stays."""
        ...


class GatedCore(ColumnModel[P, R], Protocol[P, R]):
    """What fits ask of MCVQ and MCFA besides: sizes, components, and sums of a stream."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of states or factors of every part."""
        ...

    @property
    def first(self) -> Array:
        """Number of each part's first state or feature, then their number."""
        ...

    @property
    def n_columns(self) -> int:
        """D."""
        ...

    @property
    def classes(self) -> ClassVariable:
        """The class variable."""
        ...

    @property
    def chooser(self) -> Chooser:
        """How columns choose parts."""
        ...

    def with_classes(self, classes: ClassVariable) -> Self:
        """The model with another class variable."""
        ...

    def with_chooser(self, chooser: Chooser) -> Self:
        """The model whose columns choose parts in another way."""
        ...

    def start(self, first: FirstValues, gates: Array, /) -> P:
        """First parameters: from sums (MCVQ) or loadings (MCFA), and gates (K, D)."""
        ...

    def finish(self, params: P) -> P:
        """Parameters after a fit in which rows selected parts for themselves."""
        ...

    def sums_of(self, params: P) -> Stats:
        """Sums that would have given these parameters."""
        ...

    def maximize_running(self, prepared: R, stats: Stats) -> R:
        """As `maximize`, from the running sums of a stream."""
        ...

    def widened(self, params: P, own: Array, place: Array) -> P:
        """Columns ``own`` of a model, put at ``place``; of the others nothing is known yet."""
        ...

    def joined(self, params: P, other: P, new: Array) -> P:
        """Parameters with the columns ``new`` of others."""
        ...
