"""Data sets from their original files, for ``PARTWISE_DATA``: what ``partwise convert`` writes.

===========  =====================================================================================
name         original files
===========  =====================================================================================
cbcl         train/face, train/non-face, test/face, test/non-face of the CBCL Face Database #1 of
             the MIT Center for Biological and Computational Learning: binary PGM images, 19 x 19
eachmovie    Vote.txt, and Movie.txt for titles, of EachMovie (DEC Systems Research Center 1997):
             tab-separated Person_ID, Movie_ID, Score (0 to 1 in steps of 0.2), Weight, Modified;
             and ID, Name, ...
nips         nips.corpus, .vocab, .docs, .labels, .labels.key, .vols, .authors, .authors.key of the
             NIPS0-12 collection (G. Heinrich 2010, from the raw text of S. Roweis and Y. LeCun):
             a line per document, "n_terms term:count term:count ..."
pearl        any reproduction of Vermeer's Girl with a Pearl Earring as an image file
usps         zip.train and zip.test, or .gz, of The Elements of Statistical Learning: a line per
             digit, its label and 256 numbers from -1 to 1
yeast        the matrix of Cheng and Church (2000), a line of 17 integers per gene, -1 if missing,
             each after the gene's name or not
===========  =====================================================================================

MovieLens and MNIST are fetched by their loaders. The faces of the AR database have to be aligned by
hand; `partwise.datasets` says what their file holds.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from partwise.compression import read_picture
from partwise_papers.registry import Array

Arrays = dict[str, Array]

# Other test images of CBCL that are kept, of 23,573, and how they are chosen.
MOST_NONFACES = 2000

# Users of EachMovie with fewer ratings are left out, and this share of a user's ratings is held
# out, as in the sample of 5055 users that the results page uses.
LEAST_RATINGS = 121
TEST_SHARE = 0.2

# Size of the painting on the results page: sides that blocks of 8 to 64 pixels divide.
PAINTING = (768, 704)


class OriginalFileError(ValueError):
    """An original file is missing or is not what it should be."""


def convert(name: str, source: Path, folder: Path) -> Path:
    """Write the ``.npz`` file of a data set from its original files.

    Parameters
    ----------
    name : {"cbcl", "eachmovie", "nips", "pearl", "usps", "yeast"}
    source : path
        Folder with the original files, or the file if there is but one.
    folder : path
        Where the file is written; ``PARTWISE_DATA`` should name it.

    Returns
    -------
    path : Path
        The file that was written.

    Raises
    ------
    OriginalFileError
        If a file is missing or has another format.
    """
    if name not in CONVERTERS:
        raise OriginalFileError(
            f"There is no converter {name!r}; choose one of {', '.join(CONVERTERS)}."
        )
    file, read = CONVERTERS[name]
    if not source.exists():
        raise OriginalFileError(f"'{source}' does not exist; give the original files of {name}.")
    arrays = read(source)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file
    with open(path, "wb") as out:
        np.savez_compressed(out, allow_pickle=False, **arrays)
    return path


# --- faces ---


def read_cbcl(source: Path) -> Arrays:
    """Images of every folder in the order of their names."""
    found = {
        f"{part}_{kind.replace('-', '')}s": _images(source / part / kind)
        for part in ("train", "test")
        for kind in ("face", "non-face")
    }
    others = found["test_nonfaces"]
    index = np.arange(len(others))
    if len(others) > MOST_NONFACES:
        rng = np.random.default_rng(0)
        index = np.sort(rng.choice(len(others), MOST_NONFACES, replace=False))
    return {
        **found,
        "test_nonfaces": others[index],
        "test_nonfaces_index": index.astype(np.int32),
    }


def _images(folder: Path) -> Array:
    paths = sorted(folder.glob("*.pgm"))
    if not paths:
        raise OriginalFileError(f"'{folder}' has no .pgm files; give the folder that holds train.")
    images = [_pgm(path) for path in paths]
    if len({image.shape for image in images}) > 1:
        raise OriginalFileError(f"The images in '{folder}' have different sizes.")
    return np.stack(images)


# "P5", width, height and largest value, with comments between, and one blank before the pixels.
_PGM = re.compile(rb"P5(?:\s+#[^\n]*)*\s+(\d+)(?:\s+#[^\n]*)*\s+(\d+)(?:\s+#[^\n]*)*\s+(\d+)\s")


def _pgm(path: Path) -> Array:
    """Pixels of a binary PGM image of bytes."""
    content = path.read_bytes()
    header = _PGM.match(content)
    if header is None or int(header[3]) != 255:
        raise OriginalFileError(f"'{path}' is not a binary PGM image of bytes.")
    width, height = int(header[1]), int(header[2])
    pixels = np.frombuffer(content, np.uint8, offset=header.end())
    if len(pixels) < width * height:
        raise OriginalFileError(f"'{path}' is cut off.")
    return pixels[: width * height].reshape(height, width)


# --- ratings ---


def read_eachmovie(source: Path) -> Arrays:
    """Ratings 1 to 6 of all users with enough of them; some of each user's are held out.

    The results page uses a sample of 5055 users and its own held-out ratings, which the original
    does not tell: figures from the original are close to those, not equal.
    """
    table = []
    for at, fields in _rows(_file(source, "vote.txt"), "\t"):
        try:
            table.append((int(fields[0]), int(fields[1]), float(fields[2])))
        except (ValueError, IndexError):
            raise OriginalFileError(
                f"Line {at} of Vote.txt is not Person_ID, Movie_ID, Score, ..., separated by tabs."
            ) from None
    user, movie, score = (np.array(column) for column in zip(*table, strict=True))
    if score.min() < 0 or score.max() > 1:
        raise OriginalFileError("Vote.txt has scores outside 0 to 1.")
    # The last of several votes of a user for a movie counts.
    _, last = np.unique(np.stack([user, movie])[:, ::-1], axis=1, return_index=True)
    kept = len(user) - 1 - last
    user, movie, rating = user[kept], movie[kept], 1 + np.rint(5 * score[kept])
    _, of, counts = np.unique(user, return_inverse=True, return_counts=True)
    enough = counts[of] >= LEAST_RATINGS
    if not enough.any():
        raise OriginalFileError(f"No user of Vote.txt has {LEAST_RATINGS} ratings.")
    user, movie, rating = user[enough], movie[enough], rating[enough]
    titles = dict(_titles(source))
    movie_id = np.unique(movie)
    return {
        "user": user.astype(np.int32),
        "movie": movie.astype(np.int16),
        "rating": rating.astype(np.uint8),
        "is_test": _held_out(user),
        "movie_id": movie_id.astype(np.int16),
        "title_guess": np.array([titles.get(int(number), "") for number in movie_id]),
    }


def _held_out(user: Array) -> Array:
    """1 for a share of the ratings of every user, chosen at random with a fixed seed."""
    rng = np.random.default_rng(0)
    order = np.lexsort((rng.random(len(user)), user))
    _, begin, counts = np.unique(user[order], return_index=True, return_counts=True)
    rank = np.arange(len(user)) - np.repeat(begin, counts)
    out = np.zeros(len(user), np.uint8)
    out[order] = rank < np.repeat(np.rint(TEST_SHARE * counts), counts)
    return out


def _titles(source: Path) -> Iterable[tuple[int, str]]:
    path = _file(source, "movie.txt", needed=False)
    for _, fields in _rows(path, "\t") if path is not None else ():
        if len(fields) > 1 and fields[0].strip().isdigit():
            yield int(fields[0]), fields[1].strip()


# --- words ---


def read_nips(source: Path) -> Arrays:
    """Counts of words, titles, volumes, sections and authors of documents."""
    vocab = [line.split()[0] for line in _lines(source, "nips.vocab") if line.strip()]
    indptr, indices, counts = [0], [], []
    for at, line in enumerate(_lines(source, "nips.corpus"), 1):
        n_terms, *pairs = line.split()
        terms = [pair.split(":") for pair in pairs]
        if len(terms) != int(n_terms) or any(len(term) != 2 for term in terms):
            raise OriginalFileError(
                f"Line {at} of nips.corpus is not 'n_terms term:count term:count ...'."
            )
        indices += [int(term) for term, _ in terms]
        counts += [int(count) for _, count in terms]
        indptr.append(len(indices))
    if indices and max(indices) >= len(vocab):
        raise OriginalFileError("nips.corpus has words beyond those of nips.vocab.")
    documents = len(indptr) - 1
    titles = [line.rstrip(" ,") for line in _lines(source, "nips.docs")]
    label = np.array([int(line) for line in _lines(source, "nips.labels")])
    volume = np.array([int(line) for line in _lines(source, "nips.vols")])
    authors = [[int(n) for n in line.split()] for line in _lines(source, "nips.authors")]
    for name, values in (
        ("docs", titles), ("labels", label), ("vols", volume), ("authors", authors),
    ):  # fmt: skip
        if len(values) != documents:
            raise OriginalFileError(
                f"nips.{name} has {len(values)} lines and nips.corpus {documents}."
            )
    return {
        "indptr": np.array(indptr, np.int32),
        "indices": np.array(indices, np.int32),
        "counts": np.array(counts, np.uint16),
        "vocab": np.array(vocab),
        "titles": np.array(titles),
        "volume": volume.astype(np.uint8),
        "label": label.astype(np.uint8),
        "label_name": np.array(_lines(source, "nips.labels.key", "nips.label.key")),
        "author_indptr": np.cumsum([0, *map(len, authors)]).astype(np.int32),
        "author_indices": np.array([n for own in authors for n in own], np.int32),
        "author_name": np.array(_lines(source, "nips.authors.key")),
    }


# --- digits, genes, the painting ---


def read_usps(source: Path) -> Arrays:
    """Images and labels, in half precision, which holds three decimals."""
    found = {}
    for part, name in (("train", "zip.train"), ("test", "zip.test")):
        rows = [fields for _, fields in _rows(_file(source, name, f"{name}.gz"), None)]
        if not rows or any(len(row) != 257 for row in rows):
            raise OriginalFileError(f"{name} needs 257 numbers per line: a digit and its pixels.")
        table = np.array(rows, float)
        if np.abs(table[:, 1:]).max() > 1 or not np.isin(table[:, 0], np.arange(10)).all():
            raise OriginalFileError(f"{name} needs labels 0 to 9 and pixels from -1 to 1.")
        found[f"{part}_images"] = table[:, 1:].reshape(-1, 16, 16).astype(np.float16)
        found[f"{part}_labels"] = table[:, 0].astype(np.uint8)
    return found


def read_yeast(source: Path) -> Arrays:
    """Expression of genes; genes without a name are numbered."""
    rows, genes = [], []
    for at, fields in _rows(_file(source, "yeast.matrix", "yeast.txt"), None):
        named = not re.fullmatch(r"-?\d+", fields[0])
        genes.append(fields[0] if named else f"gene{at - 1}")
        rows.append(fields[named:])
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        raise OriginalFileError("The yeast matrix needs as many numbers on every line.")
    try:
        expression = np.array(rows, float)
    except ValueError:
        raise OriginalFileError("The yeast matrix has values that are not numbers.") from None
    return {"expression": expression.astype(np.int16), "gene": np.array(genes)}


def read_pearl(source: Path) -> Arrays:
    """The painting in gray, whole, and scaled to 704 columns with 768 rows of its middle."""
    from PIL import Image

    picture = read_picture(source)
    if picture.shape[2] == 3:  # luma of ITU-R 601
        weights = np.array([0.299, 0.587, 0.114])
        full = np.rint(picture @ weights).astype(np.uint8)
    else:
        full = picture[:, :, 0]
    height, width = PAINTING
    rows = round(full.shape[0] * width / full.shape[1])
    if rows < height:
        raise OriginalFileError(
            f"'{source}' is {full.shape[1]} x {full.shape[0]} pixels, too wide for the painting: "
            f"at {width} columns it has fewer than {height} rows."
        )
    scaled = Image.fromarray(full).resize((width, rows), Image.Resampling.LANCZOS)
    top = (rows - height) // 2
    return {"gray": np.asarray(scaled)[top : top + height], "gray_full": full}


# --- files ---


def _file(source: Path, *names: str, needed: bool = True) -> Path | None:
    """The first of these files in a folder, whatever the case of its letters, or the source."""
    if source.is_file():
        return source if needed else None
    there = {path.name.lower(): path for path in sorted(source.iterdir())}
    for name in names:
        if name in there:
            return there[name]
    if not needed:
        return None
    raise OriginalFileError(f"'{source}' has no {' or '.join(names)}; give the folder that has.")


def _text(path: Path) -> str:
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    return content.decode("latin-1")


def _lines(source: Path, *names: str) -> list[str]:
    path = _file(source, *names)
    assert path is not None
    return [line.strip() for line in _text(path).splitlines()]


def _rows(path: Path | None, mark: str | None) -> Iterable[tuple[int, list[str]]]:
    """Number and fields of every line that is not empty."""
    assert path is not None
    for at, line in enumerate(_text(path).splitlines(), 1):
        if line.strip():
            yield at, line.split(mark)


CONVERTERS: dict[str, tuple[str, Callable[[Path], Arrays]]] = {
    "cbcl": ("cbcl_faces.npz", read_cbcl),
    "eachmovie": ("eachmovie.npz", read_eachmovie),
    "nips": ("nips_0_12.npz", read_nips),
    "pearl": ("pearl_earring.npz", read_pearl),
    "usps": ("usps_digits.npz", read_usps),
    "yeast": ("yeast.npz", read_yeast),
}
