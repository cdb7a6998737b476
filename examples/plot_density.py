"""
A density on a curve
====================

Rows lie near a curve or a curved surface more often than one would think. A mixture of Bayesian
principal component analysers follows it with small flat pieces, and finds both their number and
their dimension. What comes out is a density: of new rows, of odd rows, of rows with holes.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.mixture import GaussianMixture

from partwise import BayesianPCAMixture

rng = np.random.default_rng(0)


def spiral(n):
    """Rows near a spiral in the plane."""
    t = np.pi * np.sqrt(rng.uniform(1, 9, n))
    return np.stack([t * np.cos(t), t * np.sin(t)], axis=1) + 0.3 * rng.normal(size=(n, 2))


X, new = spiral(500), spiral(500)
model = BayesianPCAMixture(random_state=0).fit(X)
print(f"{model.n_components_} pieces of dimension {model.effective_dimension_}")

# %%
# ``score_samples`` is the log density of every row. On a grid it can be looked at.
ends = np.linspace(-13, 13, 150)
grid = np.stack(np.meshgrid(ends, ends), axis=-1)
density = model.score_samples(grid.reshape(-1, 2)).reshape(150, 150)
figure, ax = plt.subplots(figsize=(6, 5), layout="constrained")
filled = ax.contourf(
    ends, ends, np.maximum(density, -12), levels=np.arange(-12, -2.5), cmap="Blues"
)
ax.plot(*X.T, ".", color="0.3", markersize=2)
ax.set_aspect("equal")
figure.colorbar(filled, label="log density")

# %%
# Rows that took no part in the fit judge it: their mean log density, beside mixtures of full
# Gaussians with as many components as their BIC likes best, and as these rows themselves like
# best.
rivals = [GaussianMixture(m, n_init=3, random_state=0).fit(X) for m in range(1, 31)]
by_bic = min(rivals, key=lambda rival: rival.bic(X))
at_best = max(rivals, key=lambda rival: rival.score(new))
print(f"here: {model.score(new):.3f}")
print(f"GaussianMixture, {by_bic.n_components} components by BIC: {by_bic.score(new):.3f}")
print(f"GaussianMixture, {at_best.n_components} components, at best: {at_best.score(new):.3f}")

# %%
# The same spiral hidden in ten columns with noise in all of them. The number of dimensions is
# still found, and a row that leaves the curve is told by its density, though each of its columns
# is as usual as any.
turn = np.linalg.qr(rng.normal(size=(10, 10)))[0][:2]


def hidden(rows):
    """The plane, turned in ten dimensions."""
    return rows @ turn + 0.3 * rng.normal(size=(len(rows), 10))


wide = BayesianPCAMixture(random_state=0).fit(hidden(X))
print(f"{wide.n_components_} pieces of dimension {wide.effective_dimension_}")
gap = 1.15 * spiral(500)[:40] + 0.8 * rng.normal(size=(40, 2))
usual, odd = wide.score_samples(hidden(new)), wide.score_samples(hidden(gap))
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(*new.T, ".", color="0.6", label="rows of the curve")
left.plot(*gap.T, "x", color="C3", label="rows off it")
left.set_aspect("equal")
left.legend(loc="upper right", fontsize="small")
bins = np.linspace(min(usual.min(), odd.min()), usual.max(), 40)
right.hist(usual, bins, color="0.6", density=True)
right.hist(odd, bins, color="C3", density=True, alpha=0.6)
right.set_xlabel("log density in ten columns")
right.set_yticks([])

# %%
# With holes the density is that of what is seen, and what is not seen is filled: here the second
# coordinate from the first. A curve that turns back has several answers, and the interval says so.
seen = np.column_stack([np.linspace(-9, 9, 7), np.full(7, np.nan)])
lower, upper = model.predict_interval(seen, coverage=0.9)
rows, _ = model.sample(500)
figure, ax = plt.subplots(figsize=(6, 5), layout="constrained")
ax.plot(*rows.T, ".", color="0.6", markersize=3, label="rows drawn from the model")
ax.vlines(seen[:, 0], lower[:, 1], upper[:, 1], color="C0", label="90 % of the second coordinate")
ax.set_aspect("equal")
ax.legend(loc="upper right", fontsize="small")
