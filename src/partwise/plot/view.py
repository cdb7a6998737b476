"""What displays and the report read from a fitted model, as plain arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypedDict, cast

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from partwise.fitted import feature_names, schema_of
from partwise.likelihoods import zero_if_absent
from partwise.typing import DataLike

if TYPE_CHECKING:
    import polars as pl

# States that no row needs keep a small prior probability; below this a state is not shown.
RARE = 0.005


@dataclass(frozen=True, eq=False)
class View(ABC):
    """Public values of a fitted model of gated parts.

    Each part has *vectors*: the means of its states, or the loadings of its factors. A *code*
    describes a row: the number of each part's state (n, K), or all factors (n, S).
    """

    model: BaseEstimator
    gates: np.ndarray  # (D, K)
    parts: np.ndarray  # (D,), -1 for background
    names: list[str]  # of the columns
    vectors: np.ndarray  # (K, J, D), NaN or 0 where a part has fewer than J
    weights: np.ndarray  # (K, J), how common a state is, or how much variance a factor carries
    center: np.ndarray  # (K, D), mean of a column as a part has it
    spread: np.ndarray  # (K, D), its standard deviation
    part_names: list[str]  # as the user gave them, "" for others
    explained: np.ndarray  # (K, D), share of the variance that states or factors explain

    noun: ClassVar[str]  # what parts have
    left_out: ClassVar[str]  # what is true of those that are not shown

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return self.gates.shape[1]

    @property
    def sizes(self) -> np.ndarray:
        """States or factors of every part, (K,): its columns in what ``transform`` gives."""
        usual = [f"part{k}" for k in range(self.n_parts)]
        place = {name: k for k, name in enumerate(getattr(self.model, "part_names_", usual))}
        owners = [place[name.rpartition("_")[0]] for name in self.model.get_feature_names_out()]
        return np.bincount(owners, minlength=self.n_parts)

    def columns(self, part: int) -> np.ndarray:
        """Give the columns of a part, in the data's order; part -1 is the background."""
        return np.flatnonzero(self.parts == part)

    def informative_columns(self, part: int, at_most: int) -> np.ndarray:
        """Give the columns that a part's states or factors explain best, the best first."""
        own = self.columns(part)
        return own[np.argsort(-self.explained[part, own], kind="stable")][:at_most]

    def own_center(self) -> np.ndarray:
        """Give the mean of each column in its most likely part, (D,)."""
        return self.center[self.gates.argmax(axis=1), np.arange(len(self.gates))]

    def own_spread(self) -> np.ndarray:
        """Give the standard deviation of each column in its most likely part, (D,)."""
        return self.spread[self.gates.argmax(axis=1), np.arange(len(self.gates))]

    def masked(self, part: int, values: np.ndarray, neutral: float) -> np.ndarray:
        """Give values (..., D) where a part's gate is open, `neutral` where it is closed.

        Relative to the neutral value this is the papers' product of vector and gate.
        """
        return neutral + self.gates[:, part] * np.nan_to_num(values - neutral)

    def own_values(self) -> np.ndarray:
        """Give the entries of all vectors shown, each part's in its own columns."""
        own = [self.vectors[k][np.ix_(self.shown(k), self.columns(k))] for k in range(self.n_parts)]
        values = np.concatenate([block.ravel() for block in own])
        return values[np.isfinite(values)]

    # --- what differs between states and factors ---

    @abstractmethod
    def shown(self, part: int, least: float = RARE) -> np.ndarray:
        """Give the numbers of a part's states or factors to show, in descending order of weight."""

    @abstractmethod
    def deviations(self, part: int) -> np.ndarray:
        """Give a part's vectors in standard deviations of the columns, (J, D)."""

    @abstractmethod
    def tints(self, part: int) -> np.ndarray:
        """Give a part's vectors between -1 and 1, for colors, (J, D)."""

    @abstractmethod
    def by_class(self, part: int) -> tuple[np.ndarray, np.ndarray]:
        """Give values per class of the vectors shown, (N, n), and their tints."""

    @abstractmethod
    def limits(self) -> tuple[float, float]:
        """Give the values of vectors shown as black and white."""

    @abstractmethod
    def codes(self, X: DataLike) -> np.ndarray:
        """Give the codes of rows."""

    @abstractmethod
    def appearances(self, codes: np.ndarray) -> np.ndarray:
        """Give what each part alone expects of rows, (n, K, D)."""

    @abstractmethod
    def labels(self, codes: np.ndarray) -> list[list[str]]:
        """Give short labels of the codes of rows, (n, K)."""

    @abstractmethod
    def rows(self, codes: np.ndarray) -> np.ndarray:
        """Give the rows that are expected of codes, (n, D)."""

    def sample(
        self, n: int, hybrid: Mapping[int, object] | None, rng: np.random.Generator
    ) -> np.ndarray:
        """Sample codes; with classes, of a hybrid of them (`sample` of the model)."""
        return np.asarray(self.model.sample(n, hybrid=hybrid, random_state=rng)[1])


