"""Generative Vector Quantization as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from partwise._compat import Interval, StrOptions, fit_context
from partwise.answers import codes
from partwise.association import METHODS, MOST_NODES, Certificate, make_association, refusal
from partwise.contracts import Array
from partwise.data import ColumnGroup
from partwise.estimators._coded_rows import CodedRows
from partwise.fitted import FittedCodes, fields_of, restored_fields, unit_of
from partwise.fitting.checkpoint import Checkpoint
from partwise.fitting.features import fit_features, learn_unit
from partwise.likelihoods import Bernoulli, Gaussian
from partwise.models import gvq
from partwise.models.gvq import GVQParams
from partwise.models.gvq_binary import BinaryGVQ
from partwise.typing import DataLike, PathLike, SavedState, Seed

# Largest penalty, in units of the variance of the rows, whose square is still a finite number.
LARGEST_PENALTY = 1e150


class GVQ(CodedRows):
    """Generative Vector Quantization: a row is an origin plus a subset of a few features.

    x = origin + sum of the features whose bit is 1 + error. n features give a codebook of 2^n rows,
    and the code of a row lists the features it consists of. Codes are found by exact search: each
    has a certificate that no other code is nearer to the row, or a bound on how much nearer another
    code could be.
    Missing values (NaN) are ignored in fitting and scoring.

    Parameters
    ----------
    n_components : int, default=8
        Number of features per set, without the origin. With 0, a set is only its origin, and
        several such sets are k-means.
    n_sets : int, default=1
        Number of sets of features, each with its own origin. A row uses the set with the least
        error.
    n_values : int, default=2
        Number of values of a feature: 2 for on and off; with more, a feature is off or adds one of
        several vectors (the code space of `CVQ`).
    fit_origin : bool, default=True
        Whether origins are learned. If False they are 0, and a row is a sum of features alone; with
        a penalty large enough that no row uses two features, this is plain vector quantization.
    association : str, default="exact"
        Method that finds codes: "exact", or one of the paper's approximations "mean_field",
        "gibbs", "belief_propagation", "belief_revision" (mean field where it does not converge),
        "directed_belief_propagation" and "directed_belief_revision" (at most 14 features); or
        "multistage", feature after feature with the best partial codes kept. Features with more
        than two values support "exact", "mean_field", "gibbs" and "multistage".
    penalty : float, default=0.0
        Minimum decrease of the squared error, in the units of X, for a feature to be on.
    binary : bool, default=False
        X contains 0 and 1, and sums of features are squashed to values near 0 and 1 (Eq. 10 of the
        paper); with ``association="exact"`` only. With more than 16 features, codes are found by
        coordinate descent, mostly without proof.
    beta : float, default=4.5
        Steepness of the squashing function if ``binary=True``.
    max_nodes : int, default=100_000
        Maximum number of nodes of the exact search per row and set; beyond it, the best code found
        is returned with a lower bound.
    n_init : int, default=1
        Number of initializations; the fit with the least error is kept. Initializations alternate
        between independent components and k-means of the residuals after each feature.
    max_iter : int, default=100
        Maximum number of EM iterations per initialization.
    tol : float, default=1e-6
        Convergence threshold: decrease of the error per EM iteration, relative to the variance.
    max_time : float or None, default=None
        Time limit in seconds, after which the best parameters so far are kept, with a warning.
    n_jobs : int or None, default=None
        Number of threads; None uses as many as BLAS.
    random_state : int, Generator, RandomState or None, default=None
        Random seed. With a fixed seed the model is the same for any ``n_jobs``.
    verbose : int, default=0
        A value above 0 shows a progress bar.
    warm_start : bool, default=False
        Start from the features of the last fit, if they have the same shape.

    Attributes
    ----------
    features_ : ndarray of shape (n_sets, n_components, D)
        Vector that each feature adds; (n_sets, n_components, n_values - 1, D) if ``n_values > 2``.
        With ``binary=True``, values between 0 and 1, whose sum is squashed.
    origins_ : ndarray of shape (n_sets, D)
        Vector that every row of the set contains; 0 if ``fit_origin=False``.
    certificate_ : Certificate
        Certificates of the training rows of positive weight: ``proven``, ``gap``, ``error`` and
        ``lower_bound``.
    noise_variance_ : float
        Mean squared error per entry.
    lower_bound_ : float
        Minus the squared error including the penalty, per row.
    lower_bounds_ : ndarray of shape (n_iter + 1,)
        Its value before every EM iteration, and at the end; with ``association="exact"`` it never
        decreases.
    n_iter_ : int
        Number of EM iterations, ``len(lower_bounds_) - 1``. Callbacks are called in every iteration
        of every initialization.
    converged_ : bool
        Whether the fit converged within ``max_iter`` EM iterations and ``max_time``.
    n_features_in_ : int
        D, the number of columns.
    feature_names_in_ : ndarray of shape (D,)
        Column names, if X has names that are all strings.

    References
    ----------
    M. Westerdijk, D. Barber and W. Wiegerinck, Deterministic Generative Models for Fast Feature
    Discovery, Data Mining and Knowledge Discovery 5, 2001.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import GVQ
    >>> rng = np.random.default_rng(0)
    >>> bits, features = rng.integers(2, size=(500, 6)), rng.normal(size=(6, 15))
    >>> X = bits @ features + 0.1 * rng.normal(size=(500, 15))
    >>> model = GVQ(n_components=6, random_state=0).fit(X)
    >>> model.encode(X).shape, bool(model.certify(X).proven.all())
    ((500, 6), True)
    >>> bool(np.abs(model.reconstruct(X) - bits @ features).max() < 0.1)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        "n_components": [Interval(Integral, 0, None, closed="left")],
        "n_sets": [Interval(Integral, 1, None, closed="left")],
        "n_values": [Interval(Integral, 2, None, closed="left")],
        "fit_origin": ["boolean"],
        "association": [StrOptions(set(METHODS))],
        "penalty": [Interval(Real, 0, None, closed="left")],
        "binary": ["boolean"],
        "beta": [Interval(Real, 0, None, closed="neither")],
        "max_nodes": [Interval(Integral, 1, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state", np.random.Generator],
        "verbose": ["verbose"],
        "warm_start": ["boolean"],
    }

    def __init__(
        self,
        n_components: int = 8,
        *,
        n_sets: int = 1,
        n_values: int = 2,
        fit_origin: bool = True,
        association: str = "exact",
        penalty: float = 0.0,
        binary: bool = False,
        beta: float = 4.5,
        max_nodes: int = MOST_NODES,
        n_init: int = 1,
        max_iter: int = 100,
        tol: float = 1e-6,
        max_time: float | None = None,
        n_jobs: int | None = None,
        random_state: Seed = None,
        verbose: int = 0,
        warm_start: bool = False,
    ) -> None:
        self.n_components = n_components
        self.n_sets = n_sets
        self.n_values = n_values
        self.fit_origin = fit_origin
        self.association = association
        self.penalty = penalty
        self.binary = binary
        self.beta = beta
        self.max_nodes = max_nodes
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start

    # --- fitting ---

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: DataLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        checkpoint: PathLike | Checkpoint | None = None,
    ) -> GVQ:
        """Learn features and origins.

        Parameters
        ----------
        X : array-like of shape (C, D)
            Training rows; NaN is a missing value. With ``binary=True``, 0, 1 or NaN.
        y : None
            Ignored; present for compatibility with scikit-learn.
        sample_weight : array-like of shape (C,), optional
            An integer weight w is equivalent to repeating the row w times.
        checkpoint : path or Checkpoint, optional
            File that is written during the fit and removed at its end. After a crash, the same call
            continues from the file and returns the same result.

        Returns
        -------
        self

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import GVQ
        >>> X = load_iris().data
        >>> model = GVQ(n_components=3, random_state=0).fit(X)
        >>> model.features_.shape
        (1, 3, 4)
        """
        self._check_form()
        rows = self._training_rows(X, sample_weight)
        if rows.X.shape[0] < self.n_sets:
            raise ValueError(
                f"n_sets={self.n_sets} exceeds n_samples={rows.X.shape[0]}, the rows of positive "
                "weight; lower n_sets or pass more rows."
            )
        before = self._kept_features()
        columns = learn_unit(rows.X, rows.weight, bool(self.binary))
        self._warn_of_missing(columns)
        ascent = self._ascent(rows, checkpoint)
        fitted = fit_features(ascent, columns, partial(self._core, columns), before)
        known = codes.certified(fitted, rows, int(self.max_nodes), self.n_jobs)
        return self._finish(ascent, known)

    def _check_form(self) -> None:
        """Raise an error for an association that does not support such codes, before the fit."""
        n, J = int(self.n_components), int(self.n_values)
        if n == 0 and not self.fit_origin:
            raise ValueError(
                "fit_origin=False needs n_components of at least 1: without features and origin a "
                "row is nothing."
            )
        if self.binary and J > 2:
            raise ValueError(
                f"binary=True needs n_values=2, features that are on or off, not n_values={J}."
            )
        able = [m for m in METHODS if refusal(make_association(m), n, J) is None]
        able = ["exact"] if self.binary else able
        if self.association in able:
            return
        why = refusal(make_association(self.association), n, J) or "binary=True"
        raise ValueError(
            f"association={self.association!r} does not support {why}; choose one of "
            f"{', '.join(able)}."
        )

    def _kept_features(self) -> tuple[Array, Array] | None:
        """Features and origins of the last fit in the user's units, if the fit starts from them."""
        if not self.warm_start or not hasattr(self, "_fitted"):
            return None
        model, params, (group,) = self._fitted.model, self._fitted.params, self._fitted.columns
        shape = (self.n_sets, self.n_components * (self.n_values - 1))
        kind = isinstance(model, BinaryGVQ), model.fits_origin
        if params.features.shape[:2] != shape or kind != (bool(self.binary), bool(self.fit_origin)):
            return None
        return params.features * group.scale, group.decode(params.origins)

    def _core(self, columns: tuple[ColumnGroup, ...], seed: int) -> gvq.GVQ:
        sizes = int(self.n_sets), int(self.n_components), int(self.n_values)
        penalty = float(self.penalty) / unit_of(columns) ** 2
        if penalty > LARGEST_PENALTY:
            raise ValueError(
                f"penalty={float(self.penalty):g} is too large: it is {penalty:g} times the "
                "variance of the rows, and its square is beyond what numbers can hold; lower it."
            )
        method = make_association(self.association, seed, int(self.max_nodes))
        if self.binary:
            return BinaryGVQ(*sizes, penalty, method, bool(self.fit_origin), float(self.beta))
        return gvq.GVQ(*sizes, penalty, method, bool(self.fit_origin))

    def _attributes(self) -> Mapping[str, object]:
        return codes.attributes(self._fitted)

    # --- files ---

    def __partwise_state__(self) -> dict[str, object]:
        fitted = self._fitted
        names = ("proven", "gap", "error", "lower_bound")
        certificate = dict(zip(names, self.certificate_, strict=True))
        return {
            "theta": fields_of(fitted.params),
            "columns": fitted.columns[0].fields(),
            "dtype": np.dtype(fitted.dtype).name,
            "seed": fitted.seed,
            "certificate": certificate,
            "learned": self._learned("noise_variance_"),
        }

    def __partwise_restore__(self, state: SavedState) -> None:
        likelihood = Bernoulli() if self.binary else Gaussian()
        columns = (ColumnGroup(likelihood=likelihood, **state["columns"]),)
        seed, learned = int(state["seed"]), state["learned"]
        params = GVQParams(
            **{field.name: state["theta"][field.name] for field in fields(GVQParams)}
        )
        known: SavedState = restored_fields(learned)
        fitted = FittedCodes(
            self._core(columns, seed),
            params,
            columns,
            dtype=np.dtype(state["dtype"]),
            seed=seed,
            # Files written before the first release have another name for the variance.
            noise_variance=learned.get("noise_variance_", learned.get("noise_")),
            certificate=Certificate(**state["certificate"]),
            **known,
        )
        self._adopt(fitted)
