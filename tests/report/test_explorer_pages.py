"""Every kind of page in a real browser: no markup from data, for everybody, in notebooks."""

import sys
import warnings

import numpy as np
import pandas as pd
import pytest

from partwise import MCVQ, Recommender
from partwise.report import write_report
from tests.common.browser import opened
from tests.common.explorer import MEMBERS, ODD, SCRIPT


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
@pytest.mark.ci
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
