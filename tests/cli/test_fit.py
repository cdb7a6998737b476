"""From files to models, filled tables and drawn rows, by commands alone."""

import json
import re
import signal
import subprocess
import sys
import warnings

import numpy as np
import polars as pl
import pytest
from PIL import Image
from scipy import sparse
from typer.testing import CliRunner

import partwise
from partwise import GVQ, MCVQ, make_shapes
from partwise.cli import app
from partwise.datasets.survey import make_survey
from partwise.files.ratings import read_rating_list
from partwise.starts import classes as starts

SIZES = ("--parts", 2, "--states", 4)


def run(*args):
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # as for a user: told, and no error
        return CliRunner().invoke(app, [str(arg) for arg in args])


@pytest.fixture(scope="module")
def survey():
    frame = make_survey(300, n_parts=2, n_columns_per_kind=1, random_state=0).frame
    frame.insert(0, "id", range(1000, 1300))
    return frame


@pytest.fixture(scope="module")
def fitted(survey, tmp_path_factory):
    """A table, its model, and what was printed."""
    folder = tmp_path_factory.mktemp("fit")
    survey.to_csv(folder / "survey.csv", index=False)
    result = run(
        "fit", folder / "survey.csv", "-o", folder / "m.safetensors", *SIZES,
        "--report", folder / "page.html", "--kind", "count0=gaussian", "--ignore", "answer1",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    return folder, result


def test_fit_says_what_it_read_guessed_and_found(fitted):
    folder, result = fitted
    assert "a table of 300 rows and 11 columns, separated by commas; the first" in result.stderr
    assert "looks like an identifier" in result.stderr
    for text in ("1 column left out of the model: id.", "as gaussian: number0, count0,", "2 parts"):
        assert text in result.stdout
    assert "overall" in result.stdout
    assert (folder / "page.html").read_text("utf-8").startswith("<!doctype html>")
    model = partwise.load(folder / "m.safetensors")
    assert model.n_parts_ == 2
    assert "answer1" not in list(model.feature_names_in_)


@pytest.mark.ci
def test_fit_finds_sizes_by_itself_and_speaks_json(survey, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    survey.to_csv("table.tsv", sep="\t", index=False)
    result = run("fit", "table.tsv", "--json", "--max-time", 60)
    assert result.exit_code == 0, result.stderr
    content = json.loads(result.stdout)
    assert content["model"] == "table.safetensors"
    assert [column["name"] for column in content["columns"]] == list(survey.columns)
    told = [set(part["columns"]) for part in content["parts"]]
    assert sum(map(len, told)) == sum(column["part"] >= 0 for column in content["columns"])
    assert all(part["described"] for part in content["parts"] if part["columns"])
    model = partwise.load("table.safetensors")
    assert model.n_parts == model.n_states == "auto"
    assert model.n_parts_ == len(content["parts"])


@pytest.mark.slow
def test_sizes_of_long_tables_come_from_some_rows(survey, tmp_path, monkeypatch):
    table = survey.drop(columns="id")
    table.loc[7, "group0"] = "rare"
    table.to_csv(tmp_path / "table.csv", index=False)
    monkeypatch.setattr("partwise.SizeOptions.sample_rows", lambda *_: 150)
    out = tmp_path / "m.safetensors"
    result = run("fit", tmp_path / "table.csv", "-o", out)
    assert result.exit_code == 0, result.stderr
    assert "Sizes were selected on 150 of the rows." in result.stderr
    model = partwise.load(out)
    assert model.row_labels_.shape == (300, model.n_parts_)
    assert "rare" in model.column_levels_["group0"]
    assert not model.warm_start


def test_the_same_model_as_in_python(fitted, survey):
    folder, _ = fitted
    X = pl.from_pandas(survey.drop(columns="answer1"))
    ours = partwise.load(folder / "m.safetensors")
    model = partwise.MCVQ(2, 4, likelihood={"count0": "gaussian"}, random_state=0)
    with pytest.warns(UserWarning, match="identifier"):
        model.fit(X)
    np.testing.assert_array_equal(model.parts_, ours.parts_)
    assert model.lower_bound_ == pytest.approx(ours.lower_bound_, rel=1e-9)


def test_mcfa_and_arrays(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)).repeat(3, axis=1) + 0.1 * rng.normal(size=(200, 6))
    X[0, 0] = np.nan
    np.save(tmp_path / "x.npy", X)
    model = tmp_path / "m.safetensors"
    result = run("fit", tmp_path / "x.npy", "-o", model, "--model", "mcfa")
    assert result.exit_code == 0, result.stderr
    assert "Part 1, 1 factor, 3 columns" in result.stdout
    assert run("impute", model, tmp_path / "x.npy", "-o", tmp_path / "f.npy").exit_code == 0
    filled = np.load(tmp_path / "f.npy")
    assert abs(filled[0, 0] - X[0, 1]) < 0.6
    np.testing.assert_array_equal(filled[1:], X[1:])
    assert run("sample", model, "-n", 7, "-o", tmp_path / "rows.csv").exit_code == 0
    assert pl.read_csv(tmp_path / "rows.csv").shape == (7, 6)


@pytest.mark.parametrize("name", ["1", "x1"])
def test_columns_of_arrays_are_given_as_they_are_told_and_as_they_are_written(tmp_path, name):
    model, rows = tmp_path / "m.safetensors", tmp_path / "rows.csv"
    X = np.random.default_rng(0).normal(size=(40, 3))
    MCVQ(1, 2, random_state=0).fit(X).save(model)
    result = run("sample", model, "-n", 4, "--given", f"{name}=7.5", "-o", rows)
    assert result.exit_code == 0, result.stderr
    assert pl.read_csv(rows)["x1"].to_list() == [7.5] * 4


@pytest.mark.ci
@pytest.mark.parametrize(
    ("options", "attribute", "shape"),
    [
        (("--class-chain",), "class_transitions_", (2, 2)),
        (("--part-groups", 2), "group_class_priors_", (2, 2, 2)),
    ],
)
def test_classes_of_rows(tmp_path, monkeypatch, options, attribute, shape):
    monkeypatch.setattr(starts, "N_STARTS", 2)
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=(80, 1))
    np.save(tmp_path / "rows.npy", 4.0 * kind + rng.normal(size=(80, 4)))
    out = tmp_path / "m.safetensors"
    done = run("fit", tmp_path / "rows.npy", "-o", out, "--parts", 2, "--states", 2,
               "--classes", 2, *options)  # fmt: skip
    assert done.exit_code == 0, done.stderr
    model = partwise.load(out)
    assert getattr(model, attribute).shape == shape
    printed = done.stdout[done.stdout.index("2 classes of rows") :]
    for share in model.class_priors_:
        assert f"{100 * share:.0f} %" in printed
    assert re.search(r"x\d (high|low)", printed)
    told = run("predict", out, tmp_path / "rows.npy")
    assert told.exit_code == 0, told.stderr
    assert "class" in told.stdout.splitlines()[0]


