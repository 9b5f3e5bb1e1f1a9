"""An agent's interface to its surroundings: the methods of a host, and the place of a run in the tree of agent runs.

Inside a graph the host is the agent's task (`_agents.task_host`), so that nothing is paid for or done twice after a
pause or a crash. Outside a graph it is a `StandaloneHost`, which records nothing and cannot ask a person.

A *fact* is one recorded piece of information about a model call. `record` stores it, and `recall` returns the combined
facts about a call.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, Protocol, TypeAlias, final

from graphrt._ambient import running
from graphrt.errors._codes.agents import NOBODY_TO_ASK
from graphrt.errors._codes.tools import TOOL_OUTSIDE_GRAPH
from graphrt.events import Amounts, Usage
from graphrt.harness.tools.protocol import EffectClass, Tool

if TYPE_CHECKING:
    from graphrt.harness.budget._ledger import Ledger
    from graphrt.harness.protocol import ModelResponse

_log: Final = logging.getLogger("graphrt.harness")
_WARNED: Final[set[str]] = set()
"""Warnings that were logged in this process."""

__all__ = [
    "GRANTED",
    "NO_SIGNAL",
    "Answered",
    "Billed",
    "Composed",
    "CutOff",
    "Fact",
    "Granted",
    "Held",
    "Host",
    "Place",
    "Question",
    "Recalled",
    "Released",
    "Replied",
    "StandaloneHost",
    "StoredReply",
    "number",
    "warn",
    "warn_unseen",
]


class StoredReply(NamedTuple):
    """A reply in the form in which it is recorded."""

    data: Mapping[str, Any]
    """The reply as plain data, without usage and model; see `harness._reply_data`."""
    usage: Usage | None
    """None if the provider did not report it."""
    model: str | None
    """Name of the model, as the provider reported it."""


class Replied(NamedTuple):
    """The call was answered. `record` returns the data as it was stored, perhaps redacted; None if it was not."""

    key: str
    data: Mapping[str, Any] | None
    """The reply as plain data. None if it cannot be: then its usage alone is recorded."""
    usage: Usage | None
    model: str | None
    attempts: int
    """Number of attempts of the task that had failed when the call was made. A later failure discards the reply."""
    agent: str | None = None
    """Name of the agent, if it continues a conversation of the node."""


class Billed(NamedTuple):
    """An execution of the call left no reply but was billed. This replaces its `Held` in the same write."""

    key: str
    usage: Usage
    model: str | None
    """Name of the model, or of a graph that stands for one."""


class Held(NamedTuple):
    """The call is about to be made and may use up to *want*. After a crash, that amount stays counted (rule R11)."""

    key: str
    want: Amounts


class Released(NamedTuple):
    """The call used nothing, which releases its newest `Held`."""

    key: str


class CutOff(NamedTuple):
    """The reply of *model* was cut off after *text*, which had been streamed."""

    key: str
    text: str
    model: str


class Granted(NamedTuple):
    """The answer to *question* adds *more* to the budget named *of*."""

    question: str
    of: str
    more: Amounts


Fact: TypeAlias = Replied | Billed | Held | Released | CutOff | Granted


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """The record of a model call that is written before the call."""

    reply: StoredReply | None = None
    """The reply, returned at every further execution of the task; None if there is none."""
    recorded: bool = False
    """Whether an earlier execution of the task recorded the reply; if not, it comes from the log of another run."""
    failed: Sequence[Usage] = ()
    """Usage of each execution so far that left no reply, such as failed but billed ones."""
    used: Amounts = Amounts()  # noqa: RUF009 - a frozen value
    """The usage of the call, or its possible usage if its end is unknown, for ledgers that start over each time."""
    granted: Mapping[str, Amounts] = field(default_factory=dict[str, Amounts])
    """The amounts that people granted for the call, by name of the budget: for the same ledgers."""
    instead: Callable[[], Awaitable[ModelResponse]] | None = None
    """Answers in place of the model when a run is re-executed from its log."""
    identity: tuple[str, int, str] = ("", 0, "")
    """Id of the task, number of its failed attempts, and key, which identify the call for telemetry."""
    note: Callable[[Any], None] | None = None
    """Receives the requests when a run is re-executed from its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question to a person, asked before something is done."""

    key: str
    """Identifies the question within the task: the same at every execution."""
    payload: Any
    """The data of the question, shown to the person."""
    answer_type: Any = None
    """Type that the answer is validated against; None for any."""
    kind: str = "question"
    """`question`, `approval` or `budget`: the `InterruptInfo.kind` of the interrupt."""
    budget: str | None = None
    """Name of the budget that the question is about; None if it is about none."""


class Answered(NamedTuple):
    """A question that was answered, and whose answer is valid."""

    payload: Any
    answer: Any


GRANTED: Final = object()
"""The answer to a question about a budget to which the person's answer was added before."""


