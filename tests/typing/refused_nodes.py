"""Mistakes with ready-made nodes that both checkers report; see `refused.py`."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from graphrt import GraphBuilder, MockHarness
from graphrt.graph import declare_fields
from graphrt.harness import Agent, ScriptedModel
from graphrt.nodes import batch, clear_error, human, llm, reduce, router, set_value, subagent, tool


class State(BaseModel):
    topic: str = ""
    answer: str = ""


class NoHarness:
    def ask(self) -> str:
        return "x"


def work(state: State) -> dict[str, Any]:
    return {}


agent = Agent(ScriptedModel(["x"]))
g = GraphBuilder(State)

# --- Arguments of the factories

llm("{topic}")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
llm(3, into="answer")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
llm("{topic}", into=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
llm("{topic}", into="answer", modle="m")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
llm("{topic}", into="answer", reasoning="much")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
llm("{topic}", into="answer", harness=NoHarness())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
subagent(MockHarness(["x"]), "{topic}", into="answer")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
reduce(["topic"], prompt="{topic}")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
tool("work", into="answer")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
tool(work, effect="twice")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
human("Well?")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
human("Well?", into="answer", roles=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
router(3, {})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
batch(State, work, on_failure="ignore")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
batch(State, work, quorum="most")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
batch(State, work, retri=2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
set_value(1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
clear_error(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
declare_fields(3)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]

# --- Agents as nodes

g.add_node("a", NoHarness())  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.add_node("b", agent, input=3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.add_node("c", agent, output=3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
