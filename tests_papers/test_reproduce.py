"""What an experiment is, what comes of it, the command that runs it and the page it writes."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from partwise import datasets
from partwise.cli import app
from partwise_papers.experiments import EXPERIMENTS
from partwise_papers.outcome import (
    CLAIM_KEYS,
    COMPARISON_KEYS,
    RESULT_KEYS,
    carry_out,
    compact,
    compare,
    judge,
    judged,
    summarize,
    weigh,
)
from partwise_papers.pages import results_pages
from partwise_papers.registry import Claim, Paper, Registry, Setting, ordered
from partwise_papers.results_file import new_content

DOCS = Path(__file__).parents[1] / "docs"

# Tables and figures that are promised, each by a name of its own.
PROMISED = [
    "jmlr_fig3",
    "jmlr_fig4",
    "jmlr_fig5",
    "jmlr_fig6",
    "jmlr_fig7",
    "jmlr_fig8",
    "jmlr_fig11",
    "jmlr_fig12",
    "jmlr_fig13",
    "jmlr_fig14",
    "jmlr_table1",
    "jmlr_table2",
    "jmlr_table3",
    "jmlr_table4",
    "nips_fig2",
    "nips_fig3",
    "nips_fig4",
    "nips_fig5",
    "nips_fig6",
    "nips_fig7",
    "nips_errors",
    "thesis_table3_1",
    "thesis_fig3_2",
    "thesis_features",
    "thesis_table4_1",
    "thesis_classifier",
    "thesis_fig5_1",
    "thesis_fig5_2",
    "gvq_fig1",
    "gvq_fig4",
    "gvq_fig5",
    "gvq_fig6",
    "gvq_fig8",
    "gvq_fig9",
    "gvq_fig10",
    "gvq_fig11",
    "bpca_fig1",
    "bpca_fig4",
    "bpca_fig5",
    "bpca_fig6",
    "bpca_fig7",
    "bpca_fig8",
    "bpca_digits",
    "nips_scores",
    "nips_search",
    "nips_authors",
    "yeast_biclusters",
]


@pytest.fixture
def paper():
    return Paper(
        source="NIPS, Figure 0",
        did="Something.",
        figures={"error": {"ours": "0.21", "theirs": "0.5", "lost": "1"}},
        better={"error": "lower"},
    )


def test_everything_promised_is_registered_with_what_the_paper_says():
    for name in PROMISED:
        assert EXPERIMENTS.paper(name) is not None, name
        assert EXPERIMENTS.paper(name).did.endswith("."), name


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_data_sets_that_are_needed_have_loaders(name):
    paper = EXPERIMENTS.paper(name)
    for need in () if paper is None else paper.needs:
        assert hasattr(datasets, f"load_{need}")


def test_every_number_of_a_paper_has_a_direction():
    with pytest.raises(ValueError, match="which way is 'error' good"):
        Paper(source="NIPS", did="Something.", figures={"error": {"a": "1"}})


@pytest.mark.parametrize(
    ("printed", "ours", "better", "verdict"),
    [
        ("0.21", 0.2149, "lower", "equal"),
        ("0.21", 0.2151, "lower", "worse"),
        ("0.21", 0.2151, "higher", "better"),
        ("0.8030", 0.80304, "higher", "equal"),
        ("0.8030", 0.8032, "lower", "worse"),
        ("1.5163e4", 15163.4, "lower", "equal"),
        ("1.5163e4", 15170, "lower", "worse"),
        ("74", 73.6, "lower", "equal"),
        ("3", 4.0, "same", "other"),
        ("3", None, "same", "not measured"),
    ],
)
def test_verdicts_respect_the_digits_in_print(printed, ours, better, verdict):
    assert judge(printed, {"ours": ours, "least": ours, "most": ours}, better) == verdict


@pytest.mark.parametrize("better", ["lower", "higher", "same"])
def test_a_number_inside_our_spread_is_neither_better_nor_worse(better):
    for mean in (0.3, 0.4):
        inside = {"ours": mean, "least": 0.2, "most": 0.5}
        assert judge("0.35", inside, better) == "within spread"
        one_run = {"ours": mean, "least": mean, "most": mean}
        assert judge("0.35", one_run, better) != "within spread"
    assert judge("0.30", {"ours": 0.3, "least": 0.2, "most": 0.5}, better) == "equal"


def test_nothing_is_better_on_a_stand_in_but_it_may_be_worse():
    one = {"ours": 0.9, "least": 0.8, "most": 1.0}
    told = [judge(printed, one, "higher", stand_in=True) for printed in ("0.5", "0.85", "1.5")]
    assert told == ["other", "within spread", "worse"]
    assert judge("0.5", one, "higher") == "better"


def claimed(**arguments):
    return Paper(source="NIPS, Figure 0", did="Something.", **arguments)


def test_a_claim_holds_or_not_or_cannot_be_tested():
    paper = claimed(
        claims=(
            Claim(says="A is below B.", test=ordered("error", "a", "b")),
            Claim(says="B is below A.", test=ordered("error", "b", "a")),
            Claim(says="C is below A.", test=ordered("error", "c", "a")),
            Claim(says="It looks good.", untested="No eyes."),
        )
    )
    rows = [{"model": "a", "error": 0.1}, {"model": "b", "error": 0.25}]
    found = weigh(paper, rows)
    assert all(tuple(one) == CLAIM_KEYS for one in found)
    verdicts = [one["verdict"] for one in found]
    assert verdicts == ["holds", "does not hold", "not measured", "cannot be tested here"]
    assert [one["shows"] for one in found[:2]] == ["error: a 0.1, b 0.25", "error: b 0.25, a 0.1"]
    assert found[3]["shows"] == "No eyes."
    held, failed, lost, untested = weigh(paper, rows, stand_in=True)
    assert {one["verdict"] for one in (held, failed, untested)} == {"cannot be tested here"}
    assert held["shows"] == "On synthetic data it does: error: a 0.1, b 0.25"
    assert failed["shows"].startswith("On synthetic data it does not: ")
    assert lost["verdict"] == "not measured"
    anywhere = Claim(says="A.", test=ordered("error", "a", "b"), on_stand_in=True)
    (one,) = weigh(claimed(claims=[anywhere]), rows, stand_in=True)
    assert one["verdict"] == "holds"


def test_equal_values_are_in_no_order():
    rows = [{"model": "a", "error": 0.1}, {"model": "b", "error": 0.1}]
    assert not ordered("error", "a", "b")(rows)[0]


def test_a_claim_has_a_test_or_a_reason():
    for arguments in ({}, {"test": ordered("error", "a"), "untested": "No eyes."}):
        with pytest.raises(ValueError, match="needs either a test or the reason"):
            Claim(says="A claim.", **arguments)


def made_up(paper, rows, **result):
    """A registry with one entry, and its result."""
    registry = Registry("partwise_papers.experiments")
    registry._complete = True
    registry.register("nips_fig0", paper)(lambda setting: rows)
    return registry, carry_out(registry, "nips_fig0", Setting()) | result


def test_recorded_results_are_judged_as_the_entry_is_now():
    figures = {"error": {"a": "0.5"}}
    paper = claimed(figures=figures, better={"error": "lower"}, stand_in=lambda: True)
    registry, result = made_up(paper, [{"model": "a", "error": [0.1, 0.2]}])
    assert result["stand_in"]
    assert [one["verdict"] for one in result["comparisons"]] == ["other"]
    assert result["claims"] == []
    now = claimed(claims=[Claim(says="It errs.", test=lambda rows: (True, "see above"))])
    registry, _ = made_up(now, [])
    again = judged(registry, "nips_fig0", result | {"stand_in": False})
    assert [one["verdict"] for one in again["comparisons"]] == ["better"]
    assert [one["verdict"] for one in again["claims"]] == ["holds"]


def test_pages_count_every_verdict_once_and_list_what_is_worse():
    figures = {"error": {name: "0.5" for name in "abcdef"}}
    paper = claimed(
        figures=figures,
        better={"error": "lower"},
        why="the data differ.",
        claims=[
            Claim(says="A is below B.", test=ordered("error", "a", "b")),
            Claim(says="B is below A.", test=ordered("error", "b", "a")),
            Claim(says="It looks good.", untested="No eyes."),
            Claim(says="F is below A.", test=ordered("error", "f", "a")),
        ],
    )
    numbers = {"a": 0.1, "b": 0.9, "c": 0.5, "d": [0.4, 0.7], "e": 0.2}
    rows = [{"model": name, "error": value} for name, value in numbers.items()]
    _, result = made_up(paper, rows)
    pages = results_pages(new_content("experiment", [result]), "r")
    assert list(pages) == ["r", "r_nips"]
    title = "Ross and Zemel (2002), Multiple Cause Vector Quantization"
    counts = "6 | 2 | 1 | 1 | 1 |  | 1 | 4 | 1 | 1 | 1 | 1"
    assert f"| [{title}](r_nips.md) | {counts} |" in pages["r"]
    link = "[nips_fig0](r_nips.md#nips_fig0)"
    assert f"| {link} | b, error | 0.5 | 0.9 | the data differ. |" in pages["r"]
    assert f"| {link} | B is below A. | error: b 0.9, a 0.1 |" in pages["r"]
    assert "A is below B." not in pages["r"]
    assert "| A is below B. | **holds** | error: a 0.1, b 0.9 |" in pages["r_nips"]
    assert "| It looks good. | **cannot be tested here** | No eyes. |" in pages["r_nips"]
    assert (
        "| d | error (lower) | 0.5 | 0.55 (0.4 to 0.7, 2 runs) | **within spread** |"
        in (pages["r_nips"])
    )
    assert f"Full run of {result['date']}, Partwise {result['version']}." in pages["r_nips"]


def test_papers_numbers_stand_beside_ours(paper):
    rows = [{"model": "ours", "error": [0.1, 0.3]}, {"model": "theirs", "error": np.float64(0.6)}]
    ours, theirs, lost = compare(paper, rows)
    assert tuple(ours) == COMPARISON_KEYS
    assert ours["ours"] == pytest.approx(0.2)
    assert (ours["least"], ours["most"], ours["runs"]) == (0.1, 0.3, 2)
    assert ours["verdict"] == "within spread"
    assert theirs["verdict"] == "worse"
    assert lost["verdict"] == "not measured"
    shown = compact([summarize(row) for row in rows], [ours, theirs, lost])
    assert shown[0] == {
        "model": "ours", "error": "0.2 (0.1 to 0.3)", "paper": "0.21", "ours is": "within spread"
    }  # fmt: skip
    # Another row that happens to have the same number has no number of the paper.
    (other,) = compact([{"model": "others", "error": 0.6}], [theirs])
    assert other == {"model": "others", "error": "0.6"}


def test_rows_are_summarized_into_plain_numbers():
    row = summarize({"a": [1.0, 2.0, 6.0], "b": [4.0], "c": np.int64(3), "d": "text", "e": None})
    assert row == {
        "a": 3.0,
        "a least": 1.0,
        "a most": 6.0,
        "b": 4.0,
        "c": 3,
        "d": "text",
        "e": None,
    }
    assert type(row["c"]) is int


def test_absent_data_is_no_failure(paper):
    registry = Registry("partwise_papers.experiments")
    registry._complete = True

    @registry.register("absent", paper)
    def absent(setting):
        datasets.load_yeast("/nowhere")

    result = carry_out(registry, "absent", Setting())
    assert tuple(result) == RESULT_KEYS
    assert result["status"] == "absent"
    assert "yeast.npz" in result["error"]
    assert [one["verdict"] for one in result["comparisons"]] == ["not measured"] * 3


def test_no_picture_is_drawn_unless_wanted():
    Setting().draw("name", pytest.fail, "Nothing.")


# Three of them, and one whose data is absent, by the command.


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reproduced")
    names = ["nips_fig3", "thesis_fig3_2", "gvq_fig1", "yeast_biclusters"]
    options = ["--fast", "--json", folder / "r.json", "--pictures", folder / "pictures"]
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PARTWISE_DATA", raising=False)
        arguments = ["reproduce", *names, *options, "--page", folder / "results.md"]
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result, folder


@pytest.mark.ci
def test_the_rest_go_on_and_the_exit_code_tells(reproduced):
    result, _ = reproduced
    assert result.exit_code == 3, result.output
    assert "yeast_biclusters was left out: yeast.npz was not found" in result.stderr
    assert "1 of 4 experiments had no data: yeast_biclusters." in result.stderr
    assert "3/4 gvq_fig1: seed 0" in result.stderr
    for text in ("nips_fig3: ", "gvq_fig1: ", "ours is"):
        assert text in result.stdout


def test_results_are_complete(reproduced):
    _, folder = reproduced
    content = json.loads((folder / "r.json").read_text())
    assert {"version", "python", "numpy", "kind", "results"} <= set(content)
    results = {one["name"]: one for one in content["results"]}
    assert list(results) == sorted(["nips_fig3", "thesis_fig3_2", "gvq_fig1", "yeast_biclusters"])
    for one in results.values():
        assert set(one) == set(RESULT_KEYS)
        assert one["fast"]
        assert one["source"]
        for comparison in one["comparisons"]:
            assert set(comparison) == set(COMPARISON_KEYS)
            assert comparison["ours"] is not None
        for picture in one["pictures"]:
            assert (folder / "pictures" / picture["file"]).stat().st_size > 1000
    assert len(results["thesis_fig3_2"]["comparisons"]) == 4
    assert len(results["nips_fig3"]["pictures"]) == 2
    assert results["gvq_fig1"]["rows"]
    assert results["yeast_biclusters"]["status"] == "absent"


@pytest.mark.ci
def test_page_is_written_from_results(reproduced, tmp_path):
    _, folder = reproduced
    texts = {path.stem: path.read_text("utf-8") for path in folder.glob("*.md")}
    assert sorted(texts) == ["results", "results_gvq", "results_nips", "results_thesis"]
    assert "### thesis_fig3_2" in texts["results_thesis"]
    assert "(pictures/nips_fig3_vectors.png)" in texts["results_nips"]
    assert "**Absent:** yeast.npz was not found" in texts["results_thesis"]
    again = ["reproduce", "--from", folder / "r.json", "--page", tmp_path / "again.md"]
    result = CliRunner().invoke(app, [str(argument) for argument in again])
    assert result.exit_code == 0, result.output
    for name, text in texts.items():
        again = (tmp_path / f"{name.replace('results', 'again')}.md").read_text("utf-8")
        assert again == text.replace("results_", "again_").replace(
            "results.md", "again.md"
        ).replace("docs/again.md", "docs/results.md")


def test_only_free_pictures_are_on_the_page(reproduced):
    _, folder = reproduced
    content = json.loads((folder / "r.json").read_text())
    for one in content["results"]:
        for picture in one["pictures"]:
            picture["free"] = False
    page = results_pages(content)["results_nips"]
    assert ".png" not in page
    assert "--pictures FOLDER` makes it" in page


def test_later_results_take_the_place_of_earlier_ones(reproduced, tmp_path):
    _, folder = reproduced
    content = json.loads((folder / "r.json").read_text())
    content["results"] = [one | {"seconds": 1234.0} for one in content["results"][:1]]
    (tmp_path / "later.json").write_text(json.dumps(content))
    files = ["--from", folder / "r.json", "--from", tmp_path / "later.json"]
    arguments = ["reproduce", *files, "--json", tmp_path / "both.json"]
    assert CliRunner().invoke(app, [str(argument) for argument in arguments]).exit_code == 0
    both = json.loads((tmp_path / "both.json").read_text())["results"]
    assert len(both) == 4
    assert [one["seconds"] for one in both].count(1234.0) == 1


@pytest.mark.parametrize("text", ["{", '{"a": 1}', "[]"])
def test_what_is_no_file_of_results(text, tmp_path):
    (tmp_path / "bad.json").write_text(text)
    result = CliRunner().invoke(app, ["reproduce", "--from", str(tmp_path / "bad.json")])
    assert result.exit_code == 2
    assert "bad.json" in result.stderr


@pytest.mark.parametrize(
    ("file", "page"),
    [("results.json", "results.md"), ("benchmarks.json", "benchmark_results.md")],
)
def test_the_pages_in_the_documentation_are_written_by_the_commands(file, page):
    content = json.loads((DOCS / file).read_text("utf-8"))
    for name, text in results_pages(content, page.removesuffix(".md")).items():
        assert (DOCS / f"{name}.md").read_text("utf-8") == text
    for one in content["results"]:
        for picture in one["pictures"]:
            shown = (DOCS / "pictures" / picture["file"]).exists()
            assert shown == picture["free"], picture["file"]
