"""Killed replicas: each client ends with the whole thread, every entry once, and each write happens once."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from graphrt.errors import GraphrtError, StoreError
from graphrt.serve import Client, RemoteEntry

pytestmark = pytest.mark.slow

FLOW = """
import time
from typing import Annotated, TypedDict
from graphrt import END, START, Context, GraphBuilder
from graphrt.reducers import append
from graphrt.serve import anyone

class State(TypedDict, total=False):
    notes: Annotated[list[int], append]
    ok: bool

g = GraphBuilder(State, name="flow")

@g.node
def work(state: State, ctx: Context) -> State:
    ctx.emit("works")
    time.sleep(0.01)
    return {"notes": [len(state["notes"])]}

@g.node
def ask(state: State, ctx: Context) -> State:
    return {"ok": ctx.interrupt("ok?", key="ok", answer_type=bool)}

g.add_edge(START, work)
g.add_conditional_edges(work, lambda state: len(state["notes"]) < 6, {True: work, False: ask})
g.add_edge(ask, END)
graph = g.compile()
"""
PASSING = {"server-unreachable", "key-in-progress", "conflict"}
"""Codes after which a client retries."""


class Replicas:
    """Two servers with a worker each, on one database."""

    def __init__(self, folder: Path) -> None:
        (folder / "flow.py").write_text(FLOW, encoding="utf-8")
        self._folder = folder
        self.urls: dict[int, httpx.URL] = {}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        for number in (0, 1):
            self.start(number)

    def start(self, number: int) -> None:
        words = ["serve", "flow.py:graph", "--store", "runs.db", "--port", "0", "--authorize", "flow.py:anyone"]
        told = self._folder / f"stderr-{number}"
        with told.open("w", encoding="utf-8") as file:
            command = [sys.executable, "-m", "graphrt", *words]
            self._processes[number] = subprocess.Popen(command, cwd=self._folder, stderr=file)
        while not (found := re.search(r" at (http\S+)", told.read_text(encoding="utf-8"))):
            assert self._processes[number].poll() is None, told.read_text(encoding="utf-8")
            time.sleep(0.02)
        self.urls[number] = httpx.URL(found[1])

    def kill(self, number: int) -> None:
        self._processes[number].kill()
        self._processes[number].wait()

    def close(self) -> None:
        for number in self._processes:
            self.kill(number)


class Balancer(httpx.HTTPTransport):
    """Sends each request to one of the replicas."""

    def __init__(self, replicas: Replicas) -> None:
        super().__init__()
        self._replicas = replicas

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(port=random.choice([*self._replicas.urls.values()]).port)
        return super().handle_request(request)


def until_it_passes(call):
    while True:
        try:
            return call()
        except GraphrtError as error:
            if error.code not in PASSING:
                raise
            time.sleep(0.2)


def one_thread(replicas: Replicas, thread: str) -> str:
    """Run one thread to its end, and return its problems."""
    with Client("http://127.0.0.1", "flow", transport=Balancer(replicas)) as client:
        until_it_passes(lambda: client.start({"notes": []}, thread=thread, if_exists="return"))
        seen: list[int] = []
        while True:
            try:
                followed = client.follow(thread, after=seen[-1] if seen else 0)
                # One by one: entries that were read before the connection broke are kept.
                seen.extend(one.seq for one in followed if isinstance(one, RemoteEntry))
                break
            except StoreError:
                time.sleep(0.2)
        try:
            until_it_passes(lambda: client.start(thread=thread, answer=True, key=f"{thread}-answer"))
        except GraphrtError as error:  # it was killed right after the write, which the thread shows
            if error.code != "key-outcome-unknown":
                raise
        result = until_it_passes(lambda: client.wait(thread))
    wanted = {"notes": [*range(6)], "ok": True}
    if seen != [*range(1, len(seen) + 1)] or result.values != wanted or result.status != "completed":
        return f"{thread}: {seen}, {result}"
    return ""


def test_clients_get_the_whole_thread_while_replicas_are_killed(tmp_path: Path) -> None:
    """Twelve seconds of SIGKILL or more, until several threads have ended. No test within one process can replace it."""
    replicas = Replicas(tmp_path)
    wrong: list[str] = []
    number = 0
    try:
        began = time.monotonic()

        def goes_on() -> bool:
            passed = time.monotonic() - began
            return passed < 12 or (number <= 6 and passed < 120)

        def client(name: int) -> None:
            nonlocal number
            turn = 0
            while goes_on():
                turn += 1
                try:
                    wrong.append(one_thread(replicas, f"t{name}-{turn}"))
                except Exception as error:  # noqa: BLE001 - shown with the others
                    wrong.append(f"t{name}-{turn}: {error!r}")
                number += 1

        clients = [threading.Thread(target=client, args=(name,)) for name in range(6)]
        for one in clients:
            one.start()
        while goes_on():
            time.sleep(1.0)
            victim = random.choice((0, 1))
            replicas.kill(victim)
            replicas.start(victim)
        for one in clients:
            one.join(120)
            assert not one.is_alive()
    finally:
        replicas.close()

    assert [one for one in wrong if one] == []
    assert number > 6
