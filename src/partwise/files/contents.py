"""Contents of the model files of each estimator: names, kinds, consistent shapes, and ranges.

They are checked after a file is read and before anything is built from it, so that no unchecked
array reaches a model or a compiled kernel. Sizes:

======  ============================================  ======  ====================================
size    what                                          size    what
======  ============================================  ======  ====================================
D       columns                                       N       classes
K       parts, the background among them              G       groups of columns of one likelihood
S       states of all parts                           C       columns of a group
J       factors, or states, of a part                 P       statistics of a group's likelihood
M       components of a mixture, or sets              V       levels of a group
======  ============================================  ======  ====================================
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from partwise.files.imputer_contents import imputer
from partwise.files.latent_contents import LATENTS, latents_fit
from partwise.files.moving_contents import MOVING_PARTS
from partwise.files.pieces import (
    DTYPE,
    GATE,
    GROUPS,
    MAX_LOADING,
    MAX_LOG_RATIO,
    MAX_VALUE,
    MIN_POSITIVE,
    PATH,
    REFERENCE,
    ROUNDING,
    TABLE,
    WIDEST,
    Sizes,
    adds_up,
    calibration,
    counts,
    differ,
    is_definite,
    kinds_fit,
    learned,
    model_units,
    one_group,
    positive,
    reference,
    spreads,
    table,
    units_fit,
    widest,
)
from partwise.files.rating_contents import recommender
from partwise.files.schema import (
    Apart,
    Array,
    Check,
    Each,
    Flag,
    Maybe,
    Number,
    OneOf,
    Record,
    Rule,
    Scope,
    Stored,
    Text,
    Whole,
)
from partwise.likelihoods import LAWS, ORDERED, Prior, law_class, restore_law


def check_contents(name: str, arguments: Mapping[str, object], state: object) -> None:
    """Raise `MisfitError` if a learned state is inconsistent, or does not match the arguments."""
    CONTENTS[name]({"arguments": dict(arguments), "state": state}, Scope())


# --- MCVQ and MCFA ---


def _n_columns(value: Stored, scope: Scope) -> str | None:
    """Gates have the columns given to fit, and perhaps columns that were added later."""
    given, D = value["learned"]["n_features_in_"], scope.sizes["D"]
    if given > D:
        return f"has n_features_in_={given} of {D} columns"
    one = len(value["columns"]) == 1 and value.get("schema") is None
    if one and len(value["columns"][0]["index"]) != D:
        return f"has {len(value['columns'][0]['index'])} of {D} columns in a group"
    return None


def _parts_of(value: Stored, scope: Scope) -> str | None:
    """The number of parts is that of the argument, if it is a number; one may be background."""
    asked, K = value["arguments"].get("n_parts"), scope.sizes["K"]
    n_parts = value["state"]["learned"].get("n_parts_", asked)
    if not isinstance(n_parts, int) or isinstance(n_parts, bool) or not K - 1 <= n_parts <= K:
        return f"has n_parts={n_parts!r}, but parameters of {K} parts"
    if n_parts < 1:
        return "has no part"
    asked_sizes = value["arguments"].get("n_states", value["arguments"].get("n_factors", 1))
    if isinstance(asked_sizes, np.ndarray) and asked_sizes.dtype.kind not in "iu":
        return "has sizes that are not numbers"
    sizes = value["state"].get("n_states", value["state"].get("n_factors"))
    if n_parts < K and sizes[-1] != (1 if "n_states" in value["state"] else 0):
        return f"has a background of size {sizes[-1]}"
    return None if asked == "auto" or asked == n_parts else f"has n_parts={asked!r}, not {n_parts}"


def _prior_fits(value: Stored, scope: Scope) -> str | None:
    """Parameters of the columns are a proper posterior, or of maximum likelihood."""
    asked = value["arguments"].get("prior", "conjugate")
    prior = Prior() if asked == "conjugate" else asked
    for i, (group, chi) in enumerate(
        zip(value["state"]["columns"], value["state"]["theta"]["chi"], strict=True)
    ):
        n_levels = 0 if group["levels"] is None else len(group["levels"])
        family = restore_law(group, None, n_levels).family
        with np.errstate(over="ignore"):  # products of numbers out of range
            least = 0.0 if prior is None else MIN_POSITIVE
            proper = family.is_proper(chi.astype(float), least, MAX_VALUE)
            if prior is not None:
                before = family.pseudo_sums(group["moments"].astype(float), family.strength(prior))
                if not family.is_proper(before, least, MAX_VALUE):
                    return f"has columns[{i}].moments that are no prior of {group['law']} columns"
        if not proper:
            return f"has parameters theta.chi[{i}] that are not a {group['law']} distribution"
    return None


def _likelihood_fits(value: Stored, scope: Scope) -> str | None:
    """The likelihoods of the groups are those of the argument."""
    asked, state = value["arguments"].get("likelihood", "gaussian"), value["state"]
    has_table = state.get("schema") is not None
    # The default likelihood of a data frame with other columns than numbers is "auto".
    is_table = not isinstance(asked, str) or asked == "auto" or (asked == "gaussian" and has_table)
    if is_table != has_table:
        return f"has likelihood={asked!r} and {'no' if is_table else 'a'} table"
    if is_table:
        return None
    # A model of states, which may have a table, uses the levels of latent numbers.
    latent = asked in LAWS and LAWS[asked].latent and "schema" in state
    law = law_class(ORDERED).name if latent else asked
    if len(state["columns"]) != 1 or state["columns"][0]["law"] != law:
        return f"has likelihood={asked!r}, but other parameters"
    return None


def _classes_fit(value: Stored, scope: Scope) -> str | None:
    """Classes have names if there is more than one."""
    N, classes = scope.sizes["N"], value["learned"].get("classes_")
    if "links" in value:
        N = value["links"]["counts"].shape[1]
    named = 1 if classes is None else len(classes)
    return None if named == N else f"has {named} names of {N} classes"


def _chain_fits(value: Stored, scope: Scope) -> str | None:
    """There are transitions of classes where the argument says so."""
    asked, found = bool(value["arguments"].get("class_chain", False)), "chain" in value["state"]
    return None if asked == found else f"has class_chain={asked}, but other parameters"


def _links_fit(value: Stored, scope: Scope) -> str | None:
    """Groups of parts have classes where the argument says so, as many as it says."""
    asked, links = value["arguments"].get("part_groups"), value["state"].get("links")
    if asked is None or links is None:
        same = (asked is None) == (links is None)
        return None if same else f"has part_groups={asked!r}, but other parameters"
    (n_groups, n_classes, n_own), groups = links["counts"].shape, np.asarray(links["groups"])
    given = np.asarray(asked)
    same = n_groups == given if given.ndim == 0 else np.array_equal(groups[: len(given)], given)
    if not same or n_own != (value["arguments"].get("n_group_classes") or n_classes):
        return f"has part_groups={asked!r}, but links of sizes {links['counts'].shape}"
    total = links["counts"].sum(axis=2)
    if not n_groups or not np.allclose(total, total[0], rtol=ROUNDING):
        return "has groups of parts that count different rows"
    return None


def _transformations_fit(value: Stored, scope: Scope) -> str | None:
    """Transformations match the argument, and the canvas is theirs."""
    moves, state = value["arguments"].get("transformations"), value["state"]
    if (moves is None) != ("transformation_counts" not in state):
        return f"has transformations={_name_of(moves)}, but other parameters"
    if moves is None:
        return None
    sizes = moves.n_columns, moves.n_canvas, len(moves)
    found = state["learned"]["n_features_in_"], scope.sizes["D"], scope.sizes["T"]
    if sizes != found or len(state["columns"]) != 1:
        return f"has transformations of sizes {sizes}, but parameters of {found}"
    return None


def _name_of(value: object) -> str:
    """Name of an argument's class."""
    return "None" if value is None else type(value).__name__


