"""Rule R10: tasks pause and ask; the thread waits, and continues with the answers."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from graphrt import END, START, GraphBuilder, InputError, Interrupt, NodeError, Runtime
from graphrt.events import AnswerUsed

from .support import Face, general, get, note, parallel, sequence


def runtime_of(graph: Any, **options: Any) -> Runtime[Any]:
    return Runtime(graph, store="memory:", **options)


def ask(payload: Any, field: str = "x", **options: Any) -> Any:
    """A node that asks *payload* and writes the answer."""
    return lambda s, ctx: {field: ctx.interrupt(payload, **options)}


def test_a_node_asks_and_gets_the_answer(face: Face, made: Any, kind: str) -> None:
    runtime = runtime_of(sequence(("a", note("a")), ("ask", made(ask({"q": "ok?"}))), state=general(kind)))

    paused = face.run(runtime, {}, thread="t")
    [question] = paused.interrupts
    done = face.resume(runtime, "t", "yes")

    assert (paused.status, question.node, question.payload) == ("interrupted", "ask", {"q": "ok?"})
    assert get(paused.state, "notes") == ["a"]
    assert (done.status, get(done.state, "x"), get(done.state, "notes")) == ("completed", "yes", ["a"])
    assert done.interrupts == ()


def test_the_thread_shows_the_open_question(face: Face, made: Any) -> None:
    runtime = runtime_of(sequence(("ask", made(ask("?")))))
    paused = face.run(runtime, {}, thread="t")

    snapshot = runtime.state("t")

    assert (snapshot.status, snapshot.next) == ("interrupted", ("ask",))
    assert [q.id for q in snapshot.interrupts] == [q.id for q in paused.interrupts]


def test_returned_interrupt_runs_the_node_again_with_the_answer(face: Face, made: Any) -> None:
    def node(state: Any, ctx: Any) -> Any:
        return Interrupt("name?") if ctx.answer is None else {"x": ctx.answer}

    runtime = runtime_of(sequence(("node", made(node))))
    paused = face.run(runtime, {}, thread="t")

    assert paused.interrupts[0].payload == "name?"
    assert get(face.resume(runtime, "t", "Ada").state, "x") == "Ada"


def test_a_returned_interrupt_may_follow_another(face: Face, made: Any) -> None:
    def node(state: Any, ctx: Any) -> Any:
        if ctx.answer is None:
            return Interrupt("one?")
        if ctx.answer == 1:
            return Interrupt("two?")
        return {"x": ctx.answer}

    runtime = runtime_of(sequence(("node", made(node))))
    first = face.run(runtime, {}, thread="t")
    second = face.resume(runtime, "t", 1)
    done = face.resume(runtime, "t", 2)

    assert [p.interrupts[0].payload for p in (first, second)] == ["one?", "two?"]
    assert first.interrupts[0].id != second.interrupts[0].id
    assert get(done.state, "x") == 2


def test_several_questions_of_one_node_come_one_after_another(face: Face, made: Any) -> None:
    runs: list[int] = []

    def node(state: Any, ctx: Any) -> Any:
        runs.append(1)
        return {"x": [ctx.interrupt("first"), ctx.interrupt("second"), ctx.interrupt("third", key="k")]}

    runtime = runtime_of(sequence(("node", made(node))))
    ids = [face.run(runtime, {}, thread="t").interrupts[0].id]
    ids += [face.resume(runtime, "t", answer).interrupts[0].id for answer in (1, 2)]

    assert get(face.resume(runtime, "t", 3).state, "x") == [1, 2, 3]
    assert len(set(ids)) == 3
    assert len(runs) == 4


@pytest.mark.parametrize("key", ["after", "before", "returned0", "returned", "0", "1", "#", "k/ö"])
def test_any_text_may_be_a_key(face: Face, key: str) -> None:
    """Names that the engine uses itself, and ordinals, are valid too."""

    def node(state: Any, ctx: Any) -> Any:
        assert ctx.answer is None
        return {"x": [ctx.interrupt("plain"), ctx.interrupt("keyed", key=key)]}

    runtime = runtime_of(sequence(("node", node)))
    first = face.run(runtime, {}, thread="t")
    second = face.resume(runtime, "t", 1)
    done = face.resume(runtime, "t", 2)

    assert [first.interrupts[0].payload, second.interrupts[0].payload] == ["plain", "keyed"]
    assert get(done.state, "x") == [1, 2]


@pytest.mark.parametrize("key", ["after", "before"])
def test_user_key_does_not_answer_interrupt_before_or_after(face: Face, key: str) -> None:
    graph = sequence(("node", ask("?", key=key)), node={f"interrupt_{key}": True})
    runtime = runtime_of(graph)
    seen = [face.run(runtime, {}, thread="t").interrupts[0].payload]
    seen.append(face.resume(runtime, "t", "one").interrupts[0].payload)
    done = face.resume(runtime, "t", "two")

    assert "?" in seen
    assert {key: "node"} in seen
    assert get(done.state, "x") == ("one" if key == "after" else "two")


def test_key_identifies_the_question_when_the_order_changes(face: Face) -> None:
    turns: list[int] = []

    def node(state: Any, ctx: Any) -> Any:
        turns.append(1)
        if len(turns) == 1:
            a = ctx.interrupt("a?", key="a")
            b = ctx.interrupt("b?", key="b")
        else:
            b = ctx.interrupt("b?", key="b") if len(turns) > 2 else None
            a = ctx.interrupt("a?", key="a")
            b = ctx.interrupt("b?", key="b")
        return {"x": (a, b)}

    runtime = runtime_of(sequence(("node", node)))
    face.run(runtime, {}, thread="t")
    face.resume(runtime, "t", "A")

    assert get(face.resume(runtime, "t", "B").state, "x") == ("A", "B")


def test_node_sees_which_of_its_questions_are_answered(face: Face, made: Any) -> None:
    seen: list[tuple[bool, bool]] = []

    def node(state: Any, ctx: Any) -> Any:
        seen.append((ctx.answered("a"), ctx.answered("b")))
        if not ctx.answered("a"):
            ctx.interrupt("a?", key="a")
        return {"x": (ctx.interrupt(key="a"), ctx.interrupt("b?", key="b"))}

    runtime = runtime_of(sequence(("node", made(node))))
    face.run(runtime, {}, thread="t")
    face.resume(runtime, "t", "A")

    assert get(face.resume(runtime, "t", "B").state, "x") == ("A", "B")
    assert seen == [(False, False), (True, False), (True, True)]
    used = [one.event for one in runtime.entries("t") if isinstance(one.event, AnswerUsed)]
    assert [event.reworded for event in used] == [False] * len(used)


def test_parallel_tasks_ask_at_the_same_time(face: Face, made: Any) -> None:
    graph = parallel(("a", made(ask("a?"))), ("b", made(ask("b?", "y"))), ("c", made(note("c"))))
    runtime = runtime_of(graph)

    paused = face.run(runtime, {}, thread="t")

    assert [(q.node, q.payload) for q in paused.interrupts] == [("a", "a?"), ("b", "b?")]
    done = face.resume(runtime, "t", {q.id: q.payload.upper() for q in paused.interrupts})
    assert (get(done.state, "x"), get(done.state, "y"), get(done.state, "notes")) == ("A?", "B?", ["c"])


def test_some_of_the_questions_may_be_answered_first(face: Face, made: Any) -> None:
    ran: list[str] = []

    def node(name: str, field: str) -> Any:
        def run(state: Any, ctx: Any) -> Any:
            answer = ctx.interrupt(name)
            ran.append(name)
            return {field: answer}

        return (name, made(run))

    runtime = runtime_of(parallel(node("a", "x"), node("b", "y")))
    a, b = face.run(runtime, {}, thread="t").interrupts

    halfway = face.resume(runtime, "t", {b.id: "B"})
    assert (halfway.status, [q.id for q in halfway.interrupts]) == ("interrupted", [a.id])
    assert ran == ["b"]

    done = face.resume(runtime, "t", "A")
    assert (get(done.state, "x"), get(done.state, "y")) == ("A", "B")
    assert ran == ["b", "a"]


def test_finished_siblings_do_not_run_again_after_a_pause(face: Face, made: Any) -> None:
    ran: list[str] = []

    def other(state: Any) -> Any:
        ran.append("other")
        return {"notes": ["other"]}

    runtime = runtime_of(parallel(("ask", made(ask("?"))), ("other", made(other))))
    paused = face.run(runtime, {}, thread="t")

    assert get(paused.state, "notes") == []
    assert get(face.resume(runtime, "t", 1).state, "notes") == ["other"]
    assert ran == ["other"]


def test_ids_are_derived_and_equal_in_every_run(face: Face, made: Any) -> None:
    def ids() -> list[str]:
        runtime = runtime_of(parallel(("a", made(ask("a?"))), ("b", made(ask("b?", "y", key="mine")))))
        return [q.id for q in face.run(runtime, {}, thread="t").interrupts]

    assert ids() == ids()
    assert len(set(ids())) == 2


def test_ids_in_a_loop_differ_between_rounds(face: Face) -> None:
    g = GraphBuilder(general())
    g.add_node("ask", lambda s, ctx: {"n": 1, "notes": [ctx.interrupt("again?")]})
    g.add_edge(START, "ask")
    g.add_conditional_edges("ask", lambda s: s["n"] < 3, {True: "ask", False: END})
    runtime = runtime_of(g.compile())
    result = face.run(runtime, {}, thread="t")
    ids = set()
    while result.interrupts:
        ids.add(result.interrupts[0].id)
        result = face.resume(runtime, "t", len(ids))

    assert get(result.state, "notes") == [1, 2, 3]
    assert len(ids) == 3


def test_effects_do_not_run_again_after_a_pause(face: Face) -> None:
    charged: list[int] = []

    def charge(amount: int) -> list[int]:
        charged.append(amount)
        return [amount]

    def node(state: Any, ctx: Any) -> Any:
        receipt = ctx.effect("charge", charge, 5)
        receipt.append("changed by the node")
        return {"x": (receipt, ctx.interrupt("ok?"))}

    runtime = runtime_of(sequence(("node", node)))
    face.run(runtime, {}, thread="t")
    done = face.resume(runtime, "t", "yes")

    assert charged == [5]
    assert get(done.state, "x") == ([5, "changed by the node"], "yes")


def test_async_effects_do_not_run_again_after_a_pause(face: Face) -> None:
    charged: list[int] = []

    async def charge(amount: int) -> int:
        await asyncio.sleep(0)
        charged.append(amount)
        return amount

    async def node(state: Any, ctx: Any) -> Any:
        first = await ctx.effect("charge", charge, 1)
        second = await ctx.effect("charge", charge, 2)
        return {"x": (first, second, ctx.interrupt("ok?"))}

    runtime = runtime_of(sequence(("node", node)))
    face.run(runtime, {}, thread="t")

    assert get(face.resume(runtime, "t", 3).state, "x") == (1, 2, 3)
    assert charged == [1, 2]


def test_changed_payload_on_re_execution_is_asked_again(face: Face, made: Any) -> None:
    turns: list[int] = []

    def node(state: Any, ctx: Any) -> Any:
        turns.append(1)
        return {"x": ctx.interrupt(f"turn {len(turns)}")}

    runtime = runtime_of(sequence(("node", made(node))))
    first = face.run(runtime, {}, thread="t").interrupts[0]
    (second,) = face.resume(runtime, "t", 1).interrupts

    assert (first.payload, second.payload) == ("turn 1", "turn 2")
    assert second.id == f"{first.id}:2"


def test_swallowing_the_pause_is_a_node_error(face: Face, made: Any) -> None:
    def node(state: Any, ctx: Any) -> Any:
        with contextlib.suppress(BaseException):  # the tested mistake
            ctx.interrupt("?")
        return {"x": "went on"}

    with pytest.raises(NodeError) as caught:
        face.run(runtime_of(sequence(("node", made(node)))), {}, thread="t")

    assert (caught.value.code, caught.value.node) == ("swallowed-interrupt", "node")


def test_except_exception_does_not_swallow_the_pause(face: Face, made: Any) -> None:
    def node(state: Any, ctx: Any) -> Any:
        try:
            return {"x": ctx.interrupt("?")}
        except Exception:  # noqa: BLE001 - what users write
            return {"x": "wrong"}

    runtime = runtime_of(sequence(("node", made(node))))
    face.run(runtime, {}, thread="t")

    assert get(face.resume(runtime, "t", "right").state, "x") == "right"


@pytest.mark.parametrize("form", ["call", "return", "before", "after"])
def test_interrupt_without_a_thread_is_a_clear_error(face: Face, form: str) -> None:
    node: Any = {"call": ask("?"), "return": lambda s: Interrupt("?")}.get(form, note("x"))
    policy = {f"interrupt_{form}": True} if form in {"before", "after"} else {}

    with pytest.raises(InputError) as caught:
        face.run(sequence(("node", node), node=policy), {})

    assert (caught.value.code, caught.value.node) == ("interrupt-needs-thread", "node")
    assert "store=" in str(caught.value)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("form", ["before", "after"])
def test_graph_that_pauses_is_refused_without_a_thread_before_a_node_runs(face: Face, form: str, nested: bool) -> None:
    ran: list[str] = []
    inner = sequence(("node", note("x")), node={f"interrupt_{form}": True})
    last: Any = ("sub", inner) if nested else ("node", note("x"))
    policy = {} if nested else {"node": {f"interrupt_{form}": True}}
    graph = sequence(("first", lambda s: ran.append("first")), last, **policy)

    with pytest.raises(InputError) as caught:
        face.run(graph, {})

    name = "sub/node" if nested else "node"
    assert (caught.value.code, caught.value.node, ran) == ("interrupt-needs-thread", name, [])
    assert caught.value.what == (
        f"Node '{name}' has interrupt_before or interrupt_after, but this run has no thread that could wait."
    )


def test_interrupt_before_pauses_before_the_node_runs(face: Face, made: Any) -> None:
    ran: list[str] = []

    def node(state: Any) -> Any:
        ran.append("node")
        return {"notes": ["node"]}

    runtime = runtime_of(sequence(("first", note("first")), ("node", made(node)), node={"interrupt_before": True}))
    paused = face.run(runtime, {}, thread="t")

    assert (paused.status, ran, get(paused.state, "notes")) == ("interrupted", [], ["first"])
    assert get(face.resume(runtime, "t", "go").state, "notes") == ["first", "node"]
    assert ran == ["node"]


def test_interrupt_after_pauses_with_the_outcome_committed(face: Face, made: Any) -> None:
    ran: list[str] = []

    def node(state: Any) -> Any:
        ran.append("node")
        return {"notes": ["node"]}

    runtime = runtime_of(sequence(("node", made(node)), ("next", note("next")), node={"interrupt_after": True}))
    paused = face.run(runtime, {}, thread="t")

    assert (paused.status, get(paused.state, "notes")) == ("interrupted", ["node"])
    assert get(face.resume(runtime, "t", None).state, "notes") == ["node", "next"]
    assert ran == ["node"]
