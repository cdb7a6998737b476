"""What a fitted MCFA says about entries and rows: expectations, intervals, likelihoods.

All is in model units. ``features`` (F, n) are those of the rows' factors (`partwise.models.mcfa`).
Densities take the parameters at their expectation, their uncertainty being added to the noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from scipy import special

from partwise._compiled import check_sizes, compiled
from partwise.contracts import Array, Block, Entries, EntryList, Latent, Pairs
from partwise.likelihoods import mixtures
from partwise.likelihoods.copula import choice_moments
from partwise.likelihoods.mixtures import LEAST_WEIGHT
from partwise.likelihoods.ordinal import DENSITY, ROOT_HALF, interval_moments
from partwise.models import factors
from partwise.models.factor_proposals import OpenColumns, propose
from partwise.models.factor_rows import MCFAParams, MCFAPrepared, gaussians
from partwise.models.loadings import Loadings
from partwise.models.mcfa import MCFA
from partwise.sampling.importance import RowLikelihood, summarize_weights


class _PairEntries(Pairs, Entries, Protocol):
    """Views that offer both."""


# Factors of ordered levels are sampled wider than the variational posterior, which counts latent
# numbers as if they were heard.
WIDER_OF_LEVELS = 2.0


# The normal distribution function at multiples of 1 / `PER_UNIT` up to 8 on either side: between
# them the line is right to 5e-7, and several times faster than the function.
PER_UNIT = 256
BELOW = special.ndtr(np.arange(-8 * PER_UNIT, 8 * PER_UNIT + 1) / PER_UNIT)


def part_moments(core: MCFA, params: MCFAParams, features: Array) -> tuple[Array, Array]:
    """Mean and variance of a new entry in every part, each (K, n, D)."""
    return moments(
        core, [coefficients(core, params, k) for k in range(len(core.n_factors))], features
    )


def moments(
    core: MCFA, known: Sequence[tuple[Array, Array]], features: Array
) -> tuple[Array, Array]:
    """The same from every part's `coefficients`."""
    shape = (len(known), features.shape[1], known[0][0].shape[1])
    mean, variance = (np.empty(shape, known[0][0].dtype) for _ in range(2))
    for k, (linear, second) in enumerate(known):
        f = _own(core, features, k).astype(linear.dtype, copy=False)
        np.matmul(f[: len(linear)].T, linear, out=mean[k])
        np.matmul(f.T, second, out=variance[k])
        variance[k] -= (mean[k] - linear[0]) ** 2
    return mean, np.maximum(variance, 1e-12, out=variance)


def _own(core: MCFA, features: Array, k: int) -> Array:
    """Features of part k, (1 + J + Q, n)."""
    one, _, quadratic = core.spans()[k]
    return features[one : quadratic.stop]


def coefficients(
    core: MCFA, params: MCFAParams, k: int, columns: Array | None = None
) -> tuple[Array, Array]:
    """Coefficients of an entry's mean and spread in the features of part k, of some columns or all.

    The mean is ``linear`` (1 + J, D) times 1 and <s>; ``second`` (1 + J + Q, D) gives the noise and
    E[(w's~)^2], the offset apart, so that the variance is that less the squared mean.
    """
    w = params.loadings[k] if columns is None else params.loadings[k].at(columns)
    J = w.mean.shape[1] - 1
    i, j = factors.pair_index(J)
    times, noise, cov = np.where(i == j, 1.0, 2.0)[:, None], w.noise, w.cov
    second = np.vstack(
        [
            noise * (1.0 + cov[:, J, J]),
            2.0 * noise * cov[:, :J, J].T,
            times * (noise * cov[:, i, j].T + (w.mean[:, i] * w.mean[:, j]).T),
        ]
    )
    return np.vstack([w.mean[:, J], w.mean[:, :J].T]), second


