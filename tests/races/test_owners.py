"""Who keeps a thread: a slow owner does, one that was suspended past its lease does not, a dead one never (R12)."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from graphrt import ConflictError, InputError, Runtime
from graphrt.stores import open_store

from . import holding

PATIENCE_S = 60.0
FULL = os.environ.get("GRAPHRT_FULL") == "1"
FACES = ("sync", "async")

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs signals that stop a process")


class Owner:
    """The other process."""

    def __init__(self, url, ledger: Path) -> None:
        root = Path(__file__).parents[2]
        path = os.pathsep.join([str(root), *filter(None, sys.path)])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.races.owner", url, str(ledger)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )

    def set_off(self, jobs) -> None:
        """Start driving the threads of *jobs* to the point where they stay."""
        self.tell(json.dumps(jobs))
        heard = [self.hear() for _ in jobs]
        assert [said for said in heard if "arrived" not in said] == []

    def tell(self, text: str) -> None:
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def hear(self):
        return json.loads(self.process.stdout.readline())

    def ends(self, jobs):
        """The ends of the released runs of *jobs*, by thread."""
        heard = [self.hear() for _ in jobs]
        return {said["thread"]: said["ended"] for said in heard}

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def own(url, tmp_path):
    """Starts an owner of some jobs."""
    ledger = tmp_path / "ledger"
    ledger.touch()
    owners = []

    def start(jobs):
        owners.append(Owner(url, ledger))
        owners[-1].set_off(jobs)
        return owners[-1]

    yield start
    for one in owners:
        one.end()


def jobs_of(group, lease_s, *, faces=FACES):
    return [
        {
            "thread": f"{group}-{kind.replace(' ', '-')}-{face}",
            "kind": kind,
            "face": face,
            "lease_s": lease_s,
            "group": group,
        }
        for kind in holding.KINDS
        for face in faces
        if not (kind == "busy step" and (face, group) != ("sync", "healthy"))  # one is enough to keep a processor busy
    ]


def taker(store, job, tmp_path):
    return Runtime(holding.graph(job["kind"]), store=store, deps=holding.Deps(tmp_path / "ledger"))


def take_over(store, job, tmp_path):
    """Drive the thread to its end, in this process."""
    runtime = taker(store, job, tmp_path)
    known = owned(store, job["thread"]) is not None
    done = runtime.retry(job["thread"]) if known else runtime.run(holding.INPUT, thread=job["thread"])
    if done.status == "interrupted":
        assert done.interrupts[0].payload["problem"] == "outcome unknown"
        done = runtime.resume(job["thread"], answer={"result": None})
    assert done.status == "completed"
    assert done.state["notes"] == holding.notes(job["kind"])
    return runtime


def everything(store, thread):
    loaded = store.load(thread)
    return loaded.head, list(store.records(thread)), loaded.staged, loaded.meta, loaded.snapshot


def owned(store, thread):
    """Whether *thread* has an owner; None while it does not exist because its owner has stored nothing."""
    try:
        return store.head(thread).owned
    except InputError:
        return None


def is_locked(url) -> bool:
    """Whether a process keeps all others from writing to the database, which only SQLite allows."""
    if not url.startswith("sqlite:"):
        return False
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=0.5, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        connection.execute("ROLLBACK")
        return False


def stop(owner, url) -> None:
    """Suspend the process while it does not hold the lock of the database: otherwise all claims would block."""
    while True:
        os.kill(owner.process.pid, signal.SIGSTOP)
        # A thread inside a system call stops only when the call returns, perhaps right after taking the lock.
        os.waitpid(owner.process.pid, os.WUNTRACED)
        if not is_locked(url):
            return
        os.kill(owner.process.pid, signal.SIGCONT)


def free(store, jobs):
    """Wait until no thread of *jobs* has an owner; return the seconds."""
    began = time.monotonic()
    while any(owned(store, job["thread"]) for job in jobs):
        assert time.monotonic() - began < PATIENCE_S
        time.sleep(0.05)  # a suspended process cannot react: its lease has to expire
    return time.monotonic() - began


def test_suspended_owner_loses_its_threads_and_stores_nothing_when_it_resumes(url, own, tmp_path, told):
    """At every point: later writes are refused, and unwritten data does not exist."""
    jobs = jobs_of("stopped", 2.0)
    owner = own(jobs)
    stop(owner, url)
    with open_store(url) as store:
        took_s = free(store, jobs)
        for job in jobs:
            take_over(store, job, tmp_path)
        before = {job["thread"]: everything(store, job["thread"]) for job in jobs}

        os.kill(owner.process.pid, signal.SIGCONT)
        for group in {job["group"] for job in jobs}:
            owner.tell(group)
        ends = owner.ends(jobs)

        assert {end for end in ends.values() if not end.endswith("ConflictError lost-lease")} == set()
        for job in jobs:
            assert everything(store, job["thread"]) == before[job["thread"]]
            taker(store, job, tmp_path).replay(job["thread"])
        # A run that stores each superstep before the next one went no further than where it was suspended.
        ran = Counter((tmp_path / "ledger").read_text().splitlines())
        assert not any(ran[f"{job['thread']} last {owner.process.pid}"] for job in jobs)
    told(f"{len(jobs)} threads of a stopped owner were free {took_s:.2f} s later; lease 2 s")


def test_healthy_owner_is_never_robbed_and_a_killed_one_at_once(url, own, tmp_path, told):
    """Its nodes work for longer than the lease, even if they block the event loop or the interpreter."""
    lease_s = 3.0
    healthy = jobs_of("healthy", lease_s)
    killed = jobs_of("killed", 600.0, faces=["sync"])
    owner = own(killed + healthy)
    tries = 0
    with open_store(url) as store:
        end = time.monotonic() + lease_s * (5 if FULL else 1.5)
        while time.monotonic() < end:
            for job in healthy:
                with pytest.raises(ConflictError) as caught:
                    taker(store, job, tmp_path).retry(job["thread"])
                assert caught.value.code == "conflict"
                tries += 1
                if time.monotonic() > end:
                    break
        owner.tell("healthy")
        ends = owner.ends(healthy)
        assert ends == dict.fromkeys(ends, "completed")
        for job in healthy:
            runtime = taker(store, job, tmp_path)
            assert runtime.replay(job["thread"]).values["notes"] == holding.notes(job["kind"])

        owner.process.kill()
        owner.process.wait()
        began = time.monotonic()
        for job in killed:
            take_over(store, job, tmp_path)
        took_s = time.monotonic() - began
    told(f"{tries} tries to rob a healthy owner failed; {len(killed)} threads taken in {took_s:.2f} s")
