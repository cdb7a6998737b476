"""The report: what is collected, and a page that stands on its own."""

import base64
import hashlib
import io
import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from typer.testing import CliRunner

from partwise import (
    CVQ,
    GVQ,
    MCFA,
    MCVQ,
    AspectModel,
    BayesianPCA,
    BayesianPCAMixture,
    Recommender,
    make_shapes,
    part_stability,
)
from partwise.cli import app
from partwise.fitted import UNCERTAIN
from partwise.report import collect, render, write_report
from partwise.report.pictures import gray_picture, part_color, parts_picture

SCRIPT = "<script>alert('x')</script>"
QUOTES = "\"'><img src=x onerror=alert(1)>"

VOID = {"meta", "img", "br", "wbr", "polyline"}


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
        if self.open[-1:] not in (["script"], ["style"]):
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
    assert content["background"]["n_columns"] == (model.parts_ == -1).sum()
    np.testing.assert_allclose(content["bound"]["values"], model.lower_bounds_)
    for k, part in enumerate(content["parts"]):
        for state in part["vectors"]:
            assert state["weight"] == model.state_priors_[k, state["number"]]
    error = np.sqrt(np.mean((shapes.data - model.reconstruct(shapes.data)) ** 2))
    assert content["data"]["error"] == pytest.approx(error)
    assert content["data"]["score"] == pytest.approx(model.score(shapes.data))


def test_profiles_of_a_table(table_model, table):
    content = collect(table_model, table)
    for k, part in enumerate(content["parts"]):
        assert sorted(row["name"] for row in part["profile"]) == sorted(part["columns"])
        for row in part["profile"]:
            d = list(table.columns).index(row["name"])
            expected = [table_model.means_[k, state["number"], d] for state in part["vectors"]]
            assert [cell["value"] for cell in row["cells"]] == pytest.approx(expected)
    assert content["background"] == {"n_columns": 1, "columns": ["same"]}


def test_classes(class_model, class_page, shapes):
    content = collect(class_model, image_shape=shapes.image_shape)
    assert [entry["label"] for entry in content["classes"]] == list(class_model.classes_)
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
    assert "Loadings of each factor" in text
    assert "model.transform(X)" in text
    assert "state" not in re.sub(r"\(.*?\)", "", text)


