"""Delivery of one message "drive this thread", used by every host. It returns an outcome and never raises.

A message may arrive twice, late, or for a thread that no host should drive any more. The claim and `Runtime.drive`
handle that; this module only reports the outcome in one word.
"""

from __future__ import annotations

import logging
from typing import Any, Final, Literal, NamedTuple

from graphrt.errors import ConflictError, GraphrtError, InputError, NodeError, StoreError
from graphrt.runtime import Runtime
from graphrt.stores import Store

RIGHT_NOW: Final = frozenset({"conflict", "lost-lease", "not-due", "sleeping", "unknown-thread"})
"""Codes that mean that another host, or a caller, was faster. Nothing is wrong with the thread."""

LEFT_TO_OTHERS: Final = "Thread %s is left to others: %s"
WAS_LEFT: Final = "Thread %s was left: %s"


class Delivery(NamedTuple):
    """The outcome of a message."""

    outcome: Literal["ended", "failed", "parked", "left", "refused", "unreachable", "broken"]
    """`ended`: driven until it completed, paused, was cancelled or handed over. `failed`: the run failed. `parked`: its
    runs died too often. `left`: nothing to do. `refused`: this process cannot drive it, for instance because another
    version of the graph began it. `unreachable`: the store failed. `broken`: an unexpected error."""
    error: Exception | SystemExit | None = None
    """The error behind the outcome, if any."""

    @property
    def code(self) -> str:
        """The code of graphrt's error, or an empty string."""
        return self.error.code if isinstance(self.error, GraphrtError) else ""

    @property
    def what(self) -> str:
        """The outcome, in one sentence; an empty string for `ended`."""
        return self.error.what if isinstance(self.error, GraphrtError) else str(self.error or "")

    @property
    def at_node(self) -> str:
        """Name of the node in which the run failed; an empty string if it failed between nodes, or was parked."""
        return (self.error.node or "") if isinstance(self.error, GraphrtError) else ""

    @property
    def kind(self) -> str:
        """Class name of the error that ended the run; if a node failed, of the error that the node raised."""
        error = self.error
        cause = error.__cause__ if isinstance(error, NodeError) and error.__cause__ is not None else error
        return str(getattr(cause, "type_name", None) or type(cause).__name__)


def log_end(log: logging.Logger, graph: str, thread: str, delivery: Delivery) -> None:
    """Log that a run failed, or that its thread was parked.

    The line has the class of the error but not its text, which may quote values of the state. The journal has both.
    """
    node = f" in node {delivery.at_node!r}" if delivery.at_node else ""
    how = "was parked" if delivery.outcome == "parked" else "failed"
    log.warning("Thread %s of graph %r %s%s: %s (%s)", thread, graph, how, node, delivery.kind, delivery.code)


def deliver(runtime: Runtime[Any, Any], thread: str, max_tries: int | None) -> Delivery:
    """Drive a thread if it is due, and return the outcome. Never raises an `Exception`."""
    try:
        if _store_of(runtime).head(thread).owned:
            return Delivery("left")  # claiming would only wait to see whether the owner has just died, and then fail
        runtime.drive(thread, max_tries=max_tries)
    except ConflictError as error:
        return Delivery("left", error)
    except InputError as error:
        return Delivery("left" if error.code in RIGHT_NOW else "refused", error)
    except StoreError as error:
        return Delivery("unreachable", error)
    except GraphrtError as error:
        return Delivery("parked" if error.code == "parked" else "failed", error)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the graph's own, or a fault of ours: the host continues
        return Delivery("broken", error)
    return Delivery("ended")


def _store_of(runtime: Runtime[Any, Any]) -> Store:
    assert runtime.store is not None  # noqa: S101 - checked by the host
    return runtime.store
