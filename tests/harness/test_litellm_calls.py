"""LiteLLMModel, cancelled and under concurrency: connections are closed, and loops and worker threads are independent."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from contextlib import aclosing

import pytest
from tests.harness.wires import WAYS, WIRES, ask, model_for, request
from tests.patience import eventually, with_more_time

from graphrt.harness import TextDelta
from graphrt.testing import ChatAnswer, FakeChatServer

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "answer",
    [ChatAnswer(text="late", delay_s=60), ChatAnswer(text="drip" * 9, gap_s=5, pieces=9)],
    ids=["early", "amid"],
)
def test_cancelling_the_caller_closes_the_connection(wire: str, way: str, answer: ChatAnswer) -> None:
    with FakeChatServer([answer, "next"]) as server:
        model = model_for(wire, server, timeout_s=60)

        async def go() -> str:
            task = asyncio.create_task(ask(model, way, request()))
            assert await asyncio.to_thread(server.wait_for_requests, 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return (await model.invoke(request("again"))).text

        text = asyncio.run(go())

        assert text == "next"
        assert server.hung_up(within_s=20), "the connection of the cancelled call is still open"


def test_reader_that_stops_closes_the_connection(wire: str) -> None:
    with FakeChatServer([ChatAnswer(text="never read to its end", gap_s=0.3, pieces=20)]) as server:

        async def read_one() -> object:
            async with aclosing(model_for(wire, server).stream(request())) as items:
                return await anext(items)

        assert isinstance(asyncio.run(read_one()), TextDelta)
        assert server.hung_up(within_s=20), "the connection of the abandoned stream is still open"


def test_timeout_closes_the_connection(wire: str) -> None:
    def trial(timeout_s: float) -> None:
        with FakeChatServer([ChatAnswer(text="late", delay_s=60)]) as server:
            with pytest.raises(Exception, match="timed out"):
                asyncio.run(model_for(wire, server, timeout_s=timeout_s).invoke(request()))

            assert server.wait_for_requests(1)
            assert server.hung_up(within_s=20), "the connection of the late call is still open"

    with_more_time(trial, 0.3, 5.0)


def test_sixty_four_concurrent_calls_run_in_four_loops_of_four_worker_threads(
    wire: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    texts: Counter[str] = Counter()
    wrong: list[BaseException] = []
    with FakeChatServer([ChatAnswer(text="here you are", delay_s=0.2)] * 64) as server:
        model = model_for(wire, server, timeout_s=60)

        async def sixteen() -> None:
            replies = await asyncio.gather(*(ask(model, WAYS[n % 2], request(f"call {n}")) for n in range(16)))
            texts.update(reply.text for reply in replies)

        def work() -> None:
            try:
                asyncio.run(sixteen())
            except BaseException as error:  # noqa: BLE001 - a worker thread passes it to the test
                wrong.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert wrong == []
    assert texts == {"here you are": 64}
    assert capfd.readouterr() == ("", "")
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


def test_no_task_is_left_after_the_calls(wire: str) -> None:
    """The remaining task belongs to litellm: its queue of log lines has one worker for any number of calls."""
    from graphrt.harness.litellm import _client

    def running() -> list[str]:
        return sorted(
            str(getattr(task.get_coro(), "__qualname__", "")) for task in asyncio.all_tasks() if not task.done()
        )

    with FakeChatServer([ChatAnswer.failure(500), ChatAnswer.drop(after=2), "x"] * 4) as server:
        model = model_for(wire, server)

        async def go() -> None:
            for n in range(12):
                await asyncio.gather(ask(model, WAYS[n % 2], request()), return_exceptions=True)

        asyncio.run(go())

    def only_litellm_is_left() -> bool:
        left = [name for name in _client.on_loop(running) if not name.startswith("LoggingWorker.")]
        return left == ["on_loop.<locals>.run"]

    eventually(only_litellm_is_left)
    assert "litellm" in sys.modules
