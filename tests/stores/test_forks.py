"""A forked child does not hang: it refuses runtimes that the parent has used, and unused ones work (0171).

Each test forks in a separate process whose other threads drive runs. A hanging child is killed after a timeout.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import urllib.request
from pathlib import Path
from time import monotonic, sleep

import pytest
from tests.stores import postgres_support
from tests.testing.warm_python import warm_python

from graphrt import Runtime
from graphrt.errors import InputError

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

APPLICATION = '''
import asyncio, os, signal, sys, threading, traceback, warnings
from typing import Annotated

from pydantic import BaseModel

from graphrt import START, GraphBuilder, Runtime
from graphrt.errors import GraphrtError
from graphrt.reducers import append
from graphrt.stores.filters import ThreadFilter

warnings.simplefilter("ignore", DeprecationWarning)  # newer interpreters warn of a fork with threads


class State(BaseModel):
    log: Annotated[list[str], append] = []


async def later(state):
    await asyncio.sleep(0)
    return {"log": ["later"]}


g = GraphBuilder(State, name="forked")
g.add_node("one", lambda state: {"log": ["one"]})
g.add_node("two", lambda state: {"log": ["two"]})
g.add_node("later", later)
g.add_edge(START, "one").add_edge(START, "two").add_edge("one", "later")
graph = g.compile()
DONE = ["one", "two", "later"]
URL = os.environ["STORE"]
fresh = Runtime(graph, store=URL)
busy = Runtime(graph, store=URL)
stop, begun = threading.Event(), threading.Barrier(4)


def work(name):
    """Drive runs until the end, from a thread of the parent, with a breath between two."""
    n = 0
    while not stop.wait(0.002):
        busy.run({}, thread=f"{name}-{n}")
        if n == 0:
            begun.wait(60)
        n += 1


def keep_busy():
    workers = [threading.Thread(target=work, args=(f"parent{n}",), daemon=True) for n in range(3)]
    for worker in workers:
        worker.start()
    begun.wait(60)
    return workers


def refused(call):
    """Whether *call* is refused as `forked`."""
    try:
        call()
    except GraphrtError as error:
        return error.code == "forked"
    return False


def forked(child):
    """Call *child* in a forked process, and return how it ended."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    signal.alarm(60)  # ends a child that hangs
    try:
        child()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def end(workers):
    """The threads of the parent, which go on as if nothing had been."""
    stop.set()
    for worker in workers:
        worker.join(60)
    assert {info.status for info in busy.threads(prefix="parent")} == {"completed"}
    busy.close()
