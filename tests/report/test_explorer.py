"""The page in a real browser: what it computes is what Python computes, and people can use it."""

import sys
import warnings
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imsave
from scipy import sparse

from partwise import MCFA, MCVQ, Recommender, Translations, make_faces, make_shapes
from partwise.models.moving_parts import PartRows
from partwise.report import write_report
from tests.common.browser import chromium, opened

SCRIPT = "</script><script>alert(1)</script>"
ODD = f"<!-- <script> \u2028 \u2029 & \" ' {{{{ x }}}} {SCRIPT} <img src=x onerror=alert(2)>"
AGREE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def faces():
    return make_faces(400, random_state=0)


@pytest.fixture(scope="module")
def face_model(faces):
    labels = np.array(faces.target_names)[faces.target]
    return MCVQ(5, 12, random_state=0).fit(faces.data[:350], labels[:350])


@pytest.fixture(scope="module")
def face_page(face_model, faces, tmp_path_factory):
    path = tmp_path_factory.mktemp("faces") / "faces.html"
    write_report(face_model, path, faces.data[350:], faces.image_shape)
    return path


@pytest.fixture(scope="module")
def table():
    """Three groups of columns, each in one of three states; with holes."""
    rng = np.random.default_rng(0)
    X = 4.0 * rng.integers(3, size=(120, 3)).repeat(3, axis=1) + rng.normal(size=(120, 9))
    X[rng.random(X.shape) < 0.2] = np.nan
    X[0] = np.nan
    X[1, :3] = [0.0, 9.0, -5.0]
    return X


@pytest.fixture(scope="module")
def ratings():
    rng = np.random.default_rng(0)
    U, D = 200, 24
    taste, liked = rng.integers(2, size=(U, 2)), rng.integers(2, size=D)
    true = 3 + 1.3 * (2 * (taste[:, np.arange(D) % 2] == liked) - 1)
    true = np.clip(np.rint(true + 0.7 * rng.normal(size=(U, D))), 1, 5)
    user, item = np.nonzero(rng.random((U, D)) < np.linspace(0.7, 0.2, D))
    return user, [f"item {i}" for i in item], true[user, item]


def listed(rows):
    """Rows as JSON has them: None where missing."""
    return [[None if np.isnan(x) else float(x) for x in row] for row in np.atleast_2d(rows)]


# What the page makes of rows, all at once.
INFER = """(rows) => rows.map((row) => {
  const { model } = partwise;
  const values = Float64Array.from(row, (x) => (x === null ? NaN : x));
  const found = model.infer(values);
  return {
    code: found.m.slice(0, model.nParts).flatMap((own) => Array.from(own)),
    expected: Array.from(model.expect(found)),
    filled: Array.from(model.fill(found)),
    parts: model.partLikelihoods(values),
    whole: model.likelihood(values)?.logLikelihood ?? null,
    classes: Array.from(model.classes(values, found)),
    reasons: model.explain(values, found).map((part) => part.columns.slice(0, 5)),
  };
})"""

