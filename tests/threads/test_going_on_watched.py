"""steps and stream continue a thread: like resume with answers, like retry without, and refuse the same arguments."""

from __future__ import annotations

from typing import Any

import pytest

from graphrt import END, START, Context, Interrupt, Runtime
from graphrt.errors import ConflictError, NodeError

from .support import (
    EVERYTHING,
    Counts,
    Fails,
    ask,
    ask_once,
    builder,
    everything,
    fan,
    finish,
    kinds,
    line,
    note,
    refused,
)
from .ways import ids


def told(steps: list[Any]) -> list[tuple[Any, ...]]:
    return [(step.node, step.outcome, step.update) for step in steps]


ASKS = {"inline": ask, "returned": ask_once}


@pytest.mark.parametrize("asking", ASKS)
def test_steps_continue_with_an_answer(world, way, asking):
    runtime = world.runtime(line(("a", note("a")), ("b", ASKS[asking]("b")), ("c", note("c"))))
    first = way.steps(runtime, {"notes": []}, thread="t")
    then = way.steps(runtime, thread="t", answer="yes")

    assert [(step.node, step.outcome) for step in first] == [("a", "success"), ("b", "interrupted")]
    assert told(then) == [("b", "success", {"notes": ["b=yes"]}), ("c", "success", {"notes": ["c"], "n": 1})]
    assert [step.index for step in then] == [0, 1]
    assert [step.superstep for step in then] == [2, 3]
    assert then[0].before["notes"] == ["a"]
    assert then[-1].after["notes"] == ["a", "b=yes", "c"] == runtime.state("t").values["notes"]
    assert runtime.state("t").status == "completed"


@pytest.mark.parametrize(
    "how",
    [
        lambda found: {"answers": {found["b"]: "yes"}},
        lambda found: {"answers": "yes"},
        lambda found: {"answer": "yes"},
    ],
    ids=["by id", "alone", "answer="],
)
def test_stream_takes_answers_like_resume(world, way, how):
    runtime = world.runtime(line(("b", ask("b")), ("c", note("c"))))
    runtime.run({"notes": []}, thread="t")

    items = way.stream(runtime, thread="t", **how(ids(runtime)))

    assert items == [{"b": {"notes": ["b=yes"]}}, {"c": {"notes": ["c"], "n": 1}}]


@pytest.mark.parametrize("given", [None, {}, {"id": 1}, [], "", False])
def test_falsy_values_are_also_answers(world, way, given):
    runtime = world.runtime(line(("b", ask("b"))))
    runtime.run({"notes": []}, thread="t")
    assert way.stream(runtime, thread="t", answer=given) == [{"b": {"notes": [f"b={given}"]}}]


def test_none_without_a_key_is_an_answer(world, way):
    runtime = world.runtime(line(("b", ask("b"))))
    runtime.run({"notes": []}, thread="t")
    assert way.stream(runtime, thread="t", answers=None) == [{"b": {"notes": ["b=None"]}}]


async def talks(state: Any, ctx: Context) -> Any:
    ctx.emit("before")
    answer = ctx.interrupt({"q": "talk"})
    ctx.emit(f"after {answer}")
    reply = await ctx.harness.run("hello")
    return {"notes": [reply.text]}


MODES = {
    "updates": [{"talks": {"notes": ["Well, yes."]}}, {"last": {"notes": ["last"], "n": 1}}],
    "values": [["Well, yes."], ["Well, yes.", "last"]],
    "custom": ["before", "after yes"],
    "messages": ["Well,", " yes.", "Well, yes."],
    "events": [
        "run-resumed",
        "interrupt-answered",
        "model-replied",
        "answer-used",
        "task-succeeded",
        "superstep-committed",
        "task-succeeded",
        "superstep-committed",
        "run-completed",
    ],
}


def plain(mode: str, item: Any) -> Any:
    match mode:
        case "values":
            return item["notes"]
        case "messages":
            return item.item.text
        case "events":
            return item.to_dict()["event"]
        case _:
            return item


def talking(world: Any) -> Runtime[Any]:
    from graphrt import MockHarness

    runtime: Runtime[Any] = world.runtime(
        line(("talks", talks), ("last", note("last"))), harness=MockHarness(["Well, yes."])
    )
    assert runtime.run({"notes": []}, thread="t").status == "interrupted"
    return runtime


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_of_a_stream_continues_a_thread(world, way, mode):
    items = way.stream(talking(world), thread="t", answer="yes", modes=mode)
    assert [plain(mode, item) for item in items] == MODES[mode]


def test_all_modes_continue_a_thread_at_once(world, way):
    runtime = talking(world)
    items = way.stream(runtime, thread="t", answer="yes", modes=list(MODES))

    for mode, wanted in MODES.items():
        assert [plain(mode, item) for one, item in items if one == mode] == wanted
    assert runtime.state("t").status == "completed"


