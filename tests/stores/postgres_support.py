"""Shared parts of the tests of the PostgreSQL store: a fresh schema, small commits, and waiting for a condition.

No tests and no faults.
"""

from __future__ import annotations

import time

from graphrt.stores.values import Commit, Record

from . import postgres_server

AT = 1_700_000_000.0
LONG_S = 600.0
PATIENT_S = 20.0
"""Seconds after which a test that waits for another process fails."""


def fresh(config):
    """The body of a fixture: a URL with its own schema, which is removed at the end."""
    url = postgres_server.fresh_url(config, connect_timeout_s="5", busy_timeout_s="5")
    yield url
    postgres_server.drop(url)


def entry(seq, body=b"body"):
    return Record(seq, 1, body)


def started(store, thread="t", lease_s=LONG_S):
    """A claim on a new thread with one entry."""
    claim = store.claim(thread, create=True, lease_s=lease_s, at=AT)
    store.commit(claim, Commit(0, AT, [entry(1)]))
    return claim


def seqs(store, thread="t"):
    return [record.seq for record in store.records(thread)]


def sql(url, statement):
    """Run *statement* with the quoted schema of *url* in place of `{s}`."""
    return postgres_server.run(url, statement.replace("{s}", f'"{postgres_server.plain(url)[1]}"'))


def eventually(call, *errors):
    """Call until the result is true and none of *errors* is raised, and return it."""
    end = time.monotonic() + PATIENT_S
    while True:
        try:
            if found := call():
                return found
        except errors:
            if time.monotonic() > end:
                raise
        assert time.monotonic() < end, "waited in vain"
