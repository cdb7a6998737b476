"""Evaluation of a fitted model on new rows, block by block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from partwise.contracts import Array
from partwise.data import BlockSource, ColumnGroup, RowBlock, by_column
from partwise.data.cells import cells_of_block, check_cells
from partwise.fitted import AnyFitted, AnyParts, Fitted
from partwise.models.rowwise import HasGate
from partwise.runners import runner_of
from partwise.sampling.importance import RowLikelihood
from partwise.typing import Matrix, Value

Answer = TypeVar("Answer")

# Samples per row if class probabilities need importance sampling.
CLASS_DRAWS = 200


Columns: TypeAlias = tuple[ColumnGroup, ...]


def source_of(
    columns: Columns, X: Matrix, max_rows: int | None = None, told: Array | None = None
) -> BlockSource:
    """Checked rows in blocks, of ``max_rows`` at most; ``told`` as in `Fitted`."""
    weight = np.ones(X.shape[0])
    return BlockSource(X, columns, weight, labels=told, keep=False, max_rows=max_rows)


def map_rows(
    columns: Columns,
    X: Matrix,
    on_block: Callable[[RowBlock], Answer],
    n_jobs: int | None = None,
    max_rows: int | None = None,
    told: Array | None = None,
) -> list[Answer]:
    """``on_block`` of every block of checked rows, in order; ``told`` as in `Fitted`."""
    source = source_of(columns, X, max_rows, told)
    with runner_of(n_jobs, source) as runner:
        return list(runner.map(on_block, source))


def likelihood_of_rows(
    columns: Columns,
    X: Matrix,
    on_block: Callable[[RowBlock], RowLikelihood],
    n_jobs: int | None = None,
    max_rows: int | None = None,
) -> RowLikelihood:
    """Likelihoods of the rows of all blocks under every class."""
    fields = zip(*map_rows(columns, X, on_block, n_jobs, max_rows), strict=True)
    return RowLikelihood(*(np.concatenate(field, axis=1) for field in fields))


def class_probability(found: RowLikelihood, log_prior: Array) -> Array:
    """Probability of every class (n, N), from their likelihoods and log priors (N,) or (n, N)."""
    return special.softmax(found.log_likelihood.T + log_prior, axis=1)


def class_prior(fitted: AnyParts, shares: Array) -> Array:
    """Logs of the classes' shares (N,), or of what the rows' neighbors say of them, (n, N)."""
    return np.log(shares) if fitted.told is None else fitted.told + fitted.params.log_beta


def score_cells(
    columns: Columns,
    X: Matrix,
    cells: tuple[ArrayLike, ArrayLike, ArrayLike],
    densities: Callable[[RowBlock, int, Array, Array, Array], Array],
    n_jobs: int | None = None,
    told: Array | None = None,
) -> Array:
    """Log predictive density of cells (rows, columns, values), in the units of X.

    ``densities(block, group, rows, columns of the group, values)`` has it in model units.
    """
    found = check_cells(X.shape, *cells)
    order = np.argsort(found[0], kind="stable")
    row, column, value = (field[order] for field in found)
    source, out = source_of(columns, X, told=told), np.empty(len(row))

    def on_block(block: RowBlock, i: int) -> None:
        places = cells_of_block(columns, source.bounds[i], row, column, value)
        for g, which, r, d, coded in places:
            density = densities(block, g, r, d, coded)
            out[order[which]] = density + columns[g].base(coded, d)

    with runner_of(n_jobs, source) as runner:
        list(runner.map(on_block, source, range(source.n_blocks)))
    return out


def in_columns(fitted: AnyFitted, values: Sequence[Array], other: float = 0.0) -> Array:
    """Values (..., D_g) of the column groups in their columns' places, (..., D)."""
    n_columns = max(fitted.n_columns, len(fitted.columns[0].index))
    return by_column(fitted.columns, values, n_columns, other)


def parts_of(fitted: Fitted[object, HasGate, object]) -> Array:
    """Most probable part of each column, -1 for background and for columns that never change."""
    chosen = fitted.params.gates.argmax(axis=0)
    varies = in_columns(fitted, [group.varies for group in fitted.columns])
    return np.where(varies & (chosen < fitted.n_parts), chosen, -1)


def telling(
    fitted: AnyFitted,
    row: Matrix,
    columns: Array,
    expected: Array,
    evidence: Array,
    n_columns: int,
    given: Mapping[str, Value] | None = None,
) -> list[dict[str, object]]:
    """The columns of a row (1, D) with the most evidence for its state or factors.

    ``given`` are values as the user gave them, which decoded numbers may differ from in the last
    digit.
    """
    values = row.toarray()[0] if hasattr(row, "toarray") else row[0]
    out: list[dict[str, object]] = []
    for i in np.argsort(-evidence, kind="stable")[:n_columns]:
        d = int(columns[i])
        value: object = float(values[d])
        usual: object = float(expected[i])
        if fitted.schema is not None:
            column = fitted.schema.columns[d]
            value, usual = column.value(values[d]), column.value(expected[i], predicted=True)
        name = fitted.column_name(d)
        value = (given or {}).get(name, value)
        told = {"column": name, "value": value, "expected": usual}
        out.append({**told, "evidence": float(evidence[i])})
    return out


def draw_parts(gates: Array, n_samples: int, rng: np.random.Generator) -> Array:
    """Part that each entry of new rows selects, (n, D), by the columns' gates (K, D)."""
    above = np.cumsum(gates, axis=0)
    u = rng.random((n_samples, above.shape[1])) * above[-1]
    return np.minimum((above[:, None, :] <= u).sum(axis=0), len(above) - 1)
