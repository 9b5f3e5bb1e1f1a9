"""The interface of agents and budgets to drivers and contexts, as protocols: `_agents` implements them.

The runtime passes an `Agents` with the services of the run. A context (`ctx`, the second argument of a node) calls it
on first use, so that a node without models has no overhead. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from graphrt._usage.budget import Budget
    from graphrt.harness.agent._bound_harness import BoundHarness
    from graphrt.harness.budget._ledger import Ledger


class TaskAgents(Protocol):
    """Services of agents and budgets for one attempt of a task."""

    ledger: Ledger | None
    """Innermost ledger of the budgets that bound the task; None without a budget."""

    def harness(self) -> BoundHarness[Any]:
        """Return the run's harness, bound to the task."""
        ...

    def bind(self, harness: Any, tools: Sequence[Any] | None, budget: Budget | None) -> BoundHarness[Any]:
        """Return *harness* bound to the task, for `ctx.bind`.

        Args:
            harness: An Agent, or any object with an async `run`.
            tools: Tools of an agent that may be used; None allows all of them.
            budget: Budget of the calls made through it, within the budgets of the node and the run; None for none.
        """
        ...

    def charged(self, reply: Any) -> Any:
        """Set the task's usage, and return the node's *reply*, as a `Spent` if its calls count against `token_budget`.

        This state field holds the tokens that are left for model calls. A `Spent` makes the engine subtract the used
        tokens from it. `invoke` calls this at the end of an attempt.
        """
        ...

    def abandon(self) -> object:
        """Cancel the harness runs of an abandoned attempt, from any thread."""
        ...

    async def failed(self, error: Exception) -> None:
        """Clean up after an attempt that failed with *error*: cancel and await its remaining model calls.

        Called by `invoke`, through the context of the attempt.

        Replies that may have caused the failure are discarded, so that the next attempt calls its models again.
        """
        ...

    def failed_sync(self, error: Exception) -> None:
        """Like `failed`, for the thread of a sync node, which cannot await the work that it cancels."""
        ...


class Agents(Protocol):
    """Creates the services of agents and budgets for the attempts of one run."""

    def of_task(self, context: Any) -> TaskAgents:
        """Return the services for the attempt that *context* belongs to.

        The parameter is a `Context`. Its type is Any because the module of `Context` imports this one.
        """
        ...
