"""Every wait of a run uses the `sleep=` of its runtime: under each driver, for one task and for several."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypedDict

import pytest

from graphrt import END, START, GraphBuilder, RetryPolicy, Runtime
from graphrt.errors import InputError, NodeError, RateLimitError, TransientModelError
from graphrt.harness import Agent, GraphTool, ScriptedModel, ToolCall

TWICE = RetryPolicy(attempts=2, wait_initial_s=0.0)
LONG_S = 100.0


class State(TypedDict, total=False):
    said: str


def failing_once(asynchronous: bool) -> Callable[..., Any]:
    tried: list[int] = []

    def node(state: State) -> None:
        tried.append(1)
        if len(tried) == 1:
            raise RateLimitError("busy", retry_after_s=LONG_S)

    async def anode(state: State) -> None:
        node(state)

    return anode if asynchronous else node


def graph(*nodes: Callable[..., Any], **policy: Any) -> Any:
    builder = GraphBuilder(State)
    for number, node in enumerate(nodes):
        builder.add_node(f"n{number}", node, **policy)
        builder.add_edge(START, f"n{number}")
        builder.add_edge(f"n{number}", END)
    return builder.compile()


def drive(built: Any, verb: str, **options: Any) -> Any:
    return built.run({}, **options) if verb == "run" else asyncio.run(built.arun({}, **options))


class Sleep:
    """A sleep that takes no time, sync or async, and records its calls."""

    def __init__(self, kind: str) -> None:
        self.waits: list[float] = []
        self.seen: list[str] = []
        self.call: Any = self._later if kind == "async" else self._returned if kind == "awaitable" else self._now

    def _now(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.seen.append(NAME.get())

    async def _later(self, seconds: float) -> None:
        self._now(seconds)
        await asyncio.sleep(0)

    def _returned(self, seconds: float) -> Any:
        return self._later(seconds)


NAME: ContextVar[str] = ContextVar("name", default="nobody")
KINDS = pytest.mark.parametrize("kind", ["sync", "async", "awaitable"])
VERBS = pytest.mark.parametrize("verb", ["run", "arun"])


@KINDS
@VERBS
@pytest.mark.parametrize("timeout_s", [None, 50.0])
@pytest.mark.parametrize("nodes", [(False,), (True,), (False, False), (True, True), (True, False)])
def test_retry_waits_with_the_sleep_of_the_runtime(nodes, timeout_s, verb, kind):
    sleep = Sleep(kind)
    built = graph(*map(failing_once, nodes), retry=TWICE, **({"timeout_s": timeout_s} if timeout_s else {}))
    token = NAME.set("caller")

    result = drive(built, verb, sleep=sleep.call)

    NAME.reset(token)
    assert (result.status, sleep.waits) == ("completed", [LONG_S] * len(nodes))
    assert set(sleep.seen) == {"caller"}


@KINDS
@VERBS
def test_retry_in_a_nested_graph_also_waits_with_it(verb, kind):
    sleep = Sleep(kind)
    inner = graph(failing_once(asynchronous=True), retry=TWICE)

    drive(graph(inner, failing_once(asynchronous=False), retry=TWICE), verb, sleep=sleep.call)

    assert sleep.waits == [LONG_S, LONG_S]


def busy_agent() -> Agent[Any]:
    return Agent(ScriptedModel([RateLimitError("busy", retry_after_s=LONG_S), "done"]), retry=TWICE)


@KINDS
@VERBS
@pytest.mark.parametrize("with_context", [False, True])
def test_model_calls_of_agents_wait_with_it(with_context, verb, kind):
    sleep, agent = Sleep(kind), busy_agent()

    async def bare(state: State) -> State:
        return {"said": (await agent.run("go")).text}

    async def node(state: State, ctx: Any) -> State:
        return {"said": (await ctx.bind(agent).run("go")).text}

    result = drive(graph(node if with_context else bare), verb, sleep=sleep.call)

    assert (result.state["said"], sleep.waits) == ("done", [LONG_S])


def test_graph_as_a_tool_of_an_agent_waits_with_it():
    sleep = Sleep("sync")
    tool = GraphTool(
        graph(failing_once(asynchronous=True), retry=TWICE), name="below", description="Works.", input=State
    )
    agent = Agent(ScriptedModel([ToolCall(id="1", name="below", arguments={}), "done"]), tools=[tool])

    async def node(state: State) -> State:
        return {"said": (await agent.run("go")).text}

    assert graph(node).run({}, sleep=sleep.call).state["said"] == "done"
    assert sleep.waits == [LONG_S]


@pytest.mark.parametrize("modes", ["updates", ["updates", "messages"]])
def test_streams_wait_with_it(modes):
    sleep = Sleep("sync")

    list(graph(failing_once(asynchronous=False), retry=TWICE).stream({}, modes=modes, sleep=sleep.call))

    assert sleep.waits == [LONG_S]


@VERBS
@pytest.mark.parametrize("several", [False, True])
def test_error_of_the_sleep_ends_the_run(several, verb):
    def broken(seconds: float) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        drive(graph(*[failing_once(asynchronous=False)] * (2 if several else 1), retry=TWICE), verb, sleep=broken)


@pytest.mark.parametrize("nodes", [(False,), (True,), (False, True)])
@pytest.mark.parametrize("kind", ["real", "async"])
def test_cancel_ends_a_wait(nodes, kind):
    """A sync `sleep=` cannot be interrupted: the run waits for it where the caller makes the wait."""
    waiting = threading.Event()

    async def forever(seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    def node(state: State) -> None:
        if kind == "real":
            waiting.set()
        raise TransientModelError("down")

    async def anode(state: State) -> None:
        node(state)

    slow = RetryPolicy(attempts=2, wait_initial_s=LONG_S, wait_max_s=LONG_S, jitter=False)
    built = graph(*(anode if one else node for one in nodes), retry=slow)
    options: dict[str, Any] = {"sleep": forever} if kind == "async" else {}
    with Runtime(built, store="memory:", **options) as runtime:
        for thread, verb in (("a", "run"), ("b", "arun")):
            waiting.clear()

            def stop(thread: str = thread) -> None:
                waiting.wait(10)
                while not runtime.cancel(thread):
                    pass

            stopper = threading.Thread(target=stop)
            stopper.start()
            result = runtime.run({}, thread=thread) if verb == "run" else asyncio.run(runtime.arun({}, thread=thread))
            stopper.join()
            assert result.status == "cancelled"


def test_parallel_failure_ends_a_wait_under_asyncio():
    ended: list[str] = []
    begun = asyncio.Event()

    async def forever(seconds: float) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async def wrong(state: State) -> None:
        await begun.wait()
        raise ValueError

    builder = GraphBuilder(State)
    builder.add_node("waits", failing_once(asynchronous=True), retry=TWICE)
    builder.add_node("wrong", wrong)
    builder.add_edge(START, "waits")
    builder.add_edge(START, "wrong")

    with pytest.raises(NodeError):
        asyncio.run(builder.compile().arun({}, sleep=forever))
    assert ended == ["cancelled"]


@pytest.mark.parametrize("sleep", [3, "1s", float])
def test_sleep_that_is_not_a_function_is_refused(sleep):
    with pytest.raises(InputError) as refused:
        Runtime(graph(failing_once(asynchronous=False)), sleep=sleep)

    assert refused.value.code == "input"