def expectation(core: MCFA, params: MCFAParams, factors_of: Array) -> Array:
    """Expected entries (n, D) given factor means (J of all parts, n)."""
    out = np.zeros((factors_of.shape[1], core.n_columns))
    start = 0
    for g, w in zip(params.gates, params.loadings, strict=True):
        J = w.mean.shape[1] - 1
        out += g * (factors_of[start : start + J].T @ w.mean[:, :J].T + w.mean[:, J])
        start += J
    return out


def quantiles(core: MCFA, params: MCFAParams, features: Array, asked: list[Array]) -> list[Array]:
    """Quantiles of every cell's mixture of parts, (n, D), for probabilities (D,) of the columns."""
    mean, variance = part_moments(core, params, features)
    gates, spread = np.ascontiguousarray(params.gates.T, dtype=float), np.sqrt(variance)
    found = []
    for p in asked:
        out = np.empty(mean.shape[1:])
        mixtures.part_quantiles(gates, mean, spread, special.ndtri(p), p, out)
        found.append(out)
    return found


def probability_below(
    core: MCFA, params: MCFAParams, features: Array, rows: Array, columns: Array, values: Array
) -> Array:
    """P(X <= value) of chosen cells, each a mixture of parts."""
    reached, total = np.zeros(len(rows)), np.zeros(len(rows))
    moments = _cell_moments(core, params, features, rows, columns, LEAST_WEIGHT)
    for live, g, mean, spread in moments:
        reached[live] += g * special.ndtr((values[live] - mean) / spread)
        total[live] += g
    return reached / total


def log_density(
    core: MCFA, params: MCFAParams, features: Array, rows: Array, columns: Array, values: Array
) -> Array:
    """Log density of chosen cells, each a mixture of parts."""
    mixed, total = np.full(len(rows), -np.inf), np.zeros(len(rows))
    for live, g, mean, spread in _cell_moments(core, params, features, rows, columns, 0.0):
        z = (values[live] - mean) / spread
        density = -0.5 * (z * z + np.log(2 * np.pi)) - np.log(spread)
        mixed[live] = np.logaddexp(mixed[live], np.log(g) + density)
        total[live] += g
    return mixed - np.log(total)


