r"""Model files: one safetensors file with the arrays and a JSON header, never pickle.

The header is one JSON document under the key ``partwise`` of safetensors' metadata. Every
safetensors reader can open the file; ours also checks it. There is a single key because safetensors
orders its metadata at random, and the same model should give the same bytes.

================== ====================================================================
header key         meaning
================== ====================================================================
``checksum``       SHA-256 of the whole file with this value written as zeros
``format``         ``"partwise"``
``format_version`` integer; a file with a larger number than ours is refused
``class``          estimator, looked up in the allow-list ``LOADABLE``
``version``        library version that wrote the file
``arguments``      constructor arguments, encoded
``state``          learned values, encoded, arrays by the name of their tensor
``text_format``    how the text file with the rows of the fit was written, if there was one
================== ====================================================================

`partwise.files.encoded_values` says how arguments and values are encoded. Checkpoints of fits
(`partwise.Checkpoint`) are such files too, of the class ``Checkpoint``
(`partwise.files.checkpoints`).

The checksum finds accidents; it is not a signature. A foreign file is harmless because it can only
name classes in the three allow-lists, and only give them plain values.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING, BinaryIO, NoReturn, Protocol

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from partwise import __version__
from partwise.files.atomic import write_atomically
from partwise.files.contents import check_contents
from partwise.files.encoded_values import (
    LOADABLE,
    Node,
    decode,
    encode,
    encode_arguments,
    find_class,
    made,
)
from partwise.files.schema import MisfitError, sentence
from partwise.typing import PathLike

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

__all__ = ["ModelFileError", "load", "save"]

_FORMAT_VERSION = 1

CHECKPOINT = "Checkpoint"
# Attribute of an estimator with the format of the text file of its rows (`data.text_options`).
TEXT_FORMAT = "text_format_"

# Every file starts with eight bytes of header length and then exactly this, so that a foreign file
# is recognized by its first bytes, and the checksum is at a fixed position.
_OPENING = rb'{"__metadata__":{"partwise":"{\"checksum\":\"'
_DIGEST_START = 8 + len(_OPENING)
_NO_DIGEST = b"0" * 64
_MAX_HEADER = 100_000_000  # safetensors refuses to read a longer one

# Exceptions that a state may still raise when a model is built from it.
_UNSUITABLE = (
    ArithmeticError,
    AttributeError,
    IndexError,
    KeyError,
    RecursionError,
    TypeError,
    ValueError,
    np.linalg.LinAlgError,
)


class ModelFileError(ValueError):
    """A file is not a model file, is damaged, or is of a version that cannot be read."""


class Saveable(Protocol):
    """Methods that `save` needs; `load` also calls ``__partwise_restore__(state)``."""

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Constructor arguments by name."""

    def __partwise_state__(self) -> dict[str, object]:
        """Learned values: arrays, scalars, strings, and lists, tuples and dicts of these."""


