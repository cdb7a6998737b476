"""The code of the pages runs as pasted and prints the output shown; links lead to files."""

import io
import os
import re
import warnings
from contextlib import redirect_stdout
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Code, and the output that the page shows below it.
BLOCK = re.compile(r"^```python\n(.*?)^```(?:\n+```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?")
LINK = re.compile(r"(?:\]\(|src=\")([^)#\s\"]+)")

# Pages whose code runs for more than a few seconds.
SLOW = {
    "docs/aspect.md",
    "docs/bayesian_pca.md",
    "docs/classes.md",
    "docs/density.md",
    "docs/explorer.md",
    "docs/features.md",
    "docs/gvq.md",
    "docs/mcfa.md",
    "docs/ratings.md",
    "docs/scaling.md",
    "docs/sizes.md",
}
# Pages on what is built on the library; tests_papers runs their code.
OF_PAPERS = {"docs/benchmarks.md", "docs/reproduce.md"}
# Pages whose code runs for a second or more.
LONG = {
    "docs/choose.md",
    "docs/large_tables.md",
    "docs/migrate.md",
    "docs/privacy.md",
    "docs/streaming.md",
    "docs/tables.md",
}
# Pages that read data sets which cannot be shipped.
NEEDS_DATA = {"docs/aspect.md", "docs/ratings.md"}


def names(pages):
    return [page.relative_to(ROOT).as_posix() for page in pages]


def blocks(page):
    return BLOCK.findall(page.read_text("utf-8"))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=[pytest.mark.slow] * (name in SLOW) + [pytest.mark.ci] * (name in LONG)
        )
        for name, page in zip(names(PAGES), PAGES, strict=True)
        if blocks(page) and name not in OF_PAPERS
    ],
)
def test_code_runs_as_pasted(name, tmp_path, monkeypatch):
    if name in NEEDS_DATA and "PARTWISE_DATA" not in os.environ:
        pytest.skip("PARTWISE_DATA is not set")
    monkeypatch.chdir(tmp_path)
    paste(name)


def paste(name):
    """Run the code of a page, block after block."""
    session = {"__name__": "pasted"}
    for i, (code, output) in enumerate(blocks(ROOT / name)):
        printed = io.StringIO()
        with warnings.catch_warnings(), redirect_stdout(printed):
            warnings.simplefilter("default")  # as for a user: told, and no error
            exec(compile(code, f"{name}, block {i}", "exec"), session)
        if output:
            assert_same_output(printed.getvalue(), output)


def assert_same_output(printed, shown):
    """The same words, and numbers that differ by 5 % at most: fits depend on the processor."""
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", shown).split()
    numbers = [[float(each) for each in NUMBER.findall(text)] for text in (printed, shown)]
    assert numbers[0] == pytest.approx(numbers[1], rel=0.05, abs=0.02)


def test_lists_of_pages_are_up_to_date():
    assert set(names(PAGES)) >= SLOW | LONG | NEEDS_DATA | OF_PAPERS


@pytest.mark.parametrize("name", names(PAGES))
def test_links_lead_to_files(name):
    page = ROOT / name
    for target in LINK.findall(page.read_text("utf-8")):
        if "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target).exists(), f"{name} links to {target}"
