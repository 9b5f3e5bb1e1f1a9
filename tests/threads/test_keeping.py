"""Listing, pruning, sweeping and deleting threads: what is removed, what is kept, and that the thread still works."""

from __future__ import annotations

import asyncio
import io

import pytest

from graphrt import START, Overwrite, Runtime
from graphrt.errors import ConflictError, InputError, StoreError
from graphrt.stores import MemoryStore
from graphrt.testing.flaky_store import Fault, FlakyStore

from .support import EVERYTHING, Fails, ask, builder, everything, fan, finish, kinds, line, note, refused


def three(world):
    """A completed, an interrupted and a failed thread, in this order."""
    done = world.runtime(line(("a", note("a")), name="done"))
    done.run({"notes": []}, thread="run-1")
    asking = world.runtime(line(("q", ask("q")), name="asking"))
    asking.run({"notes": []}, thread="run-2")
    failing = world.runtime(line(("f", Fails()), name="failing"))
    with pytest.raises(Exception, match="broken"):
        failing.run({"notes": []}, thread="other-3")
    return done, asking, failing


def ids(infos):
    return [info.thread for info in infos]


def test_threads_are_listed_in_order_of_creation(world):
    done, *_ = three(world)

    assert ids(done.threads()) == ["run-1", "run-2", "other-3"]
    first = done.threads()[0]
    assert (first.status, first.graph, first.owned, first.seq) == ("completed", "done", False, 4)
    assert [info.status for info in done.threads()] == ["completed", "interrupted", "failed"]


def test_threads_take_filters_alone_and_combined(world):
    done, *_ = three(world)
    middle = done.threads()[1].updated_at

    assert ids(done.threads(status="interrupted")) == ["run-2"]
    assert ids(done.threads(graph="failing")) == ["other-3"]
    assert ids(done.threads(prefix="run-")) == ["run-1", "run-2"]
    assert ids(done.threads(updated_before=middle)) == ["run-1"]
    assert ids(done.threads(prefix="run-", status="completed")) == ["run-1"]
    assert ids(done.threads(graph="failing", status="completed")) == []
    assert ids(done.threads(status="cancelled")) == []
    assert ids(done.threads(prefix="")) == ["run-1", "run-2", "other-3"]


def test_prefix_is_a_literal_string(world):
    runtime = world.runtime(line(("a", note("a"))))
    for thread in ("a_b", "axb", "A_b"):
        runtime.run({"notes": []}, thread=thread)

    assert ids(runtime.threads(prefix="a_")) == ["a_b"]
    assert ids(runtime.threads(prefix="%")) == []


def test_threads_are_paged(world):
    runtime = world.runtime(line(("a", note("a"))))
    made = [f"t{k}" for k in (3, 1, 4, 5, 9, 2, 6)]
    for thread in made:
        runtime.run({"notes": []}, thread=thread)
    pages, after = [], None
    while page := runtime.threads(limit=3, after=after):
        pages.append(ids(page))
        after = page[-1].thread

    assert pages == [made[:3], made[3:6], made[6:]]
    assert runtime.threads(limit=0) == ()
    refused("input", lambda: runtime.threads(limit=-1), "limit", error=InputError)
    refused("unknown-thread", lambda: runtime.threads(after="gone"), "'gone'", error=InputError)


def test_threads_refuse_an_unknown_status(world):
    runtime = world.runtime(line(("a", note("a"))))
    runtime.run({"notes": []}, thread="t")

    refused("input", lambda: runtime.threads(status="complete"), "'complete'", "'completed'", error=InputError)
    refused("input", lambda: runtime.sweep(older_than_s=0, status="done"), "'done'", error=InputError)
    assert ids(runtime.threads()) == ["t"]


def test_history_and_entries_refuse_values_that_are_not_numbers(world):
    runtime = world.runtime(line(("a", note("a"))))
    runtime.run({"notes": []}, thread="t")

    refused("input", lambda: runtime.history("t", limit=-1), "limit=", "-1", error=InputError)
    refused("input", lambda: runtime.history("t", before="4"), "before=", "'4'", error=InputError)
    refused("input", lambda: list(runtime.entries("t", after=-1)), "after=", error=InputError)
    refused("input", lambda: runtime.prune("t", before="4"), "before=", error=InputError)


