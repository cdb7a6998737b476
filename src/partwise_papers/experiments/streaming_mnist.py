"""Digits that come by in blocks, against all of them at once."""

from __future__ import annotations

import time

from partwise import MCVQ
from partwise.datasets import load_mnist
from partwise_papers.experiments import register
from partwise_papers.registry import Array, Row, Setting

N_PARTS, N_STATES = 8, 10
BLOCK, PASSES = 500, 2


def binary(images: Array) -> Array:
    """Pixels cut at one half."""
    return (images >= 0.5).astype("float32")


@register("streaming_mnist")
def streaming_mnist(setting: Setting) -> list[Row]:
    """MNIST by partial_fit in blocks of 500, two passes, and by fit; held-out nats per row.

    MCVQ of 8 parts of 10 states, Bernoulli, pixels cut at 0.5; the 60000 training digits in their
    order, judged by the 10000 test digits. All options are the defaults.
    """
    digits = load_mnist()
    n_rows = setting.choose(fast=12_000, full=60_000)
    train, test = binary(digits.data[:n_rows]), binary(digits.test_data)
    model = MCVQ(N_PARTS, N_STATES, likelihood="bernoulli", random_state=0)
    setting("fit of all rows")
    begun = time.perf_counter()
    model.fit(train)
    spent = time.perf_counter() - begun
    batch = -model.score(test)
    rows: list[Row] = [_row("fit", batch, batch, spent)]
    stream = MCVQ(N_PARTS, N_STATES, likelihood="bernoulli", random_state=0)
    spent = 0.0
    for i in range(PASSES):
        begun = time.perf_counter()
        for lo in range(0, len(train), BLOCK):
            if lo % 10_000 == 0:
                setting(f"partial_fit, pass {i + 1}, row {lo}")
            stream.partial_fit(train[lo : lo + BLOCK])
        spent += time.perf_counter() - begun
        rows.append(_row(f"partial_fit, {i + 1} passes", -stream.score(test), batch, spent))
    return rows


def _row(what: str, nats: float, batch: float, seconds: float) -> Row:
    return {
        "learned by": what,
        "held-out nats per row": nats,
        "above fit, %": 100.0 * (nats / batch - 1.0),
        "seconds": seconds,
    }
