"""A running thread over the event stream: entries and tokens as they arrive, and a reload loses nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from graphrt import END, START, Context, GraphBuilder, Runtime

from . import graphs
from .conftest import check

Q = "graph=flow&thread=t"
GO: dict[str, threading.Event] = {}


def flow() -> Any:
    """A node that shows a value, and waits for the test."""
    g = GraphBuilder(graphs.Loose, name="flow")

    @g.node
    def first(state: graphs.Loose) -> dict[str, Any]:
        return {"texts": ["first"]}

    @g.node
    def second(state: graphs.Loose, ctx: Context) -> dict[str, Any]:
        ctx.emit({"progress": "<b>half</b>"})
        assert GO["second"].wait(20)
        return {"texts": ["second"]}

    g.add_sequence([START, first, second, END])
    return g.compile()


def events(lines: Iterator[str]) -> Iterator[tuple[str, str, Any]]:
    """Yield the events of a stream: id, name and data."""
    found: dict[str, str] = {}
    for line in lines:
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            found[name] = value
        elif found:
            yield found.get("id", ""), found["event"], json.loads(found["data"])
            found = {}


@pytest.mark.parametrize("code", [True, False])
def test_reader_gets_every_item_once_across_a_reload(viewer: Callable[..., Any], tmp_path: Path, code: bool) -> None:
    GO["second"] = threading.Event()
    with Runtime(flow(), store=f"sqlite:///{tmp_path}/runs.db") as runtime:
        run = threading.Thread(target=lambda: runtime.run({}, thread="t"))
        run.start()
        while not [one for one in runtime.threads() if one.seq >= 3]:
            pass
        client = viewer(runtime if code else runtime.store)
        GO["second"].set() if not code else None
        seen: list[int] = []
        shown: list[Any] = []
        position = ""
        with client.stream("GET", f"/api/live?{Q}") as stream:
            for id_, name, data in events(stream.iter_lines()):
                position = id_ or position
                if name == "entry":
                    seen.append(check(data, "EntryDoc")["seq"])
                elif name == "live":
                    shown.append(check(data, "LiveDoc"))
                    if data["mode"] == "custom":
                        GO["second"].set()
                        break
                else:
                    assert (name, data["status"]) == ("end", "completed")
        if code:
            with client.stream("GET", f"/api/live?{Q}&after={position}") as stream:
                for _, name, data in events(stream.iter_lines()):
                    if name == "entry":
                        seen.append(data["seq"])
            assert [one["value"] for one in shown if one["mode"] == "custom"] == [{"progress": "<b>half</b>"}]
        run.join()

        assert seen == [one.seq for one in runtime.entries("t")]
