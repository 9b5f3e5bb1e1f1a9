"""Shared parts of the tests of threads: a store of each kind with its runtimes, and small graphs.

It contains only code that a user could write, and no rules of execution.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import pytest
import typing_extensions as te

from graphrt import END, START, CompiledGraph, Context, GraphBuilder, Interrupt, Runtime, Send
from graphrt.errors import GraphrtError
from graphrt.reducers import add, append
from graphrt.stores import MemoryStore, open_store
from graphrt.stores.filters import ThreadFilter

START_S = 1_700_000_000.0


class Clock:
    """A clock that advances by one second at each reading, or by hand."""

    def __init__(self) -> None:
        self.now = START_S

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


class World:
    """A store of one kind, and runtimes on it that share a clock and ids."""

    def __init__(self, kind: str, folder: Any, postgres: Any) -> None:
        self.kind = kind
        self.clock = Clock()
        self.path = folder / "runs.db"
        self.url = f"sqlite:///{self.path}"
        self._ids = itertools.count(1)
        self._runtimes: list[Runtime[Any]] = []
        if kind == "postgres":
            for head in postgres.query(ThreadFilter()):
                postgres.delete(head.thread)
            self.store = postgres
        else:
            self.store = MemoryStore() if kind == "memory" else open_store(self.url)

    def ids(self) -> str:
        return f"id-{next(self._ids)}"

    def runtime(self, graph: Any, **options: Any) -> Runtime[Any]:
        options = {"store": self.store, "clock": self.clock, "ids": self.ids, "seed": 7} | options
        made: Runtime[Any] = Runtime(graph, **options)
        self._runtimes.append(made)
        return made

    def close(self) -> None:
        for runtime in self._runtimes:
            runtime.close()
        if self.kind == "postgres":
            for head in self.store.query(ThreadFilter()):
                self.store.delete(head.thread)
        else:
            self.store.close()


class State(te.TypedDict, total=False):
    notes: Annotated[list[Any], append]
    n: Annotated[int, add]
    x: Any
    y: Any


def builder(name: str = "g", state: Any = State, version: int = 0) -> GraphBuilder[Any, Any]:
    made: GraphBuilder[Any, Any] = GraphBuilder(state, name=name, version=version)
    return made


def line(
    *nodes: tuple[str, Callable[..., Any]], name: str = "g", state: Any = State, version: int = 0, **policies: Any
) -> Any:
    """START, the nodes one after another, END."""
    g = builder(name, state, version)
    for node, fn in nodes:
        g.add_node(node, fn, **policies.get(node, {}))
    for src, dst in zip([START, *[node for node, _ in nodes]], [*[node for node, _ in nodes], END], strict=True):
        g.add_edge(src, dst)
    return g.compile()


def fan(*nodes: tuple[str, Callable[..., Any]], then: Callable[..., Any] | None = None, **policies: Any) -> Any:
    """START to a splitter, to all nodes at once, and a join of all into `last`."""
    g = builder()
    g.add_node("split", note("split"))
    g.add_edge(START, "split")
    for node, fn in nodes:
        g.add_node(node, fn, **policies.get(node, {}))
        g.add_edge("split", node)
    g.add_node("last", then if then is not None else note("last"))
    g.add_join([node for node, _ in nodes], "last")
    g.add_edge("last", END)
    return g.compile()


def note(text: str) -> Callable[[Any], dict[str, Any]]:
    """A node that writes the note *text* and counts one."""
    return lambda state: {"notes": [text], "n": 1}


def ask(text: str, **options: Any) -> Callable[..., Any]:
    """A node that asks inline, and notes the answer."""

    def node(state: Any, ctx: Context) -> Any:
        return {"notes": [f"{text}={ctx.interrupt({'q': text}, **options)}"]}

    return node


def ask_once(text: str, **options: Any) -> Callable[..., Any]:
    """A node that returns an Interrupt, and notes its answer."""

    def node(state: Any, ctx: Context) -> Any:
        return Interrupt({"q": text}, **options) if ctx.answer is None else {"notes": [f"{text}={ctx.answer}"]}

    return node


class Fails:
    """A node that fails while `broken`, and counts its calls."""

    def __init__(self, text: str = "mended") -> None:
        self.broken, self.calls, self.text = True, 0, text

    def __call__(self, state: Any) -> Any:
        self.calls += 1
        if self.broken:
            raise RuntimeError("broken pipe")
        return {"notes": [self.text]}


class Counts:
    """A node that counts its calls."""

    def __init__(self, text: str = "counted") -> None:
        self.calls, self.text = 0, text

    def __call__(self, state: Any) -> Any:
        self.calls += 1
        return {"notes": [self.text], "n": 1}


def everything() -> CompiledGraph[Any, Any]:
    """A plain node, a fan-out of Sends, a nested graph that asks, a parallel question, a join, and an end."""
    inner = builder("inner")
    inner.add_node("in1", note("in1"))
    inner.add_node("in2", ask("inner"))
    inner.add_edge(START, "in1")
    inner.add_edge("in1", "in2")
    inner.add_edge("in2", END)
    g = builder("everything")
    g.add_node("plan", note("plan"))
    g.add_node("item", lambda state, ctx: {"notes": [f"item {ctx.arg}"]})
    g.add_node("mid", note("mid"))
    g.add_node("child", inner.compile())
    g.add_node("outer", ask("outer"))
    g.add_node("last", lambda state: {"notes": ["last"], "x": len(state["notes"])})
    g.add_edge(START, "plan")
    g.add_conditional_edges("plan", lambda state: [Send("item", 1), Send("item", 2)], ["item"])
    g.add_edge("item", "mid")
    g.add_edge("mid", "child")
    g.add_edge("mid", "outer")
    g.add_join(["child", "outer"], "last")
    g.add_edge("last", END)
    return g.compile()


EVERYTHING = [
    "plan", "item 1", "item 2", "mid", "in1", "inner=yes", "outer=yes", "last",
]  # fmt: skip


def finish(runtime: Runtime[Any], thread: str, answer: Any = "yes") -> Any:
    """Drive the thread to its end by the verbs that its status requires; return the last result."""
    for _ in range(20):
        snapshot = runtime.state(thread)
        match snapshot.status:
            case "interrupted":
                assert snapshot.interrupts, f"{thread} waits for an answer to nothing"
                result = runtime.resume(thread, {question.id: answer for question in snapshot.interrupts})
            case "completed":
                return snapshot.values
            case _:
                result = runtime.retry(thread)
        if result.status == "completed":
            return result.state
    raise AssertionError(f"{thread} does not end")


def refused(code: str, call: Callable[[], Any], *words: str, error: type[GraphrtError] = GraphrtError) -> GraphrtError:
    """Return the error that *call* must raise, after checking its code and its text."""
    with pytest.raises(error) as caught:
        call()
    text = str(caught.value)
    assert caught.value.code == code, text
    missing = [word for word in words if word not in text]
    assert not missing, f"{missing} not in:\n{text}"
    return caught.value


def kinds(entries: Iterable[Any]) -> list[str]:
    """The kinds of *entries*."""
    return [entry.to_dict()["event"] for entry in entries]
