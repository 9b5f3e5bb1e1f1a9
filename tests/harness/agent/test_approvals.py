"""Tool calls that need the approval of a person, in graphs: questions, answers, and work that is not repeated."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from graphrt import GraphBuilder, NodeError, Runtime
from graphrt.errors import InputError, ToolError
from graphrt.harness import Agent, ToolMessage, tool

from .fakes import Model, call, counting, says
from .graphs import State, every_way


def telling(prompt: str = "go", **more: Any) -> Any:
    """A node that writes the results of its agent's tools."""

    async def body(state: Any, ctx: Any) -> Any:
        reply = await ctx.harness.run(prompt, **more)
        return {"said": [said.text for said in reply.messages if isinstance(said, ToolMessage)]}

    return body


def changed(x: int) -> str:
    return f"A person changed the arguments of this call of 'note' to {{\"x\": {x}}}. The result is:\nnoted {x}"


def asking(counts: list[int], *turns: Any, **policy: Any) -> tuple[Model, Agent]:
    model = Model(*(turns or (says(*(call("note", f"c{x}", x=x) for x in (1, 2))),)), "done")
    return model, Agent(model, tools=[counting(counts, **{"approval": True, **policy})])


@every_way
def test_all_questions_of_a_turn_are_asked_at_once(way):
    counts: list[int] = []
    model, agent = asking(counts)

    with way.runtime(way.graph(telling(), tools=("note",)), harness=agent) as runtime:
        paused = way(runtime, "run", {}, thread="t")
        assert [one.payload["arguments"] for one in paused.interrupts] == [{"x": 1}, {"x": 2}]
        assert paused.interrupts[0].payload["tool"] == "note"
        assert counts == []
        first, second = (one.id for one in paused.interrupts)
        result = way(runtime, "resume", "t", {first: True, second: {"approve": False, "reason": "too much"}})

    assert result.state.said == ["noted 1", "A person refused this call of 'note': too much."]
    assert counts == [1]
    assert len(model.asked) == 2


def test_calls_of_an_interrupted_reply_raise_no_question(way):
    """The second run of the node begins with replies that the journal has."""
    counts: list[int] = []
    cut = says(*(call("note", f"c{x}", x=x) for x in (1, 2)), finish_reason="length")
    model, agent = asking(counts, cut, call("note", x=3))

    with way.runtime(way.graph(telling(), tools=("note",)), harness=agent) as runtime:
        paused = way(runtime, "run", {}, thread="t")
        assert [one.payload["arguments"] for one in paused.interrupts] == [{"x": 3}]
        result = way(runtime, "resume", "t", answer=True)

    assert [said.partition(":")[0] for said in result.state.said] == ["This call was not made"] * 2 + ["noted 3"]
    assert counts == [3]
    assert len(model.asked) == 3


@every_way
def test_answers_may_come_one_by_one(way):
    counts: list[int] = []
    model, agent = asking(counts)

    with way.runtime(way.graph(telling(), tools=("note",)), harness=agent) as runtime:
        first, second = (one.id for one in way(runtime, "run", {}, thread="t").interrupts)
        half = way(runtime, "resume", "t", {second: True})
        assert [one.id for one in half.interrupts] == [first]
        assert counts == []
        result = way(runtime, "resume", "t", {first: True})

    assert result.state.said == ["noted 1", "noted 2"]
    assert sorted(counts) == [1, 2]
    assert len(model.asked) == 2


@every_way
def test_person_may_change_the_arguments(way):
    counts: list[int] = []
    _, agent = asking(counts, call("note", x=1))

    with way.runtime(way.graph(telling(), tools=("note",)), harness=agent) as runtime:
        way(runtime, "run", {}, thread="t")
        result = way(runtime, "resume", "t", answer={"approve": True, "arguments": {"x": 7}})

    # The call in the conversation is the model's; its result says which call was made instead.
    assert result.state.said == [changed(7)]
    assert counts == [7]


