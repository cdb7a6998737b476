"""Folders of CSV files: read as single files are, and never guessed."""

import datetime as dt

import polars as pl
import pytest

from partwise import RowSource
from partwise.data.stores import find_files
from partwise.data.text_frames import text_frames
from partwise.data.text_options import TextOptions
from partwise.files import read_data

pytest.importorskip("pyarrow")


def folder(path, *texts):
    for i, text in enumerate(texts):
        (path / f"{i}.csv").write_text(text)
    return path


def whole(frames):
    return pl.concat([frames.read(i) for i in range(len(frames.pieces))])


def test_semicolons_and_decimal_commas(tmp_path):
    folder(tmp_path, "n;x;c\n1.407;1,5;a\n877;-2,25;b\n", "n;x;c\n;NA;a\n1.000.000;3;b\n")
    found = whole(RowSource(tmp_path).frames)
    assert found["n"].to_list() == [1407, 877, None, 1000000]
    assert found["x"].to_list() == [1.5, -2.25, None, 3.0]


def test_separators_are_detected_as_in_single_files(tmp_path):
    folder(tmp_path, '"weight, dry, in kg";n\n1,5;3\n2,5;4\n')
    assert whole(RowSource(tmp_path).frames).rows() == [(1.5, 3), (2.5, 4)]
    folder(tmp_path, "1::2::5::978300760\n1::3::4::978302109\n")
    with pytest.raises(ValueError, match="looks like a list of ratings"):
        RowSource(tmp_path)


def test_codes_keep_their_zeros(tmp_path):
    folder(tmp_path, "zip,x\n01234,1\n", "zip,x\n99999,2\n")
    assert whole(RowSource(tmp_path).frames)["zip"].to_list() == ["01234", "99999"]


def test_one_file_decides_the_order_of_dates_for_all(tmp_path):
    folder(tmp_path, "day,x\n12/1/2008,1\n1/1/2009,2\n", "day,x\n12/31/2008,3\n")
    days = whole(RowSource(tmp_path).frames)["day"].to_list()
    assert days == [dt.date(2008, 12, 1), dt.date(2009, 1, 1), dt.date(2008, 12, 31)]


def test_open_readings_are_refused_and_options_decide(tmp_path):
    folder(tmp_path, "day;n\n5/5/2009;5\n", "day;n\n12/1/2008;1.407\n")
    text = r"1.csv: column 'day' holds '12/1/2008', .*use --date-order dmy or --date-order mdy"
    with pytest.raises(ValueError, match=text):
        RowSource(tmp_path)
    paths = find_files(tmp_path)
    with pytest.raises(ValueError, match=r"1.csv: column 'n' holds '1.407', which is 1407 or"):
        text_frames(paths, TextOptions(date_order={"": "mdy"}))
    found = whole(text_frames(paths, TextOptions(date_order={"": "mdy"}, thousands={"n": "."})))
    assert found.rows() == [(dt.date(2009, 5, 5), 5), (dt.date(2008, 12, 1), 1407)]
    read = read_data(tmp_path, date_order="mdy", thousands=".")
    assert whole(read.X.frames).equals(found)
    with pytest.raises(ValueError, match="options for a single file"):
        read_data(tmp_path, skip_rows=1)


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("1,red,2.5\n2,blue,3.5\n", "line 1: the line has values, not the names of columns"),
        ("a,b,c\n1,2,3\n4,5\n6,7,8\n", "line 3: 2 values where the first line has 3"),
        ("a,b\n1,2\n\n3,4\n", "line 3: a blank line"),
        ("Sales,,\na,b,c\n1,2,3\n", "a single value looks like a title"),
        ("a~b\n1~2\n", "has '~' between its values"),
        ("a b\n1 2\n", "has blanks between its values"),
        ('[{"a": 1}]\n', "is JSON"),
        ("a,b\n1,2\n\ufeff3,4\n", "line 3: the line begins with a byte order mark"),
        ("a,b\n1,2\n\0,4\n", "is neither text"),
        ("a,b\n1.5,x\nk/A,x\n2.5,x\nx,y\n3.5,y\n4.5,y\n", "column 'a' holds 'k/A' beside"),
    ],
)
def test_what_a_single_file_may_not_have_is_refused_in_folders(tmp_path, text, refused):
    with pytest.raises(ValueError, match=rf"0\.csv.* {refused}"):
        read_data(folder(tmp_path, text))


def test_forms_are_those_of_single_files(tmp_path):
    text = 'q;n;at;phone\n2019Q4;"a\nb";20240301101500;+41791234567\n2020Q1;c;20240302101500;\n'
    rows = "".join(f"2020Q2;d;2024030{i}101500;+41441234567\n" for i in range(3, 9))
    found = whole(read_data(folder(tmp_path, text + rows)).X.frames)
    assert found.equals(read_data(tmp_path / "0.csv").X)
    assert found.dtypes == [pl.Date, pl.String, pl.Datetime, pl.String]


@pytest.mark.ci
def test_the_cut_into_files_changes_nothing(tmp_path):
    rows = [f"{i % 7},{i / 8},{i * 123456789},2020-01-{i % 28 + 1:02},{i}.25" for i in range(60)]
    read = []
    for n in (1, 3, 60):
        place = tmp_path / str(n)
        place.mkdir()
        step = -(-len(rows) // n)
        cut = [rows[at : at + step] for at in range(0, len(rows), step)]
        texts = ["\n".join(["a,b,c,d,e", *part, ""]) for part in cut]
        for i, text in enumerate(texts):
            (place / f"{i:02}.csv").write_text(text)
        read.append(whole(RowSource(place).frames))
    assert read[0].dtypes == [pl.Int64, pl.Float64, pl.Int64, pl.Date, pl.Float64]
    assert read[0].equals(read[1])
    assert read[0].equals(read[2])
    assert read[0].equals(read_data(tmp_path / "1" / "00.csv").X)


def test_equal_headers_are_renamed_and_named_as_in_single_files(tmp_path):
    text = 'a, a,b,,"a"\n1,2,3,4,5\n'
    folder(tmp_path, text, text)
    with pytest.warns(
        UserWarning, match=r"0.csv has several .* called 'a \(2\)', 'a \(3\)'\."
    ) as told:
        found = whole(RowSource(tmp_path).frames)
    assert len(told) == 1  # not one per file
    with pytest.warns(UserWarning, match="of the same name"):
        single = read_data(tmp_path / "0.csv")
    assert found.columns == single.X.columns == ["a", "a (2)", "b", "x3", "a (3)"]
    assert found.rows() == [(1, 2, 3, 4, 5)] * 2
