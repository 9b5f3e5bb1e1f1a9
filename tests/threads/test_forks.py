"""`fork`, `copy_thread`: a new thread from any entry of another has the state of that entry, and reaches the same end."""

from __future__ import annotations

import asyncio
from typing import Annotated, TypedDict

import pytest

from graphrt import DELETE, RetryPolicy
from graphrt.errors import ConflictError, InputError, NodeError
from graphrt.events import InterruptAnswered as Answered
from graphrt.events import ThreadCopied
from graphrt.migrations import Migration
from graphrt.reducers import append
from graphrt.wires import plain_data

from .support import EVERYTHING, Counts, Fails, ask, everything, fan, finish, kinds, line, note, refused


def local(questions):
    return [question.id.split("/", 1)[1] for question in questions]


def test_fork_from_every_entry_has_its_state_and_reaches_the_same_end(world):
    """A run with Sends, a join, a nested graph and two questions; every fork is driven by the verbs that its status
    requires.
    """
    runtime = world.runtime(everything())
    runtime.run({"notes": []}, thread="t")
    end = finish(runtime, "t")
    before = list(runtime.entries("t"))

    assert end["notes"] == EVERYTHING
    for at in range(1, len(before) + 1):
        stood = runtime.state("t", at=at)
        fork = runtime.fork("t", at=at, to=f"fork-{at}")
        stands = runtime.state(fork)
        assert fork == f"fork-{at}"
        assert (stands.values, stands.next, stands.status, stands.step) == (
            stood.values,
            stood.next,
            stood.status,
            stood.step,
        )
        assert local(stands.interrupts) == local(stood.interrupts)
        assert all(question.id.startswith(f"{fork}/") for question in stands.interrupts)
        assert finish(runtime, fork) == end
        runtime.replay(fork)
    assert list(runtime.entries("t")) == before


def test_fork_of_the_present_keeps_the_finished_tasks_of_an_open_superstep(world):
    """`at=None` includes outcomes and the questions of nested graphs: no finished task runs again."""
    counts = Counts("done")
    runtime = world.runtime(fan(("a", counts), ("q", ask("q"))))
    runtime.run({"notes": []}, thread="t")
    fork = runtime.fork("t")

    assert runtime.state(fork).status == "interrupted"
    assert runtime.state(fork).next == ("q",)
    assert runtime.resume(fork, "left").state["notes"] == ["split", "done", "q=left", "last"]
    assert runtime.resume("t", "right").state["notes"] == ["split", "done", "q=right", "last"]
    assert counts.calls == 1


def test_fork_of_the_present_keeps_the_position_of_a_nested_graph(world):
    runtime = world.runtime(everything())
    runtime.run({"notes": []}, thread="t")
    fork = runtime.fork("t")
    questions = runtime.state(fork).interrupts

    assert local(questions) == local(runtime.state("t").interrupts)
    assert len(questions) == 2
    assert finish(runtime, fork, "no")["notes"] == [text.replace("yes", "no") for text in EVERYTHING]
    assert finish(runtime, "t")["notes"] == EVERYTHING


def test_fork_of_a_failed_thread_is_failed_and_can_be_retried(world):
    fails, counts = Fails(), Counts("a")
    runtime = world.runtime(line(("a", counts), ("f", fails)))
    with pytest.raises(Exception, match="broken"):
        runtime.run({"notes": []}, thread="t")
    fork = runtime.fork("t")

    assert runtime.state(fork).status == "failed"
    fails.broken = False
    assert runtime.retry(fork).state["notes"] == ["a", "mended"]
    assert runtime.state("t").status == "failed"
    assert counts.calls == 1


def test_fork_of_a_completed_thread_takes_a_new_input(world):
    runtime = world.runtime(line(("a", note("a"))))
    runtime.run({"notes": []}, thread="t")
    fork = runtime.fork("t")

    assert runtime.run({"notes": ["again"]}, thread=fork).state["notes"] == ["a", "again", "a"]
    assert runtime.state("t").values["notes"] == ["a"]


