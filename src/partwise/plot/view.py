"""What displays and the report ask of a fitted model, as plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

# States that no row needs keep a small prior probability; below this a state is not worth showing.
RARE = 0.005


class View(NamedTuple):
    """A fitted model, seen from outside."""

    gates: np.ndarray  # (D, K)
    parts: np.ndarray  # (D,), -1 for background
    means: np.ndarray  # (K, J, D), NaN for states that are not used
    priors: np.ndarray  # (K, J), 0 for states that are not used
    names: list[str]  # of the columns
    centre: np.ndarray  # (K, D), mean of a column over the states of a part
    spread: np.ndarray  # (K, D), standard deviation of a column, within and between states
    telling: np.ndarray  # (K, D), share of that variance which the states explain

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return self.gates.shape[1]

    def columns(self, part: int) -> np.ndarray:
        """Give the columns of a part, in the data's order; part -1 is the background."""
        return np.flatnonzero(self.parts == part)

    def states(self, part: int, least: float = RARE) -> np.ndarray:
        """Give the states of a part that are at least so probable, the commonest first.

        Of a great many states each is rare; those not far below the average always count.
        """
        least = min(least, 0.1 / self.priors.shape[1])
        used = (self.priors[part] > 0) & (self.priors[part] >= least)
        used &= np.isfinite(self.means[part]).any(axis=1)
        found = np.flatnonzero(used)
        return found[np.argsort(-self.priors[part, found], kind="stable")]

    def n_rare(self, part: int, least: float = RARE) -> int:
        """Count the states of a part that `states` leaves out."""
        return int((self.priors[part] > 0).sum()) - len(self.states(part, least))

    def deviations(self, part: int) -> np.ndarray:
        """Give a part's means in standard deviations of each column from its mean, (J, D)."""
        return (self.means[part] - self.centre[part]) / self.spread[part]

    def own_centre(self) -> np.ndarray:
        """Give the mean of each column as its likeliest part has it, (D,)."""
        return self.centre[self.gates.argmax(axis=1), np.arange(len(self.gates))]

    def own_spread(self) -> np.ndarray:
        """Give the standard deviation of each column as its likeliest part has it, (D,)."""
        return self.spread[self.gates.argmax(axis=1), np.arange(len(self.gates))]

    def limits(self) -> tuple[float, float]:
        """Give the least and greatest mean of a state in its own columns: black and white."""
        own = [self.means[k][np.ix_(self.states(k), self.columns(k))] for k in range(self.n_parts)]
        values = np.concatenate([block.ravel() for block in own])
        return apart(values[np.isfinite(values)])

    def masked(self, part: int, state: int, neutral: float) -> np.ndarray:
        """Give a state's mean where the part's gate is open, `neutral` where it is closed, (D,)."""
        return masked(self.gates[:, part], self.means[part, state], neutral)


def view(estimator: Any) -> View:
    """Read what is shown from a fitted estimator.

    Of categories the likeliest is shown. With a class variable the priors of states are
    averaged over the classes.
    """
    check_is_fitted(estimator, "gates_")
    gates = np.asarray(estimator.gates_, dtype=float)
    means = np.asarray(estimator.means_, dtype=float)
    priors = np.asarray(estimator.state_priors_, dtype=float)
    if priors.ndim == 3:
        priors = np.tensordot(np.asarray(estimator.class_priors_, dtype=float), priors, axes=1)
    within = getattr(estimator, "variances_", None)
    if means.ndim == 4:
        unknown = np.isnan(means).any(axis=-1)
        likeliest = np.asarray(estimator.levels_, dtype=float)[np.nan_to_num(means).argmax(axis=-1)]
        means = np.where(unknown, np.nan, likeliest)
    weight = (priors / priors.sum(axis=1, keepdims=True))[:, :, None]  # (K, J, 1)
    centre = (weight * np.nan_to_num(means)).sum(axis=1)  # (K, D)
    between = (weight * np.nan_to_num((means - centre[:, None]) ** 2)).sum(axis=1)
    inside = 0.0 if within is None else (weight * np.nan_to_num(within)).sum(axis=1)
    total = between + inside
    positive = np.where(total > 0, total, 1.0)  # a constant column deviates by nothing
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        names = [f"x{d}" for d in range(gates.shape[0])]
    return View(
        gates=gates,
        parts=np.asarray(estimator.parts_),
        means=means,
        priors=priors,
        names=[str(name) for name in names],
        centre=centre,
        spread=np.sqrt(positive),
        telling=between / positive,
    )


def masked(gate: np.ndarray, mean: np.ndarray, neutral: float) -> np.ndarray:
    """Blend a mean with a neutral value where the gate is closed.

    Seen from the neutral value this is the papers' product of mean and gate.
    """
    return neutral + gate * np.nan_to_num(mean - neutral)


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


def take_rows(X: Any, rows: int | Sequence[int]) -> tuple[Any, np.ndarray]:
    """Take the first rows, or those numbered, of an array, a frame or a sparse matrix."""
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    index = np.arange(min(rows, n)) if isinstance(rows, int) else np.asarray(rows, dtype=int)
    is_sparse: bool = sparse.issparse(X)
    if is_sparse:
        return X.tocsr()[index], index
    if hasattr(X, "iloc"):
        return X.iloc[index], index
    return np.asarray(X)[index], index


def as_shown(X: Any, estimator: Any) -> np.ndarray:
    """Give data as a dense array in which NaN is what the estimator takes for missing."""
    is_sparse: bool = sparse.issparse(X)
    if not is_sparse:
        return np.asarray(X, dtype=float)
    params = estimator.get_params(deep=False)
    absent = params.get("absent", "auto")
    if absent == "auto":
        absent = "zero" if params.get("likelihood") == "poisson" else "unobserved"
    if absent == "zero":
        return np.asarray(X.toarray(), dtype=float)
    stored = X.tocoo()
    dense = np.full(X.shape, np.nan)
    dense[stored.row, stored.col] = stored.data
    return dense


def percent(share: float) -> str:
    """Write a share as whole per cent, small ones as ``<1 %``."""
    return "<1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"


def shades(originals: np.ndarray, reconstructions: np.ndarray) -> tuple[float, float]:
    """Give the values drawn black and white: all of the reconstructions, most of the originals.

    Noise reaches far; if its extremes were black and white, the picture would be faint.
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
