"""Ratings by user and item, and the sparse matrix of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from partwise._text import plural
from partwise._warnings import warn
from partwise.contracts import Array
from partwise.data.frames import frame_of, is_missing
from partwise.data.indices import check_indices, is_csr
from partwise.typing import RatingsLike

if TYPE_CHECKING:
    import pandas as pd

# Users or items, one per rating.
Names: TypeAlias = "Sequence[Hashable] | Array"

# Column names of other data sets, such as MovieLens, in lower case without underscores.
ALIASES = {"userid": "user", "itemid": "item", "movieid": "item", "movie": "item"}


def role_of(name: Hashable) -> Hashable:
    """What a column of this name contains: user or item, by other names too; else the name."""
    return ALIASES.get(str(name).lower().replace("_", ""), name)


class ColumnNames(NamedTuple):
    """Names of the columns of a data frame of ratings; the timestamp is used if it is named."""

    user: Hashable = "user"
    item: Hashable = "item"
    rating: Hashable | None = "rating"
    timestamp: Hashable | None = None

    def by_role(self) -> dict[str, Hashable | None]:
        """Names by what the columns contain."""
        return dict(zip(("user", "item", "rating", "timestamp"), self, strict=True))


class Ratings(NamedTuple):
    """Ratings with users and items numbered; row i of ``matrix`` is user ``users[i]``.

    Without ratings (``implicit``) the entries are 1: these items were taken.
    """

    users: list[Hashable]
    items: list[Hashable]
    matrix: sparse.csr_matrix  # CSR (users, items), an entry that is not stored is not rated
    implicit: bool = False


def read_ratings(
    ratings: RatingsLike,
    items: Sequence[Hashable] | None = None,
    names: ColumnNames | None = None,
    *,
    implicit: bool = False,
) -> Ratings:
    """Read ratings in any of the accepted forms.

    Of several ratings for the same user and item the last is used, with a warning.

    Parameters
    ----------
    ratings : DataFrame, tuple of two or three arrays, or sparse matrix
        Columns user, item and rating; the same as arrays of equal length; or users in rows and
        items in columns, numbered from 0. Without ratings the feedback is implicit.
    items : sequence, optional
        Items in the order of the columns; others in ``ratings`` are refused. In order of
        appearance, if not given.
    names : ColumnNames, optional
        Names of the columns of a data frame.
    implicit : bool, default=False
        Whether ratings are ignored: each pair says that an item was taken.

    Returns
    -------
    ratings : Ratings
    """
    if is_csr(ratings):
        check_indices(ratings)
        matrix = _rows(ratings, implicit)
        _check_numbers(matrix.data)
        if items is not None and matrix.shape[1] != len(items):
            raise ValueError(
                f"The ratings have {matrix.shape[1]} columns, but {len(items)} items are known."
            )
        given: list[Hashable] = list(range(matrix.shape[1])) if items is None else list(items)
        return Ratings(list(range(matrix.shape[0])), given, matrix, implicit)
    user, item, rating = _three(ratings, names or ColumnNames())
    if implicit and rating is not None and not np.all(rating):
        user, item = (_where(rating != 0, names) for names in (user, item))
        if len(user) == 0:
            raise ValueError("There are no ratings but counts of 0; give an item that was taken.")
    if implicit or rating is None:
        implicit, rating = True, np.ones(len(user))
    users, row = _numbered(user)
    if items is None:
        known, column = _numbered(item)
    else:
        known, place = list(items), {name: i for i, name in enumerate(items)}
        given, number = _numbered(item)
        strange = [name for name in given if name not in place]
        if strange:
            raise ValueError(
                f"{strange[0]!r} is not a known item; known items are in items_. Leave out others, "
                "or learn them with add_items or partial_fit."
            )
        column = np.array([place[name] for name in given], np.int64)[number]
    matrix = _once(row, column, rating, (len(users), len(known)), implicit)
    return Ratings(users, known, matrix, implicit)


def _where(kept: Array, names: Names) -> Names:
    """Some of the users or items: a count of 0 is nothing taken."""
    if isinstance(names, np.ndarray):
        return names[kept]
    return [name for name, keep in zip(names, kept, strict=True) if keep]


def _rows(ratings: sparse.csr_matrix, implicit: bool) -> sparse.csr_matrix:
    """A sparse matrix as CSR; scipy would add up what is stored twice."""
    if ratings.format in ("coo", "csr", "csc") and not ratings.has_canonical_format:
        entries = ratings.tocoo()
        triple = entries.row.astype(np.int64), entries.col, entries.data
        matrix = _once(*triple, ratings.shape, implicit)
    else:
        matrix = sparse.csr_matrix(ratings)
    if not implicit:
        return matrix
    matrix = matrix.copy()
    matrix.eliminate_zeros()  # a count of 0 is nothing taken
    matrix.data = np.ones(len(matrix.data))
    return matrix


def _once(
    row: Array, column: Array, rating: Array, shape: tuple[int, int], quiet: bool
) -> sparse.csr_matrix:
    """CSR of ratings, of those for the same user and item the last."""
    key = row * shape[1] + column
    last = len(key) - 1 - np.unique(key[::-1], return_index=True)[1]
    if len(last) < len(key) and not quiet:  # an item may be taken several times
        n = len(key) - len(last)
        repeated = f"{plural(n, 'rating')} repeat{'s' * (n == 1)}"
        warn(f"{repeated} a user and item; the last rating of each is used.")
    return sparse.csr_matrix((rating[last], (row[last], column[last])), shape=shape)


def _of_frame(frame: pd.DataFrame, names: ColumnNames) -> tuple[Array, ...]:
    """Users, items and, if there are any, ratings of a data frame, in the order of time."""
    present = list(frame.columns)
    alias = {role_of(name): name for name in present}
    found = []
    for role, name in names.by_role().items():
        if name is None:
            continue
        known = name if name in present else alias.get(name)
        if known is None:
            if (role, name) == ("rating", "rating"):
                continue  # implicit feedback
            raise ValueError(
                f"The table of ratings has no column {name!r}; pass {role}= the name of the column "
                f"with the {role}s."
            )
        found.append(frame[known].to_numpy())
    if names.timestamp is None:
        return tuple(found)
    order = np.argsort(found.pop(), kind="stable")
    return tuple(column[order] for column in found)


def _three(ratings: object, names: ColumnNames) -> tuple[Names, Names, Array | None]:
    """Users, items and checked ratings; None if there are no ratings."""
    if frame_of(ratings) != "array":
        ratings = _of_frame(cast("pd.DataFrame", ratings), names)
    if not isinstance(ratings, tuple) or len(ratings) not in (2, 3):
        raise ValueError(
            "ratings must be a DataFrame with columns user, item and rating, a tuple of three "
            "arrays (users, items, ratings) or of two (users, items), or a sparse matrix; "
            "convert a list of triples with tuple(zip(*triples))."
        )
    user, item = ratings[0], ratings[1]
    rating = np.ones(len(user)) if len(ratings) == 2 else np.asarray(ratings[2])
    if rating.dtype.kind not in "iufb":
        raise ValueError(
            f"Ratings must be numbers, but are of dtype {rating.dtype}; convert text with "
            "astype(float)."
        )
    if not len(user) == len(item) == len(rating):
        raise ValueError(
            "Users, items and ratings must have the same length, but have "
            f"{len(user)}, {len(item)} and {len(rating)}."
        )
    if len(rating) == 0:
        raise ValueError("There are no ratings; give at least one.")
    rating = rating.astype(float)
    _check_numbers(rating)
    return user, item, None if len(ratings) == 2 else rating


def _check_numbers(rating: Array) -> None:
    infinite = ~np.isfinite(rating)
    if infinite.any():
        first = int(infinite.argmax())
        raise ValueError(f"Rating number {first} is {rating[first]}; leave out unknown ratings.")
    large = np.abs(rating) > np.finfo(np.float32).max
    if large.any():
        first = int(large.argmax())
        raise ValueError(
            f"Rating number {first} is {rating[first]:g}, which single precision cannot represent; "
            "divide the ratings by a constant."
        )


def merge_ratings(old: Ratings, new: Ratings) -> Ratings:
    """Ratings of both, with the users and items of the second after those of the first.

    A rating of the second replaces one of the same pair in the first.
    """
    users, row = _joined(old.users, new.users)
    items, column = _joined(old.items, new.items)
    entries = new.matrix.tocoo()
    place = row[entries.row], column[entries.col], entries.data
    if old.matrix is not None:
        first = old.matrix.tocoo()
        both = zip((first.row, first.col, first.data), place, strict=True)
        place = tuple(np.concatenate(pair) for pair in both)  # type: ignore[assignment]  # of three
    matrix = _once(place[0].astype(np.int64), *place[1:], (len(users), len(items)), quiet=True)
    return Ratings(users, items, matrix, new.implicit)


def _joined(old: list[Hashable], new: list[Hashable]) -> tuple[list[Hashable], Array]:
    """Names of both without repetition, and the places of the second among them."""
    place = {name: i for i, name in enumerate(old)}
    numbers = [place.setdefault(name, len(place)) for name in new]
    return list(place), np.array(numbers, np.int64)


def as_objects(names: Sequence[Hashable]) -> Array:
    """Names as an array of Python objects."""
    out = np.empty(len(names), dtype=object)
    out[:] = list(names)
    return out


def csr_fields(matrix: sparse.csr_matrix) -> dict[str, Array]:
    """Arrays of a sparse matrix, for a file."""
    return {
        "data": matrix.data.astype(np.float32),
        "indices": matrix.indices.astype(np.int64),
        "indptr": matrix.indptr.astype(np.int64),
    }


def csr_of(fields: Mapping[str, Array], shape: tuple[int, int]) -> sparse.csr_matrix:
    """A sparse matrix from its arrays."""
    arrays = fields["data"], fields["indices"], fields["indptr"]
    return sparse.csr_matrix(arrays, shape=shape)


def plain(names: object) -> list[Hashable]:
    """Names as Python's own values, so that 3 from an array finds 3 from a dictionary."""
    if isinstance(names, np.ndarray):
        return np.atleast_1d(names).tolist()
    if isinstance(names, str) or not isinstance(names, Iterable):  # one of them
        return [cast(Hashable, names)]
    return list(cast(Names, names))


