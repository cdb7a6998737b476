"""Rows in sequence: what estimators with ``class_chain`` learn, answer and refuse."""

import inspect
import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

from partwise import MCFA, MCVQ, Translations, load
from partwise.answers.classes import linked
from partwise.answers.rows import source_of
from partwise.files.model import ModelFileError
from partwise.fitted import fitted_of
from partwise.models.class_chain import smooth

TRANSITIONS = np.array([[0.9, 0.1], [0.2, 0.8]])
LENGTHS = [200, 100, 50]


@pytest.fixture(scope="module")
def drawn():
    """Rows of two parts of two states, whose classes overlap, and the classes."""
    rng = np.random.default_rng(0)
    y = [0]
    for _ in range(sum(LENGTHS) - 1):
        y.append(int(rng.random() < TRANSITIONS[y[-1], 1]))
    y = np.array(y)
    states = rng.random((len(y), 2)) < np.array([[0.15, 0.25], [0.8, 0.7]])[y]
    X = np.repeat(np.where(states, 3.0, -3.0), 3, axis=1) + rng.normal(size=(len(y), 6))
    X[rng.random(X.shape) < 0.1] = np.nan
    X[7] = np.nan  # a row without any value
    return X, y


MODELS = pytest.mark.parametrize(
    "model",
    [
        MCVQ(2, 2, n_classes=2, class_chain=True, random_state=0),
        MCFA(2, 1, n_classes=2, class_chain=True, random_state=0),
    ],
    ids=["MCVQ", "MCFA"],
)


@pytest.fixture(scope="module")
def fitted(drawn):
    return MCVQ(2, 2, n_classes=2, class_chain=True, random_state=0).fit(drawn[0], lengths=LENGTHS)


@pytest.mark.ci
@MODELS
def test_chains_are_found(model, drawn):
    X, y = drawn
    if isinstance(model, MCFA):  # factors of a class are Gaussian
        rng = np.random.default_rng(1)
        s = rng.normal(1.2 * (2 * y[:, None] - 1) * [1.0, 0.5], 1.0)
        X = np.repeat(s, 3, axis=1) + 0.5 * rng.normal(size=X.shape)
    model = clone(model).fit(X, lengths=LENGTHS)
    alone = clone(model).set_params(class_chain=False).fit(X)
    assert_allclose(model.class_transitions_.sum(axis=1), 1.0, rtol=1e-6)
    assert np.diag(model.class_transitions_).min() > 0.6
    agree = [adjusted_rand_score(y, m.predict(X)) for m in (model, alone)]
    assert agree[0] > agree[1]
    assert model.score(X, lengths=LENGTHS) > alone.score(X)
    assert np.all(np.diff(model.lower_bounds_) > -1e-9 * abs(model.lower_bounds_[-1]))


def test_verbs_are_those_of_the_forward_pass(fitted, drawn):
    X, _ = drawn
    with_class = fitted._likelihoods(X, 1).log_likelihood.T
    chain = np.log(fitted.class_start_), np.log(fitted.class_transitions_)
    told = smooth(with_class, *chain, np.cumsum([0, *LENGTHS]))
    assert_allclose(fitted.score_samples(X, lengths=LENGTHS), told.log_z)
    assert_allclose(fitted.predict_proba(X, lengths=LENGTHS), told.posterior(with_class), atol=1e-9)
    one = smooth(with_class, *chain, np.array([0, len(X)]))
    assert_allclose(fitted.score_samples(X), one.log_z)
    assert_allclose(fitted.score(X, lengths=LENGTHS), told.log_z.mean())
    # A row that nothing is known of is told by its neighbors, and has no likelihood.
    assert_allclose(fitted.score_samples(X)[7], 0.0, atol=1e-9)
    assert fitted.row_likelihood(X, lengths=LENGTHS).standard_error.max() == 0.0


