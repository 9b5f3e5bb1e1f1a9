"""Claims in a PostgreSQL store: claiming threads, and detecting from other processes that an owner is dead.

Every store object that claims threads keeps one idle connection. Its server process (backend) represents the owner:
when the owner's process dies, the server ends the backend within milliseconds. Another process that no longer finds the
backend's pid in the server's list may take the thread at once.

A pooler that lends sessions, such as PgBouncer, hides which backend belongs to which process. Then no pid is stored,
and others wait until the lease has run out. Leases are measured by the database's clock.

A *claim* is the right to write a thread. Its number among the claims of the thread is its *epoch*. The *token* in a
thread's row is the random number of its last change, by which a call retried after a lost connection recognises its own
change. A thread without entries exists only as long as its claim. Texts of statements have `{s}` in place of the
schema's name, which `Link.named` puts in. Commits are in `_commit`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from graphrt._forks import OwnLock
from graphrt.errors import StoreError
from graphrt.errors._codes.threads import CONFLICT
from graphrt.stores.ids import tenant_of
from graphrt.stores.postgres import _statements
from graphrt.stores.postgres._connection import Link, alive
from graphrt.stores.postgres._driver import Connection
from graphrt.stores.values import Claim, Former, Head

if TYPE_CHECKING:
    from graphrt.stores.postgres._calls import Calls

_LINGER_S: Final = 0.5
"""Seconds to wait for the backend of a dead owner to disappear, before the thread counts as held."""
_LOOK_S: Final = 0.05
"""Seconds between two checks."""


class PostgresClaim(Claim):
    """A claim, with the data that the store needs for commits under it."""

    __slots__ = ("fence", "is_stored", "no", "owner", "tokens", "unsure", "until")

    def __init__(self, head: Head, lease_s: float, no: int, owner: Owner, former: Former) -> None:
        super().__init__(head, lease_s, former)
        self.owner: Final = owner
        self.no = no
        """The thread's number; 0 for a new thread until it is stored. Its id may later belong to another thread, its
        number never."""
        self.is_stored = False
        """Whether a commit has stored the claim. Until then it is reserved in this store object, up to `until`."""
        self.tokens: set[int] = set()
        """Tokens of commits that tried to store the claim."""
        self.until = 0.0
        """End of the reservation, by the monotonic clock of this process."""
        self.fence: int = 0
        """Number that a commit must find in the thread's row. It is raised when the outcome of a commit is unknown, so
        that a statement still in flight can no longer take effect."""
        self.unsure: bool = False
        """Whether the outcome of the last commit is unknown."""


class Owner:
    """The owner of a store object's claims, as other processes see it: a connection and its backend.

    In a row of a thread, the pid and start time of the backend *name* the owner.
    """

    def __init__(self, link: Link) -> None:
        self._link: Final = link
        self._connection: Connection | None = None
        self._identity: tuple[int | None, int | None] = (None, None)
        """Pid and start time of the backend that represents this owner now; see `identity`."""
        self._named: tuple[int | None, int | None] = (None, None)
        """The identity stored with our claims in the database, which is outdated after a reconnect."""
        self._lock: Final = OwnLock(link.home)
        self.claims: dict[int, PostgresClaim] = {}
        """Claims that callers got and have not released, by the number of their thread."""
        self.doubtful: dict[str, set[int]] = {}
        """Tokens of failed first commits that may be stored nevertheless, with their claim, by thread id."""
        self.text = ""
        """Process and host, for error messages of other processes."""

    def identity(self) -> tuple[int | None, int | None]:
        """Return pid and start time (microseconds since the epoch) of our backend; two Nones behind a pooler.

        A new claim stores them.

        Raises:
            StoreError: The server cannot be reached.
        """
        with self._lock:
            if self._connection is None:
                self._open()
            if not self.claims:  # the claim that follows is the only one
                self._named = self._identity
            return self._identity

    def add(self, claim: PostgresClaim, identity: tuple[int | None, int | None]) -> None:
        """Add a claim that was stored with *identity*; `moved` returns whether that is still ours."""
        with self._lock:
            self.claims[claim.no] = claim
            if (
                identity != self._identity
            ):  # our backend was replaced in the meantime, and all claims except this one were updated
                self._named = identity

    def moved(self) -> tuple[int | None, int | None] | None:
        """Return the identity that our claims must name from now on, or None if they already do.

        It differs if our backend was lost. A new connection is then opened here, if possible. Called before commits and
        renewals of leases, which then store the new identity.
        """
        with self._lock:
            if self._connection is not None and not alive(self._connection):
                self._connection.close()
                self._connection = None
                self._identity = (None, None)
            if self._connection is None:
                with suppress(StoreError):  # two Nones leave the decision to the leases
                    self._open()
            return None if self._identity == self._named else self._identity

    def has_moved(self, identity: tuple[int | None, int | None]) -> None:
        """Record that all claims name *identity* now."""
        with self._lock:
            self._named = identity

    def _open(self) -> None:
        """Open the connection, and read the identity of its backend. Called under the lock.

        Raises:
            StoreError: The server cannot be reached.
        """
        from socket import gethostname

        connection = self._link.open()
        self.text = f"process {os.getpid()} on {gethostname()}"
        if not self._link.pooled:  # a pooler hides which backend is ours
            row = connection.execute(self._link.named(_statements.IDENTITY)).fetchone()
            self._identity = (None, None) if row is None else (row[0], row[1])
        self._connection = connection

    def close(self) -> None:
        """Close the connection. Its backend ends, and with it all claims that name it."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None


