"""Concurrent questions share one pass over their rows.

While one batch is being answered, later questions wait and then make the next batch. No question
waits for others to arrive, so a single client loses nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class BusyError(Exception):
    """Too many questions are waiting."""


class Batcher(Generic[Question, Answer]):
    """Answers questions in batches, one batch at a time.

    Parameters
    ----------
    work : callable
        Gives the answers of several questions, in their order; runs in the executor.
    size : callable
        Number of rows of a question.
    executor : Executor
    max_rows : int
        Most rows of a batch; a larger question is a batch by itself.
    max_waiting : int
        Most questions that may wait; one more raises `BusyError`.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Question]], Sequence[Answer]],
        size: Callable[[Question], int],
        executor: Executor,
        max_rows: int = 1024,
        max_waiting: int = 256,
    ) -> None:
        self._work, self._size, self._executor = work, size, executor
        self._max_rows, self._max_waiting = max_rows, max_waiting
        self._waiting: list[tuple[Question, asyncio.Future[Answer]]] = []
        self._running: asyncio.Task[None] | None = None

    async def ask(self, question: Question) -> Answer:
        """The answer, after the batches before it."""
        if len(self._waiting) >= self._max_waiting:
            raise BusyError
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, future))
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._answer_all())
        return await future

    async def _answer_all(self) -> None:
        while self._waiting:
            batch = self._next()
            if batch:
                await self._answer(batch)

    def _next(self) -> list[tuple[Question, asyncio.Future[Answer]]]:
        """Take the next batch; questions whose client has gone are dropped."""
        batch: list[tuple[Question, asyncio.Future[Answer]]] = []
        rows = taken = 0
        for question, future in self._waiting:
            size = self._size(question)
            if batch and rows + size > self._max_rows:
                break
            taken += 1
            if not future.done():
                batch.append((question, future))
                rows += size
        del self._waiting[:taken]
        return batch

    async def _answer(self, batch: list[tuple[Question, asyncio.Future[Answer]]]) -> None:
        loop = asyncio.get_running_loop()
        questions = [question for question, _ in batch]
        try:
            answers = await loop.run_in_executor(self._executor, self._work, questions)
        except Exception as error:  # of any kind: the client that asked gets it
            if len(batch) > 1:  # an error in one question must not affect the others
                for one in batch:
                    await self._answer([one])
            elif not batch[0][1].done():
                batch[0][1].set_exception(error)
            return
        for (_, future), answer in zip(batch, answers, strict=True):
            if not future.done():
                future.set_result(answer)
