"""One commit to a PostgreSQL store: written in one statement, and looked for after a lost connection.

Only commits; the texts of their statements are in `_statements`.
"""

from __future__ import annotations

from typing import Final

from graphrt.stores import _refusals
from graphrt.stores.postgres import _statements
from graphrt.stores.postgres._claims import PostgresClaim, free
from graphrt.stores.postgres._connection import Link
from graphrt.stores.postgres._driver import Connection
from graphrt.stores.protocol import Commit

_texts: Final[dict[tuple[str, ...], str]] = {}
"""Statements by the parts that they write: a few dozen at most."""


class Writing:
    """One call of `commit`: it may be repeated after a lost connection, and then finds what it did before.

    Args:
        token: Never used before; says whose the last change of the thread's row was.

    Raises:
        InputError: The commit is not whole.
    """

    def __init__(self, link: Link, commit: Commit, claim: PostgresClaim, token: int) -> None:
        self.claim: Final = claim
        self._link: Final = link
        self._seq: Final = _refusals.last_seq(commit, claim.thread)
        _refusals.bytes_only(commit, claim.thread)
        self._commit: Final = commit
        self._token: Final = token
        self._empties: Final = commit.release and self._seq == 0
        """A thread without any entry is forgotten when it is given back, with whatever was staged."""
        release = commit.release and not self._empties
        self._changes: Final = _statements.commit_changes(commit, claim.lease_s, release=release)
        self._parts: Final = [] if self._empties else _statements.commit_parts(commit)

    def run(self, connection: Connection, again: bool) -> None:  # noqa: FBT001 - Calls.call says so
        """Write all of it or nothing.

        Raises:
            ConflictError: The claim is void, or the last entry is another one than expected.
        """
        if (again or self.claim.unsure) and self._landed(connection):
            return
        while not self._write(connection):
            self._refuse(connection)
        if self._empties:
            free(self._link, connection, self.claim)

    def _write(self, connection: Connection) -> bool:
        """Write everything, in one statement if it is not too large for one; False if the claim is void."""
        if sum(part.size for part in self._parts) <= _statements.LARGE:
            return self._take(connection, self._parts)
        with connection.transaction():
            if not self._take(connection, []):
                return False
            for part in self._parts:
                text = self._link.named(_statements.next_text(part.name))
                connection.execute(text, [self.claim.no, *part.values])
        return True

    def _take(self, connection: Connection, parts: list[_statements.Part]) -> bool:
        """Take the thread's row and write *parts*; False if the claim is void."""
        claim = self.claim
        changes, values = self._changes
        shape = (*changes, *(part.name for part in parts))
        text = _texts.get(shape)
        if text is None:
            text = _texts[shape] = _statements.commit_text(shape)
        values = [self._seq, self._commit.at, self._token, *values, claim.no, claim.epoch, self._commit.expected]
        values.append(claim.fence)
        for part in parts:
            values += part.values
        prepare = None if self._link.pooled else True
        return connection.execute(self._link.named(text), values, prepare=prepare).rowcount == 1

    def _landed(self, connection: Connection) -> bool:
        """After a lost connection: shut out the statement that may still be under way, then see what became of it."""
        last = self._commit.records[-1] if self._commit.records else None
        values = [self.claim.no, self.claim.epoch, -1 if last is None else last.seq]
        row = connection.execute(self._link.named(_statements.FENCE), values, binary=True).fetchone()
        if row is None:
            return False  # the claim is void
        token, self.claim.fence, _, body = row
        return bool(token == self._token or (last is not None and body == last.body))

    def _refuse(self, connection: Connection) -> None:
        """Say why the thread's row was not there to be taken; return if it only has another fence by now."""
        claim = self.claim
        row = connection.execute(self._link.named(_statements.STANDS), [claim.no], binary=True).fetchone()
        if row is None:
            raise _refusals.lost(claim.thread, claim.epoch, "there is no such thread now")
        epoch, seq, _, fence, leased, holder = row
        if epoch != claim.epoch:
            newest = f"its newest claim is number {epoch}, of {holder}; last entry {seq}"
            raise _refusals.lost(claim.thread, claim.epoch, newest)
        if not leased:
            raise _refusals.lost(claim.thread, claim.epoch, f"it was released, or its lease ran out; last entry {seq}")
        if seq != self._commit.expected:
            raise _refusals.moved(claim.thread, self._commit.expected, seq)
        claim.fence = fence
