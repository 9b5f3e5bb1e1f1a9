"""A tool's view of the state of its graph: `ToolContext.state`, with the fields that the tool declares to read.

A view reads like the state itself: attributes of a model or dataclass, items of a TypedDict. It is made when a field is
first read, and refuses assignments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn, final

from graphrt.errors._codes.tools import STATE_ASSIGNED, UNDECLARED_READ

__all__ = ["state_view"]


def state_view(tool: str, reads: tuple[str, ...], state: Callable[[], Any], *, mapping: bool) -> Any:
    """Return the view of a state for one call of a tool.

    Args:
        tool: Name of the tool.
        reads: Fields that it declares to read.
        state: Returns the state, an instance of the state class; called at most once.
        mapping: Whether the state is a TypedDict.
    """
    return _Items(tool, reads, state) if mapping else _Attributes(tool, reads, state)


@final
class _Attributes:
    """A view of a model or dataclass."""

    __slots__ = ("__graphrt_read__",)

    def __init__(self, tool: str, reads: tuple[str, ...], state: Callable[[], Any]) -> None:
        object.__setattr__(self, "__graphrt_read__", _Reader(tool, reads, state))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked for by copy, pickle and the like
            raise AttributeError(name)
        return getattr(self.__graphrt_read__.state(name), name)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise STATE_ASSIGNED(tool=self.__graphrt_read__.tool, field=name)

    def __delattr__(self, name: str) -> NoReturn:
        raise STATE_ASSIGNED(tool=self.__graphrt_read__.tool, field=name)

    def __repr__(self) -> str:
        return repr(self.__graphrt_read__)


@final
class _Items(Mapping[str, Any]):
    """A view of a TypedDict: a mapping of the declared fields that have a value."""

    __slots__ = ("_read",)

    def __init__(self, tool: str, reads: tuple[str, ...], state: Callable[[], Any]) -> None:
        self._read = _Reader(tool, reads, state)

    def __getitem__(self, name: str) -> Any:
        return self._read.state(name)[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._read.state(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._read.reads if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __setitem__(self, name: str, value: Any) -> NoReturn:
        raise STATE_ASSIGNED(tool=self._read.tool, field=name)

    def __delitem__(self, name: str) -> NoReturn:
        raise STATE_ASSIGNED(tool=self._read.tool, field=name)

    def __repr__(self) -> str:
        return repr(self._read)


@final
class _Reader:
    """Gives access to the declared fields of the state."""

    __slots__ = ("_made", "_make", "reads", "tool")

    def __init__(self, tool: str, reads: tuple[str, ...], state: Callable[[], Any]) -> None:
        self.tool = tool
        self.reads = reads
        self._make = state
        self._made: Any = None

    def state(self, field: str) -> Any:
        """Return the state, to read *field*.

        Raises:
            ToolStateError: The tool does not declare to read it (`tool-state`).
        """
        if field not in self.reads:
            raise UNDECLARED_READ(tool=self.tool, field=field, declared=self.reads)
        if self._made is None:
            self._made = self._make()
        return self._made

    def __repr__(self) -> str:
        names = ", ".join(self.reads)
        return f"<state for tool {self.tool!r}: {names or 'no fields'}>"
