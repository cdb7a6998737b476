"""Hinton diagrams: numbers as squares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from partwise.fitted import feature_names
from partwise.plot._draw import get_figure, name_columns, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from partwise.plot._draw import AnyFigure

# Components of a mixture that are plotted: those of the largest share.
MAX_COMPONENTS = 4


@dataclass(kw_only=True, eq=False, repr=False)
class HintonDisplay:
    """Directions of Bayesian PCA and the variances that their relevances allow, as squares.

    The area of a square is proportional to the number's magnitude; positive ones are white and
    negative ones black (Bishop and Winn 2000, Figures 1 and 5). Directions that were switched off
    are empty. Below, the inverse of every relevance: the variance of a direction's loadings.

    Parameters
    ----------
    loadings : list of ndarray of shape (n_features, n_directions)
        Directions of each component shown.
    variances : ndarray of shape (n_directions,)
        Inverse relevances.
    titles : list of str
        Title of each component.
    feature_names : list of str
        Names of the columns.

    Attributes
    ----------
    figure_ : matplotlib Figure or SubFigure
        Where it was plotted.
    axes_ : ndarray of matplotlib Axes
        One for each component, then that of the variances.

    References
    ----------
    C. M. Bishop and J. M. Winn (2000). Non-linear Bayesian Image Modelling. *ECCV*.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import BayesianPCA
    >>> from partwise.plot import HintonDisplay
    >>> X = np.random.default_rng(0).normal(size=(300, 10)) * np.repeat([1.0, 0.5], [3, 7])
    >>> display = HintonDisplay.from_estimator(BayesianPCA().fit(X))
    >>> display.loadings[0].shape, int((display.variances > 0).sum())
    ((10, 9), 3)
    """

    loadings: list[np.ndarray]
    variances: np.ndarray
    titles: list[str]
    feature_names: list[str]
    figure_: AnyFigure = field(init=False)
    axes_: np.ndarray = field(init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        max_directions: int | None = None,
        figure: AnyFigure | None = None,
    ) -> HintonDisplay:
        """Read directions and relevances of a fitted model and plot them.

        Parameters
        ----------
        estimator : BayesianPCA or BayesianPCAMixture
            Fitted, without classes. Of a mixture the four largest components are shown.
        max_directions : int or None, default=None
            Directions to show; None shows all, at most 40.
        figure : matplotlib Figure or SubFigure, or None, default=None
            Where to plot; None makes a new figure.

        Returns
        -------
        display : HintonDisplay
        """
        check_is_fitted(estimator)
        if not hasattr(estimator, "relevances_") or hasattr(estimator, "classes_"):
            raise TypeError(
                "HintonDisplay is for BayesianPCA and BayesianPCAMixture without classes, whose "
                "directions have relevances."
            )
        found = estimator.components_
        if found.ndim == 2:
            found, order, titles = found[None], np.array([0]), ["directions"]
        else:
            order = np.argsort(-estimator.weights_, kind="stable")[:MAX_COMPONENTS]
            titles = [f"component {m}: {estimator.weights_[m]:.0%}" for m in order]
        shown = min(estimator.n_directions_, 40 if max_directions is None else max_directions)
        wide = max(shown, found.shape[1])
        padded = np.pad(found, ((0, 0), (0, wide - found.shape[1]), (0, 0)))[:, :shown]
        relevances = np.atleast_2d(np.asarray(estimator.relevances_, dtype=float))
        variances = (1.0 / relevances).mean(axis=0)  # over components that have their own
        variances = np.pad(variances, (0, wide - len(variances)))[:shown]

        display = cls(
            loadings=[padded[m].T.astype(float) for m in order],
            variances=variances,
            titles=titles,
            feature_names=feature_names(estimator, found.shape[2]),
        )
        return display.plot(figure=figure)

    def plot(self, figure: AnyFigure | None = None) -> HintonDisplay:
        """Plot it.

        Parameters
        ----------
        figure : matplotlib Figure or SubFigure, or None, default=None
            Where to plot; None makes a new figure.

        Returns
        -------
        display : HintonDisplay
            This one, with ``figure_`` and ``axes_``.
        """
        D, q = self.loadings[0].shape
        unit = min(0.22, 6.0 / max(D, 1))
        width = len(self.loadings) * (unit * q + 0.8)
        figure = get_figure(figure, max(width, 3.0), unit * (D + 3) + 1.2)
        grid = figure.subplots(2, len(self.loadings), squeeze=False, height_ratios=[max(D, 2), 1.6])
        largest = max(float(np.abs(W).max(initial=0.0)) for W in self.loadings)
        for ax, W, title in zip(grid[0], self.loadings, self.titles, strict=True):
            _squares(ax, W, largest)
            ax.set_title(plain(title), fontsize="small")
        name_columns(grid[0, 0], self.feature_names, axis="y")
        low = grid[1, 0]
        _squares(low, self.variances[None, :], float(self.variances.max(initial=0.0)))
        low.set_title("variances that the relevances allow", fontsize="small")
        low.set_xlabel("direction", fontsize="small")
        for ax in grid[1, 1:]:
            ax.set_axis_off()
        self.figure_, self.axes_ = figure, np.append(grid[0], low)
        return self


def _squares(ax: Axes, values: np.ndarray, largest: float) -> None:
    """Plot numbers (rows, columns) as squares on gray."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    side = 0.92 * np.sqrt(np.abs(values) / max(largest, np.finfo(float).tiny))  # none touch
    for sign, color in ((1, "white"), (-1, "black")):
        at = np.argwhere((np.sign(values) == sign) & (side > 0.02))
        patches = [
            Rectangle((j - side[i, j] / 2, i - side[i, j] / 2), side[i, j], side[i, j])
            for i, j in at
        ]
        ax.add_collection(PatchCollection(patches, facecolor=color, edgecolor="none"))
    ax.set_facecolor("0.5")
    rows, columns = values.shape
    ax.set(
        xlim=(-0.6, columns - 0.4), ylim=(rows - 0.4, -0.6), aspect="equal", xticks=[], yticks=[]
    )
