"""Classes of groups of parts: the groups as users give them."""

from __future__ import annotations

from numbers import Integral

import numpy as np

from partwise.contracts import Array
from partwise.fitting.options import PartsOptions, refuse_others


def read_groups(options: PartsOptions) -> tuple[int, Array | None]:
    """Number of groups, and the group of every part (K,) where they are given."""
    given = options.part_groups
    if isinstance(given, Integral):
        return int(given), None
    found = np.asarray(given)
    if found.ndim != 1 or found.dtype.kind not in "iu" or not len(found):
        raise ValueError(
            f"part_groups={given!r} must be the number of groups, or the number of every part's "
            "group, from 0."
        )
    n_groups = int(found.max()) + 1
    if set(found.tolist()) != set(range(n_groups)):
        raise ValueError(
            f"part_groups={given!r} must number the groups from 0 without gaps, each with a part."
        )
    return n_groups, found.astype(np.int64)


def check_groups(options: PartsOptions, has_latent: bool) -> None:
    """Refuse groups of parts that the other arguments do not allow."""
    if options.part_groups is None:
        if options.n_group_classes is not None:
            raise ValueError("n_group_classes needs part_groups, the number of groups of parts.")
        return
    n_groups, given = read_groups(options)
    refuse_others("part_groups", "part_groups=None", options, has_latent)
    if options.class_chain:
        raise ValueError("part_groups does not support class_chain=True; set part_groups=None.")
    if given is not None and options.n_parts != len(given):
        raise ValueError(
            f"part_groups has {len(given)} groups of parts, but n_parts={options.n_parts!r}; give "
            "one for each part, or the number of groups."
        )
    if isinstance(options.n_parts, Integral) and n_groups > options.n_parts:
        raise ValueError(
            f"part_groups={n_groups} is more than n_parts={options.n_parts}; lower it."
        )
