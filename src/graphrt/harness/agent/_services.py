"""What an agent asks of its surroundings: to remember what was done, to ask a person, to show what happens.

Inside a graph the task that the agent works for is the host, so that nothing is paid or done twice after a pause or a
crash. Alone an agent is its own host, and remembers nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from graphrt.errors import InputError
from graphrt.harness.budget._budget import Amounts
from graphrt.harness.tools.protocol import EffectClass

if TYPE_CHECKING:
    from graphrt.events import Usage
    from graphrt.harness.budget._ledger import Ledger
    from graphrt.harness.protocol import ModelResponse

T = TypeVar("T")

__all__ = ["HERE", "ORDER", "AgentServices", "Place", "Question", "StandaloneServices"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a person is asked before something is done."""

    key: str
    """Names it within the task: the same at every execution."""
    payload: Any
    answer_type: Any = None
    kind: str = "question"
    """`approval` or `budget`, for a person's form."""


class AgentServices(Protocol):
    """The surroundings of agents that work for one task."""

    remembers: bool
    """Whether keys mean anything to it: where nothing is remembered none need be made."""
    deps: Any
    node: str | None
    thread: str | None
    key: str
    """For the outside world: the same at every execution of the task."""
    ledger: Ledger | None
    """Of the run or the task; None without a budget."""
    known_by: Ledger | None
    """The innermost ledger that knows what the task took before a restart; those inside of it begin anew."""
    emit: Callable[[Any], None] | None
    """Shows an item; None if nobody watches."""

    def custom(self, item: Any) -> None:
        """Show an item of the user's own."""
        ...

    async def beside(self, run: Callable[[], Awaitable[T]]) -> T:
        """Make one *run*, beside others of the task; one that pauses waits for them."""
        ...

    def number(self, what: str) -> int:
        """How many of *what* there are now, this one included: from 1 at every execution of the task."""
        ...

    def knows(self, prefix: str) -> bool:
        """Whether something is remembered that a model said, under a key that begins with *prefix*."""
        ...

    async def reply(self, key: str, call: Callable[[], Awaitable[ModelResponse]]) -> tuple[ModelResponse, bool]:
        """What a model said, asked by *call* unless it is known, and whether it was; used once it is remembered."""
        ...

    async def hold(self, key: str, want: Amounts) -> None:
        """Remember, before the call *key* is made, that it may take *want*."""
        ...

    async def let_go(self, key: str) -> None:
        """The call *key* took nothing."""
        ...

    async def effect(
        self, key: str, call: Callable[[], Awaitable[Any]], kind: EffectClass, about: Mapping[str, Any]
    ) -> Any:
        """What *call* came to, plain data; it runs once, as `Context.effect` says. *about* is for a person."""
        ...

    async def spent(self, key: str, usage: Usage, model: str | None) -> None:
        """Count what was used without `reply`: what *key* names took it."""
        ...

    def before(self, key: str) -> tuple[Amounts, Mapping[str, Amounts]]:
        """What the call *key* may have taken without an end in executions before this one, and was allowed by people.

        Of the latter it says whose budget. Told once, for ledgers that begin anew.
        """
        ...

    def was_granted(self, question: str, of: str) -> bool:
        """Whether the budget of *of* has what a person answered to *question*."""
        ...

    async def grant(self, question: str, of: str, more: Amounts) -> None:
        """Remember that the budget of *of* was allowed *more* in answer to *question*."""
        ...

    def was_answered(self, question: str) -> bool:
        """Whether a person has answered the question of that key."""
        ...

    def ask(self, questions: Sequence[Question]) -> list[Any]:
        """The answers of a person; the task pauses until all are there."""
        ...


class StandaloneServices:
    """The host of an agent outside of any graph."""

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

    def custom(self, item: Any) -> None:
        """Show it with the others."""
        if self.emit is not None:
            self.emit(item)

    async def beside(self, run: Callable[[], Awaitable[T]]) -> T:
        """Nothing pauses here."""
        return await run()

    def number(self, what: str) -> int:
        """Count."""
        number = self._numbers[what] = self._numbers.get(what, 0) + 1
        return number

    def knows(self, prefix: str) -> bool:  # noqa: ARG002
        """Nothing is remembered."""
        return False

    async def reply(self, key: str, call: Callable[[], Awaitable[ModelResponse]]) -> tuple[ModelResponse, bool]:  # noqa: ARG002
        """Ask."""
        return await call(), False

    async def hold(self, key: str, want: Amounts) -> None:
        """The ledger knows."""

    async def let_go(self, key: str) -> None:
        """The ledger knows."""

    async def effect(
        self,
        key: str,  # noqa: ARG002
        call: Callable[[], Awaitable[Any]],
        kind: EffectClass,  # noqa: ARG002
        about: Mapping[str, Any],  # noqa: ARG002
    ) -> Any:
        """Do it."""
        return await call()

    async def spent(self, key: str, usage: Usage, model: str | None) -> None:
        """There are no accounts."""

    def before(self, key: str) -> tuple[Amounts, Mapping[str, Amounts]]:  # noqa: ARG002
        """There was nothing."""
        return Amounts(), {}

    def was_granted(self, question: str, of: str) -> bool:  # noqa: ARG002
        """Nobody was asked."""
        return False

    async def grant(self, question: str, of: str, more: Amounts) -> None:
        """Nobody was asked."""

    def was_answered(self, question: str) -> bool:  # noqa: ARG002
        """Nobody was asked."""
        return False

    def ask(self, questions: Sequence[Question]) -> list[Any]:
        """There is nobody to ask.

        Raises:
            InputError: Always.
        """
        raise InputError(
            f"An agent outside of a graph has to ask a person: {questions[0].payload!r}.",
            code="nobody-to-ask",
            fix="Give the agent approve=, or run it in a node of a graph with a store: there it becomes an interrupt.",
        )


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run of an agent stands among the others."""

    host: AgentServices
    depth: int
    """Agents above it."""
    path: str
    """Begins the keys of what it does: the same at every execution."""
    names: tuple[str, ...]
    """Of the agents above it and itself."""
    most_depth: int
    """The least of the depths that those above allow."""
    ledger: Ledger | None
    emit: Callable[[Any], None] | None
    took: list[Usage] = field(default_factory=list["Usage"], compare=False)
    """Gets what each agent below took, when it has ended."""


HERE: Final[ContextVar[Place | AgentServices | None]] = ContextVar("graphrt_agent_place", default=None)
"""The agent that is running here, or the host of the first one."""
ORDER: Final[ContextVar[tuple[int, ...]]] = ContextVar("graphrt_run_order", default=())
"""The place of what runs here among all that runs beside it, in the order in which it began."""
