"""Ready-made nodes, and agents as nodes. Both checkers accept them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict, assert_type

from pydantic import BaseModel

from graphrt import END, START, CompiledGraph, Context, GraphBuilder, MockHarness
from graphrt.graph import declare_fields
from graphrt.harness import Agent, AgentReply, Budget, Prompt, ScriptedModel, Template
from graphrt.nodes import (
    Decision,
    ErrorRecord,
    ItemFailure,
    Routes,
    batch,
    clear_error,
    copy_of,
    human,
    llm,
    record_error,
    reduce,
    router,
    set_value,
    subagent,
    tool,
)
from graphrt.reducers import append


class State(BaseModel):
    topic: str = ""
    answer: str = ""
    notes: Annotated[list[str], append] = []
    verdict: str | None = None
    review: Decision | None = None
    failed: Annotated[list[ItemFailure], append] = []
    error: ErrorRecord | None = None


class Update(TypedDict, total=False):
    answer: str
    notes: list[str]


class Title(BaseModel):
    title: str


class Harness:
    async def run(self, prompt: Prompt, **options: Any) -> AgentReply:
        return AgentReply(text="x")


def count(topic: str) -> int:
    return len(topic)


async def acount(topic: str) -> int:
    return len(topic)


def shout(state: State, ctx: Context) -> dict[str, list[str]]:
    return {"notes": [ctx.arg]}


def enough(state: State) -> Literal["more", "done"]:
    return "done" if state.answer else "more"


agent = Agent(ScriptedModel(["x"]), output=Title)

g = GraphBuilder(State)
g.add_node("a", llm("{topic}", into="answer"))
g.add_node("b", llm(Template("{topic}"), into={"answer": "title"}, output=Title, model="openai/x", fallbacks=["y"]))
g.add_node("c", llm("{topic}", into="answer", thinking="verdict", reasoning="low", harness=Harness()), retry=3)
g.add_node("d", subagent(agent, "{topic}", into={"answer": "title"}, budget=Budget(calls=3)))
g.add_node("e", reduce(["notes"], into="answer", prompt="{notes}", system="Be brief."))
g.add_node("f", reduce("notes", into="answer", function=len))
g.add_node("g", tool(count, into="answer"), on_error="k")
g.add_node("h", tool(acount, inputs={"topic": "answer"}, into="answer", effect="once"))
g.add_node("i", human("{topic}?", into="verdict", record="review", roles={"approve": ["boss"]}, edit="answer"))
g.add_node("j", batch(State, shout, over="notes", on_failure="collect", failures="failed", retry=2))
g.add_node("k", record_error())
g.add_node("l", clear_error("error"))
g.add_node("m", set_value(answer=copy_of("topic"), verdict=None))
g.add_node("n", agent, input="topic", output="answer", retry=2)
g.add_node("o", MockHarness(["x"]), input=Template("{topic}"), output={"answer": "text"})
g.add_node("p", Harness(), input=lambda state: state.topic, output="answer")
g.add_node("q", declare_fields(shout, reads=["topic"], writes=["notes"]))
g.add_conditional_edges(START, *router("verdict", {"approve": "a"}, default=END))
g.add_conditional_edges("a", *router(enough, {"more": "a", "done": END}))

typed = GraphBuilder(State, Update)
typed.add_node("a", llm("{topic}", into="answer"))
typed.add_node("b", tool(count, into="answer"))
typed.add_node("c", agent, input="topic", output="answer")

assert_type(router("verdict", ["a", "b"]), Routes)
_graph: CompiledGraph[State, Any] = batch(State, {"a": shout, "b": shout}, over=lambda state: state.notes)
_shout = declare_fields(shout, reads=["topic"])
_notes: dict[str, list[str]]


def called(state: State, ctx: Context) -> None:
    """The result of `declare_fields` keeps its own type."""
    assert_type(_shout(state, ctx), dict[str, list[str]])
