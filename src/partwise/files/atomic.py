"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from partwise.typing import PathLike


def write_atomically(path: PathLike, content: bytes, temporary: Path | None = None) -> None:
    """Write a file under a temporary name in the same folder, then rename it.

    Parameters
    ----------
    path : str or path-like
        A symbolic link is followed.
    content : bytes
    temporary : Path, optional
        The temporary name, whose file may exist; by default a new name.

    Raises
    ------
    OSError
        If the file cannot be written. No partial file is left.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"{path} cannot be written: the folder {target.parent} does not exist; make it first."
        )
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file in it.")
    mode = "xb" if temporary is None else "wb"
    temporary = temporary or target.parent / f".partwise-{secrets.token_hex(8)}.tmp"
    try:
        with open(temporary, mode) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:  # an interrupt, too, must leave no partial file
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            reason = error.strerror or error
            message = f"{path} cannot be written: {reason}; free some space, or name another file."
            raise OSError(error.errno, message) from error  # the subclass follows from the number
        raise
    _flush_folder(target.parent)


def _flush_folder(folder: Path) -> None:
    """Write the folder to disk, so that the rename survives a power failure."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
