"""Golden model files and golden fits: how each is made, and what it is asked."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import partwise
from tests.golden.answers import Arrays, ask
from tests.golden.data import N_ASKED, as_pandas, as_polars, as_sparse, stored

MODELS = Path(__file__).parent / "models"
FITS = Path(__file__).parent / "fits"

RowSource, StreamingOptions = partwise.RowSource, partwise.StreamingOptions

# ----------------------------------------------------------------------------------- tolerances

# A fixed number of sweeps from a given start: see README.md for what was measured.
SWEEPS = 1e-9
# Rows of float32 are answered in float32, whose unit of rounding is 6e-8; so are people, whose
# ratings a recommender keeps as float32.
SINGLE = 1e-5
# A search has converged when the bound rises by less than 1e-6 nats per row (`_sought`). EM takes
# steps that shrink by a constant factor, so that what is left to gain is of the same size, and
# numbers near an optimum are off by the root of what the bound lacks: 1e-3.
SEARCH = 1e-3
# An M-step of binary features is up to 25 steps of L-BFGS, ended before it has converged. Its line
# searches carry differences of 1e-16 to 1e-10, and those of a second M-step to 1e-7.
DESCENT = 1e-6

# ---------------------------------------------------------------------- rows in their storages


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Where rows on disk lie; removed when Python ends."""
    return tempfile.TemporaryDirectory(ignore_cleanup_errors=True)


def _memmap(X: np.ndarray) -> Any:
    """Rows on disk, read as they are needed."""
    with tempfile.NamedTemporaryFile(suffix=".npy", dir=_folder().name, delete=False) as file:
        np.save(file, X)
    return RowSource(np.load(file.name, mmap_mode="r"))


STORAGES: dict[str, Callable[[Any], Any]] = {
    "array": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "sparse": as_sparse,
    "zeros": sparse.csr_array,
    "memmap": _memmap,
    "blocks": lambda X: RowSource([X[:40], X[40:41], X[41:]]),
    "pandas": as_pandas,
    "polars": as_polars,
    "triplets": lambda X: (*np.nonzero(~np.isnan(X)), X[~np.isnan(X)]),
}


def rows_of(name: str, part: slice = slice(None)) -> Any:
    """Rows of a data set as numbers, or its columns by name: "numbers", "numbers.incomplete"."""
    name, _, key = name.partition(".")
    arrays = stored(name)
    if name == "table":
        return {column: v[part] for column, v in arrays.items() if column != "y"}
    return arrays[key or "X"][part]


def labels_of(name: str, which: str | None, part: slice = slice(None)) -> Any:
    """Labels: all of them, or two of three unknown."""
    if which is None:
        return None
    y = stored(name.partition(".")[0])["y"][part]
    if which == "all":
        return y
    unknown: Any = None if y.dtype.kind == "U" else -1
    return np.where(
        np.arange(len(y)) % 3 > 0, unknown, y.astype(object if unknown is None else int)
    )


def asked_rows(name: str, storage: str) -> Any:
    """Rows that answers are asked about, in the form that suits."""
    rows = rows_of(name, slice(N_ASKED))
    if storage == "triplets":
        return {item: rows[0, item] for item in range(10) if not np.isnan(rows[0, item])}
    return STORAGES[storage](rows) if storage in ("pandas", "polars", "float32") else rows


# ------------------------------------------------------------------------------------ questions

ROWS = ["transform", "inverse", "reconstruct", "impute", "density", "sample"]
GATED = ["trace", "gates", "parts", *ROWS, "interval", "cells", "anomalies", "explain"]
STATES = [*GATED, "means", "variances", "state priors", "states", "likelihood", "bic"]
FACTORS = [*GATED, "loadings", "offsets", "noise", "n_factors"]
CLASSES = ["class priors", "classes", "predict", "probabilities", "sample class"]
CODES = ["trace", "features", "origins", "noise", "certificate", "encode", "decode", "certify",
         *ROWS, "explain code"]  # fmt: skip
LINEAR = [*ROWS, "interval", "anomalies", "bic", "explain"]
TABLE = [
    "trace", "gates", "parts", "kinds", "means", "level shares", "state priors", "states",
    "transform", "impute", "imputations", "interval", "density", "anomalies", "explain",
    "level probabilities", "rare cells", "summary", "dependence", "profiles", "add states",
    "predict columns", "sample", "sample given",
]  # fmt: skip
RATINGS = ["levels", "items", "distribution", "ratings", "mean ratings", "rating interval",
           "recommend", "next question", "explain rating", "neighbours"]  # fmt: skip


