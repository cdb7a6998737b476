"""What displays with several axes share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

import numpy as np

from partwise.typing import PathLike

if TYPE_CHECKING:
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure, SubFigure


@dataclass(kw_only=True, eq=False, repr=False)
class Display(ABC):
    """A picture of a fitted model: plain arrays, and how to plot them.

    ``from_estimator`` computes what is shown and plots it; ``plot`` plots it again. Everywhere
    ``image_shape`` is height and width if the columns are the pixels of an image, and None for
    tables; ``figure`` is where to plot, and None makes a new one; ``cmap`` names the colors, and
    None means gray for images and the display's own colors for tables.

    Parameters
    ----------
    image_shape : tuple of two int or None, default=None
        Height and width of the images, None for tables.

    Attributes
    ----------
    figure_ : matplotlib Figure or SubFigure
        Where it was plotted.
    axes_ : ndarray of matplotlib Axes
        What it was plotted on.
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
        """Plot it.

        Parameters
        ----------
        figure : matplotlib Figure or SubFigure, or None, default=None
            Where to plot; None makes a new figure.
        cmap : str or matplotlib Colormap or None, default=None
            Colors; None means the display's own.

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
        """Plot columns that are pixels."""

    @abstractmethod
    def _plot_table(
        self, figure: Figure | SubFigure | None, cmap: str | Colormap
    ) -> tuple[Figure | SubFigure, np.ndarray]:
        """Plot columns of a table."""


class Plotted(Protocol):
    """Something with a figure."""

    figure_: Figure | SubFigure


def save_picture(display: Plotted, path: PathLike, dpi: float = 90.0) -> None:
    """Save the figure of a display to a file, and close it.

    Parameters
    ----------
    display : display
        With ``figure_``.
    path : str or path-like
        Where to write; the suffix sets the format.
    dpi : float, default=90
        Pixels per inch.
    """
    import matplotlib.pyplot as plt

    figure = display.figure_.figure  # a subfigure is saved with the figure that contains it
    figure.savefig(path, dpi=dpi, bbox_inches="tight")
    plt.close(figure)
