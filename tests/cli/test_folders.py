"""``partwise fit FOLDER/`` and ``partwise impute MODEL FOLDER/ -o OUT/``."""

import polars as pl
import pytest
from typer.testing import CliRunner

from partwise import make_survey
from partwise.cli.main import app

pytest.importorskip("pyarrow")


@pytest.fixture
def folder(tmp_path):
    table = pl.from_pandas(make_survey(300, n_parts=2, random_state=0).frame)
    where = tmp_path / "survey"
    where.mkdir()
    table[:100].write_parquet(where / "a.parquet")
    table[100:].write_parquet(where / "b.parquet")
    return where


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_folder_is_fitted_and_imputed(folder, tmp_path):
    model, out = tmp_path / "model.safetensors", tmp_path / "imputed"
    found = run("fit", folder, "-o", model, "--parts", 2, "--states", 3, "--ignore", "number0")
    assert found.exit_code == 0, found.output
    assert "300 rows" in found.output
    found = run("impute", model, folder, "-o", out)
    assert found.exit_code == 0, found.output
    assert "Wrote 2 files" in found.output
    imputed = pl.read_parquet(sorted(out.glob("*.parquet")))
    assert imputed.shape == (300, pl.read_parquet(folder / "a.parquet").width)
    assert imputed.drop("number0").null_count().to_numpy().sum() == 0
    assert run("impute", model, folder, "-o", out).exit_code == 0  # nothing is left to do
    assert run("impute", model, folder, "-o", "x.csv").exit_code == 2


def test_samples_fill_a_folder(folder, tmp_path):
    model, out = tmp_path / "model.safetensors", tmp_path / "sampled"
    options = ("--parts", 1, "--states", 2, "--id", "number0", "--checkpoint", tmp_path / "c")
    assert run("fit", folder, "-o", model, *options).exit_code == 0
    assert not (tmp_path / "c").exists()  # the fit has ended
    found = run("sample", model, "-n", 50, "-o", out)
    assert found.exit_code == 0, found.output
    assert len(pl.read_parquet(sorted(out.glob("*.parquet")))) == 50
    assert "--like is for one text file" in run("sample", model, "-o", out, "--like", "x").output


def test_a_folder_of_text(tmp_path):
    where = tmp_path / "text"
    where.mkdir()
    for i in range(2):
        rows = [f"{10 * (j % 2) + j / 8:.3f};{'ab'[j % 2]}" for j in range(40 * i, 40 * i + 40)]
        (where / f"{i}.csv").write_text("\n".join(["x;c", *rows, ""]).replace(".", ","))
    model = tmp_path / "model.safetensors"
    found = run("fit", where, "-o", model, "--parts", 1, "--states", 2, "--decimal", ",")
    assert found.exit_code == 0, found.output
    assert "80 rows and 2 columns" in found.output
    found = run("fit", where, "-o", model, "--model", "mcfa", "--parts", 1, "--states", 1)
    assert found.exit_code == 0, found.output  # a table of numbers and levels
