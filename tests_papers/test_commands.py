"""`partwise reproduce` and `partwise bench`: what they print and write, and how they fail."""

import json
import warnings

import pytest
from typer.testing import CliRunner

import partwise
from partwise.cli import app
from partwise_papers.registry import Registry

RUNS = '''
"""Runs to test with."""
from {package} import REGISTRY

@REGISTRY.register("good")
def good(progress):
    """Measure something.

    At length.
    """
    import numpy as np
    progress("half [bold]way[/bold]")
    ours = {{"method": "ours [1]", "error": np.float64(0.125)}}
    return [ours, {{"method": "theirs", "n": 12345}}]

@REGISTRY.register("bad")
def bad(progress):
    raise ValueError("it went\\nwrong")

@REGISTRY.register("nan")
def nan(progress):
    """Find nothing."""
    return [{{"value": float("nan")}}]

@REGISTRY.register("stopped")
def stopped(progress):
    raise KeyboardInterrupt
'''


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """A registry of a new package, in place of that of the benchmarks."""
    package = "runs_" + tmp_path.name.replace("-", "_")
    folder = tmp_path / package
    folder.mkdir()
    (folder / "__init__.py").write_text(
        f"from partwise_papers.registry import Registry\nREGISTRY = Registry({package!r})\n"
    )
    (folder / "some.py").write_text(RUNS.format(package=package))
    (folder / "_private.py").write_text("raise RuntimeError('never imported')")
    monkeypatch.syspath_prepend(tmp_path)
    found = __import__(package).REGISTRY
    monkeypatch.setattr("partwise_papers.bench.BENCHES", found)
    monkeypatch.setattr("partwise_papers.experiments.EXPERIMENTS", found)
    return found


def run(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def test_interrupt(registry):
    result = run("bench", "good", "stopped")
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == "Stopped."


def test_warnings_are_one_line(registry):
    @registry.register("warns")
    def warns(progress):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("mind\nthe gap", UserWarning, stacklevel=1)
        return []

    result = run("bench", "warns")
    assert result.exit_code == 0
    assert "Warning: mind the gap" in result.stderr.splitlines()


@pytest.mark.parametrize("command", ["bench", "reproduce"])
def test_list(registry, command):
    result = run(command, "--list")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["bad", "good", "nan", "stopped"]
    assert lines[1].split(maxsplit=1)[1].strip() == "Measure something."


@pytest.mark.parametrize("command", ["bench", "reproduce"])
def test_rows_become_a_table(registry, command):
    result = run(command, "good")
    assert result.exit_code == 0
    for text in ("good: Measure something.", "method", "error", "ours [1]", "0.125", "12,345"):
        assert text in result.stdout
    assert "good: half [bold]way[/bold]" in result.stderr


def test_unknown_name(registry):
    result = run("bench", "good", "none")
    assert result.exit_code == 2
    assert result.stderr == (
        "Error: there is no benchmark 'none'; benchmarks are bad, good, nan, stopped.\n"
    )
    assert result.stdout == ""


def test_a_failure_does_not_stop_the_rest(registry, tmp_path):
    path = tmp_path / "results.json"
    result = run("reproduce", "bad", "good", "nan", "--json", path)
    assert result.exit_code == 1
    assert "bad failed: ValueError: it went wrong" in result.stderr
    assert "1 of 3 experiments failed: bad." in result.stderr
    assert "Measure something." in result.stdout
    content = json.loads(path.read_text("utf-8"))
    assert content["version"] == partwise.__version__
    assert [entry["name"] for entry in content["results"]] == ["bad", "good", "nan"]
    bad, good, nan = content["results"]
    assert bad["error"] == "ValueError: it went wrong"
    assert good["error"] is None
    assert good["seconds"] >= 0
    assert good["rows"] == [
        {"method": "ours [1]", "error": 0.125},
        {"method": "theirs", "n": 12345},
    ]
    assert nan["rows"] == [{"value": None}]


def test_results_so_far_are_kept(registry, tmp_path):
    path = tmp_path / "results.json"
    assert run("bench", "good", "stopped", "--json", path).exit_code == 130
    assert [entry["name"] for entry in json.loads(path.read_text())["results"]] == ["good"]


def test_page_of_benchmarks(registry, tmp_path):
    @registry.register("ratio")
    def ratio(progress):
        """Compare."""
        return [{"n": 1, "their / our": 0.5}, {"n": 2, "their / our": 2.0}, {"n": 3}]

    file, page, again = tmp_path / "b.json", tmp_path / "b.md", tmp_path / "again.md"
    assert run("bench", "ratio", "bad", "--json", file, "--page", page).exit_code == 1
    text = page.read_text("utf-8")
    assert "| [ratio](#ratio) | Compare | their / our: 0.5 to 2 | 0 |" in text
    assert "| [bad](#bad) |  | failed | 0 |" in text
    assert "**Failed:** ValueError: it went wrong" in text
    assert run("bench", "--from", file, "--page", again).exit_code == 0
    assert again.read_text("utf-8") == text
    result = run("reproduce", "--from", file)
    assert result.exit_code == 2
    assert result.stderr == f"{file} contains results of benchmarks, not of experiments.\n"


def test_place_that_cannot_be_written_is_known_at_once(registry, tmp_path):
    result = run("bench", "good", "--json", tmp_path / "none" / "results.json")
    assert result.exit_code == 1
    assert "Measure something" not in result.stdout


def test_all_runs_everything(registry):
    registry._runs = {"good": registry["good"], "nan": registry["nan"]}
    for names in ([], ["all"], ["nan", "all"]):
        result = run("bench", *names)
        assert result.exit_code == 0
        assert "good: Measure" in result.stdout
        assert "nan: Find nothing." in result.stdout


def test_a_name_given_twice_runs_once(registry):
    assert run("bench", "good", "good").stdout.count("Measure something") == 1


def test_debug_shows_where_a_run_failed(registry):
    assert isinstance(run("--debug", "bench", "bad").exception, ValueError)


def test_names_are_not_shared(registry):
    assert "good" in registry
    with pytest.raises(ValueError, match="registered twice"):
        registry.register("good")(lambda progress: [])
    with pytest.raises(ValueError, match="stands for every name"):
        registry.register("all")(lambda progress: [])


def test_modules_are_found_when_first_asked_for(registry):
    assert registry._runs == {}
    assert len(registry) == 4


@pytest.mark.parametrize("name", ["partwise_papers.bench", "partwise_papers.experiments"])
def test_our_own_registries_load(name):
    found = Registry(name)
    list(found)