MODELS = {
    "numbers": (MCVQ(3, 4), lambda X: X),
    "maximum likelihood": (MCVQ(3, 4, prior=None), lambda X: X),
    "columns of several parts": (
        MCVQ(3, 4, gating="standard", init="random", max_iter=8),
        lambda X: X,
    ),
    "found classes": (MCVQ(3, 4, n_classes=3), lambda X: X),
    "yes or no": (MCVQ(3, 3, likelihood="bernoulli"), lambda X: np.where(X > 3, 1.0, 0 * X)),
    "levels": (MCVQ(3, 3, likelihood="categorical"), lambda X: 2.5 * np.round(X / 4)),
    "counts": (MCVQ(3, 3, likelihood="poisson"), lambda X: np.maximum(np.round(X), 0)),
    "overdispersed counts": (
        MCVQ(3, 3, likelihood="negative_binomial"),
        lambda X: np.maximum(np.round(X), 0),
    ),
    "many zeros": (
        MCVQ(3, 3, likelihood="zero_inflated"),
        lambda X: np.maximum(np.round(X) - 2, 0),
    ),
    "angles": (MCVQ(3, 3, likelihood="circular"), lambda X: np.clip(X / 2, -6, 6)),
    "degrees": (MCVQ(3, 3, likelihood="degrees"), lambda X: np.clip(30 * X, -350, 350)),
    "factors": (MCFA(3, 2), lambda X: X),
    "factors and classes": (MCFA(3, 2, n_classes=2), lambda X: X),
    "ordered levels": (MCFA(2, 2, likelihood="ordinal"), lambda X: np.clip(np.round(X / 2), 0, 4)),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_are_inferred_as_python_does(name, browser, table, tmp_path):
    estimator, convert = MODELS[name]
    X = convert(table)
    model = estimator.set_params(random_state=0).fit(X)
    write_report(model, tmp_path / "page.html")
    some = X[:30]
    with opened(browser, tmp_path / "page.html") as page:
        found = page.evaluate(INFER, listed(some))
    np.testing.assert_allclose([row["code"] for row in found], model.transform(some), **AGREE)
    np.testing.assert_allclose([row["expected"] for row in found], model.reconstruct(some), **AGREE)
    filled = np.where(np.isnan(some), [row["filled"] for row in found], some)
    np.testing.assert_allclose(filled, model.impute(some), **AGREE)
    if found[0]["parts"] is not None:
        parts = [row["parts"] for row in found]
        np.testing.assert_allclose(parts, -model.anomaly_scores(some), **AGREE)
    if found[0]["whole"] is not None:
        whole = [row["whole"] for row in found]
        np.testing.assert_allclose(whole, model.score_samples(some), **AGREE)
        if hasattr(model, "classes_"):
            classes = [row["classes"] for row in found]
            np.testing.assert_allclose(classes, model.predict_proba(some), **AGREE)
    assert (found[0]["parts"] is None) == (name == "ordered levels")
    assert (found[0]["whole"] is None) == (name in ("ordered levels", "columns of several parts"))
    for row, x in zip(found[:8], some, strict=False):
        for ours, theirs in zip(row["reasons"], model.explain(x), strict=True):
            for key in ("expected", "evidence"):
                np.testing.assert_allclose(
                    [one[key] for one in ours], [one[key] for one in theirs["columns"]], **AGREE
                )


INTERVIEW = """([person, target]) => {
  const { model } = partwise;
  const ratings = new Map(person);
  return {
    shares: model.shares(ratings).map((one) => Array.from(one)),
    gains: Array.from(model.gains(ratings)),
    question: model.nextQuestion(ratings),
    best: model.recommend(ratings, 5),
    because: ratings.size ? model.because(ratings, target, 3) : [],
    neighbors: model.neighbors(target, 4),
  };
}"""

MEMBERS = {
    "states": MCVQ(2, 3, likelihood="categorical", random_state=0),
    "states of numbers": MCVQ(2, 3, random_state=0),
    "ordered levels": MCFA(1, 3, likelihood="ordinal", random_state=0),
    "several": [
        MCVQ(2, 3, likelihood="categorical", random_state=0),
        MCFA(1, 2, likelihood="ordinal", random_state=0),
    ],
}


def popular_question(model, person):
    """What the page asks, which has no choice model: who can answer is told by popularity."""
    gains = model.interview(person).gains()
    counts = dict(zip(model.items_, model.item_counts(), strict=True))
    return max(gains, key=lambda item: gains[item] * counts[item])


@pytest.mark.parametrize(
    ("name", "rated_set"), [*((name, False) for name in MEMBERS), ("several", True)]
)
def test_interviews_go_as_in_python(name, rated_set, browser, ratings, tmp_path):
    model = Recommender(MEMBERS[name], levels=[1, 2, 3, 4, 5], rated_set=rated_set).fit(ratings)
    write_report(model, tmp_path / "page.html")
    items = model.items_
    people = [{}, {"item 0": 5}, {"item 2": 1, "item 3": 5, "item 9": 2, "item 20": 4}]
    with opened(browser, tmp_path / "page.html") as page:
        for person in people:
            pairs = sorted((items.index(item), rating) for item, rating in person.items())
            found = page.evaluate(INTERVIEW, [pairs, items.index("item 5")])
            np.testing.assert_allclose(found["shares"], model.predict_distribution(person), **AGREE)
            gains = model.interview(person).gains()
            ours = [found["gains"][items.index(item)] for item in gains]
            np.testing.assert_allclose(ours, list(gains.values()), rtol=1e-5, atol=1e-6)
            assert items[found["question"]] == popular_question(model, person)
            best = model.recommend(person, 5, by="rating")
            assert [items[one["item"]] for one in found["best"]] == [one.item for one in best]
            for key in ("rating", "lower", "upper"):
                theirs = [getattr(one, key) for one in best]
                np.testing.assert_allclose([one[key] for one in found["best"]], theirs, **AGREE)
            reasons = model.explain(person, "item 5", n=3)
            assert [items[one["item"]] for one in found["because"]] == [
                one["item"] for one in reasons["because"]
            ]
            effects = [one["effect"] for one in reasons["because"]]
            np.testing.assert_allclose(
                [one["effect"] for one in found["because"]], effects, **AGREE
            )
            assert [items[d] for d in found["neighbors"]] == model.similar_items("item 5", 4)


def test_items_left_out_count_in_questions(browser, ratings, tmp_path, monkeypatch):
    monkeypatch.setattr(import_module("partwise.report.collect"), "_MAX_ITEMS", 20)
    for estimator in (MEMBERS["states"], MEMBERS["ordered levels"]):
        model = Recommender(estimator, levels=[1, 2, 3, 4, 5]).fit(ratings)
        write_report(model, tmp_path / "page.html")
        with opened(browser, tmp_path / "page.html") as page:
            names = page.evaluate("partwise.content.names")
            found = page.evaluate(INTERVIEW, [[[names.index("item 3"), 5]], 0])
        assert len(names) == 20
        gains = model.interview({"item 3": 5}).gains()
        ours = [found["gains"][d] for d, name in enumerate(names) if name != "item 3"]
        theirs = [gains[name] for name in names if name != "item 3"]
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
        best = model.recommend({"item 3": 5}, 5, among=names, by="rating")
        assert [names[one["item"]] for one in found["best"]] == [one.item for one in best]


# --- images ---


def gray(values, limits):
    return np.rint(255 * np.clip((values - limits[0]) / (limits[1] - limits[0]), 0, 1))


PIXELS = """(canvas) => Array.from(
  canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data)"""


def pixels(locator):
    return np.reshape(locator.evaluate(PIXELS), (-1, 4))[:, 0]


def certain(model, states):
    """The row that is expected of sure states."""
    first = np.cumsum([0, *model.n_states_])[:-1]
    sure = np.zeros((1, model.get_feature_names_out().size))
    sure[0, first + states] = 1.0
    return model.inverse_transform(sure)[0]


def test_choosing_states_changes_the_sketch(browser, face_page, face_model):
    with opened(browser, face_page) as page:
        limits = page.evaluate("partwise.content.limits")
        before = page.evaluate("partwise.panels.sketch.code")
        group = page.get_by_role("radiogroup", name="States of part 1", exact=True)
        group.get_by_role("radio").nth(3).click()
        states = page.evaluate("partwise.panels.sketch.code")
        assert [a == b for a, b in zip(before, states, strict=True)] == [1, 0, 1, 1, 1]
        assert page.locator("[aria-checked=true][aria-label^='State']").count() == 5
        expected = certain(face_model, states)
        values = page.evaluate("Array.from(partwise.panels.sketch.values)")
        np.testing.assert_allclose(values, expected, **AGREE)
        canvas = page.locator(".stage canvas")
        np.testing.assert_allclose(pixels(canvas), gray(expected, limits), atol=1)
        assert f"part 1 in state {states[1]}" in canvas.get_attribute("aria-label")
        # The same by keyboard: arrows move and choose, in one stop of the tab order.
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowLeft")
        order = page.evaluate("partwise.content.parts[1].order")
        assert page.evaluate("partwise.panels.sketch.code[1]") == order[2]
        assert page.evaluate("document.activeElement.getAttribute('aria-checked')") == "true"
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Sample part 2"
        # A click on the picture leads to the part that is there.
        inside = np.flatnonzero(face_model.parts_ == 4)[5]
        box, (row, column) = canvas.bounding_box(), divmod(int(inside), 32)
        canvas.click(
            position={
                "x": (column + 0.5) * box["width"] / 32,
                "y": (row + 0.5) * box["height"] / 32,
            }
        )
        assert (
            page.evaluate("document.activeElement.parentElement.getAttribute('aria-label')")
            == "States of part 4"
        )


def test_classes_are_drawn_and_mixed(browser, face_page, face_model):
    with opened(browser, face_page) as page:
        page.get_by_role("button", name="Sample sunglasses").click()
        weights = page.evaluate("partwise.panels.sketch.weights")
        assert weights == [0, 0, 0, 0, 1]
        draw = "partwise.model.sample(2, partwise.panels.sketch.weights)"
        drawn = page.evaluate(f"Array.from({{length: 3000}}, () => {draw})")
        share = np.bincount(drawn, minlength=12) / 3000
        np.testing.assert_allclose(share, face_model.state_priors_[4, 2], atol=0.05)
        page.get_by_role("slider", name="Weight of sunglasses").fill("0")
        page.get_by_role("button", name="Sample", exact=True).click()
        assert "Set the weight" in page.locator(".stage [role=status]").inner_text()
        page.get_by_role("slider", name="Weight of smile").press("End")
        page.get_by_role("button", name="Sample", exact=True).click()
        states = page.evaluate("partwise.panels.sketch.code")
        assert all(face_model.state_priors_[3, k, j] > 0 for k, j in enumerate(states))


CODE = "partwise.panels.inspector.found.m.slice(0, 5).flatMap((own) => Array.from(own))"


def test_what_is_painted_out_is_completed(browser, face_page, face_model, faces):
    with opened(browser, face_page) as page:
        name = page.evaluate("partwise.rows.names[3]")
        page.get_by_role("radio", name=name, exact=True).click()
        x = faces.data[349 + int(name.removeprefix("Row "))].astype(np.float32).astype(float)
        inspector = "partwise.panels.inspector"

        def check():
            hidden = np.array(page.evaluate(f"Array.from({inspector}.hidden)"), dtype=bool)
            holed = np.where(hidden, np.nan, x)[None]
            completed = page.evaluate(f"Array.from({inspector}.result)")
            np.testing.assert_allclose(completed, face_model.impute(holed)[0], **AGREE)
            code = page.evaluate(CODE)
            np.testing.assert_allclose(code, face_model.transform(holed)[0], **AGREE)
            limits = page.evaluate("partwise.content.limits")
            shown = pixels(page.locator(".trio canvas").nth(1))
            np.testing.assert_allclose(shown, gray(np.array(completed), limits), atol=1)
            best = face_model.predict(holed)[0]
            assert (
                f"Class: {best}." in page.locator(".panel:has(.trio) > [role=status]").inner_text()
            )
            return int(hidden.sum())

        assert check() == 0
        page.get_by_role("button", name="Hide bottom").click()
        assert check() == 512
        page.get_by_role("button", name="Show all").click()
        canvas = page.locator("canvas.paint")
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] * 0.7)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + box["height"] * 0.7, steps=8)
        page.mouse.up()
        assert 40 < check() < 200
        page.get_by_role("button", name="Show all").click()
        page.get_by_role("slider", name="Brush").fill("3")
        canvas.focus()
        for key in ("ArrowUp", "ArrowLeft", "Space"):
            page.keyboard.press(key)
        hidden = np.reshape(page.evaluate(f"Array.from({inspector}.hidden)"), (32, 32))
        assert hidden[14:17, 14:17].all()
        assert check() == 9
        page.keyboard.press("Delete")
        assert check() == 0
        page.get_by_role("button", name="Take its parts").click()
        assert (
            page.evaluate("partwise.panels.sketch.code")
            == face_model.predict_states(x[None])[0].tolist()
        )


