"""Interrupts: several at once, typed answers, expiry, questions before and after nodes, and invalid answers."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import enum
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, Literal

import pydantic
import pytest
import typing_extensions as te

from graphrt import END, START, Interrupt
from graphrt.errors import InputError, NodeError

from .support import Counts, ask, ask_once, builder, everything, fan, finish, kinds, line, note, refused


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Verdict(pydantic.BaseModel):
    ok: bool
    why: str = ""


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Asking(te.TypedDict, total=False):
    """A state that declares the classes of the answers."""

    x: Any
    y: Colour | Verdict | Point
    n: int


TYPES: list[tuple[Any, Any, Any, Any]] = [
    (bool, True, True, "perhaps"),
    (int, "3", 3, "three"),
    (str, "text", "text", 3),
    (float, 2, 2.0, "x"),
    (Literal["yes", "no"], "no", "no", "maybe"),
    (Colour, "red", Colour.RED, "green"),
    (list[int], [1, "2"], [1, 2], [1, "b"]),
    (dict[str, int], {"a": 1}, {"a": 1}, {"a": "b"}),
    (int | None, None, None, "b"),
    (tuple[int, str], [1, "a"], (1, "a"), [1]),
    (Decimal, "1.50", Decimal("1.50"), "many"),
    (dt.date, "2024-02-29", dt.date(2024, 2, 29), "2023-02-29"),
    (Verdict, {"ok": True}, Verdict(ok=True), {"why": "none"}),
    (Point, {"x": 1}, Point(1), {"y": 1}),
    (Point, {"x": 1}, Point(1), {"x": 1, "z": 1}),
]


def keeps(answer_type: Any, inline: bool):
    if inline:
        return lambda state, ctx: {"x": ctx.interrupt("?", answer_type=answer_type), "n": 1}

    def returned(state, ctx):
        if not state.get("y") and ctx.answer is None:
            return Interrupt("?", answer_type=answer_type)
        return {"x": ctx.answer, "n": 1}

    return returned


@pytest.mark.parametrize("inline", [True, False], ids=["inline", "returned"])
@pytest.mark.parametrize(("answer_type", "given", "taken", "wrong"), TYPES, ids=lambda value: None)
def test_answers_are_validated_and_converted_to_their_type(world, answer_type, given, taken, wrong, inline):
    """An invalid answer is refused by resume without a change; a valid one arrives with its type."""
    graph = line(("q", keeps(answer_type, inline)), state=Asking)
    runtime = world.runtime(graph)
    runtime.run({}, thread="t")
    before = list(runtime.entries("t"))
    other = world.runtime(line(("q", keeps(answer_type, inline)), state=Asking))  # gets the type only from the journal
    refused(
        "bad-answer", lambda: other.resume("t", answer=wrong), "asked by 'q'", "Nothing was changed", error=InputError
    )
    assert list(runtime.entries("t")) == before
    if taken is None and not inline:
        return  # a returned question with the answer None looks unanswered to this node
    result = other.resume("t", answer=given)

    assert result.state["x"] == taken
    assert type(result.state["x"]) is type(taken)


def test_every_question_of_a_superstep_is_asked_at_once_and_answered_by_id(world):
    runtime = world.runtime(fan(("p", ask("p")), ("q", ask_once("q")), ("r", ask("r"))))
    paused = runtime.run({"notes": []}, thread="t")

    assert [i.id for i in paused.interrupts] == ["t/2.0:p#0", "t/2.1:q#returned-0", "t/2.2:r#0"] or [
        i.node for i in paused.interrupts
    ] == ["p", "q", "r"]
    answers = {i.id: i.node.upper() for i in paused.interrupts}
    assert runtime.resume("t", answers).state["notes"] == ["split", "p=P", "q=Q", "r=R", "last"]


def test_questions_can_be_answered_one_after_another(world):
    """Answers are kept; the thread stays interrupted, with the same ids for the remaining questions."""
    runtime = world.runtime(fan(("p", ask("p")), ("q", ask("q"))))
    first, second = runtime.run({"notes": []}, thread="t").interrupts
    middle = runtime.resume("t", {second.id: "second"})

    assert middle.status == "interrupted"
    assert [i.id for i in middle.interrupts] == [first.id]
    refused("unknown-interrupt", lambda: runtime.resume("t", {second.id: "again"}), second.id, first.id)
    assert runtime.resume("t", "first").state["notes"] == ["split", "p=first", "q=second", "last"]


def test_a_node_that_asks_twice_gets_the_first_answer_again(world):
    def node(state, ctx):
        one = ctx.interrupt("one")
        two = ctx.interrupt("two")
        return {"notes": [one, two]}

    runtime = world.runtime(line(("q", node)))
    assert [i.payload for i in runtime.run({"notes": []}, thread="t").interrupts] == ["one"]
    assert [i.payload for i in runtime.resume("t", 1).interrupts] == ["two"]

    assert runtime.resume("t", 2).state["notes"] == [1, 2]


def test_keys_name_questions_whose_order_changes(world):
    order = ["a", "b"]

    def node(state, ctx):
        found = {key: ctx.interrupt(f"{key}?", key=key) for key in order}
        return {"notes": [found["a"], found["b"]]}

    runtime = world.runtime(line(("q", node)))
    runtime.run({"notes": []}, thread="t")
    runtime.resume("t", "A")
    order.reverse()
    assert runtime.state("t").interrupts[0].payload == "b?"
    assert runtime.resume("t", "B").state["notes"] == ["A", "B"]


def test_nested_questions_have_their_path_in_the_id_at_any_depth(world):
    innermost = builder("innermost")
    innermost.add_node("deep", ask("deep"))
    innermost.add_edge(START, "deep")
    innermost.add_edge("deep", END)
    middle = builder("middle")
    middle.add_node("in", innermost.compile())
    middle.add_node("beside", ask("beside"))
    middle.add_edge(START, "in")
    middle.add_edge(START, "beside")
    middle.add_edge("in", END)
    middle.add_edge("beside", END)
    runtime = world.runtime(line(("outer", middle.compile())))
    paused = runtime.run({"notes": []}, thread="t")

    assert [i.id for i in paused.interrupts] == ["t/1.0:outer/1.0:in/1.0:deep#0", "t/1.0:outer/1.1:beside#0"]
    left = world.runtime(runtime.graph).resume("t", {paused.interrupts[0].id: "D"})
    assert [i.node for i in left.interrupts] == ["beside"]
    assert world.runtime(runtime.graph).resume("t", "B").state["notes"] == ["deep=D", "beside=B"]


def test_interrupt_before_and_after_pause_around_a_node(world):
    counts = Counts("ran")
    graph = line(("a", note("a")), ("c", counts), c={"interrupt_before": True, "interrupt_after": True})
    runtime = world.runtime(graph)
    before = runtime.run({"notes": []}, thread="t")
    assert (before.status, counts.calls, before.state["notes"]) == ("interrupted", 0, ["a"])
    assert [(i.node, i.payload) for i in before.interrupts] == [("c", {"before": "c"})]
    after = world.runtime(graph).resume("t", True)

    assert (after.status, counts.calls, after.state["notes"]) == ("interrupted", 1, ["a", "ran"])
    assert world.runtime(graph).resume("t", True).state["notes"] == ["a", "ran"]
    assert counts.calls == 1
    runtime.replay("t")


def test_expired_question_takes_no_answer_and_retry_asks_again(world):
    runtime = world.runtime(line(("q", ask("q", expires_s=100))))
    paused = runtime.run({"notes": []}, thread="t")
    assert paused.interrupts[0].expires_at is not None
    refused("wrong-verb", lambda: runtime.retry("t"), "interrupted", "resume", error=InputError)
    world.clock.now += 200
    error = refused("interrupt-expired", lambda: runtime.resume("t", "late"), "expired", "retry('t')", error=InputError)
    assert error.interrupts == (paused.interrupts[0].id,)
    again = runtime.retry("t")

    assert again.status == "interrupted"
    assert again.interrupts[0].expires_at > paused.interrupts[0].expires_at
    assert runtime.resume("t", "in time").state["notes"] == ["q=in time"]
    assert "interrupt-expired" in kinds(runtime.entries("t"))
    runtime.replay("t")


def test_only_the_expired_of_two_questions_is_asked_again(world):
    runtime = world.runtime(fan(("p", ask("p", expires_s=100)), ("q", ask_once("q"))))
    p, q = runtime.run({"notes": []}, thread="t").interrupts
    world.clock.now += 200
    refused("interrupt-expired", lambda: runtime.resume("t", {p.id: 1, q.id: 2}), p.id)
    again = runtime.retry("t")

    assert [i.node for i in again.interrupts] == ["p", "q"]
    assert again.interrupts[1].id == q.id
    assert finish(runtime, "t", 1)["notes"] == ["split", "p=1", "q=1", "last"]


def test_expired_question_of_a_nested_graph_is_asked_again(world):
    inner = line(("deep", ask("deep", expires_s=100)), name="inner")
    runtime = world.runtime(line(("outer", inner)))
    runtime.run({"notes": []}, thread="t")
    world.clock.now += 200
    refused("interrupt-expired", lambda: runtime.resume("t", 1), "deep")

    assert runtime.retry("t").status == "interrupted"
    assert runtime.resume("t", 1).state["notes"] == ["deep=1"]


def test_answers_without_a_question_are_refused_without_a_change(world):
    runtime = world.runtime(everything())
    paused = runtime.run({"notes": []}, thread="t")
    ids = [i.id for i in paused.interrupts]
    before = list(runtime.entries("t"))

    for code, call, words in (
        ("unknown-interrupt", lambda: runtime.resume("t", {"nope": 1}), ["'nope'", *ids]),
        ("unknown-interrupt", lambda: runtime.resume("t", {ids[0]: 1, "nope": 1}), ["'nope'", *ids]),
        ("unknown-interrupt", lambda: runtime.resume("t", {"yes": True}), ["'yes'", "answer="]),
        ("ambiguous-answer", lambda: runtime.resume("t", "yes"), ["2 interrupts", *ids]),
        ("ambiguous-answer", lambda: runtime.resume("t", answer={"a": 1}), ["2 interrupts", *ids]),
        ("input", lambda: runtime.resume("t", {ids[0]: 1}, answer=1), ["answer= does not go with answers"]),
        ("no-answer", lambda: runtime.resume("t"), ids),
        ("no-answer", lambda: runtime.resume("t", {}), ids),
        ("wrong-verb", lambda: runtime.run({"notes": []}, thread="t"), ["resume('t', answers), retry('t') if"]),
        ("wrong-verb", lambda: runtime.retry("t"), ["interrupted", "resume('t', answers)"]),
    ):
        error = refused(code, call, *words, error=InputError)
        assert code == "wrong-verb" or error.interrupts == tuple(ids)
        assert list(runtime.entries("t")) == before
    assert finish(runtime, "t")["n"] == 3


def test_repeated_answer_and_resume_of_a_finished_thread_are_refused(world):
    runtime = world.runtime(line(("q", ask("q"))))
    (question,) = runtime.run({"notes": []}, thread="t").interrupts
    runtime.resume("t", {question.id: "yes"})
    before = list(runtime.entries("t"))

    for call in (
        lambda: runtime.resume("t", {question.id: "again"}),
        lambda: runtime.resume("t", "again"),
        lambda: runtime.resume("t"),
        lambda: runtime.retry("t"),
    ):
        refused("wrong-verb", call, "'t'", "completed", "run(input, thread='t')", error=InputError)
    assert list(runtime.entries("t")) == before
    assert runtime.run({"notes": []}, thread="t").interrupts[0].id != question.id


def test_mapping_as_the_only_answer_requires_the_answer_parameter(world):
    runtime = world.runtime(line(("q", ask("q"))))
    runtime.run({"notes": []}, thread="t")
    refused("unknown-interrupt", lambda: runtime.resume("t", {"ok": True}), "answer=")

    assert runtime.resume("t", answer={"ok": True}).state["notes"] == ["q={'ok': True}"]


def test_swallowing_the_pause_raises(world):
    def node(state, ctx):
        try:
            return {"x": ctx.interrupt("?")}
        except BaseException:  # noqa: BLE001 - the tested mistake
            return {"x": "never"}

    runtime = world.runtime(line(("q", node)))
    refused("swallowed-interrupt", lambda: runtime.run({"notes": []}, thread="t"), "'q'", error=NodeError)
    assert runtime.state("t").status == "failed"


def test_async_nodes_and_verbs_ask_and_resume(world):
    async def node(state, ctx):
        answer = ctx.interrupt("?")
        return {"notes": [answer]}

    runtime = world.runtime(fan(("p", node), ("q", node)))

    async def go():
        paused = await runtime.arun({"notes": []}, thread="t")
        left = await runtime.aresume("t", {paused.interrupts[0].id: "P"})
        return await runtime.aresume("t", {left.interrupts[0].id: "Q"})

    assert asyncio.run(go()).state["notes"] == ["split", "P", "Q", "last"]


@pytest.mark.parametrize("expires_s", [-1, "soon", float("nan"), True])
def test_invalid_expiry_is_refused(lite, expires_s):
    """In the node, before the question is asked."""
    for asks in (ask, ask_once):
        runtime = lite.runtime(line(("q", asks("q", expires_s=expires_s))))

        thread = asks.__name__
        refused("input", partial(runtime.run, {"notes": []}, thread=thread), "expires_s", repr(expires_s))
        assert runtime.state(thread).status == "failed"


@pytest.mark.parametrize("answer_type", ["yes", 3, object(), Verdict, Annotated[int, "positive"], list[Verdict]])
def test_answer_type_that_would_not_survive_a_restart_is_refused(world, answer_type):
    """Also a class that neither the state declares nor `register_type` knows; also on a memory store."""
    runtime = world.runtime(line(("q", ask("q", answer_type=answer_type))))

    refused("bad-answer-type", lambda: runtime.run({"notes": []}, thread="t"), "'q'", "register_type")
    assert runtime.state("t").status == "failed"
