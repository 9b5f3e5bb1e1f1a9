"""`reexecute`: the runs of a log, repeated with its recorded results, write the same entries; changes are found and
named.
"""

from __future__ import annotations

import itertools
import random
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from examples.runbook.graph import Site
from examples.runbook.graph import graph as runbook
from examples.runbook.offline import offline
from pydantic import AfterValidator, BaseModel, Field
from tests.audit.honest_logs import KEY, options
from tests.journal import voyage
from typing_extensions import TypedDict

from graphrt import END, START, Budget, GraphBuilder, RetryPolicy, Runtime, Send
from graphrt.audit import AuditLog, export, reexecute
from graphrt.errors import AuditError, GraphrtError, TransientModelError
from graphrt.events import ModelReplied
from graphrt.harness import Agent, AgentReply, FunctionModel, ModelRequest, ToolCall, tool
from graphrt.reducers import append

YES = {"choice": "approve", "by": "Ann", "role": "operator", "rationale": "it is the release"}


class State(TypedDict, total=False):
    notes: Annotated[list[str], append]
    token_budget: int


def line(*nodes: Any, **policies: Any) -> Any:
    """A graph of nodes, one after another."""
    g: Any = GraphBuilder(State, name="line")
    for node in nodes:
        g.add_node(node.__name__, node, **policies)
    g.add_edge(START, nodes[0].__name__)
    g.add_sequence([node.__name__ for node in nodes]) if nodes[1:] else None
    return g.compile()


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a second execution opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def dead(_: ModelRequest) -> str:
    raise AssertionError("a second execution asked a model")


def test_voyage_is_repeated_from_its_store_and_from_its_log(tmp_path: Path) -> None:
    """Fan-out, retries, a nested graph, questions and answers, an edit, once effects, large values."""
    url = f"sqlite:///{tmp_path}/runs.db"
    voyage.tries.clear()
    with Runtime(voyage.graph(), store=url, audit=AuditLog(key=KEY), **options()) as runtime:
        runtime.run({"notes": ["größe"], "table": {"c": "x" * 70_000}}, thread="t")
        runtime.update("t", {"table": {"e": "z"}, "count": 5})
        runtime.resume("t", "left")
        runtime.resume("t", answer=True)
        runtime.fork("t", at=3, to="forked")
        runtime.retry("forked")
        for thread in ("t", "forked"):
            voyage.tries.clear()
            found = runtime.reexecute(thread)

            assert found.same, found.sentence
            assert found.entries > 10
            assert bool(found.begun) == (thread == "forked")
        before = [entry.seq for entry in runtime.entries("t")]
    export(url, "t", tmp_path / "log", key=KEY)
    voyage.tries.clear()
    assert reexecute(tmp_path / "log", voyage.graph(), key=KEY).entries == len(before) - 2  # without the resumes
    with pytest.raises(AuditError, match="wrong-key"):
        reexecute(tmp_path / "log", voyage.graph(), key=KEY[::-1])


def test_inputs_that_validators_changed_are_not_validated_a_second_time() -> None:
    class Price(BaseModel):
        cents: Annotated[int, AfterValidator(lambda euros: euros * 100)] = 0

    class Question(BaseModel):
        cents: Annotated[int, Field(lt=100)]

    g: Any = GraphBuilder(Price, name="price", input=Question)
    graph = g.add_node("a", lambda state: None).add_edge(START, "a").compile()
    with Runtime(graph, store="memory:", **options()) as runtime:
        assert runtime.run({"cents": 5}, thread="t").state.cents == 500
        assert runtime.run({"cents": 6}, thread="t").state.cents == 600
        found = runtime.reexecute("t")

    assert found.same, found.sentence


