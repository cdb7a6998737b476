"""Sets of rated items as evidence about tastes, against dense algebra and moved offsets."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from partwise import MCFA, MCVQ, Recommender, load
from partwise.answers.rows import source_of
from partwise.fitted import fitted_of
from partwise.models.rated_set import PENALTY, learn_weights, prior_means

N, D = 300, 24
KINDS = {
    "ordinal": MCFA(2, 2, likelihood="ordinal", random_state=0, max_iter=4, tol=0.0),
    "gaussian": MCFA(2, 2, random_state=0, max_iter=4, tol=0.0),
}
FITTED = {}


def drawn(seed=0):
    """Ratings of people who choose what to rate by the same tastes that they rate with."""
    rng = np.random.default_rng(seed)
    taste, own = rng.normal(size=(N, 2)), np.arange(D) % 2
    liked = taste[:, own]
    table = np.clip(np.rint(3.0 + liked + 0.5 * rng.normal(size=(N, D))), 1, 5)
    chosen = rng.random((N, D)) < 1.0 / (1.0 + np.exp(1.5 - 2.0 * liked))
    return np.where(chosen, table, 0.0), table


def fitted(kind, rated_set=True):
    if (kind, rated_set) not in FITTED:
        X = sparse.csr_matrix(drawn()[0])
        model = Recommender(KINDS[kind], levels=[1, 2, 3, 4, 5], rated_set=rated_set)
        with pytest.warns(ConvergenceWarning):
            FITTED[kind, rated_set] = model.fit(X)
    return FITTED[kind, rated_set]


def taste_of(model):
    return fitted_of(model).tastes[0]


def two_regressions(kind, table):
    """Weights, learned step by step."""
    X, taste = sparse.csr_matrix(table.astype(np.float32)), copy.copy(taste_of(fitted(kind, False)))
    assert taste.weights is None
    taste.weights = taste.learn_weights(X)
    return taste.learn_weights(X)


def dense_sets(X):
    """c of the module's table, formed."""
    o = (X.toarray() != 0).astype(float)
    n, share = o.sum(axis=1, keepdims=True), o.sum(axis=0) / o.sum()
    return (o - n * share) / np.sqrt(np.maximum(n, 1.0))