def _cell_moments(
    core: MCFA, params: MCFAParams, features: Array, rows: Array, columns: Array, least: float
) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Of every part the cells with gates above ``least``, these gates, means and spreads."""
    for k in range(len(core.n_factors)):
        live = np.flatnonzero(params.gates[k, columns] > least)
        own, d = np.unique(columns[live], return_inverse=True)
        mean, second = coefficients(core, params, k, own)
        f = np.ascontiguousarray(_own(core, features, k).T, dtype=float)
        check_sizes(features=(f.shape[1], len(second)))
        tables = np.ascontiguousarray(mean.T), np.ascontiguousarray(second.T)
        expected, square = np.empty(len(live)), np.empty(len(live))
        _cell_products(f, *tables, rows[live], d, expected, square)
        spread = np.sqrt(np.maximum(square - (expected - mean[0, d]) ** 2, 1e-12))
        yield live, params.gates[k, columns[live]], expected, spread


def level_shares(mean: Array, variance: Array, gates: Array, ends: Array) -> Array:
    """Probability of every ordered level, (n, D, L), from moments (K, n, D) in every part.

    ``ends`` are the levels' lower ends and the last's upper one, (D, L + 1).
    """
    out = np.zeros((*mean.shape[1:], ends.shape[1] - 1))
    check_sizes(columns=(mean.shape[2], gates.shape[1], len(ends)), parts=(len(mean), len(gates)))
    gates, ends = (np.ascontiguousarray(table, dtype=float) for table in (gates, ends))
    _mix_levels(mean, variance, gates, ends, out)
    return out


def level_means(mean: Array, variance: Array, gates: Array, ends: Array, levels: Array) -> Array:
    """Expectations (n, D) of the distributions of `level_shares` over ``levels`` (L,)."""
    out = np.empty(mean.shape[1:], np.float32)
    check_sizes(columns=(mean.shape[2], gates.shape[1], len(ends)), parts=(len(mean), len(gates)))
    check_sizes(levels=(ends.shape[1] - 1, len(levels)))
    gates, ends = (np.ascontiguousarray(table, dtype=float) for table in (gates, ends))
    _mix_means(mean, variance, gates, ends, levels, BELOW, out)
    return out


def cell_level_shares(
    core: MCFA, params: MCFAParams, features: Array, rows: Array, columns: Array, ends: Array
) -> Array:
    """Probability of every ordered level of chosen cells, (cells, L)."""
    below, total = np.zeros((len(rows), ends.shape[1] - 2)), np.zeros((len(rows), 1))
    moments = _cell_moments(core, params, features, rows, columns, LEAST_WEIGHT)
    for live, g, mean, spread in moments:
        z = (ends[columns[live], 1:-1] - mean[:, None]) / spread[:, None]
        below[live] += g[:, None] * special.ndtr(z)
        total[live, 0] += g
    return np.diff(below / total, prepend=0.0, append=1.0)


def point(core: MCFA, params: MCFAParams, parts: Array, gates: Array) -> MCFAPrepared:
    """Parameters without width, with given gates (K, D) and parts of decided columns."""
    share = params.class_counts / max(params.class_counts.sum(), np.finfo(float).tiny)
    sure = []
    for w, eta, sigma in zip(params.loadings, params.eta, params.sigma, strict=True):
        # Given factors of the prior, uncertain loadings are so much more noise.
        s = np.hstack([eta, np.ones((len(eta), 1))])  # E[s~] of each class
        second = np.einsum("n,ni,nj->ij", share, s, s)
        second[:-1, :-1] += np.einsum("n,nij->ij", share, sigma)
        noise = w.noise * (1.0 + np.einsum("dij,ij->d", w.cov, second))
        sure.append(Loadings.sure(w.mean, noise))
    gate = replace(params.gate, g=gates)
    # What is sure has no divergence.
    return core.pack(replace(params, gate=gate, loadings=tuple(sure)), np.zeros_like(gates), parts)


def evidence(core: MCFA, sure: MCFAPrepared, block: Block[Pairs]) -> Array:
    """Coefficients of the features, (F, n), that of 1 included: the block has squares."""
    out = core.evidence(sure, block)
    out[core.first[:-1]] = sure.evidence_of_one(block)
    return out


def part_likelihoods(core: MCFA, params: MCFAParams, block: Block[Pairs]) -> Array:
    """Log density of every part's entries, each column given to its likeliest part; (N, K, n)."""
    hard = hardened(params)
    parts = hard.gates.argmax(axis=0)
    return _by_part(core, params, evidence(core, point(core, params, parts, hard.gates), block))


def hardened(params: MCFAParams) -> MCFAParams:
    """The same with every column given to its likeliest part."""
    best = params.gates.argmax(axis=0) == np.arange(len(params.gates))[:, None]
    return replace(params, gate=replace(params.gate, g=best.astype(float)))


def _by_part(core: MCFA, params: MCFAParams, score: Array) -> Array:
    """Log normalizer of every part and class, (N, K, n)."""
    found = [
        gaussians(*(of[None] for of in (score[linear], score[quadratic], eta, sigma)))[0][0]
        + score[one]
        for (one, linear, quadratic), eta, sigma in zip(
            core.spans(), params.eta, params.sigma, strict=True
        )
    ]
    return np.stack(found, axis=1)


