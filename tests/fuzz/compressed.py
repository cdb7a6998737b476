"""Compressed images, read as ``partwise decompress`` does."""

from __future__ import annotations

import random
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from partwise.compression import compress, decompress, read_file, write_picture
from partwise.compression.container import _CHECKSUM, _FIELDS, VERSION
from tests.fuzz.harness import Content, Kind, mutate_bytes

# Largest number of each field after the version: u8, u32, u32, u8, u8, u16, u16, u16, u32.
_BITS = (8, 8, 32, 32, 8, 8, 16, 16, 16, 32)


def _seeds(folder: Path) -> None:
    rng = np.random.default_rng(0)
    colour = rng.integers(0, 256, (20, 27, 3), np.uint8)
    grey = np.add.outer(np.arange(33), np.arange(24)).astype(np.uint8)[:, :, None]
    for name, image, options in (
        ("grey", grey, {"n_components": 3, "side": 8}),
        ("colour", colour, {"n_components": 2, "n_sets": 2, "n_values": 3, "side": 8}),
        ("origins", grey, {"n_components": 0, "n_sets": 4, "side": 4}),
    ):
        (folder / name).write_bytes(compress(image, **options).content)


def _mutate(rng: random.Random, seeds: Mapping[str, Content]) -> Content:
    content = seeds[rng.choice(sorted(seeds))]
    if rng.random() < 0.3:
        return mutate_bytes(rng, content)
    fields, body = list(_FIELDS.unpack_from(content)), content[_FIELDS.size + _CHECKSUM.size :]
    if rng.random() < 0.7:
        for _ in range(rng.randint(1, 3)):
            i = rng.randrange(len(_BITS)) + 1
            most = 1 << _BITS[i - 1]
            near = fields[i] + rng.choice((-1, 1, 2))
            fields[i] = rng.choice((near, 0, 1, most - 1, most // 2, rng.randrange(most))) % most
        if rng.random() < 0.7:
            fields[1] = rng.randint(1, VERSION)  # other versions are refused at once
    if rng.random() < 0.6:
        body = mutate_bytes(rng, body)
    header = _FIELDS.pack(*fields)
    return header + _CHECKSUM.pack(zlib.crc32(header + body)) + body


def _use(path: Path) -> None:
    image = decompress(read_file(path), str(path))
    write_picture(path.with_name("image.png"), image)


KINDS = [Kind("compressed", _seeds, _mutate, _use, ".gvq")]
