"""`state`, `history` and `entries`: a thread now and at every earlier entry."""

from __future__ import annotations

import asyncio
import copy

import pytest

from graphrt import START, Send
from graphrt.errors import InputError

from .support import EVERYTHING, Counts, Fails, ask, builder, everything, finish, kinds, line, note, refused


def test_state_reports_each_status(world):
    """A new thread has none; the five others come with the next nodes and the open questions."""
    fails = Fails()
    asking = world.runtime(line(("a", note("a")), ("q", ask("q")), ("b", note("b"))))
    failing = world.runtime(line(("a", note("a")), ("f", fails), name="f"))

    paused = asking.run({"notes": []}, thread="paused")
    with pytest.raises(Exception, match="broken pipe"):
        failing.run({"notes": []}, thread="failed")
    done = world.runtime(line(("a", note("a")), name="d")).run({"notes": []}, thread="done")

    stand = asking.state("paused")
    assert (stand.status, stand.next, stand.values) == ("interrupted", ("q",), {"notes": ["a"], "n": 1})
    assert [(q.id, q.node, q.payload) for q in stand.interrupts] == [("paused/2.0:q#0", "q", {"q": "q"})]
    assert [q.id for q in stand.interrupts] == [q.id for q in paused.interrupts]
    stand = failing.state("failed")
    assert (stand.status, stand.next, stand.values["notes"]) == ("failed", ("f",), ["a"])
    stand = world.runtime(line(("a", note("a")), name="d")).state("done")
    assert (stand.status, stand.next, stand.values) == ("completed", (), done.state)


def test_state_at_each_entry_equals_the_state_seen_then(world):
    """Every state that was read while the run was active can be read again later."""
    runtime = world.runtime(everything())
    first = runtime.run({"notes": []}, thread="t")
    seen = {at: runtime.state("t", at=at) for at in range(1, runtime.state("t").seq + 1)}
    notes = {at: copy.deepcopy(snapshot.values["notes"]) for at, snapshot in seen.items()}
    runtime.resume("t", {question.id: "yes" for question in first.interrupts})

    for at, was in seen.items():
        now = runtime.state("t", at=at)
        assert (now.values["notes"], now.next, now.seq, now.step, now.at) == (
            notes[at],
            was.next,
            at,
            was.step,
            was.at,
        )
    assert runtime.state("t").values["notes"] == EVERYTHING
    assert runtime.state("t", at=runtime.state("t").seq).status == "completed"


def test_state_is_a_copy(world):
    runtime = world.runtime(line(("a", note("a"))))
    runtime.run({"notes": []}, thread="t")
    runtime.state("t").values["notes"].append("mine")

    assert runtime.state("t").values["notes"] == ["a"]
    runtime.history("t")[0].values["notes"].append("mine")
    assert runtime.history("t")[0].values["notes"] == ["a"]


def test_history_has_every_commit_and_every_pause_newest_first(world):
    runtime = world.runtime(line(("a", note("a")), ("q", ask("q")), ("b", note("b"))))
    runtime.run({"notes": []}, thread="t")
    paused = runtime.history("t")
    runtime.resume("t", "yes")
    history = runtime.history("t")

    assert [s.values["notes"] for s in paused] == [["a"], ["a"], []]
    assert (paused[0].status, len(paused[0].interrupts)) == ("interrupted", 1)
    assert (paused[1].status, paused[1].next, paused[1].interrupts) == ("running", ("q",), ())
    assert [s.values["notes"] for s in history] == [["a", "q=yes", "b"], ["a", "q=yes"], ["a"], ["a"], []]
    assert [s.next for s in history] == [(), ("b",), ("q",), ("q",), ("a",)]
    assert [s.status for s in history] == ["completed", "running", "interrupted", "running", "running"]
    assert [s.seq for s in history] == sorted((s.seq for s in history), reverse=True)
    assert [s.at for s in history] == sorted((s.at for s in history), reverse=True)
    for snapshot in history:
        assert runtime.state("t", at=snapshot.seq).values == snapshot.values


def test_history_takes_limit_and_before(world):
    runtime = world.runtime(line(*((name, note(name)) for name in "abcd")))
    runtime.run({"notes": []}, thread="t")
    whole = runtime.history("t")

    assert [s.seq for s in runtime.history("t", limit=2)] == [s.seq for s in whole[:2]]
    assert runtime.history("t", limit=0) == ()
    assert [s.seq for s in runtime.history("t", before=whole[1].seq)] == [s.seq for s in whole[2:]]
    assert runtime.history("t", before=1) == ()
    pages, before = [], None
    while page := runtime.history("t", limit=2, before=before):
        pages += page
        before = page[-1].seq
    assert [s.seq for s in pages] == [s.seq for s in whole]
    assert [s.values["notes"] for s in pages] == [s.values["notes"] for s in whole]


def test_history_in_pages_of_one_is_the_whole_history(world):
    runtime = world.runtime(line(("a", note("a")), ("q", ask("q")), ("b", note("b"))))
    runtime.run({"notes": []}, thread="t")
    runtime.resume("t", "yes")
    runtime.run({"notes": ["more"]}, thread="t")
    whole = [(s.seq, s.status) for s in runtime.history("t")]

    pages, before = [], None
    while page := runtime.history("t", limit=1, before=before):
        pages += [(s.seq, s.status) for s in page]
        before = page[-1].seq

    assert pages == whole


