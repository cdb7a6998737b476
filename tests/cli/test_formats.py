"""Values are read and written as in the text file of the fit, whatever model was fitted to it."""

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import partwise
from partwise.cli import app
from partwise.cli.tables import as_written


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
        (["--classes", 2], "--classes, --checkpoint and --max-time are for --model mcvq or mcfa"),
        (["--max-time", 5], "--classes, --checkpoint and --max-time are for --model mcvq or mcfa"),
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


@pytest.mark.parametrize("command", ["impute", "states", "odd", "drift", "report"])
def test_a_file_that_is_read_is_not_written_over(folder, command):
    table = folder / "table.csv"
    before = table.read_bytes()
    result = run(command, folder / "m.safetensors", table, "-o", table)
    assert result.exit_code == 2
    assert "is read by this command; name another file" in result.stderr
    result = run("fit", table, "-o", table)
    assert result.exit_code == 2
    assert table.read_bytes() == before


def test_drift_is_that_of_columns_of_the_model(folder):
    result = run("drift", folder / "m.safetensors", folder / "table.csv", "--all")
    assert result.exit_code == 0, result.stderr
    names = [line.split()[0] for line in result.stdout.splitlines()[1:]]
    assert sorted(names) == ["area", "part0", "price", "rooms", "sold"]  # names are left out


def test_a_word_in_a_new_table_is_refused_without_options_of_fit(folder, tmp_path):
    text = (folder / "table.csv").read_text("utf-8").splitlines()
    cells = text[5].split(";")
    text[5] = ";".join([*cells[:2], "large", *cells[3:]])
    (tmp_path / "new.csv").write_text("\n".join(text) + "\n", "utf-8")
    out = ("-o", tmp_path / "out.csv")
    result = run("impute", folder / "m.safetensors", tmp_path / "new.csv", *out)
    assert result.exit_code == 1
    assert "line 6: column 'area' holds 'large'" in result.stderr
    assert "--missing 'large'." in result.stderr
    result = run("fit", tmp_path / "new.csv", "-o", tmp_path / "m.safetensors")
    assert "--missing 'large' or --kind 'area=categorical'." in result.stderr


def test_large_numbers_are_printed_without_exponents():
    numbers = pl.Series("salary", [641960.3, 100000.0, 0.25])
    assert as_written(None, numbers).to_list() == ["641960", "100000", "0"]
    numbers = pl.Series("x", [1.23456789, 12.0])
    assert as_written(None, numbers).to_list() == ["1.235", "12"]


def test_an_imputer_writes_several_completed_tables(folder, tmp_path):
    args = ("impute", folder / "i.safetensors", folder / "table.csv", "--number", 2)
    result = run(*args, "-o", tmp_path / "a.csv")
    assert result.exit_code == 0, result.stderr
    first, second = ((tmp_path / f"a-{i}.csv").read_text("utf-8") for i in (1, 2))
    assert first != second
    assert partwise.load(folder / "i.safetensors").text_format_.columns["price"].unit == "€"
    assert all(line.split(";")[1].endswith(" €") for line in first.splitlines()[1:])
