"""Files of results, mutated, and read as ``--from`` reads them: ``python -m tests_papers.fuzz``."""

from __future__ import annotations

import copy
import json
import random
import sys
from collections.abc import Mapping
from pathlib import Path

from partwise_papers.pages import results_pages
from partwise_papers.results_file import KINDS as OF_RESULTS
from partwise_papers.results_file import new_content, read_results, write_results
from tests.fuzz.__main__ import main
from tests.fuzz.harness import Content, Kind, mutate_bytes
from tests.fuzz.models import mutate_header


def _seeds(folder: Path) -> None:
    docs = Path(__file__).parents[1] / "docs"
    for kind, name in zip(OF_RESULTS, ("results.json", "benchmarks.json"), strict=True):
        content = json.loads((docs / name).read_text("utf-8"))
        content["results"] = content["results"][:4]
        (folder / kind).write_text(json.dumps(content))


def _mutate(rng: random.Random, seeds: Mapping[str, Content]) -> Content:
    seed = seeds[rng.choice(sorted(seeds))]
    assert isinstance(seed, bytes)
    if rng.random() < 0.3:
        return mutate_bytes(rng, seed)
    content = copy.deepcopy(json.loads(seed))
    for _ in range(rng.choice((1, 1, 2, 5))):
        mutate_header(rng, {"state": content})
    return json.dumps(content).encode()


def _use(path: Path) -> None:
    kind = OF_RESULTS[b'"benchmark"' in path.read_bytes()]
    content = new_content(kind, read_results(path, kind))
    results_pages(content)
    write_results(path.with_suffix(".again"), content)
    assert read_results(path.with_suffix(".again"), kind) == content["results"]


def _is_clear(error: BaseException) -> bool:
    message = str(error)
    return message.endswith(".") and "\n" not in message and len(message) < 300


KINDS = [Kind("results", _seeds, _mutate, _use, clear=_is_clear)]

if __name__ == "__main__":
    # Workers look kinds up by the name of their module, which must not be __main__.
    from tests_papers.fuzz import KINDS as FOUND

    sys.exit(main({kind.name: kind for kind in FOUND}))
