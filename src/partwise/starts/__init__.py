"""Where a fit begins: first gates, and first sums for every state."""

from partwise.starts.dependence import dependence_start
from partwise.starts.random import random_start

__all__ = ["dependence_start", "random_start"]
