"""Limits of one agent run, as a value; `_loop` and `agent` apply them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from graphrt._arguments import number_problem
from graphrt.errors._codes.arguments import BAD_LIMITS

__all__ = ["AgentLimits"]

OnLimit: TypeAlias = Literal["raise", "stop"]
"""Reaction to a limit that was reached."""
OnLength: TypeAlias = Literal["raise", "return"]
"""Reaction to a reply that `max_tokens` cut off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLimits:
    """Limits of one agent run; sub-agents have their own.

    Args:
        model_calls: Most model calls, 1 or more. Repairs of an answer count, retries do not.
        tool_calls: Most tool calls, 0 or more.
        depth: Levels of agents that call agents; 0 allows none.
        seconds: Wall time of the run. None: no limit.
        on_limit: "raise" raises AgentLimitError; "stop" returns the last text and names the limit in
            `AgentReply.stopped`.
        on_length: What happens to a reply that `max_tokens` cut off. Its tool calls are never made. "return" returns an
            answer with a `finish_reason` of "length", tells the model that its calls were not made, and logs a warning
            (logger `graphrt.harness`); "raise" raises AgentLimitError (`answer-cut-off`).

    Raises:
        InputError: A limit is not a number, or is too small (`bad-limit`).
    """

    model_calls: int = 25
    tool_calls: int = 50
    depth: int = 8
    seconds: float | None = None
    on_limit: OnLimit = "raise"
    on_length: OnLength = "return"

    def __post_init__(self) -> None:
        problems = list(self._problems())
        if problems:
            raise BAD_LIMITS(
                limits="AgentLimits",
                problems="; ".join(problems),
                example="AgentLimits(model_calls=25, tool_calls=50, on_limit='stop')",
            )

    def _problems(self) -> Iterator[str]:
        found = (
            number_problem("model_calls", self.model_calls, optional=False, least=1),
            number_problem("tool_calls", self.tool_calls, optional=False),
            number_problem("depth", self.depth, optional=False),
            number_problem("seconds", self.seconds, optional=True, seconds=True),
        )
        yield from (problem for problem in found if problem)
        on_limit: Any = self.on_limit
        if on_limit not in ("raise", "stop"):
            yield f"on_limit must be 'raise' or 'stop', not {on_limit!r}"
        on_length: Any = self.on_length
        if on_length not in ("raise", "return"):
            yield f"on_length must be 'raise' or 'return', not {on_length!r}"
