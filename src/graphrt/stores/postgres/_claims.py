"""Who owns a thread in a PostgreSQL store: how a claim is taken, and how others see that its owner is dead.

Every store object that claims keeps one idle connection. Its backend stands for the owner: when the owner's process
dies, the server ends the backend within milliseconds, and whoever finds its number gone from the list of backends may
take the thread at once. Where something stands between us and the server that lends its sessions (PgBouncer), that
number says nothing; then none is written, and the lease has to run out. Leases are measured by the database's clock.

Only what claims need; commits are in `postgres`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from graphrt._forks import watch_forks
from graphrt.errors import StoreError
from graphrt.stores import _refusals
from graphrt.stores.postgres import _statements
from graphrt.stores.postgres._connection import Link, alive, leave
from graphrt.stores.postgres._driver import Connection
from graphrt.stores.protocol import Claim, Head

_LINGER_S: Final = 0.5
"""Seconds that a dead owner's backend is given to vanish."""
_LOOK_S: Final = 0.05


class PostgresClaim(Claim):
    """A claim, with what the store has to know of it."""

    __slots__ = ("fence", "no", "owner", "pid", "unsure")

    def __init__(self, head: Head, lease_s: float, no: int, owner: Owner) -> None:
        super().__init__(head, lease_s)
        self.owner: Final = owner
        self.no: Final = no
        """The thread's number: its id may be given to another one later."""
        self.pid: Final = os.getpid()
        self.fence: int = 0
        """A statement that carries another one is refused: raised when a statement's outcome is unknown."""
        self.unsure: bool = False
        """Whether the outcome of the last commit is still unknown."""

    def is_of(self, owner: Owner) -> bool:
        """Whether *owner* was given it, in this process."""
        return self.owner is owner and self.pid == os.getpid()


class Owner:
    """This store object as others see it."""

    def __init__(self, link: Link) -> None:
        self._link: Final = link
        self._connection: Connection | None = None
        self._begin()
        watch_forks(self)

    def before_fork(self) -> None:
        """Nothing to wait for."""

    def after_fork_in_parent(self) -> None:
        """Nothing was begun."""

    def after_fork_in_child(self) -> None:
        """Start anew; the parent's connection stays the parent's."""
        leave(self._connection)
        self._begin()

    def _begin(self) -> None:
        """In a process that has claimed nothing yet."""
        self._connection = None
        self._identity: tuple[int | None, int | None] = (None, None)
        self._named: tuple[int | None, int | None] = (None, None)
        """What our claims name in the database."""
        self._lock = threading.Lock()
        self.claims: dict[int, PostgresClaim] = {}
        """Those that were given and not given back, by the thread's number."""
        self.doubtful: dict[str, set[int]] = {}
        """Tokens of claims that may be stored though nobody was given them, by thread."""
        self.text = ""

    def identity(self) -> tuple[int | None, int | None]:
        """Number of the backend that stands for us and when it was started; two Nones if there is none to be had.

        Raises:
            StoreError: The server cannot be reached.
        """
        with self._lock:
            if self._connection is None:
                self._open()
            if not self.claims:
                self._named = self._identity
            return self._identity

    def moved(self) -> tuple[int | None, int | None] | None:
        """If our backend was lost: what stands for us now. None if our claims name what stands for us."""
        with self._lock:
            if self._connection is not None and not alive(self._connection):
                self._connection.close()
                self._connection = None
                self._identity = (None, None)
            if self._connection is None:
                with suppress(StoreError):  # better no backend than a dead one: then the leases hold
                    self._open()
            return None if self._identity == self._named else self._identity

    def has_moved(self, identity: tuple[int | None, int | None]) -> None:
        """All claims name *identity* now."""
        with self._lock:
            self._named = identity

    def _open(self) -> None:
        from socket import gethostname

        connection = self._link.open()
        self.text = f"process {os.getpid()} on {gethostname()}"
        if not self._link.pooled:
            row = connection.execute(self._link.named(_statements.IDENTITY)).fetchone()
            self._identity = (None, None) if row is None else (row[0], row[1])
        self._connection = connection

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None