def test_images(tmp_path):
    (tmp_path / "shapes").mkdir()
    for i, row in enumerate(make_shapes().data[::8]):
        image = np.uint8(255 * row.reshape(11, 11))
        Image.fromarray(image).save(tmp_path / "shapes" / f"{i:03}.png")
    out, page = tmp_path / "m.safetensors", tmp_path / "page.html"
    result = run("fit", tmp_path / "shapes", "-o", out, "--report", page, *SIZES)
    assert result.exit_code == 0, result.stderr
    assert "92 images of 11x11 pixels" in result.stderr
    assert "121 pixels modeled as gaussian." in result.stdout
    assert page.exists()


@pytest.mark.parametrize(
    ("values", "law"), [([1, 1], "bernoulli"), ([1, 3], "poisson"), ([0.5, 2.0], "gaussian")]
)
def test_sparse(tmp_path, values, law):
    rng = np.random.default_rng(0)
    X = sparse.coo_array(np.where(rng.random((60, 8)) < 0.4, rng.random((60, 8)), 0.0))
    X.data = rng.choice(values, X.nnz).astype(float)
    sparse.save_npz(tmp_path / "x.npz", X.tocsr())
    result = run("fit", tmp_path / "x.npz", "-o", tmp_path / "m.safetensors", *SIZES)
    assert result.exit_code == 0, result.stderr
    assert f"The likelihood is {law}" in result.stderr


