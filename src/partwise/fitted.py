"""A fitted model as a value: `fitting` makes it, `answers` use it, files and reports keep it.

An estimator holds one, ``_fitted``, and copies its public attributes from it. A `Fitted`
is never changed; what continues from one, such as streaming, makes another with
`dataclasses.replace`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar, cast

import numpy as np
from scipy import sparse

from partwise._text import unnamed
from partwise.association import Certificate
from partwise.contracts import Array, Stats
from partwise.data.columns import ColumnGroup
from partwise.data.table import Schema
from partwise.models.bayesian_pca import BayesianPCA, BayesianPCAParams
from partwise.models.calibration import Calibration
from partwise.models.gated import GatedCore, GatedModel, P, R
from partwise.models.gvq import GVQ, GVQParams, GVQPrepared
from partwise.models.reference import Reference
from partwise.typing import Matrix, SavedState

ModelT_co = TypeVar("ModelT_co", covariant=True)
Params_co = TypeVar("Params_co", covariant=True)
Prepared_co = TypeVar("Prepared_co", covariant=True)
Params_contra = TypeVar("Params_contra", contravariant=True)
CoreT = TypeVar("CoreT")

# Kind of the move in `FitRecord.size_path` that stands for parts that are nearly as good.
UNCERTAIN = "uncertain"


@dataclass(frozen=True, eq=False)
class FitRecord:
    """Diagnostics of a fit.

    ``trace`` (n_iter + 1,) and ``bound`` are evidence lower bounds per unit of row weight;
    ``n_rows`` and ``weight`` are the rows seen and the weight that the parameters rest on, None for
    models that do not count them; ``size_path`` are the moves of a search for sizes, None without
    one; ``row_labels`` (C, K) the states of the training rows, None where they are not kept;
    ``co_assignment`` (D, D) how often two columns share a part, where parts are sampled.
    """

    trace: Array
    bound: float
    n_iter: int
    converged: bool
    n_rows: int | None = None
    weight: float | None = None
    size_path: list[dict[str, object]] | None = None
    row_labels: Array | None = None
    co_assignment: Array | None = None

    @property
    def doubt(self) -> float | None:
        """How many nats worse another division of the columns is, if that is little."""
        gaps = [move["gain"] for move in self.size_path or () if move["kind"] == UNCERTAIN]
        return -float(str(gaps[-1])) if gaps else None


@dataclass(frozen=True, eq=False)
class Batch:
    """Checked rows in memory, dense or CSR, their weights, and their classes if there are some."""

    X: Matrix
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


@dataclass(frozen=True, eq=False)
class Running:
    """State of a stream between two calls."""

    stats: Stats | None  # at the scale of ``weight``; None: as the parameters imply
    totals: Array | None  # of the columns, if the model holds them
    column_weight: Array  # C_d, (D,)
    weight: float  # rows that the sums stand for
    seen: float  # summed weight of all rows
    kept: Batch | None  # rows kept for a good start
    at_last_fit: int  # rows that parameters were last fitted to


@dataclass(frozen=True, eq=False)
class Fitted(Generic[ModelT_co, Params_co, Prepared_co]):
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
    reference : Reference or None
        Distribution of the training rows, for comparison with later rows.
    told : ndarray of shape (n, N) or None
        What the neighbors of n rows in sequence say of their classes, for answers about these.
    """

    model: ModelT_co
    params: Params_co
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
    reference: Reference | None = None
    told: Array | None = None

    @cached_property
    def prepared(self) -> Prepared_co:
        """The parameters as the model needs them to infer new rows."""
        return cast("Prepares[object, Prepared_co]", self.model).prepare(self.params)

    def with_record(self, record: FitRecord, calibration: Calibration) -> Self:
        """The same model, with another record and calibration."""
        other = replace(self, record=record, calibration=calibration)
        if "prepared" in vars(self):
            vars(other)["prepared"] = self.prepared
        return other

    def column_name(self, d: int) -> str:
        """Name of a column, x0, x1, ... where columns have no names."""
        return _column_name(self.names, self.schema, d)

    def place_of(self, name: object) -> int:
        """Position of a column by its name; where columns have no names, also by its number."""
        names = [self.column_name(d) for d in range(self.n_columns)]
        for text in (_joined(name), f"x{name}" if self.names is None else ""):
            if text in names:
                return names.index(text)
        known = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        raise ValueError(f"There is no column {name!r}; columns are {known}.")


@dataclass(frozen=True, eq=False)
class FittedCodes(Fitted[GVQ, GVQParams, GVQPrepared]):
    """A fitted GVQ, with the seed of its association and the certificates of its training rows."""

    seed: int = 0
    noise_variance: float = 0.0
    certificate: Certificate | None = None

    @property
    def unit(self) -> float:
        """A model unit in the user's units."""
        return unit_of(self.columns)


def unit_of(columns: tuple[ColumnGroup, ...]) -> float:
    """A model unit in the user's units, the same for all columns."""
    return float(columns[0].scale[0])


