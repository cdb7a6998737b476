"""What the pieces promise each other; imports nothing of ours.

A model is two pure functions on a block of rows and prepared parameters: ``expect`` gives a
posterior and sums, ``maximize`` turns the total of the sums into new parameters. A runner maps
``expect`` over blocks and adds. A block answers the linear questions of the model and hides how its
entries are stored; what else the views of its column groups can do are capabilities (`Pairs`,
`Selections`, `Additive`, `Entries`, `Latent`), of which a model names those it ``needs``. States of
all parts are numbered in one row, part after part, so that parts may have different numbers of
states.

`models` has the promises of models, sources and runners, `blocks` those of blocks and their views,
and `values` what they hand to each other.

Shapes: n rows of a block, D columns, K parts, J the largest number of states of a part, S states in
all, N classes of rows, P sufficient statistics of a likelihood.
"""

from __future__ import annotations

from partwise.contracts.blocks import (
    Additive,
    AnyBlock,
    AnyView,
    Block,
    Entries,
    Field,
    Latent,
    MissingPatterns,
    Pairs,
    Selections,
    SumView,
    check_needs,
    members,
)
from partwise.contracts.models import (
    AnyModel,
    AnyParams,
    HasParams,
    Linked,
    Memory,
    Model,
    OnBlock,
    Params,
    Params_co,
    Prepared,
    Result,
    Runner,
    Source,
    Summable,
    Total,
)
from partwise.contracts.values import (
    Array,
    DType,
    EntryList,
    Layout,
    Packed,
    Span,
    Stats,
)

__all__ = [
    "Additive",
    "AnyBlock",
    "AnyModel",
    "AnyParams",
    "AnyView",
    "Array",
    "Block",
    "DType",
    "Entries",
    "EntryList",
    "Field",
    "HasParams",
    "Latent",
    "Layout",
    "Linked",
    "Memory",
    "MissingPatterns",
    "Model",
    "OnBlock",
    "Packed",
    "Pairs",
    "Params",
    "Params_co",
    "Prepared",
    "Result",
    "Runner",
    "Selections",
    "Source",
    "Span",
    "Stats",
    "SumView",
    "Summable",
    "Total",
    "check_needs",
    "members",
]
