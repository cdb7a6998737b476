"""``partwise serve``: models as a service."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from partwise.cli.console import complain, fail


def serve(
    models: Annotated[
        list[Path],
        typer.Argument(help="Model files, written by partwise fit or save().", show_default=False),
    ],
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; by default only this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535)] = 8000,
    workers: Annotated[
        int, typer.Option("--workers", "-w", min=1, help="Number of processes.")
    ] = 1,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            help="File with a token that clients must send as Authorization: Bearer TOKEN. "
            "Alternatively, set the variable PARTWISE_TOKEN.",
            show_default=False,
        ),
    ] = None,
    max_body: Annotated[
        int, typer.Option("--max-body", min=1, help="Maximum size of a request, in bytes.")
    ] = 10_000_000,
    max_rows: Annotated[
        int, typer.Option("--max-rows", min=1, help="Maximum number of rows per request.")
    ] = 10_000,
    max_waiting: Annotated[
        int, typer.Option("--max-waiting", min=1, help="Maximum number of waiting requests.")
    ] = 256,
    max_seconds: Annotated[
        float, typer.Option("--max-seconds", min=0.1, help="Maximum time for an answer.")
    ] = 30.0,
    max_batch: Annotated[
        int,
        typer.Option(
            "--max-batch",
            min=1,
            help="Maximum number of rows that concurrent requests share a pass over.",
        ),
    ] = 1024,
) -> None:
    """Serve fitted models over HTTP, as JSON.

    The page /docs describes the requests, / is the explorer. A model file that is replaced is
    loaded again. Stop with Ctrl-C or SIGTERM; requests under way are answered first.

    Examples:

      partwise serve survey.safetensors

      curl -d '{"rows": [{"age": 41}]}' -H 'Content-Type: application/json'
      http://127.0.0.1:8000/models/survey/impute
    """
    try:
        import uvicorn

        from partwise.serve import Limits, Settings, create_app
    except ImportError as error:
        fail(
            f"partwise serve needs {error.name}; install it with pip install 'partwise[serve]'.", 2
        )
    token = os.environ.get("PARTWISE_TOKEN")
    if token_file is not None:
        token = token_file.read_text("utf-8").strip()
    if token == "":
        fail("Error: the token is empty.", 2)
    limits = Limits(body_bytes=max_body, rows=max_rows, waiting=max_waiting, seconds=max_seconds)
    paths = tuple(str(path.resolve()) for path in models)
    settings = Settings(paths, token, limits, batch_rows=max_batch)
    settings.paths()
    settings.to_environment()
    if host not in ("127.0.0.1", "localhost", "::1") and token is None:
        complain("Warning: other machines can reach this service, and it requires no token.")
    uvicorn.run(
        create_app(settings) if workers == 1 else "partwise.serve:create_app",
        factory=workers > 1,
        host=host,
        port=port,
        workers=workers,
        log_config=LOGGING,
        access_log=False,  # the guard logs one line per request
        timeout_graceful_shutdown=int(max_seconds) + 1,
        # A worker answers its supervisor after its imports, which take long on a busy machine; one
        # that dies during them is replaced after this time.
        timeout_worker_healthcheck=30,
        server_header=False,
    )


# JSON lines on standard error.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "partwise.serve.guard.JsonLines"}},
    "handlers": {"lines": {"class": "logging.StreamHandler", "formatter": "json"}},
    "loggers": {
        name: {
            "handlers": ["lines"],
            "level": "INFO",
            "propagate": False,
        }
        for name in ("partwise.serve", "uvicorn")
    },
}
