"""Parts that move on their own: templates with masks, before a background.

======  ==========  ==========  ==================================================================
symbol  code        shape       meaning
======  ==========  ==========  ==================================================================
t       t           (n, K)      transformation of each part of a row
s       s           (n, K)      state of each part of a row
a       odds        (K, D_c)    mask: odds of a part against the background, on its canvas
mu, v   mean, var   (K, J, D_c) Gaussian appearance of a state, on its canvas
-       back_*      (D,)        mean and variance of the background
eps     outlier     -           share of entries that the background does not explain
rho, b  log_rho     (K, T)      priors of transformations and states (log_b, (N, K, J))
beta    log_beta    (N,)        prior of a row's class, on which the states depend
======  ==========  ==========  ==================================================================

Pixel d of a row shows pixel t_k(d) of the canvas of part k. Given all t and s it is explained by
one part or by the background, with odds a and 1, which move with the parts and are summed out:

    p(x_d | t, s) = [p_0(x_d) + sum_k a_k,t_k(d) N(x_d; mu, v)] / Z_d,   Z_d = 1 + sum_k a_k,t_k(d),

where p_0 is the background's Gaussian and, with share eps, a broad one. Rows keep one t and s per
part, so that the bound of log p(x) is log p(x, t, s): a coordinate step takes the best (t, s) of a
part given the others, by going through all. The class of a row is summed out unless it is known.
The M-step weighs entries by the posterior of who explains them; log Z_d is bounded by its tangent,
log z + Z_d / z - 1, which gives the odds as a ratio of sums. Odds are 0 beyond the window of a
template. Parameters are most probable values under conjugate priors. No step lowers the bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from itertools import permutations
from operator import add
from typing import ClassVar, NamedTuple

import numpy as np

from partwise._compiled import check_sizes, compiled
from partwise.contracts import Additive, Array, Block
from partwise.models.transformations import Transformations

# Rounds over the parts, from one order of them.
ROUNDS = 3

# Orders of the parts from which rows without memory begin; all of them for few parts.
MOST_ORDERS = 6

# Pseudo-counts: of the mean of a pixel, of its variance, of odds and of their scale.
MEAN_ROWS, VARIANCE_ROWS, ODDS_ROWS, SCALE_ROWS = 0.1, 2.0, 0.01, 1.0

# Variance of entries that nothing explains, in model units.
BROAD_VARIANCE = 2.0

_HALF_LOG_2PI = 0.5 * float(np.log(2 * np.pi))


class Assignment(NamedTuple):
    """Transformation and state of every part of some rows, each (n, K)."""

    t: Array
    s: Array

    def take(self, rows: Array) -> Assignment:
        """Those of some rows."""
        return Assignment(self.t[rows], self.s[rows])

    def with_part(self) -> Assignment:
        """The same with one more part, at the first place in the first state."""
        none = np.zeros((len(self.t), 1), int)
        return Assignment(np.hstack([self.t, none]), np.hstack([self.s, none]))


class Explained(NamedTuple):
    """What some parts explain of rows, where they are placed."""

    found: Assignment
    parts: Sequence[int]
    total: Array  # log of the numerator of p(x_d | t, s) with these parts, (n, D)
    Z: Array  # (n, D)


class PartRows(NamedTuple):
    """Entries of rows (n, D), 0 where missing, 1 where they are seen, and known classes."""

    x: Array
    seen: Array
    labels: Array | None = None  # (n,), -1 where unknown

    def take(self, rows: Array) -> PartRows:
        """Some of the rows."""
        labels = None if self.labels is None else self.labels[rows]
        return PartRows(self.x[rows], self.seen[rows], labels)

    def of_class(self, z: int) -> PartRows:
        """The same rows, all of one class."""
        return self._replace(labels=np.full(len(self.x), z))


@dataclass(frozen=True, eq=False)
class PartsParams:
    """What is learned, in model units."""

    odds: Array
    mean: Array
    var: Array
    log_rho: Array
    log_b: Array
    log_beta: Array
    back_mean: Array
    back_var: Array
    outlier: float

    def with_classes(self, n_classes: int) -> PartsParams:
        """The same with so many classes instead of one, which are alike."""
        log_b = np.repeat(self.log_b, n_classes, axis=0)
        return replace(self, log_b=log_b, log_beta=np.full(n_classes, -np.log(n_classes)))

    def joined(self, other: PartsParams) -> PartsParams:
        """The same with the parts of ``other`` besides."""
        return replace(
            self,
            odds=np.concatenate([self.odds, other.odds]),
            mean=np.concatenate([self.mean, other.mean]),
            var=np.concatenate([self.var, other.var]),
            log_rho=np.concatenate([self.log_rho, other.log_rho]),
            log_b=np.concatenate([self.log_b, other.log_b], axis=1),
        )

    @property
    def params(self) -> PartsParams:
        """Nothing is to be prepared."""
        return self


@dataclass(frozen=True, eq=False)
class PartsStats:
    """Sums over rows."""

    bound: float
    sums: Array  # of q, q x and q x^2 of every state, (3, K, J, D_c)
    mass: Array  # of 1 / z where a pixel of the canvas is seen, (K, D_c)
    moves: Array  # rows under each transformation, (K, T)
    states: Array  # rows in each state of each class, (N, K, J)
    classes: Array  # rows of each class, (N,)
    back: Array  # of q, q x and q x^2 of the background, (3, D)
    outliers: float

    def __add__(self, other: PartsStats) -> PartsStats:
        names = [field.name for field in fields(self)]
        return PartsStats(*(getattr(self, name) + getattr(other, name) for name in names))

    @staticmethod
    def total(results: Iterable[PartsStats]) -> PartsStats:
        """Sum of all, in their order."""
        return reduce(add, results)


@dataclass(frozen=True, eq=False)
class MovingParts:
    """The model.

    Parameters
    ----------
    n_parts, n_states : int
    transformations : Transformations
        Of every part.
    noise : float
        Prior guess of a variance, in model units.
    """

    n_parts: int
    n_states: int
    transformations: Transformations
    noise: float
    needs: ClassVar[tuple[type, ...]] = (Additive,)
    remembers: ClassVar[bool] = True

    @cached_property
    def maps(self) -> Array:
        """Pixel of the canvas of each pixel of a row, (T, D)."""
        return self.transformations.maps

    def fresh_memory(self, index: int) -> None:
        """Rows begin anywhere."""
        return

    def prepare(self, params: PartsParams) -> PartsParams:
        """The same."""
        return params

    begin = prepare

    def thorough(self, prepared: PartsParams) -> None:
        """No short cuts are taken."""
        return

    # --- E-step ---

    def background(self, params: PartsParams, x: Array) -> Array:
        """Log p_0 of entries, (n, D)."""
        plain = np.log1p(-params.outlier) + log_normal(x, params.back_mean, params.back_var)
        return np.logaddexp(plain, np.log(params.outlier) + log_normal(x, 0.0, BROAD_VARIANCE))

    def part(
        self, params: PartsParams, x: Array, k: int, t: Array, s: Array
    ) -> tuple[Array, Array]:
        """Odds of a part at the pixels of rows, and their log times the density; (n, D) each."""
        place = self.maps[t]
        odds = params.odds[k][place]
        on = odds > 0
        out = np.full(x.shape, -np.inf)
        row = np.nonzero(on)[0]
        at = s[row], place[on]
        density = log_normal(x[on], params.mean[k][at], params.var[k][at])
        out[on] = np.log(odds[on]) + density
        return odds, out

    def explained(
        self, params: PartsParams, x: Array, found: Assignment, parts: Iterable[int]
    ) -> tuple[Array, Array]:
        """Log of the numerator of p(x_d | t, s) with some of the parts, and Z; (n, D) each."""
        total, Z = self.background(params, x), np.ones(x.shape)
        for k in parts:
            odds, density = self.part(params, x, k, found.t[:, k], found.s[:, k])
            total, Z = np.logaddexp(total, density), Z + odds
        return total, Z

    def class_evidence(
        self, params: PartsParams, rows: PartRows, found: Assignment, parts: Iterable[int]
    ) -> Array:
        """log p(class, states of some of the parts), -inf for classes a row is not in; (N, n)."""
        out = np.repeat(params.log_beta[:, None], len(rows.x), axis=1)
        for k in parts:
            out += params.log_b[:, k][:, found.s[:, k]]
        if rows.labels is not None:
            classes = np.arange(len(out))[:, None]
            out[(rows.labels >= 0) & (rows.labels != classes)] = -np.inf
        return out

    def row_bounds(
        self, params: PartsParams, rows: PartRows, found: Assignment, parts: Iterable[int]
    ) -> Array:
        """log p(x, t, s) with some of the parts, (n,)."""
        return self._bounds_of(params, rows, self._explained_by(params, rows, found, parts))

    def _explained_by(
        self, params: PartsParams, rows: PartRows, found: Assignment, parts: Iterable[int]
    ) -> Explained:
        parts = list(parts)
        return Explained(found, parts, *self.explained(params, rows.x, found, parts))

    def _bounds_of(self, params: PartsParams, rows: PartRows, by: Explained) -> Array:
        """`row_bounds` where it is known what the parts explain."""
        out = ((by.total - np.log(by.Z)) * rows.seen).sum(axis=1)
        for k in by.parts:
            out += params.log_rho[k][by.found.t[:, k]]
        evidence = self.class_evidence(params, rows, by.found, by.parts)
        return np.asarray(out + np.logaddexp.reduce(evidence, axis=0))

    def gains(
        self,
        params: PartsParams,
        rows: PartRows,
        k: int,
        found: Assignment,
        others: Iterable[int],
        ceiling: Array | None = None,
    ) -> Array:
        """What part k adds to log p(x, t, s) at every t in every state; (n, T, J).

        With the `ceiling` of part k it is -inf where it cannot be the highest.
        """
        by = self._explained_by(params, rows, found, others)
        return self._gains_beside(params, rows, k, by, ceiling)

    def _gains_beside(
        self, params: PartsParams, rows: PartRows, k: int, by: Explained, ceiling: Array | None
    ) -> Array:
        """`gains` where it is known what others have explained."""
        classes = self.class_evidence(params, rows, by.found, by.parts)  # (N, n)
        joint = classes[:, :, None] + params.log_b[:, k][:, None]
        prior = np.logaddexp.reduce(joint) - np.logaddexp.reduce(classes)[:, None]  # (n, J)
        out = params.log_rho[k][None, :, None] + prior[:, None]
        return self._with_gains(params, rows, k, by.total, by.Z, ceiling, out)

    def ceiling(self, params: PartsParams, rows: PartRows, k: int) -> Array:
        """No less than `gains` of part k at every t, wherever the others are; (n, T).

        Others only raise what a pixel has without part k, from the background on, and Z.
        """
        x, most = rows.x, np.delete(params.odds, k, axis=0).max(axis=1, initial=0.0).sum()
        prior = params.log_b[:, k].max(axis=0)
        out = np.repeat((params.log_rho[k][:, None] + prior)[None], len(x), axis=0)
        of = self.background(params, x), np.full(x.shape, 1.0 + most)
        return np.asarray(self._with_gains(params, rows, k, *of, None, out).max(axis=2))

    def _with_gains(
        self,
        params: PartsParams,
        rows: PartRows,
        k: int,
        rest: Array,
        Z: Array,
        ceiling: Array | None,
        out: Array,
    ) -> Array:
        x, seen, _ = rows
        of = x, seen, rest, Z, self.maps, params.odds[k], params.mean[k], params.var[k]
        check_sizes(columns=(x.shape[1], self.maps.shape[1]), rows=(len(x), len(seen), len(rest)))
        add_gains(*of, np.full(out.shape[:2], np.inf) if ceiling is None else ceiling, out)
        return out

    def improved(
        self,
        params: PartsParams,
        rows: PartRows,
        found: Assignment,
        order: Iterable[int],
        placed: Iterable[int],
        ceilings: Sequence[Array] | None = None,
    ) -> Assignment:
        """One round over parts: the best (t, s) of each given the others that are ``placed``."""
        t, s = found.t.copy(), found.s.copy()
        back = self.background(params, rows.x)
        terms = {k: self._beside(params, rows.x, back, k, t[:, k], s[:, k]) for k in placed}
        for k in order:
            terms.pop(k, None)
            Z, ratio = reduce(add, terms.values(), np.zeros((2, *back.shape)))
            by = Explained(Assignment(t, s), sorted(terms), back + np.log1p(ratio), 1.0 + Z)
            ceiling = None if ceilings is None else ceilings[k]
            gain = self._gains_beside(params, rows, k, by, ceiling)
            best = gain.reshape(len(t), -1).argmax(axis=1)
            t[:, k], s[:, k] = np.divmod(best, self.n_states)
            terms[k] = self._beside(params, rows.x, back, k, t[:, k], s[:, k])
        return Assignment(t, s)

    def _beside(
        self, params: PartsParams, x: Array, back: Array, k: int, t: Array, s: Array
    ) -> Array:
        """Odds of a part at the pixels of rows, and its density over that of the background."""
        odds, density = self.part(params, x, k, t, s)
        return np.stack([odds, np.exp(np.minimum(density - back, np.log(_MOST_FACTOR)))])

    def placed(self, params: PartsParams, rows: PartRows) -> Assignment:
        """Assignments of rows without memory, one part after the other."""
        none = np.zeros((len(rows.x), self.n_parts), int)
        return self.improved(params, rows, Assignment(none, none), range(self.n_parts), ())

    def ascended(
        self,
        params: PartsParams,
        found: Assignment,
        rows: PartRows,
        weight: Array,
        n_steps: int,
        order: Sequence[int] | None = None,
    ) -> tuple[PartsParams, Assignment]:
        """Parameters and assignments after EM iterations; ``order`` has the parts to assign."""
        parts = range(self.n_parts)
        for _ in range(n_steps):
            params = self.maximize(params, self.sums(params, rows, weight, found))
            found = self.improved(params, rows, found, parts if order is None else order, parts)
        return params, found

    def begun(self, params: PartsParams, rows: PartRows) -> Assignment:
        """Assignments of rows without memory: the best of several orders of the parts."""
        K, n = self.n_parts, len(rows.x)
        orders = list(permutations(range(K)))[:MOST_ORDERS] if K <= 3 else _rotations(K)
        best, highest = Assignment(np.zeros((n, K), int), np.zeros((n, K), int)), None
        ceilings = [self.ceiling(params, rows, k) for k in range(K)]
        for order in orders:
            found = self.improved(params, rows, best, order, (), ceilings)
            for _ in range(ROUNDS - 1):
                found = self.improved(params, rows, found, order, range(K), ceilings)
            bounds = self.row_bounds(params, rows, found, range(K))
            if highest is None:
                best, highest = found, bounds
                continue
            better = (bounds > highest)[:, None]
            best = Assignment(np.where(better, found.t, best.t), np.where(better, found.s, best.s))
            highest = np.maximum(bounds, highest)
        return best

    def assign(self, params: PartsParams, rows: PartRows, memory: Assignment | None) -> Assignment:
        """Assignments of rows (n, D), no worse than those they remember."""
        if memory is None:
            return self.begun(params, rows)
        parts = range(self.n_parts)
        return self.improved(params, rows, memory, parts, parts)

    def expect(
        self, prepared: PartsParams, block: Block[Additive], memory: Assignment | None
    ) -> tuple[Assignment, PartsStats]:
        """Assignments, which rows remember, and sums."""
        rows = rows_of(block)
        found = self.assign(prepared, rows, memory)
        return found, self.sums(prepared, rows, block.weight, found)

    def sums(
        self, params: PartsParams, rows: PartRows, weight: Array, found: Assignment
    ) -> PartsStats:
        """Sums of rows with given assignments."""
        x, seen, _ = rows
        K, J, (T, _), Dc = self.n_parts, self.n_states, self.maps.shape, params.odds.shape[1]
        by = self._explained_by(params, rows, found, range(K))
        total, Z, bound = by.total, by.Z, self._bounds_of(params, rows, by)
        w = seen * weight[:, None]
        sums, mass = np.zeros((3, K, J, Dc)), np.zeros((K, Dc))
        evidence = self.class_evidence(params, rows, found, range(K))
        z = weight * np.exp(evidence - np.logaddexp.reduce(evidence))  # (N, n)
        moves, states = np.zeros((K, T)), np.zeros((len(z), K, J))
        for k in range(K):
            t, s = found.t[:, k], found.s[:, k]
            place, odds = self.maps[t], params.odds[k][self.maps[t]]
            at = s[:, None], place
            density = log_normal(x, params.mean[k][at], params.var[k][at])
            q = w * odds * np.exp(density - total)
            mass[k] = np.bincount(place.ravel(), (w / Z).ravel(), Dc)
            sums[:, k] = self.template_sums(x, q, s, place, Dc)
            moves[k] = np.bincount(t, weight, T)
            states[:, k] = [np.bincount(s, own, J) for own in z]
        plain = np.log1p(-params.outlier) + log_normal(x, params.back_mean, params.back_var)
        q = w * np.exp(plain - total)
        back = np.stack([q.sum(axis=0), (q * x).sum(axis=0), (q * x * x).sum(axis=0)])
        odd = np.log(params.outlier) + log_normal(x, 0.0, BROAD_VARIANCE)
        outliers = float((w * np.exp(odd - total)).sum())
        of_rows = moves, states, z.sum(axis=1)
        return PartsStats(float(weight @ bound), sums, mass, *of_rows, back, outliers)

    def template_sums(self, x: Array, q: Array, s: Array, place: Array, n_canvas: int) -> Array:
        """Sums of q, q x and q x^2 of every state at the pixels of a canvas, (3, J, D_c)."""
        at = (s[:, None] * n_canvas + place).ravel()
        shape = self.n_states, n_canvas
        values = (q, q * x, q * x * x)
        return np.stack(
            [np.bincount(at, v.ravel(), shape[0] * shape[1]).reshape(shape) for v in values]
        )

    # --- M-step ---

    def maximize(self, prepared: PartsParams, stats: PartsStats) -> PartsParams:
        """Most probable parameters given who explains the entries."""
        mean, var = self.moments(stats.sums)
        back_mean, back_var = self.moments(stats.back)
        odds = (stats.sums[0].sum(axis=1) + ODDS_ROWS) / (stats.mass + SCALE_ROWS)
        odds = np.where(prepared.odds > 0, odds, 0.0)  # pixels beyond the template have none
        moves, states = stats.moves + 1.0, stats.states + 1.0
        outlier = (stats.outliers + 1.0) / (stats.outliers + stats.back[0].sum() + 2.0)
        return PartsParams(
            odds,
            mean,
            var,
            np.log(moves / moves.sum(axis=1, keepdims=True)),
            np.log(states / states.sum(axis=2, keepdims=True)),
            np.log((stats.classes + 1.0) / (stats.classes + 1.0).sum()),
            back_mean,
            back_var,
            float(outlier),
        )

    def moments(self, sums: Array) -> tuple[Array, Array]:
        """Most probable means and variances, given sums of q, q x and q x^2, (3, ...)."""
        count, first, second = sums
        mean = first / (count + MEAN_ROWS)
        squares = second - 2 * mean * first + (count + MEAN_ROWS) * mean**2
        return mean, (squares + VARIANCE_ROWS * self.noise) / (count + VARIANCE_ROWS)

    def bound(self, prepared: PartsParams, stats: PartsStats) -> float:
        """Log joint density of rows, their assignments and the parameters, up to a constant."""
        p = prepared
        odds = p.odds[p.odds > 0]
        prior = float(np.sum(ODDS_ROWS * np.log(odds) - SCALE_ROWS * odds))
        prior += float(p.log_rho.sum() + p.log_b.sum() + p.log_beta.sum())
        prior += float(np.log(p.outlier) + np.log1p(-p.outlier))
        for mean, var in ((p.mean, p.var), (p.back_mean, p.back_var)):
            lean = VARIANCE_ROWS * self.noise + MEAN_ROWS * mean**2
            prior -= 0.5 * float(np.sum(VARIANCE_ROWS * np.log(var) + lean / var))
        return stats.bound + prior


# Products of densities' ratios are turned into logarithms beyond these, which leave room for one
# more factor.
_MOST_PRODUCT, _MOST_FACTOR = 1e100, 1e150

# Powers of 2 by sixteenths, from 1 down to 0: a power between them is the product with a short
# series, which processors do for several numbers at once.
_SIXTEENTH = float(np.log(2.0)) / 16
_POWERS = np.exp(-_SIXTEENTH * np.arange(16 * 1024))
_POWERS[-1] = 0.0

# A ceiling this much below the highest gain, in nats, is below it whatever the rounding.
_ROUNDING = 1e-6


@compiled(fastmath={"contract", "reassoc", "nnan", "nsz"})
def add_gains(x, seen, rest, Z, maps, odds, mean, var, ceiling, out):  # type: ignore[no-untyped-def]  # compiled
    """out[i, t, j] += sum_d log (rest + odds p) / rest - log (Z + odds) / Z, logs in ``rest``.

    Where ``ceiling`` (n, T) is below the highest out[i] found before, it is -inf.
    """
    n, D = x.shape
    T, J = out.shape[1], out.shape[2]
    place, first = np.empty((T * D, 2), np.int64), np.zeros(T + 1, np.int64)  # what the mask covers
    for t in range(T):
        at = first[t]
        for d in range(D):
            if odds[maps[t, d]] > 0:
                place[at, 0], place[at, 1] = d, maps[t, d]
                at += 1
        first[t + 1] = at
    height = (odds / np.sqrt(2 * np.pi * var)).T.copy()  # (D_c, J)
    scale, middle = (0.5 / (_SIXTEENTH * var)).T.copy(), mean.T.copy()
    product, inverse = np.empty(J), np.empty(D)
    for i in range(n):
        for d in range(D):
            inverse[d] = min(np.exp(-rest[i, d]), _MOST_FACTOR) if seen[i, d] > 0 else 0.0
        likely, highest = np.argmax(ceiling[i]), -np.inf
        for step in range(T):
            t = (likely + step) % T
            if ceiling[i, t] + _ROUNDING < highest:
                out[i, t, :] = -np.inf
                continue
            product[:] = 1.0
            for e in range(first[t], first[t + 1]):
                d, u = place[e, 0], place[e, 1]
                if inverse[d] == 0.0:
                    continue
                less = Z[i, d] / (Z[i, d] + odds[u])
                entry, share = x[i, d], inverse[d]
                least, most = _MOST_PRODUCT, 0.0
                for j in range(J):
                    far = entry - middle[u, j]
                    steps = min(scale[u, j] * far * far, len(_POWERS) - 1.0)
                    whole = np.uint32(steps)
                    f = (np.float64(whole) - steps) * _SIXTEENTH
                    series = 1 / 24 + f * (1 / 120 + f * (1 / 720 + f * (1 / 5040)))
                    series = 1.0 + f * (1.0 + f * (1 / 2 + f * (1 / 6 + f * series)))
                    ratio = height[u, j] * (_POWERS[whole] * series) * share
                    product[j] *= (1.0 + min(ratio, _MOST_FACTOR)) * less
                for j in range(J):
                    least, most = min(least, product[j]), max(most, product[j])
                if least < 1.0 / _MOST_PRODUCT or most > _MOST_PRODUCT:
                    for j in range(J):
                        out[i, t, j] += np.log(product[j])
                        product[j] = 1.0
            for j in range(J):
                out[i, t, j] += np.log(product[j])
                highest = max(highest, out[i, t, j])


def rows_of(block: Block[Additive]) -> PartRows:
    """Rows of a block."""
    view = block.groups[0].additive()
    x = np.ascontiguousarray(view.x.T, dtype=float)
    seen = np.ones_like(x) if view.shown is None else np.ascontiguousarray(view.shown.T, float)
    return PartRows(x, seen, block.labels)


def log_normal(x: Array, mean: Array | float, var: Array | float) -> Array:
    """Log density of a Gaussian."""
    out: Array = -_HALF_LOG_2PI - 0.5 * (np.log(var) + (x - mean) ** 2 / var)
    return out


def _rotations(K: int) -> list[tuple[int, ...]]:
    """Some orders of many parts."""
    return [tuple((k + i) % K for k in range(K)) for i in range(min(K, MOST_ORDERS))]
