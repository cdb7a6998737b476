"""Files of arrays that cannot be used are refused with one sentence."""

import warnings

import numpy as np
import pytest

from partwise import MCVQ
from partwise.files import read_data
from tests.fuzz.harness import is_clear


def test_an_empty_stack_of_images_is_refused(tmp_path):
    np.save(tmp_path / "stack.npy", np.empty((0, 4, 4)))
    with pytest.raises(ValueError, match="contains an array of shape") as caught:
        read_data(tmp_path / "stack.npy")
    assert is_clear(caught.value)


def test_names_of_arrays_are_shown_as_far_as_they_can_be(tmp_path):
    arrays = {"a\0b\n": np.ones(2), "x" * 500: np.ones(2), **{f"y{i}": 1 for i in range(20)}}
    np.savez(tmp_path / "many.npz", **arrays)
    with pytest.raises(ValueError, match="and 14 more; name the one to read") as caught:
        read_data(tmp_path / "many.npz")
    assert is_clear(caught.value)


def test_numbers_beyond_double_precision_are_refused_without_a_warning():
    X = np.full((4, 2), 3.0, np.longdouble)
    X[1, 0] = np.finfo(np.longdouble).max
    if np.finfo(np.longdouble).max <= np.finfo(float).max:
        pytest.skip("long double is double here")
    with warnings.catch_warnings(action="error"), pytest.raises(ValueError, match="too large"):
        MCVQ(1, 2).fit(X)


def test_complex_numbers_are_refused_without_showing_them_all():
    with pytest.raises(ValueError, match="Complex data not supported") as caught:
        MCVQ(1, 2).fit(np.ones((50, 4), complex))
    assert is_clear(caught.value)
