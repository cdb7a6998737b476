"""``partwise reproduce`` and ``partwise bench``: run what is registered and print its rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partwise.cli.console import closest, complain, errors, fail, print_table, say

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.table import Table

    from partwise_papers.registry import Registry, Row, Setting

_Json = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Also write the results here, as JSON."),
]
_List = Annotated[bool, typer.Option("--list", help="List the names and stop.")]
_From = Annotated[
    list[Path] | None,
    typer.Option(
        "--from",
        metavar="FILE",
        help="Read these result files first; later files override earlier ones. "
        "Without a NAME, nothing is run.",
    ),
]
_Page = Annotated[
    Path | None,
    typer.Option(
        "--page",
        metavar="FILE",
        help="Also write pages of results, in Markdown; FILE is the first.",
    ),
]


def _complete_experiments(incomplete: str) -> list[str]:
    """Names of experiments that continue what was typed."""
    from partwise_papers.experiments import EXPERIMENTS

    return [name for name in EXPERIMENTS if name.startswith(incomplete)]


def _complete_benchmarks(incomplete: str) -> list[str]:
    """Names of benchmarks that continue what was typed."""
    from partwise_papers.bench import BENCHES

    return [name for name in BENCHES if name.startswith(incomplete)]


def reproduce(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...|all",
            help="Experiments to run; all if none is named.",
            autocompletion=_complete_experiments,
        ),
    ] = None,
    json_file: _Json = None,
    list_names: _List = False,
    fast: Annotated[
        bool,
        typer.Option(
            "--fast", help="Fewer seeds, rows and iterations: seconds instead of minutes."
        ),
    ] = False,
    pictures: Annotated[
        Path | None,
        typer.Option("--pictures", metavar="FOLDER", help="Also save the figures to this folder."),
    ] = None,
    earlier: _From = None,
    page: _Page = None,
) -> None:
    """Run the papers' experiments and compare our numbers with the papers'.

    The exit code is 1 if an experiment failed, and 3 if only a data set is missing.

    Examples:

      partwise reproduce --list

      partwise reproduce shapes --fast
    """
    from partwise_papers.experiments import EXPERIMENTS

    run(
        EXPERIMENTS,
        "experiment",
        names,
        json_file,
        list_names,
        _is_debug(ctx),
        fast=fast,
        pictures=pictures,
        earlier=earlier,
        page=page,
    )


def bench(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...|all",
            help="Benchmarks to run; all if none is named.",
            autocompletion=_complete_benchmarks,
        ),
    ] = None,
    json_file: _Json = None,
    list_names: _List = False,
    earlier: _From = None,
    page: _Page = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            metavar="FOLDER",
            help="Keep single measurements here and skip those that are there (tables_rivals).",
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            "--minutes",
            min=0,
            help="With --resume: stop measuring after so many minutes and report what there is.",
        ),
    ] = None,
) -> None:
    """Measure speed and quality in comparison with other libraries, in one run.

    Examples:

      partwise bench --list

      partwise bench mcvq_dense --json speed.json

      partwise bench --from speed.json --page speed.md
    """
    from partwise_papers.bench import BENCHES

    run(
        BENCHES,
        "benchmark",
        names,
        json_file,
        list_names,
        _is_debug(ctx),
        earlier=earlier,
        page=page,
        resume=resume,
        minutes=minutes,
    )


def convert(
    name: Annotated[
        str, typer.Argument(help="cbcl, eachmovie, nips, pearl, usps or yeast.", show_default=False)
    ],
    source: Annotated[Path, typer.Argument(help="Folder with the original files, or the file.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FOLDER", help="Folder to write to; PARTWISE_DATA if not given."
        ),
    ] = None,
) -> None:
    """Convert the original files of a data set to the file that the experiments read.

    Examples:

      partwise convert usps downloads/usps -o data
    """
    from partwise_papers.convert import OriginalFileError
    from partwise_papers.convert import convert as converted

    folder = out or os.environ.get("PARTWISE_DATA")
    if not folder:
        fail("Error: name a folder with --out, or in the environment variable PARTWISE_DATA.", 2)
    try:
        say(f"Wrote {converted(name, source, Path(folder))}.")
    except OriginalFileError as error:
        fail(f"Error: {error}", 2)


def add_to(app: typer.Typer) -> None:
    """Add the commands to the command line of the library."""
    app.command("reproduce")(reproduce)
    app.command("bench")(bench)
    app.command("convert")(convert)


def run(
    registry: Registry,
    kind: str,
    names: Sequence[str] | None,
    json_file: Path | None,
    list_names: bool,
    debug: bool,
    *,
    fast: bool = False,
    pictures: Path | None = None,
    earlier: Sequence[Path] | None = None,
    page: Path | None = None,
    resume: Path | None = None,
    minutes: float | None = None,
) -> None:
    """Run the named entries of a registry and print their rows.

    Without names all are run, or none if earlier results are given.

    Exits with 1 if any failed, and with 3 if only data was absent.
    """
    from partwise_papers.outcome import judged
    from partwise_papers.results_file import new_content, read_results, write_results

    if list_names:
        _print_names(registry, kind)
        return
    unknown = [name for name in names or [] if name != "all" and name not in registry]
    if unknown:
        suggested = closest(unknown[0], list(registry), kind)
        fail(f"Error: there is no {kind} {unknown[0]!r}{suggested}", 2)
    if len(registry) == 0:
        say(f"There are no {kind}s.")
    if names:
        chosen = list(registry) if "all" in names else list(dict.fromkeys(names))
    else:
        chosen = list(registry) if earlier is None else []
    results: dict[str, dict[str, Any]] = {}
    for path in earlier or []:
        try:
            read = {result["name"]: result for result in read_results(path, kind)}
        except ValueError as error:
            fail(str(error), 2)
        for name, result in read.items():
            results[name] = judged(registry, name, result) if name in registry else result

    def keep() -> None:
        """Write what is done, which is kept if a later one is stopped."""
        content = new_content(kind, [results[name] for name in sorted(results)])
        if json_file is not None:
            write_results(json_file, content)
        if page is not None:
            _write_page(page, content, pictures)

    keep()  # a place that cannot be written is known at once
    with _progress(len(chosen)) as steps:
        for place, name in enumerate(chosen, 1):
            setting = _setting(steps, f"{place}/{len(chosen)} {name}", fast, pictures)
            setting.resume, setting.minutes = resume, minutes
            results[name] = _run_one(registry, name, setting, debug)
            steps.advance(steps.task_ids[0])
            keep()
    for status, code in (("failed", 1), ("absent", 3)):
        which = [name for name in chosen if results[name]["status"] == status]
        if which:
            told = "failed" if status == "failed" else "had no data"
            of = f"{len(which)} of {len(chosen)} {kind}{'s' * (len(chosen) != 1)}"
            fail(f"{of} {told}: {', '.join(which)}.", code)


def _progress(total: int) -> Progress:
    """Make a progress bar over all runs, shown in a terminal only."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = errors()
    columns = (BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(
        *columns,
        TextColumn("{task.description}"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    bar.add_task("", total=total)
    return bar


def _setting(steps: Progress, name: str, fast: bool, pictures: Path | None) -> Setting:
    from partwise_papers.registry import Setting

    def report(text: str) -> None:
        steps.update(steps.task_ids[0], description=_plain(f"{name}: {text}"))
        if steps.disable:
            complain(f"{name}: {text}")

    steps.update(steps.task_ids[0], description=_plain(name))
    return Setting(report, fast, pictures)


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


def _run_one(registry: Registry, name: str, setting: Setting, debug: bool) -> dict[str, Any]:
    """Run one entry and print its rows."""
    from partwise_papers.outcome import carry_out, compact

    result = carry_out(registry, name, setting, raise_errors=debug)
    if result["status"] == "absent":
        complain(f"{name} was left out: {result['error']}")
    elif result["status"] == "failed":
        complain(f"{name} failed: {result['error']}")
    else:
        say(f"{name}: {result['description']}".rstrip(": "))
        print_table(_table(result["rows"], compact(result["rows"], result["comparisons"])))
        say(f"{result['seconds']:.1f} s\n")
    return result


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _table(rows: list[Row], shown: list[Row]) -> Table:
    """Arrange the shown values of rows, with a column for every name that occurs in one of them."""
    from rich.table import Table
    from rich.text import Text

    table = Table()
    names = list(dict.fromkeys(name for row in shown for name in row))
    for name in names:
        text = any(isinstance(row.get(name), str) for row in rows)
        table.add_column(Text(name), justify="left" if text else "right")
    for row in shown:
        table.add_row(*(Text(row.get(name, "")) for name in names))
    return table


def _write_page(path: Path, content: dict[str, Any], pictures: Path | None) -> None:
    from partwise.files.atomic import write_atomically
    from partwise_papers.pages import results_pages

    folder = "pictures" if pictures is None else os.path.relpath(pictures, path.parent)
    for name, text in results_pages(content, path.stem, folder).items():
        write_atomically(path.with_name(f"{name}{path.suffix}"), text.encode())