def row_likelihood(
    core: MCFA,
    params: MCFAParams,
    block: Block[_PairEntries],
    proposal: Array | None,
    n_draws: int,
    seed: int = 0,
    from_prior: bool = False,
) -> RowLikelihood:
    """Log-likelihood of a block's rows under every class; fields of shape (N, n).

    Exact where all columns have one part, factors being summed out; else by importance sampling of
    the factors around a mode that is sought from ``proposal``, features (N, F, n), the selections
    of parts being summed out. ``from_prior`` samples factors from their prior instead, and always.
    """
    closed = params.gates.max(axis=0) >= 1.0
    parts = np.where(closed, params.gates.argmax(axis=0), -1)
    sure = point(core, params, parts, np.where(closed, params.gates, 0.0))
    score = evidence(core, sure, block)
    if closed.all() and not from_prior:
        value = _by_part(core, params, score).sum(axis=1)
        exact = RowLikelihood(value, np.zeros_like(value), np.full_like(value, np.inf))
        return exact.shifted(block.base)
    shared = np.flatnonzero(~closed)
    (group,) = block.groups
    entries = group.entries(shared, absent=True)
    live = params.gates[:, shared] > 1e-12
    place = np.zeros(core.n_columns, np.int64)
    place[shared] = np.arange(len(shared))
    # Columns of the entries are shared ones, which `place` numbers.
    entries = EntryList(entries.indptr, place[entries.columns], entries.values.astype(float))
    J = max(core.n_factors)
    tables = [w.at(shared) for w in sure.params.loadings]
    widths = [((0, 0), (0, J + 1 - t.mean.shape[1])) for t in tables]
    padded = [np.pad(t.mean[:, :-1], w) for t, w in zip(tables, widths, strict=True)]
    Lambda = np.stack(padded)  # (K, D, J)
    rho = np.stack([t.mean[:, -1] for t in tables])
    precision = np.stack([t.precision for t in tables])
    log_a = np.log(np.maximum(params.gates[:, shared], 1e-300))
    constant = np.where(live, log_a + 0.5 * np.log(precision / (2 * np.pi)), -np.inf)
    start = np.concatenate([[0], np.cumsum(core.n_factors)]).astype(np.int64)
    columns = OpenColumns(Lambda, rho, precision, constant)
    check_sizes(rows=(block.n_rows, len(entries.indptr) - 1))
    found = []
    for n in range(core.classes.n_classes):
        rng = np.random.default_rng(seed)  # the same samples for every block and class
        if from_prior:
            features = _prior_features(core, params, n, block.n_rows)
            draws, log_q = _draw_factors(core, features, n_draws, rng, wider=1.0)
        else:
            assert proposal is not None
            given = _precisions(core, params, score, n)
            begin = proposal[n][core.linear].T
            draws, log_q = propose(entries, columns, start, *given, begin, n_draws, rng)
        density = np.empty(log_q.shape)
        _mixed_densities(*entries, *columns, start, draws, density)
        density += _given_factors(core, params, score, draws, n)
        found.append(summarize_weights(density - log_q))
    stacked = RowLikelihood(*(np.stack(field) for field in zip(*found, strict=True)))
    return stacked.shifted(block.base)


def _precisions(core: MCFA, params: MCFAParams, score: Array, n: int) -> tuple[Array, Array]:
    """Precision of each part's factors in class n by prior and decided columns, (n, K, J, J).

    Also that times their mean, (n, K, J); both padded to the largest part.
    """
    J = max(core.n_factors)
    A = np.tile(np.eye(J), (score.shape[1], len(core.n_factors), 1, 1))
    b = np.zeros(A.shape[:3])
    for k, (_, linear, quadratic) in enumerate(core.spans()):
        own, inverse = core.n_factors[k], np.linalg.inv(params.sigma[k][n])
        i, j = factors.pair_index(own)
        seen = np.where(i == j, -2.0, -1.0)[:, None] * score[quadratic]
        A[:, k, :own, :own] = inverse + factors.unpack(seen.T, own)
        b[:, k, :own] = inverse @ params.eta[k][n] + score[linear].T
    return A, b


