"""Fitted models as ONNX files, for inference without Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from partwise.answers import factors as of_factors
from partwise.answers import states as of_states
from partwise.contracts import Array
from partwise.data import ColumnGroup
from partwise.files.atomic import write_atomically
from partwise.fitted import Fitted, FittedComponents
from partwise.likelihoods import law_state
from partwise.likelihoods.base import Average
from partwise.likelihoods.predictive import Predictive
from partwise.models import factors, predict, predict_factors
from partwise.models.bayesian_pca import BayesianPCAParams
from partwise.models.mcfa import MCFA
from partwise.models.mcvq import MCVQ, MCVQParams
from partwise.typing import PathLike

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from partwise.files.onnx_graph import Graph, Node

METHODS = ("transform", "impute", "score_samples")

# What makes the output of each method.
Makers: TypeAlias = "dict[str, Callable[[], Node]]"


def export_onnx(model: BaseEstimator, path: PathLike, *, methods: Sequence[str] = METHODS) -> None:
    """Write a fitted model as an ONNX file.

    The file has one input, ``X`` of shape (n, D), in which NaN is a missing value, and one output
    per method, with the method's name. It needs the extra ``onnx``; reading it needs only an ONNX
    runtime. `MCVQ` of matrices (gaussian, bernoulli, poisson, categorical), `MCFA` of numbers
    without classes, and `BayesianPCA` can be written; others are refused.

    Parameters
    ----------
    model : fitted MCVQ, MCFA or BayesianPCA
    path : str or path-like
    methods : sequence of {"transform", "impute", "score_samples"}
        Methods to write. ``score_samples`` is refused where it is an estimate by sampling: of an
        `MCFA` with columns that have several parts (gates below 1), and of such an `MCVQ` with more
        than 4096 combinations of states.

    Raises
    ------
    ValueError
        If the model or a method cannot be written; nothing is written then.

    Examples
    --------
    >>> import tempfile
    >>> from partwise import BayesianPCA, export_onnx
    >>> from sklearn.datasets import load_iris
    >>> model = BayesianPCA().fit(load_iris().data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export_onnx(model, f"{folder}/iris.onnx")
    """
    try:
        from partwise.files.onnx_graph import Graph
    except ImportError as error:
        raise ImportError(
            f"export_onnx needs {error.name}; install it with pip install 'partwise[onnx]'."
        ) from error
    unknown = [name for name in methods if name not in METHODS]
    if unknown or not methods:
        raise ValueError(f"methods={list(methods)!r} must be some of {', '.join(METHODS)}.")
    fitted: Fitted | None = getattr(model, "_fitted", None)
    if fitted is None:
        raise ValueError(f"This {type(model).__name__} is not fitted; fit it first.")
    if not isinstance(fitted, Fitted):
        raise _refused(type(model).__name__, "it blends several models; fit an MCVQ or MCFA")
    graph = Graph()
    X = graph.input("X")
    rows = graph.cast(X, np.dtype(float))
    made = _makers(type(model).__name__, fitted, graph, rows, "score_samples" in methods)
    types = {name: np.dtype(fitted.dtype) for name in METHODS} | {"score_samples": np.dtype(float)}
    widths = {"transform": _width(fitted), "impute": fitted.n_columns, "score_samples": None}
    written = graph.model(
        type(model).__name__,
        {"X": (np.dtype(fitted.dtype), fitted.n_columns)},
        {name: (made[name](), types[name], widths[name]) for name in methods},
    )
    write_atomically(path, written.SerializeToString())


def _refused(name: str, why: str) -> ValueError:
    return ValueError(f"This {name} cannot be written as ONNX: {why}.")


def _makers(name: str, fitted: Fitted, graph: Graph, rows: Node, scores: bool) -> Makers:
    """What makes the outputs; refuses models that have none."""
    if fitted.schema is not None:
        raise _refused(name, "it reads a table with kinds of columns; fit it to a numeric matrix")
    if isinstance(fitted, FittedComponents):
        if len(fitted.params) > 1 or len(fitted.params[0].counts) > 1:
            raise _refused(name, "mixtures are not supported; use BayesianPCA")
        return _components(fitted, graph, rows)
    if getattr(fitted.params, "chain", None) is not None:
        raise _refused(name, "its rows depend on each other; fit it with class_chain=False")
    if getattr(fitted.params, "links", None) is not None:
        raise _refused(name, "its parts have classes of groups; fit it with part_groups=None")
    if type(fitted.model) not in (MCVQ, MCFA):
        raise _refused(name, "its rows are inferred by iteration; fit an MCVQ or MCFA, or use save")
    sampled = _refused(
        name, "its score_samples is an estimate by sampling; pass methods=['transform', 'impute']"
    )
    if type(fitted.model) is MCFA:
        if fitted.classes is not None:
            raise _refused(name, "factors with classes are not supported; fit it without classes")
        if of_factors.has_levels(fitted):
            raise _refused(
                name, "ordered levels have no ONNX operators; fit it with likelihood='gaussian'"
            )
        if scores and np.any(fitted.params.gates.max(axis=0) < 1.0):
            raise sampled
        return _factors(fitted, graph, rows)
    if scores and predict.needs_draws(fitted.params.gates, of_states.core(fitted).first):
        raise sampled
    for group in fitted.columns:
        law = group.likelihood
        if law.latent or group.logged or not (law.family.powers or law.family.has_levels):
            raise _refused(
                name,
                f"likelihood={law_state(law)['law']!r} has no ONNX operators; use gaussian, "
                "bernoulli, poisson or categorical",
            )
    return _states(fitted, graph, rows)


def _width(fitted: Fitted) -> int:
    """Columns of `transform`."""
    if isinstance(fitted, FittedComponents):
        return int(fitted.params[0].mean.shape[2]) - 1
    if type(fitted.model) is MCFA:
        return of_factors.n_outputs(fitted)
    return of_states.n_outputs(fitted)


class _Group:
    """Values of the columns of a group, in model units."""

    def __init__(self, graph: Graph, rows: Node, group: ColumnGroup) -> None:
        self.graph, self.group = graph, group
        raw = graph.take(rows, group.index, 1)
        missing = graph.add("IsNaN", raw)
        self.seen = 1.0 - graph.cast(missing, np.dtype(float))  # (n, D)
        self.levels = group.known_levels
        value = raw if self.levels is not None else (raw - group.shift) / group.scale
        # Where a value is missing, one that every law takes.
        self.value = graph.add("Where", missing, 0.0, value)

    def one_hot(self) -> list[Node]:
        """Which entries are observed and have each level, (n, D)."""
        assert self.levels is not None
        same = [self.graph.add("Equal", self.value, float(level)) for level in self.levels]
        return [self.graph.cast(level, np.dtype(float)) * self.seen for level in same]

    def statistics(self, P: int) -> list[Node]:
        """T(x) of observed entries, (n, D) each."""
        if self.group.levels is not None:
            return self.one_hot()
        out = [self.seen]
        for _ in range(P - 1):
            out.append(out[-1] * self.value)
        return out

    def score(self, weights: Array) -> Node:
        """Sum over observed entries of T(x) . weights (P, S, D); (n, S)."""
        pairs = zip(self.statistics(len(weights)), weights, strict=True)
        return self.graph.total([T @ w.T for T, w in pairs])

    def log_densities(self, law: Predictive, states: Array, columns: Array) -> Node:
        """Log density of entries of some columns, 0 where missing; (n, states, columns)."""
        graph, at = self.graph, np.ix_(states, columns)
        if law.probability is not None:
            tables = [np.log(p[at]) for p in law.probability]
            shown = [graph.expanded(graph.take(T, columns, 1), 1) for T in self.one_hot()]
            return graph.total([T * table for T, table in zip(shown, tables, strict=True)])
        value, seen = (
            graph.expanded(graph.take(array, columns, 1), 1) for array in (self.value, self.seen)
        )
        return cast("Node", law.at(at).log_density(value.array)) * seen

    def base(self) -> Node:
        """Log base measure of the rows, (n,)."""
        if self.group.levels is not None:
            return self.graph.sum(0.0 * self.seen, 1)
        measure = self.group.likelihood.family.base(self.value.array) - self.group.log_scale
        return self.graph.sum(self.seen * measure, 1)

    def imputed(self, law: Predictive, average: Callable[[Array], Node]) -> Node:
        """Values to impute, (n, D)."""
        graph, family = self.graph, self.group.likelihood.family
        if law.probability is None:
            return cast("Node", self.group.likely(law, cast(Average, average)))
        shares = [average(p) for p in law.probability]
        if family.ordered:
            total = graph.total(shares)
            below, code = shares[0], None
            for share in shares[1:]:
                short = graph.cast(graph.add("Less", below, 0.5 * total), np.dtype(np.int64))
                code = short if code is None else code + short
                below = below + share
            assert code is not None
        else:
            stacked = graph.concatenated([graph.expanded(share, 0) for share in shares], 0)
            code = graph.add("ArgMax", stacked, axis=0, keepdims=0)
        assert self.levels is not None
        return graph.add("Gather", np.asarray(self.levels, float), code, axis=0)


def _in_order(graph: Graph, found: Sequence[Node], groups: Sequence[ColumnGroup]) -> Node:
    """Groups' columns (n, D_g) in the order of X."""
    if len(found) == 1:
        return found[0]
    index = np.concatenate([group.index for group in groups])
    return graph.take(graph.concatenated(found, 1), np.argsort(index), 1)


def _filled(graph: Graph, rows: Node, values: Node) -> Node:
    """Missing values of rows replaced."""
    return graph.add("Where", graph.add("IsNaN", rows), values, rows)


def _states(fitted: of_states.FittedStates, graph: Graph, rows: Node) -> Makers:
    """Outputs of an MCVQ."""
    core, params = of_states.core(fitted), fitted.params
    groups = [_Group(graph, rows, group) for group in fitted.columns]
    gates = params.gates[core.part_of]  # (S, D)
    laws, bounds = of_states.laws(fitted), list(pairwise(core.first))
    natural = zip(groups, fitted.prepared.natural, strict=True)
    score = graph.total([g.score(eta * gates[:, g.group.index]) for g, eta in natural])
    parts = [graph.take(score, np.arange(lo, hi), 1) for lo, hi in bounds]

    by_class, evidence = [], []
    for log_b, log_beta in zip(params.log_b, params.log_beta, strict=True):
        joint = [part + log_b[lo:hi] for part, (lo, hi) in zip(parts, bounds, strict=True)]
        by_class.append(
            graph.concatenated([graph.add("Softmax", part, axis=1) for part in joint], 1)
        )
        total = graph.total([graph.logsumexp(part, 1) for part in joint])
        evidence.append(graph.expanded(total + log_beta, 1))
    m = by_class[0]
    if len(by_class) > 1:
        z = graph.add("Softmax", graph.concatenated(evidence, 1), axis=1)
        m = graph.total([graph.take(z, np.array([n]), 1) * own for n, own in enumerate(by_class)])

    def impute() -> Node:
        found = []
        for group, law in zip(groups, laws, strict=True):
            own = gates[:, group.group.index]
            found.append(group.imputed(law, lambda values, own=own: m @ (own * values)))  # type: ignore[misc]
        return _filled(graph, rows, _in_order(graph, found, fitted.columns))

    def scores() -> Node:
        closed = params.gates.max(axis=0) >= 1.0
        part = np.where(closed, params.gates.argmax(axis=0), -1)
        own = [_part_density(graph, groups, laws, part, k, bounds[k]) for k in range(len(bounds))]
        prior = np.log(np.maximum(of_states.state_shares(fitted), 1e-300))
        shared = None if closed.all() else _shared_density(graph, groups, laws, part, core, params)
        by_class = []
        for log_prior, share in zip(prior, of_states.class_shares(fitted), strict=True):
            joint = [d + log_prior[lo:hi] for d, (lo, hi) in zip(own, bounds, strict=True)]
            if shared is None:
                value = graph.total([graph.logsumexp(part, 1) for part in joint])
            else:
                states = graph.concatenated(joint, 1)
                taken = graph.sum(graph.take(states, _combinations(core), 1), 2)
                value = graph.logsumexp(taken + shared, 1)
            by_class.append(graph.expanded(value + np.log(share), 1))
        total = graph.logsumexp(graph.concatenated(by_class, 1), 1)
        return graph.total([total, *(group.base() for group in groups)])

    outputs = np.arange(of_states.n_outputs(fitted))
    return {
        "transform": lambda: graph.take(m, outputs, 1),
        "impute": impute,
        "score_samples": scores,
    }


def _part_density(
    graph: Graph,
    groups: Sequence[_Group],
    laws: Sequence[Predictive],
    part: Array,
    k: int,
    span: tuple[int, int],
) -> Node:
    """Log density of the entries of part k's own columns in its states; (n, J_k)."""
    states = np.arange(*span)
    found = [graph.expanded(graph.sum(0.0 * groups[0].seen, 1), 1) * np.ones(len(states))]
    for group, law in zip(groups, laws, strict=True):
        mine = np.flatnonzero(part[group.group.index] == k)
        if len(mine):
            found.append(graph.sum(group.log_densities(law, states, mine), 2))
    return graph.total(found)


def _combinations(core: MCVQ) -> Array:
    """All combinations of the parts' states, (C, K)."""
    return np.indices(core.n_states).reshape(len(core.n_states), -1).T + core.first[:-1]


def _shared_density(
    graph: Graph,
    groups: Sequence[_Group],
    laws: Sequence[Predictive],
    part: Array,
    core: MCVQ,
    params: MCVQParams,
) -> Node:
    """Log density of entries that several parts may explain, for combinations of states; (n, C)."""
    log_gates = np.log(np.maximum(params.gates.astype(float), 1e-300))[core.part_of]
    found = []
    for group, law in zip(groups, laws, strict=True):
        mine = np.flatnonzero(part[group.group.index] < 0)
        if len(mine):
            density = group.log_densities(law, np.arange(core.first[-1]), mine)
            weighed = density + log_gates[:, group.group.index[mine]]
            mixed = graph.logsumexp(graph.take(weighed, _combinations(core), 1), 2)  # (n, C, D)
            seen = graph.expanded(graph.take(group.seen, mine, 1), 1)
            found.append(graph.sum(mixed * seen, 2))
    return graph.total(found)


def _posterior(graph: Graph, b: Node, pairs: Node, prior: Array, J: int) -> tuple[Node, Node]:
    """Mean (n, J) and log normalizer (n,) of factors.

    ``b`` (n, J) is linear evidence, ``pairs`` (n, Q) the packed precision that entries add to
    ``prior`` (J, J).
    """
    from partwise.files.onnx_graph import inverse

    i, j = factors.pair_index(J)
    place = np.empty((J, J), np.int64)
    place[i, j] = place[j, i] = np.arange(len(i))
    cov, log_det = inverse(graph, graph.take(pairs, place, 1) + prior, J)
    mean = graph.add("Squeeze", cov @ graph.expanded(b, 2), np.array([2]))
    return mean, 0.5 * (graph.sum(b * mean, 1) - log_det)


def _factors(fitted: of_factors.FittedFactors, graph: Graph, rows: Node) -> Makers:
    """Outputs of an MCFA without classes."""
    core, params, (column,) = of_factors.core(fitted), fitted.params, fitted.columns
    group, part_of = (
        _Group(graph, rows, column),
        np.repeat(np.arange(len(core.n_factors)), np.diff(core.first)),
    )

    def parts(natural: Array) -> tuple[list[Node], Node]:
        """Means of every part's factors, and the log normalizer of the rows."""
        score = group.score(natural * params.gates[part_of])
        means, total = [], graph.sum(0.0 * group.seen, 1)
        for k, (one, linear, quadratic) in enumerate(core.spans()):
            J, eta, sigma = core.n_factors[k], params.eta[k][0], params.sigma[k][0]
            total = total + graph.sum(graph.take(score, np.array([one]), 1), 1)
            if J == 0:
                continue
            i, j = factors.pair_index(J)
            at = [np.arange(span.start, span.stop) for span in (linear, quadratic)]
            prior = np.linalg.inv(sigma)
            pull = prior @ eta
            packed = graph.take(score, at[1], 1) * np.where(i == j, -2.0, -1.0)
            mean, log_z = _posterior(graph, graph.take(score, at[0], 1) + pull, packed, prior, J)
            means.append(mean)
            own = np.linalg.slogdet(sigma)[1] + eta @ pull
            total = total + (log_z - 0.5 * own)
        return means, total

    means = graph.concatenated(parts(fitted.prepared.natural[0])[0], 1)

    def impute() -> Node:
        W = np.concatenate(
            [g * w.mean[:, :-1].T for g, w in zip(params.gates, params.loadings, strict=True)]
        )
        rho = sum(g * w.mean[:, -1] for g, w in zip(params.gates, params.loadings, strict=True))
        return _filled(graph, rows, cast("Node", column.decode((means @ W + rho).array)))

    def scores() -> Node:
        closed = params.gates.argmax(axis=0)
        sure = predict_factors.point(core, params, closed, params.gates)
        return parts(sure.natural[0])[1] + group.base()

    return {"transform": lambda: means, "impute": impute, "score_samples": scores}


def _components(fitted: FittedComponents, graph: Graph, rows: Node) -> Makers:
    """Outputs of a BayesianPCA."""
    (params,), (column,), model = fitted.params, fitted.columns, fitted.model
    group, q = _Group(graph, rows, column), params.mean.shape[2] - 1
    i, j = factors.pair_index(q)

    def posterior(params: BayesianPCAParams, precision: Array) -> tuple[Node, Node]:
        """Positions of the rows, and their log normalizer; ``precision`` (D,) of the noise."""
        mean, wide = params.mean[0], precision * params.leverage
        cov = np.broadcast_to(params.cov[0], (len(mean), q + 1, q + 1)) * wide[:, None, None]
        second = precision[:, None, None] * mean[:, :, None] * mean[:, None, :] + cov
        constant = -second[:, :, q]
        constant[:, q] *= 0.5
        score = group.score(np.stack([constant.T, (mean * precision[:, None]).T]))
        b, one = graph.take(score, np.arange(q), 1), graph.take(score, np.array([q]), 1)
        x, log_z = _posterior(graph, b, group.seen @ second[:, i, j], np.eye(q), q)
        return x, log_z + graph.sum(one, 1)

    x, _ = posterior(params, np.full(len(column.index), params.precision))

    def impute() -> Node:
        mean = params.mean[0]
        return _filled(
            graph, rows, cast("Node", column.decode((x @ mean[:, :q].T + mean[:, q]).array))
        )

    def scores() -> Node:
        a, rate = params.tau
        noise = rate / max(a - 1.0, 0.5 * a)
        noise = noise + np.trace(params.cov, axis1=2, axis2=3)[0] * params.leverage
        sure = replace(params, cov=np.zeros_like(params.cov[:, :1]))
        _, log_z = posterior(sure, 1.0 / noise)
        squares = group.value * group.value * group.seen
        alone = group.seen @ (-0.5 * np.log(2 * np.pi * noise))[:, None]
        log_z = log_z + graph.sum(alone + squares @ (-0.5 / noise)[:, None], 1)
        if model.shares.concentration != 0.0:  # a component that no row has come from yet
            unseen = model.shares.mean(np.append(params.counts, 0.0))[-1]
            stray = graph.sum(-0.5 * squares - 0.5 * np.log(2 * np.pi) * group.seen, 1)
            both = [log_z + np.log1p(-unseen), stray + np.log(unseen)]
            log_z = graph.logsumexp(graph.concatenated([graph.expanded(v, 1) for v in both], 1), 1)
        return log_z + group.base()

    return {"transform": lambda: x, "impute": impute, "score_samples": scores}
