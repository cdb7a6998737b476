"""Files as other programs leave them: read as what they are or refused, and written back."""

import re

import polars as pl
import pytest
from typer.testing import CliRunner

from partwise.cli import app
from partwise.files import read_data
from partwise.files.frames import write_filled, write_table
from tests.files.nasty import NASTY
from tests.files.nasty_times import TIMES
from tests.files.nasty_wild import WILD

CASES = [*NASTY, *TIMES, *WILD]

# Tested beside the text reader.
pytestmark = pytest.mark.filterwarnings("ignore:.* has several columns of the same name")


@pytest.fixture
def write(tmp_path):
    def write(case):
        path = tmp_path / "data.csv"
        path.write_bytes(case.text.encode(case.encoding))
        return path

    return write


read = pytest.mark.parametrize(
    "case", [case for case in CASES if case.values is not None], ids=lambda case: case.name
)


def test_there_are_enough():
    assert len(CASES) >= 25
    assert len({case.name for case in CASES}) == len(CASES)


@read
def test_values_are_what_they_are(write, case):
    data = read_data(write(case), **case.options)
    assert data.X.to_dict(as_series=False) == case.values
    assert re.search(case.told, data.description)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.values is None], ids=lambda case: case.name
)
def test_what_is_in_doubt_is_refused(write, case):
    with pytest.raises(ValueError, match=case.refused) as error:
        read_data(write(case), **case.options)
    assert "\n" not in str(error.value)


@read
def test_nothing_filled_is_nothing_changed(write, case, tmp_path):
    path = write(case)
    data = read_data(path, **case.options)
    write_filled(tmp_path / "out.csv", data, data.X)
    assert (tmp_path / "out.csv").read_bytes() == path.read_bytes()


@read
def test_filled_cells_are_written_like_the_others(write, case, tmp_path):
    """All cells that are missing get the first value of their column, and no other byte changes."""
    path, out = write(case), tmp_path / "out.csv"
    data = read_data(path, **case.options)
    held = {column.name: column.drop_nulls() for column in data.X.get_columns()}
    filled = data.X.with_columns(
        pl.col(name).fill_null(pl.lit(values[0], values.dtype)) for name, values in held.items()
    )
    write_filled(out, data, filled)
    again = read_data(out, **case.options)
    assert again.X.equals(filled)
    cells, before = (one.layout.cells for one in (again, data))
    for column in data.X.get_columns():
        known = column.is_not_null()
        name = column.name
        assert cells[name].filter(known).to_list() == before[name].filter(known).to_list()
        first = before[name].filter(known).to_list()[0].strip()
        assert {text.strip() for text in cells[name].filter(~known)} <= {first}
    (content, given) = (one.read_text(data.layout.source.codec) for one in (out, path))
    assert content.count("\r") == given.count("\r")
    assert content.endswith("\n") == given.endswith("\n")


@read
def test_other_rows_are_written_in_the_same_way(write, case, tmp_path):
    data = read_data(write(case), **case.options)
    write_table(tmp_path / "rows.csv", data.X, data)
    options = {name: value for name, value in case.options.items() if name != "skip_rows"}
    options.pop("id_column", None)
    again = read_data(tmp_path / "rows.csv", **options)
    assert again.X.equals(data.X)


