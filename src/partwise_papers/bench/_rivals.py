"""Other ways to fill a mixed table, each with the settings its users would start from.

All take a DataFrame whose columns are text (categories) or numbers, with NaN, and give it filled.
Neighbors need numbers: categories become one yes-or-no column a level, the largest of which is the
one filled in, and numbers are standardised. Chained regressions do better with the places of the
levels, rounded: yes-or-no columns missing together foretell each other. Of miceforest and of Lace
the prediction is imputed, not a sample. To StepMix, Lace and the chains of random forests few
numbers are categories, so that theirs are probabilities, not densities; to gcimpute they are
ordered levels; the others regress and the nearest is taken. Seconds are those of the processor.

Chains of random forests have 50 trees per column and 5 rounds over all columns, miceforest 5
rounds; StepMix selects up to 8 classes by BIC from 2 starts each; Lace's 8 chains end when their
scores settle, at the latest after 2000 steps.
"""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.impute import KNNImputer

from partwise_papers.bench import _lace
from partwise_papers.registry import Array

MOST_CLASSES = 8  # of StepMix, chosen by BIC
N_TREES, N_ROUNDS = 50, 5  # of chained random forests
COVERAGES = (0.5, 0.8, 0.95)  # of intervals

Ends = dict[str, tuple[Array, Array]]  # of the intervals of a column's hidden cells


class Holes(NamedTuple):
    """A table with missing values, and the held-out cells, column by column.

    Where ``taught`` is given, methods are fitted to these rows and applied to all.
    """

    table: Any
    cells: dict[str, tuple[Array, Array]]  # rows, and what stood there
    levels: frozenset[str]  # columns of categories, be they text or few numbers
    taught: Array | None = None  # (n,), bool

    def as_text(self) -> Holes:
        """The same with all levels as text, for those who know numbers as densities only."""

        def text(values: Any) -> Array:
            kept = [x if isinstance(x, str) or x != x else f"{x:g}" for x in values]
            return np.array(kept, dtype=object)

        changed = {name: text(self.table[name]) for name in self.table if name in self.levels}
        cells = {
            name: (rows, text(true) if name in self.levels else true)
            for name, (rows, true) in self.cells.items()
        }
        return self._replace(table=self.table.assign(**changed), cells=cells)

    def rows(self, values: Any) -> Any:
        """Those of n rows that methods are fitted to."""
        return values if self.taught is None else values[self.taught]


class Filled(NamedTuple):
    """A filled table, the seconds it took, log densities of the hidden cells of each column.

    ``intervals`` are those of hidden numbers, by their nominal coverage.
    """

    table: Any
    seconds: float
    density: dict[str, Array] | None = None
    intervals: dict[float, Ends] | None = None


def is_text(column: Any) -> bool:
    """Whether a column holds categories without order."""
    return column.dtype.kind not in "fiu"


class _Numbers:
    """A table as standardised numbers and places of levels, and back."""

    def __init__(self, holes: Holes) -> None:
        self.table = table = holes.table
        self.levels = {
            c: np.unique(table[c].dropna().to_numpy(dtype=object))
            for c in table
            if is_text(table[c])
        }
        numbers = holes.rows(table).drop(columns=list(self.levels))
        self.mean, self.spread = numbers.mean(), numbers.std(ddof=0)

    def coded(self) -> Any:
        """The table in numbers."""
        out = self.table.copy()
        for name in out:
            if name in self.levels:
                place = {level: float(i) for i, level in enumerate(self.levels[name])}
                out[name] = out[name].map(place).astype(float)
            else:
                out[name] = (out[name] - self.mean[name]) / self.spread[name]
        return out

    def spread_out(self) -> Array:
        """The table in numbers, a yes-or-no column for each level."""
        blocks = []
        for name, column in self.coded().items():
            values = column.to_numpy()[:, None]
            if name in self.levels:
                known = values == np.arange(len(self.levels[name]))
                values = np.where(np.isnan(values), np.nan, known)
            blocks.append(values)
        return np.hstack(blocks)

    def gathered(self, filled: Array) -> Array:
        """Places of the largest of the yes-or-no columns."""
        widths = [len(self.levels.get(name, [0])) for name in self.table]
        blocks = np.split(filled, np.cumsum(widths)[:-1], axis=1)
        return np.column_stack(
            [
                block.argmax(axis=1) if name in self.levels else block[:, 0]
                for name, block in zip(self.table, blocks, strict=True)
            ]
        )

    def table_of(self, coded: Array) -> Any:
        """The user's table again."""
        out = self.table.copy()
        for name, values in zip(out, coded.T, strict=True):
            if name in self.levels:
                place = np.rint(values).clip(0, len(self.levels[name]) - 1).astype(int)
                out[name] = self.levels[name][place]
            else:
                out[name] = values * self.spread[name] + self.mean[name]
        return out


