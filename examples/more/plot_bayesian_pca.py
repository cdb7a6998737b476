"""
A dimension that need not be chosen
===================================

Bayesian PCA switches off the directions that data do not need; a mixture of them follows a curve,
wherever it lies, and says how many dimensions it has.
"""

import numpy as np

from partwise import BayesianPCA, BayesianPCAMixture
from partwise.plot import ComponentsDisplay, HintonDisplay

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 10)) * np.repeat([1.0, 0.5], [3, 7])
flat = BayesianPCA().fit(X)
print("three of ten directions are wider:", flat.effective_dimension_)
HintonDisplay.from_estimator(flat)

# %%
# Rows near a curve: one dimension, although one plane alone would need two.
t = rng.uniform(-np.pi, np.pi, 400)
curve = np.stack([t, 2 * np.sin(t)], axis=1) + 0.1 * rng.normal(size=(400, 2))
mixture = BayesianPCAMixture(random_state=0).fit(curve)
print(f"{mixture.n_components_} components of dimension {mixture.effective_dimension_}")
ComponentsDisplay.from_estimator(mixture, curve)

# %%
# The same curve, turned in 20 dimensions with noise in all of them.
turn = np.linalg.qr(rng.normal(size=(20, 20)))[0]
hidden = curve @ turn[:2] + 0.1 * rng.normal(size=(400, 20))
again = BayesianPCAMixture(random_state=0).fit(hidden)
print(f"{again.n_components_} components of dimension {again.effective_dimension_}")
