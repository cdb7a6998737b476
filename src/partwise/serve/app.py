"""The routes of the service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from http import HTTPStatus
from io import BytesIO
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel
from starlette.exceptions import HTTPException

import partwise
from partwise._text import reason_of
from partwise.contracts import Array
from partwise.data.frames import shortened
from partwise.data.stores import optional, panics_as_errors
from partwise.serve import bodies
from partwise.serve.batching import Batcher, BusyError
from partwise.serve.guard import Guard, Metrics, RefusedError
from partwise.serve.ratings import Ratings
from partwise.serve.records import Scalar
from partwise.serve.settings import Settings
from partwise.serve.shelf import Shelf
from partwise.serve.tables import Answered, Asked, Table

ARROW = "application/vnd.apache.arrow.stream"

Result = TypeVar("Result")


class Served:
    """A loaded model that can answer questions."""

    def __init__(
        self, path: Path, executor: ThreadPoolExecutor, waiting: int, batch_rows: int
    ) -> None:
        self.estimator = partwise.load(path)
        self.path = path
        self.table: Table | None = None
        self.ratings: Ratings | None = None
        if isinstance(self.estimator, partwise.Recommender):
            self.ratings = Ratings(self.estimator)
            self.questions = list(self.ratings.questions)
        else:
            self.table = Table(self.estimator)
            self.questions = self.table.questions
            self.batcher: Batcher[Asked, Answered] = Batcher(
                self.table.answer, lambda asked: asked.n_rows, executor, batch_rows, waiting
            )
        self._page: str | None = None

    def page(self) -> str:
        """The explorer of this model."""
        if self._page is None:
            from partwise.report import collect, render

            self._page = render(collect(self.estimator, title=self.path.stem))
        return self._page


class Service:
    """The models, and one thread that computes."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.metrics = settings, Metrics()
        # One thread computes: batches replace parallel requests, and models may use threads inside.
        self.executor = ThreadPoolExecutor(1, thread_name_prefix="partwise-serve")
        load = partial(
            Served,
            executor=self.executor,
            waiting=settings.limits.waiting,
            batch_rows=settings.batch_rows,
        )
        self.shelf: Shelf[Served] = Shelf(settings.paths(), load)
        self.ready = False

    def find(self, name: str) -> Served:
        """The model of a name."""
        if name not in set(self.shelf):
            raise RefusedError(
                HTTPStatus.NOT_FOUND,
                f"There is no model {shortened(name)}; GET /models lists them.",
            )
        return self.shelf[name]

    def table(self, name: str, question: str) -> tuple[Served, Table]:
        """A model of rows that can answer a question."""
        served = self.find(name)
        if served.table is None or question not in served.questions:
            raise self._cannot(served, name, question)
        return served, served.table

    def ratings(self, name: str, question: str) -> Ratings:
        """A recommender."""
        served = self.find(name)
        if served.ratings is None:
            raise self._cannot(served, name, question)
        return served.ratings

    @staticmethod
    def _cannot(served: Served, name: str, question: str) -> RefusedError:
        sentence = f"{name!r} ({type(served.estimator).__name__}) cannot answer {question}"
        known = ", ".join(served.questions)
        return RefusedError(HTTPStatus.NOT_FOUND, f"{sentence}; it answers {known}.")

    async def ask(self, served: Served, asked: Asked) -> Answered:
        """The answer to a question about rows."""
        self.check_rows(asked.n_rows)
        try:
            return await served.batcher.ask(asked)
        except BusyError:
            sentence = "Too many questions are waiting; try again in a second."
            raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, sentence) from None

    async def compute(self, function: Callable[[], Result]) -> Result:
        """What a function gives, computed in the thread of the models."""
        return await asyncio.get_running_loop().run_in_executor(self.executor, function)

    def check_rows(self, n: int) -> None:
        """Refuse too many rows."""
        if n > self.settings.limits.rows:
            sentence = (
                f"{n:,} rows are above the limit of {self.settings.limits.rows:,}; send fewer."
            )
            raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, sentence)