def test_an_image_of_ones_own(browser, face_page, face_model, tmp_path):
    own = np.tile(np.linspace(0, 1, 64), (64, 1))
    imsave(tmp_path / "own.png", own, cmap="gray", vmin=0, vmax=1)
    (tmp_path / "no.png").write_text("no image")
    with opened(browser, face_page) as page:
        upload = page.locator("input[type=file]")
        upload.set_input_files(tmp_path / "own.png")
        # An example stays chosen until the file is read.
        chosen = "partwise.panels.inspector.strip.element.querySelector('[aria-checked=true]')"
        for _ in range(100):
            if page.evaluate(f"!{chosen}"):
                break
            page.wait_for_timeout(50)
        values = np.reshape(page.evaluate("Array.from(partwise.panels.inspector.values)"), (32, 32))
        low, high = page.evaluate("partwise.content.limits")
        assert np.all(np.diff(values.mean(axis=0)) > 0)
        np.testing.assert_allclose(values[:, [0, -1]].mean(axis=0), [low, high], atol=0.05)
        code = page.evaluate(
            "partwise.panels.inspector.found.m.slice(0, 5).flatMap((m) => Array.from(m))"
        )
        np.testing.assert_allclose(code, face_model.transform(values.reshape(1, -1))[0], **AGREE)
        upload.set_input_files(tmp_path / "no.png")
        page.get_by_text("no.png is not an image that this browser can read").wait_for()