NO_SIGNAL: Final = object()
"""The value that `Host.receive` returns if no signal is waiting."""


class Host(Protocol):
    """The surroundings of all agents that work for one task: the facts about it, and what it does for them."""

    deps: Any
    """The run's `deps`, which tools see as `ToolContext.deps`."""
    node: str | None
    """Name of the task's node; None outside a graph."""
    thread: str | None
    """Id of the thread; None without one."""
    ledger: Ledger | None
    """Innermost ledger that bounds the calls; None without a budget."""
    known_by: Ledger | None
    """The innermost ledger that includes the task's usage before a restart; ledgers inside it start over."""
    emit: Callable[[Any], None] | None
    """Shows an item of an agent on the stream; None if it has no readers."""
    is_read: bool
    """Whether the caller of the agent reads the items, not only readers of the run."""
    stream_models: bool | None
    """The runtime's setting for streaming model calls; with None, they are streamed if there is a reader."""
    numbers: dict[str, int]
    """Counters of this execution of the task, by item; see `number`."""
    records: bool
    """Whether replies are recorded. If not, agents compute no keys."""

    @property
    def key(self) -> str:
        """The task's idempotency key for the outside world: the same at every execution of the task."""
        ...

    @property
    def streams(self) -> bool | None:
        """Whether model calls are streamed; None if there is no reader now, and the sinks of an agent decide."""
        ...

    @property
    def replies(self) -> Collection[str]:
        """Keys of the model calls whose replies this execution of the task would be given."""
        ...

    @property
    def answered(self) -> Mapping[str, Answered]:
        """The questions that a person has answered, by key."""
        ...

    def beside(self) -> AbstractAsyncContextManager[None]:
        """Return the context for one of several concurrent agent runs of the task.

        If the run pauses, it waits for the others. Otherwise their replies would be lost and their questions asked one
        by one.
        """
        ...

    def recorded_whole(self) -> AbstractContextManager[None]:
        """Return the context for a call of a plain harness, whose reply is recorded as a whole."""
        ...

    async def recall(self, key: str) -> Recalled:
        """Return the record of the model call *key*, which is about to be made."""
        ...

    async def record(self, fact: Fact) -> Any:
        """Store *fact*; it is durable when this returns. For a `Replied`, the data as it was stored is returned."""
        ...

    async def effect(
        self, key: str, call: Callable[[], Awaitable[Any]], kind: EffectClass, about: Mapping[str, Any]
    ) -> Any:
        """Return the recorded result of the effect *key*, else run *call* and record its result; as `Context.effect`.

        Args:
            key: Identifies the effect within the task.
            call: Does the work; its result must be plain data.
            kind: Whether it may be repeated after a crash.
            about: Details for the person who has to determine the outcome of an effect.
        """
        ...

    def ask(self, questions: Sequence[Question]) -> list[Any]:
        """Return the answers to *questions*, in their order; the task pauses until all are there.

        The answer to a question about a budget is `GRANTED` if it was recorded as a `Granted`.
        """
        ...

    async def receive(self, name: str, path: str, calls: int, nth: int) -> Any:
        """Return the value of the next signal *name* of the thread, or NO_SIGNAL if none is waiting.

        If one is waiting, the task pauses to receive it, and runs again at once. After a restart, signals are received
        where they were before, and new ones after the last recorded reply.

        Args:
            name: Name of the signal.
            path: Path of the agent run.
            calls: Number of model calls that the run has made: the place at which the signal is received.
            nth: Number of the signal at this place, from 1.
        """
        ...

    def show(self, item: Any) -> None:
        """Show *item*, a value of the user's, on the stream."""
        ...

    def admit(self, agent: str, tool: Tool, *, below: bool) -> None:
        """Check that the fields and targets that *tool* declares are those of the graph.

        Args:
            agent: Name of the agent that has the tool, for errors.
            tool: A tool that uses the state or routes.
            below: Whether the tool's agent is a tool itself.

        Raises:
            ToolStateError: They are not, or the host belongs to no graph (`tool-state`).
            RouteError: The tool may lead to a node that does not exist, or that the node does not declare.
        """
        ...

    def state(self, tool: Tool, wrote: Sequence[Mapping[str, Any]]) -> Any:
        """Return the view of the state for one call of *tool*; None without a graph.

        Args:
            tool: The tool, which declares its reads.
            wrote: Updates of tools that the view shows, in order.
        """
        ...

    def update(self, tool: Tool, update: Any) -> dict[str, Any]:
        """Return the update of a `Command` of *tool*, checked and redacted.

        Raises:
            UpdateError: It is not an update of the graph, or writes what the tool does not declare.
        """
        ...

    def wrote(self, updates: Sequence[Mapping[str, Any]], goto: Sequence[Any] | None) -> None:
        """Keep the updates of an agent run's tools until the node ends, and the targets they lead to.

        Args:
            updates: 0..n updates, in the order of the calls.
            goto: Targets that replace the edges of the node; None if no tool routed.
        """
        ...