# ---------------------------------------------------------------------- what is wrong is said


@pytest.mark.parametrize(
    ("args", "code", "complaint"),
    [
        (("--parts", "none"), 2, "neither a positive integer"),
        (("--model", "pca"), 2, "--model 'pca' is unknown; choices are mcvq, mcfa, imputer."),
        (("--kind", "number0"), 2, "COLUMN=KIND"),
        (("--kind", "nmber0=gaussian"), 2, "no column 'nmber0'; did you mean 'number0'?"),
        (("--kind", "number0=gausian"), 2, "'gausian' is unknown; did you mean 'gaussian'?"),
        (("--likelihood", "poison"), 2, "'poison' is unknown; did you mean 'poisson'?"),
        (("--max-states", "3", "--states", "4"), 2, "--max-states is for"),
        (("--class-chain",), 2, "need --classes"),
        (("--classes", "2", "--part-groups", "2", "--model", "mcfa"), 2, "for --model mcvq"),
        (("--id", "nmber0"), 2, "has no column 'nmber0'"),
        (("--columns", "number0,nothing"), 2, "no column 'nothing'"),
        (("--max-time", "0"), 2, "above 0"),
        (("-o", "no/such/folder/m.safetensors"), 2, "no folder"),
        (("-o", "."), 2, "is a folder; name a file in it"),
        (("--resize", "big"), 2, "not a height and a width"),
    ],
)
def test_what_is_asked_wrongly(fitted, tmp_path, monkeypatch, args, code, complaint):
    folder, _ = fitted
    monkeypatch.chdir(tmp_path)
    result = run("fit", folder / "survey.csv", *args)
    assert result.exit_code == code, result.stderr
    assert complaint in result.stderr.splitlines()[-1]
    assert not list(tmp_path.iterdir())


