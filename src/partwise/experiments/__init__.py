"""The papers' tables and figures, one module each, run by ``partwise reproduce``.

A module here enters its functions with ``@register("name")``; see `Registry`.
"""

from partwise.experiments.registry import Registry

EXPERIMENTS = Registry("partwise.experiments")
register = EXPERIMENTS.register

__all__ = ["EXPERIMENTS", "register"]
