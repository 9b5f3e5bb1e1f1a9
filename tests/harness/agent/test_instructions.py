"""An agent's own instructions are the first message of every model call, whatever system messages the prompt has."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from graphrt.harness import (
    Agent,
    AgentReply,
    LiteLLMModel,
    MockHarness,
    SystemMessage,
    ToolMessage,
    UserMessage,
    tool,
)
from graphrt.testing import FakeChatServer

from .fakes import Model, call, counting, run, says
from .graphs import every_way

OWN = "Never give refunds."
SUMMARY = SystemMessage(text="Summary so far: the customer wants a refund.")


def shapes(model: Model) -> list[list[str]]:
    """The requests of *model*: the texts of system messages, and the roles of others."""
    return [
        [one.text if isinstance(one, SystemMessage) else one.role for one in request.messages]
        for request in model.asked
    ]


def test_instructions_come_before_a_summary_in_the_prompt_at_every_turn():
    model = Model(call("note", x=1), "no")

    reply = run(Agent(model, system=OWN, tools=[counting([])]), [SUMMARY, UserMessage(text="please")])

    begin = [OWN, SUMMARY.text, "user"]
    assert shapes(model) == [begin, [*begin, "assistant", "tool"]]
    assert [message.role for message in reply.new_messages] == ["assistant", "tool", "assistant"]
    assert reply.messages[0] == SystemMessage(text=OWN)


def test_system_message_in_the_middle_of_the_prompt_stays_where_it_is():
    model = Model("no")

    run(Agent(model, system=OWN), [UserMessage(text="a"), SUMMARY, UserMessage(text="b")])

    assert shapes(model) == [[OWN, "user", SUMMARY.text, "user"]]


def test_conversation_of_the_same_agent_continues_without_a_second_copy():
    model = Model("one", "two", "three")
    agent = Agent(model, system=OWN)

    first = run(agent, "a")
    second = run(agent, [*first.messages, UserMessage(text="b")])
    third = run(agent, [*second.messages, UserMessage(text="c")])

    assert shapes(model)[2] == [OWN, "user", "assistant", "user", "assistant", "user"]
    assert [message.text for message in third.new_messages] == ["three"]


def test_identical_instructions_with_an_identity_are_not_repeated():
    model = Model("one")

    run(Agent(model, system=OWN), [SystemMessage(text=OWN, id="s1"), UserMessage(text="a")])

    assert model.asked[0].messages[0] == SystemMessage(text=OWN, id="s1")
    assert shapes(model) == [[OWN, "user"]]


def test_only_the_first_message_counts_as_a_copy():
    model = Model("one")

    run(Agent(model, system=OWN), [SUMMARY, SystemMessage(text=OWN), UserMessage(text="a")])

    assert shapes(model) == [[OWN, SUMMARY.text, OWN, "user"]]


def test_instructions_of_another_agent_follow_as_an_ordinary_system_message():
    sales, support = Model("I sell."), Model("I help.")
    handed_over = run(Agent(sales, system="You sell.", name="sales"), "hi")

    run(Agent(support, system=OWN, name="support"), [*handed_over.messages, UserMessage(text="and now?")])

    assert shapes(support) == [[OWN, "You sell.", "user", "assistant", "user"]]


def test_instructions_of_a_call_replace_those_of_the_agent_and_come_first():
    model = Model("one", "two")
    agent = Agent(model, system=OWN)

    run(agent, [SUMMARY, UserMessage(text="a")], system="Give refunds.")
    run(agent, [SystemMessage(text="Give refunds."), UserMessage(text="a")], system="Give refunds.")

    assert shapes(model) == [["Give refunds.", SUMMARY.text, "user"], ["Give refunds.", "user"]]


def test_agent_without_instructions_adds_none():
    model = Model("one")

    run(Agent(model), [SUMMARY, UserMessage(text="a")])

    assert shapes(model) == [[SUMMARY.text, "user"]]


def test_form_that_was_requested_in_words_is_not_requested_twice():
    model = Model('{"value": 1}', '{"value": 2}', output_schema=False)
    agent = Agent(model, system=OWN, output=int)

    first = run(agent, "a")
    run(agent, [*first.messages, UserMessage(text="b")])

    (begin, *_), (again, *rest) = shapes(model)
    assert begin == again
    assert begin.startswith(f"{OWN}\n\nAnswer with JSON")
    assert begin.count("Answer with JSON") == 1
    assert rest == ["user", "assistant", "user"]


@pytest.mark.parametrize("system", [None, "You sell."])
def test_form_of_another_agent_is_not_requested(system: str | None):
    """For a model without schemas, an agent puts the form into its instructions, which a handoff passes on."""
    first = run(Agent(Model('{"value": 1}', output_schema=False), system=system, output=int), "a")
    model = Model("free text")

    run(Agent(model, system=OWN), [*first.messages, UserMessage(text="b")])

    assert shapes(model) == [[OWN, *([] if system is None else [system]), "user", "assistant", "user"]]


def test_prompt_may_be_an_iterator():
    model = Model("one")

    run(Agent(model, system=OWN), iter([SUMMARY, UserMessage(text="a")]))

    assert shapes(model) == [[OWN, SUMMARY.text, "user"]]


@pytest.mark.needs("litellm")
@pytest.mark.xdist_group("litellm")
@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_provider_gets_instructions_before_a_summary(wire: str):
    with FakeChatServer(["no"]) as server:
        base = server.url if wire == "openai" else server.anthropic_url
        agent = Agent(LiteLLMModel(f"{wire}/claude-fake", api_base=base, api_key="k"), system=OWN)
        asyncio.run(agent.run([SUMMARY, UserMessage(text="please")]))
        body = server.requests[0].body

    if wire == "openai":
        assert [(one["role"], one["content"]) for one in body["messages"]] == [
            ("system", OWN),
            ("system", SUMMARY.text),
            ("user", "please"),
        ]
    else:
        assert [part["text"] for part in body["system"]] == [OWN, SUMMARY.text]
        assert [one["role"] for one in body["messages"]] == ["user"]


@every_way
def test_paused_thread_with_a_summary_is_asked_once(way: Any):
    @tool(approval=True)
    def refund(amount: int) -> str:
        """Pay back."""
        return f"paid {amount}"

    async def body(state: Any, ctx: Any) -> Any:
        reply = await ctx.harness.run([SUMMARY, UserMessage(text="please")])
        return {"said": [reply.text]}

    model = Model(call("refund", amount=3), "done")
    agent = Agent(model, system=OWN, tools=[refund])
    with way.runtime(way.graph(body, tools=["refund"]), harness=agent) as runtime:
        way(runtime, "run", {}, thread="t")
        result = way(runtime, "resume", "t", True)

    begin = [OWN, SUMMARY.text, "user"]
    assert result.state.said == ["done"]
    assert shapes(model) == [begin, [*begin, "assistant", "tool"]]


def test_harness_that_is_not_an_agent_also_gets_the_instructions_first():
    mock = MockHarness(["one"])

    asyncio.run(mock.run([SUMMARY, UserMessage(text="a")], system=OWN))

    assert mock.calls[0].messages[:2] == (SystemMessage(text=OWN), SUMMARY)


def test_new_messages_of_a_reply_exclude_the_instructions():
    model = Model(says("one"))

    reply: AgentReply = run(Agent(model, system=OWN), [SUMMARY, UserMessage(text="a")])

    assert not any(isinstance(one, (SystemMessage, ToolMessage)) for one in reply.new_messages)
    assert len(reply.messages) == 4
