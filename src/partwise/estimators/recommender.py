"""Ratings: predict, recommend, ask, explain."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from partwise._warnings import warn
from partwise.contracts import Array
from partwise.data.ratings import plain, read_person, read_ratings
from partwise.estimators._preferences import StateTastes, Tastes, tastes_of
from partwise.estimators.mcfa import MCFA
from partwise.estimators.mcvq import MCVQ
from partwise.fitting.add_columns import with_new_columns
from partwise.models import levels as scale
from partwise.models.questions import RULES

# Factors of the usual estimator, and the rise of its bound at which it stops, in nats a person: a
# person's ratings are worth hundreds.
FACTORS, TOL = 16, 0.1

# What a recommendation's interval holds.
COVERAGE = 0.8


class Recommendation(NamedTuple):
    """An item, its expected rating, and an interval that holds the rating with probability 0.8."""

    item: Hashable
    rating: float
    lower: float
    upper: float


class Recommender(BaseEstimator):
    """Recommendations from ratings by any model of this library that knows people as rows.

    It learns from ratings of users for items, and then serves anybody: a person is a mapping of
    items to ratings, known or new alike, and is folded in without learning anew.

    Parameters
    ----------
    estimator : estimator, sequence of estimators or None, default=None
        `MCFA` or `MCVQ`; of several the predicted distributions are averaged. None is
        ``MCFA(1, 16, likelihood="ordinal", tol=0.1)``, with fewer factors if items are fewer.
    levels : sequence of numbers or None, default=None
        The scale, as ``[1, 2, 3, 4, 5]``; None takes the ratings that occur.
    unknown : {"warn", "raise"}, default="warn"
        What to do with unknown items in a query: leave them out with a warning, or refuse it.
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
        People learned from.

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
        estimator: Any = None,
        *,
        levels: Any = None,
        unknown: str = "warn",
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.levels = levels
        self.unknown = unknown
        self.verbose = verbose

    # --- fitting ---

    def fit(self, ratings: Any, y: Any = None) -> Recommender:
        """Learn from ratings.

        Parameters
        ----------
        ratings : DataFrame, tuple of three arrays, or sparse matrix
            With columns user, item and rating; the same three as arrays; or users in rows and items
            in columns, where what is not stored is not rated. Users and items are anything
            hashable. Of a pair given twice the last rating counts, with a warning.
        y : ignored

        Returns
        -------
        self
        """
        if self.unknown not in ("warn", "raise"):
            raise ValueError(f"unknown={self.unknown!r} must be 'warn' or 'raise'.")
        self._members(0)  # refuse what cannot serve before work starts
        read = read_ratings(ratings)
        levels = _levels(self.levels, read.matrix.data)
        _check_scale(read.matrix.data, levels)
        if read.matrix.shape[0] < 2 or read.matrix.shape[1] < 2:
            raise ValueError(
                f"There are ratings of {read.matrix.shape[0]} users for {read.matrix.shape[1]} "
                "items; at least two of each are needed to learn from one about another."
            )
        X = read.matrix.astype(np.float32)
        with warnings.catch_warnings():
            # An item without ratings is predicted as any other; nothing is filled.
            warnings.filterwarnings("ignore", "[0-9]+ of [0-9]+ columns have no observed entry")
            fitted = [clone(member).fit(X) for member in self._members(X.shape[1])]
        counts = np.bincount(X.indices, minlength=X.shape[1])
        self._adopt(fitted, read.items, levels, counts, X.shape[0])
        return self

    def add_items(self, ratings: Any) -> Recommender:
        """Learn items that arrived later, from their first ratings; nothing else changes.

        Parameters
        ----------
        ratings : DataFrame or tuple of three arrays
            As in `fit`. Ratings of unknown items teach these; ratings of known items by the same
            users say who likes them, so give both. A user who rated no new item is left out.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        if sparse.issparse(ratings):
            raise ValueError("New items need names; give users, items and ratings, not a matrix.")
        read = read_ratings(ratings)
        _check_scale(read.matrix.data, self.levels_)
        new = [item for item in read.items if item not in self._place]
        if not new:
            raise ValueError("There is no new item among the ratings; all of them are known.")
        items = [*self.items_, *new]
        place = {item: i for i, item in enumerate(items)}
        X = read.matrix.tocoo()
        columns = np.array([place[item] for item in read.items])[X.col]
        X = sparse.csr_matrix((X.data, (X.row, columns)), (X.shape[0], len(items)))
        X = X[np.diff(X[:, len(self.items_) :].indptr) > 0]
        fitted = [with_new_columns(taste.estimator, taste.heard(X)) for taste in self._tastes]
        counts = np.append(
            self._counts, np.bincount(X.indices, minlength=len(items))[len(self._counts) :]
        )
        self._adopt(fitted, items, self.levels_, counts, self.n_users_)
        return self

    def _members(self, n_items: int) -> list[Any]:
        """Unfitted estimators for so many items, checked."""
        if self.estimator is None:
            factors = max(min(FACTORS, n_items), 1)
            return [
                MCFA(
                    1, factors, likelihood="ordinal", tol=TOL, random_state=0, verbose=self.verbose
                )
            ]
        several = isinstance(self.estimator, Sequence)
        members = list(self.estimator) if several else [self.estimator]
        if not members:
            raise ValueError("estimator is an empty list; give at least one estimator.")
        for member in members:
            if not isinstance(member, MCFA | MCVQ):
                raise ValueError(
                    f"estimator={type(member).__name__} cannot serve ratings; choose MCFA or MCVQ, "
                    "or a list of them."
                )
            if member._absent_zero():
                raise ValueError(
                    f"estimator={member} takes what is not rated for zeros; set "
                    'sparse_absent="unobserved".'
                )
        return members

    def _adopt(
        self,
        fitted: list[Any],
        items: list[Hashable],
        levels: Array,
        counts: Array,
        n_users: int,
    ) -> None:
        """Set the learned attributes; ``counts`` (D,) says how often each item was rated."""
        self.estimators_, self.items_, self.levels_ = fitted, items, levels
        self.n_users_, self._counts = n_users, counts
        popularity = counts / counts.sum()
        self._place = {item: i for i, item in enumerate(items)}
        self._tastes: list[Tastes] = [tastes_of(e, levels, popularity) for e in fitted]

    # --- people ---

    def _person(self, ratings: Any) -> tuple[Array, Array]:
        """Columns and ratings of one person, on the scale."""
        check_is_fitted(self)
        columns, values = read_person(ratings, self._place, self.unknown)
        _check_scale(values, self.levels_)
        return columns, values

    def _row(self, columns: Array, values: Array) -> Any:
        """Ratings of one person as a row."""
        indptr = np.array([0, len(columns)])
        shape = (1, len(self.items_))
        return sparse.csr_matrix((values.astype(np.float32), columns, indptr), shape=shape)

    def _shares(self, columns: Array, values: Array) -> Array:
        """Probability of every level of every item for one person, (D, L)."""
        row = self._row(columns, values)
        found = [taste.shares(taste.fold_in(row))[0] for taste in self._tastes]
        return np.mean(found, axis=0)

    def _asked(self, items: Any, then: str = "their prediction is NaN") -> Array:
        """Columns of items, -1 where unknown; a warning says what happens ``then``."""
        names = plain(items)
        columns = np.array([self._place.get(item, -1) for item in names], np.int64)
        if np.any(columns < 0):
            first = names[int(np.argmin(columns))]
            text = f"{np.sum(columns < 0)} items are not known (first: {first!r})"
            if self.unknown == "raise":
                raise ValueError(f'{text}; leave them out, or set unknown="warn".')
            warn(f"{text}; {then}.")
        return columns

    def _allowed(self, among: Iterable[Any] | None) -> Array:
        """Which items are among some, (D,); all if None."""
        if among is None:
            return np.ones(len(self.items_), bool)
        columns = self._asked(among, "they are left out")
        allowed = np.zeros(len(self.items_), bool)
        allowed[columns[columns >= 0]] = True
        return allowed

    # --- predictions ---

    def predict(
        self, user_ratings: Mapping[Any, float], items: Any = None, *, point: str = "median"
    ) -> Array:
        """Predicted ratings of a person.

        Parameters
        ----------
        user_ratings : mapping of items to ratings
            What the person has rated; may be empty.
        items : sequence, optional
            Items to predict; all of ``items_`` if not given.
        point : {"median", "mean"}, default="median"
            The median makes absolute errors least, the mean squared ones.

        Returns
        -------
        ratings : ndarray of shape (n_items,)
            NaN for unknown items.
        """
        if point not in ("median", "mean"):
            raise ValueError(f"point={point!r} must be 'median' or 'mean'.")
        return _summary(self.predict_distribution(user_ratings, items), self.levels_, point)

    def predict_distribution(self, user_ratings: Mapping[Any, float], items: Any = None) -> Array:
        """Probability of every level of the scale.

        Parameters
        ----------
        user_ratings : mapping of items to ratings
        items : sequence, optional
            All of ``items_`` if not given.

        Returns
        -------
        probability : ndarray of shape (n_items, L)
            Columns in the order of ``levels_``; NaN for unknown items.
        """
        person = self._person(user_ratings)
        columns = None if items is None else self._asked(items)
        shares = self._shares(*person)
        if columns is None:
            return shares
        out = shares[columns]
        out[columns < 0] = np.nan
        return out

    def predict_interval(
        self, user_ratings: Mapping[Any, float], items: Any = None, coverage: float = 0.9
    ) -> tuple[Array, Array]:
        """Levels between which a rating lies with at least probability ``coverage``.

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
        return _interval(shares, self.levels_, coverage)

    def predict_pairs(self, known: Any, users: Any, items: Any, *, point: str = "median") -> Array:
        """Predicted ratings of many people at once.

        Parameters
        ----------
        known : DataFrame, tuple of three arrays, or sparse matrix
            What these people have rated, as in `fit`; items that are not in ``items_`` are refused.
        users, items : array-like of shape (n,)
            Pairs to predict; a user without known ratings is predicted as anybody.
        point : {"median", "mean", "distribution"}, default="median"

        Returns
        -------
        ratings : ndarray of shape (n,) or (n, L)
        """
        check_is_fitted(self)
        if point not in ("median", "mean", "distribution"):
            raise ValueError(f"point={point!r} must be 'median', 'mean' or 'distribution'.")
        read = read_ratings(known, self.items_)
        _check_scale(read.matrix.data, self.levels_)
        place = {user: i for i, user in enumerate(read.users)}
        nobody = len(place)  # a row without ratings
        rows = np.array([place.get(user, nobody) for user in plain(users)], np.int64)
        columns = self._asked(items)
        empty = sparse.csr_matrix((1, len(self.items_)))
        X = sparse.vstack([read.matrix, empty], format="csr").astype(np.float32)
        asked, rows = np.unique(rows, return_inverse=True)
        X = X[asked] if len(asked) else empty
        shares = np.zeros((len(rows), len(self.levels_)))
        for taste in self._tastes:
            features = taste.fold_in(X)
            shares += taste.cell_shares(features, rows, np.maximum(columns, 0))
        shares /= len(self._tastes)
        shares[columns < 0] = np.nan
        return shares if point == "distribution" else _summary(shares, self.levels_, point)

    def recommend(
        self,
        user_ratings: Mapping[Any, float],
        n: int = 10,
        *,
        among: Iterable[Any] | None = None,
        min_ratings: int = 1,
    ) -> list[Recommendation]:
        """Items with the highest expected rating that the person has not rated.

        Parameters
        ----------
        user_ratings : mapping of items to ratings
        n : int, default=10
        among : iterable of items, optional
            Items that may be recommended, such as those in stock; all, if not given.
        min_ratings : int, default=1
            Ratings that an item must have had: what few have rated may be there by chance.

        Returns
        -------
        recommendations : list of at most n Recommendation
            Best first.
        """
        if n < 1:
            raise ValueError(f"n={n!r} must be at least 1.")
        columns, values = self._person(user_ratings)
        shares = self._shares(columns, values)
        allowed = self._allowed(among) & (self._counts >= min_ratings)
        allowed[columns] = False
        rating = np.where(allowed, scale.mean(shares, self.levels_), -np.inf)
        best = _top(rating, min(n, int(allowed.sum())))
        lower, upper = _interval(shares[best], self.levels_, COVERAGE)
        numbers = zip(best, rating[best], lower, upper, strict=True)
        return [
            Recommendation(self.items_[i], float(r), float(lo), float(hi))
            for i, r, lo, hi in numbers
        ]

    # --- questions ---

    def next_question(
        self,
        user_ratings: Mapping[Any, float],
        *,
        rule: str = "error",
        among: Iterable[Any] | None = None,
    ) -> Hashable:
        """The item whose rating would tell most.

        Parameters
        ----------
        user_ratings : mapping of items to ratings
        rule : {"error", "information", "value"}, default="error"
            "error": expected fall of the squared error of all predictions, items counted by how
            often they are rated. "information": mutual information of the answer and the person's
            states or factors. "value": expected rise of the rating of what would be recommended.
        among : iterable of items, optional
            Items that the person can rate. If not given, the gain of each is weighed with the share
            of people who rated it: who does not know an item has no answer.

        Returns
        -------
        item
        """
        return self.interview(user_ratings, rule=rule).next_question(among)

    def interview(self, user_ratings: Mapping[Any, float], *, rule: str = "error") -> Interview:
        """Questions and answers, one after the other.

        Parameters
        ----------
        user_ratings : mapping of items to ratings
            What is known when it begins.
        rule : {"error", "information", "value"}, default="error"
            See `next_question`.

        Returns
        -------
        interview : Interview
        """
        if rule not in RULES:
            raise ValueError(f"rule={rule!r} must be one of {', '.join(RULES)}.")
        columns, values = self._person(user_ratings)
        return Interview(self, columns, values, rule)

    # --- reasons ---

    def explain(self, user_ratings: Mapping[Any, float], item: Any, n: int = 5) -> dict[str, Any]:
        """Why a person is predicted to rate an item as they are.

        Of several estimators the first answers.

        Parameters
        ----------
        user_ratings : mapping of items to ratings
        item
        n : int, default=5
            Ratings and similar items to name.

        Returns
        -------
        reasons : dict
            ``item``, ``rating`` (expected), ``distribution`` (level to probability), ``part`` of
            the item (-1: background), ``state`` of that part and its ``probability`` (where parts
            have states), ``because``: the person's ratings that moved the prediction most, each
            with ``item``, ``rating`` and ``effect``, the expected rating less what it would be
            without it (what the other ratings say being as it is); and ``similar_items``, the items
            most alike for people of all kinds.
        """
        columns, values = self._person(user_ratings)
        if item not in self._place:
            raise ValueError(f"{item!r} is not a known item; known are those in items_.")
        d, taste = self._place[item], self._tastes[0]
        features = taste.fold_in(self._row(columns, values))
        shares = taste.cell_shares(features, np.zeros(1, int), np.array([d]))[0]
        rating = float(scale.mean(shares, self.levels_))
        because = []
        if len(columns):
            found = taste.leave_out(columns, values)  # with all, then without each
            every = np.arange(len(columns) + 1)
            means = scale.mean(
                taste.cell_shares(found, every, np.full_like(every, d)), self.levels_
            )
            effect = means[0] - means[1:]
            for i in _top(np.abs(effect), min(n, len(columns))):
                because.append(
                    {
                        "item": self.items_[columns[i]],
                        "rating": float(values[i]),
                        "effect": float(effect[i]),
                    }
                )
        part = int(taste.estimator.parts_[d])
        out = {
            "item": item,
            "rating": rating,
            "distribution": {float(v): float(p) for v, p in zip(self.levels_, shares, strict=True)},
            "part": part,
            "because": because,
            "similar_items": self.similar_items(item, n),
        }
        if isinstance(taste, StateTastes) and part >= 0:
            m = features[taste.core.first[part] : taste.core.first[part + 1], 0]
            out |= {"state": int(m.argmax()), "probability": float(m.max())}
        return out

    def similar_items(self, item: Any, n: int = 10) -> list[Hashable]:
        """Items of the same part that people rate most alike.

        Parameters
        ----------
        item
        n : int, default=10

        Returns
        -------
        items : list
            Most alike first.
        """
        check_is_fitted(self)
        if item not in self._place:
            raise ValueError(f"{item!r} is not a known item; known are those in items_.")
        d = self._place[item]
        likeness = self._tastes[0].likeness(d)
        likeness[d] = -np.inf
        best = _top(likeness, min(n, int(np.isfinite(likeness).sum())))
        return [self.items_[i] for i in best]

    def state_items(self, n: int = 5, *, min_ratings: int = 20) -> list[dict[str, Any]]:
        """What people in each state of each part like and dislike more than others do.

        Of several estimators the first with states answers.

        Parameters
        ----------
        n : int, default=5
            Items to name on either side.
        min_ratings : int, default=20
            Ratings that an item must have had to be named.

        Returns
        -------
        states : list of dict
            ``part``, ``state``, ``share`` of people in it, and ``high`` and ``low``: items whose
            expected rating in this state is farthest above and below that of all people, each with
            ``item``, ``rating`` and ``difference``.
        """
        check_is_fitted(self)
        if n < 1:
            raise ValueError(f"n={n!r} must be at least 1.")
        taste = self._states()
        share = taste.estimator._class_shares() @ taste.estimator._state_shares()
        out = []
        for k in range(taste.estimator.n_parts_):
            columns = taste.columns[k]
            columns = columns[self._counts[columns] >= min_ratings]
            lo, hi = taste.core.first[k], taste.core.first[k + 1]
            own = taste.M[lo:hi][:, columns]
            everybody = share[lo:hi] @ own
            for j in range(hi - lo):
                away = own[j] - everybody
                sides = {}
                for side, sign in (("high", 1.0), ("low", -1.0)):
                    best = _top(sign * away, min(n, len(away)))
                    sides[side] = [
                        {
                            "item": self.items_[columns[i]],
                            "rating": float(own[j, i]),
                            "difference": float(away[i]),
                        }
                        for i in best
                        if sign * away[i] > 0
                    ]
                out.append({"part": k, "state": j, "share": float(share[lo + j]), **sides})
        return out

    def profile(
        self, user_ratings: Mapping[Any, float], n: int = 5, *, min_ratings: int = 20
    ) -> list[dict[str, Any]]:
        """One person, part by part: the state that each part is in, and what goes with it.

        Parameters
        ----------
        user_ratings : mapping of items to ratings
        n : int, default=5
            Items to name on either side.
        min_ratings : int, default=20
            Ratings that an item must have had to be named.

        Returns
        -------
        parts : list of dict
            As in `state_items`, of each part's most probable state, and its ``probability``.
        """
        columns, values = self._person(user_ratings)
        taste = self._states()
        m = taste.fold_in(self._row(columns, values))[:, 0]
        found = self.state_items(n, min_ratings=min_ratings)
        kinds = {(kind["part"], kind["state"]): kind for kind in found}
        out = []
        for k in range(taste.estimator.n_parts_):
            own = m[taste.core.first[k] : taste.core.first[k + 1]]
            out.append(kinds[k, int(own.argmax())] | {"probability": float(own.max())})
        return out

    def _states(self) -> StateTastes:
        """The first estimator whose parts have states."""
        for taste in self._tastes:
            if isinstance(taste, StateTastes):
                return taste
        raise ValueError(
            "No estimator here has parts with states; fit with "
            'Recommender(MCVQ(5, 12, likelihood="categorical")).'
        )

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

    def save(self, path: Any) -> None:
        """Write the fitted recommender to one safetensors file; `partwise.load` reads it.

        Items must be numbers or text.

        Parameters
        ----------
        path : str or path-like
        """
        from partwise.files.model import save

        check_is_fitted(self)
        save(self, path)

    def _state(self) -> dict[str, Any]:
        items = np.empty(len(self.items_), dtype=object)
        items[:] = self.items_
        return {
            "members": [member._state() for member in self.estimators_],
            "items": items,
            "levels": self.levels_,
            "counts": self._counts,
            "n_users": self.n_users_,
        }

    def _restore(self, state: dict[str, Any]) -> None:
        members = [clone(member) for member in self._members(len(state["items"]))]
        for member, own in zip(members, state["members"], strict=True):
            member._restore(own)
        kept = (state[name] for name in ("levels", "counts", "n_users"))
        self._adopt(members, list(state["items"]), *kept)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_tastes")


