"""Model files: stored models, mutated in structure or bytes, loaded and asked as a person would."""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import random
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

import partwise
from partwise.files.model import _DIGEST_START, _NO_DIGEST, load
from partwise.report import write_report
from tests.fuzz.harness import Content, Kind, mutate_bytes
from tests.golden.answers import ask
from tests.golden.cases import STORED, asked_rows, model_files

# Questions per case; a page takes longer and is written for a share of the files.
_QUESTIONS = 4
_DRAWN = 40

Header = dict[str, Any]
Arrays = dict[str, np.ndarray]


# --- files in parts, and whole again ---


def whole(header: Header, arrays: Arrays) -> bytes:
    """A file with the right checksum."""
    text = json.dumps({"checksum": _NO_DIGEST.decode(), **_without(header, "checksum")})
    lying = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    compact = json.dumps(json.loads(text), separators=(",", ":"))
    return sealed(safetensors.numpy.save(lying, metadata={"partwise": compact}))


def sealed(content: bytes) -> bytes:
    """The same with the right checksum."""
    end = _DIGEST_START + len(_NO_DIGEST)
    blank = content[:_DIGEST_START] + _NO_DIGEST + content[end:]
    return content[:_DIGEST_START] + hashlib.sha256(blank).hexdigest().encode() + content[end:]


def _without(mapping: Header, name: str) -> Header:
    return {key: value for key, value in mapping.items() if key != name}


# --- mutations ---

_NUMBERS = (
    0, 1, -1, 2, 3, 5, 7, 64, 65, 255, 1000, 10**6, 2**31, 2**63, -(2**63), 10**30, 0.5, -0.5, 1e-9,
    1e9, -1e100, 1e300, 1e-300, 1.5,
)  # fmt: skip
_OTHERS = (
    None, True, False, "", "auto", "x", "gaussian", "ordinal", "categorical", "bernoulli",
    "poisson",
    "conjugate", "float32", "float16", "object", "\0", "a" * 2000, [], [1], [[1, 2]],
    {"tuple": []},
    {"tuple": [1, 2, 3]}, {"dict": {}}, {"dict": {"a": 1}}, {"float": "nan"}, {"float": "inf"},
    {"float": "x"}, {"array": "theta.chi"}, {"unicode": "x"},
    {"objects": {"shape": [1], "values": [1]}},
    {"objects": {"shape": [2, 2], "values": ["a", None, 1.5, True]}}, {}, {"a": 1, "b": 2},
    {"options": {"class": "Prior", "fields": {"states": 0.5}}},
    {"options": {"class": "x", "fields": {}}},
    {"estimator": {"class": "MCVQ", "arguments": {}}}, {"generator": {"dict": {}}},
    {"value": {"class": "partwise.engine.em.Place", "fields": {}}},
)  # fmt: skip

Place = tuple[Any, Any]  # a list or dict, and where in it


def places(node: Any) -> Iterator[Place]:
    """All items of lists and dicts below a node."""
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in items:
        yield node, key
        if isinstance(value, dict | list):
            yield from places(value)


def mutate_header(rng: random.Random, header: Header) -> None:
    """Change one item of the arguments, the state or the header itself."""
    where = rng.choices(("arguments", "state", None), (3, 5, 0.5))[0]
    node = header if where is None else header.get(where)
    found = list(places(node)) if isinstance(node, dict | list) else []
    if not found:
        return
    owner, key = rng.choice(found)
    value = owner[key]
    match rng.randrange(9):
        case 0 | 1 | 2 if isinstance(value, int | float) and not isinstance(value, bool):
            owner[key] = rng.choice((value + 1, value - 1, -value, value * 2, rng.choice(_NUMBERS)))
        case 0 | 1:
            owner[key] = copy.deepcopy(rng.choice(_OTHERS))
        case 2:
            owner[key] = rng.choice(_NUMBERS)
        case 3:
            del owner[key]
        case 4 if isinstance(owner, list):
            owner.insert(rng.randrange(len(owner) + 1), copy.deepcopy(value))
        case 4:
            owner[rng.choice(("x", f"{key}_", str(key)[:-1]))] = owner.pop(key)
        case 5:
            other, at = rng.choice(found)
            if at in other if isinstance(other, dict) else at < len(other):
                owner[key] = copy.deepcopy(other[at])
        case 6 if isinstance(owner, list):
            rng.shuffle(owner)
        case 7:
            owner[key] = [copy.deepcopy(value)]
        case _:
            owner[key] = copy.deepcopy(rng.choice(_OTHERS))


