"""Sequential questions to one person, each selected by the expected gain of its answer."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np

from partwise.answers.recommend import (
    Catalog,
    Person,
    columns_of,
    items_among,
    person_of,
    take_scores,
)
from partwise.contracts import Array
from partwise.models.choice import taken

# Least weight of an item that the choice model expects nobody like the person to know, relative to
# its share of people.
LEAST_KNOWN = 1e-3


class Interview:
    """Questions to one person and their answers; `Recommender.interview` starts it.

    The evidence of the answers adds up. An answer is about the part of its item only, so the gains
    of items of other parts do not change.
    """

    def __init__(self, catalog: Catalog, person: Person, rule: str, unknown: str) -> None:
        self._catalog, self._rule, self._unknown = catalog, rule, unknown
        self._person, self._declined = person, set[int]()
        self._gains = [np.empty(0)] * len(catalog.tastes)
        self._update(None)

    @property
    def ratings(self) -> dict[Hashable, float]:
        """Ratings of the person so far."""
        return {self._catalog.items[d]: float(v) for d, v in zip(*self._person, strict=True)}

    def gains(self) -> dict[Hashable, float]:
        """Expected gain of asking about each item that is not rated yet."""
        total = self._total()
        rated = set(self._person.columns.tolist())
        items = enumerate(self._catalog.items)
        return {item: float(total[d]) for d, item in items if d not in rated}

    def next_question(self, among: Iterable[Hashable] | None = None) -> Hashable:
        """Select the unrated item whose rating is expected to be most informative.

        Parameters
        ----------
        among : iterable of items, optional
            Items that the person can rate; see `Recommender.next_question`.

        Returns
        -------
        item
        """
        allowed, gains = items_among(self._catalog, among, self._unknown), self._total()
        if among is None:
            gains = gains * self._known()
        allowed[self._person.columns] = False
        allowed[list(self._declined)] = False
        if not allowed.any():
            which = "all items" if among is None else "all of the given items"
            raise ValueError(
                f"There is no item left to ask about; {which} are unknown, rated or declined."
            )
        return self._catalog.items[int(np.where(allowed, gains, -np.inf).argmax())]

    def decline(self, item: Hashable) -> None:
        """Record that the person cannot rate an item, which is then not asked about again.

        Parameters
        ----------
        item
        """
        heard = columns_of(self._catalog, [item], self._unknown, "left out")
        self._declined.update(heard[heard >= 0].tolist())

    def answer(self, item: Hashable, rating: float) -> None:
        """Record a rating.

        Parameters
        ----------
        item
        rating : float
        """
        heard = person_of(self._catalog, {item: rating}, self._unknown)
        if len(heard.columns) == 0:
            return  # unknown item; `person_of` has warned
        kept = self._person.columns != heard.columns[0]
        columns = np.append(self._person.columns[kept], heard.columns)
        values = np.append(self._person.values[kept], heard.values)
        order = np.argsort(columns)
        self._person = Person(columns[order], values[order])
        self._update(int(heard.columns[0]))

    def _known(self) -> Array:
        """How probable it is that the person knows each item, up to a factor, (D,).

        A choice score is the linear prediction of who has taken an item, from the items rated so
        far; without any it is proportional to the share of people.
        """
        row = self._catalog.heard(self._catalog.row(self._person))
        score = take_scores(self._catalog, taken(row))[0]
        share = self._catalog.counts / max(self._catalog.n_users, 1)
        return np.maximum(score.astype(float), LEAST_KNOWN * share)

    def _total(self) -> Array:
        """Mean gains of the models, each in units of its largest gain, as their units differ."""
        if len(self._gains) == 1:
            return self._gains[0]
        rated = self._person.columns
        largest = [np.delete(own, rated).max(initial=1e-300) for own in self._gains]
        return np.mean([own / top for own, top in zip(self._gains, largest, strict=True)], axis=0)

    def _update(self, heard: int | None) -> None:
        """Update the gains; after an answer about an item, those of its part."""
        row, rated = self._catalog.heard(self._catalog.row(self._person)), self._person.columns
        open_ = np.ones(len(self._catalog.items), bool)
        open_[rated] = False
        for i, taste in enumerate(self._catalog.tastes):
            features = taste.fold_in(row)
            if heard is None or self._rule == "value" or not taste.keeps_apart(rated):
                self._gains[i] = taste.all_gains(features, self._rule, open_)
            else:
                k = int(taste.parts[heard])
                best = np.zeros(len(taste.columns))
                self._gains[i][taste.columns[k]] = taste.gains(features, self._rule, k, best, open_)