def test_data_that_cannot_be_read_is_one_sentence_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n3\n")
    result = run("fit", "bad.csv")
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert "bad.csv, line 3" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["bad.csv"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
@pytest.mark.ci
def test_interrupt_keeps_the_best_model(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.normal(size=(400, 12)))
    code = """if True:  # once it climbs, one sweep after the other and no end to it
        import os, signal
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
        from partwise.cli import app
        from partwise.engine import Monitor
        stop = Monitor.stop
        def stop_and_go(self, bound):
            if len(self.trace) == 3:
                os.kill(os.getpid(), signal.SIGINT)
            stop(self, bound)
            return self.interrupted
        Monitor.stop = stop_and_go
        app()
    """
    done = subprocess.run(
        [sys.executable, "-c", code, "fit", "x.npy", "--parts", "3", "--states", "3", "--json"],
        capture_output=True,
        text=True,
        timeout=300,  # of a busy machine
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 128 + signal.SIGINT, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last == "Stopped early: the best model so far is in x.safetensors."
    assert json.loads(done.stdout)["stopped"]
    assert partwise.load(tmp_path / "x.safetensors").n_iter_ == 3


# ---------------------------------------------------------------------- impute and sample


def test_impute(fitted, tmp_path):
    folder, _ = fitted
    result = run(
        "impute", folder / "m.safetensors", folder / "survey.csv", "-o", tmp_path / "f.csv",
        "--intervals", 0.8,
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    given, filled = pl.read_csv(folder / "survey.csv"), pl.read_csv(tmp_path / "f.csv")
    assert filled.columns == given.columns
    for name in given.columns:
        known = given[name].is_not_null()
        assert filled[name].filter(known).to_list() == given[name].filter(known).to_list()
        assert filled[name].null_count() == (given[name].null_count() if name == "answer1" else 0)
    lower, upper = (pl.read_csv(tmp_path / f"f-{end}.csv") for end in ("lower", "upper"))
    assert (lower["number0"] <= upper["number0"]).all()
    inside = (lower["number0"] <= filled["number0"]) & (filled["number0"] <= upper["number0"])
    assert inside.mean() > 0.7


def test_impute_draws_several_tables(fitted, tmp_path):
    folder, _ = fitted
    args = ("impute", folder / "m.safetensors", folder / "survey.csv", "--number", 2)
    assert run(*args, "-o", tmp_path / "a.csv").exit_code == 0
    assert run(*args, "-o", tmp_path / "b.csv").exit_code == 0
    first, second = ((tmp_path / f"a-{i}.csv").read_text() for i in (1, 2))
    assert first != second
    assert first == (tmp_path / "b-1.csv").read_text()


def test_what_the_model_never_saw_stays(fitted, survey, tmp_path):
    folder, _ = fitted
    table = survey.copy()
    table.loc[0, "group0"] = "new <b>"
    table.to_csv(tmp_path / "new.csv", index=False)
    out = tmp_path / "f.csv"
    result = run("impute", folder / "m.safetensors", tmp_path / "new.csv", "-o", out)
    assert "did not see" in result.stderr
    assert pl.read_csv(out)["group0"][0] == "new <b>"


def test_impute_needs_the_columns(fitted, survey, tmp_path):
    folder, _ = fitted
    survey.drop(columns="group0").to_csv(tmp_path / "less.csv", index=False)
    out = tmp_path / "f.csv"
    result = run("impute", folder / "m.safetensors", tmp_path / "less.csv", "-o", out)
    assert result.exit_code == 1
    assert "lacks the column 'group0'" in result.stderr
    assert not out.exists()


def test_sample_given_some_values(fitted, tmp_path):
    folder, _ = fitted
    args = ("sample", folder / "m.safetensors", "-n", 20, "-o", tmp_path / "rows.csv")
    result = run(*args, "--given", "group0=a", "--given", "number0=1.5")
    assert result.exit_code == 0, result.stderr
    rows = pl.read_csv(tmp_path / "rows.csv")
    assert set(rows["group0"]) == {"a"}
    assert set(rows["number0"]) == {1.5}
    assert rows["count1"].n_unique() > 1
    assert run(*args, "--given", "number0=red").exit_code == 2
    result = run(*args, "--given", "nothing=1")
    assert result.exit_code == 2
    assert "no column 'nothing'" in result.stderr


def test_a_model_of_another_kind(tmp_path):
    path, data = tmp_path / "m.safetensors", tmp_path / "x.npy"
    X = np.random.default_rng(0).normal(size=(20, 3))
    np.save(data, X)
    GVQ(n_components=2, random_state=0).fit(X).save(path)
    result = run("impute", path, data, "-o", tmp_path / "f.csv", "--number", 3)
    assert result.exit_code in (1, 2)
    assert "GVQ" in result.stderr
    result = run("impute", data, data, "-o", tmp_path / "f.csv")
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "f.csv").exists()


def test_a_table_of_text_for_a_model_of_numbers(tmp_path):
    path, data = tmp_path / "m.safetensors", tmp_path / "x.csv"
    MCVQ(1, 2, random_state=0).fit(np.random.default_rng(0).normal(size=(20, 2))).save(path)
    data.write_bytes("name,n\nJosé,1\nZoë,2\n".encode("latin-1"))
    for command in ("impute", "report"):
        result = run(command, path, data, "-o", tmp_path / "out.csv", "--encoding", "latin-1")
        assert result.exit_code == 1
        assert "x.csv: column 'name' holds String, but the model was fitted to" in result.stderr
        assert not (tmp_path / "out.csv").exists()


def test_a_table_is_reported(fitted, tmp_path):
    folder, _ = fitted
    out = tmp_path / "page.html"
    result = run("report", folder / "m.safetensors", folder / "survey.csv", "-o", out)
    assert result.exit_code == 0, result.stderr
    assert "group0" in out.read_text("utf-8")


@pytest.mark.parametrize(
    "text",
    [
        "user,item,rating\n1,10,4\n2,11,3.5\n",
        "userId,movieId,rating,timestamp\n1,10,4.0,978\n2,11,3.5,979\n",
        "1::10::4::978\n2::11::3.5::979\n",
        "1\t10\t4\t978\n2\t11\t3.5\t979\n",
        "user|item|rating\n1|10|4\n2|11|3.5\n",
        "user\tnote\titem\trating\n1\ta::b\t10\t4\n2\t\t11\t3.5\n",
        "note::user\titem\trating\tuser\nx\t10\t4\t1\ny\t11\t3.5\t2\n",
        "user;item;rating;what, where, when, why\n1;10;4;a\n2;11;3.5;b\n",
        "'a, b, c, d';user;item;rating\nx;1;10;4\ny;2;11;3.5\n",
    ],
)
def test_lists_of_ratings_in_all_their_forms(tmp_path, text):
    (tmp_path / "ratings.txt").write_text(text)
    found = read_rating_list(tmp_path / "ratings.txt")
    assert found == (["1", "2"], ["10", "11"], [4.0, 3.5])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_ratings_are_told_from_models_by_what_is_in_the_file(tmp_path, encoding):
    ratings, model = tmp_path / "u.data", tmp_path / "films"
    pairs = [(user, item) for user in range(4) for item in range(3)]
    lines = (f"{u}\t{i}\t{1 + (u + i) % 5}\t978\n" for u, i in pairs)
    ratings.write_text("".join(lines), encoding)
    first = run("recommend", ratings, "--rated", "0=5", "--save", model)
    again = run("recommend", model, "--rated", "0=5")
    assert first.exit_code == again.exit_code == 0
    assert first.stdout == f"Wrote {model}.\n{again.stdout}"


def test_recommendations_for_a_user_of_a_file_with_other_column_names(tmp_path):
    sales = tmp_path / "sales.csv"
    sales.write_text(
        "who,what,stars\n" + "".join(f"u{i % 7},f{i % 5},{1 + i % 3}\n" for i in range(20))
    )
    found = run("recommend", sales, "--columns", "who,what,stars", "--user", "u3")
    assert found.exit_code == 0
    assert "expected rating" in found.stdout
    rated = {f"f{i % 5}" for i in range(20) if i % 7 == 3}
    assert not any(item in found.stdout for item in rated)
    taken = run("recommend", sales, "--columns", "who,what", "--user", "u3")
    assert "probability" in taken.stdout
    for wrong in (["--user", "u9"], ["--columns", "who"], ["--user", "u3", "--rated", "f0=1"]):
        assert run("recommend", sales, "--columns", "who,what,stars", *wrong).exit_code == 2


def test_mistakes_about_a_person_are_found_before_the_fit(tmp_path, monkeypatch):
    """And what nobody has to say, an item that was taken, needs no rating."""
    sales = tmp_path / "sales.csv"
    sales.write_text(
        "who,what,stars\n" + "".join(f"u{i % 7},f{i % 5}=x,{i % 2}\n" for i in range(20))
    )
    taken, stars = ["--columns", "who,what"], ["--columns", "who,what,stars"]
    saved = tmp_path / "model"
    found = run("recommend", sales, *taken, "-r", "f0=x", "--explain", "f1=x", "--save", saved)
    assert found.exit_code == 0
    assert "f1=x: probability of taking it " in found.stdout
    same = run("recommend", sales, *taken, "-r", "f0=x=1", "-r", "f2=x=0", "--explain", "f1=x")
    assert found.stdout == f"Wrote {saved}.\n{same.stdout}"
    assert f"│ f1=x │ {found.stdout.split('taking it ')[1][:4]}" in found.stdout
    # Ratings of 0 and 1 are ratings.
    assert "expected rating" in run("recommend", sales, *stars, "--user", "u3").stdout

    def fit(*_, **__):
        raise AssertionError("The mistake is found before the fit.")

    monkeypatch.setattr("partwise.Recommender.fit", fit)
    for source, given, message in (
        (sales, [*stars, "-r", "f0=x"], "'f0=x' is not ITEM=RATING"),
        (sales, [*stars, "-r", "=1"], "'=1' is not ITEM=RATING"),
        (sales, [*stars, "-r", "f0=x=nan"], "'f0=x=nan' is not ITEM=RATING"),
        (sales, [*stars, "-r", "f0=x=7"], "the rating 7 of 'f0=x' is not on the scale 0, 1"),
        (sales, [*stars, "-r", "f9=x=1"], "there is no item 'f9=x'"),
        (sales, [*taken, "-r", "f9=x"], "there is no item 'f9=x'"),
        (sales, [*taken, "--explain", "f9=x"], "there is no item 'f9=x'"),
        (sales, [*taken, "--user", "u9"], "there is no user 'u9'"),
        (saved, ["-r", "f9=x"], "there is no item 'f9=x'"),
        (saved, ["--user", "u1"], "saved without its users"),
    ):
        wrong = run("recommend", source, *given)
        assert wrong.exit_code != 0
        assert message in wrong.stderr


def test_evaluation_of_ratings_in_a_file(tmp_path):
    ratings = tmp_path / "u.data"
    ratings.write_text("".join(f"{i % 9}\t{i % 7}\t{1 + i % 5}\t9\n" for i in range(60)))
    found = run("recommend", ratings, "--evaluate", "--number", "3")
    assert found.exit_code == 0
    for name in ("popularity", "ndcg", "coverage", "log_loss", "95 % interval"):
        assert name in found.stdout


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is empty"),
        ("user,item,rating\n", "has no ratings"),
        ("person,thing\n1,2\n", "has no column 'item'"),
        ("user,item,rating\na,b,5\na,c,x\n", "line 3: 'x' is not a rating; write a number"),
        ("user,item,rating\na,b\n", "line 2: the rating is missing"),
        (f"user,item,rating\na,b,{'9x' * 500}\n", r"line 2: '[9x]{37}\.\.\.' is not a rating"),
        (f"user,item,rating\na,{'b' * 140_000},5\n", "line 2: a value has more than 131,072"),
        ("user,item,rating\na,José,5\n", "line 2: the text is not UTF-8; .*--encoding latin-1"),
    ],
)
def test_lists_of_ratings_that_cannot_be_read(tmp_path, text, complaint):
    path = tmp_path / "ratings.csv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=rf"ratings\.csv.*{complaint}"):
        read_rating_list(path)


