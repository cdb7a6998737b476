import base64
import io
import json
import os
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from typer.testing import CliRunner

from partwise import MCFA, MCVQ, make_shapes, part_stability
from partwise.cli import app
from partwise.report import collect, render, write_report
from partwise.report.pictures import grey_picture, part_colour, parts_picture

SCRIPT = "<script>alert('x')</script>"
QUOTES = "\"'><img src=x onerror=alert(1)>"

VOID = {"meta", "img", "br", "polyline"}


class Page(HTMLParser):
    """What a browser would see: elements with attributes, and whether they are well nested."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.text, self.open = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def every(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


@pytest.fixture(scope="module")
def shapes():
    return make_shapes()


@pytest.fixture(scope="module")
def model(shapes):
    return MCVQ(n_parts=3, n_states=9, random_state=0).fit(shapes.data)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    data = 5.0 * rng.integers(2, size=(60, 2)).repeat(3, axis=1) + rng.normal(size=(60, 6))
    data[0, 1] = np.nan
    data[2] = np.nan
    return pd.DataFrame(
        np.column_stack([data, np.ones(60)]),
        columns=["plain", SCRIPT, QUOTES, "a & b", "{{ title }}", "ünïcode", "same"],
    )


@pytest.fixture(scope="module")
def table_model(table):
    return MCVQ(n_parts=2, n_states=3, random_state=0).fit(table)


@pytest.fixture(scope="module")
def faces_page(model, shapes):
    rows = shapes.data[:20].copy()
    rows[1, :20] = np.nan
    return render(collect(model, rows, shapes.image_shape))


@pytest.fixture(scope="module")
def table_page(table_model, table):
    return render(collect(table_model, table, title=SCRIPT, model_file=f"{QUOTES}.safetensors"))


@pytest.fixture(scope="module")
def class_model(shapes):
    """Classes whose names are no markup either."""
    labels = np.where(np.arange(729) // 81 < 4, SCRIPT, "low & high")
    return MCVQ(n_parts=3, n_states=9, random_state=0).fit(shapes.data, labels)


@pytest.fixture(scope="module")
def factor_model(table):
    """Factors, and classes found in the data."""
    return MCFA(n_parts=2, n_factors=2, n_classes=2, random_state=0).fit(table)


@pytest.fixture(scope="module")
def class_page(class_model, shapes):
    return render(collect(class_model, shapes.data[:3], shapes.image_shape))


@pytest.fixture(scope="module")
def factor_page(factor_model, table):
    return render(collect(factor_model, table))


@pytest.fixture(params=["faces_page", "table_page", "class_page", "factor_page"])
def page(request):
    return request.getfixturevalue(request.param)


def test_the_dict_is_plain(model, table_model, class_model, factor_model, shapes, table):
    for content in (
        collect(class_model, shapes.data[:3], shapes.image_shape),
        collect(factor_model, table),
        collect(model, shapes.data[:3], shapes.image_shape),
        collect(table_model, table),
        collect(table_model),
    ):
        json.dumps(content, allow_nan=False)


def test_what_is_collected(model, shapes):
    content = collect(model, shapes.data, shapes.image_shape)
    assert content["n_features"] == 121
    assert [part["n_columns"] for part in content["parts"]] == [
        (model.parts_ == k).sum() for k in range(3)
    ]
    assert len(content["background"]) == (model.parts_ == -1).sum()
    np.testing.assert_allclose(content["bound"]["values"], model.lower_bounds_)
    for k, part in enumerate(content["parts"]):
        for state in part["vectors"]:
            assert state["weight"] == model.state_priors_[k, state["number"]]
    examples = content["data"]["examples"]
    states = model.states(shapes.data[: len(examples)])
    assert [example["labels"] for example in examples] == [
        [f"state {j}" for j in row] for row in states
    ]
    error = np.sqrt(np.mean((shapes.data - model.reconstruct(shapes.data)) ** 2))
    assert content["data"]["error"] == pytest.approx(error)
    assert content["data"]["score"] == pytest.approx(model.score(shapes.data))


def test_profiles_and_holes_of_a_table(table_model, table):
    content = collect(table_model, table)
    for k, part in enumerate(content["parts"]):
        assert sorted(row["name"] for row in part["profile"]) == sorted(part["columns"])
        for row in part["profile"]:
            d = list(table.columns).index(row["name"])
            expected = [table_model.means_[k, state["number"], d] for state in part["vectors"]]
            assert [cell["value"] for cell in row["cells"]] == pytest.approx(expected)
    first, _, empty, *_ = content["data"]["examples"]
    filled = table_model.impute(table)
    assert first["holes"] == [{"name": SCRIPT, "value": pytest.approx(filled[0, 1], rel=1e-6)}]
    assert empty["n_missing"] == 6
    assert content["background"] == ["same"]


def test_classes(class_model, class_page, shapes):
    content = collect(class_model, image_shape=shapes.image_shape)
    assert [entry["label"] for entry in content["classes"]] == list(class_model.classes_)
    assert {sample["label"] for sample in content["samples"]} <= set(class_model.classes_)
    for k, part in enumerate(content["parts"]):
        shown = [vector["number"] for vector in part["vectors"]]
        values = [[cell["value"] for cell in row] for row in part["classes"]]
        np.testing.assert_array_equal(values, class_model.class_given_state_[:, k, shown])
    text = "".join(Page(class_page).text)
    assert "probability of each class given the state" in text
    assert "model.predict(X)" in text


def test_factors(factor_model, factor_page, table):
    content = collect(factor_model, table)
    assert content["n_vectors"] == factor_model.n_factors_.sum()
    for k, part in enumerate(content["parts"]):
        assert part["n_left_out"] == 2 - factor_model.n_factors_[k]
        shown = [vector["number"] for vector in part["vectors"]]
        for row in part["profile"]:
            d = list(table.columns).index(row["name"])
            expected = factor_model.loadings_[k, d, shown]
            assert [cell["value"] for cell in row["cells"]] == pytest.approx(list(expected))
            assert all(-1 <= cell["tint"] <= 1 for cell in row["cells"])
        values = [[cell["value"] for cell in row] for row in part["classes"]]
        np.testing.assert_array_equal(values, factor_model.factor_means_[:, k, shown])
    text = "".join(Page(factor_page).text)
    assert "Factors of each part" in text
    assert "model.transform(X)" in text
    assert "state" not in re.sub(r"\(.*?\)", "", text)


def test_the_command_takes_factors_and_classes(factor_model, table, tmp_path):
    unnamed = clone(factor_model).fit(table.to_numpy())
    model_file, data, out = (tmp_path / name for name in ("m.safetensors", "x.npy", "r.html"))
    unnamed.save(model_file)
    np.save(data, table.to_numpy())
    result = CliRunner().invoke(app, ["report", str(model_file), str(data), "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert "Factors of each part" in out.read_text("utf-8")


def test_factors_as_pictures(shapes):
    fitted = MCFA(n_parts=3, n_factors=2, tol=0.1, random_state=0).fit(shapes.data)
    content = collect(fitted, shapes.data[:2], shapes.image_shape)
    seen = Page(render(content))
    assert len(content["samples"]) == 12
    assert len(seen.every("img")) == 1 + 3 + fitted.n_factors_.sum() + 2 * (2 + 3) + 12


def test_nothing_is_loaded_from_elsewhere(page):
    for tag, attributes in Page(page).elements:
        for name in ("src", "href", "srcset", "data", "action", "poster", "xlink:href"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:image/png;base64,")), (tag, value)
        assert tag not in ("script", "link", "iframe", "object", "embed", "base")
        assert not any(name.startswith("on") for name in attributes)
    assert "//" not in re.sub(r"base64,[A-Za-z0-9+/=]+", "", page)
    assert "@import" not in page
    assert "url(" not in page


def test_text_never_becomes_markup(table_page):
    seen = Page(table_page)
    assert "<script" not in table_page
    assert "onerror" not in re.sub(r"&[#\w]+;", "", table_page).replace("src=x onerror", "")
    assert not [image for image in seen.every("img") if image.get("src") == "x"]
    text = "".join(seen.text)
    for name in (SCRIPT, QUOTES, "a & b", "{{ title }}", "ünïcode"):
        assert name in text


def test_page_is_sound(page):
    seen = Page(page)
    assert seen.open == []
    identities = [attributes["id"] for _, attributes in seen.elements if "id" in attributes]
    assert len(set(identities)) == len(identities)
    for link in seen.every("a"):
        assert link["href"][1:] in identities
    for _, attributes in seen.elements:
        if "aria-labelledby" in attributes:
            assert attributes["aria-labelledby"] in identities
    for image in seen.every("img"):
        assert image["alt"].strip()
    assert len(seen.every("h1")) == 1
    assert seen.every("html")[0]["lang"] == "en"
    assert any(meta.get("name") == "viewport" for meta in seen.every("meta"))
    assert "prefers-color-scheme: dark" in page


def test_wide_tables_can_be_scrolled_by_keyboard(table_page):
    wide = [a for tag, a in Page(table_page).elements if a.get("class") == "wide"]
    assert len(wide) == 4  # summary, two parts, rows
    assert all(a["tabindex"] == "0" and a["aria-label"] for a in wide)


def test_every_picture_opens(faces_page):
    pictures = Page(faces_page).every("img")
    assert len(pictures) > 50
    for picture in pictures:
        content = base64.b64decode(picture["src"].partition(",")[2], validate=True)
        assert imread(io.BytesIO(content)).shape[:2] == (11, 11)


def test_lines_that_load_the_model(table_model, tmp_path):
    import partwise

    path = tmp_path / "it's mine.safetensors"
    table_model.save(path)
    page = Page(render(collect(table_model, model_file=str(path))))
    code = "".join(page.text)
    code = code[code.index("import partwise") : code.index("model.states")]
    scope = {}
    exec(code, scope)
    assert isinstance(scope["model"], partwise.MCVQ)


def test_same_page_twice(model, shapes):
    args = (model, shapes.data[:5], shapes.image_shape)
    assert render(collect(*args)) == render(collect(*args))


def test_written_atomically(model, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def refuse(*_):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        with pytest.raises(OSError, match="disk full"):
            write_report(model, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    write_report(model, path, title="new")
    assert "<h1>new</h1>" in path.read_text("utf-8")
    assert list(tmp_path.iterdir()) == [path]


def test_a_page_that_cannot_be_made_leaves_the_old_one(model, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(ValueError, match="pixels"):
        write_report(model, path, image_shape=(3, 3))
    assert path.read_text() == "old"


def test_not_fitted(tmp_path):
    with pytest.raises(NotFittedError):
        write_report(MCVQ(), tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


def decode(address, shape):
    picture = imread(io.BytesIO(base64.b64decode(address.partition(",")[2])))
    assert picture.shape[:2] == shape
    return np.rint(255 * picture[..., :3]).astype(int).reshape(-1, 3)


def test_grey_picture():
    pixels = decode(grey_picture(np.array([-1.0, 0, 1, 2, 9, np.nan]), (2, 3), (0, 2)), (2, 3))
    np.testing.assert_array_equal(pixels[:5], np.array([[0, 0, 128, 255, 255]]).T.repeat(3, 1))
    assert len(set(pixels[5])) == 3  # no grey


def test_parts_picture():
    parts, gates = np.array([0, 1, 1, -1]), np.array([[1, 0], [0, 1], [0.5, 0.5], [0.5, 0.5]])
    pixels = decode(parts_picture(parts, gates, (2, 2)), (2, 2))
    assert "#{:02x}{:02x}{:02x}".format(*pixels[0]) == part_colour(0)
    assert "#{:02x}{:02x}{:02x}".format(*pixels[1]) == part_colour(1)
    np.testing.assert_allclose(pixels[2], (pixels[1] + 128) / 2, atol=1)
    np.testing.assert_array_equal(pixels[3], 128)


def test_colours_of_parts_differ():
    colours = [part_colour(k) for k in range(40)]
    assert len(set(colours)) == 40
    assert all(re.fullmatch("#[0-9a-f]{6}", colour) for colour in colours)


def test_how_sure_the_parts_are_is_told_when_it_is_known(model, shapes, table_model, table):
    assert "agreement" not in render(collect(model, image_shape=(11, 11)))
    how = {"n_fits": 2, "resample": "seeds", "random_state": 0}
    for fitted, data, shape in ((model, shapes.data, (11, 11)), (table_model, table, None)):
        found = part_stability(fitted, data, **how)
        content = collect(fitted, image_shape=shape, stability=found)
        assert [part["agreement"] for part in content["parts"]] == list(found.part_agreement)
        text = " ".join(Page(render(content)).text)
        assert text.count(", agreement ") == len(content["parts"])
        assert "2 other fits" in text
    with pytest.raises(ValueError, match="another model"):
        collect(model, stability=found)
