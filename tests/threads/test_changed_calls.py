"""Repeated calls are matched by their arguments, and a person decides about changed arguments (R10)."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import pytest
import typing_extensions as te

from graphrt import END, START, Context, GraphBuilder, RetryPolicy, Runtime
from graphrt.audit import AuditLog, Redaction, Secret
from graphrt.errors import NodeError
from graphrt.events import EffectRecorded
from graphrt.reducers import append, untracked

from .support import Fails, World, fan, line, note, refused


class Prices:
    """Returns prices, and counts the requests for each item."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def of(self, item: str) -> str:
        self.asked.append(item)
        return f"price of {item}"

    async def aof(self, item: str) -> str:
        return self.of(item)


def changing(prices: Prices, items: list[str], **options: Any) -> Any:
    """A node that asks for the price of the first of *items*, and then a person."""

    def node(state: Any, ctx: Context) -> dict[str, Any]:
        price = ctx.effect("price", prices.of, items[0], **options)
        return {"notes": [price, ctx.interrupt("go on?", key="go")]}

    return node


async def each_async(ctx: Context, prices: Prices, order: list[str]) -> dict[str, str]:
    """Ask for each item in its own task; they reach the effect in *order*."""
    turn = {item: asyncio.Event() for item in order}
    turn[order[0]].set()

    async def one(item: str) -> tuple[str, str]:
        await turn[item].wait()
        price = await ctx.effect("price", prices.aof, item)
        for after in order[order.index(item) + 1 :][:1]:
            turn[after].set()
        return item, price

    return dict(await asyncio.gather(*map(one, sorted(order))))


ITEMS = ["bread", "milk", "tea"]
FOUND = {item: f"price of {item}" for item in ITEMS}


def test_gathered_effects_get_their_own_results_in_any_order(world: World) -> None:
    prices, order = Prices(), list(ITEMS)

    async def node(state: Any, ctx: Context) -> dict[str, Any]:
        found = await each_async(ctx, prices, order)
        ctx.interrupt("go on?")
        return {"x": found}

    graph = line(("n", node))
    world.runtime(graph).run({"notes": []}, thread="t")
    order.reverse()
    done = world.runtime(graph).resume("t", 1)

    assert (done.status, done.state["x"]) == ("completed", FOUND)
    assert sorted(prices.asked) == ITEMS


def test_threads_of_a_node_get_their_own_results_in_any_order(world: World) -> None:
    prices, order = Prices(), list(ITEMS)

    def node(state: Any, ctx: Context) -> dict[str, Any]:
        found = {}
        for item in order:
            with ThreadPoolExecutor(1) as pool:
                found[item] = pool.submit(ctx.effect, "price", prices.of, item).result()
        ctx.interrupt("go on?")
        return {"x": found}

    graph = line(("n", node))
    world.runtime(graph).run({"notes": []}, thread="t")
    order.reverse()

    assert world.runtime(graph).resume("t", 1).state["x"] == FOUND
    assert sorted(prices.asked) == ITEMS


def test_lost_effect_of_a_gather_runs_again_without_a_question(world: World) -> None:
    """The node failed with some of its effects recorded, and the rest comes first in the next attempt."""
    prices, order = Prices(), ["milk", "tea"]

    async def node(state: Any, ctx: Context) -> dict[str, Any]:
        found = await each_async(ctx, prices, order)
        if len(order) == 2:
            raise ConnectionError
        return {"x": found}

    graph = line(("n", node))
    with pytest.raises(NodeError):
        world.runtime(graph).run({"notes": []}, thread="t")
    order.insert(0, "bread")
    done = world.runtime(graph).retry("t")

    assert (done.status, done.state["x"]) == ("completed", FOUND)
    assert sorted(prices.asked) == ITEMS


@pytest.mark.parametrize("kind", ["pure", "idempotent", "once"])
@pytest.mark.parametrize(
    ("answer", "price", "asked"),
    [
        ("recorded", "price of tea", ["tea"]),
        ("run", "price of milk", ["tea", "milk"]),
        ({"result": "free"}, "free", ["tea"]),
    ],
)
def test_a_person_decides_about_changed_arguments(
    world: World, kind: Any, answer: Any, price: str, asked: list[str]
) -> None:
    prices = Prices()

    def node(state: Any, ctx: Context) -> dict[str, Any]:
        price = ctx.effect("price", prices.of, state["x"], kind=kind)
        return {"notes": [price, ctx.interrupt("go on?")]}

    graph = line(("n", node))
    world.runtime(graph).run({"notes": [], "x": "tea"}, thread="t")
    world.runtime(graph).update("t", {"x": "milk"})
    [question] = world.runtime(graph).resume("t", 1).interrupts
    world.runtime(graph).resume("t", answer=answer)
    done = world.runtime(graph).state("t")

    assert question.kind == "effect"
    assert question.payload == {
        "effect": "price",
        "problem": "arguments changed",
        "recorded": ["tea"],
        "present": ["milk"],
        "result": "price of tea",
    }
    assert (done.status, done.values["notes"], prices.asked) == ("completed", [price, 1], asked)
    assert world.runtime(graph).replay("t").values == done.values
    assert world.runtime(graph).reexecute("t").same


