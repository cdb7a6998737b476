"""Transformations of rows: lists of index maps from the columns of a row to those of a canvas.

======  ======  ========  =========================================================================
symbol  code    shape     meaning
======  ======  ========  =========================================================================
t       t       -         a transformation, 0 .. T - 1
-       maps    (T, D)    column of the canvas that column d of a row shows under each t
-       values  (T, q)    what each t is: a displacement (rows, columns), an angle, a factor
======  ======  ========  =========================================================================

A model with transformations describes a canvas. Under t, column d of a row is the canvas' column
``maps[t, d]``; columns of the canvas that no column of the row shows are missing. Every column of a
row is explained under every t, so the likelihoods of a row under different t can be compared. A
canvas larger than the row makes this possible for shifts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real

import numpy as np

from partwise.contracts import Array


@dataclass(frozen=True)
class Transformations:
    """Base of the transformations that rows may have undergone; a child says what they are."""

    @property
    def maps(self) -> Array:
        """Column of the canvas that each column of a row shows, (T, D)."""
        raise NotImplementedError

    @property
    def canvas_shape(self) -> tuple[int, ...]:
        """Height and width of the canvas of images, else its number of columns."""
        raise NotImplementedError

    @property
    def values(self) -> Array:
        """What each transformation is, (T, q)."""
        raise NotImplementedError

    @property
    def n_canvas(self) -> int:
        """Number of columns of the canvas."""
        return int(np.prod(self.canvas_shape))

    @property
    def n_columns(self) -> int:
        """Number of columns of a row."""
        return int(self.maps.shape[1])

    def __len__(self) -> int:
        return len(self.maps)

    def step(self, shares: Array) -> tuple[int, ...] | None:
        """Displacement of the canvas that brings the mean of ``shares`` (T,) to 0, if one can."""
        return None


def _checked_shape(image_shape: Sequence[int]) -> tuple[int, int]:
    shape = tuple(image_shape) if np.ndim(image_shape) == 1 else ()
    if len(shape) != 2 or not all(isinstance(n, Integral) and n > 0 for n in shape):
        raise ValueError(
            f"image_shape={image_shape!r} must be two positive whole numbers: height and width."
        )
    return int(shape[0]), int(shape[1])


@dataclass(frozen=True)
class Translations(Transformations):
    """All shifts of an image by whole pixels, up to a largest one in each direction.

    The canvas is larger than the image by ``max_shift`` on every side, so that every pixel is
    explained under every shift.

    Parameters
    ----------
    image_shape : two int
        Height and width of the image of a row. A series is an image of height 1.
    max_shift : int or two int, default=3
        Largest shift in pixels, the same in both directions or one per direction.
    by : {"row", "part"}, default="row"
        Whether all parts of a row have the same shift, or each part its own, before a
        background that stays in place.

    Attributes
    ----------
    maps : ndarray of shape (T, D)
        Pixel of the canvas that each pixel of the image shows under every shift.
    values : ndarray of shape (T, 2)
        Shift of each transformation, rows then columns: where the image's window lies on the
        canvas, relative to its middle.
    canvas_shape : tuple of two int

    Examples
    --------
    >>> from partwise import Translations
    >>> shifts = Translations((13, 13), max_shift=3)
    >>> len(shifts), shifts.canvas_shape
    (49, (19, 19))
    """

    image_shape: Sequence[int]
    max_shift: int | Sequence[int] = 3
    by: str = "row"

    def __post_init__(self) -> None:
        shape = _checked_shape(self.image_shape)
        if self.by not in ("row", "part"):
            raise ValueError(f'by={self.by!r} must be "row" or "part".')
        most = self._most
        if len(most) != 2 or not all(isinstance(s, Integral) and s >= 0 for s in most):
            raise ValueError(
                f"max_shift={self.max_shift!r} must be a whole number of pixels, 0 or more, or one "
                "per direction."
            )
        if any(s >= n for s, n in zip(most, shape, strict=True) if s):
            raise ValueError(
                f"max_shift={self.max_shift!r} is not smaller than the image of {shape[0]} x "
                f"{shape[1]} pixels; lower max_shift, for a direction of one pixel to 0."
            )

    @property
    def _most(self) -> tuple[int, ...]:
        given = self.max_shift
        return (given, given) if np.ndim(given) == 0 else tuple(given)  # type: ignore[arg-type, return-value]  # checked above

    @property
    def canvas_shape(self) -> tuple[int, ...]:
        """Height and width of the canvas."""
        return tuple(int(n) + 2 * int(s) for n, s in zip(self.image_shape, self._most, strict=True))

    @cached_property
    def values(self) -> Array:
        """Shift of each transformation, rows then columns, (T, 2)."""
        ranges = [np.arange(-s, s + 1) for s in self._most]
        return np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, 2)

    @cached_property
    def maps(self) -> Array:
        """Pixel of the canvas that each pixel of the image shows, (T, D)."""
        canvas = np.arange(self.n_canvas).reshape(self.canvas_shape)
        (h, w), (a, b) = self.image_shape, self._most
        windows = [canvas[a + y : a + y + h, b + x : b + x + w].ravel() for y, x in self.values]
        return np.stack(windows)

    def step(self, shares: Array) -> tuple[int, ...] | None:
        """Displacement of the canvas that brings the mean shift to 0."""
        mean = np.rint(shares @ self.values / shares.sum()).astype(int)
        return None if not mean.any() else (int(mean[0]), int(mean[1]))


@dataclass(frozen=True)
class _Warps(Transformations):
    """Linear maps of the plane about the middle of an image, rounded to pixels."""

    @property
    def _image(self) -> tuple[int, int]:
        raise NotImplementedError

    @property
    def _matrices(self) -> Array:
        """From the image's coordinates to the canvas', (T, 2, 2)."""
        raise NotImplementedError

    @cached_property
    def _places(self) -> Array:
        """Coordinates of the image's pixels on the canvas, rounded to pixels; (T, 2, D)."""
        h, w = self._image
        middle = np.array([[(h - 1) / 2], [(w - 1) / 2]])
        grid = np.stack(np.meshgrid(np.arange(h), np.arange(w), indexing="ij")).reshape(2, -1)
        return np.rint(self._matrices @ (grid - middle) + middle).astype(int)

    @property
    def canvas_shape(self) -> tuple[int, ...]:
        """Height and width of the canvas: room for every transformed image."""
        low, high = self._places.min(axis=(0, 2)), self._places.max(axis=(0, 2))
        return tuple(int(n) for n in high - low + 1)

    @cached_property
    def maps(self) -> Array:
        """Pixel of the canvas that each pixel of the image shows, (T, D)."""
        y, x = np.moveaxis(self._places - self._places.min(axis=(0, 2))[:, None], 1, 0)
        return y * self.canvas_shape[1] + x


