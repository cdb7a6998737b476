"""Ways to map a function over blocks; results come back in block order."""

from partwise.runners.serial import Serial
from partwise.runners.threads import Threads, runner_for

__all__ = ["Serial", "Threads", "runner_for"]