def save(estimator: Saveable, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to one file.

    Writing is atomic: the file is written under a temporary name in the same folder and then
    renamed. It replaces an existing file at `path`.

    Parameters
    ----------
    estimator : estimator of this library
        Fitted. Its constructor arguments must be None, booleans, numbers, strings, lists,
        tuples or dicts of these, one of the library's option objects such as ``Prior``, or one of
        its estimators.
        A generator given as ``random_state`` is stored as None, since its position in the
        stream means nothing in another process: what was learned is kept, and a later `fit` of
        the loaded estimator uses new random numbers. An integer is kept.
    path : str or path-like
        File to write. A symbolic link is followed.

    Raises
    ------
    TypeError
        If the estimator is not one of the library's own, or contains a value that a model file
        cannot store; the message names it.
    OSError
        If the file cannot be written. No partial file is left.

    See Also
    --------
    load : Read the file back.

    Examples
    --------
    >>> import tempfile
    >>> from partwise import CVQ, load, make_shapes
    >>> model = CVQ(3, 9, random_state=0).fit(make_shapes().data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/shapes.safetensors")
    ...     load(f"{folder}/shapes.safetensors").n_parts
    3
    """
    write_atomically(path, _serialize_model(estimator))


def load(path: PathLike) -> BaseEstimator:
    """Read an estimator back from a file written by `save`.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    estimator : estimator of this library
        Fitted, with the stored constructor arguments.

    Raises
    ------
    ModelFileError
        If the file is not a model file, or is truncated, altered, or of a newer format.
    OSError
        If there is no such file, or it cannot be opened.

    See Also
    --------
    save : Write the file.

    Examples
    --------
    >>> import tempfile
    >>> from partwise import CVQ, load, make_shapes
    >>> X = make_shapes().data
    >>> model = CVQ(3, 9, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/shapes.safetensors")
    ...     loaded = load(f"{folder}/shapes.safetensors")
    >>> bool((loaded.predict_states(X) == model.predict_states(X)).all())
    True
    """
    header, arrays = read_file(path)
    name = header["class"]
    remedy = f"load it with partwise {short(header['version'], 40)}, which wrote it"
    if name == CHECKPOINT:
        raise ModelFileError(
            f"'{path}' is the checkpoint of an unfinished fit; call that fit again with this file "
            "as checkpoint=, and save the model."
        )
    if not isinstance(name, str) or name not in LOADABLE:
        raise ModelFileError(
            f"'{path}' contains a {short(repr(name), 40)}, which is unknown to partwise "
            f"{__version__}: {remedy}."
        )
    # The checksum is correct, so a failure from here on is a difference between versions (or a
    # file made by hand), not damage.
    try:
        estimator = made(name, header["arguments"])
        state = decode(header["state"], arrays)
        check_contents(name, estimator.get_params(deep=False), state)
        with np.errstate(divide="raise", invalid="raise"):
            estimator.__partwise_restore__(state)
        if "text_format" in header:
            from partwise.files.text_contents import restored_format

            setattr(estimator, TEXT_FORMAT, restored_format(decode(header["text_format"], {})))
    except _UNSUITABLE as error:
        bare = f"{type(error).__name__}: {error}"
        reason = sentence(error) if isinstance(error, MisfitError) else bare
        raise ModelFileError(
            f"'{path}' contains a {name} that partwise {__version__} cannot rebuild "
            f"({short(reason)}): {remedy}."
        ) from error
    return estimator


def short(text: object, most: int = 240) -> str:
    """Text of a file for a message: on one line, printable, not too long."""
    plain = "".join(c if c.isprintable() else " " for c in " ".join(str(text).split()))
    return plain if len(plain) <= most else f"{plain[:most]} ..."


# ---------------------------------------------------------------------- the file as a whole


def _serialize_model(estimator: Saveable) -> bytes:
    """Return a model file's content."""
    cls = type(estimator)
    name = cls.__name__
    if name not in LOADABLE or cls is not find_class(LOADABLE, name):
        raise TypeError(
            f"{cls.__module__}.{name} cannot be saved: a model file contains only the library's "
            f"own estimators ({', '.join(LOADABLE)}), so that loading one runs no other code."
        )
    more = {}
    if hasattr(estimator, TEXT_FORMAT):
        from partwise.files.text_contents import format_state

        written = format_state(getattr(estimator, TEXT_FORMAT))
        more = {"text_format": encode(written, f"{TEXT_FORMAT} of {name}", "", None)}
    state = estimator.__partwise_state__()
    return serialize(name, estimator.get_params(deep=False), state, more=more)


def serialize(
    name: str,
    arguments: Mapping[str, object],
    state: Mapping[str, object],
    key: str | None = None,
    more: Mapping[str, Node] | None = None,
) -> bytes:
    """Return a file's content, checksum included; sealed with a key if there is one.

    ``more`` are further entries of the header.
    """
    arrays: dict[str, np.ndarray] = {}
    header = {
        "checksum": _NO_DIGEST.decode(),  # first, at the position that _OPENING requires
        "format": "partwise",
        "format_version": _FORMAT_VERSION,
        "class": name,
        "version": __version__,
        "arguments": encode_arguments(name, arguments),
        "state": encode(state, f"learned state of {name}", "", arrays),
        **(more or {}),
    }
    if key is not None:
        header["seal"] = seal(key, header, arrays)
    text = json.dumps(header, separators=(",", ":"), allow_nan=False)
    content = safetensors.numpy.save(arrays, metadata={"partwise": text})
    if int.from_bytes(content[:8], "little") > _MAX_HEADER:
        raise TypeError(
            f"{name} cannot be saved: its names and scalars need a header of more than "
            f"{_MAX_HEADER // 10**6} MB; store long lists as arrays."
        )
    if not content.startswith(_OPENING + _NO_DIGEST, 8):
        raise RuntimeError("safetensors wrote its header in an order this library cannot check")
    digest = hashlib.sha256(content).hexdigest().encode()
    return content[:_DIGEST_START] + digest + content[_DIGEST_START + len(digest) :]


def seal(key: str, header: dict[str, Node], arrays: dict[str, np.ndarray]) -> str:
    """Keyed SHA-256 of the header and all arrays of a file."""
    said = {name: header[name] for name in ("class", "version", "arguments", "state")}
    total = hmac.new(key.encode(), json.dumps(said, sort_keys=True).encode(), "sha256")
    for name in sorted(arrays):
        array = arrays[name]
        total.update(f"{name} {array.dtype.str} {array.shape}".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def read_file(path: PathLike) -> tuple[dict[str, Node], dict[str, np.ndarray]]:
    """Return header and arrays of a file, after checking that it is intact and readable."""
    damaged = ModelFileError(
        f"'{path}' is damaged (truncated, or altered since it was written): "
        "take another copy, or fit and save the model again."
    )
    # Checked before opening: opening a pipe blocks, and reading a device never ends.
    if not stat.S_ISREG(os.stat(path).st_mode) and not os.path.isdir(path):
        _refuse_foreign(path)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(_DIGEST_START + len(_NO_DIGEST))
        if len(start) < _DIGEST_START + len(_NO_DIGEST) or not start.startswith(_OPENING, 8):
            _refuse_foreign(path)
        header_size = int.from_bytes(start[:8], "little")
        if header_size > min(size - 8, _MAX_HEADER):
            raise damaged
        if _digest(file, start) != start[_DIGEST_START:]:
            raise damaged
        file.seek(0)
        content = file.read(size)
    try:
        header = json.loads(json.loads(content[8 : 8 + header_size])["__metadata__"]["partwise"])
        version = header["format_version"]
        if version > _FORMAT_VERSION:
            raise ModelFileError(
                f"'{path}' has model file format {version} and partwise {__version__} reads "
                f"up to {_FORMAT_VERSION}: upgrade partwise."
            )
        if missing := {"class", "version", "arguments", "state"} - header.keys():
            raise KeyError(*missing)
        arrays = safetensors.numpy.load(content)
    except ModelFileError:
        raise
    except (
        AttributeError,
        KeyError,
        RecursionError,
        SafetensorError,
        TypeError,
        ValueError,
    ) as error:
        raise damaged from error
    return header, arrays


def _refuse_foreign(path: PathLike) -> NoReturn:
    raise ModelFileError(
        f"'{path}' is not a Partwise model file, or its beginning is damaged: "
        "give a file written by an estimator's save()."
    )


def _digest(file: BinaryIO, start: bytes) -> bytes:
    """SHA-256 (hex) of a file read up to the end of `start`, its digest taken as zeros."""
    total = hashlib.sha256(start[:_DIGEST_START] + _NO_DIGEST)
    while chunk := file.read(1 << 20):  # in pieces, so that a wrong file needs no memory
        total.update(chunk)
    return total.hexdigest().encode()