def numbers_of(place: Mapping[Hashable, int], names: Sequence[Hashable]) -> Array:
    """Numbers of users or items, -1 for those that are unknown."""
    try:
        return np.array([place.get(name, -1) for name in names], np.int64)
    except TypeError as error:
        raise ValueError(
            f"Users and items are hashable, such as numbers or text: {error}; pass their ids."
        ) from None


def _numbered(names: Names) -> tuple[list[Hashable], Array]:
    """Distinct names, sorted if they are of one kind that an array holds, and numbers of all."""
    if isinstance(names, np.ndarray):
        array = names
    else:
        array = np.empty(len(names), dtype=object)
        array[:] = list(names)  # tuples stay what they are
    if array.ndim != 1:
        raise ValueError("Users and items must be one-dimensional, one for every rating.")
    if array.dtype.kind in "iuUSb":
        found, number = np.unique(array, return_inverse=True)
        return found.tolist(), number
    place: dict[Hashable, int] = {}
    try:
        number = np.array([place.setdefault(name, len(place)) for name in array.tolist()])
    except TypeError as error:
        raise ValueError(
            f"Users and items must be hashable, as numbers or text: {error}."
        ) from None
    lost = next((name for name in place if is_missing(name)), place)
    if lost is not place:
        raise ValueError(
            f"A user or an item is {lost!s}; leave out ratings whose user or item is missing."
        )
    return list(place), number


