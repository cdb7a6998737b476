"""Pages of results, in Markdown, from what ``partwise reproduce`` and ``bench --json`` wrote."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from partwise_papers.outcome import compact, number

# Beginnings of the sources, in the order of the page, and what they are.
_PAPERS = {
    "JMLR": "Ross and Zemel (2006), Learning Parts-Based Representations of Data",
    "NIPS": "Ross and Zemel (2002), Multiple Cause Vector Quantization",
    "Thesis": "Ross (2003), MSc thesis on Multiple Cause Vector Quantization",
    "GVQ": "Westerdijk, Barber and Wiegerinck, Deterministic Generative Models for Fast Feature "
    "Discovery",
    "BPCA": "Bishop and Winn (2000), Non-linear Bayesian Image Modelling",
    "": "Additional experiments",
}
_VERDICTS = ("better", "equal", "worse", "other", "not measured")

# Longer tables are cut on the page; the file of results has all rows.
_MAX_ROWS = 40


_PAGES = {
    "experiment": (
        "# Results",
        "Written by `partwise reproduce --from docs/results.json --page docs/results.md`; do not "
        "edit. Each row compares our number with the paper's. Numbers of several runs (seeds, "
        "samples or folds) are means, with minimum and maximum. *equal*: the same to the digits "
        "that the paper prints. *other*: neither is better, since the aim is the paper's number.",
    ),
    "benchmark": (
        "# Benchmark results",
        "Written by `partwise bench --from docs/benchmarks.json --page docs/benchmark_results.md`; "
        "do not edit. [Benchmarks](benchmarks.md) explains how to read them: times depend on the "
        "machine, ratios of times within one run much less. A ratio is named by its two sides: "
        "*theirs / ours* above 1 is in our favor, and so is *ours / theirs* below 1.",
    ),
}


def results_page(content: Mapping[str, Any], pictures: str = "pictures") -> str:
    """Write the page.

    Parameters
    ----------
    content : mapping
        What ``--json`` wrote.
    pictures : str, default="pictures"
        Folder of the pictures, as seen from the page.

    Returns
    -------
    page : str
        Markdown.
    """
    measured = content["kind"] == "benchmark"
    on = f", {content['machine']}" if measured else ""
    title, intro = _PAGES[content["kind"]]
    lines = [title, "", intro, ""]
    lines += [
        f"Partwise {content['version']}, Python {content['python']}, NumPy {content['numpy']}{on}.",
        "",
    ]
    results = sorted(content["results"], key=lambda one: _natural(one["name"]))
    if measured:
        groups = {"Measured": results}
        lines += ["| benchmark | what | ratios | seconds |", "|---|---|---|---:|"]
        lines += [_ratios_line(one) for one in results]
    else:
        groups = {
            title: [one for one in results if _paper(one["source"]) == begins]
            for begins, title in _PAPERS.items()
        }
        lines += ["| experiment | what | version | " + " | ".join(_VERDICTS) + " | CPU seconds |"]
        lines += ["|---|---|---|" + "---:|" * (len(_VERDICTS) + 1)]
        for group in groups.values():
            lines += [_line(one) for one in group]
    for title, group in groups.items():
        if group:
            lines += ["", f"## {title}"]
        for one in group:
            lines += ["", *_section(one, pictures)]
    return "\n".join(lines) + "\n"


def _paper(source: str) -> str:
    return next((begins for begins in _PAPERS if begins and source.startswith(begins)), "")


def _natural(name: str) -> list[Any]:
    """Figure 11 comes after Figure 3."""
    return [int(piece) if piece.isdigit() else piece for piece in re.split(r"(\d+)", name)]


def _line(one: Mapping[str, Any]) -> str:
    verdicts = [comparison["verdict"] for comparison in one["comparisons"]]
    counts = [str(verdicts.count(name) or "") for name in _VERDICTS]
    version = {"done": "fast" if one["fast"] else "full"}.get(one["status"], one["status"])
    told = _cell(one["source"] or one["description"].rstrip("."))
    link = f"[{one['name']}](#{one['name']})"
    return f"| {link} | {told} | {version} | {' | '.join(counts)} | {one['cpu_seconds']:.0f} |"


def _ratios_line(one: Mapping[str, Any]) -> str:
    """A benchmark with the range of each ratio: of columns that are called by two sides."""
    told = []
    for name in dict.fromkeys(name for row in one["rows"] for name in row if " / " in name):
        values = [row[name] for row in one["rows"] if isinstance(row.get(name), int | float)]
        ends = dict.fromkeys(_cell(end) for end in (min(values), max(values))) if values else ()
        told.append(f"{_cell(name)}: {' to '.join(ends)}" if ends else f"{_cell(name)}: none")
    ratios = "; ".join(told) if one["status"] == "done" else one["status"]
    what = _cell(one["description"].rstrip("."))
    return f"| [{one['name']}](#{one['name']}) | {what} | {ratios} | {one['seconds']:.0f} |"


def _section(one: Mapping[str, Any], pictures: str) -> list[str]:
    lines = [f"### {one['name']}", "", one["description"], ""]
    if one["source"]:
        lines += [f"**{one['source']}.** {one['did']}", ""]
    if one["differs"]:
        lines += [f"**Here:** {one['differs']}", ""]
    if one["status"] != "done":
        return [*lines, f"**{one['status'].capitalize()}:** {one['error']}"]
    if one["comparisons"]:
        lines += _table(
            [
                {
                    "row": each["row"],
                    "measure": f"{each['measure']} ({each['better']})",
                    "paper": each["paper"],
                    "ours": _ours(each),
                    "ours is": f"**{each['verdict']}**",
                }
                for each in one["comparisons"]
            ]
        )
        if one["why"] and any(each["verdict"] == "worse" for each in one["comparisons"]):
            lines += [f"**Where ours is worse:** {one['why']}", ""]
    elif one["why"]:
        lines += [one["why"], ""]
    if one["rows"]:
        shown = _table(compact(one["rows"][:_MAX_ROWS]))
        cut = len(one["rows"]) - _MAX_ROWS
        more = [f"And {cut} more rows.", ""] if cut > 0 else []
        if one["comparisons"]:
            lines += ["<details><summary>All that was measured</summary>", "", *shown, *more]
            lines += ["</details>", ""]
        else:
            lines += [*shown, *more]
    for picture in one["pictures"]:
        if picture["free"]:
            lines += [f"![{picture['caption']}]({pictures}/{picture['file']})", ""]
            lines += [f"*{picture['caption']}*", ""]
        else:
            lines += [
                f"*Not shown, since the data may not be passed on: {picture['caption']}* "
                f"`partwise reproduce {one['name']} --pictures FOLDER` makes it.",
                "",
            ]
    return lines[:-1]


def _ours(each: Mapping[str, Any]) -> str:
    if each["ours"] is None:
        return ""
    text = _cell(each["ours"])
    if each["runs"] > 1:
        text += f" ({_cell(each['least'])} to {_cell(each['most'])}, {each['runs']} runs)"
    return text


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["| " + " | ".join(_cell(name) for name in names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(_cell(row.get(name)) for name in names) + " |" for row in rows]
    return [*lines, ""]


def _cell(value: Any) -> str:
    return number(value).replace("|", "\\|")
