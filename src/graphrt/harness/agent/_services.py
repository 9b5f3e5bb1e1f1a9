"""The services an agent needs from its surroundings: memory of calls, questions to a person, a stream, accounts.

Inside a graph the agent's task provides them (`TaskServices`), so that nothing is paid or done twice after a pause or
a crash. Outside a graph `StandaloneServices` remembers nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, final

from graphrt.errors._codes.agents import NOBODY_TO_ASK
from graphrt.events import Amounts
from graphrt.harness.tools.protocol import EffectClass

if TYPE_CHECKING:
    from graphrt.events import Usage
    from graphrt.harness.budget._ledger import Ledger
    from graphrt.harness.protocol import ModelResponse

T = TypeVar("T")

__all__ = ["AgentServices", "Composed", "Place", "Question", "StandaloneServices"]


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


class AgentServices(Protocol):
    """The services for all agents that work for one task."""

    remembers: bool
    """Whether replies and effects are remembered by key. If not, the agent need not compute keys."""
    deps: Any
    """The run's `deps`, which tools see as `ToolContext.deps`."""
    node: str | None
    """Name of the task's node; None outside a graph."""
    thread: str | None
    """Id of the thread; None without one."""
    ledger: Ledger | None
    """Ledger of the run or the task; None without a budget."""
    known_by: Ledger | None
    """The innermost ledger that includes what the task used before a restart; ledgers inside it begin anew."""
    emit: Callable[[Any], None] | None
    """Shows an item on the stream; None if there is no reader."""

    @property
    def key(self) -> str:
        """The task's idempotency key for the outside world: the same at every execution of the task."""
        ...

    def custom(self, item: Any) -> None:
        """Show an item of the user on the stream."""
        ...

    async def beside(self, run: Callable[[], Awaitable[T]]) -> T:
        """Await *run*, one of several concurrent agent runs of the task. If it pauses, it waits for the others first.

        The replies of the others would be lost otherwise, and their questions asked one by one.
        """
        ...

    def number(self, what: str) -> int:
        """Count *what* and return the count, which begins with 1 at every execution of the task.

        It tells equal things apart, so that different ones may happen in any order.
        """
        ...

    def knows(self, prefix: str) -> bool:
        """Return whether a model's reply is remembered under a key that begins with *prefix*."""
        ...

    async def reply(self, key: str, call: Callable[[], Awaitable[ModelResponse]]) -> tuple[ModelResponse, bool]:
        """Return the remembered reply of *key*, else that of *call*, and whether it was remembered.

        A new reply is stored before it is returned.
        """
        ...

    async def stopped(self, key: str, text: str, model: str) -> None:
        """Store that the reply of *model* to the call *key* was cut off after *text*, which had been streamed."""
        ...

    async def hold(self, key: str, want: Amounts) -> None:
        """Store that the call *key* may use up to *want*, before it is made: a crash leaves it counted (R11)."""
        ...

    async def let_go(self, key: str) -> None:
        """Store that the call *key* used nothing, which releases its hold."""
        ...

    async def effect(
        self, key: str, call: Callable[[], Awaitable[Any]], kind: EffectClass, about: Mapping[str, Any]
    ) -> Any:
        """Return the remembered result of the effect *key*, else run *call*; as `Context.effect`.

        Args:
            key: Identifies the effect within the task.
            call: Does the work; its result must be plain data.
            kind: Whether it may be repeated after a crash.
            about: Details for a person who has to say what an effect with unknown outcome did.
        """
        ...

    async def spent(self, key: str, usage: Usage, model: str | None) -> None:
        """Add *usage* of something that `reply` did not count to the task's totals, under *key*.

        It takes the place of the hold of the call *key*, if there is one.
        """
        ...

    def failed_calls(self, key: str) -> Sequence[Usage]:
        """Return the usage of each execution of the call *key* so far that left no reply, 0 or more."""
        ...

    def before(self, key: str) -> tuple[Amounts, Mapping[str, Amounts]]:
        """Return what earlier executions leave to a new ledger for the call *key*.

        Returns:
            What they used, and may have used if their end was not seen; and what people granted for the call, by the name
            of the budget. Only the first request for a key gets amounts, since a ledger must count them once.
        """
        ...

    def was_granted(self, question: str, of: str) -> bool:
        """Return whether the answer to *question* was added to the budget named *of*."""
        ...

    async def grant(self, question: str, of: str, more: Amounts) -> None:
        """Store that the answer to *question* adds *more* to the budget named *of*."""
        ...

    def was_answered(self, question: str) -> bool:
        """Return whether a person has answered the question with this key."""
        ...

    def ask(self, questions: Sequence[Question]) -> list[Any]:
        """Return the answers to *questions*, in their order; the task pauses until all are there."""
        ...


