"""Loaders for real data sets, none of which comes with the package.

Each loader reads one ``.npz`` file from the folder that its argument `data_home`, or else the
environment variable ``PARTWISE_DATA``, names. MovieLens and MNIST are fetched from their public
source, with a checksum, when the file is not there; this needs the package pooch. The files hold
plain arrays:

==================== ==============================================================================
ar_faces.npz         images (n, height, width), uint8; condition (n,), 0 to 4
cbcl_faces.npz       train_faces (2429, 19, 19), train_nonfaces, test_faces, test_nonfaces; uint8
eachmovie.npz        user, movie, rating, is_test (n_ratings,); movie_id, title_guess (n_movies,)
mnist.npz            train_images (60000, 784), train_labels, test_images, test_labels; uint8
movielens_100k.npz   user, item, rating, timestamp (100000,); title (1682,), genre (1682, 19),
                     genre_name (19,); row i of title and genre is item i + 1
movielens_1m.npz     user, item, rating (1000209,), perhaps timestamp; movie_id, title (3883,),
                     genre (3883, 18), genre_name (18,)
nips_0_12.npz        indptr, indices, counts of the documents x words CSR matrix; vocab, titles,
                     volume, label, label_name; author_indptr, author_indices, author_name
pearl_earring.npz    gray (768, 704), gray_full (1120, 950); uint8
usps_digits.npz      train_images (7291, 16, 16), train_labels, test_images, test_labels
yeast.npz            expression (2884, 17), -1 where missing; gene (2884,)
==================== ==============================================================================
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from scipy.stats import rankdata
from sklearn.utils import Bunch

from partwise.typing import PathLike

_Arrays = dict[str, np.ndarray]


class MissingDataError(FileNotFoundError):
    """A data set is not there and cannot be fetched; the message says how to get it."""


_ORIGINS = {
    "ar_faces.npz": "the AR Face Database of Martinez and Benavente, which its owners give out on "
    "request, https://www2.ece.ohio-state.edu/~aleix/ARdatabase.html",
    "cbcl_faces.npz": "the CBCL Face Database #1 of the MIT Center for Biological and "
    "Computational Learning",
    "eachmovie.npz": "EachMovie of the DEC Systems Research Center, withdrawn in 2004",
    "mnist.npz": "MNIST by LeCun, Cortes and Burges, http://yann.lecun.com/exdb/mnist/",
    "movielens_100k.npz": "MovieLens 100K, https://grouplens.org/datasets/movielens/100k/",
    "movielens_1m.npz": "MovieLens 1M, https://grouplens.org/datasets/movielens/1m/",
    "nips_0_12.npz": "the NIPS volumes 0-12 by Sam Roweis, https://cs.nyu.edu/~roweis/data.html, "
    "as assembled by Gregor Heinrich",
    "pearl_earring.npz": "Vermeer's Girl with a Pearl Earring, Mauritshuis, The Hague",
    "usps_digits.npz": "zip.train and zip.test of The Elements of Statistical Learning, "
    "https://hastie.su.domains/ElemStatLearn/",
    "yeast.npz": "the yeast matrix of Cheng and Church (2000), "
    "http://arep.med.harvard.edu/biclustering/",
}


def load_ar_faces(data_home: PathLike | None = None) -> Bunch:
    """Load faces of the AR database that were aligned, cropped and made grey.

    Its owners give it out on request; it may not be passed on. The 2006 paper aligned the eyes by
    hand, cropped tightly, and scaled to 29 by 22 pixels.

    Parameters
    ----------
    data_home : path or None, default=None
        Folder with the file; None means the one ``PARTWISE_DATA`` names.

    Returns
    -------
    Bunch
        The fields of `make_faces` that real faces have:

        - ``data`` : ndarray of shape (n, height * width), from -1 (black) to 1;
        - ``target`` : ndarray of shape (n,), int, the condition;
        - ``target_names`` : list of str, anger, neutral, scream, smile and sunglasses;
        - ``image_shape`` : (height, width).
    """
    arrays = _arrays("ar_faces.npz", data_home)
    images = arrays["images"]
    return Bunch(
        data=images.reshape(len(images), -1) / 127.5 - 1.0,
        target=arrays["condition"].astype(np.int64),
        target_names=["anger", "neutral", "scream", "smile", "sunglasses"],
        image_shape=images.shape[1:],
    )


def load_cbcl_faces(equalize: bool = False, data_home: PathLike | None = None) -> Bunch:
    """Load the MIT-CBCL faces, 19 by 19 pixels.

    Parameters
    ----------
    equalize : bool, default=False
        Whether to equalize the histogram of each image: pixels are replaced by their ranks (average
        ranks for ties), scaled so that the darkest pixel is -2 and the lightest is 2. An image of
        one shade becomes 0.
    data_home : path or None, default=None
        Folder with the file; None means the one ``PARTWISE_DATA`` names.

    Returns
    -------
    Bunch
        With the fields

        - ``data`` : ndarray of shape (2429, 361), the training faces, from 0 (black) to 1 unless
          equalized;
        - ``nonfaces`` : ndarray of shape (4548, 361), the other training images;
        - ``test_faces`` : ndarray of shape (472, 361), blurrier than the training faces;
        - ``test_nonfaces`` : ndarray of shape (n, 361);
        - ``image_shape`` : (19, 19).
    """
    arrays = _arrays("cbcl_faces.npz", data_home)

    def flat(name: str) -> np.ndarray:
        images = arrays[name].reshape(len(arrays[name]), -1)
        return _equalize(images) if equalize else images / 255.0

    return Bunch(
        data=flat("train_faces"),
        nonfaces=flat("train_nonfaces"),
        test_faces=flat("test_faces"),
        test_nonfaces=flat("test_nonfaces"),
        image_shape=arrays["train_faces"].shape[1:],
    )


def load_movielens(size: str = "100k", data_home: PathLike | None = None) -> Bunch:
    """Load the MovieLens ratings, 1 to 5.

    The data may be used for research, with acknowledgement, and may not be passed on.

    Parameters
    ----------
    size : {"100k", "1m"}, default="100k"
        100,000 ratings of 1682 films by 943 people, or 1,000,209 of 3706 by 6040.
    data_home : path or None, default=None
        Folder with the file; None means the one ``PARTWISE_DATA`` names. If the file is not there,
        the ratings are fetched from grouplens.org.

    Returns
    -------
    Bunch
        With the fields

        - ``data`` : csr_array of shape (n_users, n_items), the ratings, absent where not rated;
        - ``user_ids`` : ndarray of shape (n_users,), the original number of each row, ascending;
        - ``item_ids`` : ndarray of shape (n_items,), that of each column, ascending;
        - ``titles`` : ndarray of shape (n_items,), str, the title of each column;
        - ``genres`` : ndarray of shape (n_items, n_genres), bool;
        - ``genre_names`` : ndarray of shape (n_genres,), str;
        - ``user``, ``item``, ``rating`` : ndarrays of shape (n_ratings,), one rating each, with
          original numbers;
        - ``row``, ``column`` : ndarrays of shape (n_ratings,), the place of each in ``data``;
        - ``timestamp`` : ndarray of shape (n_ratings,), seconds since 1970, or None if unknown.

    References
    ----------
    F. M. Harper and J. A. Konstan (2015). The MovieLens Datasets: History and Context. ACM
    Transactions on Interactive Intelligent Systems 5.
    """
    fetchers = {"100k": _fetch_movielens_100k, "1m": _fetch_movielens_1m}
    if size not in fetchers:
        raise ValueError(f"size must be '100k' or '1m', got {size!r}.")
    arrays = _arrays(f"movielens_{size}.npz", data_home, fetchers[size])
    listed = arrays.get("movie_id", np.arange(1, len(arrays["title"]) + 1)).astype(np.int64)
    ratings = _ratings(arrays["user"], arrays["item"], arrays["rating"])
    place = _places(listed, ratings["item_ids"])
    timestamp = arrays.get("timestamp")
    return Bunch(
        **ratings,
        titles=arrays["title"][place],
        genres=arrays["genre"][place].astype(bool),
        genre_names=arrays["genre_name"],
        timestamp=None if timestamp is None else timestamp.astype(np.int64),
    )


def load_eachmovie(data_home: PathLike | None = None) -> Bunch:
    """Load ratings, 1 to 6, from a sample of EachMovie.

    A sample of 5055 people with at least 121 ratings each; 1619 films, 1,009,402 ratings. The data
    may be used for non-commercial research and may not be passed on. Titles were not part of
    EachMovie: they are those of MovieLens, which continued its numbering, and cover 99.5 % of the
    ratings.

    Parameters
    ----------
    data_home : path or None, default=None
        Folder with the file; None means the one ``PARTWISE_DATA`` names.

    Returns
    -------
    Bunch
        With the fields

        - ``data`` : csr_array of shape (n_users, n_items), all ratings, absent where not rated;
        - ``user_ids`` : ndarray of shape (n_users,), the original number of each row, ascending;
        - ``item_ids`` : ndarray of shape (n_items,), that of each column, ascending;
        - ``titles`` : ndarray of shape (n_items,), str, the title of each column, empty if unknown;
        - ``user``, ``item``, ``rating`` : ndarrays of shape (n_ratings,), one rating each, with
          original numbers;
        - ``row``, ``column`` : ndarrays of shape (n_ratings,), the place of each in ``data``;
        - ``is_test`` : ndarray of shape (n_ratings,), bool, whether the rating is held out (199,876
          are, at least 24 for every person).
    """
    arrays = _arrays("eachmovie.npz", data_home)
    ratings = _ratings(arrays["user"], arrays["movie"], arrays["rating"])
    place = _places(arrays["movie_id"].astype(np.int64), ratings["item_ids"])
    return Bunch(
        **ratings,
        titles=arrays["title_guess"][place],
        is_test=arrays["is_test"].astype(bool),
    )


def load_nips(data_home: PathLike | None = None) -> Bunch:
    """Load the word counts of the NIPS papers of 1987 to 1999.

    Parameters
    ----------
    data_home : path or None, default=None
        Folder with the file; None means the one ``PARTWISE_DATA`` names.

    Returns
    -------
    Bunch
        With the fields

        - ``data`` : csr_array of shape (1740, 13649), how often each paper uses each word;
          an absent entry is zero;
        - ``vocab`` : ndarray of shape (13649,), str, without stop words;
        - ``titles`` : ndarray of shape (1740,), str;
        - ``volume`` : ndarray of shape (1740,), int, 0 is 1987 and 12 is 1999;
        - ``label`` : ndarray of shape (1740,), int, the section of the conference;
        - ``label_names`` : ndarray of shape (51,), str; several are ``Uncategorised``, and all
          papers of volume 0 are in one of them;
        - ``authors`` : list of 1740 lists of str, the authors of each paper.
    """
    arrays = _arrays("nips_0_12.npz", data_home)
    shape = (len(arrays["indptr"]) - 1, len(arrays["vocab"]))
    counts = arrays["counts"].astype(np.float64)
    names = arrays["author_name"][arrays["author_indices"]]
    return Bunch(
        data=csr_array((counts, arrays["indices"], arrays["indptr"]), shape=shape),
        vocab=arrays["vocab"],
        titles=arrays["titles"],
        volume=arrays["volume"].astype(np.int64),
        label=arrays["label"].astype(np.int64),
        label_names=arrays["label_name"],
        authors=[part.tolist() for part in np.split(names, arrays["author_indptr"][1:-1])],
    )


def load_usps(data_home: PathLike | None = None) -> Bunch:
    """Load the USPS digits, 16 by 16 pixels from -1 (background) to 1 (ink).

    Parameters
    ----------
    data_home : path or None, default=None
        Folder with the file; None means the one ``PARTWISE_DATA`` names.

    Returns
    -------
    Bunch
        With the fields

        - ``data`` : ndarray of shape (7291, 256);
        - ``target`` : ndarray of shape (7291,), int, the digits;
        - ``test_data`` : ndarray of shape (2007, 256);
        - ``test_target`` : ndarray of shape (2007,), int;
        - ``image_shape`` : (16, 16).
    """
    arrays = _arrays("usps_digits.npz", data_home)

    def flat(images: np.ndarray) -> np.ndarray:
        # The originals have three decimals, which rounding brings back from half precision.
        return np.round(images.reshape(len(images), -1).astype(np.float64), 3)

    return Bunch(
        data=flat(arrays["train_images"]),
        target=arrays["train_labels"].astype(np.int64),
        test_data=flat(arrays["test_images"]),
        test_target=arrays["test_labels"].astype(np.int64),
        image_shape=(16, 16),
    )


def load_mnist(data_home: PathLike | None = None) -> Bunch:
    """Load the MNIST digits, 28 by 28 pixels from 0 (background) to 1 (ink).

    Parameters
    ----------
    data_home : path or None, default=None
        Folder with the file; None means the one ``PARTWISE_DATA`` names. If the file is not there,
        the digits are fetched from the copy that Keras uses.

    Returns
    -------
    Bunch
        With the fields

        - ``data`` : ndarray of shape (60000, 784), float32, to save memory;
        - ``target`` : ndarray of shape (60000,), int, the digits;
        - ``test_data`` : ndarray of shape (10000, 784), float32;
        - ``test_target`` : ndarray of shape (10000,), int;
        - ``image_shape`` : (28, 28).
    """
    arrays = _arrays("mnist.npz", data_home, _fetch_mnist)
    scale = np.float32(255)
    return Bunch(
        data=arrays["train_images"] / scale,
        target=arrays["train_labels"].astype(np.int64),
        test_data=arrays["test_images"] / scale,
        test_target=arrays["test_labels"].astype(np.int64),
        image_shape=(28, 28),
    )


def load_yeast(data_home: PathLike | None = None) -> Bunch:
    """Load the yeast cell-cycle expression matrix of Cheng and Church (2000).

    Parameters
    ----------
    data_home : path or None, default=None
        Folder with the file; None means the one ``PARTWISE_DATA`` names.

    Returns
    -------
    Bunch
        With the fields

        - ``data`` : ndarray of shape (2884, 17), 100 times the logarithm of the scaled expression
          of each gene at each time, NaN where missing (34 cells);
        - ``gene_names`` : ndarray of shape (2884,), str.
    """
    arrays = _arrays("yeast.npz", data_home)
    expression = arrays["expression"].astype(np.float64)
    return Bunch(
        data=np.where(expression < 0, np.nan, expression),
        gene_names=arrays["gene"],
    )


def load_pearl_earring(data_home: PathLike | None = None) -> Bunch:
    """Load Vermeer's Girl with a Pearl Earring in grey, from 0 (black) to 1 (white).

    Parameters
    ----------
    data_home : path or None, default=None
        Folder with the file; None means the one ``PARTWISE_DATA`` names.

    Returns
    -------
    Bunch
        With the fields

        - ``image`` : ndarray of shape (768, 704), scaled down and cropped: both sides are multiples
          of 8, 16, 32 and 64;
        - ``full_image`` : ndarray of shape (1120, 950), the whole reproduction.
    """
    arrays = _arrays("pearl_earring.npz", data_home)
    return Bunch(image=arrays["gray"] / 255.0, full_image=arrays["gray_full"] / 255.0)


def _arrays(
    name: str,
    data_home: PathLike | None,
    fetch: Callable[[], _Arrays] | None = None,
) -> _Arrays:
    """Read all arrays of one file, or fetch them from their source."""
    folder = data_home if data_home is not None else os.environ.get("PARTWISE_DATA")
    if folder and (path := Path(folder, name).expanduser()).is_file():
        with np.load(path) as file:
            return dict(file)
    cause: Exception | None = None
    if fetch is not None:
        try:
            return fetch()
        except (ImportError, OSError, ValueError) as error:  # no pooch, no network, wrong checksum
            cause = error
    raise MissingDataError(
        f"{name} was not found{f' in {folder}' if folder else ''}"
        f"{' and could not be fetched' if fetch else ''}: the environment variable PARTWISE_DATA "
        f"(or the argument data_home) must name the folder that holds it, made from the original "
        f"(see partwise convert), {_ORIGINS[name]}."
    ) from cause


def _equalize(images: np.ndarray) -> np.ndarray:
    """Replace the pixels of each row by their ranks, scaled to go from -2 to 2."""
    ranks = rankdata(images, axis=1)
    low, high = ranks.min(axis=1, keepdims=True), ranks.max(axis=1, keepdims=True)
    middle, reach = (low + high) / 2, (high - low) / 2
    return 2 * (ranks - middle) / np.where(reach > 0, reach, 1)


def _ratings(
    user: np.ndarray, item: np.ndarray, rating: np.ndarray
) -> dict[str, np.ndarray | csr_array]:
    """Put triples into a matrix; small integer types are widened first, since they overflow."""
    user, item = user.astype(np.int64), item.astype(np.int64)
    user_ids, row = np.unique(user, return_inverse=True)
    item_ids, column = np.unique(item, return_inverse=True)
    rating = rating.astype(np.float64)
    return {
        "data": csr_array((rating, (row, column)), shape=(len(user_ids), len(item_ids))),
        "user_ids": user_ids,
        "item_ids": item_ids,
        "user": user,
        "item": item,
        "rating": rating,
        "row": row,
        "column": column,
    }


def _places(listed: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Positions of the wanted numbers in a list that need not be sorted."""
    order = np.argsort(listed)
    place = order[np.searchsorted(listed, wanted, sorter=order)]
    if not np.array_equal(listed[place], wanted):
        raise ValueError("some rated items have no title entry")
    return place


