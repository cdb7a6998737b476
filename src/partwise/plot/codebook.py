"""Rows, features and codebook of a GVQ in the plane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from partwise.plot._display import PlainAxesDisplay
from partwise.plot._draw import get_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Codes plotted per set; more would overlap.
MOST_CODES = 4096


@dataclass(kw_only=True, eq=False, repr=False)
class CodebookDisplay(PlainAxesDisplay):
    """The geometry of a codebook in two dimensions (Westerdijk et al., Figures 1 and 6).

    Circles are the decoded codes, arrows the features from the origin of their set,
    dashed lines the origins from zero. Rows of more than two columns are plotted in the plane of
    their two largest principal components.

    Parameters
    ----------
    rows : ndarray of shape (n, 2)
        The data.
    codebook : list of ndarray of shape (n_codes, 2)
        Decoded codes of each set.
    origins : ndarray of shape (n_sets, 2)
    features : ndarray of shape (n_sets, n_atoms, 2)
        What each feature adds.
    zero : ndarray of shape (2,)
        Where a row of zeros is plotted.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was plotted.
    figure_ : matplotlib Figure or SubFigure
        The figure of ``ax_``.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import GVQ
    >>> from partwise.plot import CodebookDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(2, size=(200, 3)) @ rng.normal(size=(3, 2))
    >>> model = GVQ(n_components=3, random_state=0).fit(X)
    >>> CodebookDisplay.from_estimator(model, X).codebook[0].shape
    (8, 2)
    """

    rows: np.ndarray
    codebook: list[np.ndarray]
    origins: np.ndarray
    features: np.ndarray
    zero: np.ndarray

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, X: ArrayLike, *, ax: Axes | None = None
    ) -> CodebookDisplay:
        """Project rows and codebook of a fitted `GVQ` into the plane and plot them.

        Parameters
        ----------
        estimator : GVQ
            Fitted.
        X : array-like of shape (n, D)
            Missing values are imputed by the model.
        ax
            As for `plot`.

        Returns
        -------
        display : CodebookDisplay
        """
        check_is_fitted(estimator)
        filled = np.asarray(estimator.impute(X), dtype=float)
        M, D = estimator.origins_.shape
        J, K = estimator.n_values, estimator.n_components
        if J**K > MOST_CODES:
            raise ValueError(
                f"{K} features make {J**K:,} codes; at most {MOST_CODES:,} can be plotted."
            )
        codes = np.indices((J,) * K).reshape(K, -1).T
        books = [
            estimator.decode(np.column_stack([np.full(len(codes), m), codes]) if M > 1 else codes)
            for m in range(M)
        ]
        center, plane = filled.mean(axis=0), np.eye(D, 2)
        if D > 2:
            plane = np.linalg.svd(filled - center, full_matrices=False)[2][:2].T
        else:
            center = np.zeros(D)
        features = estimator.features_.reshape(M, -1, D) @ plane
        display = cls(
            rows=(filled - center) @ plane,
            codebook=[(book - center) @ plane for book in books],
            origins=(estimator.origins_ - center) @ plane,
            features=features,
            zero=-center @ plane,
        )
        return display.plot(ax=ax)

    def _plot(self, ax: Axes | None) -> Axes:
        ax = get_axes(ax, 4.5, 4.5)
        ax.plot(*self.rows.T, ".", color="0.7", markersize=3, zorder=1)
        for m, (book, origin) in enumerate(zip(self.codebook, self.origins, strict=True)):
            color = f"C{m % 10}"
            ax.plot(*np.stack([self.zero, origin]).T, "--", color=color, linewidth=1.0)
            for feature in self.features[m]:
                arrow = {"arrowstyle": "->", "color": color}
                ax.annotate("", origin + feature, origin, arrowprops=arrow)
            ax.plot(*book.T, "o", color=color, fillstyle="none", markersize=6)
        ax.set_aspect("equal", adjustable="datalim")
        ax.spines[["top", "right"]].set_visible(False)
        return ax
