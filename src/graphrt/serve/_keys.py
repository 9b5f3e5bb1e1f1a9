"""Idempotency keys: a write that is repeated under its key has its effect once, whichever replica gets the repetition.

Many writes are harmless by themselves if the key is part of them: a new thread or fork gets an id that is made of the
key, and a signal is sent under it. For the others, a thread or fork whose id the client chose, an input for a thread that
exists, answers, a retry and an edit, the key has a *record*: a thread of a small graph of its own, in the same store. Its
first commit decides, among all replicas, which of two equal requests acts, by the reducer `first`. The record has digests
alone.

A process may die between the record and the write. The record has the position that the thread was at: if it is still
there, and no input waits for the end of its run, nothing was written, and the repetition acts, under a record of its own.
Otherwise the outcome is unknown: the repetition is refused, and says so. Records are deleted after a day.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from time import monotonic, sleep
from typing import Annotated, Any, Final, TypedDict, final
from uuid import uuid4

from graphrt.commands import END, START
from graphrt.errors import ConflictError
from graphrt.errors._codes.serving import BAD_REQUEST_PART, KEY_IN_PROGRESS, KEY_OUTCOME_UNKNOWN, KEY_REUSED
from graphrt.graph import CompiledGraph, GraphBuilder
from graphrt.reducers import first
from graphrt.reducers import max as highest
from graphrt.runtime import Runtime
from graphrt.serve._access import Caller

LONGEST: Final = 255
"""Characters of a key."""
KEPT_S: Final = 86_400.0
"""Seconds for which a key is remembered."""
_ANSWERING_S: Final = 60.0
"""Seconds in which a request is answered, if its process lives."""
_SWEEP_EVERY_S: Final = 3_600.0
_SWEPT: Final = 100
"""Records that a request deletes at most: the store does so in one transaction."""
_TRIES: Final = 100
"""Looks at a record that another process writes at this moment, 10 ms apart."""


class KeyRecord(TypedDict):
    """What is kept of a key."""

    owner: Annotated[str, first]
    """Names the request that acts."""
    digest: Annotated[str, first]
    """Of that request."""
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
    """Return an id of a thread that is made of the key: the same for the same caller, resource and key.

    Raises:
        InputError: *key* is not 1 to 255 printable characters (`bad-request-part`).
    """
    if not (1 <= len(key) <= LONGEST and key.isprintable()):
        problem = f"it is not 1 to {LONGEST} printable characters"
        raise BAD_REQUEST_PART(part="header Idempotency-Key", problem=problem)
    # The tenant is not part of it: the store of the tenant keeps equal ids apart.
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
        """Return the id of the record under which the request acts; None if it did so before, and was answered.

        `forget` takes that id, and `end` the *record* of the key, which all repetitions look at first.

        Args:
            record: Id of the record of the key.
            digest: Of the request.
            seq: Position of the thread now.
            waits: Says whether an input waits for the thread: it may be that of this request. Asked of a thread that
                exists.

        Raises:
            InputError: The key came with another request (`key-reused`), its first request is not answered yet
                (`key-in-progress`), or what became of that is not known (`key-outcome-unknown`).
        """
        self._sweep()
        mine = uuid4().hex
        id_, number = record, 1
        while True:
            given = {"owner": mine, "digest": digest, "begun_at": self._clock(), "seq": seq, "done": False}
            found = self._kept(id_, given)
            if found["owner"] == mine:
                return id_
            if found["digest"] != digest:
                raise KEY_REUSED()
            if found["done"]:
                return None
            if self._clock() - found["begun_at"] < _ANSWERING_S:
                raise KEY_IN_PROGRESS()
            if found["seq"] != seq or (seq and waits()):
                raise KEY_OUTCOME_UNKNOWN()
            id_, number = f"{record}.{number}", number + 1  # its process died before it wrote anything

    def _kept(self, record: str, values: dict[str, Any]) -> KeyRecord:
        """Make the record with *values*, or return the one that there is."""
        for _ in range(_TRIES):
            try:
                # Makes the record. On one that is there the reducers let what it has win: it changes nothing.
                found: KeyRecord = self._records.update(record, values).values
            except ConflictError:  # another process writes it now
                sleep(0.01)
                continue
            return found
        raise KEY_IN_PROGRESS()

    def end(self, record: str) -> None:
        """Note that the request had its effect."""
        self._records.update(record, {"done": True})

    def forget(self, record: str) -> None:
        """Forget a request that was refused and changed nothing: it may be mended, and sent with the same key."""
        self._records.delete_thread(record)

    def _sweep(self) -> None:
        """Delete records of yesterday, once an hour; if there are many, some at each request until none is left."""
        if monotonic() < self._sweep_at:
            return
        self._sweep_at = monotonic() + _SWEEP_EVERY_S
        if self._records.sweep(older_than_s=KEPT_S, graph=self._records.graph.name, limit=_SWEPT) == _SWEPT:
            self._sweep_at = 0.0
