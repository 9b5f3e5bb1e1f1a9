"""Concurrent callers share one piece of work, whatever happens to one of them."""

from __future__ import annotations

import linecache
import signal
import sys
import threading
import time
from typing import Any

import pytest

from graphrt.errors import StoreError
from graphrt.stores import SqliteStore
from graphrt.stores.sqlite import _group_commit as module
from graphrt.stores.sqlite._group_commit import DONE, TAKEN, WAITING, Group
from graphrt.stores.values import Commit

PATIENCE_S = 10.0


class Job:
    def __init__(self, name: Any) -> None:
        self.name = name
        self.state = WAITING
        self.wake: Any = None


class Desk:
    """Runs jobs in batches, which a test can block and release."""

    def __init__(self) -> None:
        self.group: Group = Group()
        self.batches: list[list[Any]] = []
        self.begun = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.fails: dict[Any, BaseException] = {}

    def work(self, jobs: list[Job]) -> None:
        self.batches.append([job.name for job in jobs])
        self.begun.release()
        assert self.go.acquire(timeout=PATIENCE_S)
        failure = self.fails.pop(jobs[0].name, None)
        if failure is not None:
            raise failure
        for job in jobs:
            job.state = DONE

    def come(self, name: Any) -> tuple[threading.Thread, Job, list[BaseException]]:
        job, raised = Job(name), []

        def call() -> None:
            try:
                self.group.do(job, self.work)
            except BaseException as error:  # noqa: BLE001 - the test checks it
                raised.append(error)

        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        return thread, job, raised

    def gathered(self, count: int) -> None:
        """Wait until *count* jobs wait for the next leader."""
        for _ in range(int(PATIENCE_S * 1000)):
            if len(self.group._waiting) == count:
                return
            threading.Event().wait(0.001)
        raise AssertionError(self.group._waiting)


@pytest.fixture
def desk():
    return Desk()


def joined(*threads: threading.Thread) -> None:
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_single_caller_runs_its_job_at_once(desk):
    desk.go.release()
    desk.group.do(Job(1), desk.work)

    assert desk.batches == [[1]]


def test_jobs_that_arrive_meanwhile_run_together(desk):
    first, *_ = desk.come(0)
    desk.begun.acquire()
    others = [desk.come(name)[0] for name in range(1, 9)]
    desk.gathered(8)
    desk.go.release(2)
    joined(first, *others)

    assert desk.batches[0] == [0]
    assert len(desk.batches) == 2
    assert sorted(desk.batches[1]) == list(range(1, 9))


def test_interrupted_leader_leaves_the_other_jobs_to_the_next(desk):
    first, *_ = desk.come(0)
    desk.begun.acquire()
    second, _, raised = desk.come(1)
    desk.gathered(1)
    others = [desk.come(name)[0] for name in range(2, 6)]
    desk.gathered(5)
    desk.fails[1] = KeyboardInterrupt()
    desk.go.release(3)
    joined(first, second, *others)

    assert [type(error) for error in raised] == [KeyboardInterrupt]
    assert sorted(desk.batches[1]) == [1, 2, 3, 4, 5]
    assert sorted(desk.batches[2]) == [2, 3, 4, 5]


def test_caller_that_is_woken_early_still_leads(desk, monkeypatch):
    real = module._wake

    def slowly(one: Any) -> None:
        real(one)
        threading.Event().wait(0.02)  # the woken caller runs first

    monkeypatch.setattr(module, "_wake", slowly)
    first, *_ = desk.come(0)
    desk.begun.acquire()
    others = [desk.come(name)[0] for name in range(1, 4)]
    desk.gathered(3)
    desk.go.release(2)
    joined(first, *others)
    desk.go.release()
    desk.group.do(Job("after"), desk.work)

    assert desk.batches[-1] == ["after"]


class Wake:
    """A wait lock that is interrupted once, after another event."""

    def __init__(self, inner: Any, before: Any) -> None:
        self.inner, self.before, self.left = inner, before, 2

    def acquire(self) -> None:
        self.left -= 1
        if self.left == 1:
            return  # by the group, which makes it
        if self.left == 0:
            self.before()
            raise KeyboardInterrupt
        self.inner.acquire()

    def release(self) -> None:
        self.inner.release()


class Interrupted(Job):
    """A job whose caller is interrupted when it starts to wait."""

    def __init__(self, name: Any, before: Any = lambda: None) -> None:
        super().__init__(name)
        self.before = before

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "wake" and value is not None:
            value.acquire()
            value = Wake(value, self.before)
        super().__setattr__(name, value)


def test_job_of_a_caller_that_is_interrupted_while_waiting_does_not_start_and_blocks_no_other(desk):
    first, *_ = desk.come(0)
    desk.begun.acquire()
    job = Interrupted(1)
    with pytest.raises(KeyboardInterrupt):
        desk.group.do(job, desk.work)
    last, *_ = desk.come(2)
    desk.gathered(1)
    desk.go.release(2)
    joined(first, last)

    assert desk.batches == [[0], [2]]


