"""`OutputSpec`: the form of an answer as carried by requests. `form` builds one from a type, and reads answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["OutputSpec"]


class _Made:
    """A slot for the OutputForm behind an `OutputSpec`, which doubles need.

    It is not a dataclass field, so that neither digests nor reprs contain it.
    """

    __slots__ = ("_form",)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSpec(_Made):
    """A request for structured output: the text of the answer must be JSON of this schema."""

    name: str
    """Name of the schema for the provider: letters, digits, `_` and `-`."""
    schema: Mapping[str, Any] = field(hash=False)
    """JSON schema of the answer."""
    strict: bool = True
    """Whether the provider should enforce the schema strictly, if it can."""

    @property
    def _made_by(self) -> Any:
        """The OutputForm that made the spec from a type; None if a user wrote the spec."""
        return getattr(self, "_form", None)

    def _made(self, form: Any) -> None:
        """Record that *form* created this spec."""
        object.__setattr__(self, "_form", form)