def test_factors_of_images(browser, tmp_path):
    shapes = make_shapes()
    model = MCFA(3, 2, tol=0.1, random_state=0).fit(shapes.data)
    write_report(model, tmp_path / "page.html", shapes.data[:5], shapes.image_shape)
    with opened(browser, tmp_path / "page.html") as page:
        slider = page.get_by_role("slider", name="Part 1, factor 0")
        slider.focus()
        for _ in range(5):
            page.keyboard.press("ArrowRight")
        values = page.evaluate("Array.from(partwise.panels.sketch.values)")
        expected = model.inverse_transform([[0, 0, 0.5, 0, 0, 0]])[0]
        np.testing.assert_allclose(values, expected, **AGREE)


# --- tables, texts, ratings ---


def test_a_table_by_keyboard_and_by_search(browser, table, tmp_path):
    frame = pd.DataFrame(table, columns=[f"c{d}" for d in range(9)])
    frame.index = [f"row {i}" for i in range(len(frame))]
    model = MCVQ(3, 4, random_state=0).fit(frame.drop("row 1"))  # that one is odd
    write_report(model, tmp_path / "page.html", frame)
    with opened(browser, tmp_path / "page.html") as page:
        page.get_by_role("combobox", name="Order of the rows").select_option("given")
        heat = page.locator("canvas.heat")
        heat.focus()
        for key in ("ArrowDown", "ArrowRight", "Enter"):
            page.keyboard.press(key)
        assert page.evaluate("partwise.panels.reader.shown") == 1
        d = page.evaluate("partwise.content.columnOrder[1]")
        said = page.locator(".panel:has(canvas.heat) > [role=status]").inner_text()
        assert said.startswith(f"row 1, c{d}: ")
        assert page.locator(".tip").inner_text() == said
        reader = page.locator(".panel:has(.row-parts)")
        said = reader.locator("> [role=status]").inner_text()
        names = page.evaluate("partwise.content.parts.map((part) => part.name)")
        assert names[model.parts_[0]] in said.split("Anomalous part")[1]
        score = reader.locator(".is-anomalous .score").all_inner_texts()
        assert any(one.startswith("More anomalous than all other rows here.") for one in score)
        # Missing cells are gray.
        row, column = map(int, np.argwhere(np.isnan(table[2:]))[0])
        place = page.evaluate(f"partwise.content.columnOrder.indexOf({column})")
        color = heat.evaluate(
            """(canvas, [y, x]) => {
              const { width, height, band } = partwise.panels.map;
              const at = [(x + 0.5) * width, band + (y + 0.5) * height];
              return Array.from(canvas.getContext("2d").getImageData(...at, 1, 1).data);
            }""",
            [row + 2, place],
        )
        assert color == [0xAA, 0xB2, 0xBD, 255]
        search = page.get_by_role("searchbox", name="Find rows")
        search.fill("c0 = missing, c1 > 2")
        wanted = np.flatnonzero(np.isnan(table[:, 0]) & (table[:, 1] > 2))
        found = page.locator(".search").get_by_role("radio")
        assert found.all_inner_texts() == [f"row {i}" for i in wanted[:24]]
        assert sorted(page.evaluate("partwise.panels.map.rows")) == wanted.tolist()
        said = page.locator(".search [role=status]")
        search.fill("c99 > 3")
        assert said.inner_text() == 'There is no column "c99".'
        search.fill("c0 > tall")
        assert said.inner_text() == '"tall" is not a value of c0.'
        search.fill("ROW 17")
        page.get_by_role("radio", name="row 17").click()
        # Emptied and changed values count at once.
        x = table[17].copy()
        x[1], x[5] = 3.25, np.nan
        page.get_by_role("spinbutton", name="c1", exact=True).fill("3.25")
        page.get_by_role("spinbutton", name="c5", exact=True).fill("")
        filled = page.evaluate("Array.from(partwise.panels.reader.filled)")
        changed = pd.DataFrame([x], columns=frame.columns)
        np.testing.assert_allclose(filled, model.reconstruct(changed)[0], **AGREE)
        titles = reader.locator(".card h4").all_inner_texts()
        for k, part in enumerate(model.explain(x)):
            number = page.evaluate(f"partwise.panels.stateNumber({k}, {part['state']})")
            assert titles[k].startswith(f"{names[k]} state {number}")
        page.get_by_role("button", name="Reset").click()
        filled = page.evaluate("Array.from(partwise.panels.reader.filled)")
        np.testing.assert_allclose(filled, model.reconstruct(frame[17:18])[0], **AGREE)


