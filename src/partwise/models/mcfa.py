"""Multiple Cause Factor Analysis (Ross & Zemel 2006, section 2.2).

=======  ============  ===========  ============================================  ==============
symbol   code          shape        meaning                                       equation
=======  ============  ===========  ============================================  ==============
Lambda   mean          (D, J + 1)   loadings of a part, then the offset rho       JMLR Eq. 5
Psi      shape, rate   (D,)         noise of a part, as a Gamma of its inverse    JMLR Eq. 5
m        m             (J, n)       posterior mean of a row's factors             JMLR 2.2.1
Omega    cov           (Q, U)       its covariance, packed, per mask              docs/mcfa.md
eta      eta           (N, J)       mean of the factors in a class                docs/mcfa.md
Sigma    sigma         (N, J, J)    their covariance in a class                   docs/mcfa.md
=======  ============  ===========  ============================================  ==============

All that a row's factors say enters through their *features* 1, <s> and <s s'> (packed), Q pairs for
J factors: parts are numbered in one row, those of part k at first[k] .. first[k + 1] - 1, (F, n) in
all. The expected log density of an entry is linear in them, with coefficients ``natural``
(3, F, D) for 1, x and x^2. Missing entries are ignored, so Omega depends on the pattern
of a row's missing entries; rows with the same pattern share it.

Departures from the paper: loadings and offset are learned together; they and the noise are
posteriors with a relevance for each direction (`partwise.models.loadings`), with maximum likelihood
as the flat limit; after each step the factors are rescaled to covariance I (and mean 0), which the
paper's updates approach slowly, whenever that raises the bound. A background part has no factors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy import linalg

from partwise.contracts import Array, DType, Layout, Packed, Source, Stats
from partwise.models import factors
from partwise.models.class_variable import ClassVariable
from partwise.models.factor_rows import FactorRows, MCFAParams, MCFAPrepared
from partwise.models.gating import Chooser
from partwise.models.loadings import Loadings, PointLoadings, RegressionSums, Relevant

_LOG_2PI = float(np.log(2 * np.pi))

# Least variance of the factors in a class, of their overall variance 1: without a prior, a class of
# few rows would have density without limit.
LEAST_SPREAD = 1e-6

# Gates below this tell nothing about the sums that they weighed.
LEAST_GATE = 1e-8

# Added to the factors' second moment before it is inverted: a direction that no row takes is 0.
_JITTER = 1e-12


@dataclass(frozen=True, eq=False)
class MCFA(FactorRows):
    """The model with one posterior of the parts for all rows (standard, tied, annealed).

    Parameters
    ----------
    n_factors : tuple of K int
    prior : Relevant or PointLoadings
        How a column's loadings are learned.
    chooser : Chooser
        How columns choose parts.
    classes : ClassVariable
    class_strength : float
        How many rows the standard Gaussian weighs in every class's prior of the factors.
    totals : ndarray of shape (3, D)
        RegressionSums of 1, x and x^2 over the observed entries.
    dtype : dtype of the data
    """

    n_factors: tuple[int, ...]
    prior: Relevant | PointLoadings
    chooser: Chooser
    classes: ClassVariable
    class_strength: float
    totals: Array
    dtype: DType

    @cached_property
    def columns(self) -> tuple[Array, ...]:
        """All columns, one group."""
        return (np.arange(self.totals.shape[1]),)

    @property
    def n_columns(self) -> int:
        """D."""
        return self.totals.shape[1]

    @property
    def all_undecided(self) -> Array:
        """A -1 for every column."""
        return np.full(self.n_columns, -1)

    @cached_property
    def open_layouts(self) -> tuple[Layout, ...]:
        """Layouts of factors and of pairs in which no column is decided."""
        return tuple(Layout(self.all_undecided, n) for n in (self.n_factors, self.n_pairs))

    # --- M-step ---

    def maximize(self, prepared: MCFAPrepared, stats: Stats) -> MCFAPrepared:
        """Loadings, then gates, relevances and classes, then the scale of the factors."""
        params, age = self._learn_columns(prepared, stats)
        stake = self.chooser.gating.stake(params.gates)
        params = self._rescale(self._learn_rest(params, stats, stake), stats.states, stake)
        return self._prepared(params, self.chooser.decided(params.gate, age), age)

    def maximize_running(self, prepared: MCFAPrepared, stats: Stats) -> MCFAPrepared:
        """The same from running sums, in which no column is decided.

        The factors keep their scale, in which the sums were taken.
        """
        params, age = self._learn_columns(prepared, stats)
        params = self._learn_rest(params, stats, self.chooser.gating.stake(params.gates))
        return self._prepared(params, self.chooser.decided(params.gate, 0), age)

    def sums_of(self, params: MCFAParams) -> Stats:
        """Sums, no column decided, that would have given these parameters."""
        share = self.chooser.gating.share(params.gates)
        linear = np.empty((2, len(self.linear), self.n_columns))
        pairs = np.empty((1, len(self.quadratic), self.n_columns))
        moments = np.zeros((self.classes.n_classes, self.first[-1]))
        first, second = (layout.first for layout in self.open_layouts)
        for k, (one, mean, square) in enumerate(self.spans()):
            J, weight = self.n_factors[k], params.class_counts
            sums = self.prior.sums(params.loadings[k], params.relevance[k])
            if share is not None:  # what a part did not explain is forgotten
                told = share[k] > LEAST_GATE
                sums = sums.scaled(np.where(told, 1.0 / np.maximum(share[k], LEAST_GATE), 0.0))
            linear[0, first[k] : first[k + 1]] = sums.ss[:, :J, J].T
            linear[1, first[k] : first[k + 1]] = sums.sx[:, :J].T
            pairs[0, second[k] : second[k + 1]] = factors.pack(sums.ss[:, :J, :J]).T
            n = (weight + self.class_strength)[:, None]
            raw = params.sigma[k] + params.eta[k][:, :, None] * params.eta[k][:, None, :]
            raw = n[:, :, None] * raw - self.class_strength * np.eye(J)
            moments[:, one], moments[:, mean] = weight, n * params.eta[k]
            moments[:, square] = factors.pack(raw)
        none = [np.zeros((2, max(self.n_factors), 0)), np.zeros((1, max(self.n_pairs), 0))]
        return Stats(0.0, moments, (Packed(none[0], linear), Packed(none[1], pairs)))

    def learn_columns(self, prepared: MCFAPrepared, stats: Stats) -> MCFAParams:
        """Loadings, then gates."""
        return self._learn_columns(prepared, stats)[0]

    def _learn_columns(self, prepared: MCFAPrepared, stats: Stats) -> tuple[MCFAParams, int]:
        """Also how many sweeps ago all parts were looked at."""
        params, layouts = prepared.params, prepared.layouts
        share = self.chooser.gating.share(params.gates)
        gain = np.zeros_like(params.gates)
        loadings, divergence = [], prepared.divergence.copy()
        for k in range(len(self.n_factors)):
            columns, sums = self._sums(stats, layouts, k)
            used = sums if share is None else sums.scaled(share[k, columns])
            prior = self.prior.at(columns)
            new = prior.posterior(used, params.relevance[k])
            gain[k, columns] = self._gain(new, sums)
            divergence[k, columns] = prior.divergence(new, params.relevance[k])
            loadings.append(params.loadings[k].put(columns, new))
        looked_at = layouts[0].parts < 0
        gate = self.chooser.choose(params.gate, gain, divergence, looked_at)
        age = 0 if looked_at.all() else prepared.age + 1
        return replace(params, loadings=tuple(loadings), gate=gate), age

    def maximize_selected(self, prepared: MCFAPrepared, stats: Stats) -> MCFAPrepared:
        """The same where every row selected parts for itself, the selections being in the sums.

        The factors keep their scale, in which rows remember them.
        """
        assert stats.gates is not None
        params = prepared.params
        full = stats.sums[0].shared  # (3, F, D)
        loadings = []
        for k, (one, linear, quadratic) in enumerate(self.spans()):
            sums = _regression_sums(
                full[0, quadratic], full[0, linear], full[1, linear], full[:, one]
            )
            loadings.append(self.prior.posterior(sums, params.relevance[k]))
        gate = self.chooser.select(params.gate, stats.gates)
        params = replace(params, loadings=tuple(loadings), gate=gate)
        params = self._learn_rest(params, stats, np.ones_like(gate.g))
        return self._prepared(params, self.all_undecided)

    def _sums(
        self, stats: Stats, layouts: tuple[Layout, ...], k: int
    ) -> tuple[Array, RegressionSums]:
        """Columns that part k was looked at for, and their sums."""
        linear, quadratic = stats.sums
        layout = layouts[0]
        at = slice(layout.bounds[k], layout.bounds[k + 1])
        columns = np.concatenate([layout.decided[at], layout.undecided])
        J, Q = self.n_factors[k], self.n_pairs[k]

        def joined(packed: Packed, p: int, size: int, first: Array) -> Array:
            shared = packed.shared[p, first[k] : first[k] + size]
            return np.concatenate([packed.own[p, :size, at], shared], axis=1)

        ss = joined(quadratic, 0, Q, layouts[1].first)
        s, sx = (joined(linear, p, J, layout.first) for p in (0, 1))
        return columns, _regression_sums(ss, s, sx, self.totals[:, columns])

    def _gain(self, loadings: Loadings, sums: RegressionSums) -> Array:
        """Expected log-likelihood of columns under new loadings, (D,)."""
        quadratic = np.einsum("dij,dij->d", loadings.outer, sums.ss)
        cross = np.einsum("di,di->d", loadings.mean, sums.sx)
        tau = loadings.precision
        error = tau * (sums.xx - 2.0 * cross) + quadratic
        return 0.5 * (sums.n * (self.prior.log_precision(loadings) - _LOG_2PI) - error)

    def _learn_rest(self, params: MCFAParams, stats: Stats, stake: Array) -> MCFAParams:
        """Relevances and classes."""
        relevance = [
            self.prior.relevance(loadings, stake[k]) for k, loadings in enumerate(params.loadings)
        ]
        return self.learn_states(replace(params, relevance=tuple(relevance)), stats.states)

    def learn_states(self, params: MCFAParams, moments: Array) -> MCFAParams:
        """Priors of classes, and of the factors in each, from sums of features (N, F)."""
        eta, sigma = _class_gaussians(self, moments)
        counts = moments[:, 0]
        return replace(
            params, class_counts=counts, log_beta=self.classes.learn(counts), eta=eta, sigma=sigma
        )

    def _rescale(self, params: MCFAParams, moments: Array, stake: Array) -> MCFAParams:
        """Factors of mean 0 and covariance I, rotated to the directions of relevance.

        With s = L s' + c the densities of entries stay what they are. What changes is the cost of
        loadings and relevances and, without classes, that of the factors' posterior against their
        prior; a part is rescaled only if the bound gains.
        """
        loadings, relevance = list(params.loadings), list(params.relevance)
        eta, sigma = list(params.eta), list(params.sigma)
        share = params.class_counts / max(params.class_counts.sum(), 1e-300)
        for k, J in enumerate(self.n_factors):
            if J == 0:
                continue
            gain = 0.0
            _, linear, quadratic = self.spans()[k]
            if len(share) == 1:  # the posterior's moments take the prior's place
                n = max(moments[0, 0], 1e-300)
                mean = moments[0, linear] / n
                raw = factors.unpack(moments[0, quadratic], J) / n
                second = raw - np.outer(mean, mean)
            else:
                mean = share @ eta[k]
                second = np.einsum("n,nij->ij", share, sigma[k])
                second += np.einsum("n,ni,nj->ij", share, eta[k] - mean, eta[k] - mean)
            second += _JITTER * np.eye(J)
            scale = linalg.cholesky(second, lower=True)
            L = scale @ self._rotation(loadings[k], scale, stake[k])
            if len(share) == 1:
                log_det = np.linalg.slogdet(second)[1]
                gain = 0.5 * moments[0, 0] * (np.trace(raw) - J - log_det)
            T = np.eye(J + 1)
            T[:J, :J], T[J, :J] = L.T, mean
            moved = loadings[k].moved(T)
            new = self.prior.relevance(moved, stake[k])
            before = (loadings[k], relevance[k], eta[k], sigma[k])
            inverse = np.linalg.inv(L)
            after = (
                moved, new, (eta[k] - mean) @ inverse.T, inverse @ sigma[k] @ inverse.T
            )  # fmt: skip
            gain += self._part_cost(*before, stake[k]) - self._part_cost(*after, stake[k])
            if gain >= 0.0:
                loadings[k], relevance[k], eta[k], sigma[k] = after
                if len(share) == 1:
                    eta[k], sigma[k] = before[2:]
        return replace(
            params,
            loadings=tuple(loadings),
            relevance=tuple(relevance),
            eta=tuple(eta),
            sigma=tuple(sigma),
        )

    def _rotation(self, loadings: Loadings, scale: Array, stake: Array) -> Array:
        """Rotation that makes the loadings' second moment diagonal, the largest first."""
        J = len(scale)
        moment = np.einsum("d,dij->ij", stake, loadings.outer[:, :J, :J])
        vectors = np.linalg.eigh(scale.T @ moment @ scale)[1][:, ::-1]
        # A direction and its opposite are equally good; the largest entry shall be positive.
        return vectors * np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(J)])

    def _part_cost(
        self, loadings: Loadings, relevance: Array, eta: Array, sigma: Array, stake: Array
    ) -> float:
        """What a part's loadings, relevances and class priors take off the bound."""
        cost = float(stake @ self.prior.divergence(loadings, relevance))
        return cost + self.prior.relevance_cost(relevance) + self._class_cost(eta, sigma)

    def _class_cost(self, eta: Array, sigma: Array) -> float:
        """Minus the log prior of parts' class Gaussians, 0 at the standard one."""
        if self.classes.n_classes == 1 or eta.shape[-1] == 0:
            return 0.0
        inverse = np.linalg.inv(sigma)
        cost = np.linalg.slogdet(sigma)[1] + np.trace(inverse, axis1=-2, axis2=-1) - eta.shape[-1]
        cost += np.einsum("...i,...ij,...j->...", eta, inverse, eta)
        return 0.5 * self.class_strength * float(cost.sum())

    def without_cells(self, seen: Source, holed: Source) -> Self:
        """The model for rows of ``holed`` instead of ``seen``, sources of rows."""
        change = column_totals(holed) - column_totals(seen)
        totals = np.maximum(self.totals + change, [[0.0], [-np.inf], [0.0]])
        return replace(self, totals=totals, chooser=replace(self.chooser, weight=totals[0]))

    def with_classes(self, classes: ClassVariable) -> Self:
        """The model with another class variable."""
        return replace(self, classes=classes)

    def with_chooser(self, chooser: Chooser) -> Self:
        """The model whose columns choose parts in another way."""
        return replace(self, chooser=chooser)

    def without_classes(self) -> Self:
        """The same model with one class."""
        return replace(self, classes=ClassVariable())

    def finish(self, params: MCFAParams) -> MCFAParams:
        """Give the factors their scale where rows remembered them in another until now."""
        if self.classes.n_classes == 1:
            return params
        return self._rescale(params, np.empty(0), np.ones_like(params.gates))

    def widened(self, params: MCFAParams, own: Array, place: Array) -> MCFAParams:
        """Columns ``own`` of a model, put at ``place``, the other columns at their prior."""
        D, loadings = self.n_columns, []
        for w, alpha in zip(params.loadings, params.relevance, strict=True):
            p = w.mean.shape[1]
            nothing = RegressionSums(
                np.zeros((D, p, p)), np.zeros((D, p)), np.zeros(D), np.zeros(D)
            )
            loadings.append(self.prior.posterior(nothing, alpha).put(place, w.at(own)))
        gates = np.full((len(self.n_factors), D), 1.0 / len(self.n_factors))
        gates[:, place] = params.gates[:, own]
        return replace(params, loadings=tuple(loadings), gate=self.chooser.learn(gates))

    def joined(self, params: MCFAParams, other: MCFAParams, new: Array) -> MCFAParams:
        """Parameters with the columns ``new`` of others."""
        pairs = zip(params.loadings, other.loadings, strict=True)
        loadings = tuple(a.put(new, b.at(new)) for a, b in pairs)
        gates = params.gates.copy()
        gates[:, new] = other.gates[:, new]
        return replace(params, loadings=loadings, gate=self.chooser.learn(gates))

    # --- what blocks need ---

    def prepare(self, params: MCFAParams) -> MCFAPrepared:
        """What blocks need to infer rows with; columns with closed gates cost their part alone."""
        return self._prepared(params, self.chooser.decided(params.gate, 0))

    def begin(self, params: MCFAParams) -> MCFAPrepared:
        """The same to learn with: all parts of all columns are looked at in the first sweep."""
        return self._prepared(params, self.all_undecided)

    def thorough(self, prepared: MCFAPrepared) -> MCFAPrepared | None:
        """All gates open, or None if the last step saw all parts."""
        return None if prepared.age == 0 else self.open_all_gates(prepared)

    def open_all_gates(self, prepared: MCFAPrepared) -> MCFAPrepared:
        """The same parameters, all parts of all columns looked at in the next sweep."""
        if len(prepared.layouts[0].decided) == 0:
            return prepared
        gates, natural = prepared.params.gates, prepared.natural[0]
        layouts, weights = self._weights(gates, natural, self.all_undecided)
        return replace(prepared, layouts=layouts, weights=weights)

    def _prepared(self, params: MCFAParams, parts: Array, age: int = 0) -> MCFAPrepared:
        pairs = zip(params.loadings, params.relevance, strict=True)
        divergence = np.stack([self.prior.divergence(w, alpha) for w, alpha in pairs])
        return self.pack(params, divergence, parts, age)

    def pack(
        self, params: MCFAParams, divergence: Array, parts: Array, age: int = 0
    ) -> MCFAPrepared:
        """Parameters with layouts and weights, columns decided for ``parts`` (D,)."""
        natural = self.natural(params.loadings)
        layouts, weights = self._weights(params.gates, natural, parts)
        return MCFAPrepared(params, (natural,), divergence, age, layouts, weights)

    def _weights(
        self, gates: Array, natural: Array, parts: Array
    ) -> tuple[tuple[Layout, ...], tuple[Packed, ...]]:
        """Weights that blocks score with, from coefficients (3, F, D)."""
        layouts = tuple(layout.divided(parts) for layout in self.open_layouts)
        weights = []
        for layout, which, P in zip(layouts, (self.linear, self.quadratic), (2, 1), strict=True):
            own, shared = layout.pack(natural[:P, which])
            shared = shared * np.repeat(gates[:, layout.undecided], layout.n_states, axis=0)
            # In one order of memory, so that a fit goes on from a file to the last digit.
            weights.append(Packed(*(w.astype(self.dtype, order="C") for w in (own, shared))))
        return layouts, tuple(weights)

    def natural(self, loadings: tuple[Loadings, ...]) -> Array:
        """Coefficients of the features in an entry's expected log density, (3, F, D)."""
        out = np.zeros((3, self.first[-1], self.n_columns))
        for (one, linear, quadratic), w in zip(self.spans(), loadings, strict=True):
            J = w.mean.shape[1] - 1
            outer, tau = w.outer, w.precision
            out[0, one] = 0.5 * (self.prior.log_precision(w) - _LOG_2PI - outer[:, J, J])
            out[1, one] = tau * w.mean[:, J]
            out[2, one] = -0.5 * tau
            out[0, linear] = -outer[:, :J, J].T
            out[1, linear] = (tau[:, None] * w.mean[:, :J]).T
            i, j = factors.pair_index(J)
            out[0, quadratic] = (np.where(i == j, -0.5, -1.0) * outer[:, i, j]).T
        return out

    def start(self, loadings: list[Array], gates: Array, least_noise: float = 0.05) -> MCFAParams:
        """First parameters from loadings, one array (D, J) a part, and gates (K, D).

        The noise is what loadings leave of a column's variance, but at least ``least_noise`` of it.
        """
        D = self.n_columns
        first = []
        for Lambda in loadings:
            J = Lambda.shape[1]
            mean = np.hstack([Lambda, np.zeros((D, 1))])
            variance = np.clip(1.0 - (Lambda**2).sum(axis=1), least_noise, 1.0)
            shape = np.full(D, 1e6)
            narrow = np.tile(1e-6 * np.eye(J + 1), (D, 1, 1))
            log_det = np.full(D, (J + 1) * np.log(1e-6))
            first.append(Loadings(mean, narrow, log_det, shape, shape * variance))
        relevance = [self.prior.start(J) for J in self.n_factors]
        rows = np.array([self.totals[0].max(initial=1.0)])
        plain = self.without_classes()
        return MCFAParams(
            tuple(first), tuple(relevance), self.chooser.learn(gates), rows,
            plain.classes.learn(rows), *_class_gaussians(plain, rows[:, None]),
        )  # fmt: skip

    # --- bound ---

    def bound(self, prepared: MCFAPrepared, stats: Stats) -> float:
        """Lower bound of the evidence (of the likelihood, for flat priors) at the parameters."""
        params, natural = prepared.params, prepared.natural[0][:, self.first[:-1]]
        constant = float(np.sum(params.gates * np.einsum("pkd,pd->kd", natural, self.totals)))
        cost = self.chooser.cost(params.gate, prepared.divergence)
        return stats.bound + constant - cost - self.choice_cost(params)

    def bound_selected(self, prepared: MCFAPrepared, stats: Stats) -> float:
        """The same where every row selected parts for itself."""
        cost = float(prepared.divergence.sum()) + prepared.params.gate.cost
        return stats.bound - cost - self.choice_cost(prepared.params)

    def choice_cost(self, params: MCFAParams) -> float:
        """Cost of relevances, class priors and classes."""
        cost = self.prior.relevance_cost(np.concatenate(params.relevance, axis=1))
        for parts in self.stacks:
            eta, sigma = (np.stack([of[k] for k in parts]) for of in (params.eta, params.sigma))
            cost += self._class_cost(eta, sigma)
        return cost + self.classes.cost(params.class_counts)


