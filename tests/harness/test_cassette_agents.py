"""A cassette below an agent and around one: ids of tool calls are drawn again each time, and replay still works."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from graphrt.errors import InputError, TransientModelError
from graphrt.harness import Agent, AgentReply, FunctionModel, RunOptions, TextDelta, ToolCall
from graphrt.harness.cassette import Cassette
from graphrt.harness.protocol import ModelProfile
from graphrt.harness.request import ModelRequest
from graphrt.limits import RetryPolicy

DRAWN = itertools.count()


class Report(BaseModel):
    total: int


def price(of: str) -> int:
    """The price of a good."""
    return {"tea": 3, "milk": 2}[of]


def say(request: ModelRequest) -> Any:
    if len(request.messages) == 1:
        calls = (ToolCall(id=f"call_{next(DRAWN)}", name="price", arguments={"of": good}) for good in ("tea", "milk"))
        return AgentReply(tool_calls=tuple(calls))
    return f'{{"total": {sum(int(message.text) for message in request.messages[2:4])}}}'


def agent(model: Any, **options: Any) -> Agent:
    return Agent(model, tools=[price], output=Report, retry=RetryPolicy(attempts=2, wait_initial_s=0), **options)


@pytest.mark.parametrize("streamed", [False, True])
def test_agent_over_a_recorded_model_takes_the_same_path(tmp_path: Path, streamed: bool) -> None:
    live = FunctionModel(say)

    async def run(mode: Any, *, stream: bool) -> AgentReply:
        with Cassette(tmp_path / "x", mode=mode) as cassette:
            one = agent(cassette.model(live))
            return [item async for item in one.stream("total?")][-1] if stream else await one.run("total?")  # type: ignore[return-value]

    recorded = asyncio.run(run("record", stream=streamed))
    replayed = [asyncio.run(run("replay", stream=stream)) for stream in (False, True)]

    assert recorded.output == Report(total=5)
    assert replayed == [recorded, recorded]
    assert len(live.calls) == 2


def test_retry_of_an_agent_is_also_replayed(tmp_path: Path) -> None:
    def shaky(request: ModelRequest) -> Any:
        return TransientModelError("down") if len(live.calls) == 1 else say(request)

    live: FunctionModel = FunctionModel(shaky)
    for mode in ("record", "replay"):
        with Cassette(tmp_path / "x", mode=mode) as cassette:  # type: ignore[arg-type]
            assert asyncio.run(agent(cassette.model(live)).run("total?")).output == Report(total=5)

    assert len(live.calls) == 3


@pytest.mark.parametrize("streamed", [False, True])
def test_whole_agent_is_recorded_with_its_output(tmp_path: Path, streamed: bool) -> None:
    async def run(harness: Any) -> Any:
        if not streamed:
            return [await harness.run("total?")]
        return [item async for item in harness.stream("total?") if isinstance(item, (TextDelta, AgentReply))]

    with Cassette(tmp_path / "x", mode="record") as cassette:
        recorded = asyncio.run(run(cassette.harness(agent(FunctionModel(say)), output=Report)))
    with Cassette(tmp_path / "x") as cassette:
        assert asyncio.run(run(cassette.harness(output=Report))) == recorded

    assert recorded[-1].output == Report(total=5)
    assert len(recorded[-1].messages) == 5


class Own:
    """A harness with its own options and profile."""

    def __init__(self, system: str) -> None:
        self.defaults: RunOptions = {"system": system}
        self.profile = ModelProfile(name="own")

    def __graphrt_drive__(self) -> None:
        raise AssertionError("a way around the cassette")

    async def run(self, prompt: Any, **options: Any) -> AgentReply:
        return AgentReply(text=f"{self.defaults.get('system')}: {prompt}")


def test_options_that_a_harness_adds_are_part_of_the_request(tmp_path: Path) -> None:
    """A changed instruction must not get the answer of the old one."""
    with Cassette(tmp_path / "x", mode="record") as cassette:
        asyncio.run(cassette.harness(Own("old")).run("a"))

    assert asyncio.run(Cassette(tmp_path / "x").harness(Own("old")).run("a")).text == "old: a"
    with pytest.raises(Exception, match=r'(?s)-.*"old".*\+.*"new"'):
        asyncio.run(Cassette(tmp_path / "x").harness(Own("new")).run("a"))


def test_other_attributes_of_a_harness_are_reachable_but_do_not_bypass_the_cassette(tmp_path: Path) -> None:
    harness = Cassette(tmp_path / "x", mode="record").harness(Own("s"))

    assert harness.profile.name == "own"
    assert not hasattr(harness, "__graphrt_drive__")
    assert not hasattr(harness, "nothing")
    with Cassette(tmp_path / "y", mode="record"), pytest.raises(InputError):
        asyncio.run(harness.run("a", tools=["price"]))  # type: ignore[list-item]