def _prior_features(core: MCFA, params: MCFAParams, n: int, n_rows: int) -> Array:
    """Features of factors of class n's prior, the same for all rows; (F, n)."""
    out = np.ones(core.first[-1])
    for k, (_, linear, quadratic) in enumerate(core.spans()):
        eta = params.eta[k][n]
        out[linear], out[quadratic] = eta, factors.pack(params.sigma[k][n] + np.outer(eta, eta))
    return np.repeat(out[:, None], n_rows, axis=1)


def level_likelihood(
    core: MCFA,
    params: MCFAParams,
    block: Block[Latent],
    ends: Array,
    widths: Array,
    proposal: Array,
    n_draws: int,
    part: int | None = None,
    seed: int = 0,
) -> RowLikelihood:
    """Log-likelihood of rows of latent numbers under every class; fields of shape (N, n).

    ``ends`` and ``widths`` are those of `partwise.models.ordinal.Ordinal`. By importance sampling
    of the factors from ``proposal``, features (N, F, n). Given ``part``, of the entries of that
    part's columns alone, each given to its likeliest.
    """
    parts = range(len(core.n_factors)) if part is None else [part]
    gates = (params if part is None else hardened(params)).gates
    sure = point(core, params, core.all_undecided, gates).params.loadings
    (group,) = block.groups
    start = np.concatenate([[0], np.cumsum(core.n_factors)]).astype(np.int64)
    slope = np.zeros((len(gates), core.n_columns, start[-1]))
    for k, w in enumerate(sure):
        slope[k, :, start[k] : start[k + 1]] = w.mean[:, :-1]
    rho = np.stack([w.mean[:, -1] for w in sure])
    root = np.sqrt(np.stack([w.precision for w in sure]))
    chosen = np.zeros_like(gates)
    chosen[list(parts)] = gates[list(parts)]
    ends = np.ascontiguousarray(ends)
    check_sizes(
        columns=(core.n_columns, len(ends), len(widths)), rows=(block.n_rows, proposal.shape[2])
    )
    found = []
    for n, features in enumerate(proposal):
        rng = np.random.default_rng(seed)  # the same samples for every block and class
        draws, log_q = _draw_factors(core, features, n_draws, rng, parts)
        density = np.empty(log_q.shape)
        _level_densities(
            *group.codes(), ends, widths, chosen, slope, rho, root, draws, density,
        )  # fmt: skip
        nothing = np.zeros((core.first[-1], block.n_rows))
        density += _given_factors(core, params, nothing, draws, n, parts)
        found.append(summarize_weights(density - log_q))
    value, error, n_effective = (np.stack(field) for field in zip(*found, strict=True))
    # Nothing was seen of some rows, and that is certain.
    empty = group.row_sums(chosen.sum(axis=0)[group.codes().columns]) == 0.0
    value[:, empty], error[:, empty], n_effective[:, empty] = 0.0, 0.0, np.inf
    return RowLikelihood(value, error, n_effective)


def _draw_factors(
    core: MCFA,
    features: Array,
    n_draws: int,
    rng: np.random.Generator,
    parts: Sequence[int] | None = None,
    wider: float = WIDER_OF_LEVELS,
) -> tuple[Array, Array]:
    """Factors sampled from widened Gaussians, and the log density of the samples.

    Of some ``parts`` alone, if given; the others' are 0.
    """
    n = features.shape[1]
    z = rng.standard_normal((n_draws, sum(core.n_factors)))
    draws = np.zeros((n, *z.shape))
    log_q = np.zeros((n, n_draws))
    first = np.concatenate([[0], np.cumsum(core.n_factors)])
    for k in range(len(core.n_factors)) if parts is None else parts:
        start, J, (_, linear, quadratic) = first[k], core.n_factors[k], core.spans()[k]
        m = features[linear].T.astype(float)  # (n, J)
        cov = factors.unpack(features[quadratic].T.astype(float), J) - m[:, :, None] * m[:, None, :]
        root = np.linalg.cholesky(wider * cov + 1e-9 * np.eye(J))
        own = z[:, start : start + J]
        draws[:, :, start : start + J] = m[:, None] + np.einsum("nij,tj->nti", root, own)
        log_det = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        log_q += -0.5 * (own**2).sum(axis=1) - log_det[:, None] - 0.5 * J * np.log(2 * np.pi)
    return draws, log_q