@dataclass(frozen=True)
class Rotations(_Warps):
    """Rotations of an image about its middle, each pixel rounded to the nearest.

    Parameters
    ----------
    image_shape : two int
        Height and width of the image of a row.
    max_angle : float, default=15.0
        Largest angle in degrees, in both directions.
    n_steps : int, default=3
        Angles in each direction, besides 0.

    Examples
    --------
    >>> from partwise import Rotations
    >>> Rotations((11, 11), max_angle=10, n_steps=2).values.ravel()
    array([-10.,  -5.,   0.,   5.,  10.])
    """

    image_shape: Sequence[int]
    max_angle: float = 15.0
    n_steps: int = 3

    def __post_init__(self) -> None:
        _checked_shape(self.image_shape)
        _check_steps(self.n_steps)
        if not isinstance(self.max_angle, Real) or not 0 <= self.max_angle <= 180:
            raise ValueError(f"max_angle={self.max_angle!r} must be from 0 to 180 degrees.")

    @property
    def _image(self) -> tuple[int, int]:
        return _checked_shape(self.image_shape)

    @cached_property
    def values(self) -> Array:
        """Angles in degrees, (T, 1)."""
        return np.linspace(-self.max_angle, self.max_angle, 2 * self.n_steps + 1)[:, None]

    @property
    def _matrices(self) -> Array:
        angle = np.deg2rad(self.values[:, 0])
        cos, sin = np.cos(angle), np.sin(angle)
        return np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], axis=1)