def neighbors(holes: Holes) -> Filled:
    """Means over the nearest rows."""
    begun = time.process_time()
    numbers = _Numbers(holes)
    spread = numbers.spread_out()
    filled = numbers.gathered(KNNImputer().fit(holes.rows(spread)).transform(spread))
    return Filled(numbers.table_of(filled), time.process_time() - begun)


def chained(holes: Holes) -> Filled:
    """Regressions of every column on all others, in turn."""
    importlib.import_module("sklearn.experimental.enable_iterative_imputer")
    imputer = importlib.import_module("sklearn.impute").IterativeImputer(random_state=0)
    begun = time.process_time()
    numbers = _Numbers(holes)
    coded = numbers.coded().to_numpy()
    if holes.taught is None:
        filled = imputer.fit_transform(coded)
    else:
        filled = imputer.fit(holes.rows(coded)).transform(coded)
    return Filled(numbers.table_of(filled), time.process_time() - begun)


def trees(holes: Holes) -> Filled:
    """Random forests of every column on all others, in turn, the best observed first."""
    begun = time.process_time()
    numbers = _Numbers(holes)
    coded = numbers.coded()
    missing = coded.isna()
    taught = np.ones(len(coded), bool) if holes.taught is None else holes.taught
    seen = holes.rows(coded)
    start = {c: seen[c].mode()[0] if c in holes.levels else seen[c].mean() for c in coded}
    filled, shares = coded.fillna(start), {}
    for _ in range(N_ROUNDS):
        for name in holes.rows(missing).sum().sort_values(kind="stable").index:
            known = ~missing[name]
            if known.all():
                continue
            learned = (known & taught).to_numpy()
            others = filled.drop(columns=name).to_numpy()
            kind = RandomForestClassifier if name in holes.levels else RandomForestRegressor
            forest = kind(N_TREES, random_state=0)
            told = coded[name][learned]
            if name in holes.levels:
                levels, told = np.unique(told, return_inverse=True)
                share = forest.fit(others[learned], told).predict_proba(others[~known])
                shares[name] = levels, np.flatnonzero(~known), share
                values = levels[forest.classes_[share.argmax(axis=1)]]
            else:
                values = forest.fit(others[learned], told).predict(others[~known])
            filled.loc[~known, name] = values
    result = numbers.table_of(filled.to_numpy())
    took = time.process_time() - begun
    density = {}
    for name, (levels, rows, share) in shares.items():
        if name in holes.cells:
            asked, true = holes.cells[name]
            if name in numbers.levels:
                true = np.searchsorted(numbers.levels[name], true)
            else:
                true = (true - numbers.mean[name]) / numbers.spread[name]
            place = np.abs(levels[:, None] - true.astype(float)).argmin(axis=0)
            p = share[np.searchsorted(rows, asked), place]
            # Levels that no tree has seen near the cell: half of one vote.
            density[name] = np.log(np.maximum(p, 0.5 / N_TREES))
    return Filled(result, took, density)


def copula(holes: Holes) -> Filled:
    """A Gaussian copula: numbers, ordered levels, and categories."""
    if not hasattr(np, "round_"):  # gcimpute calls it; numpy 2 dropped this name of `round`
        setattr(np, "round_", np.round)  # noqa: B010
    module = importlib.import_module("gcimpute.gaussian_copula")
    begun = time.process_time()
    numbers = _Numbers(holes)
    coded = numbers.coded()
    filled = coded.fillna(coded.median())  # it refuses columns of one value
    varied = [name for name in coded if holes.rows(coded)[name].nunique() > 1]
    kinds: dict[str, list[int]] = {}
    for d, name in enumerate(varied):
        many = len(numbers.levels.get(name, ())) > 2
        kind = "categorical" if many else "ordinal" if name in holes.levels else "continuous"
        kinds.setdefault(kind, []).append(d)
    model = module.GaussianCopula(verbose=0, random_state=0)
    X = coded[varied].to_numpy()
    if holes.taught is None:
        filled[varied] = model.fit_transform(X, **kinds)
    else:
        kinds.pop("categorical", None)  # `fit` knows none, and `fit_transform` ignores them
        model.fit(holes.rows(X), **kinds)
        filled[varied] = model.transform(X)
    table = numbers.table_of(filled.to_numpy())
    took, intervals = time.process_time() - begun, None
    if "categorical" not in kinds and holes.taught is None:  # else it has none
        intervals = {}
        for coverage in COVERAGES:
            ends = model.get_confidence_interval(alpha=coverage)
            low, high = filled.copy(), filled.copy()
            low[varied], high[varied] = ends["lower"], ends["upper"]
            scaled = (end * numbers.spread + numbers.mean for end in (low, high))
            intervals[coverage] = ends_of(holes, *scaled)
    return Filled(table, took, None, intervals)


