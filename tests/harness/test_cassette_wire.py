"""The same graph on a mock, on a model behind real HTTP, and on its recording: one argument changes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, MockHarness, RetryPolicy
from graphrt.errors import AuthenticationError, NodeError, ScriptError
from graphrt.harness import AgentReply, Cassette, LiteLLMHarness
from graphrt.testing import ChatAnswer, FakeChatServer

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]

KEY = "sk-a-very-secret-key-0123456789"


class State(BaseModel):
    topic: str
    answer: str = ""


def graph() -> Any:
    g = GraphBuilder(State, name="ask")

    @g.node(retry=RetryPolicy(attempts=2, wait_initial_s=0))
    async def ask(state: State, ctx: Context) -> dict[str, str]:
        return {"answer": (await ctx.harness.run(f"Of {state.topic}", max_tokens=9)).text}

    g.add_edge(START, ask)
    g.add_edge(ask, END)
    return g.compile()


def live(server: FakeChatServer) -> LiteLLMHarness:
    return LiteLLMHarness("openai/fake", api_base=server.url, api_key=KEY, timeout_s=10)


def test_graph_gives_the_same_result_on_the_mock_the_server_and_the_cassette(tmp_path: Path) -> None:
    """With a failure in between, which is recorded, and retried in replay like live."""
    script = [ChatAnswer.failure(429, f"slow down, {KEY}", retry_after=0), "Leaves."]
    with FakeChatServer(script) as server, Cassette(tmp_path / "x", mode="record") as cassette:
        real = live(server)
        recorded = graph().run({"topic": "tea"}, harness=cassette.harness(real))
    with Cassette(tmp_path / "x") as cassette:
        replayed = graph().run({"topic": "tea"}, harness=cassette.harness(real))
    mocked = graph().run({"topic": "tea"}, harness=MockHarness(["Leaves."]))

    assert recorded.state == replayed.state == mocked.state == State(topic="tea", answer="Leaves.")
    assert recorded.usage == replayed.usage
    assert KEY not in (tmp_path / "x").read_text()


def test_replay_of_another_question_opens_no_connection(tmp_path: Path) -> None:
    with FakeChatServer(["Leaves."]) as server, Cassette(tmp_path / "x", mode="record") as cassette:
        graph().run({"topic": "tea"}, harness=cassette.harness(live(server)))
    with FakeChatServer([]) as server:
        with pytest.raises(NodeError) as caught:
            graph().run({"topic": "milk"}, harness=Cassette(tmp_path / "x").harness(live(server)))
        assert server.requests == []

    assert isinstance(caught.value.__cause__, ScriptError)


def test_stream_over_the_wire_is_replayed_delta_by_delta(tmp_path: Path) -> None:
    async def read(harness: Any) -> list[Any]:
        return [item async for item in harness.stream("hi")]

    with FakeChatServer(["One two three."]) as server, Cassette(tmp_path / "x", mode="record") as cassette:
        real = live(server)
        recorded = asyncio.run(read(cassette.harness(real)))
    with Cassette(tmp_path / "x") as cassette:
        assert asyncio.run(read(cassette.harness(real))) == recorded

    assert isinstance(recorded[-1], AgentReply)
    assert recorded[-1].text == "One two three."


def test_error_of_the_provider_is_replayed_without_its_key(tmp_path: Path) -> None:
    seen: list[str] = []
    with FakeChatServer([ChatAnswer.failure(401, f"wrong key {KEY}")]) as server:
        for mode in ("record", "replay"):
            with (
                Cassette(tmp_path / "x", mode=mode) as cassette,  # type: ignore[arg-type]
                pytest.raises(AuthenticationError) as caught,
            ):
                asyncio.run(cassette.harness(live(server)).run("hi"))
            seen.append(str(caught.value))

    assert seen[0] == seen[1]
    assert KEY not in seen[0] + (tmp_path / "x").read_text()