@pytest.mark.parametrize(
    "answer", ["perhaps", None, 1.5, ["yes"], {"approved": True}, "yes", "on", "true", "no", 1, 1.0, 0, b"1"]
)
def test_invalid_answer_is_refused_and_the_question_stays_open(way, answer):
    counts: list[int] = []
    _, agent = asking(counts, call("note", x=1))

    with way.runtime(way.graph(telling(), tools=("note",)), harness=agent) as runtime:
        way(runtime, "run", {}, thread="t")
        with pytest.raises(InputError):
            way(runtime, "resume", "t", answer=answer)
        assert counts == []
        assert way(runtime, "resume", "t", answer=True).state.said == ["noted 1"]


@pytest.mark.parametrize(
    "answer",
    [
        {"approve": "yes"},
        {"reason": "why not"},
        {"approve": True, "arguments": {"x": "many"}},
        {"approve": True, "arguments": {"y": 1}},
        {"approve": True, "arguments": [1]},
    ],
)
def test_unusable_answer_is_requested_again(way, answer):
    counts: list[int] = []
    model, agent = asking(counts, call("note", x=1))

    with way.runtime(way.graph(telling(), tools=("note",)), harness=agent) as runtime:
        first = way(runtime, "run", {}, thread="t").interrupts
        (again,) = way(runtime, "resume", "t", answer=answer).interrupts
        assert again.id != first[0].id
        assert again.payload["refused_answer"]
        assert counts == []
        result = way(runtime, "resume", "t", answer={"approve": True, "arguments": {"x": 3}})

    assert result.state.said == [changed(3)]
    assert len(model.asked) == 2


@every_way
def test_each_turn_may_raise_questions(way):
    counts: list[int] = []
    model, agent = asking(counts, call("note", x=1), call("note", "b", x=1), call("note", "c", x=2))

    with way.runtime(way.graph(telling(), tools=("note",)), harness=agent) as runtime:
        way(runtime, "run", {}, thread="t")
        for _ in range(2):
            assert way(runtime, "resume", "t", True).status == "interrupted"
        result = way(runtime, "resume", "t", False)

    assert result.state.said == ["noted 1", "noted 1", "A person refused this call of 'note'."]
    assert counts == [1, 1]
    assert len(model.asked) == 4


def test_calls_without_a_question_do_not_wait_for_parallel_answers(way):
    counts: list[int] = []
    _, agent = asking(counts, approval=lambda arguments: arguments["x"] == 2)

    with way.runtime(way.graph(telling(), tools=("note",)), harness=agent) as runtime:
        way(runtime, "run", {}, thread="t")
        assert counts == [1]
        way(runtime, "resume", "t", True)

    assert counts == [1, 2]


def broken_beside_a_question(counts: list[int], fails: list[Exception], **policy: Any) -> Agent:
    def broken() -> str:
        if fails:
            raise fails.pop()
        return "mended"

    model = Model(fn=lambda request: says(call("note", x=1), call("broken")) if request.text == "go" else says("done"))
    return Agent(model, tools=[counting(counts, approval=True), tool(on_error="raise", **policy)(broken)])


@every_way
def test_call_that_fails_beside_a_question_fails_the_run_before_the_question(way):
    counts: list[int] = []
    agent = broken_beside_a_question(counts, [ValueError("no")])
    with way.runtime(way.graph(telling(), tools=("note", "broken")), harness=agent) as runtime:
        with pytest.raises(NodeError, match="Tool 'broken' failed: ValueError: no"):
            way(runtime, "run", {}, thread="t")
        paused = way(runtime, "retry", "t")
        assert ([one.payload["tool"] for one in paused.interrupts], counts) == (["note"], [])
        result = way(runtime, "resume", "t", True)

    assert result.state.said == ["noted 1", "mended"]
    assert counts == [1]


