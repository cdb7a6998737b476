"""Groups of vectors: a line of pictures, or a heat map, per group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from partwise.plot._display import Display
from partwise.plot._draw import color_bar, get_figure, name_columns, show_picture, show_table
from partwise.plot.view import apart, check_image_shape

if TYPE_CHECKING:
    from partwise.plot._draw import AnyFigure, Colors, Drawn


@dataclass(kw_only=True, eq=False, repr=False)
class PicturesDisplay(Display):
    """Vectors in groups: for images a line of pictures per group, for tables a heat map.

    Parameters
    ----------
    pictures : list of ndarray of shape (n_vectors, n_features)
        The vectors of each group.
    titles : list of list of str
        Title of each vector.
    labels : list of str
        Label of each group.
    limits : tuple of two float
        Values at the two ends of the color map.
    feature_names : list of str
        Names of the columns.
    size : float, default=0.95
        Inches across a picture.

    Examples
    --------
    >>> from partwise import make_shapes
    >>> from partwise.plot import PicturesDisplay
    >>> shapes = make_shapes()
    >>> groups = {"first": shapes.data[:3], "last": shapes.data[-2:]}
    >>> PicturesDisplay.from_groups(groups, image_shape=shapes.image_shape).axes_.shape
    (2, 3)
    """

    pictures: list[np.ndarray]
    titles: list[list[str]]
    labels: list[str]
    limits: tuple[float, float]
    feature_names: list[str]
    size: float = 0.95

    table_unit: ClassVar[str] = "value"

    @classmethod
    def from_groups(
        cls,
        groups: Mapping[str, ArrayLike],
        *,
        titles: Mapping[str, Sequence[str]] | None = None,
        size: float = 0.95,
        image_shape: Sequence[int] | None = None,
        figure: AnyFigure | None = None,
        cmap: Colors | None = None,
    ) -> PicturesDisplay:
        """Plot vectors of any origin.

        Parameters
        ----------
        groups : mapping of str to array-like of shape (n_vectors, n_features)
            Vectors of each group, by its label.
        titles : mapping of str to sequence of str, or None, default=None
            Titles of the vectors of a group; groups that are absent have none.
        size : float, default=0.95
            Inches across a picture.
        image_shape, figure, cmap
            As for every `Display`.

        Returns
        -------
        display : PicturesDisplay
        """
        vectors = {name: np.asarray(group, dtype=float) for name, group in groups.items()}
        pictures = list(vectors.values())
        titles = titles or {}
        n_columns = pictures[0].shape[1]
        display = cls(
            pictures=pictures,
            titles=[list(titles.get(name, [""] * len(group))) for name, group in vectors.items()],
            labels=list(groups),
            limits=apart(np.concatenate(pictures)),
            feature_names=[str(d) for d in range(n_columns)],
            size=size,
            image_shape=check_image_shape(image_shape, n_columns),
        )
        return display.plot(figure=figure, cmap=cmap)

    def _plot_images(self, figure: AnyFigure | None, cmap: Colors, shape: tuple[int, int]) -> Drawn:
        most = max(1, *(len(group) for group in self.pictures))
        figure = get_figure(figure, self.size * most + 0.6, 1.2 * self.size * len(self.pictures))
        grid = figure.subplots(len(self.pictures), most, squeeze=False)
        for row, label, group, titles in zip(
            grid, self.labels, self.pictures, self.titles, strict=True
        ):
            for ax, picture, title in zip(row, group, titles, strict=False):
                show_picture(ax, picture, shape, self.limits, cmap)
                ax.set_title(title, fontsize="x-small", pad=2)
            row[0].set_ylabel(label, fontsize="small")
            for ax in row[len(group) :]:
                ax.set_axis_off()
        return figure, grid

    def _plot_table(self, figure: AnyFigure | None, cmap: Colors) -> Drawn:
        lines = [max(1, len(group)) for group in self.pictures]
        width = float(np.clip(0.2 * len(self.feature_names) + 2.5, 5.0, 14.0))
        figure = get_figure(figure, width, 0.2 * sum(lines) + 0.3 * len(lines) + 1.0)
        axes = figure.subplots(len(lines), 1, squeeze=False, height_ratios=lines)[:, 0]
        for ax, label, group, titles in zip(
            axes, self.labels, self.pictures, self.titles, strict=True
        ):
            image = show_table(ax, group, self.limits, cmap)
            name_columns(ax, [title.replace("\n", " ") for title in titles], axis="y")
            ax.set_title(label, fontsize="small")
        name_columns(axes[-1], self.feature_names)
        color_bar(figure, image, axes, self.table_unit)
        return figure, axes
