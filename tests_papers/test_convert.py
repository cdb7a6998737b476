"""Data sets from tiny files in their original formats, read back by the loaders."""

import gzip

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from partwise import datasets
from partwise.cli.main import app
from partwise_papers import convert as converters
from partwise_papers.convert import OriginalFileError, convert


def test_faces_of_pgm_folders(tmp_path, monkeypatch):
    monkeypatch.setattr(converters, "MOST_NONFACES", 3)
    rng = np.random.default_rng(0)
    images = {}
    for part, kind, n in (
        ("train", "face", 3), ("train", "non-face", 2),
        ("test", "face", 2), ("test", "non-face", 5),
    ):  # fmt: skip
        folder = tmp_path / part / kind
        folder.mkdir(parents=True)
        images[part, kind] = rng.integers(256, size=(n, 19, 19), dtype=np.uint8)
        for i, image in enumerate(images[part, kind]):
            comment = b"# made by hand\n" if i == 0 else b""
            content = b"P5\n" + comment + b"19 19\n255\n" + image.tobytes()
            (folder / f"image{i:05}.pgm").write_bytes(content)
    convert("cbcl", tmp_path, tmp_path / "data")
    faces = datasets.load_cbcl_faces(data_home=tmp_path / "data")
    expected = images["train", "face"].reshape(3, -1) / 255
    np.testing.assert_array_equal(faces.data, expected)
    np.testing.assert_array_equal(faces.nonfaces, images["train", "non-face"].reshape(2, -1) / 255)
    chosen = np.sort(np.random.default_rng(0).choice(5, 3, replace=False))
    others = images["test", "non-face"][chosen].reshape(3, -1) / 255
    np.testing.assert_array_equal(faces.test_nonfaces, others)


def test_ratings_of_eachmovie(tmp_path, monkeypatch):
    monkeypatch.setattr(converters, "LEAST_RATINGS", 3)
    votes = [(1, m, 0.2 * (m % 6)) for m in range(1, 11)] + [(2, 1, 0.4), (2, 2, 0.4)]
    votes += [(3, m, 1.0) for m in (1, 2, 3)] + [(3, 3, 0.0)]  # voted again
    lines = [f"{u}\t{m}\t{s:g}\t1\t2/26/1996 13:17:00" for u, m, s in votes]
    (tmp_path / "Vote.txt").write_text("\n".join(lines) + "\n")
    movies = [f"{m}\tFilm {m}\t\t\tOld" for m in range(1, 10)]
    (tmp_path / "Movie.txt").write_text("\n".join(movies))
    convert("eachmovie", tmp_path, tmp_path)
    ratings = datasets.load_eachmovie(tmp_path)
    assert ratings.user_ids.tolist() == [1, 3]
    assert ratings.data.shape == (2, 10)
    np.testing.assert_array_equal(ratings.data.toarray()[0], 1 + np.arange(1, 11) % 6)
    assert ratings.data.toarray()[1, :3].tolist() == [6, 6, 1]
    assert ratings.titles[0] == "Film 1"
    assert ratings.titles[9] == ""
    assert np.bincount(ratings.row, ratings.is_test).tolist() == [2, 1]


def test_words_of_nips(tmp_path):
    texts = {
        "corpus": "2 0:3 2:1\n1 1:70\n", "vocab": "cell = 3 1\nkernel = 70 1\nneuron = 1 1\n",
        "docs": "On cells,\nOn kernels\n", "labels": "1\n0\n", "vols": "0\n12\n",
        "labels.key": "Theory\nBiology\n", "authors": "1 0\n1\n", "authors.key": "Ann_A\nBob_B\n",
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / f"nips.{name}").write_text(text)
    convert("nips", tmp_path, tmp_path)
    papers = datasets.load_nips(tmp_path)
    np.testing.assert_array_equal(papers.data.toarray(), [[3, 0, 1], [0, 70, 0]])
    assert papers.vocab.tolist() == ["cell", "kernel", "neuron"]
    assert papers.titles.tolist() == ["On cells", "On kernels"]
    assert papers.volume.tolist() == [0, 12]
    assert papers.label_names[papers.label].tolist() == ["Biology", "Theory"]
    assert papers.authors == [["Bob_B", "Ann_A"], ["Bob_B"]]


