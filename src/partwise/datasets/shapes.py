"""The papers' first data set: a box, a triangle and a cross at independent heights."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.utils import Bunch

from partwise.sampling.randomness import as_generator
from partwise.typing import Seed

_SIDE = 11  # pixels, both ways
_HEIGHTS = 9  # places for a shape three pixels tall
_LEFT = (0, 4, 8)  # first column of each shape's strip; columns 3 and 7 stay empty
_SHAPE_NAMES = ("box", "triangle", "cross")
_DRAWINGS = {
    "outline": (("###", "# #", "###"), (" # ", "# #", "###"), (" # ", "###", " # ")),
    "gray": (("###", "###", "###"), (" # ", "###", "###"), (" # ", "###", " # ")),
}
# Width of the gray drawing's blur, in pixels. Among outlines, solid and anti-aliased shapes blurred
# by 0 to 0.7 pixels, the one on which PCA, NMF and VQ are nearest to the thesis' Table 3.1.
_BLUR = {"outline": 0.0, "gray": 0.42}


def make_shapes(
    n_samples: int | None = None,
    random_state: Seed = None,
    *,
    drawing: Literal["outline", "gray"] = "outline",
) -> Bunch:
    """Make images of a box, a triangle and a cross at every combination of heights.

    Each image is 11 by 11 pixels: -1 is background, +1 is ink. A shape is three pixels wide and
    tall and stays in its own three columns; its height takes nine values, independently of the
    other two shapes, so there are 9 ** 3 = 729 images.

    The papers' own images are gray-scale and not available. The gray drawing is the one on which
    PCA (12 components), NMF (12 vectors) and k-means (38 vectors), trained on 100 images, have the
    root-mean-squared errors on the other 629 that are nearest to those printed: 0.25, 0.34 and
    0.46, for 0.22, 0.35 and 0.49 in Table 3.1 of the thesis. On the outlines they have 0.39, 0.47
    and 0.56.

    Parameters
    ----------
    n_samples : int or None, default=None
        Number of images, sampled without replacement; None gives all 729, in order of their states.
    random_state : int, Generator, RandomState or None, default=None
        Seed for the choice of images when `n_samples` is given.
    drawing : {"outline", "gray"}, default="outline"
        "outline": outlines in black and white. "gray": solid shapes blurred by a Gaussian
        with a standard deviation of 0.42 pixels, between -1 and 1.

    Returns
    -------
    Bunch
        With the fields

        - ``data`` : ndarray of shape (n_samples, 121), the images, row by row;
        - ``image_shape`` : (11, 11);
        - ``states`` : ndarray of shape (n_samples, 3), int, the row where each shape begins;
        - ``masks`` : ndarray of shape (121,), int, the shape each pixel belongs to, -1 for pixels
          without ink in all images (before the blur);
        - ``part_names`` : the names of the three shapes.

    References
    ----------
    D. A. Ross and R. S. Zemel (2002). Multiple Cause Vector Quantization. Advances in Neural
    Information Processing Systems 15, section 5.1.

    D. A. Ross. MSc thesis on multiple cause vector quantization, section 3.1.

    Examples
    --------
    >>> from partwise.datasets import make_shapes
    >>> shapes = make_shapes()
    >>> shapes.data.shape
    (729, 121)
    >>> for row in shapes.data[40].reshape(shapes.image_shape)[:7]:
    ...     print("".join("#" if pixel > 0 else "." for pixel in row))
    ###........
    #.#........
    ###........
    ...........
    .....#...#.
    ....#.#.###
    ....###..#.
    """
    if drawing not in _DRAWINGS:
        raise ValueError(f"drawing must be one of {', '.join(_DRAWINGS)}, got {drawing!r}.")
    total = _HEIGHTS ** len(_LEFT)
    chosen = np.arange(total)
    if n_samples is not None:
        if not 1 <= n_samples <= total:
            raise ValueError(f"n_samples must be between 1 and {total}, got {n_samples}.")
        chosen = as_generator(random_state).permutation(total)[:n_samples]
    states = np.stack(np.unravel_index(chosen, (_HEIGHTS,) * len(_LEFT)), axis=1)

    drawn = _draw_all(drawing)  # (3 shapes, 9 heights, 11, 11)
    width = _BLUR[drawing]
    blurred = gaussian_filter(drawn, width, axes=(2, 3), mode="constant") if width else drawn
    gray = sum(blurred[k, states[:, k]] for k in range(len(_LEFT))) / blurred.max()
    ever = drawn.any(axis=1).reshape(len(_LEFT), -1)
    return Bunch(
        data=2.0 * gray.reshape(len(states), -1) - 1.0,
        image_shape=(_SIDE, _SIDE),
        states=states,
        masks=np.where(ever.any(axis=0), ever.argmax(axis=0), -1),
        part_names=list(_SHAPE_NAMES),
    )


def _draw_all(drawing: str) -> np.ndarray:
    """Ink of each shape at each height, 0 or 1; (3, 9, 11, 11)."""
    drawn = np.zeros((len(_LEFT), _HEIGHTS, _SIDE, _SIDE))
    for k, left in enumerate(_LEFT):
        shape = np.array([list(line) for line in _DRAWINGS[drawing][k]]) == "#"
        for top in range(_HEIGHTS):
            drawn[k, top, top : top + 3, left : left + 3] = shape
    return drawn
