"""
A density on a curve
====================

Rows often lie near a curve or a curved surface. A mixture of Bayesian principal component analyzers
approximates it by flat components and selects both their number and their dimension. The result is
a density: for new rows, for anomaly detection, and for rows with missing values.
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
print(f"{model.n_components_} components of dimension {model.effective_dimension_}")

# %%
# ``score_samples`` returns the log density per row; here it is shown on a grid.
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
# The same spiral embedded in ten columns, with noise in all of them. The dimension is still found.
# The mean log density of held-out rows is compared with mixtures of full Gaussians, whose number of
# components is selected by BIC or, optimistically, by the held-out rows themselves.
rotation = np.linalg.qr(rng.normal(size=(10, 10)))[0][:2]


def embed(rows):
    """The plane, rotated in ten dimensions."""
    return rows @ rotation + 0.3 * rng.normal(size=(len(rows), 10))


wide, wide_new = embed(X), embed(new)
model10 = BayesianPCAMixture(random_state=0).fit(wide)
print(f"{model10.n_components_} components of dimension {model10.effective_dimension_}", end=": ")
print(f"{model10.score(wide_new):.2f}")
mixtures = [GaussianMixture(m, n_init=2, random_state=0).fit(wide) for m in range(1, 16)]
by_bic = min(mixtures, key=lambda mixture: mixture.bic(wide))
at_best = max(mixtures, key=lambda mixture: mixture.score(wide_new))
for how, mixture in (("by BIC", by_bic), ("at best", at_best)):
    print(f"GaussianMixture({mixture.n_components}), {how}: {mixture.score(wide_new):.2f}")

# %%
# Anomaly detection: rows spread over the plane have usual values in each column, but a low density
# off the curve. The bar at the left is the lowest density that the model gives to any row.
spread = rng.uniform(X.min(axis=0), X.max(axis=0), (500, 2))
usual, other = model10.score_samples(wide_new), model10.score_samples(embed(spread))
threshold = np.quantile(usual, 0.01)
anomalous = other < threshold
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(*spread[anomalous].T, "x", color="C3", markersize=4, label="anomalous")
left.plot(*spread[~anomalous].T, ".", color="C0", label="as likely as rows of the curve")
left.set_aspect("equal")
left.legend(loc="lower center", bbox_to_anchor=(0.5, 1), fontsize="small")
bins = np.linspace(-40, usual.max(), 50)
right.hist(usual, bins, color="0.6", label="rows of the curve")
right.hist(np.maximum(other, -40), bins, color="C3", alpha=0.6, label="rows spread over the plane")
right.axvline(threshold, color="0.2", linestyle=":")
right.set(xlabel="log density in ten columns", ylabel="rows")
right.legend(loc="upper left", fontsize="small")

# %%
# Missing values: the second coordinate is imputed from the first. Where the curve has several
# branches, the interval covers them.
seen = np.column_stack([np.linspace(-9, 6, 6), np.full(6, np.nan)])
lower, upper = model.predict_interval(seen, coverage=0.9)
rows, _ = model.sample(500)
figure, ax = plt.subplots(figsize=(6, 5), layout="constrained")
ax.plot(*rows.T, ".", color="0.6", markersize=3, label="synthetic rows")
ax.vlines(seen[:, 0], lower[:, 1], upper[:, 1], color="C0", label="90 % intervals")
ax.set_aspect("equal")
ax.legend(loc="upper right", fontsize="small")
