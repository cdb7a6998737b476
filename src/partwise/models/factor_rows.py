"""Factors of rows under given parameters: the E-step of MCFA; symbols as in `partwise.models.mcfa`.

All that a row's factors say enters through their *features* 1, <s> and <s s'> (packed), Q pairs for
J factors: parts are numbered in one row, those of part k at first[k] .. first[k + 1] - 1, (F, n) in
all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

import numpy as np

from partwise.contracts import (
    AnyView,
    Array,
    Block,
    Layout,
    MissingPatterns,
    Packed,
    Pairs,
    Span,
    Stats,
)
from partwise.models import factors
from partwise.models.class_variable import ClassVariable
from partwise.models.gating import Gates
from partwise.models.loadings import Loadings
from partwise.models.selection import Randomness
from partwise.models.weights import weighted

_LOG_2PI = math.log(2 * math.pi)

# Parts are worked on together while all their features are at most so many numbers: with more, the
# calls that this saves cost little, and the numbers would not stay in the cache.
MOST_TOGETHER = 1 << 15


@dataclass(frozen=True, eq=False)
class MCFAParams:
    """What is learned."""

    loadings: tuple[Loadings, ...]  # a part, of all columns
    relevance: tuple[Array, ...]  # a part (2, J)
    gate: Gates
    class_counts: Array  # (N,)
    log_beta: Array  # (N,)
    eta: tuple[Array, ...]  # a part (N, J)
    sigma: tuple[Array, ...]  # a part (N, J, J)
    chain: Array | None = None  # of classes in sequence: starts, then transitions, (N + 1, N)

    def with_chain(self, chain: Array) -> MCFAParams:
        """The same with other starts and transitions of classes in sequence."""
        return replace(self, chain=chain)

    @property
    def gates(self) -> Array:
        """g, (K, D)."""
        return self.gate.g


@dataclass(frozen=True, eq=False)
class MCFAPrepared:
    """Parameters, and what follows from them in the form that blocks and M-steps need."""

    params: MCFAParams
    natural: tuple[Array, ...]  # (3, F, D), of the one column group
    divergence: Array  # of the columns' loadings, (K, D)
    age: int  # sweeps since all parts were looked at
    layouts: tuple[Layout, ...]  # of factors, of pairs
    weights: tuple[Packed, ...]  # natural times gates, of factors (2, ...) and of pairs (1, ...)

    def with_chain(self, chain: Array) -> MCFAPrepared:
        """The same with other starts and transitions of classes in sequence."""
        return replace(self, params=self.params.with_chain(chain))

    @cached_property
    def _ones(self) -> tuple[Layout, Packed]:
        """Layout and weights (3, ...) of the features 1."""
        factors_of, pairs_of = (layout.n_states for layout in self.layouts)
        sizes = 1 + np.array(factors_of) + np.array(pairs_of)
        layout = Layout(self.layouts[0].parts, (1,) * len(sizes))
        own, shared = layout.pack(self.natural[0][:, np.cumsum(sizes) - sizes])
        shared = shared * self.params.gates[:, layout.undecided]
        dtype = self.weights[0].own.dtype
        return layout, Packed(own.astype(dtype), shared.astype(dtype))

    def evidence_of_one(self, block: Block[AnyView]) -> Array:
        """Coefficient of every part's feature 1, (K, n): the block has squares."""
        layout, weights = self._ones
        return block.score((weights,), (layout,))


@dataclass(frozen=True, eq=False)
class Weighed:
    """Classes of a block's rows, and the posterior of their factors in each class."""

    z: Array  # (N, n)
    log_z: Array  # log normalizer of the rows, (n,)
    joint: Array  # log of a class's prior times the row's density in it, (N, n)
    means: list[Array]  # a part: (N, J, n)
    covs: list[Array]  # a part: (N, Q, n) or (N, Q, 1)

    def with_classes(self, z: Array) -> Weighed:
        """The same with other classes of the rows, (N, n)."""
        return replace(self, z=z)


