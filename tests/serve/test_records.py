"""Records of the service are read as the library reads a table."""

import math

import numpy as np
import polars as pl

from partwise.data.table import Schema
from partwise.serve.records import Records


def test_new_numbers_of_ordered_levels_count_as_the_nearest():
    years = pl.Series("years", [1, 2, 5, 9] * 20)
    schema = Schema.learn(pl.DataFrame({"years": years}), {"years": "ordinal"})
    assert schema.columns[0].has_number_levels
    new = [1, 3, 8, 0, -5, 10_000]
    read = Records(["years"], schema).read([{"years": value} for value in new])
    known = schema.encode(pl.DataFrame({"years": new}), tell=False)
    np.testing.assert_array_equal(read.numbers, known)
    assert len(read.notes) == 3
    assert all("outside of the range that fit saw, 1 to 9" in note for note in read.notes)


def test_what_is_no_number_stays_missing():
    years = pl.Series("years", [1, 2, 5, 9] * 20)
    schema = Schema.learn(pl.DataFrame({"years": years}), {"years": "ordinal"})
    new = ["many", math.nan, math.inf]
    read = Records(["years"], schema).read([{"years": value} for value in new])
    assert np.isnan(read.numbers).all()
    assert len(read.notes) == 3
    assert Records(["years"], schema).read([{"years": 10**400}]).numbers.tolist() == [[3.0]]
