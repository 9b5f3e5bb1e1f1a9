"""The response cache of agents: an identical request to an identical model is sent once, for any number of callers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from graphrt.errors import InputError, RefusalError
from graphrt.events import Usage
from graphrt.harness import Agent, ModelEnded, ResponseCache

from .fakes import Model, run, says


def test_identical_request_is_sent_once():
    cache = ResponseCache()
    model = Model("one", "two")
    agent = Agent(model, cache=cache)
    items: list[Any] = []
    watching = Agent(model, cache=cache, sinks=[items.append])

    assert [run(agent).text, run(agent).text, run(watching).text] == ["one"] * 3
    assert run(agent).usage == Usage()
    assert run(agent, "else").text == "two"
    assert len(cache) == 2
    (ended,) = (item for item in items if isinstance(item, ModelEnded))
    assert ended.source == "cache"


def test_different_models_do_not_share_responses():
    cache = ResponseCache()

    assert run(Agent(Model("one"), cache=cache)).text == "one"
    assert run(Agent(Model("two"), cache=cache)).text == "two"


def test_least_recently_used_responses_are_evicted_first():
    cache = ResponseCache(max_entries=2)
    model = Model(fn=lambda request: request.text)
    agent = Agent(model, cache=cache)
    for prompt in ("a", "b", "a", "c", "a", "b"):
        run(agent, prompt)

    assert [request.text for request in model.asked] == ["a", "b", "c", "b"]
    assert len(cache) == 2


@pytest.mark.parametrize("wrong", [0, -1, True, float("nan")])
def test_cache_of_size_zero_is_refused(wrong):
    with pytest.raises(InputError):
        ResponseCache(max_entries=wrong)


async def crowd(model: Model, agent: Agent, gate: asyncio.Event) -> list[asyncio.Task[Any]]:
    """64 callers with the same request, while the first one waits for its answer."""
    tasks = [asyncio.ensure_future(agent.run("go")) for _ in range(64)]
    await model.begun.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(model.asked) == 1
    assert not gate.is_set()
    return tasks


def waiting(gate: asyncio.Event, *answers: Any) -> Model:
    left = list(answers)

    async def answer() -> Any:
        mine = left.pop(0)
        await gate.wait()
        return mine

    return Model(fn=lambda _: answer())


def test_concurrent_identical_requests_are_one_call():
    async def main() -> Any:
        gate = asyncio.Event()
        model = waiting(gate, says("one"))
        tasks = await crowd(model, Agent(model, cache=ResponseCache()), gate)
        gate.set()
        return [await task for task in tasks]

    replies = asyncio.run(main())

    assert {reply.text for reply in replies} == {"one"}
    assert sum(reply.usage.calls for reply in replies) == 1


def test_another_caller_sends_the_request_when_the_first_one_is_cancelled():
    async def main() -> Any:
        gate = asyncio.Event()
        model = waiting(gate, says("one"), says("two"))
        tasks = await crowd(model, Agent(model, cache=ResponseCache()), gate)
        tasks[0].cancel()
        gate.set()
        return model, await asyncio.gather(*tasks, return_exceptions=True)

    model, (first, *others) = asyncio.run(main())

    assert isinstance(first, asyncio.CancelledError)
    assert {reply.text for reply in others} == {"two"}
    assert len(model.asked) == 2


def test_callers_that_are_cancelled_with_the_first_one_are_cancelled():
    async def main() -> Any:
        gate = asyncio.Event()
        model = waiting(gate, says("one"), says("two"))
        tasks = await crowd(model, Agent(model, cache=ResponseCache()), gate)
        for task in tasks:
            task.cancel()
        return model, await asyncio.gather(*tasks, return_exceptions=True)

    model, ends = asyncio.run(main())

    assert {type(end) for end in ends} == {asyncio.CancelledError}
    assert len(model.asked) == 1


def test_failure_is_not_cached():
    async def main() -> Any:
        gate = asyncio.Event()
        model = waiting(gate, RefusalError("no"), says("two"))
        tasks = await crowd(model, Agent(model, cache=ResponseCache()), gate)
        gate.set()
        return model, await asyncio.gather(*tasks, return_exceptions=True)

    model, (first, *others) = asyncio.run(main())

    assert isinstance(first, RefusalError)
    assert {reply.text for reply in others} == {"two"}
    assert len(model.asked) == 2


def test_agents_on_several_event_loops_share_one_cache():
    import threading

    gate = threading.Event()
    asked = threading.Event()

    async def answer() -> Any:
        asked.set()
        await asyncio.to_thread(gate.wait)
        return says("one")

    model = Model(fn=lambda _: answer())
    agent = Agent(model, cache=ResponseCache())
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(run(agent).text)) for _ in range(4)]
    for thread in threads:
        thread.start()
    asked.wait()
    gate.set()
    for thread in threads:
        thread.join()

    assert found == ["one"] * 4
    assert len(model.asked) == 1
