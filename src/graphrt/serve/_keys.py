"""Idempotency keys: a write that is repeated under its key takes effect once, whichever replica gets the repetition.

Many writes are idempotent if the key is part of them: a new thread or fork gets an id derived from the key, and a
signal is sent under it. For the others the key has a *record*: a thread or fork whose id the client chose, an input for
a thread that exists, answers, a retry and an edit. The record is a thread of a small separate graph, in the same store.
By the reducer `first`, its first commit decides among all replicas which of two equal requests acts. The record
contains only digests.

A process may die between the record and the write. The record has the thread's position at that time. If the thread is
still there, and no input waits for the end of its run, nothing was written, and the repetition acts under a separate
record. Otherwise the outcome is unknown: the repetition is refused with that reason. Records are deleted after a day.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from hashlib import sha256
from time import monotonic, sleep
from typing import Annotated, Any, Final, TypedDict, TypeVar, final
from uuid import uuid4

from graphrt.commands import END, START
from graphrt.errors import ConflictError
from graphrt.errors._codes.serving import BAD_REQUEST_PART, KEY_IN_PROGRESS, KEY_OUTCOME_UNKNOWN, KEY_REUSED
from graphrt.graph import CompiledGraph, GraphBuilder
from graphrt.reducers import first
from graphrt.reducers import max as highest
from graphrt.runtime import Runtime
from graphrt.serve._access import Caller

T = TypeVar("T")

LONGEST: Final = 255
"""Characters of a key."""
KEPT_S: Final = 86_400.0
"""Seconds for which a key is remembered."""
_ANSWERING_S: Final = 60.0
"""Seconds within which a living process answers a request."""
_SWEEP_EVERY_S: Final = 3_600.0
_SWEPT: Final = 100
"""Maximum number of records that a request deletes, in one transaction of the store."""
_TRIES: Final = 100
"""Number of tries to write a record that another request is writing, 10 ms apart."""

_LOOKS: Final = 20
"""Number of looks at a record whose request is in progress, 50 ms apart: two tabs may send one decision."""


class KeyRecord(TypedDict):
    """The record of a key."""

    owner: Annotated[str, first]
    """Identifies the request that acts."""
    digest: Annotated[str, first]
    """Digest of that request."""
    begun_at: Annotated[float, first]
    seq: Annotated[int, first]
    """Position of the thread before the request; 0 if there was none."""
    done: Annotated[bool, highest]


@cache
def _graph() -> CompiledGraph[Any, Any, Any]:
    g = GraphBuilder(KeyRecord, name="graphrt.serve.keys")
    g.add_node("record", lambda _state: None)
    g.add_sequence([START, "record", END])
    return g.compile()


def derived_id(caller: Caller, scope: str, key: str) -> str:
    """Return a thread id derived from the key: the same for the same caller, resource and key.

    Raises:
        InputError: *key* is not 1 to 255 printable characters (`bad-request-part`).
    """
    if not (1 <= len(key) <= LONGEST and key.isprintable()):
        problem = f"it is not 1 to {LONGEST} printable characters"
        raise BAD_REQUEST_PART(part="header Idempotency-Key", problem=problem)
    # Without the tenant, because the tenant's store separates equal ids.
    return f"key-{sha256(chr(0).join((caller.user, scope, key)).encode()).hexdigest()[:40]}"


@final
class Keys:
    """The records of one store."""

    def __init__(self, runtime: Runtime[Any, Any]) -> None:
        store = runtime.store
        assert store is not None  # noqa: S101 - the server has refused a runtime without one
        self._records: Final = Runtime(_graph(), store=store, clock=runtime.clock)
        self._clock: Final = runtime.clock
        self._sweep_at = monotonic()

    def begin(self, record: str, digest: str, seq: int, *, waits: Callable[[], bool]) -> str | None:
        """Return the id of the record under which the request acts; None if it was already performed and answered.

        `forget` takes that id, and `end` the *record* of the key, which all repetitions look at first.

        Args:
            record: Id of the record of the key.
            digest: Digest of the request.
            seq: Current position of the thread.
            waits: Returns whether an input waits for the thread, which may be this request's. Called only if the thread
                exists.

        Raises:
            InputError: The key came with another request (`key-reused`), its first request is not answered yet
                (`key-in-progress`), or its outcome is not known (`key-outcome-unknown`).
        """
        self._sweep()
        owner = uuid4().hex
        id_, number, looks = record, 1, 0
        while True:
            values = {"owner": owner, "digest": digest, "begun_at": self._clock(), "seq": seq, "done": False}
            # Creates the record. If it exists, its reducers keep the existing values, so nothing changes.
            stored: KeyRecord = self._written(partial(self._records.update, id_, values)).values
            if stored["owner"] == owner:
                return id_
            if stored["digest"] != digest:
                raise KEY_REUSED(key="The idempotency key")
            if stored["done"]:
                return None
            if self._clock() - stored["begun_at"] < _ANSWERING_S:
                looks += 1
                if looks == _LOOKS:
                    raise KEY_IN_PROGRESS()
                sleep(0.05)
                continue
            if stored["seq"] != seq or (seq and waits()):
                raise KEY_OUTCOME_UNKNOWN()
            id_, number = f"{record}.{number}", number + 1  # its process died before the write

    def end(self, record: str) -> None:
        """Record that the request took effect."""
        self._written(lambda: self._records.update(record, {"done": True}))

    def forget(self, record: str) -> None:
        """Forget a request that was refused and changed nothing, so that a corrected one can use the same key."""
        self._written(lambda: self._records.delete_thread(record))

    def _written(self, write: Callable[[], T]) -> T:
        """Return the result of *write*, which is repeated while another request writes the record."""
        for _ in range(_TRIES):
            try:
                return write()
            except ConflictError:
                sleep(0.01)
        raise KEY_IN_PROGRESS()

    def _sweep(self) -> None:
        """Once an hour, delete expired records; if there are many, some at each request until none is left."""
        if monotonic() < self._sweep_at:
            return
        self._sweep_at = monotonic() + _SWEEP_EVERY_S
        if self._records.sweep(older_than_s=KEPT_S, graph=self._records.graph.name, limit=_SWEPT) == _SWEPT:
            self._sweep_at = 0.0
