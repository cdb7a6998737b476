"""Models of a canvas, of which rows show a part each: what `partwise.models.moving` asks of them.

Under a transformation a row is a row of the canvas, so `MCVQ` and `MCFA` serve as they are, but for
two things. Sums of moved rows are added where their columns stand. And what is the same for rows in
place, and therefore left out, differs between transformations: for factors the coefficient of the
feature 1, and the columns' sums of 1, x and x^2, which follow from the transformations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Protocol, Self, TypeAlias

import numpy as np

from partwise.contracts import AnyParams, AnyView, Array, Block, Layout, Packed, Stats
from partwise.models.factor_rows import MCFAParams, MCFAPrepared
from partwise.models.gated import GatedCore
from partwise.models.mcfa import MCFA
from partwise.models.mcvq import MCVQ, MCVQPrepared
from partwise.models.weights import weighted

# Posteriors of rows' classes and states or factors, as the canvas finds and uses them.
Weighed: TypeAlias = AnyParams


class Moved(Block[AnyView], Protocol):
    """Rows under a transformation."""

    def add_sums(self, m: Array, layouts: Sequence[Layout], onto: Sequence[Packed]) -> None:
        """Add what `collect` gives to sums ``onto``."""
        ...

    def weighing(self, weight: Array) -> Self:
        """The same rows with other weights."""
        ...


class Canvas(GatedCore[AnyParams, AnyParams], Protocol):
    """A model of a canvas: `MCVQ` or `MCFA`, and what moved rows need besides."""

    def in_place(self) -> AnyParams:
        """The model for rows in place."""
        ...

    def no_sums(self, layouts: Sequence[Layout]) -> tuple[Packed, ...]:
        """Sums of no rows."""
        ...

    def add_sums(
        self, prepared: AnyParams, rows: Moved, m: Array, weight: Array, onto: Sequence[Packed]
    ) -> None:
        """Add sums of rows with posteriors m to ``onto``."""
        ...

    def weigh(self, params: AnyParams, score: Array, labels: Array | None) -> Weighed:
        """Posterior of the rows' classes, from what entries say."""
        ...

    def mix(self, m: Array, found: Weighed, weight: Array) -> Array:
        """Turn what entries say into posteriors; their sums in each class."""
        ...

    def class_sums(self, m: Array, found: Weighed, weight: Array) -> Array:
        """Sums of posteriors in each class."""
        ...

    def row_features(self, m: Array) -> Array:
        """What tells rows apart, for clustering."""
        ...

    def open_all_gates(self, prepared: AnyParams) -> AnyParams:
        """All parts of all columns looked at in the next sweep."""
        ...

    def learn_states(self, params: AnyParams, counts: Array) -> AnyParams:
        """Priors of states and classes."""
        ...

    def choice_cost(self, params: AnyParams) -> float:
        """Cost of the priors of states and classes."""
        ...

    def without_classes(self) -> Self:
        """The same model with one class."""
        ...


@dataclass(frozen=True, eq=False)
class StateCanvas(MCVQ):
    """An MCVQ of a canvas."""

    @classmethod
    def of(cls, core: MCVQ) -> StateCanvas:
        """The same as a model of a canvas."""
        return cls(*(getattr(core, field.name) for field in fields(core)))

    def in_place(self) -> MCVQ:
        """The model for rows in place."""
        return MCVQ(*(getattr(self, field.name) for field in fields(self)))

    def no_sums(self, layouts: Sequence[Layout]) -> tuple[Packed, ...]:
        """Sums of no rows."""
        return (layouts[0].no_sums(self.priors[0].likelihood.n_statistics),)

    def add_sums(
        self, prepared: MCVQPrepared, rows: Moved, m: Array, weight: Array, onto: Sequence[Packed]
    ) -> None:
        """Add sums of rows with posteriors m (S, n) to ``onto``."""
        rows.add_sums(weighted(m, weight), prepared.layouts, onto)


@dataclass(frozen=True, eq=False)
class FactorCanvas(MCFA):
    """An MCFA of a canvas; the columns' sums are the last of the sums over rows."""

    @classmethod
    def of(cls, core: MCFA) -> FactorCanvas:
        """The same as a model of a canvas."""
        return cls(*(getattr(core, field.name) for field in fields(core)))

    def in_place(self) -> MCFA:
        """The model for rows in place."""
        return MCFA(*(getattr(self, field.name) for field in fields(self)))

    def evidence(self, prepared: MCFAPrepared, block: Block[AnyView]) -> Array:
        """Coefficients of the features, (F, n), that of 1 included."""
        out = super().evidence(prepared, block)
        out[self.first[:-1]] = prepared.evidence_of_one(block)
        return out

    def no_sums(self, layouts: Sequence[Layout]) -> tuple[Packed, ...]:
        """Sums of no rows."""
        totals = Packed(np.zeros((3, 1, 0)), np.zeros((3, 1, self.n_columns)))
        return (layouts[0].no_sums(3), layouts[1].no_sums(1), totals)

    def add_sums(
        self, prepared: MCFAPrepared, rows: Moved, m: Array, weight: Array, onto: Sequence[Packed]
    ) -> None:
        """Add sums of rows with features m (F, n) to ``onto``."""
        rows = rows.weighing(weight)
        *pairs, totals = onto
        for total, found in zip(pairs, self.collect(prepared, rows, m), strict=True):
            total.own[:] += found.own
            total.shared[:] += found.shared
        totals.shared[:, 0] += rows.groups[0].totals(weight)

    def maximize(self, prepared: MCFAPrepared, stats: Stats) -> MCFAPrepared:
        """The M-step, with the columns' sums among those of the rows."""
        core, stats = self._settled(stats)
        return core.maximize(prepared, stats)

    def learn_columns(self, prepared: MCFAPrepared, stats: Stats) -> MCFAParams:
        """Loadings, then gates."""
        core, stats = self._settled(stats)
        return core.learn_columns(prepared, stats)

    def _settled(self, stats: Stats) -> tuple[MCFA, Stats]:
        """The model for rows in place with the columns' sums, and the other sums."""
        *sums, totals = stats.sums
        return replace(self.in_place(), totals=totals.shared[:, 0]), replace(
            stats, sums=tuple(sums)
        )

    def bound(self, prepared: MCFAPrepared, stats: Stats) -> float:
        """Lower bound; what the columns' sums add is with the rows."""
        cost = self.chooser.cost(prepared.params.gate, prepared.divergence)
        return stats.bound - cost - self.choice_cost(prepared.params)

    def in_units(self, params: MCFAParams, offset: Array, scale: Array) -> MCFAParams:
        """Parameters of columns in other units: x becomes offset + scale x, both (D,)."""
        loadings = []
        for w in params.loadings:
            mean = w.mean * scale[:, None]
            mean[:, -1] += offset
            loadings.append(replace(w, mean=mean, rate=w.rate * scale**2))
        return replace(params, loadings=tuple(loadings))
