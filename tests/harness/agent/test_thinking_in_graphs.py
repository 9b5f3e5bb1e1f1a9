"""A model with thinking blocks, called by an agent in a graph: the blocks outlive the process that received them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from graphrt import Context, GraphBuilder, Runtime
from graphrt.audit import AuditLog, Redaction
from graphrt.harness import (
    Agent,
    AgentReply,
    AssistantMessage,
    FunctionModel,
    LiteLLMModel,
    Message,
    ProviderPart,
    TextDelta,
    ThinkingBlock,
    ThinkingDelta,
    ToolCall,
    UserMessage,
    tool,
)
from graphrt.reducers import messages
from graphrt.testing import ChatAnswer, FakeChatServer

from .graphs import replies

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]

BLOCKS = (ThinkingBlock(text="four by four", signature="signed-1"), ThinkingBlock(redacted="opaque-1"))
CALL = ToolCall(id="c1", name="area", arguments={"x": 4})
THINKS = ChatAnswer(tool_calls=(CALL,), thinking_blocks=BLOCKS)
ENDS = ChatAnswer(text="It is 16.", thinking="that was easy")


class Talk(BaseModel):
    said: Annotated[list[Message], messages] = []


@tool(approval=True)
def area(x: int) -> str:
    """The area of a square."""
    return str(x * x)


def talking() -> Any:
    g = GraphBuilder(Talk, name="talk")

    @g.node(tools=("area",))
    async def talk(state: Talk, ctx: Context) -> dict[str, Any]:
        asked = [*state.said, UserMessage(text="how large?")]
        thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
        reply = await ctx.harness.run(asked, options=thinking, max_tokens=4000)
        return {"said": reply.messages}

    g.set_entry("talk")
    g.set_finish("talk")
    return g.compile()


def life(store: str, server: FakeChatServer) -> Runtime[Any]:
    """The objects of a process: all new, except the store."""
    model = LiteLLMModel("anthropic/claude-sonnet-4-5", api_base=server.anthropic_url, api_key="k", timeout_s=10)
    return Runtime(talking(), store=store, harness=Agent(model, tools=[area]))


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_another_process_continues_with_the_blocks_after_an_approval(tmp_path: Path, *, streamed: bool) -> None:
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    shown: list[Any] = []
    with FakeChatServer([THINKS, ENDS]) as server:
        with life(store, server) as runtime:
            if streamed:
                shown += [one.item for one in runtime.stream({}, thread="t", modes="messages")]
            else:
                runtime.run({}, thread="t")
            assert [one.payload["arguments"] for one in runtime.state("t").interrupts] == [{"x": 4}]
        with life(store, server) as runtime:
            result = runtime.resume("t", answer=True)
        with life(store, server) as runtime:
            kept = runtime.state("t").values.said
            known = replies(runtime)

    sent = server.requests[1].body["messages"][1]["content"]
    assert [block["type"] for block in sent] == ["thinking", "redacted_thinking", "tool_use"]
    assert sent[0]["signature"] == "signed-1"
    assert len(known) == 2
    assert kept == result.state.said
    assert kept[1] == AssistantMessage(tool_calls=(CALL,), thinking=BLOCKS)
    assert [block.text for block in kept[3].thinking] == ["that was easy"]
    if streamed:
        assert "".join(item.text for item in shown if isinstance(item, ThinkingDelta)) == "four by four"


def test_stream_of_a_graph_has_thinking_before_text() -> None:
    with FakeChatServer([ENDS]) as server, life("memory:", server) as runtime:
        items = [one.item for one in runtime.stream({}, thread="t", modes="messages")]

    deltas = [type(item).__name__ for item in items if isinstance(item, (ThinkingDelta, TextDelta))]
    assert deltas == sorted(deltas, reverse=True)
    assert set(deltas) == {"ThinkingDelta", "TextDelta"}


def test_redacted_data_of_a_provider_is_in_no_journal() -> None:
    """A part is kept without it. Blocks are dropped, since the provider would refuse changed ones."""
    mail, said = "ann@example.org", list[AgentReply]()
    reply = AgentReply(
        text="t",
        thinking_blocks=(ThinkingBlock(provider="openai", id="rs_1", data={"summary": [{"text": mail}]}),),
        provider_parts=(ProviderPart(provider="openai", type="url_citation", data={"title": [mail]}),),
    )
    g = GraphBuilder(Talk, name="talk")

    @g.node
    async def talk(state: Talk, ctx: Context) -> None:
        said.append(await ctx.harness.run("hi"))

    g.set_entry("talk")
    g.set_finish("talk")
    rules = AuditLog(redact=Redaction(patterns=["email"]))
    with Runtime(g.compile(), store="memory:", harness=Agent(FunctionModel(lambda _: reply)), audit=rules) as runtime:
        runtime.run({}, thread="t")
        (known,) = replies(runtime)

    assert mail not in repr(known)
    assert (said[0].provider_parts[0].data, said[0].thinking_blocks) == ({"title": ["<email>"]}, ())
