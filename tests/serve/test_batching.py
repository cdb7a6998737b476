"""Questions that wait together are answered together, each with its own answer."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from partwise.serve.batching import Batcher, BusyError


class Work:
    """Squares numbers; the first batch waits until it is let go."""

    def __init__(self):
        self.batches, self.go = [], threading.Event()

    def __call__(self, questions):
        self.batches.append(list(questions))
        assert self.go.wait(10)
        if any(question is None for question in questions):
            raise ValueError("no number")
        return [question**2 for question in questions]


def asked(questions, work, **limits):
    """What each question gets: an answer, or the exception it raises."""

    async def run():
        with ThreadPoolExecutor(1) as executor:
            batcher = Batcher(work, lambda question: 1, executor, **limits)
            tasks = []
            for question in questions:
                tasks.append(asyncio.ensure_future(batcher.ask(question)))
                await asyncio.sleep(0)
            await asyncio.sleep(0.01)
            work.go.set()
            return await asyncio.gather(*tasks, return_exceptions=True)

    return asyncio.run(run())


def test_questions_that_wait_share_a_batch():
    work = Work()
    assert asked([1, 2, 3, 4], work) == [1, 4, 9, 16]
    assert work.batches == [[1], [2, 3, 4]]


def test_a_batch_has_a_largest_size():
    work = Work()
    assert asked([1, 2, 3, 4, 5], work, max_rows=2) == [1, 4, 9, 16, 25]
    assert work.batches == [[1], [2, 3], [4, 5]]


def test_a_bad_question_spoils_no_other_answer():
    work = Work()
    one, two, bad, three = asked([1, 2, None, 3], work)
    assert (one, two, three) == (1, 4, 9)
    assert isinstance(bad, ValueError)


def test_too_many_questions_are_refused():
    work = Work()
    found = asked([1, 2, 3, 4], work, max_waiting=2)
    assert found[:3] == [1, 4, 9]
    assert isinstance(found[3], BusyError)


def test_a_question_whose_client_has_gone_is_not_answered():
    async def run(work):
        with ThreadPoolExecutor(1) as executor:
            batcher = Batcher(work, lambda question: 1, executor)
            first = asyncio.ensure_future(batcher.ask(1))
            await asyncio.sleep(0)
            gone, stays = (asyncio.ensure_future(batcher.ask(n)) for n in (2, 3))
            await asyncio.sleep(0.01)
            gone.cancel()
            work.go.set()
            with pytest.raises(asyncio.CancelledError):
                await gone
            return await asyncio.gather(first, stays)

    work = Work()
    assert asyncio.run(run(work)) == [1, 9]
    assert work.batches == [[1], [3]]
