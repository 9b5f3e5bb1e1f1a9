"""Where sinks are called: on the event loop of an asyncio run, with any store."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Annotated, Any, TypedDict

from graphrt import END, START, GraphBuilder, Runtime
from graphrt.reducers import append


class State(TypedDict, total=False):
    notes: Annotated[list[str], append]


def test_sinks_of_an_asyncio_run_are_called_on_its_loop(tmp_path: Path) -> None:
    async def node(_: State) -> dict[str, Any]:
        return {"notes": ["x"]}

    g = GraphBuilder(State, name="g")
    g.add_node("a", node).add_node("b", node).add_edge(START, "a").add_edge("a", "b").add_edge("b", END)
    called: list[tuple[str, int]] = []

    def sink(entry: Any) -> None:
        asyncio.get_running_loop()
        called.append((type(entry.event).__name__, threading.get_ident()))

    async def main() -> None:
        with Runtime(g.compile(), store=f"sqlite:///{tmp_path / 'runs.db'}", sinks=[sink]) as runtime:
            await runtime.arun({}, thread="t")

    asyncio.run(main())

    assert [name for name, _ in called] == [
        "RunStarted",
        "TaskSucceeded",
        "SuperstepCommitted",
        "TaskSucceeded",
        "SuperstepCommitted",
        "RunCompleted",
    ]
    assert {ident for _, ident in called} == {threading.get_ident()}


def test_sink_gets_the_first_entry_of_a_fork_with_the_id_of_the_fork(tmp_path: Path) -> None:
    g = GraphBuilder(State, name="g")
    g.add_node("a", lambda state: {"notes": ["x"]}).add_edge(START, "a").add_edge("a", END)
    seen: list[tuple[str, str | None]] = []
    with Runtime(
        g.compile(),
        store=f"sqlite:///{tmp_path / 'runs.db'}",
        sinks=[lambda entry: seen.append((type(entry.event).__name__, entry.thread))],
    ) as runtime:
        runtime.run({}, thread="source")
        runtime.fork("source", at=runtime.state("source").seq, to="copy")
        runtime.update("copy", {"notes": ["y"]})

    assert seen[-2:] == [("ThreadForked", "copy"), ("ThreadUpdated", "copy")]
    assert {thread for _, thread in seen[:-2]} == {"source"}
