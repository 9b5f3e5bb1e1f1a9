"""`ctx.memory`: writes belong to the commit of the task, reads are recorded, and tenants are isolated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typing_extensions as te

from graphrt import END, START, Command, Context, GraphBuilder, RetryPolicy, Runtime
from graphrt.errors import GraphrtError, InputError, NodeError
from graphrt.events import MemoryWritten
from graphrt.stores import MemoryStore, SqliteStore, StoreWrapper, TenantStore
from graphrt.testing import VirtualClock


class State(te.TypedDict, total=False):
    note: str
    found: list[Any]
    go: bool


def graph_of(*nodes: Any, **policy: Any) -> Any:
    g = GraphBuilder(State, name="desk")
    for number, node in enumerate(nodes):
        g.add_node(f"n{number}", node, **policy)
    g.add_sequence([START, *(f"n{number}" for number in range(len(nodes))), END])
    return g.compile()


def put(state: State, ctx: Context) -> None:
    ctx.memory.put("customers/1", "drink", {"likes": state.get("note")})


def get(state: State, ctx: Context) -> dict[str, Any]:
    return {"found": [item.value for item in ctx.memory.search("customers")]}


def fail(state: State) -> None:
    if state.get("go"):
        raise ValueError


def nothing(state: State) -> None:
    """The node that handles the failure."""


def values(runtime: Runtime[Any], namespace: str = "") -> list[Any]:
    return [item.value for item in runtime.memory.search(namespace)]


def test_item_of_one_thread_is_found_by_another() -> None:
    with Runtime(graph_of(get, put), store="memory:") as runtime:
        runtime.run({"note": "tea"}, thread="one")
        result = runtime.run({"note": "milk"}, thread="two")

        assert result.state.get("found") == [{"likes": "tea"}]
        assert values(runtime) == [{"likes": "milk"}]


def test_async_nodes_use_the_twins() -> None:
    async def both(state: State, ctx: Context) -> dict[str, Any]:
        before = await ctx.memory.asearch("a", "tea")
        await ctx.memory.aput("a", "k", "black tea")
        await ctx.memory.adelete("a", "old")
        item = await ctx.memory.aget("a", "k")
        assert item is not None
        return {"found": [len(before), item.value, await ctx.memory.aget("a", "old")]}

    async def main() -> None:
        async with Runtime(graph_of(both), store="memory:") as runtime:
            await runtime.memory.aput("a", "old", "green tea")
            result = await runtime.arun({}, thread="t")

            assert result.state.get("found") == [1, "black tea", None]
            assert [item.key for item in await runtime.memory.asearch()] == ["k"]
            assert await runtime.memory.anamespaces() == ["a"]

    asyncio.run(main())


def test_task_finds_its_own_writes_at_once_and_others_after_the_commit() -> None:
    seen: list[Any] = []

    def first(state: State, ctx: Context) -> None:
        ctx.memory.put("a", "k", "green tea")
        ctx.memory.put("a", "gone", "tea")
        ctx.memory.delete("a", "gone")
        item = ctx.memory.get("a", "k")
        assert item is not None
        seen.append((item.value, item.updated_at))
        seen.append([(one.value, one.score) for one in ctx.memory.search("a", "tea cup")])
        seen.append(len(runtime.memory.search("a")))

    def second(state: State, ctx: Context) -> None:
        seen.append([one.value for one in ctx.memory.search("a", "tea")])

    with Runtime(graph_of(first, second), store="memory:") as runtime:
        runtime.memory.put("a", "k", "black tea")
        runtime.run({}, thread="t")

    assert seen == [("green tea", None), [("green tea", 0.5)], 1, ["green tea"]]


def test_own_writes_are_ranked_among_the_items_of_the_store_and_expire() -> None:
    def node(state: State, ctx: Context) -> dict[str, Any]:
        ctx.memory.put("a", "own", "tea")
        ctx.memory.put("a", "own too", "green tea")
        ctx.memory.put("a", "late", "green tea", expires_at=999)
        items = ctx.memory.search("a", "green tea")
        return {"found": [[item.key for item in items], ctx.memory.get("a", "late")]}

    with Runtime(graph_of(node), store="memory:", clock=VirtualClock(1_000.0)) as runtime:
        runtime.memory.put("a", "stored", "green tea")
        runtime.memory.put("a", "late", "tea")

        assert runtime.run({}, thread="t").state.get("found") == [["own too", "stored", "own"], None]


@pytest.mark.parametrize("act", [put, lambda _, ctx: ctx.memory.delete("customers/1", "drink")], ids=["put", "delete"])
def test_node_with_a_cache_must_not_write(act: Any) -> None:
    """A result from the cache is used without calling the node."""
    with Runtime(graph_of(act, cache=True), store="memory:") as runtime:
        with pytest.raises(InputError, match=r"'n0' has cache= and writes") as refused:
            runtime.run({}, thread="t")

        assert refused.value.code == "no-memory"


def test_failed_attempt_writes_nothing() -> None:
    def flaky(state: State, ctx: Context) -> None:
        ctx.memory.put("a", f"attempt {ctx.attempt}", ctx.attempt)
        if ctx.attempt == 1:
            raise TimeoutError

    with Runtime(graph_of(flaky, retry=RetryPolicy(2, wait_initial_s=0)), store="memory:") as runtime:
        runtime.run({}, thread="t")

        assert values(runtime) == [2]


def test_task_that_fails_permanently_writes_nothing_until_its_retry_succeeds() -> None:
    broken = [True]

    def node(state: State, ctx: Context) -> None:
        ctx.memory.put("a", "k", not broken[0])
        if broken[0]:
            raise ValueError

    with Runtime(graph_of(node), store="memory:") as runtime:
        with pytest.raises(NodeError):
            runtime.run({}, thread="t")
        assert values(runtime) == []
        broken[0] = False
        runtime.retry("t")

        assert values(runtime) == [True]


def test_writes_of_a_recorded_effect_are_committed_by_the_execution_that_reuses_it() -> None:
    """A recorded tool or effect does not run again; its writes to the memory must not be lost."""
    calls: list[int] = []

    def effect(ctx: Context) -> str:
        calls.append(1)
        ctx.memory.put("a", "k", "from the effect")
        return "done"

    def node(state: State, ctx: Context) -> None:
        ctx.memory.put("a", "k", "before")
        ctx.memory.put("a", "other", "direct")
        ctx.effect("note", lambda: effect(ctx))
        assert ctx.interrupt("go on?")

    with Runtime(graph_of(node), store="memory:") as runtime:
        runtime.run({}, thread="t")
        assert values(runtime) == []
        runtime.resume("t", answer=True)

        assert sorted(values(runtime)) == ["direct", "from the effect"]
        assert calls == [1]
        assert runtime.reexecute("t").same


def test_recorded_read_is_repeated_by_a_later_execution() -> None:
    def node(state: State, ctx: Context) -> dict[str, Any]:
        item = ctx.memory.get("a", "k")
        ctx.interrupt("go on?")
        return {"found": [item and item.value]}

    with Runtime(graph_of(node), store="memory:") as runtime:
        runtime.memory.put("a", "k", "before")
        runtime.run({}, thread="t")
        runtime.memory.put("a", "k", "after")
        result = runtime.resume("t", answer=True)

        assert result.state.get("found") == ["before"]
        assert runtime.replay("t").status == "completed"


def test_nested_graph_writes_with_the_commit_of_its_task() -> None:
    inner = GraphBuilder(State, name="inner")
    inner.add_node("put", put)
    inner.add_node("fail", fail)
    inner.add_sequence([START, "put", "fail", END])
    g = GraphBuilder(State, name="outer")
    g.add_node("sub", inner.compile(), on_error="after")
    g.add_node("after", nothing)
    g.add_sequence([START, "sub", "after", END])
    with Runtime(g.compile(), store="memory:") as runtime:
        runtime.run({"note": "lost", "go": True}, thread="failing")
        assert values(runtime) == []
        runtime.run({"note": "tea"}, thread="t")

        assert values(runtime) == [{"likes": "tea"}]


def test_edit_that_finishes_a_task_drops_its_writes() -> None:
    def ask(state: State, ctx: Context) -> None:
        ctx.memory.put("a", "k", "written")
        ctx.interrupt("go on?")

    with Runtime(graph_of(ask), store="memory:") as runtime:
        runtime.run({}, thread="t")
        runtime.update("t", {"note": "edited"}, as_node="n0")
        runtime.retry("t")

        assert values(runtime) == []


def test_copies_and_forks_of_a_thread_repeat_no_writes() -> None:
    with Runtime(graph_of(put), store="memory:") as runtime:
        runtime.run({"note": "tea"}, thread="t")
        runtime.memory.delete("customers/1", "drink")
        runtime.copy_thread("t", "copy")
        last = runtime.state("t").seq
        runtime.fork("t", at=last, to="fork")

        assert values(runtime) == []


def test_items_expire_by_the_clock_of_the_runtime() -> None:
    clock = VirtualClock(1_000.0)

    def node(state: State, ctx: Context) -> dict[str, Any]:
        ctx.memory.put("a", "soon", 1, expires_s=60)
        ctx.memory.put("a", "then", 2, expires_at=2_000.0)
        return {}

    with Runtime(graph_of(node), store="memory:", clock=clock) as runtime:
        runtime.run({}, thread="t")
        assert [item.expires_at for item in runtime.memory.search()] == [1_060.0, 2_000.0]
        clock.advance(60)
        assert values(runtime) == [2]
        clock.advance(1_000)
        assert values(runtime) == []
        assert runtime.memory.purge() == 2


def test_threads_of_a_tenant_have_the_memory_of_that_tenant() -> None:
    """Whichever store a worker opened, the tenant's or the shared one, a thread reaches the memory of its tenant."""
    shared = MemoryStore()
    graph = graph_of(get, put)
    with Runtime(graph, store=TenantStore(shared, "acme")) as acme, Runtime(graph, store=shared) as workers:
        acme.run({"note": "tea"}, thread="one")
        found = workers.run({"note": "milk"}, thread="acme~two").state.get("found")
        with Runtime(graph, store=TenantStore(shared, "other")) as other:
            assert other.run({"note": "water"}, thread="one").state.get("found") == []
            assert values(other) == [{"likes": "water"}]

        assert found == [{"likes": "tea"}]
        assert values(acme) == [{"likes": "milk"}]
        assert workers.memory.namespaces() == ["acme~customers/1", "other~customers/1"]
        assert values(workers, "other~") == [{"likes": "water"}]


