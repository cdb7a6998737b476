"""
Faces that are not aligned
==========================

Parts of an image model are sets of pixels, so images must be aligned. Here they are not: each face
is seen through a window at an unknown offset. With ``transformations`` the model describes a larger
canvas and sums over the offsets.
"""

import matplotlib.pyplot as plt
import numpy as np

from partwise import MCVQ, Translations, make_faces

faces = make_faces(600, noise_std=0.1, random_state=0)
height, width = faces.image_shape
rng = np.random.default_rng(0)
offset = rng.integers(-2, 3, size=(600, 2))
inner = height - 4, width - 4
images = faces.data.reshape(-1, height, width)
X = np.stack(
    [
        image[2 + y : 2 + y + inner[0], 2 + x : 2 + x + inner[1]].ravel()
        for image, (y, x) in zip(images, offset, strict=True)
    ]
)
train, new = X[:500], X[500:]

# %%
# A static model explains the offsets by states; the moving one finds them.
static = MCVQ(5, 6, random_state=0, max_iter=50, tol=1e-2).fit(train)
moves = Translations(inner, max_shift=2)
moving = MCVQ(5, 6, transformations=moves, random_state=0, max_iter=50, tol=1e-2).fit(train)
apart = moving.shifts(new) - offset[500:]
right = np.mean((apart == np.median(apart, axis=0)).all(axis=1))
print(f"held-out nats per row: static {static.score(new):.0f}, moving {moving.score(new):.0f}")
print(f"offsets found: {right:.0%}")

# %%
# Windows as they were seen, and the same aligned on the canvas.
figure, axes = plt.subplots(2, 8, figsize=(9, 2.6), layout="constrained")
for column, (seen, aligned) in enumerate(zip(new[:8], moving.align(new[:8]), strict=True)):
    axes[0, column].imshow(seen.reshape(inner), cmap="gray")
    axes[1, column].imshow(aligned.reshape(moving.canvas_shape_), cmap="gray")
for ax in axes.ravel():
    ax.set_axis_off()
