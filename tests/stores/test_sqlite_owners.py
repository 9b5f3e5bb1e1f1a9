"""Who owns a thread when its owner dies, stops, forks or restarts."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from tests.stores.support import AT, bodies, child_process, claimed, end, entry, line, opened, other_process

from graphrt.errors import ConflictError
from graphrt.stores import _owners
from graphrt.stores._owners import Holder, now_s, process_lives, this_owner
from graphrt.stores.sqlite import SqliteStore
from graphrt.stores.values import Commit

HOLD = """
    import sys
    store = SqliteStore(sys.argv[1])
    claim = claimed(store, lease_s=float(sys.argv[2]))
    print("claimed", flush=True)
    sys.stdin.readline()
    try:
        store.commit(claim, Commit(1, AT, [entry(2, b"late")]))
        print("stored", flush=True)
    except Exception as error:
        print(type(error).__name__, error.code, flush=True)
    sys.stdin.readline()
"""

linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


def test_other_process_owns_the_thread_and_is_named(path):
    process = other_process(HOLD, path, 600)
    assert line(process) == "claimed"
    try:
        with SqliteStore(path, busy_timeout_s=60) as store:
            began = time.monotonic()
            with pytest.raises(ConflictError) as caught:
                claimed(store)

            assert time.monotonic() - began < 30  # it does not wait for the owner
            assert f"process {process.pid} on host" in str(caught.value)
            assert "since 2023-11-14 22:13:20 UTC" in str(caught.value)
            assert " s left" in caught.value.known
            assert caught.value.fix
    finally:
        end(process)


@pytest.mark.parametrize("reaped", [True, False], ids=["reaped", "zombie"])
@linux
def test_killed_owner_frees_its_thread_at_once(path, reaped):
    """Even before its parent has reaped the dead process."""
    process = child_process(HOLD, path, 600)
    assert line(process) == "claimed"
    process.kill()
    if reaped:
        process.wait()
    else:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    try:
        with SqliteStore(path) as store:
            assert not store.head("t").owned
            claim = store.claim("t", create=False, lease_s=60, at=AT)
            store.commit(claim, Commit(1, AT, [entry(2)]))
            assert bodies(store) == [b"1", b"2"]
    finally:
        end(process)


@linux
def test_suspended_owner_keeps_its_thread_until_the_lease_expires_and_then_cannot_commit(path):
    process = other_process(HOLD, path, 1.5)
    assert line(process) == "claimed"
    os.kill(process.pid, signal.SIGSTOP)
    try:
        with SqliteStore(path) as store:
            with pytest.raises(ConflictError):
                claimed(store, entries=0)
            # The suspended process cannot react: its lease has to expire.
            deadline = time.monotonic() + 30
            while store.head("t").owned and time.monotonic() < deadline:
                time.sleep(0.05)
            claim = claimed(store, entries=0)

            os.kill(process.pid, signal.SIGCONT)
            process.stdin.write("\n")
            process.stdin.flush()
            assert line(process) == "ConflictError lost-lease"
            store.commit(claim, Commit(1, AT, [entry(2, b"new")]))
            assert bodies(store) == [b"1", b"new"]
    finally:
        end(process)


@linux
def test_reused_pid_is_another_process():
    """A process with the pid of a dead owner does not own its threads."""
    me = this_owner()

    assert process_lives(me.pid, me.start)
    assert not process_lives(me.pid, str(int(me.start) - 1))
    assert not process_lives(2**22 + 1, me.start)


def holder(lease_s=60.0, **changed):
    return Holder(this_owner()._replace(**changed), lease_s, AT)


def lives(one, left_s):
    return one.lives(now_s() + left_s, me=this_owner())


def test_live_owner_keeps_the_thread_until_its_lease_expires():
    assert lives(holder(), 30)
    assert not lives(holder(), -0.001)


@linux
def test_dead_owner_owns_nothing():
    assert not lives(holder(pid=2**22 + 1), 30)
    assert not lives(holder(start="1"), 30)


@linux
def test_owner_that_is_not_known_to_be_dead_may_still_work():
    """The same holds for an owner from which it took the thread, until a claim is released."""

    def lost(one, left_s=-1):
        return one.lost(now_s() + left_s, me=this_owner())

    assert lost(holder(pid=2**22 + 1)) == lost(holder(pid=2**22 + 1), 30) == lost(holder(boot="another")) == "dead"
    assert lost(holder()) == lost(holder(host="elsewhere")) == lost(holder(space="pid:[1]")) == "lease-expired"
    assert lost(holder(pid=2**22 + 1)._replace(former="lease-expired")) == "lease-expired"
    assert Holder.load(holder()._replace(former="dead").dump()).former == "dead"


@linux
def test_owner_in_another_container_keeps_the_thread_for_its_lease_only():
    """Its process is not visible from here, whatever its pid."""
    for other in (holder(space="pid:[1]", pid=2**22 + 1), holder(host="elsewhere", pid=2**22 + 1)):
        assert lives(other, 30)
        assert not lives(other, -1)


@linux
def test_owner_from_before_a_restart_owns_nothing():
    assert not lives(holder(boot="another"), 30)


def test_owner_on_another_machine_keeps_the_thread_for_its_lease_by_the_wall_clock():
    """Its boot clock is meaningless here; the offset that it stored is not."""
    far = holder(boot="another", host="elsewhere", offset_s=time.time())

    assert far.lives(60.0, me=this_owner())
    assert not far.lives(-1.0, me=this_owner())


def test_lease_beyond_the_longest_lease_is_from_before_a_restart():
    """Without a boot id, a restarted clock shows it."""
    assert lives(holder(lease_s=60), 60)
    assert not lives(holder(lease_s=60), 86_400)


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", "[1, 2]", '["a", "b", "c", "x", "d", "e", 1, 2, 3]'])
def test_unreadable_owner_owns_nothing(text, path):
    assert Holder.load(text) is None

    with SqliteStore(path) as store:
        claimed(store)
        store._file.connection().execute("UPDATE thread SET owner = ?", (text,))
        assert not store.head("t").owned


def test_holder_survives_serialization():
    one = holder()

    assert Holder.load(one.dump()) == one


def test_owner_is_probed_with_a_signal_without_proc(monkeypatch):
    """Elsewhere the process is probed with signal 0."""
    real = _owners.Path.exists
    monkeypatch.setattr(_owners.Path, "exists", lambda self: str(self) != "/proc/self/stat" and real(self))

    assert process_lives(os.getpid(), "")
    assert not process_lives(2**22 + 1, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_leaves_the_claims_of_the_parent_to_it_while_the_child_uses_its_own_store(path):
    """Another thread commits all the time. No transaction and no connection is open when the process forks."""
    process = other_process(
        """
        import os, sys, threading, traceback
        from graphrt.errors import InputError
        store = SqliteStore(sys.argv[1])
        claim = claimed(store)
        stop = threading.Event()

        def work():
            for seq in range(1, 200):
                store.commit(claim, Commit(seq, AT, [entry(seq + 1)]))
                if stop.is_set():
                    return

        worker = threading.Thread(target=work)
        worker.start()
        failed = 0
        for n in range(5):
            child = os.fork()
            if not child:
                try:
                    try:
                        store.query(ThreadFilter())
                        raise AssertionError("not refused")
                    except InputError as error:
                        assert error.code == "forked"
                    store.close()  # leaves the claims to the parent
                    own = SqliteStore(sys.argv[1])
                    claimed(own, f"child{n}", entries=3)
                    try:
                        claimed(own)
                        raise AssertionError("not refused")
                    except ConflictError:
                        own.close()
                    os._exit(0)
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
            failed += os.waitpid(child, 0)[1]
        stop.set()
        worker.join()
        seq = store.head("t").seq
        store.commit(claim, Commit(seq, AT, [entry(seq + 1)]))
        total = len(bodies(store))
        print(failed, total == seq + 1, [len(bodies(store, f"child{n}")) for n in range(5)], flush=True)
        """,
        path,
    )
    out, _ = process.communicate(timeout=60)

    assert out.strip() == "0 True [3, 3, 3, 3, 3]"


def test_many_processes_commit_without_losing_or_mixing_entries(path):
    """Four concurrent processes, each with its own thread, on one file."""
    opened(path).close()
    code = """
        import sys
        store = SqliteStore(sys.argv[1])
        claim = claimed(store, sys.argv[2], entries=0)
        for seq in range(40):
            store.commit(claim, Commit(seq, AT, [entry(seq + 1, f"{sys.argv[2]}/{seq}".encode())]))
        store.close()
    """
    processes = [other_process(code, path, f"t{n}") for n in range(4)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0, 0]
    for process in processes:
        process.communicate()

    with SqliteStore(path) as store:
        for n in range(4):
            assert bodies(store, f"t{n}") == [f"t{n}/{seq}".encode() for seq in range(40)]


def test_one_of_many_processes_gets_the_claim(path):
    """Several processes that open a new file and claim one thread at the same time: one gets it."""
    code = """
        import sys
        store = SqliteStore(sys.argv[1])
        try:
            claimed(store)
            print("won", flush=True)
        except ConflictError:
            print("conflict", flush=True)
        sys.stdin.readline()
    """
    processes = [other_process(code, path) for _ in range(4)]
    said = sorted(line(process) for process in processes)
    for process in processes:
        process.communicate("\n")

    assert said == ["conflict", "conflict", "conflict", "won"]
