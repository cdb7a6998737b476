"""A page about a fitted model: one HTML file that needs nothing else."""

from partwise.report.collect import collect
from partwise.report.notebook import show
from partwise.report.render import render, write_report

__all__ = ["collect", "render", "show", "write_report"]
