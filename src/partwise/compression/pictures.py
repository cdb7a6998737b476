"""Images as arrays of bytes, and as rows of blocks."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from partwise.contracts import Array
from partwise.files.model import write_atomically

# What pillow keeps in grey, or can turn to grey without loss of colour.
GREY_MODES = ("1", "L", "LA", "I", "F", "I;16")


def read_picture(path: Path) -> Array:
    """An image file, or a ``.npy`` array, as bytes (height, width, 1 or 3).

    Arrays are bytes, or floats from 0 to 1, of shape (height, width) or (height, width, 3). Grey
    images stay grey, all others become red, green and blue, without transparency.
    """
    if path.suffix == ".npy":
        image = np.load(path, allow_pickle=False)
        if image.dtype.kind == "f" and np.all((image >= 0) & (image <= 1)):
            image = np.rint(255.0 * image).astype(np.uint8)
    else:
        from PIL import Image, UnidentifiedImageError

        try:
            with Image.open(path) as opened:
                if opened.mode.startswith("I"):  # 16 bits
                    image = (np.asarray(opened).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8)
                else:
                    image = np.asarray(opened.convert("L" if opened.mode in GREY_MODES else "RGB"))
        except (UnidentifiedImageError, SyntaxError) as error:
            raise ValueError(
                f"{path} cannot be read as an image, or is damaged; save it anew, as .png say, or "
                "leave it out."
            ) from error
        except OSError as error:
            if error.errno is not None:  # absent, not ours to read: the system says it best
                raise
            raise ValueError(
                f"{path} cannot be read as an image: {error}; save it anew, or leave it out."
            ) from error
    image = image[:, :, None] if image.ndim == 2 else image
    if image.ndim != 3 or image.shape[2] not in (1, 3) or image.dtype != np.uint8 or not image.size:
        raise ValueError(
            f"{path} holds an array of shape {image.shape} and type {image.dtype}; an image is "
            "needed, bytes (or floats from 0 to 1) of shape (height, width) or (height, width, 3)."
        )
    return image


def write_picture(path: Path, image: Array) -> None:
    """Write bytes (height, width, 1 or 3) in the format that the name ends with, or ``.npy``."""
    image, out = image[:, :, 0] if image.shape[2] == 1 else image, io.BytesIO()
    if path.suffix == ".npy":
        np.save(out, image)
        write_atomically(path, out.getvalue())
        return
    from PIL import Image

    kind = Image.registered_extensions().get(path.suffix.lower())
    if kind is None:
        raise ValueError(
            f"'{path}' does not end as an image's name does; end it with .png, .bmp, .tif or "
            "another that pillow writes, or with .npy."
        )
    Image.fromarray(image).save(out, format=kind)
    write_atomically(path, out.getvalue())


def blocks_of(image: Array, side: int) -> Array:
    """Blocks row after row, (P, side^2 channels); the last row and column fill those cut off."""
    height, width, channels = image.shape
    padded = np.pad(image, ((0, -height % side), (0, -width % side), (0, 0)), mode="edge")
    grid = padded.reshape(len(padded) // side, side, -1, side, channels)
    return grid.swapaxes(1, 2).reshape(-1, side * side * channels)


def image_of(blocks: Array, shape: tuple[int, int, int], side: int) -> Array:
    """Bytes (height, width, channels) from blocks."""
    height, width, channels = shape
    across = -(-width // side)
    grid = blocks.reshape(-1, across, side, side, channels).swapaxes(1, 2)
    image = grid.reshape(-1, across * side, channels)[:height, :width]
    return np.clip(np.rint(image), 0, 255).astype(np.uint8)


def psnr(image: Array, other: Array) -> float:
    """Peak signal-to-noise ratio of bytes, in dB; infinite for equal images."""
    error = np.mean((image.astype(float) - other.astype(float)) ** 2)
    return float(10.0 * np.log10(255.0**2 / error)) if error > 0 else float("inf")
