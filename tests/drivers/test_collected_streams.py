"""Streams that were dropped, and that the garbage collector ends wherever it interrupts a thread."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

import pytest
from tests.stores import postgres_server
from tests.testing.warm_python import warm_python

PRELUDE = """
import gc
from typing import Annotated, TypedDict

from graphrt import START, GraphBuilder, Runtime
from graphrt.reducers import append


class State(TypedDict, total=False):
    notes: Annotated[list[str], append]


g = GraphBuilder(State)
for name in "abc":
    g.add_node(name, lambda s: {"notes": ["n"]})
"""


def ran(code: str) -> subprocess.CompletedProcess[str]:
    """The output of a program that ended within a minute."""
    return warm_python().run(["-c", PRELUDE + textwrap.dedent(code)], timeout_s=60)


@pytest.mark.parametrize(
    ("way", "inside"),
    [
        ("sync", "read"),
        ("async", "write"),
        pytest.param("sync", "write", marks=pytest.mark.full),
        pytest.param("async", "read", marks=pytest.mark.full),
    ],
)
def test_stream_collected_inside_another_call_has_no_effect_on_it(way: str, inside: str, tmp_path: Path) -> None:
    """The collector may interrupt any thread: here one in the middle of a transaction on the same file."""
    code = f"""
        import asyncio
        from graphrt.stores.sqlite import _database

        graph = g.add_sequence(["a", "b", "c"]).set_entry("a").compile()
        runtime = Runtime(graph, store={f"sqlite:///{tmp_path / 'runs.db'}"!r})
        runtime.run({{}}, thread="other")
        gc.disable()

        def drop(stream):
            box = [stream]
            box.append(box)

        async def first():
            stream = runtime.asteps({{}}, thread="t")
            async for _ in stream:
                drop(stream)
                break

        if {way!r} == "sync":
            stream = runtime.steps({{}}, thread="t")
            next(stream)
            drop(stream)
            del stream
        else:
            asyncio.run(first())

        name = "_read_once" if {inside!r} == "read" else "write"
        real = getattr(_database.Database, name)

        def interrupted(self, asked):  # a function that reads, or a job that writes
            setattr(_database.Database, name, real)
            work = asked if name == "_read_once" else asked.work
            collected = lambda db: [work(db), gc.collect()][0]
            if name != "_read_once":
                asked.work = collected
            return real(self, collected if name == "_read_once" else asked)

        setattr(_database.Database, name, interrupted)
        if {inside!r} == "read":
            print(runtime.state("other").values["notes"])
        else:
            print(runtime.run({{}}, thread="new").state["notes"])
        assert getattr(_database.Database, name) is real, "the collector interrupted it"
        print(runtime.retry("t").state["notes"])
        print(runtime.store.verify().findings)
    """
    done = ran(code)

    assert done.stdout == "['n', 'n', 'n']\n['n', 'n', 'n']\n()\n", done.stderr
    if way == "sync":  # Python has no other way to report an error in a generator that it closes
        assert "errors store-busy" in done.stderr


def test_stream_collected_while_a_worker_thread_gets_a_task_has_no_effect_on_it() -> None:
    """Both runs have parallel tasks, and share the worker threads of their runtime."""
    code = """
        from graphrt._drivers.thread_pool import ThreadPool

        g.add_edge(START, "a").add_edge(START, "b").add_join(["a", "b"], "c")
        runtime = Runtime(g.compile(), store="memory:")
        gc.disable()
        stream = runtime.steps({}, thread="t")
        next(stream)
        box = [stream]
        box.append(box)
        del stream, box
        real, found = ThreadPool._another, []

        def interrupted(self):  # it is called with the lock of the pool
            ThreadPool._another = real
            found.append(gc.collect())
            real(self)

        ThreadPool._another = interrupted
        print(runtime.run({}).state["notes"], found != [])
        print(runtime.state("t").status)
    """
    done = ran(code)

    assert (done.stdout, done.stderr) == ("['n', 'n', 'n'] True\ncancelled\n", "")


@pytest.mark.needs("psycopg")
def test_stream_collected_before_a_commit_to_postgresql_has_no_effect_on_it(
    request: pytest.FixtureRequest,
) -> None:
    url = postgres_server.fresh_url(request.config)
    request.addfinalizer(lambda: postgres_server.drop(url))
    code = f"""
        from graphrt.stores.postgres import _claims

        runtime = Runtime(g.add_sequence(["a", "b", "c"]).set_entry("a").compile(), store={url!r})
        runtime.run({{}}, thread="other")
        gc.disable()
        stream = runtime.steps({{}}, thread="t")
        next(stream)
        box = [stream]
        box.append(box)
        del stream, box
        alive = _claims.alive

        def interrupted(connection):
            _claims.alive = alive
            assert gc.collect()
            return alive(connection)

        _claims.alive = interrupted
        print(runtime.run({{}}, thread="new").state["notes"], _claims.alive is alive)
        print(runtime.state("t").status)
        runtime.close()
    """
    done = ran(code)

    assert (done.stdout, done.stderr) == ("['n', 'n', 'n'] True\ncancelled\n", "")
