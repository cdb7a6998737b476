"""Reading tables, arrays and images from files."""

import datetime
import gzip
import zipfile
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from PIL import Image
from scipy import sparse

from partwise.files import read_data
from partwise.files.frames import write_filled, write_table


@pytest.fixture
def write(tmp_path):
    def write(text, name="data.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return path

    return write


# ---------------------------------------------------------------------- text


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separators_types_and_holes(write, separator):
    rows = ["name,size,day,n", "ann,1.5,2024-01-02,1", "bob,NA,2024-02-03,", "?,2,,3"]
    data = read_data(write("\r\n".join(rows).replace(",", separator)))
    assert data.X.to_dict(as_series=False) == {
        "name": ["ann", "bob", None],
        "size": [1.5, None, 2.0],
        "day": [datetime.date(2024, 1, 2), datetime.date(2024, 2, 3), None],
        "n": [1, None, 3],
    }


def test_quotes_hold_separators_and_line_ends(write):
    X = read_data(write('a,b\n"x, y",1\n"two\nlines",2\n')).X
    assert X["a"].to_list() == ["x, y", "two\nlines"]
    assert X["b"].to_list() == [1, 2]


@pytest.mark.parametrize(
    "form", ["2024-01-02 03:04:05", "2024-01-02T03:04", "2024-01-02T03:04:05Z"]
)
def test_times_of_day(write, form):
    (value, none) = read_data(write(f"day,n\n{form},1\n,2\n")).X["day"].to_list()
    assert (value.hour, value.minute, none) == (3, 4, None)


def test_numbers_among_blanks_and_with_decimal_commas(write):
    assert read_data(write("a, b\n1, 2\n3, 4\n")).X["b"].to_list() == [2, 4]
    assert read_data(write("a;b\n1,5;x\n-2,25;y\n")).X["a"].to_list() == [1.5, -2.25]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b\n1,2\n", ["a", "b"]),
        ("1,2\n3,4\n", ["x0", "x1"]),
        ("x,y\nx,z\nw,y\n", ["x0", "x1"]),  # values that occur again
        ("sex,town\nm,york\nf,bath\n", ["sex", "town"]),
        ("a,,c\n1,2,3\n", ["a", "x1", "c"]),
        ("std::map,std::set,std::list\n1,2,3\n4,5,6\n", ["std::map", "std::set", "std::list"]),
    ],
)
def test_header_is_found(write, text, names):
    assert read_data(write(text)).X.columns == names


def test_header_can_be_told(write):
    path = write("2001,2002\n1,2\n")
    assert read_data(path, header=True).X.columns == ["2001", "2002"]
    assert read_data(path).X.shape == (2, 2)
    with pytest.warns(UserWarning, match=r"the later ones are called 'a \(2\)'"):
        twice = read_data(write("a,a\n1,2\n"), header=True).X
    assert twice.columns == ["a", "a (2)"]


def test_texts_stay_texts(write):
    path = write("code,n\n007,1\n010,2\n")
    assert read_data(path).X.to_dict(as_series=False) == {"code": ["007", "010"], "n": [1, 2]}
    assert read_data(path, numbers=["code"]).X["code"].to_list() == [7, 10]
    path = write("110,0.5,0,000\n12,00,-0,5\n")
    X = read_data(path, texts=["x0"], missing=["000"], header=False).X
    assert X.rows() == [("110", "0.5", 0, None), ("12", "00", 0, 5)]


def test_other_missing_values(write):
    X = read_data(write("a\n1\n-99\n none \n"), missing=["-99", "none"]).X
    assert X["a"].to_list() == [1, None, None]


@pytest.mark.parametrize(("encoding", "told"), [("latin-1", "latin-1"), ("utf-16", None)])
def test_encodings(write, encoding, told):
    path = write("name,n\nJosé,1\nZoë,2\n", encoding=encoding)
    assert read_data(path, encoding=told).X["name"].to_list() == ["José", "Zoë"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a,b\n1,2\n3\n4,5\n", r"line 3: 1 values where the first line has 2; correct"),
        ('a,b\n"x\ny",2\n3,4,5\n', r"line 4: 3 values"),
        ("n\n" + "1\n" * 20 + "oops\n", r"line 22: column 'n' holds 'oops'.*--missing"),
        ("a,b\n", "but no rows; add rows"),
        ("  \n", "is empty; name"),
        ("a,b\n,NA\n,\n", "all cells are empty"),
        (",,\n,,\n", "all cells are empty"),
        ('a,b\n1,2\n3,"x\n4,5\n', "line 3: a quote opens that does not close"),
        ("userId,movieId,rating\n1,2,3\n", "partwise recommend"),
        ("1::2::3::978300760\n", "partwise recommend"),
        ("a\0b,c\n", "neither text"),
    ],
)
def test_text_that_cannot_be_read(write, text, complaint):
    with pytest.raises(ValueError, match=complaint):
        read_data(write(text))


