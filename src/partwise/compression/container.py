"""The file format: a header of fixed size, the vectors and the codes, with one checksum.

All sizes in the header are checked before memory is allocated. Numbers are little-endian.

=========  =====  =============================================================================
bytes      type   what
=========  =====  =============================================================================
4          -      "PWVQ"
1          u8     format version
1          u8     1 if codes are predicted from neighboring blocks
4 + 4      u32    height and width of the image
1          u8     channels, 1 or 3
1          u8     side of a block
2 + 2 + 2  u16    sets, features of a set, values of a feature
4          u32    bytes of the vectors that follow
4          u32    CRC-32 of the header before it and of everything after it
=========  =====  =============================================================================

Vectors (features of each set, then its origin) are bytes between a least and a largest value, two
half-precision numbers each; differences along a block's rows are compressed by zlib. Codes are
symbols for the arithmetic coder: set, then features.
"""

from __future__ import annotations

import os
import struct
import zlib
from dataclasses import dataclass

import numpy as np

from partwise.compression import coder
from partwise.contracts import Array

MAGIC = b"PWVQ"
VERSION = 2  # 1 held the coder's probabilities as floats
_FIELDS = struct.Struct("<4sBBIIBBHHHI")
_CHECKSUM = struct.Struct("<I")

# Largest image that is read, in numbers: 11,000 x 11,000 pixels in grey. With the largest codes and
# vectors, 8 bytes each, a small file takes less than 500 MB.
MAX_NUMBERS = 1 << 27
MAX_CODES = 1 << 24
MAX_VECTOR_NUMBERS = 1 << 23
# Largest number of vectors, so that tables of the coder stay small; sets are counted by a u16.
MAX_VECTORS = (1 << 16) - 1


class CompressedFileError(ValueError):
    """A file is not a compressed image of ours, is damaged, or is of a newer format."""


@dataclass(frozen=True)
class Picture:
    """Content of a file."""

    shape: tuple[int, int, int]  # height, width, channels
    side: int
    vectors: Array  # features of each set and its origin, (M, A + 1, side^2 channels), as stored
    codes: Array  # set and features of every block, (P, 1 + K)
    n_values: int