def test_prune_removes_entries_that_the_present_state_does_not_need(world):
    runtime = world.runtime(line(*((name, note(name)) for name in "abc")))
    end = runtime.run({"notes": []}, thread="t").state
    before = runtime.state("t")
    gone = runtime.prune("t")

    assert gone == before.seq
    after = runtime.state("t")
    assert (after.values, after.status, after.next, after.step) == (end, "completed", (), before.step)
    assert kinds(runtime.entries("t")) == ["history-pruned"]
    assert [s.values for s in runtime.history("t")] in ([end], [])
    refused("unknown-entry", lambda: runtime.state("t", at=1), "entries", error=InputError)
    assert runtime.run({"notes": ["again"]}, thread="t").state["notes"] == ["a", "b", "c", "again", "a", "b", "c"]
    assert [s.values["notes"] for s in runtime.history("t")][:4] == [
        ["a", "b", "c", "again", "a", "b", "c"],
        ["a", "b", "c", "again", "a", "b"],
        ["a", "b", "c", "again", "a"],
        ["a", "b", "c", "again"],
    ]
    assert runtime.replay("t").status == "completed"


def test_prune_folds_edits(world):
    """No value that an edit replaced remains, on a finished thread and on a thread of edits only."""
    runtime = world.runtime(line(("a", note("a"))))
    runtime.run({"notes": ["first " * 5_000]}, thread="t")
    runtime.update("edited", {"notes": ["first " * 5_000]})
    for thread in ("t", "edited"):
        for number in range(3):
            runtime.update(thread, {"notes": Overwrite([f"secret {number} " * 5_000])})
        runtime.update(thread, {"notes": Overwrite(["kept"])}, as_node="a")
        before = runtime.state(thread)

        assert runtime.prune(thread) == before.seq
        exported = io.BytesIO()
        runtime.export_thread(thread, exported)
        left = exported.getvalue()
        assert b"secret" not in left
        assert b"first first" not in left
        after = runtime.state(thread)
        assert (after.values, after.status, after.next) == (before.values, before.status, before.next)
        assert runtime.replay(thread).values == before.values
        assert runtime.prune(thread) == 0
        assert runtime.run({}, thread=thread).state["notes"] == ["kept", "a"]


OPEN = {
    "question": lambda: line(("a", note("a")), ("q", ask("q")), ("b", note("b"))),
    "first superstep": lambda: line(("q", ask("q")), ("b", note("b"))),
    "several": lambda: fan(("q", ask("q")), ("r", ask("r")), ("s", note("s"))),
    "nested": everything,
    "after": lambda: line(("a", note("a")), ("b", note("b")), interrupt_after=True),
}


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("graph", OPEN)
def test_prune_folds_edits_of_an_open_superstep(world, graph, cancelled):
    """The thread continues like one that was edited in the same way, and not pruned."""
    runtime = world.runtime(OPEN[graph]())
    for thread in ("pruned", "whole"):
        runtime.run({"notes": ["first " * 5_000]}, thread=thread)
        if cancelled:
            runtime.cancel(thread)
        runtime.update(thread, {"notes": Overwrite(["secret " * 5_000])})
        runtime.update(thread, {"notes": Overwrite(["kept"])})
    before = runtime.state("pruned")

    assert runtime.prune("pruned") == before.seq
    exported = io.BytesIO()
    runtime.export_thread("pruned", exported)
    assert b"secret" not in exported.getvalue()
    assert b"first first" not in exported.getvalue()
    after = runtime.state("pruned")
    assert (after.values, after.status, after.next) == (before.values, before.status, before.next)
    assert after.interrupts == before.interrupts
    assert [one.stale for one in after.interrupts] == [one.stale for one in before.interrupts]
    assert runtime.prune("pruned") == 0
    assert runtime.verify(replay=True).ok
    if after.status == "cancelled":
        pruned, whole = runtime.retry("pruned"), runtime.retry("whole")
        assert pruned.status == whole.status
        assert [one.payload for one in pruned.interrupts] == [one.payload for one in whole.interrupts]
    if runtime.state("pruned").status != "completed":
        finish(runtime, "pruned")
        finish(runtime, "whole")
    assert runtime.state("pruned").values == runtime.state("whole").values
    assert runtime.replay("pruned").values == runtime.state("pruned").values
    assert runtime.state("pruned").usage == runtime.state("whole").usage