def _noise_fits(value: Stored, scope: Scope) -> str | None:
    """The noise variance is in range; columns have a variance of about 1."""
    noise = value["rate"] / value["shape"]  # maximum likelihood has shapes of 1e300
    return None if np.all((noise >= 1e-60) & (noise < 1e7)) else "has a noise out of range"


def _columns_given(value: Stored, scope: Scope) -> str | None:
    """All columns were given to fit; only models of a recommender may have added some."""
    moved = value["arguments"].get("transformations") is not None  # `_transformations_fit`
    return None if moved else _columns_seen(value["state"], scope)


_CLASSES = Array("any", ("named",), rules=(differ,))
_MCVQ = Record(
    {
        "n_states": Each(
            Whole(low=1, size="J"), "K", own=("J",), total="S",
        ),
        "gate": GATE,  # before the groups: it sets the number of columns
        "columns": GROUPS,
        "theta": Record(
            {
                "chi": Each(
                    Array("float", ("P", "S", "C")), "G", own=("C", "P")
                ),
                "state_counts": counts("N", "S"),
            }
        ),
        "schema": Maybe(TABLE),
        "calibration": calibration("D"),
        "dtype": DTYPE,
        "learned": learned(
            {
                "classes_": _CLASSES,
                "row_labels_": Array("int", ("rows", "labeled"), low=-1, below="S"),
                "co_assignment_": Array("float", ("D", "D"), low=0.0, high=1.0),
                "n_parts_": Whole(low=1),
                "size_path_": PATH,
            }
        ),
    },
    {
        "transformation_counts": counts("T"),
        "reference": REFERENCE,
        "chain": counts("N+1", "N"),
        "links": Record(
            {
                "counts": counts("groups", "top", "N"),
                "groups": Array("int", ("K",), low=0, below="groups"),
            }
        ),
    },
    rules=(_n_columns, _classes_fit, kinds_fit, units_fit),
)  # fmt: skip
_MCFA_STATE: dict[str, Check] = {
    "n_factors": Each(Whole(size="J"), "K", own=("J",)),
    "gate": GATE,  # before the groups: it sets the number of columns
    "columns": GROUPS,
    "loadings": Each(
        Record(
            {
                "mean": model_units("D", "J+1", low=-MAX_LOADING, high=MAX_LOADING),
                "cov": model_units("D", "J+1", "J+1", high=MAX_LOADING**2, rules=(spreads,)),
                "log_det": model_units("D"),
                "shape": positive("D"),
                "rate": positive("D"),
            },
            rules=(_noise_fits,),
        ),
        "K",
        own=("J",),
    ),
    "theta": Record(
        {
            "relevance": Each(positive(2, "J"), "K", own=("J",)),
            "class_counts": counts("N"),
            "log_beta": model_units("N"),
            "eta": Each(model_units("N", "J"), "K", own=("J",)),
            "sigma": Each(model_units("N", "J", "J", rules=(is_definite,)), "K", own=("J",)),
        }
    ),
    "totals": Array("float", (3, "D"), low=-1e300, high=1e300),
    "dtype": DTYPE,
    "learned": learned({"classes_": _CLASSES, "n_parts_": Whole(low=1), "size_path_": PATH}),
}
_MCFA = Record(
    {**_MCFA_STATE, "calibration": calibration("D")},
    may={
        "transformation_counts": counts("T"),
        "reference": REFERENCE,
        "chain": counts("N+1", "N"),
    },
    rules=(_n_columns, _classes_fit, units_fit),
)
# Of a table D are latent numbers, and T columns.
_MCFA_TABLE = Record(
    {
        "schema": table("T"),
        **_MCFA_STATE,
        "columns": LATENTS,
        "calibration": calibration("T"),
    },
    may={"reference": reference("T")},
    rules=(_classes_fit, latents_fit),
)


