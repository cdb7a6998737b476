"""Checkpoint files: what an unfinished fit needs to go on, sealed with the rows it is a fit of.

A checkpoint holds parameters in the midst of a fit, which compiled kernels take as they are. It is
only ever read by the same fit of the same rows, so it is sealed: a keyed checksum, whose key is
made of the rows and not in the file, says that such a fit wrote every byte of it.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from partwise import __version__
from partwise.files.model import (
    CHECKPOINT,
    ModelFileError,
    decode,
    read_file,
    seal,
    serialise,
    short,
    write_atomically,
)


def save_checkpoint(
    path: str | os.PathLike[str], arguments: dict[str, Any], state: dict[str, Any], key: str
) -> None:
    """Write what an unfinished fit needs to go on, and what it is a fit of.

    Parameters
    ----------
    path : str or path-like
    arguments : dict
        What another fit would have to share; of plain values.
    state : dict
        May also hold parameters of the library's models.
    key : str
        What the file is sealed with; the rows' own.
    """
    content = serialise(CHECKPOINT, arguments, state, key)
    write_atomically(path, content, temporary_name(path))


def load_checkpoint(
    path: str | os.PathLike[str],
) -> tuple[dict[str, Any], Callable[[str], dict[str, Any]]]:
    """Read what `save_checkpoint` wrote.

    Returns
    -------
    arguments : dict
    opened : callable
        ``opened(key)`` gives the state.

    Raises
    ------
    ModelFileError
        If the file is no checkpoint, damaged, or of another version of the library; by ``opened``
        if it was not sealed with this key.
    """
    header, arrays = read_file(path)
    if header["class"] != CHECKPOINT:
        raise ModelFileError(
            f"'{path}' holds a {short(header['class'], 40)}, no checkpoint; name another file for "
            "checkpoints."
        )
    if header["version"] != __version__:
        raise ModelFileError(
            f"'{path}' is a checkpoint of partwise {short(header['version'], 40)}, not "
            f"{__version__}: go on with that version, or delete the file to begin anew."
        )

    def opened(key: str) -> dict[str, Any]:
        if not hmac.compare_digest(
            str(header.get("seal")).encode(), seal(key, header, arrays).encode()
        ):
            raise changed
        # What rows remember is written on, so nothing may share the file's memory.
        return decode(header["state"], {name: array.copy() for name, array in arrays.items()})

    changed = ModelFileError(
        f"'{path}' was changed since the fit wrote it: take another copy, or delete the file to "
        "begin anew."
    )
    try:
        arguments = {key: decode(node, {}) for key, node in header["arguments"].items()}
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise changed from error
    return arguments, opened


def temporary_name(path: str | os.PathLike[str]) -> Path:
    """The one name under which a checkpoint is written before it is renamed.

    A process killed while it writes leaves that file, which the next one writes over.
    """
    target = Path(os.path.realpath(path))
    return target.parent / f".{target.name}.tmp"
