"""Pages of results, in Markdown, from what ``partwise reproduce`` and ``bench --json`` wrote."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from partwise_papers.outcome import HOLDS, VERDICTS, compact, number

# Beginnings of the sources, in the order of the pages: end of the page's name, and the paper.
_PAPERS = {
    "JMLR": ("jmlr", "Ross and Zemel (2006), Learning Parts-Based Representations of Data"),
    "NIPS": ("nips", "Ross and Zemel (2002), Multiple Cause Vector Quantization"),
    "Thesis": ("thesis", "Ross (2003), MSc thesis on Multiple Cause Vector Quantization"),
    "GVQ": (
        "gvq",
        "Westerdijk, Barber and Wiegerinck, Deterministic Generative Models for Fast Feature "
        "Discovery",
    ),
    "BPCA": ("bpca", "Bishop and Winn (2000), Non-linear Bayesian Image Modelling"),
    "": ("more", "Additional experiments"),
}

# Longer tables are cut on the page; the file of results has all rows.
_MAX_ROWS = 40

_HEADS = (*HOLDS[:-1], "claim not measured")

_WRITTEN = {
    "experiment": "Written by `partwise reproduce --from docs/results.json --page "
    "docs/results.md`; do not edit.",
    "benchmark": "Written by `partwise bench --from docs/benchmarks.json --page "
    "docs/benchmark_results.md`; do not edit.",
}

_VERDICTS_TELL = """\
Each number of the papers is compared with ours. Numbers of several runs (seeds, samples or folds) are means, with minimum and maximum.

- *better*, *worse*: than the paper's number.
- *equal*: the same to the digits that the paper prints.
- *within spread*: the paper's number lies between the minimum and the maximum of our runs.
- *other*: neither is better, since the aim is the paper's number, or since our data are a synthetic stand-in for data that is not available; on a stand-in no number counts as better.

