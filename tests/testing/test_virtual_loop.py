"""The event loop of the explorers: virtual time, chosen order, and its notes about nodes with outside effects."""

from __future__ import annotations

import asyncio
import contextvars
import datetime as dt
import gc
import logging
import random
import socket
import threading
import time
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis.strategies import integers
from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, MockHarness, RetryPolicy, Send
from graphrt.graph import CompiledGraph
from graphrt.harness import Agent, FunctionModel, ToolCall
from graphrt.reducers import append
from graphrt.testing import explore_schedules
from graphrt.testing.exploring._virtual_loop import HangError, VirtualLoop


class State(BaseModel):
    notes: Annotated[list[str], append] = []


def graph(*nodes: Any, **policy: Any) -> CompiledGraph[State, Any]:
    g = GraphBuilder(State, name="looped")
    for number, node in enumerate(nodes):
        g.add_node(f"n{number}", node, **policy)
        g.add_edge(START, f"n{number}")
        g.add_edge(f"n{number}", END)
    return g.compile()


def other(_state: State) -> Any:
    return {"notes": ["other"]}


def price(of: str) -> str:
    """The price of a good."""
    return f"{of}: 3"


clerk = Agent("openai/gpt-4o", name="clerk", tools=[price])


def replied(request: Any) -> Any:
    last = request.messages[-1]
    return ToolCall(id="1", name="price", arguments={"of": "tea"}) if last.role == "user" else last.text


async def sleeps(_state: State) -> Any:
    await asyncio.sleep(3600)
    return {"notes": ["slept"]}


async def in_time(_state: State) -> Any:
    async with asyncio.timeout(5):
        await asyncio.sleep(4)
    return {"notes": ["in time"]}


async def too_late(_state: State) -> Any:
    try:
        await asyncio.wait_for(asyncio.sleep(6), 5)
    except TimeoutError:
        return {"notes": ["too late"]}
    return {"notes": ["in time"]}


async def gathers(_state: State) -> Any:
    async def one(number: int) -> str:
        await asyncio.sleep(number)
        return str(number)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(number)) for number in (2, 1)]
    return {"notes": [*(task.result() for task in tasks), *await asyncio.gather(one(3), one(0))]}


async def asks_an_agent(_state: State, ctx: Context) -> Any:
    return {"notes": [(await ctx.bind(clerk).run("How much?")).text, (await ctx.harness.run("Hello")).text]}


def asks_in_sync(_state: State, ctx: Context) -> Any:
    return {"notes": [clerk.run_sync("How much?").text, ctx.call(ctx.harness.run, "Hello").text]}


def calls_later(state: State) -> Any:
    return sleeps(state)


OTHERS: list[Callable[..., Any]] = [
    sleeps,
    in_time,
    too_late,
    gathers,
    asks_an_agent,
    asks_in_sync,
    calls_later,
]


@pytest.mark.slow
@pytest.mark.parametrize("node", OTHERS)
def test_correct_node_gives_the_same_in_all_orders(node: Any) -> None:
    began = time.monotonic()
    made = explore_schedules(
        graph(node, node, other),
        {},
        seeds=40,
        options=lambda: {"models": {"clerk": FunctionModel(replied)}, "harness": MockHarness({"Hello": "Hi"})},
    )

    assert made.check().tried > 6
    assert made.noted == ()
    assert time.monotonic() - began < 60


def test_nested_graphs_sends_and_retries_are_also_interleaved() -> None:
    def make() -> CompiledGraph[State, Any]:
        failed: list[str] = []

        async def read(_state: State, ctx: Context) -> Any:
            await asyncio.sleep(len(ctx.arg))
            if ctx.arg not in failed:
                failed.append(ctx.arg)
                raise ConnectionError
            return {"notes": [ctx.arg]}

        inner = GraphBuilder(State, name="inner")
        inner.add_node("slow", sleeps)
        inner.add_sequence([START, "slow", END])
        g = GraphBuilder(State, name="outer")
        g.add_node("nested", inner.compile())
        g.add_node("read", read, retry=RetryPolicy(attempts=2))
        g.set_conditional_entry(lambda _: ["nested", Send("read", "a"), Send("read", "bb")], ["nested", "read"])
        g.add_edge("nested", END)
        g.add_edge("read", END)
        return g.compile()

    made = explore_schedules(make, {}, seeds=60).check()
    assert made.tried == 62


def test_sync_node_has_no_running_loop_and_sees_context_variables() -> None:
    seen = contextvars.ContextVar("seen", default="nothing")

    async def waits() -> str:
        await asyncio.sleep(0)
        return "a loop of its own"

    def node(_state: State) -> Any:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return {"notes": [asyncio.run(waits()), seen.get()]}

    seen.set("the caller's")
    made = explore_schedules(graph(node, other), {}).check()
    assert made.noted == ("node 'n0' runs an event loop of its own (asyncio.run): its awaits are not ordered",)


