"""What the engine is told of redaction: functions on values and errors (decision 0126). Rules are none of its business."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from graphrt._codec import Codec


class Redactor(Protocol):
    """Redacts values and errors by rules of its own."""

    def value(
        self, codec: Codec, value: Any, field: str, *, marked: bool, fits: Callable[[Any], Any] | None, what: str
    ) -> Any:
        """Return *value* redacted: *value* itself if no rule applies.

        Args:
            codec: Knows the classes in the value.
            value: What enters the thread.
            field: Field of the state that it is for; empty if it is for none.
            marked: Whether the field is marked `redacted`.
            fits: Checks what the rules left, and returns it as the field has it; raises ValueError.
            what: What the value is, for errors.

        Raises:
            AuditError: A rule raised, or the value cannot hold what it gave.
            NotStorable: A part of the value has no encoded form, so that no rule can look into it.
        """
        ...

    def error(self, error: BaseException) -> BaseException:
        """Return *error* with redacted texts, its causes and notes included; another one if it cannot be changed."""
        ...

    def label(self, marked: frozenset[str]) -> str:
        """Return the rules in force, and a digest of them, as one text for the log."""
        ...
