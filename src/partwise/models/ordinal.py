"""Latent numbers on top of MCFA: those of levels have posteriors of their own.

=======  ==========  ========  ====================================================================
symbol   code        shape     meaning
=======  ==========  ========  ====================================================================
x        latent      (nnz,)    E[x], latent number of an entry, between the ends of its level
mu       -           (nnz,)    its mean given the row's factors, rho + Lambda <s>
T        precision   (D,)      its precision, sum_k g / Psi
=======  ==========  ========  ====================================================================

Of an ordered level q(x) is a Gaussian of mean mu and precision T, cut off at the ends of its level
(Albert & Chib 1993, here by variational Bayes). A category has a number for each level, and q of
them all is the product of such Gaussians where the observed level's, with its head start, is the
largest (Girolami & Rogers 2006). Where numbers are observed there is nothing to infer, and without
levels this is MCFA. The factors see E[x] in place of data, loadings and noise also E[x^2].
A sweep updates the factors given the numbers that rows remember, then the numbers, and sums over
both; each step raises the bound, to which q(x) adds its entropy
log Z + log(2 pi / T) / 2 + T E[(x - mu)^2] / 2; Z is that of a category's numbers together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from partwise._compiled import check_sizes, compiled
from partwise.contracts import Array, Block, EntryList, Latent, Packed, Source, Stats
from partwise.likelihoods.copula import choice_moments
from partwise.likelihoods.ordinal import interval_moments
from partwise.models import factors
from partwise.models.factor_rows import MCFAParams, MCFAPrepared
from partwise.models.mcfa import MCFA

# Times at most that rows without memory update factors and numbers in turn, and the change of a
# number, in deviations of its noise, that counts as none. With classes all rounds are gone through.
SETTLING_ROUNDS = 20
SETTLED = 1e-3

_LOG_2PI = float(np.log(2 * np.pi))


class Columns(NamedTuple):
    """What the latent numbers of each column depend on, over all parts."""

    offset: Array  # (D,)
    slope: Array  # (D, J of all parts)
    precision: Array  # (D,)


@dataclass(frozen=True, eq=False)
class Ordinal:
    """The core's model of latent numbers, of which levels between ``ends`` (D, L + 1) are seen.

    ``widths`` (D,) is 1 for these; 0 for numbers that are seen themselves; and V for the first of V
    numbers of a category's levels, -1 for the others, with head starts in ``ends[:, 0]``.
    """

    core: MCFA
    ends: Array
    widths: Array
    needs: ClassVar[tuple[type, ...]] = (Latent,)
    remembers: ClassVar[bool] = True

    def fresh_memory(self, index: int) -> None:
        """No numbers yet."""
        return

    def infer(
        self, prepared: MCFAPrepared, block: Block[Latent], prior: Array | None = None
    ) -> tuple[Array, Array]:
        """Features of the factors of rows that remember nothing, (F, n), and their normalizer.

        ``prior`` (J of all parts, n) are means of the rows' factors, before their entries are seen.
        """
        return self._settle(prepared, block, prior)[1:]

    def evidence(self, prepared: MCFAPrepared, block: Block[Latent]) -> Array:
        """What settled numbers say about the factors, (F, n)."""
        return self.core.evidence(prepared, block.with_values(self.settle(prepared, block)))

    def propose(self, prepared: MCFAPrepared, block: Block[Latent]) -> Array:
        """Factors to sample when a row's likelihood is estimated, as features in each class."""
        return self.core.class_features(prepared.params, self.evidence(prepared, block))

    def settle(
        self, prepared: MCFAPrepared, block: Block[Latent], prior: Array | None = None
    ) -> Array:
        """Numbers of rows that remember nothing, (nnz,)."""
        return self._settle(prepared, block, prior)[0]

    def _settle(
        self, prepared: MCFAPrepared, block: Block[Latent], prior: Array | None
    ) -> tuple[Array, Array, Array]:
        """Numbers, features and normalizers of rows after rounds to settle."""
        core, columns = self.core, combined(self.core, prepared.params)
        latent = self._begin(columns, block)
        score = core.evidence(prepared, block.with_values(latent))
        if prior is not None:
            score[core.linear] += prior
        found = core.weigh(prepared.params, score, block.labels)
        if core.classes.n_classes == 1:
            # The factors' covariance does not hang on the numbers, so each row settles in a walk.
            before = _pulls(core, score, found.means)
            covs = [cov for (cov,) in found.covs]
            latent, score[core.linear] = self._walk(columns, block, score, covs, latent)
            means = [
                factors.multiply(cov, score[linear].astype(float))[None]
                for cov, (_, linear, _) in zip(covs, core.spans(), strict=True)
            ]
            gained = 0.5 * (_pulls(core, score, means) - before)
            found = replace(found, means=means, log_z=found.log_z + gained)
        else:
            for _ in range(SETTLING_ROUNDS):
                core.mix(score, found, block.weight)
                latent = self._numbers(columns, block, score, latent)[0]
                score = core.evidence(prepared, block.with_values(latent))
                if prior is not None:
                    score[core.linear] += prior
                found = core.weigh(prepared.params, score, block.labels)
        core.mix(score, found, block.weight)
        return latent, score, found.log_z

    def _walk(
        self, columns: Columns, block: Block[Latent], score: Array, covs: list[Array], latent: Array
    ) -> tuple[Array, Array]:
        """Settled numbers (nnz,), and what they say about the factors (J, n)."""
        (group,) = block.groups
        b = np.ascontiguousarray(score[self.core.linear].T, dtype=float)
        rows = [np.broadcast_to(cov, (len(cov), block.n_rows)) for cov in covs]
        latent = latent.astype(float)
        self._check_sizes(columns, b, latent, group.codes())
        _settle_rows(
            *group.codes(), self.ends, self.widths, *columns,
            np.ascontiguousarray(np.concatenate(rows).T), np.array(self.core.n_factors), b, latent,
        )  # fmt: skip
        return latent.astype(block.dtype), b.T

    def expect(
        self, prepared: MCFAPrepared, block: Block[Latent], memory: Array | None
    ) -> tuple[Array, Stats]:
        """Factors given the numbers, then the numbers given the factors; sums of both."""
        core, columns = self.core, combined(self.core, prepared.params)
        before = self._begin(columns, block) if memory is None else memory
        features = core.evidence(prepared, block.with_values(before))
        found = core.weigh(prepared.params, features, block.labels)
        counts = core.mix(features, found, block.weight)
        latent, gain, totals = self._numbers(columns, block, features, before)
        bound = float(block.weight @ (found.log_z + gain + block.base))
        sums = core.collect(prepared, block.with_values(latent), features)
        return latent, Stats(bound, counts, (*sums, Packed(np.zeros((3, 1, 0)), totals[:, None])))

    def _begin(self, columns: Columns, block: Block[Latent]) -> Array:
        """Numbers of rows whose factors are unknown, (nnz,)."""
        nothing = np.zeros((self.core.first[-1], block.n_rows), block.dtype)
        start = np.zeros(len(block.groups[0].codes().columns), block.dtype)
        return self._numbers(columns, block, nothing, start)[0]

    def _numbers(
        self, columns: Columns, block: Block[Latent], features: Array, before: Array
    ) -> tuple[Array, Array, Array]:
        """New E[x] given the factors; gain of each row over ``before``; sums of 1, x, x^2 (3, D).

        The normalizer of the factors was taken with the numbers before: where these change, so does
        what an entry says about the factors, T x Lambda <s>.
        """
        (group,) = block.groups
        m = np.ascontiguousarray(features[self.core.linear].T, dtype=block.dtype)
        latent, gain = np.empty_like(before), np.zeros(block.n_rows)
        totals = np.zeros((3, len(columns.offset)))
        self._check_sizes(columns, m, before, group.codes())
        _censor(
            *group.codes(), self.ends, self.widths, m, *columns, before,
            block.weight, latent, gain, totals,
        )  # fmt: skip
        return latent, gain, totals

    def _check_sizes(self, columns: Columns, m: Array, latent: Array, codes: EntryList) -> None:
        """Codes are below L, of whose levels ``ends`` (D, L + 1) are the ends.

        The numbers of a category are neighboring entries.
        """
        sizes = (len(array) for array in columns)
        check_sizes(columns=(self.core.n_columns, len(self.ends), len(self.widths), *sizes))
        check_sizes(factors=(sum(self.core.n_factors), columns.slope.shape[1], m.shape[1]))
        check_sizes(entries=(len(codes.columns), len(latent)), rows=(len(codes.indptr) - 1, len(m)))

    def maximize(self, prepared: MCFAPrepared, stats: Stats) -> MCFAPrepared:
        """The core's step on the numbers."""
        core, stats = self._settled(stats)
        return core.maximize(prepared, stats)

    def learn_columns(self, prepared: MCFAPrepared, stats: Stats) -> MCFAParams:
        """Loadings, then gates."""
        core, stats = self._settled(stats)
        return core.learn_columns(prepared, stats)

    def without_cells(self, seen: Source, holed: Source) -> Ordinal:
        """The model for rows of ``holed`` instead of ``seen``."""
        return replace(self, core=self.core.without_cells(seen, holed))

    def bound(self, prepared: MCFAPrepared, stats: Stats) -> float:
        """Lower bound of the evidence of the levels."""
        core, stats = self._settled(stats)
        return core.bound(prepared, stats)

    def _settled(self, stats: Stats) -> tuple[MCFA, Stats]:
        """The core with the numbers' column sums, and the other sums."""
        *sums, totals = stats.sums
        core = replace(self.core, totals=totals.shared[:, 0])
        return core, replace(stats, sums=tuple(sums))

    def prepare(self, params: MCFAParams) -> MCFAPrepared:
        """As the core."""
        return self.core.prepare(params)

    def begin(self, params: MCFAParams) -> MCFAPrepared:
        """As the core."""
        return self.core.begin(params)

    def thorough(self, prepared: MCFAPrepared) -> MCFAPrepared | None:
        """As the core."""
        return self.core.thorough(prepared)


