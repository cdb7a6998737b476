"""Questions to people, and reasons of what is predicted: verbs of the recommender."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from sklearn.utils.validation import check_is_fitted

from partwise.answers import recommend
from partwise.answers.interview import Interview
from partwise.answers.recommend import Catalog, Person, person_of
from partwise.models.questions import RULES


class RatingReasons:
    """What a recommender asks a person next, and why it predicts what it does."""

    _fitted: Catalog
    unknown: str

    def _person(self, ratings: Any) -> Person:
        """What one person has rated, checked."""
        check_is_fitted(self)
        return person_of(self._fitted, ratings, self.unknown)

    def _column(self, item: Any) -> int:
        check_is_fitted(self)
        if item not in self._fitted.place:
            raise ValueError(f"{item!r} is not a known item; known are those in items_.")
        return self._fitted.place[item]

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
        person = self._person(user_ratings)
        return Interview(self._fitted, person, rule, self.unknown)

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
        person = self._person(user_ratings)
        return recommend.explain(self._fitted, person, self._column(item), n)

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
        d = self._column(item)
        return recommend.similar_items(self._fitted, d, n)

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
        return recommend.state_items(self._fitted, n, min_ratings)

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
        person = self._person(user_ratings)
        return recommend.profile(self._fitted, person, n, min_ratings)
