"""Recommender: predicted ratings, recommendations, questions and explanations."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from numbers import Real
from typing import TypeAlias

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from partwise.answers.preferences import tastes_of
from partwise.answers.recommend import Catalog, KnownUsers
from partwise.answers.side_features import Sides
from partwise.contracts import Array
from partwise.data.ratings import (
    ColumnNames,
    Ratings,
    as_objects,
    check_scale,
    check_whole,
    csr_fields,
    csr_of,
    merge_ratings,
    read_levels,
    read_ratings,
)
from partwise.estimators._gated import absent_is_zero
from partwise.estimators._rating_predictions import RatingPredictions
from partwise.estimators.mcfa import MCFA
from partwise.estimators.mcvq import MCVQ
from partwise.fitted import fitted_of
from partwise.fitting.choice_fit import fit_choice
from partwise.models.choice import Choice, popularity_alone
from partwise.models.rated_set import ROUNDS
from partwise.typing import FeaturesLike, Name, PathLike, RatingsLike, SavedState

# Models that can predict ratings.
Member: TypeAlias = MCFA | MCVQ

# Number of factors of the default estimator, and its convergence tolerance in nats per person. The
# log-likelihood of a person's ratings is in the hundreds.
FACTORS, TOL = 16, 0.1

# Numbers of parts and states of the default estimator of implicit feedback.
PARTS, STATES = 5, 6


class Recommender(RatingPredictions, BaseEstimator):
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
        Whether unknown items in a request are left out with a warning, or raise an error; of a
        fitted model ``set_params(unknown="raise")`` changes it. No method has this argument.
    verbose : int, default=0
        Above 0 a progress bar is shown, if ``estimator`` is None.
    feedback : {"auto", "explicit", "implicit"}, default="auto"
        Whether ratings say how much an item is liked, or a pair of user and item only says that the
        item was taken (clicks, purchases, counts). "auto" is implicit if there are no ratings.
    like : float or None, default=None
        The lowest rating that counts as liking an item; None is the first level above the mean.
    max_choice_items : int, default=10_000
        Number of items, the most popular, in the model of what people take. Its weights need
        4 bytes per pair of items: 400 MB for 10,000. 0 leaves popularity alone.
    rated_set : bool, default=False
        Whether the set of items that a person rated is evidence about tastes, beside the ratings:
        it moves the mean of the factors of every `MCFA` without classes; other estimators predict
        as before. Leave it off if people do not choose what they rate.

    Attributes
    ----------
    estimators_ : list of estimators
        Fitted.
    items_ : list
        Items, in the order of the estimators' columns.
    levels_ : ndarray of shape (L,)
        The scale, ascending.
    n_users_ : int
        Number of people with ratings in the fit.
    like_ : float
        The lowest rating that counts as liking an item.
    implicit_ : bool
        Whether the feedback was implicit.

    References
    ----------
    H. Steck, Embarrassingly Shallow Autoencoders for Sparse Data, WWW 2019.
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
        feedback: str = "auto",
        like: float | None = None,
        max_choice_items: int = 10_000,
        rated_set: bool = False,
    ) -> None:
        self.estimator = estimator
        self.levels = levels
        self.unknown = unknown
        self.verbose = verbose
        self.feedback = feedback
        self.like = like
        self.max_choice_items = max_choice_items
        self.rated_set = rated_set

    # --- fitting ---

    def fit(
        self,
        ratings: RatingsLike,
        y: object = None,
        *,
        user: Name = "user",
        item: Name = "item",
        rating: Name | None = "rating",
        timestamp: Name | None = None,
        item_features: FeaturesLike | None = None,
        user_features: FeaturesLike | None = None,
    ) -> Recommender:
        """Fit to ratings, or to the items that users took.

        Parameters
        ----------
        ratings : DataFrame, tuple of three or two arrays, or sparse matrix
            With columns user, item and rating; the same three as arrays; or users in rows and items
            in columns, where an entry that is not stored is not rated. Users and items are any
            hashable values. If a pair is given twice the last rating is used, with a warning.
            Without ratings the feedback is implicit.
        y : ignored
        user, item, rating, timestamp : names of columns
            Of a DataFrame. ``rating=None`` ignores ratings; a timestamp is only used to find the
            last of several ratings of the same pair.
        item_features, user_features : DataFrame or tuple (ids, array), optional
            Numbers, dates, text, categories and missing values, one row per item or user; ids are
            in the column that ``item`` or ``user`` names or, if there is none, in a column item or
            user, or in the index. Items and users without ratings are predicted from those with
            similar features; nothing else depends on them.

        Returns
        -------
        self

        Examples
        --------
        >>> from partwise import Recommender
        >>> users, items = [1, 1, 2, 2, 3, 3, 3, 4], [*"abababca"]
        >>> model = Recommender().fit((users, items))  # implicit feedback
        >>> model.recommend(["a"], n=1)[0].item
        'b'
        """
        check_arguments(self)
        names = ColumnNames(user, item, rating, timestamp)
        read = self._read(ratings, names)
        sides = Sides.read(item_features, user_features, names, read)
        read = sides.extend(read)
        X = read.matrix.astype(np.float32)
        # Users and items without ratings change nothing that is learned of the others.
        items = rated_items(X)
        few = X[np.diff(X.indptr) > 0][:, items]
        if min(few.shape) < 2:
            raise ValueError(
                f"There are ratings of {few.shape[0]} users for {few.shape[1]} items; at least two "
                "of each are needed."
            )
        levels = np.array([0.0, 1.0])
        if not read.implicit:
            levels = read_levels(self.levels, read.matrix.data)
            check_scale(read.matrix.data, levels)
            check_like(self.like, levels)
        members = members_of(self, few.shape[1], read.implicit, few.shape[0])
        fitted = [clone(member).fit(few) for member in members]
        if len(items) < X.shape[1]:
            fitted = [widened(member, X[:0], np.arange(len(items)), items) for member in fitted]
        return self._learn(fitted, read, levels, X, sides)

    def partial_fit(
        self,
        ratings: RatingsLike,
        y: object = None,
        *,
        user: Name = "user",
        item: Name = "item",
        rating: Name | None = "rating",
        timestamp: Name | None = None,
        item_features: FeaturesLike | None = None,
        user_features: FeaturesLike | None = None,
    ) -> Recommender:
        """Learn new ratings, users and items; the first call is `fit`.

        The model of what people take is the same as that of a fit to all ratings, with the penalty
        of the first fit. New items get parameters of the rating models as in `add_items`; those of
        known items do not change, so fit again from time to time.

        Parameters
        ----------
        ratings, y, user, item, rating, timestamp
            As in `fit`; a rating of a known pair replaces the old one.
        item_features, user_features
            As in `fit`, of all items and users.

        Returns
        -------
        self

        Examples
        --------
        >>> from partwise import Recommender
        >>> model = Recommender().fit(([1, 1, 2, 2, 3, 3], [*"abbaab"], [5, 1, 2, 4, 5, 2]))
        >>> model = model.partial_fit(([4, 4], [*"ac"], [5, 4]))
        >>> model.items_, model.user_ratings(4)
        (['a', 'b', 'c'], {'a': 5.0, 'c': 4.0})
        """
        names = ColumnNames(user, item, rating, timestamp)
        features = {"item_features": item_features, "user_features": user_features}
        if not hasattr(self, "_fitted"):
            return self.fit(ratings, y, **names.by_role(), **features)
        read, known = self._read_more(ratings, names), self._fitted
        users = known.remembered()
        merged = merge_ratings(Ratings(users.ids, known.items, users.ratings), read)
        sides = Sides.read(item_features, user_features, names, merged)
        merged = sides.extend(merged)
        X = merged.matrix.astype(np.float32)
        fitted = self._widened(X)
        penalty = known.choice.penalty
        return self._learn(fitted, merged, known.levels, X, sides, penalty)

    def add_items(self, ratings: RatingsLike) -> Recommender:
        """Add new items from their first ratings; nothing else changes.

        Parameters
        ----------
        ratings : DataFrame or tuple of three arrays
            As in `fit`. Give the ratings of the new items and, of the same users, those of known
            items, which show who likes the new ones. A user without a new item is left out. An item
            that had features and no ratings is new.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        if sparse.issparse(ratings):
            raise ValueError("New items need names; give users, items and ratings, not a matrix.")
        read, known = self._read_more(ratings, ColumnNames()), self._fitted
        merged = merge_ratings(Ratings([], known.items, None), read)
        items, X = merged.items, merged.matrix
        n_new = len(items) - len(known.items)
        counts = np.pad(known.counts, (0, n_new))
        first = np.where(counts == 0, np.bincount(X.indices, minlength=len(items)), 0)
        if not first.any():
            raise ValueError("The ratings contain no new item; all items are known.")
        users = known.known
        if users is not None:
            wide = sparse.csr_matrix((users.ratings.shape[0], n_new), dtype=np.float32)
            users = replace(users, ratings=sparse.hstack([users.ratings, wide], format="csr"))
        lent = known.lent
        if lent is not None:
            lent.resize(len(items), len(items))
        share = np.pad(known.choice.share, (0, n_new)) + first / known.n_users
        catalog = replace(
            known,
            tastes=known.tastes,
            items=items,
            counts=counts + first,
            choice=replace(known.choice, share=share),
            known=users,
            lent=lent,
        )
        # That a new item was rated says nothing yet.
        weights = [
            None if y is None else np.pad(y, [(0, n_new), (0, 0)])
            for y in (taste.weights for taste in known.tastes)
        ]
        return self._adopt(self._widened(X), catalog, weights)

    def _read(self, ratings: RatingsLike, names: ColumnNames) -> Ratings:
        """Ratings, or items taken if the feedback is implicit."""
        read = read_ratings(ratings, names=names, implicit=self.feedback == "implicit")
        if read.implicit and self.feedback == "explicit":
            raise ValueError('There are no ratings; add them, or set feedback="implicit".')
        return read

    def _read_more(self, ratings: RatingsLike, names: ColumnNames) -> Ratings:
        """Ratings of the kind and on the scale of the fit."""
        read = self._read(ratings, names)
        if read.implicit != self._fitted.implicit:
            raise ValueError("Ratings and implicit feedback cannot be mixed; give what fit had.")
        check_scale(read.matrix.data, self._fitted.levels)
        return read

    def _widened(self, X: sparse.csr_matrix) -> list[Member]:
        """Estimators of all items of X (CSR): those that had no ratings before are learned."""
        kept = np.flatnonzero(self._fitted.counts)
        others = np.setdiff1d(np.arange(X.shape[1]), kept)
        new = X[np.diff(X[:, others].indptr) > 0]
        if len(self.items_) == X.shape[1] and new.shape[0] == 0:
            return self.estimators_
        members = zip(self.estimators_, self._fitted.tastes, strict=True)
        return [
            widened(member, taste.on_known_levels(new), kept, kept) for member, taste in members
        ]

    def _learn(
        self,
        fitted: list[Member],
        read: Ratings,
        levels: Array,
        X: sparse.csr_matrix,
        sides: Sides,
        penalty: float | None = None,
    ) -> Recommender:
        """Set the learned attributes, with the choice model of all ratings X (CSR)."""
        choice = fit_choice(
            X[np.diff(X.indptr) > 0],
            max_items=self.max_choice_items,
            rng=np.random.default_rng(0),
            penalty=penalty,
        )
        counts = np.bincount(X.indices, minlength=X.shape[1])
        mean = float(X.data.mean())
        above = levels[levels > mean]
        liked = float(above[0]) if len(above) else float(levels[-1])
        catalog = Catalog(
            (),
            read.items,
            levels,
            counts,
            int(np.count_nonzero(np.diff(X.indptr))),
            choice,
            1.0 if read.implicit else liked if self.like is None else float(self.like),
            read.implicit,
            KnownUsers(read.users, X),
        )
        self._adopt(fitted, catalog)
        weights = None
        for _ in range(ROUNDS if self.rated_set else 0):
            members = zip(fitted, self._fitted.tastes, strict=True)
            weights = [taste.learn_weights(X) if takes_sets(m) else None for m, taste in members]
            self._adopt(fitted, catalog, weights)
        return self if sides.nothing else self._adopt(fitted, sides.lend(self._fitted), weights)

    def _adopt(
        self,
        fitted: list[Member],
        catalog: Catalog,
        weights: Sequence[Array | None] | None = None,
    ) -> Recommender:
        """Set the learned attributes; the catalog gets the tastes of the fitted estimators.

        ``weights`` are, of each, what the set of rated items says about factors, (D, J).
        """
        popularity = catalog.counts / catalog.counts.sum()
        own = zip(fitted, weights or [None] * len(fitted), strict=True)
        tastes = tuple(
            tastes_of(fitted_of(member), catalog.levels, popularity, member.n_jobs, y)
            for member, y in own
        )
        self._fitted = replace(catalog, tastes=tastes)
        self.estimators_, self.items_, self.levels_ = fitted, catalog.items, catalog.levels
        self.n_users_, self.like_ = catalog.n_users, catalog.liked
        self.implicit_ = catalog.implicit
        return self

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

    def save(self, path: PathLike, *, users: bool = False) -> None:
        """Write the fitted recommender to one safetensors file; `partwise.load` reads it.

        Items must be numbers or text.

        Parameters
        ----------
        path : str or path-like
        users : bool, default=False
            Whether the file contains the users of the fit and their ratings, which
            `recommend_many`, `user_vectors` and `partial_fit` need.
        """
        from partwise.files.model import save

        check_is_fitted(self)
        model = self
        if not users and self._fitted.known is not None:
            model = copy(self)
            model._fitted = replace(self._fitted, known=None)
        save(model, path)

    def __partwise_state__(self) -> dict[str, object]:
        members = [member.__partwise_state__() for member in self.estimators_]
        return {"members": members, **_state_of(self._fitted)}

    def __partwise_restore__(self, state: SavedState) -> None:
        catalog = _catalog_of(state)
        n_rated = int(np.count_nonzero(catalog.counts))
        members = [clone(member) for member in members_of(self, n_rated, catalog.implicit)]
        for member, own in zip(members, state["members"], strict=True):
            member.__partwise_restore__(own)
        self._adopt(members, catalog, state.get("rated_set"))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")


