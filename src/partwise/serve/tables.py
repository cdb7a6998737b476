"""Questions to a model of rows.

A question takes the model's numbers and gives arrays with one entry per row, so that the rows of
several requests can be answered in one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from partwise.answers import states
from partwise.answers.anomalous import anomalous_cells
from partwise.answers.rows import CLASS_DRAWS
from partwise.contracts import Array
from partwise.estimators.drift import Drift, drift
from partwise.estimators.mcvq import MCVQ
from partwise.fitted import fitted_of, schema_of
from partwise.sampling.importance import mix_classes
from partwise.serve.records import Read, Record, Records, Scalar, as_json_object, as_scalar

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from partwise.data.table import Schema
    from partwise.typing import Frame

# Options of a question; questions with the same name and options are answered together.
Options = tuple[float | None, ...]
Answered = tuple[Array, ...]  # each with one entry per row


class Asked(NamedTuple):
    """A question about rows."""

    name: str
    options: Options
    X: Array  # (n, D), the model's numbers

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.X)


class Table:
    """A fitted model of rows behind the service.

    Parameters
    ----------
    estimator : fitted estimator
        One whose methods take rows; questions whose method it lacks are refused.
    """

    def __init__(self, estimator: BaseEstimator) -> None:
        # An imputer keeps the kinds of its columns with the first of its models.
        self.estimator = estimator
        self._schema = schema_of(getattr(estimator, "model_", estimator))
        names = getattr(estimator, "feature_names_in_", range(estimator.n_features_in_))
        self.records = Records([str(name) for name in names], self._schema)
        moves = getattr(estimator, "transformations", None) is not None
        kinds = (
            _States(estimator)
            if isinstance(estimator, MCVQ) and not moves
            else _Methods(estimator, self._schema)
        )
        self._answers: dict[str, Callable[..., Answered]] = {
            name: answer
            for name, verb, answer in (
                ("impute", "impute", kinds.impute),
                ("states", "predict_states", kinds.states),
                ("classes", "predict_proba", kinds.classes),
                ("scores", "anomaly_scores", kinds.scores),
            )
            if hasattr(estimator, verb)
        }
        more = {"predict": "impute", "explain": "explain", "sample": "sample"}
        if not moves:
            more["anomalous_cells"] = "anomalous_cells"
        if getattr(getattr(estimator, "_fitted", None), "reference", None) is not None:
            more["drift"] = "anomaly_scores"
        can = [question for question, verb in more.items() if hasattr(estimator, verb)]
        self.questions = [*self._answers, *can]

    def answer(self, asked: Sequence[Asked]) -> list[Answered]:
        """Answer several questions; rows of questions with the same options are stacked."""
        groups: dict[tuple[str, Options], list[int]] = {}
        for i, question in enumerate(asked):
            groups.setdefault((question.name, question.options), []).append(i)
        out: list[Answered] = [()] * len(asked)
        for (name, options), members in groups.items():
            X = np.concatenate([asked[i].X for i in members])
            found = self._answers[name](X, *options)
            ends = np.cumsum([0, *(asked[i].n_rows for i in members)])
            for i, (lo, hi) in zip(members, pairwise(ends), strict=True):
                out[i] = tuple(array[lo:hi] for array in found)
        return out

    def class_labels(self) -> list[Scalar]:
        """Labels of the classes, in the order of their probabilities."""
        return [as_scalar(label) for label in self.estimator.classes_.tolist()]

    # --- answers that are not batched ---

    def anomalous_cells(
        self, read: Read, n_cells: int, sent: Sequence[Record]
    ) -> list[dict[str, Scalar]]:
        """The most surprising cells, with their values as they were sent."""
        X, beyond = read.numbers, self.records.beyond(read)
        found = anomalous_cells(fitted_of(self.estimator), X, X, n_cells, beyond=beyond)
        rows = zip(*found.values(), strict=True)
        cells = [{c: as_scalar(v) for c, v in zip(found, row, strict=True)} for row in rows]
        for cell, i in zip(cells, np.asarray(found["row"]).tolist(), strict=True):
            cell["value"] = sent[i].get(str(cell["column"]))
        return cells

    def explain(self, X: Array, n_columns: int, sent: Record) -> list[dict[str, object]]:
        """State and supporting columns of every part of one row, with values as they were sent."""
        return [
            as_json_object(
                {
                    **part,
                    "columns": [
                        {**one, "value": sent.get(str(one["column"]))} for one in part["columns"]
                    ],
                }
            )
            for part in self.estimator.explain(self._frame(X), n_columns)
        ]

    def drift(self, X: Array, alpha: float) -> Drift:
        """Differences between rows and the rows of the fit."""
        return drift(self.estimator, self._frame(X), alpha=alpha)

    def sample(self, n: int, given: Array | None, seed: int | None) -> list[dict[str, Scalar]]:
        """Synthetic rows."""
        known = {} if given is None else {"given": self._frame(given)}
        rows, _ = self.estimator.sample(n, random_state=seed, **known)
        numbers = rows if self._schema is None else self._schema.encode(rows, tell=False)
        return self.records.write(np.asarray(numbers), predicted=False)

    def _frame(self, X: Array) -> Array | Frame:
        """The model's numbers as the kind of table that was fitted."""
        return X if self._schema is None else self._schema.decode(X)


