"""
Parts that move on their own
============================

A bar and a square lie anywhere in small images. With ``Translations(by="part")`` every part has its
own shift in every image: the model learns a template and a mask for each, and finds both in new
images.
"""

import matplotlib.pyplot as plt
import numpy as np

from partwise import MCVQ, Translations
from partwise.plot import ShiftsDisplay

rng = np.random.default_rng(0)
places = rng.integers(0, 8, size=(200, 2, 2))
ink = np.zeros((200, 10, 10))
for image, (bar, square) in zip(ink, places, strict=True):
    image[bar[0] : bar[0] + 3, bar[1]] = 1
    image[square[0] : square[0] + 2, square[1] : square[1] + 2] = 1
X = ink.reshape(200, -1) + 0.1 * rng.normal(size=(200, 100))

moves = Translations((10, 10), max_shift=5, by="part")
model = MCVQ(2, 1, transformations=moves, random_state=0, max_iter=20, tol=1e-2).fit(X[:150])

# %%
# Templates on their canvas, where the mask is above one half.
figure, axes = plt.subplots(1, 2, figsize=(5, 2.6), layout="constrained")
for k, ax in enumerate(axes):
    template = np.where(model.masks_[k] > 0.5, model.means_[k, 0], np.nan)
    ax.imshow(template.reshape(model.canvas_shape_), cmap="gray", vmin=0, vmax=1)
    ax.set_title(model.part_names_[k])
    ax.set_axis_off()

# %%
# How often a part lies where.
ShiftsDisplay.from_estimator(model)

# %%
# New images, what the model makes of them, and the same as each part sees them.
new = X[150:156]
rows = [new, model.reconstruct(new)]
figure, axes = plt.subplots(2, 6, figsize=(8, 2.8), layout="constrained")
for line, images in zip(axes, rows, strict=True):
    for ax, image in zip(line, images, strict=True):
        ax.imshow(image.reshape(10, 10), cmap="gray", vmin=0, vmax=1)
        ax.set_axis_off()
print(model.align(new).shape, model.shifts(new)[0].tolist())