@pytest.fixture(scope="module")
def mixed():
    """Columns of every kind, in two parts; with holes, and one column that no model uses."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(3, size=(2, 200))
    grades = ["poor", "fair", "good"]
    frame = pd.DataFrame(
        {
            "height": 170 + 9 * a + rng.normal(size=200),
            "income": np.exp(6 + 0.8 * a + rng.normal(size=200)),
            "visits": rng.poisson(np.array([1, 4, 9])[a]),
            "color": np.array(["red", SCRIPT, "blue"])[(b + (rng.random(200) < 0.1)) % 3],
            "grade": pd.Categorical(np.array(grades)[b], grades, ordered=True),
            "member": (b == 1) ^ (rng.random(200) < 0.1),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(200 * b + rng.integers(50), "D"),
            "note": [f"free text {i}" for i in range(200)],
        }
    )
    for name in frame.columns[:7]:
        frame[name] = frame[name].astype(object if name == "member" else frame[name].dtype)
        frame.loc[rng.random(200) < 0.15, name] = None
    return frame


def test_tables_of_several_kinds(browser, mixed, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MCVQ(2, 3, likelihood="auto", random_state=0).fit(mixed)
        write_report(model, tmp_path / "page.html", mixed)
        some = mixed[:40]
        coded = model._check_rows(some, reset=False)
        kinds = {"gaussian", "lognormal", "poisson", "categorical", "ordinal", "bernoulli"}
        assert set(model.kinds_) == {*kinds, "ignored"}
        with opened(browser, tmp_path / "page.html") as page:
            found = page.evaluate(INFER, listed(coded))
            np.testing.assert_allclose(
                [row["code"] for row in found], model.transform(some), **AGREE
            )
            used = model.kinds_ != "ignored"
            filled = np.array([row["filled"] for row in found])[:, used]
            np.testing.assert_allclose(filled, model._impute(coded)[:, used], **AGREE)
            parts = [row["parts"] for row in found]
            np.testing.assert_allclose(parts, -model.anomaly_scores(some), **AGREE)
            # The page sums states out where every column has one part.
            closed = np.all(model._fitted.params.gates[:, used].max(axis=0) >= 1.0)
            assert (found[0]["whole"] is not None) == closed
            # All is shown, and read back, in the user's own terms.
            complete = int(np.flatnonzero(mixed.iloc[:, :7].notna().all(axis=1))[0])
            page.evaluate(f"partwise.panels.choose({complete})")
            for name in mixed.columns[:7]:
                field = page.get_by_label(name, exact=True)
                value, shown = mixed[name][complete], field.input_value()
                if name in ("height", "income", "visits"):
                    assert float(shown) == pytest.approx(value)
                else:
                    assert shown == (str(value.date()) if name == "since" else str(value))
            # Averages of whole numbers have one decimal, and what is hardly above zero is zero.
            said = page.evaluate(
                "(d) => [3.14159, 2.704e-5, 0.04].map((v) => partwise.terms[d].text(v))",
                list(mixed).index("visits"),
            )
            assert said == ["3.1", "0", "0.04"]
            page.get_by_label("color", exact=True).select_option("blue")
            page.get_by_label("income", exact=True).fill("1234.5")
            page.get_by_label("since", exact=True).fill("2020-05-06")
            page.get_by_label("grade", exact=True).select_option("missing")
            changed = mixed[complete : complete + 1].copy()
            changed["color"], changed["income"] = "blue", 1234.5
            changed["since"], changed["grade"] = pd.Timestamp("2020-05-06"), None
            values = page.evaluate("Array.from(partwise.panels.reader.values)")
            expected = model._check_rows(changed, reset=False)[0]
            np.testing.assert_allclose(values, expected, **AGREE)
            line = page.get_by_role("row").filter(has=page.get_by_label("grade", exact=True))
            assert (
                str(model.impute(changed)["grade"].iloc[0]) in line.locator(".filled").inner_text()
            )
            page.get_by_role("searchbox").fill("color = blue, since > 2020-12-01")
            wanted = (mixed["color"] == "blue") & (mixed["since"] > pd.Timestamp("2020-12-01"))
            said = page.locator(".search [role=status]").inner_text()
            assert said.startswith(f"{wanted.sum()} rows found")


def test_the_overview_of_a_table(browser, mixed, tmp_path):
    frame = mixed.set_axis([f"person {i}" for i in range(len(mixed))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MCVQ(2, 3, likelihood="auto", random_state=0).fit(frame)
        write_report(model, tmp_path / "page.html", frame)
    with opened(browser, tmp_path / "page.html", accept_downloads=True) as page:
        # Parts are named by their strongest columns, and take another name everywhere.
        name = page.evaluate("partwise.partNames.get(0)")
        heading = page.locator("#part-0")
        assert heading.inner_text().startswith(f"Part 1: {name}")
        heading.get_by_role("button", name="Rename").click()
        page.get_by_role("textbox", name="Name of part 1").fill("body & money")
        page.keyboard.press("Enter")
        assert heading.inner_text().startswith("Part 1: body & money")
        assert "body & money" in page.locator("#table-columns").inner_text()
        code = page.locator("#own-names code").inner_text()
        assert code == 'model.set_params(part_names={0: "body & money"})'
        orders = page.get_by_role("combobox", name="Order of the rows").locator("option")
        assert "state of body & money" in orders.all_inner_texts()
        assert "body & money" in page.locator(".row-parts h4").all_inner_texts()[0]
        # An anomalous cell leads to its row.
        cell = page.locator("#table-anomalous button").first
        wanted = cell.inner_text()
        cell.click()
        assert page.locator(".panel:has(.row-parts) h4").first.inner_text() == wanted
        # What is shown can be downloaded.
        page.get_by_role("searchbox").fill("member = True")
        with page.expect_download() as download:
            page.locator(".panel:has(canvas.heat)").get_by_role("button", name="CSV").click()
        table = pd.read_csv(download.value.path(), index_col="row")
        assert len(table) == (frame["member"] == True).sum()  # noqa: E712
        shared = frame.loc[table.index]
        np.testing.assert_allclose(table["height"], shared["height"], rtol=1e-9)
        assert table["color"].equals(shared["color"])
        assert "state of body & money, as on the page" in table.columns


def test_the_row_agrees_with_the_list_of_anomalous_cells(browser, tmp_path):
    """A listed cell has the list's expected value and mark until a value changes, in any part."""
    rng = np.random.default_rng(0)
    state = np.arange(60) % 3
    frame = pd.DataFrame({f"a{i}": 6.0 * state + rng.normal(size=60) for i in range(3)})
    frame["alone"] = rng.normal(size=60)
    frame.loc[4, "a1"], frame.loc[9, "alone"], frame.loc[4, "alone"] = 30.0, 5.0, np.nan
    model = MCVQ(1, 4, likelihood="gaussian", random_state=0).fit(frame)
    assert model.parts_.tolist() == [0, 0, 0, -1]
    write_report(model, tmp_path / "page.html", frame)
    with opened(browser, tmp_path / "page.html") as page:
        listed = page.evaluate("partwise.content.overview.anomalous")
        for position, column in ((4, 1), (9, 3)):
            name = frame.columns[column]
            at = position, column
            (cell,) = (one for one in listed if (one["position"], one["column"]) == at)
            page.locator("#table-anomalous").get_by_role("button", name=cell["row"]).first.click()
            line = page.get_by_role("row").filter(has=page.get_by_label(name, exact=True))
            assert line.locator(".unusual").inner_text() == cell["expected"]
            status = page.locator(".panel:has(.row-parts) > [role=status]")
            assert name in status.inner_text().split(".")[0]
        # Without its value the cell is imputed, and nothing of the list holds any more.
        page.get_by_label("alone", exact=True).fill("")
        assert line.locator(".unusual").count() == 0
        assert line.locator(".filled").count() == 1
        page.get_by_role("button", name="Reset").click()
        assert line.locator(".unusual").inner_text() == cell["expected"]


