"""Rows, their reconstructions and the states used for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from partwise.plot._draw import (
    bare,
    get_figure,
    name_columns,
    note_missing,
    show_picture,
    with_missing,
)
from partwise.plot.view import as_shown, check_image_shape, shades, take_rows, view

if TYPE_CHECKING:
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure, SubFigure


class ReconstructionDisplay:
    """Rows beside their reconstructions, and the state of each part that made them.

    For images, one line a row: the original, the reconstruction, then the most active state of each
    part masked by its gate (Ross and Zemel 2003, Figure 4). For tables, two heat maps with the
    columns of a part next to each other, and the states written on the second. Missing entries have
    a colour of their own.

    Parameters
    ----------
    originals : ndarray of shape (n_rows, n_features)
        Rows as given, NaN where missing.
    reconstructions : ndarray of shape (n_rows, n_features)
        The model's version of them.
    states : ndarray of shape (n_rows, n_parts)
        Most active state of each part.
    pictures : ndarray of shape (n_rows, n_parts, n_features)
        Mean of that state, masked by the gate of its part.
    limits : tuple of two float
        Values drawn with the two ends of the colour map.
    rows : ndarray of shape (n_rows,)
        Numbers of the rows in the data.
    parts : ndarray of shape (n_features,)
        Part of each column, -1 for background.
    feature_names : list of str
        Names of the columns.
    centre, spread : ndarray of shape (n_features,)
        Mean and standard deviation of each column, by which tables are scaled.
    image_shape : tuple of two int or None, default=None
        Height and width of the images, None for tables.

    Attributes
    ----------
    figure_ : matplotlib Figure or SubFigure
        Where it was drawn.
    axes_ : ndarray of matplotlib Axes
        For images of shape (n_rows, 2 + n_parts); for tables of shape (2,).

    References
    ----------
    D. A. Ross and R. S. Zemel (2003). Multiple Cause Vector Quantization. Advances in Neural
    Information Processing Systems 15.

    Examples
    --------
    >>> from partwise import MCVQ, make_shapes
    >>> from partwise.plot import ReconstructionDisplay
    >>> shapes = make_shapes()
    >>> model = MCVQ(n_parts=3, n_states=9, random_state=0).fit(shapes.data)
    >>> display = ReconstructionDisplay.from_estimator(
    ...     model, shapes.data, rows=[0, 100], image_shape=shapes.image_shape
    ... )
    >>> display.pictures.shape, display.axes_.shape
    ((2, 3, 121), (2, 5))
    """

    figure_: Figure | SubFigure
    axes_: np.ndarray

    def __init__(
        self,
        *,
        originals: np.ndarray,
        reconstructions: np.ndarray,
        states: np.ndarray,
        pictures: np.ndarray,
        limits: tuple[float, float],
        rows: np.ndarray,
        parts: np.ndarray,
        feature_names: list[str],
        centre: np.ndarray,
        spread: np.ndarray,
        image_shape: tuple[int, int] | None = None,
    ) -> None:
        self.originals = originals
        self.reconstructions = reconstructions
        self.states = states
        self.pictures = pictures
        self.limits = limits
        self.rows = rows
        self.parts = parts
        self.feature_names = feature_names
        self.centre = centre
        self.spread = spread
        self.image_shape = image_shape

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        rows: int | Sequence[int] = 6,
        image_shape: Sequence[int] | None = None,
        figure: Figure | SubFigure | None = None,
        cmap: str | Colormap | None = None,
    ) -> ReconstructionDisplay:
        """Reconstruct some rows with a fitted model and draw them.

        Parameters
        ----------
        estimator : estimator
            Fitted, with ``reconstruct`` and ``states``.
        X : array-like, frame or sparse matrix of shape (n_samples, n_features)
            Data; NaN means missing.
        rows : int or sequence of int, default=6
            How many rows from the top, or the numbers of the rows.
        image_shape : two int or None, default=None
            Height and width, if the columns are the pixels of an image.
        figure : matplotlib Figure or SubFigure, or None, default=None
            Where to draw; None makes a new figure.
        cmap : str or matplotlib Colormap or None, default=None
            Colours; None means grey for images and blue to red for tables.

        Returns
        -------
        display : ReconstructionDisplay
        """
        seen = view(estimator)
        shape = check_image_shape(image_shape, len(seen.names))
        chosen, index = take_rows(X, rows)
        if len(index) == 0:
            raise ValueError("There are no rows to reconstruct.")
        originals = as_shown(chosen, estimator)
        reconstructions = np.asarray(estimator.reconstruct(chosen), dtype=float)
        states = np.asarray(estimator.states(chosen))
        limits = shades(originals, reconstructions)
        neutral = sum(limits) / 2
        pictures = np.array(
            [[seen.masked(k, j, neutral) for k, j in enumerate(row)] for row in states]
        )
        display = cls(
            originals=originals,
            reconstructions=reconstructions,
            states=states,
            pictures=pictures,
            limits=limits,
            rows=index,
            parts=seen.parts,
            feature_names=seen.names,
            centre=seen.own_centre(),
            spread=seen.own_spread(),
            image_shape=shape,
        )
        return display.plot(figure=figure, cmap=cmap)

    def plot(
        self,
        figure: Figure | SubFigure | None = None,
        *,
        cmap: str | Colormap | None = None,
    ) -> ReconstructionDisplay:
        """Draw the rows.

        Parameters
        ----------
        figure : matplotlib Figure or SubFigure, or None, default=None
            Where to draw; None makes a new figure.
        cmap : str or matplotlib Colormap or None, default=None
            Colours; None means grey for images and blue to red for tables.

        Returns
        -------
        display : ReconstructionDisplay
            This one, with ``figure_`` and ``axes_``.
        """
        if self.image_shape is None:
            self._plot_tables(figure, cmap or "RdBu_r")
        else:
            self._plot_images(figure, cmap or "gray", self.image_shape)
        if np.isnan(self.originals).any():
            note_missing(self.figure_)
        return self

    def _plot_images(
        self, figure: Figure | SubFigure | None, cmap: str | Colormap, shape: tuple[int, int]
    ) -> None:
        n_rows, n_parts, _ = self.pictures.shape
        colours = with_missing(cmap)
        figure = get_figure(figure, 1.0 * (n_parts + 2.5), 1.08 * n_rows + 0.3)
        # A narrow empty column sets the parts apart.
        grid = figure.subplots(
            n_rows, n_parts + 3, squeeze=False, width_ratios=[1, 1, 0.12, *[1] * n_parts]
        )
        for i, row in enumerate(grid):
            row[2].set_axis_off()
            shown = [self.originals[i], self.reconstructions[i], *self.pictures[i]]
            for ax, picture in zip(np.delete(row, 2), shown, strict=True):
                show_picture(ax, picture, shape, self.limits, colours)
            row[0].set_ylabel(f"row {self.rows[i]}", fontsize="x-small")
            for ax, j in zip(row[3:], self.states[i], strict=True):
                ax.set_xlabel(f"state {j}", fontsize="x-small", labelpad=1)
        titles = ["original", "reconstruction", *(f"part {k}" for k in range(n_parts))]
        for ax, title in zip(np.delete(grid[0], 2), titles, strict=True):
            ax.set_title(title, fontsize="x-small", pad=3)
        self.figure_, self.axes_ = figure, np.delete(grid, 2, axis=1)

    def _plot_tables(self, figure: Figure | SubFigure | None, cmap: str | Colormap) -> None:
        n_rows, n_features = self.originals.shape
        n_parts = self.states.shape[1]
        group = np.where(self.parts < 0, n_parts, self.parts)
        order = np.argsort(group, kind="stable")
        colours = with_missing(cmap)
        width = float(np.clip(0.2 * n_features + 1.5, 5.0, 14.0))
        figure = get_figure(figure, width, 2 * (0.28 * n_rows + 0.5) + 1.2)
        axes = figure.subplots(2, 1, sharex=True)
        tables = {"original": self.originals, "reconstruction": self.reconstructions}
        image = None
        for ax, (title, values) in zip(axes, tables.items(), strict=True):
            scaled = (values - self.centre) / self.spread
            image = ax.imshow(
                scaled[:, order],
                cmap=colours,
                vmin=-2,
                vmax=2,
                aspect="auto",
                interpolation="nearest",
            )
            bare(ax)
            ax.set_yticks(
                range(n_rows), [f"row {number}" for number in self.rows], fontsize="x-small"
            )
            ax.tick_params(axis="y", length=0)
            ax.tick_params(axis="x", length=0)
            ax.set_ylabel(title, fontsize="small")
            for edge in np.flatnonzero(np.diff(group[order])):
                ax.axvline(edge + 0.5, color="black", linewidth=1.5)
        name_columns(axes[1], [self.feature_names[d] for d in order])
        # The states, in the middle of each part's columns.
        for k in range(n_parts):
            places = np.flatnonzero(group[order] == k)
            if places.size == 0:
                continue
            middle = places.mean()
            axes[0].annotate(
                f"part {k}",
                (middle, 1),
                xycoords=("data", "axes fraction"),
                xytext=(0, 3),
                textcoords="offset points",
                ha="center",
                fontsize="x-small",
            )
            for i in range(n_rows):
                axes[1].text(
                    middle,
                    i,
                    f"state {self.states[i, k]}",
                    ha="center",
                    va="center",
                    fontsize="xx-small",
                    bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.8},
                )
        if image is not None:
            bar = figure.colorbar(
                image,
                ax=list(axes),
                extend="both",
                label="standard deviations\nfrom the column's mean",
            )
            bar.outline.set_visible(False)
        self.figure_, self.axes_ = figure, axes