def _pulls(core: MCFA, score: Array, means: list[Array]) -> Array:
    """b . m of the rows' factors, twice what it adds to their log normalizer; (n,)."""
    parts = zip(core.spans(), means, strict=True)
    return np.sum([(score[linear] * m).sum(axis=0) for (_, linear, _), (m,) in parts], axis=0)


def combined(core: MCFA, params: MCFAParams) -> Columns:
    """Mean and precision of latent numbers where several parts share a column.

    The product of the parts' Gaussians, each to the power of its gate, is Gaussian again.
    """
    weight = np.stack([g * w.precision for g, w in zip(params.gates, params.loadings, strict=True)])
    total = weight.sum(axis=0)
    pairs = list(zip(weight / total, params.loadings, strict=True))
    offset = np.sum([share * w.mean[:, -1] for share, w in pairs], axis=0)
    slope = np.hstack([share[:, None] * w.mean[:, :-1] for share, w in pairs])
    dtype = core.dtype
    return Columns(offset, np.ascontiguousarray(slope, dtype=dtype), total)


@compiled()
def _settle_rows(  # type: ignore[no-untyped-def]  # compiled
    indptr, indices, codes, ends, widths, offset, slope, precision, cov, sizes, b, latent
):
    """Factors Omega b and numbers in turn, row by row, until numbers stay; both in place."""
    m = np.empty(b.shape[1])
    most = max(widths.max(), 1)
    mean, root, first, second = np.empty(most), np.empty(most), np.empty(most), np.empty(most)
    for r in range(len(indptr) - 1):
        for _ in range(SETTLING_ROUNDS):
            begin, q = 0, 0
            for J in sizes:
                m[begin : begin + J] = 0.0
                for i in range(begin, begin + J):
                    for j in range(begin, i + 1):
                        m[i] += cov[r, q] * b[r, j]
                        if j < i:
                            m[j] += cov[r, q] * b[r, i]
                        q += 1
                begin += J
            moved = 0.0
            for e in range(indptr[r], indptr[r + 1]):
                V = widths[indices[e]]
                if V < 1:
                    continue
                for u in range(V):
                    d = indices[e + u]
                    mean[u], root[u] = offset[d], np.sqrt(precision[d])
                    for j in range(len(m)):
                        mean[u] += slope[d, j] * m[j]
                _posterior(V, int(codes[e]), ends, indices[e], mean, root, first, second)
                for u in range(V):
                    d = indices[e + u]
                    change = mean[u] + first[u] / root[u] - latent[e + u]
                    latent[e + u] += change
                    moved = max(moved, abs(change) * root[u])
                    for j in range(len(m)):
                        b[r, j] += precision[d] * change * slope[d, j]
            if moved < SETTLED:
                break


