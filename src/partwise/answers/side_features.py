"""Features of items and users, from which those without ratings are predicted.

Items without ratings are predicted as a weighted mean of items with ratings (the lenders): a ridge
regression predicts vectors of items from their features, and the weight of a lender falls with the
squared distance of its predicted vector, and rises with its number of ratings. The width of the
kernel is selected by leave-one-out: how well lenders are predicted by the others. Users without
ratings are treated in the same way.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from scipy import linalg, sparse

from partwise.answers.recommend import Catalog
from partwise.contracts import Array
from partwise.data.frame_reading import RawColumn, read_columns
from partwise.data.frames import as_table, frame_of, is_missing
from partwise.data.ratings import ColumnNames, Ratings, plain, role_of
from partwise.typing import FeaturesLike, Frame, Name

# Lenders at most: those with most ratings are considered, and the nearest of them are kept.
MAX_LENDERS, NEAREST = 3000, 50

# Columns of categories at most: rarer levels of a column count as missing.
MAX_LEVELS = 50

# Penalties of the ridge regression, and widths of the kernel in units of the mean distance.
PENALTIES = (1.0, 10.0, 100.0)
WIDTHS = (0.1, 0.2, 0.4, 0.8, 1.6, 1e3)


@dataclass(frozen=True, eq=False)
class Features:
    """Encoded features, (n, F), of items or users."""

    ids: list[Hashable]
    values: Array


@dataclass(frozen=True, eq=False)
class Sides:
    """Features of items and of users, None where they are not given."""

    items: Features | None
    users: Features | None

    @classmethod
    def read(
        cls,
        items: FeaturesLike | None,
        users: FeaturesLike | None,
        names: ColumnNames,
        read: Ratings,
    ) -> Sides:
        """Read and encode features of the items and users of ratings, and of others."""
        return cls(
            None if items is None else read_features(items, names.item, "item", read.items),
            None if users is None else read_features(users, names.user, "user", read.users),
        )

    @property
    def nothing(self) -> bool:
        """Whether there are no features."""
        return self.items is None and self.users is None

    def extend(self, read: Ratings) -> Ratings:
        """Ratings with the items and users that have features but no ratings."""
        users, items = list(read.users), list(read.items)
        for known, features in ((users, self.users), (items, self.items)):
            if features is not None:
                seen = set(known)
                known.extend(name for name in features.ids if name not in seen)
        matrix = read.matrix.tocoo()
        place = matrix.data, (matrix.row, matrix.col)
        wide = sparse.csr_matrix(place, shape=(len(users), len(items)))
        return Ratings(users, items, wide, read.implicit)

    def lend(self, catalog: Catalog) -> Catalog:
        """The catalog, with weights of similar items and users for those without ratings."""
        known, taste = catalog.remembered(), catalog.tastes[0]
        if self.users is not None:
            counts = np.diff(known.ratings.indptr)
            vectors = taste.user_vectors(taste.fold_in(known.ratings))
            lent = lent_weights(self.users, known.ids, vectors, counts)
            known = replace(known, lent=lent)
        lent = catalog.lent
        if self.items is not None:
            lent = lent_weights(self.items, catalog.items, taste.item_vectors(), catalog.counts)
        return replace(catalog, known=known, lent=lent)


def read_features(
    given: FeaturesLike, name: Name, role: str, known: Sequence[Hashable]
) -> Features:
    """Read and encode features: ids in a column of this name, in the index, or given apart.

    Some of them are ``known``, items or users of the ratings: from these the others are predicted.
    """
    if isinstance(given, tuple) and len(given) == 2:
        ids, table = plain(given[0]), np.asarray(given[1])
        table = table[:, None] if table.ndim == 1 else table
        columns = read_columns(as_table(table))
        places: list[tuple[Name | None, list[Hashable]]] = [(None, ids)]
    elif frame_of(given) != "array":
        columns, places = read_columns(given), _places(given, name, role)
    else:
        raise ValueError(
            f"{role}_features must be a DataFrame, or a tuple of ids and an array with a row each."
        )
    rated = set(known)
    if any(not isinstance(each, Hashable) or is_missing(each) for _, ids in places for each in ids):
        raise ValueError(f"{role}_features has a row without an id; remove it.")
    found = [place for place in places if not rated.isdisjoint(place[1])]
    if not found:
        first = f"{places[0][1][0]!r} is not {known[0]!r}" if places[0][1] else "it is empty"
        raise ValueError(
            f"{role}_features has no row for {'an' if role == 'item' else 'a'} {role} of the "
            f"ratings ({first}); give the same ids, of the same type, in the column {name!r} or in "
            "the index."
        )
    column, ids = found[0]
    columns = [each for each in columns if column is None or each.name != column]
    if len(set(ids)) < len(ids):
        raise ValueError(f"{role}_features has two rows for the same {role}; give one.")
    encoded = [_encoded(column) for column in columns]
    if not encoded or len(encoded[0]) != len(ids):
        raise ValueError(f"{role}_features must have one row per id, and at least one column.")
    return Features(ids, np.column_stack(encoded))


def _places(frame: Frame, name: Name, role: str) -> list[tuple[Name | None, list[Hashable]]]:
    """Where ids may be: the column of this name or, without it, one of the role, or the index."""
    present = list(frame.columns)
    columns = [name] if name in present else [each for each in present if role_of(each) == role]
    places = [(each, plain(frame[cast(str, each)].to_numpy())) for each in columns]
    if name not in present and hasattr(frame, "index"):
        places.append((None, plain(frame.index.to_numpy())))
    if not places:
        raise ValueError(f"{role}_features has no column {name!r} with the ids; add it.")
    return places


def _encoded(column: RawColumn) -> Array:
    """Standardized numbers, or indicators of levels; a missing value is the mean, (n, columns)."""
    if column.form == "other":
        raise ValueError(
            f"The feature {column.name!r} has values that are neither numbers nor text."
        )
    if column.form != "level":
        values = np.asarray(column.values, dtype=float)[:, None]
        seen = np.isfinite(values)
    else:
        codes = np.asarray(column.values)
        counts = np.bincount(codes[codes >= 0], minlength=len(column.levels))
        kept = np.argsort(-counts, kind="stable")[:MAX_LEVELS]
        values = (codes[:, None] == kept).astype(float)
        seen = np.repeat((codes >= 0)[:, None], len(kept), axis=1)
    n = np.maximum(seen.sum(axis=0), 1)
    mean = np.where(seen, values, 0.0).sum(axis=0) / n
    away = np.where(seen, values - mean, 0.0)
    spread = np.sqrt((away**2).sum(axis=0) / n)
    # Levels share the weight of one number.
    scale = np.sqrt((spread**2).sum()) if column.form == "level" else spread
    return np.asarray(away / np.maximum(scale, 1e-12))


def lent_weights(
    features: Features, names: Sequence[Hashable], vectors: Array, counts: Array
) -> sparse.csr_matrix:
    """Weights (CSR, n x n) of similar items (or users) in the rows of those without ratings.

    An item without ratings and without features has the popular ones as lenders.
    """
    place = {name: i for i, name in enumerate(features.ids)}
    row = np.array([place.get(name, -1) for name in names], np.int64)
    F = np.where((row >= 0)[:, None], features.values[row], 0.0)
    cold = np.flatnonzero(counts == 0)
    lenders = np.argsort(-counts, kind="stable")[:MAX_LENDERS]
    lenders = lenders[counts[lenders] > 0]
    V = vectors[lenders] - np.average(vectors[lenders], axis=0, weights=counts[lenders])
    predicted = F @ _ridge(F[lenders], V, counts[lenders])
    # Users and items of many ratings are better known, but similarity matters more.
    prior = np.log(np.sqrt(counts[lenders]))
    near = _distances(predicted[lenders], predicted[lenders])
    width = _width(near, V, counts[lenders], prior)
    weights = _kernel(_distances(predicted[cold], predicted[lenders]), width, prior)
    weights[row[cold] < 0] = counts[lenders] / counts[lenders].sum()
    if weights.shape[1] > NEAREST:
        least = -np.partition(-weights, NEAREST - 1, axis=1)[:, NEAREST - 1 : NEAREST]
        weights = np.where(weights >= least, weights, 0.0)
    weights /= weights.sum(axis=1, keepdims=True)
    found = sparse.coo_matrix(weights)
    place_of = cold[found.row], lenders[found.col]
    shape = (len(names), len(names))
    return sparse.csr_matrix((found.data.astype(np.float32), place_of), shape=shape)


def _ridge(F: Array, V: Array, counts: Array) -> Array:
    """Coefficients (F, V), with the penalty of the least leave-one-out error."""
    root = np.sqrt(counts / counts.mean())[:, None]
    U, s, Wt = linalg.svd(root * F, full_matrices=False)
    target = root * V
    best, found = np.inf, np.zeros((F.shape[1], V.shape[1]))
    for penalty in PENALTIES:
        shrunk = s**2 / (s**2 + penalty)
        fitted = (U * shrunk) @ (U.T @ target)
        leverage = np.minimum((U**2) @ shrunk, 0.999)
        error = float((((target - fitted) / (1.0 - leverage)[:, None]) ** 2).sum())
        if error < best:
            best = error
            found = Wt.T @ ((s / (s**2 + penalty))[:, None] * (U.T @ target))
    return found


def _distances(a: Array, b: Array) -> Array:
    """Squared distances of rows, (n, m)."""
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2.0 * (a @ b.T)
    return np.maximum(squares, 0.0)


def _kernel(distance: Array, width: float, prior: Array) -> Array:
    """Normalized weights of lenders, (n, m)."""
    log_weight = prior - 0.5 * distance / width**2
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def _width(distance: Array, V: Array, counts: Array, prior: Array) -> float:
    """Width of the kernel with the least leave-one-out error of the vectors."""
    apart = distance.copy()
    np.fill_diagonal(apart, np.inf)
    if len(apart) < 2:
        return 1.0
    unit = max(float(np.sqrt(distance.mean())), 1e-12)
    errors = []
    for width in WIDTHS:
        weights = _kernel(apart, width * unit, prior)
        errors.append(float(counts @ ((V - weights @ V) ** 2).sum(axis=1)))
    return WIDTHS[int(np.argmin(errors))] * unit