@pytest.mark.parametrize("content", [b"", b" \n", b"\xef\xbb\xbf", b"\xff\xfe", b"\xff\xfe\n\0"])
def test_files_without_text_are_empty(tmp_path, content):
    path = tmp_path / "nothing.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is empty; name a file"):
        read_data(path)


@pytest.mark.slow
def test_lines_may_be_longer_than_a_value(write):
    wide = "\n".join(",".join(str(i + j) for i in range(40_000)) for j in range(2))
    assert read_data(write(wide)).X.shape == (2, 40_000)
    with pytest.raises(ValueError, match=r"up to line 2: a value has more than 131,072 characters"):
        read_data(write(f"a,b\n1,{'x' * 140_000}\n"))
    with pytest.raises(ValueError, match="100,001 columns, above the"):
        read_data(write("1," * 100_000 + "1\n"))


def test_lines_may_end_in_other_ways(write):
    for end in ("\r", "\r\n", "\n\n", "\n"):
        X = read_data(write(end.join(["a,b", "x,1", '"y\nz",2', ""]))).X
        assert X.to_dict(as_series=False) == {"a": ["x", "y\nz"], "b": [1, 2]}


def test_values_may_hold_quotes(write):
    X = read_data(write('a,b\nx"y,1\n5" pipe,2\n"say ""no""",3\n')).X
    assert X["a"].to_list() == ['x"y', '5" pipe', 'say "no"']


def test_names_that_are_given_twice_are_told_apart(write):
    with pytest.warns(UserWarning, match=r"same name; .* called 'a \(3\)', 'a \(4\)'\."):
        names = read_data(write("a,a (2),a,a\n1,2,3,4\n"), header=True).X.columns
    assert names == ["a", "a (2)", "a (3)", "a (4)"]
    with pytest.warns(UserWarning, match=r"called 'a \(2\)'"):
        X = read_data(write("a,a\n007,1\n010,2\n"), header=True).X
    assert X.rows() == [("007", 1), ("010", 2)]


def test_long_integers_keep_their_digits(write, tmp_path):
    ids = [str(10**22 + i) for i in range(4)]
    text = "key,n\n" + "".join(f"{one},{2**62 + i}\n" for i, one in enumerate(ids))
    X = read_data(write(text)).X
    assert X["key"].to_list() == ids
    data = read_data(write(text + f"{ids[0]},\n"))
    assert data.layout.written("n", data.X["n"][:4]).to_list() == [str(2**62 + i) for i in range(4)]
    filled = np.full((5, 1), 2.0**62)
    write_filled(tmp_path / "n.parquet", replace(data, X=data.X.select("n")), filled)
    assert pl.read_parquet(tmp_path / "n.parquet")["n"].to_list() == [
        *(2**62 + i for i in range(4)),
        2**62,
    ]
    mixed = read_data(write(f"a,b\n{10**22},x\n1.5,y\n")).X
    assert mixed["a"].to_list() == [1e22, 1.5]


def test_errors_show_the_beginning_of_long_texts(write):
    long = "y" * 1000
    with pytest.raises(ValueError, match=r"holds 'yyy[y]*\.\.\.', though") as error:
        read_data(write(f"{long}\n" + "1\n" * 20 + f"{long}\n"))
    assert len(str(error.value)) < 600


def test_half_characters_are_refused(write):
    path = write("a,b\n+2D0-,1\n")  # in UTF-7 half of a pair
    with pytest.raises(ValueError, match="cannot be read as a table"):
        read_data(path, encoding="utf-7")


def test_text_in_another_encoding_is_refused_with_its_line(write):
    path = write("name\nAnn\nJosé\n", encoding="latin-1")
    with pytest.raises(ValueError, match=r"line 3: the text is not UTF-8; .*--encoding latin-1"):
        read_data(path)
    with pytest.raises(ValueError, match="no encoding 'klingon'"):
        read_data(path, encoding="klingon")


# ---------------------------------------------------------------------- arrays and parquet


