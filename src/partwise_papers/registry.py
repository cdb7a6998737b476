"""Named runs that say what they measured: experiments and benchmarks.

A module in a registry's package registers functions; it is enough that its file is there. Modules
are imported when the registry is first asked for something.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]

# One line of a table: names to text or numbers. Several numbers are those of as many seeds, splits
# or folds.
Row: TypeAlias = dict[str, Any]

# Which way a measure is good; "same" where the paper's own number is the aim.
Better: TypeAlias = Literal["higher", "lower", "same"]

_T = TypeVar("_T")


@dataclass
class Setting:
    """How a run is to be done, and where it says how far it is: call it with a sentence.

    Parameters
    ----------
    report : callable, default=ignore what is said
        Told of progress, a sentence at a time.
    fast : bool, default=False
        Whether fewer seeds, rows or sweeps will do.
    folder : path or None, default=None
        Where pictures go; None means that none are made.
    resume : path or None, default=None
        Folder of single measurements, for runs that keep them there and go on from them.
    minutes : float or None, default=None
        After so many minutes such runs measure no more, and report what the folder has.

    Attributes
    ----------
    pictures : list of dict
        For every picture its ``file`` (a name within the folder), ``caption``, and whether it
        is ``free``: whether it may be shown where the data may not.

    Examples
    --------
    >>> from partwise_papers.registry import Setting
    >>> setting = Setting(print, fast=True)
    >>> setting("seed 0")
    seed 0
    >>> setting.choose(fast=2, full=10)
    2
    """

    report: Callable[[str], None] = lambda text: None
    fast: bool = False
    folder: Path | None = None
    resume: Path | None = None
    minutes: float | None = None
    pictures: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, text: str) -> None:
        """Say how far the run is."""
        self.report(text)

    def choose(self, fast: _T, full: _T) -> _T:
        """Give the first if the run is to be fast, else the second."""
        return fast if self.fast else full

    def seeds(self, fast: int, full: int, what: str = "") -> Iterator[int]:
        """Give so many seeds, and say of each when it begins, after the name of what is run."""
        for seed in range(self.choose(fast, full)):
            self(f"{what}, seed {seed}" if what else f"seed {seed}")
            yield seed

    def draw(self, name: str, plot: Callable[[], Any], caption: str, *, free: bool = False) -> None:
        """Make a picture, if pictures are wanted.

        Parameters
        ----------
        name : str
            Name of its file, without ending.
        plot : callable
            Gives a display. Not called if no pictures are wanted.
        caption : str
            What is seen.
        free : bool, default=False
            Whether it may be passed on: nothing in it looks like a row of data that may not.
        """
        if self.folder is None:
            return
        from partwise.plot import save_picture

        self.folder.mkdir(parents=True, exist_ok=True)
        save_picture(plot(), self.folder / f"{name}.png")
        self.pictures.append({"file": f"{name}.png", "caption": caption, "free": free})


# Called with a setting. One that only wants to report progress may take it for a function.
Run: TypeAlias = Callable[[Any], list[Row]]

_AnyRun = TypeVar("_AnyRun", bound=Run)


# Whether a claim holds, and what shows it.
Finding: TypeAlias = tuple[bool, str]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a paper says without giving a number.

    Parameters
    ----------
    says : str
        The claim, one sentence.
    test : callable or None, default=None
        Tells from the rows of a run, means in place of several numbers, whether the claim holds and
        what shows it. None if no run here can tell.
    untested : str, default=""
        Why no run here can tell.
    on_stand_in : bool, default=False
        Whether a stand-in for the paper's data can tell, being of the kind that it describes.
    """

    says: str
    test: Callable[[Sequence[Row]], Finding] | None = None
    untested: str = ""
    on_stand_in: bool = False

    def __post_init__(self) -> None:
        """A claim is tested, or says why not."""
        if (self.test is None) != bool(self.untested):
            raise ValueError(f"{self.says!r} needs either a test or the reason why there is none.")


def ordered(
    measure: str, *labels: str, key: Sequence[str] = ("model",)
) -> Callable[[Sequence[Row]], Finding]:
    """Test that a measure rises from each of the named rows to the next.

    Examples
    --------
    >>> from partwise_papers.registry import ordered
    >>> ordered("error", "a", "b")([{"model": "b", "error": 0.2}, {"model": "a", "error": 0.3}])
    (False, 'error: a 0.3, b 0.2')
    """

    def test(rows: Sequence[Row]) -> Finding:
        found = {label_of(row, key): row[measure] for row in rows if row.get(measure) is not None}
        values = [found[label] for label in labels]
        told = ", ".join(
            f"{label} {value:.4g}" for label, value in zip(labels, values, strict=True)
        )
        return values == sorted(set(values)), f"{measure}: {told}"

    return test


