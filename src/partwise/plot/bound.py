"""The evidence lower bound during a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from partwise.plot._display import AxesDisplay
from partwise.plot._draw import get_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# A relative change below this is not worth a curve: the fit started at its end.
VISIBLE = 1e-5


@dataclass(kw_only=True, eq=False, repr=False)
class BoundDisplay(AxesDisplay):
    """Trace of the evidence lower bound (ELBO) during a fit.

    Parameters
    ----------
    lower_bounds : ndarray of shape (n_iter + 1,)
        ELBO of the initial parameters and after each EM iteration, in nats per row.
    converged : bool or None, default=None
        Whether the fit stopped by itself; None if not known.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was plotted.
    figure_ : matplotlib Figure or SubFigure
        The figure of ``ax_``.

    Examples
    --------
    >>> from partwise import MCVQ, make_shapes
    >>> from partwise.plot import BoundDisplay
    >>> model = MCVQ(n_parts=3, n_states=9, random_state=0).fit(make_shapes().data)
    >>> display = BoundDisplay.from_estimator(model)
    >>> bool(display.lower_bounds[-1] == model.lower_bound_)
    True
    """

    lower_bounds: np.ndarray
    converged: bool | None = None

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, *, ax: Axes | None = None, **line_options: object
    ) -> BoundDisplay:
        """Read the trace of a fitted model and plot it.

        Parameters
        ----------
        estimator : estimator
            Fitted, with ``lower_bounds_``.
        ax, **line_options
            As for `plot`.

        Returns
        -------
        display : BoundDisplay
        """
        check_is_fitted(estimator, "lower_bounds_")
        converged = getattr(estimator, "converged_", None)
        display = cls(
            lower_bounds=np.asarray(estimator.lower_bounds_, dtype=float),
            converged=None if converged is None else bool(converged),
        )
        return display.plot(ax=ax, **line_options)

    def plot(self, ax: Axes | None = None, **line_options: object) -> BoundDisplay:
        """Plot the trace.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to plot; None makes a new figure.
        **line_options
            Properties of matplotlib's ``Line2D``.

        Returns
        -------
        display : BoundDisplay
            This one, with ``ax_`` and ``figure_``.
        """
        ax = get_axes(ax, 5, 3)
        from matplotlib.ticker import MaxNLocator

        steps = len(self.lower_bounds) - 1
        # Single iterations are marked only while marks do not overlap.
        marker = "o" if steps < 60 else ""
        last = float(self.lower_bounds[-1])
        if steps < 1 or np.ptp(self.lower_bounds) < VISIBLE * max(abs(last), 1.0):
            ax.set_axis_off()
            text = f"ELBO {last:.6g} nats per row,\nunchanged by these iterations"
            ax.text(0.5, 0.5, text, ha="center", va="center", transform=ax.transAxes)
        else:
            (line,) = ax.plot(np.arange(steps + 1), self.lower_bounds)
            line.set(**({"marker": marker, "markersize": 3, "linewidth": 1.2} | line_options))
            ax.set_ylim(*_limits(self.lower_bounds))
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
            ax.spines[["top", "right"]].set_visible(False)
            ax.set(xlabel="EM iteration", ylabel="ELBO (nats per row)")
        ending = {True: "converged", False: "stopped before converging", None: ""}[self.converged]
        title = f"{last:.6g} after {steps} iteration{'' if steps == 1 else 's'}"
        ax.set_title(f"{title}, {ending}" if ending else title, fontsize="small")
        return self._plotted(ax)


def _limits(values: np.ndarray) -> tuple[float, float]:
    """Ends of the axis: a steep start does not hide the rest, and rounding is no curve."""
    high, last = float(values.max()), float(values[-1])
    start = values[len(values) // 10]
    low = float(min(values[-max(len(values) // 2, 1) :].min(), start))
    room = max(0.08 * (high - low), 1e-6 * max(abs(last), 1.0))
    return low - room, high + room
