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
# The same spiral hidden in ten columns, with noise in all of them: the number of dimensions is
# still found. Rows that took no part in the fit judge it by their mean log density, beside
# mixtures of full Gaussians with as many components as their BIC likes best, and as these rows
# themselves like best.
turn = np.linalg.qr(rng.normal(size=(10, 10)))[0][:2]


def hidden(rows):
    """The plane, turned in ten dimensions."""
    return rows @ turn + 0.3 * rng.normal(size=(len(rows), 10))


wide, wide_new = hidden(X), hidden(new)
model10 = BayesianPCAMixture(random_state=0).fit(wide)
print(f"{model10.n_components_} pieces of dimension {model10.effective_dimension_}", end=": ")
print(f"{model10.score(wide_new):.2f}")
rivals = [GaussianMixture(m, n_init=2, random_state=0).fit(wide) for m in range(1, 16)]
by_bic = min(rivals, key=lambda rival: rival.bic(wide))
at_best = max(rivals, key=lambda rival: rival.score(wide_new))
for how, rival in (("by BIC", by_bic), ("at best", at_best)):
    print(f"GaussianMixture of {rival.n_components}, {how}: {rival.score(wide_new):.2f}")

# %%
# A row that leaves the curve is told by its density, though each of its columns is as usual as
# any: rows spread over the plane, and where the curve runs. The lump at the left is what any row
# has at least: it may come from a piece that no row has come from yet.
spread = rng.uniform(X.min(axis=0), X.max(axis=0), (500, 2))
usual, odd = model10.score_samples(wide_new), model10.score_samples(hidden(spread))
least = np.quantile(usual, 0.01)
found = odd < least
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(*spread[found].T, "x", color="C3", markersize=4, label="below 99 % of the curve's")
left.plot(*spread[~found].T, ".", color="C0", label="as likely")
left.set_aspect("equal")
left.legend(loc="lower center", bbox_to_anchor=(0.5, 1), fontsize="small")
bins = np.linspace(-40, usual.max(), 50)
right.hist(usual, bins, color="0.6", label="rows of the curve")
right.hist(np.maximum(odd, -40), bins, color="C3", alpha=0.6, label="rows spread over the plane")
right.axvline(least, color="0.2", linestyle=":")
right.set(xlabel="log density in ten columns", ylabel="rows")
right.legend(loc="upper left", fontsize="small")

# %%
# With holes the density is that of what is seen, and what is not seen is filled: here the second
# coordinate from the first. A curve that turns back has several answers, and the interval says so.
seen = np.column_stack([np.linspace(-9, 6, 6), np.full(6, np.nan)])
lower, upper = model.predict_interval(seen, coverage=0.9)
rows, _ = model.sample(500)
figure, ax = plt.subplots(figsize=(6, 5), layout="constrained")
ax.plot(*rows.T, ".", color="0.6", markersize=3, label="rows drawn from the model")
ax.vlines(seen[:, 0], lower[:, 1], upper[:, 1], color="C0", label="90 % of the second coordinate")
ax.set_aspect("equal")
ax.legend(loc="upper right", fontsize="small")
