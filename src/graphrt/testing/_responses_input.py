"""Checks the input of POST /v1/responses for items that OpenAI rejects, such as reasoning that came back incomplete.

Errors have OpenAI's wording. Pure functions over request bodies and sent responses; `chat_server` sends the refusal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from graphrt._arguments import is_list, is_mapping
from graphrt.testing.chat_answers import ChatAnswer

_PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "assistant": ("output_text", "refusal"),
    "user": ("input_text", "input_image", "input_file"),
}
"""Maps the role of a message to the types of its content; system and developer messages have those of the user."""
_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "message": ("role", "content"),
    "function_call": ("call_id", "name", "arguments"),
    "function_call_output": ("call_id", "output"),
    "reasoning": ("id", "summary"),
    "item_reference": ("id",),
}
"""Maps the type of an item to its required fields."""


_MAX_ID: Final = 64
"""Maximum length of a call's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentResponse:
    """A response that the server has sent."""

    output: Sequence[Mapping[str, Any]] = field(hash=False)
    """Its output items, in order."""
    stored: bool
    """Whether the API stores its items, so that a request may refer to them by id only."""


def refusal_of(body: Mapping[str, Any], sent: Sequence[SentResponse]) -> ChatAnswer | None:
    """Return OpenAI's error for an invalid request; None if it would accept the request.

    Args:
        body: The JSON document of the request.
        sent: All responses that the server has sent.

    Source:
        https://platform.openai.com/docs/guides/function-calling and /docs/guides/reasoning#encrypted-reasoning-items:
        each call has one result, and a reasoning item stays before the item that followed it.
    """
    raw_items: Any = body.get("input")
    items: list[Any] = raw_items if is_list(raw_items) else []
    if raw_items is None and not body.get("previous_response_id"):
        return _refused("Missing required parameter: 'input'.", code="missing_required_parameter")
    refusal = next(_badly_formed(items), None) or next(_reasoning_lost(items, sent), None)
    return refusal or next(_unpaired(items, body, sent), None)


def _badly_formed(items: Sequence[Any]) -> Iterator[ChatAnswer]:
    """Iterate over the errors for items with a missing or invalid field."""
    for place, item in enumerate(items):
        if not is_mapping(item):
            yield _refused(f"Invalid type for 'input[{place}]': expected an object.", code="invalid_type")
            continue
        for name in _REQUIRED.get(_kind(item), ()):
            if item.get(name) is None:
                yield _refused(
                    f"Missing required parameter: 'input[{place}].{name}'.", code="missing_required_parameter"
                )
        content: Any = item.get("content")
        if _kind(item) == "message" and is_list(content):
            known = _PARTS.get(str(item["role"]), _PARTS["user"])
            for n, part in enumerate(content):
                kind = part.get("type") if is_mapping(part) else None
                if kind not in known:
                    yield _refused(
                        f"Invalid value: '{kind}'. Supported values are: {' and '.join(map(repr, known))}.",
                        code="invalid_value",
                        param=f"input[{place}].content[{n}]",
                    )
        if len(str(item.get("call_id") or "")) > _MAX_ID:
            yield _refused(
                f"Invalid 'input[{place}].call_id': string too long. Expected a string with maximum length {_MAX_ID}, "
                f"but got a string with length {len(str(item['call_id']))} instead.",
                code="string_above_max_length",
            )
        if _kind(item) == "function_call" and not str(item.get("id") or "fc").startswith("fc"):
            yield _refused(
                f"Invalid 'input[{place}].id': '{item['id']}'. Expected an ID that begins with 'fc'.",
                code="invalid_value",
            )


def _reasoning_lost(items: Sequence[Mapping[str, Any]], sent: Sequence[SentResponse]) -> Iterator[ChatAnswer]:
    """Iterate over the errors for reasoning that is missing or did not come back unchanged."""
    before: dict[str, str] = {}  # maps the id of a sent item to that of the preceding reasoning
    known: dict[str, tuple[Mapping[str, Any], bool]] = {}
    for response in sent:
        last = ""
        for item in response.output:
            if item["type"] == "reasoning":
                last = str(item["id"])
                known[last] = item, response.stored
            elif last:
                before[str(item["id"])] = last
    provided: set[str] = set()
    for place, item in enumerate(items):
        id_ = str(item.get("id") or "")
        if _kind(item) == "reasoning":
            yield from _changed(item, known)
            provided.add(id_)
            if not _is_models(items[place + 1 : place + 2]):
                yield _refused(f"Item '{id_}' of type 'reasoning' was provided without its required following item.")
        elif before.get(id_, "") not in {"", *provided}:
            yield _refused(
                f"Item '{id_}' of type '{_kind(item)}' was provided without its required 'reasoning' item: "
                f"'{before[id_]}'."
            )


def _changed(item: Mapping[str, Any], known: Mapping[str, tuple[Mapping[str, Any], bool]]) -> Iterator[ChatAnswer]:
    """Iterate over the errors for a reasoning item that the API can neither decrypt nor look up."""
    id_, sealed = str(item["id"]), item.get("encrypted_content")
    original, stored = known.get(id_, ({}, False))
    if sealed and sealed != original.get("encrypted_content"):
        yield _refused(
            f"The encrypted content {str(sealed)[:4]}... could not be verified. Reason: Encrypted content could not be "
            "decrypted or parsed.",
            code="invalid_encrypted_content",
        )
    if not sealed and not stored:
        why = (
            " Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this "
            "item from your input."
        )
        yield _refused(f"Item with id '{id_}' not found.{why if original else ''}", status=404)


def _unpaired(
    items: Sequence[Mapping[str, Any]], body: Mapping[str, Any], sent: Sequence[SentResponse]
) -> Iterator[ChatAnswer]:
    """Iterate over the errors for calls without a result, and results without a call."""
    called = {str(item["call_id"]) for item in items if _kind(item) == "function_call"}
    earlier = [item for response in sent if response.stored for item in response.output]
    if body.get("previous_response_id"):
        called |= {item["call_id"] for item in earlier if item["type"] == "function_call"}
    named = {str(item["id"]) for item in items if _kind(item) == "item_reference"}
    called |= {item["call_id"] for item in earlier if item["id"] in named and "call_id" in item}
    answered = [str(item["call_id"]) for item in items if _kind(item) == "function_call_output"]
    for id_ in answered:
        if id_ not in called:
            yield _refused(f"No tool call found for function call output with call_id {id_}.")
    for item in items:
        if _kind(item) == "function_call" and str(item["call_id"]) not in answered:
            yield _refused(f"No tool output found for function call {item['call_id']}.")


def _is_models(following: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the item after a reasoning item is one that a model made."""
    return any(
        item.get("role") == "assistant" if _kind(item) == "message" else _kind(item) != "function_call_output"
        for item in following
    )


def _kind(item: Mapping[str, Any]) -> str:
    return str(item.get("type") or "message")


def _refused(message: str, *, status: int = 400, code: str | None = None, param: str = "input") -> ChatAnswer:
    answer = ChatAnswer.failure(status, message, type="invalid_request_error", code=code)
    return ChatAnswer(status=status, error={**(answer.error or {}), "param": param})