def _mcfa(*rules: Rule) -> Check:
    """Numbers of one kind, or a table."""

    def check(value: object, scope: Scope) -> None:
        assert isinstance(value, dict)
        if isinstance(value.get("state"), dict) and "schema" in value["state"]:
            _model(_MCFA_TABLE, _parts_of, _likelihood_fits)(value, scope)
        else:
            _model(_MCFA, *rules)(value, scope)

    return check


# --- others ---


def _columns_seen(value: Stored, scope: Scope) -> str | None:
    """All columns were given to fit."""
    given, D = value["learned"]["n_features_in_"], scope.sizes["D"]
    return None if given == D else f"has n_features_in_={given} of {D} columns"


def _state(
    entries: Mapping[str, Check],
    learned: Record,
    statistics: int | str = 3,
    rules: tuple[Rule, ...] = (),
) -> Record:
    """Entries, and those common to all models of one group of columns."""
    common: dict[str, Check] = {
        "columns": one_group(statistics),
        "dtype": DTYPE,
        "learned": learned,
    }
    return Record({**common, **entries}, rules=(_columns_seen, units_fit, *rules))


def _width_fits(value: Stored, scope: Scope) -> str | None:
    """There is one covariance per column, or one for all."""
    shared, D = scope.sizes["shared"], scope.sizes["D"]
    return None if shared in (1, D) else f"has {shared} covariances of {D} columns"


