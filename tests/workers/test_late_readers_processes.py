"""Readers that connect late to a worker in another process, that reconnect, and whose worker is killed."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from tests.patience import eventually

from graphrt import Runtime

from .process_support import Workers
from .speaking import Client, speaking, words

LATE_S = (0.0, 0.05, 0.1, 0.5, 0.9)
PROCESS = "tests.workers.speaking_process"


def read(runtime: Runtime[Any], thread: str, client: Client, after_s: float, leaves_after: int = 0) -> None:
    """Connect *after_s* seconds late and read to the end; disconnect once after some words, and reconnect."""
    time.sleep(after_s)
    for one in runtime.follow(thread, live=True):
        client.take(one)
        if leaves_after and len(client.tokens) >= leaves_after:
            break
    if leaves_after:
        time.sleep(0.2)
        for one in runtime.follow(thread, after=client.position, live=True):
            client.take(one)


def all_read(runtime: Runtime[Any], thread: str, readers: list[tuple[Client, float, int]]) -> list[threading.Thread]:
    started = [threading.Thread(target=read, args=(runtime, thread, *reader)) for reader in readers]
    for reader in started:
        reader.start()
    return started


QUEUES = pytest.mark.parametrize("queue", [None, "gpu"])


@QUEUES
@pytest.mark.slow
def test_all_words_reach_readers_of_another_process_once(workers: Workers, queue: str | None) -> None:
    workers.add(module=PROCESS, QUEUE=queue or "")
    with Runtime(speaking(queue=queue), store=workers.url) as runtime:
        readers = [(Client(), late, 0) for late in LATE_S] + [(Client(), 0.1, 5), (Client(), 0.3, 9)]
        thread = runtime.start({})
        for reader in all_read(runtime, thread, readers):
            reader.join()
    for client, late, leaves in readers:
        assert client.tokens == words(), (late, leaves)
        assert client.missed == 0
        assert client.final == {"1.0:speak": "".join(words())}


@QUEUES
@pytest.mark.slow
def test_readers_of_a_killed_worker_get_the_text_of_the_next_attempt_from_the_start(
    workers: Workers, queue: str | None
) -> None:
    first = workers.add(1.0, module=PROCESS, QUEUE=queue or "", HOLDS_AFTER="10")
    with Runtime(speaking(queue=queue), store=workers.url) as runtime:
        readers = [(Client(), 0.0, 0), (Client(), 0.3, 3), (Client(), 0.5, 0), (Client(), 2.0, 0)]
        thread = runtime.start({})
        reading = all_read(runtime, thread, readers)
        eventually(lambda: len(readers[0][0].tokens) >= 8)
        first.kill()
        first.communicate()
        workers.processes.remove(first)
        workers.add(1.0, module=PROCESS, QUEUE=queue or "")
        for reader in reading:
            reader.join()
    for client, late, leaves in readers:
        if late < 2:  # the last one may connect after the end
            assert client.tokens[-19:] == words(), (late, leaves)
        assert client.final in ({}, {"1.0:speak": "".join(words())})
    assert ("speak", "withdrawn") in readers[0][0].tasks
    assert len(readers[0][0].tokens) > 19
