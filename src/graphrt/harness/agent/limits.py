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
        model_calls: Maximum number of model calls, 1 or more. Repairs of an answer count, retries do not.
        tool_calls: Maximum number of tool calls, 0 or more.
        handoffs: Maximum number of handoffs in a run that begins with this agent, 0 or more. The other limits of an
            agent start over with each handoff to it.
        depth: Levels of agents that call agents; 0 allows none.
        seconds: Wall time of the run. None: no limit.
        on_limit: "raise" raises AgentLimitError; "stop" returns the last text and names the limit in
            `AgentReply.stopped`.
        on_length: What happens to a reply that `max_tokens` cut off. Its tool calls are never made. "return" returns an
            answer with a `finish_reason` of "length", returns an error to the model for its calls, and logs a warning
            (logger `graphrt.harness`). "raise" raises AgentLimitError (`answer-cut-off`).
        repeats: How often the model may repeat a tool call that failed, or an answer that was refused, 0 or more. It
            gets a notice at each repeat; one more repeat ends the run. Calls are the same if tool and arguments are, in
            any order of the keys. None: no limit.
        result_chars: Maximum number of characters of a tool result that the model is sent, 1 or more. It reads the rest
            with a tool that is offered then, `read_result`; the journal has the whole result.
            `ToolPolicy.max_result_chars` wins. None: no limit.

    Raises:
        InputError: A limit is not a number, or is too small (`bad-limit`).
    """

    model_calls: int = 25
    tool_calls: int = 50
    handoffs: int = 8
    depth: int = 8
    seconds: float | None = None
    on_limit: OnLimit = "raise"
    on_length: OnLength = "return"
    repeats: int | None = 1
    result_chars: int | None = 40_000

    def __post_init__(self) -> None:
        problems = list(self._problems())
        if problems:
            raise BAD_LIMITS(
                limits="AgentLimits",
                problems="; ".join(problems),
                example="AgentLimits(model_calls=25, tool_calls=50, on_limit='stop')",
            )

    def _problems(self) -> Iterator[str]:
        problems = (
            number_problem("model_calls", self.model_calls, optional=False, least=1),
            number_problem("tool_calls", self.tool_calls, optional=False),
            number_problem("handoffs", self.handoffs, optional=False),
            number_problem("depth", self.depth, optional=False),
            number_problem("seconds", self.seconds, optional=True, seconds=True),
            number_problem("repeats", self.repeats, optional=True),
            number_problem("result_chars", self.result_chars, optional=True, least=1),
        )
        yield from (problem for problem in problems if problem)
        on_limit: Any = self.on_limit
        if on_limit not in ("raise", "stop"):
            yield f"on_limit must be 'raise' or 'stop', not {on_limit!r}"
        on_length: Any = self.on_length
        if on_length not in ("raise", "return"):
            yield f"on_length must be 'raise' or 'return', not {on_length!r}"
