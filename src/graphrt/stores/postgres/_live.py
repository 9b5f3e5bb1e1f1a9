"""Live items on their way between processes, in two unlogged tables: the methods of `PostgresStore`, and their SQL.

Live items are what a run shows while its superstep is open, such as tokens of a model. A reader in another process, a
*follower*, notes its interest in a thread. Only then the process that drives the thread hands items over, in batches.
The number of a batch is its *place*.

Unlogged tables write no WAL, and a transaction that writes only to them does not wait for the disk. They are empty
after a crash of the server, and on a replica.
"""

# ruff: noqa: S608 - what is put into these texts is other constant text

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from graphrt.stores.ids import check_id
from graphrt.stores.postgres._calls import Calls
from graphrt.stores.postgres._driver import Cursor
from graphrt.stores.postgres._texts import to_bytes, to_text
from graphrt.stores.values import KEPT_S, LONGEST_INTEREST_S, LiveBatch

_TIDY: Final = (
    f"WITH a AS (DELETE FROM {{s}}.live_batch WHERE at < clock_timestamp() - {KEPT_S:.0f} * interval '1 second'),"
    " b AS (DELETE FROM {s}.live_follower WHERE until < clock_timestamp() AND thread <> %(thread)s)"
)
_FOLLOW: Final = (
    f"{_TIDY}, c AS (INSERT INTO {{s}}.live_follower AS f (thread, until)"
    " VALUES (%(thread)s, clock_timestamp() + %(for_s)s * interval '1 second')"
    " ON CONFLICT (thread) DO UPDATE SET until = greatest(f.until, excluded.until))"
    " SELECT coalesce(max(place), 0) FROM {s}.live_batch WHERE thread = %(thread)s"
)
_RELAY: Final = (
    f"{_TIDY}, c AS (DELETE FROM {{s}}.live_batch WHERE thread = %(thread)s AND place <= %(forget)s)"
    " INSERT INTO {s}.live_batch (thread, id, body) VALUES (%(thread)s, %(id)s, %(body)s) RETURNING place"
)
_RELAYED: Final = "SELECT place, id, body FROM {s}.live_batch WHERE thread = %s AND place > %s ORDER BY place LIMIT %s"
_FORGET: Final = "DELETE FROM {s}.live_batch WHERE thread = ANY (%s::text[])"


class LiveItems:
    """The base class of `PostgresStore` with the methods for live items."""

    _calls: Calls

    def follow_live(self, thread: str, *, for_s: float) -> int:
        """Note interest in *thread* for *for_s* seconds, at most 60; return the place of its newest batch, or 0."""
        values = {"thread": check_id(thread), "for_s": min(for_s, LONGEST_INTEREST_S)}
        return int(self._written(_FOLLOW, values, f"follow thread {thread!r}").fetchall()[0][0])

    def relay(self, thread: str, id: str, body: bytes, *, forget: int = 0) -> int:
        """Keep a batch of live items, delete those up to the place *forget*, return its place."""
        # After a lost connection the batch may be there twice. Followers skip items whose numbers they have read.
        values = {"thread": check_id(thread), "id": to_bytes(id), "body": body, "forget": forget}
        return int(self._written(_RELAY, values, f"show live items of thread {thread!r}").fetchall()[0][0])

    def relayed(self, thread: str, *, after: int, limit: int) -> list[LiveBatch]:
        """Return at most *limit* batches of *thread* after the place *after*."""
        rows = self._calls.ask(f"read live items of thread {thread!r}", _RELAYED, [check_id(thread), after, limit])
        return [LiveBatch(place, to_text(name), body) for place, name, body in rows]

    def forget_live(self, threads: Iterable[str]) -> None:
        """Delete all batches of *threads*."""
        self._written(_FORGET, [[*threads]], "forget live items")

    def _written(self, text: str, values: Any, doing: str) -> Cursor:
        """Run a statement that writes, with retries; *doing* says for an error what is tried.

        It may run twice after a lost connection, which does no harm.
        """
        return self._calls.call(lambda connection, _: self._calls.run(connection, text, values), doing)