def _given_factors(
    core: MCFA,
    params: MCFAParams,
    score: Array,
    draws: Array,
    n: int,
    parts: Sequence[int] | None = None,
) -> Array:
    """Log prior of sampled factors in class n, and density of decided columns; (n, T)."""
    total = np.zeros(draws.shape[:2])
    first = np.concatenate([[0], np.cumsum(core.n_factors)])
    for k in range(len(core.n_factors)) if parts is None else parts:
        start, J, (one, linear, quadratic) = first[k], core.n_factors[k], core.spans()[k]
        s, eta, sigma = draws[:, :, start : start + J], params.eta[k][n], params.sigma[k][n]
        i, j = factors.pair_index(J)
        total += score[one][:, None] + np.einsum("jn,ntj->nt", score[linear], s)
        total += np.einsum("qn,ntq->nt", score[quadratic], s[:, :, i] * s[:, :, j])
        away = s - eta
        distance = np.einsum("nti,ij,ntj->nt", away, np.linalg.inv(sigma), away)
        total -= 0.5 * (distance + np.linalg.slogdet(sigma)[1] + J * np.log(2 * np.pi))
    return total


@compiled(fastmath={"contract", "reassoc"})
def _cell_products(f, mean, second, rows, columns, expected, square):  # type: ignore[no-untyped-def]  # compiled
    """Products of the features of a row and the two coefficients of a column, for chosen cells."""
    for c in range(len(rows)):
        own, first, both = f[rows[c]], mean[columns[c]], second[columns[c]]
        total, spread = 0.0, 0.0
        for i in range(len(first)):
            total += own[i] * first[i]
        for i in range(len(both)):
            spread += own[i] * both[i]
        expected[c], square[c] = total, spread


@compiled()
def _mix_means(mean, variance, gates, ends, levels, below, out):  # type: ignore[no-untyped-def]  # compiled
    """out[r, d] = sum_k g E[level | part k] / sum_k g, parts of hardly any weight left out."""
    K, n, D = mean.shape
    middle = len(below) // 2
    for r in range(n):
        for d in range(D):
            total, found = 0.0, 0.0
            for k in range(K):
                if gates[k, d] > LEAST_WEIGHT:
                    root, m = PER_UNIT / math.sqrt(variance[k, r, d]), mean[k, r, d]
                    above = 0.0
                    for level in range(1, len(levels)):
                        z = min(max((m - ends[d, level]) * root, -middle), middle - 1e-6) + middle
                        i = min(max(int(z), 0), len(below) - 2)  # NaN has no whole number
                        reached = below[i] + (z - i) * (below[i + 1] - below[i])
                        above += reached * (levels[level] - levels[level - 1])
                    total += gates[k, d]
                    found += gates[k, d] * above
            out[r, d] = levels[0] + found / total


@compiled()
def _mix_levels(mean, variance, gates, ends, out):  # type: ignore[no-untyped-def]  # compiled
    """out[r, d, l] = sum_k g P(level l | part k) / sum_k g, parts of hardly any weight left out."""
    K, n, D = mean.shape
    L = out.shape[2]
    for r in range(n):
        for d in range(D):
            total = 0.0
            for k in range(K):
                if gates[k, d] > LEAST_WEIGHT:
                    total += gates[k, d]
            for k in range(K):
                if gates[k, d] > LEAST_WEIGHT:
                    share = gates[k, d] / total
                    root, m = ROOT_HALF / math.sqrt(variance[k, r, d]), mean[k, r, d]
                    below = 0.0
                    for level in range(L - 1):
                        reached = 0.5 * math.erfc((m - ends[d, level + 1]) * root)
                        out[r, d, level] += share * (reached - below)
                        below = reached
                    out[r, d, L - 1] += share * (1.0 - below)


