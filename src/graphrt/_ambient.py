"""Ambient context of the running code that no argument can carry: its node, agent, run and worker threads.

An agent that a node calls without its Context, or a graph that is an agent's tool, finds its surroundings here: one
frozen object in one context variable. asyncio tasks inherit it. So do the worker threads that graphrt starts, and
functions that `ctx.call` runs on the private loop thread. Threads that a node starts itself do not. In the child of a
fork it is empty: no run continues there.

Drivers set the variable once for each attempt of a node. Code that changes a field for the code that it calls uses
`with inside(field=value):`. Each field is documented by its owner.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from graphrt._forks import run_variable

if TYPE_CHECKING:
    from contextvars import ContextVar, Token

__all__ = [
    "ENDED",
    "SURROUNDINGS",
    "Above",
    "Surroundings",
    "WithoutContext",
    "entered",
    "inside",
    "running",
    "running_context",
    "surroundings",
]


ENDED: Final = "its node had ended"
"""Why background code of a node may no longer act for it: the `_reason` of a Context whose node has ended."""


@final
class WithoutContext:
    """A running node that takes no Context. One object serves all plain nodes of a drive, one after another.

    Setting the attribute *task* adds 0.05 us to a superstep of 2 us, and a context variable 0.4 us.
    """

    __slots__ = ("services", "task")

    def __init__(self, services: Any, task: Any = None) -> None:
        self.services = services
        """The services of the run."""
        self.task = task
        """The task whose node is running; None between two nodes."""


class Above(NamedTuple):
    """The agent run that a graph is part of, where an agent runs the graph as a tool or as its harness."""

    ledger: Any
    """Budget ledger that bounds the graph's model calls; None without a budget."""
    depth: int
    """Number of agents that enclose the graph."""
    most_depth: int
    """Largest depth that the agent's limits allow."""
    emit: Callable[[str, Any], None] | None
    """Takes (node name, item) for the agent's stream; None without a listener."""
    took: list[Any]
    """Collects the usage of each graph run when it ends, whether or not it completed."""
    streams: bool = False
    """Whether the agent streams its model calls. If so, the graph's model calls are streamed too."""


@final
class Surroundings:
    """The surroundings of running code. Immutable: `replaced` returns a modified copy.

    The class attributes are the defaults. An instance stores only the fields that differ, so a copy costs 0.3 us
    regardless of the number of fields.
    """

    node: Any = None
    """The node that is running: its Context, or a `WithoutContext` if it takes none; None outside of nodes."""
    agent: Any = None
    """`Place` of the agent that is running; None outside of agents."""
    above: Above | None = None
    """The agent run that the running graph is part of; None if no agent runs it."""
    doubles: tuple[Any, ...] = ()
    """Replacements for models and tools of agents, innermost last: see `graphrt.harness.agent._replacements`."""
    sleep: Callable[[float], Any] | None = None
    """Sleep function of the current run (decision 0040), called with seconds; None waits in real time."""
    watcher: Any = None
    """The `RunWatcher` of the running attempt, which sees its model and tool calls; None if no sink watches."""
    instead: Callable[[], Awaitable[Any]] | None = None
    """Answers model calls from the log when a run is executed again; None calls the model."""
    order: tuple[int, ...] = ()
    """Start order of the running agent run or tool call among its concurrent siblings, one number per level.

    A task's questions are sorted by it, so that a journal does not depend on timing (R13)."""
    harness_runs: frozenset[Any] = frozenset()
    """Harness runs that enclose the running code. When the code pauses, it must not wait for them."""
    holding: bool = False
    """Whether the code is inside a model call that holds a reservation of a budget. A call made there must not wait for
    room: it could be waiting for the reservation of the call that it is part of."""
    recording: Any = None
    """The Context whose effect or plain harness call is running; the result will be recorded as a whole."""
    attempt: Any = None
    """The `Attempt` of the task whose nested graph is running; None outside of nested graphs."""
    memory: Any = None
    """The `TaskWrites` that collect the memory writes of the running effect; None outside of effects."""
    pools: tuple[Any, ...] = ()
    """Thread pools with a worker thread that waits for the running code."""

    def replaced(self, **fields: Any) -> Surroundings:
        """Return a copy of these surroundings with the given *fields* replaced."""
        other = Surroundings()
        other.__dict__ = {**self.__dict__, **fields}
        return other


SURROUNDINGS: Final[ContextVar[Surroundings]] = run_variable("graphrt_surroundings", Surroundings())
"""The surroundings of the running code."""
surroundings: Final = SURROUNDINGS.get
"""Returns the surroundings of the running code."""


@final
class inside:  # noqa: N801 - read as a function: `with inside(agent=place):`
    """Replace *fields* of the surroundings inside the `with` block."""

    __slots__ = ("_fields", "_token")

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def __enter__(self) -> None:
        self._token = SURROUNDINGS.set(surroundings().replaced(**self._fields))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # A coroutine that is closed from outside ends in the context of the code that closes it, where there is nothing
        # to reset.
        with suppress(ValueError):
            SURROUNDINGS.reset(self._token)


def entered(node: Any, watcher: Any = None, around: Surroundings | None = None) -> Token[Surroundings]:
    """Set *node*, and *watcher* if it is not None, for one attempt; `SURROUNDINGS.reset` takes the token at its end.

    Drivers use it where a `with` block costs too much.
    """
    if around is None:
        around = surroundings()
    return SURROUNDINGS.set(
        around.replaced(node=node) if watcher is None else around.replaced(node=node, watcher=watcher)
    )


def running_context() -> Any:
    """Return the Context of the running node; None outside of nodes and in a node that takes none.

    Also None after the node has ended, because an asyncio task that the node left running keeps its surroundings. If
    the attempt was abandoned, its Context is returned and refuses to act.
    """
    node = surroundings().node
    return None if node is None or node.__class__ is WithoutContext or node._reason == ENDED else node


def running() -> tuple[Any, Any] | None:
    """Return the task whose node is running and the services of its run; None outside of nodes.

    For warnings about code that has no Context.
    """
    node: Any = surroundings().node
    if node is None:
        return None
    if node.__class__ is WithoutContext:
        return None if node.task is None else (node.task, node.services)
    return None if node._reason == ENDED else (node._task, node._scope)
