"""``partwise fit``: fit a model to a file or a folder of images, print a summary, save it."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, TypedDict, cast

import typer

from partwise._text import first_few, plural
from partwise.cli.completion import complete_column_value, complete_columns
from partwise.cli.console import (
    busy,
    check_choice,
    complain,
    fail,
    keep_inputs,
    nameless,
    need_folders,
    print_table,
    say,
)
from partwise.cli.folders import left_out
from partwise.cli.tables import Reading, Seed, check_names, pair, reads_tables

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from partwise import PartsImputer
    from partwise.answers.results import Summary
    from partwise.estimators.mcfa import MCFA
    from partwise.estimators.mcvq import MCVQ
    from partwise.files.data import Data, Rows

_MODELS = ("mcvq", "mcfa", "imputer")
_MAX_TIME = 300.0  # seconds
_SHOWN_COLUMNS = 12  # printed names of a part's columns
_MAX_PROFILED = 300  # columns; profiles compare all pairs, which is slow for many


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
            "--out",
            "-o",
            metavar="MODEL",
            help="Model file to write; by default named after the data, in the current folder.",
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Also write the explorer.")
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            help="mcvq: parts have states; mcfa: parts have factors; imputer: imputes numbers "
            "better, from states, factors and regressions together.",
        ),
    ] = "mcvq",
    parts: Annotated[
        str | None,
        typer.Option("--parts", metavar="N|auto", help="Number of parts; auto: by the ELBO."),
    ] = None,
    states: Annotated[
        str | None,
        typer.Option("--states", metavar="N|auto", help="States (or factors) per part."),
    ] = None,
    max_states: Annotated[
        int | None,
        typer.Option(
            "--max-states",
            min=1,
            help="Maximum number of states per part that is selected automatically.",
            show_default=False,
        ),
    ] = None,
    classes: Annotated[
        int | None,
        typer.Option(
            "--classes", metavar="N", min=2, help="Also find N classes of rows.", show_default=False
        ),
    ] = None,
    class_chain: Annotated[
        bool,
        typer.Option("--class-chain", help="Rows follow each other: classes are a Markov chain."),
    ] = False,
    part_groups: Annotated[
        int | None,
        typer.Option(
            "--part-groups",
            metavar="N",
            min=1,
            help="Groups of parts, each with its own classes.",
            show_default=False,
        ),
    ] = None,
    likelihood: Annotated[
        str,
        typer.Option(
            help="auto: chosen per column; or one distribution for all, such as gaussian."
        ),
    ] = "auto",
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            metavar="COLUMN=KIND",
            help="Kind of a column, such as categorical, ordinal, gaussian, lognormal, poisson or "
            "ignored; may be repeated.",
            autocompletion=complete_column_value,
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="NAME,...",
            help="Use only these columns.",
            autocompletion=complete_columns,
        ),
    ] = None,
    ignore: Annotated[
        str | None,
        typer.Option(
            "--ignore",
            metavar="NAME,...",
            help="Leave out these columns.",
            autocompletion=complete_columns,
        ),
    ] = None,
    max_time: Annotated[
        float,
        typer.Option("--max-time", metavar="SECONDS", help="Limit; keeps the best model so far."),
    ] = _MAX_TIME,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            metavar="FILE",
            help="File from which the same command continues if it is interrupted.",
        ),
    ] = None,
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    *,
    reading: Reading,
) -> None:
    """Fit a model to a table or images, print a summary, and save the model.

    Ctrl-C ends the fit and keeps the best model so far (exit code 130); a second Ctrl-C aborts.

    Examples:

      partwise fit survey.csv

      partwise fit survey.csv --kind postcode=categorical --ignore remarks --report survey.html

      partwise fit survey/ --checkpoint survey.checkpoint (a folder of parquet or CSV files)

      partwise fit faces/ --resize 32x32 --parts 6 --states 10 -o faces.safetensors
    """
    from partwise import PartsImputer

    out = Path(f"{data.resolve().stem}.safetensors") if out is None else out
    need_folders(out, report, checkpoint)
    for path in (out, report, checkpoint):
        keep_inputs(path, data)
    check_choice(model, _MODELS, "--model")
    if max_states is not None and (model != "mcvq" or states not in (None, "auto")):
        fail("Error: --max-states is for --model mcvq with --states auto.", 2)
    if classes is None and (class_chain or part_groups is not None):
        fail("Error: --class-chain and --part-groups need --classes, the number of classes.", 2)
    if part_groups is not None and (model != "mcvq" or class_chain):
        fail("Error: --part-groups is for --model mcvq without --class-chain.", 2)
    if model == "imputer" and not (classes is checkpoint is None and max_time == _MAX_TIME):
        fail("Error: --classes, --checkpoint and --max-time are for --model mcvq or mcfa.", 2)
    if max_time <= 0:
        fail("Error: --max-time must be above 0.", 2)
    sizes = [_number(text, name) for text, name in ((parts, "--parts"), (states, "--states"))]
    kinds = dict(pair(text, "--kind", "COLUMN=KIND") for text in kind or [])
    _check_kinds(likelihood, kinds)

    with busy(f"Reading {data}"):
        texts = [name for name, kind in kinds.items() if kind in ("categorical", "ignored")]
        texts += [] if ignore is None else ignore.split(",")  # of which nothing need be read
        found = reading.read(data, texts, kinds.keys() - texts)
        if hasattr(found.X, "frames"):
            if model == "imputer":
                fail("Error: --model imputer is for one file; fit --model mcvq to a folder.", 2)
            kinds |= left_out(found, columns, ignore, reading.id_column)
        else:
            found = replace(found, X=_chosen(found.X, columns, ignore))
    if hasattr(found.X, "columns"):
        check_names(list(kinds), found.X.columns)
    complain(f"Read {data}: {found.description}.")
    estimator = _estimator(model, sizes, likelihood, kinds, found, seed, max_time)
    if classes is not None:
        estimator.set_params(n_classes=classes, class_chain=class_chain)
    if part_groups is not None:
        estimator.set_params(part_groups=part_groups)
    if max_states is not None:
        from partwise import SizeOptions

        estimator.set_params(sizes=SizeOptions(max_states=max_states))
    start = time.perf_counter()
    stopped: list[int] = []
    if isinstance(estimator, PartsImputer):
        with busy("Fitting"):
            estimator.fit(found.X)
    else:
        with busy("Fitting", max_time), _ending_on_interrupt(estimator) as stopped:
            estimator.fit(found.X, checkpoint=checkpoint)
    _print_sample(estimator, found.X)
    seconds = time.perf_counter() - start
    if found.format is not None:
        from partwise.files.model import TEXT_FORMAT

        setattr(estimator, TEXT_FORMAT, found.format.of(_names(found)))
    estimator.save(out)
    shown = estimator.model_ if isinstance(estimator, PartsImputer) else estimator
    content = _content(shown, found, seconds, out, bool(stopped))
    if report is not None and not stopped:
        with busy(f"Writing {report}"), nameless():
            from partwise.report import write_report

            title = f"Parts of {data.name}"
            rows = found.X if getattr(found.X, "frames", None) is None else None
            names = None if rows is None or found.image_shape is not None else found.row_labels
            write_report(
                estimator, report, rows, found.image_shape, title, out.name, row_names=names
            )
        content["report"] = str(report)
    if as_json:
        say(json.dumps(content, indent=1, allow_nan=False, default=str))
    else:
        _print_summary(content)
    if stopped:
        fail(f"Stopped early: the best model so far is in {out}.", 130)


def _number(text: str | None, name: str) -> int | str | None:
    """Read a size: a number, auto, or None."""
    if text is None or text == "auto":
        return text
    if not text.isdecimal() or int(text) < 1:
        fail(f"Error: {name} {text!r} is neither a positive integer nor auto.", 2)
    return int(text)


def _check_kinds(likelihood: str, kinds: dict[str, str]) -> None:
    """Refuse unknown likelihoods and kinds of columns, with a suggestion."""
    from partwise.data.table import KINDS
    from partwise.likelihoods import LAWS

    check_choice(likelihood, ["auto", *LAWS], "--likelihood")
    for name, kind in kinds.items():
        check_choice(kind, ["auto", *KINDS], f"--kind {name}:")


def _chosen(X: Rows, columns: str | None, ignore: str | None) -> Rows:
    """The table with some of its columns."""
    if columns is None and ignore is None:
        return X
    import polars as pl

    if not isinstance(X, pl.DataFrame):
        fail("Error: --columns and --ignore need a table whose columns have names.", 2)
    asked = [] if columns is None else columns.split(",")
    without = [] if ignore is None else ignore.split(",")
    check_names(asked + without, X.columns)
    kept = [name for name in asked or X.columns if name not in without]
    return X.select(kept) if kept else fail("Error: no column is left to fit.", 2)


def _names(found: Data) -> list[str]:
    """Names of the columns of a table; none of other rows."""
    source = getattr(found.X, "frames", None)
    return list(map(str, getattr(found.X, "columns", () if source is None else source.names)))


def _is_mixed(found: Data) -> bool:
    """Whether a table has columns other than numbers."""
    import polars as pl

    frames = getattr(found.X, "frames", None)
    first = found.X if frames is None else frames.read(0)
    return isinstance(first, pl.DataFrame) and not all(kind.is_numeric() for kind in first.dtypes)


def _estimator(
    model: str,
    sizes: list[int | str | None],
    likelihood: str,
    kinds: dict[str, str],
    found: Data,
    seed: int,
    max_time: float,
) -> MCVQ | MCFA | PartsImputer:
    """The estimator for the options; the likelihood of sparse data is printed."""
    from scipy import sparse

    from partwise import MCFA, MCVQ, PartsImputer

    common: _Common = {"random_state": seed, "max_time": max_time}
    law = likelihood
    if kinds and (not _names(found) or likelihood != "auto"):
        fail("Error: --kind needs columns with names, and --likelihood auto.", 2)
    n_parts, each = (size or "auto" for size in sizes)
    if model == "imputer":
        return PartsImputer(n_parts, each, likelihood=kinds or law, random_state=seed)
    if model == "mcfa":
        numbers = likelihood == "auto" and not _is_mixed(found)
        law = "gaussian" if numbers else likelihood
        return MCFA(n_parts, each, likelihood=kinds or law, **common)
    absent = "auto"
    if likelihood == "auto" and sparse.issparse(found.X):
        from partwise.files.arrays import likelihood_of_sparse

        law, absent = likelihood_of_sparse(found.X)
        zero = "zero" if absent == "zero" else "missing"
        complain(
            f"The likelihood is {law}, and absent entries are {zero}; --likelihood sets another."
        )
    elif likelihood == "auto" and found.image_shape is not None:
        law = "gaussian"
    return MCVQ(n_parts, each, likelihood=kinds or law, sparse_absent=absent, **common)


class _Common(TypedDict):
    random_state: int
    max_time: float


def _print_sample(estimator: MCVQ | MCFA | PartsImputer, X: Rows) -> None:
    """Print on how many rows sizes were selected, if not on all."""
    from partwise import SizeOptions

    n_rows, n_cells = X.shape[0], getattr(X, "nnz", None) or X.shape[0] * X.shape[1]
    n = (estimator.sizes or SizeOptions()).sample_rows(n_rows, n_cells)
    if n < n_rows and hasattr(estimator, "size_path_"):
        complain(f"Sizes were selected on {n:,} of the rows.")


@contextmanager
def _ending_on_interrupt(estimator: BaseEstimator) -> Iterator[list[int]]:
    """Let the first Ctrl-C end the fit and the second abort; yields a list of the first signal."""
    stopped: list[int] = []

    def on_interrupt(number: int, _: FrameType | None) -> None:
        if stopped:
            raise KeyboardInterrupt
        stopped.append(number)
        estimator.stop()

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, before)


# --- the summary ---


class _Column(TypedDict):
    name: str
    kind: str
    part: int


class _State(TypedDict):
    state: int
    share: float
    profile: str


class _Group(TypedDict):
    states: list[int]
    share: float
    profile: str


class _Class(TypedDict):
    label: str
    share: float
    profile: str


class _Part(TypedDict, total=False):
    part: int
    columns: list[str]
    states: int
    factors: int
    described: list[_State]
    groups: list[_Group]


class _Content(TypedDict, total=False):
    rows: int
    near_duplicates: list[dict[str, str | float]]
    rows_learned_from: int
    is_image: bool
    columns: list[_Column]
    parts: list[_Part]
    classes: list[_Class]
    lower_bound: float
    converged: bool
    stopped: bool
    seconds: float
    model: str
    report: str


def _content(model: MCVQ | MCFA, found: Data, seconds: float, out: Path, stopped: bool) -> _Content:
    """The summary of a fit as plain values; the keys of ``--json``."""
    n_columns = int(found.X.shape[1])
    from partwise.fitted import feature_names

    parts = [int(k) for k in model.parts_]
    names = feature_names(model, n_columns)
    kinds = [str(kind) for kind in getattr(model, "kinds_", [model.likelihood] * n_columns)]
    has_states = hasattr(model, "n_states_")
    sizes = [int(n) for n in (model.n_states_ if has_states else model.n_factors_)]
    summary = None if found.image_shape is not None else _summary(model)
    described, groups = _described(summary)
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
                **({"states": size} if has_states else {"factors": size}),
                "described": described.get(f"part{k}", []),
                "groups": groups.get(f"part{k}", []),
            }
            for k, size in enumerate(sizes)
        ],
        "classes": _classes(model, summary),
        "near_duplicates": _near_duplicates(model),
        "lower_bound": float(model.lower_bound_),
        "converged": bool(model.converged_),
        "stopped": stopped,
        "seconds": round(seconds, 3),
        "model": str(out),
    }


def _near_duplicates(model: MCVQ | MCFA) -> list[dict[str, str | float]]:
    """Columns that are nearly copies of others."""
    from partwise.fitted import schema_of

    schema = schema_of(model)
    if schema is None:
        return []
    return [
        {"column": str(one.name), "other": str(schema.names[one.twin.leader]),
         "strength": one.twin.strength}
        for one in schema.columns
        if one.twin is not None
    ]  # fmt: skip


def _summary(model: MCVQ | MCFA) -> Summary | None:
    """Descriptions of states and classes, None if there are none or too many columns."""
    if not hasattr(model, "summary") or model.n_features_in_ > _MAX_PROFILED:
        return None
    return cast("Summary", model.summary())


def _classes(model: MCVQ | MCFA, found: Summary | None) -> list[_Class]:
    """Classes of rows with their shares, described where states are."""
    labels = getattr(model, "classes_", ())
    words = [""] * len(labels) if found is None else [one.profile for one in found.classes]
    shares = getattr(model, "class_priors_", ())
    return [
        {"label": str(label), "share": float(share), "profile": profile}
        for label, share, profile in zip(labels, shares, words, strict=True)
    ]


def _described(
    found: Summary | None,
) -> tuple[dict[str, list[_State]], dict[str, list[_Group]]]:
    """Descriptions of the states, and of groups where there are many, by the name of their part."""
    if found is None:
        return {}, {}
    groups: dict[str, list[_Group]] = {}
    for group in found.groups:
        groups.setdefault(group.part, []).append(
            {"states": list(group.states), "share": group.share, "profile": group.profile}
        )
    table = cast("Mapping[str, Iterable[str]]", found)  # columns by name, of any table
    out: dict[str, list[_State]] = {}
    for part, state, share, words in zip(
        *(table[name] for name in ("part", "state", "share", "profile")), strict=True
    ):
        described: _State = {"state": int(state), "share": float(share), "profile": words}
        out.setdefault(part, []).append(described)
    return out, groups


def _print_summary(content: _Content) -> None:
    """Print the summary of a fit."""
    noun = "pixel" if content["is_image"] else "column"
    kinds: dict[str, list[str]] = {}
    for column in content["columns"]:
        kinds.setdefault(column["kind"], []).append(column["name"])
    left_out = kinds.pop("ignored", [])
    for kind, names in kinds.items():
        listed = "" if content["is_image"] else f": {', '.join(names)}"
        say(f"{plural(len(names), noun)} modeled as {kind}{listed}.")
    if left_out:
        say(f"{plural(len(left_out), noun)} left out of the model: {', '.join(left_out)}.")
    of = f"{plural(content['rows_learned_from'], 'row')} in {content['seconds']:.1f} s"
    say(f"\nFitted to {of}: {plural(len(content['parts']), 'part')}.")
    for part in content["parts"]:
        size = part.get("states")
        sized = plural(part["factors"], "factor") if size is None else plural(size, "state")
        names = part["columns"]
        if not names:
            say(f"\nPart {part['part']} has no {noun}s.")
            continue
        shown = "" if content["is_image"] else f": {first_few(names, _SHOWN_COLUMNS)}"
        say(f"\nPart {part['part']}, {sized}, {plural(len(names), noun)}{shown}")
        states = [(str(one["state"]), one["share"], one["profile"]) for one in part["described"]]
        groups = [
            (", ".join(map(str, one["states"])), one["share"], one["profile"])
            for one in part["groups"]
        ]
        _print_states(groups or states)
    rest = [
        column["name"]
        for column in content["columns"]
        if column["part"] < 0 and column["kind"] != "ignored"
    ]
    if rest:
        listed = "" if content["is_image"] else f": {first_few(rest, _SHOWN_COLUMNS)}"
        say(f"\nBackground, {plural(len(rest), noun)}{listed}")
    if content["classes"]:
        n_classes = len(content["classes"])
        say(f"\n{n_classes} class{'es' * (n_classes != 1)} of rows")
        _print_states([(one["label"], one["share"], one["profile"]) for one in content["classes"]],
                      "class")  # fmt: skip
    if content["near_duplicates"]:
        say("")
    for one in content["near_duplicates"]:
        say(f"Column {one['column']} is nearly a copy of {one['other']} ({one['strength']:.3f}).")
    say(f"\nWrote {content['model']}.")
    if "report" in content:
        say(f"Wrote {content['report']}: open it in a browser.")


def _print_states(states: Sequence[tuple[str, float, str]], what: str = "state") -> None:
    """Print states, groups of them or classes: name, share of the rows, profile."""
    from rich.table import Table
    from rich.text import Text

    if not states:
        return
    table = Table(what, "rows", "profile", box=None, pad_edge=True)
    for name, share, profile in states:
        table.add_row(name, f"{100 * share:.0f} %", Text(profile))
    print_table(table)