def _retrieve(url: str, checksum: str) -> bytes:
    """Content of a file on the web, which is kept in the user's cache folder."""
    import pooch

    path = pooch.retrieve(url, known_hash=checksum, path=pooch.os_cache("partwise"))
    return Path(path).read_bytes()


def _fetch_mnist() -> _Arrays:
    """Fetch MNIST, in the same form as the file."""
    content = _retrieve(
        "https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz",
        "sha256:731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1",
    )
    with np.load(io.BytesIO(content)) as file:
        return {
            "train_images": file["x_train"].reshape(-1, 784),
            "train_labels": file["y_train"],
            "test_images": file["x_test"].reshape(-1, 784),
            "test_labels": file["y_test"],
        }


def _fetch_movielens_100k() -> _Arrays:
    """Fetch MovieLens 100K, in the same form as the file; GroupLens publishes the MD5 sum."""
    content = _retrieve(
        "https://files.grouplens.org/datasets/movielens/ml-100k.zip",
        "md5:0e33842e24a9c977be4e0107933c0723",
    )
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        ratings = _table(archive, "ml-100k/u.data", "\t")
        items = _table(archive, "ml-100k/u.item", "|")
        genres = _table(archive, "ml-100k/u.genre", "|")
    user, item, rating, timestamp = np.array(ratings, dtype=np.int64).T
    return {
        "user": user,
        "item": item,
        "rating": rating,
        "timestamp": timestamp,
        "movie_id": np.array([int(row[0]) for row in items]),
        "title": np.array([row[1] for row in items]),
        "genre": np.array([row[5:] for row in items]).astype(np.int64),
        "genre_name": np.array([row[0] for row in genres]),
    }


