"""The time for a page of the inbox and of a listing with many threads, on SQLite and PostgreSQL.

    python -m benchmarks.inbox                                   # 100,000 threads in a SQLite file
    python -m benchmarks.inbox --url postgresql://localhost/x    # and in a server

One thread is written by a run. The others are copies of its rows, made in the database: 10 tenants, the tag `common` on
every second thread, the tag `rare` and the kind `approval` on every 5,000th.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typing_extensions as te

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.stores import PostgresStore, SqliteStore, open_store

MOST_MS = 20.0
SQLITE = (
    "CREATE TEMP TABLE n(i INTEGER PRIMARY KEY)",
    "WITH RECURSIVE c(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM c WHERE i < :count) INSERT INTO n SELECT i FROM c",
    (
        "INSERT INTO thread SELECT i, 'tenant' || (i % 10) || '~t' || i, seq, first, epoch, turn, status, graph,"
        " created_at, updated_at, lease, owner, rank FROM n, thread WHERE no = 1"
    ),
    "INSERT INTO record SELECT key + (i - 1) * 68719476736, count, body, seal FROM n, record WHERE key < 2 * 68719476736",
    "INSERT INTO part SELECT i, kind, name, place, body FROM n, part WHERE no = 1",
    (
        "INSERT INTO label SELECT i, 'tenant' || (i % 10), 'Thread ' || i, 'thread ' || i,"
        ' CASE WHEN i % 5000 = 0 THEN \'["common", "rare"]\' WHEN i % 2 = 0 THEN \'["common"]\' END FROM n'
    ),
    "INSERT INTO tag SELECT 'common', i FROM n WHERE i % 2 = 0",
    "INSERT INTO tag SELECT 'rare', i FROM n WHERE i % 5000 = 0",
    (
        "INSERT INTO question SELECT i, 'tenant' || (i % 10), place, CASE WHEN i % 5000 = 0 THEN 'approval' ELSE kind END,"
        " node, graph, asked_at + (i * 7919 % 100003), expires_at, stale, body FROM n, question WHERE no = 1"
    ),
)
POSTGRES = (
    (
        "INSERT INTO {s}.thread (seq, first, epoch, token, generation, created_at, updated_at, lease_until, held_since,"
        " fence, id, status, graph, holder) SELECT seq, first, epoch, token, generation, created_at, updated_at, lease_until,"
        " held_since, fence, 'tenant' || (i % 10) || '~t' || i, status, graph, holder"
        " FROM {s}.thread, generate_series(2, {count}) i WHERE id = 't' ORDER BY i"
    ),
    *(
        f"INSERT INTO {{s}}.{table} SELECT t.no, {columns} FROM {{s}}.thread t, {{s}}.{table} o WHERE t.id <> 't'"
        " AND o.no = (SELECT no FROM {s}.thread WHERE id = 't')"
        for table, columns in (("record", "o.seq, o.count, o.body, o.seal"), ("meta", "o.body"))
    ),
    (
        "INSERT INTO {s}.label SELECT no, 'tenant' || (no % 10), 'Thread ' || no, 'thread ' || no,"
        " CASE WHEN no % 5000 = 0 THEN '{{common,rare}}' WHEN no % 2 = 0 THEN '{{common}}' ELSE '{{}}' END::text[]"
        " FROM {s}.thread WHERE id <> 't'"
    ),
    (
        "INSERT INTO {s}.question SELECT t.no, asked_at + (t.no * 7919 % 100003), expires_at, stale, 'tenant' || (t.no % 10),"
        " CASE WHEN t.no % 5000 = 0 THEN 'approval' ELSE kind END, place, o.graph, node, body"
        " FROM {s}.thread t, {s}.question o WHERE t.id <> 't'"
    ),
    "ANALYZE",
)


class State(te.TypedDict, total=False):
    """The answer."""

    n: Any


def graph() -> Any:
    """A graph that asks one question."""

    def review(state: Any, ctx: Context) -> dict[str, Any]:
        return {"n": ctx.interrupt({"question": "Publish this letter?", "letter": "x" * 400})}

    g: Any = GraphBuilder(State, name="letters")
    g.add_node("review", review)
    g.add_sequence([START, "review", END])
    return g.compile()


def fill(store: Any, count: int) -> None:
    """Copy the only thread of *store* until there are *count*."""
    if isinstance(store, SqliteStore):
        import sqlite3
        from contextlib import closing

        with closing(sqlite3.connect(store.path)) as db, db:
            for statement in SQLITE:
                db.execute(statement, {"count": count} if ":count" in statement else {})
        db.close()
        return
    assert isinstance(store, PostgresStore)
    link: Any = store._link
    with link.lend() as connection:
        for statement in POSTGRES:
            text = statement.replace("{count}", str(count)).replace("{{", "{").replace("}}", "}")
            connection.execute(link.named(text))


def timed(call: Callable[[], Any], rounds: int) -> tuple[float, float, float, int]:
    """Shortest, median and longest time in ms, and the number of items."""
    found, times = call(), list[float]()
    for _ in range(rounds):
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1_000)
    return min(times), statistics.median(times), max(times), len(found)


def main() -> None:
    """Fill a store, and measure pages of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--url", help="a store that is empty; by default a new SQLite file")
    parser.add_argument("--threads", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=21)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store: Any = open_store(given.url or f"sqlite:///{Path(folder) / 'inbox.db'}")
        runtime: Runtime[Any] = Runtime(graph(), store=store)
        runtime.run({}, thread="t", title="The first")
        fill(store, given.threads)
        deep = runtime.inbox(limit=given.threads // 2)[-1].token
        pages: dict[str, Callable[[], Any]] = {
            "inbox, first page": runtime.inbox,
            "inbox, page in the middle": lambda: runtime.inbox(after=deep),
            "inbox, rare kind": lambda: runtime.inbox(kind="approval"),
            "inbox, rare kind and graph": lambda: runtime.inbox(kind="approval", graph="letters"),
            "inbox, kind and unknown graph": lambda: runtime.inbox(kind="question", graph="nothing"),
            "inbox, unknown node": lambda: runtime.inbox(node="nobody"),
            "inbox, graph": lambda: runtime.inbox(graph="letters"),
            "inbox, tenant": lambda: runtime.inbox(tenant="tenant3"),
            "inbox, tenant and rare kind": lambda: runtime.inbox(tenant="tenant0", kind="approval"),
            "inbox, common tag": lambda: runtime.inbox(tags={"common"}),
            "inbox, rare tag": lambda: runtime.inbox(tags={"rare"}),
            "inbox, both tags and tenant": lambda: runtime.inbox(tags={"rare", "common"}, tenant="tenant0"),
            "threads, tenant": lambda: runtime.threads(tenant="tenant3", limit=100),
            "threads, tenant, newest first": lambda: runtime.threads(tenant="tenant3", limit=100, newest_first=True),
            "threads, rare tag": lambda: runtime.threads(tags={"rare"}, limit=100),
            "threads, common tag": lambda: runtime.threads(tags={"common"}, limit=100),
            "threads, title": lambda: runtime.threads(title="thread 77777", limit=100),
        }
        print(
            f"{store!r}: {given.threads:,} threads; ms for a page, the shortest, median and longest of {given.rounds}"
        )
        for name, call in pages.items():
            shortest, middle, longest, count = timed(call, given.rounds)
            late = "  over the target" if middle > MOST_MS and name.startswith("inbox") else ""
            print(f"  {name:32} {shortest:8.2f} {middle:8.2f} {longest:8.2f}   {count:4} items{late}")
        runtime.close()
        store.close()


if __name__ == "__main__":
    main()