@compiled()
def _level_densities(  # type: ignore[no-untyped-def]  # compiled
    indptr, columns, codes, ends, widths, gates, slope, rho, root, draws, out
):
    """out[r, t] = sum over entries of log sum_k a p(entry | factors of sample t).

    The numbers of a category have the mean and the precision of all parts together.
    """
    K, most = len(gates), max(widths.max(), 1)
    center, spread, first, second = np.empty(most), np.empty(most), np.empty(most), np.empty(most)
    for r in range(len(indptr) - 1):
        for t in range(draws.shape[1]):
            s, total = draws[r, t], 0.0
            for e in range(indptr[r], indptr[r + 1]):
                d, V = columns[e], widths[columns[e]]
                share, reach = 0.0, 0.0
                for u in range(V):
                    center[u], spread[u] = 0.0, 0.0
                for u in range(max(V, 0 if V < 0 else 1)):
                    for k in range(K):
                        g = gates[k, d + u]
                        if g > 0.0:
                            mean, own = rho[k, d + u], root[k, d + u]
                            for j in range(len(s)):
                                mean += slope[k, d + u, j] * s[j]
                            reach += g
                            if V == 0:
                                away = (codes[e] - mean) * own
                                share += g * np.exp(-0.5 * away * away) * own * DENSITY
                            elif V == 1:
                                level = int(codes[e])
                                low = (ends[d, level] - mean) * own
                                high = (ends[d, level + 1] - mean) * own
                                share += g * np.exp(interval_moments(low, high)[0])
                            else:
                                center[u] += g * own * own * mean
                                spread[u] += g * own * own
                if reach > 0.0 and V > 1:
                    for u in range(V):
                        if spread[u] > 0.0:
                            center[u] = center[u] / spread[u] + ends[d + u, 0]
                            spread[u] = np.sqrt(spread[u])
                        else:
                            center[u], spread[u] = ends[d + u, 0], 1.0
                    total += choice_moments(
                        int(codes[e]), center[:V], spread[:V], first[:V], second[:V]
                    )
                elif reach > 0.0:
                    total += np.log(max(share, 1e-300))
            out[r, t] = total


@compiled(fastmath={"contract", "reassoc"})
def _mixed_densities(indptr, columns, values, Lambda, rho, precision, constant, start, draws, out):  # type: ignore[no-untyped-def]  # compiled
    """out[r, t] = sum over entries of log sum_k a N(x; Lambda s_k + rho, Psi) at sample t.

    Terms are taken relative to the largest that a column can have, and few logarithms are taken, of
    products; an entry beyond what that can hold is summed in logarithms.
    """
    K, D = constant.shape
    top = np.empty(D)
    for d in range(D):
        top[d] = constant[:, d].max()
    terms = np.empty(K)
    for r in range(len(indptr) - 1):
        base = 0.0
        for e in range(indptr[r], indptr[r + 1]):
            base += top[columns[e]]
        for t in range(draws.shape[1]):
            s = draws[r, t]
            total, product = base, 1.0
            for e in range(indptr[r], indptr[r + 1]):
                d, x = columns[e], values[e]
                mixed, nearest = 0.0, -np.inf
                for k in range(K):
                    away = x - rho[k, d]
                    for j in range(start[k], start[k + 1]):
                        away -= Lambda[k, d, j - start[k]] * s[j]
                    terms[k] = constant[k, d] - top[d] - 0.5 * precision[k, d] * away * away
                    nearest = max(nearest, terms[k])
                for k in range(K):
                    if terms[k] > nearest - 40.0:
                        mixed += np.exp(terms[k])
                if mixed < 1e-280:
                    mixed = 0.0
                    for k in range(K):
                        mixed += np.exp(terms[k] - nearest)
                    total += nearest
                product *= mixed
                if product < 1e-20:
                    total += np.log(product)
                    product = 1.0
            out[r, t] = total + np.log(product)
