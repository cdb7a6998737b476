"""
Holes, few and many
===================

Cells of drawn faces are removed, ever more of them, and filled again. How far from the truth are
they, beside other ways to fill them, and do the intervals hold what they promise? Then whole
regions are missing, as under an occluder.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.impute import KNNImputer

from partwise import MCVQ, make_faces
from partwise.plot import ReconstructionDisplay

faces = make_faces(300, random_state=0)
rng = np.random.default_rng(0)
chance = rng.random(faces.data.shape)
shares = (0.1, 0.4, 0.7, 0.9)
errors = {"mean of the column": [], "KNNImputer": [], "MCVQ": []}
held, models = [], {}
for share in shares:
    holes = chance < share
    X = np.where(holes, np.nan, faces.data)
    model = models[share] = MCVQ(n_parts=5, n_states=10, random_state=0).fit(X)
    answers = np.nanmean(X, axis=0), KNNImputer().fit_transform(X), model.impute(X)
    for found, answer in zip(errors.values(), answers, strict=True):
        found.append(np.sqrt(np.mean((answer - faces.data)[holes] ** 2)))
    lower, upper = model.predict_interval(X, coverage=0.9)
    held.append(np.mean((lower <= faces.data) & (faces.data <= upper), where=holes))

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for name, found in errors.items():
    left.plot(shares, found, "o-", label=name)
left.axhline(faces.noise, color="0.5", linestyle=":", label="noise of the pixels")
left.set(xlabel="share of missing cells", ylabel="root mean squared error", ylim=(0, None))
left.legend()
right.plot(shares, held, "o-", color="C2")
right.axhline(0.9, color="0.5", linestyle=":", label="promised")
right.set(xlabel="share of missing cells", ylabel="share in their 90 % interval", ylim=(0, 1))
right.legend(loc="lower left")

# %%
# What is left of faces when seven of ten pixels are missing, and what the model that learned from
# such faces makes of them.
X = np.where(chance < 0.7, np.nan, faces.data)
ReconstructionDisplay.from_estimator(models[0.7], X, rows=4, image_shape=faces.image_shape)

# %%
# A region is missing rather than pixels here and there: the parts that are hidden altogether can
# be told only by what the others say of them. With classes they say something.
model = MCVQ(n_parts=5, n_states=10, random_state=0).fit(faces.data, faces.target)
covered = faces.data.reshape(-1, *faces.image_shape).copy()
covered[:, 20:] = np.nan
covered = covered.reshape(len(faces.data), -1)
print(f"condition told from what is seen: {np.mean(model.predict(covered) == faces.target):.0%}")
ReconstructionDisplay.from_estimator(model, covered, rows=4, image_shape=faces.image_shape)
