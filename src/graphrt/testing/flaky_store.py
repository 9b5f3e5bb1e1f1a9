"""`FlakyStore`: a store that fails or stalls where a test says so, in front of a real one."""

# ruff: noqa: D102 - the methods are those of the store protocol, which documents them

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Literal, final

from graphrt.errors import closest, names
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.testing_doubles import (
    PLANNED_STORE_FAILURE,
    STALL_ON_EVENT_LOOP,
)
from graphrt.stores.mail import Letter
from graphrt.stores.protocol import OPERATIONS, Claim, Commit, Head, Loaded, Record, Status, Store
from graphrt.stores.schedules import Scheduled

_MOMENTS: Final = ("before", "after")


@final
@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a `FlakyStore`.

    With *moment* "before" the call has no effect; with "after" it takes effect, and its caller gets the error all the
    same, as when a connection is lost while the answer is on its way.
    """

    operation: str
    """Method of the store protocol, such as `commit`, `claim` or `load`."""
    nth: int = 1
    """Which call of the operation is the first that fails, counted from 1."""
    times: int = 1
    """How many calls fail, one after another."""
    error: Callable[[], BaseException] | None = None
    """Makes the error; by default a `StoreError` with the code `store-unavailable`."""
    stall: threading.Event | None = None
    """Instead of failing, the call waits for this event."""
    moment: Literal["before", "after"] = "before"
    """Whether the fault happens before the call takes effect, or after."""

    def __post_init__(self) -> None:
        if self.operation not in OPERATIONS:
            raise INVALID_ARGUMENT(
                argument="The operation of a fault",
                value=self.operation,
                wanted="the name of a method of the store protocol",
                known=names(OPERATIONS),
                guess=closest(self.operation, OPERATIONS),
            )
        if self.nth < 1 or self.times < 1:
            raise INVALID_ARGUMENT(
                argument="(nth, times) of a fault",
                value=(self.nth, self.times),
                wanted="1 or more for both: calls are counted from 1, and a fault hits at least one",
            )
        if self.moment not in _MOMENTS:
            raise INVALID_ARGUMENT(
                argument="The moment of a fault", value=self.moment, wanted=f"one of {names(_MOMENTS)}"
            )


@final
class FlakyStore:
    """A store with faults, in front of another one.

    Args:
        store: The store that does the work. Closing the `FlakyStore` closes it.
        faults: What goes wrong, and when; more with `add`.
    """

    def __init__(self, store: Store, faults: Iterable[Fault] = ()) -> None:
        self.store: Store = store
        self.durable: bool = store.durable
        self.blocking: bool = store.blocking
        """Whether its calls are kept off the event loop: of a store in memory, once a fault stalls one."""
        self.calls: dict[str, int] = dict.fromkeys(OPERATIONS, 0)
        """How often each operation was called."""
        self.happened: list[Fault] = []
        """Faults in the order in which they happened, once for each call that they hit."""
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        for fault in faults:
            self.add(fault)

    @property
    def _wrapped(self) -> Store:
        return self.store

    def add(self, fault: Fault) -> None:
        """Plan one more fault. Its `nth` counts all calls, those before this one too."""
        with self._lock:
            self._faults.append(fault)
            # On the event loop, a call that stalls would stop the test that is to let it go on.
            self.blocking = self.blocking or fault.stall is not None

    def _do(self, operation: str, *args: Any, **words: Any) -> Any:
        with self._lock:
            self.calls[operation] += 1
            number = self.calls[operation]
            hits = [f for f in self._faults if f.operation == operation and f.nth <= number < f.nth + f.times]
            self.happened += hits
        for fault in hits:
            if fault.moment == "before":
                self._happen(fault, number)
        result = getattr(self.store, operation)(*args, **words)
        for fault in hits:
            if fault.moment == "after":
                self._happen(fault, number)
        return result

    def _happen(self, fault: Fault, number: int) -> None:
        if fault.stall is not None:
            if not fault.stall.is_set() and _on_event_loop():
                raise STALL_ON_EVENT_LOOP(number=number, operation=fault.operation)
            fault.stall.wait()
        elif fault.error is not None:
            raise fault.error()
        else:
            kept = "nothing was stored" if fault.moment == "before" else "whether it took effect is not known"
            raise PLANNED_STORE_FAILURE(number=number, operation=fault.operation, kept=kept)

    # -- the store protocol --------------------------------------------------------------------------------------

    def claim(self, thread: str, *, create: bool, lease_s: float, at: float) -> Claim:
        claim: Claim = self._do("claim", thread, create=create, lease_s=lease_s, at=at)
        return claim

    def renew(self, claims: Iterable[Claim]) -> None:
        self._do("renew", claims)

    def release(self, claim: Claim) -> None:
        self._do("release", claim)

    def commit(self, claim: Claim, commit: Commit) -> None:
        self._do("commit", claim, commit)

    def head(self, thread: str) -> Head:
        head: Head = self._do("head", thread)
        return head

    def heads(
        self,
        *,
        status: Status | None = None,
        graph: str | None = None,
        prefix: str | None = None,
        updated_before: float | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Head]:
        found: list[Head] = self._do(
            "heads",
            status=status,
            graph=graph,
            prefix=prefix,
            updated_before=updated_before,
            after=after,
            limit=limit,
        )
        return found

    def load(self, thread: str, *, upto: int | None = None, after: int = 0) -> Loaded:
        loaded: Loaded = self._do("load", thread, upto=upto, after=after)
        return loaded

    def records(self, thread: str, *, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        found: Iterator[Record] = self._do("records", thread, after=after, upto=upto)
        return found

    def blobs(self, thread: str, names: Iterable[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = self._do("blobs", thread, names)
        return found

    def delete(self, thread: str) -> None:
        self._do("delete", thread)

    def prune(self, claim: Claim, upto: int, *, keep_blobs: Iterable[str] | None = None) -> int:
        count: int = self._do("prune", claim, upto, keep_blobs=keep_blobs)
        return count

    def erase(
        self,
        claim: Claim,
        commit: Commit,
        *,
        records: Iterable[Record],
        snapshots_after: int,
        keep_blobs: Iterable[str],
    ) -> None:
        words: dict[str, Any] = {"snapshots_after": snapshots_after, "keep_blobs": keep_blobs}
        self._do("erase", claim, commit, records=records, **words)

    def post(self, thread: str, id: str, body: bytes) -> bool:
        kept: bool = self._do("post", thread, id, body)
        return kept

    def mail(self, thread: str) -> list[Letter]:
        found: list[Letter] = self._do("mail", thread)
        return found

    def mailed(self, threads: Iterable[str]) -> list[str]:
        found: list[str] = self._do("mailed", threads)
        return found

    def due(
        self,
        *,
        now: float,
        graphs: Iterable[str] | None = None,
        prefix: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Head]:
        words: dict[str, Any] = {"graphs": graphs, "prefix": prefix, "after": after, "limit": limit}
        found: list[Head] = self._do("due", now=now, **words)
        return found

    def put_schedule(self, schedule: Scheduled, *, replaces: str | None) -> bool:
        kept: bool = self._do("put_schedule", schedule, replaces=replaces)
        return kept

    def move_schedule(self, name: str, version: str, *, due_at: float, to: float) -> bool:
        moved: bool = self._do("move_schedule", name, version, due_at=due_at, to=to)
        return moved

    def schedules(self, *, graph: str | None = None, due_by: float | None = None) -> list[Scheduled]:
        found: list[Scheduled] = self._do("schedules", graph=graph, due_by=due_by)
        return found

    def delete_schedule(self, name: str) -> bool:
        gone: bool = self._do("delete_schedule", name)
        return gone

    def close(self) -> None:
        self._do("close")

    def __enter__(self) -> FlakyStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> FlakyStore:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