def test_question_lists_its_valid_answers_and_refuses_others(world: World) -> None:
    prices, items = Prices(), ["tea"]
    runtime = world.runtime(line(("n", changing(prices, items))))
    runtime.run({"notes": []}, thread="t")
    items[:] = ["milk"]
    [question] = runtime.resume("t", 1).interrupts

    assert question.answer_schema["anyOf"][0] == {"enum": ["recorded", "run", "fail"], "type": "string"}
    refused("bad-answer", lambda: runtime.resume("t", "go"), "'recorded'")


def test_answer_fail_fails_the_node_and_a_retry_asks_again(world: World) -> None:
    prices, items = Prices(), ["tea"]
    runtime = world.runtime(line(("n", changing(prices, items))))
    runtime.run({"notes": []}, thread="t")
    items[:] = ["milk"]
    runtime.resume("t", 1)

    refused("effect-changed", lambda: runtime.resume("t", "fail"), "'price'", error=NodeError)
    assert [one.kind for one in world.runtime(line(("n", changing(prices, items)))).retry("t").interrupts] == ["effect"]
    assert runtime.resume("t", "run").state["notes"] == ["price of milk", 1]


def test_answer_about_some_arguments_is_not_reused_for_others(world: World) -> None:
    prices, items = Prices(), ["tea"]
    runtime = world.runtime(line(("n", changing(prices, items))))
    runtime.run({"notes": []}, thread="t")
    items[:] = ["milk"]
    runtime.resume("t", 1)
    items[:] = ["bread"]
    [question] = runtime.resume("t", "recorded").interrupts

    assert question.payload["present"] == ["bread"]
    assert prices.asked == ["tea"]


def test_changed_arguments_between_attempts_raise_a_question(world: World) -> None:
    prices, items = Prices(), ["tea"]

    def node(state: Any, ctx: Context) -> dict[str, Any]:
        price = ctx.effect("price", prices.of, "tea" if ctx.attempt == 1 else "milk")
        if ctx.attempt == 1:
            raise ConnectionError
        return {"notes": [price]}

    graph = line(("n", node), n={"retry": RetryPolicy(attempts=3, wait_initial_s=0)})
    assert world.runtime(graph).run({"notes": []}, thread="t").status == "interrupted"
    assert world.runtime(graph).resume("t", "run").state["notes"] == ["price of milk"]
    # Without a thread no person can be asked: the effect runs for its arguments.
    assert graph.run({"notes": []}).state["notes"] == ["price of milk"]
    assert items == ["tea"]


def test_started_effect_with_an_unknown_outcome_is_not_run_for_other_arguments(world: World) -> None:
    outside, items = Fails(), ["tea"]

    def node(state: Any, ctx: Context) -> dict[str, Any]:
        return {"x": ctx.effect("pay", outside, items[0], kind="once")}

    runtime = world.runtime(line(("n", node)))
    with pytest.raises(NodeError):
        runtime.run({"notes": []}, thread="t")
    items[:] = ["milk"]
    [question] = runtime.retry("t").interrupts

    assert (question.payload["problem"], question.payload.get("result")) == ("arguments changed", None)
    assert outside.calls == 1
    outside.broken = False
    assert runtime.resume("t", "run").state["x"] == {"notes": ["mended"]}
    assert outside.calls == 2


def test_a_key_matches_in_any_order_and_with_any_arguments(world: World) -> None:
    prices, items = Prices(), ["tea", "milk"]

    def node(state: Any, ctx: Context) -> dict[str, Any]:
        found = {item: ctx.effect("price", prices.of, f"{item} today", key=item) for item in items}
        ctx.interrupt("go on?")
        return {"x": found}

    runtime = world.runtime(line(("n", node)))
    runtime.run({"notes": []}, thread="t")
    items.reverse()

    assert runtime.resume("t", 1).state["x"] == {"tea": "price of tea today", "milk": "price of milk today"}
    assert len(prices.asked) == 2


