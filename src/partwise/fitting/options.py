"""Options of a fit of gated parts; estimators make them from their arguments."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from numbers import Integral
from typing import TypeAlias

import numpy as np

from partwise.contracts import Array
from partwise.data.columns import Kind
from partwise.data.table import Schema
from partwise.engine import Monitor
from partwise.fitting.checkpoint import Rows
from partwise.likelihoods import LAWS, Prior
from partwise.models.transformations import Transformations
from partwise.typing import Seed

# A size as users give it: one number, "auto" where it is sought, or a number per part.
Size: TypeAlias = int | str | Sequence[int] | Array


@dataclass(frozen=True)
class AscentOptions:
    """How the bound is maximized, and from how many starts; ``name`` is for the progress bar."""

    name: str
    n_init: int = 1
    max_iter: int = 200
    tol: float = 1e-3
    max_time: float | None = None
    n_jobs: int | None = None
    verbose: bool = False

    def deadline(self) -> float:
        """Value of ``time.monotonic()`` at which ``max_time``, beginning now, is over."""
        return float("inf") if self.max_time is None else time.monotonic() + self.max_time


# Fewest rows of the sample on which sizes are selected.
SAMPLE_ROWS = 2_000


@dataclass(frozen=True)
class SizeOptions:
    """How sizes are selected where they are "auto".

    Parameters
    ----------
    sample : int or None, default=1_000_000
        Sizes are selected on a random sample of rows with this many cells (stored entries, if X is
        sparse), but of at least 2,000 rows; then all rows are fitted with these sizes. None uses
        all rows, which finds more states where rows are many, and takes longer.
    max_states : int or None, default=None
        Largest number of states of a part (of factors, for `MCFA`). None is 64, or less where
        columns are many.

    Examples
    --------
    >>> from partwise import MCVQ, SizeOptions, make_shapes
    >>> model = MCVQ("auto", "auto", sizes=SizeOptions(max_states=5), random_state=0)
    >>> int(model.fit(make_shapes().data[::3]).n_states_.max())
    5
    """

    sample: int | None = 1_000_000
    max_states: int | None = None

    def __post_init__(self) -> None:
        for name in ("sample", "max_states"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, Integral) and int(value) >= 1):
                raise ValueError(
                    f"SizeOptions({name}={value!r}): must be a whole number of at least 1, or None."
                )

    def sample_rows(self, n_rows: int, n_cells: int) -> int:
        """Rows on which sizes are selected, of so many with so many cells in all."""
        if self.sample is None or n_cells <= self.sample:
            return n_rows
        return min(max(n_rows * self.sample // n_cells, SAMPLE_ROWS), n_rows)


@dataclass(frozen=True)
class Annealing:
    """How the temperature of ``gating="annealed"`` falls to 1, one EM iteration per temperature.

    Parameters
    ----------
    n_steps : int, default=40
        Number of EM iterations at temperatures above 1.
    schedule : {"geometric", "linear"}, default="geometric"
        Whether the temperature falls by a constant factor, or by a constant difference as in the
        papers. A constant factor spends most iterations where gates begin to close.
    start : float or None, default=None
        First temperature. None is the mean number of observations per column, at which a column
        weighs its evidence per observation, as ``gating="standard"`` does.

    Examples
    --------
    >>> from partwise import MCVQ, Annealing, make_shapes
    >>> Annealing(4, schedule="linear", start=5).temperatures(100.0)
    array([5., 4., 3., 2.])
    >>> model = MCVQ(3, 9, gating=Annealing(60, schedule="linear"), random_state=0)
    >>> model.fit(make_shapes().data).gates_.shape
    (121, 3)
    """

    n_steps: int = 40
    schedule: str = "geometric"
    start: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.n_steps, Integral) or self.n_steps < 1:
            raise ValueError(
                f"Annealing(n_steps={self.n_steps!r}): must be a whole number of at least 1."
            )
        if self.schedule not in ("geometric", "linear"):
            raise ValueError(
                f'Annealing(schedule={self.schedule!r}): must be "geometric" or "linear".'
            )
        if self.start is not None and not 1.0 <= self.start < float("inf"):
            raise ValueError(f"Annealing(start={self.start!r}): must be at least 1, or None.")

    def temperatures(self, usual: float) -> Array:
        """Temperatures above 1, falling, (n_steps,); ``usual`` is the first where none is given."""
        space = np.geomspace if self.schedule == "geometric" else np.linspace
        hottest = usual if self.start is None else float(self.start)
        return space(hottest, 1.0, int(self.n_steps), endpoint=False)


@dataclass(frozen=True)
class PartsOptions:
    """Arguments of a model of gated parts, checked one by one.

    ``likelihood`` is that of all columns or the kind of each, ``prior`` None for maximum
    likelihood, ``absent_zero`` whether entries that a sparse matrix does not store are zeros.
    ``arguments`` are those of the estimator and its name, which a checkpoint is compared with, and
    ``calibrated`` whether intervals are; ``usual_prior`` whether the prior is the default;
    ``sizes`` how sizes are selected; ``transformations`` what rows may have undergone;
    ``annealing`` how the temperature falls, None as usual; ``class_chain`` whether classes of rows
    follow each other; ``part_groups`` how many groups of parts have classes of their own, or which
    parts are of each, and ``n_group_classes`` how many, None for as many as rows; ``quick_start``
    whether a rough start suffices.
    """

    n_parts: int | str
    size: Size
    likelihood: str | Sequence[Kind]
    gating: str
    inference: str
    n_classes: int | str | None
    prior: Prior | None
    gate_entropy: float
    absent_zero: bool
    init: str
    random_state: Seed
    ascent: AscentOptions
    arguments: dict[str, object]
    calibrated: bool = True
    usual_prior: bool = False
    sizes: SizeOptions = SizeOptions()
    transformations: Transformations | None = None
    annealing: Annealing | None = None
    class_chain: bool = False
    part_groups: int | Sequence[int] | None = None
    n_group_classes: int | None = None
    quick_start: bool = False

    @property
    def is_sought(self) -> bool:
        """Whether some size is selected by the ELBO."""
        return isinstance(self.n_parts, str) or isinstance(self.size, str)

    @property
    def likelihood_name(self) -> str:
        """The likelihood as the user gives it."""
        return self.likelihood if isinstance(self.likelihood, str) else "auto"

    @property
    def has_latent(self) -> bool:
        """Whether entries stand for latent numbers, of which rows keep posteriors."""
        name = self.likelihood
        return isinstance(name, str) and name in LAWS and LAWS[name].latent

    @property
    def is_tied(self) -> bool:
        """Whether a column chooses one part for all rows."""
        return self.gating in ("annealed", "tied")

    @property
    def wants_background(self) -> bool:
        """Whether there is a background part for columns that no other part explains.

        Its ELBO can win only where parameters have a prior and a column chooses once.
        """
        return self.is_tied and self.inference == "variational" and self.prior is not None

    @property
    def selects_by_row(self) -> bool:
        """Whether every row selects parts for its own entries."""
        sampled = self.inference == "gibbs" and not self.samples_columns
        return sampled or self.gating == "factorised"

    @property
    def samples_columns(self) -> bool:
        """Whether the part of every column is sampled, one for all rows."""
        return self.inference == "gibbs" and self.gating == "tied"


def refuse_others(asked: str, off: str, options: PartsOptions, has_latent: bool) -> None:
    """Refuse what an option ``asked`` for, which is turned ``off``, is not available with."""
    refused = {
        'inference="gibbs"': options.inference == "gibbs",
        'gating="factorised"': options.gating == "factorised",
        "transformations": options.transformations is not None,
        f'likelihood="{options.likelihood_name}" of MCFA': has_latent,
    }
    for what, is_so in refused.items():
        if is_so:
            raise ValueError(f"{asked} does not support {what}; set {off}.")


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Checked rows that have weight, with their names and schema.

    ``kept`` (C,) marks them among the rows that were given; ``names`` (D,) are those of the
    columns, if they have some, and ``schema`` describes the columns of a table. Rows in sequence
    have ``bounds``: sequence q has the rows bounds[q] to bounds[q + 1].
    """

    X: Rows
    weight: Array
    kept: Array
    names: Array | None = None
    schema: Schema | None = None
    bounds: Array | None = None


@dataclass(frozen=True)
class Listener:
    """Callbacks of a fit.

    ``on_step(n_iter, bound)`` is called with every bound, and stops the fit if it returns true, as
    ``halted()`` does. ``on_end(monitor)`` is called with the monitor of the start that is kept.
    """

    on_step: Callable[[int, float], bool]
    halted: Callable[[], bool]
    on_end: Callable[[Monitor], None]


# Begins to listen to an ascent on these rows, for as long as it lasts.
Listen: TypeAlias = Callable[[Rows], AbstractContextManager[Listener]]


@dataclass(frozen=True)
class SearchLimits:
    """Sizes that a search keeps or may not exceed, None where there is no such limit.

    A trial has settled when its bound rises by less than ``tol`` per row.
    """

    n_parts: int | None
    size: int | None
    max_size: int | None
    tol: float

    @classmethod
    def of(cls, options: PartsOptions) -> SearchLimits:
        """The limits of a fit."""
        n_parts, size = (
            None if isinstance(asked, str) else int(np.max(asked))
            for asked in (options.n_parts, options.size)
        )
        return cls(n_parts, size, options.sizes.max_states, options.ascent.tol)
