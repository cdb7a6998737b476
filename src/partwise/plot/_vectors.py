"""The vectors of each part: means of states or loadings of factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from partwise.plot._display import Display
from partwise.plot._draw import (
    bare,
    color_bar,
    get_figure,
    name_columns,
    name_ticks,
    part_label,
    plain,
    show_picture,
    show_table,
)
from partwise.plot.view import View, check_image_shape, percent

if TYPE_CHECKING:
    from matplotlib.image import AxesImage

    from partwise.plot._draw import AnyFigure, Colors, Drawn


@dataclass(kw_only=True, eq=False, repr=False)
class VectorsDisplay(Display):
    """Vectors of each part: one line of pictures per part, or one heat map of its columns per part.

    Parameters
    ----------
    gates : ndarray of shape (n_features, n_parts)
        Posterior probability that a part explains a column.
    numbers : list of n_parts ndarray of int
        Numbers of the vectors shown of each part, in descending order of `shares`.
    shares : list of n_parts ndarray
        Probability of each state, or share of the variance of each factor.
    pictures : list of n_parts ndarray of shape (n_vectors, n_columns)
        What is shown of each of them: all pixels, or the columns in `columns`.
    columns : list of n_parts ndarray of int
        The columns of each part; for tables the most informative ones, at most `max_columns`.
    n_columns : list of int
        How many columns each part has.
    limits : tuple of two float
        Values at the two ends of the color map.
    feature_names : list of str
        Names of all columns.
    part_names : list of n_parts str, optional
        Names of the parts, "" for numbers.
    """

    gates: np.ndarray
    numbers: list[np.ndarray]
    shares: list[np.ndarray]
    pictures: list[np.ndarray]
    columns: list[np.ndarray]
    n_columns: list[int]
    limits: tuple[float, float]
    feature_names: list[str]
    part_names: list[str] = field(default_factory=list)

    noun: ClassVar[str]
    share_is: ClassVar[str]
    table_limits: ClassVar[tuple[float, float]]
    table_unit: ClassVar[str]
    table_extend: ClassVar[str] = "both"  # ends that values exceed

    @classmethod
    def _of(
        cls,
        seen: View,
        image_shape: Sequence[int] | None,
        max_columns: int,
        numbers: list[np.ndarray],
    ) -> Self:
        """Select what is plotted from a model's view."""
        shape = check_image_shape(image_shape, len(seen.names))
        shown = [pictures_of(seen, k, own, shape, max_columns) for k, own in enumerate(numbers)]
        return cls(
            gates=seen.gates,
            numbers=numbers,
            shares=[seen.weights[k, own] for k, own in enumerate(numbers)],
            pictures=[pictures for pictures, _ in shown],
            columns=[columns for _, columns in shown],
            n_columns=[len(seen.columns(k)) for k in range(seen.n_parts)],
            limits=cls.table_limits if shape is None else seen.limits(),
            feature_names=seen.names,
            part_names=seen.part_names,
            image_shape=shape,
        )

    def _plot_images(self, figure: AnyFigure | None, cmap: Colors, shape: tuple[int, int]) -> Drawn:
        n_parts = len(self.numbers)
        most = max(len(shown) for shown in self.numbers)
        figure = get_figure(figure, 0.95 * (most + 1.3), 1.15 * n_parts)
        # A narrow empty column sets the gates apart from the vectors.
        grid = figure.subplots(
            n_parts, most + 2, squeeze=False, width_ratios=[1, 0.12, *[1] * most]
        )
        for k, row in enumerate(grid):
            show_picture(row[0], self.gates[:, k], shape, (0.0, 1.0), cmap)
            row[0].set_ylabel(plain(part_label(k, self.part_names)), fontsize="small")
            row[0].set_title("gate", fontsize="x-small", pad=2)
            shown = zip(row[2:], self.numbers[k], self.shares[k], self.pictures[k], strict=False)
            for ax, j, share, picture in shown:
                show_picture(ax, picture, shape, self.limits, cmap)
                ax.set_title(f"{self.noun} {j}: {percent(share)}", fontsize="x-small", pad=2)
            for ax in (row[1], *row[2 + len(self.numbers[k]) :]):
                ax.set_axis_off()
        return figure, np.delete(grid, 1, axis=1)

    def _plot_table(self, figure: AnyFigure | None, cmap: Colors) -> Drawn:
        n_parts = len(self.numbers)
        n_across = min(n_parts, 3)
        n_down = -(-n_parts // n_across)
        most = max(4, *(len(shown) for shown in self.numbers))
        tallest = [
            max(1, *(len(own) for own in self.columns[i : i + n_across])) + 3
            for i in range(0, n_parts, n_across)
        ]
        figure = get_figure(
            figure, n_across * (1.3 + 0.42 * most) + 1.0, max(0.2 * sum(tallest), 2.2) + 0.3
        )
        grid = figure.subplots(n_down, n_across, squeeze=False, height_ratios=tallest).ravel()
        image: AxesImage | None = None
        for k, ax in enumerate(grid[:n_parts]):
            title = f"{plain(part_label(k, self.part_names))}: {self.n_columns[k]} columns"
            if self.n_columns[k] > len(self.columns[k]):
                title += f",\nthe {len(self.columns[k])} most informative"
            ax.set_title(title, fontsize="small")
            bare(ax)
            if self.pictures[k].size == 0:
                continue
            image = show_table(ax, self.pictures[k].T, self.limits, cmap)
            pairs = zip(self.numbers[k], self.shares[k], strict=True)
            name_ticks(ax, [f"{j}\n{percent(share)}" for j, share in pairs])
            ax.set_xlabel(f"{self.noun}, and {self.share_is}", fontsize="x-small")
            name_columns(ax, [self.feature_names[d] for d in self.columns[k]], axis="y")
        for ax in grid[n_parts:]:
            ax.set_axis_off()
        if image is not None:
            color_bar(figure, image, grid, self.table_unit, aspect=30, extend=self.table_extend)
        return figure, grid[:n_parts]


def pictures_of(
    seen: View,
    part: int,
    numbers: np.ndarray,
    image_shape: tuple[int, int] | None,
    max_columns: int,
) -> tuple[np.ndarray, np.ndarray]:
    """What is shown of some vectors of a part (n_vectors, n_columns), and the part's columns.

    For images these are all pixels; for tables deviations in the most informative columns.
    """
    if image_shape is None:
        columns = np.sort(seen.informative_columns(part, max_columns))
        return seen.deviations(part)[np.ix_(numbers, columns)], columns
    middle = sum(seen.limits()) / 2
    return seen.masked(part, seen.vectors[part, numbers], middle), seen.columns(part)
