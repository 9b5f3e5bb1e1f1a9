"""Questions that expire with an answer (R23): with their default, or by an error in the node."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from graphrt import START, UNSET, Context, Interrupt, Runtime
from graphrt.errors import InputError, NodeError, QuestionExpiredError, UpdateError
from graphrt.events import AnswerDiscarded, InterruptAnswered
from graphrt.testing import VirtualClock, drive_due

from .support import World, ask, ask_once, builder, fan, line, note, refused


@pytest.fixture
def clock(world: World) -> VirtualClock:
    made = VirtualClock()
    world.clock = made  # type: ignore[assignment]  # the runtimes of the test share it
    return made


def given(runtime: Runtime[Any], thread: str = "t") -> list[tuple[str, Any]]:
    """The sources and values of the answers of the thread."""
    found = [one.event for one in runtime.entries(thread) if isinstance(one.event, InterruptAnswered)]
    return [(event.by, event.answer) for event in found]


@pytest.mark.parametrize("asks", [ask, ask_once])
def test_expired_question_takes_its_default(world: World, clock: VirtualClock, asks: Any) -> None:
    runtime = world.runtime(line(("q", asks("q", expires_s=60, default="later"))))
    (question,) = runtime.run({"notes": []}, thread="t").interrupts
    assert (question.default, question.expires_at) == ("later", clock() + 60)
    assert runtime.inbox()[0].interrupt.default == "later"
    refused("not-due", lambda: runtime.drive("t"))
    clock.advance(60)
    assert runtime.drive("t").state["notes"] == ["q=later"]
    assert given(runtime) == [("default", "later")]


@pytest.mark.parametrize("asks", [ask, ask_once])
def test_none_is_a_valid_default(world: World, clock: VirtualClock, asks: Any) -> None:
    def node(state: Any, ctx: Context) -> Any:
        return {"notes": [ctx.interrupt("q", expires_s=60, default=None)]}

    runtime = world.runtime(line(("q", node)))
    runtime.run({"notes": []}, thread="t")
    assert runtime.state("t").interrupts[0].default is None
    clock.advance(60)
    assert runtime.drive("t").state["notes"] == [None]


def test_default_answer_is_not_sent_to_the_owner_as_an_answer_of_a_person(world: World, clock: VirtualClock) -> None:
    runtime = world.runtime(line(("q", ask("q", expires_s=60, default="later"))))
    runtime.run({"notes": []}, thread="t")
    clock.advance(60)
    assert runtime.store is not None
    claim = runtime.store.claim("t", create=False, lease_s=60.0, at=0.0)
    runtime.start(thread="t", answers={})
    runtime.store.release(claim)

    assert runtime.drive("t").state["notes"] == ["q=later"]
    assert given(runtime) == [("default", "later")]


def test_answer_of_a_person_in_time_wins_over_the_default(world: World, clock: VirtualClock) -> None:
    runtime = world.runtime(line(("q", ask("q", expires_s=60, default="later")), ("r", ask("r"))))
    (question,) = runtime.run({"notes": []}, thread="t").interrupts
    clock.advance(59)
    runtime.resume("t", "now")
    clock.advance(10)
    refused("not-due", lambda: runtime.drive("t"))
    refused("unknown-interrupt", lambda: runtime.resume("t", {question.id: "again"}), "takes no answer any more")
    assert given(runtime) == [("", "now")]


def test_late_answer_is_refused_before_and_after_the_default_was_taken(world: World, clock: VirtualClock) -> None:
    runtime = world.runtime(fan(("p", ask("p", expires_s=60, default="later")), ("q", ask("q"))))
    late, other = runtime.run({"notes": []}, thread="t").interrupts
    clock.advance(61)
    refused("interrupt-expired", lambda: runtime.resume("t", {late.id: "now"}), "expired 1 s ago")
    refused("wrong-verb", lambda: runtime.retry("t"))  # the default counts: the question is not asked again
    assert [one.id for one in runtime.drive("t").interrupts] == [other.id]
    refused("unknown-interrupt", lambda: runtime.resume("t", {late.id: "now"}))
    assert "p=later" in runtime.resume("t", "yes").state["notes"]


def test_expired_question_without_a_default_raises_in_the_node(world: World, clock: VirtualClock) -> None:
    told: list[str] = []

    def node(state: Any, ctx: Context) -> Any:
        try:
            return {"notes": [ctx.interrupt("Ann?", expires_s=60)]}
        except QuestionExpiredError as error:
            told.append(error.interrupt)
            return {"notes": [ctx.interrupt("then Bob?")]}

    runtime = world.runtime(line(("q", node)))
    (first,) = runtime.run({"notes": []}, thread="t").interrupts
    assert first.default is UNSET
    clock.advance(60)
    assert runtime.drive("t").interrupts[0].payload == "then Bob?"
    assert told == [first.id]
    assert runtime.resume("t", "Bob").state["notes"] == ["Bob"]
    assert given(runtime) == [("expiry", None), ("", "Bob")]
    assert runtime.reexecute("t").same


def test_returned_question_gets_an_expiry_as_its_answer(world: World, clock: VirtualClock) -> None:
    def node(state: Any, ctx: Context) -> Any:
        try:
            answer = ctx.answer
        except QuestionExpiredError:
            return {"notes": ["nobody"]}
        return Interrupt("q", expires_s=60) if answer is None else {"notes": [answer]}

    runtime = world.runtime(line(("q", node)))
    runtime.run({"notes": []}, thread="t")
    clock.advance(60)
    assert runtime.drive("t").state["notes"] == ["nobody"]


@pytest.mark.parametrize("asks", [ask, ask_once])
def test_node_that_does_not_catch_the_expiry_fails_and_asks_again_after_retry(
    world: World, clock: VirtualClock, asks: Any
) -> None:
    runtime = world.runtime(line(("q", asks("q", expires_s=60))))
    (first,) = runtime.run({"notes": []}, thread="t").interrupts
    clock.advance(60)
    with pytest.raises(NodeError) as caught:
        runtime.drive("t")
    assert isinstance(caught.value.__cause__, QuestionExpiredError)
    assert caught.value.__cause__.interrupt == first.id
    again = world.runtime(line(("q", asks("q", expires_s=60)))).retry("t")  # like another process
    (second,) = again.interrupts
    assert second.id != first.id
    assert second.expires_at == clock() + 60
    assert runtime.resume("t", "here").state["notes"] == ["q=here"]
    discarded = [one.event for one in runtime.entries("t") if isinstance(one.event, AnswerDiscarded)]
    assert [(event.id, event.reason) for event in discarded] == [(first.id, "expired")]
    assert runtime.replay("t").values == runtime.state("t").values


def test_retry_asks_an_expired_question_again(world: World, clock: VirtualClock) -> None:
    runtime = world.runtime(line(("q", ask("q", expires_s=60))))
    runtime.run({"notes": []}, thread="t")
    clock.advance(61)
    assert runtime.retry("t").interrupts[0].expires_at == clock() + 60


def test_expiry_may_be_a_datetime_instead_of_seconds(world: World, clock: VirtualClock) -> None:
    when = dt.datetime.fromtimestamp(clock() + 90, dt.UTC)
    runtime = world.runtime(line(("q", ask("q", expires_at=when, default=1)), ("r", ask_once("r", expires_at=5.0))))
    assert runtime.run({"notes": []}, thread="t").interrupts[0].expires_at == clock() + 90
    clock.advance(90)
    assert runtime.drive("t").interrupts[0].expires_at == 5.0


def test_default_is_checked_against_the_answer_type(world: World, clock: VirtualClock) -> None:
    def node(state: Any, ctx: Context) -> Any:
        return {"notes": [ctx.interrupt("q", answer_type=list[int], expires_s=60, default=["1", 2])]}

    runtime = world.runtime(line(("q", node)))
    runtime.run({"notes": []}, thread="t")
    clock.advance(60)
    assert runtime.drive("t").state["notes"] == [[1, 2]]


def test_nested_graphs_and_forks_take_the_same_defaults(world: World, clock: VirtualClock) -> None:
    inner = builder("inner")
    inner.add_node("q", ask("q", expires_s=60, default="later"))
    inner.add_node("r", ask("r"))
    inner.add_edge(START, "q")
    inner.add_edge("q", "r")
    outer = builder("outer")
    outer.add_node("child", inner.compile())
    outer.add_node("beside", note("beside"))
    outer.add_edge(START, "child")
    outer.add_edge(START, "beside")
    runtime = world.runtime(outer.compile())
    runtime.run({"notes": []}, thread="t")
    clock.advance(60)
    assert [one.node for one in runtime.drive("t").interrupts] == ["r"]
    fork = runtime.fork("t")
    while runtime.state(fork).status != "interrupted":
        runtime.retry(fork)
    for thread in ("t", fork):
        assert set(runtime.resume(thread, "yes").state["notes"]) == {"q=later", "r=yes", "beside"}


WRONG: list[tuple[str, Any, str]] = [
    ("input", {"default": 1}, "needs expires_s= or expires_at="),
    ("input", {"default": "x", "answer_type": int, "expires_s": 5}, "valid integer"),
    ("input", {"expires_s": 5, "expires_at": 6.0}, "does not go with expires_at="),
    ("input", {"expires_s": 0}, "above 0"),
    ("input", {"expires_at": "tomorrow"}, "'tomorrow'"),
    ("input", {"expires_at": dt.datetime(2030, 1, 1)}, "no time zone"),  # noqa: DTZ001
]


@pytest.mark.parametrize("asks", [ask, ask_once])
@pytest.mark.parametrize(("code", "options", "word"), WRONG)
def test_conflicting_arguments_are_refused(asks: Any, code: str, options: Any, word: str) -> None:
    runtime = Runtime(line(("q", asks("q", **options))), store="memory:")
    refused(code, lambda: runtime.run({}, thread="t"), word, error=InputError)
    runtime.close()


def test_default_that_cannot_be_stored_is_refused(world: World) -> None:
    runtime = world.runtime(line(("q", ask("q", expires_s=5, default=object()))))
    refused("not-storable", lambda: runtime.run({"notes": []}, thread="t"), "default", error=UpdateError)


@pytest.mark.parametrize(
    ("default", "seen"),
    [({"default": None}, None), ({}, "Node 'q' got no signal 'paid' in time."), ({"default": [1]}, [1])],
)
def test_waiting_for_a_signal_times_out(world: World, clock: VirtualClock, default: Any, seen: Any) -> None:
    """The end is computed once: it survives the process, and running the node again does not move it."""

    def node(state: Any, ctx: Context) -> Any:
        try:
            first = ctx.receive("paid", timeout_s=60, **default)
        except QuestionExpiredError as error:
            first = error.what
        return {"notes": [first, ctx.receive("paid")]}

    graph = line(("q", node))
    runtime = world.runtime(graph)
    (question,) = runtime.run({"notes": []}, thread="t").interrupts
    assert (question.kind, question.expires_at) == ("signal", clock() + 60)
    clock.advance(59)
    refused("not-due", lambda: runtime.drive("t"))
    clock.advance(1)
    assert world.runtime(graph).drive("t").status == "interrupted"
    runtime.signal("t", "paid", "late")

    assert runtime.drive("t").state["notes"] == [seen, "late"]


def test_thread_is_due_when_its_wait_for_a_signal_has_timed_out(world: World, clock: VirtualClock) -> None:
    """Workers find it; the question is in no inbox, because no person answers it."""
    runtime = world.runtime(
        line(("q", lambda state, ctx: {"notes": [ctx.receive("paid", timeout_s=60, default="late")]}))
    )
    runtime.run({"notes": []}, thread="t")
    assert (runtime.due(), runtime.inbox()) == ((), ())
    clock.advance(60)

    assert drive_due(runtime)["t"].state["notes"] == ["late"]
    assert runtime.store.questions("t") == []


def test_signal_that_arrived_before_the_thread_continues_is_received(world: World, clock: VirtualClock) -> None:
    runtime = world.runtime(
        line(("q", lambda state, ctx: {"notes": [ctx.receive("paid", timeout_s=60, default=None)]}))
    )
    runtime.run({"notes": []}, thread="t")
    runtime.signal("t", "paid", "early")
    clock.advance(100)

    assert runtime.drive("t").state["notes"] == ["early"]


@pytest.mark.parametrize("options", [{"timeout_s": 0}, {"timeout_s": "1"}, {"default": 5}])
def test_wrong_arguments_of_receive_are_refused(world: World, options: Any) -> None:
    runtime = world.runtime(line(("q", lambda state, ctx: {"notes": [ctx.receive("paid", **options)]})))
    with pytest.raises(InputError, match=r"timeout_s= of ctx\.receive\(\)"):
        runtime.run({"notes": []}, thread="t")
