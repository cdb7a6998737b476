"""Classes compared with states, and with labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from partwise.plot._display import Display, HeatMapDisplay
from partwise.plot._draw import (
    DEVIATIONS,
    FAR,
    color_bar,
    get_axes,
    get_figure,
    name_columns,
    name_ticks,
    plain,
    show_picture,
    show_table,
)
from partwise.plot._vectors import pictures_of
from partwise.plot.view import RARE, check_classes, check_image_shape, states_view
from partwise.typing import DataLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from partwise.plot._draw import AnyFigure, Colors, Drawn


@dataclass(kw_only=True, eq=False, repr=False)
class ClassPriorsDisplay(Display):
    """States of one part, and under each its probability in every class.

    For images, the mean of each state masked by the gate of the part, and a bar for each class
    (Ross and Zemel 2006, Figure 12). For tables, the means of the part's columns instead.

    Parameters
    ----------
    part : int
        The part shown.
    numbers : ndarray of int of shape (n_states,)
        Numbers of its states, the most common first.
    priors : ndarray of shape (n_classes, n_states)
        Probability of each of those states in each class.
    classes : list of n_classes str
        Labels of the classes.
    pictures : ndarray of shape (n_states, n_columns)
        What is shown of each state: all pixels, or the columns in `columns`.
    columns : ndarray of int
        The columns of the part; for tables the most informative ones, at most ``max_columns``.
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
    axes_ : ndarray of matplotlib Axes, of shape (2, n_states)
        States, and the bars under them.

    References
    ----------
    D. A. Ross and R. S. Zemel (2006). Learning Parts-Based Representations of Data. Journal of
    Machine Learning Research 7.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import MCVQ, make_faces
    >>> from partwise.plot import ClassPriorsDisplay
    >>> faces = make_faces(120, random_state=0)
    >>> names = np.array(faces.target_names)[faces.target]
    >>> model = MCVQ(n_parts=5, n_states=4, random_state=0).fit(faces.data, names)
    >>> display = ClassPriorsDisplay.from_estimator(model, 0, image_shape=faces.image_shape)
    >>> display.classes
    ['anger', 'neutral', 'scream', 'smile', 'sunglasses']
    """

    part: int
    numbers: np.ndarray
    priors: np.ndarray
    classes: list[str]
    pictures: np.ndarray
    columns: np.ndarray
    limits: tuple[float, float]
    feature_names: list[str]

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        part: int,
        *,
        image_shape: Sequence[int] | None = None,
        max_columns: int = 20,
        min_prior: float = RARE,
        figure: AnyFigure | None = None,
        cmap: Colors | None = None,
    ) -> ClassPriorsDisplay:
        """Read one part of a fitted model with classes and plot it.

        Parameters
        ----------
        estimator : estimator
            Fitted with classes, and with states (`MCVQ`).
        part : int
            Which part.
        max_columns : int, default=20
            For tables, how many columns of the part to show: those that its states separate best.
        min_prior : float, default=0.005
            States that are less probable, all classes together, are left out; 0 shows all.
        image_shape, figure, cmap
            As for every `Display`.

        Returns
        -------
        display : ClassPriorsDisplay
        """
        seen = states_view(estimator)
        classes = check_classes(estimator)
        if not 0 <= part < seen.n_parts:
            raise ValueError(f"part={part} must be from 0 to {seen.n_parts - 1}.")
        shape = check_image_shape(image_shape, len(seen.names))
        numbers = seen.shown(part, min_prior)
        pictures, columns = pictures_of(seen, part, numbers, shape, max_columns)
        display = cls(
            part=part,
            numbers=numbers,
            priors=np.asarray(estimator.state_priors_, dtype=float)[:, part, numbers],
            classes=[str(label) for label in classes],
            pictures=pictures,
            columns=columns,
            limits=FAR if shape is None else seen.limits(),
            feature_names=seen.names,
            image_shape=shape,
        )
        return display.plot(figure=figure, cmap=cmap)

    def _plot_images(self, figure: AnyFigure | None, cmap: Colors, shape: tuple[int, int]) -> Drawn:
        figure, axes = self._grid(figure, 1.0)
        for ax, picture in zip(axes[0], self.pictures, strict=True):
            show_picture(ax, picture, shape, self.limits, cmap)
        return self._finish(figure, axes)

    def _plot_table(self, figure: AnyFigure | None, cmap: Colors) -> Drawn:
        figure, axes = self._grid(figure, 0.2 * len(self.columns) + 0.1)
        for ax, column in zip(axes[0], self.pictures, strict=True):
            image = show_table(ax, column[:, None], self.limits, cmap)
        name_columns(axes[0, 0], [self.feature_names[d] for d in self.columns], axis="y")
        color_bar(figure, image, axes[0], DEVIATIONS, extend="both")
        return self._finish(figure, axes)

    def _grid(self, figure: AnyFigure | None, height: float) -> Drawn:
        """Make axes for the states, of a height in inches, and for the bars under them."""
        n_states = len(self.numbers)
        figure = get_figure(figure, max(0.95 * n_states + 0.9, 4.0), height + 1.6)
        grid = figure.subplots(2, n_states, squeeze=False, height_ratios=[height, 0.7])
        return figure, grid

    def _finish(self, figure: AnyFigure, axes: np.ndarray) -> Drawn:
        """Plot the bars and the labels."""
        import matplotlib

        n_classes = len(self.classes)
        few = n_classes <= 10
        palette = matplotlib.colormaps["tab10" if few else "viridis"]
        colors = palette(np.arange(n_classes) if few else np.linspace(0, 1, n_classes))
        top = 1.05 * self.priors.max(initial=1e-300)
        for i, (state, bars) in enumerate(axes.T):
            state.set_title(f"state {self.numbers[i]}", fontsize="x-small", pad=2)
            handles = bars.bar(np.arange(n_classes), self.priors[:, i], 0.9, color=colors)
            bars.set(ylim=(0, top), xticks=[])
            bars.spines[["top", "right", "left"]].set_visible(False)
            bars.tick_params(labelsize="x-small", labelleft=i == 0, left=i == 0)
        axes[1, 0].set_ylabel("P(state | class)", fontsize="x-small")
        figure.suptitle(f"part {self.part}", fontsize="small")
        if n_classes <= 20:
            labels = [plain(label) for label in self.classes]
            across = min(n_classes, len(self.numbers))
            figure.legend(
                handles, labels, loc="outside lower center", ncols=across, fontsize="x-small",
                frameon=False,
            )  # fmt: skip
        return figure, axes


@dataclass(kw_only=True, eq=False, repr=False)
class ClassTableDisplay(HeatMapDisplay):
    """Number of rows per label and predicted class (Ross and Zemel 2006, Table 3).

    Each row of the plot is shaded by its own shares. ``print(display)`` writes the table as text,
    with its totals.

    Parameters
    ----------
    counts : ndarray of shape (n_labels, n_classes)
        Number of rows.
    labels : list of n_labels str
        Labels of the rows.
    classes : list of n_classes str
        Predicted classes or clusters.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was plotted.
    figure_ : matplotlib Figure or SubFigure
        The figure of ``ax_``.

    Examples
    --------
    >>> from partwise.plot import ClassTableDisplay
    >>> display = ClassTableDisplay.from_predictions(["a", "a", "b", "b"], [1, 1, 1, 0])
    >>> print(display)
           0  1  total
    a      0  2      2
    b      1  1      2
    total  1  3      4
    """

    counts: np.ndarray
    labels: list[str]
    classes: list[str]

    default_cmap: ClassVar[str] = "Blues"

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: DataLike,
        y: ArrayLike,
        *,
        ax: Axes | None = None,
        cmap: Colors | None = None,
    ) -> ClassTableDisplay:
        """Predict the classes of rows with a fitted model and plot the table.

        Parameters
        ----------
        estimator : estimator
            Fitted with classes, whether these were found or given.
        X : array-like, frame or sparse matrix of shape (n_samples, n_features)
            Rows; NaN means missing.
        y : array-like of shape (n_samples,)
            Their labels, of any kind; rows without one (None) are left out.
        ax, cmap
            As for `plot`.

        Returns
        -------
        display : ClassTableDisplay
        """
        classes = check_classes(estimator)
        return cls._counted(y, estimator.predict(X), classes).plot(ax=ax, cmap=cmap)

    @classmethod
    def from_predictions(
        cls,
        y: ArrayLike,
        predicted: ArrayLike,
        *,
        ax: Axes | None = None,
        cmap: Colors | None = None,
    ) -> ClassTableDisplay:
        """Plot the table of known labels and classes.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Labels; rows without one (None) are left out.
        predicted : array-like of shape (n_samples,)
            Classes or clusters.
        ax, cmap
            As for `plot`.

        Returns
        -------
        display : ClassTableDisplay
        """
        return cls._counted(y, predicted, np.unique(predicted)).plot(ax=ax, cmap=cmap)

    @classmethod
    def _counted(cls, y: ArrayLike, predicted: ArrayLike, classes: np.ndarray) -> ClassTableDisplay:
        given, found = np.asarray(y), np.asarray(predicted)
        if given.shape != found.shape or given.ndim != 1:
            raise ValueError(f"y has shape {given.shape}, but there are {len(found)} rows.")
        known = np.array([label is not None for label in given], bool)
        labels = np.unique(given[known])
        is_label, is_class = given == labels[:, None], found == classes[:, None]
        return cls(
            counts=is_label.astype(int) @ is_class.T.astype(int),
            labels=[str(label) for label in labels],
            classes=[str(label) for label in classes],
        )

    def _plot(self, ax: Axes | None, cmap: Colors) -> Axes:
        n_labels, n_classes = self.counts.shape
        ax = get_axes(ax, 1.8 + 0.6 * n_classes, 0.9 + 0.35 * n_labels)
        shares = self.counts / np.maximum(self.counts.sum(axis=1, keepdims=True), 1)
        image = show_table(ax, shares, (0.0, 1.0), cmap)
        for (i, j), count in np.ndenumerate(self.counts):
            red, green, blue, _ = image.cmap(image.norm(shares[i, j]))
            dark = 0.3 * red + 0.6 * green + 0.1 * blue < 0.5
            ax.text(
                j, i, f"{count:,}", ha="center", va="center", fontsize="small",
                color="white" if dark else "black",
            )  # fmt: skip
        name_ticks(ax, self.classes)
        name_ticks(ax, self.labels, axis="y")
        ax.set_xlabel("class", fontsize="small")
        ax.set_ylabel("label", fontsize="small")
        return ax

    def __str__(self) -> str:
        """Write the table as text, with its totals."""
        counts = np.vstack([self.counts, self.counts.sum(axis=0)])
        counts = np.column_stack([counts, counts.sum(axis=1)])
        body = [[str(count) for count in row] for row in counts]
        rows = [[*self.classes, "total"], *body]
        widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
        names = ["", *self.labels, "total"]
        left = max(len(name) for name in names)
        return "\n".join(
            "  ".join([name.ljust(left), *(c.rjust(w) for c, w in zip(row, widths, strict=True))])
            for name, row in zip(names, rows, strict=True)
        )
