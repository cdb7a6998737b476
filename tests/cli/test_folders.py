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
