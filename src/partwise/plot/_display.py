"""What all displays with a figure of their own share."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

if TYPE_CHECKING:
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure, SubFigure


@dataclass(kw_only=True, eq=False, repr=False)
class Display(ABC):
    """A picture of a fitted model: plain arrays, and how to draw them.

    ``from_estimator`` computes what is shown and draws it; ``plot`` draws it again. Everywhere
    ``image_shape`` is height and width if the columns are the pixels of an image, and None for
    tables; ``figure`` is where to draw, None making a new one; and ``cmap`` names the colours, None
    meaning grey for images and the display's own for tables.

    Parameters
    ----------
    image_shape : tuple of two int or None, default=None
        Height and width of the images, None for tables.

    Attributes
    ----------
    figure_ : matplotlib Figure or SubFigure
        Where it was drawn.
    axes_ : ndarray of matplotlib Axes
        What it was drawn on.
    """

    image_shape: tuple[int, int] | None = None
    figure_: Figure | SubFigure = field(init=False)
    axes_: np.ndarray = field(init=False)

    table_cmap: ClassVar[str] = "RdBu_r"

    def plot(
        self,
        figure: Figure | SubFigure | None = None,
        *,
        cmap: str | Colormap | None = None,
    ) -> Self:
        """Draw it.

        Parameters
        ----------
        figure : matplotlib Figure or SubFigure, or None, default=None
            Where to draw; None makes a new figure.
        cmap : str or matplotlib Colormap or None, default=None
            Colours; None means the display's own.

        Returns
        -------
        display : Display
            This one, with ``figure_`` and ``axes_``.
        """
        if self.image_shape is None:
            drawn = self._plot_table(figure, cmap or self.table_cmap)
        else:
            drawn = self._plot_images(figure, cmap or "gray", self.image_shape)
        self.figure_, self.axes_ = drawn
        return self

    @abstractmethod
    def _plot_images(
        self, figure: Figure | SubFigure | None, cmap: str | Colormap, shape: tuple[int, int]
    ) -> tuple[Figure | SubFigure, np.ndarray]:
        """Draw columns that are pixels."""

    @abstractmethod
    def _plot_table(
        self, figure: Figure | SubFigure | None, cmap: str | Colormap
    ) -> tuple[Figure | SubFigure, np.ndarray]:
        """Draw columns of a table."""


def save_picture(display: Any, path: str | os.PathLike[str], dpi: float = 90.0) -> None:
    """Write what a display drew to a file, and close its figure.

    Parameters
    ----------
    display : display
        With ``figure_``.
    path : str or path-like
        Where to write; how it ends says in which format.
    dpi : float, default=90
        Pixels an inch.
    """
    import matplotlib.pyplot as plt

    display.figure_.savefig(path, dpi=dpi, bbox_inches="tight")
    plt.close(display.figure_)
