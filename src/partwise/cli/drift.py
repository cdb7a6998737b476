"""``partwise drift``: whether new rows still look like the rows of the fit."""

from __future__ import annotations

from typing import Annotated

import typer

from partwise._text import plural
from partwise.cli.console import busy, complain, nameless, say
from partwise.cli.tables import (
    Model,
    Out,
    Reading,
    Table,
    check_out,
    give,
    load_for,
    read_like,
    reads_tables,
)

# Exit code when rows differ, for cron and pipelines.
DRIFTED = 3


@reads_tables
def drift(
    model: Model,
    data: Table,
    alpha: Annotated[
        float,
        typer.Option("--alpha", min=1e-12, max=0.5, help="Probability of any false alarm."),
    ] = 0.01,
    every: Annotated[
        bool, typer.Option("--all", help="List all columns and parts, not only those that differ.")
    ] = False,
    out: Out = None,
    *,
    reading: Reading,
) -> None:
    """Test whether new rows differ from the rows that a model was fitted to.

    Exit codes: 0 no difference, 3 some column or part differs, 1 a problem with a file, 2 wrong
    arguments. Distance is the fraction of rows that would have to change for the same distribution.

    Examples:

      partwise drift survey.safetensors today.csv

      partwise drift survey.safetensors today.csv --all -o drift.csv
    """
    check_out(out, model, data)
    fitted = load_for(model, "anomaly_scores", "be compared with new rows")
    with busy(f"Reading {data}"):
        _, X = read_like(fitted, data, reading)
    from partwise import drift as compared

    with nameless():
        found = compared(fitted, X, alpha=alpha)
    n, total = len(found.drifted), len(found.names)
    rows = plural(found.n_rows, "row")
    complain(f"{rows}: {n} of {total} columns and parts differ (alpha {alpha:g}).")
    table = found.to_frame()
    table = table if every else table.filter(table["drifted"])
    if len(table) or out is not None:
        give(table.drop("p_value"), out)
    else:
        say("No difference.")
    if n:
        raise typer.Exit(DRIFTED)