@pytest.mark.parametrize("verb", ["fork", "prune"])
def test_work_after_an_open_superstep_that_was_taken_over_cannot_be_repeated(verb: str) -> None:
    """Its questions and finished outcomes were staged, and the entries do not have them."""
    with Runtime(voyage.graph(), store="memory:", **options()) as runtime:
        runtime.run({"notes": ["a"], "table": {}}, thread="t")
        thread = runtime.fork("t", to="forked") if verb == "fork" else "t"
        if verb == "prune":
            runtime.prune("t")
        runtime.resume(thread, "left")
        found = runtime.reexecute(thread)

    assert not found.same
    assert f"a superstep was open after entry {found.begun}, which was taken over" in found.sentence


def test_runbook_is_executed_again_without_models_or_effects(tmp_path: Path) -> None:
    """A batch, agents, an adaptive plan that is refused once, a person, and effects that run once."""
    audit = AuditLog(tmp_path, key=KEY)
    site = Site()
    with Runtime(runbook, store="memory:", deps=site, models=offline(), audit=audit) as runtime:
        runtime.run({"alert": "checkout fails", "service": "checkout"}, thread="incident")
        runtime.resume("incident", answer=YES)
    path = audit.path("incident")
    assert path is not None
    models: Any = dict.fromkeys(offline(), FunctionModel(dead))
    again = Site()
    found = reexecute(path, runbook, key=KEY, deps=again, models=models)

    assert found.same, found.sentence
    assert len(site.changed) == 2
    assert again.changed == []


@tool
def look_up(word: str) -> str:
    """Look a word up."""
    calls.append(word)
    return f"{word} is known"


calls: list[str] = []


def talking(said: Callable[[ModelRequest], Any]) -> Any:
    """A graph with an agent that has a tool and a sub-agent."""
    helper = Agent(FunctionModel(lambda request: f"helped: {request.text[:10]}"), name="helper", max_tokens=99)
    chief = Agent(
        FunctionModel(said), name="chief", max_tokens=99, tools=[look_up, helper.as_tool(description="Helps.")]
    )

    async def ask(state: State, ctx: Any) -> Any:
        reply = await ctx.bind(chief).run(f"What of {state['notes'][0]}?")
        return {"notes": [reply.text]}

    return line(ask, retry=RetryPolicy(attempts=3, wait_initial_s=0.001))


def chief(request: ModelRequest) -> Any:
    asked = len([one for one in request.messages if type(one).__name__ == "ToolMessage"])
    turns = [("look_up", {"word": "sky"}), ("helper", {"question": "why is it blue"})]
    return (
        AgentReply(tool_calls=(ToolCall(id=f"{asked}", name=turns[asked][0], arguments=turns[asked][1]),))
        if asked < 2
        else "done"
    )


def test_agent_with_a_tool_and_a_sub_agent_is_repeated_without_calling_the_tool(tmp_path: Path) -> None:
    calls.clear()
    with Runtime(talking(chief), store="memory:", audit=AuditLog(tmp_path), budget=Budget(tokens=1_000_000)) as runtime:
        runtime.run({"notes": ["sky"]}, thread="t", title="labels are nothing that was computed", tags=["sky"])
        assert calls == ["sky"]
        found = runtime.reexecute("t")

        assert found.same, found.sentence
        replies = [one.event for one in runtime.entries("t") if isinstance(one.event, ModelReplied)]
        asked = [found.requests[one.task, one.failed_attempts, one.key] for one in replies]
        assert [one.text for one in asked][:1] == ["What of sky?"]
        assert sorted(len(one.messages) for one in asked) == [1, 1, 3, 5]
        assert calls == ["sky"]
    changed = reexecute(tmp_path / "t.jsonl", talking(dead), budget=Budget(tokens=1_000_000))
    assert changed.same, "the models are not asked, so what they would say now changes nothing"