def _state_of(fitted: Catalog) -> dict[str, object]:
    """What a file holds beside the estimators."""
    state: dict[str, object] = {
        "items": as_objects(fitted.items),
        "levels": fitted.levels,
        "counts": fitted.counts,
        "n_users": fitted.n_users,
        "liked": fitted.liked,
        "implicit": fitted.implicit,
        "choice": {
            name: getattr(fitted.choice, name)
            for name in ("weights", "modeled", "slope", "intercept", "penalty")
        },
    }
    weights = [taste.weights for taste in fitted.tastes]
    if any(own is not None for own in weights):
        state["rated_set"] = weights
    if fitted.lent is not None:
        state["lent"] = csr_fields(fitted.lent)
    if fitted.known is not None:
        known = fitted.known
        lent = None if known.lent is None else csr_fields(known.lent)
        ids = as_objects(known.ids)
        state["users"] = {"ids": ids, "ratings": csr_fields(known.ratings), "lent": lent}
    return state


def _catalog_of(state: SavedState) -> Catalog:
    """The same read back, without tastes."""
    items, levels, counts = list(state["items"]), state["levels"], state["counts"]
    D, n_users = len(items), state["n_users"]
    share = counts / max(n_users, 1)
    choice = popularity_alone(share)  # of files before there was a choice model
    if "choice" in state:
        choice = Choice(share=share, **state["choice"])
    lent = None if "lent" not in state else csr_of(state["lent"], (D, D))
    known = None
    if "users" in state:
        users, n = state["users"], len(state["users"]["ids"])
        near = None if users["lent"] is None else csr_of(users["lent"], (n, n))
        known = KnownUsers(list(users["ids"]), csr_of(users["ratings"], (n, D)), near)
    above = levels[levels > levels.mean()]
    liked = state.get("liked", float(above[0]))
    implicit = state.get("implicit", False)
    return Catalog((), items, levels, counts, n_users, choice, liked, implicit, known, lent)


