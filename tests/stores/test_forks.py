"""A process forks while another of its threads is inside: the child works, and the parent is not disturbed.

Each test really forks, in a process of its own. The other thread stands still at a known place, inside a lock; it may go
on once the fork is on its way, and never in the child, which does not have it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.stores import postgres_support

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

PRELUDE = """
import asyncio  # nobody saves a child of a process that is loading it: it is the interpreter's
import os, signal, sys, threading, traceback, warnings
from typing import Annotated

from pydantic import BaseModel

from graphrt import START, GraphBuilder, Runtime
from graphrt.errors import ConflictError
from graphrt.reducers import append
from graphrt.stores import open_store
from graphrt.stores.protocol import Commit, Record

warnings.simplefilter("ignore", DeprecationWarning)  # newer interpreters warn of what is tried here


class State(BaseModel):
    log: Annotated[list[str], append] = []


async def later(state):
    return {"log": ["later"]}


g = GraphBuilder(State, name="forked")
g.add_node("one", lambda state: {"log": ["one"]})
g.add_node("later", later)
g.add_sequence([START, "one", "later"])
graph = g.compile()

inside, go_on = threading.Event(), threading.Event()


def held(entered=None):
    inside.set()
    go_on.wait()
    return "held"


def forked(child, *, leave=True):
    '''Fork while the other thread is inside, which then may leave; how the child ended.'''
    if leave:
        os.register_at_fork(before=go_on.set)  # hooks that came last are called first
    assert inside.wait(60)
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    signal.alarm(30)  # a child that hangs is ended
    try:
        child()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


class Held(tuple):
    '''Records that stop whoever iterates over them.'''

    def __iter__(self):
        held()
        return super().__iter__()


"""


def script(code: str, *arguments: object) -> str:
    """What the process printed; it ended well."""
    path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.fixture
def server(request):
    yield from postgres_support.fresh(request.config)


@pytest.fixture(params=["memory", "sqlite", "encrypted"])
def url(request, tmp_path):
    if request.param == "encrypted":
        pytest.importorskip("cryptography")
    return {"memory": "memory:"}.get(request.param, f"sqlite:///{tmp_path}/runs.db"), request.param == "encrypted"


OPEN = """
    store = open_store(sys.argv[1])
    if sys.argv[2] == "True":
        from graphrt.stores import EncryptedStore
        store = EncryptedStore(store, {"k": bytes(range(32))})
    runtime = Runtime(graph, store=store)
"""


def test_fork_while_another_thread_commits(url):
    """The thread is inside the store's lock, in the middle of a commit."""
    said = script(
        f"""{OPEN}
    runtime.run({{}}, thread="before")
    claim = store.claim("t", create=True, lease_s=600, at=1.0)

    def work():
        store.commit(claim, Commit(0, 1.0, Held([Record(1, 1, b"x")])))

    worker = threading.Thread(target=work)
    worker.start()

    def child():
        assert [one.thread for one in runtime.threads()][:1] == ["before"]
        assert runtime.run({{}}, thread="of-the-child").status == "completed"
        try:
            store.commit(claim, Commit(1, 1.0, [Record(2, 1, b"child")]))
            raise AssertionError("the claim is the parent's")
        except ConflictError:
            pass
        runtime.close()

    print(forked(child))
    worker.join()
    store.commit(claim, Commit(1, 1.0, [Record(2, 1, b"parent")]))
    print([record.body for record in store.records("t")], store.head("t").owned)
    print(runtime.run({{}}, thread="after").state.log)
    """,
        *url,
    )

    assert said.splitlines() == ["0", "[b'x', b'parent'] True", "['one', 'later']"]


