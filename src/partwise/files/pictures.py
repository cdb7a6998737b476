"""Images as arrays of bytes, and folders of images as rows."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from partwise.contracts import Array
from partwise.files.atomic import write_atomically
from partwise.files.data import Data, unreadable

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".pgm", ".ppm", ".webp")
# Pixels of an image whose pixels are columns.
MAX_PIXELS = 1 << 24
# Modes of pillow without color.
GREY_MODES = ("1", "L", "LA", "I", "F", "I;16")


def read_picture(path: Path) -> Array:
    """Read an image file, or a ``.npy`` array, as bytes (height, width, 1 or 3).

    Arrays are bytes, or floats from 0 to 1, of shape (height, width) or (height, width, 3). Grey
    images stay grey, all others become red, green and blue, without transparency.
    """
    if path.suffix == ".npy":
        try:
            image = np.load(path, allow_pickle=False)
        except (ValueError, EOFError, TypeError, SyntaxError, MemoryError) as error:
            raise unreadable(path, error) from error
        if image.dtype.kind == "f" and np.all((image >= 0) & (image <= 1)):
            image = np.rint(255.0 * image).astype(np.uint8)
    else:
        from PIL import Image

        try:
            with Image.open(path) as opened:
                if opened.mode.startswith("I"):  # 16 bits
                    image = (np.asarray(opened).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8)
                else:
                    image = np.asarray(opened.convert("L" if opened.mode in GREY_MODES else "RGB"))
        except Exception as error:  # pillow raises many kinds
            if isinstance(error, OSError) and error.errno is not None:
                raise  # absent or not readable: the system's message is clear
            raise ValueError(
                f"{path} is not an image, or is damaged; save it again, for example as .png, or "
                "leave it out."
            ) from error
    image = image[:, :, None] if image.ndim == 2 else image
    if image.ndim != 3 or image.shape[2] not in (1, 3) or image.dtype != np.uint8 or not image.size:
        raise ValueError(
            f"{path} contains an array of shape {image.shape} and type {image.dtype}; an image has "
            "bytes (or floats from 0 to 1) of shape (height, width) or (height, width, 3)."
        )
    return image


def write_picture(path: Path, image: Array) -> None:
    """Write bytes (height, width, 1 or 3); the ending of the name sets the format."""
    image, out = image[:, :, 0] if image.shape[2] == 1 else image, io.BytesIO()
    if path.suffix == ".npy":
        np.save(out, image)
        write_atomically(path, out.getvalue())
        return
    from PIL import Image

    kind = Image.registered_extensions().get(path.suffix.lower())
    if kind is None:
        raise ValueError(
            f"'{path}' has no ending of an image format; use .png, .bmp, .tif, another format that "
            "pillow writes, or .npy."
        )
    Image.fromarray(image).save(out, format=kind)
    write_atomically(path, out.getvalue())


def read_pictures(folder: Path, resize: tuple[int, int] | None) -> Data:
    """Read all images of a folder in grey, from 0 to 1, sorted by name."""
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in PICTURES)
    if not paths:
        raise ValueError(
            f"{folder} holds no tables (.csv, .parquet) and no images ({', '.join(PICTURES)}); "
            "name another folder."
        )
    rows: list[Array] = []
    for path in paths:
        grey = _grey(path, resize)
        if rows and grey.shape != rows[0].shape:
            sizes = [f"{image.shape[0]}x{image.shape[1]}" for image in (grey, rows[0])]
            raise ValueError(
                f"{path} has {sizes[0]} pixels, but {paths[0].name} has {sizes[1]}; resize all "
                f"images with --resize {sizes[1]}."
            )
        rows.append(grey)
    height, width = rows[0].shape
    X = np.stack(rows).reshape(len(rows), -1)
    number = f"{len(rows):,} image{'s' * (len(rows) != 1)}"
    return Data(X, f"{number} of {height}x{width} pixels, in gray", (height, width))


def _check_size(path: Path) -> None:
    """Refuse a file whose pixels are too many for columns, before it is decompressed."""
    from PIL import Image

    try:
        with Image.open(path) as opened:
            width, height = opened.size
    except Exception:  # said when it is read
        return
    if width * height > MAX_PIXELS:
        raise ValueError(
            f"{path} has {height}x{width} pixels, more than the {MAX_PIXELS:,} that can be "
            "columns; reduce images with --resize."
        )


def _grey(path: Path, resize: tuple[int, int] | None) -> Array:
    from PIL import Image

    if resize is None:
        _check_size(path)
    picture = read_picture(path)
    grey = Image.fromarray(picture[:, :, 0] if picture.shape[2] == 1 else picture).convert("L")
    if resize is not None:
        grey = grey.resize(resize[::-1], Image.Resampling.LANCZOS)
    return np.asarray(grey, np.float32) / 255.0
