"""Questions to people and explanations of predictions: methods of the recommender."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import cast

from sklearn.utils.validation import check_is_fitted

from partwise.answers import recommend
from partwise.answers.interview import Interview
from partwise.answers.recommend import Catalog, Explanation, People, Person, is_id, person_of
from partwise.data.ratings import check_whole, numbers_of
from partwise.models.questions import RULES
from partwise.typing import Name, UserRatings


class RatingReasons:
    """Selects the next question to a person, and explains predictions."""

    _fitted: Catalog
    unknown: str

    def _person(self, ratings: UserRatings | Iterable[Name] | Name) -> Person:
        """Checked ratings of one person."""
        check_is_fitted(self)
        return person_of(self._fitted, ratings, self.unknown)

    def _one(self, user_ratings: UserRatings | Iterable[Name] | Name) -> tuple[Person, People]:
        """Ratings of one person, and the person to recommend to."""
        person = self._person(user_ratings)
        if is_id(user_ratings):  # may have features and no ratings
            return person, self._fitted.some_people([cast(Name, user_ratings)])[1]
        return person, self._fitted.people(self._fitted.row(person))

    def _column(self, item: Name) -> int:
        check_is_fitted(self)
        (column,) = numbers_of(self._fitted.place, [item])
        if column < 0:
            raise ValueError(f"{item!r} is not a known item; known items are in items_.")
        return int(column)

    # --- questions ---

    def next_question(
        self,
        user_ratings: UserRatings | Name,
        *,
        rule: str = "error",
        among: Iterable[Name] | None = None,
    ) -> Hashable:
        """Select the item whose rating is expected to be most informative.

        Parameters
        ----------
        user_ratings : mapping of items to ratings, or id
        rule : {"error", "information", "value"}, default="error"
            "error": expected decrease of the squared error of all predictions, with items weighted
            by their number of ratings. "information": mutual information of the answer and the
            person's states or factors. "value": expected increase of the highest predicted rating.
        among : iterable of items, optional
            Items that the person can rate. If not given, the gain of each item is multiplied by the
            probability that the person knows it, up to a factor: the choice model's prediction from
            the items rated so far, or the share of people who rated it if there are none.

        Returns
        -------
        item
        """
        return self.interview(user_ratings, rule=rule).next_question(among)

    def interview(self, user_ratings: UserRatings | Name, *, rule: str = "error") -> Interview:
        """Start an interview: questions and answers in turn.

        Parameters
        ----------
        user_ratings : mapping of items to ratings, or id
            Ratings known at the start.
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

    def explain(self, user_ratings: UserRatings | Name, item: Name, n: int = 5) -> Explanation:
        """Explain a predicted rating.

        With several estimators the part, its state and similar items are of the first.

        Parameters
        ----------
        user_ratings : mapping of items to ratings, or id
        item
        n : int, default=5
            Number of ratings and of similar items to name.

        Returns
        -------
        reasons : dict
            ``item``, ``rating`` (expected), ``distribution`` (level to probability), ``part`` of
            the item (-1: background), ``state`` of that part and its ``probability`` (where parts
            have states), ``because``: the person's ratings of other items with the largest effect
            on the prediction, each with ``item``, ``rating`` and ``effect``, the expected rating
            minus the expected rating without it; ``similar_items``, the most similar items of its
            part or, if nobody has rated it, the items that it is predicted from; ``choice``, the
            probability that the person takes the item (with implicit feedback this is the rating);
            and ``chosen_because``, the items taken with the largest ``weight`` in the choice model.
        """
        check_whole("n", n)
        person, people = self._one(user_ratings)
        return recommend.explain(self._fitted, people, person, self._column(item), n)

    def similar_items(self, item: Name, n: int = 10) -> list[Hashable]:
        """Items of the same part with the most similar ratings.

        Parameters
        ----------
        item
        n : int, default=10

        Returns
        -------
        items : list
            Most similar first.
        """
        d = self._column(item)
        check_whole("n", n)
        return recommend.similar_items(self._fitted, d, n)

    def state_items(self, n: int = 5, *, min_ratings: int = 20) -> list[dict[str, object]]:
        """Items that people in each state of each part rate higher and lower than others do.

        With several estimators the first one that has states is used.

        Parameters
        ----------
        n : int, default=5
            Number of items to name on either side.
        min_ratings : int, default=20
            Minimum number of ratings of a named item.

        Returns
        -------
        states : list of dict
            ``part``, ``state``, ``share`` of people in it, and ``high`` and ``low``: items whose
            expected rating in this state is most above and below that of all people, each with
            ``item``, ``rating`` and ``difference``.
        """
        check_is_fitted(self)
        check_whole("n", n)
        check_whole("min_ratings", min_ratings, 0)
        return recommend.state_items(self._fitted, n, min_ratings)

    def profile(
        self, user_ratings: UserRatings | Name, n: int = 5, *, min_ratings: int = 20
    ) -> list[dict[str, object]]:
        """Describe one person by the most probable state of each part.

        Parameters
        ----------
        user_ratings : mapping of items to ratings, or id
        n : int, default=5
            Number of items to name on either side.
        min_ratings : int, default=20
            Minimum number of ratings of a named item.

        Returns
        -------
        parts : list of dict
            As in `state_items`, for the most probable state of each part, with its ``probability``.
        """
        check_whole("n", n)
        check_whole("min_ratings", min_ratings, 0)
        return recommend.profile(self._fitted, self._one(user_ratings)[1], n, min_ratings)
