"""What is learned does not depend on where rows lie or how they are cut."""

import os

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from partwise import CVQ, GVQ, MCVQ, AspectModel, BayesianPCAMixture, RowSource
from partwise.data import rows as data_rows
from partwise.data import source as data_source
from partwise.fitting import states
from tests.common.sources import N_ROWS, assert_same_fit, blocks_of, on_disk, planted, problems

pytestmark = pytest.mark.filterwarnings("ignore:The fit did not converge")

PROBLEMS = problems()
# Where the rows of each problem are put.
KINDS = {
    "mcvq": ("memmap", "npy", "npz", "parquet", "zarr", "walks"),
    "mcvq-masked": ("npz",),
    "mcvq-sparse": ("list", "npz"),
    "mcvq-levels": ("list",),
    "mcvq-counts": ("npz",),
    "mcfa-classes": ("npy",),
    "gvq": ("memmap",),
    "bayesian-pca": ("parquet",),
}


@pytest.fixture(scope="module")
def in_one_block():
    """Every problem's fit in memory, with a single block."""
    found = {}

    def fit(name):
        if name not in found:
            estimator, X, y = PROBLEMS[name]
            found[name] = clone(estimator).fit(X, y)
        return found[name]

    return fit


@pytest.fixture
def small_blocks(monkeypatch):
    """Many blocks, none of which is kept if its rows are not in memory."""
    monkeypatch.setattr(data_source, "BLOCK_BYTES", 64 * 12 * 8)
    monkeypatch.setattr(data_source, "BLOCK_ENTRIES", 64 * 5)
    monkeypatch.setattr(data_source, "KEPT_BYTES", 0)
    monkeypatch.setattr(data_rows, "CHUNK_CELLS", 90 * 12)
    monkeypatch.setattr(data_rows, "STRETCH_BYTES", 90 * 12 * 8)


@pytest.mark.parametrize("name", PROBLEMS)
def test_two_threads_and_many_blocks(name, in_one_block, small_blocks):
    estimator, X, y = PROBLEMS[name]
    assert_same_fit(in_one_block(name), clone(estimator).set_params(n_jobs=2).fit(X, y))


@pytest.mark.parametrize(("name", "kind"), [(n, k) for n, kinds in KINDS.items() for k in kinds])
def test_rows_that_are_not_in_memory(name, kind, in_one_block, small_blocks, tmp_path):
    estimator, X, y = PROBLEMS[name]
    model = in_one_block(name)
    rows = on_disk(X, kind, tmp_path)
    found = clone(estimator).fit(rows, y)
    assert_same_fit(model, found)
    assert hasattr(found, "feature_names_in_") == (kind == "parquet")
    np.testing.assert_allclose(found.transform(rows), model.transform(X), atol=1e-6)
    np.testing.assert_allclose(
        found.score_samples(rows), model.score_samples(X), rtol=1e-6, atol=1e-9
    )
    assert found.score(rows) == pytest.approx(model.score(X), rel=1e-6)


@pytest.mark.parametrize(
    "estimator",
    [
        CVQ(3, 3, max_iter=3, random_state=0),
        MCVQ(3, 3, max_iter=3, gating="factorised", init="random", random_state=0),
        BayesianPCAMixture(2, 2, max_iter=5, random_state=0),
        AspectModel(3, max_iter=3, random_state=0),
    ],
    ids=lambda e: type(e).__name__,
)
def test_other_models_take_rows_too(estimator, small_blocks, tmp_path):
    X, _ = planted()
    if isinstance(estimator, AspectModel):
        X = np.clip(np.rint(2 * X + 3), 1, 5)
    model = clone(estimator).fit(X)
    rows = on_disk(X, "npy", tmp_path)
    found = clone(estimator).fit(rows)
    assert_same_fit(model, found)
    np.testing.assert_allclose(found.transform(rows), model.transform(X), atol=1e-6)


@pytest.mark.ci
def test_a_mixture_of_many_rows_goes_on_from_some(monkeypatch):
    X, y = planted()
    settings = {"n_components": 2, "max_dimension": 2, "max_iter": 20, "random_state": 0}
    every = BayesianPCAMixture(**settings).fit(X)
    monkeypatch.setattr("partwise.fitting.component_classes.MOST_BEGUN", 150 * X.shape[1])
    some = BayesianPCAMixture(**settings).fit(RowSource(blocks_of(X)))
    assert some.score(X) == pytest.approx(every.score(X), abs=0.2)
    told = BayesianPCAMixture(**settings).fit(RowSource(blocks_of(X)), np.where(y == 2, -1, y))
    np.testing.assert_allclose(told.class_priors_, np.bincount(y)[:2] / np.sum(y < 2))
    assert np.mean(told.predict(X[y < 2]) == y[y < 2]) > 0.8


def test_weights_of_rows_that_are_not_in_memory(small_blocks):
    X, _ = planted()
    weight = np.random.default_rng(0).integers(3, size=N_ROWS)
    estimator = MCVQ(3, 3, max_iter=4, random_state=0)
    model = clone(estimator).fit(X, sample_weight=weight)
    found = clone(estimator).fit(RowSource(blocks_of(X)), sample_weight=weight)
    assert_same_fit(model, found)
    assert np.all((found.row_labels_[:, 0] == -1) == (weight == 0))