def test_streamed_events_equal_those_of_the_journal(world, way):
    runtime = talking(world)
    before = runtime.state("t").seq
    items = way.stream(runtime, thread="t", answer="yes", modes="events")
    assert items == list(runtime.entries("t", after=before))


def test_parallel_questions_are_answered_one_by_one(world, way):
    """Tasks that finished earlier are in the stream of the run that commits them, in task order."""
    counts = Counts("plain")
    runtime = world.runtime(fan(("a", ask("a")), ("b", counts), ("c", ask("c"))))
    first = way.steps(runtime, {"notes": []}, thread="t")
    half = way.steps(runtime, thread="t", answers={ids(runtime)["c"]: "no"})
    status = runtime.state("t").status
    rest = way.steps(runtime, thread="t", answer="yes")

    assert [(step.node, step.outcome) for step in first[1:]] == [("a", "interrupted"), ("c", "interrupted")]
    assert [(step.node, step.outcome) for step in half] == [("a", "interrupted")]
    assert status == "interrupted"
    assert [step.node for step in rest] == ["a", "b", "c", "last"]
    assert [step.update["notes"] for step in rest] == [["a=yes"], ["plain"], ["c=no"], ["last"]]
    assert [step.after["notes"][-1] for step in rest] == ["a=yes", "plain", "c=no", "last"]
    assert counts.calls == 1


def test_stages_of_a_nested_graph_are_streamed(world, way):
    runtime = world.runtime(everything())
    way.stream(runtime, {"notes": []}, thread="t")
    questions = ids(runtime)
    way.stream(runtime, thread="t", answers={questions["inner"]: "yes"})
    assert set(ids(runtime)) == {"outer"}
    items = way.stream(runtime, thread="t", answers={questions["outer"]: "yes"}, modes=["updates", "values"])

    assert [item for mode, item in items if mode == "updates"][-1] == {"last": {"notes": ["last"], "x": 7}}
    assert items[-1][1]["notes"] == EVERYTHING


def test_question_may_follow_a_question(world, way):
    def twice(state: Any, ctx: Context) -> Any:
        return {"notes": [ctx.interrupt({"q": "1"}), ctx.interrupt({"q": "2"})]}

    runtime = world.runtime(line(("b", twice)))
    runtime.run({"notes": []}, thread="t")

    assert way.stream(runtime, thread="t", answer="one") == []
    assert runtime.state("t").status == "interrupted"
    assert way.stream(runtime, thread="t", answer="two") == [{"b": {"notes": ["one", "two"]}}]


def test_thread_is_the_same_as_with_resume(world, way):
    """Watching does not change the stored entries."""
    runtime = world.runtime(everything())
    for thread in ("t", "u"):
        runtime.run({"notes": []}, thread=thread)
    runtime.resume("u", dict.fromkeys(ids(runtime, "u").values(), "yes"))
    way.stream(runtime, thread="t", answers=dict.fromkeys(ids(runtime).values(), "yes"), modes="values")

    assert runtime.state("t").values == runtime.state("u").values
    assert runtime.diff("t", "u") is None


# -- like retry


def test_failed_task_is_retried_step_by_step(world, way):
    """Finished tasks do not run again; their step is emitted with the commit."""
    counts, fails = Counts("a"), Fails()
    runtime = world.runtime(fan(("a", counts), ("b", fails), ("c", ask("c"))))
    with pytest.raises(NodeError):
        way.steps(runtime, {"notes": []}, thread="t")
    with pytest.raises(NodeError):
        way.steps(runtime, thread="t")
    fails.broken = False
    mended = way.steps(runtime, thread="t")
    rest = way.steps(runtime, thread="t", answer="yes")

    assert [(step.node, step.outcome) for step in mended] == [("c", "interrupted")]
    assert [(step.node, step.update["notes"]) for step in rest] == [
        ("a", ["a"]),
        ("b", ["mended"]),
        ("c", ["c=yes"]),
        ("last", ["last"]),
    ]
    assert counts.calls == 1
    assert runtime.state("t").status == "completed"


def test_failed_step_is_emitted_before_each_error(world):
    fails = Fails()
    runtime = world.runtime(line(("a", note("a")), ("b", fails)))
    with pytest.raises(NodeError):
        runtime.run({"notes": []}, thread="t")
    steps = runtime.steps(thread="t")
    failed = next(steps)
    with pytest.raises(NodeError, match="broken pipe"):
        next(steps)

    assert (failed.node, failed.outcome, str(failed.error)) == ("b", "error", "broken pipe")
    assert runtime.state("t").status == "failed"


@pytest.mark.parametrize("mode", ["updates", "values", "events", "custom", "messages"])
def test_every_mode_retries(world, way, mode):
    fails = Fails()
    runtime = world.runtime(line(("a", note("a")), ("b", fails)))
    with pytest.raises(NodeError):
        way.stream(runtime, {"notes": []}, thread="t", modes=mode)
    with pytest.raises(NodeError):
        way.stream(runtime, thread="t", modes=mode)
    fails.broken = False
    items = way.stream(runtime, thread="t", modes=mode)

    wanted = {"updates": [{"b": {"notes": ["mended"]}}], "values": [["a", "mended"]], "custom": [], "messages": []}
    if mode == "events":
        wanted[mode] = ["run-resumed", "task-succeeded", "superstep-committed", "run-completed"]
    assert [plain(mode, item) for item in items] == wanted[mode]
    assert runtime.state("t").values["notes"] == ["a", "mended"]


