"""Kinds of whole numbers by held-out likelihood."""

import numpy as np
import pandas as pd
import pytest

from partwise.data.number_kinds import likely_kind
from partwise.data.table import Schema

RNG = np.random.default_rng(3)
SCHOOLS = RNG.choice(np.arange(1200, 9600), 40, replace=False)

COLUMNS = {
    "month": (RNG.integers(1, 13, 400), "poisson", "ordinal"),
    "day": (RNG.integers(1, 32, 400), "poisson", "ordinal"),
    "hour": (RNG.integers(0, 24, 400), "poisson", "ordinal"),
    "day of few rows": (RNG.integers(1, 32, 120), "poisson", "gaussian"),
    "counts": (RNG.poisson(4.0, 400), "poisson", "poisson"),
    "counts in states": (
        RNG.poisson(np.array([1.0, 5.0, 12.0])[RNG.integers(3, size=400)]),
        "poisson",
        "poisson",
    ),
    "ages": (np.clip(np.rint(RNG.normal(45, 15, 2000)), 17, 90), "gaussian", "gaussian"),
    "tens of grams": (10 * np.rint(RNG.normal(330, 30, 2000)), "gaussian", "gaussian"),
    "few heights": (np.rint(RNG.normal(50, 3, 1000)), "gaussian", "gaussian"),
    "schools": (RNG.choice(SCHOOLS, 1000), "gaussian", "codes"),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_kind_of_whole_numbers(name):
    values, rule, kind = COLUMNS[name]
    assert likely_kind(*np.unique(values, return_counts=True), rule) == kind


def test_many_rows_are_compared_by_some():
    months = np.arange(1.0, 13.0)
    assert likely_kind(months, np.full(12, 10**7), "poisson") == "ordinal"


def test_kinds_of_a_table():
    frame = pd.DataFrame(
        {
            "month": RNG.integers(1, 13, 300),
            "visits": RNG.poisson(8.0, 300),
            "school_id": RNG.choice(SCHOOLS, 300),
            "fee": RNG.choice(SCHOOLS[:20], 300),
        }
    )
    schema = Schema.learn(frame, "auto")
    kinds = {column.name: column.kind for column in schema.columns}
    assert kinds == {
        "month": "ordinal",
        "visits": "poisson",
        "school_id": "categorical",
        "fee": "ordinal",
    }
