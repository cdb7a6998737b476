"""Loaders of public data sets: where they look, and what they say when nothing is there."""

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from partwise.datasets import (
    load_cbcl_faces,
    load_eachmovie,
    load_mnist,
    load_movielens,
    load_nips,
    load_pearl_earring,
    load_usps,
    load_yeast,
    loaders,
)

LOADERS = [
    (load_cbcl_faces, "cbcl_faces.npz"),
    (load_eachmovie, "eachmovie.npz"),
    (load_mnist, "mnist.npz"),
    (load_movielens, "movielens_100k.npz"),
    (load_nips, "nips_0_12.npz"),
    (load_pearl_earring, "pearl_earring.npz"),
    (load_usps, "usps_digits.npz"),
    (load_yeast, "yeast.npz"),
]


def needs(name):
    folder = os.environ.get("PARTWISE_DATA")
    there = bool(folder) and Path(folder, name).is_file()
    return pytest.mark.skipif(not there, reason=f"PARTWISE_DATA names no folder with {name}")


@pytest.fixture
def no_web(monkeypatch):
    def fail(url, checksum):
        raise OSError("no network")

    monkeypatch.setattr(loaders, "_retrieve", fail)


# Without the data.


@pytest.mark.usefixtures("no_web")
@pytest.mark.parametrize(("load", "name"), LOADERS)
def test_missing_file_is_explained_in_one_sentence(load, name, tmp_path, monkeypatch):
    monkeypatch.delenv("PARTWISE_DATA", raising=False)
    for arguments in ({}, {"data_home": tmp_path}):
        with pytest.raises(FileNotFoundError) as caught:
            load(**arguments)
        message = str(caught.value)
        assert message.startswith(name)
        assert "PARTWISE_DATA" in message
        assert "original" in message
        assert message.endswith(".")
        assert ". " not in message
        assert "\n" not in message
    assert str(tmp_path) in message


def test_data_home_goes_before_the_environment(tmp_path, monkeypatch):
    for folder, value in (("given", 7), ("set", 8)):
        (tmp_path / folder).mkdir()
        np.savez(
            tmp_path / folder / "yeast.npz",
            expression=np.array([[value, -1]], dtype=np.int16),
            gene=np.array(["YAL001C"]),
        )
    monkeypatch.setenv("PARTWISE_DATA", str(tmp_path / "set"))
    np.testing.assert_array_equal(load_yeast().data, [[8, np.nan]])
    np.testing.assert_array_equal(load_yeast(data_home=tmp_path / "given").data, [[7, np.nan]])


def test_small_integers_do_not_overflow(tmp_path):
    user = np.array([32767, 1, 32767, 2], dtype=np.int16)
    item = np.array([30000, 30000, 5, 5], dtype=np.int16)
    np.savez(
        tmp_path / "movielens_1m.npz",
        user=user,
        item=item,
        rating=np.array([5, 4, 3, 2], dtype=np.uint8),
        movie_id=np.array([30000, 9, 5], dtype=np.int16),  # neither sorted nor all rated
        title=np.array(["last", "unseen", "first"]),
        genre=np.array([[0, 1], [0, 0], [1, 0]], dtype=np.uint8),
        genre_name=np.array(["Drama", "War"]),
    )
    bunch = load_movielens("1m", data_home=tmp_path)
    np.testing.assert_array_equal(bunch.data.toarray(), [[0, 4], [2, 0], [3, 5]])
    np.testing.assert_array_equal(bunch.user_ids, [1, 2, 32767])
    np.testing.assert_array_equal(bunch.item_ids, [5, 30000])
    assert bunch.titles.tolist() == ["first", "last"]
    np.testing.assert_array_equal(bunch.genres, [[True, False], [False, True]])
    assert bunch.timestamp is None
    assert (bunch.user * 32767 + bunch.item).max() == 32767**2 + 30000


def test_equalized_images(tmp_path):
    faces = np.zeros((2, 19, 19), dtype=np.uint8)
    faces[0, 0, 0], faces[0, 0, 1] = 200, 100
    names = ("train_faces", "train_nonfaces", "test_faces", "test_nonfaces")
    np.savez(tmp_path / "cbcl_faces.npz", **dict.fromkeys(names, faces))
    image, blank = load_cbcl_faces(equalize=True, data_home=tmp_path).data
    # 359 equal pixels share rank 180, then 360 and 361
    np.testing.assert_allclose(image[2:], -2)
    np.testing.assert_allclose(image[:2], [2, -2 + 4 * 180 / 181])
    np.testing.assert_array_equal(blank, 0)
    plain = load_cbcl_faces(data_home=tmp_path).data
    np.testing.assert_allclose(plain[0, :3], [200 / 255, 100 / 255, 0])


