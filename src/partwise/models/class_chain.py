"""Rows in sequence: their classes are a Markov chain, as in a hidden Markov model.

======  ==============  ============  =========================================  ===============
symbol  code            shape         meaning                                    equation
======  ==============  ============  =========================================  ===============
pi      log_start       (N,)          prior of the first row's class, its log    docs/classes.md
A       log_transition  (N, N)        prior of a class given the one before      docs/classes.md
e       evidence        (n, N)        log density of a row in each class         docs/classes.md
mu      messages        (n, N)        what all other rows say of a row's class   docs/classes.md
======  ==============  ============  =========================================  ===============

All rows are looked at twice in an EM iteration. First each says how well every class explains it;
forward and backward messages then run along the sequences. They are scaled so that mu takes the
place of the classes' prior in Bayes' rule for a single row: exp(e + mu) over its sum is the
posterior of its class given the whole sequence, and the log of the sum is log p(row | rows before),
whose sum is the log-likelihood of the sequence. So the second look is the model's own E-step,
given mu.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar, cast

import numpy as np

from partwise._compiled import check_sizes, compiled
from partwise.contracts import AnyView, Array, Block, Stats
from partwise.models.class_variable import ClassVariable
from partwise.models.rowwise import Core, HasGate, Natural, WeighedRows

# Least logarithm of a transition's probability: what products of floats can hold.
LEAST_LOG = -690.0


@dataclass(frozen=True)
class ClassChain(ClassVariable):
    """N classes that follow each other; starts and transitions have the prior of the shares."""

    def cost(self, counts: Array) -> float:
        """Shares are no parameters here: what costs are starts and transitions (`chain_cost`)."""
        return 0.0

    def logarithms(self, chain: Array) -> tuple[Array, Array]:
        """Expected logs of start (N,) and transitions (N, N) from their counts (N + 1, N)."""
        found = self.prior.expected_log(chain.T).T
        return found[0], found[1:]

    def means(self, chain: Array) -> tuple[Array, Array]:
        """Posterior means of start (N,) and transitions (N, N) from their counts (N + 1, N)."""
        found = self.prior.mean(chain.T).T
        return found[0], found[1:]

    def chain_cost(self, chain: Array) -> float:
        """What the priors of start and transitions take off the bound."""
        return self.prior.divergence(chain.T)


class Smoothed(NamedTuple):
    """Classes of rows in sequence."""

    log_z: Array  # log density of each row given those before, (n,)
    messages: Array  # what all other rows say of a row's class, in logarithms, (n, N)
    counts: Array  # expected starts, then transitions from each class, (N + 1, N)

    def posterior(self, evidence: Array) -> Array:
        """Probability of every class given the whole sequence, (n, N)."""
        return np.exp(evidence + self.messages - self.log_z[:, None])


@compiled()
def _run(evidence, log_start, transition, bounds, log_z, log_ahead, messages, counts):  # type: ignore[no-untyped-def]  # compiled
    """Forward and backward messages of every sequence; a class's logarithms, products in floats."""
    N = len(log_start)
    filtered = np.empty(evidence.shape)
    later, here = np.empty(N), np.empty(N)
    for q in range(len(bounds) - 1):
        for t in range(bounds[q], bounds[q + 1]):
            top = -np.inf
            for n in range(N):
                if t == bounds[q]:
                    log_ahead[t, n] = log_start[n]
                else:
                    total = 0.0
                    for i in range(N):
                        total += filtered[t - 1, i] * transition[i, n]
                    log_ahead[t, n] = np.log(total)
                top = max(top, log_ahead[t, n] + evidence[t, n])
            total = 0.0
            for n in range(N):
                filtered[t, n] = np.exp(log_ahead[t, n] + evidence[t, n] - top)
                total += filtered[t, n]
            for n in range(N):
                filtered[t, n] /= total
            log_z[t] = top + np.log(total)
        for n in range(N):
            here[n] = 0.0  # log of the backward message
        for t in range(bounds[q + 1] - 1, bounds[q] - 1, -1):
            top = -np.inf
            for n in range(N):
                messages[t, n] = log_ahead[t, n] + here[n]
                later[n] = evidence[t, n] + here[n] - log_z[t]
                top = max(top, later[n])
            if t == bounds[q]:
                for n in range(N):
                    counts[0, n] += np.exp(log_ahead[t, n] + later[n])
                continue
            total = 0.0
            for n in range(N):
                later[n] = np.exp(later[n] - top)
            for i in range(N):
                here[i] = 0.0
                for n in range(N):
                    here[i] += transition[i, n] * later[n]
                total += filtered[t - 1, i] * here[i]
            for i in range(N):
                for n in range(N):
                    counts[i + 1, n] += filtered[t - 1, i] * transition[i, n] * later[n] / total
                here[i] = np.log(here[i]) + top


