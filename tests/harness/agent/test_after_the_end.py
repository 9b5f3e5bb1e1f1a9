"""Abandoned work of a node or of a stream's reader ends quietly and pays for nothing."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from graphrt import Budget, Runtime
from graphrt.errors import NodeError
from graphrt.harness import Agent

from .fakes import Model
from .graphs import Way, every_way

WAY = Way(nodes="async", verbs="sync", store="memory:")


@every_way
def test_harness_that_was_kept_is_not_called_after_the_end(way):
    kept: list[Any] = []
    model = Model(fn=lambda _: "late")

    async def keep(state: Any, ctx: Any) -> None:
        kept.append(ctx.harness)

    with way.runtime(way.graph(keep), harness=Agent(model)) as runtime:
        way(runtime, "run", {}, thread="t")
    with pytest.raises(NodeError) as caught:
        asyncio.run(kept[0].run("go"))

    assert caught.value.code == "attempt-over"
    assert model.asked == []


def test_reader_that_leaves_a_stream_leaves_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    """The run behind the stream may fail at the same moment."""

    async def body(state: Any, ctx: Any) -> Any:
        for _ in range(3):
            async for _item in ctx.harness.stream("go"):
                break
        await asyncio.sleep(0)

    runtime = Runtime(WAY.graph(body), harness=Agent(Model(fn=lambda _: "one two three")), budget=Budget(calls=1))
    runtime.run({})
    gc.collect()

    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []
