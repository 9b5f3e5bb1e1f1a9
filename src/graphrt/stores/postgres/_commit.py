"""Commits to a PostgreSQL store: written in one statement, and verified after a lost connection.

The texts of the statements are in `_statements`.

When the connection is lost, the commit may be stored, not stored, or still on its way to the server. A retry first
raises the *fence*, a number that a commit must find in the thread's row, which blocks a statement still in flight. The
*token* in the row, the random number of its last change, or the last record then shows whether the commit was stored
before.

A commit consists of *changes* of the thread's row, such as its status, and of *parts*: rows of other tables, such as
records (the journal entries of one commit). A *claim* is the right to write; its number in the thread is its *epoch*.
"""

from __future__ import annotations

from typing import Final

from graphrt.errors import ConflictError
from graphrt.errors._codes.threads import CONFLICT, LOST_LEASE, THREAD_HAS_MOVED
from graphrt.stores import _checks
from graphrt.stores.ids import tenant_of
from graphrt.stores.postgres import _parts, _statements
from graphrt.stores.postgres._claims import PostgresClaim, free
from graphrt.stores.postgres._connection import Link
from graphrt.stores.postgres._driver import Connection
from graphrt.stores.values import Commit

_texts: Final[dict[tuple[str, ...], str]] = {}
"""Cached statements, by the names of the changes and parts that they write: a few dozen at most."""


