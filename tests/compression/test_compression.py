"""Images to files and back, the report, and files that are damaged or not ours."""

import struct
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from PIL import Image
from typer.testing import CliRunner

from partwise.cli import app
from partwise.compression import (
    CompressedFileError,
    codec,
    coder,
    compare,
    compress,
    container,
    decompress,
    psnr,
    read_picture,
    write_picture,
)
from partwise.datasets import make_faces
from tests.reference import coder as reference


def drawing(channels, height=90, width=75):
    """A mosaic of cartoon faces, larger than whole blocks."""
    faces = make_faces(12, random_state=0)
    tiles = faces.data.reshape(3, 4, *faces.image_shape).swapaxes(1, 2)
    grey = tiles.reshape(3 * faces.image_shape[0], -1)[:height, :width]
    grey = np.rint(255 * np.clip(grey, 0, 1)).astype(np.uint8)
    return np.stack([np.roll(grey, c, axis=0) for c in range(channels)], axis=2)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    "sizes", [pytest.param((4, 1, 2), marks=pytest.mark.slow), (2, 3, 3), (0, 5, 2)]
)
def test_there_and_back(channels, sizes):
    image = drawing(channels)
    K, M, J = sizes
    coded = compress(image, K, n_sets=M, n_values=J, side=8)
    assert_array_equal(decompress(coded.content), coded.image)
    assert coded.image.shape == image.shape
    assert coded.bits == 8 * len(coded.content) < 8 * image.size
    assert psnr(image, coded.image) > 10
    assert coded.vectors == M * (K * (J - 1) + 1)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(11_000, 11_000, 1), (8, 15_000_000, 1)])
def test_a_small_file_of_a_large_image_takes_little_memory(shape):
    """Blocks of one color are coded in next to no bytes."""
    sizes = shape, 8, 1, 0, 2
    assert not container.too_large(*sizes)
    assert container.too_large((3 * shape[0], *shape[1:]), *sizes[1:])
    P = np.prod(container.n_blocks(shape, 8))
    picture = container.Picture(shape, 8, np.full((1, 1, 64), 7.0), np.zeros((P, 1), np.int64), 2)
    content = container.pack(picture)
    assert len(content) < 1_000_000
    del picture
    tracemalloc.start()
    assert decompress(content)[-1, -1, 0] == 7
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 400e6


def test_restored_blocks_at_a_time(monkeypatch):
    coded = compress(drawing(3), 2, n_sets=2, side=8)
    monkeypatch.setattr(codec, "BLOCK_NUMBERS", 600)
    assert_array_equal(decompress(coded.content), coded.image)


def test_features_beat_plain_quantisation_with_no_fewer_bits():
    image = drawing(1)
    coded = compress(image, 6, side=8)
    report = compare(image, coded, side=8)
    assert report.rival.bits >= report.ours.bits
    assert report.psnr > report.rival_psnr
    assert_array_equal(decompress(report.rival.content), report.rival.image)


def test_an_image_of_one_colour():
    image = np.full((20, 20, 1), 77, np.uint8)
    coded = compress(image, 4, side=8)
    assert_array_equal(decompress(coded.content), image)
    assert psnr(image, coded.image) == np.inf