# Questions of old records whose definition has changed: "odd cells" had another surprise than "rare
# cells".
REPLACED = ("odd cells",)


# ---------------------------------------------------------------------------------- model files


@dataclass(frozen=True)
class Stored:
    """A model file: how it is made, if ever it is made again, and what it is asked."""

    make: Callable[[], Any]
    data: str
    questions: list[str]
    storage: str = "array"
    labels: str | None = None
    n_rows: int | None = 80  # learned from; a fit that begins with the file has more to learn
    rtol: float = SWEEPS

    def fit(self) -> Any:
        """The model as it is stored."""
        part = slice(self.n_rows)
        X = STORAGES[self.storage](rows_of(self.data, part))
        y = labels_of(self.data, self.labels, part)
        return _quietly(lambda: self.make().fit(X) if y is None else self.make().fit(X, y))


def _quietly(function: Callable[[], Any]) -> Any:
    """Few sweeps do not converge, and nobody need be told."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return function()


def mcvq(n_parts: Any = 2, n_states: Any = 3, **options: Any) -> Callable[[], Any]:
    return lambda: partwise.MCVQ(n_parts, n_states, **{"max_iter": 2, "random_state": 0, **options})


def mcfa(n_parts: Any = 2, n_factors: Any = 2, **options: Any) -> Callable[[], Any]:
    return lambda: partwise.MCFA(
        n_parts, n_factors, **{"max_iter": 2, "random_state": 0, **options}
    )


def gvq(n_components: int = 5, **options: Any) -> Callable[[], Any]:
    return lambda: partwise.GVQ(n_components, **{"max_iter": 2, "random_state": 0, **options})


def mixture(n_components: Any, **options: Any) -> Callable[[], Any]:
    return lambda: partwise.BayesianPCAMixture(n_components, **{"random_state": 0, **options})


STORED: dict[str, Stored] = {
    "mcvq": Stored(mcvq(3), "numbers.incomplete", STATES),
    "mcvq-bernoulli": Stored(mcvq(likelihood="bernoulli"), "switches.incomplete", STATES),
    "mcvq-poisson": Stored(mcvq(likelihood="poisson"), "counts", STATES),
    "mcvq-categorical": Stored(mcvq(likelihood="categorical"), "levels.incomplete", STATES),
    "mcvq-ordinal": Stored(mcvq(likelihood="ordinal"), "levels.incomplete", STATES),
    "mcvq-factorised": Stored(mcvq(3, gating="factorised"), "numbers.incomplete", STATES),
    "mcvq-classes": Stored(
        mcvq(3), "numbers.incomplete", [*STATES, *CLASSES], labels="all"
    ),
    "mcvq-auto": Stored(mcvq("auto", "auto"), "numbers", [*STATES, "n_states"], n_rows=None),
    "mcvq-table": Stored(mcvq(likelihood="auto"), "table", TABLE, "pandas", n_rows=120),
    "mcvq-table-classes": Stored(
        mcvq(likelihood="auto"), "table", [*TABLE, "class priors", "classes", "probabilities"],
        "polars", "some", n_rows=120,
    ),
    "mcfa": Stored(mcfa(), "factors.incomplete", FACTORS),
    "mcfa-ordinal": Stored(mcfa(likelihood="ordinal"), "levels.incomplete", FACTORS),
    "mcfa-classes": Stored(mcfa(), "factors.incomplete",
        [*FACTORS, *CLASSES, "factor means", "factor covariances"], labels="all"),
    "gvq": Stored(gvq(), "features.incomplete", CODES, n_rows=60),
    "gvq-sets": Stored(gvq(3, n_sets=2), "features", CODES, n_rows=60),
    "gvq-values": Stored(gvq(3, n_values=3), "features.several", CODES, n_rows=60),
    "gvq-binary": Stored(gvq(4, binary=True), "pixels", CODES, n_rows=60),
    "cvq": Stored(
        lambda: partwise.CVQ(2, 3, max_iter=5, random_state=0), "numbers.incomplete",
        ["trace", "means", "noise", "state priors", *ROWS, "states", "encode", "decode", "certify",
         "likelihood", "bic"],
    ),
    "bayesian-pca": Stored(
        lambda: partwise.BayesianPCA(4, random_state=0), "planes.incomplete",
        ["trace", "mean", "components", "relevances", "noise variance", "dimension", *LINEAR],
    ),
    "bayesian-pca-mixture": Stored(
        mixture(3), "planes.incomplete",
        ["trace", "means", "components", "weights", "relevances", "noise variance", "dimension",
         "responsibilities", *LINEAR],
    ),
    "bayesian-pca-mixture-classes": Stored(
        mixture("auto"), "planes",
        ["means", "components", "weights", "responsibilities", *LINEAR, *CLASSES],
        labels="all", n_rows=None,
    ),
    "aspect": Stored(
        lambda: partwise.AspectModel(3, beta=0.9, max_iter=5, random_state=0),
        "levels.incomplete",
        ["trace", "levels", "beta", "means", "variances", *ROWS, "interval", "cells", "likelihood",
         "bic"],
    ),
    "recommender": Stored(
        lambda: partwise.Recommender(
            partwise.MCFA(1, 3, likelihood="ordinal", max_iter=5, random_state=0)
        ),
        "ratings", RATINGS, "triplets", n_rows=None, rtol=SINGLE,
    ),
    "recommender-mcvq": Stored(
        lambda: partwise.Recommender(
            partwise.MCVQ(2, 3, likelihood="ordinal", max_iter=5, random_state=0)
        ),
        "ratings", [*RATINGS, "profile"], "triplets", n_rows=None, rtol=SINGLE,
    ),
    "imputer": Stored(lambda: partwise.PartsImputer(2, 3, n_factors=2, n_fits=2, random_state=0),
        "table", ["transform", "level probabilities", "names out"], "pandas", n_rows=120),
}  # fmt: skip


def model_files() -> list[Path]:
    """All stored model files, of all generations."""
    return sorted(MODELS.glob("*/*.safetensors"))


def answers_of_file(path: Path) -> Arrays:
    """What a stored model answers."""
    case = STORED[path.stem]
    return ask(partwise.load(path), case.questions, asked_rows(case.data, case.storage))


# ----------------------------------------------------------------------------------------- fits


@dataclass(frozen=True)
class Fit:
    """A fit: from a stored model by warm_start, or as ``make`` begins it."""

    data: str
    questions: list[str]
    start: str | None = None  # a stored model, "generation/name"
    make: Callable[[], Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)  # in place of the stored model's
    sweeps: int = 4
    storage: str = "array"
    labels: str | None = None
    weighted: bool = False
    blocks: int = 0  # rows per call of partial_fit; 0 calls fit
    same_as: str | None = None  # the fit whose record holds for this one, too
    rtol: float = SWEEPS

    def run(self) -> Any:
        """The fitted model."""
        if self.start is not None:
            model = partwise.load(MODELS / f"{self.start}.safetensors")
            exact = {} if self.blocks else {"tol": 0.0, "max_iter": self.sweeps, "warm_start": True}
            model.set_params(**exact, **self.options)
        else:
            assert self.make is not None
            model = self.make()
        if self.blocks:
            return self._stream(model)
        X = STORAGES[self.storage](rows_of(self.data))
        y, weight = labels_of(self.data, self.labels), {}
        if self.weighted:
            weight = {"sample_weight": 1.0 + np.arange(len(X)) % 4 / 2}
        return _quietly(lambda: model.fit(X, **({} if y is None else {"y": y}), **weight))

    def _stream(self, model: Any) -> Any:
        X, y = rows_of(self.data), labels_of(self.data, self.labels)
        for i in range(0, len(X), self.blocks):
            part = slice(i, i + self.blocks)
            model.partial_fit(STORAGES[self.storage](X[part]), None if y is None else y[part])
        return model

    def answers(self) -> Arrays:
        """What the fitted model answers."""
        return ask(self.run(), self.questions, asked_rows(self.data, self.storage))


def _random(kind: Any, *sizes: int, **options: Any) -> Callable[[], Any]:
    """A fit from rows drawn by their numbers, which rounding cannot change."""
    return lambda: kind(
        *sizes, init="random", gating="standard", tol=0.0, max_iter=4, random_state=3, **options
    )


def _pca(**options: Any) -> Callable[[], Any]:
    return lambda: partwise.BayesianPCA(
        **{"max_components": 4, "tol": 0.0, "max_iter": 5, "random_state": 0, **options}
    )


def _sought(kind: Any, *sizes: Any, **options: Any) -> Callable[[], Any]:
    """A fit from the usual start to convergence."""
    return lambda: kind(*sizes, **{"tol": 1e-6, "max_iter": 500, "random_state": 0, **options})


NUMBERS, CLASSED = "numbers.incomplete", [*STATES, *CLASSES]
SUPERVISED = [*FACTORS, *CLASSES, "factor means", "factor covariances"]
STREAM = StreamingOptions(warm_up=0)
# Signs and order of directions are the linear algebra library's; what they say of rows is not.
TURNED = ["trace", "mean", "relevances", "noise variance", "dimension", "lengths", "reconstruct",
          "impute", "interval", "density", "anomalies", "bic"]  # fmt: skip

TURNED_MIXTURE = ["bound", "components sorted", "component partition", "noise variance",
                  "dimension", "reconstruct", "impute", "interval", "density"]  # fmt: skip
PARTS = ["bound", "partition", "reconstruct", "impute", "interval", "density"]

FITTED: dict[str, Fit] = {
    # MCVQ: storages, gatings, inference
    "mcvq-complete": Fit("numbers", STATES, "1/mcvq"),
    "mcvq-missing": Fit(NUMBERS, STATES, "1/mcvq"),
    "mcvq-sparse": Fit(NUMBERS, STATES, "1/mcvq", storage="sparse", same_as="mcvq-missing"),
    "mcvq-memmap": Fit(NUMBERS, STATES, "1/mcvq", storage="memmap", same_as="mcvq-missing"),
    "mcvq-blocks": Fit(NUMBERS, STATES, "1/mcvq", storage="blocks", same_as="mcvq-missing"),
    "mcvq-float32": Fit(NUMBERS, STATES, "1/mcvq", storage="float32", rtol=SINGLE),
    "mcvq-weights": Fit(NUMBERS, STATES, "1/mcvq", weighted=True),
    "mcvq-standard": Fit(NUMBERS, STATES, "1/mcvq", options={"gating": "standard"}),
    "mcvq-factorised": Fit(NUMBERS, STATES, "1/mcvq-factorised"),
    "mcvq-gibbs": Fit(NUMBERS, STATES, "1/mcvq", options={"inference": "gibbs"}),
    "mcvq-likelihood": Fit("numbers", STATES, "1/mcvq", options={"prior": None}),
    "mcvq-entropic": Fit(
        NUMBERS, STATES, "1/mcvq", options={"gating": "standard", "gate_entropy": 0.5}
    ),
    "mcvq-random": Fit(NUMBERS, STATES, make=_random(partwise.MCVQ, 3, 3)),
    # MCVQ: laws
    "mcvq-bernoulli": Fit("switches.incomplete", STATES, "1/mcvq-bernoulli"),
    "mcvq-bernoulli-complete": Fit("switches", STATES, "1/mcvq-bernoulli"),
    "mcvq-bernoulli-zero": Fit(
        "switches", STATES, "1/mcvq-bernoulli", options={"sparse_absent": "zero"}, storage="zeros",
        same_as="mcvq-bernoulli-complete",
    ),
    "mcvq-poisson": Fit("counts", STATES, "1/mcvq-poisson"),
    "mcvq-poisson-zero": Fit(
        "counts", STATES, "1/mcvq-poisson", storage="zeros", same_as="mcvq-poisson"
    ),
    "mcvq-categorical": Fit("levels.incomplete", STATES, "1/mcvq-categorical"),
    "mcvq-ordinal": Fit("levels.incomplete", STATES, "1/mcvq-ordinal"),
    "mcvq-table": Fit("table", TABLE, "1/mcvq-table", storage="pandas"),
    "mcvq-table-polars": Fit(
        "table", TABLE, "1/mcvq-table", storage="polars", same_as="mcvq-table"
    ),
    "mcvq-table-classes": Fit(
        "table", ["trace", "class priors", "probabilities", "impute", "density"],
        "1/mcvq-table-classes", storage="polars", labels="some",
    ),
    # MCVQ: classes
    "mcvq-supervised": Fit(NUMBERS, CLASSED, "1/mcvq-classes", labels="all"),
    "mcvq-semi": Fit(NUMBERS, CLASSED, "1/mcvq-classes", labels="some"),
    "mcvq-unsupervised": Fit(NUMBERS, CLASSED, "1/mcvq-classes", options={"n_classes": 2}),
    # MCVQ: streams
    "mcvq-stream": Fit(
        NUMBERS, [*STATES, "rows seen", "weight seen"], "1/mcvq", options={"streaming": STREAM},
        blocks=40,
    ),
    "mcvq-stream-forgets": Fit(
        "numbers", [*CLASSED, "rows seen", "weight seen"], "1/mcvq-classes", labels="some",
        options={"streaming": StreamingOptions(half_life=60.0, warm_up=0)}, blocks=50,
    ),
    # MCFA
    "mcfa-complete": Fit("factors", FACTORS, "1/mcfa"),
    "mcfa-missing": Fit("factors.incomplete", FACTORS, "1/mcfa"),
    "mcfa-sparse": Fit(
        "factors.incomplete", FACTORS, "1/mcfa", storage="sparse", same_as="mcfa-missing"
    ),
    "mcfa-zero": Fit(
        "factors", FACTORS, "1/mcfa", options={"sparse_absent": "zero"}, storage="zeros",
        same_as="mcfa-complete",
    ),
    "mcfa-memmap": Fit(
        "factors.incomplete", FACTORS, "1/mcfa", storage="memmap", same_as="mcfa-missing"
    ),
    "mcfa-standard": Fit("factors", FACTORS, "1/mcfa", options={"gating": "standard"}),
    "mcfa-factorised": Fit(
        "factors.incomplete", FACTORS, "1/mcfa", options={"gating": "factorised"}
    ),
    "mcfa-likelihood": Fit("factors.incomplete", FACTORS, "1/mcfa", options={"prior": None}),
    "mcfa-ordinal": Fit("levels.incomplete", FACTORS, "1/mcfa-ordinal"),
    "mcfa-ordinal-sparse": Fit(
        "levels.incomplete", FACTORS, "1/mcfa-ordinal", storage="sparse", same_as="mcfa-ordinal"
    ),
    "mcfa-supervised": Fit("factors", SUPERVISED, "1/mcfa-classes", labels="all"),
    "mcfa-semi": Fit("factors.incomplete", SUPERVISED, "1/mcfa-classes", labels="some"),
    "mcfa-stream": Fit(
        "factors.incomplete", [*FACTORS, "rows seen"], "1/mcfa", options={"streaming": STREAM},
        blocks=50,
    ),
    "mcfa-random": Fit("factors.incomplete", FACTORS, make=_random(partwise.MCFA, 2, 2)),
    # GVQ
    "gvq-exact": Fit("features", CODES, "1/gvq"),
    "gvq-missing": Fit("features.incomplete", CODES, "1/gvq"),
    "gvq-penalty": Fit("features.incomplete", CODES, "1/gvq", options={"penalty": 0.8}),
    **{
        f"gvq-{association.replace('_', '-')}": Fit(
            "features.incomplete", CODES, "1/gvq", options={"association": association}
        )
        for association in (
            "mean_field", "gibbs", "belief_propagation", "belief_revision",
            "directed_belief_propagation", "directed_belief_revision",
        )
    },
    "gvq-sets": Fit("features", CODES, "1/gvq-sets", sweeps=2),
    "gvq-values": Fit("features.several", CODES, "1/gvq-values"),
    "gvq-binary": Fit("pixels", CODES, "1/gvq-binary", sweeps=1, rtol=DESCENT),
    # The others have no warm start: where they begin follows from the rows, or from drawn numbers.
    "bayesian-pca": Fit("planes", TURNED, make=_pca(max_iter=2)),
    "bayesian-pca-missing": Fit("planes.incomplete", TURNED, make=_pca()),
    "bayesian-pca-no-relevance": Fit("planes", TURNED, make=_pca(relevance=False, max_iter=1)),
    "bayesian-pca-likelihood": Fit("planes.incomplete", TURNED, make=_pca(prior=None)),
    "aspect": Fit(
        "levels.incomplete", STORED["aspect"].questions,
        make=lambda: partwise.AspectModel(3, beta=0.8, tol=0.0, max_iter=5, random_state=0),
    ),
    "recommender-mcvq": Fit(
        "ratings", [*RATINGS, "profile", "conspicuous", "pairs", "questions", "item added"],
        storage="triplets", rtol=SINGLE,
        make=lambda: partwise.Recommender(
            _random(partwise.MCVQ, 2, 3, likelihood="ordinal")()
        ),
    ),
    # Searches
    "search-mcvq": Fit(NUMBERS, PARTS, make=_sought(partwise.MCVQ, 3, 3), rtol=SEARCH),
    "search-mcvq-auto": Fit(
        "numbers", [*PARTS, "sizes"], make=_sought(partwise.MCVQ, "auto", "auto"), rtol=SEARCH
    ),
    "search-mcvq-auto-counts": Fit(
        "counts", ["bound", "partition", "sizes", "reconstruct", "density"],
        make=_sought(partwise.MCVQ, 2, "auto", likelihood="poisson"), storage="zeros", rtol=SEARCH,
    ),
    "search-mcvq-auto-table": Fit(
        "table", ["bound", "partition", "sizes", "kinds", "impute", "interval", "density",
                  "level probabilities", "dependence"],
        make=_sought(partwise.MCVQ, "auto", "auto", likelihood="auto"), storage="pandas",
        rtol=SEARCH,
    ),
    "search-mcvq-classes-auto": Fit(
        "groups", [*PARTS, "n_classes", "predicted partition"],
        make=_sought(partwise.MCVQ, 5, 3, n_classes="auto"), rtol=SEARCH,
    ),
    "search-mcvq-classes-found": Fit(
        "groups", [*PARTS, "n_classes", "predicted partition"],
        make=_sought(partwise.MCVQ, 5, 3, n_classes=3), rtol=SEARCH,
    ),
    "search-mcvq-supervised": Fit(
        NUMBERS, [*PARTS, "class priors", "probabilities"], make=_sought(partwise.MCVQ, 3, 3),
        labels="some", rtol=SEARCH,
    ),
    "search-mcvq-factorised": Fit(
        "numbers", PARTS, make=_sought(partwise.MCVQ, 3, 3, gating="factorised"), rtol=SEARCH
    ),
    "search-mcvq-stream": Fit(
        NUMBERS, [*PARTS, "rows seen"],
        make=_sought(partwise.MCVQ, 3, 3, streaming=StreamingOptions(warm_up=100)),
        blocks=30, rtol=SEARCH,
    ),
    "search-mcfa": Fit("factors.incomplete", PARTS, make=_sought(partwise.MCFA, 2, 2), rtol=SEARCH),
    "search-mcfa-auto": Fit(
        "strands", [*PARTS, "sizes"], make=_sought(partwise.MCFA, "auto", "auto"), rtol=SEARCH
    ),
    "search-mcfa-ordinal": Fit(
        "levels.incomplete", PARTS, make=_sought(partwise.MCFA, 2, 2, likelihood="ordinal"),
        rtol=SEARCH,
    ),
    "search-gvq": Fit(
        "features", ["bound", "noise", "reconstruct", "impute", "density", "certify"],
        make=_sought(partwise.GVQ, 5), rtol=SEARCH,
    ),
    "search-cvq": Fit(
        NUMBERS, ["bound", "noise", "reconstruct", "impute", "density", "decode", "certify"],
        make=_sought(partwise.CVQ, 3, 3), rtol=SEARCH,
    ),
    "search-mixture": Fit(
        "planes.incomplete", [*TURNED_MIXTURE], make=_sought(partwise.BayesianPCAMixture, 3),
        rtol=SEARCH,
    ),
    "search-mixture-auto": Fit(
        "planes", [*TURNED_MIXTURE, "n_components"],
        make=_sought(partwise.BayesianPCAMixture, "auto"), rtol=SEARCH,
    ),
    "search-mixture-classes": Fit(
        "planes", ["bound", "noise variance", "reconstruct", "density", "predict", "probabilities"],
        make=_sought(partwise.BayesianPCAMixture, 1), labels="all", rtol=SEARCH,
    ),
    "search-aspect": Fit(
        "levels.incomplete", ["bound", "beta", "reconstruct", "interval", "cells"],
        make=_sought(partwise.AspectModel, 3), rtol=SEARCH,
    ),
    "search-recommender": Fit(
        "ratings", [*RATINGS, "pairs", "questions", "item added"], make=partwise.Recommender,
        storage="triplets", rtol=SEARCH,
    ),
    "search-imputer": Fit(
        "table", ["transform", "level probabilities", "names out"], storage="pandas",
        make=lambda: partwise.PartsImputer(2, 3, n_fits=2, random_state=0, add_states=False),
        rtol=SEARCH,
    ),
    "search-imputer-numbers": Fit(
        NUMBERS, ["transform"], rtol=SEARCH,
        make=lambda: partwise.PartsImputer(
            "auto", "auto", n_factors=2, n_fits=2, sizes=partwise.SizeOptions(), random_state=0
        ),
    ),
}  # fmt: skip
