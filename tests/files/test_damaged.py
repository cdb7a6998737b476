"""Extreme and damaged tables, ratings and images are used or refused with one sentence."""

import datetime

import numpy as np
import polars as pl
import pytest
from PIL import Image

from partwise.data.frame_reading import read_columns
from partwise.data.frame_writing import NewColumn
from partwise.data.ratings import check_scale, read_levels
from partwise.files import frames, read_data
from tests.fuzz.harness import is_clear


class PanicException(BaseException):
    """Named as that of polars, which is no Exception."""


def test_a_panic_of_polars_is_a_damaged_file(tmp_path, monkeypatch):
    def panic(path):
        raise PanicException("assertion failed: offset + length <= self.length")

    path = tmp_path / "table.parquet"
    pl.DataFrame({"x": [1.0]}).write_parquet(path)
    monkeypatch.setattr(frames.pl, "read_parquet", panic)
    with pytest.raises(ValueError, match="cannot be read") as caught:
        read_data(path)
    assert is_clear(caught.value)


def test_the_last_date_of_the_calendar_is_read():
    """Often stands for "never"; nanoseconds end in 2262."""
    days = [datetime.date(9999, 12, 31), datetime.date(1970, 1, 2), None]
    (column,) = read_columns(pl.DataFrame({"until": days}))
    np.testing.assert_allclose(column.values, [2_932_896.0, 1.0, np.nan], rtol=1e-15)


@pytest.mark.parametrize("days", [9_000_000, -(2**31), 2**31 - 1])
def test_dates_beyond_the_calendar_are_refused(days, tmp_path):
    frame = pl.DataFrame({"day": pl.Series([days], dtype=pl.Int32).cast(pl.Date)})
    with pytest.raises(ValueError, match="outside of the years 1 to 9999") as caught:
        read_columns(frame)
    assert is_clear(caught.value)
    frame.write_parquet(tmp_path / "days.parquet")
    with pytest.raises(ValueError, match="outside of the years 1 to 9999"):
        read_data(tmp_path / "days.parquet")


def test_times_beyond_the_calendar_are_refused():
    frame = pl.DataFrame({"day": pl.Series([2**62], dtype=pl.Int64).cast(pl.Datetime("ms"))})
    with pytest.raises(ValueError, match="outside of the years 1 to 9999"):
        read_columns(frame)


def test_an_image_of_too_many_pixels_is_refused_before_it_is_read(tmp_path):
    Image.new("1", (5, 4_000_000)).save(tmp_path / "0.png")
    with pytest.raises(ValueError, match="4000000x5 pixels, more than") as caught:
        read_data(tmp_path)
    assert is_clear(caught.value)


def test_ratings_beyond_single_precision():
    with np.errstate(all="raise"), pytest.raises(ValueError, match="is not on the scale 1, 2"):
        check_scale(np.array([1.0, 1e300]), np.array([1.0, 2.0]))
    with pytest.raises(ValueError, match="single precision cannot represent") as caught:
        read_levels(None, np.array([1.0, -1e300]))
    assert is_clear(caught.value)


def test_days_far_outside_of_the_calendar_are_written_as_its_ends():
    days = np.array([-1e300, 1e300, np.nan])
    with np.errstate(all="raise"):
        dates = NewColumn("x", "date", "", days).plain()
        spans = NewColumn("x", "span", "", days).plain()
    assert [str(one)[:10] for one in dates[:2]] == ["0001-01-01", "9999-12-31"]
    assert spans[0] < spans[1]
    assert np.isnat([dates[2], spans[2]]).all()
