"""Results that are too long for the model: the part that it gets, how it reads the rest, and the journal."""

from __future__ import annotations

from typing import Any

from graphrt.events import EffectRecorded
from graphrt.harness import Agent, AgentLimits, ToolContext, ToolPolicy, ToolSpec, tool

from .fakes import Model, call, run, says
from .graphs import ask

LONG = "".join(f"line {n}\n" for n in range(400_000))


@tool
async def fetch() -> str:
    return LONG


def texts(model: Model) -> list[str]:
    return [said.text for said in model.asked[-1].messages if said.role == "tool"]


def test_long_result_is_sent_in_part_and_can_be_read_in_pages() -> None:
    model = Model(
        call("fetch"),
        call("read_result", result=1, start=40_000),
        call("read_result", result=1, start=0, find="line 399999"),
        call("read_result", result=1, start=0, find="nowhere"),
        "done",
    )
    agent = Agent(model, tools=[fetch])

    run(agent)

    first, second, found, missing = texts(model)
    note = f"\n[cut: {len(LONG) - 40_000} of {len(LONG)} characters are not shown; to read on, call read_result(result=1, start=40000)]"
    assert first == LONG[:40_000] + note
    assert second.startswith(LONG[40_000:80_000])
    assert found == f"line 399999\n\n[characters {len(LONG) - 12} to {len(LONG)} of {len(LONG)}]"
    assert missing == "'nowhere' does not occur in result 1 from character 0 on."
    assert [[spec.name for spec in request.tools] for request in model.asked[:2]] == [
        ["fetch"],
        ["fetch", "read_result"],
    ]


def test_position_without_a_result_is_reported_to_the_model() -> None:
    model = Model(
        call("read_result", "a", result=1, start=0),
        call("fetch"),
        call("read_result", "b", result=2, start=0),
        call("read_result", "c", result=1, start=len(LONG)),
        call("read_result", "d", start="x"),
        "done",
    )

    run(Agent(model, tools=[fetch]))

    unknown, _, result, start, wrong = texts(model)
    assert unknown.startswith("There is no tool 'read_result'.")
    assert result == "There is no result 2: `result` is a number from 1 to 1."
    assert start == f"`start` is a number from 0 to {len(LONG) - 1}."
    assert wrong == "There is no result None: `result` is a number from 1 to 1."


class Plain:
    """A hand-written tool."""

    def __init__(self, name: str, text: str, **policy: Any) -> None:
        self.text = text
        self.spec = ToolSpec(name=name)
        self.policy = ToolPolicy(**policy)

    def check(self, arguments: Any, /) -> Any:
        return arguments

    async def call(self, arguments: Any, context: ToolContext, /) -> Any:
        return self.text


def test_tool_may_have_its_own_bound_and_the_agent_none() -> None:
    model = Model(says(call("a"), call("b")), "done")
    tools = [Plain("a", "x" * 9, max_result_chars=4), Plain("b", LONG)]

    run(Agent(model, tools=tools, limits=AgentLimits(result_chars=None)))

    assert texts(model) == [
        "xxxx\n[cut: 5 of 9 characters are not shown; to read on, call read_result(result=1, start=4)]",
        LONG,
    ]


def test_tool_of_the_same_name_is_not_replaced() -> None:
    model = Model(call("read_result"), "done")

    run(Agent(model, tools=[Plain("read_result", "x" * 9, max_result_chars=4)]))

    assert texts(model) == ["xxxx\n[cut: 5 of 9 characters are not shown]"]
    assert len(model.asked[-1].tools) == 1


def test_journal_has_the_whole_result_and_each_page_once(way: Any) -> None:
    model = Model(call("fetch"), call("read_result", result=1, start=40_000), "done")
    agent = Agent(model, tools=[fetch])
    with way.runtime(way.graph(ask()), harness=agent) as runtime:
        way(runtime, "run", {}, thread="t")

        kept = {
            one.event.key: one.event.result for one in runtime.entries("t") if isinstance(one.event, EffectRecorded)
        }

    assert [name.split("/")[1] for name in kept] == ["fetch", "read_result"]
    assert next(iter(kept.values()))["text"] == LONG
    assert list(kept.values())[1]["text"].startswith(LONG[40_000:80_000] + "\n[")