def mutate_arrays(rng: random.Random, arrays: Arrays) -> None:
    """Change one array's shape, dtype or values, drop it, or put another in its place."""
    if not arrays:
        return
    name = rng.choice(sorted(arrays))
    array = np.array(arrays[name])
    axis = rng.randrange(max(array.ndim, 1))
    match rng.randrange(14):
        case 0 if array.ndim and array.shape[axis]:
            array = np.delete(array, rng.randrange(array.shape[axis]), axis)
        case 1 if array.ndim and array.shape[axis]:
            array = np.concatenate([array, np.take(array, [-1], axis)], axis)
        case 2:
            array = array.T if rng.random() < 0.5 else array.reshape(-1)
        case 3:
            array = array[None] if rng.random() < 0.5 else array[..., None]
        case 4:
            array = array[:0] if array.ndim and rng.random() < 0.5 else np.empty((0,) * array.ndim)
        case 5 | 6:
            with np.errstate(all="ignore"):
                array = array.astype(
                    rng.choice(("f4", "f2", "f8", "i8", "i4", "u1", "u4", "?", "i1", "u8"))
                )
        case 7 | 8 | 9 if array.size:
            number = rng.choice((*_NUMBERS, float("nan"), float("inf"), -float("inf")))
            at = rng.randrange(array.size)
            with np.errstate(all="ignore"):
                value = np.array(number, float).astype(array.dtype)
            array.reshape(-1)[at if rng.random() < 0.8 else slice(None)] = value
        case 10:
            with np.errstate(all="ignore"):
                factor = rng.choice((-1.0, 0.0, 2.0, 1e-3, 1e3, 1e30, 1e200))
                array = (array * factor).astype(array.dtype)
        case 11:
            other = rng.choice(sorted(arrays))
            arrays[name], arrays[other] = arrays[other], arrays[name]
            return
        case 12:
            del arrays[name]
            return
        case _ if array.ndim:
            array = array[::-1] if rng.random() < 0.5 else np.roll(array, 1, axis)
    arrays[name] = array


def mutated(rng: random.Random, header: Header, arrays: Arrays, content: bytes) -> bytes:
    """A file that is like another."""
    if rng.random() < 0.1:
        content = mutate_bytes(rng, content)
        return sealed(content) if rng.random() < 0.7 else content
    header, arrays = copy.deepcopy(header), dict(arrays)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        (mutate_header if rng.random() < 0.5 else lambda r, _: mutate_arrays(r, arrays))(
            rng, header
        )
    try:
        return whole(header, arrays)
    except (ValueError, TypeError):  # what JSON cannot hold, such as a key of two kinds
        return content


# --- the kind ---


def _seeds(folder: Path) -> None:
    for path in model_files():
        name = f"{path.parent.name}-{path.stem}"
        (folder / name).mkdir()
        (folder / name / "case").write_text(path.stem)
        (folder / name / "model.safetensors").write_bytes(path.read_bytes())


_known: dict[bytes, tuple[Header, Arrays]] = {}


def known_parts(content: bytes) -> tuple[Header, Arrays]:
    """Parts of a seed file, read once."""
    if content not in _known:
        size = int.from_bytes(content[:8], "little")
        text = json.loads(content[8 : 8 + size])["__metadata__"]["partwise"]
        _known[content] = json.loads(text), safetensors.numpy.load(content)
    return _known[content]


def mutate(rng: random.Random, seeds: Mapping[str, Content]) -> Content:
    """A folder of seeds with its model file mutated."""
    seed = seeds[rng.choice(sorted(seeds))]
    assert isinstance(seed, dict)
    content = seed["model.safetensors"]
    return {**seed, "model.safetensors": mutated(rng, *known_parts(content), content)}


@functools.cache
def _rows(name: str) -> Any:
    case = STORED[name]
    return asked_rows(case.data, case.storage)


def _use(path: Path) -> None:
    model = load(path / "model.safetensors")
    name = (path / "case").read_text()
    chance = random.Random(zlib.crc32((path / "model.safetensors").read_bytes()))
    questions = [one for one in STORED[name].questions if not one.startswith("item added")]
    chosen = chance.sample(questions, min(_QUESTIONS, len(questions)))
    if not isinstance(model, partwise.Recommender | partwise.PartsImputer):
        model.set_params(max_iter=1)
    ask(model, chosen, _rows(name))
    model.save(path / "again.safetensors")
    load(path / "again.safetensors")
    if chance.randrange(_DRAWN) == 0:
        write_report(model, path / "page.html")


def _warm() -> None:
    for path in model_files():
        model = load(path)
        ask(model, STORED[path.stem].questions, _rows(path.stem))


KINDS = [Kind("model files", _seeds, mutate, _use, warm=_warm)]
