"""`batch`: parallel items, and their failures. `reduce`: shorter prompts, without a deletion of a needed source."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from graphrt import (
    END,
    START,
    DefinitionError,
    GraphBuilder,
    InputError,
    LimitError,
    Limits,
    MockHarness,
    NodeError,
    Runtime,
)
from graphrt.errors import ConcurrentUpdateError
from graphrt.harness import Template
from graphrt.nodes import batch, llm, record_error, reduce, tool
from graphrt.reducers import append

from .support import State, chain, one


def shout(state: Any, ctx: Any) -> dict[str, Any]:
    if not ctx.arg:
        raise ValueError("empty")
    return {"notes": [ctx.arg.upper()]}


def over_pages(work: Any = shout, **options: Any) -> Any:
    return one(batch(State, work, over="pages", **options))


# -- batch ---------------------------------------------------------------------------------------------------------


def test_updates_fold_in_the_order_of_the_items() -> None:
    assert over_pages().run({"pages": ["c", "a", "b"], "notes": ["0"]}).state.notes == ["0", "C", "A", "B"]


def test_empty_batch_runs_nothing() -> None:
    assert over_pages().run({"pages": []}).state.notes == []
    assert over_pages(on_failure="collect", failures="failed").run({"pages": []}).state.failed == []


@pytest.mark.parametrize("max_concurrency", [None, 1])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_unfinished_items_fail_after_the_total_time(kind: str, max_concurrency: int | None) -> None:
    """Items that could not start yet fail too; they are not retried."""
    hang = threading.Event()
    ran: list[str] = []

    def work(state: Any, ctx: Any) -> dict[str, Any]:
        ran.append(ctx.arg)
        if ctx.arg != "a":
            hang.wait(30)
        return {"notes": [ctx.arg]}

    async def awork(state: Any, ctx: Any) -> dict[str, Any]:
        ran.append(ctx.arg)
        await asyncio.sleep(0 if ctx.arg == "a" else 30)
        return {"notes": [ctx.arg]}

    options: Any = {"total_timeout_s": 0.8, "max_concurrency": max_concurrency, "retry": 2}
    collecting = over_pages(awork if kind == "async" else work, on_failure="collect", failures="failed", **options)
    raising = over_pages(awork if kind == "async" else work, **options)
    try:
        state = collecting.run({"pages": ["a", "b", "c"]}, limits=Limits(grace_s=0)).state
        started = [*ran]
        with pytest.raises(NodeError, match="of the superstep's begin"):
            raising.run({"pages": ["b"]}, limits=Limits(grace_s=0))
    finally:
        hang.set()

    assert state.notes == ["a"]
    assert [(one["index"], one["type"]) for one in state.failed] == [(1, "TimeoutError"), (2, "TimeoutError")]
    assert started == (["a", "b"] if max_concurrency else ["a", "b", "c"])


@pytest.mark.parametrize("wrong", ["1", -1, True])
def test_a_wrong_total_time_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="total_timeout_s= of batch"):
        over_pages(total_timeout_s=wrong)


def test_raise_names_the_item_and_a_retry_repeats_only_it() -> None:
    ran: list[str] = []
    ready = False

    def work(state: Any, ctx: Any) -> dict[str, Any]:
        ran.append(ctx.arg)
        if ctx.arg == "b" and not ready:
            raise ValueError("not yet")
        return {"notes": [ctx.arg]}

    with Runtime(over_pages(work), store="memory:") as runtime:
        with pytest.raises(NodeError, match="not yet") as caught:
            runtime.run({"pages": ["a", "b"]}, thread="t")
        assert caught.value.arg == "b"
        ready = True

        assert runtime.retry("t").state.notes == ["a", "b"]
    assert ran.count("a") == 1


def test_collecting_batch_may_add_to_the_field_with_its_items() -> None:
    """The items are not counted again once the tasks have ended."""

    def follow(state: Any, ctx: Any) -> dict[str, Any]:
        if not ctx.arg:
            raise ValueError("empty")
        return {"notes": ["", "x", "y"]}

    links = batch(State, follow, over="notes", on_failure="collect", failures="failed", max_items=2)
    state = one(links).run({"notes": ["a", ""]}).state

    assert state.notes == ["a", "", "", "x", "y"]
    assert [failure["index"] for failure in state.failed] == [1]


def test_collect_reports_which_item_failed_and_why() -> None:
    state = over_pages(on_failure="collect", failures="failed").run({"pages": ["a", "", "c", ""]}).state

    assert state.notes == ["A", "C"]
    assert [(f["index"], f["item"], f["type"], f["message"], f["node"]) for f in state.failed] == [
        (1, "", "ValueError", "empty", "work"),
        (3, "", "ValueError", "empty", "work"),
    ]


def test_best_effort_continues_without_the_failed_items() -> None:
    assert over_pages(on_failure="best_effort").run({"pages": ["", "b"]}).state.notes == ["B"]
    assert over_pages(on_failure="best_effort").run({"pages": [""]}).state.notes == []


def test_reached_quorum_keeps_the_successes() -> None:
    options: Any = {"on_failure": "quorum", "quorum": 2, "failures": "failed"}

    state = over_pages(**options).run({"pages": ["a", "", "c"]}).state

    assert (state.notes, [f["index"] for f in state.failed]) == (["A", "C"], [1])


@pytest.mark.parametrize("pages", [["a", "", ""], ["a"], []])
def test_missed_quorum_fails_with_data_and_can_be_routed(pages: list[str]) -> None:
    node = batch(State, shout, over="pages", on_failure="quorum", quorum=2)

    with pytest.raises(NodeError) as caught:
        one(node).run({"pages": pages})
    assert caught.value.code == "batch-quorum"
    assert [f["index"] for f in caught.value.values] == [n for n, page in enumerate(pages) if not page]

    g = GraphBuilder(State).add_node("all", node, on_error="keep").add_node("keep", record_error())
    state = g.add_edge(START, "all").add_edge("keep", END).compile().run({"pages": pages}).state
    assert state.error is not None
    assert (state.error["code"], state.notes) == ("batch-quorum", [])


@pytest.mark.parametrize("items", [lambda: range(1_000_000), itertools.count], ids=["a million", "endless"])
def test_too_many_items_are_refused_before_the_first_one_runs(items: Any) -> None:
    ran: list[Any] = []

    with pytest.raises(LimitError, match="more than 10,000 items") as caught:
        one(batch(State, lambda state, ctx: ran.append(ctx.arg), over=lambda state: items())).run({})

    assert (caught.value.code, caught.value.limit, ran) == ("batch-limit", 10_000, [])


@pytest.mark.parametrize("items", ["text", 3, {"a": 1}])
def test_value_without_items_is_refused(items: Any) -> None:
    with pytest.raises(NodeError, match="has no items"):
        one(batch(State, shout, over=lambda state: items)).run({})


def test_at_most_max_concurrency_tasks_run_at_once() -> None:
    lock = threading.Lock()
    now = peak = 0
    met = threading.Barrier(2, timeout=10)

    def work(state: Any, ctx: Any) -> None:
        nonlocal now, peak
        with lock:
            now += 1
            peak = max(peak, now)
        met.wait()  # passes only if two run at once
        with lock:
            now -= 1

    over_pages(work, max_concurrency=2).run({"pages": list("abcdef")})

    assert peak == 2


def test_several_nodes_run_for_each_item() -> None:
    def low(state: Any, ctx: Any) -> dict[str, Any]:
        return {"notes": [ctx.arg.lower()]}

    graph = one(batch(State, {"high": shout, "low": low}, over="pages", on_failure="collect", failures="failed"))
    state = graph.run({"pages": ["A", "", "c"]}).state

    assert state.notes == ["A", "a", "", "C", "c"]
    assert [(f["index"], f["node"]) for f in state.failed] == [(1, "high")]


def test_empty_items_run_each_node_once() -> None:
    views = {name: llm(f"{name} {{topic}}", into="notes", as_list=True) for name in ("warm", "cold")}

    assert one(batch(State, views)).run({}, harness=MockHarness(rules={"warm": "1", "cold": "2"})).state.notes == [
        "1",
        "2",
    ]


def test_a_graph_runs_for_each_item() -> None:
    class Page(BaseModel):
        page: str
        notes: Annotated[list[str], append] = []

    inner = GraphBuilder(Page, name="page").add_node("work", lambda state: {"notes": [state.page * 2]})
    graph = one(
        batch(State, inner.add_edge(START, "work").compile(), over="pages", item="page", output={"notes": "notes"})
    )

    assert graph.run({"pages": ["a", "b"]}).state.notes == ["aa", "bb"]


def test_ready_made_nodes_read_their_item() -> None:
    mock = MockHarness(rules={"read a": "A", "read b": "B"})
    asked = over_pages(llm("read {page}", into="notes", item="page", as_list=True)).run(
        {"pages": ["a", "b"]}, harness=mock
    )
    called = over_pages(tool(lambda page: page * 2, inputs=(), item="page", into="notes", as_list=True))

    assert asked.state.notes == ["A", "B"]
    assert called.run({"pages": ["a", "b"]}).state.notes == ["aa", "bb"]


def test_two_items_that_write_one_plain_field_conflict() -> None:
    with pytest.raises(ConcurrentUpdateError):
        over_pages(lambda state, ctx: {"answer": ctx.arg}).run({"pages": ["a", "b"]})


@pytest.mark.parametrize(
    "make",
    [
        lambda: batch(State, {}),
        lambda: batch(State, {"settle": shout}),
        lambda: batch(State, shout, over=3),  # type: ignore[arg-type]
        lambda: batch(State, shout, on_failure="ignore"),  # type: ignore[arg-type]
        lambda: batch(State, shout, quorum=1),
        lambda: batch(State, shout, on_failure="quorum"),
        lambda: batch(State, shout, on_failure="quorum", quorum=0),
        lambda: batch(State, shout, on_failure="collect"),
        lambda: batch(State, shout, failures="failed"),
        lambda: batch(State, shout, max_items=0),
        lambda: batch(State, shout, over="pages", item="page"),
        lambda: batch(State, shout, on_error="x"),
    ],
)
def test_invalid_arguments_are_refused_at_once(make: Any) -> None:
    with pytest.raises(InputError) as caught:
        make()
    assert caught.value.code == "input"


def test_a_misspelt_field_is_refused_at_once() -> None:
    with pytest.raises(DefinitionError) as caught:
        batch(State, shout, over="pagess", on_failure="collect", failures="faild")

    assert [problem.code for problem in caught.value.problems] == ["unknown-read", "bad-update-type"]


def test_problem_inside_names_the_line_of_the_user() -> None:
    with pytest.raises(DefinitionError, match=r"test_batch_and_reduce\.py"):
        batch(State, lambda: None)


# -- reduce --------------------------------------------------------------------------------------------------------


def test_later_prompts_shrink() -> None:
    mock = MockHarness(["Short.", "Done."])
    graph = chain(
        shorten=reduce(["notes", "pages"], into="answer", prompt="Shorten {notes} and {pages}."),
        use=llm("{topic}: {answer} {notes} {pages}", into="verdict"),
    )

    state = graph.run({"notes": ["long"] * 500, "pages": ["longer"] * 500}, harness=mock).state

    assert [len(call.text) for call in mock.calls] == [9014, 17]
    assert (state.answer, state.notes, state.pages) == ("Short.", [], [])


@pytest.mark.parametrize("fold", ["sync", "async"])
def test_a_function_reduces_without_a_model(fold: str) -> None:
    def count(notes: list[str], pages: list[str]) -> int:
        return len(notes) + len(pages)

    async def acount(notes: list[str], pages: list[str]) -> int:
        return count(notes, pages)

    node = reduce(["notes", "pages"], into="words", function=count if fold == "sync" else acount, keep="pages")
    state = one(node).run({"notes": ["a"], "pages": ["b"]}).state

    assert (state.words, state.notes, state.pages) == (2, [], ["b"])


def test_the_result_may_replace_a_source() -> None:
    node = reduce("notes", into="notes", function=lambda notes: [" ".join(notes)])

    assert one(node).run({"notes": ["a", "b"]}).state.notes == ["a b"]


def test_nothing_is_deleted_without_a_result() -> None:
    def broken(request: Any) -> str:
        raise RuntimeError("down")

    graph = one(reduce("notes", into="answer", prompt="{notes}"))
    with Runtime(graph, store="memory:", harness=MockHarness([broken])) as runtime:
        with pytest.raises(NodeError):
            runtime.run({"notes": ["a"]}, thread="t")

        assert runtime.state("t").values.notes == ["a"]


def test_source_that_another_branch_reads_is_refused_by_compile() -> None:
    g = GraphBuilder(State)
    g.add_node("shorten", reduce("notes", into="answer", prompt="{notes}"))
    g.add_node("wait", lambda state: None, writes=[]).add_node("quote", llm("{notes}", into="verdict"))
    g.add_edge(START, "shorten").add_edge(START, "wait").add_edge("wait", "quote")

    with pytest.raises(DefinitionError) as caught:
        g.compile()
    assert [problem.code for problem in caught.value.problems] == ["deleted-source"]


def test_source_that_another_branch_writes_conflicts() -> None:
    g = GraphBuilder(State)
    g.add_node("shorten", reduce("notes", into="answer", function=" ".join))
    g.add_node("write", lambda state: {"notes": ["new"]})
    g.add_edge(START, "shorten").add_edge(START, "write")

    with pytest.raises(ConcurrentUpdateError):
        g.compile().run({"notes": ["old"]})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"sources": [], "prompt": "x"}, "at least one name"),
        ({"sources": "notes"}, "a prompt or a function"),
        ({"sources": "notes", "prompt": "{notes}", "function": len}, "does not go with function="),
        ({"sources": ["notes", "pages"], "prompt": "{notes}"}, "'pages', which reduce.. deletes, needs a place"),
        ({"sources": "notes", "prompt": "{notes}", "keep": "pages"}, "'pages', which is not a source"),
        ({"sources": "notes", "function": 3}, "function= of reduce"),
        ({"sources": "notes", "function": len, "system": Template("x")}, "options of a model"),
    ],
    ids=str,
)
def test_reduce_that_would_lose_data_is_refused_at_once(options: Any, text: str) -> None:
    sources = options.pop("sources")

    with pytest.raises(InputError, match=text):
        reduce(sources, into="answer", **options)
