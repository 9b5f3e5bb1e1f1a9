"""Worker threads of sync tools: used again, few when idle, and no use after a fork."""

from __future__ import annotations

import os
import threading

import pytest

from graphrt.harness.tools import _invoke
from graphrt.harness.tools._invoke import in_a_worker_thread


def run(count: int) -> set[int]:
    """Let *count* threads meet, and give their identities."""
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


def test_as_many_run_at_once_as_there_is_work() -> None:
    assert len(run(40)) == 40


def test_few_are_kept_when_there_is_nothing_to_do() -> None:
    run(40)
    run(3)

    assert len(_invoke._idle) <= 40  # appended without a lock: a few more than meant may stay
    assert run(1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_after_a_fork_new_threads_are_started() -> None:
    run(3)
    child = os.fork()
    if child == 0:
        os._exit(0 if run(2) else 1)

    assert os.waitpid(child, 0)[1] == 0
