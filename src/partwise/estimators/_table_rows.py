"""Reading of tables with columns of several kinds, for estimators of parts with states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from partwise._compat import check_columns
from partwise.answers import tables
from partwise.contracts import Array
from partwise.data import ObservedCells, RowSource
from partwise.data.frame_passes import Unseen, encode_frames, survey_frames
from partwise.data.frame_reading import read_columns
from partwise.data.frame_sources import Frames, FrameStore, frames_of
from partwise.data.frames import (
    all_numbers,
    as_numbers,
    as_table,
    frame_of,
    index_of,
    names_of,
    with_own_names,
)
from partwise.data.table import Likelihood, Schema
from partwise.estimators._gated import GatedEstimator
from partwise.estimators._rows import without_names
from partwise.fitting.options import Rows, TrainingRows
from partwise.fitting.weights import read_weights
from partwise.runners import placed
from partwise.sampling.randomness import as_generator
from partwise.typing import DataLike, Frame, Given, Index, Matrix, Name, Seed, Value


class TableRows(GatedEstimator):
    """Input of a model of parts with states: matrices, and tables that are coded as numbers."""

    @property
    def _is_table(self) -> bool:
        """Whether columns may be of several kinds."""
        if hasattr(self, "_fitted"):
            return self._fitted.schema is not None
        return not isinstance(self.likelihood, str) or self.likelihood == "auto"

    def _reads_table(self, X: DataLike) -> bool:
        """Whether rows to learn from are a table with columns of several kinds.

        "gaussian", the default, is "auto" for a data frame whose columns are not all numbers.
        """
        if not isinstance(self.likelihood, str) or self.likelihood == "auto":
            return True
        return self.likelihood == "gaussian" and not all_numbers(X)

    def _read_table(self, X: DataLike, *, reset: bool) -> Frame | Array:
        """A table of the right columns, in memory."""
        if isinstance(X, ObservedCells):
            X = X.table()
        if sparse.issparse(X):
            raise ValueError(
                "Sparse X cannot have columns of several kinds; set likelihood to one "
                'distribution, for example "poisson", or pass a DataFrame or X.toarray().'
            )
        X = np.asarray(X) if isinstance(X, np.memmap) else X  # a table is read whole
        X = as_table(X)
        X = X if reset else as_table(tables.aligned(self._fitted, X))
        validate_data(self, with_own_names(X), reset=reset, skip_check_array=True)
        return X

    def _check_rows(self, X: DataLike, *, reset: bool) -> Rows:
        """As for other models; a table is coded as numbers."""
        if reset or not self._is_table:
            return super()._check_rows(X, reset=reset)
        schema = self._fitted.schema
        assert schema is not None
        coded = schema.encode(self._read_table(X, reset=reset), tell=True)
        return coded.astype(self._fitted.dtype, copy=False)

    def _training_rows(
        self, X: DataLike, sample_weight: ArrayLike | None, *, reset: bool = True
    ) -> TrainingRows:
        """Rows to learn from; the kinds of columns are learned from rows of positive weight."""
        if not (self._reads_table(X) if reset else self._is_table):
            return super()._training_rows(X, sample_weight, reset=reset)
        self._halted = False
        frames = frames_of(X)
        if frames is not None:
            return self._training_frames(frames, sample_weight, reset=reset)
        X = self._read_table(X, reset=reset)
        weight = read_weights(sample_weight, X.shape[0])
        kept = weight > 0
        schema = self._known_schema(reset)
        known = schema is not None
        wanted = "auto" if self.likelihood == "gaussian" else self.likelihood
        raw = read_columns(X)
        schema = schema or self._suited(Schema.learn(X, wanted, kept, raw), wanted)
        coded = schema.encode_columns(raw, tell=known)
        schema = schema if known else schema.with_twins(coded[kept])
        coded = coded if reset else coded.astype(self._fitted.dtype, copy=False)
        names = getattr(self, "feature_names_in_", None)
        return TrainingRows(coded[kept], weight[kept], kept, names, schema)

    def _suited(self, schema: Schema, asked: Likelihood) -> Schema:
        """A table's columns as the model can describe them."""
        return schema

    def _known_schema(self, reset: bool) -> Schema | None:
        """The schema of the last fit, where it stays."""
        known = hasattr(self, "_fitted") and (self.warm_start or not reset)
        return self._fitted.schema if known else None

    def _training_frames(
        self, frames: Frames, sample_weight: ArrayLike | None, *, reset: bool
    ) -> TrainingRows:
        """The same for a table that is not in memory: two passes over it."""
        rows = FrameStore(frames)
        check_columns(self, RowSource.of(rows), rows.names, reset=reset)
        weight = read_weights(sample_weight, sum(piece.n_rows for piece in frames.pieces))
        kept = weight > 0
        used = None if kept.all() else kept
        schema = self._known_schema(reset)
        unseen: Unseen = "warn"
        if schema is None:
            schema = survey_frames(frames, self.likelihood, used)
            schema = self._suited(schema, self.likelihood)
            unseen = "missing" if used is not None else "refuse"
        coded = placed(encode_frames(frames, schema, unseen))
        if used is not None and isinstance(coded, RowSource):
            coded = coded.some(kept)
        weight = weight if used is None else weight[kept]  # no copy where there are very many
        names = getattr(self, "feature_names_in_", None)
        return TrainingRows(coded, weight, kept, names, schema)

    def _as_given(
        self, values: Array, X: DataLike | None = None, sampled: bool = False
    ) -> Array | Frame:
        if self._fitted.schema is None:
            return values
        return self._fitted.schema.decode(values, index_of(X), predicted=True, sampled=sampled)

    def _sampled_together(self, rows: Array, random_state: Seed) -> Array:
        if self._fitted.schema is None:
            return rows
        rng = as_generator(self.random_state if random_state is None else random_state)
        return self._fitted.schema.sampled_together(rows, rng.spawn(1)[0])

    def _one_row(self, x: Given) -> Matrix:
        check_is_fitted(self)
        if self._fitted.schema is None:
            return super()._one_row(x)
        if getattr(x, "ndim", 2) == 1 and hasattr(x, "to_dict"):  # a row of a DataFrame
            x = x.to_dict()
        elif not hasattr(x, "columns") and not isinstance(x, Mapping):
            x = np.atleast_2d(np.asarray(x, dtype=object))
        row, _ = without_names(lambda: self._read_given(x))
        if len(row) != 1:
            raise ValueError(f"x must be one row, but has {len(row)}; call explain(X.iloc[i]).")
        return row

    def _values_of_row(self, x: Given) -> dict[str, Value]:
        """Values of one row as the user gave them, by column; of rows that are no table, none."""
        if self._fitted.schema is None:
            return {}
        names: Sequence[Name] = self._fitted.schema.names
        if isinstance(x, Mapping) and not hasattr(x, "shape"):
            names, row = list(x), list(x.values())
        elif getattr(x, "ndim", 2) == 1 and hasattr(x, "to_dict"):  # a row of a DataFrame
            names, row = list(x.to_dict()), list(x.to_dict().values())
        elif frame_of(x) == "array":
            row = list(np.asarray(x, dtype=object).ravel())
        else:
            names, row = names_of(x), tables.row_values(cast("Frame", x), 0)
        pairs = zip(names, row, strict=True)
        return {str(name): tables.plain_value(value) for name, value in pairs}

    def _read_given(self, given: Given) -> tuple[Array, Index]:
        """Known cells as coded rows, and their index; columns may be absent.

        A mapping is one row, a table several.
        """
        schema, dtype = self._fitted.schema, self._fitted.dtype
        if isinstance(given, Mapping) and not hasattr(given, "shape"):
            if schema is not None:
                return schema.encode_row(given).astype(dtype), None
            return self._one_row(given), None
        if schema is not None and frame_of(given) != "array":
            return schema.encode_some(given).astype(dtype), index_of(given)
        names = self._fitted.names
        if names is None or frame_of(given) == "array" or set(names) <= set(names_of(given)):
            return self._checked(given), index_of(given)
        known = np.asarray(as_numbers(given), dtype=float)
        rows = np.full((len(known), len(names)), np.nan)
        rows[:, [self._fitted.place_of(name) for name in names_of(given)]] = known
        return without_names(lambda: self._checked(rows)), index_of(given)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if self._is_table:
            tags.input_tags.sparse = False
            tags.input_tags.string = tags.input_tags.categorical = True
        return tags
