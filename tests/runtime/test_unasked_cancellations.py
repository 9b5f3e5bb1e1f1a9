"""A CancelledError without a cancellation is a failure of the user code that raised it, under every driver (R9)."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import AfterValidator

from graphrt import (
    END,
    START,
    GraphBuilder,
    InputError,
    NodeError,
    RetryPolicy,
    RouteError,
    Runtime,
    UpdateError,
)
from graphrt.harness import Agent, FunctionModel, Middleware, ToolCall, tool
from graphrt.migrations import Migration

CLASSES = {"asyncio": asyncio.CancelledError, "futures": concurrent.futures.CancelledError}
raised: type[BaseException] = asyncio.CancelledError
"""The error that `leave` raises in the present test."""


def leave(*_: Any) -> Any:
    raise raised("by myself")


async def aleave(*_: Any) -> Any:
    leave()


def checked(value: int) -> int:
    return leave() if value < 0 else value


class State(TypedDict, total=False):
    x: Annotated[int, AfterValidator(checked)]
    reduced: Annotated[int, leave]


@dataclass(frozen=True)
class Place:
    """A graph in which one user function raises CancelledError, and the failure of the run."""

    node: Callable[..., Any]
    policy: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    error: type[Exception] = NodeError
    status: str = "failed"
    router: Callable[..., Any] | None = None
    entry: Callable[..., Any] | None = None


def after(calls: int, fn: Callable[..., Any] = lambda *_: None) -> Callable[..., Any]:
    """A function that behaves like *fn* for some *calls*, and then raises CancelledError."""
    count = 0

    def counted(*args: Any) -> Any:
        nonlocal count
        count += 1
        return fn(*args) if count <= calls else leave()

    return counted


class Layer(Middleware):
    async def before_model(self, *_: Any) -> Any:
        leave()


def ok(_state: State) -> State:
    return {"x": 1}


def failing(_state: State) -> State:
    raise ValueError("not me")


async def aok(_state: State) -> State:
    await aleave()
    return {}


def effect(_state: State, ctx: Any) -> None:
    ctx.effect("leave", leave)


def call(_state: State, ctx: Any) -> None:
    ctx.call(aleave)


def asking(agent: Agent[Any]) -> Callable[..., Any]:
    async def node(_state: State, ctx: Any) -> State:
        await ctx.bind(agent).run("go")
        return {}

    return node


PLACES: dict[str, Callable[[], Place]] = {
    "node": lambda: Place(leave),
    "async node": lambda: Place(aok),
    "inline node": lambda: Place(leave, {"inline": True}),
    "node with a timeout": lambda: Place(leave, {"timeout_s": 60.0}),
    "async node with a timeout": lambda: Place(aok, {"timeout_s": 60.0}),
    "effect": lambda: Place(effect),
    "call": lambda: Place(call),
    "on_error node": lambda: Place(failing, {"on_error": "handler"}),
    "second attempt": lambda: Place(leave, {"retry": RetryPolicy(attempts=2, wait_initial_s=0.0, retry_on=Exception)}),
    "retry_on": lambda: Place(failing, {"retry": RetryPolicy(attempts=2, wait_initial_s=0.0, retry_on=leave)}),
    "key of a cache": lambda: Place(ok, {"cache": True, "key": leave}),
    "model": lambda: Place(asking(Agent(FunctionModel(leave)))),
    "async model": lambda: Place(asking(Agent(FunctionModel(aleave)))),
    "middleware": lambda: Place(asking(Agent(FunctionModel(lambda _: "hm"), middleware=[Layer()]))),
    "router": lambda: Place(ok, router=leave, error=RouteError),
    "entry router": lambda: Place(ok, entry=leave, error=RouteError),
    "reducer": lambda: Place(lambda _: {"reduced": 1}, error=UpdateError),
    "validator": lambda: Place(lambda _: {"x": -1}, error=RuntimeError),
    "sink": lambda: Place(ok, options={"sinks": [after(1)]}, error=RuntimeError),
    "clock": lambda: Place(ok, options={"clock": after(2, lambda: 1.0)}, error=RuntimeError, status="running"),
    "sleep": lambda: Place(
        failing, {"retry": RetryPolicy(attempts=2, retry_on=Exception)}, {"sleep": leave}, RuntimeError
    ),
    "async sleep": lambda: Place(
        failing, {"retry": RetryPolicy(attempts=2, retry_on=Exception)}, {"sleep": aleave}, RuntimeError
    ),
}
DRIVERS = ["run", "steps", "stream", "stream live", "arun", "asteps", "astream", "astream live"]


def graph_of(place: Place, shape: str) -> Any:
    g = GraphBuilder(State, name="g")
    g.add_node("first", place.node, **place.policy).add_node("beside", ok).add_node("last", lambda _: None)
    g.add_node("handler", leave).add_edge("handler", END).add_edge("last", END).add_edge("beside", END)
    if place.entry is not None:
        g.set_conditional_entry(place.entry, {"first": "first"})
    else:
        g.add_edge(START, "first")
        if shape == "several":
            g.add_node("third", lambda _: None).add_edge(START, "third").add_edge("third", END)
    if place.router is not None:
        g.add_conditional_edges("first", place.router, {"last": "last"})
    else:
        g.add_edge("first", "last")
    return g.compile(allow=("unreachable-node",))


def drive(runtime: Runtime[Any], driver: str) -> None:
    verb, _, live = driver.partition(" ")
    given: Any = {"x": 0, "reduced": 0}
    modes: dict[str, Any] = {"modes": ("custom", "updates")} if live else {}

    async def adrive() -> None:
        async with asyncio.TaskGroup() as group:  # which interprets a CancelledError of its task as its end
            group.create_task(drain())

    async def drain() -> None:
        if verb == "arun":
            await runtime.arun(given, thread="t")
        else:
            async for _ in getattr(runtime, verb)(given, thread="t", **modes):
                pass

    if verb.startswith("a"):
        asyncio.run(adrive())
    elif verb == "run":
        runtime.run(given, thread="t")
    else:
        for _ in getattr(runtime, verb)(given, thread="t", **modes):
            pass


WAYS = [("asyncio", driver, shape) for driver in DRIVERS for shape in ("one", "several")]
WAYS += [("futures", "run", "one"), ("futures", "arun", "one")]  # an Exception, which is a failure anyway


@pytest.mark.parametrize(("cls", "driver", "shape"), WAYS)
@pytest.mark.parametrize("place", PLACES)
def test_cancelled_error_without_a_cancellation_is_a_failure(
    place: str, cls: str, driver: str, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "raised", CLASSES[cls])
    made = PLACES[place]()
    runtime = Runtime(graph_of(made, shape), store="memory:", **made.options)

    with pytest.raises((Exception, asyncio.CancelledError)) as caught:
        drive(runtime, driver)

    error: Any = caught.value
    if isinstance(error, ExceptionGroup):
        (error,) = error.exceptions
    expected = made.error if cls == "asyncio" or made.error is not RuntimeError else concurrent.futures.CancelledError
    if cls == "futures" and place == "validator":  # like any exception of a validator
        expected = UpdateError
    assert type(error) is expected
    assert place == "retry_on" or "CancelledError" in str(error) + repr(error.__cause__) + repr(error)
    assert runtime.state("t").status == made.status


@pytest.mark.parametrize("driver", DRIVERS)
def test_node_that_raised_a_cancelled_error_is_retried_by_its_policy(driver: str) -> None:
    policy = {"retry": RetryPolicy(attempts=3, wait_initial_s=0.0, retry_on=RuntimeError)}
    failed = [False, False]

    def twice(_state: State) -> State:
        if False in failed:
            failed[failed.index(False)] = True
            leave()
        return {"x": 7}

    runtime = Runtime(graph_of(Place(twice, policy), "one"), store="memory:")

    drive(runtime, driver)

    assert runtime.state("t").values["x"] == 7


@pytest.mark.parametrize("fn", [leave, aleave])
def test_cancelled_error_of_a_tool_is_reported_to_the_model(fn: Callable[..., Any]) -> None:
    seen: list[Any] = []

    @tool
    def charge() -> str:
        """Charge."""
        return str(leave())

    @tool
    async def acharge() -> str:
        """Charge."""
        return str(await aleave())

    chosen = charge if fn is leave else acharge

    def answer(request: Any) -> Any:
        seen.append(request)
        return ToolCall(id="1", name=chosen.spec.name, arguments={}) if len(seen) == 1 else "sorry"

    graph = graph_of(Place(asking(Agent(FunctionModel(answer), tools=[chosen]))), "one")

    for driver in ("run", "arun"):
        seen.clear()
        runtime = Runtime(graph, store="memory:")
        drive(runtime, driver)
        assert runtime.state("t").status == "completed"
        assert len(seen) == 2


def test_migration_that_raises_a_cancelled_error_is_refused() -> None:
    def graph(name: str) -> Any:
        g = GraphBuilder(State, name="g")
        return g.add_node(name, ok).add_sequence([START, name, END]).compile()

    old = Runtime(graph("old"), store="memory:")
    old.start({"x": 0}, thread="t")
    moved = Migration(source=graph("old").fingerprint, nodes={"old": "new"}, values=leave, name="rename")

    with pytest.raises(InputError, match="CancelledError"):
        Runtime(graph("new"), store=old.store, migrations=[moved]).retry("t")


@pytest.mark.parametrize("driver", DRIVERS)
def test_ids_function_that_raises_a_cancelled_error_fails_the_call(driver: str) -> None:
    runtime = Runtime(graph_of(Place(ok), "one"), store="memory:", ids=leave)

    with pytest.raises((RuntimeError, ExceptionGroup)) as caught:
        drive(runtime, driver)

    assert "ids= raised CancelledError" in "".join(map(str, getattr(caught.value, "exceptions", [caught.value])))