@final
class StandaloneHost:
    """The host of an agent outside a graph. It records nothing and cannot ask a person."""

    node: str | None = None
    thread: str | None = None
    key: str = ""
    ledger: Ledger | None = None
    known_by: Ledger | None = None
    stream_models: bool | None = None
    records: bool = False
    replies: Collection[str] = ()
    answered: Mapping[str, Answered] = MappingProxyType({})

    def __init__(self, *, deps: Any = None, emit: Callable[[Any], None] | None = None) -> None:
        self.deps: Any = deps
        self.emit: Callable[[Any], None] | None = emit
        self.is_read: bool = emit is not None
        self.numbers: dict[str, int] = {}

    @property
    def streams(self) -> bool | None:
        """Whether model calls are streamed; None if there is no reader."""
        return self.is_read or None

    def beside(self) -> AbstractAsyncContextManager[None]:
        """Return a context that does nothing, since no run can pause here."""
        return nullcontext()

    def recorded_whole(self) -> AbstractContextManager[None]:
        """Return a context that does nothing, since nothing is recorded here."""
        return nullcontext()

    async def recall(self, key: str) -> Recalled:  # noqa: ARG002
        """Report that nothing is recorded."""
        return Recalled()

    async def record(self, fact: Fact) -> None:
        """Record nothing."""

    async def effect(
        self,
        key: str,  # noqa: ARG002
        call: Callable[[], Awaitable[Any]],
        kind: EffectClass,  # noqa: ARG002
        about: Mapping[str, Any],  # noqa: ARG002
    ) -> Any:
        """Run *call* and return its result."""
        return await call()

    def ask(self, questions: Sequence[Question]) -> list[Any]:
        """Reject the questions, since no person can be asked.

        Raises:
            InputError: Always (`nobody-to-ask`).
        """
        of_budget = questions[0].kind == "budget"
        raise NOBODY_TO_ASK(
            about=" for a larger budget" if of_budget else "",
            payload=questions[0].payload,
            instead='Raise the budget or use on_exceeded="stop"' if of_budget else "Give the agent approve=",
        )

    async def receive(self, name: str, path: str, calls: int, nth: int) -> Any:  # noqa: ARG002
        """Return NO_SIGNAL: without a thread there are no signals."""
        return NO_SIGNAL

    def show(self, item: Any) -> None:
        """Show *item* among the agent's own items."""
        if self.emit is not None:
            self.emit(item)

    def admit(self, agent: str, tool: Tool, *, below: bool) -> NoReturn:  # noqa: ARG002
        """Reject the tool, since the agent does not run in a graph.

        Raises:
            ToolStateError: Always (`tool-state`).
        """
        raise TOOL_OUTSIDE_GRAPH(tool=tool.spec.name, agent=agent)

    def state(self, tool: Tool, wrote: Sequence[Mapping[str, Any]]) -> None:
        """Return None: the agent does not run in a graph."""

    def update(self, tool: Tool, update: Any) -> NoReturn:  # noqa: ARG002
        """Reject the update, like `admit`: middleware turned the result of a tool without Commands into one."""
        raise TOOL_OUTSIDE_GRAPH(tool=tool.spec.name, agent="")

    def wrote(self, updates: Sequence[Mapping[str, Any]], goto: Sequence[Any] | None) -> None:
        """Do nothing, since no tool can have written anything."""