class FactorRows:
    """Posteriors of rows' factors and their sums, for parts of ``n_factors`` and some classes."""

    n_factors: tuple[int, ...]
    classes: ClassVariable
    needs: ClassVar[tuple[type, ...]] = (Pairs,)
    remembers: ClassVar[bool] = False

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of factors of every part."""
        return self.n_factors

    @cached_property
    def n_pairs(self) -> tuple[int, ...]:
        """Pairs of factors of every part."""
        return tuple(factors.n_pairs(J) for J in self.n_factors)

    @cached_property
    def first(self) -> Array:
        """Number of each part's first feature, then F."""
        sizes = [1 + J + Q for J, Q in zip(self.n_factors, self.n_pairs, strict=True)]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def spans(self) -> list[tuple[int, Span, Span]]:
        """Of every part: the feature 1, the factors, and the pairs."""
        return [
            (lo, slice(lo + 1, lo + 1 + J), slice(lo + 1 + J, hi))
            for (lo, hi), J in zip(pairwise(self.first), self.n_factors, strict=True)
        ]

    @cached_property
    def stacks(self) -> list[list[int]]:
        """Parts with the same number of factors, which can be worked on together."""
        return [
            [k for k, own in enumerate(self.n_factors) if own == J]
            for J in dict.fromkeys(self.n_factors)
        ]

    @cached_property
    def linear(self) -> Array:
        """Features that are factors, part after part."""
        return np.concatenate([np.arange(f.start, f.stop) for _, f, _ in self.spans()])

    @cached_property
    def quadratic(self) -> Array:
        """Features that are pairs of factors, part after part."""
        return np.concatenate([np.arange(q.start, q.stop) for _, _, q in self.spans()])

    # --- E-step ---

    def fresh_memory(self, index: int) -> None:
        """Rows keep nothing from one sweep to the next."""
        return

    def infer(
        self, prepared: MCFAPrepared, block: Block[Pairs], prior: Array | None = None
    ) -> tuple[Array, Array]:
        """Features of the rows' factors (F, n), and their log normalizer less what is constant.

        ``prior`` (J of all parts, n) are means of the rows' factors, before their entries are seen.
        """
        score = self.evidence(prepared, block)
        if prior is not None:
            score[self.linear] += prior
        found = self.weigh(prepared.params, score, block.labels)
        self.mix(score, found, block.weight)
        return score, found.log_z

    def propose(self, prepared: MCFAPrepared, block: Block[Pairs]) -> Array:
        """Factors to sample when a row's likelihood is estimated, as features in each class."""
        return self.class_features(prepared.params, self.evidence(prepared, block))

    def likely_rows(self, prepared: MCFAPrepared, block: Block[Pairs]) -> Array:
        """Features to begin with where rows select parts for themselves."""
        return self.infer(prepared, block)[0]

    def beginnings(self, prepared: MCFAPrepared, block: Block[Pairs]) -> list[Array]:
        """Such features, for rows that remember nothing."""
        return [self.likely_rows(prepared, block)]

    def wide_rows(
        self, prepared: MCFAPrepared, block: Block[Pairs], settled: Callable[[], Array]
    ) -> Array:
        """As `propose`, where rows select parts for themselves: from evidence that settled."""
        return self.class_features(prepared.params, settled())

    def class_features(self, params: MCFAParams, score: Array) -> Array:
        """Features of the rows' factors in every class, (N, F, n)."""
        found = self.weigh(params, score, None)
        out = np.ones((len(found.z), *score.shape))
        for k, (_, linear, quadratic) in enumerate(self.spans()):
            for n, (m, cov) in enumerate(zip(found.means[k], found.covs[k], strict=True)):
                out[n, linear] = m
                out[n, quadratic] = factors.products(m) + cov
        return out

    def evidence(self, prepared: MCFAPrepared, block: Block[Pairs]) -> Array:
        """What the entries say about the factors: coefficients of their features, (F, n)."""
        (group,) = block.groups
        out = np.zeros((self.first[-1], block.n_rows), block.dtype)
        out[self.linear] = block.score(prepared.weights[:1], prepared.layouts[:1])
        out[self.quadratic] = group.patterns.spread(
            group.pair_score(prepared.weights[1], prepared.layouts[1])
        )
        return out

    def expect(
        self, prepared: MCFAPrepared, block: Block[Pairs], memory: object
    ) -> tuple[None, Stats]:
        """Sums of the features of the rows' factors; rows remember nothing."""
        if self.classes.n_classes > 1:
            return None, self._expect_classes(prepared, block)
        (group,) = block.groups
        weights, layouts = prepared.weights, prepared.layouts
        score = group.pair_score(weights[1], layouts[1])  # (Q, U)
        log_z, counts = np.zeros(block.n_rows), np.empty((1, self.first[-1]))
        pairs = np.empty_like(score)
        second = layouts[1].first

        def on_part(k: int, b: Array) -> Array:
            """Posterior mean of part k's factors in place of their scores (J, n)."""
            one, linear, quadratic = self.spans()[k]
            span = slice(second[k], second[k + 1])
            # In double: with little noise the precision is all but singular.
            exact = _precision(score[span].astype(float), factors.pack(np.eye(len(b)))[:, None])
            cov, log_det = factors.invert(exact, len(b))
            m = factors.multiply(group.patterns.spread(cov), b.astype(float))
            log_z[:] += 0.5 * np.einsum("jn,jn->n", b, m)
            log_z[:] -= 0.5 * group.patterns.spread(log_det[None])[0]
            b[:] = m
            m, cov = b, cov.astype(b.dtype, copy=False)
            wm = weighted(m, block.weight)
            counts[0, one] = block.weight.sum()
            counts[0, linear] = wm.sum(axis=1, dtype=float)
            pairs[span] = self._pair_totals(group.patterns, m, wm, cov, block.weight)
            counts[0, quadratic] = pairs[span].sum(axis=1, dtype=float)
            return wm

        _, sums = block.sweep(weights[:1], layouts[:1], on_part)
        sums = (*sums, group.pair_sums(pairs, layouts[1]))
        return None, Stats(float(block.weight @ (log_z + block.base)), counts, sums)

    def _expect_classes(self, prepared: MCFAPrepared, block: Block[Pairs]) -> Stats:
        """The same with classes: they depend on all parts, so all are scored first."""
        (group,) = block.groups
        features = self.evidence(prepared, block)
        found = self.weigh(prepared.params, features, block.labels)
        bound = float(block.weight @ (found.log_z + block.base))
        if group.patterns.n_patterns > 1:
            counts = self.mix(features, found, block.weight)
            return Stats(bound, counts, self.collect(prepared, block, features))
        # Of the pairs, only sums over all rows are needed.
        counts = self.class_sums(features, found, block.weight)
        m = np.concatenate([self._mean(found, k) for k in range(len(self.n_factors))])
        pairs = counts[:, self.quadratic].sum(axis=0)[:, None]
        return Stats(bound, counts, self._collect(prepared, block, m, pairs))

    def collect(
        self, prepared: MCFAPrepared, block: Block[Pairs], features: Array
    ) -> tuple[Packed, ...]:
        """Sums of features (F, n), as they are and times the entries."""
        patterns = block.groups[0].patterns
        pairs = patterns.gather(weighted(features[self.quadratic], block.weight))
        return self._collect(prepared, block, features[self.linear], pairs)

    def _collect(
        self, prepared: MCFAPrepared, block: Block[Pairs], m: Array, pairs: Array
    ) -> tuple[Packed, ...]:
        """The same from means (J, n) and the pairs' sums over each pattern's rows (Q, U)."""
        (group,) = block.groups
        wm = weighted(m.astype(block.dtype, copy=False), block.weight)
        return (
            *block.collect(wm, prepared.layouts[:1]),
            group.pair_sums(pairs, prepared.layouts[1]),
        )

    @staticmethod
    def _pair_totals(
        patterns: MissingPatterns, m: Array, wm: Array, cov: Array, weight: Array
    ) -> Array:
        """Weighted sums over each pattern's rows of <s s'>, packed; (Q, U)."""
        if patterns.n_patterns == 1:
            total = factors.pack(wm @ m.T)[:, None] + weight.sum() * cov
            return total.astype(m.dtype, copy=False)
        i, j = factors.pair_index(len(m))
        total = weighted(cov, patterns.gather(weight[None])[0])
        return patterns.gather(wm[i] * m[j]) + total

    def weigh(self, params: MCFAParams, score: Array, labels: Array | None) -> Weighed:
        """Posterior of the rows' classes and factors, from coefficients of features (F, n).

        Without classes the prior of the factors is the standard Gaussian; class n has
        N(eta_n, Sigma_n), so Omega_n = (Sigma_n^-1 + sum_d o g <Lambda' Psi^-1 Lambda>)^-1.
        """
        evidence = np.repeat(params.log_beta[:, None], score.shape[1], axis=1)
        spans = self.spans()
        means, covs = [np.empty(0)] * len(spans), [np.empty(0)] * len(spans)
        together = score.size <= MOST_TOGETHER
        for parts in self.stacks if together else [[k] for k in range(len(spans))]:
            log_z, mean, cov = gaussians(
                np.stack([score[spans[k][1]] for k in parts], dtype=float),
                np.stack([score[spans[k][2]] for k in parts], dtype=float),
                np.stack([params.eta[k] for k in parts]),
                np.stack([params.sigma[k] for k in parts]),
            )
            evidence += log_z.sum(axis=0) + score[[spans[k][0] for k in parts]].sum(axis=0)
            for i, k in enumerate(parts):
                means[k], covs[k] = mean[i], cov[i]
        return Weighed(*self.classes.posterior(evidence, labels), evidence, means, covs)

    def mix(self, features: Array, found: Weighed, weight: Array) -> Array:
        """Put the features of the posterior in place (F, n); their sums in each class (N, F)."""
        for k, (one, linear, quadratic) in enumerate(self.spans()):
            features[one] = 1.0
            features[linear] = self._mean(found, k)
            features[quadratic] = 0.0
            for z, m, cov in zip(found.z, found.means[k], found.covs[k], strict=True):
                features[quadratic] += z * (factors.products(m) + cov)
        return self.class_sums(features, found, weight)

    def _mean(self, found: Weighed, k: int) -> Array:
        """Posterior mean of part k's factors over all classes, (J, n)."""
        means = found.means[k]
        total = np.zeros_like(means[0])
        for z, m in zip(found.z, means, strict=True):
            total += z.astype(m.dtype) * m
        return total

    def class_sums(self, score: Array, found: Weighed, weight: Array) -> Array:
        """Weighted sums of the features in each class, (N, F); what `weigh` found tells them."""
        out = np.empty((len(found.z), self.first[-1]))
        wz = found.z * weight
        total = wz.sum(axis=1, keepdims=True)
        for k, (one, linear, quadratic) in enumerate(self.spans()):
            m, cov = found.means[k], found.covs[k]
            out[:, one] = total[:, 0]
            out[:, linear] = (m @ wz[:, :, None])[..., 0]
            spread = cov[..., 0] * total if cov.shape[-1] == 1 else (cov @ wz[:, :, None])[..., 0]
            out[:, quadratic] = factors.pack((m * wz[:, None]) @ m.transpose(0, 2, 1)) + spread
        return out

    def sampled(self, features: Array, found: Weighed | None, rng: Randomness) -> Array:
        """Features (F, n) of factors sampled from their Gaussians in sampled classes.

        Rows that begin, of which no class was sampled, keep the features of their posterior.
        """
        if found is None:
            return features
        assert rng is not None
        out, own = np.ones_like(features), found.z.argmax(axis=0)[None, None]
        for k, (_, linear, quadratic) in enumerate(self.spans()):
            J, n = self.n_factors[k], features.shape[1]
            mean = np.take_along_axis(found.means[k], own, axis=0)[0]  # (J, n)
            covs = np.broadcast_to(found.covs[k], (len(found.z), factors.n_pairs(J), n))
            cov = factors.unpack(np.take_along_axis(covs, own, axis=0)[0].T, J)
            root = np.linalg.cholesky(cov)
            s = mean + np.einsum("nij,jn->in", root, rng.standard_normal((J, n)))
            out[linear], out[quadratic] = s, factors.products(s)
        return out

    def state_density(self, params: MCFAParams, m: Array, labels: Array | None) -> Array:
        """Log prior of factors, as features (F, n), the class summed out unless known; (n,)."""
        evidence = np.repeat(params.log_beta[:, None], m.shape[1], axis=1)
        for k, (_, linear, _) in enumerate(self.spans()):
            away = m[linear].astype(float) - params.eta[k][:, :, None]  # (N, J, n)
            distance = np.einsum("kin,kij,kjn->kn", away, np.linalg.inv(params.sigma[k]), away)
            constant = np.linalg.slogdet(params.sigma[k])[1] + self.n_factors[k] * _LOG_2PI
            evidence -= 0.5 * (distance + constant[:, None])
        return self.classes.posterior(evidence, labels)[1]

    def row_features(self, features: Array) -> Array:
        """What tells rows apart, for clustering; (n, J of all parts)."""
        return features[self.linear].T


