"""Which part each column belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from partwise.plot._display import Display
from partwise.plot._draw import (
    color_bar,
    get_figure,
    grouped,
    name_columns,
    part_label,
    picture_grid,
    plain,
    show_picture,
    show_table,
)
from partwise.plot.view import check_image_shape, view

if TYPE_CHECKING:
    from partwise.plot._draw import AnyFigure, Colors, Drawn


@dataclass(kw_only=True, eq=False, repr=False)
class GatesDisplay(Display):
    """Gates of a model: probabilities that columns belong to parts.

    For images, one picture per part, white where the part explains the pixel. For tables, a heat
    map of columns by parts, with the columns of a part next to each other.

    Parameters
    ----------
    gates : ndarray of shape (n_features, n_parts)
        Posterior probability that a part explains a column.
    parts : ndarray of shape (n_features,)
        Part of each column, -1 for background.
    feature_names : list of str
        Names of the columns.
    part_names : list of n_parts str, optional
        Names of the parts, "" for numbers.
    image_shape : tuple of two int or None, default=None
        Height and width of the images, None for tables.

    Attributes
    ----------
    figure_ : matplotlib Figure or SubFigure
        Where it was plotted.
    axes_ : ndarray of matplotlib Axes
        One for each part, or a single one for tables.

    See Also
    --------
    StatesDisplay, LoadingsDisplay : What each part looks like.

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

    gates: np.ndarray
    parts: np.ndarray
    feature_names: list[str]
    part_names: list[str] = field(default_factory=list)

    table_cmap: ClassVar[str] = "Blues"

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        image_shape: Sequence[int] | None = None,
        figure: AnyFigure | None = None,
        cmap: Colors | None = None,
    ) -> GatesDisplay:
        """Read the gates of a fitted model and plot them.

        Parameters
        ----------
        estimator : estimator
            Fitted, with ``gates_`` and ``parts_``.
        image_shape, figure, cmap
            As for every `Display`.

        Returns
        -------
        display : GatesDisplay
        """
        seen = view(estimator)
        display = cls(
            gates=seen.gates,
            parts=seen.parts,
            feature_names=seen.names,
            part_names=seen.part_names,
            image_shape=check_image_shape(image_shape, len(seen.names)),
        )
        return display.plot(figure=figure, cmap=cmap)

    def _plot_images(self, figure: AnyFigure | None, cmap: Colors, shape: tuple[int, int]) -> Drawn:
        figure, axes = picture_grid(figure, self.gates.shape[1], 2.0)
        for k, ax in enumerate(axes):
            show_picture(ax, self.gates[:, k], shape, (0.0, 1.0), cmap)
            count = int((self.parts == k).sum())
            label = plain(part_label(k, self.part_names))
            ax.set_title(f"{label}\n{count} pixels", fontsize="small")
        return figure, axes

    def _plot_table(self, figure: AnyFigure | None, cmap: Colors) -> Drawn:
        n_features, n_parts = self.gates.shape
        surest = np.argsort(-self.gates.max(axis=1), kind="stable")  # first within a part
        order, edges = grouped(self.parts[surest])
        order = surest[order]
        height = float(np.clip(0.18 * n_features + 1.0, 2.5, 11.0))
        figure = get_figure(figure, 3.2 + 0.45 * n_parts, height)
        ax = figure.subplots()
        image = show_table(ax, self.gates[order], (0.0, 1.0), cmap)
        name_columns(ax, [part_label(k, self.part_names) for k in range(n_parts)])
        ax.set(title="Gates")
        name_columns(ax, [self.feature_names[d] for d in order], axis="y")
        for edge in edges:
            ax.axhline(edge, color="0.5", linewidth=0.8)
        if not len(ax.get_yticks()):
            ax.set_ylabel(f"{n_features} columns, grouped by part")
        color_bar(figure, image, [ax], "probability", shrink=0.6)
        return figure, np.array([ax])
