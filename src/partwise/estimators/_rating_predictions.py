"""Predicted ratings and recommendations, for one person or many: methods of the recommender."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from numbers import Real
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from partwise._text import plural
from partwise.answers.ranking import Ranked, rank, ranking_of
from partwise.answers.recommend import (
    People,
    Recommendation,
    cells_of,
    columns_of,
    everything_of,
    interval_of,
    items_among,
    point_of,
    warn_unrated,
)
from partwise.contracts import Array
from partwise.data.ratings import check_scale, check_whole, plain, read_ratings
from partwise.estimators._rating_reasons import RatingReasons
from partwise.typing import Name, RatingsLike, UserRatings


class Recommendations(NamedTuple):
    """Recommendations to many people: one row per person, best item first.

    ``users`` (n,) and ``items`` (n, k) are names, ``items`` None where a person has too few;
    ``value``, ``choice``, ``rating``, ``lower`` and ``upper`` (n, k) are as in `Recommendation`.
    """

    users: list[Hashable]
    items: Array
    value: Array
    choice: Array
    rating: Array
    lower: Array
    upper: Array


class RatingPredictions(RatingReasons):
    """Predicts ratings, and recommends items."""

    items_: list[Hashable]
    levels_: Array

    def _columns(self, items: Sequence[Name] | Array) -> Array:
        """Columns of items to predict."""
        return columns_of(self._fitted, items, self.unknown, "predicted as the average item")

    def predict(
        self,
        user_ratings: UserRatings | Name,
        items: Sequence[Name] | Array | None = None,
        *,
        point: str = "median",
    ) -> Array:
        """Predicted ratings of a person.

        An item without ratings, known or not, is predicted as the average item: the mean prediction
        of all items, weighted by their number of ratings. With ``Recommender(unknown="raise")`` an
        unknown item is an error. With item features it is predicted from similar items. With
        implicit feedback the prediction is the probability that the person takes the item.

        Parameters
        ----------
        user_ratings : mapping of items to ratings, or id
            Ratings of the person, may be empty; or text or a number that is the id of a user of the
            fit. The rating of an item that nobody else has rated is not used, with a warning.
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
        shares = self.predict_distribution(user_ratings, items)
        return point_of(shares, self.levels_, "mean" if self._fitted.implicit else point)

    def predict_distribution(
        self, user_ratings: UserRatings | Name, items: Sequence[Name] | Array | None = None
    ) -> Array:
        """Probability of every level of the scale.

        Parameters
        ----------
        user_ratings : mapping of items to ratings, or id
        items : sequence, optional
            All of ``items_`` if not given.

        Returns
        -------
        probability : ndarray of shape (n_items, L)
            Columns in the order of ``levels_``.
        """
        person = self._one(user_ratings)[1]
        if items is None:
            return everything_of(self._fitted, person)
        columns = self._columns(items)
        return cells_of(self._fitted, person, np.zeros(len(columns), np.int64), columns)

    def predict_interval(
        self,
        user_ratings: UserRatings | Name,
        items: Sequence[Name] | Array | None = None,
        coverage: float = 0.9,
    ) -> tuple[Array, Array]:
        """Intervals that contain the rating with at least probability ``coverage``.

        Parameters
        ----------
        user_ratings : mapping of items to ratings, or id
        items : sequence, optional
            All of ``items_`` if not given.
        coverage : float, default=0.9

        Returns
        -------
        lower, upper : ndarray of shape (n_items,)
        """
        if not isinstance(coverage, Real) or not 0 < coverage < 1:
            raise ValueError(f"coverage={coverage!r} must lie above 0 and below 1, as 0.9.")
        shares = self.predict_distribution(user_ratings, items)
        return interval_of(shares, self.levels_, coverage)

    def predict_pairs(
        self,
        known: RatingsLike | None,
        users: Sequence[Name] | Array,
        items: Sequence[Name] | Array,
        *,
        point: str = "median",
    ) -> Array:
        """Predicted ratings of many people at once.

        Parameters
        ----------
        known : DataFrame, tuple of three arrays, sparse matrix, or None
            Ratings of these people, as in `fit`; items that are not in ``items_`` raise an error.
            None uses the ratings of the fit.
        users, items : array-like of shape (n,)
            Pairs to predict; a user without known ratings is predicted from the prior.
        point : {"median", "mean", "distribution"}, default="median"

        Returns
        -------
        ratings : ndarray of shape (n,) or (n, L)

        Examples
        --------
        >>> from partwise import Recommender
        >>> model = Recommender().fit(([1, 1, 2, 2, 3, 3], [*"abbaab"], [5, 1, 2, 4, 5, 2]))
        >>> model.predict_pairs(None, [1, 2], ["a", "b"]).shape
        (2,)
        """
        check_is_fitted(self)
        if point not in ("median", "mean", "distribution"):
            raise ValueError(f"point={point!r} must be 'median', 'mean' or 'distribution'.")
        columns = self._columns(items)
        asked, rows = self._rows(known, users)
        if len(rows) != len(columns):
            raise ValueError(
                f"There are {plural(len(rows), 'user')} and {plural(len(columns), 'item')}, but "
                "each pair needs both."
            )
        shares = cells_of(self._fitted, asked, rows, columns)
        if point == "distribution":
            return shares
        return point_of(shares, self.levels_, "mean" if self._fitted.implicit else point)

    def _rows(
        self, known: RatingsLike | None, users: Sequence[Name] | Array
    ) -> tuple[People, Array]:
        """People who are asked for, each once, and the row of each user among them."""
        names = plain(users)
        if known is None:
            ids = list(dict.fromkeys(names))
            place = {user: i for i, user in enumerate(ids)}
            people = self._fitted.some_people(ids)[1]
            return people, np.array([place[user] for user in names], np.int64)
        read = read_ratings(known, self.items_, implicit=self._fitted.implicit)
        check_scale(read.matrix.data, self.levels_)
        warn_unrated(self._fitted, read.matrix.indices)
        place = {user: i for i, user in enumerate(read.users)}
        nobody = len(place)  # a row without ratings
        rows = np.array([place.get(user, nobody) for user in names], np.int64)
        empty = sparse.csr_matrix((1, len(self.items_)))
        X = sparse.vstack([read.matrix, empty], format="csr").astype(np.float32)
        asked, rows = np.unique(rows, return_inverse=True)
        return self._fitted.people(X[asked] if len(asked) else X[-1:]), rows

    # --- recommendations ---

    def recommend(
        self,
        user_ratings: UserRatings | Iterable[Name] | Name,
        n: int = 10,
        *,
        by: str = "value",
        exponent: float = 1.0,
        utility: ArrayLike | None = None,
        among: Iterable[Name] | None = None,
        min_ratings: int = 1,
    ) -> list[Recommendation]:
        """Select the best items that the person has not rated.

        Parameters
        ----------
        user_ratings : mapping of items to ratings, or id
            With implicit feedback also a collection of items, as a list or a Series, whose values
            are the items. Text or a number is the id of a user of the fit.
        n : int, default=10
        by : {"value", "rating", "choice"}, default="value"
            "value" is the probability that the person takes the item, to the power ``exponent``,
            times the expected utility of its rating. "rating" is the expected rating, as if the
            person took any item; "choice" is the probability of taking it alone.
        exponent : float, default=1.0
            Above 1 prefers what the person would take anyway, below 1 what they would like.
        utility : array-like of shape (L,), optional
            Utility of each level of ``levels_``, at least 0. If not given it is 1 for ratings of at
            least ``like_`` and 0 for others, so that its expectation is the probability of liking.
        among : iterable of items, optional
            Items that may be recommended, such as those in stock; all if not given.
        min_ratings : int, default=1
            Minimum number of ratings of a recommended item; 0 allows new items.

        Returns
        -------
        recommendations : list of at most n Recommendation
            Best first.

        Examples
        --------
        >>> from partwise import Recommender
        >>> users, items = [1, 1, 2, 2, 3, 3, 4, 4], [*"abbaabcb"]
        >>> model = Recommender().fit((users, items, [5, 1, 2, 4, 5, 2, 4, 5]))
        >>> [found.item for found in model.recommend({"c": 4}, n=2, by="choice")]
        ['b', 'a']
        """
        person = self._one(user_ratings)[1]
        found = self._ranked(person, n, by, exponent, utility, among, min_ratings)
        columns = found.columns[0]
        fields = (found.rating, found.lower, found.upper, found.choice, found.value)
        numbers = zip(columns, *(field[0].tolist() for field in fields), strict=True)
        return [Recommendation(self.items_[d], *rest) for d, *rest in numbers if d >= 0]

    def recommend_many(
        self,
        users: Sequence[Name] | Array | None = None,
        n: int = 10,
        *,
        by: str = "value",
        exponent: float = 1.0,
        utility: ArrayLike | None = None,
        among: Iterable[Name] | None = None,
        min_ratings: int = 1,
    ) -> Recommendations:
        """Select the best items for many users of the fit, by id.

        Parameters
        ----------
        users : sequence, optional
            Ids; all users of the fit if not given.
        n, by, exponent, utility, among, min_ratings
            As in `recommend`.

        Returns
        -------
        recommendations : Recommendations

        Examples
        --------
        >>> from partwise import Recommender
        >>> users, items = [1, 1, 2, 2, 3, 3, 4, 4], [*"abbaabcb"]
        >>> model = Recommender().fit((users, items, [5, 1, 2, 4, 5, 2, 4, 5]))
        >>> model.recommend_many([1, 4], n=1).items.tolist()
        [['c'], ['a']]
        """
        check_is_fitted(self)
        ids, people = self._fitted.some_people(users)
        found = self._ranked(people, n, by, exponent, utility, among, min_ratings)
        names = np.empty(len(self.items_) + 1, dtype=object)
        names[:-1] = self.items_  # the last, of column -1, is None
        fields = (found.value, found.choice, found.rating, found.lower, found.upper)
        return Recommendations(ids, names[found.columns], *fields)

    def _ranked(
        self,
        people: People,
        n: int,
        by: str,
        exponent: float,
        utility: ArrayLike | None,
        among: Iterable[Name] | None,
        min_ratings: int,
    ) -> Ranked:
        check_whole("n", n)
        check_whole("min_ratings", min_ratings, 0)
        allowed = items_among(self._fitted, among, self.unknown)
        allowed &= self._fitted.counts >= min_ratings
        ranking = ranking_of(self._fitted, by, exponent, utility)
        return rank(self._fitted, people, allowed, n, ranking)

    # --- people and items as arrays ---

    def known_users(self) -> list[Hashable]:
        """Ids of the users of the fit.

        Returns
        -------
        users : list
        """
        check_is_fitted(self)
        return list(self._fitted.remembered().ids)

    def item_counts(self) -> Array:
        """Number of ratings of each item, in the order of ``items_``.

        Returns
        -------
        counts : ndarray of shape (n_items,)
        """
        check_is_fitted(self)
        return self._fitted.counts.copy()

    def user_ratings(self, user: Name) -> dict[Hashable, float]:
        """Ratings of a user of the fit.

        Parameters
        ----------
        user
            Id.

        Returns
        -------
        ratings : dict of item to rating
        """
        check_is_fitted(self)
        (row,) = self._fitted.user_rows([user])
        person = self._fitted.remembered().ratings[row]
        return {self.items_[d]: float(v) for d, v in zip(person.indices, person.data, strict=True)}

    def user_vectors(self, users: Sequence[Name] | Array | None = None) -> Array:
        """Vectors of users of the fit, by the first estimator.

        The product of a user's and an item's vector is the expected rating (with an ordinal model
        its latent number).

        Parameters
        ----------
        users : sequence, optional
            Ids; all users of the fit if not given.

        Returns
        -------
        vectors : ndarray of shape (n_users, V)

        Examples
        --------
        >>> from partwise import Recommender
        >>> model = Recommender().fit(([1, 1, 2, 2, 3, 3], [*"abbaab"], [5, 1, 2, 4, 5, 2]))
        >>> (model.user_vectors() @ model.item_vectors().T).shape
        (3, 2)
        """
        check_is_fitted(self)
        people = self._fitted.some_people(users)[1]
        return self._fitted.tastes[0].user_vectors(people.features[0])

    def item_vectors(self) -> Array:
        """Vectors of all items, in the order of ``items_``; see `user_vectors`.

        Returns
        -------
        vectors : ndarray of shape (n_items, V)
        """
        check_is_fitted(self)
        return self._fitted.tastes[0].item_vectors()