class _States:
    """Answers of an `MCVQ`, from encoded rows."""

    def __init__(self, estimator: MCVQ) -> None:
        self._fitted = fitted_of(estimator)

    def impute(self, X: Array, coverage: float | None) -> Answered:
        filled = np.where(np.isnan(X), states.impute(self._fitted, X, 1), X)
        if coverage is None:
            return (filled,)
        ends = states.interval(self._fitted, X, 0.5 * (1.0 - coverage), 1)
        schema = self._fitted.schema
        return filled, *(ends if schema is None else schema.inward(*ends))

    def states(self, X: Array) -> Answered:
        m = states.posteriors(self._fitted, X, 1)
        first = states.core(self._fitted).first[: states.n_parts(self._fitted) + 1]
        own = [m[:, lo:hi] for lo, hi in pairwise(first)]
        best = np.stack([part.argmax(axis=1) for part in own], axis=1)
        return best, np.stack([part.max(axis=1) for part in own], axis=1)

    def classes(self, X: Array) -> Answered:
        return (states.class_proba(self._fitted, X, 1),)

    def scores(self, X: Array) -> Answered:
        found = states.likelihoods(self._fitted, X, CLASS_DRAWS, 1)
        rows = mix_classes(found, np.log(states.class_shares(self._fitted)))
        return rows.log_likelihood, states.anomaly_scores(self._fitted, X, 1)


class _Methods:
    """Answers of any other estimator, by its public methods."""

    def __init__(self, estimator: BaseEstimator, schema: Schema | None) -> None:
        self._estimator, self._schema = estimator, schema

    def impute(self, X: Array, coverage: float | None) -> Answered:
        rows = X if self._schema is None else self._schema.decode(X)
        filled = self._numbers(self._estimator.impute(rows))
        if coverage is None:
            return (filled,)
        ends = self._estimator.predict_interval(rows, coverage=coverage)
        return filled, *map(self._numbers, ends)

    def _numbers(self, table: Array | Frame) -> Array:
        if self._schema is None:
            return np.asarray(table)
        return self._schema.encode(table, tell=False)

    def states(self, X: Array) -> Answered:
        found = np.asarray(self._estimator.predict_states(X))
        m = np.asarray(self._estimator.transform(X))
        sizes = getattr(self._estimator, "n_states_", m.shape[1] // found.shape[1])
        parts = np.split(m, np.cumsum(np.broadcast_to(sizes, found.shape[1]))[:-1], axis=1)
        return found, np.stack([part.max(axis=1) for part in parts], axis=1)

    def classes(self, X: Array) -> Answered:
        return (self._estimator.predict_proba(X),)

    def scores(self, X: Array) -> Answered:
        return self._estimator.score_samples(X), self._estimator.anomaly_scores(X)
