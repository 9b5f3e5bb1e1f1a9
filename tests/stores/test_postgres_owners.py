"""Who may write a thread of a PostgreSQL store: owners that were killed, are suspended, fork, or are presumed dead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from graphrt.errors import ConflictError, InputError
from graphrt.stores.postgres import PostgresStore, _claims, _connection
from graphrt.stores.values import Commit

from . import postgres_server, postgres_support
from .postgres_support import AT, LONG_S, entry, eventually, seqs, sql, started

pytestmark = pytest.mark.needs("psycopg")

OWNER = """
import sys
from graphrt.errors import GraphrtError
from graphrt.stores.postgres import PostgresStore
from graphrt.stores.values import Commit, Record
store = PostgresStore(sys.argv[1])
claim = store.claim("t", create=True, lease_s=float(sys.argv[2]), at=1.0)
if sys.argv[3] == "entry":
    store.commit(claim, Commit(0, 1.0, [Record(1, 1, b"x")]))
print("claimed", flush=True)
sys.stdin.readline()
try:
    store.commit(claim, Commit(1, 2.0, [Record(2, 1, b"late")]))
    print("committed", flush=True)
except GraphrtError as error:
    print(error.code, flush=True)
"""


@pytest.fixture
def url(request):
    yield from postgres_support.fresh(request.config)


@pytest.fixture
def store(url):
    with PostgresStore(url) as opened:
        yield opened


@pytest.fixture
def owner(url):
    """Starts another process that claims the thread `t`, and kills it after the test."""
    processes = []

    def start(lease_s, *, entry=True):
        command = [sys.executable, "-c", OWNER, url, str(lease_s), "entry" if entry else "none"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout.readline() == "claimed\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_threads_of_a_killed_owner_are_free_at_once(owner, store):
    process = owner(LONG_S)
    with pytest.raises(ConflictError) as caught:
        store.claim("t", create=False, lease_s=LONG_S, at=AT)
    process.kill()
    process.wait()

    claim = store.claim("t", create=False, lease_s=LONG_S, at=AT)

    assert (claim.epoch, claim.head.seq) == (2, 1)
    assert f"process {process.pid}" in caught.value.known
    assert "seconds left" in caught.value.known


def test_thread_whose_owner_was_killed_before_its_first_entry_never_existed(owner, store):
    process = owner(LONG_S, entry=False)
    process.kill()
    process.wait()

    for call in (
        lambda: store.claim("t", create=False, lease_s=LONG_S, at=AT),
        lambda: store.head("t"),
        lambda: store.load("t"),
    ):
        with pytest.raises(InputError) as caught:
            eventually(call, ConflictError)
        assert caught.value.code == "unknown-thread"
    claim = store.claim("t", create=True, lease_s=LONG_S, at=7.0)

    assert claim.head.created_at == 7.0
    store.commit(claim, Commit(0, AT, [entry(1)]))
    assert seqs(store) == [1]


def test_suspended_owner_loses_the_thread_when_its_lease_expires(owner, store):
    process = owner(0.6)
    os.kill(process.pid, signal.SIGSTOP)
    claim = eventually(lambda: store.claim("t", create=False, lease_s=LONG_S, at=AT), ConflictError)
    os.kill(process.pid, signal.SIGCONT)
    process.stdin.write("\n")
    process.stdin.flush()

    assert process.stdout.readline() == "lost-lease\n"
    store.commit(claim, Commit(1, AT, [entry(2)]))
    assert seqs(store) == [1, 2]


def test_owner_whose_own_backend_was_terminated_reports_it_before_others_may_claim_its_threads(url, store):
    claim = started(store)
    before = sql(url, "SELECT backend_pid, backend_start FROM {s}.thread")
    postgres_server.run(url, "SELECT pg_terminate_backend(%s, 5000)", before[0][0])

    store.renew([claim])
    after = sql(url, "SELECT backend_pid, backend_start FROM {s}.thread")

    assert after != before
    with PostgresStore(url) as other, pytest.raises(ConflictError):
        other.claim("t", create=False, lease_s=LONG_S, at=AT)
    store.commit(claim, Commit(1, AT, [entry(2)]))


def test_claim_made_while_its_own_backend_is_replaced_is_also_lost(url, store, monkeypatch):
    """A commit of another thread of this process opens the new connection, after the claim has read the old number."""
    claim = started(store, "c")
    identity, replaced = _claims.Owner.identity, []

    def replace(owner):
        named = identity(owner)
        if not replaced:
            replaced.append(True)
            [(pid,)] = sql(url, "SELECT backend_pid FROM {s}.thread")
            postgres_server.run(url, "SELECT pg_terminate_backend(%s, 5000)", pid)
            store.commit(claim, Commit(1, AT, [entry(2)]))
        return named

    monkeypatch.setattr(_claims.Owner, "identity", replace)
    late = started(store, "late")
    store.renew([claim])

    assert len({*sql(url, "SELECT backend_pid, backend_start FROM {s}.thread")}) == 1
    with PostgresStore(url) as other, pytest.raises(ConflictError):
        other.claim("late", create=False, lease_s=LONG_S, at=AT)
    store.commit(late, Commit(1, AT, [entry(2)]))


def test_owner_that_was_presumed_dead_is_refused(url, store):
    claim = started(store)
    [(pid,)] = sql(url, "SELECT backend_pid FROM {s}.thread")
    postgres_server.run(url, "SELECT pg_terminate_backend(%s, 5000)", pid)
    with PostgresStore(url) as other:
        taken = other.claim("t", create=False, lease_s=LONG_S, at=AT)
        other.commit(taken, Commit(1, AT, [entry(2)]))

        with pytest.raises(ConflictError) as caught:
            store.commit(claim, Commit(2, AT, [entry(3)]))

    assert caught.value.code == "lost-lease"


def test_backend_with_the_number_of_a_dead_one_is_distinguished_from_it(url, store):
    claim = started(store)
    sql(url, "UPDATE {s}.thread SET backend_start = backend_start - 1")

    with PostgresStore(url) as other:
        assert other.head("t").owned is False
        assert other.claim("t", create=False, lease_s=LONG_S, at=AT).epoch == claim.epoch + 1


def test_behind_a_pooler_no_backend_is_named_and_the_lease_has_to_expire(url, monkeypatch):
    """A pooler gives a session a pid that is not its backend's, so the state of that backend says nothing about ours."""
    pooled = _connection._SETTINGS.replace(b"pg_backend_pid()", b"-1")
    monkeypatch.setattr(_connection, "_SETTINGS", pooled)
    with PostgresStore(url) as store, PostgresStore(url) as other:
        claim = started(store, lease_s=0.5)

        assert sql(url, "SELECT backend_pid, backend_start FROM {s}.thread") == [(None, None)]
        assert other.head("t").owned
        store._owner.close()  # as if the process were gone
        taken = eventually(lambda: other.claim("t", create=False, lease_s=LONG_S, at=AT), ConflictError)
    assert taken.epoch == claim.epoch + 1