def test_texts(browser, tmp_path):
    rng = np.random.default_rng(0)
    words = [*["ship", "wave", "tide", "storm"], *["judge", "law", "jury", "trial"], ODD]
    topic = rng.integers(2, size=150)
    rates = np.where(np.arange(9) // 4 == topic[:, None], 3.0, 0.2)
    counts = rng.poisson(rates)
    names = [f"{'sea' if t == 0 else 'court'} {i} {SCRIPT}" for i, t in enumerate(topic)]
    model = MCVQ(1, 2, likelihood="poisson", random_state=0)
    model.fit(sparse.csr_matrix(counts))
    how = {"row_names": names, "column_names": words}
    write_report(model, tmp_path / "page.html", sparse.csr_matrix(counts), **how)
    with opened(browser, tmp_path / "page.html") as page:
        states = page.get_by_role("radiogroup", name="States of part 0").get_by_role("radio")
        assert states.count() == 2
        for i in range(2):
            states.nth(i).click()
            number = page.evaluate("partwise.content.parts[0].order")[i]
            own = np.flatnonzero(model.predict_states(counts)[:, 0] == number)
            body = page.locator(".state-body")
            assert f"{len(own)} documents of 150 here" in body.inner_text()
            listed_here = set(body.get_by_role("button").all_inner_texts())
            assert listed_here <= {names[i] for i in own}
            assert len(listed_here) == 12
            first = body.locator(".words li").first.inner_text().split()[0]
            assert first in words[:4] + words[4:8]
            assert (first in words[4:8]) == (np.bincount(topic[own]).argmax() == 1)
        page.get_by_role("textbox", name="Your own text").fill("The JUDGE, the jury; a trial!")
        x = np.zeros((1, 9))
        x[0, [4, 6, 7]] = 1
        code = page.evaluate("Array.from(partwise.model.infer(partwise.panels.reader.values).m[0])")
        np.testing.assert_allclose(code, model.transform(x)[0], **AGREE)
        said = page.locator(".panel:has(textarea) > [role=status]").inner_text()
        assert said.startswith("3 of 6 words are in the vocabulary.")


def test_an_interview_by_keyboard(browser, ratings, tmp_path):
    model = Recommender(MEMBERS["states"]).fit(ratings)
    write_report(model, tmp_path / "page.html")
    with opened(browser, tmp_path / "page.html") as page:
        asked = page.locator(".asked strong")
        assert asked.inner_text() == model.next_question({})
        page.get_by_role("button", name="Rate 5 of 5").focus()
        person = {}
        for _ in range(3):
            person[asked.inner_text()] = 5.0
            page.keyboard.press("Enter")
            assert asked.inner_text() == popular_question(model, person)
            best = [one.item for one in model.recommend(person, 8, by="rating")]
            assert page.locator(".recommendations .title strong").all_inner_texts() == best
            # The next question's first answer has the focus; four steps on is the last one.
            assert page.evaluate("document.activeElement.textContent") == "1"
            for _ in range(4):
                page.keyboard.press("Tab")
        reasons = model.explain(person, best[0], n=1)["because"][0]
        text = page.locator(".recommendations li").first.inner_text()
        reason = f"Because you gave {reasons['item']} 5 ({reasons['effect']:+.2f})"
        assert reason.replace("-", "−") in text
        skipped = asked.inner_text()
        page.get_by_role("button", name="I do not know it").click()
        assert asked.inner_text() != skipped
        first = next(iter(person))
        page.get_by_role("button", name=f"Forget {first}").click()
        del person[first]
        best = [one.item for one in model.recommend(person, 8, by="rating")]
        assert page.locator(".recommendations .title strong").all_inner_texts() == best
        page.get_by_role("searchbox").fill("item 7")
        page.get_by_role("radiogroup", name="Rating of item 7").get_by_role("radio").nth(0).click()
        person["item 7"] = 1.0
        best = [one.item for one in model.recommend(person, 8, by="rating")]
        assert page.locator(".recommendations .title strong").all_inner_texts() == best


# --- every page ---


@pytest.fixture(scope="module")
def pages(face_page, table, ratings, tmp_path_factory):
    """One page of each kind, with names that no page may take for markup."""
    folder = tmp_path_factory.mktemp("pages")
    names = [f"{ODD} {d}" for d in range(9)]
    frame = pd.DataFrame(table, columns=names, index=[f"{ODD} row {i}" for i in range(120)])
    labels = np.array([SCRIPT, ODD])[np.arange(120) % 2]
    write_report(
        MCVQ(3, 4, random_state=0).fit(frame, labels), folder / "table.html", frame, title=ODD
    )
    user, item, value = ratings
    odd_items = [f"{ODD} {i}" for i in item]
    recommender = Recommender(MEMBERS["states"]).fit((user, odd_items, value))
    write_report(recommender, folder / "ratings.html", title=SCRIPT)
    counts = np.nan_to_num(np.maximum(np.round(frame), 0))
    counted = pd.DataFrame(counts, columns=names, index=frame.index)
    text_model = MCVQ(3, 3, likelihood="poisson", random_state=0).fit(counted)
    write_report(text_model, folder / "text.html", counted, title=ODD)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        by_row = MCVQ(2, 3, gating="factorised", max_iter=5, random_state=0).fit(frame)
    write_report(by_row, folder / "by_row.html", frame)
    return {"image": face_page} | {path.stem: path for path in folder.iterdir()}


KINDS = ["image", "table", "text", "ratings", "by_row"]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_from_data_becomes_markup(kind, pages, browser):
    with opened(browser, pages[kind]) as page:
        assert page.locator("script").count() == 2
        assert page.locator("[onerror], img[src=x]").count() == 0
        if kind in ("table", "text"):
            assert page.locator("h1").text_content() == ODD
            assert page.evaluate("partwise.content.names[3]") == f"{ODD} 3"
        page.wait_for_timeout(50)


def test_foreign_code_does_not_run(browser, face_page):
    with opened(browser, face_page, forgiven="Content Security Policy") as page:
        page.evaluate(
            """() => {
              const script = document.createElement("script");
              script.textContent = "window.foreign = 1";
              document.body.append(script);
            }"""
        )
        assert page.evaluate("window.foreign === undefined")


NAMELESS = """() => Array.from(document.querySelectorAll(
  "button, input, select, textarea, canvas, [role=radiogroup], summary, a"))
  .filter((one) => !one.closest("[aria-hidden=true]"))
  .filter((one) => !(one.getAttribute("aria-label") || one.textContent.trim() || one.labels?.length
    || one.getAttribute("aria-labelledby")))
  .map((one) => one.outerHTML.slice(0, 120))"""

# Cells of lists for people that a narrow screen cuts off.
CUT = """() => Array.from(document.querySelectorAll(".columns, .anomalous, .row-parts table"))
  .flatMap((table) => Array.from(table.querySelectorAll("tbody td, tbody th")))
  .filter((cell) => cell.offsetParent !== null && cell.getBoundingClientRect().right > innerWidth)
  .map((cell) => cell.outerHTML.slice(0, 120))"""

CONTRAST = """() => {
  const style = getComputedStyle(document.documentElement);
  const light = (name) => {
    const hex = style.getPropertyValue(name).trim();
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => {
    const [dark, bright] = [light(a), light(b)].sort((x, y) => x - y);
    return (bright + 0.05) / (dark + 0.05);
  };
  const texts = ["--text", "--soft", "--accent"]
    .flatMap((one) => ["--page", "--card", "--well"].map((on) => [one, on]));
  return {
    text: Math.min(...texts.map(([one, on]) => ratio(one, on)), ratio("--on-accent", "--accent")),
    edges: Math.min(ratio("--edge", "--page"), ratio("--edge", "--card")),
  };
}"""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_for_everybody(kind, scheme, pages, browser):
    """On a phone, in the light and in the dark, by screen reader."""
    options = {"color_scheme": scheme, "viewport": {"width": 360, "height": 700}}
    with opened(browser, pages[kind], **options) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert page.evaluate(CUT) == []
        assert page.evaluate(NAMELESS) == []
        identities = page.locator("[id]").evaluate_all("(all) => all.map((one) => one.id)")
        assert len(set(identities)) == len(identities)
        contrast = page.evaluate(CONTRAST)
        assert contrast["text"] >= 4.5
        assert contrast["edges"] >= 3.0
        dark = (
            page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
        )
        assert dark == (scheme == "dark")
        assert page.get_by_role("status").count() >= (kind != "by_row")


def test_in_a_notebook(browser, face_model, faces, tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    face_model.show(faces.data[:3], image_shape=faces.image_shape, title=ODD)
    (output,) = shown
    (tmp_path / "notebook.html").write_text(output.data, "utf-8")
    with opened(browser, tmp_path / "notebook.html") as page:
        frame = page.frame_locator("iframe")
        frame.get_by_role("radiogroup", name="States of part 0").get_by_role("radio").nth(1).click()
        said = frame.locator(".stage [role=status]").inner_text()
        assert said.startswith("Part 0: state ")
        assert frame.locator("h1").text_content() == ODD


def test_a_recommender_in_a_notebook(ratings, monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    model = Recommender(MEMBERS["states"]).fit(ratings)
    model.show()
    assert "A few questions" in shown[0].data
    monkeypatch.setitem(sys.modules, "IPython.display", None)
    with pytest.raises(ImportError, match="needs IPython"):
        model.show()


def test_the_file_is_small(face_page):
    assert face_page.stat().st_size < 5_000_000


@pytest.fixture(scope="module")
def moving_model():
    """A bar and a square that move on their own in images of 9x9."""
    rng = np.random.default_rng(0)
    ink = np.zeros((80, 9, 9))
    for image, (y, x), (v, z) in zip(ink, *rng.integers(1, 5, size=(2, 80, 2)), strict=True):
        image[y : y + 3, x] = 1
        image[v : v + 2, z : z + 3] = 1
    X = ink.reshape(80, -1) + 0.1 * rng.normal(size=(80, 81))
    moves = Translations((9, 9), max_shift=3, by="part")
    return MCVQ(2, 1, transformations=moves, random_state=0, max_iter=8, tol=1e-1).fit(X), X


def test_parts_that_move_are_dragged(browser, moving_model, tmp_path):
    model, X = moving_model
    write_report(model, tmp_path / "page.html", X[:20])
    found = model._fitted.model.begun(model._fitted.params, PartRows(*_encoded(model, X[:1])))
    with opened(browser, tmp_path / "page.html") as page:
        values = model.transformations.values
        places = [values[t].tolist() for t in found.t[0]]
        told = page.evaluate(
            "(places) => Array.from(partwise.model.compose(places, [0, 0]).values)", places
        )
        np.testing.assert_allclose(told, model.reconstruct(X[:1])[0], **AGREE)
        canvas = page.locator("canvas.big")
        canvas.scroll_into_view_if_needed()
        page.evaluate(
            "() => { partwise.panels.places = [[0, 0], [0, 0]]; partwise.panels.draw(); }"
        )
        at = page.evaluate("""() => {
          const { found, model } = partwise.panels;
          const best = (own) => own.indexOf(Math.max(...own));
          const pixel = best(found.shares[1]);
          return [Math.floor(pixel / model.width), pixel % model.width];
        }""")
        box = canvas.bounding_box()
        step = box["width"] / 9
        x, y = box["x"] + (at[1] + 0.5) * step, box["y"] + (at[0] + 0.5) * step
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x, y - step, steps=4)
        page.mouse.up()
        moved = page.evaluate(
            "() => ({ places: partwise.panels.places, chosen: partwise.panels.chosen })"
        )
        assert moved["places"][moved["chosen"]] == [1, 0]
        canvas.focus()
        for _ in range(9):
            page.keyboard.press("ArrowLeft")
        assert page.evaluate("() => partwise.panels.places[partwise.panels.chosen]") == [1, 3]
        assert "goes no further" in page.locator(".status").inner_text()
        page.get_by_role("button", name="Sample").first.click()
        assert page.evaluate("() => partwise.panels.places.flat().every((s) => Math.abs(s) <= 3)")


def _encoded(model, X):
    """Rows in model units, and 1 where they are seen."""
    Z = model._fitted.columns[0].encode(X, np.arange(X.shape[1]))
    return Z, np.ones_like(Z)