def test_nested_graphs_and_forks_compare_arguments(world: World) -> None:
    prices, items = Prices(), ["tea"]
    inner = line(("deep", changing(prices, items)), name="inner")
    graph = fan(("a", note("a")), ("child", inner))
    world.runtime(graph).run({"notes": []}, thread="t")
    runtime = world.runtime(graph)
    fork = runtime.fork("t", to="f")
    items[:] = ["milk"]

    for thread in ("t", fork):
        [question] = runtime.resume(thread, 1).interrupts
        assert (question.node, question.payload["present"]) == ("deep", ["milk"])
        assert "price of milk" in runtime.resume(thread, "run").state["notes"]


def test_ids_of_the_run_do_not_count_as_a_change_in_a_fork(world: World) -> None:
    def node(state: Any, ctx: Context) -> dict[str, Any]:
        made = ctx.effect("make", lambda *args: "made", f"key {ctx.idempotency_key}", ctx.thread, kind="once")
        return {"x": [made, ctx.interrupt("go on?")]}

    runtime = world.runtime(line(("n", node)))
    runtime.run({"notes": []}, thread="t")

    assert runtime.resume(runtime.fork("t", to="f"), 1).state["x"] == ["made", 1]


def test_argument_that_cannot_be_stored_equals_any_other(world: World) -> None:
    items = ["tea"]

    def node(state: Any, ctx: Context) -> dict[str, Any]:
        price = ctx.effect("price", lambda prices, item: prices.of(item), Prices(), items[0])
        return {"notes": [price, ctx.interrupt("go on?", key="go")]}

    runtime = world.runtime(line(("n", node)))
    runtime.run({"notes": []}, thread="t")
    before = runtime.fork("t", to="f")

    assert runtime.resume("t", 1).state["notes"] == ["price of tea", 1]
    items[:] = ["milk"]
    [question] = runtime.resume(before, 1).interrupts
    assert question.payload["recorded"] == ["<Prices: not stored>", "tea"]


class Guarded(te.TypedDict, total=False):
    notes: Annotated[list[Any], append]
    token: Annotated[str, untracked]
    key: Secret[str]


class Deps:
    password = "hunter-22"

    def __init__(self) -> None:
        self.api_key = "sk-4711-0815"


def test_unrecorded_arguments_are_not_in_the_journal(tmp_path: Any) -> None:
    def node(state: Any, ctx: Context[Deps]) -> dict[str, Any]:
        private = (f"Bearer {state.get('token')}", state["key"].reveal(), [ctx.deps.api_key], "ann@example.org")
        ctx.effect("call", lambda *args: len(args), *private, 5)
        ctx.interrupt("go on?")
        return {"notes": ["done"]}

    g: Any = GraphBuilder(Guarded, name="guarded")
    graph = g.add_node("n", node).add_edge(START, "n").add_edge("n", END).compile()
    redaction = Redaction(patterns=["email"])
    options: Any = {"deps": Deps(), "audit": AuditLog(tmp_path / "logs", key=bytes(range(32)), redact=redaction)}
    with Runtime(graph, store=f"sqlite:///{tmp_path}/runs.db", **options) as runtime:
        given = {"notes": [], "token": "tok-1234", "key": Secret("sec-9876")}
        runtime.run(given, thread="t")
        runtime.update("t", {"key": Secret("sec-9876")})
        assert runtime.resume("t", 1).status == "completed"
        events = [entry.event for entry in runtime.entries("t")]
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())

    [recorded] = [event for event in events if isinstance(event, EffectRecorded)]
    assert recorded.arguments.count("left_out") == 3
    assert recorded.arguments.endswith(",5]")
    for text in (b"tok-1234", b"sec-9876", b"sk-4711-0815", b"ann@example.org"):
        assert text not in written


def test_a_child_thread_is_matched_by_its_input(world: World) -> None:
    child, starts = line(("c", note("child")), name="child"), [1, 2]

    def node(state: Any, ctx: Context) -> dict[str, Any]:
        found = {n: ctx.start(child, {"x": n}).thread for n in starts}
        ctx.interrupt("go on?", key="go")
        return {"x": found}

    runtime = world.runtime(line(("n", node)))
    runtime.run({"notes": []}, thread="t")
    known = runtime.fork("t", to="f")
    starts.reverse()
    done = runtime.resume("t", 1).state["x"]
    children = {info.thread for info in runtime.threads() if info.thread.startswith("t.")}
    states = {n: world.runtime(child).state(thread).values["x"] for n, thread in done.items()}

    assert len(children) == 2
    assert states == {1: 1, 2: 2}
    starts[:] = [1, 3]
    [question] = runtime.resume(known, 1).interrupts
    assert (question.payload["recorded"], question.payload["present"]) == (["child", {"x": 2}], ["child", {"x": 3}])
