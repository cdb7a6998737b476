"""Tables as parquet, arrays as npy and npz, and folders of images: read as the commands do."""

from __future__ import annotations

import io
import random
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
from PIL import Image
from scipy import sparse

from partwise import MCVQ
from partwise.data.table import Schema
from partwise.files import read_data
from partwise.files.frames import write_table
from tests.fuzz.harness import Content, Kind, mutate_bytes

# Learning takes far longer than reading, so a share of the files is learned from.
_LEARNED = 12


def _learn(X: object, likelihood: str) -> None:
    model = MCVQ(2, 2, likelihood=likelihood, max_iter=3, random_state=0).fit(X)
    model.impute(X)


# --- parquet ---


def _frames(rng: random.Random) -> pl.DataFrame:
    n = 12
    columns = {
        "number": [rng.gauss(0, 1) for _ in range(n)],
        "whole": [rng.randrange(5) for _ in range(n)],
        "text": [rng.choice(("a", "b", None)) for _ in range(n)],
        "flag": [rng.random() < 0.5 for _ in range(n)],
        "day": pl.Series([18000 + i for i in range(n)]).cast(pl.Date),
        "kind": pl.Series([rng.choice("xyz") for _ in range(n)]).cast(pl.Categorical),
        "list": [[1, 2]] * n,
        "nothing": [None] * n,
        "long": pl.Series([1e308, -1e308, 0.0, float("nan"), float("inf"), None] * 2),
    }
    chosen = rng.sample(sorted(columns), rng.randrange(1, len(columns) + 1))
    return pl.DataFrame({name: columns[name] for name in chosen})


def as_parquet(frame: pl.DataFrame, compression: str = "zstd") -> bytes:
    """A table as the content of a parquet file."""
    out = io.BytesIO()
    frame.write_parquet(out, compression=compression)
    return out.getvalue()


def _parquet_seeds(folder: Path) -> None:
    frame = pl.DataFrame({"x": [0.5, 1.5, 2.0, None] * 5, "y": ["a", "b", "a", "c"] * 5})
    (folder / "plain").write_bytes(as_parquet(frame, "uncompressed"))
    (folder / "packed").write_bytes(as_parquet(frame))


def _mutate_parquet(rng: random.Random, seeds: Mapping[str, Content]) -> Content:
    if rng.random() < 0.3:
        content = as_parquet(_frames(rng), rng.choice(("zstd", "snappy", "uncompressed")))
        return content if rng.random() < 0.5 else mutate_bytes(rng, content, 3)
    content = seeds[rng.choice(sorted(seeds))]
    assert isinstance(content, bytes)
    return damage_parquet(rng, content)


def damage_parquet(rng: random.Random, content: bytes) -> bytes:
    """Mutate any bytes of a file, the header of its first page, or its footer."""
    if rng.random() < 0.4:
        return mutate_bytes(rng, content)
    if rng.random() < 0.3:  # the first page's header
        return content[:4] + mutate_bytes(rng, content[4:40], 2) + content[40:]
    # The footer alone: what its reader believes of all the rest.
    (length,) = struct.unpack("<I", content[-8:-4])
    start = len(content) - 8 - length
    footer = mutate_bytes(rng, content[start:-8], 3)
    return content[:start] + footer + struct.pack("<I", len(footer)) + b"PAR1"


def _use_parquet(path: Path) -> None:
    chance = random.Random(zlib.crc32(path.read_bytes()))
    found = read_data(path)
    write_table(path.with_name("out.csv"), found.X)
    if found.X.shape[1] < 1000:
        Schema.learn(found.X, "auto").encode(found.X)
    if chance.randrange(_LEARNED) == 0 and found.X.shape[0] * found.X.shape[1] < 1000:
        _learn(found.X, "auto")


# --- arrays of numpy ---

