"""Context: it has everything that the reference lists, with the same values wherever a node runs."""

from __future__ import annotations

import asyncio
import gc
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from graphrt import InputError, Limits, MockHarness, NodeError, RetryPolicy, Runtime
from graphrt.events import Usage

from .support import Face, get, note, parallel, sequence


def seen_by(face: Face, made: Any, look: Any, *, thread: str | None = None, **options: Any) -> Any:
    """The result of *look* for the context of a node."""
    seen: list[Any] = []
    graph = sequence(("first", note("first")), ("node", made(lambda s, ctx: seen.append(look(ctx)))))
    face.run(Runtime(graph, **options), {}, thread=thread)
    return seen[0]


def test_context_has_the_ids_of_its_task(face: Face, made: Any) -> None:
    told = seen_by(
        face,
        made,
        lambda c: (c.node, c.task_id, c.step, c.thread, c.run_id, c.attempt, c.arg, c.answer, c.error, c.cancelled),
        thread="t",
        store="memory:",
        ids=lambda: "run-1",
    )

    assert told == ("node", "2.0:node", 2, "t", "run-1", 1, None, None, None, False)


def test_editor_completes_only_names_of_the_reference(face: Face, made: Any) -> None:
    seen = seen_by(face, made, lambda c: [name for name in dir(c) if not name.startswith("_")])
    page = (Path(__file__).parents[2] / "docs" / "reference" / "api.md").read_text(encoding="utf-8")

    assert [name for name in seen if f"`ctx.{name}" not in page and f"`{name}" not in page] == []
    assert not {"done", "suspended"} & set(seen)


def test_remaining_steps_count_down_to_the_limit(face: Face, made: Any) -> None:
    assert seen_by(face, made, lambda ctx: ctx.steps_left, limits=Limits(max_steps=5)) == 3


def test_siblings_are_the_other_tasks_of_the_superstep(face: Face, made: Any) -> None:
    seen: list[int] = []
    look = made(lambda s, ctx: seen.append(ctx.siblings))
    face.run(Runtime(parallel(("a", look), ("b", note("b")), ("c", note("c")))), {})

    assert seen == [2]


def test_thread_is_none_without_a_thread(face: Face, made: Any) -> None:
    assert seen_by(face, made, lambda c: (c.thread, bool(c.run_id))) == (None, True)


def test_run_id_is_that_of_the_result(face: Face, made: Any) -> None:
    seen: list[str] = []
    graph = sequence(("node", made(lambda s, ctx: seen.append(ctx.run_id))))

    assert face.run(graph, {}).run_id == seen[0]


def test_deps_are_those_of_the_caller(face: Face, made: Any) -> None:
    deps = object()

    assert seen_by(face, made, lambda c: c.deps, deps=deps) is deps
    assert seen_by(face, made, lambda c: c.deps) is None


def test_now_is_the_clock_of_the_runtime(face: Face, made: Any) -> None:
    assert seen_by(face, made, lambda c: c.now(), clock=lambda: 12.5) == 12.5


def test_context_has_the_budget(face: Face, made: Any) -> None:
    """The reference lists `budget` among the attributes of Context."""
    assert seen_by(face, made, lambda c: hasattr(c, "budget"))


def test_random_numbers_depend_on_seed_and_task(face: Face, made: Any) -> None:
    def look(ctx: Any) -> Any:
        return [ctx.random.random() for _ in range(3)]

    one = seen_by(face, made, look, seed=1)

    assert one == seen_by(face, made, look, seed=1)
    assert one != seen_by(face, made, look, seed=2)
    assert len(set(one)) == 3
    assert seen_by(face, made, look) != seen_by(face, made, look)


def test_random_numbers_of_parallel_tasks_differ(face: Face, made: Any) -> None:
    seen: list[float] = []

    def node(state: Any, ctx: Any) -> Any:
        seen.append(ctx.random.random())

    face.run(Runtime(parallel(("a", made(node)), ("b", made(node))), seed=1), {})

    assert len(set(seen)) == 2


@pytest.mark.parametrize("how", ["interrupt", "retry-of-thread", "attempt"])
@pytest.mark.parametrize("seed", [None, 7])
def test_random_numbers_are_the_same_on_re_execution(face: Face, made: Any, how: str, seed: int | None) -> None:
    seen: list[Any] = []

    def node(state: Any, ctx: Any) -> Any:
        seen.append((ctx.random.random(), ctx.idempotency_key, ctx.task_id, ctx.step))
        if how == "interrupt":
            ctx.interrupt("?")
        elif len(seen) == 1:
            raise ConnectionError

    policy = {"retry": RetryPolicy(2, wait_initial_s=0)} if how == "attempt" else {}
    runtime = Runtime(sequence(("node", made(node)), node=policy), store="memory:", seed=seed)
    if how == "interrupt":
        face.run(runtime, {}, thread="t")
        face.resume(runtime, "t", 1)
    elif how == "attempt":
        face.run(runtime, {}, thread="t")
    else:
        with pytest.raises(NodeError):
            face.run(runtime, {}, thread="t")
        face.retry(runtime, "t")

    assert len(seen) == 2
    assert seen[0] == seen[1]


