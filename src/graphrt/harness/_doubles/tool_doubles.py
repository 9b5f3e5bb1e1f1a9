"""Doubles of tools: `DoubledTool` has the name, schema and policy of a tool, and gets its results from a double.

Calls are still checked against the current schema of the tool, and approved, limited and recorded like real ones.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, final

from graphrt.errors import ToolArgumentsError, ToolError, describe_error
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.doubles import DOUBLE_OF_ANOTHER_TOOL, SCRIPT_OUTPUT
from graphrt.harness.tools.protocol import Tool, ToolContext
from graphrt.harness.tools.registry import is_tool
from graphrt.harness.tools.results import to_outcome

__all__ = ["DoubledTool", "ToolScript", "checked_double"]


class ToolScript(Protocol):
    """A double with results in order, such as `graphrt.testing.scripted` returns."""

    def tool_result(self, tool: str, arguments: Mapping[str, Any], /) -> Any:
        """Return the next result or an awaitable of it, or raise the scripted exception."""
        ...

    def assert_done(self) -> None:
        """Check that every result was used, and that no call was unexpected."""
        ...


def checked_double(name: str, double: Any) -> Any:
    """Return *double*, which replaces the tool *name*.

    Raises:
        InputError: It is not a function, a tool, or a double with ordered results (`input`).
    """
    if isinstance(double, type) or not (hasattr(double, "tool_result") or is_tool(double) or callable(double)):
        raise INVALID_ARGUMENT(
            argument=f"The double of tool {name!r} in tools=",
            value=double,
            wanted="scripted(...) of graphrt.testing, a function of the tool's arguments, or a tool",
        )
    return double


@final
class DoubledTool:
    """A tool whose calls go to a double.

    Args:
        tool: The tool, whose name, schema, checks and policy still apply.
        double: A function, a tool, or a `ToolScript`.
        called: Called with each call, before the double.
    """

    def __init__(self, tool: Tool, double: Any, *, called: Callable[[], Any]) -> None:
        self._tool: Final = tool
        self._double: Final = double
        self._called: Final = called
        self.spec: Final = tool.spec
        """Name, description and schema of the real tool."""
        self.policy: Final = tool.policy
        """The policy of the real tool."""

    def check(self, arguments: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Validate *arguments* as the real tool does.

        Raises:
            ToolArgumentsError: They are invalid.
        """
        return self._tool.check(arguments)

    async def call(self, arguments: Mapping[str, Any], context: ToolContext, /) -> Any:
        """Return the result of the double.

        Raises:
            ScriptError: The script is used up, the double does not take the arguments of the tool, or its result is not
                one that a tool may return.
            BaseException: What the double raises.
        """
        self._called()
        try:
            result = self._result(arguments, context)
            result = await result if inspect.isawaitable(result) else result
            return to_outcome(result, tool=self.spec.name, policy=self.policy)
        except ToolError as error:
            if error.code != "tool-result":
                raise
            # As a tool's own error it would be shown to the model, and the test would go on.
            raise SCRIPT_OUTPUT(
                double=f"double of tool {self.spec.name!r}",
                number=f"{context.call.id!r}",
                reply="its result",
                problem=error.what.rstrip("."),
                expected=None,
                got=None,
                known=error.known,
                fix=error.fix,
            ) from None

    def _result(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Return what the double returns, which may be an awaitable."""
        name, double = self.spec.name, self._double
        if hasattr(double, "tool_result"):
            return double.tool_result(name, arguments)
        if is_tool(double):
            try:
                checked = double.check(dict(arguments))
            except ToolArgumentsError as error:
                raise DOUBLE_OF_ANOTHER_TOOL(tool=name, problem=error.what, got=list(arguments)) from None
            return double.call(checked, context)
        return called_by_name(double, name, arguments)

    def __repr__(self) -> str:
        return f"DoubledTool({self.spec.name!r})"


def called_by_name(fn: Callable[..., Any], tool: str, arguments: Mapping[str, Any]) -> Any:
    """Return the result of *fn* for the arguments of a call of *tool*.

    Raises:
        ScriptError: It does not accept them (`script-wrong-call`): the tool has changed, or the function belongs to
            another tool.
    """
    try:
        inspect.signature(fn).bind(**arguments)
    except TypeError as error:
        raise DOUBLE_OF_ANOTHER_TOOL(tool=tool, problem=describe_error(error), got=list(arguments)) from None
    except ValueError:
        pass  # a builtin without a signature: only calling it can show a mismatch
    return fn(**arguments)
