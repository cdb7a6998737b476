"""A model remembers how the text file of its rows was written."""

import datetime

import pytest
from sklearn.datasets import load_iris
from typer.testing import CliRunner

from partwise import MCVQ, load
from partwise.cli import app
from partwise.data.text_options import MISSING, ColumnFormat, TextFormat
from partwise.files import read_data
from partwise.files.model import ModelFileError
from tests.fuzz.models import known_parts, whole

FORMAT = TextFormat(
    frozenset({*MISSING, "-99"}),
    {
        "n": ColumnFormat(decimal=","),
        "weight": ColumnFormat(decimal=".", unit="kg"),
        "day": ColumnFormat(date_order="mdy"),
        "born": ColumnFormat(date_order="dmy", first_year=1916),
        "took": ColumnFormat(duration="m:ss"),
        "word": ColumnFormat(),
    },
)


@pytest.fixture
def path(tmp_path):
    model = MCVQ(1, 2, max_iter=2, tol=1e9, random_state=0).fit(load_iris().data[:20])
    model.text_format_ = FORMAT
    model.save(tmp_path / "m.safetensors")
    return tmp_path / "m.safetensors"


def test_a_format_is_saved_and_a_fit_forgets_it(path, tmp_path):
    model = load(path)
    assert model.text_format_ == FORMAT
    model.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()
    model.fit(load_iris().data[:20]).save(path)
    assert not hasattr(load(path), "text_format_")
    assert "text_format" not in known_parts(path.read_bytes())[0]


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (3, "it is 3, not a dict"),
        ({"dict": {"missing": ["", 3], "columns": {"dict": {}}}}, "missing\\[1\\] is 3, not text"),
        (
            {"dict": {"missing": [], "columns": {"dict": {"n": {"dict": {"decimal": ";"}}}}}},
            "columns.n.decimal is ';', not one of",
        ),
    ],
)
def test_formats_that_are_none_are_refused(path, state, said):
    header, arrays = known_parts(path.read_bytes())
    header["text_format"] = state
    path.write_bytes(whole(header, arrays))
    with pytest.raises(ModelFileError, match=said):
        load(path)


def read(path, text, **options):
    (path / "new.csv").write_text(text)
    return read_data(path / "new.csv", like=FORMAT, **options).X.to_dict(as_series=False)


def test_a_format_decides_what_a_new_file_leaves_in_doubt(tmp_path):
    found = read(tmp_path, "n;day;born;took\n1.407;12/1/2008;03.04.35;3:45\n2.300;;-99;\n")
    assert found == {
        "n": [1407, 2300],
        "day": [datetime.date(2008, 12, 1), None],
        "born": [datetime.date(1935, 4, 3), None],
        "took": [datetime.timedelta(seconds=225), None],
    }
    with pytest.raises(ValueError, match=r"column 'other' holds '1.407', which is 1407 or 1.407"):
        read(tmp_path, "n;other\n1.407;1.407\n")


def test_centuries_on_which_file_and_format_disagree_are_refused(tmp_path):
    with pytest.raises(ValueError, match="which are 1920 to 1920 or 2020 to 2020; use --first-y"):
        read(tmp_path, "born;n\n03.04.20;1\n")
    found = read(tmp_path, "born;n\n03.04.20;1\n", first_year=2000)
    assert found["born"] == [datetime.date(2020, 4, 3)]


def test_units_are_those_of_the_fit(tmp_path):
    assert read(tmp_path, "weight,n\n66 kg,1\n")["weight"] == [66]
    with pytest.warns(UserWarning, match="'weight' have no unit and are taken to be in kg"):
        assert read(tmp_path, "weight,n\n66,1\n")["weight"] == [66]
    with pytest.raises(ValueError, match="line 2: column 'weight' has values in lb, but the model"):
        read(tmp_path, "weight,n\n66 lb,1\n")
    with pytest.raises(ValueError, match=r"'n' has values in \$, but .* values without a unit"):
        read(tmp_path, "weight;n\n66 kg;$1\n")


def test_commands_read_new_files_like_that_of_the_fit(tmp_path):
    def run(*args):
        return CliRunner().invoke(app, list(map(str, args)))

    table, model, out = (tmp_path / name for name in ("t.csv", "m.safetensors", "o.csv"))
    table.write_text("n;x\n" + "1.407;1,5\n877;2,5\n" * 20)
    result = run("fit", table, "-o", model, "--parts", 1, "--states", 2)
    assert result.exit_code == 0, result.stderr
    table.write_text("n;x\n1.407;\n2.300;\n")
    result = run("impute", model, table, "-o", out)
    assert result.exit_code == 0, result.stderr
    assert out.read_text().startswith("n;x\n1.407;1,5\n")