def zipped(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text.encode("latin-1"))
    return buffer.getvalue()


def test_movielens_100k_from_its_source(monkeypatch, tmp_path):
    content = zipped(
        {
            "ml-100k/u.data": "2\t1\t4\t881250949\n1\t2\t3\t881250950\n",
            "ml-100k/u.item": "1|Léon (1994)|01-Jan-1994||http://x|0|1\n2|Heat (1995)||||1|1\n",
            "ml-100k/u.genre": "unknown|0\nAction|1\n\n",
        }
    )
    monkeypatch.setattr(loaders, "_retrieve", lambda url, checksum: content)
    bunch = load_movielens(data_home=tmp_path)
    np.testing.assert_array_equal(bunch.data.toarray(), [[0, 3], [4, 0]])
    assert bunch.titles.tolist() == ["Léon (1994)", "Heat (1995)"]
    np.testing.assert_array_equal(bunch.genres, [[False, True], [True, True]])
    assert bunch.genre_names.tolist() == ["unknown", "Action"]
    assert bunch.timestamp.tolist() == [881250949, 881250950]


def test_movielens_1m_from_its_source(monkeypatch, tmp_path):
    content = zipped(
        {
            "ml-1m/ratings.dat": "1::9::5::20\n1::3::4::10\n",
            "ml-1m/movies.dat": "3::Heat (1995)::Action|Crime\n9::Babe (1995)::Drama\n",
        }
    )
    monkeypatch.setattr(loaders, "_retrieve", lambda url, checksum: content)
    bunch = load_movielens("1m", data_home=tmp_path)
    assert bunch.item.tolist() == [3, 9]
    assert bunch.rating.tolist() == [4, 5]
    assert bunch.timestamp.tolist() == [10, 20]
    assert bunch.titles.tolist() == ["Heat (1995)", "Babe (1995)"]
    assert bunch.genre_names.tolist() == ["Action", "Crime", "Drama"]
    np.testing.assert_array_equal(bunch.genres, [[True, True, False], [False, False, True]])


def test_mnist_from_its_source(monkeypatch, tmp_path):
    buffer = io.BytesIO()
    images = np.arange(2 * 784, dtype=np.int64).reshape(2, 28, 28).astype(np.uint8)
    labels = np.array([5, 0], dtype=np.uint8)
    np.savez(buffer, x_train=images, y_train=labels, x_test=images[:1], y_test=labels[:1])
    monkeypatch.setattr(loaders, "_retrieve", lambda url, checksum: buffer.getvalue())
    bunch = load_mnist(data_home=tmp_path)
    np.testing.assert_allclose(bunch.data * 255, images.reshape(2, 784), rtol=1e-6)
    assert bunch.test_data.shape == (1, 784)
    assert bunch.target.tolist() == [5, 0]


def test_wrong_size_is_refused():
    with pytest.raises(ValueError, match="'100k' or '1m'"):
        load_movielens("10m")


# With the data. The numbers are those published for the originals.


@needs("cbcl_faces.npz")
def test_cbcl_faces():
    faces = load_cbcl_faces()
    assert faces.image_shape == (19, 19)
    assert faces.data.shape == (2429, 361)
    assert faces.nonfaces.shape == (4548, 361)
    assert faces.test_faces.shape == (472, 361)
    assert faces.test_nonfaces.shape[1] == 361
    assert faces.data.min() >= 0
    assert 0.9 < faces.data.max() <= 1
    equal = load_cbcl_faces(equalize=True)
    np.testing.assert_allclose(equal.data.min(axis=1), -2)
    np.testing.assert_allclose(equal.data.max(axis=1), 2)
    i, j = faces.data[0, :-1], faces.data[0, 1:]
    np.testing.assert_array_equal(np.sign(j - i), np.sign(np.diff(equal.data[0])))
    assert np.isfinite(equal.nonfaces).all()


