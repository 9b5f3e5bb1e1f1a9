"""`ToolRegistry`, the tools that an agent or a node may use, by name.

Only the lookup lives here. The sibling modules make tools, and `agent` calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import MappingProxyType
from typing import Any, Final, TypeAlias, cast

from graphrt.errors import closest, names
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.tools import DUPLICATE_TOOL, UNKNOWN_TOOL
from graphrt.harness.messages import ToolSpec
from graphrt.harness.tools.function import FunctionTool
from graphrt.harness.tools.protocol import Tool

__all__ = ["AnyTool", "ToolRegistry"]

AnyTool: TypeAlias = Tool | Callable[..., Any]
"""A tool, or a plain typed function, of which a `FunctionTool` is made."""


class ToolRegistry:
    """Immutable collection of tools by name, in the order they were given.

    Args:
        tools: 0..n tools or plain typed functions.

    Raises:
        InputError: Two tools have the same name (`duplicate-tool`), or an item is neither a tool nor a function
            (`input`).
    """

    def __init__(self, tools: Iterable[AnyTool] = (), /) -> None:
        by_name: dict[str, Tool] = {}
        for item in _each(tools):
            tool = _as_tool(item)
            name = tool.spec.name
            if name in by_name:
                raise DUPLICATE_TOOL(tool=name, first=_origin(by_name[name]), second=_origin(tool))
            by_name[name] = tool
        self._tools: Final = MappingProxyType(by_name)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the 0..n tools, in the registry's order."""
        return tuple(self._tools)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Name, description and schema of the 0..n tools, in the registry's order."""
        return tuple(tool.spec for tool in self._tools.values())

    def get(self, name: str, /) -> Tool:
        """Return the tool with that name.

        Raises:
            InputError: There is no such tool (`unknown-tool`).
        """
        tool = self._tools.get(name)
        if tool is None:
            guess = closest(name, self._tools)
            raise UNKNOWN_TOOL(tool=name, known=names(self._tools) or "no tools", guess=guess)
        return tool

    def only(self, allowed: Iterable[str], /) -> ToolRegistry:
        """Return a registry of the tools named in *allowed*, in the order of this registry.

        Raises:
            InputError: There is no tool with one of the names (`unknown-tool`), or *allowed* is a string (`input`).
        """
        if isinstance(allowed, str):
            raise INVALID_ARGUMENT(
                argument="The names of only()", value=allowed, wanted=f"several: only([{allowed!r}])"
            )
        selected = {name: self.get(name) for name in allowed}
        return ToolRegistry(tool for name, tool in self._tools.items() if name in selected)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __repr__(self) -> str:
        return f"ToolRegistry({', '.join(self._tools)})"


def _each(tools: Any) -> Iterable[AnyTool]:
    if isinstance(tools, str) or not isinstance(tools, Iterable):
        raise INVALID_ARGUMENT(
            argument="The tools of a ToolRegistry", value=tools, wanted="several: ToolRegistry([...])"
        )
    return cast("Iterable[AnyTool]", tools)


def _as_tool(value: Any) -> Tool:
    if is_tool(value):
        return cast("Tool", value)
    if callable(value) and not isinstance(value, type):
        return FunctionTool(value)
    raise INVALID_ARGUMENT(
        argument="A tool",
        value=value,
        wanted="a function, or what tool(), tool_from_model() or McpServer.tools() made",
        known="a tool has spec, policy, check and call",
    )


def is_tool(value: Any) -> bool:
    """Return whether *value* is a tool, and not a class or a function that a tool can be made of."""
    return not isinstance(value, type) and all(hasattr(value, name) for name in ("spec", "policy", "check", "call"))


def needing_graph(tools: Iterable[Tool], *, below: bool = False) -> Iterator[tuple[Tool, bool]]:
    """Yield each of *tools* that uses the state of a graph or routes, and those of agents that are tools themselves.

    Args:
        tools: The tools of an agent.
        below: Whether that agent is a tool.

    Yields:
        The tool, and whether its agent is a tool.
    """
    for tool in tools:
        if tool.policy.needs_graph:
            yield tool, below
        agent: Any = getattr(tool, "agent", None)  # of an agent as a tool
        if hasattr(agent, "__graphrt_tools__"):
            yield from needing_graph(agent.__graphrt_tools__(), below=True)


def _origin(tool: Tool) -> str:
    return getattr(tool, "origin", "") or f"{type(tool).__module__}.{type(tool).__qualname__}"


def name_of(tool: Any) -> str:
    """Return the name of a tool that is given as a name, a spec, a tool, or the function that a tool was made of."""
    if isinstance(tool, str):
        return tool
    spec = getattr(tool, "spec", tool)
    name: str = getattr(spec, "name", None) or getattr(tool, "__name__", "") or repr(tool)
    return name