def test_verbs_of_rows(small_blocks):
    X, y = planted()
    holed = PROBLEMS["mcfa-classes"][1]
    rows = RowSource(blocks_of(holed))
    model = MCVQ(3, 3, gating="tied", max_iter=3, random_state=0).fit(X, y)
    for verb in (
        "reconstruct",
        "impute",
        "anomaly_scores",
        "predict",
        "predict_proba",
        "predict_states",
    ):
        np.testing.assert_allclose(getattr(model, verb)(rows), getattr(model, verb)(holed))
    for mine, theirs in zip(
        model.predict_interval(rows), model.predict_interval(holed), strict=True
    ):
        np.testing.assert_allclose(mine, theirs)
    likelihood = model.row_likelihood(rows)
    np.testing.assert_allclose(likelihood.standard_error, model.row_likelihood(X).standard_error)
    gvq = GVQ(3, max_iter=2, random_state=0).fit(X)
    np.testing.assert_array_equal(gvq.encode(RowSource(blocks_of(X))), gvq.encode(X))
    assert gvq.certify(RowSource(blocks_of(X))).proven.shape == (N_ROWS,)


def test_integers_and_single_precision_keep_their_type(tmp_path):
    X, _ = planted()
    np.save(tmp_path / "single.npy", X.astype(np.float32))
    model = MCVQ(3, 3, gating="tied", max_iter=2, random_state=0)
    assert clone(model).fit(str(tmp_path / "single.npy")).means_.dtype == np.float32
    whole = np.rint(5 * X).astype(np.int8)
    np.save(tmp_path / "whole.npy", whole)
    assert_same_fit(clone(model).fit(whole), clone(model).fit(tmp_path / "whole.npy"))


def test_a_source_that_goes_away_is_told_by_its_name(small_blocks, tmp_path, monkeypatch):
    X, _ = planted()
    folder = on_disk(X, "npy", tmp_path)

    def vanish():
        (folder / "03.npy").unlink()

    def shorten():
        os.truncate(folder / "03.npy", 5000)

    start = states.dependence_start

    def fit_with(harm, rows):
        """Fit while something happens to the data after they were looked at."""

        def harmed(*args, **options):
            harm()
            return start(*args, **options)

        monkeypatch.setattr(states, "dependence_start", harmed)
        MCVQ(3, 3, gating="tied", random_state=0).fit(rows)

    for harm in (shorten, vanish):
        with pytest.raises(OSError, match=r"Block 3 of X \(.*03.npy\) could not be read"):
            fit_with(harm, folder)
        np.save(folder / "03.npy", blocks_of(X)[3])
    mapped = on_disk(X, "memmap", tmp_path)
    with pytest.raises(OSError, match="has 9000 bytes of"):
        fit_with(lambda: os.truncate(tmp_path / "all.npy", 9000), mapped)


def once(blocks):
    """A function that begins no new walk."""
    walk = iter(blocks)
    return lambda: walk


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda b: [*b[:2], b[2][:, :5]], r"block 2 has 5 columns, but block 0 has 12"),
        (lambda b: [b[0], b[1] * np.nan, b[2]], r"Block 1 of X \(block 1\) has only missing"),
        (lambda b: [b[0], np.where(b[2] > 1, np.inf, b[2])], r"Block 1 of X .* contains infinity"),
        (lambda b: [b[0], sparse.csr_array(b[1])], "mixes dense and sparse"),
        (lambda b: [b[0], b[1].astype(str)], "block 1 holds <U32, but must hold numbers"),
        (lambda b: [b[0][:0]], "the source is empty"),
        (lambda b: (block for block in b), "can be iterated only once"),
        (once, "was there in the first iteration"),
        (lambda b: "no/such/file*.npy", "matches no file"),
    ],
)
def test_bad_blocks_are_told(spoil, complaint):
    blocks = blocks_of(planted()[0])
    with pytest.raises((ValueError, OSError), match=complaint):
        MCVQ(3, 3, random_state=0).fit(spoil(blocks))


def test_blocks_that_change_are_told():
    blocks, walks = blocks_of(planted()[0]), []

    def shrinking():
        walks.append(1)
        return [b if len(walks) < 3 else b[: len(b) // 2 + 1] for b in blocks]

    with pytest.raises(ValueError, match=r"Block 0 of X \(block 0\) has rows of shape"):
        MCVQ(3, 3, random_state=0).fit(RowSource(shrinking))


def test_values_that_do_not_suit_name_their_block():
    blocks = [np.zeros((50, 3)), np.full((50, 3), 2.0)]
    with pytest.raises(ValueError, match=r'Block 1 of X .*value 2, but likelihood="bernoulli"'):
        MCVQ(1, 2, likelihood="bernoulli").fit(blocks)
    model = MCVQ(1, 2, likelihood="bernoulli", random_state=0, max_iter=1, tol=1e9)
    model.fit(np.random.default_rng(0).integers(2, size=(60, 3)))
    with pytest.raises(ValueError, match=r'Block 1 of X .*value 2, but likelihood="bernoulli"'):
        model.transform(RowSource(blocks))


def test_verbs_need_the_columns_of_the_fit(tmp_path):
    X, _ = planted()
    model = MCVQ(3, 3, gating="tied", max_iter=2, random_state=0)
    model.fit(on_disk(X, "parquet", tmp_path))
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(on_disk(X[:, :5], "parquet", tmp_path))
    with (
        pytest.warns(UserWarning, match="does not have valid feature names"),
        pytest.raises(ValueError, match="expecting 12 features"),
    ):
        model.transform(RowSource(blocks_of(X[:, :5])))