@every_way
def test_node_may_catch_the_failure_of_a_call_beside_a_question(way):
    """Nothing was asked by then: otherwise the node would seem to have caught the pause."""
    counts: list[int] = []

    async def body(state: Any, ctx: Any) -> Any:
        try:
            await ctx.harness.run("go")
        except ToolError as error:
            return {"said": [error.what]}

    agent = broken_beside_a_question(counts, [ValueError("no")])
    with way.runtime(way.graph(body), harness=agent) as runtime:
        result = way(runtime, "run", {}, thread="t")

    assert result.state.said == ["Tool 'broken' failed: ValueError: no"]
    assert counts == []


def test_unknown_outcome_of_a_call_is_asked_beside_the_approval_of_another(way):
    counts: list[int] = []
    agent = broken_beside_a_question(counts, [ValueError("no")], effect="once")
    with way.runtime(way.graph(telling(), tools=("note", "broken")), harness=agent) as runtime:
        with pytest.raises(NodeError):
            way(runtime, "run", {}, thread="t")
        paused = way(runtime, "retry", "t")
        assert {one.payload["problem"] for one in paused.interrupts} == {"outcome unknown", "approve a tool call"}
        approval = next(one.id for one in paused.interrupts if one.payload["problem"] == "approve a tool call")
        assert way(runtime, "resume", "t", {approval: True}).status == "interrupted"

    assert counts == []


@every_way
def test_branches_ask_in_parallel(way):
    from graphrt import START

    counts: list[int] = []
    model = Model(fn=lambda request: call("note", x=int(request.text[-1])) if "branch" in request.text else "done")
    agent = Agent(model, tools=[counting(counts, approval=True)])
    builder = GraphBuilder(State, name="branches")
    for number in range(3):
        builder.add_node(f"b{number}", way.node(telling(f"branch {number}")), tools=("note",))
        builder.add_edge(START, f"b{number}")
        builder.set_finish(f"b{number}")

    with way.runtime(builder.compile(), harness=agent) as runtime:
        paused = way(runtime, "run", {}, thread="t")
        assert len(paused.interrupts) == 3
        result = way(runtime, "resume", "t", {one.id: True for one in paused.interrupts})

    assert result.state.said == ["noted 0", "noted 1", "noted 2"]
    assert sorted(counts) == [0, 1, 2]
    assert len(model.asked) == 6


@every_way
def test_nested_graphs_ask(way):
    counts: list[int] = []
    model, agent = asking(counts)
    inner = way.graph(telling(), tools=("note",))
    builder = GraphBuilder(State, name="outer")
    builder.add_node("inner", inner)
    builder.set_entry("inner")
    builder.set_finish("inner")

    with way.runtime(builder.compile(), harness=agent) as runtime:
        paused = way(runtime, "run", {}, thread="t")
        assert len(paused.interrupts) == 2
        result = way(runtime, "resume", "t", {one.id: True for one in paused.interrupts})

    assert result.state.said == ["noted 1", "noted 2"]
    assert sorted(counts) == [1, 2]
    assert result.usage.calls == len(model.asked) == 2


@every_way
def test_parallel_runs_in_one_node_ask(way):
    """A paused run does not stop parallel runs before their end or their question."""
    counts: list[int] = []

    async def body(state: Any, ctx: Any) -> Any:
        replies = await asyncio.gather(*(ctx.harness.run(f"branch {number}") for number in range(3)))
        return {"said": [reply.messages[2].text for reply in replies]}

    def answer(request: Any) -> Any:
        async def wait() -> Any:
            number = int(request.messages[0].text[-1])
            for _ in range(number * 5):
                await asyncio.sleep(0)
            return says(call("note", x=number)) if "branch" in request.text else says("done")

        return wait()

    model = Model(fn=answer)
    agent = Agent(model, tools=[counting(counts, approval=lambda arguments: arguments["x"] != 1)])
    with way.runtime(way.graph(body, tools=("note",)), harness=agent) as runtime:
        paused = way(runtime, "run", {}, thread="t")
        assert [one.payload["arguments"]["x"] for one in paused.interrupts] == [0, 2]
        result = way(runtime, "resume", "t", {one.id: True for one in paused.interrupts})

    assert result.state.said == ["noted 0", "noted 1", "noted 2"]
    assert sorted(counts) == [0, 1, 2]
    assert len(model.asked) == 6


