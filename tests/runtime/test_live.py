"""The stream mode `live`: the items of tasks while their superstep is open, in nested graphs and at the top (rule R17)."""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated, Any

import pydantic
import pytest
from tests.patience import with_more_time

from graphrt import END, START, GraphBuilder, Limits, NodeError, RetryPolicy, Runtime
from graphrt.errors import ConcurrentUpdateError, DeadlineError
from graphrt.reducers import append, untracked
from graphrt.runtime import Live

from .support import Face, as_kind, general, get, note, parallel, sequence

PATIENCE_S = 20.0


def told(items: list[Live]) -> list[tuple[Any, ...]]:
    return [(item.what, item.task_id, item.value) for item in items]


def test_task_starts_ends_and_is_committed(face: Face, made: Any) -> None:
    graph = sequence(("a", made(note("x"))), ("b", made(lambda s: None)))

    assert told(face.stream(graph, {}, modes="live")) == [
        ("started", "1.0:a", 1),
        ("ended", "1.0:a", "success"),
        ("step", "1.0:a", {"notes": ["x"]}),
        ("started", "2.0:b", 1),
        ("ended", "2.0:b", "success"),
        ("step", "2.0:b", None),
    ]


def test_parallel_tasks_are_seen_while_their_superstep_is_open(face: Face, kind: str) -> None:
    """The first task ends only after the reader has seen that both have started."""
    seen = threading.Event()

    def wait(state: Any) -> Any:
        assert seen.wait(PATIENCE_S)
        return {"notes": ["waited"]}

    async def await_(state: Any) -> Any:
        while not seen.is_set():  # noqa: ASYNC110 - set from another worker thread
            await asyncio.sleep(0.001)
        return {"notes": ["waited"]}

    graph = parallel(("a", await_ if kind == "async" else wait), ("b", as_kind(kind, note("b"))))
    items: list[Live] = []

    def look(item: Live) -> None:
        items.append(item)
        if {one.node for one in items if one.what == "started"} == {"a", "b"}:
            seen.set()

    each(face, graph, look)

    assert {item.node for item in items if item.what == "started"} == {"a", "b"}
    assert told(items)[-2:] == [("step", "1.0:a", {"notes": ["waited"]}), ("step", "1.1:b", {"notes": ["b"]})]


def each(face: Face, target: Any, look: Any, input: Any = None, **options: Any) -> None:
    """Read the live stream of *target*; *look* is called with each item as it arrives."""
    given = {} if input is None else input

    async def read() -> None:
        async for item in target.astream(given, modes="live", **options):
            look(item)

    if face.kind == "async":
        asyncio.run(asyncio.wait_for(read(), PATIENCE_S))
        return
    for item in target.stream(given, modes="live", **options):
        look(item)


@pytest.mark.parametrize("beside", [False, True])
def test_retry_is_seen_before_its_wait(face: Face, made: Any, beside: bool) -> None:
    """The wait ends only after the reader has seen its item."""
    seen = threading.Event()
    failed: list[int] = []

    def flaky(state: Any) -> Any:
        if not failed:
            failed.append(1)
            raise ConnectionError("lost the line")
        return {"notes": ["x"]}

    def sleep(seconds: float) -> None:
        assert seen.wait(PATIENCE_S)

    others = [("other", note("other"))] if beside else []
    policy = RetryPolicy(2, wait_initial_s=30, jitter=False)
    graph = parallel(("a", made(flaky)), *others, a={"retry": policy})
    items: list[Live] = []

    def look(item: Live) -> None:
        items.append(item)
        if item.what == "retrying":
            seen.set()

    each(face, Runtime(graph, sleep=sleep), look)

    assert told([item for item in items if item.node == "a"]) == [
        ("started", "1.0:a", 1),
        ("withdrawn", "1.0:a", None),
        ("retrying", "1.0:a", {"attempt": 2, "wait_s": 30.0, "error": "ConnectionError", "message": "lost the line"}),
        ("started", "1.0:a", 2),
        ("ended", "1.0:a", "success"),
        ("step", "1.0:a", {"notes": ["x"]}),
    ]


