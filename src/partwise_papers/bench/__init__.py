"""Benchmarks, one module each, run by ``partwise bench``.

A module here enters its functions with ``@register("name")``; see `Registry`. What is compared is
measured in one run, so that ratios hold on any machine.
"""

from partwise_papers.registry import Registry

BENCHES = Registry("partwise_papers.bench")
register = BENCHES.register

__all__ = ["BENCHES", "register"]
