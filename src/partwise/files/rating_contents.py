"""What the file of a recommender holds: names, kinds, shapes that agree, and ranges.

Sizes: D items; members have their own, as in `partwise.files.contents`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from partwise.files.pieces import differ
from partwise.files.schema import (
    Anything,
    Array,
    Each,
    Flag,
    Maybe,
    MisfitError,
    Number,
    OneOf,
    Record,
    Scope,
    Stored,
    Text,
    Whole,
    inside,
)

# Checks the state of an estimator, by its class and arguments.
Member: TypeAlias = Callable[[str, Mapping[str, object], object, Scope], None]


def _items_fit(value: Stored, scope: Scope) -> str | None:
    """Items are distinct, and at least one was rated."""
    if differ(value["items"].tolist(), scope) is not None:
        return "has an item twice"
    return None if value["counts"].sum() > 0 else "has no rating"


def _csr(entries: str, columns: str) -> Record:
    """Arrays of a sparse matrix whose columns are below a size."""
    return Record(
        {
            "data": Array("float", (entries,), low=-1e300, high=1e300),
            "indices": Array("int", (entries,), low=0, below=columns),
            "indptr": Array("int", (f"{entries}_rows",), low=0),
        },
        rules=(_rows_end,),
    )


def _rows_end(value: Stored, scope: Scope) -> str | None:
    """Rows of a sparse matrix follow each other, without repeated columns."""
    at, index = value["indptr"], value["indices"]
    if len(at) < 1 or at[0] != 0 or at[-1] != len(index) or np.any(np.diff(at) < 0):
        return "has rows that do not end where the next begin"
    rises = np.diff(index) > 0
    inner = np.ones(len(rises), bool)
    begins = at[1:-1]
    inner[begins[(begins > 0) & (begins < len(index))] - 1] = False
    return None if np.all(rises[inner]) else "has rows whose columns do not rise"


def _users_fit(value: Stored, scope: Scope) -> str | None:
    """There is a row for every user, and no user twice."""
    n = len(value["ids"])
    lent = value["lent"]
    if len(value["ratings"]["indptr"]) != n + 1 or (
        lent is not None and len(lent["indptr"]) != n + 1
    ):
        return f"has other than {n} rows of users"
    return None if differ(value["ids"].tolist(), scope) is None else "has a user twice"


def _rows_fit(value: Stored, scope: Scope) -> str | None:
    """Weights of items without ratings have a row for every item; ratings are on the scale."""
    D = scope.sizes["D"]
    if "lent" in value and len(value["lent"]["indptr"]) != D + 1:
        return f"has other than {D} rows of items"
    if "users" in value:
        levels, data = value["levels"].astype(np.float32), value["users"]["ratings"]["data"]
        if not np.isin(data, levels).all():
            return "has ratings that are not on the scale"
    return None


def recommender(value: object, scope: Scope, member: Member) -> None:
    """Models of one set of items."""
    assert isinstance(value, dict)
    asked = value["arguments"]
    given = asked.get("estimator")
    several = list(given) if isinstance(given, list | tuple) else [given]
    state = value["state"] if isinstance(value.get("state"), dict) else {}
    items = state.get("items")
    n_parts = max(min(5, (0 if items is None else np.size(items)) // 2), 1)
    usual: tuple[str, dict[str, object]] = ("MCFA", {"n_parts": 1, "likelihood": "ordinal"})
    if state.get("implicit") is True:
        usual = ("MCVQ", {"n_parts": n_parts, "likelihood": "bernoulli"})
    members = [
        usual if one is None else (type(one).__name__, getattr(one, "get_params", dict)())
        for one in several
    ]
    if any(name not in ("MCFA", "MCVQ") for name, _ in members):
        raise MisfitError(".arguments.estimator", "holds what cannot serve ratings")

    def states(value: object, scope: Scope) -> None:
        Each(Anything(), len(members))(value, scope)
        assert isinstance(value, list | tuple)
        for i, ((name, arguments), own) in enumerate(zip(members, value, strict=True)):
            inside(i, lambda v, s, n=name, a=arguments: member(n, a, v, s), own, scope)

    def sets(value: object, scope: Scope) -> None:
        Each(Anything(), len(members))(value, scope)
        assert isinstance(value, list | tuple)
        for i, ((name, arguments), own) in enumerate(zip(members, value, strict=True)):
            able = name == "MCFA" and arguments.get("gating") != "factorised"
            able = able and len(state["members"][i]["theta"]["log_beta"]) == 1
            if own is not None and not able:
                raise MisfitError(f"[{i}]", "is of a model that cannot use it")
            factors = sum(state["members"][i]["n_factors"]) if able else 0
            inside(i, Maybe(Array("float", ("D", factors), low=-1e6, high=1e6)), own, scope)

    contents = Record(
        {
            "items": Array("any", ("D",)),
            "levels": Array("float", ("levels",), rising=True, low=-1e30, high=1e30),
            "counts": Array("int", ("D",), low=0),
            "n_users": Whole(),
            "members": states,
        },
        {
            "liked": Number(low=-1e300, high=1e300),
            "implicit": Flag(),
            "choice": Record(
                {
                    "modeled": Array("int", ("modeled",), low=0, below="D", rising=True),
                    "weights": Array("float", ("modeled", "modeled"), low=-1e6, high=1e6),
                    "slope": Number(above=0.0, high=1e6),
                    "intercept": Number(low=-1e6, high=1e6),
                    "penalty": Number(above=0.0, high=1e6),
                }
            ),
            "lent": _csr("lenders", "D"),
            "rated_set": sets,
            "users": Record(
                {
                    "ids": Array("any", ("people",)),
                    "ratings": _csr("given", "D"),
                    "lent": Maybe(_csr("near", "people")),
                },
                rules=(_users_fit,),
            ),
        },
        rules=(_items_fit, _scales_agree, _rows_fit),
    )
    arguments = Record(
        {},
        {
            "estimator": Anything(),
            "levels": Maybe(Each(Number())),
            "unknown": Text(("warn", "ignore", "raise")),
            "verbose": OneOf((Flag(), Whole())),
            "feedback": Text(("auto", "explicit", "implicit")),
            "like": Maybe(Number()),
            "max_choice_items": Whole(),
            "rated_set": Flag(),
        },
    )
    inside("arguments", arguments, asked, scope)
    inside("state", contents, value["state"], scope)


def _scales_agree(value: Stored, scope: Scope) -> str | None:
    """All members have the same number of levels."""
    for member in value["members"]:
        levels = member["columns"][0]["levels"]
        if levels is not None and len(levels) != len(value["levels"]):
            return f"has a member of {len(levels)} levels, not {len(value['levels'])}"
    return None