Claims without a number *hold*, *do not hold*, or *cannot be tested here*: the data is not available, or the claim is about pictures.
"""  # noqa: E501  # a paragraph of Markdown is a line

_BENCHMARKS_TELL = """\
[Benchmarks](benchmarks.md) explains how to read them: times depend on the machine, ratios of times within one run much less. A ratio is named by its two sides: *theirs / ours* above 1 is in our favor, and so is *ours / theirs* below 1.
"""  # noqa: E501


def results_pages(
    content: Mapping[str, Any], name: str = "results", pictures: str = "pictures"
) -> dict[str, str]:
    """Write the pages.

    Parameters
    ----------
    content : mapping
        What ``--json`` wrote.
    name : str, default="results"
        Name of the first page; those of the papers' begin with it.
    pictures : str, default="pictures"
        Folder of the pictures, as seen from the pages.

    Returns
    -------
    pages : dict
        Markdown, by name. Benchmarks are one page; of experiments the first page has the totals.
    """
    results = sorted(content["results"], key=lambda one: _natural(one["name"]))
    if content["kind"] == "benchmark":
        return {name: _benchmarks(content, results, pictures)}
    groups = {
        begins: [one for one in results if _paper(one["source"]) == begins] for begins in _PAPERS
    }
    groups = {begins: group for begins, group in groups.items() if group}
    names = {begins: f"{name}_{_PAPERS[begins][0]}" for begins in groups}
    pages = {name: _overview(content, groups, names)}
    for begins, group in groups.items():
        lines = [f"# {_PAPERS[begins][1]}", "", _WRITTEN["experiment"]]
        lines += [f"The [first page]({name}.md) explains the verdicts.", ""]
        lines += [*_experiments(group, ""), "", "## Measured"]
        for one in group:
            lines += ["", *_section(one, pictures)]
        pages[names[begins]] = "\n".join(lines) + "\n"
    return pages


def _benchmarks(content: Mapping[str, Any], results: Sequence[Any], pictures: str) -> str:
    lines = ["# Benchmark results", "", f"{_WRITTEN['benchmark']} {_BENCHMARKS_TELL}"]
    lines += [f"{_versions(content)}, {content['machine']}.", ""]
    lines += ["| benchmark | what | ratios | seconds |", "|---|---|---|---:|"]
    lines += [_ratios_line(one) for one in results]
    lines += ["", "## Measured"] if results else []
    for one in results:
        lines += ["", *_section(one, pictures)]
    return "\n".join(lines) + "\n"


def _versions(content: Mapping[str, Any]) -> str:
    return f"Partwise {content['version']}, Python {content['python']}, NumPy {content['numpy']}"


def _overview(
    content: Mapping[str, Any], groups: Mapping[str, Sequence[Any]], names: Mapping[str, str]
) -> str:
    """The first page: totals by paper, what is worse and what does not hold, and where to look."""
    lines = ["# Results", "", _WRITTEN["experiment"], "", _VERDICTS_TELL]
    counted = {begins: _counts(group) for begins, group in groups.items() if begins}
    head = ["paper", "numbers", *VERDICTS, "claims", *_HEADS]
    lines += ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    for begins, counts in counted.items():
        title = f"[{_PAPERS[begins][1]}]({names[begins]}.md)"
        lines += [f"| {title} | {' | '.join(str(count or '') for count in counts)} |"]
    total = [sum(column) for column in zip(*counted.values(), strict=True)]
    lines += ["| **all** | " + " | ".join(f"**{count}**" for count in total) + " |"]
    lines += ["", f"Page written by {_versions(content)}; each experiment says when it was run."]
    worse = [
        {
            "experiment": f"[{one['name']}]({names[begins]}.md#{one['name']})",
            "row": f"{each['row']}, {each['measure']}",
            "paper": each["paper"],
            "ours": _ours(each),
            "why": one["why"],
        }
        for begins, group in groups.items()
        for one in group
        for each in one["comparisons"]
        if each["verdict"] == "worse"
    ]
    if worse:
        lines += ["", "## Numbers that are worse", "", *_table(worse)[:-1]]
    fails = [
        {
            "experiment": f"[{one['name']}]({names[begins]}.md#{one['name']})",
            "claim": each["claim"],
            "shown by": each["shows"],
        }
        for begins, group in groups.items()
        for one in group
        for each in one.get("claims", ())
        if each["verdict"] == "does not hold"
    ]
    if fails:
        lines += ["", "## Claims that do not hold", "", *_table(fails)[:-1]]
    for begins, group in groups.items():
        page = names[begins]
        lines += [
            "",
            f"## [{_PAPERS[begins][1]}]({page}.md)",
            "",
            *_experiments(group, f"{page}.md"),
        ]
    lines += ["", "```{toctree}", ":hidden:", "", *names.values(), "```"]
    return "\n".join(lines) + "\n"


def _counts(group: Sequence[Mapping[str, Any]]) -> list[int]:
    """Numbers of comparisons, and of each verdict; then the same of claims."""
    counts: list[int] = []
    for key, verdicts in (("comparisons", VERDICTS), ("claims", HOLDS)):
        found = [each["verdict"] for one in group for each in one.get(key, ())]
        counts += [len(found), *(found.count(verdict) for verdict in verdicts)]
    return counts


def _experiments(group: Sequence[Mapping[str, Any]], page: str) -> list[str]:
    """A table of experiments, with links to them on a page."""
    head = ["experiment", "what", "run", *VERDICTS, *_HEADS, "CPU seconds"]
    lines = ["| " + " | ".join(head) + " |"]
    lines += ["|---|---|---|" + "---:|" * (len(head) - 3)]
    for one in group:
        counts = _counts([one])
        del counts[1 + len(VERDICTS)], counts[0]
        run = {"done": "fast" if one["fast"] else "full"}.get(one["status"], one["status"])
        told = _cell(one["source"] or one["description"].rstrip("."))
        cells = [f"[{one['name']}]({page}#{one['name']})", told, run]
        cells += [str(count or "") for count in counts]
        lines.append(f"| {' | '.join(cells)} | {one['cpu_seconds']:.0f} |")
    return lines


def _paper(source: str) -> str:
    return next((begins for begins in _PAPERS if begins and source.startswith(begins)), "")


def _natural(name: str) -> list[Any]:
    """Figure 11 comes after Figure 3."""
    return [int(piece) if piece.isdigit() else piece for piece in re.split(r"(\d+)", name)]


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
    if one.get("claims"):
        names = ("claim", "verdict", "shows")
        bold = [{**each, "verdict": f"**{each['verdict']}**"} for each in one["claims"]]
        lines += _table([{name: each[name] for name in names} for each in bold])
    if one["rows"]:
        shown = _table(compact(one["rows"][:_MAX_ROWS]))
        cut = len(one["rows"]) - _MAX_ROWS
        more = [f"And {cut} more rows.", ""] if cut > 0 else []
        if one["comparisons"] or one.get("claims"):
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
    if one.get("date"):
        size = "Fast run" if one["fast"] else "Full run"
        lines += [f"{size} of {one['date']}, Partwise {one['version']}.", ""]
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
    return number(value).replace("|", "\\|").replace("\n", " ")
