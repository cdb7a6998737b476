"""Methods for tables with columns of several kinds."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from types import ModuleType
from typing import ClassVar

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from partwise.answers import anomalous, summaries, tables
from partwise.answers import states as answers
from partwise.answers.imputations import how_by_states, imputations
from partwise.answers.results import Summary
from partwise.contracts import Array
from partwise.data.frame_passes import read_frames
from partwise.data.frame_sources import Frames, frames_of
from partwise.data.frame_writing import with_columns
from partwise.data.frames import frame_of, is_pandas, is_polars, largest_rows, shifted
from partwise.estimators._rows import by_rows
from partwise.estimators._table_verbs import TableVerbs
from partwise.sampling.randomness import as_generator
from partwise.typing import DataLike, Frame, Given, Seed


class TableEstimator(TableVerbs):
    """A model of parts with states, with tables as input and output."""

    _answers: ClassVar[ModuleType] = answers

    # --- methods ---

    def dependence(self, *, as_frame: bool = True) -> Array | Frame:
        """Mutual information of every pair of columns under the model, in nats.

        Parameters
        ----------
        as_frame : bool, default=True
            Return a DataFrame if the model was fitted to one.

        Returns
        -------
        information : ndarray or DataFrame of shape (D, D)
            The diagonal is the mutual information of a column and the state of its part.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> iris = load_iris(as_frame=True)
        >>> table = iris.data.assign(species=iris.target_names[iris.target])
        >>> model = MCVQ(n_parts=1, n_states=3, likelihood="auto", random_state=0).fit(table)
        >>> model.dependence().loc["petal length (cm)"].drop("petal length (cm)").idxmax()
        'petal width (cm)'
        """
        check_is_fitted(self)
        found, schema = tables.dependence(self._fitted), self._fitted.schema
        if not as_frame or schema is None or schema.frame == "array":
            return found
        names = [str(name) for name in schema.names]
        if schema.frame == "polars":
            named = dict(zip(names, found, strict=True))
            return tables.table_of(self._fitted, {"column": names, **named})
        import pandas as pd

        return pd.DataFrame(found, index=names, columns=names)

    def summary(self, n_columns: int = 5, max_states: int | None = 8) -> Summary:
        """Table of all parts with their columns, states, and what is typical of each state.

        Parameters
        ----------
        n_columns : int, default=5
            Maximum number of columns in a profile.
        max_states : int or None, default=8
            A part with more states is printed by this many groups of similar states (`state_tree`),
            which are in ``groups``. None prints every state.

        Returns
        -------
        summary : Summary
            A dict of columns, with one row per state: ``part``, its ``columns`` (most informative
            first), ``state``, its ``share`` of the rows, and ``profile``. The last rows list the
            background columns and the columns that are left out. It prints as text, shows as a
            table in notebooks, and ``to_frame()`` returns a data frame. ``classes`` has the share
            and the profile of every class of rows.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> iris = load_iris(as_frame=True)
        >>> table = iris.data.assign(species=iris.target_names[iris.target])
        >>> model = MCVQ(n_parts=1, n_states=3, likelihood="auto", random_state=0).fit(table)
        >>> model = model.set_params(part_names=["flower"])
        >>> print(model.summary(n_columns=1))  # doctest: +ELLIPSIS
        flower: petal width (cm), petal length (cm), species, sepal length (cm), sepal width (cm)
          state ..., 35 % of the rows: species nearly always "versicolor" (92%, overall 33%)
          state ..., 33 % of the rows: species nearly always "setosa" (96%, overall 33%)
          state ..., 32 % of the rows: species nearly always "virginica" (96%, overall 33%)
        """
        check_is_fitted(self)
        if max_states is not None and (not isinstance(max_states, Integral) or max_states < 1):
            raise ValueError(f"max_states={max_states!r} must be a whole number from 1, or None.")
        return summaries.summary(self._fitted, n_columns, self.part_names_, max_states)

    def state_tree(self, part: int) -> Array:
        """Tree of the states of a part: which are similar, from fine to coarse.

        Each step merges the two states, or groups of states, that lose the least evidence.

        Parameters
        ----------
        part : int

        Returns
        -------
        tree : ndarray of shape (J - 1, 4)
            A linkage matrix for `scipy.cluster.hierarchy`, whose leaves are the J states. Heights
            are the evidence lost by all merges so far, in nats.

        Examples
        --------
        >>> from scipy.cluster.hierarchy import fcluster
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> model = MCVQ(n_parts=1, n_states=6, random_state=0).fit(load_iris().data)
        >>> tree = model.state_tree(0)
        >>> tree.shape
        (5, 4)
        >>> len(set(fcluster(tree, 2, "maxclust")))  # the states in two groups
        2
        """
        check_is_fitted(self)
        self._check_part(part)
        return summaries.state_tree(self._fitted, int(part))

    def _check_part(self, part: int) -> None:
        if part not in range(self.n_parts_):
            raise ValueError(f"There is no part {part!r}; parts are 0 to {self.n_parts_ - 1}.")

    def state_profiles(self, part: int) -> dict[str, object]:
        """Profiles of the states of a part as numbers, as `ProfilesDisplay` plots them.

        Parameters
        ----------
        part : int

        Returns
        -------
        profiles : dict
            ``state`` and ``share`` of the n states with at least one row, most frequent first;
            ``name`` of the m features: a number has its column's name, a level is "column = level";
            ``away`` (n, m), the difference from the overall value in standard deviations; and
            ``text`` (n, m), the value as text.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> iris = load_iris(as_frame=True)
        >>> table = iris.data.assign(species=iris.target_names[iris.target])
        >>> model = MCVQ(n_parts=1, n_states=3, likelihood="auto", random_state=0).fit(table)
        >>> profiles = model.state_profiles(0)
        >>> profiles["name"][:2], profiles["away"].shape
        (['petal width (cm)', 'petal length (cm)'], (3, 7))
        """
        check_is_fitted(self)
        self._check_part(part)
        return tables.state_profiles(self._fitted, int(part))

    def anomalous_cells(self, X: DataLike, n_cells: int = 20) -> Frame | Mapping[str, object]:
        """The most anomalous cells, each with the value that the model expects instead.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, D)
        n_cells : int, default=20

        Returns
        -------
        cells : DataFrame, or dict of lists where no DataFrame was fitted
            ``row`` (its label), ``column``, ``value``, ``expected`` given the row's other cells,
            ``surprise`` (minus the logarithm of the probability, in a row like this, of a value at
            most as likely: 7 is one in a thousand), ``part`` (-1 for background columns), and the
            most probable ``state`` given the part's other cells, with its ``probability``.

        Notes
        -----
        If X has the rows of the fit, each is scored without its own contribution to the states, so
        that a wrong cell does not explain itself. X counts as the rows of the fit, in any order, if
        it has as many rows and the same column totals; some of these rows, these and others, and
        rows that were fitted with a ``sample_weight`` are scored as new rows.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> iris = load_iris(as_frame=True)
        >>> table = iris.data.assign(species=iris.target_names[iris.target])
        >>> model = MCVQ(n_parts=1, n_states=3, likelihood="auto", random_state=0).fit(table)
        >>> table.loc[0, "petal width (cm)"] = 2.5
        >>> model.anomalous_cells(table, 1)[["row", "column", "value"]].values.tolist()
        [[0, 'petal width (cm)', 2.5]]
        """
        check_is_fitted(self)
        if not isinstance(n_cells, Integral) or n_cells < 1:
            raise ValueError(f"n_cells={n_cells!r} must be an integer of at least 1.")
        frames = frames_of(X) if self._is_table else None
        if frames is not None:
            return self._anomalous_in(frames, int(n_cells))
        coded = self._checked(X)
        if sparse.issparse(coded):
            raise ValueError(
                "anomalous_cells needs dense X; pass X.toarray(), with NaN for missing values."
            )
        found = anomalous.anomalous_cells(self._fitted, X, coded, int(n_cells), self.n_jobs)
        return tables.table_of(self._fitted, found)

    def _anomalous_in(self, frames: Frames, n_cells: int) -> Frame:
        """The most anomalous cells of a table that is not in memory."""
        best: list[Frame] = []
        fitted, n_rows, totals = self._fitted, 0, list[list[Array]]()
        for _, _, frame in read_frames(frames):
            coded = self._checked(frame)
            n_rows += len(coded)
            totals.append(anomalous.column_totals(fitted, coded, self.n_jobs))
        whole = [np.sum(one, axis=0) for one in zip(*totals, strict=True)]
        of_fit = anomalous.are_rows_of_fit(fitted, n_rows, whole)
        for lo, _, frame in read_frames(frames):
            of = self._checked(frame), n_cells, self.n_jobs
            cells = anomalous.anomalous_cells(fitted, frame, *of, of_fit=of_fit)
            found = tables.table_of(fitted, cells)
            if not (is_pandas(found) or is_polars(found)):
                raise ValueError(
                    "anomalous_cells of arrays needs them in memory; pass some rows at a time."
                )
            best = [largest_rows([*best, shifted(found, "row", lo)], "surprise", n_cells)]
        return best[0]

    def imputations(self, X: DataLike, coverage: float = 0.9) -> Frame:
        """List the missing values of X with their imputed values, one row per missing cell.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, D)
        coverage : float, default=0.9
            Probability that an interval contains the value.

        Returns
        -------
        imputed : DataFrame
            ``row`` (its label), ``column``, ``value``, ``lower`` and ``upper`` end of its interval
            (missing for unordered categories), ``probability`` of a category, and ``how`` the value
            was imputed: "expected value", "most probable level", "median level" or "from a
            near-duplicate column". It says so if no other column of the part is observed in the
            row.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> iris = load_iris(as_frame=True)
        >>> table = iris.data.assign(species=iris.target_names[iris.target])
        >>> model = MCVQ(n_parts=1, n_states=3, likelihood="auto", random_state=0).fit(table)
        >>> table.loc[0, ["species", "petal width (cm)"]] = None
        >>> model.imputations(table)[["row", "column", "how"]].values.tolist()
        [[0, 'petal width (cm)', 'expected value'], [0, 'species', 'most probable level']]
        """
        coded = self._checked(X)
        if sparse.issparse(coded):
            raise ValueError("imputations needs dense X; pass X.toarray(), with NaN where missing.")
        found = self.impute(X), *self.predict_interval(X, coverage)
        places = range(self.n_features_in_)
        shares = tables.predict_proba_columns(self._fitted, coded, places, self.n_jobs)
        how = how_by_states(self._fitted, coded, shares)
        return imputations(self._fitted, X, coded, found, shares, how)

    @by_rows
    def add_states(self, X: DataLike, onto: DataLike | None = None) -> Array | Frame:
        """Add columns with the state of every part, and the class if there are classes.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, D)
        onto : array-like or DataFrame of n rows, optional
            Table to which the columns are added, by default X.

        Returns
        -------
        table : ndarray or DataFrame of shape (n, D + K), with classes (n, D + K + 1)
            The new columns have the names of the parts (part0, part1, ... by default), and class.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> iris = load_iris(as_frame=True)
        >>> table = iris.data.assign(species=iris.target_names[iris.target])
        >>> model = MCVQ(n_parts=1, n_states=3, likelihood="auto", random_state=0).fit(table)
        >>> model.add_states(table).columns[-1]
        'part0'
        """
        check_is_fitted(self)
        table, coded = X if onto is None else onto, self._checked(X)
        new = tables.state_columns(
            self._fitted, coded, frame_of(table), self.part_names_, self.n_jobs
        )
        return with_columns(table, new)

    def _sample_given(
        self, n_samples: int, given: Given, random_state: Seed
    ) -> tuple[Array | Frame, Array]:
        """Rows with known cells, the others sampled, and the most probable states of the rows."""
        coded, index = self._read_given(given)
        if len(coded) not in (1, n_samples):
            raise ValueError(
                f"given has {len(coded)} rows; pass one row, or n_samples={n_samples} rows."
            )
        if len(coded) < n_samples:
            coded, index = np.repeat(coded, n_samples, axis=0), None
        rng = as_generator(self.random_state if random_state is None else random_state)
        (rows,) = tables.draw(self._fitted, coded, [rng], self.n_jobs)
        schema = self._fitted.schema
        if schema is not None:
            rows = schema.sampled_together(rows, rng, ~np.isnan(coded))
        states = answers.predict_states(self._fitted, rows, self.n_jobs)
        if schema is None:
            return rows, states
        return schema.decode(rows, index, predicted=np.isnan(coded), sampled=True), states
