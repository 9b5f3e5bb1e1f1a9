"""When a thread or an event loop cannot be created, its caller gets the error, and the next caller gets a new one."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from graphrt import GraphBuilder, Runtime
from graphrt._drivers.loop_thread import LoopThread
from graphrt._journal.leases import LeaseRenewer
from graphrt._journal.mail_watch import MailWatch
from graphrt.errors import NodeError
from graphrt.harness._background_loop import LoopThread as BackgroundLoop

PATIENCE_S = 20.0


class State(BaseModel):
    n: int = 0


class Kept(SimpleNamespace):
    """A store that is never used, and supports weak references."""


def graph(node: Callable[..., Any]) -> Any:
    g = GraphBuilder(State, name="one")
    g.add_node("node", node)
    return g.set_entry("node").compile()


def add(state: State) -> dict[str, int]:
    return {"n": state.n + 1}


async def add_soon(state: State) -> dict[str, int]:
    return {"n": state.n + 1}


def in_time(call: Callable[[], Any]) -> Any:
    """The result or error of *call* in another thread: an endless wait fails the test and not the suite."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(call())
        except BaseException as error:  # noqa: BLE001 - passed to the caller
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert found, "it waits for ever"
    return found[0]


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Prevents threads with a name from starting, or those with the name ""."""
    real = threading.Thread.start
    name = ""

    def start(self: threading.Thread) -> None:
        if self.name == name:
            raise RuntimeError("can't start new thread")
        real(self)

    def refuse(given: str) -> None:
        nonlocal name
        name = given

    monkeypatch.setattr(threading.Thread, "start", start)
    return refuse


def test_loop_that_cannot_be_created_fails_only_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime(graph(add_soon))
    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "new_event_loop", lambda: (_ for _ in ()).throw(OSError(24, "Too many open files")))
        failed = in_time(lambda: runtime.run({}))

    assert isinstance(failed, NodeError | OSError)
    assert in_time(lambda: runtime.run({})).state.n == 1
    assert in_time(lambda: Runtime(graph(add), store="memory:").run({}, thread="t")).state.n == 1


def test_loop_whose_thread_cannot_start_fails_only_its_run(refused: Callable[[str], None]) -> None:
    refused("graphrt-loop")
    with pytest.raises(RuntimeError, match="new thread"):
        LoopThread()

    refused("")
    assert in_time(lambda: Runtime(graph(add_soon)).run({})).state.n == 1


def test_stream_whose_thread_cannot_start_releases_its_claim(refused: Callable[[str], None]) -> None:
    runtime = Runtime(graph(add), store="memory:")
    refused("graphrt-stream")
    with pytest.raises(RuntimeError, match="new thread"), runtime.stream({}, thread="t", modes="custom") as stream:
        list(stream)

    refused("")
    assert runtime.run({}, thread="t").status == "completed"


def test_a_background_loop_starts_later(refused: Callable[[str], None]) -> None:
    async def one() -> int:
        return 1

    loop = BackgroundLoop("background")
    refused("background")
    call = one()
    with pytest.raises(RuntimeError, match="new thread"):
        loop.submit(call)
    call.close()

    refused("")
    assert loop.submit(one()).result(PATIENCE_S) == 1
    loop.close()


def test_lease_renewal_starts_later(refused: Callable[[str], None]) -> None:
    renewed = threading.Event()
    claim: Any = SimpleNamespace(lease_s=0.1, thread="t")
    store = Kept(renew=lambda claims: renewed.set())
    renewer = LeaseRenewer(store)  # type: ignore[arg-type]
    refused("graphrt-leases")
    with pytest.raises(RuntimeError, match="new thread"):
        renewer.add(claim)

    refused("")
    renewer.add(claim)
    assert renewed.wait(PATIENCE_S)
    renewer.remove(claim)


def test_mail_polling_starts_later(refused: Callable[[str], None]) -> None:
    store = Kept()
    watch = MailWatch(store)  # type: ignore[arg-type]
    refused("graphrt-watch")
    with pytest.raises(RuntimeError, match="new thread"):
        watch.add("t", print, print)  # type: ignore[arg-type]

    assert watch._worker is None
    assert watch._runs == {}


async def exits() -> None:
    await asyncio.sleep(0)
    sys.exit(3)


def test_child_task_that_exits_ends_its_run_and_not_the_shared_loop() -> None:
    began = threading.Event()
    go_on = threading.Event()

    async def node(state: State) -> dict[str, int]:
        if state.n:
            await asyncio.gather(exits(), asyncio.sleep(0.01))
        began.set()
        while not go_on.is_set():  # noqa: ASYNC110 - another thread sets it
            await asyncio.sleep(0.01)
        return {"n": 5}

    with Runtime(graph(node)) as runtime:
        innocent: list[Any] = []
        beside = threading.Thread(target=lambda: innocent.append(in_time(lambda: runtime.run({"n": 0}))))
        beside.start()
        began.wait(PATIENCE_S)

        assert isinstance(in_time(lambda: runtime.run({"n": 1})), SystemExit)
        go_on.set()
        beside.join(PATIENCE_S)
        assert innocent[0].state.n == 5
        assert in_time(lambda: runtime.run({"n": 0})).state.n == 5


def test_a_call_that_exits_ends_no_background_loop() -> None:
    async def one() -> int:
        await asyncio.sleep(0.05)
        return 1

    loop = BackgroundLoop("background")
    innocent, guilty = loop.submit(one()), loop.submit(exits())
    until = time.monotonic() + PATIENCE_S
    while not guilty.done() and time.monotonic() < until:
        time.sleep(0.01)

    assert isinstance(guilty.exception(0), SystemExit)
    assert innocent.result(PATIENCE_S) == 1
    assert loop.submit(one()).result(PATIENCE_S) == 1
    loop.close()
