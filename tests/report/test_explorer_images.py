"""Pages of images in a real browser: sketches, classes, completion, parts that move."""

import numpy as np
import pytest
from matplotlib.image import imsave

from partwise import MCFA, MCVQ, Translations, make_shapes
from partwise.models.moving_parts import PartRows
from partwise.report import write_report
from tests.common.browser import opened
from tests.common.explorer import AGREE

pytestmark = pytest.mark.ci


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