def test_caller_that_is_interrupted_while_another_runs_its_job_waits_for_its_end(desk):
    """Interrupted when its job is taken: the interrupt is raised once the job is done."""
    first, *_ = desk.come(0)
    desk.begun.acquire()
    heir, *_ = desk.come(1)
    desk.gathered(1)
    ended = []

    def taken() -> None:
        desk.go.release()  # the first ends, the heir takes both
        desk.begun.acquire()
        assert job.state == TAKEN
        threading.Timer(0.02, desk.go.release).start()

    job = Interrupted(2, taken)
    with pytest.raises(KeyboardInterrupt):
        desk.group.do(job, desk.work)
    ended.append(job.name in desk.batches[1] and job.state == DONE)
    joined(first, heir)

    assert ended == [True]
    assert desk.batches == [[0], [1, 2]]


def test_interrupted_heir_passes_the_lead_on(desk):
    first, *_ = desk.come(0)
    desk.begun.acquire()

    def appointed() -> None:
        desk.come(2)
        desk.gathered(2)
        desk.go.release()
        while desk.group._leader is not job:
            threading.Event().wait(0.001)
        desk.go.release()

    job = Interrupted(1, appointed)
    with pytest.raises(KeyboardInterrupt):
        desk.group.do(job, desk.work)
    joined(first)
    desk.begun.acquire()
    desk.go.release()
    desk.group.do(Job(3), desk.work)

    assert desk.batches == [[0], [2], [3]]


def finishing(jobs: list[Job]) -> None:
    time.sleep(0.0005)  # an event is not safe: an interrupt may release its lock twice
    for job in jobs:
        job.state = DONE


def others(group: Group, done: list[Any]) -> list[threading.Thread]:
    """Start three callers with five jobs each; they add the state of each job to *done*."""

    def call(name: int) -> None:
        for number in range(5):
            job = Job((name, number))
            group.do(job, finishing)
            done.append(job.state)

    threads = [threading.Thread(target=call, args=(name,), daemon=True) for name in range(3)]
    for thread in threads:
        thread.start()
    return threads


def interrupting(line: int, hit: list[int]) -> Any:
    """A trace function that interrupts the group's code at the *line*-th executed line.

    Lines of `with` and `try` do not count: a trace function is called there between the end of a block and the release
    of its lock, or before a block begins, where the interpreter handles no signals.
    """

    def trace(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != module.__file__:
            return None
        text = linecache.getline(module.__file__, frame.f_lineno).lstrip()
        if event == "line" and not text.startswith(("with ", "try:")):
            hit[0] += 1
            if hit[0] == line:
                raise KeyboardInterrupt
        return trace

    return trace


@pytest.mark.skipif(
    sys.version_info[:2] == (3, 13),
    reason="one of a hundred runs hangs on CPython 3.13.0, with the lock held by nobody: a trace function raised there",
)
def test_interrupt_at_any_line_leaves_no_caller_waiting_forever():
    """A caller is interrupted at each line of the group's code in turn, while others come and go."""
    line, hit = 0, [0]
    while line <= hit[0]:
        line, hit[0] = line + 1, 0
        group: Group = Group()
        done: list[Any] = []
        threads = others(group, done)
        sys.settrace(interrupting(line, hit))
        try:
            for number in range(3):
                group.do(Job(("me", number)), finishing)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        joined(*threads)
        assert done == [DONE] * 15
        group.do(Job("after"), finishing)
    assert line > 10


def test_ctrl_c_at_a_random_moment_leaves_no_caller_waiting_forever():
    """As above by real signals, which the interpreter handles at fewer places than a trace function interrupts."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    interrupted = 0
    try:
        for number in range(100):
            group: Group = Group()
            done: list[Any] = []
            threads = others(group, done)
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0001 + 0.00003 * number)
                for attempt in range(1_000):
                    group.do(Job(("me", attempt)), finishing)
            except KeyboardInterrupt:
                interrupted += 1
            joined(*threads)
            assert done == [DONE] * 15
            group.do(Job("after"), finishing)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted == 100


@pytest.mark.parametrize("call", ["read", "write"])
def test_open_transaction_is_ended_by_the_next_call(tmp_path, call):
    """Ctrl-C may leave one open: one call fails, and the next one works."""
    with SqliteStore(tmp_path / "runs.db") as store:
        claim = store.claim("t", create=True, lease_s=600, at=1.0)
        store.commit(claim, Commit(0, 1.0))
        store._file.connection().execute("BEGIN IMMEDIATE")

        with pytest.raises(StoreError, match="within a transaction"):
            store.load("t") if call == "read" else store.release(claim)

        assert store.load("t").head.thread == "t"
        store.release(claim)