class StatesView(View):
    """A model whose parts have states."""

    noun = "state"
    left_out = f"under {100 * RARE:.1f} %"

    def shown(self, part: int, least: float = RARE) -> np.ndarray:
        """Give the states of a part that are at least so probable, the most common first.

        Of a great many states each is rare; those not far below the average always count.
        """
        least = min(least, 0.1 / self.weights.shape[1])
        used = (self.weights[part] > 0) & (self.weights[part] >= least)
        used &= np.isfinite(self.vectors[part]).any(axis=1)
        found = np.flatnonzero(used)
        return found[np.argsort(-self.weights[part, found], kind="stable")]

    def deviations(self, part: int) -> np.ndarray:
        """Give a part's means in standard deviations of each column from its mean, (J, D)."""
        return (self.vectors[part] - self.center[part]) / self.spread[part]

    def tints(self, part: int) -> np.ndarray:
        """Give the deviations, full at two."""
        return np.clip(self.deviations(part) / 2, -1, 1)

    def by_class(self, part: int) -> tuple[np.ndarray, np.ndarray]:
        """Give the probability of each class given the state."""
        found = np.asarray(self.model.class_given_state_, dtype=float)[:, part, self.shown(part)]
        return found, found

    def limits(self) -> tuple[float, float]:
        """Give the least and greatest mean of a state in its own columns."""
        return apart(self.own_values())

    def codes(self, X: DataLike) -> np.ndarray:
        """Give the most likely state of every part, (n, K)."""
        return np.asarray(self.model.predict_states(X))

    def appearances(self, codes: np.ndarray) -> np.ndarray:
        """Give the mean of every part's state, (n, K, D)."""
        return self.vectors[np.arange(self.n_parts), codes]

    def labels(self, codes: np.ndarray) -> list[list[str]]:
        """Name the states."""
        return [[f"state {j}" for j in row] for row in codes]

    def rows(self, codes: np.ndarray) -> np.ndarray:
        """Give the expected rows of states, (n, D)."""
        first = np.concatenate([[0], np.cumsum(self.sizes)])
        sure = np.zeros((len(codes), first[-1]))
        np.put_along_axis(sure, first[:-1] + codes, 1.0, axis=1)
        return as_shown(self.model.inverse_transform(sure), self.model)


class FactorsView(View):
    """A model whose parts have factors."""

    noun = "factor"
    left_out = "not needed"

    def shown(self, part: int, least: float = RARE) -> np.ndarray:
        """Give the factors that a part needs (``n_factors_``), the strongest first."""
        found = np.argsort(-self.weights[part], kind="stable")
        return found[: self.model.n_factors_[part]]

    def deviations(self, part: int) -> np.ndarray:
        """Give the correlations of a part's factors with the columns, (J, D)."""
        return self.vectors[part] / self.spread[part]

    def tints(self, part: int) -> np.ndarray:
        """Give the correlations."""
        return self.deviations(part)

    def by_class(self, part: int) -> tuple[np.ndarray, np.ndarray]:
        """Give the mean of each factor in each class; over all it is about 0, the variance 1."""
        found = np.asarray(self.model.factor_means_, dtype=float)[:, part, self.shown(part)]
        return found, np.clip(found / 2, -1, 1)

    def limits(self) -> tuple[float, float]:
        """Give limits about 0: the sign of a factor is arbitrary."""
        most = np.abs(self.own_values()).max(initial=0.0) or 1.0
        return -float(most), float(most)

    def codes(self, X: DataLike) -> np.ndarray:
        """Give the factors, (n, S)."""
        return np.asarray(self.model.transform(X))

    def appearances(self, codes: np.ndarray) -> np.ndarray:
        """Give what every part expects with its factors, (n, K, D)."""
        shares = self._by_part(codes)
        own = [s @ self.vectors[k, : s.shape[1]] for k, s in enumerate(shares)]
        return self.center + np.stack(own, axis=1)

    def labels(self, codes: np.ndarray) -> list[list[str]]:
        """Write the strongest three factors of every part."""
        by_part = [
            np.round(s[:, self.shown(k)[:3]], 1) + 0.0  # no minus zero
            for k, s in enumerate(self._by_part(codes))
        ]
        return [
            [", ".join(f"{value:.1f}" for value in s[i]) for s in by_part]
            for i in range(len(codes))
        ]

    def rows(self, codes: np.ndarray) -> np.ndarray:
        """Give the expected rows of factors, (n, D)."""
        return np.asarray(self.model.inverse_transform(codes))

    def _by_part(self, codes: np.ndarray) -> list[np.ndarray]:
        return np.split(codes, np.cumsum(self.sizes)[:-1], axis=1)


