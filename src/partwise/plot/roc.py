"""Receiver operating characteristics of densities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import roc_auc_score, roc_curve

from partwise.plot._display import PlainAxesDisplay
from partwise.plot._draw import get_axes, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(kw_only=True, eq=False, repr=False)
class DensityRocDisplay(PlainAxesDisplay):
    """Receiver operating characteristics of several models, the first in bold.

    A row is classified as of the kind that the models were fitted to if its log density exceeds a
    threshold, which varies along the curve (Bishop and Winn 2000, Figure 7).

    Parameters
    ----------
    false_positives, true_positives : dict of str to ndarray
        False and true positive rates of each model.
    areas : dict of str to float
        Areas under the curves.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was plotted.
    figure_ : matplotlib Figure or SubFigure

    References
    ----------
    C. M. Bishop and J. M. Winn (2000). Non-linear Bayesian Image Modelling. *ECCV*.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.plot import DensityRocDisplay
    >>> scores = {"good": np.array([3.0, 2.0, 1.0, 0.0]), "poor": np.array([0.0, 3.0, 1.0, 2.0])}
    >>> display = DensityRocDisplay.from_scores(scores, [True, True, False, False])
    >>> display.areas
    {'good': 1.0, 'poor': 0.5}
    """

    false_positives: dict[str, np.ndarray]
    true_positives: dict[str, np.ndarray]
    areas: dict[str, float]

    @classmethod
    def from_scores(
        cls, scores: Mapping[str, ArrayLike], is_kind: ArrayLike, *, ax: Axes | None = None
    ) -> DensityRocDisplay:
        """Find the curves of log densities and plot them.

        Parameters
        ----------
        scores : mapping of str to array-like of shape (n,)
            Log densities of the same rows under each model, as ``score_samples`` gives.
        is_kind : array-like of shape (n,), bool
            Which rows are of the kind that the models were fitted to.
        ax : matplotlib Axes or None, default=None
            Where to plot; None makes a new figure.

        Returns
        -------
        display : DensityRocDisplay
        """
        curves = {name: roc_curve(is_kind, score) for name, score in scores.items()}
        display = cls(
            false_positives={name: curve[0] for name, curve in curves.items()},
            true_positives={name: curve[1] for name, curve in curves.items()},
            areas={name: float(roc_auc_score(is_kind, s)) for name, s in scores.items()},
        )
        return display.plot(ax=ax)

    def _plot(self, ax: Axes | None) -> Axes:
        ax = get_axes(ax, 5, 4.5)
        for i, (name, area) in enumerate(self.areas.items()):
            label = f"{plain(name, 40)}: {area:.3f}"
            style = {"linewidth": 2.2, "color": "black"} if i == 0 else {"linewidth": 1.2}
            ax.plot(self.false_positives[name], self.true_positives[name], label=label, **style)
        ax.plot([0, 1], [0, 1], color="0.8", linewidth=0.8, zorder=0)
        ax.set(xlabel="false positives", ylabel="true positives", aspect="equal")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(title="area under the curve", fontsize="x-small", title_fontsize="x-small")
        return ax
