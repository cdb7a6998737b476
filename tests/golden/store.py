"""Answers in a file: all numbers in one array and all words in another, with an index in JSON.

One member per answer would take more room for names and headers than for numbers.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

Arrays = dict[str, np.ndarray]


def write(path: Path, answers: Arrays) -> None:
    """Store answers; whole numbers must be below 2^53, where floats hold them."""
    index = [[name, array.dtype.name, array.shape] for name, array in answers.items()]
    is_word = {name: array.dtype.kind == "U" for name, array in answers.items()}
    numbers = [array.astype(float).ravel() for n, array in answers.items() if not is_word[n]]
    words = [word for n, array in answers.items() if is_word[n] for word in array.ravel().tolist()]
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        path,
        allow_pickle=False,
        index=np.array(json.dumps({"answers": index, "words": words})),
        numbers=np.concatenate([*numbers, np.empty(0)]),
    )


def read(path: Path) -> Arrays:
    """What `write` stored."""
    with np.load(path, allow_pickle=False) as file:
        index, numbers = json.loads(str(file["index"])), file["numbers"]
    answers, at, words = {}, 0, iter(index["words"])
    for name, dtype, shape in index["answers"]:
        size = int(np.prod(shape))
        if dtype.startswith("str"):
            answers[name] = np.array([next(words) for _ in range(size)], str).reshape(shape)
        else:
            answers[name] = numbers[at : at + size].astype(dtype).reshape(shape)
            at += size
    return answers
