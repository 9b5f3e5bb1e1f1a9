"""Shared parts of the tests of mail: small graphs, a node that waits, and runs in other threads. No tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.errors import GraphrtError, InputError
from graphrt.graph import CompiledGraph
from graphrt.reducers import append

PATIENT_S = 20.0


class State(BaseModel):
    topic: str = ""
    got: Annotated[list[Any], append] = []


Node = Callable[..., Any]
Open = Callable[..., Runtime[Any]]


def line(*nodes: Node, name: str = "mail") -> CompiledGraph[State, Any]:
    g = GraphBuilder(State, name=name)
    g.add_sequence([g.node(node) for node in nodes])
    g.add_edge(START, nodes[0].__name__)
    g.add_edge(nodes[-1].__name__, END)
    return g.compile()


def paid(state: State, ctx: Context) -> dict[str, Any]:
    return {"got": [ctx.receive("paid")]}


async def twice(state: State, ctx: Context) -> dict[str, Any]:
    return {"got": [(ctx.receive("paid"), ctx.receive("sent"), ctx.receive("paid"))]}


def kinds(runtime: Runtime[Any], thread: str) -> list[str]:
    return [type(entry.event).__name__ for entry in runtime.entries(thread)]


def soon(holds: Callable[[], Any]) -> Any:
    until = time.monotonic() + PATIENT_S
    while not (found := holds()):
        assert time.monotonic() < until
        time.sleep(0.005)
    return found


def refused(code: str, call: Callable[[], Any]) -> InputError:
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.code == code
    return caught.value


class Gate:
    """A node that waits until the test lets it go on, or its run is cancelled."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.go = threading.Event()
        self.cancelled = False

    def node(self, state: State, ctx: Context) -> dict[str, Any]:
        self.began.set()
        while not self.go.wait(0.005):
            if ctx.cancelled:
                self.cancelled = True
                return {}
        return {"got": [f"gate {state.topic}"]}


def driven(runtime: Runtime[Any], given: Any, **options: Any) -> tuple[threading.Thread, list[Any]]:
    """Run in another thread, like another process; append the result to the list."""
    found: list[Any] = []

    def work() -> None:
        try:
            found.append(runtime.run(given, **options))
        except GraphrtError as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, found
