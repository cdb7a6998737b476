"""Which features is a row made of? Methods that answer, under one contract (`Association`)."""

from __future__ import annotations

from partwise.association.base import Association, Certificate, Codes, Problem
from partwise.association.belief_propagation import BeliefPropagation
from partwise.association.belief_revision import BeliefRevision
from partwise.association.directed import DirectedBeliefPropagation, DirectedBeliefRevision
from partwise.association.exact import MOST_NODES, Exact
from partwise.association.gibbs import Gibbs
from partwise.association.mean_field import MeanField
from partwise.association.multistage import MultiStage

METHODS = (
    "exact",
    "mean_field",
    "gibbs",
    "belief_propagation",
    "belief_revision",
    "directed_belief_propagation",
    "directed_belief_revision",
    "multistage",
)


def make_association(name: str, seed: int = 0, max_nodes: int = MOST_NODES) -> Association:
    """The method of a name in `METHODS`."""
    match name:
        case "exact":
            return Exact(max_nodes)
        case "mean_field":
            return MeanField(seed)
        case "gibbs":
            return Gibbs(seed)
        case "belief_propagation":
            return BeliefPropagation(seed)
        case "belief_revision":
            return BeliefRevision(seed, MeanField(seed))
        case "directed_belief_propagation":
            return DirectedBeliefPropagation()
        case "directed_belief_revision":
            return DirectedBeliefRevision()
        case "multistage":
            return MultiStage()
    raise ValueError(f"association={name!r} is unknown; choose one of {', '.join(METHODS)}.")


def refusal(method: Association, n_components: int, n_values: int) -> str | None:
    """Why a method cannot be asked for codes of this size, or None if it can."""
    if method.most_values is not None and n_values > method.most_values:
        return f"features with n_values={n_values}, more than on and off"
    if method.most_features is not None and n_components > method.most_features:
        return (
            f"n_components={n_components}: it goes through the states of all features that a "
            f"column is connected with, at most {method.most_features}"
        )
    return None


__all__ = [
    "METHODS",
    "MOST_NODES",
    "Association",
    "BeliefPropagation",
    "BeliefRevision",
    "Certificate",
    "Codes",
    "DirectedBeliefPropagation",
    "DirectedBeliefRevision",
    "Exact",
    "Gibbs",
    "MeanField",
    "MultiStage",
    "Problem",
    "make_association",
    "refusal",
]