def test_times_with_several_offsets_are_filled_in_one(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("t,n\n2024-03-31T01:30:00+01:00,1\n2024-03-31T03:30:00+02:00,2\n,3\n")
    data = read_data(path)
    write_filled(path, data, data.X.with_columns(pl.col("t").fill_null(strategy="max")))
    assert path.read_text().splitlines()[3] == "2024-03-31T01:30:00+00:00,3"
    assert read_data(path).X["t"][2] == data.X["t"][1]


def test_values_in_the_users_own_form(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(
        b"when;at;people;price;share;ok\r\n"
        b"1.2.2009;7:05;1.407;1.234,50 EUR;45,5%;yes\r\n"
        b"11.12.2009;15:10;877;-3,00 EUR;5,0%;no\r\n"
        b"NA;NA;NA;NA;NA;NA\r\n"
    )
    data = read_data(path)
    new = data.X.with_columns(
        pl.col("when").fill_null(pl.date(2010, 3, 4)),
        pl.col("at").fill_null(pl.time(9, 30)),
        pl.col("people").fill_null(1234567),
        pl.col("price").fill_null(-98765.432),
        pl.col("share").fill_null(7.26),
        pl.col("ok").fill_null("no"),
    )
    write_filled(path, data, new)
    last = path.read_bytes().split(b"\r\n")[3]
    assert last == b"4.3.2010;9:30;1.234.567;-98.765,43 EUR;7,3%;no"


# ---------------------------------------------------------------------- through the commands


def run(*args):
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    assert result.exit_code == 0, result.stderr
    return result


def semicolons(n, missing):
    """A table in the German way; every so many cells are missing."""
    lines = ["Ort;Einwohner;Fläche;Stand;Quelle"]
    for i in range(n):
        big = i % 2
        cells = [
            "Stadt" if big else "Dorf",
            f"{1407 + 100 * i}" if big else f"{700 + i}",
            f"{50 + i},25" if big else f"{5 + i},50",
            f"{1 + i % 28}.{1 + i % 12}.2020",
            f"Amt {i}",
        ]
        cells[1] = cells[1] if len(cells[1]) < 4 else f"{cells[1][:-3]}.{cells[1][-3:]}"
        if missing and i % 5 == 0:
            cells[1 + i % 3] = "k.A."
        lines.append(";".join(cells))
    return "\r\n".join(lines).encode("cp1252")


def test_impute_keeps_the_form_of_a_file(tmp_path):
    whole, holed = tmp_path / "whole.csv", tmp_path / "holed.csv"
    whole.write_bytes(semicolons(40, False))
    holed.write_bytes(semicolons(40, True))
    model, out = tmp_path / "m.safetensors", tmp_path / "out.csv"
    how = ("--encoding", "cp1252", "--missing", "k.A.", "--id", "Quelle")
    told = run("fit", holed, "-o", model, "--parts", 1, "--states", 2, *how)
    assert "points in 'Einwohner' separate thousands" in told.stderr
    assert "Quelle" not in told.stdout
    run("impute", model, whole, "-o", out, *how)
    assert out.read_bytes() == whole.read_bytes()
    run("impute", model, holed, "-o", out, "--intervals", 0.8, *how)
    before, after = (path.read_bytes().decode("cp1252").split("\r\n") for path in (holed, out))
    assert len(before) == len(after) == 41
    for old, new in zip(before, after, strict=True):
        pairs = list(zip(old.split(";"), new.split(";"), strict=True))
        assert all(one == other for one, other in pairs if one != "k.A.")
        assert re.fullmatch(
            r"\w+;(\d{1,3}(\.\d{3})*|\w+);(\d+(,\d{1,2})?|\w+);([\d.]+|\w+);.*", new
        )
    assert "k.A." not in out.read_text("cp1252")
    lower = read_data(tmp_path / "out-lower.csv", encoding="cp1252", missing=["k.A."]).X
    assert lower["Fläche"].dtype == pl.Float64
    rows = tmp_path / "rows.csv"
    run("sample", model, "-n", 30, "-o", rows, "--like", holed, *how)
    drawn = read_data(rows, encoding="cp1252")
    assert drawn.layout.separator == ";"
    assert drawn.layout.line_end == "\r\n"
    assert drawn.X.schema == {
        "Ort": pl.String, "Einwohner": pl.Int64, "Fläche": pl.Float64, "Stand": pl.Date
    }  # fmt: skip


def test_rows_are_named_by_their_ids(tmp_path):
    holed, model = tmp_path / "holed.csv", tmp_path / "m.safetensors"
    holed.write_bytes(semicolons(40, True))
    how = ("--encoding", "cp1252", "--missing", "k.A.", "--id", "Quelle")
    run("fit", holed, "-o", model, "--parts", 1, "--states", 2, *how)
    listed = run("impute", model, holed, "--list", *how).stdout.splitlines()
    assert listed[0].split() == ["row", "column", "value", "lower", "upper", "probability"]
    assert [line.split()[1] for line in listed[1:]] == [str(i) for i in range(0, 40, 5)]
    assert all(line.startswith("Amt ") for line in listed[1:])
    for command in (("states",), ("odd", "-n", 5), ("predict", "--columns", "Ort,Stand")):
        lines = run(command[0], model, holed, *command[1:], *how).stdout.splitlines()
        assert lines[0].startswith("Quelle")
        assert all(line.startswith("Amt ") for line in lines[1:])
    out = tmp_path / "list.csv"
    run("impute", model, holed, "--list", "-o", out, *how)
    table = pl.read_csv(out)
    assert table.columns == ["row", "column", "value", "lower", "upper", "probability"]
    assert len(table) == 8