@dataclass(frozen=True)
class Scalings(_Warps):
    """Sizes of an image about its middle, each pixel rounded to the nearest.

    Where an image is smaller than the template several of its pixels show one pixel of the canvas.

    Parameters
    ----------
    image_shape : two int
        Height and width of the image of a row.
    max_factor : float, default=1.2
        Largest factor; the least is its reciprocal.
    n_steps : int, default=2
        Factors in each direction, besides 1.

    Examples
    --------
    >>> from partwise import Scalings
    >>> Scalings((11, 11), max_factor=1.21, n_steps=2).values.ravel().round(2)
    array([0.83, 0.91, 1.  , 1.1 , 1.21])
    """

    image_shape: Sequence[int]
    max_factor: float = 1.2
    n_steps: int = 2

    def __post_init__(self) -> None:
        _checked_shape(self.image_shape)
        _check_steps(self.n_steps)
        if not isinstance(self.max_factor, Real) or not 1 <= self.max_factor <= 4:
            raise ValueError(f"max_factor={self.max_factor!r} must be from 1 to 4.")

    @property
    def _image(self) -> tuple[int, int]:
        return _checked_shape(self.image_shape)

    @cached_property
    def values(self) -> Array:
        """Factors, (T, 1)."""
        steps = np.linspace(-1.0, 1.0, 2 * self.n_steps + 1)[:, None]
        return np.asarray(float(self.max_factor) ** steps)

    @property
    def _matrices(self) -> Array:
        return np.eye(2) / self.values[:, :, None]


def _check_steps(n_steps: object) -> None:
    if not isinstance(n_steps, Integral) or n_steps < 0:
        raise ValueError(f"n_steps={n_steps!r} must be a whole number, 0 or more.")


@dataclass(frozen=True)
class IndexMaps(Transformations):
    """Any transformations that place the columns of a row among those of a canvas.

    Parameters
    ----------
    index_maps : sequence of T sequences of D int
        Column of the canvas that each column of a row shows under every transformation.
    n_canvas_columns : int, optional
        Columns of the canvas; one more than the largest number if not given.

    Examples
    --------
    Spectra of 8 bins, transposed by up to one bin:

    >>> from partwise import IndexMaps
    >>> shifts = IndexMaps([[d + s for d in range(8)] for s in range(3)])
    >>> shifts.maps.shape, shifts.canvas_shape
    ((3, 8), (10,))
    """

    index_maps: Sequence[Sequence[int]]
    n_canvas_columns: int | None = None

    def __post_init__(self) -> None:
        maps = np.asarray(self.index_maps)
        if maps.ndim != 2 or maps.size == 0 or maps.dtype.kind not in "iu" or maps.min() < 0:
            raise ValueError(
                "index_maps must be lists of column numbers from 0, of the same length: one list "
                "per transformation, one number per column of a row."
            )
        if self.n_canvas_columns is not None and self.n_canvas_columns <= maps.max():
            raise ValueError(
                f"index_maps name column {maps.max()}, but n_canvas_columns="
                f"{self.n_canvas_columns}; raise n_canvas_columns."
            )
        own = tuple(tuple(int(d) for d in row) for row in maps)  # plain values, for model files
        object.__setattr__(self, "index_maps", own)

    @cached_property
    def maps(self) -> Array:
        """Column of the canvas that each column of a row shows, (T, D)."""
        return np.asarray(self.index_maps)

    @property
    def canvas_shape(self) -> tuple[int, ...]:
        """Number of columns of the canvas."""
        return (int(self.n_canvas_columns or self.maps.max() + 1),)

    @property
    def values(self) -> Array:
        """Numbers of the transformations, (T, 1)."""
        return np.arange(len(self.maps))[:, None]
