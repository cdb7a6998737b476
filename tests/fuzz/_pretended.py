"""Kinds that try the harness itself: each case says what it does."""

import os

from tests.fuzz.harness import Kind


def _seeds(folder):
    (folder / "seed").write_bytes(b"worked")


def _mutate(rng, seeds):
    return rng.choice((b"worked", b"error", b"foreign", b"crash", b"memory"))


def _use(path):
    match path.read_bytes():
        case b"error":
            raise KeyError("bare")
        case b"foreign":
            raise ValueError("not one of the library's sentences")
        case b"crash":
            os.abort()
        case b"memory":
            bytearray(3 << 30)


def _mutate_slowly(rng, seeds):
    return b"hang"


def _hang(path):
    while path.read_bytes() == b"hang":
        pass


KINDS = [Kind("pretended", _seeds, _mutate, _use), Kind("slow", _seeds, _mutate_slowly, _hang)]
