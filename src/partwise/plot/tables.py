"""Tables of several kinds of columns: rows, dependence of columns, profiles of states."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from partwise.data.table import Schema, TableColumn
from partwise.fitted import feature_names, schema_of
from partwise.plot._display import HeatMapDisplay
from partwise.plot._draw import (
    ABSENT,
    DEVIATIONS,
    FAR,
    color_bar,
    get_axes,
    grouped,
    middles,
    name_columns,
    name_parts,
    name_ticks,
    part_label,
    plain,
    show_rows,
    show_table,
)
from partwise.plot.view import part_names_of
from partwise.typing import DataLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from partwise.plot._draw import Colors


def _fitted_table(estimator: BaseEstimator) -> Schema:
    """The schema of a model that was fitted to a table."""
    check_is_fitted(estimator)
    schema = schema_of(estimator)
    if schema is None:
        raise ValueError('This display needs an MCVQ fitted to a table, likelihood="auto".')
    return schema


KINDS = ("number", "ordered", "category")

# Colors of the levels of a category, the most common first; further levels share the last.
LEVEL_COLORS = (
    "#4e79a7",
    "#f28e2b",
    "#59a14f",
    "#e15759",
    "#b07aa1",
    "#76b7b2",
    "#edc948",
    "#9c755f",
    "#c5a3cf",
)


@dataclass(kw_only=True, eq=False, repr=False)
class TableDisplay(HeatMapDisplay):
    """Rows of a table as a heat map: columns in the order of their parts, missing values in gray.

    Rows are sorted by the states of the parts, first by those of the part with most columns, which
    the label names. Numbers are shown in standard deviations from the column's mean, ordered levels
    from light to dark, and categories with one color per level, the most common level first.

    Parameters
    ----------
    values : ndarray of shape (n, D)
        Sorted rows, NaN where missing: deviations of numbers, places of ordered levels from 0 to 1,
        ranks of the levels of categories.
    kinds : ndarray of shape (D,)
        "number", "ordered" or "category".
    parts : ndarray of shape (D,)
    feature_names : list of str
    sorted_by : str, default=""
        The part whose states sort the rows first.
    part_names : list of str, optional
        Names of the parts, "" for numbers.

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
    >>> display = TableDisplay.from_estimator(model, table)
    >>> display.values.shape, display.sorted_by
    ((200, 10), 'part 1')
    """

    values: np.ndarray
    kinds: np.ndarray
    parts: np.ndarray
    feature_names: list[str]
    sorted_by: str = ""
    part_names: list[str] = field(default_factory=list)

    default_cmap: ClassVar[str] = "RdBu_r"

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: DataLike,
        *,
        max_rows: int = 400,
        ax: Axes | None = None,
        cmap: Colors | None = None,
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
            Where to plot, and in which colors numbers are shown.

        Returns
        -------
        display : TableDisplay
        """
        schema = _fitted_table(estimator)
        coded = np.asarray(schema.encode(X), dtype=float)
        every = np.unique(np.linspace(0, len(coded) - 1, max_rows).astype(int))
        states = np.asarray(estimator.predict_states(X))[every]
        counts = np.bincount(estimator.parts_[estimator.parts_ >= 0], minlength=states.shape[1])
        sorting = np.argsort(counts, kind="stable")
        rows = coded[every][np.lexsort(states[:, sorting].T)]
        scaled = [
            _shown(column, coded[:, d], rows[:, d]) for d, column in enumerate(schema.columns)
        ]
        names = part_names_of(estimator, states.shape[1])
        display = cls(
            values=np.stack([values for _, values in scaled], axis=1),
            kinds=np.array([kind for kind, _ in scaled]),
            parts=estimator.parts_,
            feature_names=[str(name) for name in schema.names],
            sorted_by=part_label(int(sorting[-1]), names),
            part_names=names,
        )
        return display.plot(ax=ax, cmap=cmap)

    def _plot(self, ax: Axes | None, cmap: Colors) -> Axes:
        from matplotlib.colors import ListedColormap
        from matplotlib.patches import Patch

        n, D = self.values.shape
        ax = get_axes(ax, float(np.clip(0.22 * D + 2.0, 5.0, 16.0)), 6.0)
        order, _ = grouped(self.parts)
        kinds = self.kinds[order]
        where = {kind: np.broadcast_to(kinds == kind, (n, D)) for kind in KINDS}
        masked = {kind: np.where(where[kind], self.values[:, order], np.nan) for kind in KINDS}
        image = show_rows(ax, masked["number"][:, np.argsort(order)], self.parts, cmap)
        ax.set_facecolor(ABSENT)  # where no image has a value
        show_table(ax, masked["ordered"], (-0.25, 1.25), "Greens")
        show_table(ax, masked["category"], (0, len(LEVEL_COLORS)), ListedColormap(LEVEL_COLORS))
        name_columns(ax, [self.feature_names[d] for d in order])
        name_parts(ax, self.parts, self.part_names)
        ax.set_ylabel(f"{n} rows, sorted by the state of {self.sorted_by}")
        if (kinds == "number").any():
            color_bar(ax.figure, image, [ax], DEVIATIONS, shrink=0.6)
        handles = [Patch(color=ABSENT, label="missing")] if np.isnan(self.values).any() else []
        if (kinds == "category").any():
            handles += [Patch(color=LEVEL_COLORS[0], label="most common level")]
            handles += [Patch(color=LEVEL_COLORS[1], label="second level, ...")]
        if (kinds == "ordered").any():
            handles += [Patch(color="#c7e9c0", label="first ordered level")]
            handles += [Patch(color="#006d2c", label="last")]
        if handles:
            ax.figure.legend(
                handles=handles, loc="outside lower center", ncols=3, fontsize="x-small",
                frameon=False,
            )  # fmt: skip
        return ax


