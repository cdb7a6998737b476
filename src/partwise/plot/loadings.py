"""The factors of each part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from sklearn.base import BaseEstimator

from partwise.plot._vectors import VectorsDisplay
from partwise.plot.view import FactorsView, view

if TYPE_CHECKING:
    from partwise.plot._draw import AnyFigure, Colors


@dataclass(kw_only=True, eq=False, repr=False)
class LoadingsDisplay(VectorsDisplay):
    """Loadings of each part's factors, the strongest first.

    For images, one line per part: its gate on the left, then the loadings of each factor that the
    part needs, masked by that gate; mid-gray is no loading, and the sign of a factor is
    arbitrary (Ross and Zemel 2006, Figure 4). For tables, one heat map per part: the correlation of
    its factors with its own columns.

    Parameters
    ----------
    gates : ndarray of shape (n_features, n_parts)
        Posterior probability that a part explains a column.
    numbers : list of n_parts ndarray of int
        Numbers of the factors shown of each part, the strongest first.
    shares : list of n_parts ndarray
        Share of the part's variance that each of those factors carries.
    pictures : list of n_parts ndarray of shape (n_factors, n_columns)
        What is shown of each of those factors: all pixels, or the columns in `columns`.
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
        For images of shape (n_parts, 1 + most factors); for tables of shape (n_parts,).

    See Also
    --------
    StatesDisplay : The same for a model whose parts have states.

    References
    ----------
    D. A. Ross and R. S. Zemel (2006). Learning Parts-Based Representations of Data. Journal of
    Machine Learning Research 7.

    Examples
    --------
    >>> from partwise import MCFA, make_shapes
    >>> from partwise.plot import LoadingsDisplay
    >>> shapes = make_shapes()
    >>> model = MCFA(n_parts=3, n_factors=4, random_state=0).fit(shapes.data)
    >>> display = LoadingsDisplay.from_estimator(model, image_shape=shapes.image_shape)
    >>> len(display.pictures), display.pictures[0].shape[1]
    (3, 121)
    """

    noun: ClassVar[str] = "factor"
    share_is: ClassVar[str] = "its share of the variance"
    table_limits: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    table_unit: ClassVar[str] = "correlation of column and factor"
    table_extend: ClassVar[str] = "neither"

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        image_shape: Sequence[int] | None = None,
        max_columns: int = 20,
        figure: AnyFigure | None = None,
        cmap: Colors | None = None,
    ) -> LoadingsDisplay:
        """Read the loadings of a fitted model and plot them.

        Parameters
        ----------
        estimator : estimator
            Fitted, with ``gates_``, ``loadings_``, ``noise_variance_`` and ``n_factors_``.
        max_columns : int, default=20
            For tables, how many columns of a part to show: those that its factors explain best.
        image_shape, figure, cmap
            As for every `Display`.

        Returns
        -------
        display : LoadingsDisplay
        """
        seen = view(estimator)
        if not isinstance(seen, FactorsView):
            raise TypeError(
                f"The parts of {type(estimator).__name__} have no factors; StatesDisplay shows "
                "what they have."
            )
        numbers = [seen.shown(k) for k in range(seen.n_parts)]
        return cls._of(seen, image_shape, max_columns, numbers).plot(figure=figure, cmap=cmap)