def test_ratings_in_another_encoding(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_bytes("user,item,rating\na,José,5\n".encode("latin-1"))
    assert read_rating_list(path, "latin-1") == (["a"], ["José"], [5.0])


@pytest.mark.parametrize(
    "args",
    [
        ("impute", "m.safetensors", "x.csv"),
        ("sample", "m.safetensors"),
        ("report", "m.safetensors"),
        ("compress", "a.png"),
        ("decompress", "a.gvq"),
    ],
)
def test_a_folder_that_is_not_there_is_known_at_once(args):
    result = run(*args, "-o", "no/such/out.csv")
    assert result.exit_code == 2
    assert result.stderr == "Error: there is no folder no/such to write out.csv to.\n"


# ---------------------------------------------------------------------- the command as a module


def test_help_has_examples():
    for command in ("fit", "impute", "sample", "report", "recommend", "compress", "demo"):
        result = run(command, "--help")
        assert result.exit_code == 0
        assert f"partwise {command}" in " ".join(result.stdout.split("Examples")[1].split())


def test_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "partwise", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"partwise {partwise.__version__}\n"


def test_an_id_that_the_fit_left_out_names_rows_later(fitted, tmp_path):
    folder, _ = fitted
    files = folder / "m.safetensors", folder / "survey.csv"
    for command in (("states",), ("odd", "-n", 3), ("impute", "--list")):
        result = run(command[0], *files, *command[1:], "--id", "id")
        assert result.exit_code == 0, result.stderr
        assert result.stdout.splitlines()[1].split()[0] in map(str, range(1000, 1300))
    out = tmp_path / "imputed.csv"
    assert run("impute", *files, "--id", "id", "-o", out, "--intervals", 0.9).exit_code == 0
    for word in ("lower", "upper"):
        end = pl.read_csv(tmp_path / f"imputed-{word}.csv")
        assert end["id"].to_list() == pl.read_csv(folder / "survey.csv")["id"].to_list()
    assert out.read_text().splitlines()[0] == (folder / "survey.csv").read_text().splitlines()[0]


@pytest.mark.ci
def test_odd_cells_of_all_kinds_of_columns_are_written_as_in_the_file(tmp_path):
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=60)
    frame = pl.DataFrame(
        {
            "pay": 1000.25 + 5000 * z + rng.integers(100, size=60),
            "kind": np.array(["uu", "vv"])[z],
            "day": np.datetime64("2024-01-01") + 100 * z + rng.integers(9, size=60),
        }
    )
    lines = [f'"{pay:,.2f}",{kind},{day}' for pay, kind, day in frame.rows()]
    (tmp_path / "t.csv").write_text("\n".join(["pay,kind,day", *lines]) + "\n")
    for name, table in (("polars", frame), ("pandas", frame.to_pandas())):
        MCVQ(1, 2, likelihood="auto", random_state=0).fit(table).save(tmp_path / name)
        result = run("odd", tmp_path / name, tmp_path / "t.csv", "-n", 200)
        assert result.exit_code == 0, result.stderr
        told = [line.split()[1:4] for line in result.stdout.splitlines()[1:]]
        assert {column for column, _, _ in told} == {"pay", "kind", "day"}
        assert {value for column, value, _ in told if column == "pay"} == {
            f"{pay:,.2f}" for pay in frame["pay"]
        }
        for column, *cells in told:
            form = {"pay": r"\d,\d{3}\.\d\d|\d{3}\.\d\d", "day": r"2024-0\d-\d\d", "kind": "uu|vv"}[
                column
            ]
            assert all(re.fullmatch(form, cell) for cell in cells), cells


