"""The parameters of a fitted model inside the page: plain values, and arrays as text.

The page runs inference itself. For every part it has the columns whose gate is open, with the
parameters of their distribution in every state (or their loadings), in model units. Columns come in
blocks of one likelihood each, so that a table may mix several.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import singledispatch
from typing import NotRequired, TypedDict

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator

from partwise.answers import factors as factors_of
from partwise.answers import states as states_of
from partwise.answers.preferences import FactorTastes, StateTastes, Tastes
from partwise.answers.recommend import COVERAGE
from partwise.data import ColumnGroup
from partwise.estimators.mcfa import MCFA
from partwise.estimators.mcvq import MCVQ
from partwise.estimators.recommender import Recommender
from partwise.fitted import AnyParts, feature_names, fitted_of
from partwise.likelihoods.predictive import Predictive
from partwise.models import factors, predict_factors
from partwise.models.gating import Tied
from partwise.models.rowwise import Rowwise
from partwise.report.content import Packed
from partwise.typing import DataLike

# A gate below this changes no number that the page shows.
_MIN_GATE = 1e-9


# Columns of one likelihood: arrays, and plain values of their distribution.
Block = dict[str, object]


class EmbeddedPart(TypedDict):
    """States or factors of a part."""

    size: int
    blocks: list[Block]
    logPrior: NotRequired[Packed]
    logShare: NotRequired[Packed]
    logMarginal: NotRequired[Packed]
    eta: NotRequired[Packed]
    sigma: NotRequired[Packed]
    share: NotRequired[Packed]


class EmbeddedModel(TypedDict):
    """A model of parts."""

    type: str
    logBeta: list[float]
    logClassShare: list[float]
    nParts: int | None
    exact: bool
    byRow: bool
    isTable: bool
    parts: list[EmbeddedPart]


def pack(values: ArrayLike, kind: str = "f4") -> Packed:
    """Pack an array; of a matrix whose rows are constant, one column."""
    array = np.ascontiguousarray(values, dtype=f"<{kind}")
    if array.ndim == 2 and array.shape[1] > 1 and np.all(array == array[:, :1]):
        array = np.ascontiguousarray(array[:, :1])
    data = base64.b64encode(array.tobytes()).decode("ascii")
    return {"kind": kind, "shape": list(array.shape), "data": data}


def packed_size(content: object) -> int:
    """Count the characters of all arrays inside plain values."""
    if isinstance(content, dict):
        if set(content) == {"kind", "shape", "data"}:
            return len(content["data"])
        content = list(content.values())
    return sum(map(packed_size, content)) if isinstance(content, list) else 0


def pack_rows(rows: DataLike, as_zero: bool, kind: str) -> dict[str, object]:
    """Pack rows, sparse ones by their entries; absent entries are 0 or missing."""
    if not sparse.issparse(rows):
        return {"cells": pack(np.asarray(rows, dtype=float), kind)}
    entries = sparse.csr_array(rows)
    return {
        "starts": pack(entries.indptr, "i4"),
        "columns": pack(entries.indices, "i4"),
        "values": pack(entries.data, kind),
        "absent": 0 if as_zero else None,
    }


@singledispatch
def embed(model: object, only: np.ndarray | None = None) -> Mapping[str, object] | None:
    """The parameters of a model for the page; None if the page cannot run it.

    Parameters
    ----------
    model : estimator
        Fitted.
    only : ndarray of int or None
        Ascending numbers of the columns that the page contains; None means all.

    Returns
    -------
    content : dict or None
    """
    return None


@embed.register
def embed_model(model: MCVQ, only: np.ndarray | None = None) -> EmbeddedModel | None:
    """The same of an MCVQ; the page knows no classes of groups of parts."""
    return embed_states(model, only) if fitted_of(model).params.links is None else None


def embed_states(model: MCVQ, only: np.ndarray | None = None) -> EmbeddedModel:
    """The parameters of a model whose parts have states."""
    fitted = fitted_of(model)
    core, theta, laws = states_of.core(fitted), fitted.params, states_of.laws(fitted)
    every = fitted.prepared.natural
    log_share = np.log(np.maximum(states_of.state_shares(fitted), 1e-300))
    log_marginal = states_of.log_marginal(fitted)
    parts: list[EmbeddedPart] = []
    for k in range(len(core.n_states)):
        states = slice(int(core.first[k]), int(core.first[k + 1]))
        blocks = []
        for g, group in enumerate(fitted.columns):
            block, live = _columns(theta.gates, k, group, only)
            natural = every[g][:, states][:, :, live]
            law = laws[g].at(np.ix_(np.arange(states.start, states.stop), live))
            blocks.append(block | _law(law, natural, group))
        parts.append(
            {
                "size": core.n_states[k],
                "logPrior": pack(theta.log_b[:, states], "f8"),
                "logShare": pack(log_share[:, states], "f8"),
                "logMarginal": pack(log_marginal[states], "f8"),
                "blocks": blocks,
            }
        )
    return _whole(fitted, "states", states_of.class_shares(fitted), parts)


@embed.register
def embed_factors(model: MCFA, only: np.ndarray | None = None) -> EmbeddedModel:
    """The parameters of a model whose parts have factors."""
    fitted = fitted_of(model)
    core, theta = factors_of.core(fitted), fitted.params
    (group,) = fitted.columns
    hard = predict_factors.hardened(theta)
    sure = predict_factors.point(core, theta, core.all_undecided, hard.gates).params.loadings
    parts: list[EmbeddedPart] = []
    for k, w in enumerate(theta.loadings):
        block, live = _columns(theta.gates, k, group, only)
        own = w.at(live)
        block |= {
            "law": "ordinal" if group.likelihood.latent else "numbers",
            "mean": pack(own.mean.T),  # the loadings, then the offset
            "cov": pack(factors.pack(own.cov).T),
            "precision": pack(own.precision),
            "noise": pack(own.noise),
            "sure": pack(sure[k].noise[live]),
        }
        if group.likelihood.latent:
            block["ends"] = pack(group.ends[live], "f8")
        parts.append(
            {
                "size": core.n_factors[k],
                "eta": pack(theta.eta[k], "f8"),
                "sigma": pack(theta.sigma[k].reshape(len(theta.eta[k]), -1), "f8"),
                "blocks": [block],
            }
        )
    # Tied gates assign a column to its most likely part. Ordered levels need sampling.
    tied = isinstance(core.chooser.gating, Tied) and not group.likelihood.latent
    return _whole(fitted, "factors", factors_of.class_shares(fitted), parts, exact=tied)


@embed.register
def embed_recommender(model: Recommender, only: np.ndarray | None = None) -> Mapping[str, object]:
    """The models of a recommender."""
    n = len(model.items_)
    kept = np.arange(n) if only is None else only
    fitted = fitted_of(model)
    members = zip(model.estimators_, fitted.tastes, strict=True)
    return {
        "type": "ratings",
        "levels": [float(level) for level in model.levels_],
        "coverage": COVERAGE,
        "counts": pack(fitted.counts[kept], "f8"),
        "popularity": pack(fitted.tastes[0].popularity[kept], "f8"),
        "members": [_taste(*one, kept) for one in members],
    }


def _whole(
    fitted: AnyParts,
    kind: str,
    shares: np.ndarray,
    parts: list[EmbeddedPart],
    exact: bool = False,
) -> EmbeddedModel:
    """A model of these parts; ``exact`` means that every column has one part."""
    used = np.concatenate([group.index for group in fitted.columns])
    closed = np.all(fitted.params.gates[:, used].max(axis=0) >= 1.0)
    return {
        "type": kind,
        "logBeta": [float(value) for value in fitted.params.log_beta],
        "logClassShare": [float(value) for value in np.log(shares)],
        "nParts": fitted.n_parts,  # a background may follow
        "exact": exact or bool(closed),
        "byRow": isinstance(fitted.model, Rowwise),
        "isTable": fitted.schema is not None,
        "parts": parts,
    }


def _columns(
    gates: np.ndarray, k: int, group: ColumnGroup, only: np.ndarray | None
) -> tuple[Block, np.ndarray]:
    """The columns of a group whose gate to part k is open, and their places in the group."""
    gate = gates[k, group.index]
    wanted = gate > _MIN_GATE
    place = group.index
    if only is not None:
        wanted &= np.isin(group.index, only)
        place = np.searchsorted(only, group.index)
    live: np.ndarray = np.flatnonzero(wanted)
    levels = group.known_levels
    block: Block = {
        "columns": pack(place[live], "i4"),
        "gate": pack(gate[None, live]),
        "own": pack((gates[:, group.index[live]].argmax(axis=0) == k)[None], "u1"),
        "varies": pack(group.varies[None, live], "u1"),
        "shift": pack(group.shift[None, live], "f8"),
        "scale": pack(group.scale[None, live], "f8"),
        "levels": None if levels is None else [float(level) for level in levels],
        "ordered": group.likelihood.ordered,
        "logged": group.logged,
    }
    return block, live


def _law(law: Predictive, natural: np.ndarray, group: ColumnGroup) -> Block:
    """Expected and predictive log densities of an entry in every state; (J, n) each."""
    content = group.likelihood.family.page(law, natural)
    return {
        name: pack(value) if isinstance(value, np.ndarray) else value
        for name, value in content.items()
    }


def _taste(model: MCVQ | MCFA, taste: Tastes, kept: np.ndarray) -> Mapping[str, object]:
    """One model of a recommender, and how it reads and predicts ratings."""
    inner = embed_states(model, kept) if isinstance(model, MCVQ) else embed_factors(model, kept)
    away = np.ones(len(taste.parts), bool)
    away[kept] = False
    rest = []
    for k, columns in enumerate(taste.columns):
        unknown = columns[away[columns]]
        if isinstance(taste, StateTastes):
            own = taste.M[taste.core.first[k] : taste.core.first[k + 1]][:, unknown]
        else:
            assert isinstance(taste, FactorTastes)
            unit = taste.units[0][unknown]
            own = (taste.fitted.params.loadings[k].mean[unknown, :-1] * unit[:, None]).T
        # Contribution of items outside the page to the squared error of predictions.
        rest.append(pack((own * taste.popularity[unknown]) @ own.T, "f8"))
    for k, part in enumerate(inner["parts"]):
        (block,) = part["blocks"]
        live = kept[_numbers(block["columns"])]
        if isinstance(taste, StateTastes):
            states = slice(int(taste.core.first[k]), int(taste.core.first[k + 1]))
            P = taste.P[states][:, live]
            block["answers"] = pack(P.reshape(len(P), -1))
            part["share"] = pack(taste.state_shares()[states], "f8")
        elif isinstance(taste, FactorTastes):
            block["answerEnds"] = pack(taste.ends[live], "f8")
    # A rating that did not occur in fit is replaced by the nearest that did.
    heard = [float(value) for value in taste.nearest]
    sets = None
    if taste.weights is not None:
        ends = np.cumsum(taste.core.sizes)[:-1]
        sets = [pack(own.T, "f8") for own in np.split(taste.weights[kept], ends, axis=1)]
    return {"model": inner, "heard": heard, "rest": rest, "sets": sets}


def _numbers(packed: object) -> np.ndarray:
    """Read whole numbers that `pack` wrote."""
    assert isinstance(packed, dict)
    return np.frombuffer(base64.b64decode(packed["data"]), dtype="<i4")


def names_of(model: BaseEstimator) -> list[str]:
    """Names of a model's columns, or of a recommender's items."""
    if isinstance(model, Recommender):
        return [str(item) for item in model.items_]
    return feature_names(model, model.n_features_in_)