async def connects(_state: State) -> Any:
    await asyncio.open_connection("localhost", 1)


async def starts_a_program(_state: State) -> Any:
    await asyncio.create_subprocess_exec("true")


@pytest.mark.parametrize(("node", "what"), [(connects, "create_connection"), (starts_a_program, "subprocess_exec")])
def test_node_with_real_io_is_named_and_its_successors_skipped(node: Any, what: str) -> None:
    made = explore_schedules(graph(other, node), {})

    assert made.ok
    assert made.left_out == (f"what comes after node 'n1', which does I/O or starts a process ({what})",)


def reads_a_clock(_state: State) -> None:
    time.time()
    dt.datetime.now()  # noqa: DTZ005 - the tested call
    time.perf_counter()


def draws(_state: State) -> None:
    random.shuffle([1, 2])


def starts_a_thread(_state: State) -> None:
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()


def sleeps_for_real(_state: State) -> None:
    time.sleep(0.001)


def uses_a_socket(_state: State) -> None:
    with socket.socket() as one:
        one.connect_ex(("127.0.0.1", 9))


async def hands_over(_state: State) -> None:
    await asyncio.to_thread(int)


async def waits_for_a_thread(_state: State) -> None:
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    threading.Timer(0.05, loop.call_soon_threadsafe, (future.set_result, None)).start()
    await future


def logs(_state: State, ctx: Context) -> None:
    logging.getLogger(__name__).info("has the time, but is not the node's")
    ctx.now()
    ctx.random.random()


@pytest.mark.parametrize(
    ("node", "what"),
    [
        (reads_a_clock, ["reads the wall clock (time.time)", "(datetime.now)", "(time.perf_counter)"]),
        (draws, ["draws its own random numbers (random)"]),
        (starts_a_thread, ["starts a thread"]),
        (sleeps_for_real, ["sleeps for real (time.sleep)"]),
        (uses_a_socket, ["uses a socket (connect_ex)"]),
        (hands_over, ["uses a worker thread"]),
        (waits_for_a_thread, ["starts a thread", "waits for a thread"]),
        (logs, []),
    ],
)
def test_node_that_cannot_be_ordered_or_repeated_is_named(node: Any, what: list[str]) -> None:
    made = explore_schedules(graph(other, node), {}).check()

    assert len(made.noted) == len(what)
    for noted, text in zip(made.noted, what, strict=True):
        assert noted.startswith("node 'n1' ")
        assert text in noted


def test_clock_access_of_a_garbage_collection_is_not_attributed_to_the_running_node() -> None:
    """Hypothesis measures all collections from its first test on."""

    @settings(max_examples=1, database=None)
    @given(integers())
    def nothing(_number: int) -> None: ...

    def collects(_state: State) -> None:
        gc.collect()

    nothing()
    assert explore_schedules(graph(collects), {}).check().noted == ()


def test_object_outside_the_state_is_noted_with_its_nodes() -> None:
    seen: list[str] = []

    def one(_state: State) -> None:
        seen.append("x")

    def two(_state: State) -> Any:
        return {"notes": [] if seen is None else ["y"]}

    made = explore_schedules(graph(one, two), {}).check()
    assert made.noted == ("nodes 'n0', 'n1' share 'seen' outside the state, and it changed: no journal has it",)


def test_node_that_waits_forever_hangs() -> None:
    async def forever(_state: State) -> None:
        await asyncio.Event().wait()

    (finding,) = explore_schedules(graph(other, forever), {}).findings
    assert (finding.kind, finding.text) == ("hangs", "Node 'n1' waits for something that nobody brings.")


@pytest.mark.slow
def test_node_that_polls_forever_hangs() -> None:
    async def polls(_state: State) -> None:
        while True:  # noqa: ASYNC110 - the tested call
            await asyncio.sleep(1)

    (finding,) = explore_schedules(graph(polls), {}).findings
    assert (finding.kind, finding.text) == ("hangs", "Node 'n0' went on 20,000 times and did not end.")


def test_search_works_under_a_running_loop() -> None:
    async def main() -> Any:
        return explore_schedules(graph(other, sleeps), {})

    assert asyncio.run(main()).check().tried == 4


def test_loop_alone_keeps_time_and_order_of_callbacks() -> None:
    came: list[tuple[str, float]] = []

    async def main(loop: VirtualLoop) -> str:
        loop.call_later(2, lambda: came.append(("later", loop.time())))
        loop.call_soon(lambda: came.append(("soon", loop.time())))
        await asyncio.sleep(5)
        return "done"

    loop = VirtualLoop(lambda _number, _names: 0)
    assert loop.run(main(loop)) == "done"
    assert came == [("soon", 0.0), ("later", 2.0)]
    assert loop.is_closed()


def test_idle_loop_raises() -> None:
    loop = VirtualLoop(lambda _number, _names: 0)
    with pytest.raises(HangError, match="waits for something"):
        loop.run(asyncio.Event().wait())
