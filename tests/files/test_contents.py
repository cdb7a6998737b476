"""Stored models that were changed are refused when they are loaded, with one sentence."""

import copy

import numpy as np
import polars as pl
import pytest

from partwise import MCVQ, AspectModel, load
from partwise.files.contents import CONTENTS
from partwise.files.encoded_values import LOADABLE
from partwise.files.model import ModelFileError
from partwise.files.pieces import units_fit
from partwise.files.schema import Scope
from tests.fuzz.models import known_parts, whole
from tests.golden.cases import model_files as stored_models

# Arrays that speak of rows or sweeps: their sizes are nobody else's.
FREE = ("row_labels_", "lower_bounds_", "certificate", "n_components_posterior_")

# Imputers have many arrays, of which each is changed in several ways.
PATHS = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.ci] * (path.stem == "imputer"))
    for path in stored_models()
]


def changed(path, folder, change):
    header, arrays = copy.deepcopy(known_parts(path.read_bytes()))
    change(header, arrays)
    out = folder / "changed.safetensors"
    out.write_bytes(whole(header, arrays))
    return out


def refusal(path):
    with pytest.raises(ModelFileError) as caught:
        load(path)
    message = str(caught.value)
    assert "cannot rebuild" in message
    assert message.endswith(".")
    assert "\n" not in message
    return message


def stored(name):
    (path,) = (one for one in stored_models() if one.stem == name and one.parent.name == "1")
    return path


def test_every_class_that_is_loaded_has_contents():
    assert CONTENTS.keys() == LOADABLE.keys()


def test_a_raised_number_of_aspects_is_refused(tmp_path):
    """The compiled inference of rows would read beyond the table of aspects."""

    def raise_aspects(header, arrays):
        header["arguments"]["n_aspects"] = 3000

    assert isinstance(load(stored("aspect")), AspectModel)
    message = refusal(changed(stored("aspect"), tmp_path, raise_aspects))
    assert "state.eta has shape (2, 12, 3), not (2, 12, 3000)" in message


def test_features_of_which_no_set_has_rows_are_refused(tmp_path):
    def empty(header, arrays):
        arrays["theta.taken"] = np.zeros_like(arrays["theta.taken"])

    assert "has no set with rows" in refusal(changed(stored("gvq"), tmp_path, empty))


@pytest.mark.parametrize("path", PATHS)
def test_arrays_whose_shapes_do_not_agree_are_refused(path, tmp_path):
    _, arrays = known_parts(path.read_bytes())
    for name, array in arrays.items():
        if array.size == 0 or any(free in name for free in FREE):
            continue
        for axis in range(array.ndim):

            def shorten(header, arrays, name=name, axis=axis):
                arrays[name] = np.delete(arrays[name], -1, axis)

            refusal(changed(path, tmp_path, shorten))


@pytest.mark.parametrize("path", PATHS)
def test_numbers_that_are_none_and_other_dtypes_are_refused(path, tmp_path):
    _, arrays = known_parts(path.read_bytes())
    for name, array in arrays.items():
        if array.size == 0 or "classes_" in name or name == "items":
            continue

        def spoil(header, arrays, name=name):
            arrays[name] = np.full(arrays[name].shape, np.nan)

        if not ("certificate" in name and array.dtype == float):  # a gap may be without limit
            refusal(changed(path, tmp_path, spoil))

        def cast(header, arrays, name=name):
            kind = np.int32 if arrays[name].dtype.kind == "f" else np.float32
            arrays[name] = arrays[name].astype(kind)

        refusal(changed(path, tmp_path, cast))


@pytest.mark.parametrize("path", stored_models(), ids=lambda path: path.stem)
def test_entries_that_are_missing_or_unknown_are_refused(path, tmp_path):
    header, _ = known_parts(path.read_bytes())
    for name in header["state"]["dict"]:

        def drop(header, arrays, name=name):
            del header["state"]["dict"][name]

        assert f"state has no entry '{name}'" in refusal(changed(path, tmp_path, drop))

    def add(header, arrays):
        header["state"]["dict"]["anything"] = 1

    assert "state has an unknown entry 'anything'" in refusal(changed(path, tmp_path, add))


def test_units_below_single_precision_are_refused_without_a_warning():
    group = {
        "law": "ordinal",
        "cuts": [5.0],
        "shift": np.float32([0]),
        "scale": np.float32([1.2e-38]),
    }
    said = units_fit({"columns": group, "dtype": "float32"}, Scope())
    assert said == "has units that float32 cannot represent"


