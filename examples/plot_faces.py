"""
Parts of faces
==============

Images are rows, pixels are columns. The model is fitted to a thousand synthetic faces, of which a
fifth of the pixels is missing. It finds the parts of a face and the states of each part; then it
imputes missing pixels, detects anomalous parts and samples new faces.
"""

import matplotlib.pyplot as plt
import numpy as np

from partwise import MCVQ, make_faces
from partwise.plot import GatesDisplay, ReconstructionDisplay, SamplesDisplay, StatesDisplay

faces = make_faces(1000, random_state=0)
rng = np.random.default_rng(0)
missing = rng.random(faces.data.shape) < 0.2
X = np.where(missing, np.nan, faces.data)  # NaN is missing
print(X.shape, faces.image_shape)

# %%
# Five parts with at most ten states each. A gate is the probability that a pixel belongs to a
# part. Pixels that depend on no others are background.
model = MCVQ(n_parts=5, n_states=10, random_state=0).fit(X)
GatesDisplay.from_estimator(model, image_shape=faces.image_shape)

# %%
# The states of each part, the most common first, with their share of the faces.
StatesDisplay.from_estimator(model, image_shape=faces.image_shape)

# %%
# Missing pixels are imputed from the states that the observed pixels suggest. The error is close
# to the noise of the pixels, which is the lowest possible.
error = np.sqrt(np.mean((model.impute(X) - faces.data)[missing] ** 2))
print(f"error of imputed pixels {error:.3f}, noise of the pixels {faces.noise_std}")
ReconstructionDisplay.from_estimator(model, X[:3], image_shape=faces.image_shape)

# %%
# A face with something in front of it: the covered part looks like none of its states. Scores are
# compared within a part, with those of the other faces.
covered = faces.data[0].copy().reshape(faces.image_shape)
covered[21:28, 9:23] = np.linspace(0, 1, 14)
usual = model.anomaly_scores(faces.data[1:])
score = model.anomaly_scores(covered.reshape(1, -1))[0]
figure, (left, right) = plt.subplots(1, 2, figsize=(7, 2.6), layout="constrained")
left.imshow(covered, cmap="gray", vmin=0, vmax=1)
left.set_axis_off()
right.bar(range(5), (score - usual.mean(axis=0)) / usual.std(axis=0))
right.set(xlabel="part", ylabel="anomaly score\n(standard deviations)")

# %%
# Synthetic faces: one state per part, in combinations that need not occur in the data.
SamplesDisplay.from_estimator(model, image_shape=faces.image_shape)
