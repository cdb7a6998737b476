"""Generative Vector Quantization of binary data by binary features, the paper's (10).

=======  ========  ==========  =======================================================  ========
symbol   code      shape       meaning                                                  equation
=======  ========  ==========  =======================================================  ========
F-hat    features  (M, A, D)   features before they are squashed, the origin apart      (10)
F        sigma(.)  (B, D)      features between 0 and 1                                 (10)
z        z         (T, D)      sum of the features that a code takes, and the origin    (10)
y        y         (T, D)      sigma(beta (z - 1/2)), what a code stands for            (10)
beta     beta      number      steepness                                                (10)
=======  ========  ==========  =======================================================  ========

The error is not quadratic in the code. Codes of up to 16 features are gone through by one matrix
product a set; more are found by coordinate descent, with a bound from what each column can reach
(features only add). The M-step needs of the rows their sums by code, and takes steps of L-BFGS from
where the features are, so that the error never rises while codes are exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize, special

from partwise._compiled import compiled
from partwise.association.exact import all_codes
from partwise.contracts import Additive, Array, Block, SumView
from partwise.models import gvq
from partwise.models.gvq import GVQParams, GVQPrepared, GVQSums, RowCodes, best_of_sets

# Features of a set whose codes (65536) are gone through.
MOST_ENUMERATED = 16

# Errors of codes held at a time.
MOST_ERRORS = 1 << 22

# Steps of L-BFGS in an M-step. Codes change after it, so the very end is not worth finding.
M_STEPS = 25

# F-hat stays within this: sigma(8) is 0.9997, and beyond it a feature could never turn back.
FARTHEST = 8.0

# F-hat of an origin that is not there: sigma of it is 0.
NO_ORIGIN = -1000.0

# Rounds of coordinate descent; each lowers a row's error or is the last.
MOST_SWEEPS = 50


@dataclass(frozen=True, eq=False)
class CodeSums:
    """Sums over the rows of one set, by code."""

    codes: Array  # different codes, (U, K)
    count: Array  # rows of each code that show a column, (U, D)
    total: Array  # their ones, (U, D)

    def __add__(self, other: CodeSums) -> CodeSums:
        both = np.concatenate([self.codes, other.codes])
        codes, of = np.unique(both, axis=0, return_inverse=True)
        count, total = (np.zeros((len(codes), self.count.shape[1])) for _ in range(2))
        np.add.at(count, of.ravel(), np.concatenate([self.count, other.count]))
        np.add.at(total, of.ravel(), np.concatenate([self.total, other.total]))
        return CodeSums(codes, count, total)


def squash(z: Array, beta: float) -> Array:
    """sigma_beta."""
    return special.expit(beta * (z - 0.5))


@dataclass(frozen=True, eq=False)
class BinaryGVQ(gvq.GVQ):
    """The model; features are on or off.

    Parameters
    ----------
    beta : float
    """

    beta: float = 4.5

    # --- E-step ---

    def codes(
        self, prepared: GVQPrepared, block: Block[Additive], memory: RowCodes | None = None
    ) -> RowCodes:
        """Codes of rows; ``memory`` are codes they had, for coordinate descent to better."""
        params = prepared.params
        view = block.groups[0].additive()
        if self.n_components <= MOST_ENUMERATED:
            return best_of_sets([self._enumerate(params, m, view) for m in range(self.n_sets)])
        return best_of_sets([self._descend(params, m, view, memory) for m in range(self.n_sets)])

    def squashed(self, params: GVQParams, m: int) -> tuple[Array, Array]:
        """F and origin of a set, between 0 and 1; (K, D) and (D,)."""
        return special.expit(params.features[m]), special.expit(params.origins[m])

    def _enumerate(self, params: GVQParams, m: int, view: SumView) -> RowCodes:
        F, o = self.squashed(params, m)
        every = all_codes(self.n_components, 2)
        y = squash(every @ F + o, self.beta)  # (T, D)
        cost = self.penalty * every.sum(axis=1)
        square = view.squares(np.zeros(len(o)), np.ones(len(o)))
        n = len(square)
        best, error = np.empty(n, np.intp), np.empty(n)
        step = max(MOST_ERRORS // len(every), 1)
        for lo in range(0, n, step):
            rows = slice(lo, lo + step)
            found = view.rows(rows).project(-2.0 * y, y * y) + cost[:, None]
            best[rows] = found.argmin(axis=0)
            error[rows] = found.min(axis=0)
        error = np.maximum(error + square, 0.0)
        return RowCodes(np.full(n, m), every[best], error, error, np.ones(n, bool))

    def _descend(self, params: GVQParams, m: int, view: SumView, kept: RowCodes | None) -> RowCodes:
        F, o = self.squashed(params, m)
        x = np.ascontiguousarray(view.x.T, float)
        shown = np.ones_like(x) if view.shown is None else view.shown.T.astype(float)
        begin = np.zeros((len(x), self.n_components), np.int64)
        fixed = F, o, x, shown, self.penalty, self.beta, MOST_SWEEPS
        values, error = _coordinate_descent(begin, *fixed)
        if kept is not None:
            # From the code that a row had as well, so that its error never rises.
            other, reached = _coordinate_descent(kept.values * (kept.sets == m)[:, None], *fixed)
            values = np.where((reached < error)[:, None], other, values)
            error = np.minimum(error, reached)
        least, most = squash(o, self.beta), squash(o + F.sum(axis=0), self.beta)
        away = np.maximum(np.maximum(least - x, x - most), 0.0)
        lower = np.minimum((shown * away**2).sum(axis=1), error)
        return RowCodes(np.full(len(x), m), values, error, lower, lower >= error)

    def collect(self, block: Block[Additive], found: RowCodes) -> GVQSums:
        """Sums of rows with these codes."""
        view, sets = block.groups[0].additive(), []
        for m in range(self.n_sets):
            rows = np.flatnonzero(found.sets == m)
            codes, of = np.unique(found.values[rows], axis=0, return_inverse=True)
            weight = np.zeros((len(codes), block.n_rows))
            weight[of.ravel(), rows] = block.weight[rows]
            count = (
                np.repeat(weight.sum(axis=1)[:, None], len(view.x), axis=1)
                if view.shown is None
                else weight @ view.shown.T
            )
            sets.append(CodeSums(codes, count, weight @ view.x.T))
        taken = self.count(found, block.weight)
        return GVQSums(float(block.weight @ found.error), taken, tuple(sets))

    # --- M-step ---

    def maximize(self, prepared: GVQPrepared, stats: GVQSums) -> GVQPrepared:
        """Steps towards the least error for given codes."""
        params = prepared.params
        features, origins = params.features.copy(), params.origins.copy()
        for m, sums in enumerate(stats.sets):
            if stats.taken[m, -1] <= 0:
                continue
            begin = np.vstack([features[m], origins[m]]) if self.fits_origin else features[m]
            answer = self._lower_error(begin, sums)
            features[m] = answer[: self.n_components]
            if self.fits_origin:
                origins[m] = answer[-1]
        learned = replace(params, features=features, origins=origins, taken=stats.taken)
        return replace(prepared, params=learned)

    def _lower_error(self, begin: Array, sums: CodeSums) -> Array:
        S = self.design(sums.codes).T[:, : len(begin)]  # (U, B), or without the origin, which is 0

        def error(flat: Array) -> tuple[float, Array]:
            F = special.expit(flat.reshape(begin.shape))
            y = squash(S @ F, self.beta)
            value = float((sums.count * y * y - 2.0 * sums.total * y).sum())
            by_z = 2.0 * (sums.count * y - sums.total) * self.beta * y * (1.0 - y)
            return value, ((S.T @ by_z) * F * (1.0 - F)).ravel()

        found = optimize.minimize(
            error,
            begin.ravel(),
            jac=True,
            method="L-BFGS-B",
            bounds=[(-FARTHEST, FARTHEST)] * begin.size,
            options={"maxiter": M_STEPS},
        )
        # A line search that failed may end above where it began.
        if found.fun > error(begin.ravel())[0]:
            return begin
        return np.asarray(found.x).reshape(begin.shape)

    def begin(self, params: GVQParams) -> GVQPrepared:
        """No step takes a short cut."""
        return self.prepare(params)

    def mix(self, params: GVQParams, S: Array) -> Array:
        """Expected rows of codes as numbers (n, M, B); (n, D)."""
        z = np.einsum("nmb,mbd->nd", S, special.expit(self._atoms(params)), optimize=True)
        return squash(z, self.beta)


@compiled()
def _coordinate_descent(begin, F, o, X, shown, penalty, beta, most_sweeps):  # type: ignore[no-untyped-def]  # compiled
    """From codes (n, K), change one feature at a time while the error falls; codes and errors."""
    n, D = X.shape
    K = len(F)
    values = begin.copy()
    error = np.empty(n)
    for r in range(n):
        z = o.copy()
        for k in range(K):
            if values[r, k]:
                z += F[k]
        current = 0.0
        for d in range(D):
            y = 1.0 / (1.0 + np.exp(-beta * (z[d] - 0.5)))
            current += shown[r, d] * (X[r, d] - y) ** 2
        for _ in range(most_sweeps):
            best, change = -1, 0.0
            for k in range(K):
                sign = -1.0 if values[r, k] else 1.0
                other = sign * penalty
                for d in range(D):
                    if shown[r, d]:
                        y = 1.0 / (1.0 + np.exp(-beta * (z[d] + sign * F[k, d] - 0.5)))
                        other += (X[r, d] - y) ** 2
                if other - current < change - 1e-12:
                    best, change = k, other - current
            if best < 0:
                break
            # ``current`` holds no penalty; ``change`` holds that of one feature.
            sign = -1.0 if values[r, best] else 1.0
            values[r, best] = 1 - values[r, best]
            current += change - sign * penalty
            z += sign * F[best]
        error[r] = current + penalty * values[r].sum()
    return values, error
