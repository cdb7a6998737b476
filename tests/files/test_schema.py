"""Checks of stored values: what passes, and the one sentence about what does not."""

import numpy as np
import pytest

from partwise.files.schema import (
    Apart,
    Array,
    Each,
    Flag,
    Mapped,
    Maybe,
    MisfitError,
    Number,
    OneOf,
    Plain,
    Record,
    Scope,
    Text,
    Whole,
    sentence,
)

SQUARE = Record(
    {"a": Array("float", ("D", "D")), "b": Maybe(Array("int", ("D",), low=0, below="D"))}
)
ONES = np.ones((3, 4))
OUT = "which is out of range"
PARTS = Record(
    {
        "sizes": Each(Whole(low=1, size="J"), "K", own=("J",), total="S"),
        "means": Each(Array("float", ("J+1", "D")), "K", own=("J",)),
        "all": Array("float", ("S", "2*D")),
    }
)


def told(check, value):
    with pytest.raises(MisfitError) as caught:
        check(value, Scope())
    return sentence(caught.value)


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (SQUARE, {"a": np.eye(3), "b": np.array([0, 2])[[0, 1, 1]]}),
        (SQUARE, {"a": np.eye(2), "b": None}),
        (PARTS, {"sizes": [1, 2], "means": (ONES[:2], ONES), "all": np.ones((3, 8))}),
        (Array("float", ("n",), infinite=True), np.array([np.inf])),
        (Array("text", (1,)), np.array(["x"])),
        (Array("any", (2,)), np.array([1, "x"], dtype=object)),
        (OneOf((Text(("auto",)), Whole(low=1))), 3),
        (OneOf((Text(("auto",)), Whole(low=1))), "auto"),
        (Mapped(Plain()), {"x": None, "y": 1.5}),
        (Each(Apart(Array("float", ("D",)))), [np.ones(2), np.ones(3)]),
        (Number(low=0.0), 3),
        (Flag(), False),
    ],
)  # fmt: skip
def test_what_passes(check, value):
    check(value, Scope())


@pytest.mark.parametrize(
    ("check", "value", "sentence"),
    [
        (SQUARE, {"a": np.ones((2, 3)), "b": None}, "a has shape (2, 3), not (2, 2)"),
        (SQUARE, {"a": np.eye(2), "b": np.array([0, 2])}, f"b has the value 2, {OUT}"),
        (SQUARE, {"a": np.eye(2), "b": np.zeros(2)}, "b contains float64, not int"),
        (SQUARE, {"a": np.eye(2)}, "it has no entry 'b'"),
        (SQUARE, {"a": np.eye(2), "b": None, "c": 1}, "it has an unknown entry 'c'"),
        (SQUARE, {"a": np.full((2, 2), np.nan), "b": None},
         "a contains values that are not finite"),
        (SQUARE, {"a": [1.0], "b": None}, "a is a list, not an array"),
        (SQUARE, [], "it is a list, not a dict"),
        (PARTS, {"sizes": [1, 0], "means": [], "all": 0}, f"sizes[1] has the value 0, {OUT}"),
        (PARTS, {"sizes": [1], "means": [ONES], "all": 0},
         "means[0] has shape (3, 4), not (2, any)"),
        (PARTS, {"sizes": [1], "means": [], "all": 0}, "means has 0 items, not 1"),
        (Array("float", ("n",), rising=True), np.zeros(2), "it has values that do not increase"),
        (Array("float", ("n",)), np.zeros((2, 2)), "it has 2 axes, not 1"),
        (Array("float", ("n",)), np.zeros(2, np.float16), "it contains float16, not float"),
        (Array("text", (1,)), np.array([1], dtype=object), "it contains 1"),
        (Number(), "1", "it is '1', not a number"),
        (Number(), True, "it is True, not a number"),
        (Number(), 1e309, "it is not finite"),
        (Whole(), 1.0, "it is 1.0, not an integer"),
        (Whole(), 10**30, "it has the value 1e+30, which is out of range"),
        (Flag(), 1, "it is 1, not True or False"),
        (Text(("a", "b")), "c", "it is 'c', not one of a, b"),
        (Text(("a", "b")), "c" * 100, "it is a long str, not one of a, b"),
        (Plain(), [], "it is a list, not a number or text"),
        (Mapped(Flag()), {"x": 1}, "x is 1, not True or False"),
        (OneOf((Text(), Flag())), 1, "it is 1, not True or False"),
        (Each(Apart(Array("float", ("D",)), ("D",))), [np.ones(2), np.ones(3)],
         "[1] has shape (3,), not (2)"),
    ],
)  # fmt: skip
def test_what_does_not(check, value, sentence):
    assert told(check, value) == sentence
