"""`ctx.effect` of each kind over interrupts, failures and lost processes; "outcome unknown" and its decisions."""

from __future__ import annotations

import asyncio

import pytest

from graphrt import RetryPolicy
from graphrt.errors import InputError, NodeError, UpdateError
from graphrt.events import EffectRecorded

from .support import Counts, fan, kinds, line, note, refused


class World:
    """The outside world: counts the calls, and keeps their keys."""

    def __init__(self):
        self.done = 0
        self.keys = []
        self.fails = 0

    def pay(self, amount=1):
        self.done += 1
        if self.fails:
            self.fails -= 1
            raise ConnectionError("line dropped")
        return {"receipt": self.done, "amount": amount}


def paying(outside, kind, then=None):
    def node(state, ctx):
        outside.keys.append(ctx.idempotency_key)
        receipt = ctx.effect("pay", outside.pay, 5, kind=kind)
        if then is not None:
            then(ctx)
        return {"x": receipt}

    return node


@pytest.mark.parametrize("kind", ["pure", "idempotent", "once"])
def test_effect_runs_once_over_an_interrupt(world, kind):
    outside = World()
    graph = line(("pay", paying(outside, kind, lambda ctx: ctx.interrupt("sure?"))))
    world.runtime(graph).run({"notes": []}, thread="t")
    result = world.runtime(graph).resume("t", "yes")

    assert outside.done == 1
    assert result.state["x"] == {"receipt": 1, "amount": 5}
    assert len(set(outside.keys)) == 1
    assert kinds(world.runtime(graph).entries("t")).count("effect-recorded") == 1


@pytest.mark.parametrize("kind", ["idempotent", "once"])
def test_effect_is_not_repeated_after_the_node_failed(world, kind):
    outside, broken = World(), [True]

    def fail(ctx):
        if broken:
            raise RuntimeError("after the payment")

    graph = line(("pay", paying(outside, kind, fail)))
    with pytest.raises(NodeError, match="after the payment"):
        world.runtime(graph).run({"notes": []}, thread="t")
    broken.clear()

    assert world.runtime(graph).retry("t").state["x"]["receipt"] == 1
    assert outside.done == 1


def test_effect_is_not_repeated_by_a_retry_policy(world):
    outside, left = World(), [2]

    def fail(ctx):
        if left[0]:
            left[0] -= 1
            raise ConnectionError("try again")

    graph = line(("pay", paying(outside, "once", fail)), pay={"retry": RetryPolicy(attempts=3, wait_initial_s=0)})
    assert world.runtime(graph).run({"notes": []}, thread="t").state["x"]["receipt"] == 1
    assert outside.done == 1


def test_failed_effect_runs_again_with_the_same_key_if_it_is_idempotent(world):
    outside = World()
    outside.fails = 1
    graph = line(("pay", paying(outside, "idempotent")))
    with pytest.raises(NodeError, match="line dropped"):
        world.runtime(graph).run({"notes": []}, thread="t")

    assert world.runtime(graph).retry("t").state["x"]["receipt"] == 2
    assert len(outside.keys) == 2
    assert len(set(outside.keys)) == 1


@pytest.mark.parametrize("former", ["dead", "lease-expired"])
def test_question_about_an_outcome_says_whether_the_former_owner_may_still_work(world, monkeypatch, former):
    """Not if this run has started the effect itself."""
    outside = World()
    outside.fails = 1
    graph = line(("pay", paying(outside, "once")))
    with pytest.raises(NodeError, match="line dropped"):
        world.runtime(graph).run({"notes": []}, thread="t")
    runtime = world.runtime(graph)
    claim = type(runtime.store).claim

    def taken_over(self, thread, **how):
        taken = claim(self, thread, **how)
        taken.former = former
        return taken

    def stops():
        raise KeyboardInterrupt

    stopped = world.runtime(line(("pay", lambda state, ctx: {"x": ctx.effect("pay", stops, kind="once")})))
    with pytest.raises(KeyboardInterrupt):
        stopped.run({"notes": []}, thread="stopped")
    with monkeypatch.context() as patched:
        patched.setattr(type(runtime.store), "claim", taken_over)
        assert stopped.retry("stopped").interrupts[0].payload["former_owner"] == former
        asked = runtime.retry("t")
        assert asked.interrupts[0].payload["former_owner"] == former
        again = line(("pay", paying(outside, "once")), pay={"retry": RetryPolicy(attempts=2, wait_initial_s=0)})
        outside.fails = 1
        own = world.runtime(again).run({"notes": []}, thread="own")  # the second attempt asks about the first one
        assert "former_owner" not in own.interrupts[0].payload
        outside.fails = 1
        with pytest.raises(NodeError, match="line dropped"):
            runtime.resume("t", answer="run")
    assert "former_owner" not in runtime.retry("t").interrupts[0].payload
    assert stopped.reexecute("stopped").same


