"""What a tool returned, as the model reads it: text as it is, everything else as JSON, cut only where the policy asks.

Only values are turned into texts here; no tool is called.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Final

from graphrt.errors import ToolError
from graphrt.harness.tools.protocol import ToolPolicy, ToolResult

__all__ = ["to_result"]

_DEEPEST: Final = 40
_ALWAYS: Final = ToolPolicy()


def to_result(value: Any, *, tool: str, policy: ToolPolicy = _ALWAYS) -> ToolResult:
    """Make of what a tool returned what an agent needs: a text for the model, the value for the program.

    Args:
        value: A text, a ToolResult, or anything that becomes JSON: pydantic models, dataclasses, dates, enums and
            collections of them.
        tool: Its name, for the error.
        policy: Says how much of the text the model is shown.

    Raises:
        ToolError: Something in *value* cannot become JSON; the text names its path.
    """
    if isinstance(value, ToolResult):
        _check_text(value.text, tool)
        text = _cut(value.text, policy)
        return value if text == value.text else dataclasses.replace(value, text=text)
    if isinstance(value, str):
        _check_text(value, tool)
        return ToolResult(text=_cut(value, policy), value=value)
    try:
        text = _json(value)
    except Exception as error:  # noqa: BLE001 - properties and iterators of the value may raise anything
        path, culprit = _culprit(value, "result", 0)
        raise ToolError(
            f"What tool {tool!r} returned cannot become JSON: {path} is of type {type(culprit).__name__}.",
            known=_reason(culprit, error),
            fix="return a text, a ToolResult, or what JSON has: numbers, lists, dicts, dataclasses, pydantic models",
            code="tool-result",
            tool=tool,
            path=path,
        ) from None
    return ToolResult(text=_cut(text, policy), value=value)


def _json(value: Any) -> str:
    import pydantic_core

    return pydantic_core.to_json(value, inf_nan_mode="strings").decode()


def _check_text(text: str, tool: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(
            f"The text that tool {tool!r} returned has a lone surrogate at position {error.start}.",
            fix="decode bytes with errors='replace'",
            code="tool-result",
            tool=tool,
            path="result",
        ) from None


def _cut(text: str, policy: ToolPolicy) -> str:
    most = policy.max_result_chars
    if most is None or len(text) <= most:
        return text
    return f"{text[:most]}\n[cut: {len(text) - most} of {len(text)} characters are not shown]"


def _culprit(value: Any, path: str, depth: int) -> tuple[str, Any]:
    """The innermost value that cannot become JSON, and where it is."""
    if depth < _DEEPEST:
        for step, child in _children(value):
            try:
                _json(child)
            except Exception:  # noqa: BLE001 - looking for the one that raises
                return _culprit(child, f"{path}{step}", depth + 1)
    return path, value


def _children(value: Any) -> Iterable[tuple[str, Any]]:
    holder: Any = value
    if isinstance(value, Mapping):
        return [(f"[{key!r}]", child) for key, child in holder.items()]
    if isinstance(value, list | tuple | set | frozenset):
        return [(f"[{n}]", child) for n, child in enumerate(holder)]
    named: Any = getattr(holder, "__dataclass_fields__", None) or getattr(holder, "__pydantic_fields__", None) or ()
    return [(f".{name}", getattr(holder, name, None)) for name in named]


def _reason(culprit: Any, error: Exception) -> str:
    if isinstance(culprit, Mapping | list | tuple | set | frozenset):
        return "it contains itself, or is nested too deeply"
    return "" if "Unable to serialize unknown type" in str(error) else type(error).__name__
