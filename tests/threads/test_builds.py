"""Which build may drive a thread with pending work (rule R14): not an older one, unless a person allows it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from graphrt import GraphBuilder
from graphrt.errors import DefinitionError, InputError
from graphrt.migrations import Migration
from graphrt.nodes import registry_of
from graphrt.workers import Worker

from .support import State, ask, builder, line, note, refused


def first(version: int = 0) -> Any:
    """The previous build."""
    return line(("q", ask("q")), ("end", note("end")), version=version)


def second(version: int = 0) -> Any:
    """The next build, with one more node before the end."""
    return line(("q", ask("q")), ("check", note("checked")), ("end", note("end")), version=version)


def paused(world: Any, graph: Any, thread: str = "t") -> None:
    assert world.runtime(graph).run({"notes": []}, thread=thread).status == "interrupted"


OLDER = [
    pytest.param(second(), first(), "has nodes 'check', which this build lacks", id="it lacks a node"),
    pytest.param(first(2), first(1), "version 2 drove it last, this is version 1", id="its version is lower"),
    pytest.param(first(2), second(1), "version 2 drove it last, this is version 1", id="lower, and it has more nodes"),
]


def test_older_build_that_cannot_read_a_thread_is_not_told_to_allow_it(world):
    """With a field gone, `allow_older=True` and `adopt` are refused too, so the error does not advise them."""

    class More(State, total=False):
        z: int

    paused(world, line(("q", ask("q")), ("end", note("end")), state=More, version=2))
    runtime = world.runtime(first(1))

    for call in (
        lambda: runtime.state("t"),
        lambda: runtime.resume("t", "yes"),
        lambda: runtime.resume("t", "yes", allow_older=True),
        lambda: runtime.adopt("t"),
    ):
        error = refused("older-build", call, "field 'z' is gone", "Drive it with the newer build", error=InputError)
        assert "allow" not in str(error)


@pytest.mark.parametrize(("newer", "older", "why"), OLDER)
def test_older_build_can_read_a_thread_with_pending_work_but_not_drive_it(world, newer, older, why):
    paused(world, newer)
    runtime = world.runtime(older)
    before = list(runtime.entries("t"))

    assert runtime.state("t").status == "interrupted"
    assert [(one.ok, why in one.waits_for) for one in runtime.check_threads()] == [(False, True)]
    for call in (
        lambda: runtime.resume("t", "yes"),
        lambda: runtime.start(thread="t", answers="yes"),
        lambda: list(runtime.stream(thread="t", answers="yes")),
        lambda: asyncio.run(runtime.aresume("t", "yes")),
        lambda: runtime.update("t", {"n": 1}),
    ):
        refused("older-build", call, why, older.fingerprint[:12], newer.fingerprint[:12], error=InputError)
    assert list(runtime.entries("t")) == before
    assert "end" in world.runtime(newer).resume("t", "yes").state["notes"]


@pytest.mark.parametrize(("newer", "older", "why"), OLDER)
def test_thread_belongs_to_the_older_build_with_which_a_person_continues_it(world, newer, older, why):
    paused(world, newer)
    runtime = world.runtime(older)

    assert runtime.update("t", {"n": 1}, allow_older=True).status == "interrupted"
    assert [one.ok for one in runtime.check_threads()] == [True], why
    assert "end" in runtime.resume("t", "yes").state["notes"]


def test_verbs_take_a_thread_with_an_older_build_if_asked(world):
    older = first()
    for at, go_on in enumerate(
        (
            lambda runtime, thread: runtime.resume(thread, "yes", allow_older=True),
            lambda runtime, thread: list(runtime.steps(thread=thread, answers="yes", allow_older=True)),
            lambda runtime, thread: list(runtime.stream(thread=thread, answers="yes", allow_older=True)),
            lambda runtime, thread: asyncio.run(runtime.aresume(thread, "yes", allow_older=True)),
            lambda runtime, thread: (
                runtime.start(thread=thread, answers="yes", allow_older=True),
                runtime.drive(thread),
            ),
        )
    ):
        paused(world, second(), f"t{at}")
        runtime = world.runtime(older)
        go_on(runtime, f"t{at}")
        assert runtime.state(f"t{at}").values["notes"] == ["q=yes", "end"]


def test_finished_threads_alternate_between_builds(world):
    notes = ["q=yes", "checked", "end", "q=yes", "end", "q=yes", "checked", "end"]
    for graph in (second(1), first(), second(1)):
        runtime = world.runtime(graph)
        runtime.run({}, thread="t")
        runtime.resume("t", "yes")

    assert runtime.state("t").values["notes"] == notes


def test_migration_or_higher_version_decides_which_build_is_newer(world):
    paused(world, second(), "migrated")
    paused(world, second(), "numbered")
    back = Migration(source=second().fingerprint, name="back")

    assert world.runtime(first(), migrations=[back]).resume("migrated", "yes").state["notes"] == ["q=yes", "end"]
    assert world.runtime(first(1)).resume("numbered", "yes").state["notes"] == ["q=yes", "end"]


def test_a_build_that_lacks_a_node_of_a_nested_graph_is_older(world):
    def outer(*names: str) -> Any:
        inner = line(*((name, note(name)) for name in names), name="inner")
        return line(("q", ask("q")), ("sub", inner))

    paused(world, outer("one", "two"))

    refused("older-build", lambda: world.runtime(outer("one")).resume("t", "yes"), "in its node 'sub'", "'two'")


def test_run_that_a_newer_build_left_to_workers_waits_for_a_worker_of_that_build(world):
    thread = world.runtime(second()).start({"notes": []})

    refused("older-build", lambda: world.runtime(first()).drive(thread), error=InputError)
    assert world.runtime(second()).drive(thread).status == "interrupted"


def test_worker_of_an_older_build_leaves_the_thread_and_its_mail_and_logs_it_once(world, caplog):
    newer = line(("r", lambda state, ctx: {"notes": [ctx.receive("go")]}), ("check", note("checked")))
    older = line(("r", lambda state, ctx: {"notes": [ctx.receive("go")]}))
    threads = [f"t{n}" for n in range(3)]
    for thread in threads:
        world.runtime(newer).run({"notes": []}, thread=thread)
        world.runtime(newer).signal(thread, "go", "now")
    runtime = world.runtime(older, clock=None)

    with caplog.at_level("WARNING", "graphrt.workers"), Worker(runtime, poll_s=0.01) as worker:
        while len(worker.health().refused) < 3:
            pass

    lines = [one.getMessage() for one in caplog.records if one.name == "graphrt.workers"]
    assert len([one for one in lines if "waits for a newer build" in one]) == 1
    for thread in threads:
        assert world.runtime(newer).drive(thread).state["notes"] == ["now", "checked"]


def test_release_that_was_rolled_back_adopts_its_threads(world):
    paused(world, second())
    runtime = world.runtime(first())

    assert runtime.adopt("t")
    assert not runtime.adopt("t")
    assert runtime.entries("t")
    assert [type(one.event).__name__ for one in runtime.entries("t")][-1] == "ThreadMigrated"
    assert runtime.state("t").status == "interrupted"
    assert not runtime.state("t").interrupts[0].stale
    assert runtime.resume("t", "yes").state["notes"] == ["q=yes", "end"]
    assert runtime.replay("t").status == "completed"


def test_a_thread_of_a_higher_version_of_the_same_graph_can_be_adopted(world):
    paused(world, first(2))
    runtime = world.runtime(first(1))

    assert runtime.adopt("t")
    assert runtime.resume("t", "yes").state["notes"] == ["q=yes", "end"]


def test_version_is_not_part_of_the_fingerprint_and_is_kept_by_copies_and_manifests():
    graph = first(3)
    read = GraphBuilder.from_spec(graph.to_spec().to_json(), registry_of(graph)).compile()

    assert (graph.version, graph.fingerprint) == (3, first().fingerprint)
    assert graph.with_nodes({"end": note("other")}).version == 3
    assert read.version == 3


@pytest.mark.parametrize("version", [-1, True, "2", 1.5, None])
def test_version_that_is_not_a_number_is_a_finding(version: Any):
    made = builder(version=version)
    made.add_node("a", note("a")).set_entry("a")

    with pytest.raises(DefinitionError) as caught:
        made.compile()
    assert [one.code for one in caught.value.problems] == ["bad-limit"]
    assert "an int from 0" in (caught.value.problems[0].hint or "")
