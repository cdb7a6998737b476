"""Text files that are complete or not there."""

import os
import secrets
from pathlib import Path


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file under a temporary name in the same folder, then rename it."""
    target = Path(os.path.realpath(path))
    temporary = target.parent / f".partwise-{secrets.token_hex(8)}.tmp"
    try:
        with open(temporary, "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:  # an interrupt, too, must leave nothing half-written
        temporary.unlink(missing_ok=True)
        raise
