"""The one EM loop, its monitor, and restarts; names no model."""

from partwise.engine.em import Place, climb
from partwise.engine.monitor import Monitor

__all__ = ["Monitor", "Place", "climb"]
