"""What came of a run: its rows with spreads, the paper's numbers and ours, time and pictures.

A result is a plain dict that JSON can hold. All results have the same keys, see `RESULT_KEYS`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from partwise.datasets import MissingDataError
from partwise_papers.registry import Paper, Registry, Row, Setting

RESULT_KEYS = (
    "name", "description", "source", "did", "differs", "why", "needs", "fast", "status", "error",
    "seconds", "cpu_seconds", "rows", "comparisons", "pictures",
)  # fmt: skip

COMPARISON_KEYS = (
    "row", "measure", "better", "paper", "ours", "least", "most", "runs", "verdict",
)  # fmt: skip


def carry_out(
    registry: Registry, name: str, setting: Setting, *, raise_errors: bool = False
) -> dict[str, Any]:
    """Run an entry.

    Parameters
    ----------
    registry : Registry
    name : str
    setting : Setting
    raise_errors : bool, default=False
        Whether an error is raised; otherwise it becomes part of the result.

    Returns
    -------
    result : dict
        ``status`` is "done", "absent" (a data set is) or "failed".
    """
    paper = registry.paper(name)
    result: dict[str, Any] = dict.fromkeys(RESULT_KEYS)
    result |= described(registry, name) | {"fast": setting.fast}
    rows: list[Row] = []
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        rows = registry[name](setting)
        result["status"] = "done"
    except MissingDataError as error:
        result |= {"status": "absent", "error": str(error)}
    except Exception as error:  # one failing run must not stop the others
        if raise_errors:
            raise
        sentence = f"{type(error).__name__}: {' '.join(str(error).split())}"
        result |= {"status": "failed", "error": sentence}
    result["seconds"] = round(time.perf_counter() - wall, 3)
    result["cpu_seconds"] = round(time.process_time() - cpu, 3)
    result["comparisons"] = [] if paper is None else compare(paper, rows)
    result["rows"] = [summarize(row) for row in rows]
    result["pictures"] = setting.pictures
    return result


def described(registry: Registry, name: str) -> dict[str, Any]:
    """Keys of a result that describe the entry and do not depend on a run."""
    paper = registry.paper(name) or Paper(source="", did="")
    texts = {key: getattr(paper, key) for key in ("source", "did", "differs", "why")}
    needs = list(paper.needs)
    return {"name": name, "description": registry.describe(name), **texts, "needs": needs}


def summarize(row: Row) -> Row:
    """Put mean, least and most in place of several numbers, and Python's numbers for numpy's."""
    flat: Row = {}
    for name, value in row.items():
        if _is_number(value) or isinstance(value, str) or value is None:
            flat[name] = _plain(value)
            continue
        found = np.asarray(value, dtype=float)
        flat[name] = float(found.mean())
        if len(found) > 1:
            flat |= {f"{name} least": float(found.min()), f"{name} most": float(found.max())}
    return flat


def compare(paper: Paper, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Compare every number of a paper with ours; a number of which we have none says so.

    Parameters
    ----------
    paper : Paper
    rows : sequence of dict

    Returns
    -------
    comparisons : list of dict
        With the keys `COMPARISON_KEYS`. ``verdict`` is "better", "equal" (to the digits printed),
        "worse", "other" (where the aim is the paper's number) or "not measured".
    """
    ours = {", ".join(str(row[key]) for key in paper.key if key in row): row for row in rows}
    found = []
    for measure, figures in paper.figures.items():
        for label, printed in figures.items():
            value = ours.get(label, {}).get(measure)
            one = dict.fromkeys(COMPARISON_KEYS)
            one |= {"row": label, "measure": measure, "better": paper.better[measure]}
            one |= {"paper": printed, "verdict": "not measured"}
            if value is not None:
                numbers = np.atleast_1d(np.asarray(value, dtype=float))
                mean = float(numbers.mean())
                one |= {"ours": mean, "least": float(numbers.min()), "most": float(numbers.max())}
                one |= {
                    "runs": len(numbers),
                    "verdict": judge(printed, mean, paper.better[measure]),
                }
            found.append(one)
    return found


def judge(printed: str, ours: float, better: str) -> str:
    """Say whether our number is better than one in print.

    Examples
    --------
    >>> from partwise_papers.outcome import judge
    >>> judge("0.21", 0.2149, "lower"), judge("0.21", 0.2151, "lower"), judge("3", 4.0, "same")
    ('equal', 'worse', 'other')
    """
    mantissa, _, exponent = printed.lower().partition("e")
    digits = len(mantissa.partition(".")[2]) - int(exponent or 0)
    if round(ours, digits) == round(float(printed), digits):
        return "equal"
    if better == "same":
        return "other"
    return "better" if (ours > float(printed)) == (better == "higher") else "worse"


def compact(rows: Sequence[Row], comparisons: Sequence[Mapping[str, Any]] = ()) -> list[Row]:
    """Rows to print: spreads in the cells of their means, with the paper's numbers.

    Parameters
    ----------
    rows : sequence of dict
        As `summarize` gives them.
    comparisons : sequence of dict, default=()
        As `compare` gives them; each is put into the row that has our number.

    Returns
    -------
    rows : list of dict
    """
    told = {(one["measure"], one["ours"]): one for one in comparisons if one["ours"] is not None}
    several = len({one["measure"] for one in comparisons}) > 1
    wide = []
    for row in rows:
        full: Row = {}
        for name, value in row.items():
            if any(name == f"{base} {end}" for base in row for end in ("least", "most")):
                continue
            full[name] = number(value)
            if {f"{name} least", f"{name} most"} <= row.keys():
                ends = (number(row[f"{name} {end}"]) for end in ("least", "most"))
                full[name] += " ({} to {})".format(*ends)
            one = told.get((name, value))
            if one is not None:
                of = f" {name}" if several else ""
                full |= {f"paper{of}": one["paper"], f"ours is{of}": one["verdict"]}
        wide.append(full)
    return wide


def number(value: Any) -> str:
    """Write a value of a row: few digits, large numbers without an exponent."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.1f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number | np.bool_) or getattr(value, "ndim", 1) == 0


def _plain(value: Any) -> Any:
    """Turn numbers of numpy into Python's."""
    return value.item() if hasattr(value, "item") else value
