"""Cooperative Vector Quantization (Hinton & Zemel 1994), mean field (Ghahramani 1995).

=======  =========  =========  ================================================  =============
symbol   code       shape      meaning                                           equation
=======  =========  =========  ================================================  =============
mu       mu         (S, D)     what a state adds to the row                      docs/cvq.md
Psi      psi        (D,)       variance of the noise                             docs/cvq.md
b        log_b      (S,)       prior of a part's states, expected logarithm      docs/cvq.md
m        m          (S, n)     posterior of the rows' states                     docs/cvq.md
h        h          (S, n)     log b + mu Psi^-1 x - diag(mu Psi^-1 mu') / 2     docs/cvq.md
<s x'>   linear     (S, D)     sum over rows of m x                              docs/cvq.md
<s s'>   pairs      (., S, S)  sum over rows of <s s'>, by column if need be     docs/cvq.md
lambda   ridge      number     rows at the column's mean that every state saw    docs/cvq.md
=======  =========  =========  ================================================  =============

S = K J; state j of part k has number k J + j. Missing entries are ignored. Departures
from the papers: the noise is diagonal, so that columns may have units of their own; mu and Psi have
a prior made of pseudo-rows, with maximum likelihood as its limit; rows are inferred one part after
another, not all at once, so that the bound never falls.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations
from operator import add
from typing import ClassVar

import numpy as np
from scipy import linalg, special

from partwise.association import Association, Codes, Problem
from partwise.contracts import Additive, Array, Block, Span
from partwise.likelihoods import Dirichlet
from partwise.sampling.importance import RowLikelihood, summarize_weights

# Least noise, in units of a column's variance: noiseless columns have no finite density.
LEAST_NOISE = 1e-6

# Rounds over the parts in a sweep, for rows that remember where they were ...
ROUNDS = 2
# ... and for rows that do not: temperatures first, then rounds at temperature 1.
COOLING_ROUNDS = 12
SETTLING_ROUNDS = 4
# Times that every two parts of such a row look for a better pair of states.
HOPS = 2

# Combinations of states that are gone through one by one; more are sampled.
MOST_COMBINATIONS = 4096
# Share of the posterior in the proposal, for most samples and for the wider quarter.
SURE, UNSURE = 0.9, 0.5


@dataclass(frozen=True, eq=False)
class CVQParams:
    """What is learned."""

    mu: Array  # (S, D)
    psi: Array  # (D,)
    counts: Array  # expected rows in each state, (S,)
    log_b: Array  # (S,)


@dataclass(frozen=True, eq=False)
class CVQPrepared:
    """Parameters, and whether rows that remember their states start again as well."""

    params: CVQParams
    anew: bool
    tried: bool  # whether they did so in the sweep before these parameters


@dataclass(frozen=True, eq=False)
class CVQSums:
    """Sums over rows; they start at zero and add, and hold no prior."""

    bound: float
    states: Array  # m, (S,)
    linear: Array  # m x, (S, D)
    pairs: Array  # m[s] m[t] in observed rows, (D, S, S), or (1, S, S) if the same for all columns
    weight: Array  # (D,)
    squares: Array  # x^2, (D,)

    def __add__(self, other: CVQSums) -> CVQSums:
        return CVQSums(
            self.bound + other.bound,
            self.states + other.states,
            self.linear + other.linear,
            self.pairs + other.pairs,
            self.weight + other.weight,
            self.squares + other.squares,
        )

    @staticmethod
    def total(results: Iterable[CVQSums]) -> CVQSums:
        """Sum of all, in their order."""
        return reduce(add, results)


@dataclass(frozen=True, eq=False)
class CVQ:
    """The model.

    Parameters
    ----------
    n_parts, n_states : int
        K and J.
    ridge : float
        lambda.
    noise_rows, noise_guess : float
        Rows that the prior guess of the noise weighs, and that guess.
    state_prior : Dirichlet
    beta : float
        Inverse temperature of rows' posteriors, below 1 in the annealing stages.
    """

    n_parts: int
    n_states: int
    ridge: float
    noise_rows: float
    noise_guess: float
    state_prior: Dirichlet
    beta: float = 1.0
    needs: ClassVar[tuple[type, ...]] = (Additive,)
    remembers: ClassVar[bool] = True

    @property
    def parts(self) -> list[Span]:
        """Where each part's states stand."""
        J = self.n_states
        return [slice(k * J, (k + 1) * J) for k in range(self.n_parts)]

    # --- E-step ---

    def fresh_memory(self, index: int) -> None:
        """No posterior yet."""
        return

    def expect(
        self, prepared: CVQPrepared, block: Block[Additive], memory: Array | None
    ) -> tuple[Array, CVQSums]:
        """Posterior of the rows' states from where it was last time, and its sums."""
        if memory is None:
            m, row_bound = self.infer(prepared, block)
        else:
            betas = np.full(ROUNDS, self.beta)
            m, row_bound = self._climb(prepared.params, block, memory.copy(), betas)
            if prepared.anew:
                other, its_bound = self.infer(prepared, block)
                better = its_bound > row_bound
                m[:, better] = other[:, better]
                row_bound = np.maximum(row_bound, its_bound)
        bound = float(block.weight @ (row_bound + block.base))
        return m, self.collect(block, m, bound)

    def infer(self, prepared: CVQPrepared, block: Block[Additive]) -> tuple[Array, Array]:
        """Posterior (S, n) of rows that remember nothing, and their bounds without base measure.

        From the priors of the states the temperature falls to 1. Rows may still stand where no
        part alone can do better but two together could; so pairs of parts look for the best pair
        of states, and a row keeps the better of both answers.
        """
        params = prepared.params
        m = np.repeat(self.shares(params)[:, None], block.n_rows, axis=1)
        betas = np.geomspace(1.0 / self._contrast(params), 1.0, COOLING_ROUNDS)
        m, row_bound = self._climb(params, block, m, np.append(betas, np.ones(SETTLING_ROUNDS)))
        if self.n_parts == 1:
            return m, row_bound
        other, its_bound = self._climb(
            params, block, self._hop(params, block, m), np.ones(SETTLING_ROUNDS)
        )
        better = its_bound > row_bound
        return np.where(better, other, m), np.where(better, its_bound, row_bound)

    def _hop(self, params: CVQParams, block: Block[Additive], m: Array) -> Array:
        """One-hot states (S, n): from the likeliest in m, every two parts take their best pair."""
        S, J = len(m), self.n_states
        out = np.zeros_like(m)
        scaled = params.mu / params.psi
        for rows, view in block.groups[0].additive().pieces(S):
            h = view.project(scaled, -0.5 * scaled * params.mu) + params.log_b[:, None]
            grams = np.moveaxis(view.grams(params.mu, 1.0 / params.psi), 0, -1)  # (S, S, 1 or n)
            row = np.arange(h.shape[1])
            of = row if grams.shape[2] > 1 else 0
            chosen = np.stack([part.start + m[part, rows].argmax(axis=0) for part in self.parts])
            for k, j in [*combinations(range(self.n_parts), 2)] * HOPS:
                ours, theirs = self.parts[k], self.parts[j]
                rest = np.delete(chosen, [k, j], axis=0)
                left = h - sum(grams[:, s, of] for s in rest)  # (S, n)
                pair = left[ours, None] + left[None, theirs] - grams[ours, theirs]
                best = pair.reshape(J * J, -1).argmax(axis=0)
                chosen[k], chosen[j] = ours.start + best // J, theirs.start + best % J
            out[chosen, rows.start + row] = 1.0
        return out

    def _contrast(self, params: CVQParams) -> float:
        """Approximate number of nats that each state adds to a row's log density, at least 1."""
        energy = 0.5 * (params.mu**2 / params.psi).sum(axis=1)
        return max(float(energy.mean()), 1.0)

    def _climb(
        self, params: CVQParams, block: Block[Additive], m: Array, betas: Array
    ) -> tuple[Array, Array]:
        """Update m in place, part after part, at each inverse temperature; the rows' bounds."""
        view = block.groups[0].additive()
        precision = 1.0 / params.psi
        scaled = params.mu * precision
        h = view.project(scaled, -0.5 * scaled * params.mu) + params.log_b[:, None]
        coupling = view.couple(params.mu, precision, m)
        for beta in betas:
            for part in self.parts:
                m[part] = special.softmax(beta * (h[part] - coupling.field(part)), axis=0)
                coupling.changed(part)
        row_bound = view.squares(*self._alone(params))
        for part in self.parts:
            log_m = np.log(np.maximum(m[part], 1e-300))
            row_bound += (m[part] * (h[part] - 0.5 * coupling.field(part) - log_m)).sum(axis=0)
            coupling.changed(part)
        return m, row_bound

    @staticmethod
    def _alone(params: CVQParams) -> tuple[Array, Array]:
        """Log density of an entry to which no state adds: constant, and factor of its square."""
        return -0.5 * np.log(2 * np.pi * params.psi), -0.5 / params.psi

    def collect(self, block: Block[Additive], m: Array, bound: float = 0.0) -> CVQSums:
        """Sums of posteriors m (S, n)."""
        view = block.groups[0].additive()
        linear, pairs = view.collect(m, block.weight)
        for part in self.parts:  # two states of one part never go together
            seen = pairs[:, part, part].sum(axis=2)
            pairs[:, part, part] = seen[:, :, None] * np.eye(self.n_states)
        return CVQSums(bound, m @ block.weight, linear, pairs, *view.collect_squares(block.weight))

    # --- M-step ---

    def maximize(self, prepared: CVQPrepared, stats: CVQSums) -> CVQPrepared:
        """Parameters at the maximum given the sums; rows go on from where they are."""
        params = self.start(*self.least_squares(stats), stats.states)
        return CVQPrepared(params, anew=False, tried=prepared.anew)

    def start(self, mu: Array, psi: Array, counts: Array) -> CVQParams:
        """Parameters, the priors of the states from their counts (S,)."""
        by_part = counts.reshape(self.n_parts, self.n_states)
        log_b = np.concatenate([self.state_prior.expected_log(n) for n in by_part])
        return CVQParams(mu, psi, counts, log_b)

    def least_squares(self, stats: CVQSums) -> tuple[Array, Array]:
        """All of mu at once, by column where columns were seen in different rows; then Psi."""
        S = len(stats.states)
        normal = stats.pairs + self.ridge * np.eye(S)
        # A constant moved from one part to another changes nothing. Along these directions the
        # answer is 0, and saying so keeps rounding from being divided by next to nothing.
        idle = self._idle()
        shift = 1.0 + (stats.weight if len(normal) > 1 else stats.weight.max(keepdims=True))
        steady = normal + shift[:, None, None] * (idle @ idle.T)
        if len(steady) == 1:
            mu = linalg.solve(steady[0], stats.linear, assume_a="pos")
        else:
            mu = np.linalg.solve(steady, stats.linear.T[:, :, None])[:, :, 0].T
        spent = np.einsum("sd,sd->d", mu, np.squeeze(normal @ mu.T[:, :, None], 2).T)
        left = stats.squares - 2.0 * np.einsum("sd,sd->d", mu, stats.linear) + spent
        rows = stats.weight + self._pseudo_rows
        left = np.maximum(left, 0.0) + self.noise_rows * self.noise_guess
        return mu, np.maximum(left / np.maximum(rows, np.finfo(float).tiny), LEAST_NOISE)

    @property
    def _pseudo_rows(self) -> float:
        return self.noise_rows + self.ridge * self.n_parts * self.n_states

    def _idle(self) -> Array:
        """Orthonormal directions of mu that change no row, (S, K - 1)."""
        K, J = self.n_parts, self.n_states
        across = linalg.null_space(np.ones((1, K))) if K > 1 else np.zeros((1, 0))
        return np.repeat(across, J, axis=0) / np.sqrt(J)

    def prepare(self, params: CVQParams) -> CVQPrepared:
        """Rows go on from where they are."""
        return CVQPrepared(params, anew=False, tried=False)

    def begin(self, params: CVQParams) -> CVQPrepared:
        """Rows go on from where they are."""
        return self.prepare(params)

    def thorough(self, prepared: CVQPrepared) -> CVQPrepared | None:
        """The same parameters, rows also starting again; None if they have just done so."""
        return None if prepared.tried else replace(prepared, anew=True)

    # --- bound ---

    def bound(self, prepared: CVQPrepared, stats: CVQSums) -> float:
        """Lower bound of the log-likelihood plus the log density of the pseudo-rows."""
        params = prepared.params
        squares = self.ridge * (params.mu**2).sum(axis=0) + self.noise_rows * self.noise_guess
        prior = self._pseudo_rows * np.log(2 * np.pi * params.psi) + squares / params.psi
        by_part = params.counts.reshape(self.n_parts, self.n_states)
        cost = sum(self.state_prior.divergence(counts) for counts in by_part)
        return stats.bound - 0.5 * float(prior.sum()) - cost

    def shares(self, params: CVQParams) -> Array:
        """Posterior mean of b; (S,)."""
        by_part = params.counts.reshape(self.n_parts, self.n_states)
        return np.concatenate([self.state_prior.mean(counts) for counts in by_part])

    # --- the most probable combination of states ---

    def best_states(self, params: CVQParams, block: Block[Additive], method: Association) -> Codes:
        """Most probable states (n, K) of rows; energies are minus their log densities with them.

        Codes of features with J values, the first state of each part taken as the origin.
        """
        K, J = self.n_parts, self.n_states
        mu = params.mu.reshape(K, J, -1)
        log_b = np.log(np.maximum(self.shares(params), 1e-300)).reshape(K, J)
        view, pieces = block.groups[0].additive(), []
        for rows, piece in view.pieces(K * J):
            problem = Problem.posed(
                piece,
                (mu[:, 1:] - mu[:, :1]).reshape(K * (J - 1), mu.shape[2]),
                mu[:, 0].sum(axis=0),
                2.0 * (log_b[:, :1] - log_b[:, 1:]).ravel(),
                J,
                np.sqrt(params.psi),
            )
            found = method.associate(problem) if J > 1 else Codes.single(problem, K)
            alone = -piece.squares(self._alone(params)[0], 0.0 * params.psi) - block.base[rows]
            rest = 0.5 * problem.squares + alone - log_b[:, 0].sum()
            energy, lower = 0.5 * found.energy + rest, 0.5 * found.lower + rest
            pieces.append(Codes(found.values, energy, lower, found.converged))
        return Codes(*(np.concatenate(fields) for fields in zip(*pieces, strict=True)))

    # --- likelihood of a row ---

    @property
    def n_combinations(self) -> int | None:
        """Combinations of states, or None if they are too many to go through."""
        found = self.n_states**self.n_parts
        return found if found <= MOST_COMBINATIONS else None

    def row_likelihood(
        self, prepared: CVQPrepared, block: Block[Additive], uniforms: Array
    ) -> RowLikelihood:
        """Exact where combinations of states are few, else by importance sampling.

        States are sampled from the mean-field posterior mixed with the prior, a quarter with more
        of it: the posterior knows one answer where a row may have several. ``uniforms`` (T, K)
        are inverted for all rows, so that a row's estimate does not depend on its company.
        """
        K, J, n = self.n_parts, self.n_states, block.n_rows
        params = prepared.params
        prior = self.shares(params)
        alone = block.groups[0].additive().squares(*self._alone(params)) + block.base
        if self.n_combinations is not None:
            digits = np.indices((J,) * K).reshape(K, 1, -1)  # every combination, (K, 1, T)
            joint = self._log_joint(params, block, digits + J * np.arange(K)[:, None, None], prior)
            exact = np.zeros(n)
            return RowLikelihood(
                special.logsumexp(joint, axis=1) + alone, exact, np.full(n, np.inf)
            )
        m, T = self.infer(prepared, block)[0].T, len(uniforms)
        proposals = [share * m + (1 - share) * prior for share in (SURE, UNSURE)]  # each (n, S)
        wide = np.arange(T) < T // 4
        log_q = np.log(np.maximum([1 - wide.mean(), wide.mean()], 1e-300))[:, None, None]
        drawn = np.empty((K, n, T), np.intp)
        for k, part in enumerate(self.parts):
            narrow, broad = (
                (uniforms[:, k, None] > np.cumsum(q[:, part], axis=1)[:, None, :-1]).sum(axis=2)
                for q in proposals
            )
            drawn[k] = part.start + np.where(wide, broad, narrow)
            log_q = log_q + np.log([np.take_along_axis(q, drawn[k], axis=1) for q in proposals])
        weight = self._log_joint(params, block, drawn, prior) - np.logaddexp(*log_q)
        found = summarize_weights(weight)
        return found.shifted(alone)

    def _log_joint(
        self, params: CVQParams, block: Block[Additive], states: Array, prior: Array
    ) -> Array:
        """log b p(x | states) - log p(x | nothing added), states (K, 1 or n, T); (n, T)."""
        view = block.groups[0].additive()
        scaled = params.mu / params.psi
        gain = view.project(scaled, 0 * scaled) + np.log(np.maximum(prior, 1e-300))[:, None]
        grams = view.grams(params.mu, 1.0 / params.psi)
        row = np.arange(block.n_rows)[:, None]
        of = row if len(grams) > 1 else 0
        out = np.zeros((block.n_rows, states.shape[2]))
        for k, s in enumerate(states):
            out += gain[s, row] - 0.5 * grams[of, s, s]
            for other in states[:k]:
                out -= grams[of, s, other]
        return out
