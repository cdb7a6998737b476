"""A fitted model of gated parts as plain values for a model file, and back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from partwise.contracts import Array
from partwise.data.latent_columns import restored_group
from partwise.data.table import Schema
from partwise.fitted import (
    Fitted,
    FittedParts,
    fields_of,
    restored_fields,
    shared_attributes,
)
from partwise.fitting.family import Family
from partwise.models.calibration import Calibration, identity
from partwise.models.class_tree import Links
from partwise.models.gated import GatedModel, P, R
from partwise.models.gating import Gates
from partwise.models.reference import Reference
from partwise.models.selection import Expected
from partwise.typing import SavedState


def saved(family: Family[P, R], fitted: FittedParts[P, R]) -> dict[str, object]:
    """All that is learned as plain values; `restored` reads them."""
    learned = shared_attributes(fitted)
    if fitted.names is not None:
        learned["feature_names_in_"] = np.asarray([str(n) for n in fitted.names], dtype=object)
    calibration = fitted.calibration or identity(fitted.n_columns)
    chain: Array | None = getattr(fitted.params, "chain", None)
    links: Links | None = getattr(fitted.params, "links", None)
    return {
        **family.saved(fitted),
        "gate": fields_of(fitted.params.gate),
        **({} if chain is None else {"chain": chain}),
        **({} if links is None else {"links": fields_of(links)}),
        "columns": [group.state() for group in fitted.columns],
        family.size_name: list(family.core_in(fitted.model).sizes),
        "calibration": fields_of(calibration),
        **({} if fitted.reference is None else {"reference": fields_of(fitted.reference)}),
        "dtype": np.dtype(fitted.dtype).name,
        "learned": learned,
    }


def restored(family: Family[P, R], state: SavedState) -> FittedParts[P, R]:
    """The fitted model of which a file holds the state."""
    options = family.options
    # Files of earlier versions have no number of parts besides the argument.
    fields = restored_fields({"n_parts_": options.n_parts, **state["learned"]})
    columns = tuple(restored_group(group, options.prior) for group in state["columns"])
    if options.is_sought and not any("resolution" in group for group in state["columns"]):
        columns = family.to_search(columns)  # as files of before the first release mean it
    schema = state.get("schema")
    dtype, n_columns = np.dtype(state["dtype"]), fields["n_columns"]
    sizes, variable = tuple(state[family.size_name]), family.class_variable(family.n_saved(state))
    n_modeled = family.n_modeled(columns, n_columns)
    core = family.core(columns, n_modeled, dtype, sizes, variable, state.get("totals"))
    params = family.restored(core, state, Gates(**state["gate"]))
    if "chain" in state:
        params = replace(params, chain=state["chain"])  # type: ignore[type-var]  # a dataclass
    model: GatedModel[P, R] = family.modeled(core, columns)
    if options.selects_by_row:
        model = family.rowwise(core, Expected())
    return Fitted(
        model,
        params,
        columns,
        dtype=dtype,
        schema=None if schema is None else Schema.restore(schema),
        calibration=Calibration(**state["calibration"]),
        reference=Reference(**state["reference"]) if "reference" in state else None,
        **fields,
    )
