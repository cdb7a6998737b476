"""Blocks in order on one thread or several, with BLAS kept in its place."""

import threading
import time

import pytest
from threadpoolctl import ThreadpoolController

from partwise.runners import Serial, Threads, runner_for


class Numbers:
    """A source whose blocks are numbers."""

    def __init__(self, n):
        self.n_blocks = n

    def release(self, block):
        """Numbers need no room."""

    def makers(self):
        return ((lambda i=i: i) for i in range(self.n_blocks))


def blas_threads():
    info = ThreadpoolController().select(user_api="blas").info()
    return [library["num_threads"] for library in info]


@pytest.mark.parametrize("runner", [Serial(), Threads(1), Threads(3)])
def test_results_come_in_order(runner):
    def slow_first(i, j):
        time.sleep(0.02 if i == 0 else 0.0)
        return i * j

    with runner as running:
        found = list(running.map(slow_first, Numbers(12), range(12)))
    assert found == [i * i for i in range(12)]


def test_an_error_in_a_block_reaches_the_caller():
    def fail(i):
        raise ValueError(f"block {i}")

    with Threads(2) as running, pytest.raises(ValueError, match="block 0"):
        list(running.map(fail, Numbers(4)))


def test_the_limit_of_blas_is_lifted_when_the_last_pool_closes():
    before = blas_threads()
    first, second = Threads(2), Threads(2)
    first.__enter__()
    second.__enter__()
    assert set(blas_threads()) == {1}
    first.__exit__()
    assert set(blas_threads()) == {1}
    second.__exit__()
    assert blas_threads() == before


@pytest.mark.parametrize(("n_jobs", "n_blocks"), [(1, 10), (None, 1), (2, 1)])
def test_one_worker_is_one_thread(n_jobs, n_blocks):
    seen = set()
    with runner_for(n_jobs, n_blocks) as running:
        list(running.map(lambda _: seen.add(threading.get_ident()), Numbers(10)))
        assert set(blas_threads()) == {1}
    assert len(seen) == 1


def test_a_source_that_reads_is_read_ahead():
    read, seen = [], []

    class Reading(Numbers):
        def makers(self):
            for i in range(self.n_blocks):
                read.append(i)
                yield lambda i=i: i

    with runner_for(None, 2, reads=True) as running:
        assert isinstance(running, Threads)

    def wait(i):
        deadline = time.monotonic() + 5
        while i == 0 and len(read) < 2 and time.monotonic() < deadline:
            time.sleep(0.001)
        seen.append(len(read))

    with Threads(1) as running:
        list(running.map(wait, Reading(6)))
    assert seen[0] >= 2  # the next block was read while the first was at work
    assert max(n - i for i, n in enumerate(seen)) <= 3  # and never many
