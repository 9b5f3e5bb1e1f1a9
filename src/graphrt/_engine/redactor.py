"""What the engine knows of redaction: a protocol of functions on values and errors (decision 0126).

The rules, and the class that implements the protocol, are in `graphrt.audit`, on a higher floor. For the terms, see
docs/glossary.md.
"""

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
            codec: Encodes the value, so that its texts can be found and replaced, and decodes the result.
            value: What enters the thread.
            field: Field of the state that it is for; empty if it is for none.
            marked: Whether the field is marked `redacted`, so that every text in it is replaced.
            fits: Validates the redacted value for its field and returns it, or raises ValueError; None checks nothing.
            what: What the value is, for errors.

        Raises:
            AuditError: A rule raised, or the value cannot hold what it gave.
            NotStorable: A part of the value has no encoded form, so that no rule can look into it.
        """
        ...

    def error(self, error: BaseException) -> BaseException:
        """Return *error* with redacted texts, its causes and notes included.

        It is changed in place. If that is not possible, an error with the name of its class and redacted text replaces
        it.
        """
        ...

    def label(self, marked: frozenset[str]) -> str:
        """Return the names of the rules in force, and a digest of them, as one text.

        The events that begin or resume a run, or record an edit of the state (`Runtime.update`), have it as their
        `redaction`. So a reader of the journal sees by which rules the values from there on were redacted.

        Args:
            marked: Fields of the graph that are marked `redacted`. They are rules too: named, and part of the digest.
        """
        ...
