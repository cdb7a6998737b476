"""A client of an application in this process."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import httpx

from partwise.serve import Limits, Settings, create_app


@asynccontextmanager
async def client(*paths, token=None, limits=None, **headers):
    """Talk to a service of the model files, started and stopped as a server would."""
    app = create_app(Settings(tuple(map(str, paths)), token, limits or Limits(), 0.05))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers) as found,
    ):
        yield found


def talk(paths, *requests, **settings):
    """Answers to requests ``(path, body)``, one after the other; a body of None is a GET."""

    async def run():
        async with client(*paths, **settings) as service:
            return [
                await (service.get(path) if body is None else service.post(path, **_content(body)))
                for path, body in requests
            ]

    return asyncio.run(run())


def _content(body):
    """Bytes as they are, anything else as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return {"content": content, "headers": {"content-type": "application/json"}}