def _relevances(value: object, scope: Scope) -> None:
    """Relevances that components share, or one set per component."""
    each = isinstance(value, np.ndarray) and value.ndim == 3
    (positive(2, "M", "q") if each else positive(2, "q"))(value, scope)


_COMPONENTS = Each(
    Record(
        {
            "alpha": _relevances,
            "counts": counts("M"),
            "mean": model_units("M", "D", "q+1", low=-MAX_LOADING, high=MAX_LOADING),
            "cov": model_units("M", "shared", "q+1", "q+1", high=MAX_LOADING**2, rules=(spreads,)),
            "log_det": model_units("M", "shared"),
            "leverage": counts("D"),
            "tau": positive(2),
        },
        rules=(_width_fits,),
    ),
    "N",
    own=("M", "q", "shared"),
)
_BAYESIAN_PCA: dict[str, Check] = {"theta": _COMPONENTS, "calibration": calibration(1)}
_SLOPE = Number(low=-MAX_VALUE, high=MAX_VALUE)
_MOVE = Record(
    {"kind": Text(), "gain": Number(), "accepted": Flag(), "components": Each(Whole())},
    {"n_components": Whole(), "class": Whole()},
)


def _atoms_fit(value: Stored, scope: Scope) -> str | None:
    """A feature has one vector per value except the first."""
    n_features, n_values = (scope.sizes.get(name) for name in ("features", "values"))
    if n_features is None or n_values is None:
        return "has sizes that are not numbers"
    wanted, A = n_features * (n_values - 1), scope.sizes["A"]
    return None if wanted == A else f"has {A} features and values, not {wanted}"


def _sets_are_taken(value: Stored, scope: Scope) -> str | None:
    """At least one set has rows."""
    taken = value["state"]["theta"]["taken"]
    return None if taken[:, -1].any() else "has no set with rows"


# The variance of the noise had another name in files before the first release.
_NOISE = ("noise_variance_", "noise_")


def _moments_fit(value: Stored, scope: Scope) -> str | None:
    """Moments match the argument binary, and there is one noise variance."""
    if widest(value["state"]["columns"]) >= WIDEST:
        return "has units whose squares numbers cannot represent"
    if sum(name in value["state"]["learned"] for name in _NOISE) != 1:
        return f"has no {_NOISE[0]}"
    wanted = 2 if value["arguments"].get("binary") else 3
    return None if scope.sizes["P"] == wanted else f"has {scope.sizes['P']} moments, not {wanted}"


def _model(state: Check, *rules: Rule, **sizes: str) -> Record:
    """Arguments, some of which are sizes, and the learned state."""
    return Record({"arguments": Sizes(**sizes), "state": state}, rules=rules)


def _member(name: str, arguments: Mapping[str, object], value: object, scope: Scope) -> None:
    """The state of one of several models; only the number of columns is shared."""
    Apart(_MEMBERS[name], ("D",))({"arguments": dict(arguments), "state": value}, scope)


