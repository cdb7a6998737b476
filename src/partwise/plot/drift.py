"""Bars of the differences between new rows and the rows of a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator

from partwise.estimators.drift import Drift, drift
from partwise.plot._display import AxesDisplay
from partwise.plot._draw import get_axes
from partwise.typing import DataLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(kw_only=True, eq=False, repr=False)
class DriftDisplay(AxesDisplay):
    """Effect sizes of `partwise.drift` as bars, the most significant on top.

    Columns and parts that differ are orange, others gray.

    Parameters
    ----------
    drift : Drift

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was plotted.
    figure_ : matplotlib Figure or SubFigure

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import MCVQ
    >>> from partwise.plot import DriftDisplay
    >>> X = np.random.default_rng(0).normal(size=(400, 3))
    >>> model = MCVQ(1, 2, random_state=0).fit(X[:200])
    >>> DriftDisplay.from_estimator(model, X[200:]).drift.n_rows
    200
    """

    drift: Drift

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, X: DataLike, *, alpha: float = 0.01, ax: Axes | None = None
    ) -> DriftDisplay:
        """Compare rows with those of the fit, and plot.

        Parameters
        ----------
        estimator : MCVQ or MCFA
        X : array-like or DataFrame of shape (n, D)
        alpha : float, default=0.01
        ax : matplotlib Axes, optional

        Returns
        -------
        display : DriftDisplay
        """
        return cls(drift=drift(estimator, X, alpha=alpha)).plot(ax)

    def plot(self, ax: Axes | None = None, *, n_shown: int = 20) -> DriftDisplay:
        """Plot the bars.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        n_shown : int, default=20
            Number of results, the most significant first.

        Returns
        -------
        self
        """
        found = self.drift
        order = np.lexsort((-found.distances, found.adjusted))[:n_shown][::-1]
        ax = get_axes(ax, 6, 0.8 + 0.28 * len(order))
        colors = np.where(found.adjusted[order] < found.alpha, "tab:orange", "tab:gray").tolist()
        ax.barh([found.names[d] for d in order], found.distances[order], color=colors)
        ax.set_xlabel("fraction of rows in other bins")
        ax.set_title(f"{found.n_rows:,} rows: {len(found.drifted)} of {len(found.names)} differ")
        return self._plotted(ax)
