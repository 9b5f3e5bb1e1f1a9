"""`Retention`: rules by which a worker deletes threads automatically, and the loop that applies them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, final, get_args

from graphrt._arguments import is_list, is_number
from graphrt.errors import StoreError, names
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.events.status import Status
from graphrt.runtime import Runtime

MOST_AT_ONCE: Final = 1_000
"""Number of threads that one rule deletes before the next rule has its turn and the worker checks whether to stop."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """A rule: threads that were last written longer ago than this are deleted.

    A thread that matches any rule is deleted, except one that a run owns.

    Args:
        older_than: Time since the last commit of a thread, as a timedelta or in seconds.
        status: Only threads with this status; None: those that are completed, failed or cancelled.
        graph: Only threads of the graph with this name; None: those of any graph in the store.
        tenant: Only threads of this tenant.
        tags: Only threads that have all these tags.

    Raises:
        InputError: The age is not a number of seconds, or not above 0, or the status is not one.
    """

    older_than: timedelta | float
    status: Status | None = None
    graph: str | None = None
    tenant: str | None = None
    tags: Collection[str] = ()

    def __post_init__(self) -> None:
        if not 0 < self.seconds < float("inf"):
            raise INVALID_ARGUMENT(
                argument="older_than=",
                value=self.older_than,
                wanted="a time above 0: a timedelta, such as timedelta(days=30), or seconds",
            )
        if self.status is not None and self.status not in get_args(Status):
            raise INVALID_ARGUMENT(
                argument="status=",
                value=self.status,
                wanted="a status of threads; None is for all that ended, and several need one Retention each",
                known=names(get_args(Status)),
            )

    @property
    def seconds(self) -> float:
        """The age in seconds."""
        age: Any = self.older_than
        if isinstance(age, timedelta):
            return age.total_seconds()
        if not is_number(age):
            raise INVALID_ARGUMENT(
                argument="older_than=",
                value=age,
                wanted="a time above 0: a timedelta, such as timedelta(days=30), or seconds",
            )
        return float(age)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `Runtime.sweep` for this rule."""
        which = {name: getattr(self, name) for name in ("status", "graph", "tenant", "tags")}
        return {"older_than_s": self.seconds, **which}


@final
class Sweeper:
    """Sweeps a store by the rules of a worker, in a separate thread, so that no run waits for it.

    Each sweep also deletes the items of the memory that have expired.
    Several workers may sweep the same store: a thread is deleted only once, and finding old threads takes one query per
    rule.

    Args:
        runtime: The runtime whose store is swept.
        rules: The rules. Without any, the sweeper does nothing.
        every_s: Seconds between two sweeps.
        failed: Called with an error that ended a sweep; the next sweep tries again.
    """

    def __init__(
        self,
        runtime: Runtime[Any, Any],
        rules: Sequence[Retention],
        every_s: float,
        failed: Callable[[Exception], None],
    ) -> None:
        self._sweep: Callable[..., Any] = runtime.sweep
        self._runtime = runtime
        unchecked: Any = rules  # for callers without a type checker
        if not is_list(unchecked) or not all(isinstance(rule, Retention) for rule in unchecked):
            raise INVALID_ARGUMENT(argument="retention=", value=rules, wanted="a list of Retention rules")
        self._rules = tuple(rules)
        self._every_s = every_s
        self._failed = failed
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.deleted: int = 0
        """Number of threads deleted so far."""

    def start(self) -> None:
        """Start sweeping, if there are rules. The first sweep begins at once.

        Raises:
            InputError: A filter of a rule is not valid, or the store cannot find threads by it.
        """
        with suppress(StoreError):  # the store may come back; otherwise the first sweep reports the error
            for rule in self._rules:
                self._sweep(dry_run=True, limit=1, **rule.arguments)
        if self._rules:
            self._thread = threading.Thread(target=self._work, name="graphrt-retention", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop after the current batch of deletions."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                if self._runtime.store is not None and "memory" in self._runtime.store.offers:
                    self._runtime.memory.purge()
                while self._once() and not self._stop.is_set():
                    pass
            except Exception as error:  # noqa: BLE001 - no error ends the retention of a worker; the next sweep tries again
                self._failed(error)
            self._stop.wait(max(0.0, self._every_s - (time.monotonic() - began)))

    def _once(self) -> bool:
        """Give each rule a turn, and return whether any of them may have threads left."""
        full = False
        for rule in self._rules:
            if self._stop.is_set():
                return False
            deleted = self._sweep(limit=MOST_AT_ONCE, **rule.arguments)
            self.deleted += deleted
            full = full or deleted == MOST_AT_ONCE
        return full
