"""Compression of an image by the features of its blocks, and by plain vector quantization."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from partwise.compression.container import (
    MAX_VECTORS,
    Picture,
    pack,
    stored_vectors,
    too_large,
    unpack,
)
from partwise.compression.pictures import blocks_of, image_of, psnr
from partwise.contracts import Array
from partwise.estimators.gvq import GVQ
from partwise.typing import Seed

# EM iterations of a fit; later ones change little that can be seen.
MAX_ITER = 60

# Numbers of an image that are restored at a time.
BLOCK_NUMBERS = 1 << 20

# Initializations of k-means in `rival`.
RIVAL_STARTS = 4


class Coded(NamedTuple):
    """A compressed image: the file's content, and the image that it gives back."""

    content: bytes
    image: Array  # (height, width, channels), bytes
    vectors: int

    @property
    def bits(self) -> int:
        """Size of the file."""
        return 8 * len(self.content)


class Report(NamedTuple):
    """An image compressed by features, and by plain vector quantization with no fewer bits."""

    ours: Coded
    rival: Coded
    psnr: float
    rival_psnr: float


def compress(
    image: Array,
    n_components: int = 8,
    *,
    n_sets: int = 1,
    n_values: int = 2,
    side: int = 16,
    random_state: Seed = 0,
) -> Coded:
    """Compress bytes (height, width, channels) by features of blocks.

    Parameters
    ----------
    image : ndarray of shape (height, width, 1 or 3), bytes
    n_components, n_sets, n_values : int
        As in `GVQ`.
    side : int, default=16
        Height and width of a block.
    random_state : int, Generator, RandomState or None, default=0

    Returns
    -------
    coded : Coded

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.compression import compress, decompress
    >>> image = np.tile(np.arange(64, dtype=np.uint8), (32, 1))[:, :, None]
    >>> coded = compress(image, n_components=3, side=8)
    >>> len(coded.content) < image.size, bool((decompress(coded.content) == coded.image).all())
    (True, True)
    """
    if too_large(
        (image.shape[0], image.shape[1], image.shape[2]), side, n_sets, n_components, n_values
    ):
        raise ValueError(
            f"An image of shape {image.shape} in blocks of side {side} with {n_sets} sets of "
            f"{n_components} features of {n_values} values is more than a file can hold; use fewer "
            "features or sets, or a smaller image."
        )
    blocks = blocks_of(image, side).astype(float)
    model = GVQ(
        n_components,
        n_sets=n_sets,
        n_values=n_values,
        max_iter=MAX_ITER,
        random_state=random_state,
    )
    with warnings.catch_warnings():
        # Iterations are limited on purpose, and a simple image uses fewer features than allowed.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "The codes of the rows do not determine")
        codes = model.fit(blocks).encode(blocks)
    features = model.features_.reshape(n_sets, -1, blocks.shape[1])
    vectors = np.concatenate([features, model.origins_[:, None]], axis=1)
    codes = codes if n_sets > 1 else np.column_stack([np.zeros(len(codes), np.int64), codes])
    return _code(image.shape, side, vectors, codes, n_values)


def rival(
    image: Array, bits: int, side: int = 16, random_state: Seed = 0, n_vectors: int = 2
) -> Coded:
    """Compress by plain vector quantization, for comparison.

    The codebook is the smallest one that takes at least ``bits`` bits, or all distinct blocks. The
    search starts with ``n_vectors``. The file format is that of `compress`: vectors are the origins
    of sets without features.
    """
    blocks = blocks_of(image, side).astype(float)
    most = min(len(np.unique(blocks, axis=0)), MAX_VECTORS)
    while True:
        n_vectors = min(n_vectors, most)
        means = KMeans(n_vectors, n_init=RIVAL_STARTS, random_state=random_state).fit(blocks)
        coded = _code(image.shape, side, means.cluster_centers_[:, None], means.labels_[:, None], 2)
        if coded.bits >= bits or n_vectors == most:
            return coded
        # Vectors take nearly all of the bits, so this is close to the number needed.
        n_vectors = max(n_vectors + 1, int(n_vectors * bits / coded.bits))


def compare(image: Array, ours: Coded, side: int = 16, random_state: Seed = 0) -> Report:
    """Compare a compressed image with plain vector quantization that uses no fewer bits."""
    other = rival(image, ours.bits, side, random_state)
    return Report(ours, other, psnr(image, ours.image), psnr(image, other.image))


def decompress(content: bytes, name: str = "content") -> Array:
    """Decompress an image.

    Parameters
    ----------
    content : bytes
        Of a file that `compress` made.
    name : str, default="content"
        What an error calls it.

    Returns
    -------
    image : ndarray of shape (height, width, channels), bytes

    Raises
    ------
    CompressedFileError
        If the content is foreign, damaged or of a newer format.
    """
    return _restored(unpack(content, name))


def _code(shape: tuple[int, ...], side: int, vectors: Array, codes: Array, n_values: int) -> Coded:
    height, width, channels = shape
    picture = Picture((height, width, channels), side, vectors, codes, n_values)
    content = pack(picture)
    kept = stored_vectors(vectors).reshape(vectors.shape)
    image = _restored(replace(picture, vectors=kept))
    return Coded(content, image, int(np.prod(vectors.shape[:2])))


def _restored(picture: Picture) -> Array:
    """The image that vectors and codes give."""
    P, D = len(picture.codes), picture.vectors.shape[2]
    levels, step = np.empty((P, D), np.uint8), max(1, BLOCK_NUMBERS // D)
    # Some blocks at a time, which are in float64 here, and feature by feature: a one-hot matrix of
    # codes would take far more memory than the image.
    for lo in range(0, P, step):
        codes = picture.codes[lo : lo + step]
        sets = codes[:, 0]
        blocks = picture.vectors[sets, -1]
        for k, value in enumerate(codes[:, 1:].T):
            on = np.flatnonzero(value)
            blocks[on] += picture.vectors[sets[on], k * (picture.n_values - 1) + value[on] - 1]
        levels[lo : lo + step] = np.clip(np.rint(blocks), 0, 255)
    return image_of(levels, picture.shape, picture.side)
