"""
Parts of drawn faces
====================

Learn the parts of cartoon faces, with a fifth of the pixels missing, and look at what was found.
"""

import numpy as np

from partwise import MCVQ, make_faces
from partwise.plot import GatesDisplay, ReconstructionDisplay, StatesDisplay

faces = make_faces(1000, random_state=0)
rng = np.random.default_rng(0)
holes = rng.random(faces.data.shape) < 0.2
X = np.where(holes, np.nan, faces.data)

model = MCVQ(n_parts=5, n_states=10, random_state=0).fit(X)
error = np.sqrt(np.mean((model.impute(X) - faces.data)[holes] ** 2))
print(f"error of filled pixels {error:.3f}, noise {faces.noise}")

GatesDisplay.from_estimator(model, image_shape=faces.image_shape)
StatesDisplay.from_estimator(model, image_shape=faces.image_shape)
ReconstructionDisplay.from_estimator(model, X[:3], image_shape=faces.image_shape)
