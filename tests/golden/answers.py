"""What golden tests ask of a model, through public names only.

Every public name that is asked for stands once in this file: a rename is one line here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
Answer = Callable[[Any, Any], Any]

SEED = 7
COVERAGE = 0.8

# Learned attributes: what they are called in records -> what the library calls them.
LEARNED = {
    "trace": "lower_bounds_",
    "bound": "lower_bound_",
    "gates": "gates_",
    "parts": "parts_",
    "means": "means_",
    "variances": "variances_",
    "state priors": "state_priors_",
    "class priors": "class_priors_",
    "classes": "classes_",
    "level shares": "level_shares_",
    "kinds": "kinds_",
    "row labels": "row_labels_",
    "loadings": "loadings_",
    "offsets": "offsets_",
    "noise": "noise_variance_",
    "noise variance": "noise_variance_",
    "factor means": "factor_means_",
    "factor covariances": "factor_covariances_",
    "features": "features_",
    "origins": "origins_",
    "certificate": "certificate_",
    "mean": "mean_",
    "components": "components_",
    "relevances": "relevances_",
    "dimension": "effective_dimension_",
    "weights": "weights_",
    "beta": "beta_",
    "levels": "levels_",
    "n_parts": "n_parts_",
    "n_states": "n_states_",
    "n_factors": "n_factors_",
    "n_components": "n_components_",
    "rows seen": "n_samples_seen_",
    "weight seen": "weight_seen_",
    "items": "items_",
}


def _cells(model: Any, X: Any) -> np.ndarray:
    """Log density of some cells, each held out of its row and given back."""
    rows, columns = np.arange(4), np.arange(4) % X.shape[1]
    values = np.array([X[i, d] for i, d in zip(rows, columns, strict=True)])
    values = np.where(np.isnan(values), np.nanmedian(X[:, columns], axis=0), values)
    X = np.array(X, copy=True)
    X[rows, columns] = np.nan
    return model.score_cells(X, rows, columns, values)


def _inverse(model: Any, X: Any) -> Any:
    return model.inverse_transform(np.asarray(model.transform(X)))


# Questions about rows of an array or a table.
ASKED: dict[str, Answer] = {
    "transform": lambda model, X: model.transform(X),
    "inverse": _inverse,
    "reconstruct": lambda model, X: model.reconstruct(X),
    "impute": lambda model, X: model.impute(X),
    "imputations": lambda model, X: model.impute(X, n_imputations=2, random_state=SEED),
    "interval": lambda model, X: model.predict_interval(X, COVERAGE),
    "density": lambda model, X: model.score_samples(X),
    "cells": _cells,
    "likelihood": lambda model, X: model.row_likelihood(X, 20),
    "anomalies": lambda model, X: model.anomaly_scores(X),
    "bic": lambda model, X: model.bic(X),
    "states": lambda model, X: model.predict_states(X),
    "predict": lambda model, X: model.predict(X),
    "probabilities": lambda model, X: model.predict_proba(X),
    "responsibilities": lambda model, X: model.responsibilities(X),
    "encode": lambda model, X: model.encode(X),
    "decode": lambda model, X: model.decode(model.encode(X)),
    "certify": lambda model, X: model.certify(X),
    "explain": lambda model, X: list(model.explain(X[:1], n_columns=2)),
    "explain code": lambda model, X: model.explain(X[:1]),
    "level probabilities": lambda model, X: model.predict_proba_columns(X),
    "rare cells": lambda model, X: model.anomalous_cells(X, 3),
    "summary": lambda model, X: model.summary(2).to_frame(),
    "dependence": lambda model, X: model.dependence(as_frame=False),
    "profiles": lambda model, X: model.state_profiles(0),
    "add states": lambda model, X: model.add_states(X),
    "predict columns": lambda model, X: model.predict_columns(X, ["length0", "place1"]),
    "sample": lambda model, X: model.sample(4, random_state=SEED),
    "sample class": lambda model, X: model.sample(4, classes=model.classes_[0], random_state=SEED),
    "sample given": lambda model, X: model.sample(
        3, given={"place0": "hills", "length1": 4.0}, random_state=SEED
    ),
    "names out": lambda model, X: model.get_feature_names_out(),
}

# Questions about a person, whose ratings are given by item.
ASKED_OF_RATINGS: dict[str, Answer] = {
    "distribution": lambda model, person: model.predict_distribution(person),
    "ratings": lambda model, person: model.predict(person),
    "mean ratings": lambda model, person: model.predict(person, point="mean"),
    "rating interval": lambda model, person: model.predict_interval(person, coverage=COVERAGE),
    "recommend": lambda model, person: [
        {name: getattr(found, name) for name in ("item", "rating", "lower", "upper")}
        for found in model.recommend(person, 3, by="rating")
    ],
    "next question": lambda model, person: model.next_question(person),
    "explain rating": lambda model, person: {
        "neighbours" if name == "similar_items" else name: reason
        for name, reason in model.explain(person, 20, n=2).items()
        if "cho" not in name  # what the choice model adds
    },
    "neighbours": lambda model, person: model.similar_items(20, 3),
    "conspicuous": lambda model, person: model.state_items(2, min_ratings=5),
    "pairs": lambda model, person: model.predict_pairs(
        ([0] * len(person), list(person), list(person.values())), [0, 0], [20, 21], point="mean"
    ),
    "questions": lambda model, person: [
        model.next_question(person, rule=rule) for rule in ("error", "information", "value")
    ],
    "item added": lambda model, person: (
        deepcopy(model)
        .add_items((list(range(12)) * 2, [0] * 12 + [99] * 12, [1, 2, 3, 4, 5, 5] * 4))
        .predict_distribution(person, [99])
    ),
    "profile": lambda model, person: model.profile(person, 2, min_ratings=5),
}


def partition(labels: Any) -> np.ndarray:
    """Labels numbered in the order in which they first occur; -1 stays."""
    order: dict[int, int] = {-1: -1}
    return np.array([order.setdefault(int(k), len(order) - 1) for k in labels])


def _sizes(model: Any) -> np.ndarray:
    """Sizes of the parts in the order of their first columns; parts without columns are last."""
    name = "n_states" if hasattr(model, LEARNED["n_states"]) else "n_factors"
    sizes, parts = getattr(model, LEARNED[name]), getattr(model, LEARNED["parts"])
    first = [
        int(np.argmax(parts == k)) if np.any(parts == k) else len(parts) for k in range(len(sizes))
    ]
    return np.asarray(sizes)[np.argsort(first, kind="stable")]


# What a search found, whatever the numbers of its parts, states, classes and directions.
MEANT: dict[str, Answer] = {
    "partition": lambda model, X: partition(getattr(model, LEARNED["parts"])),
    "sizes": lambda model, X: _sizes(model),
    "n_classes": lambda model, X: len(getattr(model, LEARNED["classes"])),
    "predicted partition": lambda model, X: partition(model.predict(X)),
    "components sorted": lambda model, X: np.sort(getattr(model, LEARNED["weights"])),
    "component partition": lambda model, X: partition(model.responsibilities(X).argmax(axis=1)),
    "lengths": lambda model, X: np.linalg.norm(getattr(model, LEARNED["components"]), axis=-1),
    "states partitions": lambda model, X: np.unique(
        [partition(column) for column in np.asarray(model.predict_states(X)).T], axis=0
    ),
}


def ask(model: Any, questions: list[str], rows: Any) -> Arrays:
    """Answers to questions by name, as plain arrays."""
    found: Arrays = {}
    for question in questions:
        if question in LEARNED:
            answer = getattr(model, LEARNED[question])
        else:
            answer = {**ASKED, **ASKED_OF_RATINGS, **MEANT}[question](model, rows)
        _flatten(question, answer, found)
    return found


def _flatten(name: str, value: Any, found: Arrays) -> None:
    """Put a value into arrays of numbers or words, by the path that leads to each."""
    if dataclasses.is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    elif hasattr(value, "columns"):  # a DataFrame of pandas or polars
        value = {str(column): value[column].to_list() for column in value.columns}
    elif isinstance(value, list | tuple) and value and _is_record(value[0]):
        records = [each._asdict() if hasattr(each, "_asdict") else each for each in value]
        value = {key: [each[key] for each in records] for key in records[0]}
    if isinstance(value, Mapping):
        for key, each in value.items():
            _flatten(f"{name} / {key}", each, found)
    elif isinstance(value, list | tuple) and any(
        isinstance(each, list | tuple | Mapping | np.ndarray) or hasattr(each, "columns")
        for each in value
    ):
        for i, each in enumerate(value):
            _flatten(f"{name} / {i}", each, found)
    else:
        _put(name, value.toarray() if hasattr(value, "toarray") else value, found)


def _is_record(value: Any) -> bool:
    return isinstance(value, Mapping) or hasattr(value, "_asdict")


def _put(name: str, value: Any, found: Arrays) -> None:
    """Put numbers and words into arrays of their own; arrays of objects would need pickle."""
    array = np.array(value, object) if isinstance(value, list | tuple) else np.asarray(value)
    if array.dtype.kind not in "OU":
        found[name] = array
        return
    flat = array.ravel().tolist()
    words = [each if isinstance(each, str) else "" for each in flat]
    numbers = [np.nan if each is None or isinstance(each, str) else each for each in flat]
    if any(words):
        found[f"{name} (words)"] = np.array(words).reshape(array.shape)
    if not any(words) or any(each == each for each in numbers):
        found[name] = np.array(numbers).reshape(array.shape)