def _fetch_movielens_1m() -> _Arrays:
    """Fetch MovieLens 1M, in the same form as the file; GroupLens publishes the MD5 sum."""
    content = _retrieve(
        "https://files.grouplens.org/datasets/movielens/ml-1m.zip",
        "md5:c4d9eecfca2ab87c1945afe126590906",
    )
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        ratings = _table(archive, "ml-1m/ratings.dat", "::")
        items = _table(archive, "ml-1m/movies.dat", "::")
    values = np.array(ratings, dtype=np.int64)
    user, item, rating, timestamp = values[np.lexsort((values[:, 1], values[:, 0]))].T
    kinds = [row[2].split("|") for row in items]
    genre_name = np.unique([kind for row in kinds for kind in row])
    return {
        "user": user,
        "item": item,
        "rating": rating,
        "timestamp": timestamp,
        "movie_id": np.array([int(row[0]) for row in items]),
        "title": np.array([row[1] for row in items]),
        "genre": np.array([np.isin(genre_name, row) for row in kinds]),
        "genre_name": genre_name,
    }


def _table(archive: zipfile.ZipFile, name: str, mark: str) -> list[list[str]]:
    """Split every line of a text file that is not empty."""
    lines = archive.read(name).decode("latin-1").splitlines()
    return [line.split(mark) for line in lines if line]
