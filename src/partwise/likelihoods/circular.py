"""Angles: the von Mises distribution, its concentration learned on a grid.

=========  =======================  ====================================================
symbol     code                     meaning
=========  =======================  ====================================================
x                                   angle in radians; x and x + 2 pi are the same
mu                                  mean direction
kappa_g    CONCENTRATIONS[g]        concentration: 0 is uniform, large is a narrow normal
T(x)       1, cos x, sin x          sufficient statistics
R          hypot(chi[1], chi[2])    length of the summed directions
A(z)       I_1(z) / I_0(z)          mean resultant length of a von Mises distribution
w_g        _weights(chi)[g]         posterior probability of kappa_g
=========  =======================  ====================================================

    log p(x | mu, kappa) = -log(2 pi I_0(kappa)) + kappa cos(mu) cos(x) + kappa sin(mu) sin(x)

is an exponential family with eta = (-log 2 pi I_0(kappa), kappa cos mu, kappa sin mu). Its
conjugate density (Guttorp and Lockhart 1988) integrates over mu in closed form,

    integral of exp(chi . eta) dmu / 2 pi = (2 pi I_0(kappa))^-chi[0] I_0(kappa R),

and over kappa in none. So kappa lies on a grid, each point equally probable before any entry is
seen, and nothing else is approximated: Z(chi) is the sum over the grid, w_g the share of its g-th
term, and E[eta] = grad log Z(chi):

    E[eta_0] = -sum_g w_g log(2 pi I_0(kappa_g)),
    E[(eta_1, eta_2)] = sum_g w_g kappa_g A(kappa_g R) (chi[1], chi[2]) / R.

Neighbors on the grid are a factor of 1.25 apart, which costs at most 0.003 nats per entry. The
prior is chi0 = 0, which the grid makes proper: every direction and every kappa_g equally probable.
(Pseudo-rows without a direction would be e^-kappa each: strong evidence against any narrow state.)

The predictive distribution is Z(chi + T(x)) / Z(chi). Expectations of angles are directions, and
intervals run around the mean direction, so that their ends may lie beyond the circle's cut.

P. Guttorp and R. A. Lockhart, Finding the location of a signal: a Bayesian analysis, Journal of the
American Statistical Association 83, 1988.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, TypeAlias

import numpy as np
from scipy import special

from partwise.contracts import Array
from partwise.likelihoods.base import Average, Decode, Family
from partwise.likelihoods.predictive import PlainValue, Predictive

CONCENTRATIONS = np.concatenate([[0.0], 0.05 * 1.25 ** np.arange(56)])  # up to about 11,000

_LOG_2PI = float(np.log(2 * np.pi))

# Points around the circle at which distribution functions are summed, and arcs of `bins`.
POINTS = 1440
STEP = 2 * np.pi / POINTS
ARCS = 32

# Densities computed at a time.
MOST_DENSITIES = 1 << 15

# Radians that a turn and rounding may go beyond.
MOST = 2 * np.pi + 1e-6


def _log_i0(z: Array) -> Array:
    """log I_0(z)."""
    return np.log(special.i0e(z)) + z


def _on_grid(values: Array) -> Array:
    return CONCENTRATIONS.reshape(-1, *[1] * np.ndim(values))


def _length(chi: Array) -> Array:
    """R; sums of single precision may make it longer than entries allow."""
    return np.minimum(np.hypot(chi[1], chi[2]), chi[0])


def _wrapped(angle: Array) -> Array:
    """The same direction between -pi and pi."""
    return (angle + np.pi) % (2 * np.pi) - np.pi


@dataclass(frozen=True)
class Circular(Family):
    """Direction and concentration of angles in radians."""

    name: ClassVar[str] = "circular"
    linear: ClassVar[bool] = False
    has_units: ClassVar[bool] = True
    takes_zeros: ClassVar[bool] = False

    @property
    def n_statistics(self) -> int:
        """Three: 1, cos x, sin x."""
        return 3

    @classmethod
    def check(cls, values: Array) -> str | None:
        """Angles are in radians, of one turn either way."""
        wrong = values[np.abs(values) > MOST]
        if not len(wrong):
            return None
        return (
            f'{wrong[0]:g}, but likelihood="circular" needs angles in radians from -2 pi to 2 pi; '
            "convert the data, as with np.deg2rad(X) or 2 * np.pi * hours / 24."
        )

    @classmethod
    def shifts(cls, lowest: Array) -> Array:
        """Columns without negative angles run from 0 to 2 pi, others from -pi to pi."""
        return np.where((lowest >= 0) & np.isfinite(lowest), np.pi, 0.0)

    def encode(self, values: Array) -> Array:
        """Angles from -pi to pi."""
        return _wrapped(values)

    def start_scores(self, values: Array, levels: Array | None) -> Array:
        """Both coordinates."""
        return np.stack([np.cos(values), np.sin(values)], axis=1)

    def statistics(self, values: Array) -> Array:
        """1, cos x and sin x."""
        return np.stack([np.ones_like(values), np.cos(values), np.sin(values)])

    def smoothed(self, sums: Array) -> Array:
        """With one entry without a direction."""
        return (sums + np.array([1.0, 0.0, 0.0])[:, None]) / (sums[0] + 1.0)

    def constant(self, moments: Array, weight: Array) -> Array:
        """The mean direction."""
        return np.arctan2(moments[2], moments[1])

    def pseudo_sums(self, moments: Array, strength: float) -> Array:
        """None: directions and concentrations are equally probable."""
        return np.zeros_like(moments)

    def is_proper(self, chi: Array, least: float, most: float) -> bool:
        """Directions of some rows, or of none: the prior has no rows."""
        length = np.hypot(chi[1], chi[2])
        return bool(
            np.all((chi[0] >= 0) & (chi[0] <= most) & (length <= chi[0] * (1 + 1e-4) + 1e-9))
        )

    def _terms(self, chi: Array) -> Array:
        """Logarithms of the terms of Z, (G, ...)."""
        kappa, length = _on_grid(chi[0]), _length(chi)
        return _log_i0(kappa * length) - chi[0] * (_LOG_2PI + _log_i0(kappa))

    def natural(self, chi: Array) -> Array:
        """-E[log 2 pi I_0(kappa)] and E[kappa (cos mu, sin mu)]."""
        kappa, length = _on_grid(chi[0]), _length(chi)
        w = special.softmax(self._terms(chi), axis=0)
        z = kappa * length
        pull = np.sum(w * kappa * special.i1e(z) / special.i0e(z), axis=0)
        pull = pull / np.maximum(length, np.finfo(float).tiny)
        constant = -np.sum(w * (_LOG_2PI + _log_i0(kappa)), axis=0)
        return np.stack([constant, pull * chi[1], pull * chi[2]])

    def log_partition(self, chi: Array) -> Array:
        """Log of the sum over the grid."""
        return special.logsumexp(self._terms(chi), axis=0)

    def predictive(self, chi: Array) -> Angles:
        """The parameters integrated out."""
        kappa, length = _on_grid(chi[0]), _length(chi)
        w, z = special.softmax(self._terms(chi), axis=0), kappa * length
        # E[cos(x - direction)] = A(kappa) E[cos(mu - direction)], and mu is von Mises, too.
        resultant = special.i1e(kappa) / special.i0e(kappa) * special.i1e(z) / special.i0e(z)
        resultant = np.sum(w * resultant, axis=0)
        log_z = self.log_partition(chi)

        def log_density(x: Array, given: tuple[Array, ...]) -> Array:
            chi, log_z = given
            return self.log_partition(chi + self.statistics(x)) - log_z

        direction = np.arctan2(chi[2], chi[1])
        return Angles.around(direction, resultant, log_density, (chi, log_z))

    def _point(self, sums: Array) -> tuple[Array, Array]:
        """Direction, and concentration on the grid, of maximum likelihood."""
        length = _length(sums)
        kappa = _on_grid(length)
        fit = kappa * length - sums[0] * (_LOG_2PI + _log_i0(kappa))
        return np.arctan2(sums[2], sums[1]), CONCENTRATIONS[fit.argmax(axis=0)]

    def point_natural(self, sums: Array) -> Array:
        """Natural parameters at maximum likelihood."""
        direction, kappa = self._point(sums)
        constant = -(_LOG_2PI + _log_i0(kappa))
        return np.stack([constant, kappa * np.cos(direction), kappa * np.sin(direction)])

    def point_predictive(self, sums: Array) -> Angles:
        """Von Mises at maximum likelihood."""
        direction, kappa = self._point(sums)

        def log_density(x: Array, given: tuple[Array, ...]) -> Array:
            (eta,) = given
            return np.sum(eta * self.statistics(x), axis=0)

        resultant = special.i1e(kappa) / special.i0e(kappa)
        return Angles.around(direction, resultant, log_density, (self.point_natural(sums),))

    def expected(self, told: Predictive, average: Average, decode: Decode) -> Array:
        """Mean direction of the mixture."""
        assert isinstance(told, Angles)
        across = average(told.resultant * np.cos(told.mean))
        up = average(told.resultant * np.sin(told.mean))
        return decode(np.arctan2(up, across))

    def joined(self, values: Array, shift: Array) -> Array:
        """Mean direction."""
        turned = values - shift
        up, across = np.sin(turned).mean(axis=0), np.cos(turned).mean(axis=0)
        return np.arctan2(up, across) + shift

    def grid(self, told: Predictive) -> Array:
        """Once around the circle, both ends included."""
        return np.linspace(-np.pi, np.pi, 257)

    def page(self, told: Predictive, natural: Array) -> dict[str, PlainValue]:
        """Tables around the circle, and directions to be averaged."""
        assert isinstance(told, Angles)
        return {
            **super().page(told, natural),
            "across": told.resultant * np.cos(told.mean),
            "up": told.resultant * np.sin(told.mean),
        }


@dataclass(frozen=True)
class Degrees(Circular):
    """The same of angles in degrees."""

    name: ClassVar[str] = "degrees"
    unit: ClassVar[float] = 180.0 / np.pi

    @classmethod
    def check(cls, values: Array) -> str | None:
        """One turn either way."""
        wrong = values[np.abs(values) > MOST * cls.unit]
        if not len(wrong):
            return None
        return (
            f'{wrong[0]:g}, but likelihood="degrees" needs angles from -360 to 360; convert the '
            "data, as with X % 360."
        )

    @classmethod
    def shifts(cls, lowest: Array) -> Array:
        """Columns without negative angles run from 0 to 360, others from -180 to 180."""
        return super().shifts(lowest) * cls.unit

    def start_scores(self, values: Array, levels: Array | None) -> Array:
        """Both coordinates."""
        return super().start_scores(values / self.unit, levels)

    def joined(self, values: Array, shift: Array) -> Array:
        """Mean direction."""
        return super().joined(values / self.unit, shift / self.unit) * self.unit


# Log density around the circle: of(x, given), the given arrays' last axis being that of x.
Density: TypeAlias = Callable[[Array, tuple[Array, ...]], Array]


@dataclass(frozen=True, eq=False)
class _Circles:
    """Several distributions, (C,), tabulated when first needed."""

    direction: Array
    resultant: Array
    of: Density
    given: tuple[Array, ...]  # (..., C) each

    def at(self, x: Array, place: Array) -> Array:
        """Log density of angles x in distributions ``place``, both (M,)."""
        out = np.empty(len(x))
        for lo in range(0, len(x), MOST_DENSITIES):
            some = place[lo : lo + MOST_DENSITIES]
            own = tuple(array[..., some] for array in self.given)
            out[lo : lo + MOST_DENSITIES] = self.of(x[lo : lo + MOST_DENSITIES], own)
        return out

    def around(self, start: Array) -> Array:
        """Probability of equal arcs of a turn that begins at ``start`` (C,); (POINTS, C)."""
        C = len(self.direction)
        x = (np.arange(POINTS) + 0.5)[:, None] * STEP + start
        mass = np.exp(self.at(x.ravel(), np.tile(np.arange(C), POINTS))).reshape(POINTS, C)
        return mass / mass.sum(axis=0)

    @cached_property
    def arcs(self) -> Array:
        """Of the turn from -pi to pi, (POINTS, C)."""
        return self.around(np.full(len(self.direction), -np.pi))

    @cached_property
    def below(self) -> Array:
        """Distribution function of the turn around the direction, (POINTS + 1, C)."""
        mass = self.around(self.direction - np.pi)
        return np.concatenate([np.zeros((1, mass.shape[1])), np.cumsum(mass, axis=0)])


@dataclass(frozen=True, eq=False)
class Angles(Predictive):
    """Angles around directions; ``place`` says which of the distributions stand where.

    Distribution functions begin opposite the direction: `cdf` and `quantile` are those of the turn
    from direction - pi to direction + pi.
    """

    circles: _Circles
    place: Array

    @classmethod
    def around(
        cls, direction: Array, resultant: Array, of: Density, given: tuple[Array, ...]
    ) -> Angles:
        """From directions, E[cos(x - direction)], and a density with arrays (..., *shape)."""
        n, size = direction.ndim, direction.size
        flat = tuple(array.reshape(*array.shape[: array.ndim - n], size) for array in given)
        circles = _Circles(direction.ravel(), resultant.ravel(), of, flat)
        return cls(circles, np.arange(size).reshape(direction.shape))

    def at(self, index: tuple[Array, ...]) -> Angles:
        """Entries chosen by ``index``."""
        return Angles(self.circles, self.place[index])

    @property
    def mean(self) -> Array:
        """The mean direction."""
        return self.circles.direction[self.place]

    @property
    def resultant(self) -> Array:
        """E[cos(x - direction)]."""
        return self.circles.resultant[self.place]

    @property
    def variance(self) -> Array:
        """That of the normal distribution with this resultant, at most a uniform angle's."""
        return np.minimum(-2.0 * np.log(np.maximum(self.resultant, 1e-12)), np.pi**2 / 3.0)

    @property
    def peak(self) -> Array:
        """Log density of the direction."""
        return self.log_density(self.mean)

    def log_density(self, x: Array) -> Array:
        """Log density."""
        x, place = np.broadcast_arrays(np.asarray(x, dtype=float), self.place)
        return self.circles.at(x.ravel(), place.ravel()).reshape(x.shape)

    def cdf(self, x: Array) -> Array:
        """P(X <= x) of the turn; the part of a step is linear."""
        x, place = np.broadcast_arrays(np.asarray(x, dtype=float), self.place)
        turned = (_wrapped(x - self.circles.direction[place]) + np.pi) / STEP
        return self._read(turned, place)

    def tail(self, x: Array) -> Array:
        """Probability of an angle at least as far from the direction."""
        x, place = np.broadcast_arrays(np.asarray(x, dtype=float), self.place)
        away = np.abs(_wrapped(x - self.circles.direction[place]))
        return 2.0 * self._read((np.pi - away) / STEP, place)

    def _read(self, turned: Array, place: Array) -> Array:
        i = np.minimum(turned.astype(np.int64), POINTS - 1)
        low = self.circles.below[i, place]
        return low + (turned - i) * (self.circles.below[i + 1, place] - low)

    def quantile(self, p: float | Array) -> Array:
        """Where the turn from direction - pi on reaches p."""
        p, place = np.broadcast_arrays(np.asarray(p, dtype=float), self.place)
        low, high = np.zeros(p.shape), np.full(p.shape, float(POINTS))
        for _ in range(40):
            middle = 0.5 * (low + high)
            short = self._read(middle, place) < p
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        return self.circles.direction[place] - np.pi + high * STEP

    def bins(self, d: int, live: Array) -> Array:
        """Equal arcs of the circle."""
        mass = self.circles.arcs[:, self.place[:, d]]
        return mass.reshape(ARCS, -1, mass.shape[1]).sum(axis=1).T

    def mixture_quantile(self, m: Array, gates: Array, part_of: Array, p: Array) -> Array:
        """Of every cell's mixture of states, around its own mean direction; (n, D)."""
        grid = (np.arange(POINTS) + 0.5) * STEP - np.pi
        out = np.empty((m.shape[1], len(p)))
        for d in range(len(p)):
            arcs = gates[part_of, d] * self.circles.arcs[:, self.place[:, d]]  # (POINTS, S)
            mixed = m.T @ arcs.T  # (n, POINTS)
            toward = np.arctan2(mixed @ np.sin(grid), mixed @ np.cos(grid))
            # The turn begins opposite the mean direction, at a point of the grid.
            start = np.rint((toward + np.pi) / STEP).astype(np.int64) - POINTS // 2
            turn = (start[:, None] + np.arange(POINTS)) % POINTS
            below = np.cumsum(np.take_along_axis(mixed, turn, axis=1), axis=1)
            below = np.concatenate([np.zeros((len(below), 1)), below / below[:, -1:]], axis=1)
            reached = np.clip((below < p[d]).sum(axis=1), 1, POINTS)
            row, before = np.arange(len(below)), reached - 1
            step = np.maximum(below[row, reached] - below[row, before], 1e-300)
            share = np.clip((p[d] - below[row, before]) / step, 0.0, 1.0)
            out[:, d] = (start + before + share) * STEP - np.pi
        return out

    def sample(self, rng: np.random.Generator) -> Array:
        """One sample per entry."""
        return _wrapped(self.quantile(rng.random(self.place.shape)))