def _precision(score: Array, prior: Array) -> Array:
    """Precision of the factors: the prior's plus what pairs' scores say, all packed (Q, ...)."""
    i, j = factors.pair_index(factors.n_vectors(len(score)))
    weight = np.where(i == j, -2.0, -1.0).reshape(-1, *[1] * (score.ndim - 1))
    return weight * score + prior


def gaussians(b: Array, pairs: Array, eta: Array, sigma: Array) -> tuple[Array, Array, Array]:
    """Posterior of the factors of P parts of one size, in every class.

    From scores of factors (P, J, n) and pairs (P, Q, n), and the classes' Gaussians (P, N, J) and
    (P, N, J, J): log normalizers (P, N, n), means (P, N, J, n) and packed covariances
    (P, N, Q, n), or (P, N, Q, 1) where all rows share them.
    """
    b, pairs = b.astype(float, copy=False), pairs.astype(float, copy=False)
    P, J, n = b.shape
    inverse = np.linalg.inv(sigma)
    pull = np.einsum("pkij,pkj->pki", inverse, eta)
    kinds, kind_of = _distinct(pairs.reshape(-1, n))
    score = kinds.reshape(P, pairs.shape[1], kinds.shape[1]).transpose(1, 0, 2)[:, :, None]
    prior = np.moveaxis(factors.pack(inverse), -1, 0)[..., None]
    precision = _precision(score, prior)  # (Q, P, N, U)
    shape = precision.shape
    cov, log_det = factors.invert(precision.reshape(shape[0], math.prod(shape[1:])), J)
    cov, log_det = cov.reshape(shape), log_det.reshape(shape[1:])
    if kind_of is not None:
        cov, log_det = cov[..., kind_of], log_det[..., kind_of]
    shifted = b[:, None] + pull[..., None]
    mean = np.moveaxis(factors.multiply(cov, np.moveaxis(shifted, 2, 0)), 0, 2)
    log_z = 0.5 * (np.einsum("pkjn,pkjn->pkn", shifted, mean) - log_det)
    own = np.linalg.slogdet(sigma)[1] + np.einsum("pki,pki->pk", eta, pull)
    return log_z - 0.5 * own[..., None], mean, np.moveaxis(cov, 0, 2)


def _distinct(pairs: Array) -> tuple[Array, Array | None]:
    """Columns of (Q, n) that differ, and where each stands, if rows with equal masks share them."""
    if len(pairs) == 0:
        return pairs[:, :1], None
    _, first, place = np.unique(pairs[0], return_index=True, return_inverse=True)
    kinds = pairs[:, first]
    if 2 * len(first) > pairs.shape[1] or not np.array_equal(pairs, kinds[:, place]):
        return pairs, None
    return kinds, None if len(first) == 1 else place
