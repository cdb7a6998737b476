"""Questions to a recommender."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from partwise.data.frames import shortened
from partwise.estimators.recommender import Recommender
from partwise.serve.records import Scalar, as_json_object, refused


class Ratings:
    """A fitted recommender behind the service.

    Items are named by their text, since JSON has no other keys.

    Parameters
    ----------
    recommender : Recommender
    """

    questions = ("ratings", "recommend", "next_question", "reasons")

    def __init__(self, recommender: Recommender) -> None:
        self.recommender = recommender
        self._items = {str(item): item for item in recommender.items_}
        if len(self._items) < len(recommender.items_):
            raise ValueError("Two items of the recommender have the same text; rename one.")

    @property
    def n_items(self) -> int:
        """Number of known items."""
        return len(self._items)

    def predict(
        self, ratings: Mapping[str, float], items: Sequence[str] | None, coverage: float
    ) -> dict[str, object]:
        """Median, mean and interval of the ratings of some items, or of all."""
        person = self._person(ratings)
        names = list(self._items) if items is None else list(items)
        asked = [self._item(name) for name in names]
        lower, upper = self.recommender.predict_interval(person, asked, coverage)
        points = {
            point: self.recommender.predict(person, asked, point=point).tolist()
            for point in ("median", "mean")
        }
        return {"items": names, **points, "lower": lower.tolist(), "upper": upper.tolist()}

    def recommend(
        self, ratings: Mapping[str, float], n: int, among: Sequence[str] | None
    ) -> list[dict[str, Scalar]]:
        """The n best items, each with its rating and interval."""
        allowed = None if among is None else [self._item(name) for name in among]
        found = self.recommender.recommend(self._person(ratings), n, among=allowed)
        return [
            {
                "item": str(one.item),
                "rating": one.rating,
                "lower": one.lower,
                "upper": one.upper,
            }
            for one in found
        ]

    def next_question(self, ratings: Mapping[str, float]) -> str | None:
        """The item to ask about."""
        person = self._person(ratings)
        if len(person) == self.n_items:
            return None
        return str(self.recommender.next_question(person))

    def explain(self, ratings: Mapping[str, float], item: str) -> dict[str, object]:
        """Reasons for a predicted rating."""
        return as_json_object(self.recommender.explain(self._person(ratings), self._item(item)))

    def _person(self, ratings: Mapping[str, float]) -> dict[Hashable, float]:
        return {self._item(name): rating for name, rating in ratings.items()}

    def _item(self, name: str) -> Hashable:
        if name not in self._items:
            raise refused(f"There is no item {shortened(name)}.")
        return self._items[name]