def test_forked_child_does_not_touch_the_connections_and_claims_of_its_parent(url):
    """It neither uses nor ends them: not by closing the store, and not by collecting it."""
    script = f"""
import gc, os, traceback
from graphrt.errors import ConflictError, InputError
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.postgres import PostgresStore
from graphrt.stores.values import Commit, Record
store = PostgresStore({url!r})
claim = store.claim("t", create=True, lease_s=600.0, at=1.0)
store.commit(claim, Commit(0, 1.0, [Record(1, 1, b"x")]))
child = os.fork()
if child == 0:
    code = 1
    try:
        for call in (lambda: store.query(ThreadFilter()), lambda: store.commit(claim, Commit(1, 1.0, [Record(2, 1, b"child")]))):
            try:
                call()
                raise AssertionError("not refused")
            except InputError as error:
                assert error.code == "forked"
        store.close()
        del store, claim, call
        gc.collect()
        own = PostgresStore({url!r})
        try:
            own.claim("t", create=False, lease_s=600.0, at=1.0)
        except ConflictError:
            own.commit(own.claim("u", create=True, lease_s=600.0, at=1.0), Commit(0, 1.0, [Record(1, 1, b"x")]))
            own.close()
            code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0
store.commit(claim, Commit(1, 1.0, [Record(2, 1, b"parent")]))
assert store.head("t").owned
print([record.body for record in store.records("t")], store.head("u").owned)
store.close()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)

    assert (done.stdout, done.stderr) == ("[b'x', b'parent'] False\n", "")