def test_stream_that_is_left_early_leaves_a_thread_that_continues(world, way):
    counts = Counts("c")
    runtime = world.runtime(line(("a", ask("a")), ("b", note("b")), ("c", counts), ("d", note("d"))))
    runtime.run({"notes": []}, thread="t")
    first = way.steps(runtime, thread="t", answer="yes", most=1)
    left = runtime.state("t")
    second = way.stream(runtime, thread="t", most=1)
    rest = way.steps(runtime, thread="t")

    assert [step.node for step in first] == ["a"]
    assert (left.status, left.values["notes"]) == ("cancelled", ["a=yes"])
    assert second == [{"b": {"notes": ["b"], "n": 1}}]
    assert [step.node for step in rest] == ["c", "d"]
    assert counts.calls == 1
    assert runtime.state("t").values["notes"] == ["a=yes", "b", "c", "d"]


def test_live_stream_can_be_left_early(world, way):
    def emits(state: Any, ctx: Context) -> Any:
        ctx.emit("here")
        return {"notes": ["b"]}

    runtime = world.runtime(line(("a", ask("a")), ("b", emits), ("c", note("c"))))
    runtime.run({"notes": []}, thread="t")
    assert way.stream(runtime, thread="t", answer="yes", modes="custom", most=1) == ["here"]
    assert runtime.state("t").status in ("cancelled", "completed")
    assert finish(runtime, "t")["notes"] == ["a=yes", "b", "c"]


def test_stream_that_is_never_read_is_never_started(world):
    runtime = world.runtime(line(("a", ask("a"))))
    runtime.run({"notes": []}, thread="t")
    before = runtime.state("t").seq
    unread = runtime.stream(thread="t", answer="yes")

    assert runtime.state("t").seq == before
    assert list(unread) == [{"a": {"notes": ["a=yes"]}}]


def test_thread_is_claimed_while_it_is_watched(world):
    runtime = world.runtime(line(("a", ask("a")), ("b", note("b"))))
    runtime.run({"notes": []}, thread="t")
    steps = runtime.steps(thread="t", answer="yes")
    next(steps)

    with pytest.raises(ConflictError):
        list(runtime.steps(thread="t"))
    assert runtime.cancel("t")
    assert list(steps) == []
    assert runtime.state("t").status == "cancelled"


def test_fork_from_the_middle_continues_while_watched(world, way):
    runtime = world.runtime(line(("a", note("a")), ("b", note("b")), ("c", note("c"))))
    runtime.run({"notes": []}, thread="t")
    first = next(s.seq for s in reversed(runtime.history("t")) if s.next == ("b",))
    for to, options in (("f", {}), ("g", {"answers": {}})):
        runtime.fork("t", at=first, to=to)
        assert [step.node for step in way.steps(runtime, thread=to, **options)] == ["b", "c"]


def test_another_runtime_continues_the_thread(durable, way):
    graph = line(("a", ask("a")), ("b", note("b")))
    durable.runtime(graph).run({"notes": []}, thread="t")
    items = way.stream(durable.runtime(graph), thread="t", answer="yes", modes=["values"])
    assert [item["notes"] for item in items] == [["a=yes"], ["a=yes", "b"]]


def test_expired_question_is_asked_again(world, way):
    runtime = world.runtime(line(("a", ask("a", expires_s=100))))
    runtime.run({"notes": []}, thread="t")
    refused("wrong-verb", lambda: way.steps(runtime, thread="t"), "thread='t' with answers=")
    world.clock.now += 1_000
    refused("interrupt-expired", lambda: way.steps(runtime, thread="t", answer="late"), "retry('t')")
    again = way.steps(runtime, thread="t")

    assert [(step.node, step.outcome) for step in again] == [("a", "interrupted")]
    assert way.stream(runtime, thread="t", answer="yes") == [{"a": {"notes": ["a=yes"]}}]
    assert "interrupt-expired" in kinds(runtime.entries("t"))


def test_node_returns_its_question_in_its_own_graph(world, way):
    inner = builder("inner")
    inner.add_node("asks", lambda state, ctx: Interrupt({"q": "in"}) if ctx.answer is None else {"notes": [ctx.answer]})
    inner.add_edge(START, "asks")
    inner.add_edge("asks", END)
    runtime = world.runtime(line(("child", inner.compile()), ("last", note("last"))))
    way.steps(runtime, {"notes": []}, thread="t")

    steps = way.steps(runtime, thread="t", answer="well")

    assert [(step.node, step.after["notes"]) for step in steps] == [("child", ["well"]), ("last", ["well", "last"])]
