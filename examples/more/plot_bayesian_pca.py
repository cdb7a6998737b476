"""
Automatic dimension of PCA
==========================

Bayesian PCA removes directions that the data do not need. A mixture of Bayesian PCAs follows a
curve and selects its dimension.
"""

import numpy as np
from sklearn.datasets import load_wine

from partwise import BayesianPCA, BayesianPCAMixture
from partwise.plot import ComponentsDisplay, HintonDisplay

wines = load_wine().data
flat = BayesianPCA().fit((wines - wines.mean(axis=0)) / wines.std(axis=0))
print(f"13 measurements of 178 wines: dimension {flat.effective_dimension_}")
HintonDisplay.from_estimator(flat)

# %%
# Rows near a curve: one dimension, although a single plane would need two.
rng = np.random.default_rng(0)
t = rng.uniform(-np.pi, np.pi, 400)
curve = np.stack([t, 2 * np.sin(t)], axis=1) + 0.1 * rng.normal(size=(400, 2))
mixture = BayesianPCAMixture(random_state=0).fit(curve)
print(f"{mixture.n_components_} components of dimension {mixture.effective_dimension_}")
ComponentsDisplay.from_estimator(mixture, curve)

# %%
# The same curve, rotated in 20 dimensions with noise in all of them.
rotation = np.linalg.qr(rng.normal(size=(20, 20)))[0]
embedded = curve @ rotation[:2] + 0.1 * rng.normal(size=(400, 20))
again = BayesianPCAMixture(random_state=0).fit(embedded)
print(f"{again.n_components_} components of dimension {again.effective_dimension_}")
