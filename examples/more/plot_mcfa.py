"""
Factors of faces
================

Parts that vary continuously: the factors of each part, the number of factors that it needs, and
imputation of the lower third of new faces.
"""

import numpy as np

from partwise import MCFA, make_faces
from partwise.plot import LoadingsDisplay, ReconstructionDisplay

faces = make_faces(500, random_state=0)
train, new = faces.data[:400], faces.data[400:]
model = MCFA(n_parts=5, n_factors=6, tol=0.01, random_state=0)
model.fit(train, faces.target[:400])
print("factors per part:", *model.n_factors_)
LoadingsDisplay.from_estimator(model, image_shape=faces.image_shape)

# %%
# Observed parts carry information about the class, and through the class about hidden parts.
hidden = np.arange(32 * 32) >= 20 * 32
seen = np.where(hidden, np.nan, new)
error = np.sqrt(np.mean((model.impute(seen) - new)[:, hidden] ** 2))
mean_error = np.sqrt(np.mean((train.mean(axis=0) - new)[:, hidden] ** 2))
print(f"RMSE of hidden pixels {error:.3f}, of the mean face {mean_error:.3f}", end=", ")
print(f"noise {faces.noise_std}")
ReconstructionDisplay.from_estimator(model, seen, rows=4, image_shape=faces.image_shape)