class Interview:
    """One person's questions and answers; `Recommender.interview` begins it.

    What the answers say adds up, and an answer speaks of its item's part alone: the gains of all
    other parts' items stay as they are.
    """

    def __init__(self, model: Recommender, columns: Array, values: Array, rule: str) -> None:
        self._model, self._rule = model, rule
        self._columns, self._values = columns, values
        self._gains = [np.empty(0)] * len(model._tastes)
        self._look(None)

    @property
    def ratings(self) -> dict[Hashable, float]:
        """What is known of the person by now."""
        pairs = zip(self._columns, self._values, strict=True)
        return {self._model.items_[d]: float(v) for d, v in pairs}

    def gains(self) -> dict[Hashable, float]:
        """Expected gain of asking about each item that is not rated yet."""
        total = self._total()
        rated = set(self._columns.tolist())
        items = enumerate(self._model.items_)
        return {item: float(total[d]) for d, item in items if d not in rated}

    def next_question(self, among: Iterable[Any] | None = None) -> Hashable:
        """The item whose rating would tell most, of those not rated yet.

        Parameters
        ----------
        among : iterable of items, optional
            Items that the person can rate; see `Recommender.next_question`.

        Returns
        -------
        item
        """
        allowed, gains = self._model._allowed(among), self._total()
        if among is None:
            gains = gains * self._model._counts
        allowed[self._columns] = False
        if not allowed.any():
            text = "all of them are rated" if among is None else "none of those given is open"
            raise ValueError(f"There is no item left to ask about; {text}.")
        return self._model.items_[int(np.where(allowed, gains, -np.inf).argmax())]

    def answer(self, item: Any, rating: float) -> None:
        """Hear a rating.

        Parameters
        ----------
        item
        rating : float
        """
        columns, values = self._model._person({item: rating})
        if len(columns) == 0:
            return  # unknown, and told so
        kept = self._columns != columns[0]
        self._columns = np.append(self._columns[kept], columns)
        self._values = np.append(self._values[kept], values)
        order = np.argsort(self._columns)
        self._columns, self._values = self._columns[order], self._values[order]
        self._look(int(columns[0]))

    def _total(self) -> Array:
        """Gains; of several models each in units of its largest, as their own units differ."""
        if len(self._gains) == 1:
            return self._gains[0]
        largest = [np.delete(own, self._columns).max(initial=1e-300) for own in self._gains]
        return np.mean([own / top for own, top in zip(self._gains, largest, strict=True)], axis=0)

    def _look(self, heard: int | None) -> None:
        """Bring the gains up to date, after an answer about one item those of its part."""
        row = self._model._row(self._columns, self._values)
        open_ = np.ones(len(self._model.items_), bool)
        open_[self._columns] = False
        for i, taste in enumerate(self._model._tastes):
            features = taste.fold_in(row)
            # Classes, and items of several parts, let one part's answers speak of the others.
            alone = taste.core.classes.n_classes == 1
            closed = taste.theta.gates[:, self._columns].max(axis=0, initial=0.0) >= 1.0
            closed = heard is not None and alone and closed.all()
            if not closed or self._rule == "value":
                self._gains[i] = taste.all_gains(features, self._rule, open_)
            else:
                k = int(taste.parts[heard])
                best = np.zeros(len(taste.columns))
                self._gains[i][taste.columns[k]] = taste.gains(features, self._rule, k, best, open_)