@pytest.mark.parametrize("namespace", ["other~customers", "", "a b", "/a", "ä"])
def test_namespace_of_another_tenant_and_invalid_ones_are_refused(namespace: str) -> None:
    def node(state: State, ctx: Context) -> None:
        ctx.memory.put(namespace, "k", 1)

    with Runtime(graph_of(node), store=TenantStore(MemoryStore(), "acme")) as runtime:
        with pytest.raises(InputError) as refused:
            runtime.run({}, thread="t")
        assert refused.value.code == "bad-namespace"
        with pytest.raises(InputError) as outside:
            runtime.memory.put(namespace, "k", 1)
        assert outside.value.code == "bad-namespace"


BAD: list[tuple[Callable[[Any], object], str]] = [
    (lambda memory: memory.put("a", "", 1), "bad-memory"),
    (lambda memory: memory.put("a", "k", "x" * 70_000), "bad-memory"),
    (lambda memory: memory.put("a", "k", object()), "not-storable"),
    (lambda memory: memory.put("a", "k", 1, expires_s=0), "input"),
    (lambda memory: memory.put("a", "k", 1, expires_s=1, expires_at=1.0), "input"),
    (lambda memory: memory.search("a", "q", limit=0), "input"),
    (lambda memory: memory.search("a", 7), "input"),
]