class Taking:
    """One call of `claim`: it may be repeated after a lost connection, and then finds what it did before.

    Args:
        token: Never used before; says whose the last change of the thread's row was.
    """

    def __init__(
        self, link: Link, owner: Owner, thread: str, token: int, *, create: bool, lease_s: float, at: float
    ) -> None:
        self._link = link
        self._owner = owner
        self._thread = thread
        self._create = create
        self._values: dict[str, Any] = {"id": thread, "token": token, "lease_s": lease_s, "at": at, "epoch": 1}
        self.ours: Final = {token, *owner.doubtful.pop(thread, ())}
        """Tokens whose claim is this one's: taken from the owner, so that no two calls get the same."""

    def run(self, connection: Connection) -> PostgresClaim | None:
        """Take the thread; None if there is none.

        Raises:
            ConflictError: A living owner holds it.
        """
        pid, start = self._owner.identity()
        self._values |= {"pid": pid, "start": start, "holder": self._owner.text}
        give_up = time.monotonic() + _LINGER_S
        while True:
            row = self._ask(connection, _statements.CLAIM)
            if row is None and self._create:
                row = self._ask(connection, _statements.CLAIM_NEW)
            if row is not None:
                return self._claim(row)
            with connection.transaction():
                found = connection.execute(self._link.named(_statements.LOCK), [self._thread]).fetchone()
                row, holder = self._look(connection, found[0]) if found else (None, "")
            if row is not None:
                return self._claim(row)
            if not holder:
                if not self._create:
                    return None
                continue  # it was forgotten just now
            if time.monotonic() > give_up:
                raise _refusals.held(self._thread, holder)
            time.sleep(_LOOK_S)

    def _look(self, connection: Connection, no: int) -> tuple[tuple[Any, ...] | None, str]:
        """With the thread's row locked: take it if its claim is void; else say who holds it."""
        connection.execute(_statements.LOOK_AGAIN.encode())  # the server lists its backends once a transaction
        seen = connection.execute(self._link.named(_statements.SEE), [no]).fetchall()
        seq, epoch, token, owned, holder, since, left_s = seen[0]
        if token in self.ours:
            return connection.execute(self._link.named(_statements.CLAIMED), [no], binary=True).fetchone(), ""
        if owned:
            return None, told(holder, since, left_s)
        if seq:
            return self._ask(connection, _statements.CLAIM_LOCKED, no=no), ""
        # Made by an owner who died before its first entry: as if it had never been.
        connection.execute(self._link.named(_statements.FORGET), {"no": no})
        return (self._ask(connection, _statements.CLAIM_NEW, epoch=epoch + 1) if self._create else None), ""

    def _ask(self, connection: Connection, text: str, **values: Any) -> tuple[Any, ...] | None:
        return connection.execute(self._link.named(text), {**self._values, **values}, binary=True).fetchone()

    def _claim(self, row: tuple[Any, ...]) -> PostgresClaim:
        no, *stands, first = row
        head = _statements.to_head(self._thread, (*stands, True, first))
        claim = PostgresClaim(head, self._values["lease_s"], no, self._owner)
        self._owner.claims[no] = claim
        return claim


def free(link: Link, connection: Connection, claim: PostgresClaim) -> None:
    """Give a claim back, if it holds; a thread without any entry is forgotten."""
    values = [claim.no, claim.epoch]
    if connection.execute(link.named(_statements.RELEASE), values).rowcount:
        return
    # The lock and the deletion are two statements: the second sees all that was committed before the lock was ours.
    with connection.transaction():
        if connection.execute(link.named(_statements.LOCK_EMPTY), values).rowcount:
            connection.execute(link.named(_statements.FORGET), {"no": claim.no})


def told(holder: str, since: float, left_s: float) -> str:
    """Who holds a thread, since when, and for how long at least."""
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(since))
    return f"held by {holder} since {moment} UTC; its lease has {left_s:.0f} seconds left"


def columns(claims: Iterable[PostgresClaim]) -> tuple[list[int], list[int], list[float]]:
    """Numbers, epochs and leases of *claims*; in one order everywhere, against deadlocks."""
    ours = sorted(claims, key=lambda claim: claim.no)
    return [claim.no for claim in ours], [claim.epoch for claim in ours], [claim.lease_s for claim in ours]
