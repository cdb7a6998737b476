"""The states of each part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from partwise.plot._draw import bare, get_figure, name_columns, show_picture
from partwise.plot.view import RARE, check_image_shape, percent, view

if TYPE_CHECKING:
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure, SubFigure


class StatesDisplay:
    """States of each part, the commonest first.

    For images, one line a part: its gate on the left, then the mean of each state masked by that
    gate, with mid-grey where the gate is closed (Ross and Zemel 2006, Figure 3). For tables, one
    heat map a part: its states by its own columns, in standard deviations from the column's mean.

    Parameters
    ----------
    gates : ndarray of shape (n_features, n_parts)
        Posterior probability that a part explains a column.
    states : list of n_parts ndarray of int
        Numbers of the states shown of each part, the commonest first.
    priors : list of n_parts ndarray
        Prior probability of each of those states.
    pictures : list of n_parts ndarray of shape (n_states, n_columns)
        What is drawn of each of those states: all pixels, or the columns in `columns`.
    columns : list of n_parts ndarray of int
        The columns of each part; for tables the most telling ones, as many as were asked for.
    n_columns : list of int
        How many columns each part has.
    limits : tuple of two float
        Values drawn with the two ends of the colour map.
    feature_names : list of str
        Names of all columns.
    image_shape : tuple of two int or None, default=None
        Height and width of the images, None for tables.

    Attributes
    ----------
    figure_ : matplotlib Figure or SubFigure
        Where it was drawn.
    axes_ : ndarray of matplotlib Axes
        For images of shape (n_parts, 1 + most states); for tables of shape (n_parts,).

    See Also
    --------
    GatesDisplay : The gates alone.

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

    figure_: Figure | SubFigure
    axes_: np.ndarray

    def __init__(
        self,
        *,
        gates: np.ndarray,
        states: list[np.ndarray],
        priors: list[np.ndarray],
        pictures: list[np.ndarray],
        columns: list[np.ndarray],
        n_columns: list[int],
        limits: tuple[float, float],
        feature_names: list[str],
        image_shape: tuple[int, int] | None = None,
    ) -> None:
        self.gates = gates
        self.states = states
        self.priors = priors
        self.pictures = pictures
        self.columns = columns
        self.n_columns = n_columns
        self.limits = limits
        self.feature_names = feature_names
        self.image_shape = image_shape

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        image_shape: Sequence[int] | None = None,
        max_columns: int = 20,
        min_prior: float = RARE,
        figure: Figure | SubFigure | None = None,
        cmap: str | Colormap | None = None,
    ) -> StatesDisplay:
        """Read the states of a fitted model and draw them.

        Parameters
        ----------
        estimator : estimator
            Fitted, with ``gates_``, ``parts_``, ``means_`` and ``state_priors_``.
        image_shape : two int or None, default=None
            Height and width, if the columns are the pixels of an image.
        max_columns : int, default=20
            For tables, how many columns of a part to show: those that its states tell apart best.
        min_prior : float, default=0.005
            States that are less probable are left out; 0 shows all.
        figure : matplotlib Figure or SubFigure, or None, default=None
            Where to draw; None makes a new figure.
        cmap : str or matplotlib Colormap or None, default=None
            Colours; None means grey for images and blue to red for tables.

        Returns
        -------
        display : StatesDisplay
        """
        seen = view(estimator)
        shape = check_image_shape(image_shape, len(seen.names))
        states = [seen.states(k, min_prior) for k in range(seen.n_parts)]
        columns = [seen.columns(k) for k in range(seen.n_parts)]
        n_columns = [len(own) for own in columns]
        if shape is not None:
            limits = seen.limits()
            neutral = sum(limits) / 2
            pictures = [
                np.array([seen.masked(k, j, neutral) for j in used]).reshape(len(used), -1)
                for k, used in enumerate(states)
            ]
        else:
            for k, own in enumerate(columns):
                best = np.argsort(-seen.telling[k, own], kind="stable")[:max_columns]
                columns[k] = own[np.sort(best)]
            pictures = [
                seen.deviations(k)[np.ix_(used, columns[k])] for k, used in enumerate(states)
            ]
            limits = (-2.0, 2.0)  # beyond two standard deviations is simply "far"
        display = cls(
            gates=seen.gates,
            states=states,
            priors=[seen.priors[k, used] for k, used in enumerate(states)],
            pictures=pictures,
            columns=columns,
            n_columns=n_columns,
            limits=limits,
            feature_names=seen.names,
            image_shape=shape,
        )
        return display.plot(figure=figure, cmap=cmap)

    def plot(
        self,
        figure: Figure | SubFigure | None = None,
        *,
        cmap: str | Colormap | None = None,
    ) -> StatesDisplay:
        """Draw the states.

        Parameters
        ----------
        figure : matplotlib Figure or SubFigure, or None, default=None
            Where to draw; None makes a new figure.
        cmap : str or matplotlib Colormap or None, default=None
            Colours; None means grey for images and blue to red for tables.

        Returns
        -------
        display : StatesDisplay
            This one, with ``figure_`` and ``axes_``.
        """
        if self.image_shape is None:
            self._plot_tables(figure, cmap or "RdBu_r")
        else:
            self._plot_images(figure, cmap or "gray", self.image_shape)
        return self

    def _plot_images(
        self, figure: Figure | SubFigure | None, cmap: str | Colormap, shape: tuple[int, int]
    ) -> None:
        n_parts = len(self.states)
        most = max(len(used) for used in self.states)
        figure = get_figure(figure, 0.9 * (most + 1.3), 1.1 * n_parts)
        # A narrow empty column sets the gates apart from the states.
        grid = figure.subplots(
            n_parts, most + 2, squeeze=False, width_ratios=[1, 0.12, *[1] * most]
        )
        for k, row in enumerate(grid):
            show_picture(row[0], self.gates[:, k], shape, (0.0, 1.0), cmap)
            row[0].set_ylabel(f"part {k}", fontsize="small")
            row[0].set_title("gate", fontsize="x-small", pad=2)
            shown = zip(row[2:], self.states[k], self.priors[k], self.pictures[k], strict=False)
            for ax, j, prior, picture in shown:
                show_picture(ax, picture, shape, self.limits, cmap)
                ax.set_title(f"state {j}: {percent(prior)}", fontsize="x-small", pad=2)
            for ax in (row[1], *row[2 + len(self.states[k]) :]):
                ax.set_axis_off()
        self.figure_, self.axes_ = figure, np.delete(grid, 1, axis=1)

    def _plot_tables(self, figure: Figure | SubFigure | None, cmap: str | Colormap) -> None:
        n_parts = len(self.states)
        n_across = min(n_parts, 3)
        n_down = -(-n_parts // n_across)
        most_states = max(len(used) for used in self.states)
        tallest = [
            max(1, *(len(own) for own in self.columns[i : i + n_across])) + 3
            for i in range(0, n_parts, n_across)
        ]
        figure = get_figure(
            figure, n_across * (1.3 + 0.42 * most_states) + 1.0, max(0.2 * sum(tallest), 2.2) + 0.3
        )
        grid = figure.subplots(n_down, n_across, squeeze=False, height_ratios=tallest).ravel()
        image = None
        for k, ax in enumerate(grid[:n_parts]):
            bare(ax)
            title = f"part {k}: {self.n_columns[k]} columns"
            if self.n_columns[k] > len(self.columns[k]):
                title += f",\nthe {len(self.columns[k])} most telling"
            ax.set_title(title, fontsize="small")
            if self.pictures[k].size == 0:
                continue
            low, high = self.limits
            image = ax.imshow(
                self.pictures[k].T,
                cmap=cmap,
                vmin=low,
                vmax=high,
                aspect="auto",
                interpolation="nearest",
            )
            labels = [
                f"{j}\n{percent(prior)}"
                for j, prior in zip(self.states[k], self.priors[k], strict=True)
            ]
            ax.set_xticks(range(len(labels)), labels, fontsize="x-small")
            ax.tick_params(axis="x", length=0)
            ax.set_xlabel("state, and how common", fontsize="x-small")
            name_columns(ax, [self.feature_names[d] for d in self.columns[k]], axis="y")
        for ax in grid[n_parts:]:
            ax.set_axis_off()
        if image is not None:
            bar = figure.colorbar(
                image,
                ax=list(grid),
                aspect=30,
                extend="both",
                label="standard deviations\nfrom the column's mean",
            )
            bar.ax.yaxis.label.set_fontsize("small")
            bar.outline.set_visible(False)
        self.figure_, self.axes_ = figure, grid[:n_parts]
