"""Named runs that say what they measured: experiments and benchmarks.

A module beside a registry registers functions; it is enough that its file is there. Modules are
imported when the registry is first asked for something.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TypeAlias, TypeVar

# One line of a table. A flat dict of names to text or numbers.
Row: TypeAlias = dict[str, str | float]

# Called with a function to report progress to, a sentence at a time.
Run: TypeAlias = Callable[[Callable[[str], None]], list[Row]]

_AnyRun = TypeVar("_AnyRun", bound=Run)


class Registry(Mapping[str, Run]):
    """Runs by name, in alphabetical order.

    Parameters
    ----------
    package : str
        Package whose modules register the runs. Modules whose name begins with an underscore, and
        this one, are left out.

    Examples
    --------
    >>> from partwise.experiments.registry import Registry
    >>> registry = Registry("partwise.experiments")
    >>> @registry.register("two-lines")
    ... def run(progress):
    ...     '''Count to two.'''
    ...     progress("counting")
    ...     return [{"count": 1}, {"count": 2}]
    >>> registry.describe("two-lines")
    'Count to two.'
    """

    def __init__(self, package: str) -> None:
        self._package = package
        self._runs: dict[str, Run] = {}
        self._complete = False

    def register(self, name: str) -> Callable[[_AnyRun], _AnyRun]:
        """Give the decorator that enters a function under a name."""

        def enter(run: _AnyRun) -> _AnyRun:
            if name == "all":
                raise ValueError("'all' stands for every name and cannot be one.")
            if name in self._runs and self._runs[name] is not run:
                raise ValueError(f"{name!r} is registered twice in {self._package}.")
            self._runs[name] = run
            return run

        return enter

    def describe(self, name: str) -> str:
        """Give the first line of a run's docstring."""
        return ((self[name].__doc__ or "").strip().splitlines() or [""])[0]

    def _discover(self) -> dict[str, Run]:
        if not self._complete:
            package = import_module(self._package)
            for module in pkgutil.iter_modules(package.__path__, f"{self._package}."):
                name = module.name.rpartition(".")[2]
                if not name.startswith("_") and module.name != __name__:
                    import_module(module.name)
            self._complete = True
        return self._runs

    def __getitem__(self, name: str) -> Run:
        return self._discover()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._discover()))

    def __len__(self) -> int:
        return len(self._discover())
