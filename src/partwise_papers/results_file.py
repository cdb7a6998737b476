"""Files of results: what ``--json`` writes and ``--from`` reads, checked before it is used."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from partwise import __version__

_NUMBER = (int, float)
_CELL = (str, int, float, bool, type(None))
_PICTURE = {"file": (str,), "caption": (str,), "free": (bool,)}
_COMPARISON = {
    **dict.fromkeys(("row", "measure", "better", "paper", "verdict"), (str,)),
    **dict.fromkeys(("ours", "least", "most"), (*_NUMBER, type(None))),
    "runs": (int, type(None)),
}
_CLAIM: dict[str, tuple[type, ...]] = dict.fromkeys(("claim", "verdict", "shows"), (str,))
# Keys of a result, and the types of their values.
RESULT = {
    **dict.fromkeys(("name", "description", "source", "did", "differs", "why", "status"), (str,)),
    **dict.fromkeys(("version", "date"), (str,)),
    **dict.fromkeys(("needs", "rows", "comparisons", "claims", "pictures"), (list,)),
    **dict.fromkeys(("seconds", "cpu_seconds"), _NUMBER),
    **dict.fromkeys(("fast", "stand_in"), (bool,)),
    "error": (str, type(None)),
}
_HEADER = {**dict.fromkeys(("version", "kind", "python", "numpy", "machine"), (str,))}
KINDS = ("experiment", "benchmark")
_STATUSES = ("done", "absent", "failed")


def new_content(kind: str, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Results, and the versions and machine they were measured with."""
    import numpy as np

    return {
        "version": __version__,
        "kind": kind,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "results": finite(results),
    }


def write_results(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file of results, atomically."""
    from partwise.files.atomic import write_atomically

    text = json.dumps(content, indent=1, allow_nan=False, default=str) + "\n"
    write_atomically(path, text.encode())


def read_results(path: Path, kind: str) -> list[dict[str, Any]]:
    """Read and check a file of results.

    Parameters
    ----------
    path : Path
    kind : {"experiment", "benchmark"}

    Returns
    -------
    results : list of dict
        Each with the keys of `RESULT`.

    Raises
    ------
    ValueError
        If the file is not one of results of this kind. The message is one sentence.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is not a file of results: it is not JSON.") from None
    if not isinstance(content, dict) or not isinstance(content.get("results"), list):
        raise ValueError(f"{path} contains no results; give a file that --json wrote.")
    where = f"{path} is damaged: "
    _check_keys(content, _HEADER, where + "the header")
    if content["kind"] != kind:
        other = (
            f"of {content['kind']}s, not" if content["kind"] in KINDS else "of nothing known, not"
        )
        raise ValueError(f"{path} contains results {other} of {kind}s.")
    later = {"version": content["version"], "date": "", "stand_in": False, "claims": []}
    results = [
        later | one if isinstance(one, dict) else one  # files of before these keys
        for one in content["results"]
    ]
    for i, result in enumerate(results):
        _check_result(result, f"{where}result {i}")
    return results


def _check_result(result: Any, where: str) -> None:
    _check_keys(result, RESULT, where)
    if result["status"] not in _STATUSES:
        raise ValueError(f"{where} has a status other than {', '.join(_STATUSES)}.")
    for key in ("seconds", "cpu_seconds"):
        if not math.isfinite(_as_float(result[key])):
            raise ValueError(f"{where} has no finite number of {key}.")
    if any(not isinstance(name, str) for name in result["needs"]):
        raise ValueError(f"{where} needs data sets that are not named by text.")
    for row in result["rows"]:
        values = row.values() if isinstance(row, dict) else [row]
        if not isinstance(row, dict) or any(type(value) not in _CELL for value in values):
            raise ValueError(f"{where} has a row with values other than numbers and text.")
    lists = (("comparisons", _COMPARISON), ("claims", _CLAIM), ("pictures", _PICTURE))
    for key, expected in lists:
        for one in result[key]:
            _check_keys(one, expected, f"{where}, in its {key},")
    if any(one["ours"] is not None and one["runs"] is None for one in result["comparisons"]):
        raise ValueError(f"{where} has a number in its comparisons without its count of runs.")


def _check_keys(found: Any, expected: Mapping[str, tuple[type, ...]], where: str) -> None:
    """Refuse a mapping that lacks a key or has a value of another type."""
    if not isinstance(found, dict):
        raise ValueError(f"{where} is not a mapping of names to values.")
    for key, types in expected.items():
        if key not in found:
            raise ValueError(f"{where} has no {key!r}.")
        if type(found[key]) not in types:
            wanted = " or ".join(one.__name__.replace("NoneType", "null") for one in types)
            raise ValueError(f"{where} has a value of {key!r} that is not {wanted}.")


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer beyond the largest float
        return math.inf


def finite(value: Any) -> Any:
    """Replace NaN and infinities, which JSON lacks, by None, at any depth."""
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
