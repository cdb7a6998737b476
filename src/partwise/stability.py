"""Certainty of the parts: do they reappear in fits with other seeds or other rows?"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from sklearn.base import BaseEstimator, clone
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from partwise.contracts import Array
from partwise.data import ObservedCells
from partwise.engine.progress import ProgressBar
from partwise.fitting.weights import read_weights
from partwise.sampling.randomness import as_generator
from partwise.typing import DataLike, Seed

__all__ = ["PartStability", "part_stability"]

RESAMPLES = ("halves", "bootstrap", "seeds")

# Shuffles of a refit's columns, which estimate how well its parts would match by chance; the
# standard error is then below a hundredth per refit, and refits are averaged.
N_SHUFFLES = 50


@dataclass(frozen=True, eq=False)
class PartStability:
    """Agreement of a model's parts with those of other fits.

    Attributes
    ----------
    parts : ndarray of shape (D,)
        The model's part of each column, -1 for background.
    part_agreement : ndarray of shape (K,)
        Certainty of each part: 1 if every refit has the same part, 0 if refits match it no better
        than chance; NaN for parts without columns.
    part_agreements : ndarray of shape (F, K)
        The same per refit.
    column_agreement : ndarray of shape (D,)
        Certainty of each column's part: the mean over refits of the Jaccard index of the sets of
        columns that share its part. A background column's is the share of
        refits in which it is background.
    refits : ndarray of shape (F, D)
        Part of each column in each refit, -1 for background.
    n_parts : ndarray of shape (F,)
        Number of parts with columns in each refit.
    """

    parts: Array
    part_agreement: Array
    part_agreements: Array
    column_agreement: Array
    refits: Array
    n_parts: Array

    def co_assignment(self, columns: ArrayLike | None = None) -> Array:
        """Fraction of refits in which two columns have the same part.

        Parameters
        ----------
        columns : array-like of int, optional
            Columns to compare; None means all.

        Returns
        -------
        share : ndarray of shape (n, n)
            The diagonal is the fraction of refits in which a column is not background.
        """
        found = self.refits if columns is None else self.refits[:, np.asarray(columns)]
        share = np.zeros((found.shape[1], found.shape[1]))
        for parts in found:
            share += (parts[:, None] == parts) & (parts >= 0)
        return share / len(found)


def part_stability(
    model: BaseEstimator,
    X: DataLike,
    y: ArrayLike | None = None,
    *,
    n_fits: int = 10,
    resample: str = "halves",
    sample_weight: ArrayLike | None = None,
    random_state: Seed = None,
    verbose: int = 0,
) -> PartStability:
    """Refit a model several times and measure which of its parts reappear.

    The numbers of parts are arbitrary, so parts are matched with parts of the refit, one to one, to
    maximize the Jaccard index J of their columns. Shuffled columns would have an expected index E;
    the agreement is (J - E) / (1 - E), and 0 where that is negative.

    Parameters
    ----------
    model : estimator
        Fitted, with ``parts_``: MCVQ or MCFA. Refits have its arguments; with sizes "auto" each
        refit selects its own sizes.
    X : array-like, DataFrame, sparse or ObservedCells of shape (C, D)
        The rows that it was fitted to.
    y : array-like of shape (C,), optional
        Their labels, if it was fitted with labels; rows are then resampled within each label.
    n_fits : int, default=10
        F, the number of refits.
    resample : {"halves", "bootstrap", "seeds"}, default="halves"
        "halves": each refit has half of the rows, sampled without replacement, and its own seed.
        "bootstrap": as many rows as there are, sampled with replacement; repeated rows look like
        structure if sizes are "auto". "seeds": the same rows with another seed, which measures the
        effect of the initialization alone. Rows are sampled as weights, without a copy.
    sample_weight : array-like of shape (C,), optional
    random_state : int, Generator, RandomState or None, default=None
        Samples rows, and seeds of refits.
    verbose : int, default=0
        Above 0 a progress bar is shown.

    Returns
    -------
    stability : PartStability

    References
    ----------
    C. Hennig, Cluster-wise assessment of cluster stability, Computational Statistics & Data
    Analysis 52, 2007, for resampling and Jaccard index.

    Examples
    --------
    >>> from partwise import MCVQ, make_shapes, part_stability
    >>> X = make_shapes().data
    >>> model = MCVQ(n_parts=3, n_states=9, random_state=0).fit(X)
    >>> stability = part_stability(model, X, n_fits=3, random_state=0)
    >>> stability.part_agreement.round(2)
    array([1., 1., 1.])
    """
    check_is_fitted(model)
    if not hasattr(model, "parts_"):
        raise TypeError(f"{type(model).__name__} has no parts of columns; pass an MCVQ or MCFA.")
    if resample not in RESAMPLES:
        raise ValueError(f"resample={resample!r} must be one of {', '.join(RESAMPLES)}.")
    if not isinstance(n_fits, Integral) or n_fits < 1:
        raise ValueError(f"n_fits={n_fits!r} must be a whole number of at least 1.")
    rows = X.table() if isinstance(X, ObservedCells) else X
    shape = rows.shape if hasattr(rows, "shape") else np.shape(np.asarray(rows))
    weight = read_weights(sample_weight, shape[0])
    parts = np.asarray(model.parts_)
    if tuple(shape[1:]) != parts.shape:
        raise ValueError(f"X has shape {shape}, but the model was fitted to {len(parts)} columns.")
    label = None if y is None else np.unique(column_or_1d(y).astype(str), return_inverse=True)[1]
    n_parts = model.gates_.shape[1]
    refits = np.empty((n_fits, len(parts)), parts.dtype)
    agreements, companions = np.empty((n_fits, n_parts)), np.empty((n_fits, len(parts)))
    with ProgressBar("refits", n_fits, bool(verbose), unit="fits", measure="agreement") as bar:
        for i, rng in enumerate(as_generator(random_state).spawn(n_fits)):
            own = weight if resample == "seeds" else _resampled(weight, label, resample, rng)
            with warnings.catch_warnings():
                # A sample of rows may contain no entry of a sparse column.
                warnings.filterwarnings("ignore", message=".*have no observed value")
                again = clone(model).set_params(random_state=rng, verbose=0)
                refits[i] = again.fit(rows, y, sample_weight=own).parts_
            agreements[i] = _matched(parts, n_parts, refits[i], rng)
            companions[i] = _companions(parts, refits[i])
            bar.update(i + 1, float(companions[: i + 1].mean()), "refits")
    return PartStability(
        parts,
        agreements.mean(axis=0),
        agreements,
        companions.mean(axis=0),
        refits,
        np.array([len(np.unique(refit[refit >= 0])) for refit in refits]),
    )


def _resampled(
    weight: Array, label: Array | None, resample: str, rng: np.random.Generator
) -> Array:
    """Weights of rows sampled within each label: half of them, or as many with replacement."""
    label = np.zeros(len(weight), np.int64) if label is None else label
    times = np.zeros_like(weight)
    for value in np.unique(label[weight > 0]):
        rows = np.flatnonzero((label == value) & (weight > 0))
        n = len(rows)
        if resample == "halves":
            times[rng.choice(rows, -(-n // 2), replace=False)] = 1.0
        else:
            times[rows] = rng.multinomial(n, np.full(n, 1.0 / n))
    return weight * times


def _overlap(a: Array, b: Array) -> tuple[Array, Array, Array]:
    """Numbers of columns shared by parts of two partitions, and of columns of each part.

    Partitions number their parts from 0; -1 is no part.
    """
    shape = int(a.max(initial=-1)) + 1, int(b.max(initial=-1)) + 1
    both = (a >= 0) & (b >= 0)
    cell = np.ravel_multi_index((a[both], b[both]), shape) if both.any() else np.empty(0, np.int64)
    shared = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)
    n_a, n_b = (np.bincount(x[x >= 0], minlength=n) for x, n in zip((a, b), shape, strict=True))
    return shared, n_a, n_b


def _jaccard(a: Array, b: Array) -> Array:
    """Jaccard index of each part of ``a`` with the part of ``b`` that it is matched with."""
    shared, n_a, n_b = _overlap(a, b)
    union = n_a[:, None] + n_b - shared
    index = shared / np.maximum(union, 1)
    found = np.zeros(len(n_a))
    rows, columns = linear_sum_assignment(index, maximize=True)
    found[rows] = index[rows, columns]
    return found


def _matched(parts: Array, n_parts: int, refit: Array, rng: np.random.Generator) -> Array:
    """Agreement of each part with a refit, corrected for chance; (K,)."""
    out = np.full(n_parts, np.nan)
    used = np.unique(parts[parts >= 0])
    index = _jaccard(parts, refit)
    chance = np.mean([_jaccard(parts, rng.permutation(refit)) for _ in range(N_SHUFFLES)], axis=0)
    room = 1.0 - chance[used]
    # With a single part for all columns shuffling changes nothing.
    corrected = (index[used] - chance[used]) / np.where(room > 0, room, 1.0)
    out[used] = np.where(room > 0, np.maximum(corrected, 0.0), index[used])
    return out


def _companions(parts: Array, refit: Array) -> Array:
    """Jaccard index of each column's companions in its part and in the refit's; (D,)."""
    shared, n_a, n_b = _overlap(parts, refit)
    out = ((parts < 0) & (refit < 0)).astype(float)
    both = np.flatnonzero((parts >= 0) & (refit >= 0))
    a, b = parts[both], refit[both]
    same, every = shared[a, b] - 1, n_a[a] + n_b[b] - shared[a, b] - 1  # itself aside
    out[both] = np.where(every > 0, same / np.maximum(every, 1), 1.0)  # alone both times
    return out
