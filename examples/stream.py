"""
Learn from a stream
===================

Learn from a stream and hand new versions to a running service.

Every batch of rows (a parquet or CSV file in the folder INBOX) is learned once, by ``partial_fit``.
The model file is the checkpoint: it is saved after every batch, atomically, so a killed process
continues after the last saved batch, and ``partwise serve MODEL`` loads each new version while it
answers. The names of learned batches are kept next to it. Run from cron or in a loop:

    python examples/stream.py model.safetensors inbox/
    partwise serve model.safetensors
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import polars as pl

import partwise
from partwise import MCVQ, StreamingOptions


def learn(model_file: Path, inbox: Path) -> int:
    """Learn the batches that are new; how many there were."""
    ledger = model_file.with_suffix(".batches.json")
    learned: list[str] = json.loads(ledger.read_text()) if ledger.exists() else []
    if model_file.exists():
        model = partwise.load(model_file)
    else:
        # The first batch is fitted whole; old rows count half after 50,000 new ones.
        streaming = StreamingOptions(warm_up=0, half_life=50_000)
        model = MCVQ(2, 4, likelihood="auto", streaming=streaming, random_state=0)
    new = sorted(path for path in inbox.iterdir() if path.name not in learned)
    for path in new:
        rows = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path)
        model.partial_fit(rows)
        # The model first: a kill between the two writes learns one batch twice and loses none.
        model.save(model_file)
        learned.append(path.name)
        beside = ledger.with_suffix(".new")
        beside.write_text(json.dumps(learned))
        os.replace(beside, ledger)
    return len(new)


if __name__ == "__main__":
    print(learn(Path(sys.argv[1]), Path(sys.argv[2])), "new batches learned")