def smooth(evidence: Array, log_start: Array, log_transition: Array, bounds: Array) -> Smoothed:
    """Classes of rows from their evidence (n, N); sequence q has rows bounds[q] to bounds[q + 1].

    Probabilities need not sum to 1, as expected logarithms of a posterior do not.
    """
    n, N = evidence.shape
    check_sizes(classes=(N, len(log_start), *log_transition.shape), rows=(n, int(bounds[-1])))
    found = Smoothed(np.empty(n), np.empty((n, N)), np.zeros((N + 1, N)))
    transition = np.ascontiguousarray(np.exp(np.maximum(log_transition, LEAST_LOG)))
    start = np.maximum(log_start, LEAST_LOG)
    _run(np.ascontiguousarray(evidence, float), start, transition, bounds,
         found.log_z, np.empty((n, N)), found.messages, found.counts)  # fmt: skip
    return found


def unlinked(log_beta: Array, bounds: Array) -> Array:
    """Starts and transitions (N + 1, N) of rows that do not depend on each other."""
    share = np.exp(log_beta)
    share /= share.sum()
    n_sequences = len(bounds) - 1
    rest = (bounds[-1] - n_sequences) * share[:, None] * share
    return np.vstack([n_sequences * share, rest])


@compiled()
def _walk(start, transition, uniforms, out):  # type: ignore[no-untyped-def]  # compiled
    """Classes of a sequence, each by inverting its distribution given the one before."""
    for t in range(len(out)):
        n, above = 0, start[0] if t == 0 else transition[out[t - 1], 0]
        while n < len(start) - 1 and uniforms[t] >= above:
            n += 1
            above += start[n] if t == 0 else transition[out[t - 1], n]
        out[t] = n


def draw_chain(start: Array, transition: Array, n: int, rng: np.random.Generator) -> Array:
    """Classes of a new sequence of n rows, (n,)."""
    check_sizes(classes=(len(start), *transition.shape))
    out = np.empty(n, np.int64)
    _walk(start, transition, rng.random(n), out)
    return out


def with_labels(evidence: Array, labels: Array | None) -> Array:
    """Evidence (n, N) without the classes that known labels (n,) exclude."""
    if labels is None:
        return evidence
    known = (labels >= 0)[:, None] & (labels[:, None] != np.arange(evidence.shape[1]))
    return np.where(known, -np.inf, evidence)


# --- the model of rows in sequence ---


class Labelable(Block[AnyView], Protocol):
    """A block whose rows may get other labels."""

    def with_labels(self, labels: Array) -> Self:
        """The same rows with other labels, (n,) or (n, N)."""
        ...


class ChainParams(HasGate, Protocol):
    """Parameters, as far as the chain needs them."""

    @property
    def log_beta(self) -> Array:
        """Expected logarithm of the classes' shares, (N,)."""
        ...

    @property
    def chain(self) -> Array | None:
        """Expected starts, then transitions, (N + 1, N); None before the first EM iteration."""
        ...

    def with_chain(self, chain: Array) -> Self:
        """The same with other starts and transitions."""
        ...


class RowClasses(WeighedRows, Protocol):
    """Classes of rows one by one, as far as the chain needs them."""

    @property
    def joint(self) -> Array:
        """Log of a class's prior times the row's density in it, (N, n)."""
        ...


class RowPrepared(Natural[ChainParams], Protocol):
    """Prepared parameters of a model of rows one by one."""

    def with_chain(self, chain: Array) -> Self:
        """The same with other starts and transitions."""
        ...


P = TypeVar("P", bound=ChainParams, contravariant=True)
R = TypeVar("R", bound=RowPrepared)
Found = TypeVar("Found", bound=RowClasses)


class ChainCore(Core[P, R, Found], Protocol[P, R, Found]):
    """A model of rows one by one: MCVQ or MCFA."""

    needs: ClassVar[tuple[type, ...]]

    def evidence(self, prepared: R, block: Block[AnyView]) -> Array:
        """What the entries say about states or factors."""
        ...

    def expect(self, prepared: R, block: Block[AnyView], memory: object) -> tuple[object, Stats]:
        """Posterior of the rows, and its sums."""
        ...

    def maximize(self, prepared: R, stats: Stats) -> R:
        """Parameters from the sums."""
        ...

    def thorough(self, prepared: R) -> R | None:
        """The parameters without short cuts."""
        ...

    def bound(self, prepared: R, stats: Stats) -> float:
        """Lower bound of the parameters, given the sums taken with them."""
        ...


