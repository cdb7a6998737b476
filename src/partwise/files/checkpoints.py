"""Checkpoint files: the state of an unfinished fit, sealed with a key made of its rows.

A checkpoint contains intermediate parameters that compiled kernels use unchecked. Only the same fit
of the same rows reads it, so it has a keyed checksum (seal). The key is computed from the rows and
is not in the file: a valid seal means that a fit of these rows wrote every byte.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from partwise import __version__
from partwise.files.atomic import write_atomically
from partwise.files.encoded_values import Decoded, decode
from partwise.files.model import (
    CHECKPOINT,
    ModelFileError,
    read_file,
    seal,
    serialize,
    short,
)
from partwise.typing import PathLike


def save_checkpoint(
    path: PathLike, arguments: Mapping[str, object], state: Mapping[str, object], key: str
) -> None:
    """Write the state of an unfinished fit.

    Parameters
    ----------
    path : str or path-like
    arguments : dict
        Settings that a resumed fit must share; plain values.
    state : dict
        May also contain parameters of the library's models.
    key : str
        Key of the seal, computed from the rows.
    """
    content = serialize(CHECKPOINT, arguments, state, key)
    write_atomically(path, content, temporary_name(path))


def load_checkpoint(
    path: PathLike,
) -> tuple[dict[str, Decoded], Callable[[str], dict[str, Decoded]]]:
    """Read a file written by `save_checkpoint`.

    Returns
    -------
    arguments : dict
    opened : callable
        ``opened(key)`` checks the seal and returns the state.

    Raises
    ------
    ModelFileError
        If the file is not a checkpoint, damaged, or of another version of the library; from
        ``opened`` if it was not sealed with this key.
    """
    header, arrays = read_file(path)
    if header["class"] != CHECKPOINT:
        raise ModelFileError(
            f"'{path}' contains a {short(header['class'], 40)}, not a checkpoint; name another "
            "file for checkpoints."
        )
    if header["version"] != __version__:
        raise ModelFileError(
            f"'{path}' is a checkpoint of partwise {short(header['version'], 40)}, not "
            f"{__version__}: resume with that version, or delete the file to restart the fit."
        )

    def opened(key: str) -> dict[str, Decoded]:
        if not hmac.compare_digest(
            str(header.get("seal")).encode(), seal(key, header, arrays).encode()
        ):
            raise changed
        # The fit updates some arrays in place, so they must not share the file's memory.
        state = decode(header["state"], {name: array.copy() for name, array in arrays.items()})
        assert isinstance(state, dict)
        return state

    changed = ModelFileError(
        f"'{path}' was changed since the fit wrote it: take another copy, or delete the file to "
        "restart the fit."
    )
    try:
        arguments = {key: decode(node, {}) for key, node in header["arguments"].items()}
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise changed from error
    return arguments, opened


def temporary_name(path: PathLike) -> Path:
    """Name of the temporary file of a checkpoint.

    It is always the same, so that a file left by a killed process is overwritten by the next one.
    """
    target = Path(os.path.realpath(path))
    return target.parent / f".{target.name}.tmp"