def view(estimator: BaseEstimator) -> View:
    """Read what is shown from a fitted estimator of gated parts."""
    check_is_fitted(estimator)
    if not hasattr(estimator, "gates_"):
        raise TypeError(
            f"{type(estimator).__name__} has no gates; pictures are for models whose columns "
            "belong to parts, such as MCVQ and MCFA."
        )
    if hasattr(estimator, "latent_columns_"):
        raise TypeError(
            "Pictures and reports show columns, but the loadings of an MCFA of a table are those "
            'of latent numbers; use loadings_ and latent_columns_, or fit MCVQ(likelihood="auto").'
        )
    return _factors(estimator) if hasattr(estimator, "loadings_") else _states(estimator)


def states_view(estimator: BaseEstimator) -> View:
    """Read the same of an estimator whose parts must have states."""
    seen = view(estimator)
    if not isinstance(seen, StatesView):
        raise TypeError(
            f"The parts of {type(estimator).__name__} have no states; LoadingsDisplay shows what "
            "they have."
        )
    return seen


def check_classes(estimator: BaseEstimator) -> np.ndarray:
    """Return the labels of a fitted estimator's classes; refuse one without."""
    check_is_fitted(estimator)
    if not hasattr(estimator, "classes_"):
        raise ValueError("The model has no classes; set n_classes, or fit with labels.")
    return np.asarray(estimator.classes_)


def _states(estimator: BaseEstimator) -> StatesView:
    """Of categories the most likely is shown; priors of states are averaged over the classes."""
    means = np.asarray(estimator.means_, dtype=float)
    priors = np.asarray(estimator.state_priors_, dtype=float)
    if priors.ndim == 3:
        priors = np.tensordot(np.asarray(estimator.class_priors_, dtype=float), priors, axes=1)
    if means.ndim == 4:
        unknown = np.isnan(means).any(axis=-1)
        top = np.asarray(estimator.levels_, dtype=float)[np.nan_to_num(means).argmax(axis=-1)]
        means = np.where(unknown, np.nan, top)
    weight = (priors / priors.sum(axis=1, keepdims=True))[:, :, None]  # (K, J, 1)
    center = (weight * np.nan_to_num(means)).sum(axis=1)  # (K, D)
    with np.errstate(over="ignore"):
        between = (weight * np.nan_to_num((means - center[:, None]) ** 2)).sum(axis=1)
    inside = (weight * np.nan_to_num(estimator.variances_)).sum(axis=1)
    return StatesView(vectors=means, weights=priors, **_common(estimator, center, between, inside))


def _factors(estimator: BaseEstimator) -> FactorsView:
    loadings = np.asarray(estimator.loadings_, dtype=float).transpose(0, 2, 1)  # (K, J, D)
    with np.errstate(over="ignore"):
        between = (loadings**2).sum(axis=1)
    inside = np.asarray(estimator.noise_variance_, dtype=float)
    common = _common(estimator, np.asarray(estimator.offsets_, dtype=float), between, inside)
    # A factor's share of the variance of the part's columns, each in its own units.
    gates = common["gates"].T / np.maximum(common["gates"].sum(axis=0), 1e-300)[:, None]
    weights = np.einsum("kd,kjd->kj", gates, (loadings / common["spread"][:, None]) ** 2)
    return FactorsView(vectors=loadings, weights=weights, **common)


class _Common(TypedDict):
    """Fields of a view that states and factors share."""

    model: BaseEstimator
    gates: np.ndarray
    parts: np.ndarray
    names: list[str]
    center: np.ndarray
    spread: np.ndarray
    part_names: list[str]
    explained: np.ndarray


_LARGEST = np.finfo(float).max / 2