@pytest.mark.parametrize(
    ("size", "shape", "counts"),
    [
        pytest.param(
            "100k",
            (943, 1682),
            [6110, 11370, 27145, 34174, 21201],
            marks=needs("movielens_100k.npz"),
        ),
        pytest.param(
            "1m",
            (6040, 3706),
            [56174, 107557, 261197, 348971, 226310],
            marks=needs("movielens_1m.npz"),
        ),
    ],
)
def test_movielens(size, shape, counts):
    bunch = load_movielens(size)
    assert isinstance(bunch.data, csr_array)
    assert bunch.data.shape == shape == (len(bunch.user_ids), len(bunch.item_ids))
    assert bunch.data.nnz == len(bunch.rating) == sum(counts)
    np.testing.assert_array_equal(np.bincount(bunch.rating.astype(int))[1:], counts)
    np.testing.assert_array_equal(np.bincount(bunch.data.data.astype(int))[1:], counts)
    assert bunch.titles.shape == (shape[1],)
    assert bunch.genres.shape == (shape[1], len(bunch.genre_names))
    np.testing.assert_array_equal(bunch.item_ids[bunch.column], bunch.item)
    np.testing.assert_array_equal(bunch.user_ids[bunch.row], bunch.user)
    place = np.flatnonzero(bunch.titles == "Toy Story (1995)").item()
    assert bunch.item_ids[place] == 1
    assert bunch.genres[place, bunch.genre_names == "Animation"].all()
    last = np.flatnonzero(bunch.titles == "Fargo (1996)").item()
    assert bunch.item_ids[last] == {"100k": 100, "1m": 608}[size]
    assert (bunch.timestamp is None) == (size == "1m")


@pytest.mark.ci
@needs("eachmovie.npz")
def test_eachmovie():
    bunch = load_eachmovie()
    assert bunch.data.shape == (5055, 1619)
    assert bunch.data.nnz == len(bunch.rating) == 1009402
    assert set(np.unique(bunch.rating)) == {1, 2, 3, 4, 5, 6}
    assert bunch.is_test.dtype == bool
    assert bunch.is_test.sum() == 199876
    assert np.bincount(bunch.row, weights=bunch.is_test).min() >= 24
    assert np.diff(bunch.data.indptr).min() == 121
    np.testing.assert_array_equal(bunch.item_ids[bunch.column], bunch.item)
    assert bunch.titles[bunch.item_ids == 1].item() == "Toy Story (1995)"
    assert (bunch.titles[bunch.column] != "").mean() > 0.99


@needs("nips_0_12.npz")
def test_nips():
    nips = load_nips()
    assert isinstance(nips.data, csr_array)
    assert nips.data.shape == (1740, 13649) == (len(nips.titles), len(nips.vocab))
    assert nips.data.sum() == 2301375
    assert nips.data.sum(axis=0).min() >= 6
    assert nips.volume.shape == nips.label.shape == (1740,)
    assert set(nips.volume) == set(range(13))
    assert nips.label.max() < len(nips.label_names) == 51
    assert len(nips.authors) == 1740
    assert sum(map(len, nips.authors)) == 3990
    paper = np.flatnonzero(nips.titles == "The Relevance Vector Machine").item()
    assert nips.volume[paper] == 12
    assert nips.authors[paper] == ["Tipping_M"]


@needs("usps_digits.npz")
def test_usps():
    usps = load_usps()
    assert usps.data.shape == (7291, 256)
    assert usps.test_data.shape == (2007, 256)
    assert usps.data.dtype == np.float64
    assert usps.data.min() == -1
    assert usps.data.max() == 1
    assert (usps.data == np.round(usps.data, 3)).all()
    published = [1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644]
    np.testing.assert_array_equal(np.bincount(usps.target), published)
    assert usps.test_target.shape == (2007,)


@needs("mnist.npz")
def test_mnist():
    mnist = load_mnist()
    assert mnist.data.shape == (60000, 784)
    assert mnist.test_data.shape == (10000, 784)
    assert mnist.data.dtype == np.float32
    np.testing.assert_allclose(mnist.data.mean(dtype=float), 0.1307, atol=5e-5)
    published = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    np.testing.assert_array_equal(np.bincount(mnist.target), published)
    assert mnist.test_target[:5].tolist() == [7, 2, 1, 0, 4]


@needs("yeast.npz")
def test_yeast():
    yeast = load_yeast()
    assert yeast.data.shape == (2884, 17)
    assert np.isnan(yeast.data).sum() == 34
    assert np.nanmin(yeast.data) >= 0
    assert np.nanmax(yeast.data) == 595
    assert len(yeast.gene_names) == 2884
    assert yeast.gene_names[0] == "YAL001C"


@needs("pearl_earring.npz")
def test_pearl_earring():
    pearl = load_pearl_earring()
    assert pearl.image.shape == (768, 704)
    assert pearl.full_image.shape == (1120, 950)
    assert pearl.image.dtype == np.float64
    assert 0 <= pearl.image.min() < 0.1
    assert 0.8 < pearl.image.max() <= 1
