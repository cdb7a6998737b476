"""The papers' tables and figures, one module each, run by ``partwise reproduce``.

A module here enters its functions with ``@register("name")``; see `Registry`.
"""

from partwise_papers.registry import Registry

EXPERIMENTS = Registry("partwise_papers.experiments")
register = EXPERIMENTS.register

__all__ = ["EXPERIMENTS", "register"]