def column_totals(source: Source) -> Array:
    """Sums of 1, x and x^2 over the observed entries of every column, (3, D)."""
    found = list(source.each(lambda block: block.groups[0].totals(block.weight)))
    return np.sum(found, axis=0, dtype=float)


def _regression_sums(ss: Array, s: Array, sx: Array, totals: Array) -> RegressionSums:
    """Sums of (s, 1) from packed pairs (Q, D), factors (J, D), times x, and totals (3, D)."""
    J, D = s.shape
    full = np.empty((D, J + 1, J + 1))
    full[:, :J, :J] = factors.unpack(ss.T, J)
    full[:, :J, J] = full[:, J, :J] = s.T
    full[:, J, J] = totals[0]
    return RegressionSums(full, np.vstack([sx, totals[1]]).T, totals[2], totals[0])


def _class_gaussians(model: MCFA, moments: Array) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Mean and covariance of every part's factors in each class."""
    if model.classes.n_classes == 1:
        centers = tuple(np.zeros((1, J)) for J in model.n_factors)
        return centers, tuple(np.eye(J)[None] for J in model.n_factors)
    c, spans = model.class_strength, model.spans()
    n = np.maximum(moments[:, 0] + c, np.finfo(float).tiny)[:, None]  # a class may be empty
    etas, sigmas = [np.empty(0)] * len(spans), [np.empty(0)] * len(spans)
    for parts in model.stacks:
        J = model.n_factors[parts[0]]
        eta = np.stack([moments[:, spans[k][1]] for k in parts]) / n
        pairs = np.stack([moments[:, spans[k][2]] for k in parts])
        second = factors.unpack(pairs, J) + c * np.eye(J)
        sigma = second / n[:, :, None] - eta[..., :, None] * eta[..., None, :]
        values, vectors = np.linalg.eigh(sigma)
        spread = np.maximum(values, LEAST_SPREAD)[..., None, :]
        sigma = (vectors * spread) @ np.swapaxes(vectors, -1, -2)
        for i, k in enumerate(parts):
            etas[k], sigmas[k] = eta[i], sigma[i]
    return tuple(etas), tuple(sigmas)