def _levels(given: Any, ratings: Array) -> Array:
    """The scale, ascending."""
    found = np.unique(ratings) if given is None else list(given)
    # As they are written: 0.1 of single precision is 0.1, not what it is in double.
    levels = np.unique([float(str(level)) for level in found])
    if len(levels) < 2 or not np.isfinite(levels).all():
        raise ValueError(
            f"The scale {levels.tolist()} has {len(levels)} level(s), but ratings differ only on a "
            "scale of two or more; pass levels=[1, 2, 3, 4, 5] or what it is."
        )
    return levels


def _check_scale(ratings: Array, levels: Array) -> None:
    """Refuse ratings that the scale does not have."""
    odd = ~np.isin(ratings.astype(np.float32), levels.astype(np.float32))
    if odd.any():
        shown = ", ".join(f"{v:g}" for v in levels[:12]) + (", ..." if len(levels) > 12 else "")
        raise ValueError(
            f"The rating {ratings[odd.argmax()]:g} is not on the scale {shown}; correct it, or fit "
            "with levels that have it."
        )


def _summary(shares: Array, levels: Array, point: str) -> Array:
    """Median or mean of distributions, NaN where they are."""
    if point == "mean":
        return scale.mean(shares, levels)
    return np.where(np.isnan(shares[..., 0]), np.nan, scale.quantile(shares, levels, 0.5))


def _interval(shares: Array, levels: Array, coverage: float) -> tuple[Array, Array]:
    tail = 0.5 * (1.0 - coverage)
    unknown = np.isnan(shares[..., 0])
    ends = (scale.quantile(shares, levels, p) for p in (tail, 1.0 - tail))
    lower, upper = (np.where(unknown, np.nan, end) for end in ends)
    return lower, upper


def _top(values: Array, n: int) -> Array:
    """Positions of the n largest, largest first."""
    some = np.argpartition(-values, n - 1)[:n] if n < len(values) else np.arange(len(values))
    return some[np.argsort(-values[some], kind="stable")][:n]
