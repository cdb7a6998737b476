"""Recommender: predicted ratings, recommendations, questions and explanations."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from partwise.answers import recommend
from partwise.answers.preferences import tastes_of
from partwise.answers.recommend import (
    Catalog,
    Recommendation,
    columns_of,
    interval_of,
    items_among,
    point_of,
)
from partwise.contracts import Array
from partwise.data.ratings import check_scale, plain, read_levels, read_ratings
from partwise.estimators._rating_reasons import RatingReasons
from partwise.estimators.mcfa import MCFA
from partwise.estimators.mcvq import MCVQ
from partwise.fitted import fitted_of
from partwise.typing import Name, PathLike, RatingsLike, UserRatings

# Models that can predict ratings.
Member: TypeAlias = MCFA | MCVQ

# Number of factors of the default estimator, and its convergence tolerance in nats per person. The
# log-likelihood of a person's ratings is in the hundreds.
FACTORS, TOL = 16, 0.1


class Recommender(RatingReasons, BaseEstimator):
    """Recommendations and predicted ratings from a model of users as rows and items as columns.

    It is fitted to ratings of users for items. Afterwards a person, known or new, is a mapping of
    items to ratings; their tastes are inferred without fitting again.

    Parameters
    ----------
    estimator : estimator, sequence of estimators or None, default=None
        `MCFA` or `MCVQ`; the predicted distributions of several are averaged. None is
        ``MCFA(1, 16, likelihood="ordinal", tol=0.1)``, with fewer factors if there are fewer items.
    levels : sequence of numbers or None, default=None
        The scale, such as ``[1, 2, 3, 4, 5]``; None uses the ratings that occur.
    unknown : {"warn", "raise"}, default="warn"
        Unknown items in a request are left out with a warning, or raise an error.
    verbose : int, default=0
        Above 0 a progress bar is shown, if ``estimator`` is None.

    Attributes
    ----------
    estimators_ : list of estimators
        Fitted.
    items_ : list
        Items, in the order of the estimators' columns.
    levels_ : ndarray of shape (L,)
        The scale, ascending.
    n_users_ : int
        Number of people in the fit.

    References
    ----------
    D. A. Ross and R. S. Zemel, Multiple Cause Vector Quantization, NIPS 15, 2003.
    C. Boutilier, R. S. Zemel and B. Marlin, Active Collaborative Filtering, UAI 2003.

    Examples
    --------
    >>> from partwise import MCVQ, Recommender
    >>> users = [u for u in range(40) for _ in range(4)]
    >>> items = ["Alien", "Aliens", "Emma", "Persuasion"] * 40
    >>> ratings = [r for u in range(40) for r in ((5, 5, 1, 2) if u % 2 else (2, 1, 5, 4))]
    >>> model = Recommender(MCVQ(1, 2, likelihood="categorical", random_state=0))
    >>> model = model.fit((users, items, ratings))
    >>> model.predict({"Alien": 5}, ["Aliens", "Emma"])
    array([5., 1.])
    >>> model.recommend({"Emma": 5}, n=1)[0].item
    'Persuasion'
    """

    def __init__(
        self,
        estimator: Member | Sequence[Member] | None = None,
        *,
        levels: Sequence[float] | Array | None = None,
        unknown: str = "warn",
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.levels = levels
        self.unknown = unknown
        self.verbose = verbose

    # --- fitting ---

    def fit(self, ratings: RatingsLike, y: object = None) -> Recommender:
        """Fit to ratings.

        Parameters
        ----------
        ratings : DataFrame, tuple of three arrays, or sparse matrix
            With columns user, item and rating; the same three as arrays; or users in rows and items
            in columns, where an entry that is not stored is not rated. Users and items are any
            hashable values. If a pair is given twice the last rating is used, with a warning.
        y : ignored

        Returns
        -------
        self
        """
        if self.unknown not in ("warn", "raise"):
            raise ValueError(f"unknown={self.unknown!r} must be 'warn' or 'raise'.")
        self._members(0)  # raise errors before work starts
        read = read_ratings(ratings)
        levels = read_levels(self.levels, read.matrix.data)
        check_scale(read.matrix.data, levels)
        if read.matrix.shape[0] < 2 or read.matrix.shape[1] < 2:
            raise ValueError(
                f"There are ratings of {read.matrix.shape[0]} users for {read.matrix.shape[1]} "
                "items; at least two of each are needed."
            )
        X = read.matrix.astype(np.float32)
        with warnings.catch_warnings():
            # An item without ratings is predicted as the average item.
            warnings.filterwarnings("ignore", "[0-9]+ of [0-9]+ columns have no observed value")
            fitted = [clone(member).fit(X) for member in self._members(X.shape[1])]
        counts = np.bincount(X.indices, minlength=X.shape[1])
        self._adopt(fitted, read.items, levels, counts, X.shape[0])
        return self

    def add_items(self, ratings: RatingsLike) -> Recommender:
        """Add new items from their first ratings; nothing else changes.

        Parameters
        ----------
        ratings : DataFrame or tuple of three arrays
            As in `fit`. Give the ratings of the new items and, of the same users, those of known
            items, which show who likes the new ones. A user without a new item is left out.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        if sparse.issparse(ratings):
            raise ValueError("New items need names; give users, items and ratings, not a matrix.")
        read, known = read_ratings(ratings), self._fitted
        check_scale(read.matrix.data, known.levels)
        new = [item for item in read.items if item not in known.place]
        if not new:
            raise ValueError("The ratings contain no new item; all items are known.")
        items = [*known.items, *new]
        place = {item: i for i, item in enumerate(items)}
        X = read.matrix.tocoo()
        columns = np.array([place[item] for item in read.items])[X.col]
        X = sparse.csr_matrix((X.data, (X.row, columns)), (X.shape[0], len(items)))
        X = X[np.diff(X[:, len(known.items) :].indptr) > 0]
        members = zip(self.estimators_, known.tastes, strict=True)
        fitted = [member._widened(taste.on_known_levels(X)) for member, taste in members]
        first = np.bincount(X.indices, minlength=len(items))[len(known.items) :]
        self._adopt(fitted, items, known.levels, np.append(known.counts, first), known.n_users)
        return self

    def _members(self, n_items: int) -> list[Member]:
        """Checked, unfitted estimators for this number of items."""
        if self.estimator is None:
            factors = max(min(FACTORS, n_items), 1)
            return [
                MCFA(
                    1, factors, likelihood="ordinal", tol=TOL, random_state=0, verbose=self.verbose
                )
            ]
        given = self.estimator
        members = list(given) if isinstance(given, Sequence) else [given]
        if not members:
            raise ValueError("estimator is an empty list; give at least one estimator.")
        for member in members:
            if not isinstance(member, MCFA | MCVQ):
                raise ValueError(
                    f"estimator={type(member).__name__} cannot predict ratings; choose MCFA, "
                    "MCVQ or a list of them."
                )
            if member._absent_zero():
                raise ValueError(
                    f"estimator={member} treats unrated entries as zeros; set "
                    'sparse_absent="unobserved".'
                )
        return members

    def _adopt(
        self,
        fitted: list[Member],
        items: list[Hashable],
        levels: Array,
        counts: Array,
        n_users: int,
    ) -> None:
        """Set the learned attributes; ``counts`` (D,) says how often each item was rated."""
        popularity = counts / counts.sum()
        tastes = tuple(
            tastes_of(fitted_of(member), levels, popularity, member.n_jobs) for member in fitted
        )
        self._fitted = Catalog(tastes, items, levels, counts, n_users)
        self.estimators_, self.items_, self.levels_, self.n_users_ = fitted, items, levels, n_users

    def _columns(self, items: Sequence[Name] | Array) -> Array:
        """Columns of items to predict."""
        then = "they are predicted as the average item"
        return columns_of(self._fitted, items, self.unknown, then)

    # --- predictions ---

    def predict(
        self,
        user_ratings: UserRatings,
        items: Sequence[Name] | Array | None = None,
        *,
        point: str = "median",
    ) -> Array:
        """Predicted ratings of a person.

        An item without ratings, known or not, is predicted as the average item: the mean prediction
        of all items, weighted by their number of ratings. With ``unknown="raise"`` an unknown item
        is an error.

        Parameters
        ----------
        user_ratings : mapping of items to ratings
            Ratings of the person; may be empty.
        items : sequence, optional
            Items to predict; all of ``items_`` if not given.
        point : {"median", "mean"}, default="median"
            The median minimizes the expected absolute error, the mean the squared error.

        Returns
        -------
        ratings : ndarray of shape (n_items,)
        """
        if point not in ("median", "mean"):
            raise ValueError(f"point={point!r} must be 'median' or 'mean'.")
        return point_of(self.predict_distribution(user_ratings, items), self.levels_, point)

    def predict_distribution(
        self, user_ratings: UserRatings, items: Sequence[Name] | Array | None = None
    ) -> Array:
        """Probability of every level of the scale.

        Parameters
        ----------
        user_ratings : mapping of items to ratings
        items : sequence, optional
            All of ``items_`` if not given.

        Returns
        -------
        probability : ndarray of shape (n_items, L)
            Columns in the order of ``levels_``.
        """
        person = self._person(user_ratings)
        if items is None:
            return recommend.level_shares(self._fitted, person)
        return recommend.some_shares(self._fitted, person, self._columns(items))

    def predict_interval(
        self,
        user_ratings: UserRatings,
        items: Sequence[Name] | Array | None = None,
        coverage: float = 0.9,
    ) -> tuple[Array, Array]:
        """Intervals that contain the rating with at least probability ``coverage``.

        Parameters
        ----------
        user_ratings : mapping of items to ratings
        items : sequence, optional
            All of ``items_`` if not given.
        coverage : float, default=0.9

        Returns
        -------
        lower, upper : ndarray of shape (n_items,)
        """
        if not 0 < coverage < 1:
            raise ValueError(f"coverage={coverage!r} must lie above 0 and below 1, as 0.9.")
        shares = self.predict_distribution(user_ratings, items)
        return interval_of(shares, self.levels_, coverage)

    def predict_pairs(
        self,
        known: RatingsLike,
        users: Sequence[Name] | Array,
        items: Sequence[Name] | Array,
        *,
        point: str = "median",
    ) -> Array:
        """Predicted ratings of many people at once.

        Parameters
        ----------
        known : DataFrame, tuple of three arrays, or sparse matrix
            Ratings of these people, as in `fit`; items that are not in ``items_`` raise an error.
        users, items : array-like of shape (n,)
            Pairs to predict; a user without known ratings is predicted from the prior.
        point : {"median", "mean", "distribution"}, default="median"

        Returns
        -------
        ratings : ndarray of shape (n,) or (n, L)
        """
        check_is_fitted(self)
        if point not in ("median", "mean", "distribution"):
            raise ValueError(f"point={point!r} must be 'median', 'mean' or 'distribution'.")
        read = read_ratings(known, self.items_)
        check_scale(read.matrix.data, self.levels_)
        place = {user: i for i, user in enumerate(read.users)}
        nobody = len(place)  # a row without ratings
        rows = np.array([place.get(user, nobody) for user in plain(users)], np.int64)
        columns = self._columns(items)
        empty = sparse.csr_matrix((1, len(self.items_)))
        X = sparse.vstack([read.matrix, empty], format="csr").astype(np.float32)
        asked, rows = np.unique(rows, return_inverse=True)
        X = X[asked] if len(asked) else empty
        shares = recommend.pair_shares(self._fitted, X, rows, columns)
        return shares if point == "distribution" else point_of(shares, self.levels_, point)

    def recommend(
        self,
        user_ratings: UserRatings,
        n: int = 10,
        *,
        among: Iterable[Name] | None = None,
        min_ratings: int = 1,
    ) -> list[Recommendation]:
        """Items with the highest expected rating that the person has not rated.

        Parameters
        ----------
        user_ratings : mapping of items to ratings
        n : int, default=10
        among : iterable of items, optional
            Items that may be recommended, such as those in stock; all if not given.
        min_ratings : int, default=1
            Minimum number of ratings of a recommended item.

        Returns
        -------
        recommendations : list of at most n Recommendation
            Best first.
        """
        if n < 1:
            raise ValueError(f"n={n!r} must be at least 1.")
        person = self._person(user_ratings)
        allowed = items_among(self._fitted, among, self.unknown)
        allowed &= self._fitted.counts >= min_ratings
        allowed[person.columns] = False
        return recommend.recommend(self._fitted, person, allowed, n)

    # --- showing and saving ---

    def show(self, *, title: str = "Recommender", height: int = 900) -> None:
        """Display the explorer in a notebook: questions, recommendations and their reasons.

        Parameters
        ----------
        title : str, default="Recommender"
        height : int, default=900
            In pixels.
        """
        from partwise.report import show

        show(self, height, title=title)

    def save(self, path: PathLike) -> None:
        """Write the fitted recommender to one safetensors file; `partwise.load` reads it.

        Items must be numbers or text.

        Parameters
        ----------
        path : str or path-like
        """
        from partwise.files.model import save

        check_is_fitted(self)
        save(self, path)

    def __partwise_state__(self) -> dict[str, object]:
        items = np.empty(len(self.items_), dtype=object)
        items[:] = self.items_
        return {
            "members": [member.__partwise_state__() for member in self.estimators_],
            "items": items,
            "levels": self.levels_,
            "counts": self._fitted.counts,
            "n_users": self.n_users_,
        }

    def __partwise_restore__(self, state: dict[str, Any]) -> None:
        members = [clone(member) for member in self._members(len(state["items"]))]
        for member, own in zip(members, state["members"], strict=True):
            member.__partwise_restore__(own)
        kept = (state[name] for name in ("levels", "counts", "n_users"))
        self._adopt(members, list(state["items"]), *kept)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")
