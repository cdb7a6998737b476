"""A summary of parts and states, and groups of similar states where there are many.

Two states are merged by what the evidence of the part's entries loses, with the sums that the
parameters were made of; posteriors of rows are not needed. The two that lose least are merged
first, so that the merges form a tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from partwise.answers.results import (
    LEFT_OUT,
    NO_PART,
    ClassProfile,
    NearDuplicate,
    StateGroup,
    Summary,
)
from partwise.answers.rows import parts_of
from partwise.answers.states import FittedStates, class_shares, core, n_parts, state_shares
from partwise.answers.tables import Feature, features, frame_kind, profile_words, shown_states
from partwise.contracts import Array
from partwise.likelihoods import Dirichlet, Prior
from partwise.models.sizes import Judge, Part


def summary(
    fitted: FittedStates, n_columns: int, names: Sequence[str], max_states: int | None = None
) -> Summary:
    """Each part's columns, states, shares and what is typical of them; ``names`` of the parts.

    Parts with more than ``max_states`` states have as many groups of similar states, too.
    """
    rows: dict[str, list[object]] = {
        name: [] for name in ("part", "columns", "state", "share", "profile")
    }
    groups: list[StateGroup] = []
    found = [features(fitted, k) for k in range(n_parts(fitted))]
    for k, told in enumerate(found):
        columns = ", ".join(dict.fromkeys(feature.name for feature in told))
        states = shown_states(fitted, k)
        for j, share in states:
            values = (names[k], columns, j, share, profile_words(told, j, n_columns))
            for name, value in zip(rows, values, strict=True):
                rows[name].append(value)
        if max_states is not None and len(states) > max_states:
            groups += _groups(fitted, k, names[k], told, states, n_columns, max_states)
    used = np.isin(np.arange(fitted.n_columns), np.concatenate(core(fitted).columns))
    for which, part, words in (
        (used & (parts_of(fitted) < 0), NO_PART, "depend on no part"),
        (~used, LEFT_OUT, "not used by the model"),
    ):
        columns = ", ".join(fitted.column_name(int(d)) for d in np.flatnonzero(which))
        if columns:
            for name, value in zip(rows, (part, columns, 0, 1.0, words), strict=True):
                rows[name].append(value)
    of = near_duplicates(fitted), class_profiles(fitted, found, n_columns)
    return Summary(rows, frame_kind(fitted), groups, *of, doubt_of(fitted))


def class_profiles(
    fitted: FittedStates, found: Sequence[Sequence[Feature]], n_columns: int
) -> list[ClassProfile]:
    """What is typical of the classes of rows, by the features of every part."""
    if fitted.classes is None:
        return []
    shares, told = state_shares(fitted), list[Feature]()
    for features_of_part, (lo, hi) in zip(found, pairwise(core(fitted).first), strict=False):
        told += [feature.averaged(shares[:, lo:hi]) for feature in features_of_part]
    return [
        ClassProfile(label, float(share), profile_words(told, n, n_columns) if told else "average")
        for n, (label, share) in enumerate(zip(fitted.classes, class_shares(fitted), strict=True))
    ]


def doubt_of(fitted: FittedStates) -> str:
    """A sentence if another division of the columns is nearly as good, otherwise empty."""
    gap = fitted.record.doubt
    if gap is None:
        return ""
    return (
        "The parts are uncertain: another division of the columns describes the rows nearly as "
        f"well ({max(gap, 0.0):.1f} nats less)."
    )


def near_duplicates(fitted: FittedStates) -> list[NearDuplicate]:
    """Columns of a table that are nearly copies of earlier ones."""
    columns = () if fitted.schema is None else fitted.schema.columns
    return [
        NearDuplicate(
            fitted.column_name(d), fitted.column_name(column.twin.leader), column.twin.strength
        )
        for d, column in enumerate(columns)
        if column.twin is not None
    ]


def _groups(
    fitted: FittedStates,
    part: int,
    name: str,
    told: Sequence[Feature],
    states: Sequence[tuple[int, float]],
    n_columns: int,
    most: int,
) -> list[StateGroup]:
    """Groups of a part's states, the largest first, each described as a state is."""
    share = dict(states)
    found = groups_of_states(fitted, part, list(share), most)
    found = sorted(found, key=lambda group: -sum(share[j] for j in group))
    weights = np.zeros((len(found), int(np.diff(core(fitted).first)[part])))
    for g, group in enumerate(found):
        weights[g, group] = [share[j] for j in group]
    weights /= weights.sum(axis=1, keepdims=True)
    averaged = [feature.averaged(weights) for feature in told]
    return [
        StateGroup(
            name,
            tuple(sorted(group, key=lambda j: -share[j])),
            sum(share[j] for j in group),
            profile_words(averaged, g, n_columns),
        )
        for g, group in enumerate(found)
    ]


def state_tree(fitted: FittedStates, part: int) -> Array:
    """Merges of a part's states as SciPy's linkage matrix, (J - 1, 4).

    Columns are the two clusters merged (states first, then the results of earlier merges), the
    evidence lost by all merges so far in nats, and the number of states.
    """
    lo, hi = core(fitted).first[part : part + 2]
    judge, whole = judged(fitted, part, np.arange(lo, hi))
    number = {j: j for j in range(hi - lo)}  # of the cluster that a state stands for
    size, out, lost = dict.fromkeys(number, 1), [], 0.0
    for i, j, gain in judge.merges(whole):
        lost = max(lost, lost - gain)
        size[i] += size.pop(j)
        out.append((number[i], number.pop(j), lost, size[i]))
        number[i] = hi - lo + len(out) - 1
    return np.array(out, dtype=float).reshape(-1, 4)


def groups_of_states(
    fitted: FittedStates, part: int, states: list[int], most: int
) -> list[list[int]]:
    """Some of a part's states in at most so many groups of similar ones."""
    first = core(fitted).first[part]
    judge, some = judged(fitted, part, first + np.array(states))
    return [[states[j] for j in group] for group in judge.groups(some, most, most)]


def judged(fitted: FittedStates, part: int, states: Array) -> tuple[Judge, Part]:
    """Evidence and sums of some states, under the usual prior where the fit had none."""
    model, params = core(fitted), fitted.params
    own = np.flatnonzero(parts_of(fitted) == part)
    sums, priors = [], []
    for group, packed in zip(fitted.columns, model.sums_of(params).sums, strict=True):
        mine = np.flatnonzero(np.isin(group.index, own))
        sums.append(packed.shared[:, states][:, :, mine])
        priors.append(group.entry_prior(Prior()).take(mine))
    counts = params.state_counts.sum(axis=0)[states]
    # What two states' posteriors share is not kept; it would make merges of similar states cheaper.
    overlap = np.zeros((len(states), len(states)))
    return Judge(tuple(priors), Dirichlet(Prior().states)), Part(own, tuple(sums), counts, overlap)