def _densities_fit(value: Stored, scope: Scope) -> str | None:
    """Every level has a probability above 0 in floating point."""
    levels = value["columns"]["levels"]
    if levels is None:
        return "has no levels"
    reach = 0.5 * (levels[-1] - levels[0]) or 1.0
    t = (levels - 0.5 * (levels[0] + levels[-1])) / reach
    first, second = value["eta"][:, :, None, :]
    log_p = first * t[:, None] + second * t[:, None] ** 2
    ratio = np.ptp(log_p, axis=1).max(initial=0.0)
    return None if ratio < MAX_LOG_RATIO else "has levels of probability 0"


_STATE_RULES = (
    _parts_of,
    _transformations_fit,
    _chain_fits,
    _links_fit,
    _likelihood_fits,
    _prior_fits,
)
_MEMBERS = {
    "MCFA": _mcfa(_parts_of, _transformations_fit, _chain_fits, _likelihood_fits),
    "MCVQ": _model(_MCVQ, *_STATE_RULES),
}

_OF_ROWS = _model(_MCVQ, _columns_given, *_STATE_RULES)


def _mcvq(value: object, scope: Scope) -> None:
    """Parts of columns, or parts that move on their own."""
    assert isinstance(value, dict)
    moves = value["arguments"].get("transformations")
    (MOVING_PARTS if getattr(moves, "by", "row") == "part" else _OF_ROWS)(value, scope)


CONTENTS: dict[str, Check] = {
    "AspectModel": _model(
        Record(
            {
                "columns": one_group("V"),
                "eta": model_units(2, "D", "Z"),
                "dtype": DTYPE,
                "learned": learned(beta_=Number(above=0.0, high=1.0)),
            },
            rules=(_columns_seen, _densities_fit),
        ),
        n_aspects="Z",
    ),
    "BayesianPCA": _model(_state(_BAYESIAN_PCA, learned(n_directions_=Whole()))),
    "BayesianPCAMixture": _model(
        _state(
            {
                **_BAYESIAN_PCA,
                "teller": Record(
                    {"slope": _SLOPE, "offsets": model_units("N")},
                    {"others": Each(Record({"slope": _SLOPE, "theta": _COMPONENTS}))},
                ),
            },
            learned(
                {
                    "classes_": Array("any", ("N",), rules=(differ,)),
                    "class_priors_": Array("float", ("N",), low=0.0, high=1.0, rules=(adds_up,)),
                    "moves_": Each(_MOVE),
                    "n_components_posterior_": OneOf(
                        (
                            Array("float", ("tried",), low=0.0, high=1.0 + ROUNDING),
                            Array("float", ("N", "tried"), low=0.0, high=1.0 + ROUNDING),
                        )
                    ),
                },
                n_directions_=Whole(),
            ),
            rules=(_classes_fit,),
        )
    ),
    "CVQ": _model(
        _state(
            {
                "theta": Record(
                    {
                        "mu": model_units("K*J", "D"),
                        "psi": positive("D"),
                        "counts": counts("K*J"),
                        "log_b": model_units("K*J"),
                    },
                    may={"age": Whole(low=-1)},  # of files before the first release
                )
            },
            learned(),
        ),
        n_parts="K",
        n_states="J",
    ),
    "GVQ": _model(
        _state(
            {
                "theta": Record(
                    {
                        "features": model_units("M", "A", "D"),
                        "origins": model_units("M", "D"),
                        "taken": counts("M", "A+1"),
                        "idle": Whole(),
                    },
                    may={"thorough": Flag()},  # of files before the first release
                ),
                "seed": Whole(),
                "certificate": Record(
                    {
                        "proven": Array("bool", ("rows",)),
                        "gap": Array("float", ("rows",), infinite=True),
                        "error": Array("float", ("rows",)),
                        "lower_bound": Array("float", ("rows",), infinite=True),
                    }
                ),
            },
            learned({name: Number(low=0.0) for name in _NOISE}),
            "P",
        ),
        _atoms_fit,
        _sets_are_taken,
        _moments_fit,
        n_components="features",
        n_values="values",
        n_sets="M",
    ),
    "MCFA": _mcfa(_columns_given, _parts_of, _transformations_fit, _chain_fits, _likelihood_fits),
    "MCVQ": _mcvq,
    "PartsImputer": imputer(_member),
    "Recommender": partial(recommender, member=_member),
}
