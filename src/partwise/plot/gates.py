"""Which part each column belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from partwise.plot._draw import bare, get_figure, name_columns, show_picture
from partwise.plot.view import check_image_shape, view

if TYPE_CHECKING:
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure, SubFigure


class GatesDisplay:
    """Gates of a model: how surely each column belongs to each part.

    For images, one picture a part, white where the part explains the pixel. For tables, a heat map
    of columns by parts, with the columns of a part next to each other.

    Parameters
    ----------
    gates : ndarray of shape (n_features, n_parts)
        Posterior probability that a part explains a column.
    parts : ndarray of shape (n_features,)
        Part of each column, -1 for background.
    feature_names : list of str
        Names of the columns.
    image_shape : tuple of two int or None, default=None
        Height and width of the images, None for tables.

    Attributes
    ----------
    figure_ : matplotlib Figure or SubFigure
        Where it was drawn.
    axes_ : ndarray of matplotlib Axes
        One for each part, or a single one for tables.

    See Also
    --------
    StatesDisplay : The appearances of each part.

    Examples
    --------
    >>> from partwise import MCVQ, make_shapes
    >>> from partwise.plot import GatesDisplay
    >>> shapes = make_shapes()
    >>> model = MCVQ(n_parts=3, n_states=9, random_state=0).fit(shapes.data)
    >>> display = GatesDisplay.from_estimator(model, image_shape=shapes.image_shape)
    >>> display.gates.shape, len(display.axes_)
    ((121, 3), 3)
    """

    figure_: Figure | SubFigure
    axes_: np.ndarray

    def __init__(
        self,
        *,
        gates: np.ndarray,
        parts: np.ndarray,
        feature_names: list[str],
        image_shape: tuple[int, int] | None = None,
    ) -> None:
        self.gates = gates
        self.parts = parts
        self.feature_names = feature_names
        self.image_shape = image_shape

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        image_shape: Sequence[int] | None = None,
        figure: Figure | SubFigure | None = None,
        cmap: str | Colormap | None = None,
    ) -> GatesDisplay:
        """Read the gates of a fitted model and draw them.

        Parameters
        ----------
        estimator : estimator
            Fitted, with ``gates_`` and ``parts_``.
        image_shape : two int or None, default=None
            Height and width, if the columns are the pixels of an image.
        figure : matplotlib Figure or SubFigure, or None, default=None
            Where to draw; None makes a new figure.
        cmap : str or matplotlib Colormap or None, default=None
            Colours; None means grey for images and blue for tables.

        Returns
        -------
        display : GatesDisplay
        """
        seen = view(estimator)
        display = cls(
            gates=seen.gates,
            parts=seen.parts,
            feature_names=seen.names,
            image_shape=check_image_shape(image_shape, len(seen.names)),
        )
        return display.plot(figure=figure, cmap=cmap)

    def plot(
        self,
        figure: Figure | SubFigure | None = None,
        *,
        cmap: str | Colormap | None = None,
    ) -> GatesDisplay:
        """Draw the gates.

        Parameters
        ----------
        figure : matplotlib Figure or SubFigure, or None, default=None
            Where to draw; None makes a new figure.
        cmap : str or matplotlib Colormap or None, default=None
            Colours; None means grey for images and blue for tables.

        Returns
        -------
        display : GatesDisplay
            This one, with ``figure_`` and ``axes_``.
        """
        if self.image_shape is None:
            self._plot_table(figure, cmap or "Blues")
        else:
            self._plot_images(figure, cmap or "gray", self.image_shape)
        return self

    def _plot_images(
        self, figure: Figure | SubFigure | None, cmap: str | Colormap, shape: tuple[int, int]
    ) -> None:
        n_parts = self.gates.shape[1]
        n_across = min(n_parts, 8)
        n_down = -(-n_parts // n_across)
        figure = get_figure(figure, 1.5 * n_across, 1.8 * n_down)
        grid = figure.subplots(n_down, n_across, squeeze=False).ravel()
        for k, ax in enumerate(grid[:n_parts]):
            show_picture(ax, self.gates[:, k], shape, (0.0, 1.0), cmap)
            count = int((self.parts == k).sum())
            ax.set_title(f"part {k}\n{count} pixels", fontsize="small")
        for ax in grid[n_parts:]:
            ax.set_axis_off()
        self.figure_, self.axes_ = figure, grid[:n_parts]

    def _plot_table(self, figure: Figure | SubFigure | None, cmap: str | Colormap) -> None:
        n_features, n_parts = self.gates.shape
        # Background last; within a part the surest first.
        group = np.where(self.parts < 0, n_parts, self.parts)
        order = np.lexsort((-self.gates.max(axis=1), group))
        height = float(np.clip(0.18 * n_features + 1.0, 2.5, 11.0))
        figure = get_figure(figure, 3.2 + 0.45 * n_parts, height)
        ax = figure.subplots()
        image = ax.imshow(
            self.gates[order], cmap=cmap, vmin=0, vmax=1, aspect="auto", interpolation="nearest"
        )
        bare(ax)
        ax.set_xticks(range(n_parts), [str(k) for k in range(n_parts)])
        ax.tick_params(axis="x", length=0)
        ax.set(xlabel="part", title="Gates")
        name_columns(ax, [self.feature_names[d] for d in order], axis="y")
        for edge in np.flatnonzero(np.diff(group[order])):
            ax.axhline(edge + 0.5, color="0.5", linewidth=0.8)
        if not len(ax.get_yticks()):
            ax.set_ylabel(f"{n_features} columns, grouped by part")
        bar = figure.colorbar(image, ax=ax, shrink=0.6, label="probability")
        bar.outline.set_visible(False)
        self.figure_, self.axes_ = figure, np.array([ax])