def test_fork_of_a_fork_has_the_state_of_its_source(world):
    runtime = world.runtime(line(*((name, note(name)) for name in "abc")))
    runtime.run({"notes": []}, thread="t")
    history = runtime.history("t")
    first = runtime.fork("t", at=history[1].seq)
    second = runtime.fork(first, at=1)
    runtime.update(second, {"notes": ["edit"]})

    assert finish(runtime, second)["notes"] == ["a", "b", "edit", "c"]
    assert finish(runtime, first)["notes"] == ["a", "b", "c"]


def test_fork_does_not_share_values_with_its_source(world):
    runtime = world.runtime(line(("a", note("a")), ("b", lambda state: {"notes": [len(state["notes"])]})))
    runtime.run({"notes": [["inner"]]}, thread="t")
    fork = runtime.fork("t", at=1)
    runtime.state(fork).values["notes"][0].append("mine")

    assert finish(runtime, fork)["notes"] == [["inner"], "a", 2]
    assert runtime.state("t", at=1).values["notes"] == [["inner"]]


def test_fork_to_an_existing_thread_is_refused(world):
    runtime = world.runtime(line(("a", note("a"))))
    runtime.run({"notes": []}, thread="t")
    runtime.run({"notes": ["other"]}, thread="u")

    refused("thread-exists", lambda: runtime.fork("t", to="u"), "'u'", error=InputError)
    refused("thread-exists", lambda: runtime.fork("t", to="t"), "'t'", error=InputError)
    refused("unknown-thread", lambda: runtime.fork("nobody", to="new"), "'nobody'", error=InputError)
    refused("bad-thread", lambda: runtime.fork("t", to="a/b"), "'/'", error=InputError)
    assert runtime.state("u").values["notes"] == ["other", "a"]
    assert sorted(info.thread for info in runtime.threads()) == ["t", "u"]
    assert runtime.run({"notes": []}, thread="t").status == "completed"


def test_fork_begins_with_an_entry_that_names_its_source(world):
    runtime = world.runtime(line(("a", note("a"))))
    runtime.run({"notes": []}, thread="t")
    runtime.fork("t", at=1, to="f")
    (entry,) = list(runtime.entries("f"))

    assert kinds([entry]) == ["thread-forked"]
    assert (entry.event.source, entry.event.at, entry.seq) == ("t", 1, 1)


def test_fork_while_the_source_is_driven(world):
    """Reading does not need the claim: the fork has the last commit, and is free."""
    runtime = world.runtime(line(("a", note("a")), ("b", note("b"))))
    steps = runtime.steps({"notes": []}, thread="t")
    next(steps)
    fork = runtime.fork("t")

    assert runtime.state(fork).status == "running"
    assert runtime.retry(fork).state["notes"] == ["a", "b"]
    assert [step.node for step in steps] == ["b"]
    assert runtime.state("t").values["notes"] == ["a", "b"]


def test_copy_has_the_whole_journal_and_diverges_from_its_source(world):
    runtime = world.runtime(everything())
    runtime.run({"notes": []}, thread="t")
    assert runtime.copy_thread("t", "copy") == "copy"
    made = runtime.copy_thread("t")

    *events, last = [e.event for e in runtime.entries("copy")]
    assert events == [e.event for e in runtime.entries("t")]
    assert last == ThreadCopied(source="t", thread="copy")
    head, source = world.store.head("copy"), world.store.head("t")
    assert list(runtime.entries("copy"))[-1].at == head.created_at == head.updated_at > source.updated_at
    assert (head.owned, head.status, head.graph) == (False, source.status, source.graph)
    assert runtime.diff("t", "copy") is None
    assert all(question.id.startswith("copy/") for question in runtime.state("copy").interrupts)
    assert len(runtime.state("copy").interrupts) == 2
    assert finish(runtime, "copy", "no")["notes"] == [text.replace("yes", "no") for text in EVERYTHING]
    assert finish(runtime, "t")["notes"] == EVERYTHING
    assert finish(runtime, made)["notes"] == EVERYTHING
    for thread in ("copy", "t", made):
        runtime.replay(thread)
        assert len(runtime.history(thread)) == 7


