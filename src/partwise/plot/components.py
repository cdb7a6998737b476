"""Components of a mixture over data of two or three dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from partwise.fitted import feature_names
from partwise.plot._display import PlainAxesDisplay
from partwise.plot._draw import get_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Length of a line to each side of a mean, in deviations: most of a component's rows.
REACH = 2.0

# Rows that are plotted; more would hide the components.
MAX_PLOTTED_ROWS = 2000


@dataclass(kw_only=True, eq=False, repr=False)
class ComponentsDisplay(PlainAxesDisplay):
    """Rows, and the directions of each component as lines through its mean.

    Two deviations to each side (Bishop and Winn 2000, Figure 4). Directions that do not count
    towards the effective dimension are left out.

    Parameters
    ----------
    rows : ndarray of shape (n, 2) or (n, 3)
    means : ndarray of shape (n_components, 2) or (n_components, 3)
    directions : ndarray of shape (n_components, n_directions, 2) or (n_components, n_directions, 3)
        Each as long as its deviation.
    feature_names : list of str

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was plotted, of three dimensions if the rows are.
    figure_ : matplotlib Figure or SubFigure

    References
    ----------
    C. M. Bishop and J. M. Winn (2000). Non-linear Bayesian Image Modelling. *ECCV*.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import BayesianPCAMixture
    >>> from partwise.plot import ComponentsDisplay
    >>> t = np.linspace(-3, 3, 200)
    >>> X = np.stack([t, np.sin(t)], axis=1) + 0.1 * np.random.default_rng(0).normal(size=(200, 2))
    >>> display = ComponentsDisplay.from_estimator(BayesianPCAMixture(4, random_state=0).fit(X), X)
    >>> display.directions.shape
    (4, 1, 2)
    """

    rows: np.ndarray
    means: np.ndarray
    directions: np.ndarray
    feature_names: list[str]

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, X: ArrayLike, *, ax: Axes | None = None
    ) -> ComponentsDisplay:
        """Read components of a fitted mixture and plot them over rows.

        Parameters
        ----------
        estimator : BayesianPCAMixture
            Fitted to two or three columns.
        X : array-like of shape (n, 2) or (n, 3)
            Rows to show, at most 2,000 at equal distances.
        ax : matplotlib Axes or None, default=None
            Where to plot, with three dimensions for three columns; None makes a new figure.

        Returns
        -------
        display : ComponentsDisplay
        """
        check_is_fitted(estimator)
        rows = np.asarray(X, dtype=float)
        if not hasattr(estimator, "means_") or estimator.components_.ndim != 3:
            raise TypeError("ComponentsDisplay is for BayesianPCAMixture.")
        if rows.ndim != 2 or rows.shape[1] not in (2, 3):
            raise ValueError(
                f"X has shape {rows.shape}, but components are plotted over two or three columns."
            )
        some = np.linspace(0, len(rows) - 1, min(len(rows), MAX_PLOTTED_ROWS)).astype(int)
        n = int(np.max(estimator.effective_dimension_))

        display = cls(
            rows=rows[some],
            means=estimator.means_.astype(float),
            directions=estimator.components_[:, :n].astype(float),
            feature_names=feature_names(estimator, rows.shape[1]),
        )
        return display.plot(ax=ax)

    def _plot(self, ax: Axes | None) -> Axes:
        solid = self.rows.shape[1] == 3
        if ax is None:
            figure = get_figure(None, 5, 5 if solid else 4)
            ax = figure.add_subplot(projection="3d" if solid else None)
        ax.plot(*self.rows.T, ".", color="0.6", markersize=3, alpha=0.5, label="rows", zorder=1)
        ax.plot(*self.means.T, "o", color="tab:red", markersize=4, zorder=3)
        for mean, directions in zip(self.means, self.directions, strict=True):
            for w in directions:
                ends = mean + np.outer([-REACH, REACH], w)
                ax.plot(*ends.T, color="tab:red", linewidth=1.5, zorder=2)
        axes = "xyz"[: self.rows.shape[1]]
        ax.set(**{f"{a}label": n for a, n in zip(axes, self.feature_names, strict=True)})
        ax.set_aspect("equal")
        if not solid:
            ax.spines[["top", "right"]].set_visible(False)
        n_components, n_directions = self.directions.shape[:2]
        ax.set_title(f"{n_components} components of dimension {n_directions}", fontsize="small")
        return ax