def reserve(
    link: Link, owner: Owner, connection: Connection, thread: str, *, create: bool, lease_s: float, at: float
) -> PostgresClaim | None:
    """Return a claim on *thread* for *owner*. This only reads; the first commit under the claim stores it.

    Args:
        link: Names the schema in statements.
        owner: The owner of the new claim.
        connection: A connection in autocommit mode.
        thread: The thread's id.
        create: Whether the thread may be new.
        lease_s: Seconds of the lease.
        at: Creation time of a new thread, in seconds since the epoch.

    Returns:
        The claim; None if the thread does not exist and is not to be created.

    Raises:
        ConflictError: A living owner holds it.
    """
    give_up = time.monotonic() + _LINGER_S
    ours = owner.doubtful.get(thread, set[int]())
    while True:
        row = connection.execute(link.named(_statements.LOOK), [thread], binary=True).fetchone()
        epoch = 0
        if row is not None:
            no, *head_values, first, title, tags, rank, former, token, owned, holder, since, left_s = row
            seq, epoch = head_values[:2]
            if owned and token not in ours:
                # The server needs a moment to end the backend of a process that has just died.
                if time.monotonic() > give_up:
                    raise CONFLICT(thread=thread, known=describe_claim(holder, since, left_s))
                time.sleep(_LOOK_S)
                continue
            if seq:
                head_values[1] = epoch + 1
                head = _statements.to_head(thread, (*head_values, True, first, title, tags, rank))
                return PostgresClaim(head, lease_s, no, owner, former)
            # Its owner died before the first entry: the thread counts as never created. Its epochs are not reset.
            _forget_empty(link, owner, connection, thread, no)
        if not create:
            return None
        head = Head(thread, 0, epoch + 1, "new", "", at, at, owned=True, tenant=tenant_of(thread))
        return PostgresClaim(head, lease_s, 0, owner, "released")


def _forget_empty(link: Link, owner: Owner, connection: Connection, thread: str, no: int) -> None:
    """Delete *thread*, whose number is *no*, if it has no entries and no living owner."""
    with connection.transaction():
        connection.execute(link.named(_statements.LOCK), [thread])
        # The server caches its list of backends for the duration of a transaction: read it again after the lock.
        connection.execute(_statements.LOOK_AGAIN.encode())  # contains no table name, so it needs no `Link.named`
        row = connection.execute(link.named(_statements.SEE), [no]).fetchone()
        if row is not None:
            seen = Seen._make(row)
            if not seen.seq and (not seen.lives or seen.token in owner.doubtful.get(thread, ())):
                connection.execute(link.named(_statements.FORGET), {"no": no})


def free(link: Link, connection: Connection, claim: PostgresClaim) -> None:
    """Release the thread if *claim* is valid, and delete it if it has no entries."""
    values = [claim.no, claim.epoch]
    if connection.execute(link.named(_statements.RELEASE), values).rowcount:  # one row if there are entries
        return
    # Two statements: under READ COMMITTED, the second one sees all that was committed before the lock was granted.
    with connection.transaction():
        if connection.execute(link.named(_statements.LOCK_EMPTY), values).rowcount:
            connection.execute(link.named(_statements.FORGET), {"no": claim.no})


class Seen(NamedTuple):
    """The holder of a thread and its last change: a row of `_statements.SEE`."""

    seq: int
    epoch: int
    token: int
    """Number of the change; every writer draws its own."""
    lives: bool
    """Whether a living owner holds it."""
    holder: str
    since: float
    """Seconds since the epoch."""
    left_s: float
    """Seconds that the lease still has."""


def seen(calls: Calls, connection: Connection, no: int) -> Seen | None:
    """Return who holds the thread with the number *no*; None if it does not exist."""
    row = calls.run(connection, _statements.SEE, [no]).fetchone()
    return None if row is None else Seen._make(row)


def describe_claim(holder: str, since: float, left_s: float) -> str:
    """Describe for an error message who holds a thread, since when, and how long the lease still runs.

    The arguments are the fields `holder`, `since` and `left_s` of `Seen`.
    """
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(since))
    return f"held by {holder} since {moment} UTC; its lease has {left_s:.0f} seconds left"


def columns(claims: Iterable[PostgresClaim]) -> tuple[list[int], list[int], list[float]]:
    """Return the thread numbers, epochs and leases of *claims*, in order of thread number.

    All statements that lock several rows use this order, so that they cannot deadlock.
    """
    ours = sorted(claims, key=lambda claim: claim.no)
    return [claim.no for claim in ours], [claim.epoch for claim in ours], [claim.lease_s for claim in ours]
