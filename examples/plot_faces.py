"""
Parts of drawn faces
====================

Images are rows, pixels are columns. From a thousand drawings of which a fifth of the pixels is
missing to the parts of a face, the appearances of each part, completed images, odd parts and new
faces. Nobody says where a part is, or how many faces have which mouth.
"""

import matplotlib.pyplot as plt
import numpy as np

from partwise import MCVQ, make_faces
from partwise.plot import GatesDisplay, ReconstructionDisplay, SamplesDisplay, StatesDisplay

faces = make_faces(1000, random_state=0)
rng = np.random.default_rng(0)
holes = rng.random(faces.data.shape) < 0.2
X = np.where(holes, np.nan, faces.data)  # NaN means missing
print(X.shape, faces.image_shape)

# %%
# Five parts with at most ten appearances each. The gates say which part a pixel belongs to; pixels
# that depend on no other are background, and in none.
model = MCVQ(n_parts=5, n_states=10, random_state=0).fit(X)
GatesDisplay.from_estimator(model, image_shape=faces.image_shape)

# %%
# The states of each part, the commonest first, with the share of faces that have them.
StatesDisplay.from_estimator(model, image_shape=faces.image_shape)

# %%
# Every face is one state of each part. Missing pixels take part in nothing; they are filled from
# the states that the others tell, and are as far from the truth as the noise makes them.
error = np.sqrt(np.mean((model.impute(X) - faces.data)[holes] ** 2))
print(f"error of filled pixels {error:.3f}, noise of the pixels {faces.noise}")
ReconstructionDisplay.from_estimator(model, X[:3], image_shape=faces.image_shape)

# %%
# A face with something in front of it: the parts that it hides look like no state of theirs.
# Scores of a part are compared with those that other faces have for it.
odd = faces.data[0].copy().reshape(faces.image_shape)
odd[21:28, 9:23] = np.linspace(0, 1, 14)
usual = model.anomaly_scores(faces.data[1:])
score = model.anomaly_scores(odd.reshape(1, -1))[0]
figure, (left, right) = plt.subplots(1, 2, figsize=(7, 2.6), layout="constrained")
left.imshow(odd, cmap="gray", vmin=0, vmax=1)
left.set_axis_off()
right.bar(range(5), (score - usual.mean(axis=0)) / usual.std(axis=0))
right.set(xlabel="part", ylabel="odder than most\n(standard deviations)")

# %%
# New faces: a state drawn for each part. They are put together from appearances that were seen, in
# combinations that were not.
SamplesDisplay.from_estimator(model, image_shape=faces.image_shape)
