"""What laws of counts share."""

from __future__ import annotations

import numpy as np

from partwise.contracts import Array


def wrong_counts(name: str, values: Array) -> str | None:
    """`Law.check` of counts."""
    seen = values[~np.isnan(values)]
    if not len(seen) or (seen.min() >= 0 and np.all(seen == np.rint(seen))):
        return None
    wrong = seen[(seen < 0) | (seen != np.rint(seen))][0]
    return (
        f'{wrong:g}, but likelihood="{name}" needs counts 0, 1, 2, ... or NaN; round the data or '
        'choose likelihood="gaussian".'
    )
