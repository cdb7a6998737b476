"""Pages of tables, texts and ratings in a real browser."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from partwise import MCVQ, Recommender
from partwise.report import write_report
from tests.common.browser import opened
from tests.common.explorer import (
    AGREE,
    INFER,
    MEMBERS,
    ODD,
    SCRIPT,
    listed,
    popular_question,
)


@pytest.mark.ci
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
            assert titles[k].startswith(f"{names[k]} state {part['state']}")
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


@pytest.mark.ci
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
            said = page.locator(".search [role=status]")
            assert said.inner_text().startswith(f"{wanted.sum()} rows found")
            page.get_by_role("searchbox").fill("color = BLUE")  # in other letters
            n_blue = (mixed["color"] == "blue").sum()
            assert said.inner_text().startswith(f"{n_blue} rows found")
            page.get_by_role("searchbox").fill("color > blue")
            assert said.inner_text() == "The levels of color have no order; use = instead of >."


@pytest.mark.ci
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
        assert heading.inner_text().startswith(f"Part 0: {name}")
        heading.get_by_role("button", name="Rename").click()
        page.get_by_role("textbox", name="Name of part 0").fill("body & money")
        page.keyboard.press("Enter")
        assert heading.inner_text().startswith("Part 0: body & money")
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
        states = table["state of body & money"]
        assert states.equals(
            pd.Series(model.predict_states(shared)[:, 0], table.index, name=states.name)
        )


@pytest.mark.ci
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


@pytest.mark.ci
def test_near_duplicates_tell_each_other_as_in_python(browser, tmp_path):
    rng = np.random.default_rng(0)
    state = rng.integers(3, size=150)
    frame = pd.DataFrame({"atbats": 90.0 * state + rng.normal(0, 9, size=150)})
    frame["hits"] = 0.27 * frame["atbats"] + rng.normal(0, 0.05, size=150)
    frame["pay"] = np.exp(7 + state + 0.4 * rng.normal(size=150))
    frame["log_pay"] = np.log(frame["pay"])
    frame["team"] = np.array(["red", "blue", "green"])[state]
    frame["color"] = frame["team"].str.upper()
    for i, name in enumerate(frame.columns):
        frame.loc[10 * i : 10 * i + 8, name] = None
    frame.loc[70, "hits"] += 4.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MCVQ(1, 4, likelihood="auto", random_state=0).fit(frame)
        write_report(model, tmp_path / "page.html", frame)
        coded = model._check_rows(frame, reset=False)
        imputed = model._impute(coded)
    assert len(model._fitted.schema.twins) == 3
    with opened(browser, tmp_path / "page.html") as page:
        script = """() => partwise.content.rows.positions.map((_, i) => {
          partwise.panels.choose(i);
          return Array.from(partwise.panels.reader.filled);
        })"""
        filled = np.array(page.evaluate(script))
        absent = np.isnan(coded)
        np.testing.assert_allclose(filled[absent], imputed[absent], **AGREE)
        page.evaluate("partwise.panels.choose(70)")
        line = page.get_by_role("row").filter(has=page.get_by_label("hits", exact=True))
        assert line.locator(".twin").inner_text() == "nearly a copy of atbats"
        assert line.locator(".unusual").count() == 1  # hardly unusual in its state
        page.get_by_label("atbats", exact=True).fill("100")
        page.get_by_label("hits", exact=True).fill("27")
        assert line.locator(".unusual").count() == 0
        assert float(line.locator("td").nth(1).inner_text()) == pytest.approx(27, abs=0.1)


@pytest.mark.ci
@pytest.mark.parametrize("width", [390, 768, 1280])
def test_nothing_is_cut_off(browser, tmp_path, width):
    """Long names, many digits, tiny numbers and long levels, on a phone and on a desktop."""
    rng = np.random.default_rng(0)
    state = rng.integers(2, size=90)
    level = np.array(["an organization (employed)", "myself (self-employed)"])
    frame = pd.DataFrame({f"C{i}": 9.0 * state + rng.normal(size=90) for i in range(44)})
    frame["a_very_long_name_of_a_column_with_a_tiny_number"] = 1e-17 * rng.normal(size=90)
    frame["student_loans"] = np.exp(9 + state + rng.normal(size=90))
    frame["work_status"] = level[state]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MCVQ(1, 2, likelihood="auto", random_state=0).fit(frame)
    write_report(model, tmp_path / "page.html", frame)
    size = {"width": width, "height": 800}
    with opened(browser, tmp_path / "page.html", viewport=size) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.locator(".row-parts summary").first.click()
        script = """(some) => Array.from(document.querySelectorAll(some),
          (one) => [one.scrollWidth - one.clientWidth, one.value ?? one.textContent])"""
        for some in (".row-parts input[type=number]", ".row-parts .wide", ".ties > .wide"):
            found = page.evaluate(script, some)
            assert found
            assert [one for one in found if one[0] > 1] == []
        # No word is broken letter by letter: a line has many letters of the longest word.
        script = """() => Array.from(document.querySelectorAll(".row-parts th[scope=row]"),
          (one) => one.clientHeight / parseFloat(getComputedStyle(one).lineHeight))"""
        assert max(page.evaluate(script)) < 6.5
        # The names of the map are inside it.
        ends = page.evaluate("""() => {
          const box = document.querySelector(".tie-map").getBoundingClientRect();
          const names = document.querySelectorAll(".tie-map text");
          return Array.from(names, (one) => one.getBoundingClientRect().right - box.right);
        }""")
        assert max(ends) <= 0


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


def test_times_are_read_and_written_as_times(browser, tmp_path):
    """The row view said 0.531 where the list said 12:45."""
    rng = np.random.default_rng(0)
    minutes = rng.integers(740, 790, size=40)
    frame = pd.DataFrame(
        {"time": pd.to_timedelta(minutes, "min"), "size": minutes + 20 * rng.normal(size=40)}
    )
    frame.loc[0, "time"] = pd.NaT
    model = MCVQ(1, 1, likelihood="auto", random_state=0).fit(frame)
    write_report(model, tmp_path / "page.html", frame)
    with opened(browser, tmp_path / "page.html") as page:
        page.evaluate("partwise.panels.choose(0)")
        line = page.locator(".row-parts tr", has_text="time").first
        expected = str(model.impute(frame)["time"][0])[7:12]
        assert line.locator(".filled").inner_text() == expected
        line.get_by_role("textbox").fill("13:05")
        read = page.evaluate("partwise.terms[0].read('13:05')")
        assert read == pytest.approx(785 / 1440)
        assert page.evaluate("partwise.terms[0].text(-0.25)") == "-6:00"
        assert np.isnan(page.evaluate("partwise.terms[0].read('noon')"))