def test_history_of_a_failed_thread_has_the_failure(world):
    fails = Fails()
    runtime = world.runtime(line(("a", note("a")), ("f", fails)))
    with pytest.raises(Exception, match="broken"):
        runtime.run({"notes": []}, thread="t")
    assert [s.status for s in runtime.history("t")] == ["failed", "running", "running"]
    fails.broken = False
    runtime.retry("t")

    assert [(s.status, s.values["notes"]) for s in runtime.history("t")] == [
        ("completed", ["a", "mended"]),
        ("failed", ["a"]),
        ("running", ["a"]),
        ("running", []),
    ]


def test_failing_answer_keeps_the_question_in_the_history(world):
    def asks_for_a_number(state, ctx):
        return {"notes": [f"{ctx.interrupt('how many?') + 1}"]}

    runtime = world.runtime(line(("a", note("a")), ("q", asks_for_a_number)))
    runtime.run({"notes": []}, thread="t")
    with pytest.raises(Exception, match="TypeError"):
        runtime.resume("t", "many")
    history = runtime.history("t")

    assert [s.status for s in history] == ["failed", "interrupted", "running", "running"]
    fork = runtime.fork("t", at=history[1].seq)
    assert runtime.resume(fork, 2).state["notes"] == ["a", "3"]


def test_history_spans_several_runs_and_edits(world):
    runtime = world.runtime(line(("a", note("a"))))
    runtime.run({"notes": []}, thread="t")
    runtime.run({"notes": ["more"]}, thread="t")
    runtime.update("t", {"notes": ["edit"]})

    assert [s.values["notes"] for s in runtime.history("t")] == [
        ["a", "more", "a", "edit"],
        ["a", "more", "a"],
        ["a", "more"],
        ["a"],
        [],
    ]


def test_entries_are_numbered_without_gaps_and_can_be_read_from_any_seq(world):
    runtime = world.runtime(everything())
    runtime.run({"notes": []}, thread="t")
    finish(runtime, "t")
    entries = list(runtime.entries("t"))

    assert [e.seq for e in entries] == list(range(1, len(entries) + 1))
    assert all(0 <= e.cause < e.seq for e in entries)
    assert (kinds(entries)[0], kinds(entries)[-1]) == ("run-started", "run-completed")
    for after in (0, 1, 7, len(entries) - 1, len(entries), len(entries) + 5):
        assert [e.seq for e in runtime.entries("t", after=after)] == list(range(after + 1, len(entries) + 1))
    runs = {e.run for e in entries}
    assert len(runs) == 2, "the run that began and the one that resumed"


def test_entries_equal_those_of_sinks_and_the_event_stream(world):
    heard = []
    runtime = world.runtime(everything(), sinks=[heard.append])
    streamed = list(runtime.stream({"notes": []}, thread="t", modes="events"))

    assert streamed == heard == list(runtime.entries("t"))


def test_async_twins_return_the_same(world):
    runtime = world.runtime(everything())
    runtime.run({"notes": []}, thread="t")

    async def look():
        return (
            await runtime.astate("t"),
            await runtime.astate("t", at=3),
            await runtime.ahistory("t", limit=2),
            await runtime.aentries("t", after=4),
            await runtime.athreads(status="interrupted"),
        )

    state, at, history, entries, threads = asyncio.run(look())
    assert (state.values, state.next) == (runtime.state("t").values, runtime.state("t").next)
    assert at.values == runtime.state("t", at=3).values
    assert [s.seq for s in history] == [s.seq for s in runtime.history("t", limit=2)]
    assert list(entries) == list(runtime.entries("t", after=4))
    assert [t.thread for t in threads] == ["t"]


@pytest.mark.parametrize("at", [0, -1, 99, True, 1.0, "1", 2**70])
def test_state_refuses_an_unknown_entry(world, at):
    runtime = world.runtime(line(("a", note("a"))))
    runtime.run({"notes": []}, thread="t")
    last = runtime.state("t").seq

    refused("unknown-entry", lambda: runtime.state("t", at=at), "'t'", f"entries 1 to {last}", error=InputError)
    refused("unknown-entry", lambda: runtime.fork("t", at=at), "'t'", f"entries 1 to {last}", error=InputError)
    assert runtime.state("t").seq == last
    assert len(runtime.threads()) == 1


def test_thread_can_be_read_while_a_run_is_active(world):
    """It is `running` for every reader, and shows its last commit."""
    counts = Counts()
    runtime = world.runtime(line(("a", counts), ("b", counts)))
    for _ in runtime.steps({"notes": []}, thread="t"):
        stand = runtime.state("t")
        assert stand.status == ("running" if counts.calls == 1 else stand.status)
        assert stand.values["n"] == counts.calls
        assert [i.owned for i in runtime.threads()] == [True] or counts.calls == 2
        assert len(runtime.history("t")) == counts.calls + 1
    assert runtime.state("t").status == "completed"


def test_history_keeps_answered_questions_of_nested_graphs(world):
    runtime = world.runtime(everything())
    first = runtime.run({"notes": []}, thread="t")
    finish(runtime, "t")
    paused = next(s for s in runtime.history("t") if s.status == "interrupted")

    assert [q.id for q in paused.interrupts] == [q.id for q in first.interrupts]
    assert [q.id for q in runtime.state("t", at=paused.seq).interrupts] == [q.id for q in first.interrupts]


def test_send_is_listed_in_next_once_for_each_task(world):
    g = builder()
    g.add_node("a", note("a"))
    g.add_node("b", lambda state, ctx: {"notes": [ctx.arg]})
    g.add_edge(START, "a")
    g.add_conditional_edges("a", lambda state: [Send("b", k) for k in range(3)], ["b"])
    runtime = world.runtime(g.compile())
    runtime.run({"notes": []}, thread="t")

    assert runtime.history("t")[1].next == ("b", "b", "b")
