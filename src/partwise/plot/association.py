"""Comparison of association methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from partwise.plot._display import PlainAxesDisplay
from partwise.plot._draw import get_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(kw_only=True, eq=False, repr=False)
class AssociationDisplay(PlainAxesDisplay):
    """Errors of association methods by difficulty of the problems (Figures 4 and 5).

    Parameters
    ----------
    at : ndarray of shape (n_points,)
        Difficulty of the problems.
    mean, spread : dict of str to ndarray of shape (n_points,)
        Mean error of each method, and its standard error.
    what : str, default=""
        What ``at`` measures.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was plotted.
    figure_ : matplotlib Figure or SubFigure
        The figure of ``ax_``.

    Examples
    --------
    >>> from partwise.plot import AssociationDisplay
    >>> errors = {"exact": [[0.2, 0.3], [0.2, 0.2]], "mean field": [[0.4, 0.3], [0.5, 0.6]]}
    >>> AssociationDisplay.from_errors([1, 2], errors).mean["exact"].tolist()
    [0.25, 0.2]
    """

    at: np.ndarray
    mean: dict[str, np.ndarray]
    spread: dict[str, np.ndarray]
    what: str = ""

    @classmethod
    def from_errors(
        cls,
        at: Sequence[float],
        errors: Mapping[str, ArrayLike],
        *,
        what: str = "",
        ax: Axes | None = None,
    ) -> AssociationDisplay:
        """Average the errors of single trials, and plot them.

        Parameters
        ----------
        at : sequence of n_points float
        errors : mapping of str to array-like of shape (n_points, n_trials)
            Errors of each method.
        what : str, default=""
            What ``at`` measures.
        ax
            As for `plot`.

        Returns
        -------
        display : AssociationDisplay
        """
        trials = {name: np.asarray(found, dtype=float) for name, found in errors.items()}
        display = cls(
            at=np.asarray(at, dtype=float),
            mean={name: found.mean(axis=1) for name, found in trials.items()},
            spread={
                name: found.std(axis=1, ddof=1) / np.sqrt(found.shape[1])
                for name, found in trials.items()
            },
            what=what,
        )
        return display.plot(ax=ax)

    def _plot(self, ax: Axes | None) -> Axes:
        ax = get_axes(ax, 5.5, 3.5)
        for name, mean in self.mean.items():
            ax.errorbar(self.at, mean, self.spread[name], label=name, linewidth=1.2, capsize=2)
        ax.set(xlabel=self.what, ylabel="mean absolute error")
        ax.legend(fontsize="small", frameon=False)
        ax.spines[["top", "right"]].set_visible(False)
        return ax