@pytest.mark.ci
@MODELS
def test_rows_are_seen_given_their_sequence(model, drawn):
    X, _ = drawn
    model = clone(model).fit(X, lengths=LENGTHS)
    fitted = fitted_of(model)
    core, ready = fitted.model, fitted.prepared
    block = source_of(fitted.columns, X).block(0)
    by_class = [core.infer(ready, block.with_labels(np.full(len(X), n))) for n in range(2)]
    evidence = np.stack([log_z for _, log_z in by_class], axis=1) - fitted.params.log_beta
    chain = core.classes.logarithms(fitted.params.chain)
    z = smooth(evidence, *chain, np.cumsum([0, *LENGTHS])).posterior(evidence)
    m = sum(z[:, n] * by_class[n][0] for n in range(2))
    answers = model._answers
    expected = m[core.linear].T if isinstance(model, MCFA) else answers.outputs_of(fitted, m.T)
    assert_allclose(model.transform(X, lengths=LENGTHS), expected, atol=1e-9)
    assert_allclose(model.set_params(n_jobs=2).transform(X, lengths=LENGTHS), expected, atol=1e-9)
    # A row that nothing is known of is filled in by its neighbors, with intervals to match.
    filled, again = model.impute(X, lengths=LENGTHS), model.reconstruct(X, lengths=LENGTHS)
    assert_allclose(filled[7], again[7])
    alone = model.impute(X[7:8], lengths=[1])[0]
    assert np.abs(filled[7] - alone).max() > 0.1
    lower, upper = model.predict_interval(X, lengths=LENGTHS)
    assert np.all((lower[7] < filled[7]) & (filled[7] < upper[7]))
    # Cells are foretold better by the whole sequence than by their own rows.
    rows, columns = np.nonzero(~np.isnan(X) & (np.arange(len(X)) % 3 == 0)[:, None])
    known = X.copy()
    known[rows, columns] = np.nan
    cells = rows, columns, X[rows, columns]
    together = model.score_cells(known, *cells, lengths=LENGTHS).mean()
    assert together > model.score_cells(known, *cells, lengths=np.ones(len(X), int)).mean()


@MODELS
def test_classes_of_rows_in_sequence_are_those_of_all_paths(model, drawn):
    X, bounds = drawn[0][3:9], np.array([0, 4, 6])
    model = clone(model).set_params(max_iter=3, tol=1e6).fit(drawn[0])
    fitted = linked(fitted_of(model), X, bounds, None)
    own = model._likelihoods(X, 1).log_likelihood.T
    block = source_of(fitted.columns, X).block(0)
    seen = [fitted.model.infer(fitted.prepared, block.with_labels(np.full(6, n)))[1]
            for n in range(2)]  # fmt: skip
    seen = np.stack(seen, axis=1) - fitted.params.log_beta
    start, transition = fitted.model.classes.logarithms(fitted.params.chain)
    wanted = np.zeros((6, 2))
    for row, path in itertools.product(range(6), itertools.product(range(2), repeat=6)):
        logs = [own[r, z] if r == row else seen[r, z] for r, z in enumerate(path)]
        for r, z in enumerate(path):
            logs.append(start[z] if r in bounds else transition[path[r - 1], z])
        wanted[row, path[row]] += np.exp(sum(logs) - seen.sum())
    found = model._answers.class_proba(fitted, X)
    assert_allclose(found, wanted / wanted.sum(axis=1, keepdims=True), atol=1e-9)


@pytest.mark.parametrize("model", [MCVQ, MCFA])
def test_methods_name_the_lengths_once(model):
    names = ["transform", "impute", "reconstruct", "predict_interval", "score_cells", "score",
             "row_likelihood", "score_samples", "predict", "predict_proba"]  # fmt: skip
    for name in names:
        method = getattr(model, name)
        assert list(inspect.signature(method).parameters)[-1] == "lengths"
        assert method.__doc__.count("lengths : array-like of shape (Q,), optional") == 1
        assert method.__doc__.index("lengths :") < method.__doc__.index("Returns\n")


def test_labels_are_kept(drawn):
    X, y = drawn
    some = np.where(np.arange(len(y)) % 3 == 0, y, -1)
    model = MCVQ(2, 2, class_chain=True, random_state=0).fit(X, some, lengths=LENGTHS)
    assert_array_equal(model.classes_, [0, 1])
    assert np.mean(model.predict(X, lengths=LENGTHS) == y) > 0.85
    assert_allclose(model.class_transitions_, TRANSITIONS, atol=0.1)


def test_samples_are_a_sequence(fitted):
    classes = fitted.sample(20_000, random_state=0)[1]
    counts = np.zeros((2, 2))
    np.add.at(counts, (classes[:-1], classes[1:]), 1)
    assert_allclose(
        counts / counts.sum(axis=1, keepdims=True), fitted.class_transitions_, atol=0.02
    )


@pytest.mark.ci
def test_storage_and_threads_change_nothing(fitted, drawn):
    X, _ = drawn
    kept = ~np.isnan(X)
    rows, columns = np.nonzero(kept)
    stored = sparse.csr_array((X[kept], (rows, columns)), shape=X.shape)
    for again, n_jobs in ((X, 2), (stored, 1)):
        model = clone(fitted).set_params(n_jobs=n_jobs).fit(again, lengths=LENGTHS)
        assert_allclose(model.class_transitions_, fitted.class_transitions_, rtol=1e-5)
        assert_allclose(model.lower_bound_, fitted.lower_bound_, rtol=1e-7)


