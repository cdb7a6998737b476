"""The commands: what they print, how they fail, and the files they write."""

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
from threadpoolctl import threadpool_limits
from typer.testing import CliRunner

import partwise
from partwise import MCVQ, make_shapes
from partwise.cli import app, demo
from partwise.cli.tables import parse_image_shape
from partwise.experiments.registry import Registry

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
        f"from partwise.experiments.registry import Registry\nREGISTRY = Registry({package!r})\n"
    )
    (folder / "some.py").write_text(RUNS.format(package=package))
    (folder / "_private.py").write_text("raise RuntimeError('never imported')")
    monkeypatch.syspath_prepend(tmp_path)
    found = __import__(package).REGISTRY
    monkeypatch.setattr("partwise.bench.BENCHES", found)
    monkeypatch.setattr("partwise.experiments.EXPERIMENTS", found)
    return found


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "shapes.safetensors"
    MCVQ(n_parts=3, n_states=4, random_state=0).fit(make_shapes().data).save(path)
    return path


def run(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


# ---------------------------------------------------------------------- the command as a whole


def test_version():
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout == f"partwise {partwise.__version__}\n"


def test_help_names_the_commands():
    result = run("--help")
    assert result.exit_code == 0
    for command in ("demo", "report", "reproduce", "bench"):
        assert command in result.stdout


def test_help_is_quick_to_load():
    code = (
        "import sys, partwise.cli; heavy = ('numpy', 'scipy', 'sklearn', 'numba', 'matplotlib');"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_unknown_command():
    result = run("no-such-command")
    assert result.exit_code == 2
    assert "no-such-command" in result.stderr


def test_an_error_is_one_sentence(tmp_path):
    result = run("report", tmp_path / "none.safetensors")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert "none.safetensors" in result.stderr
    assert "Traceback" not in result.stderr


def test_debug_lets_the_error_through(tmp_path):
    result = run("--debug", "report", tmp_path / "none.safetensors")
    assert isinstance(result.exception, FileNotFoundError)


def test_interrupt(registry):
    result = run("bench", "good", "stopped")
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == "Stopped."


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
def test_interrupt_of_the_real_thing(tmp_path):
    code = """if True:  # while it learns, all imports being done
        import os, signal, threading
        from partwise import MCVQ
        from partwise.cli import app
        fit = MCVQ.fit
        def stopped_soon(self, X):
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
            return fit(self, X)
        MCVQ.fit = stopped_soon
        app()
    """
    out = str(tmp_path / "report.html")
    done = subprocess.run(
        [sys.executable, "-c", code, "demo", "--out", out],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 130
    assert done.stderr.strip() == "Stopped."
    assert not list(tmp_path.iterdir())


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


# ---------------------------------------------------------------------- demo


def test_demo(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "_FACES", 300)
    monkeypatch.setattr(demo, "_HELD_OUT", 50)
    monkeypatch.setattr(demo, "_STATES", 6)
    path = tmp_path / "faces.html"
    with threadpool_limits(1):  # tests run beside each other
        result = run("demo", "--out", path, "--seed", 1)
    assert result.exit_code == 0, result.stderr
    for name in ("hair", "eyes", "mouth", "adjusted Rand", "On 50 new faces", "faces.html"):
        assert name in result.stdout
    assert path.read_text("utf-8").startswith("<!doctype html>")
    agreement = float(result.stdout.split("that vary: ")[1].split()[0])
    assert agreement > 0.8


def test_demo_finds_out_at_once_that_it_cannot_write(tmp_path):
    result = run("demo", "--out", tmp_path / "none" / "report.html")
    assert result.exit_code == 2
    assert "no folder" in result.stderr


# ---------------------------------------------------------------------- report


def test_report(model_file, tmp_path):
    data = tmp_path / "data.npy"
    np.save(data, make_shapes().data[:4])
    out = tmp_path / "out.html"
    result = run("report", model_file, data, "-o", out, "--image-shape", "11x11", "--title", "A<b>")
    assert result.exit_code == 0, result.stderr
    page = out.read_text("utf-8")
    assert "A&lt;b&gt;" in page
    assert "Row 3" in page
    assert "shapes.safetensors" in page
    assert "out.html" in result.stdout


def test_report_without_data(model_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("report", model_file).exit_code == 0
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("args", "code", "complaint"),
    [
        (("--image-shape", "eleven"), 2, "'eleven' is not a height and a width"),
        (("--image-shape", "3x3"), 1, "9 pixels"),
    ],
)
def test_report_with_a_shape_that_is_none(model_file, tmp_path, args, code, complaint):
    result = run("report", model_file, "-o", tmp_path / "out.html", *args)
    assert result.exit_code == code
    assert complaint in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "out.html").exists()


def test_report_with_data_of_other_columns(model_file, tmp_path):
    np.save(tmp_path / "data.npy", np.ones((3, 7)))
    result = run("report", model_file, tmp_path / "data.npy", "-o", tmp_path / "out.html")
    assert result.exit_code == 1
    assert "data.npy has 7 columns, but the model learned from" in result.stderr


@pytest.mark.parametrize(
    ("text", "shape"), [(None, None), ("32x16", (32, 16)), ("3 X 4", (3, 4)), ("3,4", (3, 4))]
)
def test_image_shape(text, shape):
    assert parse_image_shape(text) == shape


# ---------------------------------------------------------------------- reproduce and bench


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
        "There is no benchmark called 'none'; the names are: bad, good, nan, stopped.\n"
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
    assert result.stderr == f"{file} holds results of benchmarks, not of experiments.\n"


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


@pytest.mark.parametrize("name", ["partwise.bench", "partwise.experiments"])
def test_our_own_registries_load(name):
    found = Registry(name)
    list(found)