@pytest.mark.parametrize(("write", "code"), BAD)
def test_invalid_arguments_are_refused_in_nodes_and_outside(write: Any, code: str) -> None:
    def node(state: State, ctx: Context) -> None:
        write(ctx.memory)

    with Runtime(graph_of(node), store="memory:") as runtime:
        with pytest.raises(GraphrtError) as refused:
            runtime.run({}, thread="t")
        assert refused.value.code == code
        with pytest.raises(GraphrtError) as outside:
            write(runtime.memory)
        assert outside.value.code == code
        assert values(runtime) == []


def test_run_without_a_store_has_no_memory() -> None:
    with pytest.raises(InputError) as refused:
        graph_of(put).run({"note": "tea"})
    assert refused.value.code == "no-memory"
    with pytest.raises(InputError) as without:
        Runtime(graph_of(put)).memory  # noqa: B018 - the access raises
    assert without.value.code == "no-memory"


def test_store_without_memory_is_refused() -> None:
    store = StoreWrapper(MemoryStore())
    store.offers = store.offers - {"memory"}
    with Runtime(graph_of(put), store=store) as runtime, pytest.raises(NodeError) as refused:
        runtime.run({"note": "tea"}, thread="t")
    assert getattr(refused.value.__cause__, "code", None) == "store-lacks"