def test_failed_calls_and_retries_are_repeated(tmp_path: Path) -> None:
    """A model that fails twice, an effect that raises, and a node that fails permanently and is retried by its user."""
    tries = itertools.count()

    def moody(_: ModelRequest) -> str:
        if next(tries) < 2:
            raise TransientModelError("busy")
        return "yes"

    agent = Agent(FunctionModel(moody), name="moody", retry=RetryPolicy(attempts=1))

    async def ask(_: State, ctx: Any) -> Any:
        return {"notes": [(await ctx.bind(agent).run("well?")).text]}

    broken = [ConnectionError("gone"), ConnectionError("still"), ValueError("for good")]

    def send() -> str:
        if broken:
            raise broken.pop(0)
        return "sent"

    def post(_: State, ctx: Any) -> Any:
        first = ctx.effect("stamp", lambda: "stamped")
        return {"notes": [first, ctx.effect("send", send)]}

    with Runtime(
        line(ask, post, retry=RetryPolicy(attempts=3, wait_initial_s=0.001)), store="memory:", audit=AuditLog(tmp_path)
    ) as runtime:
        with pytest.raises(GraphrtError):
            runtime.run({"notes": []}, thread="t")
        assert runtime.retry("t").state["notes"] == ["yes", "stamped", "sent"]
        found = runtime.reexecute("t")

        assert found.same, found.sentence


def test_run_that_a_budget_ended_is_repeated(tmp_path: Path) -> None:
    agent = Agent(FunctionModel(lambda _: "word " * 40), name="wordy", max_tokens=100)

    async def ask(_: State, ctx: Any) -> Any:
        return {"notes": [(await ctx.bind(agent).run(f"and {number}?")).text for number in range(9)]}

    with Runtime(line(ask), store="memory:", audit=AuditLog(tmp_path), budget=Budget(tokens=400)) as runtime:
        with pytest.raises(GraphrtError, match="budget"):
            runtime.run({"notes": []}, thread="t")
        found = runtime.reexecute("t")

        assert found.same, found.sentence


@pytest.mark.parametrize("is_edited", [False, True])
def test_cancelled_run_is_repeated(tmp_path: Path, is_edited: bool) -> None:
    def one(_: State) -> Any:
        return {"notes": ["one"]}

    def two(_: State) -> Any:
        if not calls:
            runtime.cancel("t")
        calls.append("two")
        return {"notes": ["two"]}

    calls.clear()
    with Runtime(line(one, two, three), store="memory:", audit=AuditLog(tmp_path)) as runtime:
        assert runtime.run({"notes": []}, thread="t").status == "cancelled"
        if is_edited:
            runtime.update("t", {"notes": ["edit"]})
        assert runtime.retry("t").status == "completed"
        found = runtime.reexecute("t")

        assert found.same, found.sentence


def three(_: State) -> Any:
    return {"notes": ["three"]}


# -- detected changes ----------------------------------------------------------------------------------------------


def fan(text: str = "part", *, to: str = "join", question: str = "sum") -> Any:
    agent = Agent(FunctionModel(lambda _: "summed"), name="summer")

    def split(_: State) -> Any:
        return {"notes": ["split"]}

    def part(_: State, ctx: Any) -> Any:
        return {"notes": [f"{text} {ctx.arg}"]}

    async def join(state: State, ctx: Any) -> Any:
        return {"notes": [(await ctx.bind(agent).run(f"{question} {len(state['notes'])}")).text]}

    g: Any = GraphBuilder(State, name="fan")
    g.add_node("split", split).add_node("part", part).add_node("join", join).add_node("other", three)
    g.add_edge(START, "split")
    g.add_conditional_edges("split", lambda _: [Send("part", at) for at in range(3)], ["part"])
    g.add_conditional_edges("part", lambda _: to, {"join": "join", "other": "other"})
    g.add_edge("join", END).add_edge("other", END)
    return g.compile()


@pytest.mark.parametrize(
    ("changed", "node", "told"),
    [
        ({}, None, "The same"),
        ({"text": "piece"}, "part", "updates is"),
        ({"to": "other"}, None, "a router chooses 'other' now, and chose 'join' in the log"),
        ({"question": "add"}, "join", "asks a model something now, and the log has a reply to another request"),
    ],
)
def test_change_is_found_and_named(tmp_path: Path, changed: dict[str, str], node: str | None, told: str) -> None:
    audit = AuditLog(tmp_path)
    with Runtime(fan(), store="memory:", audit=audit) as runtime:
        runtime.run({"notes": []}, thread="t")
    found = reexecute(tmp_path / "t.jsonl", fan(**changed))

    assert (found.same, found.node) == (not changed, node)
    assert told in found.sentence
    assert found.to_dict()["same"] is not bool(changed)
    if changed:
        assert found.expected is not None
        assert found.seq == found.expected.seq


