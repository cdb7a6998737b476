"""Rows sampled from a model, class by class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from partwise.fitted import feature_names
from partwise.plot._display import Display
from partwise.plot._draw import (
    DEVIATIONS,
    color_bar,
    get_figure,
    grouped,
    name_columns,
    name_parts,
    plain,
    show_picture,
    show_rows,
)
from partwise.plot.view import check_image_shape, shades, view
from partwise.sampling.randomness import as_generator
from partwise.typing import Seed

if TYPE_CHECKING:
    from partwise.plot._draw import AnyFigure, Colors, Drawn


@dataclass(kw_only=True, eq=False, repr=False)
class SamplesDisplay(Display):
    """Rows sampled from a model, without noise; with classes, some of each.

    A state, or factors, of every part are sampled from the priors of a class; the plot shows the
    row that the model expects of them (Ross and Zemel 2006, Figure 13). For images, one line per
    class; for tables, one heat map per class with the columns of a part next to each other. A
    hybrid, whose parts take the priors of different classes, comes last.

    Parameters
    ----------
    samples : ndarray of shape (n_groups, n_samples, n_features)
        The sampled rows.
    labels : list of n_groups str
        The class of each group.
    limits : tuple of two float
        Values at the two ends of the color map.
    parts : ndarray of shape (n_features,)
        Part of each column, -1 for background.
    feature_names : list of str
        Names of the columns.
    center, spread : ndarray of shape (n_features,)
        Mean and standard deviation of each column, by which tables are scaled.
    part_names : list of str, optional
        Names of the parts, "" for numbers.
    image_shape : tuple of two int or None, default=None
        Height and width of the images, None for tables.

    Attributes
    ----------
    figure_ : matplotlib Figure or SubFigure
        Where it was plotted.
    axes_ : ndarray of matplotlib Axes
        For images of shape (n_groups, n_samples); for tables of shape (n_groups,).

    References
    ----------
    D. A. Ross and R. S. Zemel (2006). Learning Parts-Based Representations of Data. Journal of
    Machine Learning Research 7.

    Examples
    --------
    >>> from partwise import MCVQ, make_faces
    >>> from partwise.plot import SamplesDisplay
    >>> faces = make_faces(120, random_state=0)
    >>> model = MCVQ(n_parts=5, n_states=4, random_state=0).fit(faces.data, faces.target)
    >>> display = SamplesDisplay.from_estimator(
    ...     model, n_samples=4, hybrid={0: 0, 1: {2: 0.5, 3: 0.5}}, image_shape=faces.image_shape
    ... )
    >>> display.samples.shape, display.labels[-1]
    ((6, 4, 1024), 'hybrid')
    """

    samples: np.ndarray
    labels: list[str]
    limits: tuple[float, float]
    parts: np.ndarray
    feature_names: list[str]
    center: np.ndarray
    spread: np.ndarray
    part_names: list[str] = field(default_factory=list)

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        n_samples: int = 8,
        classes: ArrayLike | None = None,
        hybrid: Mapping[int, object] | None = None,
        random_state: Seed = None,
        image_shape: Sequence[int] | None = None,
        figure: AnyFigure | None = None,
        cmap: Colors | None = None,
    ) -> SamplesDisplay:
        """Sample rows from a fitted model and plot them.

        Parameters
        ----------
        estimator : estimator
            Fitted, with ``gates_``, ``sample`` and ``inverse_transform``; or Bayesian PCA or a
            mixture of it.
        n_samples : int, default=8
            Rows of each class.
        classes : label, sequence of labels or None, default=None
            Classes to show; None shows all.
        hybrid : mapping or None, default=None
            ``{part: class or {class: weight}}``, as for ``sample``; parts not named take the priors
            of a class that is sampled per row.
        random_state : int, Generator, RandomState or None, default=None
            The estimator's own if None.
        image_shape, figure, cmap
            As for every `Display`.

        Returns
        -------
        display : SamplesDisplay
        """
        if not hasattr(estimator, "gates_") and hasattr(estimator, "effective_dimension_"):
            return cls._of_components(
                estimator, n_samples, classes, hybrid, random_state, image_shape
            ).plot(figure=figure, cmap=cmap)
        seen = view(estimator)
        shape = check_image_shape(image_shape, len(seen.names))
        rng = as_generator(estimator.random_state if random_state is None else random_state)
        shown = getattr(estimator, "classes_", ()) if classes is None else np.atleast_1d(classes)
        labels = [str(label) for label in shown]
        # The same class for every part: asked for as a hybrid, states come back.
        every = range(seen.n_parts)
        wanted: list[Mapping[int, object] | None] = [dict.fromkeys(every, label) for label in shown]
        if hybrid is not None:
            labels.append("hybrid")
            wanted.append(dict(hybrid))
        codes = [seen.sample(n_samples, which, rng) for which in wanted or [None]]
        samples = np.stack([seen.rows(own) for own in codes]).astype(float)
        display = cls(
            samples=samples,
            labels=labels or [""],
            limits=shades(samples, samples[:0]),
            parts=seen.parts,
            feature_names=seen.names,
            center=seen.own_center(),
            spread=seen.own_spread(),
            part_names=seen.part_names,
            image_shape=shape,
        )
        return display.plot(figure=figure, cmap=cmap)

    @classmethod
    def _of_components(
        cls, estimator: BaseEstimator, n_samples: int, classes: ArrayLike | None,
        hybrid: Mapping[int, object] | None, random_state: Seed,
        image_shape: Sequence[int] | None,
    ) -> SamplesDisplay:  # fmt: skip
        """Expected rows of a mixture of Bayesian PCA, which has no parts."""
        if hybrid is not None:
            raise ValueError("A hybrid takes parts from several classes; this model has no parts.")
        rng = as_generator(estimator.random_state if random_state is None else random_state)
        shown = getattr(estimator, "classes_", ()) if classes is None else np.atleast_1d(classes)
        sampled = [
            estimator.sample(n_samples, random_state=rng, **({} if c is None else {"classes": c}))[
                0
            ]
            for c in (shown if len(shown) else [None])
        ]
        samples = np.stack([estimator.reconstruct(rows) for rows in sampled]).astype(float)
        every = samples.reshape(-1, samples.shape[2])
        spread = every.std(axis=0)
        return cls(
            samples=samples,
            labels=[str(label) for label in shown] or [""],
            limits=shades(samples, samples[:0]),
            parts=np.zeros(samples.shape[2], int),
            feature_names=feature_names(estimator, estimator.n_features_in_),
            center=every.mean(axis=0),
            spread=np.where(spread > 0, spread, 1.0),
            image_shape=check_image_shape(image_shape, samples.shape[2]),
        )

    def _plot_images(self, figure: AnyFigure | None, cmap: Colors, shape: tuple[int, int]) -> Drawn:
        n_groups, n_samples, _ = self.samples.shape
        figure = get_figure(figure, 0.95 * n_samples + 1.0, 1.0 * n_groups)
        grid = figure.subplots(n_groups, n_samples, squeeze=False)
        for row, label, pictures in zip(grid, self.labels, self.samples, strict=True):
            for ax, picture in zip(row, pictures, strict=True):
                show_picture(ax, picture, shape, self.limits, cmap)
            row[0].set_ylabel(plain(label), rotation=0, ha="right", va="center", fontsize="small")
        return figure, grid

    def _plot_table(self, figure: AnyFigure | None, cmap: Colors) -> Drawn:
        n_groups, n_samples, n_features = self.samples.shape
        width = float(np.clip(0.2 * n_features + 1.5, 5.0, 14.0))
        figure = get_figure(figure, width, n_groups * (0.14 * n_samples + 0.15) + 1.2)
        axes = figure.subplots(n_groups, 1, squeeze=False)[:, 0]
        for ax, label, values in zip(axes, self.labels, self.samples, strict=True):
            image = show_rows(ax, (values - self.center) / self.spread, self.parts, cmap)
            ax.set_ylabel(plain(label), rotation=0, ha="right", va="center", fontsize="small")
        name_parts(axes[0], self.parts, self.part_names)
        name_columns(axes[-1], [self.feature_names[d] for d in grouped(self.parts)[0]])
        color_bar(figure, image, axes, DEVIATIONS, extend="both")
        return figure, axes