@dataclass(frozen=True, eq=False)
class ChainPrepared(Generic[R]):
    """Prepared parameters and, once rows have been linked, what their neighbors say."""

    row: R  # of the model of rows one by one
    offsets: tuple[Array, ...] = ()  # a block (n, N): messages less the log shares of the classes
    counts: Array | None = None  # starts and transitions, (N + 1, N)

    @property
    def params(self) -> ChainParams:
        """What is learned."""
        return self.row.params


@dataclass(frozen=True, eq=False)
class Chained(Generic[P, R, Found]):
    """The model whose rows' classes follow each other, around that of rows one by one.

    Sequence q has the rows ``bounds[q]`` to ``bounds[q + 1]`` of the source.
    """

    core: ChainCore[P, R, Found]
    classes: ClassChain
    bounds: Array
    remembers: ClassVar[bool] = False

    @property
    def needs(self) -> tuple[type, ...]:
        """As the core."""
        return self.core.needs

    def fresh_memory(self, index: int) -> int:
        """The number of the block, by which it finds what its rows' neighbors say."""
        return index

    def prepare(self, params: P) -> ChainPrepared[R]:
        """As the core."""
        return self._chained(self.core.prepare(params))

    def begin(self, params: P) -> ChainPrepared[R]:
        """As the core; rows do not depend on each other at first."""
        return self._chained(self.core.begin(params))

    def _chained(self, prepared: R) -> ChainPrepared[R]:
        if prepared.params.chain is None:
            prepared = prepared.with_chain(unlinked(prepared.params.log_beta, self.bounds))
        return ChainPrepared(prepared)

    # --- E-step ---

    def look(self, prepared: ChainPrepared[R], block: Block[AnyView]) -> tuple[Array, Array | None]:
        """Log density of the rows in each class, (n, N), and their known classes."""
        params, score = prepared.row.params, self.core.evidence(prepared.row, block)
        found = self.core.weigh(cast(P, params), score, None)
        return (found.joint - params.log_beta[:, None]).T, block.labels

    def link(
        self, prepared: ChainPrepared[R], looks: Iterable[tuple[Array, Array | None]]
    ) -> ChainPrepared[R]:
        """Pass messages along the sequences, from what `look` gave for every block."""
        params, found = prepared.params, list(looks)
        assert params.chain is not None
        evidence = np.concatenate([with_labels(*piece) for piece in found])
        smoothed = smooth(evidence, *self.classes.logarithms(params.chain), self.bounds)
        offsets = smoothed.messages - params.log_beta
        ends = np.cumsum([len(piece) for piece, _ in found])[:-1]
        pieces = zip(np.split(offsets, ends), found, strict=True)
        excluded = tuple(with_labels(piece, labels) for piece, (_, labels) in pieces)
        return ChainPrepared(prepared.row, excluded, smoothed.counts)

    def expect(
        self, prepared: ChainPrepared[R], block: Block[AnyView], memory: int
    ) -> tuple[int, Stats]:
        """The core's E-step, given what the neighbors say; the first block counts transitions."""
        assert prepared.counts is not None
        linked = cast(Labelable, block).with_labels(prepared.offsets[memory])
        stats = self.core.expect(prepared.row, linked, None)[1]
        chain = prepared.counts.copy() if memory == 0 else np.zeros_like(prepared.counts)
        return memory, replace(stats, chain=chain)

    # --- M-step ---

    def maximize(self, prepared: ChainPrepared[R], stats: Stats) -> ChainPrepared[R]:
        """As the core, then starts and transitions."""
        assert stats.chain is not None
        after = self.core.maximize(prepared.row, stats)
        return ChainPrepared(after.with_chain(stats.chain))

    def thorough(self, prepared: ChainPrepared[R]) -> ChainPrepared[R] | None:
        """As the core."""
        found = self.core.thorough(prepared.row)
        return None if found is None else ChainPrepared(found)

    def bound(self, prepared: ChainPrepared[R], stats: Stats) -> float:
        """As the core, less what starts and transitions cost."""
        chain = prepared.params.chain
        assert chain is not None
        return self.core.bound(prepared.row, stats) - self.classes.chain_cost(chain)
