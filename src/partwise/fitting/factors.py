"""Parts with factors: what a fit needs to know of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

import numpy as np

from partwise.contracts import Array, DType, Runner
from partwise.data import BlockSource, ColumnGroup, RowBlock, RowSource, learn_columns
from partwise.data.latent_columns import CopulaColumns, learn_latents
from partwise.fitted import FittedParts, core_of, fields_of
from partwise.fitting.checkpoint import SearchMemo
from partwise.fitting.factor_search import FactorSearch
from partwise.fitting.family import Family, Starts
from partwise.fitting.options import SearchLimits, TrainingRows
from partwise.likelihoods import Prior, law_state
from partwise.models import predict_factors
from partwise.models.class_variable import ClassVariable
from partwise.models.gated import ColumnModel, GatedCore, GatedModel
from partwise.models.gating import Gates
from partwise.models.loadings import Loadings, PointLoadings, Relevant
from partwise.models.mcfa import MCFA, MCFAParams, MCFAPrepared, column_totals
from partwise.models.ordinal import Ordinal
from partwise.starts.factors import (
    LEAST_NOISE,
    covariance_loadings,
    dependence_loadings,
    random_loadings,
)
from partwise.typing import SavedState

FactorCore: TypeAlias = GatedCore[MCFAParams, MCFAPrepared]
FactorModel: TypeAlias = GatedModel[MCFAParams, MCFAPrepared]
FittedFactors: TypeAlias = FittedParts[MCFAParams, MCFAPrepared]


# Pseudo-rows behind a given noise, so many that data hardly change it.
GIVEN_ROWS = 1e6

# Prior noise of the latent numbers of levels, of their variance 1, and its weight in rows.
LEVEL_NOISE, LEVEL_ROWS = 0.5, 10.0

# Most cells of a table that its start looks at.
START_CELLS = 4_000_000


@dataclass(frozen=True)
class Factors(Family[MCFAParams, MCFAPrepared]):
    """Parts of an MCFA."""

    size_name = "n_factors"
    background = 0  # a part without factors
    probe = 12
    starts: ClassVar[Starts] = {
        "dependence": dependence_loadings,
        "covariance": covariance_loadings,
        "random": random_loadings,
    }
    sums_without_prior = False

    @property
    def n_powers(self) -> int:
        """Squares of entries are needed only where rows select parts for themselves."""
        return 3 if self.options.selects_by_row else 2

    def check_sizes(self, sizes: tuple[int, ...], n_rows: int, n_columns: int) -> None:
        """Refuse more factors than columns."""
        if max(sizes) > n_columns:
            raise ValueError(
                f"n_factors={max(sizes)} is more than n_features={n_columns} of X; lower n_factors."
            )

    def core(
        self,
        columns: tuple[ColumnGroup, ...],
        n_columns: int,
        dtype: DType,
        sizes: tuple[int, ...],
        classes: ClassVariable,
        totals: Array | None,
    ) -> MCFA:
        """The model for some columns."""
        prior, how, group = self.options.prior, None, columns[0]
        assert totals is not None
        if isinstance(group, CopulaColumns):
            how = _prior_of_latents(group, prior)
        elif prior is not None:
            # Two levels do not identify the unit of the latent number, so its noise is given.
            levels = group.levels
            shape = prior.shape if levels is None or len(levels) > 2 else GIVEN_ROWS
            how = Relevant(prior.entries, prior.spread, shape)
        strength = prior.states if prior else 0.0
        chooser = self.chooser(columns, n_columns)
        return MCFA(sizes, how or PointLoadings(), chooser, classes, strength, totals, dtype)

    def core_in(self, model: FactorModel) -> MCFA:
        """The core of a model; a core is its own core."""
        return core_of(model, MCFA)

    def modeled(
        self, core: FactorCore, columns: tuple[ColumnGroup, ...]
    ) -> ColumnModel[MCFAParams, MCFAPrepared]:
        """The core, or latent numbers of ordered levels around it."""
        group = columns[0]
        if not group.likelihood.latent:
            return core
        return Ordinal(self.core_in(core), group.ends, group.latent_widths)

    def with_core(self, model: FactorModel, core: FactorCore) -> FactorModel:
        """The model around another core."""
        if isinstance(model, Ordinal):
            return replace(model, core=self.core_in(core))
        return super().with_core(model, core)

    def on_canvas(
        self, rows: TrainingRows, columns: tuple[ColumnGroup, ...]
    ) -> tuple[ColumnGroup, ...]:
        """Columns of a table become latent numbers."""
        if isinstance(self.options.likelihood, str):
            return columns
        for group in columns:
            if group.known_levels is None and not group.likelihood.linear:
                kind = law_state(group.likelihood)["law"]
                raise ValueError(
                    f"MCFA has no latent numbers of {kind} columns; choose another kind for them, "
                    'such as "gaussian" or "ignored".'
                )
        return (learn_latents(rows.X, rows.weight, columns),)

    @property
    def has_latent(self) -> bool:
        """Levels have latent numbers, and so have all columns of a table."""
        return self.options.likelihood_name == "auto" or super().has_latent

    def n_modeled(self, columns: tuple[ColumnGroup, ...], n_columns: int) -> int:
        """Latent numbers of a table, else the columns."""
        return len(columns[0].index)

    def start(
        self, core: FactorCore, source: BlockSource, background: bool, rng: np.random.Generator
    ) -> MCFAParams:
        """First parameters; of a table from a sample of its rows as numbers."""
        source = _scored(source, rng)
        if self.options.init != "covariance":
            return super().start(core, source, background, rng)
        loadings, gates = covariance_loadings(source, core.sizes, background, rng)
        return self.core_in(core).start(loadings, gates, LEAST_NOISE)

    def totals(self, source: BlockSource) -> Array:
        """Sums of the columns, which no sweep changes."""
        return column_totals(source)

    def search(
        self,
        core: FactorCore,
        source: BlockSource,
        runner: Runner,
        rng: np.random.Generator,
        late: Callable[[], bool],
        memo: SearchMemo,
    ) -> tuple[MCFAParams, list[dict[str, object]]]:
        """Parameters of the sizes that the ELBO selects, and the moves of the search."""
        if isinstance(source.X, RowSource):
            raise ValueError(
                'n_parts="auto" and n_factors="auto" look at columns by themselves, which rows '
                "outside of memory do not allow; give SizeOptions(sample=...) a number of cells."
            )

        def make(
            some: BlockSource, sizes: tuple[int, ...]
        ) -> tuple[MCFA, ColumnModel[MCFAParams, MCFAPrepared]]:
            (group,), dtype = some.columns, source.X.dtype
            own = self.core(
                (group,), core.n_columns, dtype, sizes, ClassVariable(), self.totals(some)
            )
            chooser = replace(own.chooser, weight=group.weight)  # of these columns alone
            own = replace(own, chooser=chooser)
            return own, self.modeled(own, some.columns)

        source = _scored(source, rng)
        search = FactorSearch(make, source, runner, rng, late, SearchLimits.of(self.options))
        n_factors, first, gates = search.run()
        return replace(self.core_in(core), n_factors=n_factors).start(first, gates), search.path

    def sizes_in(self, params: MCFAParams) -> tuple[int, ...]:
        """Numbers of factors."""
        return tuple(w.mean.shape[1] - 1 for w in params.loadings)

    def below(
        self,
        model: FactorModel,
        prepared: MCFAPrepared,
        block: RowBlock,
        g: int,
        rows: Array,
        columns: Array,
        values: Array,
    ) -> Array:
        """Probability that a cell is below a value, in model units."""
        params, features = prepared.params, model.infer(prepared, block)[0]
        return predict_factors.probability_below(
            self.core_in(model), params, features, rows, columns, values
        )

    def saved(self, fitted: FittedFactors) -> dict[str, object]:
        """Loadings, priors of the factors, sums of the columns, and the table's schema."""
        params, schema = fitted.params, fitted.schema
        names = ("relevance", "class_counts", "log_beta", "eta", "sigma")
        return {
            "loadings": [fields_of(w) for w in params.loadings],
            "theta": {name: getattr(params, name) for name in names},
            "totals": self.core_in(fitted.model).totals,
            **({} if schema is None else {"schema": schema.state()}),
        }

    def restored(self, core: FactorCore, state: SavedState, gate: Gates) -> MCFAParams:
        """Parameters from a file."""
        loadings = tuple(Loadings(**w) for w in state["loadings"])
        return MCFAParams(loadings=loadings, gate=gate, **state["theta"])

    def n_saved(self, state: SavedState) -> int:
        """Number of classes."""
        return len(state["theta"]["class_counts"])


def _prior_of_latents(group: CopulaColumns, prior: Prior | None) -> Relevant:
    """The prior of latent numbers: that of numbers as given, that of levels their own.

    Two levels, or categories, do not identify the unit of latent numbers: their noise is given.
    """
    if prior is None:
        raise ValueError(
            'likelihood="auto" needs a prior: without one the noise of latent numbers has no limit.'
        )
    number, ordered = group.widths == 0, (group.widths == 1) & (group.n_levels > 2)
    spread = np.where(number, prior.spread, LEVEL_NOISE)
    shape = np.where(number, prior.shape, np.where(ordered, LEVEL_ROWS, GIVEN_ROWS))
    return Relevant(prior.entries, spread, shape)


def _scored(source: BlockSource, rng: np.random.Generator) -> BlockSource:
    """Rows of a table as numbers, some where they are very many; other rows as they are."""
    (group,) = source.columns
    if not isinstance(group, CopulaColumns):
        return source
    some = source.sample(START_CELLS, rng)
    scores = group.scored(np.asarray(some.X))
    columns = learn_columns(scores, "gaussian", some.weight, False, None)
    return BlockSource(scores, columns, some.weight, n_powers=source.n_powers)
