"""Ratings in all forms that people give them."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from partwise.data.entries import EntryFormat, EntryGroup
from partwise.data.ratings import plain, read_person, read_ratings

USERS, ITEMS = [0, 1, 0, 2], [0, 0, 1, 2]
VALUES = [5.0, 3.0, 1.0, 4.0]
IDS = {
    "int": lambda i: i * 10,
    "negative": lambda i: -1 - i,
    "str": lambda i: f"film {i}",
    "tuple": lambda i: ("film", i),
    "float": lambda i: i + 0.5,
    "frozenset": lambda i: frozenset([i]),
    "mixed": lambda i: [7, "seven", (7,)][i],
}


def as_dict(read):
    entries = read.matrix.tocoo()
    places = zip(entries.row, entries.col, entries.data, strict=True)
    return {(read.users[r], read.items[c]): v for r, c, v in places}


@pytest.mark.parametrize("form", ["lists", "frame", "objects"])
@pytest.mark.parametrize("kind", IDS)
def test_ids_of_any_hashable_kind(kind, form):
    users, items = [IDS[kind](u) for u in USERS], [IDS[kind](i) for i in ITEMS]
    truth = dict(zip(zip(users, items, strict=True), VALUES, strict=True))
    if form == "lists":
        given = (users, items, VALUES)
    else:
        frame = pd.DataFrame({"rating": VALUES})
        frame["user"], frame["item"] = (
            pd.Series(users, dtype=object),
            pd.Series(items, dtype=object),
        )
        given = frame if form == "frame" else tuple(
            frame[name].to_numpy() for name in ("user", "item", "rating")
        )  # fmt: skip
    assert as_dict(read_ratings(given)) == truth


def test_arrays_frames_and_matrices_are_alike():
    arrays = tuple(map(np.array, (USERS, ITEMS, VALUES)))
    frame = pd.DataFrame(dict(zip(("user", "item", "rating"), arrays, strict=True)))
    frame = frame.sample(frac=1, random_state=0)  # index and order mean nothing
    matrix = sparse.csr_matrix((arrays[2], arrays[:2]))
    forms = [arrays, frame, matrix, matrix.tocoo(), matrix.tocsc(), matrix.tolil(),
             sparse.csr_array(matrix), frame.astype({"rating": "int64"}),
             frame.astype({"rating": "float32", "user": "int8"})]  # fmt: skip
    for form in forms:
        read = read_ratings(form)
        assert read.users == [0, 1, 2]
        assert read.items == [0, 1, 2]
        assert all(type(name) is int for name in read.users + read.items)
        assert_array_equal(read.matrix.toarray(), matrix.toarray())


def test_triples_are_not_taken_for_three_arrays():
    with pytest.raises(ValueError, match=r"tuple\(zip\(\*triples\)\)"):
        read_ratings([(1, 2, 5), (2, 3, 4), (3, 2, 1)])


def test_numbers_of_arrays_are_found_as_numbers_of_python():
    assert plain(np.array([3, -1])) == [3, -1]
    assert all(type(name) is int for name in plain(np.array([3, -1])))
    assert plain(pd.Series(["a", "b"])) == ["a", "b"]
    read = read_ratings((np.array(["b", "a"]), np.array([-2, -3]), [1, 2]))
    assert read.users == ["a", "b"]
    assert type(read.users[0]) is str
    assert read.items == [-3, -2]


def test_the_last_of_ratings_given_twice_counts():
    given = ([1, 1, 2, 1], ["a", "a", "a", "b"], [5, 2, 3, 4])
    with pytest.warns(UserWarning, match="1 rating repeats .* the last rating"):
        read = read_ratings(given)
    assert as_dict(read) == {(1, "a"): 2.0, (2, "a"): 3.0, (1, "b"): 4.0}


@pytest.mark.parametrize("form", ["coo", "csr", "csc"])
def test_the_last_counts_in_sparse_matrices_too(form):
    """scipy itself would add them up to a rating that nobody gave."""
    twice = sparse.coo_matrix(([5.0, 2.0, 3.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 3))
    if form == "csr":
        twice = sparse.csr_matrix((twice.data, [1, 1, 0], [0, 2, 3]), shape=(2, 3))
    if form == "csc":
        twice = sparse.csc_matrix(([3.0, 5.0, 2.0], [1, 0, 0], [0, 1, 3, 3]), shape=(2, 3))
    with pytest.warns(UserWarning, match="the last rating of each is used"):
        read = read_ratings(twice)
    assert as_dict(read) == {(0, 1): 2.0, (1, 0): 3.0}
    assert read.items == [0, 1, 2]


def test_ratings_of_zero_are_ratings():
    assert as_dict(read_ratings(([0, 1], [0, 0], [0, 3]))) == {(0, 0): 0.0, (1, 0): 3.0}
    stored = sparse.csr_matrix(([0.0, 3.0], ([0, 1], [0, 0])), shape=(2, 1))
    assert read_ratings(stored).matrix.nnz == 2


def test_known_items_keep_their_columns():
    read = read_ratings(([1, 2], ["b", "c"], [4, 5]), ["c", "a", "b"])
    assert read.items == ["c", "a", "b"]
    assert_array_equal(read.matrix.toarray(), [[0, 0, 4], [5, 0, 0]])
    with pytest.raises(ValueError, match="'d' is not a known item"):
        read_ratings(([1, 2], ["b", "d"], [4, 5]), ["c", "a", "b"])
    with pytest.raises(ValueError, match="have 2 columns, but 3 items are known"):
        read_ratings(sparse.csr_matrix((2, 2)), ["c", "a", "b"])


BAD = [
    (([1], [2], [np.nan]), "Rating number 0 is nan"),
    (([1, 1], [2, 3], [4, np.inf]), "Rating number 1 is inf"),
    (([1, 1], [2, 3], [4, -1e39]), "Rating number 1 is -1e\\+39, which single precision"),
    ((sparse.csr_matrix([[1.0, np.nan]])), "Rating number 1 is nan"),
    (([], [], []), "There are no ratings"),
    (([1], [2, 3], [4, 5]), "same length, but have 1, 2 and 2"),
    (([1], [2], ["good"]), "Ratings must be numbers, but are of dtype <U4"),
    (([1], [[2]], [4]), "hashable"),
    (([1], [np.nan], [4]), "item is nan"),
    ((np.array([1.0, np.nan]), [1, 2], [4, 5]), "user or an item is nan"),
    ((np.ones((2, 2)), [1, 2], [4, 5]), "one-dimensional"),
    (np.ones((3, 3)), "must be a DataFrame with columns user, item and rating"),
    (([1],), "tuple of three"),
    (pd.DataFrame({"user": [1], "thing": [2], "rating": [3]}), "no column 'item'"),
]


@pytest.mark.parametrize(("given", "message"), BAD)
def test_bad_ratings_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        read_ratings(given)


def test_a_person():
    place = {"a": 0, "b": 1, ("c", 1): 2}
    columns, values = read_person({("c", 1): 1, "a": 4}, place, "raise")
    assert_array_equal(columns, [0, 2])
    assert_array_equal(values, [4, 1])
    assert [len(part) for part in read_person({}, place, "raise")] == [0, 0]
    columns, values = read_person(pd.Series({"b": 2.5}), place, "raise")
    assert (columns.tolist(), values.tolist()) == ([1], [2.5])
    with pytest.warns(UserWarning, match="Unknown item: 'z'; ignored"):
        columns, _ = read_person({"z": 3, "b": 2}, place, "warn")
    assert columns.tolist() == [1]
    with pytest.raises(ValueError, match=r"'z'.*unknown=\"warn\""):
        read_person({"z": 3}, place, "raise")
    for odd, message in (
        ({"a": np.nan}, "is nan"), ({"a": "good"}, "must be numbers"), ({"a": None}, "numbers"),
        ([("a", 1)], "a mapping of items to ratings"), (7, "a mapping"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            read_person(odd, place, "warn")


# --- entries with other values, and of few columns ---


def group_of(indptr, indices, values, D, present=None):
    form = EntryFormat(D, 2, None, None, None, False, present)
    return EntryGroup(
        np.array(indptr),
        np.array(indices, np.int32),
        np.array(values, float),
        form,
        np.dtype(float),
    )


def test_other_values_stand_where_the_first_stood():
    indptr, indices = [0, 2, 2, 5], [1, 3, 0, 1, 3]
    first, other = np.arange(5.0), np.array([0.5, -1.0, 2.0, 7.0, 3.0])
    moved = group_of(indptr, indices, first, 4).with_values(other)
    fresh = group_of(indptr, indices, other, 4)
    assert_array_equal(moved.values, other)
    assert_array_equal(moved._by_column, fresh._by_column)
    weight = np.array([1.0, 2.0, 0.5])
    assert_array_equal(moved.totals(weight), fresh.totals(weight))
    m = np.random.default_rng(0).normal(size=(2, 3))
    assert_array_equal(moved._sums(m, np.arange(4)), fresh._sums(m, np.arange(4)))


def test_narrowed_to_the_columns_that_have_entries():
    present = np.array([True, False, True, False, True])
    form = EntryFormat(5, 2, None, None, None, False, present)
    weights = np.arange(2 * 3 * 4).reshape(2, 3, 4)
    kept, columns = form.narrowed(weights, np.array([1, 2, 3, 4]))
    assert_array_equal(columns, [2, 4])
    assert_array_equal(kept, weights[..., [1, 3]])
    everything = EntryFormat(5, 2, None, None, None, False)
    assert everything.narrowed(weights, np.arange(4))[0] is weights