'''


@pytest.fixture
def server(request):
    yield from postgres_support.fresh(request.config)


@pytest.fixture(
    params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.needs("psycopg"))],
)
def url(request, tmp_path):
    if request.param == "postgres":
        return request.getfixturevalue("server")
    return {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/runs.db"}[request.param]


@pytest.fixture
def application(tmp_path):
    """The module `application` in its own folder, for import by the programs of a test."""
    folder = tmp_path / "application"
    folder.mkdir()
    (folder / "application.py").write_text(APPLICATION)
    return folder


def environment(application, url):
    path = os.pathsep.join([str(application), *filter(None, sys.path)])
    return {**os.environ, "PYTHONPATH": path, "STORE": url}


def program(application, url, code, errors=""):
    """The output of a program that starts with the application and exits with 0. *errors* may be in its stderr."""
    (application / "program.py").write_text("from application import *\n\n" + textwrap.dedent(code))
    done = warm_python().run([str(application / "program.py")], env=environment(application, url))
    assert done.returncode == 0, done.stderr
    assert not done.stderr or (errors and errors in done.stderr)
    return done.stdout.split("\n")[:-1]


def test_every_verb_of_a_used_runtime_is_refused_in_a_child_at_once(application, url):
    printed = program(
        application,
        url,
        """
        import inspect, io, time
        from graphrt.workers import Worker

        ARGUMENTS = {
            "thread": "parent0-0", "other": "parent0-0", "input": {}, "where": "x", "field": "log", "reason": "",
            "task": "1.0:one", "name": "n", "updates": [({}, "one")], "older_than_s": 0.0, "to": io.BytesIO(),
            "source": io.BytesIO(),
        }

        async def awaited(given):
            return await (given if inspect.isawaitable(given) else anext(given))

        def call(name):
            verb = getattr(busy, name)
            required = [
                each.name
                for each in inspect.signature(verb).parameters.values()
                if each.default is each.empty and each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
            ]
            given = verb(**{name: ARGUMENTS[name] for name in required})
            if inspect.isawaitable(given) or hasattr(given, "__anext__"):
                asyncio.run(awaited(given))

        def child():
            public = [name for name, verb in vars(Runtime).items() if callable(verb) and not name.startswith("_")]
            verbs = [name for name in public if name not in ("close", "with_store", "as_user")]
            begin = time.monotonic()
            assert [name for name in verbs if not refused(lambda: call(name))] == []
            assert refused(lambda: busy.schedules.list() and None)
            assert refused(lambda: busy.store.query(ThreadFilter())) and refused(lambda: busy.store.load("parent0-0"))
            assert refused(busy.__enter__)
            assert refused(Worker(busy).run)
            assert time.monotonic() - begin < 20  # a call that waited for a lock would take the 30 s of a busy database
            busy.close()  # leaves everything to the parent
            busy.store.close()

        workers = keep_busy()
        print(forked(child))
        end(workers)
        """,
    )

    assert printed == ["0"]


@pytest.mark.parametrize("url", ["sqlite", pytest.param("postgres", marks=pytest.mark.needs("psycopg"))], indirect=True)
def test_unused_runtime_works_in_a_child(application, url):
    """Even while the shared locks of all runs of a process are held forever: a child does not wait for a lock of its
    parent.
    """
    printed = program(
        application,
        url,
        """
        from graphrt._agents import run_agents
        from graphrt._drivers import run_services, shared_threads
        from graphrt._journal import leases, mail_watch
        from graphrt._runs import active_run, run_config

        def hold(inside):
            with (
                run_agents._lock, run_services._lock, shared_threads._making, leases._RENEWERS._lock,
                mail_watch._WATCHES._lock, active_run._following, run_config._closing,
            ):
                inside.set()
                threading.Event().wait()

        def child():
            with fresh:
                assert sorted(fresh.run({}, thread="child-1").state.log) == sorted(DONE)
            assert sorted(graph.run({}).state.log) == sorted(DONE)
            assert len(asyncio.run(g.compile().arun({})).state.log) == 3
            with busy.with_store(URL) as other:
                assert other.run({}, thread="child-2").status == "completed"

        workers = keep_busy()
        codes = [forked(child)]
        stop.set()
        for worker in workers:
            worker.join(60)
        inside = threading.Event()
        threading.Thread(target=hold, args=(inside,), daemon=True).start()
        inside.wait(60)
        codes.append(forked(lambda: graph.run({}) and Runtime(graph, store=URL).run({}, thread="child-3")))
        print(codes, flush=True)
        os._exit(0)  # the locks are held
        """,
    )

    assert printed == ["[0, 0]"]


def test_store_url_is_opened_at_the_first_verb(tmp_path):
    from typing import TypedDict

    from graphrt import START, GraphBuilder

    class State(TypedDict):
        n: int

    graph = GraphBuilder(State).add_node("a", lambda state: {"n": 1}).add_edge(START, "a").compile()
    with Runtime(graph, store=f"sqlite:///{tmp_path}/runs.db") as runtime:
        assert runtime.store is not None
        assert list(tmp_path.iterdir()) == []
        runtime.threads()
        assert (tmp_path / "runs.db").exists()

    with pytest.raises(InputError, match="has no option"):
        Runtime(graph, store=f"sqlite:///{tmp_path}/runs.db?speed=5")
    Runtime(graph, store=f"sqlite:///{tmp_path}/none/runs.db").close()  # never used: no error yet


@pytest.mark.parametrize("url", ["memory", "sqlite"], indirect=True)
def test_nodes_streams_and_copies_of_a_run_are_usable_in_a_child(application, url):
    """A child that is forked inside a node is not inside a run; a stream of the parent is refused, and may be dropped."""
    printed = program(
        application,
        url,
        """
        import gc
        from graphrt._ambient import surroundings

        codes, parent = [], os.getpid()

        def inner():
            assert surroundings().__dict__ == {}
            assert len(graph.run({}).state.log) == 3

        def forks(state):
            codes.append(forked(inner))
            return {}

        def copies(state):
            codes.append(os.fork())  # the child returns from the node too, and goes on with a copy of the run
            signal.alarm(0 if os.getpid() == parent else 60)
            return {}

        def waits(state):
            return {}

        b = GraphBuilder(State, name="outer").add_node("forks", forks).add_node("waits", waits)
        outer = b.add_edge(START, "forks").add_edge(START, "waits").compile()
        Runtime(outer, store=URL, sleep=lambda s: None).run({}, thread="outer")

        copied = outer.with_nodes({"forks": copies})
        try:
            Runtime(copied, store=URL).run({}, thread="copied")
        except GraphrtError as error:
            os._exit(error.code != "forked")
        assert os.getpid() == parent
        codes[-1] = os.waitstatus_to_exitcode(os.waitpid(codes[-1], 0)[1])

        read, unread = busy.stream({}, thread="s1", modes="updates"), busy.steps({}, thread="s2")
        live = busy.stream({}, thread="s3", modes="live")
        next(read), next(live)

        def child():
            global read, unread, live
            assert refused(read.__next__) and refused(unread.__next__) and refused(live.__next__)
            read.close()
            read = unread = live = None
            gc.collect()

        codes.append(forked(child))
        for stream in (read, unread, live):
            for _ in stream:
                pass
        print(codes, [busy.state(f"s{n}").status for n in (1, 2, 3)])
        """,
        # If a worker thread runs the node, the error ends it in the child, and the child with it.
        errors="python -m graphrt.errors forked",
    )

    assert printed == ["[0, 0, 0] ['completed', 'completed', 'completed']"]


def test_pools_of_forking_processes_work(application, tmp_path):
    """`multiprocessing` and `ProcessPoolExecutor`, from a program whose threads drive runs, and from a node."""
    printed = program(
        application,
        f"sqlite:///{tmp_path}/runs.db",
        """
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        fork = multiprocessing.get_context("fork")
        own = None

        def begin():
            global own
            signal.alarm(60)
            own = Runtime(graph, store=URL)

        def run(name):
            return len(own.run({}, thread=name).state.log), refused(lambda: busy.state(name))

        def in_node(state):
            with ProcessPoolExecutor(2, mp_context=fork, initializer=begin) as pool:
                return {"log": [str(found) for found in pool.map(run, ["node-1", "node-2"])]}

        outer = GraphBuilder(State, name="outer").add_node("pool", in_node).add_edge(START, "pool").compile()

        workers = keep_busy()
        with fork.Pool(2, begin) as pool:
            print(pool.map(run, ["pool-1", "pool-2", "pool-3"]))
        with ProcessPoolExecutor(2, mp_context=fork, initializer=begin) as pool:
            print(list(pool.map(run, ["executor-1", "executor-2", "executor-3"])))
        print(busy.with_store(URL).store is not busy.store, Runtime(outer, store=URL).run({}, thread="o").state.log)
        end(workers)
        """,
    )

    assert printed == [
        "[(3, True), (3, True), (3, True)]",
        "[(3, True), (3, True), (3, True)]",
        "True ['(3, True)', '(3, True)']",
    ]


@pytest.mark.needs("gunicorn")
def test_gunicorn_may_load_the_application_before_the_fork(application, tmp_path):
    """Workers use a runtime that was created but not used before the fork, while threads of the parent drive runs."""
    (application / "served.py").write_text(
        textwrap.dedent(
            """
            import json
            from application import *

            keep_busy()
            number = 0

            def app(environ, start_response):
                global number
                number += 1
                result = fresh.run({}, thread=f"worker-{os.getpid()}-{number}")
                body = json.dumps([os.getpid(), len(result.state.log), refused(busy.threads)]).encode()
                start_response("200 OK", [("Content-Type", "application/json")])
                return [body]
            """
        )
    )
    command = [sys.executable, "-m", "gunicorn", "--preload", "--workers", "2", "--bind", "127.0.0.1:0", "served:app"]
    with (application / "errors.txt").open("w+") as errors:
        server = subprocess.Popen(
            command, cwd=application, stderr=errors, env=environment(application, f"sqlite:///{tmp_path}/runs.db")
        )
        try:
            address = listening(application / "errors.txt", server)
            answers = [json.loads(urllib.request.urlopen(address, timeout=30).read()) for _ in range(8)]
        finally:
            server.send_signal(signal.SIGTERM)
            code = server.wait(60)

    assert {(number, flag) for _, number, flag in answers} == {(3, True)}
    assert server.pid not in {pid for pid, _, _ in answers}
    assert code == 0


def listening(log: Path, server: subprocess.Popen[bytes]) -> str:
    """The address that gunicorn prints, once both workers have started."""
    until = monotonic() + 60
    while monotonic() < until and server.poll() is None:
        text = log.read_text()
        if text.count("Booting worker") == 2:
            return text.split("Listening at: ")[1].split(" ")[0]
        sleep(0.05)
    raise AssertionError(log.read_text())