def test_nondeterminism_of_a_node_is_found(tmp_path: Path) -> None:
    def draw(_: State) -> Any:
        return {"notes": [str(random.random())]}

    def seeded(_: State, ctx: Any) -> Any:
        return {"notes": [str(ctx.random.random())]}

    with Runtime(line(seeded, draw), store="memory:", audit=AuditLog(tmp_path)) as runtime:
        runtime.run({"notes": []}, thread="t")
        found = runtime.reexecute("t")

    assert (found.same, found.node, found.fields) == (False, "draw", ("updates",))


def test_run_interrupted_by_a_crash_is_repeated(tmp_path: Path) -> None:
    """A "once" effect had started, so after the crash a person was asked about its outcome."""

    class Killed(BaseException):
        pass

    killed: list[int] = []

    def pay(_: State, ctx: Any) -> Any:
        def act() -> str:
            if not killed:
                killed.append(1)
                raise Killed
            return "paid"

        return {"notes": [ctx.effect("pay", act, kind="once")]}

    url = f"sqlite:///{tmp_path}/runs.db"
    with Runtime(line(three, pay), store=url, **options()) as runtime, pytest.raises(Killed):
        runtime.run({"notes": []}, thread="t")
    with Runtime(line(three, pay), store=url, **options()) as runtime:
        assert runtime.retry("t").status == "interrupted"
        runtime.resume("t", answer="run")
        found = runtime.reexecute("t")

        assert found.same, found.sentence
        assert killed == [1]


def test_budget_that_a_person_raised_is_repeated(tmp_path: Path) -> None:
    agent = Agent(FunctionModel(lambda _: "word " * 40), name="wordy", max_tokens=100)

    async def ask(_: State, ctx: Any) -> Any:
        return {"notes": [(await ctx.bind(agent).run(f"and {number}?")).text for number in range(4)]}

    budget = Budget(tokens=250, on_exceeded="interrupt")
    with Runtime(line(ask), store="memory:", audit=AuditLog(tmp_path), budget=budget) as runtime:
        assert runtime.run({"notes": []}, thread="t").status == "interrupted"
        assert runtime.resume("t", answer=5_000).status == "completed"
        found = runtime.reexecute("t")

        assert found.same, found.sentence


def test_sub_agent_that_asks_for_approval_is_repeated(tmp_path: Path) -> None:
    @tool(approval=True)
    def change(word: str) -> str:
        """Change a word."""
        calls.append(word)
        return "changed"

    def once(request: ModelRequest) -> Any:
        told = [one for one in request.messages if type(one).__name__ == "ToolMessage"]
        return "ready" if told else AgentReply(tool_calls=(ToolCall(id="1", name="change", arguments={"word": "x"}),))

    helper = Agent(FunctionModel(once), name="helper", tools=[change])

    def lead(request: ModelRequest) -> Any:
        told = [one for one in request.messages if type(one).__name__ == "ToolMessage"]
        call = ToolCall(id="1", name="helper", arguments={"question": "change x"})
        return "all done" if told else AgentReply(tool_calls=(call,))

    leader = Agent(FunctionModel(lead), name="leader", tools=[helper.as_tool(description="Helps.")])

    async def ask(_: State, ctx: Any) -> Any:
        return {"notes": [(await ctx.bind(leader).run("go")).text]}

    calls.clear()
    with Runtime(line(ask), store="memory:", audit=AuditLog(tmp_path)) as runtime:
        assert runtime.run({"notes": []}, thread="t").status == "interrupted"
        assert runtime.resume("t", answer=True).state["notes"] == ["all done"]
        assert calls == ["x"]
        found = runtime.reexecute("t")

        assert found.same, found.sentence
        assert calls == ["x"]
