"""What parts that move on their own say of entries, given where they are.

Given transformations and states an entry is a mixture of the background, a broad distribution of
what nothing explains, and the parts whose masks cover it (`partwise.models.moving_parts`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from partwise.contracts import Array
from partwise.likelihoods import mixtures
from partwise.models.moving_parts import (
    BROAD_VARIANCE,
    Assignment,
    MovingParts,
    PartRows,
    PartsParams,
    log_normal,
)


class Components(NamedTuple):
    """Weights, means and variances of background, broad component and parts, (K + 2, n, D)."""

    weight: Array
    mean: Array
    var: Array

    @property
    def expected(self) -> Array:
        """Expected entries, (n, D); what is broad says nothing."""
        return np.asarray(
            (self.weight[2:] * self.mean[2:]).sum(axis=0)
            + (self.weight[0] + self.weight[1]) * self.mean[0]
        )

    @property
    def of_parts(self) -> Array:
        """Weights of the parts, (K, n, D)."""
        return self.weight[2:]

    def log_density(self, x: Array) -> Array:
        """Log density of entries (n, D)."""
        with np.errstate(divide="ignore"):
            own = np.log(self.weight) + log_normal(x, self.mean, self.var)
        return np.asarray(np.logaddexp.reduce(own))

    def quantile(self, p: float) -> Array:
        """p-quantile of every entry, (n, D)."""
        shape = len(self.mean), 1, -1  # every entry is a column of one row
        gates = np.ascontiguousarray(self.weight.reshape(len(self.weight), -1).T)
        mean, scale = self.mean.reshape(shape), np.sqrt(self.var).reshape(shape)
        out, every = np.empty(mean.shape[1:]), np.full(mean.shape[2], p)
        mixtures.part_quantiles(gates, mean, scale, special.ndtri(every), every, out)
        return out.reshape(self.mean.shape[1:])

    def draw(self, rng: np.random.Generator) -> Array:
        """Entries (n, D)."""
        above = np.cumsum(self.weight, axis=0)
        which = (above[:-1] <= rng.random(above.shape[1:])).sum(axis=0)[None]
        mean, var = (np.take_along_axis(a, which, axis=0)[0] for a in (self.mean, self.var))
        return np.asarray(mean + np.sqrt(var) * rng.standard_normal(mean.shape))


def components(model: MovingParts, params: PartsParams, found: Assignment) -> Components:
    """Distributions of the entries of rows whose parts are at given places in given states."""
    n, D = len(found.t), model.maps.shape[1]
    weight, mean, var = np.empty((3, model.n_parts + 2, n, D))
    weight[0], weight[1] = 1.0 - params.outlier, params.outlier
    mean[0], mean[1] = params.back_mean, 0.0
    var[0], var[1] = params.back_var, BROAD_VARIANCE
    for k in range(model.n_parts):
        place = model.maps[found.t[:, k]]
        at = found.s[:, k][:, None], place
        weight[k + 2], mean[k + 2] = params.odds[k][place], params.mean[k][at]
        var[k + 2] = params.var[k][at]
    return Components(weight / weight.sum(axis=0), mean, var)


def posteriors(
    model: MovingParts, params: PartsParams, rows: PartRows, found: Assignment
) -> list[Array]:
    """Posterior of each part's transformation and state given the other parts; K of (n, T, J)."""
    parts = range(model.n_parts)
    out = []
    for k in parts:
        gain = model.gains(params, rows, k, found, [j for j in parts if j != k])
        out.append(special.softmax(gain, axis=(1, 2)))
    return out


def class_bounds(
    model: MovingParts, params: PartsParams, rows: PartRows, found: Assignment
) -> Array:
    """Lower bound of log p(x | class) at the best places found in each class, (N, n)."""
    parts, out = range(model.n_parts), []
    for z, log_beta in enumerate(params.log_beta):
        own = rows.of_class(z)
        best = found if len(params.log_beta) == 1 else model.assign(params, own, found)
        out.append(model.row_bounds(params, own, best, parts) - log_beta)
    return np.stack(out)
