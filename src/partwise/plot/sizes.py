"""The search for sizes: accepted and rejected moves."""

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


# Sizes written along the path; more would overlap.
MAX_LABELS = 9


@dataclass(kw_only=True, eq=False, repr=False)
class SizePathDisplay(AxesDisplay):
    """Evidence lower bound over the moves of the search for sizes.

    Parameters
    ----------
    path : list of dict
        Moves in the order they were tried, as ``size_path_``.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was plotted.
    figure_ : matplotlib Figure or SubFigure
        The figure of ``ax_``.

    See Also
    --------
    BoundDisplay : The evidence lower bound during the EM iterations of a fit.

    Examples
    --------
    >>> from partwise import MCVQ, make_shapes
    >>> from partwise.plot import SizePathDisplay
    >>> model = MCVQ(n_parts="auto", n_states="auto", random_state=0).fit(make_shapes().data[::3])
    >>> display = SizePathDisplay.from_estimator(model)
    >>> len(display.path) == len(model.size_path_)
    True
    """

    path: list[dict[str, object]]

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, *, ax: Axes | None = None, **line_options: object
    ) -> SizePathDisplay:
        """Read the moves of a fitted model and plot them.

        Parameters
        ----------
        estimator : estimator
            Fitted, with ``size_path_``.
        ax, **line_options
            As for `plot`.

        Returns
        -------
        display : SizePathDisplay
        """
        check_is_fitted(estimator)
        if not hasattr(estimator, "size_path_"):
            raise ValueError(
                f"The sizes of this {type(estimator).__name__} were given; "
                'n_parts="auto" or n_states="auto" starts a search.'
            )
        return cls(path=[dict(move) for move in estimator.size_path_]).plot(ax=ax, **line_options)

    def plot(self, ax: Axes | None = None, **line_options: object) -> SizePathDisplay:
        """Plot the moves.

        The line is the evidence lower bound over the accepted moves; a faint cross below it is a
        rejected move, at the bound that it would have had.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to plot; None makes a new figure.
        **line_options
            Properties of matplotlib's ``Line2D``.

        Returns
        -------
        display : SizePathDisplay
            This one, with ``ax_`` and ``figure_``.
        """
        ax = get_axes(ax, 7, 4)
        from matplotlib.ticker import MaxNLocator

        accepted = np.array([bool(move["accepted"]) for move in self.path], dtype=bool)
        evidence = np.array([_number(move, "evidence") for move in self.path])
        gain = np.array([_number(move, "gain") for move in self.path])
        at = np.arange(len(self.path))
        if accepted.sum() < 2:
            # A single size is not a path.
            first = self._sizes(self.path[0]) if self.path else "no sizes"
            text = f"{first}:\n{(~accepted).sum()} moves tried, none accepted"
            ax.set_axis_off()
            ax.text(0.5, 0.5, text, ha="center", va="center", transform=ax.transAxes)
            return self._plotted(ax)
        options = {"marker": "o", "markersize": 3, "linewidth": 1.2, "label": "accepted"}
        (line,) = ax.plot(at[accepted], evidence[accepted])
        line.set(**(options | line_options))
        rejected = (evidence + np.minimum(gain, 0.0))[~accepted]
        ax.plot(at[~accepted], rejected, "x", color="0.7", markersize=4, zorder=1, label="rejected")
        if accepted.any():
            # Rejected moves do not compress the scale of accepted ones.
            low, high = evidence[accepted].min(), evidence[accepted].max()
            room = 0.1 * (high - low) or 1.0
            ax.set_ylim(low - 2 * room, high + 2 * room)
        for i in self._labeled(accepted):
            ax.annotate(
                self._sizes(self.path[i]),
                (at[i], evidence[i]),
                xytext=(0, 6),
                textcoords="offset points",
                ha="center",
                fontsize="x-small",
            )
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.spines[["top", "right"]].set_visible(False)
        ax.set(xlabel="move", ylabel="evidence lower bound (nats)")
        ax.set_title(
            f"{accepted.sum()} of {len(accepted)} moves accepted", fontsize="small", loc="left"
        )
        ax.legend(fontsize="small", frameon=False, loc="lower right")
        return self._plotted(ax)

    @staticmethod
    def _sizes(move: dict[str, object]) -> str:
        """Numbers of parts and of states or factors after a move."""
        sizes = np.ravel(np.asarray(move["n_factors"] if "n_factors" in move else move["n_states"]))
        low, high = (int(sizes.min()), int(sizes.max())) if sizes.size else (0, 0)
        return f"{move['n_parts']}×{low}" if low == high else f"{move['n_parts']}×{low}–{high}"

    def _labeled(self, accepted: np.ndarray) -> list[int]:
        """Accepted moves that are labeled with sizes: the last, and others well before it."""
        found: list[int] = []
        for i in np.flatnonzero(accepted)[::-1].tolist():
            if not found or found[-1] - i >= len(accepted) / MAX_LABELS:
                found.append(i)
        return found[::-1]


def _number(move: dict[str, object], name: str) -> float:
    """A number of a move."""
    return float(np.asarray(move[name]))
