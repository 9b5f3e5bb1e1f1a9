"""Titles and tags: set when a thread starts, changed later, journalled, listed, and used as filters."""

from __future__ import annotations

import asyncio

import pytest

from graphrt import Runtime, events
from graphrt.errors import ConflictError, InputError
from graphrt.stores import MemoryStore

from .support import ask, line, note

GRAPH = line(("a", note("a")), ("b", ask("ok?")))
PLAIN = line(("a", note("a")))


def refused(code, call):
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.code == code
    assert caught.value.fix
    return caught.value


def shown(runtime, thread="t"):
    info = next(one for one in runtime.threads() if one.thread == thread)
    state = runtime.state(thread)
    assert (info.title, info.tags, info.tenant) == (state.title, state.tags, state.tenant)
    return info.title, sorted(info.tags)


def labelled(runtime, thread="t"):
    return [e.event for e in runtime.entries(thread) if isinstance(e.event, events.ThreadLabelled)]


def test_thread_starts_with_labels_in_its_journal(world):
    runtime = world.runtime(GRAPH)
    runtime.run({}, thread="t", title="An order", tags={"urgent", "blue"})

    assert shown(runtime) == ("An order", ["blue", "urgent"])
    (event,) = labelled(runtime)
    assert (event.title, event.tags) == ("An order", ("blue", "urgent"))


def test_every_verb_that_takes_an_input_takes_labels(world):
    runtime = world.runtime(PLAIN)

    async def begin():
        await runtime.arun({}, thread="1", title="one", tags=["x"])
        async with runtime.asteps({}, thread="2", title="two", tags=["x"]) as stream:
            _ = [step async for step in stream]
        async with runtime.astream({}, thread="3", title="three", tags=["x"]) as stream:
            _ = [item async for item in stream]

    asyncio.run(begin())
    list(runtime.steps({}, thread="4", title="four", tags=["x"]))
    list(runtime.stream({}, thread="5", title="five", tags=["x"]))

    assert [one.title for one in runtime.threads(tags=["x"])] == ["one", "two", "three", "four", "five"]


def test_thread_without_labels_has_no_entry_for_them(world):
    runtime = world.runtime(PLAIN)
    runtime.run({}, thread="t")

    assert shown(runtime) == (None, [])
    assert labelled(runtime) == []


def test_a_new_input_adds_tags_and_replaces_the_title(world):
    runtime = world.runtime(PLAIN)
    runtime.run({}, thread="t", title="one", tags={"x"})
    runtime.run({}, thread="t", tags={"x"})
    assert len(labelled(runtime)) == 1
    runtime.run({}, thread="t", title="two", tags={"y"})

    assert shown(runtime) == ("two", ["x", "y"])
    assert len(labelled(runtime)) == 2


def test_labels_are_changed_later(world):
    runtime = world.runtime(GRAPH)
    runtime.run({}, thread="t", title="one", tags={"x", "y"})
    before = runtime.state("t")

    runtime.label("t", add_tags={"z"}, remove_tags={"x", "never had"})
    assert shown(runtime) == ("one", ["y", "z"])
    runtime.label("t", title="two")
    assert shown(runtime) == ("two", ["y", "z"])
    asyncio.run(runtime.alabel("t", title=None, remove_tags=["y", "z"]))
    assert shown(runtime) == (None, [])
    assert [one.thread for one in runtime.threads(tags={"x"})] == []

    after = runtime.state("t")
    assert (after.status, after.values, after.next) == (before.status, before.values, before.next)
    assert after.interrupts == before.interrupts
    assert runtime.resume("t", answer="yes").status == "completed"
    runtime.replay("t")
    assert runtime.verify().ok


def test_labels_that_do_not_change_write_nothing(world):
    runtime = world.runtime(GRAPH)
    runtime.run({}, thread="t", tags={"x"})
    seq = runtime.state("t").seq

    runtime.label("t", add_tags={"x"}, remove_tags={"y"}, title=None)
    assert runtime.state("t").seq == seq


def test_thread_of_a_live_run_cannot_be_labelled(world):
    runtime = world.runtime(GRAPH)
    runtime.run({}, thread="t")
    claim = world.store.claim("t", create=False, lease_s=60, at=0.0)
    with pytest.raises(ConflictError):
        runtime.label("t", title="no")
    world.store.release(claim)
    runtime.label("t", title="yes")

    assert shown(runtime) == ("yes", [])


def test_audit_log_names_the_user_who_labelled_a_thread(lite):
    from graphrt.audit import AuditLog

    runtime = lite.runtime(GRAPH, audit=AuditLog(user="ann@example.org"))
    runtime.run({}, thread="t", title="one")
    runtime.label("t", title="two")

    assert [event.user for event in labelled(runtime)] == ["ann@example.org"] * 2
    runtime.close()


def test_fork_has_the_tags_and_a_copy_also_the_title(world):
    runtime = world.runtime(GRAPH)
    runtime.run({}, thread="t", title="one", tags={"x"})
    runtime.fork("t", to="forked")
    runtime.fork("t", at=3, to="earlier")
    runtime.copy_thread("t", "copied")

    assert shown(runtime, "forked") == (None, ["x"])
    assert shown(runtime, "earlier") == (None, ["x"])
    assert shown(runtime, "copied") == ("one", ["x"])
    assert runtime.diff("t", "forked") is None
    runtime.resume("forked", answer="yes")
    runtime.replay("forked")


