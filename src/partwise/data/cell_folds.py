"""Folds over the observed cells of a table.

Separate from `cells`: the base class is in scikit-learn's model selection, whose import takes long,
and answers of a fitted model need none of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral

import numpy as np
from sklearn.model_selection import BaseCrossValidator

from partwise.contracts import Array
from partwise.data.cells import ObservedCells
from partwise.sampling.randomness import as_generator
from partwise.typing import DataLike, Seed


class CellKFold(BaseCrossValidator):
    """Folds over the observed cells of a table; each row's cells are spread over all folds.

    The numbers of a row's cells in the folds differ by one at most, and so do the folds' sizes, but
    for this: a column whose cells would all be held out at once keeps one of them in training.

    Parameters
    ----------
    n_splits : int, default=5
    random_state : int, Generator, RandomState or None, default=None

    Examples
    --------
    Sizes judged by held-out cells:

    >>> from partwise import MCVQ, CellKFold, ObservedCells, make_shapes
    >>> from sklearn.model_selection import GridSearchCV
    >>> X = make_shapes().data[::4]
    >>> search = GridSearchCV(
    ...     MCVQ(n_states=9, random_state=0), {"n_parts": [1, 3]}, cv=CellKFold(3, random_state=0)
    ... )
    >>> search.fit(ObservedCells(X)).best_params_
    {'n_parts': 3}

    Or by hand:

    >>> table = ObservedCells(X)
    >>> train, test = next(iter(CellKFold(3, random_state=0).split(table)))
    >>> model = MCVQ(n_parts=3, n_states=9, random_state=0).fit(table[train])
    >>> model.score(table[test]) > 0
    True
    """

    n_splits: int
    random_state: Seed

    def __init__(self, n_splits: int = 5, *, random_state: Seed = None) -> None:
        if not isinstance(n_splits, Integral) or n_splits < 2:
            raise ValueError(f"n_splits={n_splits!r} must be a whole number of at least 2.")
        self.n_splits = n_splits
        self.random_state = random_state

    def get_n_splits(self, X: object = None, y: object = None, groups: object = None) -> int:
        """Number of folds.

        Parameters
        ----------
        X, y, groups : ignored

        Returns
        -------
        n_splits : int
        """
        return int(self.n_splits)

    def split(
        self, X: DataLike | ObservedCells, y: object = None, groups: object = None
    ) -> Iterator[tuple[Array, Array]]:
        """Numbers of the training cells and of the held-out cells.

        Parameters
        ----------
        X : ObservedCells, array-like or sparse of shape (C, D)
            The cells of a plain table are numbered row by row, as `ObservedCells` does.
        y, groups : ignored

        Yields
        ------
        train, test : ndarray of int
            ``ObservedCells(X)[train]`` and ``ObservedCells(X)[test]``.
        """
        fold = self._folds(X if isinstance(X, ObservedCells) else ObservedCells(X))
        for i in range(self.n_splits):
            yield np.flatnonzero(fold != i), np.flatnonzero(fold == i)

    def _folds(self, cells: ObservedCells) -> Array:
        """Fold in which each cell is held out, -1 for none."""
        if len(cells) < self.n_splits:
            raise ValueError(
                f"n_splits={self.n_splits} is more than there are cells, {len(cells)}; lower it."
            )
        rng = as_generator(self.random_state)
        row, column = cells.rows, cells.columns
        # Rows in random order, each with its cells in random order, are dealt out one by one.
        order = np.lexsort((rng.random(len(row)), rng.permutation(row.max() + 1)[row]))
        fold = np.empty(len(row), np.int64)
        fold[order] = np.arange(len(row)) % self.n_splits
        lowest = np.full(column.max() + 1, self.n_splits)
        highest = np.full(column.max() + 1, -1)
        np.minimum.at(lowest, column, fold)
        np.maximum.at(highest, column, fold)
        found, first = np.unique(column[order], return_index=True)
        alone = lowest[found] == highest[found]
        fold[order[first[alone]]] = -1
        return fold