def test_idempotency_keys_differ_between_tasks_and_runs_of_a_thread(face: Face, made: Any) -> None:
    keys: list[str] = []
    node = made(lambda s, ctx: keys.append(ctx.idempotency_key))
    runtime = Runtime(parallel(("a", node), ("b", node)), store="memory:")
    face.run(runtime, {}, thread="t")
    face.run(runtime, {}, thread="t")
    face.run(runtime, {}, thread="other")

    assert len(set(keys)) == 6


def test_sync_node_may_call_an_async_function(face: Face) -> None:
    async def fetch(text: str, *, times: int = 1) -> str:
        await asyncio.sleep(0)
        return text * times

    graph = sequence(("node", lambda s, ctx: {"x": ctx.call(fetch, "ab", times=2)}))

    assert get(face.run(graph, {}).state, "x") == "abab"


def test_call_raises_the_error_of_the_function(face: Face) -> None:
    async def bad() -> None:
        raise LookupError("inside")

    with pytest.raises(NodeError) as caught:
        face.run(sequence(("node", lambda s, ctx: ctx.call(bad))), {})

    assert isinstance(caught.value.__cause__, LookupError)


def test_call_in_an_async_node_is_a_clear_error(face: Face) -> None:
    async def fetch() -> int:
        return 1

    async def node(state: Any, ctx: Any) -> Any:
        return {"x": ctx.call(fetch)}

    with pytest.raises(NodeError) as caught:
        face.run(sequence(("node", node)), {})

    text = f"{caught.value} {caught.value.__cause__}"
    assert "async" in text
    assert "Await" in text


def test_call_of_a_coroutine_suggests_the_function_and_leaves_no_warning(face: Face) -> None:
    async def fetch(text: str) -> str:
        return text

    gc.collect()  # warnings of other tests come before
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError) as caught:
            face.run(sequence(("node", lambda s, ctx: {"x": ctx.call(fetch("a"))})), {})
        gc.collect()

    assert caught.value.code == "input"
    assert caught.value.node == "node"
    assert "ctx.call(ctx.harness.run, prompt)" in str(caught.value)
    assert "fetch() was called already" in str(caught.value)


def test_call_of_a_value_says_that_it_is_not_a_function(face: Face) -> None:
    with pytest.raises(InputError) as caught:
        face.run(sequence(("node", lambda s, ctx: {"x": ctx.call(5)})), {})

    assert "not 5" in str(caught.value)


def test_calls_run_in_parallel(face: Face) -> None:
    async def fetch(n: int) -> int:
        await asyncio.sleep(0.001)
        return n

    def node(n: int) -> Any:
        return (f"n{n}", lambda s, ctx: {"notes": [ctx.call(fetch, n)]})

    assert get(face.run(parallel(*(node(n) for n in range(5))), {}).state, "notes") == list(range(5))


def test_effect_returns_the_result_of_the_function(face: Face) -> None:
    graph = sequence(("node", lambda s, ctx: {"x": ctx.effect("sum", lambda a, b: a + b, 1, 2)}))

    assert get(face.run(graph, {}).state, "x") == 3


def test_effect_of_a_value_is_refused_before_its_start_is_recorded(face: Face) -> None:
    runtime = Runtime(sequence(("node", lambda s, ctx: ctx.effect("send", 3, kind="once"))), store="memory:")

    with pytest.raises(InputError, match="not 3") as caught:
        face.run(runtime, {}, thread="t")

    assert "ctx.effect('send', send, text)" in caught.value.fix
    assert "EffectStarted" not in [type(entry.event).__name__ for entry in runtime.entries("t")]


class AsyncObject:
    async def __call__(self, n: int) -> int:
        return n + 1


@pytest.mark.parametrize("fn", [AsyncObject(), partial(AsyncObject())])
def test_effect_of_an_object_with_an_async_call_is_awaitable(face: Face, fn: Any) -> None:
    async def node(state: Any, ctx: Any) -> Any:
        return {"x": await ctx.effect("count", fn, 1)}

    result = face.run(Runtime(sequence(("node", node)), store="memory:"), {}, thread="t")

    assert get(result.state, "x") == 2


