"""A fitted model as a value: what `fitting` makes, `answers` ask, and files and pages keep.

An estimator holds one, ``_fitted``, and copies its public attributes from it. Nothing changes a
`Fitted`; what goes on from one, such as streaming, makes another with `dataclasses.replace`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

import numpy as np
from scipy import sparse

from partwise.contracts import Array, Model, Stats
from partwise.data.columns import ColumnGroup
from partwise.data.table import Schema
from partwise.models.calibration import Calibration

ModelT = TypeVar("ModelT")
Params = TypeVar("Params")


@dataclass(frozen=True, eq=False)
class FitRecord:
    """What is told of a fit.

    ``trace`` (n_iter + 1,) and ``bound`` are evidence lower bounds per unit of row weight;
    ``n_rows`` and ``weight`` are the rows seen and the weight that the parameters rest on, None for
    models that do not count them; ``size_path`` are the moves of a search for sizes, None without
    one; ``row_labels`` (C, K) the states of the training rows, None where they are not kept.
    """

    trace: Array
    bound: float
    n_iter: int
    converged: bool
    n_rows: int | None = None
    weight: float | None = None
    size_path: list[dict[str, object]] | None = None
    row_labels: Array | None = None


class Batch(NamedTuple):
    """Checked rows in memory, dense or CSR, their weights, and their classes if there are some."""

    X: Any
    weight: Array
    labels: Array | None

    def beside(self, other: Batch) -> Batch:
        """These rows, then others."""
        pairs = [self.X, other.X]
        X = sparse.vstack(pairs, format="csr") if sparse.issparse(self.X) else np.vstack(pairs)
        labels = None
        if self.labels is not None and other.labels is not None:
            labels = np.append(self.labels, other.labels)
        return Batch(X, np.append(self.weight, other.weight), labels)

    @property
    def n_bytes(self) -> int:
        """Memory that the entries take."""
        return int(self.X.data.nbytes)


class Running(NamedTuple):
    """What a stream has left behind, to go on with."""

    stats: Stats | None  # sums at the scale of ``weight``; None: those that the parameters tell
    totals: Array | None  # of the columns, if the model holds them
    column_weight: Array  # C_d, (D,)
    weight: float  # rows that the sums stand for
    seen: float  # summed weight of all rows
    kept: Batch | None  # that wait for a good start
    at_last_fit: int  # rows that parameters were last fitted to


@dataclass(frozen=True, eq=False)
class Fitted(Generic[ModelT, Params]):
    """All that is learned.

    Parameters
    ----------
    model : model
        As a dataclass of ``partwise.models``: sizes, priors, and the mathematics of rows.
    params : tuple
        Its parameters.
    columns : tuple of ColumnGroup
        Units, levels and weights of the columns.
    n_columns : int
        Columns of X; groups may lack some of them.
    dtype : dtype
        Of the rows, and of the answers.
    record : FitRecord
    names : ndarray of shape (D,) or None
        Names of the columns, where X had some.
    n_parts : int or None
        Parts, a background aside; None for models without.
    schema : Schema or None
        What the columns of a table are, None for a matrix of one kind.
    calibration : Calibration or None
        Of intervals.
    classes : ndarray of shape (N,) or None
        Names of the classes of rows.
    running : Running or None
        Where a stream of rows goes on; files do not keep it.
    """

    model: ModelT
    params: Params
    columns: tuple[ColumnGroup, ...]
    n_columns: int
    dtype: np.dtype[np.generic]
    record: FitRecord
    names: Array | None = None
    n_parts: int | None = None
    schema: Schema | None = None
    calibration: Calibration | None = None
    classes: Array | None = None
    running: Running | None = None

    @cached_property
    def prepared(self) -> Any:
        """The parameters as the model needs them to infer new rows."""
        return cast(Model[Params, Any, Any, Any, Any], self.model).prepare(self.params)

    def column_name(self, d: int) -> str:
        """Name of a column, or its number where columns have no names."""
        return str(d) if self.names is None else str(self.names[d])

    def place_of(self, name: object) -> int:
        """Place of a column by its name, or its number where columns have no names."""
        names = [self.column_name(d) for d in range(self.n_columns)]
        if str(name) not in names:
            known = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
            raise ValueError(f"There is no column {name!r}; columns are {known}.")
        return names.index(str(name))


class Learned(Protocol):
    """A fitted estimator."""

    _fitted: Any


def fitted_of(estimator: Learned) -> Fitted[Any, Any]:
    """What a fitted estimator has learned."""
    fitted: Fitted[Any, Any] = estimator._fitted
    return fitted


def schema_of(estimator: object) -> Schema | None:
    """What the columns of a fitted estimator's table are, None for others."""
    schema: Schema | None = getattr(getattr(estimator, "_fitted", None), "schema", None)
    return schema


def core_of(model: Any) -> Any:
    """The model's core, whether or not rows remember something of their own on top of it."""
    return getattr(model, "core", model)


# Public attribute of an estimator, and where a `Fitted` or its record has it. Those that are None
# are not set. Model files keep them by these names.
_OF_RECORD = {
    "lower_bound_": "bound",
    "lower_bounds_": "trace",
    "n_iter_": "n_iter",
    "converged_": "converged",
    "n_samples_seen_": "n_rows",
    "weight_seen_": "weight",
    "size_path_": "size_path",
    "row_labels_": "row_labels",
}
_OF_MODEL = {
    "n_features_in_": "n_columns",
    "feature_names_in_": "names",
    "n_parts_": "n_parts",
    "classes_": "classes",
}


def shared_attributes(fitted: Fitted[ModelT, Params]) -> dict[str, object]:
    """Learned attributes that every estimator copies, by name; those that there are."""
    found = {name: getattr(fitted.record, field) for name, field in _OF_RECORD.items()}
    found |= {name: getattr(fitted, field) for name, field in _OF_MODEL.items()}
    return {name: value for name, value in found.items() if value is not None}


def restored_fields(learned: Mapping[str, object]) -> dict[str, object]:
    """Fields of a `Fitted`, the record among them, from what `shared_attributes` gave."""
    record = {field: learned.get(name) for name, field in _OF_RECORD.items()}
    fields = {field: learned.get(name) for name, field in _OF_MODEL.items()}
    return {**fields, "record": FitRecord(**record)}  # type: ignore[arg-type]  # read from a file
