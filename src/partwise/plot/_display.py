"""What displays share: their figure and axes, and how they are plotted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

import numpy as np

from partwise.typing import PathLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from partwise.plot._draw import AnyFigure, Colors, Drawn


@dataclass(kw_only=True, eq=False, repr=False)
class AxesDisplay:
    """A picture on a single axes.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was plotted.
    figure_ : matplotlib Figure or SubFigure
        The figure of ``ax_``.
    """

    ax_: Axes = field(init=False)
    figure_: AnyFigure = field(init=False)

    def _plotted(self, ax: Axes) -> Self:
        """Keep where it was plotted."""
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class PlainAxesDisplay(AxesDisplay, ABC):
    """A picture on a single axes, without options."""

    def plot(self, ax: Axes | None = None) -> Self:
        """Plot it.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to plot; None makes a new figure.

        Returns
        -------
        display : Display
            This one, with ``ax_`` and ``figure_``.
        """
        return self._plotted(self._plot(ax))

    @abstractmethod
    def _plot(self, ax: Axes | None) -> Axes:
        """Plot it, and tell where."""


@dataclass(kw_only=True, eq=False, repr=False)
class HeatMapDisplay(AxesDisplay, ABC):
    """A heat map on a single axes."""

    default_cmap: ClassVar[str]

    def plot(self, ax: Axes | None = None, *, cmap: Colors | None = None) -> Self:
        """Plot it.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to plot; None makes a new figure.
        cmap : str or matplotlib Colormap or None, default=None
            Colors; None means the display's own.

        Returns
        -------
        display : Display
            This one, with ``ax_`` and ``figure_``.
        """
        return self._plotted(self._plot(ax, cmap or self.default_cmap))

    @abstractmethod
    def _plot(self, ax: Axes | None, cmap: Colors) -> Axes:
        """Plot it, and tell where."""


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
    figure_: AnyFigure = field(init=False)
    axes_: np.ndarray = field(init=False)

    table_cmap: ClassVar[str] = "RdBu_r"

    def plot(
        self,
        figure: AnyFigure | None = None,
        *,
        cmap: Colors | None = None,
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
    def _plot_images(self, figure: AnyFigure | None, cmap: Colors, shape: tuple[int, int]) -> Drawn:
        """Plot columns that are pixels."""

    @abstractmethod
    def _plot_table(self, figure: AnyFigure | None, cmap: Colors) -> Drawn:
        """Plot columns of a table."""


class Plotted(Protocol):
    """Something with a figure."""

    figure_: AnyFigure


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