def check_arguments(model: Recommender) -> None:
    """Raise errors before work starts."""
    if model.unknown not in ("warn", "raise"):
        raise ValueError(f"unknown={model.unknown!r} must be 'warn' or 'raise'.")
    if model.feedback not in ("auto", "explicit", "implicit"):
        raise ValueError(f"feedback={model.feedback!r} must be 'auto', 'explicit' or 'implicit'.")
    check_whole("max_choice_items", model.max_choice_items, 0)
    members = members_of(model, 0, model.feedback == "implicit")
    if model.rated_set and not any(map(takes_sets, members)):
        raise ValueError(
            "rated_set=True needs ratings and an MCFA without classes whose gating is not "
            "'factorised'; add one, or set rated_set=False."
        )


def check_like(like: float | None, levels: Array) -> None:
    """Refuse a lowest good rating that no rating reaches."""
    if like is not None and not (isinstance(like, Real) and like <= levels[-1]):
        raise ValueError(
            f"like={like!r} must be a number of at most {levels[-1]:g}, the highest level; ratings "
            "of at least so much count as liking an item."
        )


def rated_items(X: sparse.csr_matrix) -> Array:
    """Columns of the items that have ratings."""
    return np.flatnonzero(np.bincount(X.indices, minlength=X.shape[1]))


