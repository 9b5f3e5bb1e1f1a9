"""Corrections of request bodies below litellm: content of a conversation that litellm has no place for.

- That the result of a tool is an error. litellm writes each result as a success (`convert_to_anthropic_tool_result`,
  `_convert_to_bedrock_tool_call_result`, `convert_to_gemini_tool_call_result`). Chat completions and Responses have no
  such field.
- The reasoning text of open models in items of Responses. litellm sends id, summary and encrypted content alone
  (`reasoning_input_item`).

Pure functions over JSON data. `_http_exchange` applies them to requests that are not signed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from graphrt._arguments import is_list, is_mapping
from graphrt.harness._surrogates import json_copy
from graphrt.harness.messages import AssistantMessage, Message, ToolMessage

_WITH_STATUS: Final = ("claude", "anthropic", "nova")
"""Parts of the names of models whose results have a status on Bedrock; others refuse it (ToolResultBlock of its API)."""
Correction: TypeAlias = Callable[[Any], bool]
"""Changes the JSON value of a body in place; returns whether it did."""


def correction_of(messages: Sequence[Message], model: str) -> Correction | None:
    """Return the corrections for a request with *messages* to *model*; None for nothing, as in most requests."""
    results = [message for message in messages if isinstance(message, ToolMessage)]
    thinking = [block for message in messages if isinstance(message, AssistantMessage) for block in message.thinking]
    contents = {block.id: block.data["content"] for block in thinking if block.id and block.data.get("content")}
    marks = any(result.error for result in results)
    if not marks and not contents:
        return None

    def correct(body: Any) -> bool:
        marked = marks and _mark_errors(body, results, model.lower())
        return _add_contents(body, contents) or marked

    return correct


def _mark_errors(body: Any, results: Sequence[ToolMessage], model: str) -> bool:
    """Mark the tool results in *body* that are errors.

    Results are distinguished by their order, because litellm changes ids that a provider would not accept.
    """
    written = list(_results(body))
    if len(written) != len(results):
        return False
    for (kind, block), result in zip(written, results, strict=True):
        if result.error:
            match kind:
                case "tool_result":
                    block["is_error"] = True
                case "toolResult":
                    if any(name in model for name in _WITH_STATUS):
                        block["status"] = "error"
                case _:  # of Gemini, whose `response` may have a key `output` or `error`
                    block["response"] = {"error": result.text}
    return bool(written)


def _results(body: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Iterate over the tool results in a body of Anthropic, Bedrock's converse or Gemini, with the name of its form."""
    data: Any = body if is_mapping(body) else {}
    for message in _items(data.get("messages") or data.get("contents")):
        for part in _items(message.get("content") or message.get("parts")):
            if part.get("type") == "tool_result":
                yield "tool_result", part
            for name in ("toolResult", "functionResponse", "function_response"):
                if isinstance(part.get(name), dict):
                    yield name, part[name]


def _add_contents(body: Any, contents: Mapping[str, Any]) -> bool:
    """Add the reasoning text to the items of Responses that have the ids in *contents*."""
    data: Any = body if is_mapping(body) else {}
    items = [
        item for item in _items(data.get("input")) if item.get("type") == "reasoning" and item.get("id") in contents
    ]
    for item in items:
        item["content"] = json_copy(contents[item["id"]])
    return bool(items)


def _items(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if is_list(value) else []
