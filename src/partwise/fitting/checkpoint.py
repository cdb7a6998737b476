"""Checkpoints: a fit that was killed resumes from the last one and gives the same result.

A `FitLog` follows one fit. Everything random follows from the generator that the fit began with,
which is kept; of what has been done since, the results that cannot be had again for little are
kept: the start's first parameters, the place of the EM iterations (`partwise.engine.Place`), and
the best of the starts before. Without a checkpoint the same log keeps nothing.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

import numpy as np

from partwise.contracts import AnyParams, Array
from partwise.data.rows import RowSource, map_rows
from partwise.engine import Monitor, Place
from partwise.files.checkpoints import load_checkpoint, save_checkpoint, temporary_name
from partwise.files.model import ModelFileError, short
from partwise.sampling.randomness import as_generator, freeze, thaw
from partwise.typing import Matrix, PathLike, SavedState, Seed

# Checked rows: dense with NaN for missing values, CSR, or outside of memory.
Rows: TypeAlias = "Matrix | RowSource"
# Arguments, shape and checksum of a fit.
Description: TypeAlias = dict[str, object]
# Moves of a search for sizes, each by its fields.
SizePath: TypeAlias = list[dict[str, object]]

# Arguments that change how long a fit takes and what it says, but not where it goes.
_IDLE = ("max_time", "n_jobs", "verbose")

# Writing may take this share of the time: a checkpoint is put off where it takes longer.
MOST_WRITING = 0.1

_Made = TypeVar("_Made")
_Stage = TypeVar("_Stage")


@dataclass(frozen=True)
class Checkpoint:
    """Where a fit keeps what it needs to go on after it was killed, and how often.

    Parameters
    ----------
    path : str or path-like
        A file, which is complete at any moment and is removed when the fit ends.
    every : float, default=30.0
        Seconds between two checkpoints. An EM iteration is never interrupted, and writing takes at
        most a tenth of the time, so it may be longer.

    Examples
    --------
    >>> import os, tempfile
    >>> from partwise import MCVQ, Checkpoint, make_shapes
    >>> path = os.path.join(tempfile.mkdtemp(), "shapes.checkpoint")
    >>> model = MCVQ(3, 9, random_state=0)
    >>> model = model.fit(make_shapes().data, checkpoint=Checkpoint(path, every=60))
    >>> os.path.exists(path)
    False
    """

    path: PathLike
    every: float = 30.0

    def __post_init__(self) -> None:
        if not self.every >= 0:
            raise ValueError(f"every={self.every!r} must be a number of seconds, 0 or more.")


class SearchMemo(Protocol):
    """Keeps states of a search by name, so that another process may go on from them."""

    def latest(self, name: str, rng: np.random.Generator) -> SavedState | None:
        """What was last kept under a name; ``rng`` goes on from there."""
        ...

    def keep(self, name: str, rng: np.random.Generator, state: SavedState) -> None:
        """Keep a state under a name."""
        ...


class FitLog:
    """What a fit has done so far; in a file too, if there is a checkpoint.

    Parameters
    ----------
    seed : int, Generator, RandomState or None
        What the fit's generator is made of.
    checkpoint : None, path or Checkpoint
    arguments : dict
        What another fit would have to share, by name.
    rows : ndarray, CSR or RowSource
        Rows of the fit, of which a checksum is kept. Needed with a checkpoint.
    *arrays : ndarray or None
        Values of the rows, such as weights and labels, which the checksum includes.
    """

    def __init__(
        self,
        seed: Seed,
        checkpoint: PathLike | Checkpoint | None = None,
        arguments: Mapping[str, object] | None = None,
        rows: Rows | None = None,
        *arrays: Array | None,
    ) -> None:
        if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
            checkpoint = Checkpoint(checkpoint)
        self._checkpoint: Checkpoint | None = checkpoint
        self._state: SavedState = {
            "made": {},
            "search": {},
            "start": 0,
            "stage": 0,
            "place": None,
            "told": [],
        }
        self._seed = seed
        if checkpoint is None:
            return
        assert rows is not None
        self._key = digest(rows, *arrays)
        self._of = _described(arguments or {}, rows.shape, self._key)
        if os.path.exists(checkpoint.path):
            of, opened = load_checkpoint(checkpoint.path)
            _refuse_other(checkpoint.path, of, self._of)
            self._state = opened(self._key)
        else:  # what cannot be written is known before the work
            self._save(self._state)
        self._due = time.monotonic() + checkpoint.every

    def _save(self, state: SavedState) -> None:
        assert self._checkpoint is not None
        save_checkpoint(self._checkpoint.path, self._of, state, self._key)

    def generator(self) -> np.random.Generator:
        """The generator that the fit begins with."""
        if "rng" in self._state:
            return thaw(self._state["rng"])
        rng = as_generator(self._seed)
        if self._checkpoint is not None:
            self._state["rng"] = freeze(rng)
        return rng

    def once(self, name: str, rng: np.random.Generator, make: Callable[[], _Made]) -> _Made:
        """What ``make()`` gives, made once in all: ``rng`` goes on as if it had been made now."""
        if self._checkpoint is None:
            return make()
        made = self._state["made"]
        if name in made:
            value, rng.bit_generator.state = made[name]
            return value
        value = make()
        made[name] = (value, rng.bit_generator.state)
        self._state["search"] = {}
        return value

    # --- searches ---

    def latest(self, name: str, rng: np.random.Generator) -> SavedState | None:
        """What was last kept under a name; ``rng`` goes on from there."""
        if name not in self._state["search"]:
            return None
        state, rng.bit_generator.state = self._state["search"][name]
        return dict(state)

    def keep(self, name: str, rng: np.random.Generator, state: SavedState) -> None:
        """Keep a state of a search under a name; write it if it is time."""
        if self._checkpoint is not None:
            self._state["search"][name] = (state, rng.bit_generator.state)
            self._write_if_due(self._state)

    # --- starts and stages ---

    def starts(
        self, children: list[np.random.Generator]
    ) -> Iterator[tuple[int, np.random.Generator]]:
        """Starts that are not done, each with its generator."""
        for i in range(self._state["start"], len(children)):
            if i > self._state["start"]:
                self._state["made"].pop("start", None)
                self._state |= {"start": i, "stage": 0, "place": None, "search": {}}
            self._child = children[i]
            yield i, children[i]

    def stages(self, stages: Sequence[_Stage]) -> Iterator[tuple[_Stage, bool]]:
        """Stages of the start that are not done, each with whether it has begun already."""
        place = self._state["place"]
        if place is not None:
            self._child.bit_generator.state = self._state["child"]
        for j in range(self._state["stage"], len(stages)):
            if j > self._state["stage"]:
                self._state |= {"stage": j, "place": None}
            yield stages[j], self._state["place"] is not None

    @property
    def place(self) -> Place | None:
        """Where the EM iterations of the stage are; None before the first."""
        return self._state["place"]

    def note(self, place: Place) -> None:
        """Keep a place; write it if it is time."""
        if self._checkpoint is None:
            return
        self._state |= {"place": place, "child": self._child.bit_generator.state}
        if time.monotonic() >= self._due:
            here = place.with_memory(_here(place.memory), _here(place.remembered))
            self._write_if_due(self._state | {"place": here})

    def _write_if_due(self, state: SavedState) -> None:
        """Write a state if it is time, and put off the next time."""
        assert self._checkpoint is not None
        begun = time.monotonic()
        if begun >= self._due:
            self._save(state)
            ended = time.monotonic()
            pause = max(self._checkpoint.every, (ended - begun) * (1.0 / MOST_WRITING - 1.0))
            self._due = ended + pause

    def best(self, fresh: Callable[[], Monitor]) -> tuple[AnyParams, Monitor] | None:
        """Parameters and monitor of the best start before, if there was one."""
        kept = self._state.get("best")
        if kept is None:
            return None
        theta, fields, _ = kept
        monitor = fresh()
        for name, value in fields.items():
            setattr(monitor, name, value)
        return theta, monitor

    def note_best(self, theta: AnyParams, monitor: Monitor) -> None:
        """Keep the best start so far: the present one."""
        names = ("trace", "converged", "out_of_time", "interrupted")
        fields = {name: getattr(monitor, name) for name in names}
        self._state["best"] = theta, fields, self._state["start"]

    def note_path(self, start: int, path: SizePath) -> None:
        """Keep the size search of a start."""
        self._state["told"][start:] = [path]

    @property
    def best_path(self) -> SizePath:
        """The size search of the best start."""
        path: SizePath = self._state["told"][self._state["best"][2]]
        return path

    def finish(self) -> None:
        """Remove the file: the fit has ended."""
        if self._checkpoint is not None:
            for path in (self._checkpoint.path, temporary_name(self._checkpoint.path)):
                if os.path.exists(path):
                    os.remove(path)


def _here(memory: tuple[object, ...]) -> tuple[object, ...]:
    """What rows remember, brought here if it lies on the workers of a cluster."""
    return tuple(one.result() if hasattr(one, "result") else one for one in memory)


def _described(arguments: Mapping[str, object], shape: tuple[int, ...], key: str) -> Description:
    """What a fit that resumes must share with the one that was killed; the key stays secret."""
    streams = (np.random.Generator, np.random.RandomState)
    described = {
        name: (value.tolist() if isinstance(value, np.ndarray) else value)
        for name, value in arguments.items()
        if name not in _IDLE and not isinstance(value, streams)
    }
    data = hashlib.sha256(key.encode()).hexdigest()
    return {**described, "shape": list(shape), "data": data}


def _refuse_other(path: PathLike, kept: Description, now: Description) -> None:
    """Refuse a file of another fit."""
    for name in kept | now:
        before, after = kept.get(name), now.get(name)
        try:
            same = before == after
        except ValueError:  # of lists with arrays, which only a damaged file has
            same = False
        if not (isinstance(same, bool | np.bool_) and same):  # an array is the same as nothing
            said = f"{short(name, 40)}={short(repr(before), 80)}, not {short(repr(after), 80)}"
            what = said if name != "data" else "other data"
            raise ModelFileError(
                f"'{path}' is the checkpoint of another fit ({what}); repeat that fit, delete the "
                "file to begin again, or name another one."
            )


def digest(X: Rows, *arrays: Array | None) -> str:
    """SHA-256 of rows, in memory or not, and of arrays with a value for each."""
    total = hashlib.sha256(str([one is None for one in arrays]).encode())
    for piece in map_rows(X, _digest_rows, *(one for one in arrays if one is not None)):
        total.update(piece)
    return total.hexdigest()


def _digest_rows(rows: Matrix, *values: Array) -> bytes:
    own = [rows] if isinstance(rows, np.ndarray) else [rows.indptr, rows.indices, rows.data]
    total = hashlib.sha256(str(rows.dtype).encode())
    for array in (*own, *values):
        total.update(np.ascontiguousarray(array).data)
    return total.digest()
