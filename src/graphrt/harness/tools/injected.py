"""`Injected`, the annotation marker for tool arguments that the program supplies and the model cannot set.

The marker and the lookup of its value live here. `_signature` finds the marked parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from graphrt.errors import a_type, names
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.harness.tools.protocol import ToolContext

__all__ = ["Injected"]


@dataclass(frozen=True, slots=True)
class Injected:
    """Marks a parameter whose value the program supplies: `db: Annotated[Database, Injected("db")]`.

    The parameter is not in the tool's schema. A call in which the model sends a value for it is refused.

    Args:
        source: The name of a key or attribute of the caller's `deps`, or a function of the `ToolContext`. A sync
            function must be quick, because it runs on the event loop; an async one is awaited.

    Raises:
        InputError: *source* is neither a non-empty string nor callable.
    """

    source: str | Callable[[ToolContext], Any]
    """Name in `deps`, or function that returns the value or an awaitable of it."""

    def __post_init__(self) -> None:
        source: Any = self.source
        if not (callable(source) or (isinstance(source, str) and source)):
            raise INVALID_ARGUMENT(
                argument="The source of Injected",
                value=self.source,
                wanted='a name in deps or a function of the ToolContext: Injected("db") or Injected(lambda context: ...)',
            )

    def find(self, context: ToolContext, /) -> Any:
        """Return the value for the call *context*, or an awaitable of it.

        Raises:
            LookupError: `deps` has no such key or attribute; the text lists the keys of a mapping.
        """
        if not isinstance(self.source, str):
            return self.source(context)
        deps: Any = context.deps
        mapping: Any = deps
        if isinstance(deps, Mapping):
            if self.source in mapping:
                return mapping[self.source]
            raise LookupError(f"deps has no {self.source!r}; it has {names(sorted(map(str, mapping))) or 'nothing'}")
        missing = object()
        value = getattr(deps, self.source, missing)
        if value is missing:
            problem = "nothing was passed as deps" if deps is None else f"deps is {a_type(deps)}"
            raise LookupError(f"deps has no {self.source!r}: {problem}")
        return value