class NoiseLevel(NamedTuple):
    """Mixtures of all classes at one level of noise, and the slope of their log densities."""

    slope: float
    params: tuple[BayesianPCAParams, ...]


@dataclass(frozen=True, eq=False)
class FittedComponents(Fitted[BayesianPCA, tuple[BayesianPCAParams, ...], object]):
    """Fitted components: parameters of the mixture of every class, or of one in all.

    Parameters
    ----------
    n_directions : int
        Largest number of directions of a component.
    class_priors : ndarray of shape (N,) or None
        Shares of the classes.
    slope : float, and offsets : ndarray of shape (N,) or None
        Calibration of log densities to class probabilities.
    others : tuple of NoiseLevel
        Other levels of noise that class probabilities use.
    moves : list of dict, and size_posterior : ndarray, or None
        Of the search for the number of components.
    """

    n_directions: int = 0
    class_priors: Array | None = None
    slope: float = 1.0
    offsets: Array | None = None
    others: tuple[NoiseLevel, ...] = ()
    moves: list[dict[str, object]] | None = None
    size_posterior: Array | None = None

    @property
    def shares(self) -> Array:
        """Shares of the classes, (N,)."""
        return np.ones(1) if self.class_priors is None else self.class_priors

    @property
    def levels(self) -> tuple[NoiseLevel, ...]:
        """Levels of noise that class probabilities use, that of the densities first."""
        return NoiseLevel(self.slope, self.params), *self.others


def feature_names(estimator: object, n_columns: int) -> list[str]:
    """Names of the columns of a fitted estimator, x0, x1, ... where they have none."""
    names, schema = getattr(estimator, "feature_names_in_", None), schema_of(estimator)
    return [_column_name(names, schema, d) for d in range(n_columns)]


def _column_name(names: Array | None, schema: Schema | None, d: int) -> str:
    """Name of column d: a text, texts of several header rows, or x0, x1, ..."""
    if names is not None:
        return str(names[d])
    own = None if schema is None else schema.names[d]
    return _joined(own) if isinstance(own, tuple) else unnamed(d)


def _joined(name: object) -> str:
    """A name as text; that of a column below several header rows as ``a / b``."""
    return " / ".join(map(str, name)) if isinstance(name, tuple) else str(name)


# A fitted model of which nothing but columns, names and the record matter.
AnyFitted: TypeAlias = Fitted[object, object, object]
# One whose kind only the estimator that holds it knows.
OwnFitted: TypeAlias = Fitted[Any, Any, Any]
# One of gated parts, for a kind of parameters.
FittedParts: TypeAlias = Fitted[GatedModel[P, R], P, R]
# The same where states and factors are treated alike.
AnyCore: TypeAlias = GatedCore[Any, Any]
AnyParts: TypeAlias = Fitted[GatedModel[Any, Any], Any, Any]

FittedT_co = TypeVar("FittedT_co", covariant=True)


class Prepares(Protocol[Params_contra, Prepared_co]):
    """A model, as far as it prepares parameters."""

    def prepare(self, params: Params_contra) -> Prepared_co:
        """Parameters to infer rows with."""
        ...


class Learned(Protocol[FittedT_co]):
    """A fitted estimator."""

    @property
    def _fitted(self) -> FittedT_co: ...


def fitted_of(estimator: Learned[FittedT_co]) -> FittedT_co:
    """What a fitted estimator has learned."""
    return estimator._fitted


def schema_of(estimator: object) -> Schema | None:
    """What the columns of a fitted estimator's table are, None for others."""
    schema: Schema | None = getattr(getattr(estimator, "_fitted", None), "schema", None)
    return schema


def core_of(model: object, kind: type[CoreT]) -> CoreT:
    """The core of a model, which is of one kind (MCVQ, MCFA); a core is its own core."""
    core = getattr(model, "core", model)
    assert isinstance(core, kind)
    return core


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
    "co_assignment_": "co_assignment",
}
_OF_MODEL = {
    "n_features_in_": "n_columns",
    "feature_names_in_": "names",
    "n_parts_": "n_parts",
    "classes_": "classes",
}


class Record(Protocol):
    """Any dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


def fields_of(value: Record) -> dict[str, object]:
    """The fields of a dataclass by name, not copied: what a file keeps of parameters."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


def shared_attributes(fitted: AnyFitted) -> dict[str, object]:
    """Learned attributes that every estimator copies, by name; those that there are."""
    found = {name: getattr(fitted.record, field) for name, field in _OF_RECORD.items()}
    found |= {name: getattr(fitted, field) for name, field in _OF_MODEL.items()}
    return {name: value for name, value in found.items() if value is not None}


def restored_fields(learned: Mapping[str, object]) -> SavedState:
    """Fields of a `Fitted`, the record among them, from what `shared_attributes` gave."""
    record = {field: learned.get(name) for name, field in _OF_RECORD.items()}
    others = {field: learned.get(name) for name, field in _OF_MODEL.items()}
    return {**others, "record": FitRecord(**record)}  # type: ignore[arg-type]  # read from a file