@pytest.mark.parametrize(
    ("name", "array", "value", "sentence"),
    [
        ("cvq", "theta.psi", -1.0, "state.theta.psi has the value -1, which is out of range"),
        ("mcvq", "gate.g", 0.4, "state.gate.g contains probabilities that do not sum to 1"),
        ("mcvq", "columns.0.index", 3, "state.columns[0].index has values that do not increase"),
        ("mcvq", "calibration.map_of", 5, "state.calibration.map_of has the value 5"),
        (
            "mcvq-bernoulli",
            "theta.chi.0",
            -1.0,
            "theta.chi[0] that are not a bernoulli distribution",
        ),
        ("mcfa-classes", "theta.sigma.0", 0.0, "state.theta.sigma[0] has a variance of 0"),
        ("recommender", "counts", -1, "state.counts has the value -1"),
        ("recommender", "members.0.columns.0.shift", 1e100, "units that float32 cannot represent"),
        ("recommender", "members.0.columns.0.shift", -1e20, "units that float32 cannot represent"),
        ("gvq", "columns.scale", 1e300, "units whose squares numbers cannot represent"),
        ("gvq", "columns.shift", -1e200, "units whose squares numbers cannot represent"),
        ("mcfa-ordinal", "columns.0.shift", 1e178, "units that do not match the likelihood"),
        ("mcfa-ordinal", "loadings.1.cov", 1e30, "cov has the value 1e+30, which is out of range"),
        ("mcfa-ordinal", "columns.0.scale", 1e-300, "units that float64 cannot represent"),
        ("mcvq", "columns.0.scale", 1e-312, "scale has the value 1e-312, which is out of range"),
        ("mcvq-bernoulli", "columns.0.moments", 0.0, "moments that are no prior of bernoulli"),
        ("bayesian-pca-mixture", "theta.0.cov", 1e18, "cov has the value 1e+18"),
    ],
)
def test_values_out_of_range_are_refused(name, array, value, sentence, tmp_path):
    def spoil(header, arrays):
        arrays[array] = np.full_like(arrays[array], value)

    assert sentence in refusal(changed(stored(name), tmp_path, spoil))


@pytest.mark.parametrize("name", ["mcvq", "mcfa", "mcvq-table"])
def test_a_column_beyond_all_is_refused(name, tmp_path):
    def raise_last(header, arrays):
        arrays["columns.0.index"][-1] = 99

    message = refusal(changed(stored(name), tmp_path, raise_last))
    assert "state.columns[0].index has the value 99, which is out of range" in message


@pytest.mark.parametrize(
    ("name", "argument", "value"),
    [
        ("mcvq", "n_parts", 7), ("mcvq", "likelihood", "poisson"), ("mcvq", "n_jobs", "many"),
        ("mcfa", "n_parts", 1), ("mcfa", "likelihood", "ordinal"), ("cvq", "n_states", 4),
        ("gvq", "n_sets", 2), ("gvq-values", "n_values", 2), ("gvq", "binary", True),
        ("mcvq-table", "likelihood", "poisson"), ("recommender", "unknown", 3),
        ("imputer", "n_fits", 0), ("aspect", "n_aspects", True),
        ("mcvq-auto", "n_states", {"objects": {"shape": [1], "values": [1]}}),
    ],
)  # fmt: skip
def test_arguments_that_do_not_suit_the_state_are_refused(name, argument, value, tmp_path):
    def change(header, arrays):
        header["arguments"][argument] = value

    refusal(changed(stored(name), tmp_path, change))


def test_a_penalty_whose_square_is_no_number_is_refused(tmp_path):
    def change(header, arrays):
        header["arguments"]["penalty"] = 1e300

    assert "penalty=1e+300 is too large" in refusal(changed(stored("gvq"), tmp_path, change))


def test_levels_that_do_not_match_the_table_are_refused(tmp_path):
    def raise_last(header, arrays):
        arrays["columns.1.levels"][-1] = 1e9

    message = refusal(changed(stored("mcvq-table"), tmp_path, raise_last))
    assert "that do not match the table's" in message


@pytest.mark.parametrize(
    ("level", "sentence"),
    [({"float": "nan"}, "has a level that is a missing value"), (3, "levels that are not text")],
)
def test_levels_that_their_type_cannot_have_are_refused(level, sentence, tmp_path):
    def change(header, arrays):
        columns = header["state"]["dict"]["schema"]["dict"]["columns"]
        column = next(c["dict"] for c in columns if c["dict"]["dtype"] == "Enum")
        column["levels"][0] = level

    assert sentence in refusal(changed(stored("mcvq-table-classes"), tmp_path, change))


def test_columns_of_a_table_have_the_names_of_the_table(tmp_path):
    def rename(header, arrays):
        columns = header["state"]["dict"]["schema"]["dict"]["columns"]
        columns[-1]["dict"]["name"] = columns[0]["dict"]["name"]

    message = refusal(changed(stored("mcvq-table"), tmp_path, rename))
    assert "state.schema has columns of other names" in message


def test_a_mixture_of_several_classes_names_them(tmp_path):
    def drop(header, arrays):
        del header["state"]["dict"]["learned"]["dict"]["classes_"]

    message = refusal(changed(stored("bayesian-pca-mixture-classes"), tmp_path, drop))
    assert "state has 1 names of 3 classes" in message


def test_bounds_of_a_column_contain_its_values(tmp_path):
    """Predicted dates were moved to the bounds, which overflowed."""

    table = pl.DataFrame({"x": [1.0, 2.5, 3.0, 7.0] * 5, "level": ["a", "b"] * 10})
    MCVQ(1, 2, likelihood="auto", random_state=0).fit(table).save(tmp_path / "whole.safetensors")

    def move(header, arrays):
        column = header["state"]["dict"]["schema"]["dict"]["columns"][0]
        column["dict"]["support"]["dict"] |= {"low": 8.0, "high": {"float": "inf"}}

    path = changed(tmp_path / "whole.safetensors", tmp_path, move)
    assert "ends in the wrong order" in refusal(path)