def read_person(
    person: object, place: Mapping[Hashable, int], unknown: str, *, implicit: bool = False
) -> tuple[Array, Array]:
    """Columns and ratings of one person, a mapping of items to ratings.

    With implicit feedback it may be any collection of items, such as a list or a Series; in a
    mapping an item with the number 0 was not taken.

    Items that are not known are left out with a warning or, with ``unknown="raise"``, refused.
    """
    # The values of a Series are ratings or, with implicit feedback, items.
    listed = implicit and isinstance(person, Iterable) and not isinstance(person, Mapping)
    if frame_of(person) != "array" or not (listed or hasattr(person, "items")):
        what = "a list of items, a mapping" if implicit else "a mapping of items to ratings, as"
        raise ValueError(
            f"A person is {what} {{'Alien': 5}}, or the id of a user of the fit, not a "
            f"{type(person).__name__}."
        )
    if listed:
        person = dict.fromkeys(cast(Iterable[Hashable], person), 1.0)
    given = list(cast(Mapping[Hashable, float], person).items())
    pairs = list(dict(given).items())
    if len(pairs) < len(given):
        warn("An item is rated twice; the last rating is used.")
    strange = [item for item, _ in pairs if item not in place]
    if strange:
        text = f"Unknown item: {strange[0]!r}"
        if len(strange) > 1:
            text += f" and {len(strange) - 1} more"
        if unknown == "raise":
            raise ValueError(f'{text}; leave it out, or call set_params(unknown="warn").')
        warn(f"{text}; ignored.")
        pairs = [pair for pair in pairs if pair[0] in place]
    columns = np.array([place[item] for item, _ in pairs], np.int64)
    values = np.array([_number(*pair) for pair in pairs])
    if implicit:
        columns, values = columns[values != 0], np.ones(np.count_nonzero(values))
    order = np.argsort(columns)
    return columns[order], values[order]


