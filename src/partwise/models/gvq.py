"""Generative Vector Quantization (Westerdijk, Barber & Wiegerinck), with sets and several values.

======  ========  ============  ====================================================  =============
symbol  code      shape         meaning                                               equation
======  ========  ============  ====================================================  =============
f       features  (M, A, D)     what a feature (each of its values) adds to a row     (1)
o       origins   (M, D)        what a set always adds                                section 5.1
s       values    (n, K)        code of a row, in the set that it takes               (2)
S'S     pairs     (., B, B)     sum over rows of s s', the origin last                (3)
S'X     linear    (B, D)        sum over rows of s x                                  (3)
lambda  penalty   number        cost of every feature that is on                      section 5.2
======  ========  ============  ====================================================  =============

M sets; K features of J values in each, the first of which adds nothing, so A = K (J - 1) and
B = A + 1. Missing entries are ignored. The association is an object passed in; what the
paper thought intractable, the exact one, is the default. The bound is minus the squared error and
the penalty, which never falls with it. Departures: rows keep their codes for the exact search to
better, so that this holds also when its nodes run out; directions that no row determines are 0
(the minimum-norm solution).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from partwise.association import Association, Exact, Problem
from partwise.association.exact import one_hot
from partwise.contracts import Additive, Array, Block, SumView

# Nodes of the exact search while features still move: proofs are for the end.
QUICK_NODES = 2000

# Eigenvalues of S'S below this share of the largest are taken as 0: codes are 0 and 1, so that
# rounding leaves about 1e-16, and directions that rows do determine far more than this.
UNDETERMINED = 1e-10


@dataclass(frozen=True, eq=False)
class GVQParams:
    """What is learned."""

    features: Array  # (M, A, D)
    origins: Array  # (M, D)
    taken: Array  # summed weight of the rows that take each atom of a set, the set last, (M, B)
    idle: int  # directions of a set's features that no row determines


@dataclass(frozen=True, eq=False)
class GVQPrepared:
    """Parameters, and how thoroughly to search with them."""

    params: GVQParams
    thorough: bool  # whether the search may look at all the nodes it is given


class RowCodes(NamedTuple):
    """Codes of rows, and how far from the best they can be."""

    sets: Array  # (n,)
    values: Array  # (n, K)
    error: Array  # squared error and penalty, (n,)
    lower: Array  # no code of any set has less, (n,)
    proven: Array  # (n,)


@dataclass(frozen=True, eq=False)
class SetSums:
    """Sums over the rows of one set."""

    linear: Array  # (B, D)
    pairs: Array  # (1 or D, B, B)

    def __add__(self, other: SetSums) -> SetSums:
        return SetSums(self.linear + other.linear, self.pairs + other.pairs)


class AddsUp(Protocol):
    """Sums over the rows of one set."""

    def __add__(self, other: Self) -> Self: ...


Own = TypeVar("Own", bound=AddsUp)


@dataclass(frozen=True, eq=False)
class GVQSums(Generic[Own]):
    """Sums over rows; they start at zero and add."""

    error: float
    taken: Array  # (M, B)
    sets: tuple[Own, ...]

    def __add__(self, other: GVQSums[Own]) -> GVQSums[Own]:
        sets = tuple(a + b for a, b in zip(self.sets, other.sets, strict=True))
        return GVQSums(self.error + other.error, self.taken + other.taken, sets)

    @staticmethod
    def total(results: Iterable[GVQSums[Own]]) -> GVQSums[Own]:
        """Sum of all, in their order."""
        return reduce(add, results)


def best_of_sets(found: list[RowCodes]) -> RowCodes:
    """Every row takes the set with least error, the first among equals."""
    if len(found) == 1:
        return found[0]
    row = np.arange(len(found[0].error))
    sets = np.argmin([codes.error for codes in found], axis=0)
    values = np.stack([codes.values for codes in found])[sets, row]
    error = np.stack([codes.error for codes in found])[sets, row]
    lower = np.minimum(np.min([codes.lower for codes in found], axis=0), error)
    # A set without proof is no matter where even its bound is above what another set reaches.
    proven = np.all([codes.proven | (codes.lower >= error) for codes in found], axis=0)
    return RowCodes(sets, values, error, np.where(proven, error, lower), proven)


@dataclass(frozen=True, eq=False)
class GVQ:
    """The model.

    Parameters
    ----------
    n_sets, n_components, n_values : int
        M, K and J.
    penalty : float
        lambda, in model units.
    association : Association
    fits_origin : bool
        Whether origins are learned; else they stay as they begin.
    """

    n_sets: int
    n_components: int
    n_values: int
    penalty: float
    association: Association
    fits_origin: bool = True
    needs: ClassVar[tuple[type, ...]] = (Additive,)
    remembers: ClassVar[bool] = True

    @property
    def n_atoms(self) -> int:
        """A."""
        return self.n_components * (self.n_values - 1)

    # --- E-step ---

    def fresh_memory(self, index: int) -> None:
        """No codes yet."""
        return

    def expect(
        self, prepared: GVQPrepared, block: Block[Additive], memory: RowCodes | None
    ) -> tuple[RowCodes, GVQSums]:
        """Codes of the rows, and their sums."""
        found = self.codes(prepared, block, memory)
        return found, self.collect(block, found)

    def codes(
        self, prepared: GVQPrepared, block: Block[Additive], memory: RowCodes | None = None
    ) -> RowCodes:
        """Codes of rows; ``memory`` are codes they had, for the exact search to better."""
        view = block.groups[0].additive()
        pieces = []
        for rows, piece in view.pieces(max(self.n_atoms, 1)):
            kept = None if memory is None else RowCodes(*(field[rows] for field in memory))
            sets = [self._codes_in(prepared, m, piece, kept) for m in range(self.n_sets)]
            pieces.append(best_of_sets(sets))
        return RowCodes(*(np.concatenate(fields) for fields in zip(*pieces, strict=True)))

    def _codes_in(
        self, prepared: GVQPrepared, m: int, view: SumView, kept: RowCodes | None
    ) -> RowCodes:
        """Codes of rows in set m."""
        problem = Problem.posed(
            view,
            prepared.params.features[m],
            prepared.params.origins[m],
            np.full(self.n_atoms, self.penalty),
            self.n_values,
            incumbent=None if kept is None else kept.values * (kept.sets == m)[:, None],
        )
        found, square = self._method(prepared).associate(problem), problem.squares
        n = len(square)
        # Rounding can leave a perfect fit a little below nothing.
        error = np.maximum(square + found.energy, 0.0)
        proven = found.lower >= found.energy
        lower = np.where(proven, error, np.maximum(square + found.lower, 0.0))
        return RowCodes(np.full(n, m), found.values, error, np.minimum(lower, error), proven)

    def _method(self, prepared: GVQPrepared) -> Association:
        if isinstance(self.association, Exact) and not prepared.thorough:
            return replace(self.association, max_nodes=min(self.association.max_nodes, QUICK_NODES))
        return self.association

    def design(self, values: Array) -> Array:
        """Which atoms codes take, and the origin, which they always do; (B, n)."""
        return np.vstack([one_hot(values, self.n_values).T, np.ones(len(values))])

    def collect(self, block: Block[Additive], found: RowCodes) -> GVQSums:
        """Sums of rows with these codes."""
        S, view = self.design(found.values), block.groups[0].additive()
        sets = tuple(
            SetSums(*view.collect(S, block.weight * (found.sets == m))) for m in range(self.n_sets)
        )
        return GVQSums(float(block.weight @ found.error), self.count(found, block.weight), sets)

    def count(self, found: RowCodes, weight: Array) -> Array:
        """Summed weight of the rows that take each atom of a set, the set last; (M, B)."""
        S = self.design(found.values)
        return np.stack([S @ (weight * (found.sets == m)) for m in range(self.n_sets)])

    # --- M-step ---

    def maximize(self, prepared: GVQPrepared, stats: GVQSums) -> GVQPrepared:
        """Least squares; a set that no row took stays as it is."""
        params = prepared.params
        features, origins = params.features.copy(), params.origins.copy()
        idle = 0
        for m, sums in enumerate(stats.sets):
            if stats.taken[m, -1] <= 0:
                continue
            answer, undetermined = least_squares(sums, None if self.fits_origin else origins[m])
            features[m], origins[m] = answer[:-1], answer[-1]
            idle = max(idle, undetermined)
        return replace(prepared, params=GVQParams(features, origins, stats.taken, idle))

    def start(self, features: Array, origins: Array) -> GVQParams:
        """Parameters before any row has been seen."""
        M, A, _ = features.shape
        return GVQParams(features, origins, np.ones((M, A + 1)), 0)

    def prepare(self, params: GVQParams) -> GVQPrepared:
        """Parameters to find the best codes with."""
        return GVQPrepared(params, True)

    def begin(self, params: GVQParams) -> GVQPrepared:
        """Parameters to learn with: while they move, the search is short."""
        return GVQPrepared(params, not isinstance(self.association, Exact))

    def thorough(self, prepared: GVQPrepared) -> GVQPrepared | None:
        """The same parameters with all nodes allowed; None if they already are."""
        return None if prepared.thorough else self.prepare(prepared.params)

    def bound(self, prepared: GVQPrepared, stats: GVQSums) -> float:
        """Minus the squared error and the penalty."""
        return -stats.error

    def decode(self, params: GVQParams, found: RowCodes) -> Array:
        """Rows that codes stand for; (n, D)."""
        S = np.zeros((len(found.sets), self.n_sets, self.n_atoms + 1))
        S[np.arange(len(S)), found.sets] = self.design(found.values).T
        return self.mix(params, S)

    def mix(self, params: GVQParams, S: Array) -> Array:
        """Rows of codes as numbers (n, M, B), the origin of a set last; (n, D)."""
        return np.einsum("nmb,mbd->nd", S, self._atoms(params), optimize=True)

    def _atoms(self, params: GVQParams) -> Array:
        """Features and origin of every set; (M, B, D)."""
        return np.concatenate([params.features, params.origins[:, None]], axis=1)


@dataclass(frozen=True, eq=False)
class Shaken:
    """A model whose features are shaken after each step: for the annealing stages.

    Parameters
    ----------
    model : GVQ
    share : float
        Squared error that the noise adds to a row with all features on, in units of its error.
    seed : int
    """

    model: GVQ
    share: float
    seed: int
    needs: ClassVar[tuple[type, ...]] = (Additive,)
    remembers: ClassVar[bool] = True

    def expect(
        self, prepared: GVQPrepared, block: Block[Additive], memory: RowCodes | None
    ) -> tuple[RowCodes, GVQSums]:
        """As the model."""
        return self.model.expect(prepared, block, memory)

    def maximize(self, prepared: GVQPrepared, stats: GVQSums) -> GVQPrepared:
        """As the model, and noise."""
        prepared = self.model.maximize(prepared, stats)
        params = prepared.params
        noise = np.random.default_rng(self.seed).normal(size=params.features.shape)
        rows, columns = stats.taken[:, -1].sum(), params.features.shape[2]
        variance = self.share * stats.error / (rows * columns * self.model.n_components)
        shaken = replace(params, features=params.features + np.sqrt(variance) * noise)
        return replace(prepared, params=shaken)


def least_squares(sums: SetSums, origin: Array | None = None) -> tuple[Array, int]:
    """Features and origin (B, D) that are best for given codes, and how many directions are free.

    Of equally good answers the one of least norm. Columns with missing values have each their own.
    An ``origin`` that is given (D,) stays.
    """
    if origin is not None:
        if len(sums.linear) == 1:
            return origin[None], 0
        left = sums.linear[:-1] - sums.pairs[:, :-1, -1].T * origin
        features, free = least_squares(SetSums(left, sums.pairs[:, :-1, :-1]))
        return np.vstack([features, origin]), free
    inverse = np.linalg.pinv(sums.pairs, rcond=UNDETERMINED, hermitian=True)
    spread = np.linalg.eigvalsh(sums.pairs.sum(axis=0))
    rank = np.sum(spread > UNDETERMINED * spread[-1])
    if len(inverse) == 1:
        answer = inverse[0] @ sums.linear
    else:
        answer = np.einsum("dab,bd->ad", inverse, sums.linear)
    return answer, len(sums.linear) - int(rank)
