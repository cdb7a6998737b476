"""Tables of several kinds of columns: rows, dependence of columns, profiles of states."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from partwise.data.table import Schema
from partwise.fitted import schema_of
from partwise.plot._draw import (
    DEVIATIONS,
    FAR,
    color_bar,
    get_axes,
    grouped,
    middles,
    name_columns,
    name_parts,
    name_ticks,
    note_missing,
    show_rows,
    show_table,
    with_missing,
)
from partwise.plot._pictures import column_names
from partwise.typing import DataLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure, SubFigure


def _fitted_table(estimator: BaseEstimator) -> Schema:
    """The schema of a model that was fitted to a table."""
    check_is_fitted(estimator)
    schema = schema_of(estimator)
    if schema is None:
        raise ValueError('This display needs an MCVQ fitted to a table, likelihood="auto".')
    return schema


@dataclass(kw_only=True, eq=False, repr=False)
class TableDisplay:
    """Rows of a table as a heat map: columns in the order of their parts, missing values marked.

    Rows are sorted by the states of the parts, the part that sorts them first having most columns.
    Numbers are plotted in standard deviations; levels by their number.

    Parameters
    ----------
    values : ndarray of shape (n, D)
        What is plotted, NaN where missing, rows already sorted.
    parts : ndarray of shape (D,)
    feature_names : list of str

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was plotted.
    figure_ : matplotlib Figure or SubFigure

    Examples
    --------
    >>> from partwise import MCVQ, make_survey
    >>> from partwise.plot import TableDisplay
    >>> table = make_survey(200, n_parts=2, n_columns_per_kind=1, random_state=0).frame
    >>> model = MCVQ(2, 4, likelihood="auto", random_state=0).fit(table)
    >>> TableDisplay.from_estimator(model, table).values.shape
    (200, 10)
    """

    values: np.ndarray
    parts: np.ndarray
    feature_names: list[str]
    ax_: Axes = field(init=False)
    figure_: Figure | SubFigure = field(init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: DataLike,
        *,
        max_rows: int = 400,
        ax: Axes | None = None,
        cmap: str | Colormap = "RdBu_r",
    ) -> TableDisplay:
        """Sort rows by their states and plot them.

        Parameters
        ----------
        estimator : MCVQ
            Fitted to a table.
        X : DataFrame or array-like of shape (n, D)
        max_rows : int, default=400
            Maximum number of rows; of more, some at equal distances are plotted.
        ax, cmap
            Where to plot, and in which colors.

        Returns
        -------
        display : TableDisplay
        """
        schema = _fitted_table(estimator)
        coded = schema.encode(X)
        every = np.unique(np.linspace(0, len(coded) - 1, max_rows).astype(int))
        states = np.asarray(estimator.predict_states(X))[every]
        counts = np.bincount(estimator.parts_[estimator.parts_ >= 0], minlength=states.shape[1])
        order = np.lexsort(states[:, np.argsort(counts, kind="stable")].T)
        rows = coded[every][order]
        used = np.asarray(~np.isnan(coded).all(axis=0))
        center, spread = np.zeros(len(used)), np.ones(len(used))
        center[used] = np.nanmean(coded[:, used], axis=0)
        spread[used] = np.maximum(np.nanstd(coded[:, used], axis=0), 1e-12)
        display = cls(
            values=(rows - center) / spread,
            parts=estimator.parts_,
            feature_names=[str(name) for name in schema.names],
        )
        return display.plot(ax=ax, cmap=cmap)

    def plot(self, ax: Axes | None = None, *, cmap: str | Colormap = "RdBu_r") -> TableDisplay:
        """Plot it.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
        cmap : str or Colormap

        Returns
        -------
        display : TableDisplay
            This one, with ``ax_`` and ``figure_``.
        """
        n, D = self.values.shape
        ax = get_axes(ax, float(np.clip(0.22 * D + 2.0, 5.0, 16.0)), 6.0)
        image = show_rows(ax, self.values, self.parts, with_missing(cmap))
        order, _ = grouped(self.parts)
        name_columns(ax, [self.feature_names[d] for d in order])
        name_parts(ax, self.parts)
        ax.set_ylabel(f"{n} rows, sorted by state")
        figure = ax.get_figure()
        assert figure is not None
        color_bar(figure, image, [ax], DEVIATIONS, shrink=0.6)
        if np.isnan(self.values).any():
            note_missing(figure)
        self.ax_, self.figure_ = ax, figure
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class DependenceDisplay:
    """Dependence between columns: a heat map in the order of the parts.

    Mutual information I is plotted as sqrt(1 - exp(-2 I)), which for two Gaussian columns is the
    size of their correlation; the diagonal is the dependence of a column on its part's state.

    Parameters
    ----------
    correlation : ndarray of shape (D, D)
    parts : ndarray of shape (D,)
    feature_names : list of str

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was plotted.
    figure_ : matplotlib Figure or SubFigure

    Examples
    --------
    >>> from partwise import MCVQ, make_survey
    >>> from partwise.plot import DependenceDisplay
    >>> table = make_survey(200, n_parts=2, n_columns_per_kind=1, random_state=0).frame
    >>> model = MCVQ(2, 4, likelihood="auto", random_state=0).fit(table)
    >>> DependenceDisplay.from_estimator(model).correlation.shape
    (10, 10)
    """

    correlation: np.ndarray
    parts: np.ndarray
    feature_names: list[str]
    ax_: Axes = field(init=False)
    figure_: Figure | SubFigure = field(init=False)

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, *, ax: Axes | None = None, cmap: str | Colormap = "Blues"
    ) -> DependenceDisplay:
        """Compute it with a fitted model and plot it.

        Parameters
        ----------
        estimator : MCVQ
            Fitted, to a table or a matrix.
        ax, cmap
            Where to plot, and in which colors.

        Returns
        -------
        display : DependenceDisplay
        """
        check_is_fitted(estimator)
        found = estimator.dependence(as_frame=False)
        display = cls(
            correlation=np.sqrt(-np.expm1(-2.0 * found)),
            parts=estimator.parts_,
            feature_names=column_names(estimator, len(found)),
        )
        return display.plot(ax=ax, cmap=cmap)

    def plot(self, ax: Axes | None = None, *, cmap: str | Colormap = "Blues") -> DependenceDisplay:
        """Plot it.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
        cmap : str or Colormap

        Returns
        -------
        display : DependenceDisplay
            This one, with ``ax_`` and ``figure_``.
        """
        size = float(np.clip(0.2 * len(self.parts) + 2.0, 4.0, 11.0))
        ax = get_axes(ax, size + 1.0, size)
        order, edges = grouped(self.parts)
        image = show_table(ax, self.correlation[np.ix_(order, order)], (0.0, 1.0), cmap)
        names = [self.feature_names[d] for d in order]
        name_columns(ax, names, axis="x")
        name_columns(ax, names, axis="y")
        for edge in edges:
            ax.axvline(edge, color="0.3", linewidth=0.8)
            ax.axhline(edge, color="0.3", linewidth=0.8)
        for k, middle in middles(self.parts):
            ax.annotate(f"part {k}", (middle, -0.5), xytext=(0, 4), textcoords="offset points",
                        ha="center", fontsize="x-small")  # fmt: skip
        figure = ax.get_figure()
        assert figure is not None
        color_bar(figure, image, [ax], "strength of the tie", shrink=0.6)
        self.ax_, self.figure_ = ax, figure
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class ProfilesDisplay:
    """Profiles of the states of a part, most common state first.

    One row per state; a column for every number and every level of a category, colored by how many
    standard deviations it is away from the column's mean. The mean, or the level's share, stands in
    the cell.

    Parameters
    ----------
    part : int
    away : ndarray of shape (n_states, n)
        What is plotted: standard deviations from the column's mean.
    texts : list of n_states lists of n str
        Text of the cells.
    names : list of n str
    shares : ndarray of shape (n_states,)
        Probability of each state.
    numbers : ndarray of shape (n_states,)
        Its number.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was plotted.
    figure_ : matplotlib Figure or SubFigure

    Examples
    --------
    >>> from partwise import MCVQ, make_survey
    >>> from partwise.plot import ProfilesDisplay
    >>> table = make_survey(200, n_parts=2, n_columns_per_kind=1, random_state=0).frame
    >>> model = MCVQ(2, 3, likelihood="auto", random_state=0).fit(table)
    >>> ProfilesDisplay.from_estimator(model, 0).part
    0
    """

    part: int
    away: np.ndarray
    texts: list[list[str]]
    names: list[str]
    shares: np.ndarray
    numbers: np.ndarray
    ax_: Axes = field(init=False)
    figure_: Figure | SubFigure = field(init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        part: int,
        *,
        ax: Axes | None = None,
        cmap: str | Colormap = "RdBu_r",
    ) -> ProfilesDisplay:
        """Compute it with a fitted model and plot it.

        Parameters
        ----------
        estimator : MCVQ
        part : int
        ax, cmap
            Where to plot, and in which colors.

        Returns
        -------
        display : ProfilesDisplay
        """
        check_is_fitted(estimator)
        found = estimator.state_profiles(part)
        display = cls(
            part=part,
            away=found["away"],
            texts=found["text"],
            names=found["name"],
            shares=found["share"],
            numbers=found["state"],
        )
        return display.plot(ax=ax, cmap=cmap)

    def plot(self, ax: Axes | None = None, *, cmap: str | Colormap = "RdBu_r") -> ProfilesDisplay:
        """Plot it.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
        cmap : str or Colormap

        Returns
        -------
        display : ProfilesDisplay
            This one, with ``ax_`` and ``figure_``.
        """
        n_states, n = self.away.shape
        ax = get_axes(ax, float(np.clip(0.42 * n + 2.5, 4.0, 18.0)), 0.45 * n_states + 2.0)
        image = show_table(ax, self.away, FAR, cmap)
        for i, line in enumerate(self.texts):
            for j, text in enumerate(line):
                dark = abs(self.away[i, j]) > 1.3
                ax.text(j, i, text, ha="center", va="center", fontsize="xx-small",
                        color="white" if dark else "black")  # fmt: skip
        name_columns(ax, self.names)
        labels = [f"{j} ({p:.0%})" for j, p in zip(self.numbers, self.shares, strict=True)]
        name_ticks(ax, labels, axis="y")
        ax.set(ylabel="state (share)", title=f"Part {self.part}")
        figure = ax.get_figure()
        assert figure is not None
        color_bar(figure, image, [ax], DEVIATIONS, shrink=0.8)
        self.ax_, self.figure_ = ax, figure
        return self