def _number(item: Hashable, rating: object) -> float:
    """A rating of a person."""
    try:
        value = float(cast(float, rating))
    except (TypeError, ValueError):
        raise ValueError(
            f"The rating of {item!r} is {rating!r}; ratings must be numbers."
        ) from None
    if not np.isfinite(value):
        raise ValueError(f"The rating of {item!r} is {value}; leave out unknown ratings.")
    return value


def check_whole(name: str, value: object, least: int = 1) -> None:
    """Refuse what is not a whole number of at least so much."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value!r} must be a whole number of at least {least}.")


def read_levels(given: ArrayLike | None, ratings: Array) -> Array:
    """The scale that was given, or None for that of the ratings that occur, ascending."""
    found = np.unique(ratings) if given is None else np.atleast_1d(given)
    # As they are written: 0.1 of single precision is 0.1, not what it is in double.
    try:
        levels = np.unique([float(str(level)) for level in found])
    except ValueError:
        raise ValueError(f"levels={given!r} must be numbers, such as [1, 2, 3, 4, 5].") from None
    if len(levels) < 2 or not np.isfinite(levels).all():
        raise ValueError(
            f"The scale {levels.tolist()} has {len(levels)} level(s), but ratings differ only on a "
            "scale of two or more; pass levels=[1, 2, 3, 4, 5] or what it is."
        )
    if np.abs(levels).max() > np.finfo(np.float32).max:
        raise ValueError(
            f"The scale has the level {levels[np.abs(levels).argmax()]:g}, which single precision "
            "cannot represent; divide the ratings by a constant."
        )
    return levels


def check_scale(ratings: Array, levels: Array) -> None:
    """Refuse ratings that the scale does not have."""
    with np.errstate(over="ignore"):  # such ratings are on no scale
        unknown = ~np.isin(ratings.astype(np.float32), levels.astype(np.float32))
    if unknown.any():
        shown = ", ".join(f"{v:g}" for v in levels[:12]) + (", ..." if len(levels) > 12 else "")
        raise ValueError(
            f"The rating {ratings[unknown.argmax()]:g} is not on the scale {shown}; correct it, or "
            "fit with levels that have it."
        )