def _shown(column: TableColumn, all_values: np.ndarray, rows: np.ndarray) -> tuple[str, np.ndarray]:
    """The kind of a column, and how its values are shown."""
    known = all_values[np.isfinite(all_values)]
    if not column.has_levels:
        spread = float(known.std()) if known.size else 0.0
        return "number", (rows - (known.mean() if known.size else 0.0)) / max(spread, 1e-12)
    n = len(column.levels)
    if column.ordered or column.form != "level":
        return "ordered", rows / max(n - 1, 1)
    counts = np.bincount(known.astype(int), minlength=n)
    rank = np.append(np.argsort(np.argsort(-counts, kind="stable")), 0).astype(float)
    place = np.where(np.isnan(rows), n, rows).astype(int)
    return "category", np.where(
        np.isnan(rows), np.nan, np.minimum(rank[place], len(LEVEL_COLORS) - 1)
    )


@dataclass(kw_only=True, eq=False, repr=False)
class DependenceDisplay(HeatMapDisplay):
    """Dependence between columns: a heat map in the order of the parts.

    Mutual information I is plotted as sqrt(1 - exp(-2 I)), which for two Gaussian columns is the
    size of their correlation; the diagonal is the dependence of a column on its part's state.

    Parameters
    ----------
    correlation : ndarray of shape (D, D)
    parts : ndarray of shape (D,)
    feature_names : list of str
    part_names : list of str, optional
        Names of the parts, "" for numbers.

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
    part_names: list[str] = field(default_factory=list)

    default_cmap: ClassVar[str] = "Blues"

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, *, ax: Axes | None = None, cmap: Colors | None = None
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
            feature_names=feature_names(estimator, len(found)),
            part_names=part_names_of(estimator, estimator.gates_.shape[1]),
        )
        return display.plot(ax=ax, cmap=cmap)

    def _plot(self, ax: Axes | None, cmap: Colors) -> Axes:
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
            ax.annotate(plain(part_label(k, self.part_names)), (middle, -0.5), xytext=(0, 4),
                        textcoords="offset points", ha="center", fontsize="x-small")  # fmt: skip
        color_bar(ax.figure, image, [ax], "strength of the tie", shrink=0.6)
        return ax


@dataclass(kw_only=True, eq=False, repr=False)
class ProfilesDisplay(HeatMapDisplay):
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
    part_name : str, default=""
        Name of the part, "" for its number.

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
    part_name: str = ""

    default_cmap: ClassVar[str] = "RdBu_r"

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        part: int,
        *,
        max_columns: int = 40,
        ax: Axes | None = None,
        cmap: Colors | None = None,
    ) -> ProfilesDisplay:
        """Compute it with a fitted model and plot it.

        Parameters
        ----------
        estimator : MCVQ
        part : int
        max_columns : int, default=40
            Maximum number of numbers and levels; of more, those in which the states differ most.
        ax, cmap
            Where to plot, and in which colors.

        Returns
        -------
        display : ProfilesDisplay
        """
        check_is_fitted(estimator)
        found = estimator.state_profiles(part)
        away, shares = np.asarray(found["away"], dtype=float), np.asarray(found["share"])
        # Of many levels, those that vary most between the states.
        between = shares @ away**2 if len(away) else np.zeros(away.shape[1])
        kept = np.sort(np.argsort(-between, kind="stable")[:max_columns])
        display = cls(
            part=part,
            away=away[:, kept],
            texts=[[line[i] for i in kept] for line in found["text"]],
            names=[found["name"][i] for i in kept],
            shares=shares,
            numbers=found["state"],
            part_name=part_names_of(estimator, part + 1)[part],
        )
        return display.plot(ax=ax, cmap=cmap)

    def _plot(self, ax: Axes | None, cmap: Colors) -> Axes:
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
        ax.set(ylabel="state (share)", title=plain(self.part_name, 60) or f"Part {self.part}")
        color_bar(ax.figure, image, [ax], DEVIATIONS, shrink=0.8)
        return ax
