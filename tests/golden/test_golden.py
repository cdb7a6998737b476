"""Fits and stored models answer as recorded; README.md says what to do where they do not."""

import numpy as np
import pytest

from tests.golden.cases import FITS, FITTED, STORED, answers_of_file, model_files
from tests.golden.compare import differences


def recorded(path):
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


@pytest.mark.parametrize("name", FITTED)
def test_fit_is_as_recorded(name):
    fit = FITTED[name]
    expected = recorded(FITS / f"{fit.same_as or name}.npz")
    assert differences(fit.answers(), expected, fit.rtol) == []


@pytest.mark.parametrize("path", model_files(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_old_file_answers_as_recorded(path):
    expected = recorded(path.with_suffix(".npz"))
    assert differences(answers_of_file(path), expected, STORED[path.stem].rtol) == []


def test_every_estimator_has_a_stored_model():
    kept = {path.stem for path in model_files()}
    assert kept == STORED.keys()