@pytest.mark.parametrize("packed", [False, True])
def test_digits_of_usps(packed, tmp_path):
    rng = np.random.default_rng(0)
    tables = {}
    for name, n in (("zip.train", 4), ("zip.test", 2)):
        pixels = np.round(rng.uniform(-1, 1, (n, 256)), 3)
        tables[name] = rng.integers(10, size=n), pixels
        lines = [
            f"{digit:.4f} " + " ".join(f"{p:.3f}" for p in row) + " "
            for digit, row in zip(*tables[name], strict=True)
        ]
        content = "\n".join(lines).encode()
        if packed:
            (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (tmp_path / name).write_bytes(content)
    convert("usps", tmp_path, tmp_path)
    digits = datasets.load_usps(tmp_path)
    np.testing.assert_array_equal(digits.data, tables["zip.train"][1])
    np.testing.assert_array_equal(digits.test_target, tables["zip.test"][0])


@pytest.mark.parametrize("named", [False, True])
def test_genes_of_yeast(named, tmp_path):
    values = np.random.default_rng(0).integers(-1, 600, size=(3, 17))
    values[0, 0] = -1
    lines = [" ".join(map(str, row)) for row in values]
    lines = [f"YAL00{i}W {line}" if named else line for i, line in enumerate(lines)]
    (tmp_path / "yeast.matrix").write_text("\n".join(lines))
    convert("yeast", tmp_path / "yeast.matrix", tmp_path)
    genes = datasets.load_yeast(tmp_path)
    np.testing.assert_array_equal(np.isnan(genes.data), values < 0)
    np.testing.assert_array_equal(np.nan_to_num(genes.data, nan=-1.0), values)
    assert genes.gene_names[2] == ("YAL002W" if named else "gene2")


def test_the_painting(tmp_path):
    colors = np.random.default_rng(0).integers(256, size=(120, 100, 3), dtype=np.uint8)
    Image.fromarray(colors).save(tmp_path / "girl.png")
    convert("pearl", tmp_path / "girl.png", tmp_path)
    painting = datasets.load_pearl_earring(tmp_path)
    assert painting.image.shape == (768, 704)
    gray = np.rint(colors @ [0.299, 0.587, 0.114]) / 255
    np.testing.assert_allclose(painting.full_image, gray)


def test_the_command(tmp_path, monkeypatch):
    (tmp_path / "yeast.matrix").write_text("1 2\n3 4\n")
    monkeypatch.delenv("PARTWISE_DATA", raising=False)
    runner = CliRunner()
    result = runner.invoke(app, ["convert", "yeast", str(tmp_path)])
    assert result.exit_code == 2
    monkeypatch.setenv("PARTWISE_DATA", str(tmp_path / "data"))
    result = runner.invoke(app, ["convert", "yeast", str(tmp_path)])
    assert result.exit_code == 0
    assert (tmp_path / "data" / "yeast.npz").is_file()
    for name, source in (("yeast", tmp_path / "none"), ("yeats", tmp_path)):
        assert runner.invoke(app, ["convert", name, str(source)]).exit_code == 2


@pytest.mark.parametrize(
    ("name", "files", "words"),
    [
        ("cbcl", {}, "no .pgm files"),
        ("eachmovie", {}, "no vote.txt"),
        ("eachmovie", {"vote.txt": "1 2 3"}, "Line 1 of Vote.txt"),
        ("eachmovie", {"vote.txt": "1\t2\t3"}, "outside 0 to 1"),
        ("eachmovie", {"vote.txt": "1\t2\t0.4"}, "No user"),
        ("nips", {"nips.vocab": "a", "nips.corpus": "2 0:1"}, "Line 1 of nips.corpus"),
        ("nips", {"nips.vocab": "a", "nips.corpus": "1 1:1"}, "beyond"),
        ("usps", {"zip.train": "1 2 3"}, "257 numbers"),
        ("yeast", {"yeast.matrix": "1 2\n3"}, "as many numbers"),
        ("yeast", {"yeast.matrix": "a b c"}, "not numbers"),
    ],
)
def test_other_files_are_refused(name, files, words, tmp_path):
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    with pytest.raises(OriginalFileError, match=words):
        convert(name, tmp_path, tmp_path / "data")


@pytest.mark.parametrize("content", [b"P2\n1 1\n255\n0", b"P5\n2 2\n255\n0", b""])
def test_images_that_are_none(content, tmp_path):
    folder = tmp_path / "train" / "face"
    folder.mkdir(parents=True)
    (folder / "a.pgm").write_bytes(content)
    with pytest.raises(OriginalFileError, match=r"not a binary PGM|cut off"):
        convert("cbcl", tmp_path, tmp_path / "data")