class StandaloneServices:
    """The services of an agent outside a graph: they remember no reply, and can ask no person."""

    def __init__(self, *, deps: Any = None, emit: Callable[[Any], None] | None = None) -> None:
        self.remembers: bool = False
        self.deps: Any = deps
        self.node: str | None = None
        self.thread: str | None = None
        self.key: str = ""
        self.ledger: Ledger | None = None
        self.known_by: Ledger | None = None
        self.emit: Callable[[Any], None] | None = emit
        self._numbers: dict[str, int] = {}
        self._failed: dict[str, list[Usage]] = {}

    def custom(self, item: Any) -> None:
        """Show *item* among the agent's own items."""
        if self.emit is not None:
            self.emit(item)

    async def beside(self, run: Callable[[], Awaitable[T]]) -> T:
        """Await *run*; nothing can pause here."""
        return await run()

    def number(self, what: str) -> int:
        """Count *what* and return the count, from 1."""
        number = self._numbers[what] = self._numbers.get(what, 0) + 1
        return number

    def knows(self, prefix: str) -> bool:  # noqa: ARG002
        """Return False: nothing is remembered."""
        return False

    async def reply(self, key: str, call: Callable[[], Awaitable[ModelResponse]]) -> tuple[ModelResponse, bool]:  # noqa: ARG002
        """Return the reply of *call*."""
        return await call(), False

    async def stopped(self, key: str, text: str, model: str) -> None:
        """Do nothing: the caller has had the text."""

    async def hold(self, key: str, want: Amounts) -> None:
        """Do nothing: the ledger in memory is enough."""

    async def let_go(self, key: str) -> None:
        """Do nothing: the ledger in memory is enough."""

    async def effect(
        self,
        key: str,  # noqa: ARG002
        call: Callable[[], Awaitable[Any]],
        kind: EffectClass,  # noqa: ARG002
        about: Mapping[str, Any],  # noqa: ARG002
    ) -> Any:
        """Run *call* and return its result."""
        return await call()

    async def spent(self, key: str, usage: Usage, model: str | None) -> None:  # noqa: ARG002
        """Note *usage* for the agent's own total: there are no totals of a task."""
        self._failed.setdefault(key, []).append(usage)

    def failed_calls(self, key: str) -> Sequence[Usage]:
        """Return the usage of the call *key* where it failed and was billed."""
        return self._failed.get(key, ())

    def before(self, key: str) -> tuple[Amounts, Mapping[str, Amounts]]:  # noqa: ARG002
        """Return nothing: there is no earlier execution."""
        return Amounts(), {}

    def was_granted(self, question: str, of: str) -> bool:  # noqa: ARG002
        """Return False: no person can be asked."""
        return False

    async def grant(self, question: str, of: str, more: Amounts) -> None:
        """Do nothing: no person can be asked."""

    def was_answered(self, question: str) -> bool:  # noqa: ARG002
        """Return False: no person can be asked."""
        return False

    def ask(self, questions: Sequence[Question]) -> list[Any]:
        """Refuse the questions: no person can be asked.

        Raises:
            InputError: Always (`nobody-to-ask`).
        """
        of_budget = questions[0].kind == "budget"
        raise NOBODY_TO_ASK(
            about=" for a larger budget" if of_budget else "",
            payload=questions[0].payload,
            instead='Raise the budget or use on_exceeded="stop"' if of_budget else "Give the agent approve=",
        )


@dataclass(frozen=True, slots=True)
class Place:
    """The place of one agent run in the tree of agent runs."""

    host: AgentServices
    """Services of the task, the same for the whole tree."""
    depth: int
    """Number of agents above this one: 0 for the outermost."""
    path: str
    """Prefix of the keys of its model calls: the same at every execution."""
    names: tuple[str, ...]
    """Names of the agents above, outermost first, then its own."""
    most_depth: int
    """Greatest depth that the limits of this agent and all agents above it allow."""
    ledger: Ledger | None
    """The innermost ledger that its model calls must fit; None without a budget."""
    emit: Callable[[Any], None] | None
    """Shows an item on the stream above and to the agent's sinks; None if there is neither."""
    took: list[Usage] = field(default_factory=list["Usage"], compare=False)
    """Usage of each sub-agent, appended when it has ended, and of each failed call of the agent that was billed."""


@final
class Composed:
    """A call of a tool that does nothing but make calls which are recorded themselves: that of an agent as a tool.

    When a run is executed again from its log, it is made again.
    """

    def __init__(self, make: Callable[[], Awaitable[Any]]) -> None:
        self._make = make

    async def __call__(self) -> Any:
        """Make the call."""
        return await self._make()
