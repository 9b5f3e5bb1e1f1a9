"""Every run that was announced to a watcher also ends for it, after any failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import typing_extensions as te

from graphrt import END, START, GraphBuilder, InputError, Runtime
from graphrt._journal.thread_commits import ThreadCommits


class State(te.TypedDict, total=False):
    n: int


class Watching:
    """A sink that watches runs, and records how each of them ended."""

    def __init__(self) -> None:
        self.began = 0
        self.ends: list[BaseException | None] = []

    def __call__(self, entry: Any) -> None:
        pass

    def __graphrt_watch__(self, opened: Any) -> Any:
        self.began += 1
        return Watcher(self)


class Watcher:
    def __init__(self, sink: Watching) -> None:
        self._sink = sink

    def __call__(self, entry: Any) -> None:
        pass

    def attempt(self, task: str, node: str, attempt: int) -> Callable[[str, str | None], None]:
        return lambda outcome, error: None

    def committed(self, *told: Any) -> None:
        pass

    def ended(self, error: BaseException | None) -> None:
        self._sink.ends.append(error)


def graph(*, shows: bool = False) -> Any:
    def a(state: Any, ctx: Any) -> Any:
        if shows:
            ctx.emit("a")
        return {"n": 1}

    builder: Any = GraphBuilder(State, name="watched")
    return builder.add_node("a", a).add_edge(START, "a").add_edge("a", END).compile()


@pytest.mark.parametrize("modes", ["updates", "custom"])
@pytest.mark.parametrize("face", ["sync", "async"])
def test_closed_stream_ends_for_its_watcher(face: str, modes: Any) -> None:
    sink = Watching()
    with Runtime(graph(shows=True), sinks=[sink]) as runtime:
        if face == "sync":
            with runtime.stream({}, modes=modes) as stream:
                next(stream)
        else:

            async def read() -> None:
                async with runtime.astream({}, modes=modes) as items:
                    await anext(items)

            asyncio.run(read())

    assert (sink.began, len(sink.ends)) == (1, 1)


@pytest.mark.parametrize("store", [None, "memory:"])
def test_run_whose_input_is_refused_ends_for_its_watcher(store: str | None) -> None:
    sink = Watching()
    with Runtime(graph(), store=store, sinks=[sink]) as runtime:
        with suppress(InputError):
            runtime.run({"m": 1})
        runtime.run({"n": 1})

    assert len(sink.ends) == sink.began
    assert sink.ends[-1] is None


def test_run_that_cannot_store_its_end_ends_for_its_watcher(monkeypatch: pytest.MonkeyPatch) -> None:
    sink, lost = Watching(), OSError("the disk is away")

    def close(_: ThreadCommits) -> None:
        raise lost

    with Runtime(graph(), store="memory:", sinks=[sink]) as runtime:
        monkeypatch.setattr(ThreadCommits, "close", close)
        with pytest.raises(OSError, match="the disk is away"):
            runtime.run({"n": 1})

    assert (sink.began, sink.ends) == (1, [lost])


@pytest.mark.parametrize("store", [None, "memory:"])
def test_run_inside_an_error_handler_ends_without_that_error(store: str | None) -> None:
    sink = Watching()
    with Runtime(graph(), store=store, sinks=[sink]) as runtime:
        try:
            raise ValueError("of the application")
        except ValueError:
            runtime.run({"n": 1})

    assert sink.ends == [None]