def test_arrays(tmp_path):
    table, images = np.arange(6.0).reshape(2, 3), np.arange(8).reshape(2, 2, 2)
    np.save(tmp_path / "one.npy", images)
    np.savez(tmp_path / "only.npz", whatever=table)
    np.savez(tmp_path / "named.npz", other=images, X=table)
    sparse.save_npz(tmp_path / "sparse.npz", sparse.coo_matrix(table))
    assert read_data(tmp_path / "one.npy").X.shape == (2, 4)
    assert read_data(tmp_path / "one.npy").image_shape == (2, 2)
    np.testing.assert_array_equal(read_data(tmp_path / "only.npz").X, table)
    np.testing.assert_array_equal(read_data(tmp_path / "named.npz").X, table)
    found = read_data(tmp_path / "sparse.npz").X
    assert sparse.issparse(found)
    np.testing.assert_array_equal(found.toarray(), table)


def test_arrays_that_cannot_be_read(tmp_path):
    np.savez(tmp_path / "many.npz", a=np.ones((2, 2)), b=np.ones((2, 2)))
    np.save(tmp_path / "flat.npy", np.ones(3))
    np.save(tmp_path / "words.npy", np.array([["a"]]))
    np.save(tmp_path / "objects.npy", np.array([[{}]]), allow_pickle=True)
    (tmp_path / "text.npy").write_text("1,2,3")
    (tmp_path / "model.safetensors").write_text("{}")
    content = (tmp_path / "many.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(content[: len(content) // 2])
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and no more")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n"))
    with zipfile.ZipFile(tmp_path / "book.xlsx", "w") as book:
        book.writestr("xl/workbook.xml", "<workbook/>")
    for name, complaint in {
        "t.csv.gz": "is compressed; unpack it",
        "book.xlsx": r"is a workbook; save its table as \.csv",
        "many.npz": "arrays a, b",
        "flat.npy": "one row per sample",
        "words.npy": "table of numbers",
        "objects.npy": "cannot be read",
        "text.npy": "of another format than its name says",
        "model.safetensors": "is a model, not data",
        "cut.npz": "cannot be read",
        "cut.parquet": "cannot be read",
    }.items():
        with pytest.raises(ValueError, match=complaint):
            read_data(tmp_path / name)


# ---------------------------------------------------------------------- images


def test_images_in_grey_and_in_order(tmp_path):
    Image.new("RGB", (3, 2), (255, 255, 255)).save(tmp_path / "b.png")
    Image.new("L", (3, 2), 51).save(tmp_path / "a.png")
    (tmp_path / "notes.txt").write_text("not an image")
    data = read_data(tmp_path)
    assert data.image_shape == (2, 3)
    np.testing.assert_allclose(data.X, np.repeat([[0.2], [1.0]], 6, axis=1))


def test_images_of_different_sizes_can_be_resized(tmp_path):
    Image.new("L", (3, 2), 51).save(tmp_path / "a.png")
    Image.new("L", (6, 4), 51).save(tmp_path / "b.png")
    with pytest.raises(ValueError, match=r"b.png has 4x6 pixels, .*--resize 2x3"):
        read_data(tmp_path)
    np.testing.assert_allclose(read_data(tmp_path, resize=(2, 3)).X, 0.2)


def test_folders_that_cannot_be_read(tmp_path):
    with pytest.raises(ValueError, match=r"holds no tables .* and no images"):
        read_data(tmp_path)
    (tmp_path / "a.png").write_text("no image")
    with pytest.raises(ValueError, match=r"a\.png is not an image"):
        read_data(tmp_path)


# ---------------------------------------------------------------------- and back


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.parquet"])
def test_tables_come_back(tmp_path, name):
    frame = pl.DataFrame(
        {"name": ["ann", None], "n": [1, 2], "day": [datetime.date(2024, 1, 2), None]}
    )
    write_table(tmp_path / name, frame)
    assert read_data(tmp_path / name).X.equals(frame)
    write_table(tmp_path / "out.npy", np.eye(2))
    np.testing.assert_array_equal(read_data(tmp_path / "out.npy").X, np.eye(2))


def test_nothing_is_written_under_a_name_that_says_nothing(tmp_path):
    with pytest.raises(ValueError, match="must end with"):
        write_table(tmp_path / "out.xyz", np.eye(2))
    with pytest.raises(ValueError, match=r"write it as \.csv"):
        write_table(tmp_path / "out.npy", pl.DataFrame({"n": [1], "name": ["ann"]}))
    assert not list(tmp_path.iterdir())


def test_many_columns_of_dates_are_refused(write, monkeypatch):
    monkeypatch.setattr("partwise.data.decide.MAX_WRITTEN_COLUMNS", 2)
    path = write("a,b,c,d\nx,2020-01-02,3 kg,2020-01-05\n")
    with pytest.raises(
        ValueError, match=r"line 2: more than 2 columns .* as column 'd' does; write"
    ):
        read_data(path)
    assert read_data(write("a,b,c,d\nx,2020-01-02,3 kg,yes\n")).X.shape == (1, 4)