def n_blocks(shape: tuple[int, int, int], side: int) -> tuple[int, int]:
    """Blocks down and across."""
    return -(-shape[0] // side), -(-shape[1] // side)


def too_large(
    shape: tuple[int, int, int], side: int, n_sets: int, n_components: int, n_values: int
) -> bool:
    """Whether a file of such sizes is refused when it is read."""
    n_vectors, D = n_sets * (n_components * (n_values - 1) + 1), side * side * shape[2]
    down, across = n_blocks(shape, side)
    P = down * across
    return (
        n_vectors > MAX_VECTORS
        or P * D > MAX_NUMBERS
        or P * (n_components + 1) > MAX_CODES
        or n_vectors * D > MAX_VECTOR_NUMBERS
    )


def stored_vectors(vectors: Array) -> Array:
    """Vectors as they are read back from a file."""
    return _vectors(*_quantize(vectors))


def _quantize(vectors: Array) -> tuple[Array, Array]:
    """Ends (., 2) in half precision, and bytes between them."""
    flat = vectors.reshape(-1, vectors.shape[-1])
    ends = np.stack([flat.min(axis=1), flat.max(axis=1)], axis=1).astype("<f2")
    low, high = ends.astype(float).T[:, :, None]
    step = np.where(high > low, (high - low) / 255.0, 1.0)
    return ends, np.clip(np.rint((flat - low) / step), 0, 255).astype(np.uint8)


def _vectors(ends: Array, levels: Array) -> Array:
    low, high = ends.astype(float).T[:, :, None]
    return low + (high - low) / 255.0 * levels


def pack(picture: Picture) -> bytes:
    """The whole file."""
    M, B, _ = picture.vectors.shape
    K = picture.codes.shape[1] - 1
    ends, levels = _quantize(picture.vectors)
    blocks = levels.reshape(M * B, picture.side, -1, picture.shape[2])
    along = np.diff(blocks, axis=2, prepend=np.uint8(0))  # modulo 256
    vectors = ends.tobytes() + zlib.compress(along.tobytes(), 9)
    bits = symbol_bits(M, K, picture.n_values)
    across = n_blocks(picture.shape, picture.side)[1]
    symbols = np.ascontiguousarray(picture.codes, np.int64)
    written = []
    for neighbors in (False, True):
        nothing = np.zeros(0, np.uint8)
        found, size = coder.code(symbols, bits, across, neighbors, nothing, False, False)
        written.append(found[:size].tobytes())
    neighbors = len(written[1]) < len(written[0])
    header = _FIELDS.pack(
        MAGIC, VERSION, neighbors, *picture.shape, picture.side, M, K, picture.n_values,
        len(vectors),
    )  # fmt: skip
    body = vectors + written[neighbors]
    return header + _CHECKSUM.pack(zlib.crc32(header + body)) + body


def read_file(path: str | os.PathLike[str]) -> bytes:
    """Content of a file; of a file with another format, the first bytes only."""
    with open(path, "rb") as file:
        start = file.read(len(MAGIC))
        return start + (file.read() if start == MAGIC else b"")


def symbol_bits(n_sets: int, n_components: int, n_values: int) -> Array:
    """Bits of each symbol of a block."""
    return np.array(
        [(n_sets - 1).bit_length(), *[(n_values - 1).bit_length()] * n_components], np.int64
    )


def unpack(content: bytes, name: str) -> Picture:
    """Read the content of a file; ``name`` is for error messages.

    Raises
    ------
    CompressedFileError
    """
    if len(content) < _FIELDS.size + _CHECKSUM.size or not content.startswith(MAGIC):
        raise CompressedFileError(
            f"'{name}' is not an image compressed by partwise, or its beginning is damaged; give a "
            "file written by partwise compress."
        )
    damaged = CompressedFileError(
        f"'{name}' is damaged (truncated, or altered since it was written); take another copy, or "
        "compress the image again."
    )
    header, body = content[: _FIELDS.size], content[_FIELDS.size + _CHECKSUM.size :]
    _, version, neighbors, *shape, side, M, K, J, size = _FIELDS.unpack(header)
    if version > VERSION:
        raise CompressedFileError(
            f"'{name}' has format {version} and this partwise reads up to {VERSION}; upgrade it."
        )
    (checksum,) = _CHECKSUM.unpack_from(content, _FIELDS.size)
    if checksum != zlib.crc32(header + body):
        raise damaged
    # A file with a correct checksum and wrong sizes must not take memory either.
    height, width, channels = shape
    n_vectors = M * (K * (J - 1) + 1)
    D = side * side * channels
    if (
        min(version, height, width, side, M) < 1
        or channels not in (1, 3)
        or J < 2
        or too_large((height, width, channels), side, M, K, J)
        or not 4 * n_vectors <= size <= len(body)
    ):
        raise damaged
    inflate = zlib.decompressobj()
    try:
        raw = inflate.decompress(body[4 * n_vectors : size], n_vectors * D + 1)
    except zlib.error as error:
        raise damaged from error
    if len(raw) != n_vectors * D or not inflate.eof:
        raise damaged
    blocks = np.frombuffer(raw, np.uint8).reshape(n_vectors, side, side, channels)
    levels = np.cumsum(blocks, axis=2, dtype=np.uint8).reshape(n_vectors, D)
    ends = np.frombuffer(body[: 4 * n_vectors], "<f2").reshape(n_vectors, 2)
    down, across = n_blocks((height, width, channels), side)
    bits = symbol_bits(M, K, J)
    codes = np.zeros((down * across, len(bits)), np.int64)
    data = np.frombuffer(bytearray(body[size:]), np.uint8)
    coder.code(codes, bits, across, bool(neighbors), data, True, version == 1)
    if np.any(codes >= np.array([M, *[J] * K])) or not np.isfinite(ends).all():
        raise damaged
    vectors = _vectors(ends, levels).reshape(M, -1, D)
    return Picture((height, width, channels), side, vectors, codes, J)
