"""Features of a GVQ, and its most frequent codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from partwise.fitted import feature_names
from partwise.plot._pictures import PicturesDisplay
from partwise.plot.view import apart, check_image_shape, percent

if TYPE_CHECKING:
    from partwise.plot._draw import AnyFigure, Colors


@dataclass(kw_only=True, eq=False, repr=False)
class FeaturesDisplay(PicturesDisplay):
    """Features of each set and, last, its origin (Westerdijk et al., Figures 8 and 11).

    Parameters and attributes are those of `Display` and of groups of pictures: a group is a set.

    Examples
    --------
    >>> from partwise import GVQ, make_shapes
    >>> from partwise.plot import FeaturesDisplay
    >>> shapes = make_shapes()
    >>> model = GVQ(n_components=4, max_iter=5, tol=1.0, random_state=0).fit(shapes.data)
    >>> display = FeaturesDisplay.from_estimator(model, image_shape=shapes.image_shape)
    >>> display.pictures[0].shape, display.titles[0][-1]
    ((5, 121), 'origin')
    """

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        image_shape: Sequence[int] | None = None,
        figure: AnyFigure | None = None,
        cmap: Colors | None = None,
    ) -> FeaturesDisplay:
        """Read the features of a fitted `GVQ`, and plot them.

        Parameters
        ----------
        estimator : GVQ
            Fitted.
        image_shape, figure, cmap
            As for every `Display`.

        Returns
        -------
        display : FeaturesDisplay
        """
        check_is_fitted(estimator)
        D = estimator.n_features_in_
        shape = check_image_shape(image_shape, D)
        features = estimator.features_.reshape(len(estimator.origins_), -1, D)
        pictures = [np.vstack([f, o]) for f, o in zip(features, estimator.origins_, strict=True)]
        values = estimator.n_values - 1
        names = [
            f"feature {a // values}" + (f"\nvalue {a % values + 1}" if values > 1 else "")
            for a in range(features.shape[1])
        ]
        display = cls(
            pictures=pictures,
            titles=[[*names, "origin"]] * len(pictures),
            labels=[f"set {m}" if len(pictures) > 1 else "" for m in range(len(pictures))],
            limits=apart(np.concatenate(pictures)),
            feature_names=feature_names(estimator, D),
            image_shape=shape,
        )
        return display.plot(figure=figure, cmap=cmap)


@dataclass(kw_only=True, eq=False, repr=False)
class CodesDisplay(PicturesDisplay):
    """The most frequent codes, decoded (Figure 9).

    A group is a set; the title of a picture is its share of the rows.

    Parameters
    ----------
    codes : ndarray of shape (n_codes, n_code_columns)
        The codes shown, as `GVQ.encode` gives them, group after group.
    shares : ndarray of shape (n_codes,)
        Share of the rows that have each.

    Examples
    --------
    >>> from partwise import GVQ, make_shapes
    >>> from partwise.plot import CodesDisplay
    >>> shapes = make_shapes()
    >>> model = GVQ(n_components=4, max_iter=5, tol=1.0, random_state=0).fit(shapes.data)
    >>> display = CodesDisplay.from_estimator(
    ...     model, shapes.data, n_codes=6, image_shape=shapes.image_shape
    ... )
    >>> display.codes.shape
    (6, 4)
    """

    codes: np.ndarray
    shares: np.ndarray

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: ArrayLike,
        *,
        n_codes: int = 37,
        image_shape: Sequence[int] | None = None,
        figure: AnyFigure | None = None,
        cmap: Colors | None = None,
    ) -> CodesDisplay:
        """Find the most frequent codes and plot them.

        Parameters
        ----------
        estimator : GVQ
            Fitted.
        X : array-like of shape (n, D)
        n_codes : int, default=37
            Maximum number of codes, over all sets.
        image_shape, figure, cmap
            As for every `Display`.

        Returns
        -------
        display : CodesDisplay
        """
        found, counts = np.unique(estimator.encode(X), axis=0, return_counts=True)
        shape = check_image_shape(image_shape, estimator.n_features_in_)
        most = np.argsort(-counts, kind="stable")[:n_codes]
        n_sets = len(estimator.origins_)
        sets = found[most, 0] if n_sets > 1 else np.zeros(len(most), int)
        most = most[np.argsort(sets, kind="stable")]
        codes, shares, sets = found[most], counts[most] / counts.sum(), np.sort(sets)
        rows = estimator.decode(codes)
        shown = np.unique(sets)
        display = cls(
            codes=codes,
            shares=shares,
            pictures=[rows[sets == m] for m in shown],
            titles=[[percent(share) for share in shares[sets == m]] for m in shown],
            labels=[f"set {m}" if n_sets > 1 else "" for m in shown],
            limits=apart(rows),
            feature_names=feature_names(estimator, estimator.n_features_in_),
            image_shape=shape,
        )
        return display.plot(figure=figure, cmap=cmap)
