"""The messages since the prompt: what a conversation over several turns keeps."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from graphrt import START, GraphBuilder, Runtime
from graphrt.harness import Agent, AgentLimits, AgentReply, Middleware, MockHarness, SystemMessage, UserMessage
from graphrt.harness.messages import AssistantMessage, Message, ToolMessage
from graphrt.harness.scripted_model import FunctionModel
from graphrt.reducers import append, messages

from .fakes import Model, call, counting, heard, run


def roles(reply: AgentReply) -> list[str]:
    return [said.role for said in reply.new_messages]


def test_new_messages_follow_the_prompt_and_the_instructions() -> None:
    model = Model(call("note", x=1), "done")

    reply = run(Agent(model, tools=[counting([])], system="be brief"))

    assert roles(reply) == ["assistant", "tool", "assistant"]
    assert reply.new_messages == reply.messages[2:]


def test_continued_conversation_is_not_new() -> None:
    chat = [
        SystemMessage(text="be brief"),
        UserMessage(text="a"),
        AssistantMessage(text="b"),
        UserMessage(text="c"),
    ]

    assert run(Agent(Model("d")), chat).new_messages == (AssistantMessage(text="d"),)


def test_answer_and_its_review_are_new() -> None:
    reply = run(Agent(Model("seven", '{"value": 7}'), output=int))

    assert roles(reply) == ["assistant", "user", "assistant"]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [({"model_calls": 1}, ["assistant", "tool"]), ({"tool_calls": 0}, ["assistant", "tool"]), ({"seconds": 0}, [])],
)
def test_run_that_a_limit_ended_has_its_messages_so_far(limits: dict[str, Any], expected: list[str]) -> None:
    async def slow() -> Any:
        await asyncio.Event().wait()

    answer = slow() if "seconds" in limits else call("note", x=1)
    agent = Agent(Model(answer), tools=[counting([])], limits=AgentLimits(on_limit="stop", **limits))

    assert roles(run(agent, transcript=[UserMessage(text="before")])) == expected


def test_layer_that_rewrites_the_prompt_makes_no_part_of_it_new() -> None:
    class Longer(Middleware):
        async def before_run(self, messages: Any) -> Any:
            return [UserMessage(text="first of all"), AssistantMessage(text="yes?"), *messages]

    reply = run(Agent(Model("done"), middleware=[Longer()]))

    assert reply.new_messages == (AssistantMessage(text="done"),)


def test_reply_of_a_plain_harness_is_one_new_message() -> None:
    reply = asyncio.run(MockHarness(["hello"]).run("q"))

    assert reply.new_messages == (AssistantMessage(text="hello"),)


def test_prompt_of_unknown_length_ends_with_the_last_question() -> None:
    said = (UserMessage(text="q"), AssistantMessage(text="a"), ToolMessage(tool_call_id="1", text="b"))

    assert AgentReply(text="x", messages=said).new_messages == said[1:]
    assert AgentReply(text="x", messages=said[1:]).new_messages == said[1:]


class State(BaseModel):
    chat: Annotated[list[Message], messages] = []


class Appended(BaseModel):
    chat: Annotated[list[Message], append] = []


def turn(request: Any) -> Any:
    """Calls the tool at each new question."""
    if request.messages[-1].role == "user":
        return call("note", f"id-{len(request.messages)}", x=len(request.messages))
    return f"answer to {len(request.messages)}"


@pytest.mark.parametrize("state", [State, Appended])
def test_thread_keeps_each_turn_once(tmp_path: Any, state: Any) -> None:
    g = GraphBuilder(state, name="chat")

    @g.node(tools=["note"])
    async def talk(state: Any, ctx: Any) -> Any:
        return {"chat": (await ctx.harness.run(state.chat)).new_messages}

    g.add_edge(START, talk)
    asked: list[list[str]] = []

    def told(request: Any) -> Any:
        asked.append(heard(request))
        return turn(request)

    for question in ("one", "two"):  # each in a separate process
        agent = Agent(FunctionModel(told), tools=[counting([])], system="be brief")
        with Runtime(g.compile(), store=f"sqlite:///{tmp_path}/chat.db", harness=agent) as runtime:
            result = runtime.run({"chat": [UserMessage(text=question)]}, thread="t")

    assert [said.role for said in result.state.chat] == ["user", "assistant", "tool", "assistant"] * 2
    assert [said.text for said in result.state.chat if said.role == "user"] == ["one", "two"]
    assert [one.split(":")[0] for one in asked[-1]].count("system") == 1
    assert asked[-1][0] == "system: be brief"


def test_new_messages_are_the_same_after_a_pause() -> None:
    g = GraphBuilder(State, name="chat")
    seen: list[tuple[Message, ...]] = []

    @g.node(tools=["note"])
    async def talk(state: State, ctx: Any) -> Any:
        reply = await ctx.harness.run(state.chat)
        seen.append(reply.new_messages)
        ctx.interrupt("well?")
        return {"chat": reply.new_messages}

    g.add_edge(START, talk)
    agent = Agent(FunctionModel(turn), tools=[counting([])])
    with Runtime(g.compile(), store="memory:", harness=agent) as runtime:
        runtime.run({"chat": [UserMessage(text="one")]}, thread="t")
        result = runtime.resume("t", "yes")

    assert seen[0] == seen[1] == tuple(result.state.chat[1:])
    assert len(seen[0]) == 3
