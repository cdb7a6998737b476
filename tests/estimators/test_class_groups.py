"""Classes of groups of parts: what `MCVQ` with ``part_groups`` learns, answers and refuses."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special, stats
from sklearn.base import clone

from partwise import MCVQ, Translations, load
from partwise.answers import states as answers
from partwise.answers import tables
from partwise.files.model import ModelFileError
from partwise.files.onnx import export_onnx
from partwise.fitted import fitted_of
from partwise.report import write_report
from partwise.report.embed import embed
from partwise.sampling import importance
from partwise.sampling.importance import mix_classes
from partwise.starts import classes

GROUPS = [0, 0, 1, 1]


@pytest.fixture(scope="module")
def drawn():
    """Rows of four parts in two groups, whose classes depend on that of the row, and the class."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=400)
    z = np.stack([y ^ (rng.random(400) < 0.2) for _ in range(2)], axis=1)
    states = z[:, GROUPS] ^ (rng.random((400, 4)) < 0.1)
    X = np.repeat(np.where(states, 2.5, -2.5), 2, axis=1) + rng.normal(size=(400, 8))
    X[rng.random(X.shape) < 0.1] = np.nan
    X[7] = np.nan  # a row without any value
    return X, y


@pytest.fixture(scope="module", autouse=True)
def _few_beginnings():
    """Classes of these rows are found from the first beginnings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classes, "N_STARTS", 4)
        patch.setattr(classes, "N_BEST", 1)
        yield


@pytest.fixture(scope="module")
def fitted(drawn):
    return MCVQ(4, 2, n_classes=2, part_groups=2, random_state=0).fit(drawn[0])


def group_of_columns(model):
    return model.part_groups_[model.parts_]


def test_groups_are_found(fitted, drawn):
    groups = group_of_columns(fitted)
    assert len(set(groups[:4])) == len(set(groups[4:])) == 1 < len(set(groups))
    assert_allclose(fitted.group_class_priors_.sum(axis=2), 1.0)
    assert_allclose(fitted.group_state_priors_.sum(axis=2), 1.0)
    assert_allclose(fitted.state_priors_.sum(axis=2), 1.0)
    assert fitted.state_priors_.shape == fitted.class_given_state_.shape == (2, 4, 2)
    assert_array_equal(np.sort(fitted.class_priors_)[::-1], fitted.class_priors_)
    plain = MCVQ(4, 2, n_classes=2, random_state=0).fit(drawn[0])
    assert fitted.lower_bound_ > plain.lower_bound_
    assert np.all(np.diff(fitted.lower_bounds_) > -1e-9 * abs(fitted.lower_bound_))


def test_labels_are_those_of_rows_and_groups_may_be_given(drawn):
    X, y = drawn
    some = np.where(np.arange(len(y)) % 2 == 0, y, -1)
    model = MCVQ(4, 2, part_groups=np.array([0, 1, 0, 1]), n_group_classes=3, random_state=0)
    model.fit(X, some)
    assert_array_equal(model.part_groups_, [0, 1, 0, 1])
    assert model.group_class_priors_.shape == (2, 2, 3)
    assert np.mean(model.predict(X) == y) > 0.7


def enumerated(model, X):
    """Log-likelihood (T, n) of rows, class by class and state by state, parts of entries too."""
    fitted = fitted_of(model)
    law, gates = answers.laws(fitted)[0], fitted.params.gates
    group = fitted.columns[0]
    coded = (X - group.shift) / group.scale
    first = answers.core(fitted).first
    d = np.arange(X.shape[1])
    laws = [law.at((np.full(len(d), s), d)) for s in range(first[-1])]
    with np.errstate(invalid="ignore"):
        table = np.stack([each.log_density(coded) for each in laws])
    b = answers.group_shares(fitted)
    A = answers.core(fitted).linked(fitted.params.links)
    links = A.means
    T, N = links.shape[1:]
    states = [range(lo, hi) for lo, hi in itertools.pairwise(first)]
    total = np.zeros((T, len(X)))
    for s in itertools.product(*states):
        mixed = sum(gates[k] * np.exp(table[s[k]]) for k in range(len(s)))
        density = np.nanprod(np.where(np.isnan(X), 1.0, mixed / group.scale), axis=1)
        for t in range(T):
            prior = 1.0
            for g in range(len(links)):
                own = [k for k in range(len(s)) if A.groups[k] == g]
                prior *= sum(links[g, t, z] * np.prod([b[z, s[k]] for k in own]) for z in range(N))
            total[t] += prior * density
    return np.log(total)


@pytest.mark.parametrize("open_gates", [False, True])
def test_likelihoods_equal_enumeration(fitted, drawn, open_gates, monkeypatch):
    model, X = clone(fitted).set_params(max_iter=1, tol=1e6), drawn[0][:25]
    model.fit(drawn[0])
    if open_gates:
        params = fitted_of(model).params
        g = 0.7 * params.gates + 0.3 / len(params.gates)
        params = replace(params, gate=replace(params.gate, g=g))
        model._fitted = replace(fitted_of(model), params=params)
        assert np.all(params.gates.max(axis=0) < 1.0)
    by_class = enumerated(model, X)
    found = answers.likelihoods(fitted_of(model), X, 50)
    assert_allclose(found.log_likelihood, by_class, rtol=1e-8, atol=1e-12)
    assert_allclose(
        model.predict_proba(X),
        special.softmax(by_class.T + np.log(model.class_priors_), axis=1), atol=1e-6,
    )  # fmt: skip
    sampled = answers.likelihoods(fitted_of(model), X, 4000, from_prior=True)
    monkeypatch.setattr(importance, "MOST_WEIGHTS", 7 * 4000 * len(model.n_states_))
    in_pieces = answers.likelihoods(fitted_of(model), X, 4000, from_prior=True)
    assert_allclose(in_pieces.log_likelihood, sampled.log_likelihood, rtol=1e-12)
    whole = mix_classes(sampled, np.log(model.class_priors_))
    exact = special.logsumexp(by_class.T + np.log(model.class_priors_), axis=1)
    away = (whole.log_likelihood - exact) / np.maximum(whole.standard_error, 1e-9)
    assert np.abs(away).mean() < 2.0


def test_samples_have_the_dependence_of_the_tree(fitted):
    rows, labels = fitted.sample(4000, random_state=0)
    given = fitted.predict_proba(rows)
    assert np.mean(fitted.classes_[given.argmax(axis=1)] == labels) > 0.7
    share = np.mean(labels == 0)
    assert abs(share - fitted.class_priors_[0]) < 4 * np.sqrt(0.25 / 4000)
    seen = stats.spearmanr(rows)[0]
    means = [np.abs(seen[:4, :4][np.triu_indices(4, 1)]).mean(), np.abs(seen[:4, 4:]).mean()]
    assert means[0] > means[1] > 0.1
    # Dependence of columns in one group is that of its classes, and larger than across groups.
    table = fitted.dependence()
    assert table[:2, 2:4].mean() > table[:2, 4:].mean() > 0
    hybrid, states = fitted.sample(200, hybrid={0: 1}, random_state=0)
    assert hybrid.shape == (200, 8)
    assert states.shape == (200, 4)


def test_sampled_values_keep_what_parts_say_of_each_other(fitted, drawn):
    holed = drawn[0].copy()
    holed[:, :4] = np.nan
    rng = np.random.default_rng(0)
    (values,) = tables.draw(fitted_of(fitted), holed, [rng])
    seen, across = np.corrcoef(values[:, :4].T), np.corrcoef(np.nan_to_num(values).T)
    assert seen[:2, 2:].min() > 0.35 > across[:4, 4:].mean() > 0.1  # in the data .50 and .15


@pytest.mark.ci
def test_weights_and_threads_change_nothing(fitted, drawn):
    X = drawn[0]
    twice = clone(fitted).set_params(n_jobs=2).fit(X)
    assert_allclose(twice.lower_bound_, fitted.lower_bound_, rtol=1e-7)
    weight = np.r_[np.full(200, 2.0), np.zeros(200)]
    weighted = clone(fitted).fit(X, sample_weight=weight)
    repeated = clone(fitted).fit(np.vstack([X[:200], X[:200]]))
    assert_allclose(weighted.lower_bound_, repeated.lower_bound_, rtol=1e-4)


def test_warm_start_and_checkpoint_go_on(fitted, drawn, tmp_path):
    X = drawn[0]
    again = clone(fitted).fit(X, checkpoint=tmp_path / "fit")
    assert again.lower_bound_ == fitted.lower_bound_
    again.set_params(warm_start=True, max_iter=2, tol=0.0)
    with pytest.warns(Warning, match="did not converge"):
        again.fit(X)
    assert again.lower_bound_ >= fitted.lower_bound_ - 1e-9
    assert_array_equal(again.part_groups_, fitted.part_groups_)
    for other in ({"part_groups": None}, {"n_group_classes": 3}, {"part_groups": [0, 1, 1, 1]}):
        with pytest.raises(ValueError, match="warm_start=True needs"):
            again.set_params(**{"part_groups": 2, "n_group_classes": None, **other}).fit(X)


def test_files_keep_the_groups(fitted, drawn, tmp_path):
    X = drawn[0]
    fitted.save(tmp_path / "model.pw")
    again = load(tmp_path / "model.pw")
    assert_array_equal(again.group_class_priors_, fitted.group_class_priors_)
    assert_array_equal(again.part_groups_, fitted.part_groups_)
    assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    links = fitted_of(fitted).params.links
    wrong = {
        "part_groups": None,
        "links.groups": replace(links, groups=links.groups + 1),
        "count different rows": replace(links, counts=links.counts * [[[1.0]], [[2.0]]]),
        "sizes": replace(links, counts=links.counts[:1], groups=links.groups * 0),
    }
    broken = clone(fitted)
    for message, other in wrong.items():
        params = replace(fitted_of(fitted).params, links=other)
        broken._fitted = replace(fitted_of(fitted), params=params)
        broken.save(tmp_path / "broken.pw")
        with pytest.raises(ModelFileError, match=message):
            load(tmp_path / "broken.pw")


def test_what_the_page_and_onnx_cannot_run(fitted, drawn, tmp_path):
    assert embed(fitted) is None
    write_report(fitted, tmp_path / "page.html", drawn[0][:3])
    with pytest.raises(ValueError, match="part_groups=None"):
        export_onnx(fitted, tmp_path / "model.onnx")
    assert not hasattr(fitted, "partial_fit")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_classes": None}, "part_groups needs classes"),
        ({"part_groups": None, "n_group_classes": 2}, "n_group_classes needs part_groups"),
        ({"part_groups": 5}, "part_groups=5 is more than n_parts=4"),
        ({"part_groups": [0, 1]}, "part_groups has 2 groups of parts, but n_parts=4"),
        ({"part_groups": [0, 2, 0, 2]}, "without gaps"),
        ({"part_groups": [0.5, 1, 0, 1]}, "must be the number of groups"),
        ({"n_parts": "auto", "part_groups": [0, 1]}, "n_parts='auto'"),
        ({"class_chain": True}, "does not support class_chain=True"),
        ({"gating": "factorised"}, 'does not support gating="factorised"'),
        ({"inference": "gibbs"}, 'does not support inference="gibbs"'),
        ({"transformations": Translations((2, 4), max_shift=1)}, "support transformations"),
    ],
)
def test_bad_arguments_are_refused(drawn, arguments, message):
    model = MCVQ(4, 2, n_classes=2, part_groups=2).set_params(**arguments)
    with pytest.raises(ValueError, match=message):
        model.fit(drawn[0])


@pytest.mark.ci
def test_groups_without_parts_say_nothing():
    rng = np.random.default_rng(0)
    X = np.where(rng.integers(2, size=100), 2.0, -2.0)[:, None] + rng.normal(size=(100, 4))
    model = MCVQ("auto", "auto", n_classes=2, part_groups=1, random_state=0)
    one, three = (clone(model).set_params(part_groups=g).fit(X) for g in (1, 3))
    assert three.n_parts_ == 1  # so that two groups are empty
    assert_allclose(three.score_samples(X), one.score_samples(X), rtol=1e-5)
    assert three.lower_bound_ == pytest.approx(one.lower_bound_, abs=0.2)  # the prior's share
