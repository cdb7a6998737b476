"""The commands: what they print, how they fail, and the files they write."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
import typer
from threadpoolctl import threadpool_limits
from typer.testing import CliRunner

import partwise
from partwise import MCVQ, make_shapes
from partwise.cli import app, demo
from partwise.cli.main import Commands
from partwise.cli.tables import Reading, parse_image_shape


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


@pytest.mark.parametrize("args", [["--version"], ["--help"], ["states", "{model}", "{rows}"]])
@pytest.mark.ci
def test_a_closed_pipe_is_no_error(model_file, tmp_path, args):
    """The exit code is 0 whether the reader closes the pipe before, while or after we write."""
    np.save(tmp_path / "rows.npy", make_shapes().data[:20])  # so few need no compiler
    names = {"model": model_file, "rows": tmp_path / "rows.npy"}
    command = [sys.executable, "-m", "partwise", *(arg.format(**names) for arg in args)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()  # before anything is written
    assert process.stderr.read() == b""
    assert process.wait(60) == 0
    process.stderr.close()


def test_names_are_completed(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text("age,address,sex\n1,2,3\n")

    monkeypatch.chdir(tmp_path)

    def completed(words):
        environment = {"_PARTWISE_COMPLETE": "complete_bash", "COMP_WORDS": words}
        environment["COMP_CWORD"] = str(len(words.split(" ")) - 1)
        found = CliRunner().invoke(
            app, prog_name="partwise", env=environment, catch_exceptions=False
        )
        return found.stdout.split()

    assert completed("partwise fit t.csv --columns a") == ["age", "address"]
    assert completed("partwise fit t.csv --ignore age,a") == ["age,address"]
    assert completed("partwise fit t.csv --kind s") == ["sex="]
    assert completed("partwise fit nothing.csv --columns a") == []
    for content in (b"PAR1", b"PAR1\xff\xff\xff\x0fPAR1", b"PAR1\0\0\0\0PAR1"):
        (tmp_path / "t.parquet").write_bytes(content)
        assert completed("partwise fit t.parquet --columns a") == []


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


@pytest.mark.ci
@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
def test_interrupt_of_the_real_thing(tmp_path):
    code = """if True:  # while it learns, all imports being done
        import os, signal
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
        from partwise.cli import app, demo
        from partwise.engine import Monitor
        demo._FACES, demo._HELD_OUT = 80, 20
        stop = Monitor.stop
        def interrupted(self, bound):
            os.kill(os.getpid(), signal.SIGINT)
            return stop(self, bound)
        Monitor.stop = interrupted
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


def test_warnings_are_one_line():
    own = typer.Typer(cls=Commands)

    @own.callback()
    def main():
        pass

    @own.command()
    def warns():
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("mind\nthe gap", UserWarning, stacklevel=1)

    result = CliRunner().invoke(own, ["warns"])
    assert result.exit_code == 0
    assert result.stderr == "Warning: mind the gap\n"


