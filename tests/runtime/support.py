"""Shared parts of the tests of runs: the verbs in one spelling for sync and async, states of all three kinds, tiny
graphs.

No rule of execution may live here, and nothing that a user could not write.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import aclosing
from typing import Annotated, Any, NotRequired

import pydantic
import typing_extensions as te

from graphrt import END, START, CompiledGraph, Context, GraphBuilder, Limits, RunResult, Runtime, Step, UpdateError
from graphrt.reducers import add, append

Returned = Any
Drivable = CompiledGraph[Any, Any] | Runtime[Any]


class Face:
    """The verbs of a graph or a runtime as plain calls; `kind` selects the twin."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def _call(self, target: Any, verb: str, *args: Any, **options: Any) -> Any:
        if self.kind == "sync":
            return getattr(target, verb)(*args, **options)
        return asyncio.run(_awaited(lambda: getattr(target, f"a{verb}")(*args, **options)))

    def run(self, target: Drivable, input: Any, **options: Any) -> RunResult[Any]:
        return self._call(target, "run", input, **options)

    def resume(self, runtime: Runtime[Any], thread: str, *answers: Any, **options: Any) -> RunResult[Any]:
        return self._call(runtime, "resume", thread, *answers, **options)

    def retry(self, runtime: Runtime[Any], thread: str) -> RunResult[Any]:
        return self._call(runtime, "retry", thread)

    def steps(self, target: Drivable, input: Any, **options: Any) -> list[Step[Any]]:
        return self.each_step(target, input, lambda _: None, **options)

    def each_step(
        self, target: Drivable, input: Any, look: Callable[[Step[Any]], object], **options: Any
    ) -> list[Step[Any]]:
        """All steps; *look* is called with each step as it arrives."""
        return self._each(target, "steps", look, input, **options)

    def stream(self, target: Drivable, input: Any, **options: Any) -> list[Any]:
        return self._each(target, "stream", lambda _: None, input, **options)

    def _each(self, target: Any, verb: str, look: Callable[[Any], object], *args: Any, **options: Any) -> list[Any]:
        found: list[Any] = []

        def take(item: Any) -> None:
            look(item)
            found.append(item)

        if self.kind == "sync":
            for item in getattr(target, verb)(*args, **options):
                take(item)
            return found

        async def collect() -> None:
            async with aclosing(getattr(target, f"a{verb}")(*args, **options)) as items:
                async for item in items:
                    take(item)

        asyncio.run(collect())
        return found


async def _awaited(make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    before = asyncio.all_tasks()
    try:
        return await make()
    finally:
        left = asyncio.all_tasks() - before
        assert not left, f"the run left asyncio tasks: {left}"


def state_class(kind: str, **fields: Any) -> Any:
    """A state class of *kind*; each field is (annotation, default)."""
    if kind == "typeddict":
        return te.TypedDict("State", {name: NotRequired[hint] for name, (hint, _) in fields.items()})  # type: ignore[misc]
    if kind == "pydantic":
        return pydantic.create_model("State", **fields)
    return dataclasses.make_dataclass(
        "State",
        [
            (name, hint, dataclasses.field(default_factory=functools.partial(_copied, default)))
            for name, (hint, default) in fields.items()
        ],
    )


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, (list, dict, set)) else value


def general(kind: str = "typeddict") -> Any:
    """A state with a field of each common kind: notes (append), n (add), x and y (last value)."""
    return state_class(
        kind, notes=(Annotated[list[Any], append], []), n=(Annotated[int, add], 0), x=(Any, None), y=(Any, None)
    )


def get(state: Any, name: str, default: Any = None) -> Any:
    """A field of a state of any kind."""
    return state.get(name, default) if isinstance(state, Mapping) else getattr(state, name, default)


def as_kind(kind: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """The sync node *fn* unchanged, or wrapped in an async function."""
    if kind == "sync":
        return fn
    if _takes_context(fn):

        async def with_context(state: Any, ctx: Context) -> Any:
            await asyncio.sleep(0)
            return fn(state, ctx)

        return with_context

    async def plain(state: Any) -> Any:
        await asyncio.sleep(0)
        return fn(state)

    return plain


def _takes_context(fn: Callable[..., Any]) -> bool:
    return fn.__code__.co_argcount == 2


def sequence(
    *nodes: tuple[str, Callable[..., Any]],
    state: Any = None,
    limits: Limits | None = None,
    **policies: Mapping[str, Any],
) -> CompiledGraph[Any, Any]:
    """START, the nodes one after another, END."""
    g: GraphBuilder[Any, Any] = GraphBuilder(state if state is not None else general())
    for name, fn in nodes:
        g.add_node(name, fn, **policies.get(name, {}))
    for src, dst in zip([START, *[name for name, _ in nodes]], [*[name for name, _ in nodes], END], strict=True):
        g.add_edge(src, dst)
    return g.compile(limits=limits)


def parallel(
    *nodes: tuple[str, Callable[..., Any]],
    state: Any = None,
    limits: Limits | None = None,
    allow: Iterable[str] = (),
    **policies: Mapping[str, Any],
) -> CompiledGraph[Any, Any]:
    """START to all nodes in parallel, each to END."""
    g: GraphBuilder[Any, Any] = GraphBuilder(state if state is not None else general())
    for name, fn in nodes:
        g.add_node(name, fn, **policies.get(name, {}))
        g.add_edge(START, name)
        g.add_edge(name, END)
    return g.compile(limits=limits, allow=allow)


def note(text: str) -> Callable[[Any], dict[str, Any]]:
    """A node that writes the note *text*."""
    return lambda state: {"notes": [text]}


def only_mutated(error: UpdateError) -> None:
    """The only error that may report a change."""
    assert error.code == "mutated-state"