@pytest.mark.parametrize("operation", ["commit", "prune"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_interrupted_prune_of_an_edited_open_superstep_is_completed_by_the_next(operation, moment):
    with FlakyStore(MemoryStore()) as store, Runtime(OPEN["question"](), store=store) as runtime:
        runtime.run({"notes": []}, thread="t")
        runtime.update("t", {"notes": Overwrite(["secret " * 5_000])})
        runtime.update("t", {"notes": Overwrite(["kept"])})
        store.add(Fault(operation, nth=store.calls[operation] + 1, moment=moment))
        with pytest.raises(StoreError):
            runtime.prune("t")
        before = runtime.state("t")
        runtime.prune("t")
        after = runtime.state("t")

        assert (after.values, after.status, after.interrupts) == (before.values, "interrupted", before.interrupts)
        assert kinds(runtime.entries("t")) == ["history-pruned", "interrupt-raised"]
        assert finish(runtime, "t")["notes"] == ["kept", "q=yes", "b"]


def test_prune_before_an_entry_keeps_later_entries(world):
    runtime = world.runtime(line(*((name, note(name)) for name in "abcd")))
    runtime.run({"notes": []}, thread="t")
    history = runtime.history("t")
    cut = history[1].seq
    kept = [s.values for s in history if s.seq >= cut]
    gone = runtime.prune("t", before=cut)

    assert 0 < gone < cut
    assert [s.values for s in runtime.history("t")][: len(kept)] == kept
    for snapshot in history[:2]:
        assert runtime.state("t", at=snapshot.seq).values == snapshot.values
        assert finish(runtime, runtime.fork("t", at=snapshot.seq))["notes"] == ["a", "b", "c", "d"]
    assert next(e.seq for e in runtime.entries("t")) == gone + 1
    assert runtime.replay("t").values["notes"] == ["a", "b", "c", "d"]
    assert runtime.prune("t", before=1) == 0


@pytest.mark.parametrize("nested", [False, True])
def test_prune_of_an_interrupted_thread_keeps_its_questions(world, nested):
    runtime = world.runtime(everything() if nested else line(("a", note("a")), ("q", ask("q"))))
    paused = runtime.run({"notes": []}, thread="t")
    gone = runtime.prune("t")
    after = runtime.state("t")

    assert gone > 0
    assert after.status == "interrupted"
    assert [q.id for q in after.interrupts] == [q.id for q in paused.interrupts]
    assert finish(runtime, "t")["notes"] == (EVERYTHING if nested else ["a", "q=yes"])


def test_prune_of_a_thread_that_waits_after_a_node_with_a_failed_sibling(world):
    """The failure, which an `on_error` node handles next, never compares equal, because it is read back as another object."""

    class OddError(Exception):
        pass

    def fails(state):
        raise OddError("odd")

    def handle(state, ctx):
        return {"notes": ["handled", str(ctx.error).endswith("odd")]}

    g = builder()
    g.add_node("first", note("first"))
    g.add_node("good", note("good"), interrupt_after=True)
    g.add_node("bad", fails, on_error="handle")
    g.add_node("handle", handle)
    g.add_edge(START, "first").add_edge("first", "good").add_edge("first", "bad")
    runtime = world.runtime(g.compile())
    runtime.run({"notes": []}, thread="t")

    assert runtime.prune("t") > 0
    assert runtime.resume("t", "go on").state["notes"] == ["first", "good", "handled", True]


def test_failed_thread_can_be_retried_after_a_prune(world):
    fails = Fails()
    runtime = world.runtime(line(("a", note("a")), ("f", fails)))
    with pytest.raises(Exception, match="broken"):
        runtime.run({"notes": []}, thread="t")
    assert runtime.prune("t") > 0
    assert runtime.state("t").status == "failed"
    fails.broken = False

    assert runtime.retry("t").state["notes"] == ["a", "mended"]


def test_second_prune_and_prune_of_an_empty_thread_are_no_ops(world):
    runtime = world.runtime(line(("a", note("a")), ("b", note("b"))))
    runtime.run({"notes": []}, thread="t")
    runtime.prune("t")
    seq = runtime.state("t").seq

    assert runtime.prune("t") == 0
    assert runtime.state("t").seq == seq
    assert runtime.state("t").values["notes"] == ["a", "b"]
    assert finish(runtime, runtime.fork("t"))["notes"] == ["a", "b"]
    assert runtime.state(runtime.fork("t", at=seq)).values["notes"] == ["a", "b"]


def test_pruned_threads_can_be_copied_and_compared(world):
    runtime = world.runtime(line(("a", note("a")), ("q", ask("q")), ("b", note("b"))))
    runtime.run({"notes": []}, thread="t")
    runtime.prune("t")
    runtime.copy_thread("t", "c")

    assert runtime.diff("t", "c") is None
    assert finish(runtime, "c")["notes"] == finish(runtime, "t")["notes"] == ["a", "q=yes", "b"]


def test_sweep_deletes_threads_without_recent_writes(world):
    done, *_ = three(world)
    assert done.sweep(older_than_s=3600) == 0
    world.clock.now += 7200
    done.run({"notes": []}, thread="young")

    assert done.sweep(older_than_s=3600) == 2
    assert ids(done.threads()) == ["run-2", "young"], "an interrupted thread stays, somebody may still answer"
    assert done.sweep(older_than_s=3600, status="interrupted") == 1
    assert ids(done.threads()) == ["young"]


def test_sweep_keeps_threads_of_live_runs(world):
    runtime = world.runtime(line(("a", note("a")), ("b", note("b"))))
    runtime.run({"notes": []}, thread="t")
    steps = runtime.steps({"notes": []}, thread="t")
    next(steps)
    world.clock.now += 7200

    assert runtime.sweep(older_than_s=3600) == 0
    assert len(list(steps)) == 1


def test_deleted_threads_are_gone_and_their_ids_can_be_reused(world):
    runtime = world.runtime(line(("a", note("a"))))
    runtime.run({"notes": ["old"]}, thread="t")
    runtime.delete_thread("t")

    assert runtime.threads() == ()
    for verb in (runtime.state, runtime.history, runtime.retry, runtime.resume, runtime.delete_thread, runtime.prune):
        refused("unknown-thread", lambda verb=verb: verb("t"), "'t'", error=InputError)
    refused("unknown-thread", lambda: list(runtime.entries("t")), "'t'", error=InputError)
    assert runtime.run({"notes": []}, thread="t").state["notes"] == ["a"]
    assert [e.seq for e in runtime.entries("t")] == [1, 2, 3, 4]


def test_delete_under_a_run_is_a_conflict(world):
    runtime = world.runtime(line(("a", note("a")), ("b", note("b"))))
    steps = runtime.steps({"notes": []}, thread="t")
    next(steps)
    refused("conflict", lambda: runtime.delete_thread("t"), "'t'", error=ConflictError)
    list(steps)

    runtime.delete_thread("t")
    assert runtime.threads() == ()


def test_async_twins_list_prune_sweep_and_delete(world):
    runtime = world.runtime(line(("a", note("a"))))

    async def go():
        await runtime.arun({"notes": []}, thread="t")
        pruned = await runtime.aprune("t")
        replayed = await runtime.areplay("t")
        world.clock.now += 60
        swept = await runtime.asweep(older_than_s=30)
        return pruned, replayed.status, swept, await runtime.athreads()

    assert asyncio.run(go()) == (4, "completed", 1, ())


def test_compaction_keeps_a_snapshot_only_thread_readable_by_another_runtime(durable):
    """The data that remains after a prune is enough for a runtime that has never seen the thread."""
    graph = line(("a", note("a")), ("q", ask("q")))
    durable.runtime(graph).run({"notes": []}, thread="t")
    durable.runtime(graph).prune("t")

    assert durable.runtime(graph).resume("t", "yes").state["notes"] == ["a", "q=yes"]
