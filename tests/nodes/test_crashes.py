"""Ready-made nodes survive a crash anywhere: no call, effect or question is repeated, and the end is the same."""

from __future__ import annotations

from typing import Any

from graphrt import END, START, Context, GraphBuilder
from graphrt.harness import Agent, FunctionModel, ToolCall
from graphrt.nodes import batch, clear_error, human, llm, record_error, reduce, router, set_value, subagent, tool
from graphrt.testing import explore_crashes

from .support import State


class World:
    def __init__(self) -> None:
        self.mails: list[str] = []


def model(request: Any) -> Any:
    if "measure" in request.messages[1 if request.system else 0].text and request.messages[-1].role == "user":
        return ToolCall(id="1", name="area", arguments={"width": 3})
    return f"said {len(request.text)}"


def area(width: int) -> int:
    """The area."""
    return width * width


def check_page(state: State, ctx: Context) -> dict[str, Any]:
    if ctx.arg == "bad":
        raise ValueError("bad page")
    return {"notes": [ctx.arg]}


def graph(world: World) -> Any:
    def mail(answer: str) -> str:
        world.mails.append(answer)
        return f"mailed {len(answer)}"

    agent = Agent(FunctionModel(model), tools=[area], name="surveyor")
    g = GraphBuilder(State, name="all-nodes")
    g.add_node("write", llm("Write about {topic}.", into="answer"))
    g.add_node("survey", subagent(agent, "measure {topic}", into="thinking"))
    g.add_node("read", batch(State, check_page, over="pages", on_failure="collect", failures="failed"))
    g.add_node("shorten", reduce("notes", into="answer", prompt="Shorten {notes}."))
    g.add_node("ask", human("Send {answer}?", into="verdict", record="review", timeout_s=60))
    g.add_node("send", tool(mail, into="answer", effect="once"))
    g.add_node("fail", tool(lambda: 1 / 0, into="words", effect=None), on_error="keep")
    g.add_node("keep", record_error())
    g.add_node("clear", clear_error())
    g.add_node("end", set_value(topic="done"))
    g.add_sequence([START, "write", "survey", "read", "shorten", "ask"])
    g.add_conditional_edges("ask", *router("verdict", {"approve": "send"}, default=END))
    g.add_sequence(["send", "fail"])
    g.add_sequence(["keep", "clear", "end", END])
    return g.compile()


def test_crash_anywhere_leads_to_the_same_end_with_every_node() -> None:
    world = World()

    def options() -> dict[str, Any]:
        world.mails = []
        return {"harness": Agent(FunctionModel(model)), "deps": world, "check_state": True, "clock": lambda: 0.0}

    found = explore_crashes(
        graph(world),
        {"pages": ["a", "bad", "c"]},
        options=options,
        answers=[{"choice": "approve", "by": "Ann"}],
        once=lambda deps: deps.mails,
    )

    found.check()
    assert found.tried > 30