def ends_of(holes: Holes, low: Any, high: Any) -> Ends:
    """Intervals of the hidden numbers, from tables of their ends."""
    return {
        name: (low[name].to_numpy(dtype=float)[rows], high[name].to_numpy(dtype=float)[rows])
        for name, (rows, _) in holes.cells.items()
        if name not in holes.levels
    }


def forests(holes: Holes) -> Filled:
    """Boosted trees of every column on all others, in turn; without mean matching."""
    miceforest = importlib.import_module("miceforest")
    table = holes.table.reset_index(drop=True)
    text = [name for name in table if is_text(table[name])]
    begun = time.process_time()
    table[text] = table[text].astype("category")
    kernel = miceforest.ImputationKernel(
        holes.rows(table).reset_index(drop=True),
        num_datasets=1,
        mean_match_candidates=0,
        # The trees of 200 columns take more than 20 GB.
        save_all_iterations_data=holes.taught is not None,
        random_state=0,
    )
    kernel.mice(5, num_threads=1)
    filled = kernel if holes.taught is None else kernel.impute_new_data(table)
    filled = filled.complete_data(0)
    filled[text] = filled[text].astype(object)
    return Filled(filled, time.process_time() - begun)


def mixture(holes: Holes) -> Filled:
    """One clustering of the rows for all columns, the number of classes by BIC."""
    stepmix = importlib.import_module("stepmix")
    describe = importlib.import_module("stepmix.utils").get_mixed_descriptor
    holes = holes.as_text()
    begun = time.process_time()
    numbers = _Numbers(holes)
    coded = numbers.coded()
    kinds = {"continuous_nan": list(numbers.mean.index), "categorical_nan": list(numbers.levels)}
    data, kind = describe(coded, **{name: some for name, some in kinds.items() if some})
    fits = []
    for n in range(1, MOST_CLASSES + 1):
        model = stepmix.StepMix(n, measurement=kind, n_init=2, random_state=0, progress_bar=0)
        fits.append(model.fit(holes.rows(data)))
    best = min(fits, key=lambda model: model.bic(holes.rows(data)))
    share = best.predict_proba(data)
    laws = best.get_mm_df().reset_index()
    filled, shares = holes.table.copy(), {}
    for name in filled:
        law = laws[laws["variable"].astype(str).str.fullmatch(rf"{name}(_\d+)?")]
        values = law[list(range(best.n_components))].to_numpy(dtype=float)
        shares[name] = (law["param"].to_numpy(), values)
        if name in numbers.levels:
            filled[name] = numbers.levels[name][(share @ values.T).argmax(axis=1)]
        else:
            mean = share @ values[law["param"].to_numpy() == "means"][0]
            filled[name] = mean * numbers.spread[name] + numbers.mean[name]
    took = time.process_time() - begun
    density = {}
    for name, (rows, true) in holes.cells.items():
        params, values = shares[name]
        if name in numbers.levels:
            place = np.searchsorted(numbers.levels[name], true)
            p = np.einsum("ck,ck->c", share[rows], values[place])
            density[name] = np.log(np.maximum(p, np.finfo(float).tiny))
            continue
        z = (true.astype(float) - numbers.mean[name]) / numbers.spread[name]
        mean, variance = values[params == "means"][0], values[params == "covariances"][0]
        log_p = -0.5 * ((z[:, None] - mean) ** 2 / variance + np.log(2 * np.pi * variance))
        density[name] = logsumexp(log_p, b=share[rows], axis=1) - np.log(numbers.spread[name])
    return Filled(filled, took, density)


def chains(holes: Holes, progress: Callable[[str], None] = lambda text: None) -> Filled:
    """Views of columns with categories of rows each, sampled until the chains settle."""
    holes = holes.as_text()
    begun = time.process_time()
    lace = _lace.Lace(holes.table)
    lace.settle(progress)
    filled, took = holes.table.copy(), time.process_time() - begun
    density = {}
    for name, (rows, true) in holes.cells.items():
        density[name] = lace.density(name, rows, true)
        begun = time.process_time()
        filled.loc[filled.index[rows], name] = lace.impute(name, rows)
        took += time.process_time() - begun
    return Filled(filled, took, density)


class Rival(NamedTuple):
    """How to run it, its module, what to install, and whether it can be fitted to some rows."""

    run: Callable[[Holes], Filled]
    module: str
    package: str
    splits: bool = True

    def fill(self, holes: Holes) -> Filled:
        """What it makes of the table."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what it warns of is its own affair
            return self.run(holes)


RIVALS = {
    "KNNImputer": Rival(neighbors, "sklearn", "scikit-learn"),
    "IterativeImputer": Rival(chained, "sklearn", "scikit-learn"),
    "gcimpute": Rival(copula, "gcimpute", "gcimpute"),
    "random forests": Rival(trees, "sklearn", "scikit-learn"),
    "miceforest": Rival(forests, "miceforest", "miceforest"),
    "StepMix": Rival(mixture, "stepmix", "stepmix"),
    "Lace": Rival(chains, "lace", "pylace", splits=False),
}
