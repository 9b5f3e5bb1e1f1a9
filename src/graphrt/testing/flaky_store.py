"""`FlakyStore`: a wrapper of a real store that fails or stalls where a test wants it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, final

from graphrt._arguments import checked_type, each, is_number
from graphrt.errors import closest, names
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.testing_doubles import (
    PLANNED_STORE_FAILURE,
    STALL_ON_EVENT_LOOP,
)
from graphrt.stores.protocol import OPERATIONS, Store
from graphrt.stores.wrapper import P, StoreWrapper, T
from graphrt.testing.scripted_results import error_maker

_MOMENTS: Final = ("before", "after")


@final
@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a `FlakyStore`.

    With *moment* "before" the call has no effect. With "after" it takes effect, but its caller still gets the error, as
    when a connection is lost while the answer is in transit.
    """

    operation: str
    """Method of the store protocol, such as `commit`, `claim` or `load`."""
    nth: int = 1
    """Number of the first call of the operation that fails, from 1."""
    times: int = 1
    """Number of consecutive calls that fail."""
    error: BaseException | Callable[[], BaseException] | None = None
    """The error, or its class or a function, which makes it; by default a `StoreError` with the code `store-unavailable`."""
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
        if not all(is_number(number, whole=True) and number >= 1 for number in (self.nth, self.times)):
            raise INVALID_ARGUMENT(
                argument="(nth, times) of a fault",
                value=(self.nth, self.times),
                wanted="whole numbers of 1 or more: calls are counted from 1, and a fault hits at least one",
            )
        if self.error is not None:
            error_maker("The error of a fault", self.error)
        checked_type("The stall of a fault", self.stall, threading.Event, "Pass a threading.Event().")
        if self.moment not in _MOMENTS:
            raise INVALID_ARGUMENT(
                argument="The moment of a fault", value=self.moment, wanted=f"one of {names(_MOMENTS)}"
            )


@final
class FlakyStore(StoreWrapper):
    """A store with faults that wraps another store.

    Args:
        store: The store that does the work. Closing the `FlakyStore` closes it.
        faults: The faults to inject; `add` adds more.
    """

    def __init__(self, store: Store, faults: Iterable[Fault] = ()) -> None:
        super().__init__(store)
        self.blocking: bool = store.blocking
        """Whether its calls must be kept off the event loop; for an in-memory store, once a fault may stall a call."""
        self.calls: dict[str, int] = dict.fromkeys(OPERATIONS, 0)
        """Number of calls of each operation."""
        self.happened: list[Fault] = []
        """Faults that occurred, in order, once per affected call."""
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        for fault in each("faults", faults):
            self.add(fault)

    def add(self, fault: Fault) -> None:
        """Add a fault. Its `nth` counts all calls, including earlier ones.

        Raises:
            InputError: *fault* is not a `Fault`.
        """
        unchecked: Any = fault
        if not isinstance(unchecked, Fault):
            raise INVALID_ARGUMENT(argument="A fault of a FlakyStore", value=unchecked, wanted='Fault("commit")')
        with self._lock:
            self._faults.append(fault)
            # On the event loop, a stalled call would block the test that is to release it.
            self.blocking = self.blocking or fault.stall is not None

    def call(self, method: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> T:
        """Call the store, unless a fault hits the call."""
        operation = method.__name__
        if operation not in self.calls:  # not a method of the protocol
            return super().call(method, *args, **options)
        with self._lock:
            self.calls[operation] += 1
            number = self.calls[operation]
            hits = [f for f in self._faults if f.operation == operation and f.nth <= number < f.nth + f.times]
            self.happened += hits
        for fault in hits:
            if fault.moment == "before":
                self._happen(fault, number)
        result = super().call(method, *args, **options)
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
            raise error_maker("The error of a fault", fault.error)().with_traceback(None)
        else:
            outcome = "nothing was stored" if fault.moment == "before" else "whether it took effect is not known"
            raise PLANNED_STORE_FAILURE(number=number, operation=fault.operation, kept=outcome)


def _on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