def widened(member: Member, X: sparse.csr_matrix, own: Array, place: Array) -> Member:
    """An estimator of the items of X (CSR): ``place`` are ``own`` of the fit, others are new."""
    return member._widened(X, own, place)


def takes_sets(member: Member) -> bool:
    """Whether the set of rated items can move the mean of the factors."""
    plain = isinstance(member, MCFA) and member.gating != "factorised"
    return plain and member.n_classes in (None, 1)


def members_of(
    model: Recommender, n_items: int, implicit: bool = False, n_users: int = STATES
) -> list[Member]:
    """Checked, unfitted estimators for these numbers of items and users."""
    if model.estimator is None and implicit:
        return [
            MCVQ(
                max(min(PARTS, n_items // 2), 1),
                max(min(STATES, n_users), 1),
                likelihood="bernoulli",
                sparse_absent="zero",
                tol=TOL,
                random_state=0,
                verbose=model.verbose,
            )
        ]
    if model.estimator is None:
        factors = max(min(FACTORS, n_items), 1)
        return [
            MCFA(1, factors, likelihood="ordinal", tol=TOL, random_state=0, verbose=model.verbose)
        ]
    given = model.estimator
    members = list(given) if isinstance(given, Sequence) else [given]
    if not members:
        raise ValueError("estimator is an empty list; give at least one estimator.")
    for member in members:
        if not isinstance(member, MCFA | MCVQ):
            raise ValueError(
                f"estimator={type(member).__name__} cannot predict ratings; give an instance of "
                "MCFA or MCVQ, or a list of them."
            )
        zeros = absent_is_zero(member.likelihood, member.sparse_absent)
        if implicit and not (isinstance(member, MCVQ) and zeros):
            raise ValueError(
                f"estimator={member} cannot learn implicit feedback; choose "
                'MCVQ(likelihood="bernoulli", sparse_absent="zero").'
            )
        if not implicit and zeros:
            raise ValueError(
                f"estimator={member} treats unrated entries as zeros; set "
                'sparse_absent="unobserved".'
            )
    return members