def test_writes_of_a_superstep_are_journalled_in_the_order_of_their_names() -> None:
    def node(state: State, ctx: Context) -> None:
        for key in ("c", "a", "b", "a"):
            ctx.memory.put("n", key, len(key))

    with Runtime(graph_of(node), store="memory:") as runtime:
        runtime.run({}, thread="t")
        wrote = [entry.event.key for entry in runtime.entries("t") if isinstance(entry.event, MemoryWritten)]

    assert wrote == ["a", "b", "c"]


def test_namespace_is_cleared_as_a_whole(tmp_path: Path) -> None:
    with Runtime(graph_of(put), store=SqliteStore(tmp_path / "runs.db")) as runtime:
        for name in ("customers/1", "customers/1/orders", "customers/10"):
            runtime.memory.put(name, "k", name)

        assert runtime.memory.clear("customers/1") == 2
        assert runtime.memory.namespaces() == ["customers/10"]


def test_command_that_routes_also_writes() -> None:
    def node(state: State, ctx: Context) -> Command:
        ctx.memory.put("a", "k", 1)
        return Command(goto=END)

    g = GraphBuilder(State, name="desk")
    g.add_node("n", node, goto=[END])
    g.set_entry("n")
    with Runtime(g.compile(), store="memory:") as runtime:
        runtime.run({}, thread="t")

        assert values(runtime) == [1]


def test_last_of_parallel_writes_in_call_order_wins() -> None:
    """Therefore a run whose results are replayed in the order of the calls leaves the same memory."""

    async def both(state: State, ctx: Context) -> None:
        quick_is_done = asyncio.Event()

        async def slow() -> None:
            await quick_is_done.wait()
            await ctx.memory.aput("a", "k", "first call")

        async def quick() -> None:
            ctx.effect("inner", lambda: ctx.memory.put("a", "k", "inner"))
            await ctx.memory.aput("a", "k", "second call")
            quick_is_done.set()

        await asyncio.gather(ctx.effect("slow", slow), ctx.effect("quick", quick))
        if not state.get("go"):
            ctx.interrupt("go on?")

    with Runtime(graph_of(both), store="memory:") as runtime:
        runtime.run({"go": True}, thread="undisturbed")
        assert values(runtime, "a") == ["second call"]

        runtime.memory.clear("a")
        runtime.run({}, thread="resumed")
        runtime.resume("resumed", answer=True)
        assert values(runtime, "a") == ["second call"]