def test_nested_graph_is_seen_while_it_runs(face: Face, kind: str) -> None:
    """Its second node ends only after the reader has seen the writes of the first."""
    seen = threading.Event()

    def wait(state: Any) -> Any:
        assert seen.wait(PATIENCE_S)
        return {"notes": ["second"]}

    async def await_(state: Any) -> Any:
        while not seen.is_set():  # noqa: ASYNC110 - set from another worker thread
            await asyncio.sleep(0.001)
        return {"notes": ["second"]}

    inner = sequence(("first", as_kind(kind, note("first"))), ("second", await_ if kind == "async" else wait))
    graph = sequence(("outer", inner))
    items: list[Live] = []

    def look(item: Live) -> None:
        items.append(item)
        if (item.what, item.node) == ("step", "first"):
            seen.set()

    each(face, graph, look)

    assert [(item.what, item.path, item.task_id) for item in items] == [
        ("started", "", "1.0:outer"),
        ("started", "1.0:outer", "1.0:outer/1.0:first"),
        ("ended", "1.0:outer", "1.0:outer/1.0:first"),
        ("step", "1.0:outer", "1.0:outer/1.0:first"),
        ("started", "1.0:outer", "1.0:outer/2.0:second"),
        ("ended", "1.0:outer", "1.0:outer/2.0:second"),
        ("step", "1.0:outer", "1.0:outer/2.0:second"),
        ("ended", "", "1.0:outer"),
        ("step", "", "1.0:outer"),
    ]
    assert items[-1].value == {"notes": ["first", "second"]}


def test_items_of_a_stopped_task_are_withdrawn(face: Face) -> None:
    """One task fails, and the other, which would run for long, is cancelled."""

    async def fail(state: Any) -> Any:
        raise ValueError("no")

    async def slow(state: Any) -> Any:
        await asyncio.sleep(60)

    items: list[Live] = []
    with pytest.raises(NodeError):
        each(face, parallel(("slow", slow), ("fail", fail)), items.append)

    assert told([item for item in items if item.node == "slow"]) == [
        ("started", "1.0:slow", 1),
        ("withdrawn", "1.0:slow", None),
    ]
    assert told([item for item in items if item.node == "fail"]) == [
        ("started", "1.1:fail", 1),
        ("ended", "1.1:fail", "error"),
    ]


def test_items_of_a_nested_graph_whose_failure_was_handled_are_withdrawn(face: Face, made: Any) -> None:
    def fail(state: Any) -> Any:
        raise ValueError("no")

    g: Any = GraphBuilder(general())
    g.add_node("outer", sequence(("first", made(note("first"))), ("fail", made(fail))), on_error="mend")
    g.add_node("mend", made(note("mended"))).add_edge(START, "outer").add_edge("outer", END).add_edge("mend", END)

    items = face.stream(g.compile(), {}, modes="live")

    assert ("step", "1.0:outer/1.0:first", {"notes": ["first"]}) in told(items)
    assert told([item for item in items if item.task_id == "1.0:outer"]) == [
        ("started", "1.0:outer", 1),
        ("withdrawn", "1.0:outer", None),
        ("ended", "1.0:outer", "error"),
        ("step", "1.0:outer", None),
    ]


def test_items_of_a_nested_graph_stay_if_a_retry_continues_it(face: Face, made: Any) -> None:
    ran: list[str] = []

    def first(state: Any) -> Any:
        ran.append("first")
        return {"notes": ["first"]}

    def second(state: Any) -> Any:
        ran.append("second")
        if ran.count("second") == 1:
            raise ValueError("no")
        return {"notes": ["second"]}

    runtime = Runtime(sequence(("outer", sequence(("first", made(first)), ("second", made(second))))), store="memory:")
    items: list[Live] = []
    with pytest.raises(NodeError):
        each(face, runtime, items.append, thread="t")
    items += runtime.stream(thread="t", modes="live")

    assert ran == ["first", "second", "second"]
    assert "withdrawn" not in {item.what for item in items}
    assert [item.node for item in items if item.what == "step"] == ["first", "second", "outer"]


