"""Futile repeats of a model: a tool call that failed before, and an answer that was refused before.

The model gets a notice at each repeat, up to `AgentLimits.repeats`; one more repeat ends the run. A model that does not
see its mistake would continue until the limit of model calls, and each of these calls is paid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, final

from graphrt.harness.agent._digest import of_arguments
from graphrt.harness.messages import ToolCall, ToolMessage

__all__ = ["Repeats"]

_CALL: Final = (
    "You made this call before with the same arguments, and it failed. Do not repeat it: change the arguments, do "
    "something else, or answer without it."
)
_ANSWER: Final = "You gave this answer before, and it was refused. Do not repeat it."


@final
@dataclass(slots=True)
class Repeats:
    """The failures of one run of an agent."""

    limit: int | None
    """How often the same failure may be repeated; None for no limit."""
    beyond: str | None = None
    """A description of the repeat that exceeded the limit; None before that."""
    _failed: dict[str, int] = field(default_factory=dict[str, int])
    """How often each call or answer failed."""

    def of_calls(self, calls: Sequence[ToolCall], results: Sequence[ToolMessage]) -> list[ToolMessage]:
        """Return the *results* of the calls of one reply, with a note for the model at those of repeated failures.

        Equal calls in one reply count as one failure, since the model had not seen the first result when it made the
        second call.
        """
        notes: dict[str, str] = {}
        annotated: list[ToolMessage] = []
        for call, result in zip(calls, results, strict=True):
            # Arguments that are not JSON have only their text.
            key = f"{call.name} {of_arguments(call.arguments) if call.error is None else call.arguments_text}"
            if not result.error:
                self._failed.pop(key, None)
            elif key not in notes:
                notes[key] = self._note(key, _CALL, f"the failing call of tool {call.name!r}")
            note = notes.get(key) if result.error else None
            annotated.append(replace(result, text=f"{result.text}\n{note}") if note else result)
        return annotated

    def of_answer(self, text: str) -> str:
        """Return a sentence for the model if the refused answer *text* is a repeat, else an empty text."""
        return self._note(f"answer {text}", _ANSWER, "its refused answer")

    def _note(self, key: str, note: str, subject: str) -> str:
        times = self._failed[key] = self._failed.get(key, 0) + 1
        if self.limit is not None and times > self.limit + 1:
            self.beyond = subject
        return note if times > 1 else ""
