"""The list of imputed values of `PartsImputer` against its other answers."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from typer.testing import CliRunner

from partwise import PartsImputer
from partwise.cli.main import app


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 120))
    table = pd.DataFrame(
        {"a": a, "b": a + b, "kind": np.array(["x", "y", "z"])[np.digitize(a, [-0.4, 0.6])]}
    )
    table["order"] = np.digitize(b, [-0.5, 0.5])
    table = table.mask(rng.random(table.shape) < 0.2)
    table.iloc[3] = None
    return table.set_index(pd.Index([f"row {i}" for i in range(120)]))


@pytest.mark.ci
@pytest.mark.parametrize("options", [{}, {"loss": "absolute", "encode": True, "add_states": True}])
def test_each_missing_cell_is_listed_as_elsewhere(table, options):
    imputer = PartsImputer(random_state=0, **options).fit(table)
    found = imputer.imputations(table, coverage=0.8)
    assert list(found) == ["row", "column", "value", "lower", "upper", "probability", "how"]
    assert len(found) == table.isna().sum().sum()
    lower, upper = imputer.predict_interval(table, 0.8)
    shares = imputer.predict_proba_columns(table)
    imputed = imputer.set_params(encode=False, add_states=False).transform(table)
    numbers = "median" if options else "expected value"
    for one in found.to_dict("records"):
        at, row = (one["row"], one["column"]), table.index.get_loc(one["row"])
        assert one["value"] == imputed.loc[at]
        if one["column"] == "kind":
            assert one["lower"] is None
        else:
            assert (one["lower"], one["upper"]) == (lower.loc[at], upper.loc[at])
        if one["column"] in shares:
            levels = list(imputer.model_.column_levels_[one["column"]])
            own = shares[one["column"]][row]
            assert one["probability"] == pytest.approx(own[levels.index(one["value"])])
        else:
            assert pd.isna(one["probability"])
        words = {"kind": "most probable level", "order": "median level"}
        assert one["how"].startswith(words.get(one["column"], numbers))
        assert one["how"].endswith("no observed value in its row") == (one["row"] == "row 3")


def test_lists_of_arrays_and_of_states_alone(table):
    X = table[["a", "b"]].to_numpy()
    imputer = PartsImputer(1, 3, n_factors=0, random_state=0).fit(X)
    assert len(imputer.imputations(X)) == np.isnan(X).sum()
    assert len(imputer.imputations(np.nan_to_num(X))) == 0
    with pytest.raises(ValueError, match="dense X"):
        imputer.imputations(sparse.csr_matrix(np.nan_to_num(X)))
    with pytest.raises(ValueError, match="between 0 and 1"):
        imputer.imputations(X, coverage=90)


@pytest.mark.ci
def test_the_command_lists_the_same(table, tmp_path):
    table.to_csv(tmp_path / "t.csv", index_label="name")
    table = pd.read_csv(tmp_path / "t.csv", index_col="name")
    imputer = PartsImputer(1, 3, random_state=0).fit(table)
    imputer.save(tmp_path / "m.safetensors")
    files = str(tmp_path / "m.safetensors"), str(tmp_path / "t.csv")
    out = tmp_path / "list.csv"
    done = CliRunner().invoke(app, ["impute", *files, "--list", "--id", "name", "-o", str(out)])
    assert done.exit_code == 0, done.output
    written, found = pd.read_csv(out, dtype={"value": str}), imputer.imputations(table)
    assert written["row"].tolist() == found["row"].tolist()
    assert written["column"].tolist() == found["column"].tolist()
    for name in ("value", "lower", "upper"):
        for one, other in zip(written[name], found[name], strict=True):
            if isinstance(other, str):
                assert one == other
            else:
                assert (pd.isna(one) and pd.isna(other)) or float(one) == pytest.approx(other)
    np.testing.assert_allclose(
        written["probability"], found["probability"].astype(float), atol=1e-4
    )