def test_warm_start_and_checkpoint_go_on(fitted, drawn, tmp_path):
    X, _ = drawn
    again = clone(fitted).fit(X, lengths=LENGTHS, checkpoint=tmp_path / "fit")
    assert again.lower_bound_ == fitted.lower_bound_
    again.set_params(warm_start=True, max_iter=3, tol=0.0)
    with pytest.warns(Warning, match="did not converge"):
        again.fit(X, lengths=LENGTHS)
    assert again.lower_bound_ >= fitted.lower_bound_ - 1e-9


@pytest.mark.ci
@MODELS
def test_files_keep_the_chain(model, drawn, tmp_path):
    X, _ = drawn
    model = clone(model).set_params(max_iter=2, tol=1e6).fit(X, lengths=LENGTHS)
    model.save(tmp_path / "model.pw")
    again = load(tmp_path / "model.pw")
    assert_array_equal(again.class_transitions_, model.class_transitions_)
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    # A file without the chain that its arguments ask for is refused.
    model._fitted = type(fitted_of(model))(
        **{**vars(fitted_of(model)), "params": fitted_of(model).params.with_chain(None)}
    )
    model.save(tmp_path / "broken.pw")
    with pytest.raises(ModelFileError, match="class_chain"):
        load(tmp_path / "broken.pw")


@pytest.mark.parametrize(
    ("arguments", "call", "message"),
    [
        ({"n_classes": None}, {}, "needs classes"),
        ({"gating": "factorised"}, {}, 'does not support gating="factorised"'),
        ({"inference": "gibbs"}, {}, 'does not support inference="gibbs"'),
        ({"transformations": Translations((2, 3), max_shift=1)}, {}, "support transformations"),
        ({}, {"sample_weight": np.arange(350) % 2 + 1.0}, "does not support sample_weight"),
        ({}, {"lengths": [300]}, "lengths sum to 300, but X has 350 rows"),
        ({}, {"lengths": [350.5]}, "whole numbers"),
        ({"class_chain": False}, {"lengths": LENGTHS}, "lengths needs class_chain=True"),
    ],
)
def test_what_is_refused(fitted, drawn, arguments, call, message):
    with pytest.raises(ValueError, match=message):
        clone(fitted).set_params(**arguments).fit(drawn[0], **call)


def test_latent_numbers_streams_and_sources_are_refused(fitted, drawn, tmp_path):
    X, y = drawn
    with pytest.raises(ValueError, match='likelihood="ordinal" of MCFA'):
        MCFA(2, 1, likelihood="ordinal", n_classes=2, class_chain=True).fit(np.round(np.abs(X)))
    assert not hasattr(clone(fitted), "partial_fit")
    np.save(tmp_path / "rows.npy", X)
    with pytest.raises(ValueError, match="must be in memory"):
        fitted.predict(tmp_path / "rows.npy")
    with pytest.raises(ValueError, match="lengths needs class_chain=True"):
        MCVQ(2, 2, random_state=0).fit(X, y).predict(X, lengths=LENGTHS)


@pytest.mark.ci
@pytest.mark.parametrize("kind", [MCVQ, MCFA])
def test_likelihood_by_samples_of_the_prior(kind, drawn):
    """The rule of the papers agrees with the exact sum within its error."""
    X = drawn[0][:60, :4]
    model = kind(2, 2, random_state=0).fit(drawn[0][:, :4])
    exact = model.row_likelihood(X)
    assert exact.standard_error.max() == 0.0
    found = model.row_likelihood(X, 20_000, proposal="prior")
    seen = ~np.isnan(X).all(axis=1)
    away = np.abs(found.log_likelihood - exact.log_likelihood)
    assert np.all(away[seen] < 4.5 * found.standard_error[seen])
    assert np.median(found.standard_error) < 0.1
    with pytest.raises(ValueError, match="must be"):
        model.row_likelihood(X, proposal="uniform")


def test_samples_of_the_prior_in_sequence(fitted, drawn):
    exact = fitted.row_likelihood(drawn[0][:50])
    found = fitted.row_likelihood(drawn[0][:50], 20_000, proposal="prior")
    assert_allclose(found.log_likelihood, exact.log_likelihood, atol=0.5)
