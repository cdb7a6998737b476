"""The rows that the page scores, and those that it contains."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from partwise.fitted import schema_of
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
    shown : data
        Those rows, a table of several kinds as the model's numbers.
    names : list of n str
    """

    def __init__(
        self,
        model: BaseEstimator,
        seen: View | None,
        data: DataLike,
        names: Sequence[Name] | None,
        max_rows: int,
    ) -> None:
        self.n_rows = n_rows_of(data)
        n_columns = max(len(names_of(model)), 1)
        self.n_scored = min(self.n_rows, max(_SCORED_CELLS // n_columns, 1))
        self.scored_index = _spread(self.n_rows, self.n_scored)
        self.scored, _ = take_rows(data, self.scored_index)
        n_entries = n_columns
        if sparse.issparse(self.scored):
            n_entries = max(1, sparse.csr_array(self.scored).nnz // max(self.n_scored, 1))
        n = min(max(_MAX_ENTRIES // n_entries, 1), max_rows, self.n_scored)
        order = np.arange(self.n_scored)
        if n < self.n_scored and isinstance(seen, StatesView):
            order = _by_state(seen, self.scored)
        self.index = np.sort(self.scored_index[order[_spread(self.n_scored, n)]])
        rows, _ = take_rows(data, self.index)
        self.shown = rows if schema_of(model) is None else as_shown(rows, model)
        self.names = self._named(data, names)

    def _named(self, data: DataLike, names: Sequence[Name] | None) -> list[str]:
        """Names of the rows on the page: those given, a frame's index, or row numbers."""
        if names is not None and len(names) != self.n_rows:
            raise ValueError(
                f"There are {len(names)} names for {self.n_rows} rows; pass one name per row."
            )
        if names is not None:
            return [str(name) for name in np.asarray(names, dtype=object)[self.index]]
        every = getattr(data, "index", range(self.n_rows))
        if callable(every):  # of a sequence, not of a frame
            every = range(self.n_rows)
        chosen = np.asarray(every, dtype=object)[self.index]
        return [f"Row {name}" if isinstance(name, int) else str(name) for name in chosen]


def _spread(n: int, n_wanted: int) -> np.ndarray:
    """Positions at equal distances, the first and the last included."""
    return np.unique(np.linspace(0, max(n - 1, 0), n_wanted).round().astype(int))[:n]


def _by_state(seen: StatesView, rows: DataLike) -> np.ndarray:
    """Order of rows by the states of the parts, the part with most columns first.

    Rows at equal distances in this order are a sample stratified by state.
    """
    states = seen.codes(rows)
    counts = np.array([len(seen.columns(k)) for k in range(seen.n_parts)])
    return np.lexsort(states[:, np.argsort(counts, kind="stable")].T)
