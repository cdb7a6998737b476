"""Certainty of each part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from partwise.plot._display import Display
from partwise.plot._draw import get_figure, name_ticks, picture_grid, show_picture
from partwise.plot.view import check_image_shape
from partwise.stability import PartStability, part_stability
from partwise.typing import DataLike, Seed

if TYPE_CHECKING:
    from partwise.plot._draw import AnyFigure, Colors, Drawn


class RefitOptions(TypedDict, total=False):
    """Arguments of `partwise.part_stability` apart from the model and its data."""

    n_fits: int
    resample: str
    sample_weight: ArrayLike | None
    random_state: Seed
    verbose: int


@dataclass(kw_only=True, eq=False, repr=False)
class StabilityDisplay(Display):
    """Agreement of parts and their columns with other fits.

    Images: one picture per part, in which bright pixels have the same part in other fits. Tables:
    the agreement of each part as a bar, and of its columns as dots.

    Parameters
    ----------
    stability : PartStability
        As `partwise.part_stability` gives it.
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
    GatesDisplay : Probabilities of the parts of columns in one fit.

    Examples
    --------
    >>> from partwise import MCVQ, make_shapes, part_stability
    >>> from partwise.plot import StabilityDisplay
    >>> shapes = make_shapes()
    >>> model = MCVQ(n_parts=3, n_states=9, random_state=0).fit(shapes.data)
    >>> stability = part_stability(model, shapes.data, n_fits=2, random_state=0)
    >>> display = StabilityDisplay.from_stability(stability, image_shape=shapes.image_shape)
    >>> len(display.axes_)
    3
    """

    stability: PartStability

    table_cmap: ClassVar[str] = "Blues"

    @classmethod
    def from_stability(
        cls,
        stability: PartStability,
        *,
        image_shape: Sequence[int] | None = None,
        figure: AnyFigure | None = None,
        cmap: Colors | None = None,
    ) -> StabilityDisplay:
        """Plot the result of `partwise.part_stability`.

        Parameters
        ----------
        stability : PartStability
        image_shape, figure, cmap
            As for every `Display`.

        Returns
        -------
        display : StabilityDisplay
        """
        shape = check_image_shape(image_shape, len(stability.parts))
        return cls(stability=stability, image_shape=shape).plot(figure=figure, cmap=cmap)

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: DataLike,
        y: ArrayLike | None = None,
        *,
        image_shape: Sequence[int] | None = None,
        figure: AnyFigure | None = None,
        cmap: Colors | None = None,
        **options: Unpack[RefitOptions],
    ) -> StabilityDisplay:
        """Refit the model and plot which parts reappear.

        Parameters
        ----------
        estimator : estimator
            Fitted, with ``parts_``.
        X : array-like, DataFrame, sparse or ObservedCells of shape (C, D)
        y : array-like of shape (C,), optional
        image_shape, figure, cmap
            As for every `Display`.
        **options
            Passed to `partwise.part_stability`.

        Returns
        -------
        display : StabilityDisplay
        """
        found = part_stability(estimator, X, y, **options)
        return cls.from_stability(found, image_shape=image_shape, figure=figure, cmap=cmap)

    def _plot_images(self, figure: AnyFigure | None, cmap: Colors, shape: tuple[int, int]) -> Drawn:
        found = self.stability
        figure, axes = picture_grid(figure, len(found.part_agreement), 1.8)
        for k, ax in enumerate(axes):
            own = np.where(found.parts == k, found.column_agreement, 0.0)
            show_picture(ax, own, shape, (0.0, 1.0), cmap)
            level = found.part_agreement[k]
            text = "no columns" if np.isnan(level) else f"agreement {level:.2f}"
            ax.set_title(f"part {k}\n{text}", fontsize="small")
        return figure, axes

    def _plot_table(self, figure: AnyFigure | None, cmap: Colors) -> Drawn:
        import matplotlib

        found = self.stability
        n_parts = len(found.part_agreement)
        figure = get_figure(figure, 5.0, float(np.clip(0.3 * n_parts + 1.2, 2.5, 11.0)))
        ax = figure.subplots()
        level = np.nan_to_num(found.part_agreement)
        shade = matplotlib.colormaps.get_cmap(cmap)
        ax.barh(np.arange(n_parts), level, color=shade(0.25 + 0.5 * level), height=0.7)
        mine = found.parts >= 0
        rank = np.zeros(len(found.parts))
        for k in range(n_parts):  # without overlap
            own = np.flatnonzero(found.parts == k)
            rank[own] = np.linspace(-0.25, 0.25, len(own)) if len(own) > 1 else 0.0
        ax.plot(found.column_agreement[mine], found.parts[mine] + rank[mine], ".", color="0.2",
                markersize=3, alpha=0.6, clip_on=False)  # fmt: skip
        name_ticks(ax, [f"part {k}" for k in range(n_parts)], axis="y")
        ax.invert_yaxis()
        ax.set(xlim=(0.0, 1.0), xlabel="agreement: bars parts, dots their columns")
        ax.set_title(f"{len(found.refits)} fits", fontsize="small", loc="left")
        ax.spines[["top", "right"]].set_visible(False)
        return figure, np.array([ax])
