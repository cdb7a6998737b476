"""The service answers as the library does, in the user's columns and units."""

import asyncio
import io
import json
import math

import numpy as np
import polars as pl
import pytest

from partwise import (
    MCFA,
    MCVQ,
    PartsImputer,
    Recommender,
    Translations,
    drift,
    load,
    make_survey,
)
from partwise.serve import Limits
from tests.serve.client import client, talk

ROWS = "/models/survey/"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with dates, a matrix of numbers with classes, and a recommender."""
    folder = tmp_path_factory.mktemp("models")
    frame = pl.from_pandas(make_survey(300, n_parts=2, n_columns_per_kind=1, random_state=0).frame)
    days = np.datetime64("2026-01-01") + np.arange(300) % 90
    frame = frame.with_columns(seen=pl.Series(days), answer0=frame["answer0"].cast(pl.Boolean))
    MCVQ(2, 3, likelihood="auto", random_state=0).fit(frame).save(folder / "survey.safetensors")
    frame.write_parquet(folder / "survey.parquet")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4)) + np.repeat([0, 2, 4], 40)[:, None]
    model = MCFA(1, 1, n_classes=3, random_state=0).fit(X, np.repeat(["a", "b", "c"], 40))
    model.save(folder / "numbers.safetensors")
    users, items = np.repeat(np.arange(40), 5), np.tile(np.arange(10), 20)
    model = Recommender().fit((users, items, 1 + (users + items) % 5))
    model.save(folder / "films.safetensors")
    return folder


@pytest.fixture(scope="module")
def frame(folder):
    return pl.read_parquet(folder / "survey.parquet")


@pytest.fixture(scope="module")
def model(folder):
    return load(folder / "survey.safetensors")


def records(frame):
    """Rows as JSON has them."""
    return json.loads(frame.write_json())


def ask(folder, *requests, name="survey", **settings):
    return talk([folder / f"{name}.safetensors"], *requests, **settings)


def test_imputed_rows_are_those_of_the_library(folder, frame, model):
    rows = frame[:20].with_columns(number0=None, group0=None, seen=None, answer1=None)
    (answer,) = ask(folder, (ROWS + "impute", {"rows": records(rows), "coverage": 0.9}))
    assert answer.status_code == 200
    found, expected = answer.json(), model.impute(rows)
    lower, upper = model.predict_interval(rows, coverage=0.9)
    for name in frame.columns:
        told = [row[name] for row in found["rows"]]
        same = records(expected.select(name))
        if isinstance(told[0], float):
            np.testing.assert_allclose(told, [row[name] for row in same], rtol=1e-9)
        else:
            assert [str(v)[:10] for v in told] == [str(row[name])[:10] for row in same]
    ends = [row["number0"] for row in found["lower"]], [row["number0"] for row in found["upper"]]
    np.testing.assert_allclose(ends[0], lower["number0"], rtol=1e-9)
    np.testing.assert_allclose(ends[1], upper["number0"], rtol=1e-9)
    assert set(found["lower"][0]) >= {"number0", "group0", "seen", "answer1"}
    assert "number1" not in found["lower"][0]  # observed


def test_observed_values_come_back_as_they_were_sent(folder, frame):
    row = records(frame[:1])[0] | {"group0": None}
    (answer,) = ask(folder, (ROWS + "impute", {"rows": [row]}))
    (filled,) = answer.json()["rows"]
    sent = {column: value for column, value in row.items() if value is not None}
    assert {column: filled[column] for column in sent} == sent
    assert filled["group0"] is not None


def test_columns_that_a_row_lacks_are_missing(folder, frame, model):
    known = {"group0": frame["group0"][0]}
    rows = [known, {}]
    predicted, imputed = ask(
        folder,
        (ROWS + "predict", {"rows": rows, "columns": ["number0"], "coverage": 0.5}),
        (ROWS + "impute", {"rows": rows}),
    )
    expected = model.predict_columns(given=known, columns=["number0"])["number0"][0]
    assert predicted.json()["rows"][0]["number0"] == pytest.approx(expected)
    assert list(predicted.json()["lower"][0]) == ["number0"]
    assert imputed.json()["rows"][0]["number0"] == pytest.approx(expected)
    assert all(value is not None for value in imputed.json()["rows"][1].values())


def test_states_and_scores(folder, frame, model):
    states, scores = ask(
        folder,
        (ROWS + "states", {"rows": records(frame[:7])}),
        (ROWS + "scores", {"rows": records(frame[:7])}),
    )
    assert states.json()["states"] == model.predict_states(frame[:7]).tolist()
    assert np.min(states.json()["probabilities"]) > 1 / 3
    told = scores.json()
    np.testing.assert_allclose(told["log_likelihood"], model.score_samples(frame[:7]))
    np.testing.assert_allclose(told["anomaly_scores"], model.anomaly_scores(frame[:7]))


def test_cells_explanations_and_samples(folder, frame, model):
    given = {"group0": frame["group0"][0]}
    cells, parts, drawn, again = ask(
        folder,
        (ROWS + "anomalous_cells", {"rows": records(frame[:30]), "n_cells": 40}),
        (ROWS + "explain", {"row": records(frame[:1])[0]}),
        (ROWS + "sample", {"n": 4, "given": given, "random_state": 7}),
        (ROWS + "sample", {"n": 4, "given": given, "random_state": 7}),
    )
    expected = model.anomalous_cells(frame[:30], 40)
    found = cells.json()["cells"]
    assert [cell["column"] for cell in found] == expected["column"].to_list()
    assert {type(cell[key]) for cell in found for key in ("value", "expected")} >= {float, str}
    sent = records(frame[:30])
    assert all(cell["value"] == sent[cell["row"]][cell["column"]] for cell in found)
    shown = [one for part in parts.json()["parts"] for one in part["columns"]]
    assert all(one["value"] == sent[0][one["column"]] for one in shown)
    assert [part["part"] for part in parts.json()["parts"]] == [0, 1]
    assert drawn.json() == again.json()
    assert [row["group0"] for row in drawn.json()["rows"]] == [given["group0"]] * 4


def test_ordered_numbers_out_of_range_are_anomalous_as_in_the_library(tmp_path):
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=300)
    data = {"years": 2 * kind + rng.integers(1, 4, size=300), "size": 9.0 * kind}
    frame = pl.DataFrame(data).with_columns(size=pl.col("size") + rng.normal(size=300))
    model = MCVQ(1, 2, likelihood={"years": "ordinal"}, random_state=0).fit(frame)
    model.save(tmp_path / "survey.safetensors")
    new = frame[:20].with_columns(years=pl.Series([99, *frame["years"][1:20]]))
    (cells,) = ask(tmp_path, (ROWS + "anomalous_cells", {"rows": records(new), "n_cells": 5}))
    found = cells.json()["cells"]
    with pytest.warns(UserWarning, match="outside of the range"):
        expected = model.anomalous_cells(new, 5)
    assert (found[0]["row"], found[0]["column"], found[0]["value"]) == (0, "years", 99)
    for key in ("row", "column", "value"):
        assert [cell[key] for cell in found] == expected[key].to_list()
    np.testing.assert_allclose([cell["surprise"] for cell in found], expected["surprise"])


def test_classes_and_columns_without_names(folder):
    rows = [{"0": 0.1, "1": -0.2}, {"2": 4.0, "3": 4.2}]
    found, states = ask(
        folder,
        ("/models/numbers/classes", {"rows": rows}),
        ("/models/numbers/states", {"rows": rows}),
        name="numbers",
    )
    model = load(folder / "numbers.safetensors")
    X = np.array([[0.1, -0.2, np.nan, np.nan], [np.nan, np.nan, 4.0, 4.2]])
    assert found.json()["classes"] == model.predict(X).tolist() == ["a", "c"]
    np.testing.assert_allclose(found.json()["probabilities"], model.predict_proba(X))
    assert states.status_code == 404
    assert "cannot answer states; it answers" in states.json()["error"]


def test_recommenders(folder):
    model, person = load(folder / "films.safetensors"), {"3": 5.0, "4": 1.0}
    rated, best, question, reasons, unknown = ask(
        folder,
        ("/models/films/ratings", {"ratings": person, "items": ["7", "1"]}),
        ("/models/films/recommend", {"ratings": person, "n": 2}),
        ("/models/films/next_question", {"ratings": person}),
        ("/models/films/reasons", {"ratings": person, "item": "7"}),
        ("/models/films/ratings", {"ratings": {"nothing": 1}}),
        name="films",
    )
    known = {3: 5.0, 4: 1.0}
    assert rated.json()["median"] == model.predict(known, [7, 1]).tolist()
    assert [one["item"] for one in best.json()["items"]] == [
        str(one.item) for one in model.recommend(known, 2)
    ]
    assert question.json()["item"] == str(model.next_question(known))
    assert reasons.json()["reasons"]["rating"] == pytest.approx(model.explain(known, 7)["rating"])
    assert (unknown.status_code, unknown.json()["error"]) == (422, "There is no item 'nothing'.")


def test_arrow_in_and_out(folder, frame, model):
    rows = frame[:50].with_columns(number0=None)
    rows = rows.with_columns(number0=pl.Series([None] * 50, dtype=pl.Float64))
    buffer = io.BytesIO()
    rows.write_ipc_stream(buffer)
    filled, bad = ask(
        folder,
        (ROWS + "impute/arrow", buffer.getvalue()),
        (ROWS + "impute/arrow", buffer.getvalue()[:100]),
    )
    assert pl.read_ipc_stream(filled.content).equals(model.impute(rows))
    assert bad.status_code == 422
    assert bad.json()["error"].startswith("The body is not an Arrow IPC stream")


@pytest.mark.parametrize("days", [1e308, -1e308, 2**63, 3_000_000])
def test_days_beyond_the_calendar_are_refused(days, folder):
    """They were read, and overflowed when they were written."""
    (answer,) = ask(folder, (ROWS + "explain", {"row": {"seen": days}}))
    assert answer.status_code == 422
    assert "days are out of range." in answer.json()["error"]


def test_an_imputer_of_a_table_reads_its_columns(tmp_path, frame):
    """It was served as if all columns were numbers."""
    imputer = PartsImputer(2, 2, n_fits=1, random_state=0).fit(frame)
    imputer.save(tmp_path / "survey.safetensors")
    rows = records(frame.drop_nulls()[:5])
    for row in rows[1:]:
        row |= dict.fromkeys(list(row)[:3])
    full, filled, ends = ask(
        tmp_path,
        (ROWS + "impute", {"rows": rows[:1]}),
        (ROWS + "impute", {"rows": rows}),
        (ROWS + "impute", {"rows": rows, "coverage": 0.8}),
    )
    assert full.json()["rows"] == rows[:1]
    missing = frame.drop_nulls()[:5].with_row_index()
    missing = missing.with_columns(
        pl.when(pl.col("index") == 0).then(pl.col(name)) for name in frame.columns[:3]
    )
    expected = records(imputer.impute(missing.drop("index")))
    for row, other in zip(filled.json()["rows"], expected, strict=True):
        for name, value in row.items():
            near = isinstance(value, float)
            assert value == (pytest.approx(other[name]) if near else other[name]), name
    assert ends.status_code == 200
    assert len(ends.json()["lower"]) == 5


@pytest.mark.parametrize("by", ["row", "part"])
def test_rows_that_move_are_answered(by, tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 6))
    moves = Translations((2, 3), max_shift=1, by=by)
    model = MCVQ(2, 2, transformations=moves, random_state=0).fit(X)
    model.save(tmp_path / "survey.safetensors")
    rows = [{f"{d}": value for d, value in enumerate(row)} for row in X[:2].tolist()]
    missing = [row | {"0": None} for row in rows]
    filled, states, scores, explained, cells = ask(
        tmp_path,
        (ROWS + "impute", {"rows": missing, "coverage": 0.8}),
        (ROWS + "states", {"rows": rows}),
        (ROWS + "scores", {"rows": rows}),
        (ROWS + "explain", {"row": rows[0]}),
        (ROWS + "anomalous_cells", {"rows": rows}),
    )
    Y = X[:2].copy()
    Y[:, 0] = np.nan
    got = [row["0"] for row in filled.json()["rows"]]
    np.testing.assert_allclose(got, model.impute(Y)[:, 0])
    assert states.json()["states"] == model.predict_states(X[:2]).tolist()
    assert all(0 < p <= 1 for row in states.json()["probabilities"] for p in row)
    np.testing.assert_allclose(scores.json()["log_likelihood"], model.score_samples(X[:2]))
    assert explained.status_code == 200
    assert (cells.status_code, "cannot answer" in cells.json()["error"]) == (404, True)


def test_damaged_arrow_streams_are_refused(folder, frame):
    """polars ended the process where a buffer declares more memory than there is."""
    buffer = io.BytesIO()
    rows = frame[:50].with_columns(number0=pl.Series([None, 1.5] * 25, dtype=pl.Float64))
    rows.write_ipc_stream(buffer, compression="zstd")
    content = buffer.getvalue()
    starts = [i for i in range(8, len(content)) if content[i : i + 4] == b"\x28\xb5\x2f\xfd"]
    assert starts
    damaged = bytearray(content)
    for start in starts:  # before the compressed bytes stands the size that they had
        damaged[start - 8 : start] = (2**62).to_bytes(8, "little")
    whole, answer = ask(
        folder, (ROWS + "impute/arrow", content), (ROWS + "impute/arrow", bytes(damaged))
    )
    assert whole.status_code == 200
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("The body is not an Arrow IPC stream")
    assert answer.json()["error"].endswith(".")


def test_long_texts_are_shortened_in_refusals(folder):
    (answer,) = ask(folder, (ROWS + "impute", {"rows": [{"number0": "x" * 3000}]}))
    assert answer.status_code == 422
    assert len(answer.json()["error"]) < 100


def test_many_at_once_get_their_own_rows(folder, frame):
    """Answers of concurrent requests equal those of single ones."""
    rows = [row | {"number1": None} for row in records(frame[:40])]

    async def run():
        async with client(folder / "survey.safetensors") as service:
            ask = [service.post(ROWS + "impute", json={"rows": [row]}) for row in rows]
            together = await asyncio.gather(*ask)
            alone = [await service.post(ROWS + "impute", json={"rows": [row]}) for row in rows]
        return together, alone

    together, alone = asyncio.run(run())
    for a, b in zip(together, alone, strict=True):
        for name, value in a.json()["rows"][0].items():
            other = b.json()["rows"][0][name]
            assert value == (pytest.approx(other) if isinstance(other, float) else other)


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (b"{", 422, "The body is not JSON"),
        (b"[" * 100_000, 400, ""),
        (b'{"rows": ' + b"[" * 100_000, 400, ""),
        (b"\xff\xfe\x00", 400, ""),
        ({"rows": []}, 422, "no rows"),
        ({"rows": [[1]]}, 422, "rows.0"),
        (b"", 422, "must be a JSON object; send Content-Type: application/json"),
        ({"rows": [{"number0": [1]}]}, 422, "Row 0, column 'number0': a value must be a number"),
        ({"rows": [{"number0": True}]}, 422, "true is not a number"),
        ({"rows": [{"nowhere": 1}]}, 422, "There is no column 'nowhere'"),
        ({"rows": [{"nowhere\0": None}]}, 422, "There is no column"),
        ({"rows": [{"number0": "much"}]}, 422, "'much' is not a number"),
        ({"rows": [{"number0": 10**400}]}, 422, ""),
        ({"rows": [{"seen": "tomorrow"}]}, 422, "is not a date"),
        (b'{"rows": [{"number0": Infinity}]}', 422, ""),
        ({"rows": [{}], "coverage": 2}, 422, "coverage"),
        ({"rows": [{}], "extra": 1}, 422, "extra"),
        ({}, 422, "rows"),
    ],
)  # fmt: skip
def test_bad_bodies_get_one_sentence(folder, body, status, text):
    (answer,) = ask(folder, (ROWS + "impute", body))
    assert answer.status_code == status, answer.text
    assert text in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


def test_unseen_levels_and_nan_are_missing_and_only_the_sender_is_told(folder):
    odd, plain = ask(
        folder,
        (ROWS + "impute", {"rows": [{"group0": "never\0seen"}, {"number0": math.nan}]}),
        (ROWS + "impute", {"rows": [{"number0": 1.0}]}),
    )
    assert len(odd.json()["notes"]) == 1
    assert "taken as missing" in odd.json()["notes"][0]
    assert plain.json()["notes"] == []


def test_limits(folder):
    small = Limits(body_bytes=200, rows=2)
    large, many, fine = ask(
        folder,
        (ROWS + "impute", {"rows": [{}] * 100}),
        (ROWS + "impute", {"rows": [{}] * 3}),
        (ROWS + "impute", {"rows": [{}] * 2}),
        limits=small,
    )
    assert (large.status_code, many.status_code, fine.status_code) == (413, 413, 200)
    assert "200 bytes" in large.json()["error"]
    assert "limit of 2" in many.json()["error"]


def test_too_many_at_once_are_told_to_wait(folder):
    async def run():
        async with client(folder / "survey.safetensors", limits=Limits(waiting=3)) as service:
            ask = [service.post(ROWS + "impute", json={"rows": [{}]}) for _ in range(30)]
            return await asyncio.gather(*ask)

    found = [answer.status_code for answer in asyncio.run(run())]
    assert set(found) == {200, 429}
    assert found.count(200) >= 3


def test_a_token(folder):
    paths = [folder / "survey.safetensors"]
    request = (ROWS + "impute", {"rows": [{}]})
    refused, watched = talk(paths, request, ("/health", None), token="secret")
    assert (refused.status_code, watched.status_code) == (401, 200)

    async def run():
        async with client(*paths, token="secret", Authorization="Bearer secret") as service:
            return await service.post(request[0], json=request[1])

    assert asyncio.run(run()).status_code == 200


def test_watching(folder):
    health, ready, models, page, home, metrics, nothing, unknown = ask(
        folder,
        *((path, None) for path in (
            "/health", "/ready", "/models", ROWS, "/", "/metrics", "/nothing", "/models/none/",
        )),
    )  # fmt: skip
    assert health.json() == {"status": "ok"}
    assert ready.json() == {"ready": True, "problems": {}}
    (described,) = models.json()
    assert (described["name"], described["model"]) == ("survey", "MCVQ")
    assert page.text.startswith("<!doctype html>")
    assert home.headers["location"] == ROWS
    assert 'partwise_requests_total{path="/models",status="200"} 1.0' in metrics.text
    assert (nothing.status_code, unknown.status_code) == (404, 404)
    assert "There is no model 'none'" in unknown.json()["error"]
    assert "There is no GET '/nothing'; GET /models lists" in nothing.json()["error"]


def test_a_replaced_model_is_served_and_a_damaged_one_is_not(folder, frame, tmp_path):
    path = tmp_path / "survey.safetensors"
    path.write_bytes((folder / "survey.safetensors").read_bytes())
    other = MCVQ(1, 2, likelihood="auto", random_state=0).fit(frame)

    async def run():
        async with client(path) as service:
            body = {"rows": records(frame[:1])}

            async def parts():
                return len((await service.post(ROWS + "states", json=body)).json()["states"][0])

            async def until(wanted):
                for _ in range(200):
                    if await wanted():
                        return True
                    await asyncio.sleep(0.05)
                return False

            async def has_problem():
                return (await service.get("/models")).json()[0]["problem"] is not None

            async def has_one_part():
                return await parts() == 1

            assert await parts() == 2
            path.write_bytes(b"damaged")
            assert await until(has_problem)
            assert await parts() == 2
            other.save(path)
            assert await until(has_one_part)
            assert not await has_problem()

    asyncio.run(run())


def test_drift_is_that_of_the_library(folder, frame, model):
    changed = frame.with_columns(group0=pl.lit("a"))
    (same, other) = ask(
        folder, (ROWS + "drift", {"rows": records(frame)}),
        (ROWS + "drift", {"rows": records(changed)}),
    )  # fmt: skip
    assert same.json()["drifted"] == []
    assert other.json()["drifted"] == drift(model, changed).drifted
    assert other.json()["results"][0]["name"] == "group0"
    (refused,) = ask(folder, ("/models/films/drift", {"rows": [{}]}), name="films")
    assert refused.status_code == 404
