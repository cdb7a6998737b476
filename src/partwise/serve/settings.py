"""Settings of a service."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

# Worker processes read the settings from this environment variable.
ENVIRONMENT = "PARTWISE_SERVE"


@dataclass(frozen=True)
class Limits:
    """Limits of one request, and of all requests together.

    Parameters
    ----------
    body_bytes : int, default=10_000_000
        Size of a request's body; a larger one is answered with status 413.
    rows : int, default=10_000
        Rows of a request; more are answered with 413.
    waiting : int, default=256
        Requests that wait for an answer at a time; one more is answered with 429.
    seconds : float, default=30.0
        Time for an answer, after which the status is 503.
    body_seconds : float, default=10.0
        Time for a client to send its body, after which the status is 408.
    """

    body_bytes: int = 10_000_000
    rows: int = 10_000
    waiting: int = 256
    seconds: float = 30.0
    body_seconds: float = 10.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not value > 0:
                raise ValueError(f"Limits({name}={value!r}): must be positive.")


@dataclass(frozen=True)
class Settings:
    """Model files, access and limits of a service.

    Parameters
    ----------
    models : tuple of str
        Paths of model files; the name of a model is the file's name without its ending.
    token : str, optional
        Token that clients must send as ``Authorization: Bearer TOKEN``.
    limits : Limits
    reload_seconds : float, default=1.0
        Time between two checks of the model files.
    batch_rows : int, default=1024
        Maximum number of rows that concurrent requests share a pass over; 1 means a pass per
        request.
    """

    models: tuple[str, ...]
    token: str | None = None
    limits: Limits = field(default_factory=Limits)
    reload_seconds: float = 1.0
    batch_rows: int = 1024

    def paths(self) -> dict[str, Path]:
        """Model files by the name of the model."""
        found: dict[str, Path] = {}
        for path in map(Path, self.models):
            if path.stem in found:
                raise ValueError(
                    f"{found[path.stem]} and {path} would both have the name {path.stem!r}; rename "
                    "one."
                )
            found[path.stem] = path
        if not found:
            raise ValueError("There is no model to serve; name at least one model file.")
        return found

    def to_environment(self) -> None:
        """Store the settings for worker processes."""
        os.environ[ENVIRONMENT] = json.dumps(asdict(self))

    @staticmethod
    def from_environment() -> Settings:
        """Read the settings that `to_environment` stored."""
        kept = json.loads(os.environ[ENVIRONMENT])
        limits = Limits(**kept.pop("limits"))
        return Settings(**{**kept, "models": tuple(kept["models"]), "limits": limits})
