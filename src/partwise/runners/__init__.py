"""Ways to map a function over blocks; results come back in block order."""

from partwise.runners.dask import DaskRunner, placed
from partwise.runners.serial import Serial
from partwise.runners.threads import Threads, runner_for, runner_of

__all__ = ["DaskRunner", "Serial", "Threads", "placed", "runner_for", "runner_of"]
