"""The rows that the page scores, and those that it contains."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from partwise.answers.tables import aligned
from partwise.data.frames import index_of, is_pandas, is_polars
from partwise.fitted import fitted_of, schema_of
from partwise.plot.view import StatesView, View, as_shown, n_rows_of, take_rows
from partwise.report.embed import names_of
from partwise.typing import DataLike, Name

# Limits that keep the scores of large data quick and the file small.
_SCORED_CELLS = 1_000_000
_MAX_ENTRIES = 100_000


class PageRows:
    """Rows at equal distances that are scored, and a stratified sample that the page contains.

    Attributes
    ----------
    n_rows, n_scored : int
        Number of rows, and of those that are scored.
    scored_index : ndarray of shape (n_scored,)
        Their positions in the data.
    scored : data
        The rows themselves.
    index : ndarray of shape (n,)
        Positions in the data of the rows on the page, ascending.
    """

    def __init__(
        self, model: BaseEstimator, data: DataLike, names: Sequence[Name] | None = None
    ) -> None:
        self.n_rows = n_rows_of(data)
        if names is not None and len(names) != self.n_rows:
            raise ValueError(
                f"There are {len(names)} names for {self.n_rows} rows; pass one name per row."
            )
        self._model, self._data, self._names = model, data, names
        self._n_columns = max(len(names_of(model)), 1)
        self.n_scored = min(self.n_rows, max(_SCORED_CELLS // self._n_columns, 1))
        self.scored_index = _spread(self.n_rows, self.n_scored)
        self.scored, _ = take_rows(data, self.scored_index)
        self.index = np.empty(0, int)

    def choose(self, seen: View | None, max_rows: int, include: Sequence[int] = ()) -> None:
        """Choose the rows on the page: those to include, and a sample stratified by state."""
        n_entries = self._n_columns
        if sparse.issparse(self.scored):
            n_entries = max(1, sparse.csr_array(self.scored).nnz // max(self.n_scored, 1))
        n = min(max(_MAX_ENTRIES // n_entries, 1), max_rows, self.n_scored)
        order = np.arange(self.n_scored)
        if n < self.n_scored and isinstance(seen, StatesView):
            order = _by_state(seen, self.scored)
        kept = np.array(sorted(set(include)), int)[:n]
        rest = order[~np.isin(self.scored_index[order], kept)]
        sampled = self.scored_index[rest[_spread(len(rest), n - len(kept))]]
        self.index = np.sort(np.concatenate([kept, sampled]))

    @property
    def shown(self) -> DataLike:
        """The rows on the page, a table of several kinds as the model's numbers."""
        rows, _ = take_rows(self._data, self.index)
        return rows if schema_of(self._model) is None else as_shown(rows, self._model)

    @cached_property
    def coded(self) -> np.ndarray:
        """The scored rows as the model's numbers."""
        return as_shown(self.scored, self._model)

    def missing_share(self, d: int) -> float | None:
        """Share of the scored rows without a value in a column; None of plain arrays."""
        own = aligned(fitted_of(self._model), self.scored)
        if is_pandas(own):
            return float(own.iloc[:, d].isna().mean())
        return own.to_series(d).null_count() / max(len(own), 1) if is_polars(own) else None

    @property
    def names(self) -> list[str]:
        """Names of the rows on the page."""
        return [self.name(i) for i in self.index]

    def name(self, position: int) -> str:
        """The name of a row: as given, by a frame's index, or by its number counted from 1."""
        if self._names is not None:
            return str(self._names[position])
        index = self._index
        if index is None or self.are_counted:
            return f"Row {position + 1}"
        is_number = isinstance(index[position], int | np.integer)
        word = f"{getattr(index, 'name', None) or 'index'} " if is_number else ""
        return f"{word}{index[position]}"

    @cached_property
    def _index(self) -> Sequence[Name] | None:
        """Labels of the rows of a frame."""
        return index_of(self._data)

    @cached_property
    def are_counted(self) -> bool:
        """Whether rows have no names but their place, as the rows of a file do."""
        if self._names is not None:
            return self.name(self.n_rows - 1) == f"Row {self.n_rows}"
        return self._index is None or list(self._index) == list(range(self.n_rows))

    @property
    def have_names(self) -> bool:
        """Whether rows have names that are words."""
        if self._names is not None or self._index is None:
            return not self.are_counted
        return not isinstance(self._index[0], int | np.integer)


def _spread(n: int, n_wanted: int) -> np.ndarray:
    """Positions at equal distances, the first and the last included."""
    return np.unique(np.linspace(0, n - 1, min(n, n_wanted)).round().astype(int))


def _by_state(seen: StatesView, rows: DataLike) -> np.ndarray:
    """Order of rows by the states of the parts, the part with most columns first.

    Rows at equal distances in this order are a sample stratified by state.
    """
    states = seen.codes(rows)
    counts = np.array([len(seen.columns(k)) for k in range(seen.n_parts)])
    return np.lexsort(states[:, np.argsort(counts, kind="stable")].T)
