"""Bar charts of several profiles of the same things."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from partwise.plot._draw import get_figure, plain

if TYPE_CHECKING:
    from partwise.plot._draw import AnyFigure


@dataclass(kw_only=True, eq=False, repr=False)
class BarsDisplay:
    """One bar chart per profile (Ross and Zemel 2006, Figure 8).

    Parameters
    ----------
    profiles : dict of str to ndarray of shape (n,)
        Numbers of each.
    names : list of n str
        Names of the things.
    what : str, default=""
        What the numbers measure.

    Attributes
    ----------
    figure_ : matplotlib Figure or SubFigure
        Where it was plotted.
    axes_ : ndarray of matplotlib Axes
        One for each profile.

    Examples
    --------
    >>> from partwise.plot import BarsDisplay
    >>> profiles = {"fond": [1.0, 0.5], "not fond": [-0.5, -2.0]}
    >>> BarsDisplay.from_values(profiles, ["first", "second"]).axes_.shape
    (2,)
    """

    profiles: dict[str, np.ndarray]
    names: list[str]
    what: str = ""
    figure_: AnyFigure = field(init=False)
    axes_: np.ndarray = field(init=False)

    @classmethod
    def from_values(
        cls,
        profiles: Mapping[str, ArrayLike],
        names: Sequence[str],
        *,
        what: str = "",
        figure: AnyFigure | None = None,
    ) -> BarsDisplay:
        """Plot profiles that are known.

        Parameters
        ----------
        profiles : mapping of str to array-like of shape (n,)
        names : sequence of n str
        what : str, default=""
            What the numbers measure.
        figure
            As for `plot`.

        Returns
        -------
        display : BarsDisplay
        """
        arrays = {name: np.asarray(values, dtype=float) for name, values in profiles.items()}
        return cls(profiles=arrays, names=list(names), what=what).plot(figure=figure)

    def plot(self, figure: AnyFigure | None = None) -> BarsDisplay:
        """Plot them.

        Parameters
        ----------
        figure : matplotlib Figure or SubFigure, or None, default=None
            Where to plot; None makes a new figure.

        Returns
        -------
        display : BarsDisplay
            This one, with ``figure_`` and ``axes_``.
        """
        n = len(self.profiles)
        figure = get_figure(figure, 2.0 * n + 2.5, 0.22 * len(self.names) + 1.0)
        axes = figure.subplots(1, n, sharex=True, sharey=True, squeeze=False)[0]
        for ax, (name, values) in zip(axes, self.profiles.items(), strict=True):
            ax.barh(np.arange(len(values)), values, color="0.4")
            ax.axvline(0.0, color="black", linewidth=0.8)
            ax.set_title(name, fontsize="small")
            ax.spines[["top", "right"]].set_visible(False)
        names = [plain(name, 40) for name in self.names]
        axes[0].set_yticks(np.arange(len(names)), names, fontsize="x-small")
        axes[0].invert_yaxis()
        figure.supxlabel(self.what, fontsize="small")
        self.figure_, self.axes_ = figure, axes
        return self