@pytest.mark.parametrize(
    ("decision", "done", "receipt"),
    [("run", 2, {"receipt": 2, "amount": 5}), ({"result": "by phone"}, 1, "by phone"), ("fail", 1, None)],
)
def test_once_effect_without_an_outcome_asks_for_a_decision(world, decision, done, receipt):
    """It raised, and may or may not have happened. It is never repeated silently."""
    outside = World()
    outside.fails = 1
    graph = line(("pay", paying(outside, "once")))
    with pytest.raises(NodeError, match="line dropped"):
        world.runtime(graph).run({"notes": []}, thread="t")
    asked = world.runtime(graph).retry("t")

    assert outside.done == 1
    assert asked.status == "interrupted"
    payload = asked.interrupts[0].payload
    assert (payload["effect"], payload["problem"]) == ("pay", "outcome unknown")
    assert payload["idempotency_key"] == outside.keys[0]
    runtime = world.runtime(graph)
    if decision == "fail":
        refused("effect-unknown", lambda: runtime.resume("t", decision), "'pay'", "retry(thread) asks", error=NodeError)
        assert runtime.state("t").status == "failed"
        assert world.runtime(graph).retry("t").status == "interrupted", "a retry asks anew"
    else:
        assert runtime.resume("t", answer=decision).state["x"] == receipt
    assert outside.done == done


def test_permission_to_run_is_valid_for_one_run(world):
    outside = World()
    outside.fails = 2
    graph = line(("pay", paying(outside, "once")))
    runtime = world.runtime(graph)
    with pytest.raises(NodeError):
        runtime.run({"notes": []}, thread="t")
    runtime.retry("t")
    with pytest.raises(NodeError, match="line dropped"):
        runtime.resume("t", "run")
    assert outside.done == 2
    again = runtime.retry("t")

    assert again.status == "interrupted"
    assert outside.done == 2
    assert runtime.resume("t", "run").state["x"]["receipt"] == 3


def test_effect_does_not_run_on_an_invalid_decision(world):
    outside = World()
    outside.fails = 1
    runtime = world.runtime(line(("pay", paying(outside, "once"))))
    with pytest.raises(NodeError):
        runtime.run({"notes": []}, thread="t")
    runtime.retry("t")
    before = runtime.state("t")

    refused("bad-answer", lambda: runtime.resume("t", "go"), "'run'", "'result'", "'fail'", error=InputError)
    assert runtime.state("t").seq == before.seq
    assert outside.done == 1
    assert runtime.resume("t", "run").state["x"]["receipt"] == 2


def test_effects_of_one_name_are_matched_in_order(world):
    outside = World()

    def node(state, ctx):
        receipts = [ctx.effect("pay", outside.pay, n)["receipt"] for n in range(3)]
        ctx.interrupt("ok?")
        return {"notes": receipts}

    runtime = world.runtime(line(("pay", node)))
    runtime.run({"notes": []}, thread="t")
    assert runtime.resume("t", 1).state["notes"] == [1, 2, 3]
    assert outside.done == 3


def test_parallel_tasks_and_nested_graphs_run_effects(world):
    outside = World()

    def node(state, ctx):
        receipt = ctx.effect("pay", outside.pay, kind="once")["receipt"]
        return {"notes": [(ctx.interrupt("ok?"), receipt > 0)]}

    inner = line(("deep", node), name="inner")
    graph = fan(("p", node), ("q", node), ("child", inner))
    paused = world.runtime(graph).run({"notes": []}, thread="t")
    result = world.runtime(graph).resume("t", {i.id: i.node for i in paused.interrupts})

    assert outside.done == 3
    assert result.state["notes"] == ["split", ("p", True), ("q", True), ("deep", True), "last"]


