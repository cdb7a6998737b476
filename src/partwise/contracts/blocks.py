"""A block of rows, and what the views of its column groups can do for a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, Self, TypeAlias, TypeVar

from partwise.contracts.values import Array, DType, EntryList, Layout, Packed, Span

# A view of a column group. Which capabilities it has hangs on how rows are stored, so this is
# checked when a fit begins (`check_needs`), not by types.
AnyView: TypeAlias = Any
# A block of a source, as a function that is mapped over them takes it.
AnyBlock: TypeAlias = Any

View_co = TypeVar("View_co", covariant=True)


class Block(Protocol[View_co]):
    """Some rows, the linear maps that every model needs of them, and a view per column group."""

    n_rows: int
    dtype: DType
    weight: Array  # (n,) row weights
    base: Array  # (n,) log base measure of the observed entries
    labels: Array | None  # (n,) known classes, -1 where unknown; or (n, N), see ClassVariable

    @property
    def groups(self) -> Sequence[View_co]:
        """Views of the column groups."""
        ...

    def score(self, weights: Sequence[Packed], layouts: Sequence[Layout]) -> Array:
        """Sum over observed columns of T(x) . weights; (S, n)."""
        ...

    def collect(self, m: Array, layouts: Sequence[Layout]) -> tuple[Packed, ...]:
        """Adjoint of `score`: sums over rows of m T(x), one `Packed` per group."""
        ...

    def sweep(
        self,
        weights: Sequence[Packed],
        layouts: Sequence[Layout],
        on_part: Callable[[int, Array], Array],
    ) -> tuple[Array, tuple[Packed, ...]]:
        """`score`, a posterior made of it, and `collect`, part by part."""
        ...

    def with_values(self, values: Array) -> Self:
        """The same entries of one `Latent` group with other values, (nnz,)."""
        ...


class MissingPatterns(Protocol):
    """Which rows miss the same entries, in U patterns."""

    @property
    def n_patterns(self) -> int:
        """U."""
        ...

    @property
    def pattern_of(self) -> Array | None:
        """Pattern of each row, (n,); None if every row is its own."""
        ...

    @property
    def masks(self) -> Array | None:
        """1 where a pattern shows a column, (D, U)."""
        ...

    def spread(self, values: Array) -> Array:
        """Values of patterns (Q, U) at their rows, (Q, n), or (Q, 1) if there is one pattern."""
        ...

    def gather(self, values: Array) -> Array:
        """Sums over the rows of each pattern, (Q, n) to (Q, U)."""
        ...


class Pairs(Protocol):
    """Quadratic maps, for models with factors."""

    @property
    def patterns(self) -> MissingPatterns:
        """Which rows miss the same entries."""
        ...

    def pair_score(self, weights: Packed, layout: Layout) -> Array:
        """Sum over observed columns of weights (1, Q, D), for every pattern; (Q, U)."""
        ...

    def pair_sums(self, values: Array, layout: Layout) -> Packed:
        """Adjoint of `pair_score`."""
        ...

    def totals(self, weight: Array) -> Array:
        """Weighted sums of 1, x and x^2 over observed entries; (3, D)."""
        ...


class Selections(Protocol):
    """Maps of rows whose entries each select a part; E are a group's entries, as it stores them."""

    def spread(self, values: Array) -> Array:
        """Per-column values (K, D) at the entries, (K, E) or broadcastable to it."""
        ...

    def observed(self) -> Array:
        """1 where an entry is observed, broadcastable to (E,)."""
        ...

    def expected(self, m: Array, natural: Array, first: Array) -> Array:
        """Expected log density of every entry under each part's posterior; (K, E)."""
        ...

    def densities(self, natural: Array) -> Array:
        """T(x) . natural of every entry, for one state's natural parameters (P, D); (E,)."""
        ...

    def score_selected(self, natural: Array, G: Array, first: Array) -> Array:
        """As `Block.score`, every entry counted with its own weight in each part; (S, n)."""
        ...

    def collect_selected(self, m: Array, G: Array, first: Array) -> Packed:
        """Adjoint of `score_selected`, all columns undecided."""
        ...

    def sum_selected(self, G: Array, weight: Array) -> Array:
        """Weighted column sums of G (K, E); (K, D)."""
        ...

    def row_sums(self, values: Array) -> Array:
        """Sum of per-entry values (E,) over each row's observed entries; (n,)."""
        ...