@pytest.mark.ci
def test_the_command_takes_factors_and_classes(factor_model, table, tmp_path):
    unnamed = clone(factor_model).fit(table.to_numpy())
    model_file, data, out = (tmp_path / name for name in ("m.safetensors", "x.npy", "r.html"))
    unnamed.save(model_file)
    np.save(data, table.to_numpy())
    result = CliRunner().invoke(app, ["report", str(model_file), str(data), "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert "Loadings of each factor" in out.read_text("utf-8")


def test_factors_as_pictures(shapes):
    fitted = MCFA(n_parts=3, n_factors=2, tol=0.1, random_state=0).fit(shapes.data)
    seen = Page(render(collect(fitted, shapes.data[:2], shapes.image_shape)))
    assert len(seen.every("img")) == 1 + 3 + fitted.n_factors_.sum()


def test_nothing_is_loaded_from_elsewhere(page):
    for tag, attributes in Page(page).elements:
        for name in ("src", "href", "srcset", "data", "action", "poster", "xlink:href"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:image/png;base64,")), (tag, value)
        assert tag not in ("link", "iframe", "object", "embed", "base")
        assert not any(name.startswith("on") for name in attributes)
    assert "//" not in re.sub(r"[A-Za-z0-9+/=]{40,}", "", page)
    assert "@import" not in page
    assert "url(" not in page


def test_only_the_pages_own_code_runs(page):
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", page, re.DOTALL)
    (kind, data), (plain, code) = scripts
    assert 'type="application/json"' in kind
    assert json.loads(data)["names"]
    assert plain == ""
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    (policy,) = [m["content"] for m in Page(page).every("meta") if "http-equiv" in m]
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_text_never_becomes_markup(table_page):
    seen = Page(table_page)
    assert table_page.count("<script") == 2
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
    assert len(wide) == 6  # columns, ties, anomalous cells, two parts, summary
    assert all(a["tabindex"] == "0" and a["aria-label"] for a in wide)


def test_doubt_about_the_parts_is_kept_and_shown(table_model, table):
    rows, model = table, clone(table_model).fit(table)
    sure = [{"kind": "start", "parts": (0,), "gain": 1.0, "accepted": True}]
    doubt = {"kind": UNCERTAIN, "parts": (), "gain": -1.25, "accepted": False}
    fitted = model._fitted
    for path, known in ((sure, False), ([*sure, doubt], True)):
        model._fitted = replace(fitted, record=replace(fitted.record, size_path=path))
        assert ("(1.2 nats" in str(model.summary())) == known
        assert ("The parts are uncertain" in model.summary()._repr_html_()) == known
        assert ("The parts are uncertain" in render(collect(model, rows))) == known


def test_every_picture_opens(faces_page):
    pictures = Page(faces_page).every("img")
    assert len(pictures) == 1 + 3 * (1 + 9)
    for picture in pictures:
        content = base64.b64decode(picture["src"].partition(",")[2], validate=True)
        assert imread(io.BytesIO(content)).shape[:2] == (11, 11)


def test_lines_that_load_the_model(table_model, tmp_path):
    import partwise

    path = tmp_path / "it's mine.safetensors"
    table_model.save(path)
    page = Page(render(collect(table_model, model_file=str(path))))
    code = "".join(page.text)
    code = code[code.index("import partwise") : code.index("model.predict_states")]
    scope = {}
    exec(code, scope)
    assert isinstance(scope["model"], partwise.MCVQ)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "estimator",
    [
        CVQ(3, 3, max_iter=5),
        GVQ(6, max_iter=5),
        BayesianPCA(max_iter=5),
        BayesianPCAMixture(n_components=2, max_dimension=2, max_iter=5),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_models_without_gates_have_a_plain_page(estimator, shapes, tmp_path):
    X = shapes.data[::6]
    fitted = clone(estimator).set_params(random_state=0).fit(X)
    content = collect(fitted, X, shapes.image_shape, fit_seconds=1.25)
    json.dumps(content, allow_nan=False)
    seen = Page(render(content))
    text = "".join(seen.text)
    assert "script" not in [tag for tag, _ in seen.elements]
    assert f"{fitted.lower_bound_:,.2f} nats per row" in text
    assert "in 1.2 s" in text
    names = [entry["name"] for entry in content["learned"] if entry["pictures"]]
    assert {"means_", "features_", "components_"} & set(names)
    assert all(hasattr(fitted, name) for name in names)
    assert content["data"]["error"] == pytest.approx(
        np.sqrt(np.mean((fitted.reconstruct(X) - X) ** 2))
    )
    model_file, out = tmp_path / "m.safetensors", tmp_path / "r.html"
    fitted.save(model_file)
    result = CliRunner().invoke(app, ["report", str(model_file), "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert "script" not in [tag for tag, _ in Page(out.read_text("utf-8")).elements]


def test_ratings_of_the_aspect_model():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((40, 6)) < 0.5, rng.integers(1, 6, size=(40, 6)), np.nan)
    X[:, 0], X[0] = 3, 4
    fitted = AspectModel(2, random_state=0).fit(X)
    content = collect(fitted, X)
    assert content["kind"] == "plain"
    assert "Root mean square error of reconstruction" in dict(content["summary"])
    render(content)


def test_a_recommender_takes_no_rows(shapes):
    data = ([0, 0, 1, 1], ["a", "b", "a", "b"], [1, 2, 2, 1])
    estimator = MCVQ(1, 2, likelihood="categorical", random_state=0)
    fitted = Recommender(estimator).fit(data)
    assert collect(fitted)["kind"] == "ratings"
    with pytest.raises(ValueError, match="leave both out"):
        collect(fitted, np.ones((2, 2)))


def test_names_given(table_model, table):
    names = [f"thing {d}" for d in range(7)]
    content = collect(table_model, table, row_names=range(60), column_names=names)
    assert content["live"]["names"] == names
    assert content["live"]["rows"]["names"][:2] == ["0", "1"]
    with pytest.raises(ValueError, match="2 names for 7 columns"):
        collect(table_model, table, column_names=["a", "b"])
    with pytest.raises(ValueError, match="3 names for 60 rows"):
        collect(table_model, table, row_names="abc")


def test_what_is_too_large_is_left_to_python(table_model, table, monkeypatch):
    monkeypatch.setattr(import_module("partwise.report.collect"), "_MAX_PACKED", 10)
    page = render(collect(table_model, table))
    assert "too large for an interactive page" in page
    assert "<script" not in page


def test_few_rows_are_carried_along(table_model, table, model, shapes):
    for fitted, rows, shape, most in (
        (table_model, pd.concat([table] * 8), None, 400),
        (model, shapes.data, shapes.image_shape, 32),
    ):
        content = collect(fitted, rows, shape)
        assert len(content["live"]["rows"]["names"]) == most
        assert content["data"]["n_scored"] == len(rows)


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


def test_gray_picture():
    pixels = decode(gray_picture(np.array([-1.0, 0, 1, 2, 9, np.nan]), (2, 3), (0, 2)), (2, 3))
    np.testing.assert_array_equal(pixels[:5], np.array([[0, 0, 128, 255, 255]]).T.repeat(3, 1))
    assert len(set(pixels[5])) == 3  # no gray


def test_parts_picture():
    parts, gates = np.array([0, 1, 1, -1]), np.array([[1, 0], [0, 1], [0.5, 0.5], [0.5, 0.5]])
    pixels = decode(parts_picture(parts, gates, (2, 2)), (2, 2))
    assert "#{:02x}{:02x}{:02x}".format(*pixels[0]) == part_color(0)
    assert "#{:02x}{:02x}{:02x}".format(*pixels[1]) == part_color(1)
    np.testing.assert_allclose(pixels[2], (pixels[1] + 128) / 2, atol=1)
    np.testing.assert_array_equal(pixels[3], 128)


def test_colors_of_parts_differ():
    colors = [part_color(k) for k in range(40)]
    assert len(set(colors)) == 40
    assert all(re.fullmatch("#[0-9a-f]{6}", color) for color in colors)


@pytest.mark.ci
def test_how_sure_the_parts_are_is_told_when_it_is_known(model, shapes, table_model, table):
    assert ", agreement " not in "".join(Page(render(collect(model, image_shape=(11, 11)))).text)
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