def _common(
    estimator: BaseEstimator, center: np.ndarray, between: np.ndarray, inside: np.ndarray
) -> _Common:
    """Give the fields that do not depend on what parts have, from moments of columns (K, D)."""
    # A square in the user's unit may be infinite; shares of infinite ones would be no numbers.
    between, inside = (np.minimum(moment, _LARGEST) for moment in (between, inside))
    total = between + inside
    positive = np.where(total > 0, total, 1.0)  # a constant column deviates by nothing
    gates = np.asarray(estimator.gates_, dtype=float)

    return {
        "model": estimator,
        "gates": gates,
        "parts": np.asarray(estimator.parts_),
        "names": feature_names(estimator, len(gates)),
        "center": center,
        "spread": np.sqrt(positive),
        "part_names": part_names_of(estimator, gates.shape[1]),
        "explained": between / positive,
    }


def part_names_of(estimator: BaseEstimator, n_parts: int) -> list[str]:
    """Names that the user gave the parts, "" where there is none."""
    given = [str(name) for name in getattr(estimator, "part_names_", ())][:n_parts]
    own = ["" if name == f"part{k}" else name for k, name in enumerate(given)]
    return own + [""] * (n_parts - len(own))


def check_image_shape(image_shape: Sequence[int] | None, n_features: int) -> tuple[int, int] | None:
    """Return the image shape as two numbers, or None; refuse one that does not fit the columns."""
    if image_shape is None:
        return None
    shape = tuple(int(side) for side in image_shape)
    if len(shape) != 2 or min(shape) < 1:
        raise ValueError(f"image_shape must be two positive numbers, got {tuple(image_shape)}.")
    if shape[0] * shape[1] != n_features:
        raise ValueError(
            f"image_shape {shape[0]}x{shape[1]} has {shape[0] * shape[1]} pixels, "
            f"but the model has {n_features} columns."
        )
    return shape[0], shape[1]


def n_rows_of(X: DataLike) -> int:
    """Count rows of an array, a frame, a sparse matrix or a sequence."""
    if hasattr(X, "shape"):
        return int(X.shape[0])
    return len(X) if isinstance(X, list | tuple) else len(np.asarray(X))


def take_rows(X: DataLike, rows: int | Sequence[int] | np.ndarray) -> tuple[DataLike, np.ndarray]:
    """Take the first rows, or those numbered, of an array, a frame or a sparse matrix."""
    n = n_rows_of(X)
    index = np.arange(min(rows, n)) if isinstance(rows, int) else np.asarray(rows, dtype=int)
    if sparse.issparse(X):
        return sparse.csr_array(X)[index], index
    if isinstance(X, list | tuple):
        return [X[i] for i in index], index
    if hasattr(X, "iloc"):
        return X.iloc[index], index
    if hasattr(X, "get_columns"):  # polars
        return cast("pl.DataFrame", X)[index], index
    return np.asarray(X)[index], index


def as_shown(X: DataLike, estimator: BaseEstimator) -> np.ndarray:
    """Give data as a dense array in which NaN is what the estimator takes for missing.

    Of a table of several kinds these are the model's own numbers: codes of levels, logarithms.
    """
    schema = schema_of(estimator)
    if schema is not None:
        return np.asarray(schema.encode(X), dtype=float)
    if not sparse.issparse(X):
        return np.asarray(X, dtype=float)
    params = estimator.get_params(deep=False)
    absent = params.get("sparse_absent", "auto")
    if absent == "auto":
        absent = "zero" if zero_if_absent(params.get("likelihood")) else "unobserved"
    if absent == "zero":
        return np.asarray(sparse.csr_array(X).toarray(), dtype=float)
    stored = sparse.coo_array(X)
    dense = np.full(stored.shape, np.nan)
    dense[stored.row, stored.col] = stored.data
    return dense


def percent(share: float) -> str:
    """Write a share as whole per cent, small ones as ``<1 %``."""
    return "<1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"


def shades(originals: np.ndarray, reconstructions: np.ndarray) -> tuple[float, float]:
    """Give the values shown as black and white: all of the reconstructions, most of the originals.

    With the extremes of the noise as black and white, the picture would have little contrast.
    """
    ends = reconstructions[np.isfinite(reconstructions)]
    known = originals[np.isfinite(originals)]
    if known.size:
        ends = np.concatenate([ends, np.quantile(known, [0.01, 0.99])])
    return apart(ends)


def apart(values: np.ndarray) -> tuple[float, float]:
    """Give the least and the greatest of some values, or two that differ if these do not."""
    if values.size == 0:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    return (low, high) if high > low else (low - 0.5, high + 0.5)
