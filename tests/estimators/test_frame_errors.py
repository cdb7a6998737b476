"""Bad tables that are not in memory: one sentence names file, row group and column, and advises."""

import warnings

import numpy as np
import polars as pl
import pytest

from partwise import MCFA, MCVQ, Checkpoint, RowSource, write_parquet
from partwise.data import survey as surveys
from partwise.estimators import _table_rows
from partwise.fitted import fitted_of
from partwise.fitting import checkpoint
from tests.estimators.test_frame_sources import N, survey, write

arrow = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("ignore")


def model(**options):
    return MCVQ(2, 3, **{"likelihood": "auto", "random_state": 0, "max_iter": 2, **options})


@pytest.fixture(scope="module")
def in_memory():
    with warnings.catch_warnings(action="ignore"):
        return model().fit(survey())


def lacks_column(folder):
    survey()[:50].drop("town").write_parquet(folder / "3.parquet")


def has_column(folder):
    survey()[:50].with_columns(extra=1).write_parquet(folder / "3.parquet")


def has_text(folder):
    part = survey()[:150].with_columns(
        pl.when(pl.int_range(150) < 100).then(None).otherwise(pl.lit("tall")).alias("height")
    )
    part.write_parquet(folder / "3.parquet", row_group_size=50)


def has_no_bytes(folder):
    (folder / "3.parquet").write_bytes(b"")


def is_cut(folder):
    path = folder / "1.parquet"
    path.write_bytes(path.read_bytes()[:-100])


def is_damaged(folder):
    path = folder / "1.parquet"
    content = bytearray(path.read_bytes())
    content[4:2000] = bytes(1996)
    path.write_bytes(content)


SAME = "give files with the same columns."
DAMAGE = [
    (lacks_column, rf"3.parquet lacks the column 'town', unlike .*0.parquet; {SAME}"),
    (has_column, rf"3.parquet has the column 'extra', unlike .*0.parquet; {SAME}"),
    (
        has_text,
        r"3.parquet, row group 2: column 'height' has text or categories \(String\), but numbers "
        r"\(Float64\) before; convert the column, or leave it out.",
    ),
    (has_no_bytes, r"3.parquet could not be read as .parquet \(.*\); write it again, or leave"),
    (is_cut, r"1.parquet could not be read as .parquet \(.*\); write it again, or leave it out."),
    (is_damaged, r"1.parquet, row group 0 could not be read: .*; restore the source, and call"),
]


@pytest.mark.parametrize(("harm", "text"), DAMAGE, ids=lambda one: getattr(one, "__name__", ""))
def test_a_bad_file_is_one_sentence(harm, text, tmp_path):
    folder = write(tmp_path, "parquet")
    harm(folder)
    with pytest.raises((ValueError, OSError), match=text) as caught:
        model().fit(folder)
    assert len(str(caught.value).splitlines()) == 1


def test_text_files(tmp_path):
    write(tmp_path, "csv")
    header = (tmp_path / "0.csv").read_text().partition("\n")[0]
    (tmp_path / "3.csv").write_text(f"{header}\n")  # of a day without rows
    assert RowSource(tmp_path).shape[0] == N
    for content, text in (
        ("", r"9.csv is empty; leave it out"),
        ("town,height\nUlm,1.5\n", r"9.csv has other columns than .*0.csv \('answer'\); give"),
    ):
        (tmp_path / "9.csv").write_text(content)
        with pytest.raises(ValueError, match=text):
            model().fit(tmp_path)
    (tmp_path / "9.csv").write_text(survey()[:50].with_columns(town=7).write_csv())
    with pytest.raises(ValueError, match=r"9.csv: column 'town' has numbers, but text in .*0.csv"):
        model().fit(tmp_path)
    with pytest.raises(ValueError, match=r"3.csv has no rows; give files with at least one row"):
        model().fit(tmp_path / "3.csv")


def test_a_column_of_text_without_values_is_missing(tmp_path):
    folder = write(tmp_path, "parquet")
    empty = survey()[:50].with_columns(height=pl.lit(None, pl.String))
    empty.write_parquet(folder / "3.parquet")
    found = model().fit(folder)
    assert fitted_of(found).schema.columns[1].kind == "gaussian"


def changed(folder):
    survey()[:50].write_parquet(folder / "2.parquet")


def deleted(folder):
    (folder / "2.parquet").unlink()


@pytest.mark.parametrize(
    ("harm", "text"),
    [
        (changed, r"2.parquet, row group 0 could not be read: the file has changed .*; fit again."),
        (deleted, r"2.parquet, row group 0 could not be read: .*No such file.*; restore the"),
    ],
)
def test_a_file_that_changes_between_passes_keeps_the_checkpoint(harm, text, tmp_path, monkeypatch):
    folder, path = write(tmp_path, "parquet"), tmp_path / "fit.checkpoint"
    learn, whole = _table_rows.survey_frames, (folder / "2.parquet").read_bytes()
    options = {"max_iter": 6, "tol": 0.0, "gating": "tied"}
    expected = model(**options).fit(folder)

    def write_once(*arguments):
        write_file(*arguments)
        raise KeyboardInterrupt

    write_file = checkpoint.save_checkpoint
    monkeypatch.setattr(checkpoint, "save_checkpoint", write_once)
    with pytest.raises(KeyboardInterrupt):
        model(**options).fit(folder, checkpoint=Checkpoint(path, every=0))
    monkeypatch.undo()
    kept = path.read_bytes()

    def harmed(frames, *arguments):
        found = learn(frames, *arguments)
        harm(folder)
        return found

    monkeypatch.setattr(_table_rows, "survey_frames", harmed)
    with pytest.raises(OSError, match=text):
        model(**options).fit(folder, checkpoint=path)
    assert path.read_bytes() == kept
    monkeypatch.undo()
    (folder / "2.parquet").write_bytes(whole)
    found = model(**options).fit(folder, checkpoint=path)
    np.testing.assert_allclose(found.lower_bounds_, expected.lower_bounds_, rtol=1e-9)
    assert not path.exists()


