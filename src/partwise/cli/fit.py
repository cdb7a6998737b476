"""``partwise fit``: from a file, or a folder of images, to a saved model and what it found."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partwise.cli.console import (
    busy,
    complain,
    fail,
    nameless,
    need_folders,
    plural,
    print_table,
    say,
)
from partwise.cli.tables import Reading, Seed, check_names, pair, reads_tables

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from partwise.files.data import Data

_MODELS = ("mcvq", "mcfa")
_SHOWN_COLUMNS = 12  # names of a part's columns
_TOLD_COLUMNS = 300  # profiles compare all pairs of columns, which many make slow


@reads_tables
def fit(
    data: Annotated[
        Path,
        typer.Argument(
            help="Rows: .csv (or other text), .parquet, .npy, .npz (one array, or sparse), or a "
            "folder of images.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="MODEL", help="File to write; else named after the data, here."
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Also write a page about it.")
    ] = None,
    model: Annotated[
        str, typer.Option("--model", help="mcvq: parts have states; mcfa: parts have factors.")
    ] = "mcvq",
    parts: Annotated[
        str | None,
        typer.Option("--parts", metavar="N|auto", help="Number of parts; auto: from the evidence."),
    ] = None,
    states: Annotated[
        str | None,
        typer.Option("--states", metavar="N|auto", help="States (or factors) of every part."),
    ] = None,
    likelihood: Annotated[
        str,
        typer.Option(help="auto: found out column by column; or one law for all, as gaussian."),
    ] = "auto",
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            metavar="COLUMN=KIND",
            help="What a column is: bernoulli, categorical, ordinal, poisson, lognormal, gaussian "
            "or ignored; may be repeated.",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option("--columns", metavar="NAME,...", help="Learn from these columns only."),
    ] = None,
    ignore: Annotated[
        str | None, typer.Option("--ignore", metavar="NAME,...", help="Leave these columns out.")
    ] = None,
    max_time: Annotated[
        float,
        typer.Option("--max-time", metavar="SECONDS", help="Then the best so far is kept."),
    ] = 300.0,
    seed: Seed = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was found as JSON, for machines.")
    ] = False,
    *,
    reading: Reading,
) -> None:
    """Learn the parts of a table or of images, say what was found, and save the model.

    Ctrl-C ends the learning and keeps the best model so far (exit code 130); a second one gives up.

    Examples:

      partwise fit survey.csv

      partwise fit survey.csv --kind postcode=categorical --ignore remarks --report survey.html

      partwise fit faces/ --resize 32x32 --parts 6 --states 10 -o faces.safetensors
    """
    out = Path(f"{data.resolve().stem}.safetensors") if out is None else out
    need_folders(out, report)
    if model not in _MODELS:
        fail(f"Error: there is no model {model!r}; choose one of {', '.join(_MODELS)}.", 2)
    if max_time <= 0:
        fail("Error: --max-time must be above 0.", 2)
    sizes = [_number(text, name) for text, name in ((parts, "--parts"), (states, "--states"))]
    kinds = dict(pair(text, "--kind", "COLUMN=KIND") for text in kind or [])

    with busy(f"Reading {data}"):
        texts = [name for name, kind in kinds.items() if kind in ("categorical", "ignored")]
        found = reading.read(data, texts, kinds.keys() - texts)
        found = found._replace(X=_chosen(found.X, columns, ignore))
    complain(f"Read {data}: {found.told}.")
    estimator = _estimator(model, sizes, likelihood, kinds, found, seed, max_time)
    start = time.perf_counter()
    with busy("Learning", max_time), _ending_on_interrupt(estimator) as stopped:
        estimator.fit(found.X)
    _tell_sample(estimator, found.X)
    seconds = time.perf_counter() - start
    estimator.save(out)
    content = _content(estimator, found, seconds, out, bool(stopped))
    if report is not None and not stopped:
        with busy(f"Writing {report}"), nameless():
            from partwise.report import write_report

            title = f"Parts of {data.name}"
            write_report(estimator, report, found.X, found.image_shape, title, out.name)
        content["report"] = str(report)
    if as_json:
        say(json.dumps(content, indent=1, allow_nan=False, default=str))
    else:
        _tell(content)
    if stopped:
        fail(f"Stopped early: the best model so far is in {out}.", 130)


def _number(text: str | None, name: str) -> int | str | None:
    """Read a size: a number, auto, or nothing."""
    if text is None or text == "auto":
        return text
    if not text.isdecimal() or int(text) < 1:
        fail(f"Error: {name} {text!r} is neither a number from 1 on nor auto.", 2)
    return int(text)


def _chosen(X: Any, columns: str | None, ignore: str | None) -> Any:
    """The table with some of its columns."""
    if columns is None and ignore is None:
        return X
    if not hasattr(X, "columns"):
        fail("Error: --columns and --ignore need a table whose columns have names.", 2)
    asked = [] if columns is None else columns.split(",")
    without = [] if ignore is None else ignore.split(",")
    check_names(asked + without, X.columns)
    kept = [name for name in asked or X.columns if name not in without]
    return X.select(kept) if kept else fail("Error: no column is left to learn from.", 2)


def _estimator(
    model: str,
    sizes: list[Any],
    likelihood: str,
    kinds: dict[str, str],
    found: Data,
    seed: int,
    max_time: float,
) -> Any:
    """The estimator that the options ask for; what one law for all columns is, is told."""
    from scipy import sparse

    from partwise import MCFA, MCVQ

    common: dict[str, Any] = {"random_state": seed, "max_time": max_time}
    law: Any = likelihood
    if kinds and (model == "mcfa" or not hasattr(found.X, "columns") or likelihood != "auto"):
        fail("Error: --kind needs columns with names, --model mcvq and --likelihood auto.", 2)
    n_parts, each = (size or "auto" for size in sizes)
    if model == "mcfa":
        law = "gaussian" if likelihood == "auto" else likelihood
        return MCFA(n_parts, each, likelihood=law, **common)
    absent = "auto"
    if likelihood == "auto" and sparse.issparse(found.X):
        from partwise.files.arrays import likelihood_of_sparse

        law, absent = likelihood_of_sparse(found.X)
        zero = "zero" if absent == "zero" else "missing"
        complain(f"All entries are taken as {law}, those not stored as {zero}; else --likelihood.")
    elif likelihood == "auto" and found.image_shape is not None:
        law = "gaussian"
    return MCVQ(n_parts, each, likelihood=kinds or law, sparse_absent=absent, **common)


def _tell_sample(estimator: BaseEstimator, X: Any) -> None:
    """Say on how many rows sizes were selected, if not on all."""
    from partwise import SizeOptions

    n_rows, n_cells = X.shape[0], getattr(X, "nnz", X.shape[0] * X.shape[1])
    n = (estimator.sizes or SizeOptions()).sample_rows(n_rows, n_cells)
    if n < n_rows and hasattr(estimator, "size_path_"):
        complain(f"Sizes were selected on {n:,} of the rows.")


@contextmanager
def _ending_on_interrupt(estimator: BaseEstimator) -> Iterator[list[int]]:
    """Let the first Ctrl-C end the fit and the second break it off; gives the first, once there."""
    stopped: list[int] = []

    def on_interrupt(number: int, _: Any) -> None:
        if stopped:
            raise KeyboardInterrupt
        stopped.append(number)
        estimator.stop()

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, before)


# --- what was found ---


def _content(model: Any, found: Data, seconds: float, out: Path, stopped: bool) -> dict[str, Any]:
    """All that is told of a fit, as plain values."""
    n_columns = int(found.X.shape[1])
    parts = [int(k) for k in model.parts_]
    names = [str(name) for name in getattr(model, "feature_names_in_", range(n_columns))]
    kinds = [str(kind) for kind in getattr(model, "kinds_", [model.likelihood] * n_columns)]
    sizes = [int(n) for n in (model.n_states_ if hasattr(model, "n_states_") else model.n_factors_)]
    described = _described(model) if found.image_shape is None else {}
    return {
        "rows": int(found.X.shape[0]),
        "rows_learned_from": int(model.n_samples_seen_),
        "is_image": found.image_shape is not None,
        "columns": [
            {"name": name, "kind": kind, "part": part}
            for name, kind, part in zip(names, kinds, parts, strict=True)
        ],
        "parts": [
            {
                "part": k,
                "columns": [name for name, part in zip(names, parts, strict=True) if part == k],
                "states" if hasattr(model, "n_states_") else "factors": size,
                "described": described.get(f"part{k}", []),
            }
            for k, size in enumerate(sizes)
        ],
        "lower_bound": float(model.lower_bound_),
        "converged": bool(model.converged_),
        "stopped": stopped,
        "seconds": round(seconds, 3),
        "model": str(out),
    }


def _described(model: Any) -> dict[str, list[dict[str, Any]]]:
    """The states of each part in words, by the part's name."""
    if not hasattr(model, "summary") or model.n_features_in_ > _TOLD_COLUMNS:
        return {}
    table = model.summary()
    rows = table if isinstance(table, dict) else table.to_dict(as_series=False)
    out: dict[str, list[dict[str, Any]]] = {}
    for part, state, share, words in zip(
        *(rows[name] for name in ("part", "state", "share", "profile")), strict=True
    ):
        told = {"state": int(state), "share": float(share), "profile": words}
        out.setdefault(part, []).append(told)
    return out