def best(
    measure: str,
    label: str,
    *others: str,
    pick: Callable[..., str] = max,
    key: Sequence[str] = ("model",),
) -> Callable[[Sequence[Row]], Finding]:
    """Test that a row has the highest of a measure, or with ``pick=min`` the lowest.

    It is compared with the rows of ``others``, or with all that have the measure.

    Examples
    --------
    >>> from partwise_papers.registry import best
    >>> rows = [{"model": "b", "error": 0.2}, {"model": "a", "error": 0.3}]
    >>> best("error", "a", pick=min)(rows)
    (False, 'error: a 0.3, best of the others b 0.2')
    """

    def test(rows: Sequence[Row]) -> Finding:
        found = {label_of(row, key): row[measure] for row in rows if row.get(measure) is not None}
        names = others or [name for name in found if name != label]
        other = pick(names, key=found.__getitem__)
        told = f"{label} {found[label]:,.5g}, best of the others {other} {found[other]:,.5g}"
        return pick(label, other, key=found.__getitem__) == label, f"{measure}: {told}"

    return test


def label_of(row: Row, key: Sequence[str]) -> str:
    """Name a row by the values of its key columns."""
    return ", ".join(str(row[name]) for name in key if name in row)


@dataclass(frozen=True, kw_only=True)
class Paper:
    """What a paper did and found, and what is done here.

    Parameters
    ----------
    source : str
        Which table or figure of which paper.
    did : str
        What the paper did.
    differs : str, default=""
        What is done otherwise here, and why.
    needs : sequence of str, default=()
        Names of data sets, as in ``load_NAME``.
    figures : mapping, default={}
        The paper's numbers as it prints them: measure, then row.
    better : mapping, default={}
        Which way each measure is good: "higher", "lower", or "same" as the paper's.
    key : sequence of str, default=("model",)
        Columns that name a row.
    why : str, default=""
        Why ours is worse where it is.
    claims : sequence of Claim, default=()
        What the paper says without a number.
    stand_in : callable or None, default=None
        Tells whether the data of a run stand in for data that is not here. None: they do not.
    """

    source: str
    did: str
    differs: str = ""
    needs: Sequence[str] = ()
    figures: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    better: Mapping[str, Better] = field(default_factory=dict)
    key: Sequence[str] = ("model",)
    why: str = ""
    claims: Sequence[Claim] = ()
    stand_in: Callable[[], bool] | None = None

    def __post_init__(self) -> None:
        """Every figure has a direction."""
        lost = sorted(set(self.figures) - set(self.better))
        if lost:
            raise ValueError(f"{self.source}: which way is {lost[0]!r} good?")


class Registry(Mapping[str, Run]):
    """Runs by name, in alphabetical order.

    Parameters
    ----------
    package : str
        Package whose modules register the runs. Modules whose name begins with an underscore are
        left out.

    Examples
    --------
    >>> from partwise_papers.registry import Registry
    >>> registry = Registry("partwise_papers.experiments")
    >>> @registry.register("two-lines")
    ... def run(setting):
    ...     '''Count to two.'''
    ...     setting("counting")
    ...     return [{"count": 1}, {"count": 2}]
    >>> registry.describe("two-lines")
    'Count to two.'
    """

    def __init__(self, package: str) -> None:
        self._package = package
        self._runs: dict[str, Run] = {}
        self._papers: dict[str, Paper] = {}
        self._complete = False

    def register(self, name: str, paper: Paper | None = None) -> Callable[[_AnyRun], _AnyRun]:
        """Give the decorator that enters a function under a name, with what a paper says of it."""

        def enter(run: _AnyRun) -> _AnyRun:
            if name == "all":
                raise ValueError("'all' stands for every name and cannot be one.")
            if name in self._runs and self._runs[name] is not run:
                raise ValueError(f"{name!r} is registered twice in {self._package}.")
            self._runs[name] = run
            if paper is not None:
                self._papers[name] = paper
            return run

        return enter

    def describe(self, name: str) -> str:
        """Give the first line of a run's docstring."""
        return ((self[name].__doc__ or "").strip().splitlines() or [""])[0]

    def paper(self, name: str) -> Paper | None:
        """Give what a paper says of a run; None for an additional experiment."""
        self._discover()
        return self._papers.get(name)

    def _discover(self) -> dict[str, Run]:
        if not self._complete:
            package = import_module(self._package)
            for module in pkgutil.iter_modules(package.__path__, f"{self._package}."):
                name = module.name.rpartition(".")[2]
                if not name.startswith("_"):
                    import_module(module.name)
            self._complete = True
        return self._runs

    def __getitem__(self, name: str) -> Run:
        return self._discover()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._discover()))

    def __len__(self) -> int:
        return len(self._discover())
