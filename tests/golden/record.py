"""Record what golden fits and model files answer: ``python -m tests.golden.record [NAME ...]``.

With names, only these fits are recorded. ``--models`` stores a new generation of model files beside
the old ones, which are never written again. README.md says when either is legitimate.
"""

from __future__ import annotations

import argparse

from tests.golden.cases import FITS, FITTED, MODELS, STORED, answers_of_file
from tests.golden.data import draw_missing
from tests.golden.store import write


def record_models(names: list[str]) -> None:
    """Store models as the library writes them now, with their answers, in a folder of their own."""
    last = max((int(folder.name) for folder in MODELS.glob("*")), default=0)
    for name in names or STORED:
        path = MODELS / str(last + 1) / f"{name}.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        STORED[name].fit().save(path)
        write(path.with_suffix(".npz"), answers_of_file(path))


def record_fits(names: list[str]) -> None:
    """Record the answers of fits anew."""
    for name in names or FITTED:
        if FITTED[name].same_as is None:
            write(FITS / f"{name}.npz", FITTED[name].answers())


def main() -> None:
    """Read the arguments and record."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden.record", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="fits, or models; all by default")
    parser.add_argument("--models", action="store_true", help="add a generation of model files")
    arguments = parser.parse_args()
    known = STORED if arguments.models else FITTED
    if unknown := set(arguments.names) - known.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    draw_missing()
    (record_models if arguments.models else record_fits)(arguments.names)


if __name__ == "__main__":
    main()