def _tell(content: dict[str, Any]) -> None:
    """Print what was found."""
    noun = "pixel" if content["is_image"] else "column"
    kinds: dict[str, list[str]] = {}
    for column in content["columns"]:
        kinds.setdefault(column["kind"], []).append(column["name"])
    for kind, names in kinds.items():
        listed = "" if content["is_image"] else f": {', '.join(names)}"
        say(f"{plural(len(names), noun)} taken as {kind}{listed}.")
    of = f"{plural(content['rows_learned_from'], 'row')} in {content['seconds']:.1f} s"
    say(f"\nLearned from {of}: {plural(len(content['parts']), 'part')}.")
    for part in content["parts"]:
        size = part.get("states")
        sized = plural(part["factors"], "factor") if size is None else plural(size, "state")
        names = part["columns"]
        shown = "" if content["is_image"] or not names else f": {_few(names)}"
        say(f"\nPart {part['part']}, {sized}, {plural(len(names), noun)}{shown}")
        _print_states(part["described"])
    rest = [column["name"] for column in content["columns"] if column["part"] < 0]
    if rest:
        listed = "" if content["is_image"] else f": {_few(rest)}"
        say(f"\nIn no part, {plural(len(rest), noun)}{listed}")
    say(f"\nWrote {content['model']}.")
    if "report" in content:
        say(f"Wrote {content['report']}: open it in a browser.")


def _few(names: list[str]) -> str:
    more = len(names) - _SHOWN_COLUMNS
    return ", ".join(names[:_SHOWN_COLUMNS]) + (f" and {more} more" if more > 0 else "")


def _print_states(states: list[dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    if not states:
        return
    table = Table("state", "rows", "what is typical of it", box=None, pad_edge=True)
    for state in states:
        share = f"{100 * state['share']:.0f} %"
        table.add_row(str(state["state"]), share, Text(state["profile"]))
    print_table(table)
