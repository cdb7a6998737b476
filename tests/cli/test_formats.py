"""Values are read and written as in the text file of the fit, whatever model was fitted to it."""

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import partwise
from partwise.cli import app


def run(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with decimal commas, euros and dates, its model, and an imputer."""
    folder = tmp_path_factory.mktemp("formats")
    rng = np.random.default_rng(0)
    lines = ["name;price;area;rooms;sold"]
    for i in range(90):
        area, size = 40 + 100 * rng.random(), rng.integers(1, 5)
        price = "" if i % 9 == 4 else f"{int(area) * 3}.000 €"
        area = f"{area:.1f}".replace(".", ",")
        lines.append(f"house {i};{price};{area};{size};{1 + i % 28:02d}.{1 + i % 12:02d}.2021")
    table = folder / "table.csv"
    table.write_text("\n".join(lines) + "\n", "utf-8")
    for model in ("mcvq", "imputer"):
        path = folder / f"{model[0]}.safetensors"
        result = run("fit", table, "--model", model, "-o", path, "--parts", 1, "--states", 2)
        assert result.exit_code == 0, result.stderr
    return folder


@pytest.mark.parametrize("model", ["m", "i"])
@pytest.mark.parametrize(
    ("given", "column", "value"),
    [
        ("price=240.000 €", "price", 240000),
        ("area=61,5", "area", 61.5),
        ("area=61.5", "area", 61.5),
        ("sold=24.12.2021", "sold", "2021-12-24"),
        ("sold=2021-12-24", "sold", "2021-12-24"),
    ],
)
def test_given_values_are_read_as_the_table_was(folder, tmp_path, model, given, column, value):
    out = tmp_path / "rows.csv"
    result = run("sample", folder / f"{model}.safetensors", "-n", 3, "--given", given, "-o", out)
    assert result.exit_code == 0, result.stderr
    assert pl.read_csv(out)[column].to_list() == [value] * 3


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("area=large", "'large' is not a number; write it like 1.5"),
        ("sold=soon", "'soon' is not a date; write it like 2026-01-31"),
        ("price=5 $", "has values in $, but the model was fitted to values in €"),
    ],
)
def test_given_values_that_a_column_cannot_have_are_refused(folder, given, told):
    result = run("sample", folder / "m.safetensors", "--given", given)
    assert result.exit_code == 2
    assert told in result.stderr


def test_a_given_level_outside_of_those_of_the_fit_is_told(folder):
    result = run("sample", folder / "m.safetensors", "-n", 1, "--given", "rooms=99")
    assert result.exit_code == 0
    assert "outside of the range that fit saw, 1 to 4" in result.stderr


def test_an_imputer_is_fitted_as_in_python(folder, tmp_path):
    fitted = partwise.load(folder / "i.safetensors")
    assert type(fitted) is partwise.PartsImputer
    assert fitted.get_params()["n_states"] == 2
    result = run("impute", folder / "i.safetensors", folder / "table.csv", "--list")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[1].split()[:2] == ["5", "price"]
    assert " €" in result.stdout.splitlines()[1]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--classes", 2], "--classes and --checkpoint are for --model mcvq or mcfa"),
        (["--max-states", 2], "--max-states is for --model mcvq"),
    ],
)
def test_options_that_an_imputer_lacks_are_refused(folder, options, told):
    result = run("fit", folder / "table.csv", "--model", "imputer", *options)
    assert result.exit_code == 2
    assert told in result.stderr


def test_the_page_of_an_imputer_shows_its_states(folder, tmp_path):
    out = tmp_path / "page.html"
    result = run("report", folder / "i.safetensors", folder / "table.csv", "-o", out)
    assert result.exit_code == 0, result.stderr
    assert "rooms" in out.read_text("utf-8")


def test_drift_of_an_imputer_is_refused(folder):
    result = run("drift", folder / "i.safetensors", folder / "table.csv")
    assert result.exit_code == 1
    assert "PartsImputer, which cannot be compared with new rows" in result.stderr


def test_an_imputer_writes_several_completed_tables(folder, tmp_path):
    args = ("impute", folder / "i.safetensors", folder / "table.csv", "--number", 2)
    result = run(*args, "-o", tmp_path / "a.csv")
    assert result.exit_code == 0, result.stderr
    first, second = ((tmp_path / f"a-{i}.csv").read_text("utf-8") for i in (1, 2))
    assert first != second
    assert partwise.load(folder / "i.safetensors").text_format_.columns["price"].unit == "€"
    assert all(line.split(";")[1].endswith(" €") for line in first.splitlines()[1:])