def test_copy_refuses_the_same_arguments_as_fork(world):
    runtime = world.runtime(line(("a", note("a"))))
    runtime.run({"notes": []}, thread="t")

    refused("thread-exists", lambda: runtime.copy_thread("t", "t"), "'t'", error=InputError)
    refused("unknown-thread", lambda: runtime.copy_thread("nobody", "new"), "'nobody'", error=InputError)
    refused("bad-thread", lambda: runtime.copy_thread("t", ""), "empty", error=InputError)
    claim = world.store.claim("empty", create=True, lease_s=60, at=1.0)  # it has an owner, and no entry yet
    refused("unknown-thread", lambda: runtime.copy_thread("empty", "new"), "'empty'", error=InputError)
    refused("thread-exists", lambda: runtime.copy_thread("t", "empty"), "'empty'", error=InputError)
    world.store.release(claim)
    assert [info.thread for info in runtime.threads()] == ["t"]


def test_copy_and_delete_of_a_thread_that_is_driven(world):
    runtime = world.runtime(line(("a", note("a")), ("b", note("b"))))
    steps = runtime.steps({"notes": []}, thread="t")
    next(steps)

    refused("conflict", lambda: runtime.delete_thread("t"), "'t'", error=ConflictError)
    refused("conflict", lambda: runtime.prune("t"), "'t'", error=ConflictError)
    refused("conflict", lambda: runtime.update("t", {"notes": ["x"]}), "'t'", error=ConflictError)
    refused("conflict", lambda: runtime.run({"notes": []}, thread="t"), "'t'", error=ConflictError)
    refused("conflict", lambda: runtime.resume("t"), "'t'", error=ConflictError)
    refused("conflict", lambda: runtime.retry("t"), "'t'", error=ConflictError)
    runtime.copy_thread("t", "copy")
    list(steps)
    assert runtime.state("t").values["notes"] == ["a", "b"]
    assert finish(runtime, "copy")["notes"] == ["a", "b"]


def test_async_twins_fork_and_copy(world):
    runtime = world.runtime(line(("a", note("a")), ("b", note("b"))))

    async def go():
        await runtime.arun({"notes": []}, thread="t")
        fork = await runtime.afork("t", at=3, to="f")
        copied = await runtime.acopy_thread("t", "c")
        await runtime.aretry(fork)
        await runtime.adelete_thread(copied)
        return await runtime.astate(fork), await runtime.adiff("t", fork)

    state, diff = asyncio.run(go())
    assert state.values["notes"] == ["a", "b"]
    assert diff is None
    assert [info.thread for info in runtime.threads()] == ["t", "f"]


@pytest.mark.parametrize("policy", [{}, {"interrupt_before": True, "interrupt_after": True}], ids=["plain", "asks"])
@pytest.mark.parametrize("depth", [1, 2])
def test_fork_restarts_a_nested_graph_that_committed_between_its_questions(lite, policy, depth):
    """Its commits are not in the journal yet: in the fork it restarts, and answered questions are not asked again."""
    graph = line(("p", ask("p")), ("n", note("n")), ("q", ask("q")), name="inner")
    for level in range(depth):
        graph = line(("in", graph), ("last", note("last")), name=f"outer{level}", **{"in": policy})
    runtime = lite.runtime(graph)
    runtime.run({"notes": []}, thread="t")
    end = finish(runtime, "t")
    entries = list(runtime.entries("t"))
    assert end["notes"] == ["p=yes", "n", "q=yes", *["last"] * depth]

    for entry in entries:
        fork = runtime.fork("t", at=entry.seq)
        stood, stands = runtime.state("t", at=entry.seq), runtime.state(fork)
        assert (stands.status, stands.next, local(stands.interrupts)) == (
            stood.status,
            stood.next,
            local(stood.interrupts),
        )
        assert finish(lite.runtime(graph), fork) == end
        given = [one.event.id.split("/", 1)[1] for one in runtime.entries(fork) if isinstance(one.event, Answered)]
        assert len(set(given)) == len(given), "no answer was asked for twice"
        runtime.replay(fork)


def test_fork_with_an_open_question_reports_the_end_of_a_nested_graph_that_has_ended(world):
    runtime = world.runtime(fan(("in", line(("a", note("a")), name="inner")), ("q", ask("q"))))
    runtime.run({"notes": []}, thread="t")
    runtime.fork("t", to="fork")
    runtime.fork("fork", to="again")

    told = []
    for thread in ("t", "fork", "again"):
        runtime.resume(thread, "yes")
        told.append(kinds(entry for entry in runtime.entries(thread) if entry.path))

    assert told[0][-1] == "run-completed"
    assert told[1] == told[2] == told[0]


