"""Methods of MCVQ on rows and their states."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from partwise.answers import tables
from partwise.answers.results import Explanation
from partwise.contracts import Array
from partwise.estimators._rows import by_rows
from partwise.estimators._sequences import in_sequence
from partwise.estimators._tables import TableEstimator
from partwise.typing import Classes, DataLike, Frame, Given, Hybrid, Seed


class StateRows(TableEstimator):
    """Methods of a fitted `MCVQ`; the subclass fits."""

    class_priors_: Array
    state_priors_: Array
    n_states_: Array
    n_parts_: int
    parts_: Array
    row_labels_: Array

    @property
    def class_given_state_(self) -> Array:
        """Probability of every class given the state of one part, (N, K, J)."""
        check_is_fitted(self)
        if not hasattr(self, "classes_"):
            raise AttributeError("There are no classes; set n_classes, or fit with labels.")
        joint = self.class_priors_[:, None, None] * self.state_priors_
        with np.errstate(invalid="ignore"):
            return joint / joint.sum(axis=0)

    @property
    def rows_(self) -> Array:
        """Rows of the training data in each state, (S, C)."""
        check_is_fitted(self)
        sizes = enumerate(self.n_states_)
        return np.stack([self.row_labels_[:, k] == j for k, J in sizes for j in range(J)])

    @property
    def columns_(self) -> Array:
        """Columns of each state's part, (S, D)."""
        check_is_fitted(self)
        part_of = np.repeat(np.arange(self.n_parts_), self.n_states_)
        return part_of[:, None] == self.parts_

    @in_sequence
    @by_rows
    def transform(self, X: DataLike) -> Array:
        """Posterior probability of every state of every part.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)

        Returns
        -------
        posteriors : ndarray of shape (n, S)
            Columns named part0_state0, ...; those of one part sum to 1.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> X = load_iris().data
        >>> model = MCVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> model.transform(X).shape
        (150, 6)
        """
        check_is_fitted(self)
        return self._asked.transform(self._fitted, self._checked(X), self.n_jobs)

    @in_sequence
    @by_rows
    def predict_states(self, X: DataLike) -> Array:
        """Most probable state of each part.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)

        Returns
        -------
        states : ndarray of shape (n, K)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> X = load_iris().data
        >>> model = MCVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> model.predict_states(X).shape
        (150, 2)
        """
        coded = self._checked(X)
        return self._asked.predict_states(self._fitted, coded, self.n_jobs)

    def inverse_transform(self, X: ArrayLike) -> Array | Frame:
        """Expected rows given posterior probabilities of states.

        Parameters
        ----------
        X : array-like of shape (n, S)
            As `transform` returns.

        Returns
        -------
        rows : ndarray or DataFrame of shape (n, D)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> X = load_iris().data
        >>> model = MCVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> model.inverse_transform(model.transform(X)).shape
        (150, 4)
        """
        check_is_fitted(self)
        m = self._check_transformed(X, "state", self._fitted.dtype)
        return self._as_given(self._asked.inverse_transform(self._fitted, m))

    def explain(self, x: Given, n_columns: int = 5) -> Explanation:
        """Explain one row: the state of every part, and the columns that support it.

        Parameters
        ----------
        x : array-like of shape (D,) or (1, D), row of a table, or mapping of columns to values
        n_columns : int, default=5
            Maximum number of columns per part.

        Returns
        -------
        parts : Explanation, a list of K dict
            ``part``, ``state``, ``probability`` of that state, ``log_likelihood`` of the part's
            entries, and ``columns``: the columns with the most evidence for the state, each with
            ``column``, ``value``, ``expected`` in this state, and ``evidence``, the log-likelihood
            ratio in nats of the value in this state and in the whole part.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> X = load_iris().data
        >>> model = MCVQ(n_parts=1, n_states=3, random_state=0).fit(X)
        >>> (part,) = model.explain(X[0])
        >>> part["columns"][0]["column"], part["columns"][0]["value"]
        ('x2', 1.4)
        """
        row = self._one_row(x)
        given = self._values_of_row(x)
        found = self._asked.explain(self._fitted, row, n_columns, self.n_jobs, given)
        return Explanation(found, tables.frame_kind(self._fitted), self.part_names_)

    def sample(
        self,
        n_samples: int = 1,
        *,
        states: ArrayLike | None = None,
        classes: Classes | None = None,
        hybrid: Hybrid | None = None,
        given: Given | None = None,
        random_state: Seed = None,
    ) -> tuple[Array | Frame, Array]:
        """Sample new rows.

        Parameters
        ----------
        n_samples : int, default=1
        states : array-like of shape (n_samples, K), optional
            States of the rows; by default sampled from their priors.
        classes : label or array-like of shape (n_samples,), optional
            Classes of the rows; by default sampled by their proportions.
        hybrid : dict, optional
            For some parts, the class whose prior to use instead, or a mapping of classes to weights
            for a weighted mean of several: ``{part: class or {class: weight}}``.
        given : mapping or DataFrame, optional
            Known cells: a mapping of columns to values or a table of one row, for all new rows, or
            a table of ``n_samples`` rows. The other entries are sampled given these.
        random_state : int, Generator, RandomState or None, default=None
            Random seed; None uses the ``random_state`` of the estimator.

        Returns
        -------
        rows : ndarray or DataFrame of shape (n_samples, D)
        states_or_classes : ndarray of shape (n_samples, K) or (n_samples,)
            The states of the rows; with a class variable their classes, unless ``states`` or
            ``hybrid`` is given.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> X = load_iris().data
        >>> model = MCVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> rows, states = model.sample(5, random_state=0)
        >>> rows.shape, states.shape
        ((5, 4), (5, 2))
        """
        check_is_fitted(self)
        if given is not None:
            if states is not None or classes is not None or hybrid is not None:
                raise ValueError("Pass either given, or states, classes and hybrid, not both.")
            return self._sample_given(n_samples, given, random_state)
        rows, told = self._draw(n_samples, states, classes, hybrid, random_state)
        return self._as_given(self._sampled_together(rows, random_state), sampled=True), told
