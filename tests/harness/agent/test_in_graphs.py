"""Agents in nodes of graphs: replayed after pauses and failures, called again after a failed attempt, counted once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from graphrt import NodeError, RetryPolicy
from graphrt.errors import AgentLimitError, InputError, TransientModelError
from graphrt.events import ModelReplied, Usage
from graphrt.harness import Agent, AgentLimits, TokenTracker

from .fakes import AT_ONCE, USED, Model, call, counting, says
from .graphs import ask, effects, every_way, replies


@every_way
def test_agent_is_the_harness_of_a_run(way):
    counts: list[int] = []
    agent = Agent(Model(call("note", x=1), "done"), tools=[counting(counts)])

    with way.runtime(way.graph(ask(), tools=("note",)), harness=agent) as runtime:
        result = way(runtime, "run", {}, thread="t")

    assert result.state.said == ["done"]
    assert result.usage == USED + USED
    assert counts == [1]


@every_way
def test_an_agent_may_be_bound_to_a_node(way):
    counts: list[int] = []
    agent = Agent(Model(call("note", x=1), "done"), tools=[counting(counts)])

    async def body(state: Any, ctx: Any) -> Any:
        transcript: list[Any] = []
        reply = await ctx.bind(agent).run("go", transcript=transcript)
        return {"said": [reply.text, len(transcript), reply.usage == USED + USED]}

    with way.runtime(way.graph(body)) as runtime:
        assert way(runtime, "run", {}, thread="t").state.said == ["done", 4, True]
    assert counts == [1]


# -- deny by default -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("allowed", "offered"), [(None, ["a", "b"]), ((), []), (("a",), ["a"]), (("b", "a"), ["a", "b"])]
)
def test_node_restricts_the_tools_of_its_agent(way, allowed, offered):
    model = Model("done")
    agent = Agent(model, tools=[counting([], "a"), counting([], "b")])

    with way.runtime(way.graph(ask(), **({} if allowed is None else {"tools": allowed})), harness=agent) as runtime:
        way(runtime, "run", {}, thread="t")

    assert [one.name for one in model.asked[0].tools] == offered


def test_call_of_a_tool_of_another_node_is_refused(way):
    counts: list[int] = []
    agent = Agent(Model(call("b", x=1), "done"), tools=[counting([], "a"), counting(counts, "b")])

    with way.runtime(way.graph(ask(), tools=("a",)), harness=agent) as runtime:
        assert way(runtime, "run", {}, thread="t").state.said == ["done"]

    assert counts == []


@pytest.mark.parametrize("wanted", [["b"], ["a", "b"]])
def test_node_cannot_request_more_tools_than_it_names(way, wanted):
    agent = Agent(Model("done"), tools=[counting([], "a"), counting([], "b")])

    with (
        way.runtime(way.graph(ask(tools=wanted), tools=("a",)), harness=agent) as runtime,
        pytest.raises(NodeError) as caught,
    ):
        way(runtime, "run", {}, thread="t")

    assert caught.value.__cause__.code == "tool-not-allowed"
    assert agent.models[0].asked == []


def test_node_that_names_a_tool_that_its_agent_lacks_gets_an_error(way):
    agent = Agent(Model("done"), tools=[counting([], "alpha")])

    with (
        way.runtime(way.graph(ask(), tools=("alpa",)), harness=agent) as runtime,
        pytest.raises(NodeError, match="no tool 'alpa'") as caught,
    ):
        way(runtime, "run", {}, thread="t")

    assert isinstance(caught.value.__cause__, InputError)


def test_node_may_request_fewer_tools_than_it_names(way):
    model = Model("done")
    agent = Agent(model, tools=[counting([], "a"), counting([], "b")])

    with way.runtime(way.graph(ask(tools=["b"]), tools=("a", "b")), harness=agent) as runtime:
        way(runtime, "run", {}, thread="t")

    assert [one.name for one in model.asked[0].tools] == ["b"]


# -- repeated execution ----------------------------------------------------------------------------------------------


@every_way
def test_pause_repeats_no_call_and_no_effect(way):
    counts: list[int] = []
    model = Model(call("note", x=1), "done")

    async def body(state: Any, ctx: Any) -> Any:
        reply = await ctx.harness.run("go")
        return {"said": [reply.text, ctx.interrupt("well?"), reply.usage == USED + USED, len(reply.messages)]}

    agent = Agent(model, tools=[counting(counts)])
    with way.runtime(way.graph(body, tools=("note",)), harness=agent) as runtime:
        paused = way(runtime, "run", {}, thread="t")
        result = way(runtime, "resume", "t", "yes")

    assert result.state.said == ["done", "yes", True, 4]
    assert counts == [1]
    assert len(model.asked) == 2
    assert paused.usage == result.usage == USED + USED


@every_way
def test_failed_attempt_calls_the_model_again_and_repeats_no_effect(way):
    counts: list[int] = []
    tried: list[int] = []
    model = Model(call("note", x=1), "bad", call("note", "other", x=1), call("note", "more", x=2), "good")

    async def body(state: Any, ctx: Any) -> Any:
        reply = await ctx.harness.run("go")
        tried.append(1)
        if reply.text == "bad":
            raise ConnectionError("not that")
        return {"said": [reply.text]}

    tracker = TokenTracker()
    agent = Agent(model, tools=[counting(counts)])
    graph = way.graph(body, tools=("note",), retry=RetryPolicy(attempts=2, wait_initial_s=0.0))
    with way.runtime(graph, harness=agent, sinks=[tracker]) as runtime:
        result = way(runtime, "run", {}, thread="t")
        entries = list(runtime.entries("t"))

    assert result.state.said == ["good"]
    assert counts == [1, 2]
    assert len(model.asked) == 5
    assert (
        result.usage
        == tracker.total
        == TokenTracker().read(entries).total
        == Usage(input_tokens=15, output_tokens=10, calls=5)
    )


@every_way
def test_retry_verb_calls_the_model_again_and_repeats_no_effect(way):
    counts: list[int] = []
    model = Model(call("note", x=1), "bad", call("note", x=1), "good")

    async def body(state: Any, ctx: Any) -> Any:
        reply = await ctx.harness.run("go")
        if reply.text == "bad":
            raise ValueError("not that")
        return {"said": [reply.text]}

    tracker = TokenTracker()
    graph = way.graph(body, tools=("note",))
    agent = Agent(model, tools=[counting(counts)])
    with way.runtime(graph, harness=agent, sinks=[tracker]) as runtime:
        with pytest.raises(NodeError):
            way(runtime, "run", {}, thread="t")
        result = way(runtime, "retry", "t")
        entries = list(runtime.entries("t"))

    assert result.state.said == ["good"]
    assert counts == [1]
    assert len(model.asked) == 4
    assert TokenTracker().read(entries).total.calls == tracker.total.calls == 4
    assert result.usage is not None
    assert result.usage.calls == 4


@every_way
def test_failed_model_call_keeps_earlier_calls(way):
    counts: list[int] = []
    model = Model(call("note", x=1), *[TransientModelError("off")] * 4, "done")
    agent = Agent(model, tools=[counting(counts)], retry=AT_ONCE)

    with way.runtime(way.graph(ask(), tools=("note",)), harness=agent) as runtime:
        with pytest.raises(NodeError):
            way(runtime, "run", {}, thread="t")
        result = way(runtime, "retry", "t")

    assert result.state.said == ["done"]
    assert len(model.asked) == 6
    assert counts == [1]
    assert result.usage.calls == 2


@every_way
def test_two_runs_with_one_prompt_are_two_calls(way):
    model = Model("one", "two")

    async def body(state: Any, ctx: Any) -> Any:
        texts = [(await ctx.harness.run("go")).text for _ in range(2)]
        ctx.interrupt("well?")
        return {"said": texts}

    with way.runtime(way.graph(body), harness=Agent(model)) as runtime:
        way(runtime, "run", {}, thread="t")
        result = way(runtime, "resume", "t", "yes")

    assert result.state.said == ["one", "two"]
    assert len(model.asked) == 2


@every_way
def test_overlapping_runs_get_their_own_replies_again(way):
    """The second run of a branch begins when its first has ended: in another order once all replies are known."""

    async def main(state: Any, ctx: Any) -> Any:
        async def branch(name: str) -> str:
            first = await ctx.harness.run(f"{name} first")
            second = await ctx.harness.run(f"{name} second of {first.text}")
            return second.text

        texts = await asyncio.gather(*(branch(name) for name in "abc"))
        ctx.interrupt("well?")
        return {"said": texts}

    def answer(request: Any) -> Any:
        name, which = request.text.split()[:2]

        async def wait() -> Any:
            for _ in range({"a": 9, "b": 5, "c": 1}[name]):
                await asyncio.sleep(0)
            return says(f"{name}-{which}")

        return wait()

    model = Model(fn=answer)
    with way.runtime(way.graph(main), harness=Agent(model)) as runtime:
        way(runtime, "run", {}, thread="t")
        asked = len(model.asked)
        result = way(runtime, "resume", "t", "yes")

    assert result.state.said == ["a-second", "b-second", "c-second"]
    assert (asked, len(model.asked)) == (6, 6)


def test_different_agents_do_not_share_replies(way):
    async def body(state: Any, ctx: Any) -> Any:
        one, two = ctx.bind(Agent(Model("one"), name="one")), ctx.bind(Agent(Model("two"), name="two"))
        if ctx.interrupt("which first?", key="q") == "one":
            texts = [(await one.run("go")).text, (await two.run("go")).text]
        else:
            texts = []
        return {"said": texts}

    with way.runtime(way.graph(body)) as runtime:
        way(runtime, "run", {}, thread="t")
        assert way(runtime, "resume", "t", "one").state.said == ["one", "two"]


def test_limit_of_an_agent_fails_the_node_and_leaves_the_thread_usable(way):
    model = Model(call("note", x=1), call("note", x=2), "done")
    agent = Agent(model, tools=[counting([])], limits=AgentLimits(model_calls=1))

    with way.runtime(way.graph(ask(), tools=("note",)), harness=agent) as runtime:
        with pytest.raises(AgentLimitError, match="model_calls=1") as caught:
            way(runtime, "run", {}, thread="t")
        assert (caught.value.node, caught.value.thread) == ("n0", "t")
        assert runtime.state("t").status == "failed"
        assert runtime.state("t").values == {"said": []} or runtime.state("t").values.said == []


def test_replies_with_a_lone_surrogate_are_stored(way):
    with way.runtime(way.graph(ask()), harness=Agent(Model("\ud83d"))) as runtime:
        assert way(runtime, "run", {}, thread="t").state.said == ["\ufffd"]


# -- the journal -----------------------------------------------------------------------------------------------------


def test_same_graph_writes_the_same_journal_sync_and_async(tmp_path):
    from .graphs import WAYS, Way

    async def body(state: Any, ctx: Any) -> Any:
        first = await ctx.harness.run("go")
        second = await ctx.harness.run("and then")
        return {"said": [first.text, second.text, ctx.interrupt("well?")]}

    journals: list[Any] = []
    for number, (nodes, verbs) in enumerate(WAYS):
        for store in ("memory:", f"sqlite:///{tmp_path / f'{number}.db'}"):
            way = Way(nodes=nodes, verbs=verbs, store=store)
            turn = says(call("note", "a", x=1), call("note", "b", x=2))
            agent = Agent(Model(turn, "one", call("note", "c", x=1), "two"), tools=[counting([])])
            options: Any = {"harness": agent, "clock": lambda: 1.0, "ids": lambda: "run", "seed": 1}
            with way.runtime(way.graph(body, tools=("note",)), **options) as runtime:
                way(runtime, "run", {}, thread="t")
                way(runtime, "resume", "t", "yes")
                journals.append([(one.path, one.event) for one in runtime.entries("t")])

    assert all(journal == journals[0] for journal in journals[1:])
    assert [event for _, event in journals[0] if isinstance(event, ModelReplied)]


def test_threads_of_agents_can_be_read_forked_and_replayed(way):
    counts: list[int] = []
    model = Model(call("note", x=1), "one", call("note", x=1), "two")
    agent = Agent(model, tools=[counting(counts)])

    with way.runtime(way.graph(ask("a"), ask("b"), tools=("note",)), harness=agent) as runtime:
        way(runtime, "run", {}, thread="t")
        assert len(effects(runtime)) + len(replies(runtime)) == 6
        for snapshot in runtime.history("t"):
            assert runtime.state("t", at=snapshot.seq).seq == snapshot.seq
        runtime.replay("t")
        first = next(one for one in runtime.history("t") if len(one.values.said) == 1)
        model.answers = [call("note", "z", x=5), "other"]
        runtime.fork("t", at=first.seq, to="f")
        result = way(runtime, "resume", "f") if runtime.state("f").status == "running" else way(runtime, "retry", "f")

    assert result.state.said == ["one", "other"]
    assert counts == [1, 1, 5]


def test_fork_at_any_entry_continues_with_the_data_of_that_entry(way):
    counts: list[int] = []
    model = Model(fn=lambda request: call("note", x=len(request.messages)) if len(request.messages) < 4 else "done")
    agent = Agent(model, tools=[counting(counts)])

    with way.runtime(way.graph(ask("a"), ask("b"), tools=("note",)), harness=agent) as runtime:
        way(runtime, "run", {}, thread="t")
        known_calls = known_acts = 0
        for entry in list(runtime.entries("t"))[:-1]:
            key = getattr(entry.event, "key", "")
            known_calls += isinstance(entry.event, ModelReplied)
            known_acts += key.startswith("tool/")
            asked, acts = len(model.asked), len(counts)
            fork = f"f{entry.seq}"
            runtime.fork("t", at=entry.seq, to=fork)
            result = way(runtime, "resume", fork)

            assert result.state.said == ["done", "done"]
            assert result.usage.calls == 6
            assert (len(model.asked) - asked, len(counts) - acts) == (6 - known_calls, 4 - known_acts)


def test_agent_with_approvals_continues(way):
    counts: list[int] = []
    model = Model(call("note", x=1), call("note", x=2), "done")
    agent = Agent(model, tools=[counting(counts, approval=True)])

    with way.runtime(way.graph(ask(), tools=("note",)), harness=agent) as runtime:
        way(runtime, "run", {}, thread="t")
        way(runtime, "resume", "t", True)
        result = way(runtime, "resume", "t", True)

    assert result.state.said == ["done"]
    assert counts == [1, 2]
    assert len(model.asked) == 3
