"""What drivers and contexts are handed of agents and budgets, as protocols: `_agents` implements them.

The runtime hands one `Agents` in with the services of the run. A context (`ctx`, the second argument of a node) asks it
at first need, so that a node without models pays nothing. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Unpack, overload

from graphrt.harness.protocol import OutputT_co

if TYPE_CHECKING:
    from graphrt._usage.budget import Budget
    from graphrt.harness import AgentReply, Message, Prompt
    from graphrt.harness.budget._ledger import Ledger
    from graphrt.harness.request import AllButOutput

T = TypeVar("T")


class BoundHarness(Protocol[OutputT_co]):
    """The run's harness for one task, as `ctx.harness`; or another harness, as `ctx.bind(harness)`.

    Replies of models are recorded with the task. If the node runs again after a pause or a crash, the same call gets
    the same reply, and nothing is paid again. After an attempt that failed, models are called anew.
    Other attributes of the harness are passed through unchanged. `ctx.bind()` of an `Agent[Person]` is a
    `BoundHarness[Person]`.
    """

    @overload
    async def run(
        self,
        prompt: Prompt,
        /,
        *,
        output: None = None,
        transcript: list[Message] | None = None,
        **options: Unpack[AllButOutput],
    ) -> AgentReply[OutputT_co]: ...
    @overload
    async def run(
        self,
        prompt: Prompt,
        /,
        *,
        output: type[T],
        transcript: list[Message] | None = None,
        **options: Unpack[AllButOutput],
    ) -> AgentReply[T]: ...
    @overload
    async def run(
        self,
        prompt: Prompt,
        /,
        *,
        output: Any,
        transcript: list[Message] | None = None,
        **options: Unpack[AllButOutput],
    ) -> AgentReply: ...
    async def run(self, prompt: Any, /, **options: Any) -> AgentReply[Any]:
        """Run the harness and return its reply; see `graphrt.harness.AgentHarness.run` for the arguments.

        Raises:
            NodeError: The attempt has ended or was given up (`attempt-over`).
            InputError: An agent's tool is not allowed in the node (`tool-not-allowed`).
            BudgetExceededError: A budget does not allow the call.
            BadResponseError: The reply has usage that cannot be counted.
        """
        ...

    @overload
    def run_sync(
        self,
        prompt: Prompt,
        /,
        *,
        output: None = None,
        transcript: list[Message] | None = None,
        **options: Unpack[AllButOutput],
    ) -> AgentReply[OutputT_co]: ...
    @overload
    def run_sync(
        self,
        prompt: Prompt,
        /,
        *,
        output: type[T],
        transcript: list[Message] | None = None,
        **options: Unpack[AllButOutput],
    ) -> AgentReply[T]: ...
    @overload
    def run_sync(
        self,
        prompt: Prompt,
        /,
        *,
        output: Any,
        transcript: list[Message] | None = None,
        **options: Unpack[AllButOutput],
    ) -> AgentReply: ...
    def run_sync(self, prompt: Any, /, **options: Any) -> AgentReply[Any]:
        """Run the harness from a sync node; short for `ctx.call(ctx.harness.run, prompt, ...)`.

        Raises:
            NodeError: Called in an async node, which awaits `run` instead (`call-in-async-node`).
            GraphrtError: As `run`.
        """
        ...

    def stream(self, prompt: Any, /, **options: Any) -> AsyncIterator[Any]:
        """Run the harness and yield the pieces of its reply, such as text deltas; the last item is the AgentReply.

        The arguments are those of `run`. Each item is also shown on the run's stream, mode `messages`.

        Raises:
            InputError: The harness has no `stream` (`no-stream`), or its stream has no final reply (`no-final-reply`).
            GraphrtError: As `run`.
        """
        ...

    def __getattr__(self, name: str) -> Any:
        """Return the attribute *name* of the harness itself."""
        ...


class TaskAgents(Protocol):
    """Services of agents and budgets for one attempt of a task."""

    ledger: Ledger | None
    """Innermost ledger of the budgets that bound the task; None without a budget."""

    def charged(self, reply: Any) -> Any:
        """Set the task's usage; return *reply* of the node, as a `Spent` if its calls count against `token_budget`.

        `token_budget` is a field of the state, with the tokens that are left for model calls. A `Spent` tells the
        engine to take the used tokens off that field. `invoke` calls this at the end of an attempt.
        """
        ...

    def abandon(self) -> object:
        """Cancel the harness runs of an attempt that was given up, from any thread."""
        ...

    async def failed(self, error: Exception) -> None:
        """Clean up after an attempt that failed with *error*: cancel and await the model calls that it left behind.

        Called by `invoke`, through the context of the attempt.

        Replies that may have caused the failure are discarded, so that the next attempt calls its models anew.
        """
        ...

    def failed_sync(self, error: Exception) -> None:
        """Do what `failed` does in the thread of a sync node, which cannot await what it cancels."""
        ...


class Agents(Protocol):
    """Makes the services of agents and budgets for the attempts of one run."""

    def of_task(self, context: Any) -> TaskAgents:
        """Return the services for the attempt that *context* belongs to.

        The parameter is a `Context`. Its type is Any because the module of `Context` imports this one.
        """
        ...

    def harness(self, host: Any, harness: Any) -> BoundHarness[Any]:
        """Return *harness*, that of the run, bound to a task; *host* is what `of_task` returned for it."""
        ...

    def bind(self, host: Any, harness: Any, tools: Sequence[Any] | None, budget: Budget | None) -> BoundHarness[Any]:
        """Return *harness* bound to a task, for `ctx.bind`.

        Args:
            host: What `of_task` returned for the task.
            harness: An Agent, or any object with an async `run`.
            tools: Tools of an agent that may be used; None allows all of them.
            budget: Budget of the calls made through it, inside those of the node and the run; None for none.
        """
        ...
