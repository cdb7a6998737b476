import threading
import time

import pytest
from threadpoolctl import ThreadpoolController

from partwise.runners import Serial, Threads, runner_for


def blas_threads():
    info = ThreadpoolController().select(user_api="blas").info()
    return [library["num_threads"] for library in info]


@pytest.mark.parametrize("runner", [Serial(), Threads(1), Threads(3)])
def test_results_come_in_order(runner):
    def slow_first(i):
        time.sleep(0.02 if i == 0 else 0.0)
        return i * i

    with runner as running:
        assert list(running.map(slow_first, range(12))) == [i * i for i in range(12)]


def test_an_error_in_a_block_reaches_the_caller():
    def fail(i):
        raise ValueError(f"block {i}")

    with Threads(2) as running, pytest.raises(ValueError, match="block 0"):
        list(running.map(fail, range(4)))


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


def test_one_worker_that_was_asked_for_is_one_thread():
    assert isinstance(runner_for(None, 1), Serial)
    seen = set()
    with runner_for(1, 10) as running:
        list(running.map(lambda _: seen.add(threading.get_ident()), range(10)))
        assert set(blas_threads()) == {1}
    assert len(seen) == 1