class Writing:
    """One call of `commit`. It can be retried after a lost connection, and recognises what it wrote before.

    Args:
        link: Names the schema in statements.
        commit: The commit.
        claim: The claim that it is made under.
        token: A new random number, which marks the change of the thread's row as this commit's.

    Raises:
        InputError: *commit* is inconsistent (`bad-commit`).
    """

    def __init__(self, link: Link, commit: Commit, claim: PostgresClaim, token: int) -> None:
        self.claim: Final = claim
        self._link: Final = link
        self._seq: Final = _checks.check_commit(commit, claim.thread)
        self.commit: Final = commit
        self.token: Final = token
        self._empties: Final = commit.release and self._seq == 0
        """Whether the commit releases a thread without entries, which is then deleted with all its parts."""
        # The statement keeps such a claim, and `free` ends it by deleting the thread.
        release = commit.release and not self._empties
        self._changes: Final = _parts.commit_changes(commit, claim.lease_s, release=release)
        """Names of the changes, and their parameters."""
        # For a thread that is deleted, only its messages to others and its memory are written.
        written = (
            Commit(commit.expected, commit.at, posts=commit.posts, memory=commit.memory) if self._empties else commit
        )
        self._parts: Final = _parts.commit_parts(written, claim.thread)
        tenant = tenant_of(claim.thread)
        if tenant is not None and commit.labels is None and not (claim.is_stored or claim.head.seq):
            # A new thread without labels, which would include the tenant.
            self._parts.insert(0, _parts.Part("tenant", [tenant], 0))

    def run(self, connection: Connection, again: bool) -> None:  # noqa: FBT001 - Calls.call says so
        """Write the whole commit or nothing.

        Args:
            connection: A connection in autocommit mode.
            again: Whether an earlier call may have written the commit.

        Raises:
            ConflictError: The claim is void, or the last entry is not the expected one.
        """
        # `unsure`: the outcome of the previous commit, which may be this one's first attempt, is unknown.
        if not ((again or self.claim.unsure) and self.landed(connection)):
            self.write(connection)
        if self._empties:  # even in a retry, because the first attempt may have just been stored
            free(self._link, connection, self.claim)

    def write(self, connection: Connection) -> None:
        """Write the commit without checking whether it is already stored. An erasure calls it in its transaction.

        Raises:
            ConflictError: The claim is void, or the last entry is not the expected one.
        """
        # `_refuse` raises, except where only the fence differs; then the second round succeeds.
        while not self._write(connection):
            self._refuse(connection)

    def _write(self, connection: Connection) -> bool:
        """Write everything in one statement, or in one transaction if that would be too large.

        One statement is atomic by itself, and one round trip. `size` and `LARGE` count the bytes of bodies: the server
        accepts 1 GB in a statement, and holds several copies of it in memory.

        Returns:
            False if the thread's row does not meet the conditions; nothing was written.
        """
        if sum(part.size for part in self._parts) <= _parts.LARGE:
            return self._take(connection, self._parts)
        with connection.transaction():
            if not self._take(connection, []):
                return False
            for part in self._parts:  # the transaction holds the lock on the thread's row
                text = self._link.named(_statements.next_text(part.name))
                connection.execute(text, [self.claim.no, *part.values])
        return True

    def _take(self, connection: Connection, parts: list[_parts.Part]) -> bool:
        """Update the thread's row and write *parts*. Returns False if the row does not meet the conditions.

        The conditions are those of a valid claim: its epoch, a lease that runs, the expected last entry, the fence.
        """
        claim = self.claim
        if not claim.is_stored:
            return self._take_first(connection, parts)
        changes, values = self._changes
        shape = (*changes, *(part.name for part in parts))
        text = _texts.get(shape)
        if text is None:
            text = _texts[shape] = _statements.commit_text(shape)
        # Parameters in the order of the text: the row's columns, the changes, the conditions, then the parts.
        values = [self._seq, self.commit.at, self.token, *values, claim.no, claim.epoch, self.commit.expected]
        values.append(claim.fence)
        for part in parts:
            values += part.values
        # True prepares the statement on the server at its first use, since the few texts are used over and over. Behind
        # a pooler, the next call may run in another session, which lacks it: None leaves the choice to the connection.
        prepare = None if self._link.pooled else True
        return connection.execute(self._link.named(text), values, prepare=prepare).rowcount == 1

    def _take_first(self, connection: Connection, parts: list[_parts.Part]) -> bool:
        """Like `_take`, but also store the claim, in one statement.

        The epoch decides: another claim on the thread would have raised it.
        """
        claim, owner, head, commit = self.claim, self.claim.owner, self.claim.head, self.commit
        is_new = not head.seq
        pid, start = owner.identity()
        changes, values = self._changes
        shape = ("new" if is_new else "free", *changes, *(part.name for part in parts))
        text = _texts.get(shape)
        if text is None:
            text = _texts[shape] = _statements.first_text(shape[1:], new=is_new)
        claim.tokens.add(self.token)
        self._named = (pid, start)
        if is_new:
            leading_values = [claim.thread, self._seq, commit.at, self.token, head.created_at, claim.epoch, owner.text]
            values = [*leading_values, pid, start, *values]
            if commit.expected:
                return False
        else:
            ours = list({*owner.doubtful.get(claim.thread, ()), *claim.tokens})
            values = [self._seq, commit.at, self.token, *values, owner.text, pid, start]
            values += [claim.no, claim.epoch - 1, commit.expected, ours]
        for part in parts:
            values += part.values
        prepare = None if self._link.pooled else True
        row = connection.execute(self._link.named(text), values, prepare=prepare).fetchone()
        if row is not None:
            claim.no = row[0]
        return row is not None or self._landed_first(connection)  # an earlier attempt may have arrived late

    def stored(self) -> None:
        """Record that the commit, and with it the claim, is stored."""
        claim = self.claim
        if not claim.is_stored:
            claim.is_stored = True
            claim.owner.doubtful.pop(claim.thread, None)
            claim.owner.add(claim, self._named)

    def _landed_first(self, connection: Connection) -> bool:
        """Return whether this commit, which also stores the claim, is stored."""
        last = self.commit.records[-1] if self.commit.records else None
        values = [-1 if last is None else last.seq, self.claim.thread]
        row = connection.execute(self._link.named(_statements.FIRST), values, binary=True).fetchone()
        if row is None:
            return self._empties and bool(self.claim.no)
        no, token, epoch, _, _, body = row
        if token != self.token and (last is None or body != last.body or epoch != self.claim.epoch):
            return False
        self.claim.no = no
        return True

    def landed(self, connection: Connection) -> bool:
        """Return whether the commit is stored, after blocking a statement that may still be in flight."""
        if not self.claim.is_stored:
            return self._landed_first(connection)
        last = self.commit.records[-1] if self.commit.records else None
        values = [self.claim.no, self.claim.epoch, -1 if last is None else last.seq]  # no record has the number -1
        row = connection.execute(self._link.named(_statements.FENCE), values, binary=True).fetchone()
        if row is None:  # the claim is void, or the thread had no entries and `free` deleted it
            current_row = connection.execute(self._link.named(_statements.STANDS), [self.claim.no]).fetchone()
            return self._empties and current_row is None
        token, self.claim.fence, _, body = row  # the third is the thread's last entry
        # A caller that repeats a commit of unknown outcome creates a new `Writing` with another token, so the last
        # record is recognised by its body.
        return bool(token == self.token or (last is not None and body == last.body))

    def _refuse(self, connection: Connection) -> None:
        """Raise the reason why the thread's row does not meet the conditions.

        Returns without an error if only the fence differs: it is copied into the claim, and the commit can be repeated.
        This happens if `landed` raised the fence and lost its connection before the new number arrived.

        Raises:
            ConflictError: The claim is void, or the last entry is not the expected one.
        """
        claim = self.claim
        if not claim.is_stored:
            raise self._refused_first(connection)
        row = connection.execute(self._link.named(_statements.STANDS), [claim.no], binary=True).fetchone()
        if row is None:
            raise LOST_LEASE(thread=claim.thread, epoch=claim.epoch, known="there is no such thread now")
        epoch, seq, _, fence, leased, holder = row  # the third is the token
        if epoch != claim.epoch:
            newest = f"its newest claim is number {epoch}, of {holder}; last entry {seq}"
            raise LOST_LEASE(thread=claim.thread, epoch=claim.epoch, known=newest)
        if not leased:
            raise LOST_LEASE(
                thread=claim.thread, epoch=claim.epoch, known=f"it was released, or its lease ran out; last entry {seq}"
            )
        if seq != self.commit.expected:
            raise THREAD_HAS_MOVED(thread=claim.thread, expected=self.commit.expected, got=seq)
        claim.fence = fence

    def _refused_first(self, connection: Connection) -> ConflictError:
        """Return why the claim was not stored: another owner was faster, or the thread is gone or at another entry."""
        claim, expected = self.claim, self.commit.expected
        row = connection.execute(self._link.named(_statements.FIRST), [-1, claim.thread], binary=True).fetchone()
        if row is None or (claim.head.seq and row[0] != claim.no):
            if not claim.head.seq:
                return THREAD_HAS_MOVED(thread=claim.thread, expected=expected, got=0)
            return CONFLICT(thread=claim.thread, known="it was deleted meanwhile")
        _, _, epoch, seq, holder, _ = row
        if epoch >= claim.epoch or not claim.head.seq:
            return CONFLICT(thread=claim.thread, known=f"its newest claim is number {epoch}, of {holder}")
        return THREAD_HAS_MOVED(thread=claim.thread, expected=expected, got=seq)