def test_weights_are_those_of_a_ridge_regression():
    X = sparse.csr_matrix(drawn()[0])
    m = np.random.default_rng(1).normal(size=(N, 3)) * [1.0, 1e-3, 0.0]
    C = dense_sets(X)
    B = np.linalg.solve(C.T @ C + PENALTY * np.eye(D), C.T @ m)
    means = prior_means(learn_weights(X, m), X.indptr, X.indices)
    assert_allclose(means, (C @ B).T, atol=1e-7)
    assert_array_equal(prior_means(np.ones((D, 2)), np.array([0, 0]), np.empty(0, int)), 0.0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_second_regression_is_of_means_inferred_with_the_first(kind):
    found = two_regressions(kind, drawn()[0])
    assert_allclose(found, taste_of(fitted(kind)).weights, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_prior_mean_is_a_move_of_the_offset(kind):
    model = fitted(kind)
    taste, row = taste_of(model), sparse.csr_matrix(drawn()[0][:1].astype(np.float32))
    means = prior_means(taste.weights, row.indptr, row.indices)[:, 0]
    assert np.abs(means).max() > 0.1
    params, core, moved, at = taste.fitted.params, taste.core, [], 0
    for loadings, J in zip(params.loadings, core.n_factors, strict=True):
        T = np.eye(J + 1)
        T[J, :J] = means[at : at + J]
        moved.append(loadings.moved(T))
        at += J
    prepared = core.prepare(replace(params, loadings=tuple(moved)))
    block = source_of(taste.fitted.columns, row).block(0)
    theirs = taste.fitted.model.infer(prepared, block)[0]
    ours = taste.fold_in(row)
    assert_allclose(ours[core.linear, 0], theirs[core.linear, 0] + means, atol=2e-3)


def test_the_set_helps_where_people_choose_by_taste():
    table = drawn(seed=1)[1]
    known = drawn(seed=1)[0]
    rows, columns = np.nonzero((known == 0) & (np.arange(N) < 100)[:, None])
    levels = table[rows, columns].astype(int) - 1
    gains = []
    for kind in KINDS:
        plain, ours = (
            fitted(kind, way).predict_pairs(
                sparse.csr_matrix(known), rows, columns, point="distribution"
            )
            for way in (False, True)
        )
        at = np.arange(len(levels)), levels
        gains.append(np.mean(np.log(ours[at]) - np.log(plain[at])))
    assert min(gains) > 0.02


@pytest.mark.parametrize("kind", KINDS)
def test_a_person_without_ratings_is_predicted_as_before(kind):
    ours, plain = (fitted(kind, way).predict_distribution({}) for way in (True, False))
    assert_allclose(ours, plain, atol=1e-12)


def test_a_rating_left_out_leaves_its_item_in_the_set():
    taste = taste_of(fitted("gaussian"))
    row = sparse.csr_matrix(drawn()[0][:1].astype(np.float32))
    prior = prior_means(taste.weights, row.indptr, row.indices)
    found = taste.leave_out(row.indices, row.data)
    assert_allclose(found[:, :1], taste.fold_in(row), atol=1e-4)
    for i in range(row.nnz):
        rest = np.arange(row.nnz) != i
        less = sparse.csr_matrix((row.data[rest], row.indices[rest], [0, row.nnz - 1]), (1, D))
        block = source_of(taste.fitted.columns, less).block(0)
        theirs = taste.fitted.model.infer(taste.fitted.prepared, block, prior)[0]
        assert_allclose(found[:, 1 + i], theirs[:, 0], atol=1e-4)


def test_an_answer_changes_all_parts():
    model = fitted("ordinal")
    talk = model.interview({1: 5})
    for item, rating in ((0, 1), (7, 5), (8, 1)):
        talk.answer(item, rating)
    fresh = model.interview({1: 5, 0: 1, 7: 5, 8: 1}).gains()
    assert_allclose(list(talk.gains().values()), list(fresh.values()), rtol=1e-6)


def test_there_and_back_and_new_items(tmp_path):
    model = fitted("ordinal")
    model.save(tmp_path / "model", users=True)
    back = load(tmp_path / "model")
    person = {0: 5, 3: 1, 8: 4}
    before = model.predict_distribution(person)
    assert_array_equal(back.predict_distribution(person), before)
    back.add_items(([1, 1, 2, 2], ["new", 0, "new", 1], [5, 4, 1, 2]))
    assert_array_equal(back.predict_distribution(person)[:D], before)
    assert not np.any(taste_of(back).weights[D:])
    again = load(tmp_path / "model").partial_fit(([1000, 1000], [0, 3], [5, 1]))
    more = np.zeros((1, D))
    more[0, [0, 3]] = 5, 1
    found = two_regressions("ordinal", np.vstack([drawn()[0], more]))
    assert_allclose(taste_of(again).weights, found, rtol=1e-5, atol=1e-7)


def test_weights_of_another_size_are_refused(tmp_path):
    model = copy.deepcopy(fitted("ordinal"))
    taste_of(model).weights = taste_of(model).weights[:, :1]
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"state\.rated_set\[0\] has shape"):
        load(tmp_path / "model")


@pytest.mark.parametrize(
    "member",
    [MCVQ(1, 2), MCFA(1, 1, n_classes=2), MCFA(1, 1, gating="factorised")],
)
def test_models_that_cannot_use_sets_are_refused_alone(member):
    X = sparse.csr_matrix(drawn()[0])
    with pytest.raises(ValueError, match="rated_set=True needs ratings and an MCFA without"):
        Recommender(member, rated_set=True).fit(X)


@pytest.mark.filterwarnings("ignore")
def test_others_predict_as_before():
    X = sparse.csr_matrix(drawn()[0][:40])
    members = [MCVQ(1, 2, max_iter=1, random_state=0), MCFA(1, 1, max_iter=1, random_state=0)]
    both = Recommender(members, rated_set=True).fit(X)
    assert [taste.weights is None for taste in fitted_of(both).tastes] == [True, False]
    alone = Recommender(members[0]).fit(X)
    assert_array_equal(fitted_of(both).tastes[0].fold_in(X), taste_of(alone).fold_in(X))
