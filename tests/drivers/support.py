"""Shared parts of the tests of drivers: tiny graphs, the verbs in sync and async, work in another worker thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Generic, TypedDict, TypeVar

from graphrt import END, START, CompiledGraph, GraphBuilder, Limits, Runtime
from graphrt.reducers import add, append

T = TypeVar("T")
PATIENCE_S = 20.0
"""Seconds that a test waits before it fails; never reached if graphrt is correct."""
SOON_S = 10.0
"""Seconds that count as "at once" on a loaded machine: otherwise it would take `PATIENCE_S` or longer."""


class State(TypedDict, total=False):
    notes: Annotated[list[Any], append]
    n: Annotated[int, add]
    x: Any


def wired(shape: str, nodes: tuple[tuple[str, Any], ...], limits: Limits | None, policies: Any) -> Any:
    g: Any = GraphBuilder(State)
    for name, fn in nodes:
        g.add_node(name, fn, **policies.get(name, {}))
    names = [name for name, _ in nodes]
    if shape == "sequence":
        g.add_sequence([START, *names, END])
    else:
        for name in names:
            g.add_edge(START, name).add_edge(name, END)
    return g.compile(limits=limits)


def sequence(*nodes: Any, limits: Limits | None = None, **policies: Mapping[str, Any]) -> CompiledGraph[Any, Any]:
    """The nodes one after another."""
    return wired("sequence", nodes, limits, policies)


def parallel(*nodes: Any, limits: Limits | None = None, **policies: Mapping[str, Any]) -> CompiledGraph[Any, Any]:
    """All nodes in one superstep."""
    return wired("parallel", nodes, limits, policies)


def note(text: str) -> Callable[[Any], dict[str, Any]]:
    """A node that writes the note *text*."""
    return lambda state: {"notes": [text]}


def call(face: str, target: CompiledGraph[Any, Any] | Runtime[Any], verb: str, *args: Any, **options: Any) -> Any:
    """The verb, or its async twin on a new loop, which must have no asyncio task left."""
    if face == "sync":
        return getattr(target, verb)(*args, **options)

    async def main() -> Any:
        try:
            return await getattr(target, f"a{verb}")(*args, **options)
        finally:
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left, f"the run left asyncio tasks: {left}"

    return asyncio.run(main())


class Beside(Generic[T]):
    """Runs *fn* in another worker thread; `result()` waits for it and raises its error."""

    def __init__(self, fn: Callable[[], T]) -> None:
        self._fn = fn
        self._value: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="beside", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self._value.append(self._fn())
        except BaseException as error:  # noqa: BLE001 - raised by result()
            self._error = error

    def result(self) -> T:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "it hangs"
        if self._error is not None:
            raise self._error
        return self._value[0]
