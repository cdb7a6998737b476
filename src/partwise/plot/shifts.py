"""Where rows or parts of images lie."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from partwise.models.transformations import Translations
from partwise.plot._display import Display
from partwise.plot._draw import color_bar, get_figure, part_label, plain

if TYPE_CHECKING:
    from partwise.plot._draw import AnyFigure, Colors, Drawn


@dataclass(kw_only=True, eq=False, repr=False)
class ShiftsDisplay(Display):
    """Learned probabilities of the shifts of rows, or of every part that moves on its own.

    Parameters
    ----------
    shares : ndarray of shape (n, height, width)
        Probability of each shift, of rows (n is 1) or of each part.
    most : tuple of two int
        Largest shift down and to the right.
    part_names : list of n str, default=[]
        Names of the parts; empty for rows.

    Attributes
    ----------
    figure_ : matplotlib Figure or SubFigure
        Where it was plotted.
    axes_ : ndarray of matplotlib Axes
        One for the rows, or one per part.

    See Also
    --------
    GatesDisplay : Pixels of the parts; for rows with shifts use ``model.canvas_model()``.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import MCVQ, Translations
    >>> from partwise.plot import ShiftsDisplay
    >>> rng = np.random.default_rng(0)
    >>> pulse = np.r_[np.zeros(6), np.ones(3), np.zeros(6)]
    >>> X = np.stack([pulse[s : s + 11] for s in rng.integers(5, size=50)])
    >>> X += 0.1 * rng.normal(size=X.shape)
    >>> moves = Translations((1, 11), max_shift=(0, 2))
    >>> model = MCVQ(1, 1, transformations=moves, random_state=0).fit(X)
    >>> ShiftsDisplay.from_estimator(model).shares.shape
    (1, 1, 5)
    """

    shares: np.ndarray
    most: tuple[int, int]
    part_names: list[str] = field(default_factory=list)

    table_cmap: ClassVar[str] = "Blues"

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        figure: AnyFigure | None = None,
        cmap: Colors | None = None,
    ) -> ShiftsDisplay:
        """Read the probabilities of the shifts of a fitted model and plot them.

        Parameters
        ----------
        estimator : MCVQ or MCFA
            Fitted, with ``transformations=Translations(...)``.
        figure, cmap
            As for every `Display`.

        Returns
        -------
        display : ShiftsDisplay
        """
        check_is_fitted(estimator)
        moves = getattr(estimator, "transformations", None)
        if not isinstance(moves, Translations):
            raise ValueError(
                "ShiftsDisplay needs a model of shifted images; set "
                "transformations=Translations(image_shape)."
            )
        most = int(moves.values[-1, 0]), int(moves.values[-1, 1])
        shares = np.atleast_2d(estimator.transformation_priors_)
        names = estimator.part_names_ if moves.by == "part" else []
        display = cls(
            shares=shares.reshape(len(shares), 2 * most[0] + 1, 2 * most[1] + 1),
            most=most,
            part_names=list(names),
        )
        return display.plot(figure=figure, cmap=cmap)

    def _plot_images(self, figure: AnyFigure | None, cmap: Colors, shape: tuple[int, int]) -> Drawn:
        return self._plot_table(figure, cmap)

    def _plot_table(self, figure: AnyFigure | None, cmap: Colors) -> Drawn:
        figure = get_figure(figure, 1.0 + 2.2 * len(self.shares), 2.6)
        axes = figure.subplots(1, len(self.shares), squeeze=False)[0]
        (down, right), top = self.most, float(self.shares.max())
        extent = (-right - 0.5, right + 0.5, down + 0.5, -down - 0.5)
        for k, (ax, shares) in enumerate(zip(axes, self.shares, strict=True)):
            image = ax.imshow(shares, cmap=cmap, vmin=0.0, vmax=top, extent=extent, aspect="auto")
            ax.set_xlabel("shift to the right")
            label = plain(part_label(k, self.part_names)) if self.part_names else "rows"
            ax.set_title(label, fontsize="small")
        axes[0].set_ylabel("shift down")
        color_bar(figure, image, list(axes), "probability", shrink=0.8)
        return figure, axes
