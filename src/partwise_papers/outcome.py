"""What came of a run: its rows with spreads, the paper's numbers and ours, time and pictures.

A result is a plain dict that JSON can hold. All results have the same keys, see `RESULT_KEYS`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from partwise import __version__
from partwise.datasets import MissingDataError
from partwise_papers.registry import Claim, Paper, Registry, Row, Setting, label_of

RESULT_KEYS = (
    "name", "description", "source", "did", "differs", "why", "needs", "fast", "status", "error",
    "seconds", "cpu_seconds", "version", "date", "stand_in", "rows", "comparisons", "claims",
    "pictures",
)  # fmt: skip

COMPARISON_KEYS = (
    "row", "measure", "better", "paper", "ours", "least", "most", "runs", "verdict",
)  # fmt: skip

CLAIM_KEYS = ("claim", "verdict", "shows")

# Verdicts on numbers, and on claims.
VERDICTS = ("better", "equal", "within spread", "worse", "other", "not measured")
HOLDS = ("holds", "does not hold", "cannot be tested here", "not measured")


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
    result |= described(registry, name) | {"fast": setting.fast, "version": __version__}
    result["date"] = datetime.now(UTC).date().isoformat()
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
    result["stand_in"] = bool(paper and paper.stand_in and paper.stand_in())
    result["comparisons"] = [] if paper is None else compare(paper, rows)
    result["rows"] = [summarize(row) for row in rows]
    result["pictures"] = setting.pictures
    return judged(registry, name, result)


def judged(registry: Registry, name: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """Describe and judge a result as the entry is described now, whenever it was measured.

    Parameters
    ----------
    registry : Registry
    name : str
    result : mapping
        Its rows, and the numbers of its comparisons, stay as they are.

    Returns
    -------
    result : dict
    """
    paper = registry.paper(name)
    stand_in = bool(result["stand_in"])
    comparisons = [
        one | {"verdict": judge(one["paper"], one, one["better"], stand_in=stand_in)}
        for one in result["comparisons"]
    ]
    claims = [] if paper is None else weigh(paper, result["rows"], stand_in=stand_in)
    return {**result, **described(registry, name), "comparisons": comparisons, "claims": claims}


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
        With the keys `COMPARISON_KEYS`; for ``verdict``, see `judge`.
    """
    ours = {label_of(row, paper.key): row for row in rows}
    found = []
    for measure, figures in paper.figures.items():
        for label, printed in figures.items():
            value = ours.get(label, {}).get(measure)
            one: dict[str, Any] = dict.fromkeys(COMPARISON_KEYS)
            one |= {"row": label, "measure": measure, "better": paper.better[measure]}
            one["paper"] = printed
            if value is not None:
                numbers = np.atleast_1d(np.asarray(value, dtype=float))
                one |= {"ours": float(numbers.mean()), "runs": len(numbers)}
                one |= {"least": float(numbers.min()), "most": float(numbers.max())}
            found.append(one | {"verdict": judge(printed, one, paper.better[measure])})
    return found


def judge(printed: str, ours: Mapping[str, Any], better: str, *, stand_in: bool = False) -> str:
    """Compare our number with one in print.

    Parameters
    ----------
    printed : str
        The paper's number.
    ours : mapping
        ``ours``, the mean; ``least`` and ``most`` of the runs.
    better : {"higher", "lower", "same"}
    stand_in : bool, default=False
        Whether our data stand in for data that is not here, where nothing can be better.

    Returns
    -------
    verdict : str
        "equal" (to the digits printed), "within spread" (the paper's number lies between our
        least and our most), "better", "worse", "other" (neither, since the aim is the
        paper's number, or since a stand-in may be easier), or "not measured".

    Examples
    --------
    >>> from partwise_papers.outcome import judge
    >>> one = {"ours": 0.2151, "least": 0.2140, "most": 0.2162}
    >>> judge("0.21", one, "lower"), judge("0.215", one, "lower"), judge("3", {"ours": 4.0}, "same")
    ('worse', 'equal', 'other')
    >>> judge("0.2141", one, "lower")
    'within spread'
    """
    mean = ours["ours"]
    if mean is None:
        return "not measured"
    mantissa, _, exponent = printed.lower().partition("e")
    digits = len(mantissa.partition(".")[2]) - int(exponent or 0)
    if round(mean, digits) == round(float(printed), digits):
        return "equal"
    if ours.get("least", mean) <= float(printed) <= ours.get("most", mean):
        return "within spread"
    if better == "same":
        return "other"
    if (mean > float(printed)) != (better == "higher"):
        return "worse"
    return "other" if stand_in else "better"


def weigh(paper: Paper, rows: Sequence[Row], *, stand_in: bool = False) -> list[dict[str, Any]]:
    """Test the claims of a paper that come without a number.

    Parameters
    ----------
    paper : Paper
    rows : sequence of dict
        As `summarize` gives them.
    stand_in : bool, default=False
        Whether our data stand in for data that is not here: they show something, but not whether
        the claim holds.

    Returns
    -------
    claims : list of dict
        With the keys `CLAIM_KEYS`. ``verdict`` is "holds", "does not hold", "cannot be tested
        here", or "not measured" where a row is missing.
    """
    return [_weighed(claim, rows, stand_in=stand_in) for claim in paper.claims]


def _weighed(claim: Claim, rows: Sequence[Row], *, stand_in: bool) -> dict[str, Any]:
    if claim.test is None:
        return _claim(claim, "cannot be tested here", claim.untested)
    try:
        holds, shows = claim.test(rows)
    except (LookupError, StopIteration, TypeError, ValueError):  # rows that are not there or other
        return _claim(claim, "not measured", "")
    if stand_in and not claim.on_stand_in:
        told = "On synthetic data it does" if holds else "On synthetic data it does not"
        return _claim(claim, "cannot be tested here", f"{told}: {shows}")
    return _claim(claim, "holds" if holds else "does not hold", shows)


def _claim(claim: Claim, verdict: str, shows: str) -> dict[str, Any]:
    return dict(zip(CLAIM_KEYS, (claim.says, verdict, shows), strict=True))


def compact(rows: Sequence[Row], comparisons: Sequence[Mapping[str, Any]] = ()) -> list[Row]:
    """Rows to print: spreads in the cells of their means, with the paper's numbers.

    Parameters
    ----------
    rows : sequence of dict
        As `summarize` gives them.
    comparisons : sequence of dict, default=()
        As `compare` gives them; each is put into the row of its name that has our number.

    Returns
    -------
    rows : list of dict
    """
    told = [one for one in comparisons if one["ours"] is not None]
    several = len({one["measure"] for one in comparisons}) > 1
    wide = []
    for row in rows:
        full: Row = {}
        first = str(next(iter(row.values()), ""))
        own = {(one["measure"], one["ours"]): one for one in told if first in one["row"]}
        for name, value in row.items():
            if any(name == f"{base} {end}" for base in row for end in ("least", "most")):
                continue
            full[name] = number(value)
            if {f"{name} least", f"{name} most"} <= row.keys():
                ends = (number(row[f"{name} {end}"]) for end in ("least", "most"))
                full[name] += " ({} to {})".format(*ends)
            one = own.get((name, value))
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