def number(host: Host, item: str) -> int:
    """Count *item* and return the count, which starts at 1 in every execution of the task.

    The count is part of keys and distinguishes equal items, so that different items may occur in any order.
    """
    count = host.numbers[item] = host.numbers.get(item, 0) + 1
    return count


@final
@dataclass(frozen=True, slots=True)
class Place:
    """The place of one agent run in the tree of agent runs."""

    host: Host
    """The host, the same for the whole tree."""
    depth: int
    """Number of agents above this one: 0 for the outermost."""
    path: str
    """Prefix of the keys of its model calls: the same at every execution."""
    names: tuple[str, ...]
    """Names of the agents above, outermost first, then its own."""
    most_depth: int
    """Maximum depth allowed by the limits of this agent and all agents above it."""
    ledger: Ledger | None
    """The innermost ledger that its model calls must fit; None without a budget."""
    emit: Callable[[Any], None] | None
    """Shows an item on the stream above and to the agent's sinks; None if there is neither."""
    has_sinks: bool = False
    """Whether this agent or an enclosing one has sinks."""
    is_chat: bool = False
    """Whether the run continues a conversation: the node gave the agent a list of messages."""
    seen: tuple[Mapping[str, Any], ...] = field(default=(), compare=False)
    """Updates that the tools of enclosing agents had written when they called this one."""
    wrote: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]], compare=False)
    """Updates of the tools of this run, and of its sub-agents, in the order of the calls."""
    took: list[Usage] = field(default_factory=list["Usage"], compare=False)
    """Usage of each finished sub-agent, and of each failed but billed call of the agent."""

    def streams(self) -> bool:
        """Return whether a model call made now is streamed."""
        host = self.host
        # A host that shows nothing needs no reader.
        streamed = host.stream_models if host.emit is None else host.streams
        return self.has_sinks if streamed is None else streamed


@final
class Composed:
    """A tool call that only makes calls that are themselves recorded, such as a call of an agent used as a tool.

    When a run is re-executed from its log, this call is made again.
    """

    def __init__(self, make: Callable[[], Awaitable[Any]]) -> None:
        self._make = make

    async def __call__(self) -> Any:
        """Make the call."""
        return await self._make()


def warn(warnings: list[str], text: str) -> None:
    """Add *text* to the *warnings* of a run, and log it once in this process."""
    if text not in warnings:
        warnings.append(text)
    if text not in _WARNED:
        _WARNED.add(text)
        _log.warning("%s", text)


def warn_unseen(agent: str) -> None:
    """Warn that *agent* was called without a Context, if a node called it.

    Its calls are not recorded by the thread, and count towards neither the usage nor a budget.
    """
    current = running()
    if current is None:
        return
    task, services = current
    node, plan = task.node.name, task.engine.plan
    at = plan.spec_where(task.node.index)
    text = (
        f"Agent {agent!r} was called in node {node!r} of graph {plan.name!r}{f' at {at}' if at else ''} past the node's "
        "context: what it does is not counted, not held to a budget and not remembered by the thread. "
        f"Let it take a context, {node}(state, ctx)."
    )
    warn(services.warnings, text)