def test_a_category_that_is_new_in_the_second_pass():
    passes = iter(range(9))

    def frames():
        second = next(passes) == 3  # one to look at the type, one for the sizes, the survey
        for lo in (0, 300):
            part = survey()[lo : lo + 300]
            yield part.with_columns(town=pl.lit("Paris")) if second and lo else part

    text = r"frame 1: column 'town' has 'Paris', which it did not have in the first pass; do not"
    with pytest.raises(ValueError, match=text):
        model().fit(frames)


def test_a_category_after_the_fit_is_missing_and_named(in_memory):
    new = survey()[:5].with_columns(town=pl.lit("Paris"))
    with pytest.warns(UserWarning, match=r"'town' has 1 value\(s\) that fit did not see"):
        in_memory.impute([new, new])
    found = model().fit(survey())
    with pytest.warns(UserWarning, match=r"'town' has values that fit did not see \(first: 'P"):
        found.partial_fit([new, new])


def test_too_many_levels_are_refused_by_name(monkeypatch, tmp_path):
    monkeypatch.setattr(surveys, "MAX_DISTINCT", 200)
    folder = write(tmp_path, "parquet")
    text = r"Column 'note' has more than .* levels, above 256; group its levels, or leave it out"
    with pytest.raises(ValueError, match=text):
        model(likelihood={"note": "categorical"}).fit(folder)
    assert fitted_of(model().fit(folder)).schema.columns[-1].kind == "ignored"


class Dropped:
    """A query whose server ends the connection after some batches."""

    def __arrow_c_stream__(self, requested_schema=None):
        table = survey().to_arrow()

        def batches():
            yield from table.to_batches(max_chunksize=100)[:2]
            raise ConnectionError("the server closed the connection")

        reader = arrow.RecordBatchReader.from_batches(table.schema, batches())
        return reader.__arrow_c_stream__(requested_schema)


def test_a_connection_that_drops(in_memory):
    text = r"The Arrow stream could not be read: .*the server closed.*; connect again, and give"
    for call in (model().fit, in_memory.impute):
        with pytest.raises(OSError, match=text) as caught:
            call(Dropped())
        assert len(str(caught.value).splitlines()) == 1

    def frames():
        yield survey()[:300]
        raise ConnectionError("the server closed the connection")

    text = r"frame 1 could not be read: the server closed the connection; restore the source"
    with pytest.raises(OSError, match=text):
        model().fit(frames)


def test_text_for_a_model_of_numbers(tmp_path):
    text = r"0.parquet, row group 0\) could not be read: it holds 'Oslo' .* column 'town', .*\)\.$"
    with pytest.raises(OSError, match=text):
        MCFA(1, 1).fit(write(tmp_path, "parquet"))


def test_a_bad_file_stops_writing_and_the_same_call_continues(in_memory, tmp_path):
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    write(source, "parquet")
    good = (source / "1.parquet").read_bytes()
    pl.read_parquet(source / "1.parquet").with_columns(height=pl.lit("tall")).write_parquet(
        source / "1.parquet", row_group_size=70
    )
    text = r"1.parquet, row group 0: Column 'height' had numbers in fit but has 'tall' now; convert"
    with pytest.raises(ValueError, match=text):
        write_parquet(in_memory.impute, source, out)
    assert [path.name for path in sorted(out.glob("*.parquet"))] == ["00000.parquet"]
    (source / "1.parquet").write_bytes(good)
    files = write_parquet(in_memory.impute, source, out)
    assert pl.read_parquet(files).equals(in_memory.impute(survey()))


def test_a_file_that_changed_is_imputed_again(in_memory, tmp_path):
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    write(source, "parquet")
    first = [path.stat().st_mtime_ns for path in write_parquet(in_memory.impute, source, out)]
    other = pl.read_parquet(source / "1.parquet").reverse()
    other.write_parquet(source / "1.parquet", row_group_size=70)
    files = write_parquet(in_memory.impute, source, out)
    assert pl.read_parquet(files[1]).equals(in_memory.impute(other))
    again = [path.stat().st_mtime_ns == then for path, then in zip(files, first, strict=True)]
    assert again == [True, False, *[True] * (len(files) - 2)]


def test_samples_without_end(in_memory, tmp_path, monkeypatch):
    monkeypatch.setattr("partwise.estimators.sinks.BATCH_ROWS", 40)
    files = write_parquet(in_memory.sample, 100, tmp_path / "a", random_state=0)
    assert [len(pl.read_parquet(path)) for path in files] == [40, 40, 20]
    files[1].unlink()
    again = write_parquet(in_memory.sample, 100, tmp_path / "a", random_state=0)
    whole = write_parquet(in_memory.sample, 100, tmp_path / "b", random_state=0)
    assert pl.read_parquet(again).equals(pl.read_parquet(whole))
    assert pl.read_parquet(whole[0])["height"].n_unique() > 20


def test_dask_partitions_that_do_not_agree_are_named():
    dask = pytest.importorskip("dask")
    frames = pytest.importorskip("dask.dataframe")
    good = survey()[:100].select("height", "kids").to_pandas()
    bad = good.assign(height="tall")
    parts = [dask.delayed(lambda x: x)(one) for one in (good, good, bad)]
    X = frames.from_delayed(parts, meta=good.iloc[:0], verify_meta=False)
    with pytest.raises(ValueError, match=r"partition 2: column 'height' has text .* before; conv"):
        model().fit(X)
