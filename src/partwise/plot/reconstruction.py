"""Rows, their reconstructions and their parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator

from partwise.plot._display import Display
from partwise.plot._draw import (
    ABSENT,
    DEVIATIONS,
    color_bar,
    get_figure,
    grouped,
    middles,
    name_columns,
    name_parts,
    name_ticks,
    note_missing,
    part_label,
    show_picture,
    show_rows,
    with_missing,
)
from partwise.plot.view import as_shown, check_image_shape, shades, take_rows, view
from partwise.typing import DataLike

if TYPE_CHECKING:
    from partwise.plot._draw import AnyFigure, Colors, Drawn


@dataclass(kw_only=True, eq=False, repr=False)
class ReconstructionDisplay(Display):
    """Rows, their reconstructions, and the parts of these.

    For images, one line per row: the original, the reconstruction, then each part masked by its
    gate: its most active state (Ross and Zemel 2002, Figure 4), or what it expects with its
    factors. For tables, two heat maps with the columns of a part next to each other, and states or
    factors written on the second. Missing values are orange in images and gray in
    tables.

    Parameters
    ----------
    originals : ndarray of shape (n_rows, n_features)
        Rows as given, NaN where missing.
    reconstructions : ndarray of shape (n_rows, n_features)
        The model's version of them.
    pictures : ndarray of shape (n_rows, n_parts, n_features)
        Each part of them, masked by its gate.
    labels : list of n_rows list of n_parts str
        State of each part, or the strongest of its factors.
    limits : tuple of two float
        Values at the two ends of the color map.
    rows : ndarray of shape (n_rows,)
        Numbers of the rows in the data.
    parts : ndarray of shape (n_features,)
        Part of each column, -1 for background.
    feature_names : list of str
        Names of the columns.
    center, spread : ndarray of shape (n_features,)
        Mean and standard deviation of each column, by which tables are scaled.
    part_names : list of n_parts str, optional
        Names of the parts, "" for numbers.
    image_shape : tuple of two int or None, default=None
        Height and width of the images, None for tables.

    Attributes
    ----------
    figure_ : matplotlib Figure or SubFigure
        Where it was plotted.
    axes_ : ndarray of matplotlib Axes
        For images of shape (n_rows, 2 + n_parts); for tables of shape (2,).

    References
    ----------
    D. A. Ross and R. S. Zemel (2002). Multiple Cause Vector Quantization. Advances in Neural
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

    originals: np.ndarray
    reconstructions: np.ndarray
    pictures: np.ndarray
    labels: list[list[str]]
    limits: tuple[float, float]
    rows: np.ndarray
    parts: np.ndarray
    feature_names: list[str]
    center: np.ndarray
    spread: np.ndarray
    part_names: list[str] = field(default_factory=list)

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: DataLike,
        *,
        rows: int | Sequence[int] = 6,
        image_shape: Sequence[int] | None = None,
        figure: AnyFigure | None = None,
        cmap: Colors | None = None,
    ) -> ReconstructionDisplay:
        """Reconstruct some rows with a fitted model and plot them.

        Parameters
        ----------
        estimator : estimator
            Fitted, with ``gates_`` and ``reconstruct``.
        X : array-like, frame or sparse matrix of shape (n_samples, n_features)
            Data; NaN means missing.
        rows : int or sequence of int, default=6
            Number of first rows, or the row numbers.
        image_shape, figure, cmap
            As for every `Display`.

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
        reconstructions = as_shown(estimator.reconstruct(chosen), estimator)
        limits = shades(originals, reconstructions)
        codes = seen.codes(chosen)
        alone = seen.appearances(codes)
        pictures = [seen.masked(k, alone[:, k], sum(limits) / 2) for k in range(seen.n_parts)]
        display = cls(
            originals=originals,
            reconstructions=reconstructions,
            pictures=np.stack(pictures, axis=1),
            labels=seen.labels(codes),
            limits=limits,
            rows=index,
            parts=seen.parts,
            feature_names=seen.names,
            center=seen.own_center(),
            spread=seen.own_spread(),
            part_names=seen.part_names,
            image_shape=shape,
        )
        return display.plot(figure=figure, cmap=cmap)

    def _plot_images(self, figure: AnyFigure | None, cmap: Colors, shape: tuple[int, int]) -> Drawn:
        n_rows, n_parts, _ = self.pictures.shape
        colors = with_missing(cmap)
        figure = get_figure(figure, 1.0 * (n_parts + 2.5), 1.08 * n_rows + 0.3)
        # A narrow empty column sets the parts apart.
        grid = figure.subplots(
            n_rows, n_parts + 3, squeeze=False, width_ratios=[1, 1, 0.12, *[1] * n_parts]
        )
        for i, row in enumerate(grid):
            row[2].set_axis_off()
            shown = [self.originals[i], self.reconstructions[i], *self.pictures[i]]
            for ax, picture in zip(np.delete(row, 2), shown, strict=True):
                show_picture(ax, picture, shape, self.limits, colors)
            row[0].set_ylabel(f"row {self.rows[i]}", fontsize="x-small")
            for ax, label in zip(row[3:], self.labels[i], strict=True):
                ax.set_xlabel(label, fontsize="x-small", labelpad=1)
        titles = [
            "original",
            "reconstruction",
            *(part_label(k, self.part_names) for k in range(n_parts)),
        ]
        for ax, title in zip(np.delete(grid[0], 2), titles, strict=True):
            ax.set_title(title, fontsize="x-small", pad=3)
        if np.isnan(self.originals).any():
            note_missing(figure)
        return figure, np.delete(grid, 2, axis=1)

    def _plot_table(self, figure: AnyFigure | None, cmap: Colors) -> Drawn:
        n_rows, n_features = self.originals.shape
        colors = with_missing(cmap, ABSENT)
        width = float(np.clip(0.2 * n_features + 1.5, 5.0, 14.0))
        figure = get_figure(figure, width, 2 * (0.28 * n_rows + 0.5) + 1.2)
        axes = figure.subplots(2, 1, sharex=True)
        tables = {"original": self.originals, "reconstruction": self.reconstructions}
        for ax, (title, values) in zip(axes, tables.items(), strict=True):
            scaled = (values - self.center) / self.spread
            image = show_rows(ax, scaled, self.parts, colors)
            name_ticks(ax, [f"row {number}" for number in self.rows], axis="y")
            ax.set_ylabel(title, fontsize="small")
            ax.tick_params(axis="x", length=0)
        name_parts(axes[0], self.parts, self.part_names)
        name_columns(axes[1], [self.feature_names[d] for d in grouped(self.parts)[0]])
        for k, middle in middles(self.parts):
            for i in range(n_rows):
                axes[1].text(
                    middle,
                    i,
                    self.labels[i][k],
                    ha="center",
                    va="center",
                    fontsize="xx-small",
                    bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.8},
                )
        color_bar(figure, image, axes, DEVIATIONS, extend="both")
        if np.isnan(self.originals).any():
            note_missing(figure, ABSENT)
        return figure, axes
