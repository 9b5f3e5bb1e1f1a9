"""Arguments that the program gives a tool, and no model can: the marker that stands in a parameter's annotation.

What is marked is read in `_signature`; nothing is looked up here but the value of one injection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from graphrt.errors import InputError, a_type, names
from graphrt.harness.tools.protocol import ToolContext

__all__ = ["Injected"]


@dataclass(frozen=True, slots=True)
class Injected:
    """Marks a parameter whose value the program gives: `db: Annotated[Database, Injected("db")]`.

    The parameter is not in the tool's schema; a model that sends a value for it is refused.

    Args:
        source: A name: that key or attribute of what the caller passed as `deps`. Or a function of the `ToolContext`,
            sync (then it must be quick) or async.

    Raises:
        InputError: It is neither.
    """

    source: str | Callable[[ToolContext], Any]

    def __post_init__(self) -> None:
        source: Any = self.source
        if not (callable(source) or (isinstance(source, str) and source)):
            raise InputError(
                f"Injected takes a name in deps or a function of the ToolContext, not {self.source!r}.",
                fix='write Injected("db") or Injected(lambda context: ...)',
                value=self.source,
            )

    def find(self, context: ToolContext, /) -> Any:
        """The value, or an awaitable of it.

        Raises:
            LookupError: `deps` has no such name; the text says what it has.
        """
        if not isinstance(self.source, str):
            return self.source(context)
        deps: Any = context.deps
        held: Any = deps
        if isinstance(deps, Mapping):
            if self.source in held:
                return held[self.source]
            raise LookupError(f"deps has no {self.source!r}; it has {names(sorted(map(str, held))) or 'nothing'}")
        missing = object()
        found = getattr(deps, self.source, missing)
        if found is missing:
            what = "nothing was passed as deps" if deps is None else f"deps is {a_type(deps)}"
            raise LookupError(f"deps has no {self.source!r}: {what}")
        return found
