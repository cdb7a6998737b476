"""The states of each part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from sklearn.base import BaseEstimator

from partwise.plot._draw import DEVIATIONS, FAR
from partwise.plot._vectors import VectorsDisplay
from partwise.plot.view import RARE, states_view

if TYPE_CHECKING:
    from partwise.plot._draw import AnyFigure, Colors


@dataclass(kw_only=True, eq=False, repr=False)
class StatesDisplay(VectorsDisplay):
    """States of each part, most common first.

    For images, one line per part: its gate on the left, then the mean of each state masked by that
    gate, with mid-gray where the gate is closed (Ross and Zemel 2006, Figure 3). For tables, one
    heat map a part: its states by its own columns, in standard deviations from the column's mean.

    Parameters
    ----------
    gates : ndarray of shape (n_features, n_parts)
        Posterior probability that a part explains a column.
    numbers : list of n_parts ndarray of int
        Numbers of the states shown of each part, the most common first.
    shares : list of n_parts ndarray
        Prior probability of each of those states.
    pictures : list of n_parts ndarray of shape (n_states, n_columns)
        What is shown of each of those states: all pixels, or the columns in `columns`.
    columns : list of n_parts ndarray of int
        The columns of each part; for tables the most informative ones, at most ``max_columns``.
    n_columns : list of int
        How many columns each part has.
    limits : tuple of two float
        Values at the two ends of the color map.
    feature_names : list of str
        Names of all columns.
    image_shape : tuple of two int or None, default=None
        Height and width of the images, None for tables.

    Attributes
    ----------
    figure_ : matplotlib Figure or SubFigure
        Where it was plotted.
    axes_ : ndarray of matplotlib Axes
        For images of shape (n_parts, 1 + most states); for tables of shape (n_parts,).

    See Also
    --------
    GatesDisplay : The gates alone.
    LoadingsDisplay : The same for a model whose parts have factors.

    References
    ----------
    D. A. Ross and R. S. Zemel (2006). Learning Parts-Based Representations of Data. Journal of
    Machine Learning Research 7.

    Examples
    --------
    >>> from partwise import MCVQ, make_shapes
    >>> from partwise.plot import StatesDisplay
    >>> shapes = make_shapes()
    >>> model = MCVQ(n_parts=3, n_states=9, random_state=0).fit(shapes.data)
    >>> display = StatesDisplay.from_estimator(model, image_shape=shapes.image_shape)
    >>> len(display.pictures), display.pictures[0].shape[1]
    (3, 121)
    """

    noun: ClassVar[str] = "state"
    share_is: ClassVar[str] = "how common"
    table_limits: ClassVar[tuple[float, float]] = FAR
    table_unit: ClassVar[str] = DEVIATIONS

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        image_shape: Sequence[int] | None = None,
        max_columns: int = 20,
        min_prior: float = RARE,
        figure: AnyFigure | None = None,
        cmap: Colors | None = None,
    ) -> StatesDisplay:
        """Read the states of a fitted model and plot them.

        Parameters
        ----------
        estimator : estimator
            Fitted, with ``gates_``, ``means_`` and ``state_priors_``.
        max_columns : int, default=20
            For tables, how many columns of a part to show: those that its states separate best.
        min_prior : float, default=0.005
            States that are less probable are left out; 0 shows all.
        image_shape, figure, cmap
            As for every `Display`.

        Returns
        -------
        display : StatesDisplay
        """
        seen = states_view(estimator)
        numbers = [seen.shown(k, min_prior) for k in range(seen.n_parts)]
        return cls._of(seen, image_shape, max_columns, numbers).plot(figure=figure, cmap=cmap)