@pytest.mark.parametrize(
    "lock",
    [
        "graphrt._drivers.run_services:_lock",
        "graphrt._agents.of_run:_lock",
        "graphrt._journal.leases:_RENEWERS._lock",
        "graphrt._journal.mail_watch:_WATCHES._lock",
        "graphrt.stores.encrypted:EncryptedStore._lock",
        "graphrt._drivers.shared_threads:_making",
        "graphrt.harness:TokenTracker._lock",
    ],
)
def test_fork_while_another_thread_holds_a_lock_of_ours(tmp_path, lock):
    """Whatever lock another thread was in, the child's run needs it and gets it."""
    if "encrypted" in lock:
        pytest.importorskip("cryptography")
    said = script(
        f"""{OPEN}
    from importlib import import_module
    from graphrt.harness import TokenTracker

    tracker = TokenTracker()
    runtime = Runtime(graph, store=store, sinks=[tracker])
    with runtime:
        runtime.run({{}}, thread="before")
        module, name = sys.argv[3].split(":")
        owner = import_module(module)
        if "." in name:
            of, name = name.split(".")
            owner = {{"TokenTracker": tracker, "EncryptedStore": store}}.get(of) or getattr(owner, of)

        def work():
            with getattr(owner, name):
                held()

        worker = threading.Thread(target=work)
        worker.start()
        print(forked(lambda: runtime.run({{"log": ["x" * 100_000]}}, thread="of-the-child")))
        worker.join()
        print(runtime.run({{}}, thread="after").state.log)
    """,
        f"sqlite:///{tmp_path}/runs.db",
        "encrypted" in lock,
        lock,
    )

    assert said.splitlines() == ["0", "['one', 'later']"]


def test_fork_while_an_id_of_a_run_is_made(url):
    """A thread that waits for the system, for random bytes say, while it makes something that all runs share."""
    said = script(
        f"""{OPEN}
    runtime = Runtime(graph, store=store, ids=lambda: held() if threading.current_thread().name == "other" else "id")
    worker = threading.Thread(target=lambda: runtime.run({{}}, thread="t"), name="other")
    worker.start()
    print(forked(lambda: runtime.run({{}}, thread="of-the-child")))
    worker.join()
    print(runtime.state("t").status)
    """,
        *url,
    )

    assert said.splitlines() == ["0", "completed"]


def test_fork_while_a_module_is_loaded_that_runs_load_when_they_need_it(url):
    """A module that a thread is importing is locked, and stays so in a child that does not have the thread."""
    said = script(
        f"""{OPEN}
    class Slow:
        @staticmethod
        def find_spec(name, path, target=None):
            if name == "graphrt._drivers.loop_thread":
                sys.meta_path.remove(Slow)
                held()

    sys.meta_path.insert(0, Slow)
    runtime = Runtime(graph, store=store)
    worker = threading.Thread(target=lambda: runtime.run({{}}, thread="t"))
    worker.start()
    print(forked(lambda: runtime.run({{}}, thread="of-the-child")))
    worker.join()
    print(runtime.state("t").status)
    """,
        *url,
    )

    assert said.splitlines() == ["0", "completed"]


@pytest.mark.parametrize("package", ["_agents", "_drivers", "_runs"])
def test_fork_waits_for_every_module_that_another_thread_may_be_importing(package):
    """Two threads that import each other's modules do not wait for one another: so each module is imported by itself."""
    said = script(
        """
    from importlib import import_module
    from pkgutil import iter_modules

    if os.fork() == 0:
        os._exit(0)
    os.wait()
    package = import_module(f"graphrt.{sys.argv[1]}")
    print([one.name for one in iter_modules(package.__path__, package.__name__ + ".") if one.name not in sys.modules])
    """,
        package,
    )

    assert said == "[]"


