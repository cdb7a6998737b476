"""Around every request: limits, the token, one log line and the metrics.

A plain ASGI middleware, so that a body is refused while it arrives and not after it was read.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import time
from http import HTTPStatus

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from partwise.serve.settings import Settings

log = logging.getLogger("partwise.serve")

# Paths that need no token: monitoring has none.
OPEN = frozenset(["/health", "/ready"])


class RefusedError(Exception):
    """A request that is not answered, with its status and one sentence."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class Metrics:
    """Metrics that Prometheus reads."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "partwise_requests", "Requests by path and status.", ["path", "status"],
            registry=self.registry,
        )  # fmt: skip
        self.seconds = Histogram(
            "partwise_request_seconds", "Time to the answer.", ["path"], registry=self.registry
        )
        self.under_way = Gauge(
            "partwise_requests_under_way", "Requests that wait for an answer.",
            registry=self.registry,
        )  # fmt: skip


class Guard:
    """Keeps requests within the limits.

    Parameters
    ----------
    app : ASGI application
    settings : Settings
    metrics : Metrics
    """

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self._app, self._settings, self._metrics = app, settings, metrics
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or refuse an HTTP request; pass on other messages."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 500

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        refusals: list[RefusedError] = []  # of the body, while the application reads it

        async def pass_on(message: Message) -> None:
            if not refusals:  # the application answers a body that broke off in its own way
                await note(message)

        self._under_way += 1
        self._metrics.under_way.set(self._under_way)
        try:
            self._admit(scope)
            async with asyncio.timeout(self._settings.limits.seconds):
                await self._app(scope, self._limited(receive, refusals), pass_on)
            if refusals:
                raise refusals[0]
        except RefusedError as refused:
            await answer(note, refused.status, refused.sentence)
        except TimeoutError:
            sentence = f"No answer within {self._settings.limits.seconds:g} s; ask for fewer rows."
            await answer(note, HTTPStatus.SERVICE_UNAVAILABLE, sentence)
        finally:
            self._under_way -= 1
            self._metrics.under_way.set(self._under_way)
            self._record(scope, status, time.perf_counter() - begun)

    def _admit(self, scope: Scope) -> None:
        limits, headers = self._settings.limits, dict(scope["headers"])
        watched = scope["path"] in OPEN
        if not watched and self._under_way > limits.waiting:
            sentence = f"{limits.waiting} requests are waiting already; try again in a second."
            raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, sentence)
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > limits.body_bytes:
            raise self._too_large()
        if self._settings.token is not None and not watched:
            expected = f"Bearer {self._settings.token}".encode()
            if not hmac.compare_digest(headers.get(b"authorization", b""), expected):
                sentence = "Send the token of this service as Authorization: Bearer TOKEN."
                raise RefusedError(HTTPStatus.UNAUTHORIZED, sentence)

    def _too_large(self) -> RefusedError:
        sentence = f"The body is above {self._settings.limits.body_bytes:,} bytes; send fewer rows."
        return RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, sentence)

    def _limited(self, receive: Receive, refusals: list[RefusedError]) -> Receive:
        """``receive`` that counts the body's bytes and the time it takes, and notes refusals."""
        limits, size, complete = self._settings.limits, 0, False
        over = time.monotonic() + limits.body_seconds

        async def limited() -> Message:
            nonlocal size, complete
            if complete:  # only a notice of disconnection can follow
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), max(over - time.monotonic(), 0.001))
            except TimeoutError:
                sentence = f"The body did not arrive within {limits.body_seconds:g} s."
                refusals.append(RefusedError(HTTPStatus.REQUEST_TIMEOUT, sentence))
                raise refusals[0] from None
            if message["type"] == "http.request":
                size += len(message.get("body", b""))
                complete = not message.get("more_body", False)
                if size > limits.body_bytes:
                    refusals.append(self._too_large())
                    raise refusals[0]
            return message

        return limited

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route = scope.get("route")
        path = getattr(route, "path", "other")  # the route's, so that clients add no labels
        self._metrics.requests.labels(path, str(status)).inc()
        self._metrics.seconds.labels(path).observe(seconds)
        fields = {
            "method": scope["method"],
            "path": scope["path"],
            "status": status,
            "milliseconds": round(1e3 * seconds, 2),
        }
        log.info("request", extra={"fields": fields})


async def answer(send: Send, status: HTTPStatus, sentence: str) -> None:
    """Send an error as JSON."""
    body = json.dumps({"error": sentence}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        headers.append((b"retry-after", b"1"))
    if status == HTTPStatus.UNAUTHORIZED:
        headers.append((b"www-authenticate", b"Bearer"))
    if status in (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.REQUEST_TIMEOUT):
        headers.append((b"connection", b"close"))  # the rest of the body is not read
    await send({"type": "http.response.start", "status": int(status), "headers": headers})
    await send({"type": "http.response.body", "body": body})


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """The time, level, message and fields of a record."""
        line = {
            "time": self.formatTime(record),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)
