"""`drift`: do new rows still look like the rows of the fit?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np
from sklearn.utils.validation import check_array, check_is_fitted

from partwise._text import first_few, plural
from partwise.answers.drift import compare
from partwise.contracts import Array
from partwise.data.table_column import IGNORED
from partwise.fitted import feature_names, fitted_of, schema_of
from partwise.typing import DataLike

if TYPE_CHECKING:
    import polars as pl
    from sklearn.base import BaseEstimator


@dataclass(frozen=True, eq=False, repr=False)
class Drift:
    """Differences between new rows and the rows of a fit, as `drift` gives them.

    Every array has one entry per column, then one per part.

    Attributes
    ----------
    names : list of str
        Names of the columns and parts.
    kinds : list of str
        "column" or "part".
    p_values : ndarray of shape (D + K,)
        Probability of a difference as large, if nothing changed.
    adjusted : ndarray of shape (D + K,)
        The same, corrected for the number of columns and parts by Holm's method.
    distances : ndarray of shape (D + K,)
        Effect size: the fraction of rows that would have to change to another bin (total variation
        distance), from 0 to 1.
    missing_before, missing_now : ndarray of shape (D + K,)
        Fractions of missing values.
    alpha : float
        Level of the test: the probability of any false alarm.
    n_rows : int
        Number of new rows.
    """

    names: list[str]
    kinds: list[str]
    p_values: Array
    adjusted: Array
    distances: Array
    missing_before: Array
    missing_now: Array
    alpha: float
    n_rows: int

    @property
    def drifted(self) -> list[str]:
        """Names of the columns and parts that differ, the largest difference first."""
        found = np.flatnonzero(self.adjusted < self.alpha)
        return [self.names[d] for d in found[np.argsort(-self.distances[found], kind="stable")]]

    def to_frame(self) -> pl.DataFrame:
        """All results as a table, the most significant first.

        Returns
        -------
        table : polars DataFrame
            Columns name, kind, drifted, p_adjusted, p_value, distance, missing_before and
            missing_now.
        """
        import polars as pl

        order = np.lexsort((-self.distances, self.adjusted))
        return pl.DataFrame(
            {
                "name": [self.names[d] for d in order],
                "kind": [self.kinds[d] for d in order],
                "drifted": self.adjusted[order] < self.alpha,
                "p_adjusted": self.adjusted[order],
                "p_value": self.p_values[order],
                "distance": self.distances[order],
                "missing_before": self.missing_before[order],
                "missing_now": self.missing_now[order],
            }
        )

    def __repr__(self) -> str:
        found = self.drifted
        listed = f": {first_few(found, 8)}" if found else ""
        n = plural(self.n_rows, "row")
        return f"<Drift of {n}: {len(found)} of {len(self.names)} differ{listed}>"

    def _repr_html_(self) -> str:
        html: str = self.to_frame()._repr_html_()
        return html


def drift(model: BaseEstimator, X: DataLike, *, alpha: float = 0.01) -> Drift:
    """Test whether new rows differ from the rows that a model was fitted to.

    Every column is compared by a chi-square test of binned values, with missing values as a bin;
    every part by the anomaly scores of its columns, with held-out scores of the training rows as
    reference. Holm's correction keeps the probability of any false alarm below ``alpha``.

    Parameters
    ----------
    model : MCVQ or MCFA
        Fitted with `fit` to rows in memory.
    X : array-like or DataFrame of shape (n, D)
        New rows, with the columns of the fit.
    alpha : float, default=0.01
        Probability of any false alarm.

    Returns
    -------
    drift : Drift
        Has ``drifted`` and `to_frame`; `partwise.plot.DriftDisplay` plots it.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import MCVQ, drift
    >>> X = np.random.default_rng(0).normal(size=(2000, 3))
    >>> model = MCVQ(1, 2, random_state=0).fit(X[:1000])
    >>> drift(model, X[1000:]).drifted
    []
    >>> "x1" in drift(model, X[1000:] + [0.0, 1.0, 0.0]).drifted
    True
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha={alpha!r} must be between 0 and 1, such as 0.01.")
    check_is_fitted(model)
    fitted = fitted_of(model) if hasattr(model, "_fitted") else None
    reference = getattr(fitted, "reference", None)
    if fitted is None or reference is None:
        raise ValueError(
            f"This {type(model).__name__} has no reference distribution of its training rows; "
            "drift needs an MCVQ or MCFA whose fit was given dense rows in memory."
        )
    schema = schema_of(model)
    if schema is None:
        names = getattr(model, "feature_names_in_", None)
        if names is not None and hasattr(X, "columns"):
            X = cast("pl.DataFrame", X)[list(names)]  # in the order of the fit
        with np.errstate(invalid="ignore"):  # R's NA is a NaN that signals
            rows = check_array(X, dtype=float, ensure_all_finite="allow-nan")
    else:
        rows = schema.encode(X, tell=False)
    if rows.shape[1] != fitted.n_columns:
        raise ValueError(
            f"X has {rows.shape[1]} columns, but the model was fitted to {fitted.n_columns}; pass "
            "the same columns."
        )
    scores = None
    if len(reference.part_counts):
        scores = np.asarray(model.anomaly_scores(X))
    kept = list(range(fitted.n_columns))
    if schema is not None:  # columns that are left out of the model have no values
        kept = [d for d in kept if schema.columns[d].kind != IGNORED]
    used = replace(reference, edges=reference.edges[kept], counts=reference.counts[kept])
    found = compare(used, rows[:, kept], scores)
    n_parts = len(found.p_values) - len(kept)
    known = feature_names(model, fitted.n_columns)
    names = [known[d] for d in kept]
    parts = [str(name) for name in getattr(model, "part_names_", range(n_parts))][:n_parts]
    kinds = ["column"] * len(kept) + ["part"] * n_parts
    return Drift([*names, *parts], kinds, *found, alpha, len(rows))
