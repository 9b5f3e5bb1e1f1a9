from __future__ import annotations

import asyncio
import contextvars
import os
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from graphrt.harness._background_loop import LoopThread

SOURCE = Path(__file__).parents[2] / "src"
NAME = "test-loop"

FORK = """
import asyncio, os
from graphrt.harness._background_loop import LoopThread

loop = LoopThread("forked")

async def one():
    return 1

asyncio.run(loop.call(one()))
child = os.fork()
if child == 0:
    os._exit(0 if asyncio.run(asyncio.wait_for(loop.call(one()), 10)) == 1 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    loop = LoopThread(NAME)
    yield loop
    loop.close()


async def here() -> str:
    return threading.current_thread().name


def test_work_runs_on_one_worker_thread_for_all_loops(loop: LoopThread) -> None:
    names = {asyncio.run(loop.call(here())) for _ in range(3)}

    assert names == {NAME}
    assert [thread.name for thread in threading.enumerate()].count(NAME) == 1


def test_work_sees_the_context_variables_of_its_caller(loop: LoopThread) -> None:
    who = contextvars.ContextVar("who", default="nobody")

    async def read() -> str:
        return who.get()

    async def call() -> str:
        who.set("caller")
        return await loop.call(read())

    assert asyncio.run(call()) == "caller"


def test_exception_of_the_work_is_raised_to_the_caller(loop: LoopThread) -> None:
    async def fail() -> None:
        raise LookupError("lost")

    with pytest.raises(LookupError, match="lost"):
        asyncio.run(loop.call(fail()))


def test_cancelling_the_caller_cancels_the_work(loop: LoopThread) -> None:
    started, cancelled = threading.Event(), threading.Event()

    async def wait() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def call() -> None:
        task = asyncio.create_task(loop.call(wait()))
        assert await asyncio.to_thread(started.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(call())

    assert cancelled.wait(10)


def test_items_arrive_in_order_and_a_slow_reader_blocks_the_producer(loop: LoopThread) -> None:
    made: list[int] = []

    async def produce() -> AsyncGenerator[int, None]:
        for number in range(500):
            made.append(number)
            yield number

    async def read() -> list[int]:
        read: list[int] = []
        async for number in loop.iterate(produce):
            assert len(made) - len(read) < 70
            read.append(number)
        return read

    assert asyncio.run(read()) == list(range(500))


def test_exception_of_the_producer_comes_after_its_items(loop: LoopThread) -> None:
    async def produce() -> AsyncGenerator[int, None]:
        yield 1
        raise LookupError("lost")

    items: list[int] = []

    async def read() -> None:
        async for item in loop.iterate(produce):
            items.append(item)  # noqa: PERF401 - keeps the items before the exception

    with pytest.raises(LookupError, match="lost"):
        asyncio.run(read())

    assert items == [1]


def test_reader_that_stops_closes_the_producer(loop: LoopThread) -> None:
    closed = threading.Event()

    async def produce() -> AsyncGenerator[int, None]:
        try:
            while True:
                yield 1
                await asyncio.sleep(0)
        finally:
            closed.set()

    async def read() -> None:
        async with aclosing(loop.iterate(produce)) as items:
            async for _ in items:
                return

    asyncio.run(read())

    assert closed.wait(10)


def test_loop_that_was_closed_starts_again_with_the_next_call(loop: LoopThread) -> None:
    asyncio.run(loop.call(here()))

    loop.close()

    assert NAME not in [thread.name for thread in threading.enumerate()]
    assert asyncio.run(loop.call(here())) == NAME


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_forked_process_starts_its_own_loop() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        timeout=60,
        check=False,
    )

    assert (done.stdout.strip(), done.stderr) == ("0", "")