@compiled()
def _posterior(V, level, ends, d, mean, root, first, second):  # type: ignore[no-untyped-def]  # compiled
    """Log share of a level of column d, and moments of its V numbers, in place, in their units."""
    if V == 1:
        low, high = (ends[d, level] - mean[0]) * root[0], (ends[d, level + 1] - mean[0]) * root[0]
        log_share, first[0], second[0] = interval_moments(low, high)
        return log_share
    for u in range(V):
        mean[u] += ends[d + u, 0]
    log_share = choice_moments(level, mean[:V], root[:V], first[:V], second[:V])
    for u in range(V):
        mean[u] -= ends[d + u, 0]
    return log_share


@compiled()
def _censor(  # type: ignore[no-untyped-def]  # compiled
    indptr, indices, codes, ends, widths, m, offset, slope, precision, before, weight, latent, gain,
    totals,
):  # fmt: skip
    """Moments of every entry's number, given its level; see `Ordinal._numbers`."""
    most = max(widths.max(), 1)
    mean, root, first, second = np.empty(most), np.empty(most), np.empty(most), np.empty(most)
    away = np.empty(most)
    for r in range(len(indptr) - 1):
        s = m[r]
        for e in range(indptr[r], indptr[r + 1]):
            d = indices[e]
            V = widths[d]
            if V == 0:
                x = codes[e]
                latent[e] = x
                totals[0, d] += weight[r]
                totals[1, d] += weight[r] * x
                totals[2, d] += weight[r] * x * x
            if V < 1:
                continue
            for u in range(V):
                away[u] = 0.0
                for j in range(len(s)):
                    away[u] += slope[d + u, j] * s[j]
                mean[u], root[u] = offset[d + u] + away[u], np.sqrt(precision[d + u])
            gain[r] += _posterior(V, int(codes[e]), ends, d, mean, root, first, second)
            for u in range(V):
                T, x = precision[d + u], mean[u] + first[u] / root[u]
                latent[e + u] = x
                gain[r] += T * (x - before[e + u]) * away[u]
                gain[r] += 0.5 * (_LOG_2PI - np.log(T) + second[u])
                totals[0, d + u] += weight[r]
                totals[1, d + u] += weight[r] * x
                square = mean[u] * (2.0 * x - mean[u]) + second[u] / T
                totals[2, d + u] += weight[r] * square