def test_async_effects(world):
    outside = World()

    async def pay():
        await asyncio.sleep(0)
        return outside.pay()

    async def node(state, ctx):
        one = await ctx.effect("pay", pay, kind="once")
        answer = ctx.interrupt("ok?")
        two = await ctx.effect("pay", pay)
        return {"notes": [one["receipt"], two["receipt"], answer]}

    graph = line(("pay", node))

    async def go():
        await world.runtime(graph).arun({"notes": []}, thread="t")
        return await world.runtime(graph).aresume("t", "yes")

    assert asyncio.run(go()).state["notes"] == [1, 2, "yes"]
    assert outside.done == 2


@pytest.mark.parametrize("result", [[1], []])
def test_effect_results_are_not_shared_with_the_node(world, result):
    def node(state, ctx):
        found = ctx.effect("list", lambda: list(result))
        found.append(2)
        ctx.interrupt("ok?")
        return {"notes": found}

    runtime = world.runtime(line(("n", node)))
    runtime.run({"notes": []}, thread="t")
    assert runtime.resume("t", 1).state["notes"] == [*result, 2]
    recorded = [e.event.result for e in runtime.entries("t") if isinstance(e.event, EffectRecorded)]
    assert recorded == [result]


def test_effect_whose_result_cannot_be_stored_is_refused(durable):
    runtime = durable.runtime(line(("a", note("a")), ("n", lambda state, ctx: {"x": ctx.effect("made", object)})))

    refused("not-storable", lambda: runtime.run({"notes": []}, thread="t"), "'made'", "object", error=UpdateError)
    assert runtime.state("t").values["notes"] == ["a"]


def test_effect_of_an_unknown_kind_is_refused(world):
    runtime = world.runtime(line(("n", lambda state, ctx: {"x": ctx.effect("e", dict, kind="maybe")})))

    refused("input", lambda: runtime.run({"notes": []}, thread="t"), "'maybe'", "'once'", error=InputError)


def test_keys_differ_between_tasks_and_threads(world):
    keys = []

    def node(state, ctx):
        keys.append(ctx.idempotency_key)

    counts = Counts()
    runtime = world.runtime(fan(("p", node), ("q", node), ("r", counts)))
    runtime.run({"notes": []}, thread="t")
    runtime.run({"notes": []}, thread="u")
    runtime.run({"notes": []}, thread="t")

    assert len(keys) == len(set(keys)) == 6


def test_seed_is_the_same_after_a_restart(world):
    """`ctx.random` draws the same on re-execution, also in another process and without a seed of the runtime."""
    drawn = []

    def node(state, ctx):
        drawn.append(ctx.random.random())
        ctx.interrupt("ok?")
        return {"x": ctx.random.random()}

    graph = line(("n", node))
    world.runtime(graph, seed=None).run({"notes": []}, thread="t")
    world.runtime(graph, seed=None).resume("t", 1)
    assert len(drawn) == 2
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("way", ["copy", "fork"])
def test_question_about_a_lost_effect_in_a_copy_names_the_key_of_its_start(world, way):
    outside = World()
    outside.fails = 1
    graph = line(("pay", paying(outside, "once")))
    with pytest.raises(NodeError):
        world.runtime(graph).run({"notes": []}, thread="t")
    asked = world.runtime(graph).retry("t").interrupts[0].payload
    runtime = world.runtime(graph)
    other = runtime.copy_thread("t", "other") if way == "copy" else runtime.fork("t", to="other")
    left = world.runtime(graph).state(other).interrupts[0]
    assert left.payload == asked
    assert asked["idempotency_key"].startswith("t/")
    result = world.runtime(graph).resume(other, {left.id: {"result": {"receipt": 7, "amount": 5}}})

    assert (result.state["x"]["receipt"], outside.done) == (7, 1)
    assert world.runtime(graph).state("t").status == "interrupted"
