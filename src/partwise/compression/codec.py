"""Compression of an image by the features of its blocks, and by plain vector quantisation."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from partwise.compression.container import (
    MOST_VECTORS,
    Picture,
    pack,
    stored_vectors,
    too_large,
    unpack,
)
from partwise.compression.pictures import blocks_of, image_of, psnr
from partwise.contracts import Array
from partwise.estimators.gvq import GVQ

# Steps of a fit; later ones change little that can be seen.
MOST_STEPS = 60

# Starts of the rival's k-means.
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
    """Two ways to compress an image, the second with no fewer bits."""

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
    random_state: Any = 0,
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
            f"{n_components} features of {n_values} values is more than a file can hold; lower "
            "these or cut the image."
        )
    blocks = blocks_of(image, side).astype(float)
    model = GVQ(
        n_components,
        n_sets=n_sets,
        n_values=n_values,
        max_iter=MOST_STEPS,
        random_state=random_state,
    )
    with warnings.catch_warnings():
        # Steps are bounded on purpose, and a simple image needs fewer features than it is given.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "The codes of the rows leave")
        codes = model.fit(blocks).encode(blocks)
    features = model.features_.reshape(n_sets, -1, blocks.shape[1])
    vectors = np.concatenate([features, model.origins_[:, None]], axis=1)
    codes = codes if n_sets > 1 else np.column_stack([np.zeros(len(codes), np.int64), codes])
    return _code(image.shape, side, vectors, codes, n_values)


def rival(
    image: Array, bits: int, side: int = 16, random_state: Any = 0, n_vectors: int = 2
) -> Coded:
    """Compress by plain vector quantisation: as few vectors as take no fewer bits, if there are.

    The search begins with ``n_vectors``. Files are of the same kind as those of `compress`, vectors
    being origins of sets without features.
    """
    blocks = blocks_of(image, side).astype(float)
    most = min(len(np.unique(blocks, axis=0)), MOST_VECTORS)
    while True:
        n_vectors = min(n_vectors, most)
        means = KMeans(n_vectors, n_init=RIVAL_STARTS, random_state=random_state).fit(blocks)
        coded = _code(image.shape, side, means.cluster_centers_[:, None], means.labels_[:, None], 2)
        if coded.bits >= bits or n_vectors == most:
            return coded
        # Vectors take nearly all of the bits, so this is never far beyond what is needed.
        n_vectors = max(n_vectors + 1, int(n_vectors * bits / coded.bits))


def compare(image: Array, ours: Coded, side: int = 16, random_state: Any = 0) -> Report:
    """Hold a compressed image against plain vector quantisation with no fewer bits."""
    other = rival(image, ours.bits, side, random_state)
    return Report(ours, other, psnr(image, ours.image), psnr(image, other.image))


def decompress(content: bytes, name: str = "content") -> Array:
    """The image of a file, bytes (height, width, channels).

    Raises
    ------
    CompressedFileError
        If the content is foreign, damaged or of a newer format.
    """
    return _draw(unpack(content, name))


def _code(shape: tuple[int, ...], side: int, vectors: Array, codes: Array, n_values: int) -> Coded:
    height, width, channels = shape
    picture = Picture((height, width, channels), side, vectors, codes, n_values)
    content = pack(picture)
    kept = stored_vectors(vectors).reshape(vectors.shape)
    return Coded(content, _draw(picture._replace(vectors=kept)), int(np.prod(vectors.shape[:2])))


def _draw(picture: Picture) -> Array:
    # Feature by feature: codes as numbers would take far more memory than the image itself.
    sets = picture.codes[:, 0]
    blocks = picture.vectors[sets, -1]
    for k, value in enumerate(picture.codes[:, 1:].T):
        on = np.flatnonzero(value)
        blocks[on] += picture.vectors[sets[on], k * (picture.n_values - 1) + value[on] - 1]
    return image_of(blocks, picture.shape, picture.side)
