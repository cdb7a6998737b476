"""How a recommender uses a fitted model: tastes of people, and predictions for items.

The *features* (F, n) of people are what the model infers from their ratings: posteriors of states,
or moments of factors. Tables of items are computed once, so that one person costs a few products.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from itertools import pairwise
from typing import cast

import numpy as np
from scipy import sparse

from partwise.answers.factors import FittedFactors
from partwise.answers.rows import map_rows, source_of
from partwise.answers.states import FittedStates, laws, marginal
from partwise.contracts import Array, Span
from partwise.data import RowBlock
from partwise.fitted import AnyCore, AnyParts, core_of
from partwise.likelihoods.ordinal import FARTHEST
from partwise.models import factors, predict, predict_factors, questions, rated_set
from partwise.models import levels as scale
from partwise.models.mcfa import MCFA
from partwise.models.mcvq import MCVQ
from partwise.models.ordinal import Ordinal

# Largest size of a temporary array.
CHUNK = 1 << 22


def tastes_of(
    fitted: FittedStates | FittedFactors,
    levels: Array,
    popularity: Array,
    n_jobs: int | None,
    weights: Array | None = None,
) -> Tastes:
    """Tastes by the kind of model; ``popularity`` (D,) is each item's share of the ratings.

    ``weights`` (D, J of all parts) are what the set of rated items says about factors.
    """
    if isinstance(getattr(fitted.model, "core", fitted.model), MCVQ):
        return StateTastes(cast(FittedStates, fitted), levels, popularity, n_jobs)
    return FactorTastes(cast(FittedFactors, fitted), levels, popularity, n_jobs, weights)


class Tastes(ABC):
    """Tastes of people under one model: inference, ratings left out, parts."""

    fitted: FittedStates | FittedFactors
    core: MCVQ | MCFA
    # What the set of rated items says about factors, (D, J of all parts).
    weights: Array | None = None

    def __init__(self, levels: Array, popularity: Array, n_jobs: int | None) -> None:
        self.levels, self.popularity, self.n_jobs = levels, popularity, n_jobs
        (group,), gates = self.fitted.columns, self.fitted.params.gates
        assert self.fitted.n_parts is not None
        self.n_parts, self.parts = self.fitted.n_parts, gates.argmax(axis=0)
        self.own_parts = np.where(group.varies & (self.parts < self.n_parts), self.parts, -1)
        self.columns = [np.flatnonzero(self.parts == k) for k in range(len(gates))]
        known = levels if group.known_levels is None else group.known_levels
        # The model's levels on the scale, in the precision that it keeps them in.
        self.seen = np.searchsorted(levels.astype(known.dtype), known)
        # A level without ratings in fit is read as the nearest level that has some.
        self.nearest = known[np.abs(levels[:, None] - known).argmin(axis=1)]

    def on_known_levels(self, X: sparse.csr_matrix) -> sparse.csr_matrix:
        """Ratings (CSR) on the levels that the model knows."""
        if len(self.seen) == len(self.levels):
            return X
        values = self.nearest[np.searchsorted(self.levels.astype(X.dtype), X.data)]
        return sparse.csr_matrix((values, X.indices, X.indptr), shape=X.shape)

    def fold_in(self, X: sparse.csr_matrix) -> Array:
        """Features of people, (F, n), from their ratings (CSR)."""
        X = self.on_known_levels(X)
        fitted: AnyParts = self.fitted
        infer, prepared = fitted.model.infer, fitted.prepared

        def on_block(block: RowBlock) -> Array:
            found: Array = infer(prepared, block, *self._prior(block))[0]
            return found

        return np.concatenate(map_rows(fitted.columns, X, on_block, self.n_jobs), axis=1)

    def learn_weights(self, X: sparse.csr_matrix) -> Array:
        """What the set of rated items says about factors, (D, J of all parts), from ratings X."""
        return rated_set.learn_weights(X, self.core.row_features(self.fold_in(X)))

    def _prior(self, block: RowBlock) -> tuple[Array, ...]:
        """Means of factors given the sets of items, if there are: a further argument."""
        if self.weights is None:
            return ()
        (group,) = block.groups
        return (rated_set.prior_means(self.weights, *group.codes()[:2]),)

    def evidence(self, columns: Array, values: Array) -> Array:
        """Evidence of each of a person's ratings, (F, ratings)."""
        values = values.astype(self.fitted.dtype)
        where = np.zeros(len(columns), int), columns
        one = self.on_known_levels(sparse.csr_matrix((values, where), shape=(1, len(self.parts))))
        apart = sparse.csr_matrix(
            (one.data, one.indices, np.arange(len(columns) + 1)),
            shape=(len(columns), len(self.parts)),
        )
        block = source_of(self.fitted.columns, apart, max(len(columns), 1)).block(0)
        if isinstance(self.fitted.model, Ordinal):
            whole = source_of(self.fitted.columns, one).block(0)
            settled = self.fitted.model.settle(self.fitted.prepared, whole, *self._prior(whole))
            block = block.with_values(settled)
        core: AnyCore = self.core
        return core.evidence(self.fitted.prepared, block)

    def features_of(self, evidence: Array) -> Array:
        """Features (F, n) from summed evidence."""
        features = np.array(evidence)
        self._settle(features, np.ones(features.shape[1]))
        return features

    @abstractmethod
    def _settle(self, features: Array, weight: Array) -> None:
        """Turn evidence into features, in place."""

    def leave_out(self, columns: Array, values: Array) -> Array:
        """Features of the person, then without each of the ratings in turn, (F, 1 + ratings).

        That an item was rated stays known.
        """
        own = self.evidence(columns, values).astype(float)
        total = own.sum(axis=1, keepdims=True)
        if self.weights is not None:
            assert isinstance(self.core, MCFA)
            indptr = np.array([0, len(columns)])
            total[self.core.linear] += rated_set.prior_means(self.weights, indptr, columns)
        return self.features_of(np.hstack([total, total - own]))

    def keeps_apart(self, rated: Array) -> bool:
        """Whether ratings of these items are evidence about their own parts only."""
        # With classes, sets, or items of several parts, answers about one part inform the others.
        closed = self.fitted.params.gates[:, rated].max(axis=0, initial=0.0) >= 1.0
        alone = self.weights is None and self.core.classes.n_classes == 1
        return alone and bool(closed.all())

    def average_shares(self, features: Array) -> Array:
        """Probability of every level of the average item, by popularity, (n, L)."""
        step = max(CHUNK // (len(self.parts) * len(self.levels)), 1)
        pieces = (features[:, i : i + step] for i in range(0, features.shape[1], step))
        return np.concatenate([self.popularity @ self.shares(some) for some in pieces])

    @abstractmethod
    def shares(self, features: Array) -> Array:
        """Probability of every level of every item, (n, D, L)."""

    @abstractmethod
    def means(self, features: Array) -> Array:
        """Expected rating of every item, (n, D)."""

    @abstractmethod
    def cell_shares(self, features: Array, rows: Array, columns: Array) -> Array:
        """Probability of every level of chosen cells, (cells, L)."""

    @abstractmethod
    def best(self, features: Array, open_: Array) -> Array:
        """Best expectation among the ``open_`` (D,) items of each part, (K,), of one person."""

    @abstractmethod
    def gains(self, features: Array, rule: str, k: int, best: Array, open_: Array) -> Array:
        """Expected gain of asking one person about each item of part k.

        Only predictions of the ``open_`` (D,) items, those not rated, count.
        """

    @abstractmethod
    def similarity(self, item: int) -> Array:
        """Similarity of all items of its part to one item, (D,); -inf for items of other parts."""

    def _cosines(self, vectors: Array, item: int) -> Array:
        """Cosines of vectors (D, J) of items of the same part with that of one."""
        size = np.maximum(np.linalg.norm(vectors, axis=1), 1e-12)
        found = (vectors @ vectors[item]) / (size * size[item])
        return np.where(self.parts == self.parts[item], found, -np.inf)

    @abstractmethod
    def user_vectors(self, features: Array) -> Array:
        """Vectors of people, (n, V)."""

    @abstractmethod
    def item_vectors(self) -> Array:
        """Vectors of items, (D, V), whose products with those of people are expectations."""

    def all_gains(self, features: Array, rule: str, open_: Array) -> Array:
        """Expected gain of asking about every item, (D,)."""
        out = np.zeros(len(self.parts))
        best = self.best(features, open_) if rule == "value" else np.zeros(len(self.columns))
        for k, columns in enumerate(self.columns):
            if len(columns):
                out[columns] = self.gains(features, rule, k, best, open_)
        return out


class StateTastes(Tastes):
    """Tastes are states: every part of a person is in one of several states."""

    fitted: FittedStates
    core: MCVQ

    def __init__(
        self, fitted: FittedStates, levels: Array, popularity: Array, n_jobs: int | None
    ) -> None:
        self.fitted, self.core = fitted, core_of(fitted.model, MCVQ)
        super().__init__(levels, popularity, n_jobs)
        law, group = laws(self.fitted)[0], self.fitted.columns[0]
        S, D, L = len(self.core.part_of), len(self.parts), len(levels)
        if law.probability is not None:
            P = np.zeros((S, D, L))
            P[:, :, self.seen] = np.moveaxis(law.probability, 0, -1)
        else:
            cuts = (levels[1:] + levels[:-1]) / 2.0
            below = [law.cdf((cut - group.shift) / group.scale) for cut in cuts]
            P = np.diff(np.stack(below, axis=-1), prepend=0.0, append=1.0)
        self.P = P.astype(np.float32)
        gates = self.fitted.params.gates[self.core.part_of].astype(np.float32)
        self.table = (gates[:, :, None] * self.P).reshape(S, D * L)
        self.M = P @ levels  # (S, D)

    def _settle(self, features: Array, weight: Array) -> None:
        self.core.mix(features, self.core.weigh(self.fitted.params, features, None), weight)

    def span(self, k: int) -> Span:
        """Features of part k."""
        return slice(int(self.core.first[k]), int(self.core.first[k + 1]))

    def state_shares(self) -> Array:
        """Share of people in every state, (S,)."""
        return marginal(self.fitted)

    def user_vectors(self, features: Array) -> Array:
        """Posterior probability of every state, (n, S)."""
        return np.array(features.T)

    def item_vectors(self) -> Array:
        """Expected rating in every state times the gate of its part, (D, S)."""
        return np.asarray((self.fitted.params.gates[self.core.part_of] * self.M).T)

    @cached_property
    def _own(self) -> list[tuple[Array, Array, Array]]:
        """Of every part: P of its items, their entropies, and M."""
        out = []
        for (lo, hi), columns in zip(pairwise(self.core.first), self.columns, strict=True):
            P = self.P[lo:hi][:, columns]
            out.append((P, scale.entropy(P), self.M[lo:hi][:, columns]))
        return out

    def shares(self, features: Array) -> Array:
        """Probability of every level of every item, (n, D, L)."""
        out = features.T.astype(np.float32) @ self.table
        return out.reshape(features.shape[1], len(self.parts), len(self.levels))

    def means(self, features: Array) -> Array:
        """Expected rating of every item, (n, D)."""
        return features.T.astype(np.float32) @ self.item_vectors().T.astype(np.float32)

    def cell_shares(self, features: Array, rows: Array, columns: Array) -> Array:
        """Probability of every level of chosen cells, (cells, L)."""
        L = len(self.levels)
        table, m = self.table.reshape(len(self.P), -1, L), np.ascontiguousarray(features.T)
        return predict.mix_cells(
            m, table, self.fitted.params.gates, self.core.first, (rows, columns)
        )

    def best(self, features: Array, open_: Array) -> Array:
        """Best expected rating in each part, (K,), each item in its most probable part."""
        found = []
        for (lo, hi), columns in zip(pairwise(self.core.first), self.columns, strict=True):
            means = features[lo:hi, 0] @ self.M[lo:hi][:, columns[open_[columns]]]
            found.append(means.max(initial=-np.inf))
        return np.array(found)

    def gains(self, features: Array, rule: str, k: int, best: Array, open_: Array) -> Array:
        """Expected gain of asking about each item of part k."""
        columns = self.columns[k]
        m = features[self.span(k), 0].astype(float)
        P, entropies, M = self._own[k]
        if rule == "information":
            return questions.state_information(m, P, entropies)
        if rule == "error":
            second = (M * (self.popularity * open_)[columns]) @ M.T
            return questions.state_error(m, P, second)
        best_other = float(np.delete(best, k).max(initial=-np.inf))
        return questions.state_value(m, P, M[:, open_[columns]], best_other)

    def similarity(self, item: int) -> Array:
        """Correlation of expected ratings over the states of its part, (D,)."""
        own = self.span(self.parts[item])
        share, M = self.state_shares()[own], self.M[own]
        away = np.sqrt(share)[:, None] * (M - share @ M)
        return self._cosines(away.T, item)


class FactorTastes(Tastes):
    """Tastes are factors: every part of a person has several real values."""

    fitted: FittedFactors
    core: MCFA

    def __init__(
        self,
        fitted: FittedFactors,
        levels: Array,
        popularity: Array,
        n_jobs: int | None,
        weights: Array | None = None,
    ) -> None:
        self.fitted, self.core, self.weights = fitted, core_of(fitted.model, MCFA), weights
        super().__init__(levels, popularity, n_jobs)
        group, K = self.fitted.columns[0], len(self.columns)
        if isinstance(self.fitted.model, Ordinal):
            # Levels without ratings have an empty interval.
            seen = self.seen
            at = np.concatenate([np.searchsorted(seen, np.arange(len(levels))), [len(seen)]])
            self.ends = group.ends[:, at]
        else:
            cuts = (levels[1:] + levels[:-1]) / 2.0
            ends = np.concatenate([[-np.inf], cuts, [np.inf]])
            self.ends = (ends - group.shift[:, None]) / group.scale[:, None]
        self.ends = np.clip(self.ends, -1e3 * FARTHEST, 1e3 * FARTHEST)
        known = [predict_factors.coefficients(self.core, self.fitted.params, k) for k in range(K)]
        # In single precision: tables of all pairs of factors are read for every person.
        self.known = [(a.astype(np.float32), b.astype(np.float32)) for a, b in known]
        self.units = group.scale, group.shift

    def _settle(self, features: Array, weight: Array) -> None:
        self.core.mix(features, self.core.weigh(self.fitted.params, features, None), weight)

    def shares(self, features: Array) -> Array:
        """Probability of every level of every item, (n, D, L)."""
        moments = predict_factors.moments(self.core, self.known, features)
        return predict_factors.level_shares(*moments, self.fitted.params.gates, self.ends)

    def means(self, features: Array) -> Array:
        """Expected rating of every item, (n, D)."""
        moments = predict_factors.moments(self.core, self.known, features)
        gates, levels = self.fitted.params.gates, self.levels.astype(float)
        return predict_factors.level_means(*moments, gates, self.ends, levels)

    def cell_shares(self, features: Array, rows: Array, columns: Array) -> Array:
        """Probability of every level of chosen cells, (cells, L)."""
        where = rows, columns
        return predict_factors.cell_level_shares(
            self.core, self.fitted.params, features, *where, self.ends
        )

    def _part(self, features: Array, k: int) -> tuple[Array, Array, Array, Array]:
        """Covariance of part k's factors; loadings, noise and expectation of its items.

        In the units of the scale (of the latent number, for ordered levels).
        """
        _, linear, quadratic = self.core.spans()[k]
        m = features[linear, 0].astype(float)
        cov = factors.unpack(features[quadratic, 0].astype(float)[None], len(m))[0]
        w, columns = self.fitted.params.loadings[k].at(self.columns[k]), self.columns[k]
        unit, shift = self.units[0][columns], self.units[1][columns]
        expected = (w.mean[:, :-1] @ m + w.mean[:, -1]) * unit + shift
        loadings = w.mean[:, :-1] * unit[:, None]
        return cov - np.outer(m, m), loadings, w.noise * unit**2, expected

    def best(self, features: Array, open_: Array) -> Array:
        """Best expectation in each part, (K,)."""
        found = []
        for k, columns in enumerate(self.columns):
            expected = self._part(features, k)[3][open_[columns]]
            found.append(expected.max(initial=-np.inf))
        return np.array(found)

    def gains(self, features: Array, rule: str, k: int, best: Array, open_: Array) -> Array:
        """Expected gain of asking about each item of part k."""
        columns = self.columns[k]
        cov, w, noise, expected = self._part(features, k)
        if rule == "information":
            return questions.factor_information(cov, w, noise)
        if rule == "error":
            second = (w * (self.popularity * open_)[columns, None]).T @ w
            return questions.factor_error(cov, w, noise, second)
        best_other = float(np.delete(best, k).max(initial=-np.inf))
        wanted = open_[columns]
        return questions.factor_value(cov, w, noise, w[wanted], expected[wanted], best_other)

    def similarity(self, item: int) -> Array:
        """Cosine of the loadings, (D,), of items of the same part."""
        return self._cosines(self.fitted.params.loadings[self.parts[item]].mean[:, :-1], item)

    def user_vectors(self, features: Array) -> Array:
        """Posterior means of the factors, and 1, (n, V)."""
        own = [features[linear] for _, linear, _ in self.core.spans()]
        return np.concatenate([*own, np.ones((1, features.shape[1]))]).T

    def item_vectors(self) -> Array:
        """Loadings times the gate of their part, and the offset, in units of the scale, (D, V)."""
        unit, shift = self.units
        gates, loadings = self.fitted.params.gates, self.fitted.params.loadings
        own = [g[:, None] * w.mean[:, :-1] for g, w in zip(gates, loadings, strict=True)]
        offset = sum(g * w.mean[:, -1] for g, w in zip(gates, loadings, strict=True))
        return np.column_stack([*(w * unit[:, None] for w in own), offset * unit + shift])