def create_app(settings: Settings | None = None) -> FastAPI:
    """Create the service as an ASGI application.

    Parameters
    ----------
    settings : Settings, optional
        By default, the settings that ``partwise serve`` stores in the environment for its worker
        processes.

    Returns
    -------
    app : FastAPI
    """
    settings = Settings.from_environment() if settings is None else settings
    service = Service(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        watch = asyncio.create_task(service.shelf.watch(service.executor, settings.reload_seconds))
        service.ready = True
        yield
        service.ready = False
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch
        service.executor.shutdown(wait=True)

    app = FastAPI(
        title="Partwise",
        version=partwise.__version__,
        description="Answers of fitted models over HTTP.",
        lifespan=lifespan,
    )
    app.state.service = service
    app.add_middleware(Guard, settings=settings, metrics=service.metrics)
    app.add_exception_handler(RefusedError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(ValueError, _value_error)
    _add_watching(app, service)
    _add_tables(app, service)
    _add_ratings(app, service)
    return app


def _add_watching(app: FastAPI, service: Service) -> None:
    """Health, readiness, metrics, the list of models and their explorers."""

    @app.get("/health", tags=["service"])
    async def health() -> dict[str, str]:
        """Report that the process answers."""
        return {"status": "ok"}

    @app.get("/ready", tags=["service"])
    async def ready(response: Response) -> bodies.Readiness:
        """Report whether all models are loaded, and which newer files are not served."""
        response.status_code = 200 if service.ready else 503
        return bodies.Readiness(ready=service.ready, problems=service.shelf.problems)

    @app.get("/metrics", tags=["service"])
    async def metrics() -> Response:
        """Metrics for Prometheus."""
        return Response(generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    @app.get("/models", tags=["service"])
    async def models() -> list[bodies.Described]:
        """List the served models."""
        found = []
        for name in service.shelf:
            served = service.shelf[name]
            found.append(
                bodies.Described(
                    name=name,
                    model=type(served.estimator).__name__,
                    columns=None if served.table is None else served.table.records.names,
                    n_items=None if served.ratings is None else served.ratings.n_items,
                    questions=served.questions,
                    problem=service.shelf.problems.get(name),
                )
            )
        return found

    @app.get("/", include_in_schema=False)
    async def home() -> Response:
        """The explorer of the only model, or a list."""
        names = list(service.shelf)
        if len(names) == 1:
            return RedirectResponse(f"/models/{names[0]}/")
        links = "".join(f'<li><a href="/models/{name}/">{name}</a></li>' for name in names)
        return HTMLResponse(f"<!doctype html><title>Partwise</title><ul>{links}</ul>")

    @app.get("/models/{name}/", tags=["service"], response_class=HTMLResponse)
    async def explorer(name: str) -> HTMLResponse:
        """The explorer of a model."""
        served = service.find(name)
        return HTMLResponse(await service.compute(served.page))


def _add_tables(app: FastAPI, service: Service) -> None:
    """Questions to models of rows."""

    @app.post("/models/{name}/impute", tags=["rows"], response_model=bodies.Imputed)
    async def impute(name: str, body: bodies.ToImpute) -> Response:
        """Impute missing values, with intervals if a coverage is given."""
        served, table = service.table(name, "impute")
        read = table.records.read(body.rows)
        filled, *ends = await service.ask(served, Asked("impute", (body.coverage,), read.numbers))
        missing = np.isnan(read.numbers)
        rows = table.records.filled(body.rows, table.records.write_cells(filled, missing))
        return _json(bodies.Imputed(rows=rows, notes=read.notes, **_ends(table, ends, missing)))

    @app.post("/models/{name}/impute/arrow", tags=["rows"])
    async def impute_arrow(name: str, request: Request) -> Response:
        """Impute missing values of an Arrow IPC stream; the answer is a stream of all rows."""
        served, _ = service.table(name, "impute")
        body = await request.body()
        filled = await service.compute(partial(_impute_arrow, service, served, body))
        return Response(filled, media_type=ARROW)

    @app.post("/models/{name}/predict", tags=["rows"], response_model=bodies.Predicted)
    async def predict(name: str, body: bodies.ToPredict) -> Response:
        """Predict some columns from the others; values sent for these columns are ignored."""
        served, table = service.table(name, "predict")
        places = [table.records.place(column) for column in dict.fromkeys(body.columns)]
        read = table.records.read(body.rows)
        read.numbers[:, places] = np.nan
        filled, *ends = await service.ask(served, Asked("impute", (body.coverage,), read.numbers))
        asked = np.zeros(filled.shape, bool)
        asked[:, places] = True
        rows = table.records.write_cells(filled, asked)
        return _json(bodies.Predicted(rows=rows, notes=read.notes, **_ends(table, ends, asked)))

    @app.post("/models/{name}/states", tags=["rows"], response_model=bodies.States)
    async def states(name: str, body: bodies.Rows) -> Response:
        """Most probable state per row and part."""
        served, table = service.table(name, "states")
        read = table.records.read(body.rows)
        found, probability = await service.ask(served, Asked("states", (), read.numbers))
        return _json(
            bodies.States(
                notes=read.notes, states=found.tolist(), probabilities=probability.tolist()
            )
        )

    @app.post("/models/{name}/classes", tags=["rows"], response_model=bodies.Classes)
    async def classes(name: str, body: bodies.Rows) -> Response:
        """Most probable class per row, with probabilities."""
        served, table = service.table(name, "classes")
        read = table.records.read(body.rows)
        (probability,) = await service.ask(served, Asked("classes", (), read.numbers))
        labels = table.class_labels()
        best = [labels[i] for i in probability.argmax(axis=1)]
        return _json(
            bodies.Classes(
                classes=best, notes=read.notes, labels=labels, probabilities=probability.tolist()
            )
        )

    @app.post("/models/{name}/scores", tags=["rows"], response_model=bodies.Scores)
    async def scores(name: str, body: bodies.Rows) -> Response:
        """Log-likelihood per row and anomaly score per row and part."""
        served, table = service.table(name, "scores")
        read = table.records.read(body.rows)
        likelihood, anomaly = await service.ask(served, Asked("scores", (), read.numbers))
        return _json(
            bodies.Scores(
                notes=read.notes,
                log_likelihood=likelihood.tolist(),
                anomaly_scores=anomaly.tolist(),
            )
        )

    @app.post("/models/{name}/anomalous_cells", tags=["rows"])
    async def anomalous_cells(name: str, body: bodies.ToFind) -> bodies.Cells:
        """Most surprising cells of all rows."""
        _, table = service.table(name, "anomalous_cells")
        read = table.records.read(body.rows)
        service.check_rows(len(read.numbers))
        cells = await service.compute(partial(table.anomalous_cells, read, body.n_cells, body.rows))
        return bodies.Cells(cells=cells, notes=read.notes)

    @app.post("/models/{name}/drift", tags=["rows"])
    async def drift(name: str, body: bodies.ToCompare) -> bodies.Drifted:
        """Columns and parts in which rows differ from the rows of the fit."""
        _, table = service.table(name, "drift")
        read = table.records.read(body.rows)
        service.check_rows(len(read.numbers))
        found = await service.compute(partial(table.drift, read.numbers, body.alpha))
        return bodies.Drifted(
            notes=read.notes, drifted=found.drifted, results=found.to_frame().to_dicts()
        )

    @app.post("/models/{name}/explain", tags=["rows"])
    async def explain(name: str, body: bodies.ToExplain) -> bodies.Explanation:
        """State of every part of one row, and the columns that support it."""
        _, table = service.table(name, "explain")
        read = table.records.read([body.row])
        parts = await service.compute(
            partial(table.explain, read.numbers, body.n_columns, body.row)
        )
        return bodies.Explanation(parts=parts, notes=read.notes)

    @app.post("/models/{name}/sample", tags=["rows"])
    async def sample(name: str, body: bodies.ToSample) -> bodies.Sample:
        """Synthetic rows, conditional on given values."""
        _, table = service.table(name, "sample")
        service.check_rows(body.n)
        given = None if body.given is None else table.records.read([body.given]).numbers
        rows = await service.compute(partial(table.sample, body.n, given, body.random_state))
        return bodies.Sample(rows=rows)


def _add_ratings(app: FastAPI, service: Service) -> None:
    """Questions to recommenders."""

    @app.post("/models/{name}/ratings", tags=["ratings"], response_model=bodies.Ratings)
    async def ratings(name: str, body: bodies.ToRate) -> Response:
        """Predicted ratings of items."""
        asked = service.ratings(name, "ratings")
        work = partial(asked.predict, body.ratings, body.items, body.coverage)
        return _json(bodies.Ratings.model_validate(await service.compute(work)))

    @app.post("/models/{name}/recommend", tags=["ratings"], response_model=bodies.Recommended)
    async def recommend(name: str, body: bodies.ToRecommend) -> Response:
        """Items with the highest predicted ratings for a person."""
        asked = service.ratings(name, "recommend")
        work = partial(asked.recommend, body.ratings, body.n, body.among)
        return _json(bodies.Recommended(items=await service.compute(work)))

    @app.post("/models/{name}/next_question", tags=["ratings"])
    async def next_question(name: str, body: bodies.Person) -> bodies.NextQuestion:
        """Item whose rating would reduce the uncertainty most."""
        asked = service.ratings(name, "next_question")
        return bodies.NextQuestion(
            item=await service.compute(partial(asked.next_question, body.ratings))
        )

    @app.post("/models/{name}/reasons", tags=["ratings"])
    async def reasons(name: str, body: bodies.ToJustify) -> bodies.Reasons:
        """Explain a predicted rating."""
        asked = service.ratings(name, "reasons")
        found = await service.compute(partial(asked.explain, body.ratings, body.item))
        return bodies.Reasons(item=body.item, reasons=found)


def _ends(table: Table, ends: list[Array], wanted: Array) -> dict[str, list[dict[str, Scalar]]]:
    """Ends of the intervals of the wanted cells, if intervals were requested."""
    pairs = zip(("lower", "upper"), ends, strict=False)
    return {name: table.records.write_cells(numbers, wanted) for name, numbers in pairs}


def _json(answer: BaseModel) -> Response:
    """An answer, which FastAPI need not check once more."""
    return Response(answer.model_dump_json(), media_type="application/json")


def _impute_arrow(service: Service, served: Served, body: bytes) -> bytes:
    """Impute the rows of an Arrow stream."""
    import polars as pl

    # Not read by polars, which ends the process where a buffer declares more memory than there is.
    arrow = optional("pyarrow", "Arrow streams", "'partwise[serve]'")
    try:
        with arrow.ipc.open_stream(body) as stream:
            table = stream.read_all()
        table.validate(full=True)  # polars trusts the places of texts, and codes of levels
        with panics_as_errors():
            rows = cast(pl.DataFrame, pl.from_arrow(table))
    except Exception as error:  # pyarrow raises many kinds, with a message about the bytes
        sentence = f"The body is not an Arrow IPC stream: {reason_of(error)}."
        raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, sentence) from None
    service.check_rows(len(rows))
    filled = served.estimator.impute(rows)
    filled = (
        filled if isinstance(filled, pl.DataFrame) else pl.DataFrame(filled, schema=rows.columns)
    )
    buffer = BytesIO()
    filled.write_ipc_stream(buffer)
    return buffer.getvalue()


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    headers = {"retry-after": "1"} if error.status == HTTPStatus.TOO_MANY_REQUESTS else None
    return JSONResponse({"error": error.sentence}, int(error.status), headers=headers)


_VALUES = "a value must be a number, a text, true, false or null"


async def _invalid(request: Request, error: Exception) -> Response:
    """The first error in a body, in one sentence."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    steps = [str(step) for step in first["loc"][1:]]
    where = ".".join(steps)
    match steps:
        case _ if first["type"] == "json_invalid":
            sentence = f"The body is not JSON: {first['ctx']['error']} at character {where}."
        case []:
            sentence = "The body must be a JSON object; send Content-Type: application/json."
        case ["rows", row, column, _]:
            sentence = f"Row {row}, column {column!r}: {_VALUES}."
        case ["row" | "given", column, _]:
            sentence = f"Column {column!r}: {_VALUES}."
        case _:
            sentence = f"{where}: {first['msg']}."
    return JSONResponse({"error": sentence}, HTTPStatus.UNPROCESSABLE_ENTITY)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentence = f"{error.detail}."
    if error.status_code == HTTPStatus.NOT_FOUND:
        sentence = (
            f"There is no {request.method} {shortened(request.url.path)}; GET /models lists the "
            "models, questions are asked by POST /models/NAME/impute and so on, and GET /docs "
            "describes them."
        )
    return JSONResponse({"error": sentence}, error.status_code)


async def _value_error(request: Request, error: Exception) -> Response:
    """The library's message about values that it cannot use."""
    return JSONResponse({"error": " ".join(str(error).split())}, HTTPStatus.UNPROCESSABLE_ENTITY)
