"""Association methods against full enumeration, and what each of them promises."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from partwise.association import (
    METHODS,
    BeliefRevision,
    DirectedBeliefRevision,
    Exact,
    MultiStage,
    Problem,
    belief_revision,
    exact,
    make_association,
    refusal,
)
from tests.reference import gvq as reference


def drawn(rng, n_features, d, n_values=2, n_rows=2, mean=0.0, noise=0.3):
    """Features (K, J - 1, d) and rows made of them."""
    features = rng.normal(mean, 1.0, (n_features, n_values - 1, d))
    values = rng.integers(n_values, size=(n_rows, n_features))
    return features, reference.decode(values, features) + noise * rng.normal(size=(n_rows, d))


def posed(features, X, penalty=0.0):
    """The problem of rows that may have holes."""
    atoms, seen = features.reshape(-1, features.shape[2]), ~np.isnan(X.T)
    cost = np.full(len(atoms), penalty)
    masks = None if seen.all() else seen.astype(float)
    return Problem(atoms, np.where(seen, X.T, 0.0), cost, features.shape[1] + 1, masks)


def enumerated(features, X, penalty=0.0):
    """Least energy of every row: the error without the row's own square."""
    least = [reference.errors(x, features, 0.0, penalty).min() for x in X]
    return np.array(least) - np.nansum(X**2, axis=1)


def random_problem(rng):
    """n in 2..14, d in 1..20, with and without penalty, holes, and features that look alike."""
    n, d = rng.integers(2, 15), rng.integers(1, 21)
    features, X = drawn(rng, n, d, mean=rng.choice([0.0, 2.0]), n_rows=1)
    if rng.random() < 0.3:
        X[rng.random(X.shape) < 0.3] = np.nan
    return features, X, float(rng.choice([0.0, 0.5, 3.0]))


@pytest.mark.parametrize("most_codes", [1, 256], ids=["search alone", "as it comes"])
@pytest.mark.parametrize("part", range(4))
def test_exact_equals_enumeration_on_a_thousand_problems(part, most_codes, monkeypatch):
    monkeypatch.setattr(exact, "MOST_CODES", most_codes)
    rng = np.random.default_rng(part)
    for _ in range(250):
        features, X, penalty = random_problem(rng)
        found = Exact().associate(posed(features, X, penalty))
        least = enumerated(features, X, penalty)
        assert_allclose(found.energy, least, atol=1e-9)
        assert found.converged.all()
        assert_array_equal(found.lower, found.energy)


@pytest.mark.parametrize("n_nodes", [0, 3, 30])
def test_certificates_are_never_wrong_when_nodes_run_out(n_nodes, monkeypatch):
    monkeypatch.setattr(exact, "MOST_CODES", 1)
    rng = np.random.default_rng(n_nodes)
    unproven = 0
    for _ in range(200):
        features, X, penalty = random_problem(rng)
        found = Exact(n_nodes).associate(posed(features, X, penalty))
        least = enumerated(features, X, penalty)
        assert np.all(found.lower <= least + 1e-9)
        assert np.all(found.energy >= least - 1e-9)
        assert_allclose(found.energy[found.converged], least[found.converged], atol=1e-9)
        unproven += np.sum(~found.converged)
    assert unproven > 20


@pytest.mark.parametrize("n_values", [3, 5])
def test_exact_search_of_features_with_several_values(n_values, monkeypatch):
    monkeypatch.setattr(exact, "MOST_CODES", 1)
    rng = np.random.default_rng(n_values)
    for _ in range(100):
        features, X = drawn(rng, rng.integers(1, 5), rng.integers(1, 12), n_values, noise=1.0)
        X[rng.random(X.shape) < 0.1] = np.nan
        found = Exact().associate(posed(features, X, 0.2))
        assert_allclose(found.energy, enumerated(features, X, 0.2), atol=1e-9)


