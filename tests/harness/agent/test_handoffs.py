"""Handoffs: another agent continues the conversation in the same run: paid once, bounded, and under one budget."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from graphrt import END, PARENT, START, Command, GraphBuilder
from graphrt.errors import AgentLimitError, BudgetExceededError, DefinitionError, InputError, NodeError
from graphrt.harness import (
    Agent,
    AgentLimits,
    Budget,
    Cassette,
    FunctionModel,
    HandedOver,
    Handoff,
    ScriptedModel,
    SubAgentItem,
    ToolCall,
    tool,
)
from graphrt.reducers import append
from graphrt.stores import MemoryStore
from graphrt.testing import explore_crashes

from .fakes import USED, Model, call, counting, heard, run, says, watch
from .graphs import every_way


def pair(first: Model, second: Model, *, handoff: dict[str, Any] | None = None, **options: Any) -> Agent[Any]:
    """An agent `triage` that may hand over to `billing`."""
    billing = Agent(second, name="billing", system="You do bills.", tools=[counting([], "refund")])
    made = billing if handoff is None else Handoff(billing, **handoff)
    return Agent(first, **{"name": "triage", "system": "You sort.", "handoffs": [made], **options})


TO_BILLING = call("transfer_to_billing")


# ------------------------------------------------------------------------------------------------------------- handing


def test_next_agent_continues_with_its_own_instructions_and_tools():
    first, second = Model(says("One moment.", TO_BILLING)), Model(call("refund", x=1), "It is on its way.")
    reply = run(pair(first, second, tools=[counting([], "look")]), "Where is my refund?")

    assert (reply.agent, reply.text, reply.usage) == ("billing", "It is on its way.", USED + USED + USED)
    assert [one.name for one in first.asked[0].tools] == ["look", "transfer_to_billing"]
    assert [one.name for one in second.asked[0].tools] == ["refund"]
    assert heard(second.asked[0]) == [
        "system: You do bills.",
        "user: Where is my refund?",
        "assistant: One moment.",
        "tool: The conversation was handed over to 'billing'.",
    ]


def test_reply_has_the_whole_conversation_of_the_run():
    transcript: list[Any] = []
    reply = run(pair(Model(TO_BILLING), Model("done")), transcript=transcript)

    assert [said.role for said in reply.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert [said.role for said in reply.new_messages] == ["assistant", "tool", "assistant"]
    assert reply.messages[0].text == "You sort."
    assert transcript == list(reply.messages)


def test_agent_without_handoff_is_named_in_its_reply():
    assert run(pair(Model("done"), Model())).agent == "triage"


def test_filter_selects_the_messages_for_the_next_agent():
    second = Model("done")
    run(
        pair(
            Model(says("Yes.", TO_BILLING)),
            second,
            handoff={"filter": lambda said: [m for m in said if m.role == "user"]},
        )
    )

    assert heard(second.asked[0]) == ["system: You do bills.", "user: go"]


@pytest.mark.parametrize(
    ("filter", "code"),
    [(lambda said: None, "input"), (lambda said: [], "input"), (lambda said: said[-1:], "bad-conversation")],
)
def test_filter_that_does_not_return_a_conversation_is_refused(filter, code):
    with pytest.raises(InputError, match="filter of the handoff from agent 'triage' to 'billing'") as caught:
        run(pair(Model(TO_BILLING), Model(), handoff={"filter": filter}))

    assert caught.value.code == code


def test_input_checks_of_the_next_agent_get_the_input_of_the_user():
    checked: list[str] = []
    billing = Agent(Model("done"), name="billing", input_check=checked.append)
    run(Agent(Model(TO_BILLING), name="triage", handoffs=[billing]), "My card is 4111.")

    assert checked == ["My card is 4111."]


def test_next_agent_pages_through_long_results_by_the_numbers_in_the_conversation():
    @tool
    def look(at: str) -> str:
        """Look."""
        return at * 100

    limits = AgentLimits(result_chars=60)
    billing = Agent(
        Model(
            call("look", at="b"),
            call("read_result", "read-1", result=1, start=95),
            call("read_result", "read-2", result=2, start=95),
            "done",
        ),
        name="billing",
        tools=[look],
        limits=limits,
    )
    triage = Agent(
        Model(call("look", at="a"), TO_BILLING), name="triage", tools=[look], handoffs=[billing], limits=limits
    )
    reply = run(triage)

    assert [said.text.splitlines()[0] for said in reply.messages if said.role == "tool"][2:] == [
        "b" * 60,
        "aaaaa",
        "bbbbb",
    ]


def test_description_and_name_are_those_of_the_tool():
    first = Model(call("money"), "done")
    run(pair(first, Model("done"), handoff={"name": "money", "description": "For bills."}))

    assert [(one.name, one.description) for one in first.asked[0].tools] == [("money", "For bills.")]


def test_other_calls_of_the_reply_are_made_before_the_handoff():
    counts: list[Any] = []
    second = Model("done")
    run(pair(Model(says(TO_BILLING, call("look", x=1))), second, tools=[counting(counts, "look")]))

    assert counts == [1]
    assert heard(second.asked[0])[-1] == "tool: noted 1"


def test_second_handoff_of_a_reply_is_ignored():
    other = Agent(Model(), name="other")
    billing = Agent(Model("done"), name="billing")
    first = Model(says(call("transfer_to_billing"), call("transfer_to_other")))
    reply = run(Agent(first, name="triage", handoffs=[billing, other]))

    assert reply.agent == "billing"
    assert [said.text for said in reply.messages if said.role == "tool"] == [
        "The conversation was handed over to 'billing'.",
        "This call was not made: the conversation goes to 'billing'.",
    ]


def test_agents_that_name_each_other_are_passed_as_functions():
    def colleagues() -> list[Agent[Any]]:
        return [triage]

    billing = Agent(Model(call("transfer_to_triage")), name="billing", handoffs=colleagues)
    triage = Agent(Model(TO_BILLING, "done"), name="triage", handoffs=lambda: [billing])

    assert run(triage).agent == "triage"


def test_output_of_the_run_overrides_that_of_the_answering_agent():
    billing = Agent(Model('{"value": 3}', '{"value": 4.5}'), name="billing", output=int)
    triage = Agent(Model(TO_BILLING, TO_BILLING), name="triage", handoffs=[billing])

    assert run(triage).output == 3
    assert run(triage, output=float).output == 4.5


# -------------------------------------------------------------------------------------------------------------- bounds


@pytest.mark.parametrize("on_limit", ["raise", "stop"])
def test_handoffs_of_a_run_are_bounded_by_the_called_agent(on_limit):
    billing = Agent(Model(call("transfer_to_triage")), name="billing", handoffs=lambda: [triage])
    limits = AgentLimits(handoffs=1, on_limit=on_limit)
    triage = Agent(Model(TO_BILLING, "never"), name="triage", handoffs=[billing], limits=limits)

    if on_limit == "raise":
        with pytest.raises(AgentLimitError, match="handoffs=1"):
            run(triage)
    else:
        billing = Agent(Model(call("transfer_to_triage")), name="billing", handoffs=lambda: [triage], limits=limits)
        triage = Agent(Model(TO_BILLING), name="triage", handoffs=[billing], limits=limits)
        reply = run(triage)
        assert reply.stopped == "handoffs"
        assert reply.messages[-1].text == "This call was given up: the limit handoffs=1 was reached."


def test_limits_of_an_agent_count_from_the_handoff_to_it():
    limits = AgentLimits(model_calls=1)
    billing = Agent(Model("done"), name="billing", limits=limits)

    assert run(Agent(Model(TO_BILLING), name="triage", handoffs=[billing], limits=limits)).text == "done"


def test_budget_of_the_called_agent_covers_all_agents():
    billing = Agent(Model("never"), name="billing", budget=Budget(calls=9))
    agent = Agent(Model(TO_BILLING), name="triage", handoffs=[billing], budget=Budget(calls=1))

    with pytest.raises(BudgetExceededError, match="agent 'triage'"):
        run(agent)
    assert billing.models[0].asked == []


def test_budget_of_an_agent_continues_when_the_conversation_returns():
    billing = Agent(Model(call("transfer_to_triage")), name="billing", handoffs=lambda: [triage])
    triage = Agent(Model(TO_BILLING, "never"), name="triage", handoffs=[billing], budget=Budget(calls=2))

    with pytest.raises(BudgetExceededError):
        run(triage)
    assert len(triage.models[0].asked) == 1


# ----------------------------------------------------------------------------------------------------------- recorded


class Gone(BaseException):
    """Simulates the end of the process."""


@every_way
def test_right_agent_continues_after_a_crash_and_nothing_is_paid_twice(way):
    first = Model(TO_BILLING)
    second = Model(call("refund", x=1), Gone(), "done")
    counts: list[Any] = []
    billing = Agent(second, name="billing", tools=[counting(counts, "refund")])
    agent = Agent(first, name="triage", handoffs=[billing])

    async def body(state: Any, ctx: Any) -> Any:
        reply = await ctx.harness.run("go")
        return {"said": [reply.agent, reply.text, reply.usage == USED + USED + USED]}

    graph, store = way.graph(body), MemoryStore()
    with way.runtime(graph, harness=agent, store=store) as runtime, pytest.raises(Gone):
        way(runtime, "run", {}, thread="t")
    with way.runtime(graph, harness=agent, store=store) as runtime:
        result = way(runtime, "retry", "t")

    assert result.state.said == ["billing", "done", True]
    assert (len(first.asked), len(second.asked), counts) == (1, 3, [1])
    assert result.usage == USED + USED + USED


def test_handoff_may_require_the_approval_of_a_person():
    billing = Agent(Model("done"), name="billing")
    agent = Agent(Model(TO_BILLING), name="triage", handoffs=[Handoff(billing, approval=True)])
    g = GraphBuilder(Desk, name="desk")
    g.add_node("ask", agent, input="question", output="answer")
    g.add_sequence([START, "ask", END])
    from graphrt import Runtime

    with Runtime(g.compile(), store=MemoryStore()) as runtime:
        paused = runtime.run({}, thread="t")
        assert paused.interrupts[0].payload["tool"] == "transfer_to_billing"
        assert runtime.resume("t", True).state.answer == "done"


# ------------------------------------------------------------------------------------------------------------- watched


def test_stream_names_the_next_agent():
    items = watch(pair(Model(TO_BILLING), Model("done")))
    kinds = [type(item).__name__ for item in items]

    assert [item for item in items if isinstance(item, HandedOver)] == [HandedOver(source="triage", target="billing")]
    assert kinds.index("ToolEnded") < kinds.index("HandedOver") < kinds.index("TextDelta")


def test_items_of_a_sub_agent_that_handed_over_have_the_name_of_the_next_agent():
    below = pair(Model(TO_BILLING), Model("done"))
    agent = Agent(Model(call("triage", question="?"), "end"), name="boss", tools=[below.as_tool(description="Helps.")])
    names = [item.agent for item in watch(agent) if isinstance(item, SubAgentItem)]

    assert list(dict.fromkeys(names)) == ["triage", "billing"]


# ------------------------------------------------------------------------------------------------------------ in graphs


class Desk(BaseModel):
    question: str = "go"
    answer: str = ""
    notes: Annotated[list[str], append] = []


@tool(writes=["notes"])
def note(text: str) -> Command[Any]:
    return Command(update={"notes": [text]})


@tool(goto=["pay"])
def pay() -> Command[Any]:
    return Command(goto="pay")


def desk(agent: Agent[Any], **policy: Any) -> Any:
    g = GraphBuilder(Desk, name="desk")
    g.add_node("ask", agent, input="question", output="answer", **policy)
    g.add_node("pay", lambda state: {"answer": "paid"})
    g.add_sequence([START, "ask", END])
    return g


def test_tools_of_the_next_agent_write_and_route_like_those_of_the_first():
    billing = Agent(Model(says(call("note", text="b"), call("pay"))), name="billing", tools=[note, pay])
    agent = Agent(Model(says(call("note", text="a"), TO_BILLING)), name="triage", tools=[note], handoffs=[billing])
    graph = desk(agent).compile()

    assert [edge["to"] for edge in graph.topology()["edges"] if edge["kind"] == "goto"] == ["pay"]
    state = graph.run({}).state
    assert (state.notes, state.answer) == (["a", "b"], "paid")


def test_goto_in_a_reply_with_a_handoff_ends_the_run():
    billing = Agent(Model("never"), name="billing")
    agent = Agent(Model(says(TO_BILLING, call("pay"))), name="triage", tools=[pay], handoffs=[billing])

    assert desk(agent).compile().run({}).state.answer == "paid"
    assert billing.models[0].asked == []


def test_compile_checks_tools_of_handoff_targets():
    @tool(writes=["nots"])
    def bad() -> Command[Any]:
        return Command()

    billing = Agent(Model(), name="billing", tools=[bad], handoffs=lambda: [triage])
    triage = Agent(Model(), name="triage", handoffs=[billing])
    with pytest.raises(DefinitionError, match="writes 'nots'"):
        desk(triage).compile(allow=("unreachable-node",))
    desk(triage, tools=[]).compile(allow=("unreachable-node",))


def test_node_restricts_handoffs_like_tools():
    first = Model("done")
    agent = pair(first, Model(), tools=[counting([], "look")])
    desk(agent, tools=["look"]).compile(allow=("unreachable-node",)).run({})

    assert [one.name for one in first.asked[0].tools] == ["look"]


def test_default_tools_of_a_nested_graph_include_the_handoffs():
    first = Model("done")
    agent = pair(first, Model(), tools=[counting([], "look", approval=True)])
    inner = GraphBuilder(Desk, name="inner")

    async def ask(state: Desk, ctx: Any) -> Any:
        await ctx.harness.run("go")

    inner.add_node("ask", ask)
    inner.set_entry("ask")
    outer = GraphBuilder(Desk, name="outer")
    outer.add_node("inner", inner.compile())
    outer.set_entry("inner")
    outer.compile().run({}, harness=agent)

    assert [one.name for one in first.asked[0].tools] == ["transfer_to_billing"]


def test_models_of_a_runtime_replace_those_of_the_next_agent():
    agent = pair(Model(TO_BILLING), Model("never"))
    result = desk(agent).compile(allow=("unreachable-node",)).run({}, models={"billing": ScriptedModel(["double"])})

    assert result.state.answer == "double"
    assert result.warnings == ()


def test_cassette_around_an_agent_replays_its_handoffs(tmp_path):
    answers = []
    for mode in ("record", "replay"):
        with Cassette(tmp_path / "x.cassette", mode=mode) as tape:
            agent = pair(Model(says(ToolCall(id="1", name="transfer_to_billing"))), Model("done"))
            answers.append(asyncio.run(tape.harness(agent).run("go")))

    assert answers[1].text == "done"


# ------------------------------------------------------------------------------------------------------------- refused


def test_handoff_to_itself_is_refused():
    same = Agent(Model(), name="triage")
    with pytest.raises(InputError, match="hands over to itself"):
        Agent(Model(), name="triage", handoffs=[same])
    lazy = Agent(Model(), name="triage", handoffs=lambda: [same])
    with pytest.raises(InputError, match="hands over to itself"):
        desk(lazy)


@pytest.mark.parametrize("given", ["billing", [1], [Agent], 3, [None]])
def test_value_that_is_not_an_agent_is_refused(given):
    with pytest.raises(InputError, match="handoffs"):
        Agent(Model(), handoffs=given)


def test_two_handoffs_or_a_tool_and_a_handoff_of_one_name_are_refused():
    billing = Agent(Model(), name="billing")
    for options in (
        {"handoffs": [billing, billing]},
        {"handoffs": [billing], "tools": [counting([], "transfer_to_billing")]},
    ):
        with pytest.raises(InputError, match="Two tools are named 'transfer_to_billing'") as caught:
            Agent(Model(), name="triage", **options)
        assert "handoff to agent 'billing'" in caught.value.where


def test_error_of_the_next_agent_has_the_whole_conversation():
    billing = Agent(Model(ValueError("no")), name="billing", retry=None)
    agent = Agent(Model(TO_BILLING), name="triage", handoffs=[billing])
    with pytest.raises(ValueError, match="no") as caught:
        run(agent)
    with pytest.raises(NodeError):
        desk(
            Agent(
                Model(TO_BILLING), name="triage", handoffs=[Agent(Model(ValueError("x")), name="billing", retry=None)]
            )
        ).compile(allow=("unreachable-node",)).run({})

    assert [said.role for said in caught.value.messages] == ["user", "assistant", "tool"]


@pytest.mark.slow  # two seconds, for a crash before and after each of about twenty writes
def test_crash_anywhere_does_not_change_writes_and_routes_of_agents():
    """Tools that write, a handoff, a goto of a tool and a handover to the parent graph: killed before and after each
    write.
    """

    def first(request: Any) -> Any:
        return says(call("note", "1", text="a"), call("note", "2", text="b"), call("transfer_to_billing", "3"))

    def second(request: Any) -> Any:
        if any(said.text == "Done." and said.tool_call_id == "4" for said in request.messages if said.role == "tool"):
            return says(call("note", "5", text="d"), call("pay", "6"))
        return call("note", "4", text="c")

    billing = Agent(FunctionModel(second), name="billing", tools=[note, pay])
    inner = GraphBuilder(Desk, name="inner", hands_over_to=["legal"])
    inner.add_node(
        "ask",
        Agent(FunctionModel(first), name="triage", tools=[note], handoffs=[billing]),
        input="question",
        output="answer",
    )
    inner.add_node("pay", lambda state: Command(update={"notes": ["pay"]}, goto="legal", graph=PARENT))
    inner.add_sequence([START, "ask", END])
    g = GraphBuilder(Desk, name="outer")
    g.add_node("inner", inner.compile())
    g.add_node("legal", lambda state: {"notes": ["legal"]})
    g.add_node("end", lambda state: {"notes": ["end"]})
    g.add_sequence([START, "inner", "end"])
    g.add_edge("legal", END)
    graph = g.compile()

    assert graph.run({}).state.notes == ["a", "b", "c", "d", "pay", "legal"]
    report = explore_crashes(graph, {})
    report.check()
    assert report.tried > 20
