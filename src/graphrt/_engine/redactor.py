"""The engine's interface to redaction: a protocol of functions on values and errors (decision 0126).

The rules, and the class that implements the protocol, are in `graphrt.audit`, in a higher layer. For the terms, see
docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from graphrt._codec import Codec


class Redactor(Protocol):
    """Redacts values and errors according to its rules."""

    def value(
        self, codec: Codec, value: Any, field: str, *, marked: bool, fits: Callable[[Any], Any] | None, what: str
    ) -> Any:
        """Return *value* redacted: *value* itself if no rule applies.

        Args:
            codec: Encodes the value, so that its texts can be found and replaced, and decodes the result.
            value: The value that enters the thread.
            field: State field of the value; empty if it does not belong to one.
            marked: Whether the field is marked `redacted`, so that every text in it is replaced.
            fits: Validates the redacted value for its field and returns it, or raises ValueError; None checks nothing.
            what: Noun for the value, for error texts.

        Raises:
            AuditError: A rule raised, or the value cannot hold the replacement.
            NotStorable: A part of the value has no encoded form, so that rules cannot inspect it.
        """
        ...

    def error(self, error: BaseException) -> BaseException:
        """Return *error* with redacted texts, including its causes and notes.

        It is changed in place. If that is not possible, an error with the name of its class and redacted text replaces
        it.
        """
        ...

    def label(self, marked: frozenset[str]) -> str:
        """Return the names of the rules in force, and a digest of them, as one text.

        The events that begin or resume a run, or record an edit of the state (`Runtime.update`), contain it as
        `redaction`. So a reader of the journal sees which rules were applied to the values that follow.

        Args:
            marked: Fields of the graph that are marked `redacted`. They are rules too: named, and part of the digest.
        """
        ...