@every_way
def test_runs_of_a_task_group_ask(way):
    counts: list[int] = []

    async def body(state: Any, ctx: Any) -> Any:
        async with asyncio.TaskGroup() as group:
            runs = [group.create_task(ctx.harness.run(f"branch {number}")) for number in range(2)]
        return {"said": [one.result().messages[2].text for one in runs]}

    model = Model(fn=lambda request: call("note", x=int(request.text[-1])) if "branch" in request.text else "done")
    agent = Agent(model, tools=[counting(counts, approval=True)])
    with way.runtime(way.graph(body, tools=("note",)), harness=agent) as runtime:
        paused = way(runtime, "run", {}, thread="t")
        assert [one.payload["arguments"]["x"] for one in paused.interrupts] == [0, 1]
        result = way(runtime, "resume", "t", {one.id: True for one in paused.interrupts})

    assert result.state.said == ["noted 0", "noted 1"]
    assert len(model.asked) == 4


def test_failure_in_a_task_group_takes_precedence_over_a_pause(way):
    async def body(state: Any, ctx: Any) -> Any:
        async def fails() -> None:
            raise ValueError("off")

        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.harness.run("go"))
            group.create_task(fails())

    _, agent = asking([])
    with way.runtime(way.graph(body, tools=("note",)), harness=agent) as runtime, pytest.raises(NodeError):
        way(runtime, "run", {}, thread="t")


def test_same_call_of_two_agents_is_two_questions(way):
    counts: list[int] = []

    async def body(state: Any, ctx: Any) -> Any:
        replies = [await ctx.bind(agent).run("go") for agent in agents]
        return {"said": [reply.messages[2].text for reply in replies]}

    note = counting(counts, approval=True)
    agents = [Agent(Model(call("note", x=1), "done"), name=name, tools=[note]) for name in ("one", "two")]
    with way.runtime(way.graph(body)) as runtime:
        first = way(runtime, "run", {}, thread="t")
        second = way(runtime, "resume", "t", True)
        result = way(runtime, "resume", "t", False)

    assert [one.interrupts[0].payload["agent"] for one in (first, second)] == ["one", "two"]
    assert result.state.said == ["noted 1", "A person refused this call of 'note'."]


def test_question_without_a_thread_fails_the_run():
    from .graphs import Way

    way = Way(nodes="async", verbs="sync", store="")
    _, agent = asking([])

    with pytest.raises(InputError, match=r"thread|store"):
        Runtime(way.graph(telling(), tools=("note",)), harness=agent).run({})


@every_way
def test_decision_of_the_program_about_a_call_is_final(way):
    counts: list[int] = []
    answers = [True, False]
    model = Model(says(*(call("note", f"c{x}", x=x) for x in (1, 2))), "done")
    agent = Agent(model, tools=[counting(counts, approval=True)], approve=lambda _: answers.pop(0))

    async def body(state: Any, ctx: Any) -> Any:
        reply = await ctx.harness.run("go")
        ctx.interrupt("well?")
        return {"said": [said.text for said in reply.messages if isinstance(said, ToolMessage)]}

    with way.runtime(way.graph(body, tools=("note",)), harness=agent) as runtime:
        way(runtime, "run", {}, thread="t")
        result = way(runtime, "resume", "t", "yes")

    assert result.state.said == ["noted 1", "A person refused this call of 'note'."]
    assert counts == [1]
    assert len(model.asked) == 2
