"""Files of models that the stored ones do not have, mutated, and asked with every public method."""

from __future__ import annotations

import functools
import random
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from partwise import (
    MCFA,
    MCVQ,
    BayesianPCAMixture,
    PartsImputer,
    Recommender,
    Translations,
    drift,
    export_onnx,
    load,
)
from partwise.report import write_report
from partwise.serve.tables import Asked, Table
from tests.fuzz.harness import Kind
from tests.fuzz.models import mutate
from tests.golden.answers import ASKED_OF_RATINGS

# Questions per case; what takes longer is asked of a share of the files.
_QUESTIONS = 4
_DRAWN = 20
_OPTIONS: dict[str, Any] = {"max_iter": 5, "random_state": 0}


def _numbers(n: int = 40, D: int = 6) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, D)) + (np.arange(n) % 3)[:, None]


def _table(n: int = 40) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "x": [None if i % 9 == 0 else value for i, value in enumerate(rng.normal(size=n))],
            "whole": rng.integers(0, 40, n),
            "kind": ["abc"[i % 3] for i in range(n)],
            "day": pl.Series(18000 + rng.integers(0, 400, n)).cast(pl.Date),
            "flag": rng.random(n) < 0.5,
            "direction_degrees": rng.uniform(0, 360, n),
        }
    )


def _ratings() -> tuple[list[str], list[str], list[int]]:
    found = [(f"p{i}", f"i{j}", 1 + (i * j) % 5) for i in range(12) for j in range(1, 7)]
    kept = [one for i, one in enumerate(found) if i % 4]
    users, items, values = zip(*kept, strict=True)
    return list(users), list(items), list(values)


_MOVES = Translations((2, 3), max_shift=1, by="part")

FITS: dict[str, Callable[[], Any]] = {
    "moving": lambda: MCVQ(2, 2, transformations=Translations((2, 3), max_shift=1), **_OPTIONS).fit(
        _numbers()
    ),
    "moving factors": lambda: MCFA(
        2, 1, transformations=Translations((2, 3), max_shift=1), **_OPTIONS
    ).fit(_numbers()),
    "moving parts": lambda: MCVQ(2, 2, transformations=_MOVES, **_OPTIONS).fit(_numbers()),
    "chain": lambda: MCVQ(2, 2, n_classes=2, class_chain=True, **_OPTIONS).fit(
        _numbers(), lengths=[20, 20]
    ),
    "groups": lambda: MCVQ(3, 2, n_classes=2, part_groups=2, n_group_classes=2, **_OPTIONS).fit(
        _numbers()
    ),
    "table": lambda: MCVQ(2, 3, likelihood="auto", **_OPTIONS).fit(_table()),
    "table with classes": lambda: MCVQ(2, 2, likelihood="auto", **_OPTIONS).fit(
        _table(), ["one", "two"] * 20
    ),
    "covariance": lambda: MCFA(1, 2, init="covariance", **_OPTIONS).fit(_numbers()),
    "mixture": lambda: BayesianPCAMixture(2, **_OPTIONS).fit(_numbers()),
    "imputer": lambda: PartsImputer(2, 2, n_fits=2, n_factors=2, random_state=0).fit(_table()),
    "rated set": lambda: Recommender(
        MCFA(1, 2, likelihood="ordinal", **_OPTIONS), rated_set=True
    ).fit(_ratings()),
    "two members": lambda: Recommender(
        [MCFA(1, 2, likelihood="ordinal", **_OPTIONS), MCVQ(2, 2, likelihood="ordinal", **_OPTIONS)]
    ).fit(_ratings()),
}


def _seeds(folder: Path) -> None:
    with warnings.catch_warnings(action="ignore"):
        for name, fit in FITS.items():
            (folder / name).mkdir()
            (folder / name / "case").write_text(name)
            fit().save(folder / name / "model.safetensors")


