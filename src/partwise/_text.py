"""Sentences for people: errors, summaries and what is printed."""

from __future__ import annotations

from collections.abc import Sequence


def first_few(words: Sequence[str], most: int) -> str:
    """Words in a sentence; of many the first, and how many more there are."""
    more = len(words) - most
    return ", ".join(words) if more <= 0 else f"{', '.join(words[:most])} and {more} more"


def reason_of(error: BaseException) -> str:
    """The message of another library for a sentence of ours: one printable line, without period."""
    words = "".join(c if c.isprintable() else " " for c in str(error)).split()
    reason = " ".join(words).rstrip(".") or type(error).__name__
    return reason if len(reason) <= 200 else f"{reason[:200]} ..."


def plural(number: int, singular: str) -> str:
    """A number with its noun."""
    return f"{number:,} {singular}{'' if number == 1 else 's'}"


def unnamed(d: int) -> str:
    """Name of column d in tables, pages and messages, where X has no names; as in scikit-learn."""
    return f"x{d}"
