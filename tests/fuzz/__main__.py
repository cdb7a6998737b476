"""Run campaigns of mutated files, and print what came out of them.

python -m tests.fuzz                          # all kinds, 1,000 cases each
python -m tests.fuzz csv parquet --cases 20000 --seed 1 --json counts.json
python -m tests.fuzz csv --seed 1 --case 4711 # one case again, with its traceback
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from partwise.cli.console import print_table
from tests.fuzz.harness import BAD, Kind, Tally, again, find_kinds, run

_LONGEST_LINE = 200


def main(kinds: Mapping[str, Kind] | None = None) -> int:
    """Run what was asked for, of all kinds of this folder; the exit code is 1 if a case was bad."""
    kinds = find_kinds() if kinds is None else kinds
    parser = argparse.ArgumentParser(
        "python -m tests.fuzz", description="Use mutated files; each works or gives a clear error."
    )
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(kinds)}")
    parser.add_argument("--cases", type=int, default=1000, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="do this one again, here")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--minutes", type=float, help="at most, for each kind")
    parser.add_argument("--json", type=Path, help="write the counts to this file, too")
    parser.add_argument("--keep", type=Path, help="folder for the contents of bad cases")
    asked = parser.parse_args()
    for name in asked.kinds:
        if name not in kinds:
            parser.error(f"there is no kind {name!r}; there are {', '.join(kinds)}.")
    chosen = [kinds[name] for name in asked.kinds or kinds]
    if asked.case is not None:
        for kind in chosen:
            path = Path(tempfile.mkdtemp(prefix="partwise-fuzz-")) / f"case{kind.suffix}"
            outcome = again(kind, asked.seed, asked.case, path)
            print(f"{kind.name}: {outcome.verdict} in {outcome.seconds:.3f} s: {path}")
            print(outcome.told)
        return 0
    keep = asked.keep or Path(tempfile.mkdtemp(prefix="partwise-fuzz-bad-"))
    progress = Console(stderr=True)
    tallies = []
    for kind in chosen:
        with progress.status(kind.name) as status:
            tally = run(
                kind,
                asked.cases,
                asked.seed,
                workers=asked.workers,
                seconds=None if asked.minutes is None else 60 * asked.minutes,
                keep=keep,
                tell=lambda tally: status.update(f"{tally.kind}: {dict(tally.counts)}"),
            )
        tallies.append(tally)
        for outcome in tally.bad[:20]:
            again_by = f"python -m tests.fuzz '{kind.name}' --seed {asked.seed} --case"
            progress.print(f"{outcome.verdict}: {again_by} {outcome.number}", markup=False)
            told = outcome.told.strip().splitlines()[-1:] or [""]
            progress.print(f"  {told[0][:_LONGEST_LINE]}", markup=False, soft_wrap=True)
        if asked.json is not None:
            asked.json.write_text(json.dumps([_plain(one) for one in tallies], indent=1) + "\n")
    print_table(_table(tallies))
    if any(tally.bad for tally in tallies):
        progress.print(f"Contents of bad cases: {keep}", markup=False)
    return int(any(tally.bad for tally in tallies))


def _table(tallies: list[Tally]) -> Table:
    table = Table()
    for name in ("kind", "cases", "worked", "clear error", *BAD, "ms per case"):
        table.add_column(name, justify="left" if name == "kind" else "right")
    for tally in tallies:
        counts = [tally.counts[verdict] for verdict in ("worked", "refused", *BAD)]
        pace = 1000 * tally.seconds / max(tally.cases, 1)
        cells = [f"{number:,}" for number in (tally.cases, *counts)]
        table.add_row(tally.kind, *cells, f"{pace:.1f}")
    return table


def _plain(tally: Tally) -> dict[str, object]:
    return {
        "kind": tally.kind,
        "seed": tally.seed,
        "cases": tally.cases,
        **{verdict: tally.counts[verdict] for verdict in ("worked", "refused", *BAD)},
        "seconds": round(tally.seconds, 1),
        "clear errors": dict(tally.said.most_common(100)),
        "bad": [dataclasses.asdict(outcome) for outcome in tally.bad],
    }


if __name__ == "__main__":
    sys.exit(main())