def test_samples_are_printed_and_missing_columns_of_predict_are_asked_for(fitted):
    folder, _ = fitted
    result = run("sample", folder / "m.safetensors", "-n", 3)
    assert result.exit_code == 0, result.stderr
    assert len(result.stdout.splitlines()) == 4
    result = run("predict", folder / "m.safetensors", folder / "survey.csv")
    assert result.exit_code == 2
    assert "has no classes; name columns with --columns" in result.stderr


def test_a_part_without_columns_has_no_states_to_print(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{a:.2f},{a + b:.2f}" for a, b in rng.normal(size=(40, 2))]
    (tmp_path / "t.csv").write_text("\n".join(["a,b", *rows]) + "\n")
    model = tmp_path / "m.safetensors"
    result = run("fit", tmp_path / "t.csv", "-o", model, "--parts", 3, "--states", 2)
    assert result.exit_code == 0, result.stderr
    assert re.search(r"Part \d has no columns\.\n\n", result.stdout)
    assert "average" not in result.stdout
    summary = partwise.load(model).summary()
    empty = summary["part"][summary["columns"].index("")]
    assert f"{empty}: no columns" in str(summary)
    assert "average" not in str(summary)
    assert "average" not in summary._repr_html_()


def test_columns_without_sampled_values_are_named(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{a:.3f},{b:.3f},person {i}" for i, (a, b) in enumerate(rng.normal(size=(60, 2)))]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,name", *rows]) + "\n")
    model = tmp_path / "m.safetensors"
    assert run("fit", tmp_path / "t.csv", "-o", model, "--parts", 1, "--states", 2).exit_code == 0
    result = run("sample", model, "-n", 3)
    assert "'name': left out of the model, therefore empty in the sample." in result.stderr