@pytest.mark.parametrize("neighbours", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_coder_rounds_nothing(neighbours, seed):
    rng = np.random.default_rng(seed)
    bits, rates = rng.integers(0, 5, 3), rng.uniform(0.01, 0.99, 3)
    symbols = np.stack([rng.binomial(2**b - 1, r, 400) for b, r in zip(bits, rates, strict=True)])
    symbols = np.ascontiguousarray(symbols.T)
    data, size = coder.code(symbols, bits, 20, neighbours, np.zeros(0, np.uint8), False, False)
    assert data[:size].tobytes() == reference.code(symbols.tolist(), bits, 20, neighbours)


def test_files_of_format_1_are_read():
    """`format_1.pw` was written by the last commit that wrote this format."""
    p = np.arange(40 * 50)
    states = np.minimum((p * p % 97) ** 2 // 1200, 3), (p % 50 > 20) + (p * 7 % 19 == 0)
    codes = np.column_stack([p // 50 // 7 % 2, *states])
    content = Path(__file__).with_name("format_1.pw").read_bytes()
    assert content[4] == 1
    found = container.unpack(content, "format_1.pw")
    assert_array_equal(found.codes, codes)
    assert_array_equal(found.vectors.ravel(), 16.0 * np.arange(14))
    anew = container.pack(found)
    assert anew[4] == container.VERSION == 2
    assert_array_equal(container.unpack(anew, "anew").codes, codes)
    assert len(anew) <= 1.001 * len(content) + 1


@pytest.mark.parametrize("neighbours", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_the_coder_loses_nothing_and_is_near_the_entropy(neighbours, seed):
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 7, 5)
    rates = rng.uniform(0.01, 0.99, 5)
    symbols = np.stack([rng.binomial(2**b - 1, r, 2000) for b, r in zip(bits, rates, strict=True)])
    symbols = np.ascontiguousarray(symbols.T)
    data, size = coder.code(symbols, bits, 40, neighbours, np.zeros(0, np.uint8), False, False)
    back = np.zeros_like(symbols)
    coder.code(back, bits, 40, neighbours, data[:size].copy(), True, False)
    assert_array_equal(back, symbols)
    entropy = 0.0
    for column in symbols.T:
        share = np.bincount(column) / len(column)
        entropy -= (share[share > 0] * np.log2(share[share > 0])).sum() * len(column)
    assert 8 * size < 1.02 * entropy + (6000 if neighbours else 1500)


def test_certain_bits_cost_next_to_nothing():
    symbols = np.zeros((100_000, 1), np.int64)
    size = coder.code(symbols, np.array([1]), 100, True, np.zeros(0, np.uint8), False, False)[1]
    assert size < 50


def test_files_that_are_damaged_or_foreign():
    content = compress(drawing(1), 3, side=8).content
    rng = np.random.default_rng(0)
    for _ in range(100):
        damaged = bytearray(content)
        damaged[rng.integers(len(content))] ^= 1 << rng.integers(8)
        with pytest.raises(CompressedFileError):
            decompress(bytes(damaged))
    for end in (*range(0, 40), len(content) - 1):
        with pytest.raises(CompressedFileError):
            decompress(content[:end])
    with pytest.raises(CompressedFileError, match="not an image compressed by partwise"):
        decompress(b"\x89PNG" + bytes(100), "x.png")
    with pytest.raises(CompressedFileError, match="upgrade"):
        decompress(content[:4] + bytes([container.VERSION + 1]) + content[5:])


def forged(content, **fields):
    """The file with other numbers in its header and a checksum that is right."""
    names = ["magic", "version", "neighbours", "height", "width", "channels", "side"]
    found = container._FIELDS.unpack(content[: container._FIELDS.size])
    header = dict(zip([*names, "M", "K", "J", "size"], found, strict=True))
    packed = container._FIELDS.pack(*(header | fields).values())
    body = content[container._FIELDS.size + 4 :]
    return packed + struct.pack("<I", zlib.crc32(packed + body)) + body


@pytest.mark.parametrize(
    "fields",
    [
        {"height": 2**32 - 1, "width": 2**32 - 1},
        {"M": 65535, "K": 65535, "J": 65535},
        {"K": 60000},
        {"side": 255},
        {"side": 0},
        {"channels": 2},
        {"channels": 3},
        {"size": 2**32 - 1},
        {"size": 0},
        {"J": 1},
        {"height": 0},
        {"version": 0},
        {"height": 1, "width": 2**28, "side": 255},
    ],
)
def test_forged_headers_take_no_memory(fields):
    content = compress(drawing(1), 3, side=8).content
    with pytest.raises(CompressedFileError, match="damaged"):
        decompress(forged(content, **fields))


def test_many_values_take_no_memory():
    # A pixel a block, one feature of 32,768 values: codes as numbers would take 275 GB.
    J, n_pixels = 1 << 15, 1 << 20
    vectors = bytes(4 * J) + zlib.compress(bytes(J))
    sizes = (1, n_pixels, 1, 1, 1, 1, J, len(vectors))
    header = container._FIELDS.pack(b"PWVQ", container.VERSION, 0, *sizes)
    content = header + struct.pack("<I", zlib.crc32(header + vectors)) + vectors
    assert decompress(content).shape == (1, n_pixels, 1)


def test_what_could_not_be_read_is_not_written():
    with pytest.raises(ValueError, match="more than a file can hold"):
        compress(drawing(1), 256, n_sets=2, n_values=256, side=8)


def test_bombs_do_not_unfold():
    content = compress(drawing(1), 3, side=8).content
    size = container._FIELDS.size + 4
    bomb = zlib.compress(bytes(10**7))
    ends = content[size : size + 4 * 4]
    body = content[:size] + ends + bomb
    with pytest.raises(CompressedFileError, match="damaged"):
        decompress(forged(body, size=len(ends) + len(bomb)))


@pytest.mark.parametrize("name", ["a.png", "a.npy", "a.bmp"])
@pytest.mark.parametrize("channels", [1, 3])
def test_pictures(name, channels, tmp_path):
    image = drawing(channels)
    write_picture(tmp_path / name, image)
    assert_array_equal(read_picture(tmp_path / name), image)


def test_pictures_of_other_kinds(tmp_path):
    grey = drawing(1)[:, :, 0]
    np.save(tmp_path / "floats.npy", grey / 255.0)
    assert_array_equal(read_picture(tmp_path / "floats.npy")[:, :, 0], grey)
    Image.fromarray(grey.astype(np.uint16) * 257).save(tmp_path / "deep.png")
    assert_array_equal(read_picture(tmp_path / "deep.png")[:, :, 0], grey)
    Image.fromarray(drawing(3)).convert("RGBA").save(tmp_path / "alpha.png")
    assert_array_equal(read_picture(tmp_path / "alpha.png"), drawing(3))
    np.save(tmp_path / "odd.npy", np.zeros((2, 3, 4, 5)))
    with pytest.raises(ValueError, match="an image has bytes"):
        read_picture(tmp_path / "odd.npy")


@pytest.mark.parametrize("name", ["a", "a.xyz"])
def test_names_that_are_no_image(name, tmp_path):
    with pytest.raises(ValueError, match="has no ending of an image format"):
        write_picture(tmp_path / name, drawing(1))


def test_commands(tmp_path):
    run = CliRunner().invoke
    write_picture(tmp_path / "a.png", drawing(3))
    done = run(app, ["compress", f"{tmp_path}/a.png", "-o", f"{tmp_path}/a.pw", "--block", "8"])
    assert done.exit_code == 0, done.output
    assert "plain VQ" in done.output
    done = run(app, ["decompress", f"{tmp_path}/a.pw", "-o", f"{tmp_path}/b.png"])
    assert done.exit_code == 0, done.output
    content = (tmp_path / "a.pw").read_bytes()
    assert_array_equal(read_picture(tmp_path / "b.png"), decompress(content))
    (tmp_path / "c.pw").write_bytes(content[:-3])
    done = run(app, ["decompress", f"{tmp_path}/c.pw", "-o", f"{tmp_path}/c.png"])
    assert done.exit_code == 1
    assert "damaged" in done.stderr
    assert not (tmp_path / "c.png").exists()
    done = run(app, ["decompress", f"{tmp_path}/a.png", "-o", f"{tmp_path}/c.png"])
    assert done.exit_code == 1
    done = run(app, ["compress", f"{tmp_path}/a.pw", "-o", f"{tmp_path}/d.pw"])
    assert done.exit_code == 1
    assert "Traceback" not in done.output
