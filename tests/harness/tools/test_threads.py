"""Worker threads of sync tools: reused, few when idle, and not used after a fork."""

from __future__ import annotations

import os
import threading

import pytest

from graphrt.harness.tools import _invoke
from graphrt.harness.tools._invoke import in_a_worker_thread


def run(count: int) -> set[int]:
    """Let *count* threads meet, and return their identities."""
    gate, done, seen = threading.Barrier(count, timeout=30), threading.Semaphore(0), set[int]()

    def work() -> None:
        gate.wait()
        seen.add(threading.get_ident())
        done.release()

    for _ in range(count):
        in_a_worker_thread(work)
    for _ in range(count):
        assert done.acquire(timeout=30)
    return seen


def test_as_many_threads_run_as_there_are_calls() -> None:
    assert len(run(40)) == 40


def test_few_idle_threads_are_kept() -> None:
    run(40)
    run(3)

    assert len(_invoke._idle) <= 40  # appended without a lock: a few more than intended may stay
    assert run(1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_new_threads_are_started_after_a_fork() -> None:
    run(3)
    child = os.fork()
    if child == 0:
        os._exit(0 if run(2) else 1)

    assert os.waitpid(child, 0)[1] == 0