class Entries(Protocol):
    """Entries one by one."""

    @property
    def zero_value(self) -> float | None:
        """Model units of an entry that is not stored, None if such entries are missing."""
        ...

    def entries(self, columns: Array, absent: bool = False) -> EntryList:
        """Observed entries of some columns; with ``absent`` also zeros that are not stored."""
        ...


class Latent(Pairs, Protocol):
    """Entries that tell where a latent number lies; `Block.with_values` puts numbers in place."""

    def codes(self) -> EntryList:
        """All observed entries, by the codes of their levels."""
        ...

    def row_sums(self, values: Array) -> Array:
        """Sum of per-entry values (E,) over each row's observed entries; (n,)."""
        ...


class Field(Protocol):
    """How the other parts' means weigh on a part's states, while posteriors change in place."""

    def field(self, part: Span) -> Array:
        """Sum over the other parts' states, for those of ``part``; (J, n). `changed` follows."""
        ...

    def changed(self, part: Span) -> None:
        """The posterior of ``part`` has changed, or has been looked at."""
        ...


class SumView(Protocol):
    """Rows as sums of what parts add: ``x`` (D, n), 0 where missing, ``shown`` 1 where not."""

    x: Array
    shown: Array | None

    @property
    def patterns(self) -> MissingPatterns:
        """Which rows miss the same entries."""
        ...

    def pieces(self, n_states: int) -> Iterable[tuple[Span, SumView]]:
        """Views of so many rows at a time that their `grams` need little memory."""
        ...

    def rows(self, rows: Span) -> SumView:
        """The view of some of the rows."""
        ...

    def residual(self, mean: Array, scale: Array) -> Array:
        """Rows less ``mean``, over ``scale``, both (D,), 0 where missing; (D, n)."""
        ...

    def project(self, linear: Array, constant: Array) -> Array:
        """Sum over observed columns of x linear + constant, both (S, D); (S, n)."""
        ...

    def squares(self, constant: Array, precision: Array) -> Array:
        """Sum over observed columns of constant + x^2 precision, both (D,); (n,)."""
        ...

    def couple(self, mu: Array, precision: Array, m: Array) -> Field:
        """How the other parts' means, averaged by m (S, n), weigh on a part's states."""
        ...

    def grams(self, mu: Array, precision: Array) -> Array:
        """Sum over observed columns of mu[s] precision mu[t]; (n, S, S), or (1, S, S) for all."""
        ...

    def second_moments(self, mean: Array, cov: Array, precision: Array, wide: Array) -> Array:
        """Sum over observed columns of precision mean mean' + wide cov per pattern; (U, p, p)."""
        ...

    def collect(self, m: Array, weight: Array) -> tuple[Array, Array]:
        """Sums over rows of weight m x, (S, D), and of weight m[s] m[t], (D or 1, S, S)."""
        ...

    def collect_moments(self, m: Array, weight: Array, cov: Array) -> Array:
        """Adjoint of `second_moments`; (D or 1, p, p)."""
        ...

    def collect_squares(self, weight: Array) -> tuple[Array, Array]:
        """Sums over observed rows of weight and of weight x^2; each (D,)."""
        ...


class Additive(Protocol):
    """The maps of models whose parts add up."""

    def additive(self) -> SumView:
        """Numbers as they are, and which of them are observed."""
        ...


def check_needs(model: object, needs: Sequence[type], views: Sequence[type]) -> None:
    """Refuse blocks whose views lack what a model needs of them, and say what."""
    for view in views:
        for capability in needs:
            lacking = sorted(name for name in members(capability) if not hasattr(view, name))
            if lacking:
                raise TypeError(
                    f"{type(model).__name__} needs the capability {capability.__name__} of blocks, "
                    f"but {view.__name__} has no {', no '.join(lacking)}; store the rows in "
                    "another form, or choose another model."
                )


def members(capability: type) -> set[str]:
    """Names that a capability asks for."""
    protocols = [base for base in capability.__mro__ if getattr(base, "_is_protocol", False)]
    own = [name for base in protocols for name in (*vars(base), *base.__annotations__)]
    return {name for name in own if not name.startswith("_")}
