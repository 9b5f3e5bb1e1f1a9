"""A thread that another process has claimed: everything that still works on it gets a ConflictError."""

from __future__ import annotations

import asyncio

import pytest
from tests.threads.support import builder, line, note, refused

from graphrt import END, START, RetryPolicy, Runtime
from graphrt.errors import ConflictError, NodeError
from graphrt.stores import SqliteStore


@pytest.fixture
def store(tmp_path):
    with SqliteStore(tmp_path / "runs.db") as opened:
        yield opened


def taken(store):
    """Another process claims the thread, as if the lease had run out."""
    with store._file.lock:
        store._file.connection().execute("UPDATE thread SET epoch = epoch + 1")


def loses(store, tries, kind="once"):
    """A node whose effect outlasts the lease."""

    def act():
        tries.append("act")
        taken(store)
        return "done"

    def node(state, ctx):
        return {"notes": [ctx.effect("act", act, kind=kind)]}

    return node


def loses_async(store, tries, kind="once"):
    async def act():
        tries.append("act")
        taken(store)
        return "done"

    async def node(state, ctx):
        return {"notes": [await ctx.effect("act", act, kind=kind)]}

    return node


@pytest.mark.parametrize("kind", ["once", "idempotent"])
@pytest.mark.parametrize("make", [loses, loses_async])
@pytest.mark.parametrize("face", ["sync", "async"])
def test_lease_that_is_lost_inside_an_effect_is_a_conflict(store, make, kind, face):
    """Not a failure of the node: it is not retried, and no error handler is called."""
    tries = []
    g = builder()
    g.add_node("act", make(store, tries, kind), retry=RetryPolicy(3, wait_initial_s=0))
    g.add_sequence([START, "act", END])
    runtime = Runtime(g.compile(), store=store)

    def call():
        if face == "sync":
            return runtime.run({"notes": []}, thread="t")
        return asyncio.run(runtime.arun({"notes": []}, thread="t"))

    refused("lost-lease", call, "'t'", error=ConflictError)
    assert tries == ["act"]


@pytest.mark.parametrize("make", [loses, loses_async])
def test_lease_that_is_lost_while_another_task_runs_is_a_conflict(store, make):
    tries = []
    g = builder()
    g.add_node("act", make(store, tries))
    g.add_node("other", note("other"))
    g.add_edge(START, "act").add_edge(START, "other")
    runtime = Runtime(g.compile(), store=store)

    refused("lost-lease", lambda: runtime.run({"notes": []}, thread="t"), error=ConflictError)
    assert tries == ["act"]


def test_conflict_of_another_runtime_inside_a_node_is_a_failure_of_the_node(store):
    """The other thread is the node's business."""
    inner = Runtime(line(("act", loses(store, []))), store=store)

    def outer(state):
        inner.run({"notes": []}, thread="inner")

    runtime = Runtime(line(("outer", outer)), store="memory:")

    with pytest.raises(NodeError) as caught:
        runtime.run({"notes": []}, thread="outer")
    assert isinstance(caught.value.__cause__, ConflictError)
    assert runtime.state("outer").status == "failed"