def test_the_library_does_without_the_papers():
    code = "import sys; sys.modules['partwise_papers'] = None; from partwise.cli import app; app()"
    done = subprocess.run(
        [sys.executable, "-c", code, "bench", "name", "--json", "file"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("partwise bench needs the package partwise_papers, which is not")
    assert len(done.stderr.splitlines()) == 1


# ---------------------------------------------------------------------- demo


@pytest.mark.ci
def test_demo(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "_FACES", 250)
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
    assert "data.npy has 7 columns, but the model was fitted to" in result.stderr


@pytest.mark.parametrize(
    ("text", "shape"), [(None, None), ("32x16", (32, 16)), ("3 X 4", (3, 4)), ("3,4", (3, 4))]
)
def test_image_shape(text, shape):
    assert parse_image_shape(text) == shape


@pytest.mark.slow
def test_a_reader_that_has_enough_is_no_error(tmp_path):
    frame = "x,y\n" + "".join(f"{i % 7},{i % 5}\n" for i in range(20_000))
    (tmp_path / "t.csv").write_text(frame)
    model = tmp_path / "m.safetensors"
    assert run("fit", tmp_path / "t.csv", "-o", model, "--parts", 1, "--states", 2).exit_code == 0
    command = [sys.executable, "-m", "partwise", "states", str(model), str(tmp_path / "t.csv")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as done:
        assert done.stdout.readline().split() == [b"row", b"part0"]
        done.stdout.close()
        assert done.stderr.read() == b""
        assert done.wait(60) in (0, 1)


def test_mistyped_columns_are_guessed(tmp_path):
    (tmp_path / "t.csv").write_text("height,weight\n" + "1.5,60\n1.7,70\n" * 20)
    model = tmp_path / "m.safetensors"
    args = ("fit", tmp_path / "t.csv", "-o", model, "--parts", 1, "--states", 2)
    result = run(*args, "--ignore", "wieght")
    assert result.exit_code == 2
    assert result.stderr.endswith("no column 'wieght'; did you mean 'weight'?\n")
    assert run(*args).exit_code == 0
    result = run("predict", model, tmp_path / "t.csv", "--columns", "Weight")
    assert result.exit_code == 2
    assert result.stderr.endswith("did you mean 'weight'?\n")
    result = run("states", model, tmp_path / "t.csv", "--id", "nme")
    assert result.exit_code == 2
    assert "no column 'nme' to name the rows; columns are height, weight." in result.stderr
    assert run("impute", model, tmp_path / "t.csv").exit_code == 2
    assert run("odd", model, tmp_path / "t.csv", "--decimal", "::").exit_code == 2
    assert run("odd", model, tmp_path / "t.csv", "--date-order", "ydm").exit_code == 2
    assert run("odd", model, tmp_path / "t.csv", "--first-year", "30").exit_code == 2
    assert run("odd", model, tmp_path / "t.csv", "--duration", "m:ss").exit_code == 2
    assert run("odd", model, tmp_path / "t.csv", "--duration", "weight=mm:ss").exit_code == 2
    result = run("odd", model, tmp_path / "t.csv", "--duration", "Weight=m:ss")
    assert result.stderr.endswith("did you mean 'weight'?\n")


def test_nothing_is_read_of_columns_that_are_left_out(tmp_path):
    """A date that no one can read is refused, but not in a column that the model ignores."""
    lines = [f"{i % 28 + 1:02d}/{i % 12 + 1:02d}/2011,{i % 3}.5,{i % 2}" for i in range(40)]
    lines[30] = "09/20/2011 - 10/28/2011,0.5,1"
    (tmp_path / "t.csv").write_text("\n".join(["when,size,kind", *lines]))
    model, page = tmp_path / "m.safetensors", tmp_path / "page.html"
    args = ("fit", tmp_path / "t.csv", "-o", model, "--parts", 1, "--states", 2)
    assert "10/28/2011" in run(*args).stderr
    assert run(*args, "--ignore", "when").exit_code == 0
    assert run(*args, "--kind", "when=ignored").exit_code == 0
    assert run("report", model, tmp_path / "t.csv", "-o", page).exit_code == 0
    assert "left out as asked" in page.read_text("utf-8")


def test_two_digit_years_and_durations(tmp_path):
    (tmp_path / "t.csv").write_text("born;took\n03.04.35;3:45\n01.12.52;12:05\n")
    read = Reading(first_year=["born=1930"], duration=["took=m:ss"]).read(tmp_path / "t.csv")
    assert [value.year for value in read.X["born"]] == [1935, 1952]
    assert [value.seconds for value in read.X["took"]] == [225, 725]


def test_columns_may_be_predicted_that_a_table_lacks(tmp_path):
    lines = "".join(f"{i % 2},{'tall' if i % 2 else 'short'}\n" for i in range(60))
    (tmp_path / "t.csv").write_text("x,size\n" + lines)
    (tmp_path / "new.csv").write_text("who,x\nann,1\nbob,0\n")
    model, out = tmp_path / "m.safetensors", tmp_path / "p.csv"
    args = ("--parts", 1, "--states", 2)
    assert run("fit", tmp_path / "t.csv", "-o", model, *args).exit_code == 0
    result = run(
        "predict", model, tmp_path / "new.csv", "--columns", "size", "--id", "who", "-o", out
    )
    assert result.exit_code == 0, result.stderr
    assert out.read_text() == "who,size\nann,tall\nbob,short\n"
