"""
Factors of drawn faces
======================

Learn parts that vary by degrees: the factors of each part, how many of them it needs, and faces
whose lower third is hidden, completed from what can be seen of them.
"""

import numpy as np

from partwise import MCFA, make_faces
from partwise.plot import LoadingsDisplay, ReconstructionDisplay

faces = make_faces(500, random_state=0)
train, new = faces.data[:400], faces.data[400:]
model = MCFA(n_parts=5, n_factors=6, tol=0.01, random_state=0)
model.fit(train, faces.target[:400])
print("factors that each part needs:", *model.n_factors_)
LoadingsDisplay.from_estimator(model, image_shape=faces.image_shape)

# %%
# The mouth says something about the condition, and so do brows and eyes: through the class, what
# can be seen says something about what cannot.
hidden = np.arange(32 * 32) >= 20 * 32
seen = np.where(hidden, np.nan, new)
error = np.sqrt(np.mean((model.impute(seen) - new)[:, hidden] ** 2))
blank = np.sqrt(np.mean((train.mean(axis=0) - new)[:, hidden] ** 2))
print(f"error of hidden pixels {error:.3f}, by the mean face {blank:.3f}, noise {faces.noise}")
ReconstructionDisplay.from_estimator(model, seen, rows=4, image_shape=faces.image_shape)
