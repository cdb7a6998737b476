"""``partwise reproduce`` and ``partwise bench``: run what is registered and print its rows."""

from __future__ import annotations

import json
import math
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partwise import __version__
from partwise.cli.console import complain, errors, fail, plural, print_table, say

if TYPE_CHECKING:
    from rich.table import Table

    from partwise.experiments.registry import Registry, Row

_Json = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Also write the results here, as JSON."),
]
_List = Annotated[bool, typer.Option("--list", help="List the names and stop.")]


def reproduce(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...|all", help="Experiments to run; all if none is named."),
    ] = None,
    json_file: _Json = None,
    list_names: _List = False,
) -> None:
    """Run the papers' experiments and print the papers' numbers beside ours."""
    from partwise.experiments import EXPERIMENTS

    run(EXPERIMENTS, "experiment", names or [], json_file, list_names, _is_debug(ctx))


def bench(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...|all", help="Benchmarks to run; all if none is named."),
    ] = None,
    json_file: _Json = None,
    list_names: _List = False,
) -> None:
    """Measure speed and quality against other libraries, side by side in one run."""
    from partwise.bench import BENCHES

    run(BENCHES, "benchmark", names or [], json_file, list_names, _is_debug(ctx))


def run(
    registry: Registry,
    kind: str,
    names: Sequence[str],
    json_file: Path | None,
    list_names: bool,
    debug: bool,
) -> None:
    """Run the named entries of a registry, print their rows, and exit with 1 if any failed."""
    if list_names:
        _print_names(registry, kind)
        return
    unknown = [name for name in names if name != "all" and name not in registry]
    if unknown:
        known = ", ".join(registry) or "none"
        fail(f"There is no {kind} called {unknown[0]!r}; the names are: {known}.", 2)
    if len(registry) == 0:
        say(f"There are no {kind}s.")
    chosen = list(registry) if not names or "all" in names else list(dict.fromkeys(names))
    results: list[dict[str, Any]] = []
    if json_file is not None:
        _write_json(json_file, kind, results)  # a place that cannot be written is known at once
    for name in chosen:
        result = _run_one(registry, name, debug)
        results.append(result)
        if json_file is not None:
            _write_json(json_file, kind, results)  # what is done is kept if a later one is stopped
    failed = [result["name"] for result in results if result["error"] is not None]
    if failed:
        fail(f"{len(failed)} of {plural(len(results), kind)} failed: {', '.join(failed)}.", 1)


def _is_debug(ctx: typer.Context) -> bool:
    return bool(ctx.parent is not None and ctx.parent.params.get("debug"))


def _print_names(registry: Registry, kind: str) -> None:
    from rich.table import Table
    from rich.text import Text

    if len(registry) == 0:
        say(f"There are no {kind}s.")
        return
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name in registry:
        table.add_row(Text(name, style="bold", no_wrap=True), Text(registry.describe(name)))
    print_table(table)


def _run_one(registry: Registry, name: str, debug: bool) -> dict[str, Any]:
    """Run one entry and print its rows; an error becomes part of the result."""
    result: dict[str, Any] = {
        "name": name,
        "description": registry.describe(name),
        "seconds": 0.0,
        "rows": [],
        "error": None,
    }
    console = errors()
    start = time.perf_counter()
    with console.status(name) as status:

        def progress(text: str) -> None:
            status.update(f"{_plain(name)}: {_plain(text)}")
            if not console.is_terminal:
                complain(f"{name}: {text}")

        try:
            rows = registry[name](progress)
            result["rows"] = [{str(key): _value(row[key]) for key in row} for row in rows]
        except Exception as error:  # one failing run must not stop the others
            if debug:
                raise
            result["error"] = f"{type(error).__name__}: {' '.join(str(error).split())}"
    result["seconds"] = round(time.perf_counter() - start, 3)
    if result["error"] is not None:
        complain(f"{name} failed: {result['error']}")
    else:
        say(f"{name}: {result['description']}".rstrip(": "))
        print_table(_table(result["rows"]))
        say(f"{result['seconds']:.1f} s\n")
    return result


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _table(rows: list[Row]) -> Table:
    """Lay rows out, with a column for every name that occurs in one of them."""
    from rich.table import Table
    from rich.text import Text

    table = Table()
    names = list(dict.fromkeys(name for row in rows for name in row))
    for name in names:
        text = any(isinstance(row.get(name), str) for row in rows)
        table.add_column(Text(name), justify="left" if text else "right")
    for row in rows:
        table.add_row(*(Text(_cell(row.get(name))) for name in names))
    return table


def _cell(value: Any) -> str:
    """Write a value of a row."""
    if value is None:
        return ""
    if isinstance(value, float):
        # Scores read best with the same few digits; large ones without an exponent.
        return f"{value:,.1f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else str(value)


def _value(value: Any) -> Any:
    """Turn numbers of numpy into Python's."""
    item: Callable[[], Any] | None = getattr(value, "item", None)
    return item() if item is not None and getattr(value, "ndim", None) == 0 else value


def _write_json(path: Path, kind: str, results: list[dict[str, Any]]) -> None:
    import numpy as np

    from partwise.io import write_atomically

    content = {
        "version": __version__,
        "kind": kind,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.platform(),
        "results": [
            result | {"rows": [{k: _finite(v) for k, v in row.items()} for row in result["rows"]]}
            for result in results
        ],
    }
    text = json.dumps(content, indent=2, allow_nan=False, default=str) + "\n"
    write_atomically(path, text.encode())


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: null stands for them."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