@pytest.mark.parametrize("earlier", [False, True], ids=["now", "earlier"])
def test_fork_of_a_failed_thread_has_all_attempts_again(world, earlier):
    fails = Fails()
    policy = {"n": {"retry": RetryPolicy(2, wait_initial_s=0)}}
    runtime = world.runtime(line(("n", fails), **policy))
    for drive in (lambda: runtime.run({"notes": []}, thread="t"), lambda: runtime.retry("t")):
        with pytest.raises(NodeError):
            drive()
    at = runtime.state("t").seq if earlier else None
    if earlier:
        runtime.update("t", {"x": "later"})

    runtime.fork("t", at=at, to="fork")
    with pytest.raises(NodeError, match="after 2 attempts"):
        runtime.retry("fork")

    assert fails.calls == 6
    assert kinds(runtime.entries("fork")).count("task-retried") == 1
    fails.broken = False
    assert runtime.retry("fork").state["notes"] == ["mended"]


class Draft(TypedDict):
    text: str
    notes: Annotated[list[str], append]


@pytest.mark.parametrize("earlier", [False, True], ids=["now", "earlier"])
def test_fork_of_a_state_whose_required_key_a_node_deleted(world, earlier):
    """A key without a default is then absent, though the class requires it: no older graph wrote this."""
    runtime = world.runtime(line(("drop", lambda s: {"text": DELETE}), ("q", ask("q")), state=Draft))
    runtime.run({"text": "long", "notes": []}, thread="t")
    at = runtime.state("t").seq
    if earlier:
        runtime.resume("t", "no")

    runtime.fork("t", at=at, to="fork")

    assert runtime.state("fork").values == runtime.state("t", at=at).values == {"notes": []}
    assert runtime.resume("fork", "yes").state == {"notes": ["q=yes"]}
    runtime.replay("fork")


def test_migration_after_deleted_keys_does_not_hide_older_graphs(world):
    old = line(("q", ask("q")), name="g")
    world.runtime(old).run({"notes": []}, thread="t")
    before = world.runtime(old).state("t").seq
    new = line(("q", lambda s, ctx: {"text": DELETE, "notes": [ctx.interrupt({"q": "q"})]}), state=Draft, name="g")
    came = Migration(source=old.fingerprint, values=lambda v: {"text": "new", "notes": v["notes"]})
    runtime = world.runtime(new, migrations=came)
    runtime.resume("t", "yes")

    refused("graph-changed", lambda: runtime.fork("t", at=before), f"Entry {before}", error=InputError)
    assert runtime.state(runtime.fork("t", at=runtime.state("t").seq)).values == {"notes": ["yes"]}


def test_fork_inside_a_nested_graph_warns_that_it_restarts(lite, caplog):
    inner = line(("n", note("n")), ("q", ask("q")), name="inner")
    runtime = lite.runtime(line(("in", inner), ("last", note("last")), name="outer"))
    runtime.run({"notes": []}, thread="t")
    finish(runtime, "t")
    inside = [entry.seq for entry in runtime.entries("t") if entry.path]
    outside = [entry.seq for entry in runtime.entries("t") if not entry.path]

    runtime.fork("t", at=outside[0])
    runtime.fork("t")

    assert caplog.records == []

    runtime.fork("t", at=inside[0], to="f")

    (record,) = caplog.records
    assert "in the fork 'f', that graph begins again" in record.getMessage()


def test_document_of_an_entry_has_the_time_and_thread_of_the_entry(world):
    """The event of a fork has a field `at` of its own, and that of a child a field `thread`."""
    runtime = world.runtime(line(("a", note("a"))))
    runtime.run({"notes": []}, thread="t")
    runtime.fork("t", at=3, to="f")
    (entry, *_) = runtime.entries("f")

    for document in (entry.to_dict(), plain_data.entry(entry)):
        assert (document["thread"], document["at"], document["event_at"]) == ("f", entry.at, 3)