def test_pruning_keeps_the_labels_in_the_journal(world):
    runtime = world.runtime(PLAIN)
    runtime.run({}, thread="t", title="one", tags={"x"})
    runtime.run({}, thread="t")
    assert runtime.prune("t") > 0
    assert runtime.prune("t") == 0 or labelled(runtime)

    assert shown(runtime) == ("one", ["x"])
    assert [(event.title, event.tags) for event in labelled(runtime)][-1] == ("one", ("x",))
    assert runtime.reindex() == 0


def test_exported_thread_has_its_labels_and_questions(durable, tmp_path):
    runtime = durable.runtime(GRAPH)
    runtime.run({}, thread="t", title="Ünlü", tags={"x"})
    runtime.export_thread("t", tmp_path / "t.thread")
    other = Runtime(GRAPH, store=f"sqlite:///{tmp_path}/other.db")
    with other:
        other.import_thread(tmp_path / "t.thread", thread="u")
        assert shown(other, "u") == ("Ünlü", ["x"])
        (item,) = other.inbox()
        (there,) = runtime.inbox()
        assert (item.interrupt.id, item.asked_at) == ("u/2.0:b#0", there.asked_at)
        assert item.interrupt.payload == {"q": "ok?"}
        assert other.resume("u", answer="yes").status == "completed"


def test_threads_are_listed_newest_first_and_in_pages(world):
    runtime = world.runtime(PLAIN)
    for n in range(5):
        runtime.run({}, thread=f"t{n}", title=f"Order {n}", tags={"even"} if n % 2 == 0 else set())

    def ids(**filters):
        return [one.thread for one in runtime.threads(**filters)]

    assert ids(newest_first=True) == ["t4", "t3", "t2", "t1", "t0"]
    assert ids(tags={"even"}, limit=2) == ["t0", "t2"]
    assert ids(tags={"even"}, after="t2") == ["t4"]
    assert ids(title="ORDER", newest_first=True, after="t3", limit=2) == ["t2", "t1"]
    middle = runtime.threads()[2].updated_at
    assert ids(updated_after=middle) == ["t2", "t3", "t4"]
    assert ids(updated_after=middle, updated_before=middle) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"title": ""}, "0 characters"),
        ({"title": "x" * 201}, "201 characters"),
        ({"title": "one\ntwo"}, "\\n"),
        ({"title": "nul\0"}, "\\x00"),
        ({"title": "\ud800"}, "ud800"),
        ({"title": 7}, "int"),
        ({"title": b"bytes"}, "bytes"),
        ({"tags": "urgent"}, "urgent"),
        ({"tags": {""}}, "0 characters"),
        ({"tags": ["x" * 65]}, "65 characters"),
        ({"tags": ["tab\t"]}, "\\t"),
        ({"tags": [None]}, "NoneType"),
        ({"tags": None}, "NoneType"),
        ({"tags": {str(n) for n in range(51)}}, "51 of them"),
        ({"tags": {"x": 1}}, "dict"),
    ],
)
def test_invalid_labels_are_refused(words, told):
    runtime = Runtime(PLAIN, store=MemoryStore())
    error = refused("bad-label", lambda: runtime.run({}, thread="t", **words))

    assert told in error.what
    assert runtime.threads() == ()
    renamed = {"add_tags" if name == "tags" else name: value for name, value in words.items()}
    runtime.run({}, thread="t")
    if renamed != {"title": None}:
        refused("bad-label", lambda: runtime.label("t", **renamed))


def test_a_thread_has_at_most_fifty_tags():
    runtime = Runtime(PLAIN, store=MemoryStore())
    runtime.run({}, thread="t", tags={str(n) for n in range(50)})
    refused("bad-label", lambda: runtime.label("t", add_tags={"one more"}))
    refused("bad-label", lambda: runtime.run({}, thread="t", tags={"one more"}))

    runtime.label("t", add_tags={"one more"}, remove_tags={"0"})
    assert len(runtime.state("t").tags) == 50


def test_labels_need_a_store_and_an_input():
    refused("thread-without-store", lambda: Runtime(PLAIN).run({}, title="one"))
    runtime = Runtime(GRAPH, store=MemoryStore())
    runtime.run({}, thread="t")
    refused("input", lambda: runtime.steps(thread="t", answer="yes", title="one"))
    refused("unknown-thread", lambda: runtime.label("nobody", title="one"))
    assert runtime.state("t").status == "interrupted"


def test_invalid_filters_are_refused():
    runtime = Runtime(PLAIN, store=MemoryStore())
    refused("bad-label", lambda: runtime.threads(tags="urgent"))
    refused("bad-label", lambda: runtime.threads(title=""))
    refused("bad-tenant", lambda: runtime.threads(tenant=""))
    refused("input", lambda: runtime.threads(updated_after="today"))
    refused("unknown-thread", lambda: runtime.threads(newest_first=True, after="nobody"))
