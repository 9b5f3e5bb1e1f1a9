"""Conversion of a tool's return value to the text that the model reads.

Strings stay as they are, and everything else becomes JSON. How much of a long text the model is sent is decided where
it is sent (`agent._long_results`). The result of a `Command` is read in the same way; its update and its targets are
checked where the agent runs. No tool is called here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from graphrt.commands import Command, Interrupt, Send
from graphrt.errors import ToolError
from graphrt.errors._codes.tools import RESULT_WITH_SURROGATE, TOOL_RESULT_NOT_JSON
from graphrt.errors._error_code import ErrorCode
from graphrt.harness.media import Media
from graphrt.harness.messages import ToolMessage, is_content
from graphrt.harness.tools.protocol import ToolPolicy, ToolResult

__all__ = ["to_result"]

_DONE: Final = "Done."
"""The text for the model in place of a `Command` without a `result`."""

_DEEPEST: Final = 40
"""Maximum number of levels that are searched for the value that has no JSON form."""
_OF_GRAPHS: Final = ("Command", "Send")
"""Names of the LangGraph classes that only a node may return."""


class ToolCommandError(ToolError):
    """A tool returned a value that only a node may return.

    It is a bug in the program that the model cannot correct, so the model is never shown it.
    """

    default_code = "tool-command"


# Declared here and not with the other errors of tools, beside its class.
_TOOL_COMMAND: Final = ErrorCode(
    "tool-command",
    ToolCommandError,
    "Tool {tool!r} returned a value of type {kind}, which only a node may return.",
    fix="Return what the model is to read. To update the state or to route, return Command(update=..., goto=..., "
    "result=...) itself, and declare it: @tool(writes=[fields], goto=[nodes]). To ask a person first, write "
    "@tool(approval=True).",
)


def to_outcome(value: Any, *, tool: str, policy: ToolPolicy) -> ToolResult | Command[Any]:
    """Return the result of a tool as a ToolResult, or as a Command whose `result` is one.

    Args:
        value: As for `to_result`, or a Command whose `result` is such a value.
        tool: Name of the tool, for the error.
        policy: What the tool declares.

    Raises:
        ToolCommandError: *value* is a Command, and the tool declares neither writes nor targets; or as `to_result`.
        ToolError: As `to_result`.
    """
    command: Any = value
    if not (isinstance(value, Command) and command.graph is None and (policy.writes or policy.goto)):
        return to_result(command, tool=tool)
    result = to_result(_DONE if command.result is None else command.result, tool=tool)
    return Command(update=command.update, goto=command.goto, result=result)


def to_result(value: Any, *, tool: str) -> ToolResult:
    """Return the result of a tool as a ToolResult: a text for the model, and the value for the program.

    Args:
        value: A string; an Image, Audio or Document, or a list of texts and these; a ToolResult; or a value that can be
            serialized as JSON: pydantic models, dataclasses, dates, enums and collections of them.
        tool: Name of the tool, for the error.

    Raises:
        ToolCommandError: *value* is a Command, a Send or an Interrupt, or a list or tuple with one.
        ToolError: Something in *value* has no JSON form; the text names its path (`tool-result`).
    """
    _check_no_command(value, tool)
    if is_content(value) and not isinstance(value, str):
        value = ToolResult(content=(value,), value=value)
    elif _has_media(value):
        value = ToolResult(content=value, value=value)
    if isinstance(value, ToolResult):
        message = ToolMessage(tool_call_id="", text=value.text, content=value.content)  # its texts and parts, checked
        _check_text(message.text, tool)
        unchanged = message.text == value.text and message.content == value.content
        return value if unchanged else dataclasses.replace(value, text=message.text, content=message.content)
    if isinstance(value, str):
        _check_text(value, tool)
        return ToolResult(text=value, value=value)
    try:
        text = _json(value)
    except Exception as error:  # noqa: BLE001 - properties and iterators of a user's value may raise anything
        path, culprit = _culprit(value, "result", 0)
        raise TOOL_RESULT_NOT_JSON(tool=tool, path=path, culprit=culprit, known=_reason(culprit, error)) from None
    return ToolResult(text=text, value=value)


def _has_media(value: Any) -> bool:
    """Return whether *value* is a list or tuple of texts and media, with at least one image, audio or document."""
    if type(value) not in (list, tuple) or not all(map(is_content, value)):
        return False
    return any(isinstance(item, Media) for item in value)


def _check_no_command(value: Any, tool: str) -> None:
    content: Any = value.value if isinstance(value, ToolResult) else value
    items: Any = content if type(content) in (list, tuple) else (content,)
    for item in items:
        if isinstance(item, (Command, Send, Interrupt)) or is_of_langgraph(type(item), _OF_GRAPHS):
            kind: str = type(item).__name__  # pyright: ignore[reportUnknownArgumentType]  # a Command of anything
            raise _TOOL_COMMAND(tool=tool, kind=kind, value=item)


def _json(value: Any) -> str:
    import pydantic_core

    return pydantic_core.to_json(value, inf_nan_mode="strings").decode()


def _check_text(text: str, tool: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RESULT_WITH_SURROGATE(tool=tool, position=error.start, path="result") from None


def is_of_langgraph(kind: Any, known: Collection[str]) -> bool:
    """Return whether *kind* is a class of LangGraph or LangChain with one of the *known* names.

    It is recognised by its module's name, so neither library has to be installed.
    """
    module = str(getattr(kind, "__module__", ""))
    return module.partition(".")[0] in ("langgraph", "langchain", "langchain_core") and kind.__name__ in known


def _culprit(value: Any, path: str, depth: int) -> tuple[str, Any]:
    """Return the path of the innermost value that has no JSON form, and the value."""
    if depth < _DEEPEST:
        for step, child in _children(value):
            try:
                _json(child)
            except Exception:  # noqa: BLE001 - the search is for the value that raises
                return _culprit(child, f"{path}{step}", depth + 1)
    return path, value


def _children(value: Any) -> Iterable[tuple[str, Any]]:
    holder: Any = value
    if isinstance(value, Mapping):
        return [(f"[{key!r}]", child) for key, child in holder.items()]
    if isinstance(value, list | tuple | set | frozenset):
        return [(f"[{n}]", child) for n, child in enumerate(holder)]
    field_names: Any = (
        getattr(holder, "__dataclass_fields__", None) or getattr(holder, "__pydantic_fields__", None) or ()
    )
    return [(f".{name}", getattr(holder, name, None)) for name in field_names]


def _reason(culprit: Any, error: Exception) -> str:
    if isinstance(culprit, Mapping | list | tuple | set | frozenset):
        return "it contains itself, or is nested too deeply"
    return "" if "Unable to serialize unknown type" in str(error) else type(error).__name__