def test_child_goes_on_with_a_copy_of_what_a_memory_store_has():
    """What a run of the parent holds is free there: its owner is not in this process."""
    said = script(
        """
    store = open_store("memory:")
    runtime = Runtime(graph, store=store, ids=lambda: "id")
    claim = store.claim("t", create=True, lease_s=600, at=1.0)
    store.commit(claim, Commit(0, 1.0, [Record(1, 1, b"x")], status="running"))
    store.claim("empty", create=True, lease_s=600, at=1.0)
    inside.set()

    def child():
        assert not store.head("t").owned
        own = store.claim("t", create=False, lease_s=600, at=1.0)
        store.commit(own, Commit(1, 1.0, [Record(2, 1, b"child")]))
        store.claim("empty", create=True, lease_s=600, at=1.0)

    print(forked(child))
    print(store.head("t").seq, store.head("t").owned)
    """
    )

    assert said.splitlines() == ["0", "1 True"]


def test_runtime_of_a_child_drives_nothing_of_the_parent(tmp_path):
    """What the parent drives is cancelled there as from any other process, and closing the runtime closes its store."""
    said = script(
        """
    def waits(state):
        held()
        return {}

    slow = GraphBuilder(State, name="slow").add_node("waits", waits).add_edge(START, "waits").compile()
    runtime = Runtime(slow, store=sys.argv[1])
    worker = threading.Thread(target=lambda: runtime.run({}, thread="t"))
    worker.start()

    def child():
        assert runtime.state("t").status == "running"  # the parent holds it
        assert runtime.cancel("t")  # a letter to the parent
        runtime.close()
        assert "closed" in repr(runtime.store)

    print(forked(child, leave=False))
    go_on.set()
    worker.join()
    print(runtime.state("t").status in ("cancelled", "completed"))  # whichever came first, the letter or the end
    """,
        f"sqlite:///{tmp_path}/runs.db",
    )

    assert said.splitlines() == ["0", "True"]


def test_server_that_loads_the_application_before_it_forks(tmp_path):
    """As `gunicorn --preload` does: the store is opened, used, and inherited by workers, while the parent goes on."""
    said = script(
        """
    import sqlite3
    path = sys.argv[1]
    runtime = Runtime(graph, store=f"sqlite:///{path}")
    runtime.run({}, thread="warm-up")
    stop = threading.Event()

    def parent():
        n = 0
        while not stop.is_set():
            runtime.run({}, thread=f"parent-{n}")
            n += 1

    worker = threading.Thread(target=parent)
    worker.start()
    children = []
    for n in range(3):
        pid = os.fork()
        if not pid:
            signal.alarm(60)
            code = 1
            try:
                threads = [
                    threading.Thread(target=lambda m=m: runtime.run({}, thread=f"child-{n}-{m}")) for m in range(4)
                ]
                for one in threads:
                    one.start()
                for one in threads:
                    one.join()
                runtime.close()
                code = 0
            except BaseException:
                traceback.print_exc()
            os._exit(code)
        children.append(pid)
    print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children])
    stop.set()
    worker.join()
    print(len(runtime.threads(prefix="child-", status="completed")), {one.status for one in runtime.threads()})
    runtime.close()
    print(sqlite3.connect(path).execute("PRAGMA integrity_check").fetchall())
    """,
        tmp_path / "runs.db",
    )

    assert said.splitlines() == ["[0, 0, 0]", "12 {'completed'}", "[('ok',)]"]


@pytest.mark.needs("psycopg")
def test_fork_while_another_thread_waits_for_a_postgresql_server(server):
    """It has a connection of the pool, and the lock of the pool; the child leaves both alone."""
    said = script(
        """
    store = open_store(sys.argv[1])
    runtime = Runtime(graph, store=store)
    runtime.run({}, thread="before")

    def work():
        with store._link.lend(), store._link._lock, store._owner._lock:
            held()

    worker = threading.Thread(target=work)
    worker.start()
    print(forked(lambda: runtime.run({}, thread="of-the-child")))
    worker.join()
    print(runtime.run({}, thread="after").state.log, len(runtime.threads()))
    store.close()
    """,
        server,
    )

    assert said.splitlines() == ["0", "['one', 'later'] 3"]