def test_a_known_code_is_only_bettered(monkeypatch):
    monkeypatch.setattr(exact, "MOST_CODES", 1)
    features, X = drawn(np.random.default_rng(0), 12, 4, n_rows=20)
    problem = posed(features, X)
    best = Exact().associate(problem)
    known = Problem(problem.features, problem.residual, problem.cost, incumbent=best.values)
    again = Exact(0).associate(known)
    assert_array_equal(again.values, best.values)
    assert_array_equal(again.energy, best.energy)


@pytest.mark.parametrize("penalty", [1e3, 1e17, 1e100, 1e300])
def test_a_cost_above_the_square_of_a_row_is_never_paid(penalty, monkeypatch):
    """Squares of such a cost leave no digit for what rows differ in, and may be infinite."""
    monkeypatch.setattr(exact, "MOST_CODES", 1)
    features, X = drawn(np.random.default_rng(5), 12, 10, n_rows=6)
    X[0, 0], X[1] = np.nan, 1e3  # the second row pays the least of these costs
    problem = replace(posed(features, X, penalty), incumbent=np.ones((6, 12), np.int64))
    with np.errstate(all="raise"):
        found = Exact().associate(problem)
    assert found.converged.all()
    assert_array_equal(found.values.any(axis=1), [False, penalty < 1e4, *[False] * 4])
    assert_allclose(found.energy, enumerated(features, X, penalty), rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_energies_belong_to_codes_and_codes_to_rows(name):
    rng = np.random.default_rng(1)
    features, X = drawn(rng, 7, 9, n_rows=30)
    X[rng.random(X.shape) < 0.2] = np.nan
    method = make_association(name)
    found = method.associate(posed(features, X, 0.4))
    away = reference.decode(found.values, features) - X
    energy = np.nansum(away**2, axis=1) + 0.4 * found.values.sum(axis=1) - np.nansum(X**2, axis=1)
    assert_allclose(found.energy, energy, atol=1e-9)
    assert np.all(found.energy >= enumerated(features, X, 0.4) - 1e-9)
    alone = method.associate(posed(features, X[5:6], 0.4))
    assert_array_equal(alone.values[0], found.values[5])


# Least share of rows right with nearly orthogonal features, where no method should fail often.
@pytest.mark.parametrize("name", METHODS)
def test_easy_rows_are_solved_by_all(name):
    rng = np.random.default_rng(2)
    features, X = drawn(rng, 8, 60, n_rows=40, noise=0.1)
    found = make_association(name).associate(posed(features, X))
    right = np.isclose(found.energy, enumerated(features, X))
    assert right.mean() > (0.5 if name == "directed_belief_propagation" else 0.97)


@pytest.mark.parametrize("name", ["mean_field", "gibbs"])
def test_other_methods_with_several_values(name):
    rng = np.random.default_rng(3)
    features, X = drawn(rng, 4, 30, n_values=4, n_rows=100, noise=0.1)
    found = make_association(name).associate(posed(features, X))
    assert np.isclose(found.energy, enumerated(features, X)).mean() > 0.9


@pytest.mark.parametrize(("K", "J"), [(6, 2), (4, 3)])
def test_multistage_search_that_keeps_all_codes_is_exhaustive(K, J):
    rng = np.random.default_rng(K)
    features, rows = rng.normal(size=(K * (J - 1), 4)), 2.0 * rng.normal(size=(40, 4))
    problem = Problem.complete(features, rows, 0.3, J)
    best = [reference.errors(x, features.reshape(K, J - 1, 4), 0.0, 0.3).min() for x in rows]
    before = np.inf
    for kept in (1, J ** (K - 1)):
        found = MultiStage(kept).associate(problem)
        excess = problem.squares + found.energy - best
        assert excess.min() > -1e-9
        assert excess.mean() <= before
        before = excess.mean()
    assert_allclose(excess, 0.0, atol=1e-9)


def test_sequential_search_is_greedy():
    rng = np.random.default_rng(1)
    F, x = rng.normal(size=(5, 3)), rng.normal(size=3)
    code, left = np.full(5, 0.5), np.argsort(-(F**2).sum(axis=1))
    for k in left:
        errors = []
        for value in (0.0, 1.0):
            code[k] = value
            errors.append(((x - code @ F) ** 2).sum())
        code[k] = float(errors[1] < errors[0])
    found = MultiStage(1).associate(Problem.complete(F, x[None]))
    assert_array_equal(found.values[0], code)


@pytest.mark.parametrize("name", ["belief_propagation", "belief_revision"])
def test_messages_are_exact_on_chains(name):
    rng = np.random.default_rng(4)
    for _ in range(20):
        features, X = np.zeros((8, 1, 9)), rng.normal(2.0, 3.0, (5, 9))
        for k in range(8):  # neighbours share a column, so G is a chain
            features[k, 0, k : k + 2] = rng.normal(2.0, 1.0, 2)
        method = BeliefRevision(fall_back=None) if name.endswith("revision") else None
        found = (method or make_association(name)).associate(posed(features, X))
        assert_allclose(found.energy, enumerated(features, X), atol=1e-9)
        assert found.converged.all()


def test_belief_revision_at_rest_is_right_and_else_asks_mean_field(monkeypatch):
    # In a hundred sweeps it meets so many states that mean field has little to add.
    monkeypatch.setattr(belief_revision, "MOST_SWEEPS", 20)
    rng = np.random.default_rng(5)
    at_rest, helped = 0, 0
    for _ in range(150):
        features, X = drawn(rng, rng.integers(3, 15), rng.integers(2, 20), n_rows=4)
        problem = posed(features, X)
        alone = BeliefRevision(fall_back=None).associate(problem)
        least = enumerated(features, X)
        assert_allclose(alone.energy[alone.converged], least[alone.converged], atol=1e-9)
        both = BeliefRevision().associate(problem)
        assert np.all(both.energy <= alone.energy)
        at_rest += alone.converged.sum()
        helped += np.sum(both.energy < alone.energy - 1e-9)
    assert at_rest > 100
    assert helped > 0


def test_directed_belief_revision_of_trees_is_exact():
    rng = np.random.default_rng(6)
    features, X = np.zeros((6, 1, 3)), rng.normal(2.0, 3.0, (40, 3))
    for d, own in enumerate(([0, 1, 2], [2, 3], [3, 4, 5])):  # columns share one feature
        features[own, 0, d] = rng.normal(2.0, 1.0, len(own))
    found = DirectedBeliefRevision().associate(posed(features, X, 0.3))
    assert_allclose(found.energy, enumerated(features, X, 0.3), atol=1e-9)
    assert found.converged.all()


def test_what_cannot_be_asked_is_said():
    assert refusal(make_association("exact"), 100, 9) is None
    assert "n_values=3" in refusal(make_association("belief_revision"), 4, 3)
    assert "n_components=40" in refusal(make_association("directed_belief_revision"), 40, 2)
    with pytest.raises(ValueError, match="choose one of exact"):
        make_association("guess")
    with pytest.raises(ValueError, match="connected with 20 features"):
        DirectedBeliefRevision().associate(posed(*drawn(np.random.default_rng(0), 20, 3)))


def test_features_of_zeros_and_rows_of_nothing():
    features = np.zeros((20, 1, 3))
    X = np.array([[1.0, 2.0, 3.0], [np.nan, np.nan, np.nan]])
    found = Exact().associate(posed(features, X, 0.1))
    assert_array_equal(found.values, 0)
    assert found.converged.all()


@pytest.mark.parametrize("wrong", [np.full((2, 3), 2), np.full((2, 3), -1), np.zeros((2, 4), int)])
def test_codes_beyond_the_features_are_refused(wrong):
    problem = posed(*drawn(np.random.default_rng(0), 3, 5))
    with pytest.raises(ValueError, match=r"outside 0 to 1|number of features"):
        problem.energy(wrong)