@pytest.mark.parametrize("store", [None, "memory:"])
@pytest.mark.parametrize("is_async", [True, False])
def test_effect_of_a_function_that_returns_a_coroutine_is_refused(
    face: Face, store: str | None, is_async: bool
) -> None:
    async def post(n: int) -> int:
        return n

    async def anode(state: Any, ctx: Any) -> Any:
        return {"x": await ctx.effect("send", lambda: post(1))}

    def node(state: Any, ctx: Any) -> Any:
        return {"x": ctx.effect("send", lambda: post(1))}

    runtime = Runtime(sequence(("node", anode if is_async else node)), store=store)
    gc.collect()  # warnings of other tests come before
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match="returned a coroutine") as caught:
            face.run(runtime, {}, thread="t" if store else None)
        gc.collect()

    assert ("await ctx.effect('send', post, ...)" if is_async else "ctx.call(ctx.effect, 'send', post, ...)") in (
        caught.value.fix
    )


def test_effects_of_one_name_are_matched_in_order(face: Face) -> None:
    runs: list[int] = []

    def count(n: int) -> int:
        runs.append(n)
        return n

    def node(state: Any, ctx: Any) -> Any:
        found = [ctx.effect("count", count, n) for n in range(3)]
        return {"x": (found, ctx.interrupt("?"))}

    runtime = Runtime(sequence(("node", node)), store="memory:")
    face.run(runtime, {}, thread="t")

    assert get(face.resume(runtime, "t", 9).state, "x") == ([0, 1, 2], 9)
    assert runs == [0, 1, 2]


def test_effects_survive_a_failure_of_the_node(face: Face, made: Any) -> None:
    runs: list[int] = []
    mood = {"broken": True}

    def node(state: Any, ctx: Any) -> Any:
        ctx.effect("pay", lambda: runs.append(1))
        if mood["broken"]:
            raise ConnectionError
        return {"notes": ["paid"]}

    runtime = Runtime(sequence(("node", made(node)), node={"retry": RetryPolicy(2, wait_initial_s=0)}), store="memory:")
    with pytest.raises(NodeError):
        face.run(runtime, {}, thread="t")
    mood["broken"] = False

    assert get(face.retry(runtime, "t").state, "notes") == ["paid"]
    assert runs == [1]


def test_failed_effect_is_not_recorded(face: Face) -> None:
    runs: list[int] = []

    def pay() -> str:
        runs.append(1)
        if len(runs) == 1:
            raise ConnectionError
        return "paid"

    graph = sequence(
        ("node", lambda s, ctx: {"x": ctx.effect("pay", pay)}), node={"retry": RetryPolicy(2, wait_initial_s=0)}
    )

    assert get(face.run(graph, {}).state, "x") == "paid"


def test_harness_is_the_callers_and_its_usage_is_counted(face: Face) -> None:
    async def node(state: Any, ctx: Any) -> Any:
        return {"x": (await ctx.harness.run("hello")).text}

    def sync_node(state: Any, ctx: Any) -> Any:
        return {"y": ctx.call(ctx.harness.run, "again").text}

    result = face.run(sequence(("a", node), ("b", sync_node)), {}, harness=MockHarness(["one", "two"]))

    assert (get(result.state, "x"), get(result.state, "y")) == ("one", "two")
    assert isinstance(result.usage, Usage)
    assert result.usage.calls == 2


def test_missing_harness_is_a_clear_error(face: Face, made: Any) -> None:
    with pytest.raises(InputError) as caught:
        face.run(sequence(("node", made(lambda s, ctx: ctx.harness))), {})

    assert (caught.value.code, caught.value.node) == ("no-harness", "node")
    assert "harness=" in str(caught.value)


def test_the_context_is_the_second_positional_parameter_without_a_default(face: Face) -> None:
    class Node:
        def __call__(self, state: Any, ctx: Any) -> Any:
            return {"notes": [ctx.node]}

    class Holder:
        def method(self, state: Any, ctx: Any) -> Any:
            return {"notes": [ctx.node]}

        async def amethod(self, state: Any) -> Any:
            return {"notes": ["amethod"]}

    def with_default(state: Any, ctx: Any = "default") -> Any:
        return {"notes": [ctx]}

    import functools

    graph = sequence(
        ("object", Node()),
        ("method", Holder().method),
        ("amethod", Holder().amethod),
        ("default", with_default),
        ("partial", functools.partial(lambda extra, s, ctx: {"notes": [extra]}, "extra")),
    )

    assert get(face.run(graph, {}).state, "notes") == ["object", "method", "amethod", "default", "extra"]
