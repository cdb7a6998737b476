"""The models that are served, and their files.

A file that is replaced is loaded again; questions under way are answered by the previous model. A
damaged file is refused, and the previous model stays.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

Served = TypeVar("Served")

log = logging.getLogger("partwise.serve")


class Version(NamedTuple):
    """Identifies the content of a file."""

    device: int
    inode: int
    size: int
    modified: int

    @staticmethod
    def of(path: Path) -> Version:
        """The current version of a file."""
        found = os.stat(path)
        return Version(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


class Shelf(Generic[Served]):
    """Models by name.

    Parameters
    ----------
    paths : dict of str to Path
    load : callable
        Loads a file; raises ValueError or OSError for a damaged one.

    Attributes
    ----------
    problems : dict of str to str
        Why the newest file of a model is not served.
    """

    def __init__(self, paths: dict[str, Path], load: Callable[[Path], Served]) -> None:
        self._paths, self._load = paths, load
        self._versions = {name: Version.of(path) for name, path in paths.items()}
        self._models = {name: load(path) for name, path in paths.items()}
        self.problems: dict[str, str] = {}

    def __getitem__(self, name: str) -> Served:
        return self._models[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._models)

    async def refresh(self, executor: Executor) -> None:
        """Load the files that were replaced."""
        for name, path in self._paths.items():
            try:
                version = Version.of(path)
                if version == self._versions[name]:
                    continue
                loop = asyncio.get_running_loop()
                model = await loop.run_in_executor(executor, self._load, path)
            except (OSError, ValueError) as error:
                self._report(name, " ".join(str(error).split()))
                if isinstance(error, ValueError):
                    self._versions[name] = version  # the same content is not tried again
                continue
            self._versions[name], self._models[name] = version, model
            self.problems.pop(name, None)
            log.info("model reloaded", extra={"fields": {"model": name}})

    async def watch(self, executor: Executor, seconds: float) -> None:
        """Check the files periodically, until cancelled."""
        while True:
            await asyncio.sleep(seconds)
            await self.refresh(executor)

    def _report(self, name: str, problem: str) -> None:
        """Log a problem once."""
        if self.problems.get(name) != problem:
            self.problems[name] = problem
            fields = {"model": name, "problem": problem}
            log.error("model not reloaded; the previous one stays", extra={"fields": fields})
