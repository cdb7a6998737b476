"""Fits and stored models answer as recorded; README.md says what to do where they do not."""

import numpy as np
import pytest

import partwise
from tests.golden import record
from tests.golden.answers import partition
from tests.golden.cases import FITS, FITTED, REPLACED, STORED, answers_of_file, model_files
from tests.golden.compare import differences
from tests.golden.store import read, write

# Searches of a second or more.
LONG = {
    "search-mcfa-auto",
    "search-mcvq-auto",
    "search-mcvq-auto-table",
    "search-mcvq-classes-auto",
    "search-imputer-numbers",
    "search-recommender",
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.ci] * (name in LONG)) for name in FITTED]
)
def test_a_fit_is_as_recorded(name):
    fit = FITTED[name]
    expected = read(FITS / f"{fit.same_as or name}.npz")
    assert differences(fit.answers(), expected, fit.rtol) == []


@pytest.mark.parametrize("path", model_files(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_stored_model_answers_as_recorded(path):
    found, recorded = answers_of_file(path), read(path.with_suffix(".npz"))
    expected = {name: recorded[name] for name in recorded if not name.startswith(REPLACED)}
    known = {name: answer for name, answer in found.items() if name in expected}
    assert differences(known, expected, STORED[path.stem].rtol) == []


def test_every_estimator_has_a_stored_model():
    kinds = {type(partwise.load(path)).__name__ for path in model_files()}
    saved = {name for name in partwise.__all__ if hasattr(getattr(partwise, name), "save")}
    assert kinds == saved


def test_recording_adds_models_and_leaves_old_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "MODELS", tmp_path)
    old = tmp_path / "3" / "cvq.safetensors"
    old.parent.mkdir()
    old.write_bytes(b"as it was")
    record.record_models(["cvq"])
    assert old.read_bytes() == b"as it was"
    new = tmp_path / "4" / "cvq.safetensors"
    found = answers_of_file(new)
    assert differences(found, read(new.with_suffix(".npz")), 0.0) == []


def test_differences_are_seen():
    expected = {"a": np.array([[1.0, 1e3], [2.0, np.nan]]), "b": np.array(["x"]), "c": np.arange(2)}
    assert differences(expected, expected, 0.0) == []
    near = {**expected, "a": expected["a"] + [2e-9, 0.0]}
    assert differences(near, expected, 1e-8) == []
    assert differences(near, expected, 1e-10) == ["a: off by 1.0e-09 of the column's largest value"]
    for name, other in [
        ("a", np.nan_to_num(expected["a"])), ("a", expected["a"][:1]), ("b", np.array(["y"])),
        ("c", np.array([0, 2])), ("d", np.ones(1)),
    ]:  # fmt: skip
        (line,) = differences({**expected, name: other}, expected, 1.0)
        assert line.startswith(name)
    assert differences({}, {"b": expected["b"]}, 1.0) == ["b: no longer answered"]


def test_partitions_do_not_depend_on_numbers():
    assert partition([2, -1, 0, 2, 1]).tolist() == [0, -1, 1, 0, 2]


def test_answers_are_stored_as_they_are(tmp_path):
    answers = {
        "a": np.array([[np.nan, 0.1]]), "b": np.array([["x", ""], ["€", "z"]]), "c": np.int64(7),
        "d": np.array([True, False]), "e": np.float32([0.1, np.inf]), "f": np.empty((0, 3)),
    }  # fmt: skip
    write(tmp_path / "a.npz", answers)
    found = read(tmp_path / "a.npz")
    assert [each.dtype for each in found.values()] == [each.dtype for each in answers.values()]
    assert differences(found, answers, 0.0) == []