def test_tasks_whose_outcomes_cannot_be_folded_are_withdrawn(face: Face, made: Any) -> None:
    """Two write one field (rule R6); the third keeps its outcome, and a nested graph keeps its commits."""
    nested = sequence(("inner", made(lambda s: {"x": 2})))
    graph = parallel(
        ("a", made(lambda s: {"x": 1})), ("outer", nested), ("c", made(note("c"))), allow=("write-conflict",)
    )
    items: list[Live] = []

    with pytest.raises(ConcurrentUpdateError):
        each(face, graph, items.append)

    assert told([item for item in items if item.node == "a"]) == [
        ("started", "1.0:a", 1),
        ("ended", "1.0:a", "success"),
        ("withdrawn", "1.0:a", None),
        ("ended", "1.0:a", "error"),
    ]
    assert [item.value for item in items if item.node == "outer"] == [1, "success", "error"]
    assert [item.value for item in items if item.node == "c"] == [1, "success"]


def test_task_that_asks_ends_as_interrupted(face: Face, made: Any) -> None:
    runtime = Runtime(sequence(("ask", made(lambda s, ctx: {"x": ctx.interrupt("?")}))), store="memory:")

    assert told(face.stream(runtime, {}, thread="t", modes="live")) == [
        ("started", "1.0:ask", 1),
        ("ended", "1.0:ask", "interrupted"),
    ]


def test_other_items_come_once_and_at_their_commit(face: Face, made: Any) -> None:
    """The items and the journal are the same with and without a reader of the mode live."""
    graph = sequence(("a", made(note("a"))), ("outer", sequence(("b", made(note("b"))))), ("c", made(note("c"))))
    options: dict[str, Any] = {"clock": lambda: 1.0, "ids": lambda: "r", "seed": 1}

    plain = face.stream(graph, {}, modes=["updates", "values", "events"], **options)
    beside = face.stream(graph, {}, modes=["updates", "values", "events", "live"], **options)

    assert [pair for pair in beside if pair[0] != "live"] == plain
    for number, (mode, item) in enumerate(beside):
        if mode == "live" and item.what == "step" and not item.path:
            done = [one for kind, one in beside[:number] if kind == "events"]
            assert any(getattr(entry.event, "task", None) == item.task_id for entry in done), "shown before its commit"


def test_untracked_fields_are_in_no_item(face: Face, made: Any) -> None:
    class Secretive(pydantic.BaseModel):
        token: Annotated[str, untracked] = ""
        notes: Annotated[list[str], append] = []

    g: Any = GraphBuilder(Secretive)
    g.add_node("a", made(lambda s: {"token": "SECRET", "notes": ["x"]})).add_sequence([START, "a", END])

    for target in (g.compile(), Runtime(g.compile(), store="memory:")):
        items = face.stream(target, {}, modes="live")
        assert "SECRET" not in repr(items)
        assert items[-1].value == {"notes": ["x"]}


def test_item_may_be_changed_by_its_reader(face: Face, made: Any) -> None:
    graph = sequence(("a", made(note("a"))), ("b", made(lambda s: {"x": len(get(s, "notes"))})))

    def spoil(item: Live) -> None:
        if item.what == "step" and item.value:
            item.value.clear()

    runtime = Runtime(graph, store="memory:")
    each(face, runtime, spoil, thread="t")

    assert get(runtime.state("t").values, "notes") == ["a"]
    assert get(runtime.state("t").values, "x") == 1


def test_items_are_not_built_without_a_reader(face: Face, made: Any, monkeypatch: Any) -> None:
    def refuse(*args: Any, **data: Any) -> None:
        raise AssertionError("an item was built")

    monkeypatch.setattr(Live, "__init__", refuse)
    graph = parallel(("a", made(note("a"))), ("outer", sequence(("b", made(note("b"))))))

    assert get(face.run(graph, {}).state, "notes") == ["a", "b"]
    assert len(face.stream(graph, {}, modes=["updates", "custom"])) == 2


@pytest.mark.parametrize("beside", [False, True])
def test_items_of_a_task_that_the_deadline_ended_are_withdrawn(face: Face, beside: bool) -> None:
    async def slow(state: Any) -> Any:
        await asyncio.sleep(60)

    others = [("other", note("other"))] if beside else []

    def trial(deadline_s: float) -> None:
        graph = parallel(("slow", slow), *others, limits=Limits(deadline_s=deadline_s))
        items: list[Live] = []

        with pytest.raises(DeadlineError):
            each(face, graph, items.append)

        assert told([item for item in items if item.node == "slow"]) == [
            ("started", "1.0:slow", 1),
            ("withdrawn", "1.0:slow", None),
        ]

    with_more_time(trial, 0.3, 5.0)