_HEADERS = (
    "{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}",
    "{{'descr': {}, 'fortran_order': {}, 'shape': {}}}",
    "{{'descr': '{}', 'fortran_order': {}, 'shape': {}, 'x': 1}}",
    "{}{}{}",
)
_TYPES = (
    "<f8", "<f4", ">f8", "<f2", "<i8", "|b1", "|u1", "<c16", "<U3", "|S4", "|O", "<M8[D]", "<V8",
    "<f16", "[('a', '<f8')]", "<i4",
)  # fmt: skip
_SHAPES = (
    (6, 4), (24,), (), (0, 4), (6, 0), (2, 3, 4), (1, 24), (24, 1), (2**31, 2**31), (10**9, 4),
    (-1, 4), (6, 5), (6.0, 4), (True, 24), (2, 2, 2, 3),
)  # fmt: skip


def _as_npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def _odd_npy(rng: random.Random) -> bytes:
    header = rng.choice(_HEADERS).format(
        rng.choice(_TYPES), rng.choice(("False", "True", "None")), rng.choice(_SHAPES)
    )
    text = header.encode().ljust(rng.choice((54, 118, 10))) + b"\n"
    version = rng.choice((b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00"))
    length = struct.pack("<H" if version[0] == 1 else "<I", len(text) % (1 << 16))
    return b"\x93NUMPY" + version + length + text + rng.randbytes(rng.choice((192, 96, 0, 24, 384)))


def _numbers(rng: random.Random) -> np.ndarray:
    values = np.array(
        [rng.choice((0, 1, 2.5, -1, 1e300, 1e-300, np.nan, np.inf)) for _ in range(24)]
    )
    shape = rng.choice(((6, 4), (24, 1), (2, 3, 4), (6, 2, 2)))
    with np.errstate(all="ignore"):
        return values.reshape(shape).astype(rng.choice(("f8", "f4", "i8", "?", "u1", "f2")))


def _npy_seeds(folder: Path) -> None:
    rng = np.random.default_rng(0)
    (folder / "table").write_bytes(_as_npy(rng.normal(size=(12, 4))))
    (folder / "images").write_bytes(_as_npy(rng.integers(0, 256, (10, 3, 4), np.uint8)))


def _mutate_npy(rng: random.Random, seeds: Mapping[str, Content]) -> Content:
    match rng.randrange(3):
        case 0:
            return _odd_npy(rng)
        case 1:
            return _as_npy(_numbers(rng))
    content = seeds[rng.choice(sorted(seeds))]
    assert isinstance(content, bytes)
    return mutate_bytes(rng, content)


def _use_arrays(path: Path) -> None:
    chance = random.Random(zlib.crc32(path.read_bytes()))
    found = read_data(path)
    if chance.randrange(_LEARNED) == 0 and found.X.shape[0] * found.X.shape[1] < 1000:
        _learn(found.X, "gaussian")


def _npz_seeds(folder: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 4))
    np.savez(folder / "table", data=X)
    np.savez_compressed(folder / "packed", X=X, y=np.arange(12))
    sparse.save_npz(folder / "sparse", sparse.csr_array(np.where(X > 0, X, 0.0)))
    sparse.save_npz(folder / "coordinates", sparse.coo_array(np.where(X > 0, X, 0.0)))
    for path in list(folder.iterdir()):
        path.rename(path.with_suffix(""))


def _mutate_npz(rng: random.Random, seeds: Mapping[str, Content]) -> Content:
    content = seeds[rng.choice(sorted(seeds))]
    assert isinstance(content, bytes)
    if rng.random() < 0.3:
        return mutate_bytes(rng, content)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(sorted(members))
    match rng.randrange(6):
        case 0:
            members[name] = _odd_npy(rng)
        case 1:
            members[name] = _as_npy(_numbers(rng))
        case 2:
            del members[name]
        case 3:
            members[rng.choice(("X.npy", "data.npy", "x", "../x.npy", "indices.npy"))] = (
                members.pop(name)
            )
        case 4:
            array = np.load(io.BytesIO(members[name]), allow_pickle=False)
            members[name] = _as_npy(_changed(rng, array))
        case 5:
            members[name] = mutate_bytes(rng, members[name])
    out = io.BytesIO()
    packing = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(out, "w", packing) as archive:
        for member, inner in members.items():
            archive.writestr(member, inner)
    return out.getvalue()


def _changed(rng: random.Random, array: np.ndarray) -> np.ndarray:
    """Indices, pointers, shapes and values that do not go together."""
    if array.dtype.kind not in "iuf" or array.size == 0:
        return np.array([rng.choice((b"csr", b"csc", b"coo", b"x", b"dia", b"bsr"))])
    array = array.copy()
    flat = array.reshape(-1)
    number = rng.choice((-1, 0, 1, 5, 100, 2**31 - 1, -(2**31)))
    match rng.randrange(4):
        case 0 | 1:
            flat[rng.randrange(flat.size)] = number
            return array
        case 2:
            return array[:-1]
    return array.astype(rng.choice(("f8", "i4", "i8", "u1", "?")))


# --- folders of images ---


def _image(rng: random.Random, size: tuple[int, int] = (5, 4)) -> bytes:
    mode = rng.choice(("L", "L", "RGB", "1", "RGBA", "P", "LA", "I;16", "CMYK", "F"))
    out = io.BytesIO()
    pixels = Image.frombytes("L", size, rng.randbytes(size[0] * size[1]))
    kind = rng.choice(("PNG", "PNG", "BMP", "GIF", "TIFF", "PPM", "JPEG", "WEBP"))
    try:
        pixels.convert(mode).save(out, kind)
    except (OSError, ValueError):  # a mode that the format does not have
        pixels.save(out, kind)
    return out.getvalue()


def _image_seeds(folder: Path) -> None:
    (folder / "grey").mkdir()
    for i in range(4):
        pixels = np.random.default_rng(i).integers(0, 256, (4, 5), np.uint8)
        Image.fromarray(pixels).save(folder / "grey" / f"{i}.png")


def _mutate_images(rng: random.Random, seeds: Mapping[str, Content]) -> Content:
    seed = seeds["grey"]
    assert isinstance(seed, dict)
    content = dict(seed)
    for _ in range(rng.choice((1, 1, 2, 4))):
        name = rng.choice(
            (*content, "9.png", "z.jpg", "y.tif", "x.gif", "w.bmp", "v.webp", "notes.txt")
        )
        match rng.randrange(5):
            case 0 if name in content:
                content[name] = mutate_bytes(rng, content[name])
            case 1:
                content[name] = _image(
                    rng, rng.choice(((5, 4), (5, 4), (4, 5), (1, 1), (300, 200)))
                )
            case 2:
                content[name] = mutate_bytes(rng, _image(rng), 3)
            case 3:
                content.pop(name, None)
            case 4:
                content[name] = rng.choice((b"", b"no image", b"\x89PNG\r\n\x1a\n", b"GIF89a"))
    return content


def _use_images(path: Path) -> None:
    chance = random.Random(zlib.crc32(b"".join(sorted(p.read_bytes() for p in path.iterdir()))))
    found = read_data(path, resize=(4, 5) if chance.random() < 0.3 else None)
    if chance.randrange(_LEARNED) == 0 and len(found.X) > 1 and found.X.shape[1] < 1000:
        _learn(found.X, "gaussian")


def _warm() -> None:
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        for X in (rng.normal(size=(12, 4)), np.where(rng.random((12, 4)) < 0.2, np.nan, 1.0)):
            _learn(X.astype(dtype), "gaussian")
            _learn(sparse.csr_array(np.nan_to_num(X)).astype(dtype), "gaussian")


KINDS = [
    Kind("parquet", _parquet_seeds, _mutate_parquet, _use_parquet, ".parquet", warm=_warm),
    Kind("npy", _npy_seeds, _mutate_npy, _use_arrays, ".npy", warm=_warm),
    Kind("npz", _npz_seeds, _mutate_npz, _use_arrays, ".npz", warm=_warm),
    Kind("image folders", _image_seeds, _mutate_images, _use_images, warm=_warm),
]