@functools.cache
def rows_of(name: str) -> Any:
    """Rows that a model is asked about."""
    if name in ("table", "table with classes", "imputer"):
        return _table(6)
    return _numbers(6)


Question = Callable[[Any, Any], object]

# Methods of rows, and how each is called.
_OF_ROWS: dict[str, Question] = {
    **{
        name: lambda model, X, name=name: getattr(model, name)(X)
        for name in (
            "transform", "reconstruct", "impute", "predict_interval", "score_samples", "score",
            "anomaly_scores", "bic", "predict", "predict_proba", "predict_states", "add_states",
            "responsibilities", "certify", "anomalous_cells", "shifts", "align", "shift_proba",
            "predict_proba_columns", "row_likelihood",
        )
    },
    "explain": lambda model, X: model.explain(X[:1]),
    "sample": lambda model, X: model.sample(3, random_state=0),
    "summary": lambda model, X: model.summary(),
    "dependence": lambda model, X: model.dependence(),
    "state_profiles": lambda model, X: model.state_profiles(0),
    "state_tree": lambda model, X: model.state_tree(0),
    "imputations": lambda model, X: model.imputations(X),
    "get_feature_names_out": lambda model, X: model.get_feature_names_out(),
    "canvas_model": lambda model, X: model.canvas_model(),
}  # fmt: skip
_OF_PEOPLE: dict[str, Question] = {
    "recommend": lambda model, person: model.recommend(person, 3),
    "explain": lambda model, person: model.explain(person, "i3"),
    "similar_items": lambda model, person: model.similar_items("i3"),
    "state_items": lambda model, person: model.state_items(2),
    "known_users": lambda model, person: model.known_users(),
    "user_vectors": lambda model, person: model.user_vectors(),
    "item_vectors": lambda model, person: model.item_vectors(),
    "user_ratings": lambda model, person: model.user_ratings("p1"),
    **{
        name: ASKED_OF_RATINGS[name]
        for name in ("distribution", "ratings", "rating interval", "next question")
    },
}


def questions_of(model: Any) -> dict[str, Question]:
    """What a model can be asked, by name."""
    if isinstance(model, Recommender):
        return _OF_PEOPLE
    return {name: ask for name, ask in _OF_ROWS.items() if callable(getattr(model, name, None))}


def in_other_forms(model: Any, rows: Any, folder: Path) -> None:
    """The page, the ONNX file, the answers of the service and the test for drift."""
    write_report(model, folder / "page.html")
    if isinstance(model, Recommender):
        return
    table = Table(model)
    for question in set(table.questions) & {"impute", "states", "classes", "scores"}:
        options = (0.8,) if question == "impute" else ()
        X = np.full((2, len(table.records.names)), np.nan)
        table.answer([Asked(question, options, X)])
    if "drift" in table.questions:
        drift(model, rows)
    if not isinstance(model, PartsImputer):
        export_onnx(model, folder / "model.onnx")


def ask_file(path: Path, name: str, chance: random.Random, most: int, *, whole: bool) -> None:
    """Load a model, ask it some questions, save it again; ``whole`` also writes its other forms."""
    model = load(path)
    rows = {"i1": 4, "i2": 2} if isinstance(model, Recommender) else rows_of(name)
    questions = questions_of(model)
    if not isinstance(model, Recommender | PartsImputer):
        model.set_params(max_iter=1)
    for question in chance.sample(sorted(questions), min(most, len(questions))):
        questions[question](model, rows)
    if whole:
        in_other_forms(model, rows, path.parent)
    model.save(path.with_name("again.safetensors"))
    load(path.with_name("again.safetensors"))


def _use(path: Path) -> None:
    file = path / "model.safetensors"
    chance = random.Random(zlib.crc32(file.read_bytes()))
    whole = chance.randrange(_DRAWN) == 0
    ask_file(file, (path / "case").read_text(), chance, _QUESTIONS, whole=whole)


KINDS = [Kind("new model files", _seeds, mutate, _use)]
