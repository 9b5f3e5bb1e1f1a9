"""Checks the messages of a request to POST /v1/chat/completions, as OpenAI and compatible servers do.

Errors have the providers' wording. Pure functions over request bodies; `chat_server` sends the refusal.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from graphrt._arguments import is_list, is_mapping
from graphrt.testing.chat_answers import ChatAnswer

_EMPTY: Final[Mapping[str, str]] = {
    "mistral": "Assistant message must have either content or tool_calls, but not none.",
    "deepseek": "Invalid assistant message: content or tool_calls must be set",
    "llama.cpp": "Assistant message must contain either 'content' or 'tool_calls'!",
}
"""Maps a dialect to its error for an assistant message without content and calls, where it differs from OpenAI's."""
_LENIENT: Final = ("ollama",)
"""Dialects that accept such a message."""
_MAX_ID: Final = 40
"""OpenAI's maximum length of a call's id."""
_MODELS_OWN: Final = ("content", "tool_calls", "function_call", "audio")


def refusal_of(body: Mapping[str, Any], dialect: str, thought: Collection[str]) -> ChatAnswer | None:
    """Return the API's error for invalid messages; None if it would accept them.

    Args:
        body: The JSON document of the request.
        dialect: The server's dialect.
        thought: Ids of all calls that the server has sent after thinking.

    Source:
        https://platform.openai.com/docs/api-reference/chat/create and https://api-docs.deepseek.com/guides/thinking_mode
    """
    raw_messages: Any = body.get("messages")
    messages: list[Any] = [message for message in raw_messages if is_mapping(message)] if is_list(raw_messages) else []
    problems = [_empty(messages, dialect)]
    if dialect == "openai":
        problems.append(_long_ids(messages))
    if dialect == "mistral":
        problems.append(_mistral_ids(messages))
    if dialect == "deepseek":
        problems.append(_thinking_lost(messages, body, thought))
    problems.append(_unpaired(messages))
    return next((refusal for problem in problems for refusal in problem), None)


def _empty(messages: Sequence[Mapping[str, Any]], dialect: str) -> Iterator[ChatAnswer]:
    """Iterate over the errors for empty assistant messages."""
    if dialect in _LENIENT:
        return
    for place, message in enumerate(messages):
        if message.get("role") == "assistant" and all(message.get(key) is None for key in _MODELS_OWN):
            why = _EMPTY.get(dialect, "Invalid value for 'content': expected a string, got null.")
            yield _refused(why, param=f"messages.[{place}].content")


def _unpaired(messages: Sequence[Mapping[str, Any]]) -> Iterator[ChatAnswer]:
    """Iterate over the errors for results without a call, and calls without a result."""
    open_: set[str] = set()
    for place, message in enumerate(messages):
        if message.get("role") == "tool":
            if str(message.get("tool_call_id")) not in open_:
                yield _refused(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                    "'tool_calls'.",
                    param=f"messages.[{place}].role",
                )
            open_.discard(str(message.get("tool_call_id")))
            continue
        if open_:
            yield _unanswered(open_, place)
        open_ = {str(call.get("id")) for call in _calls(message)}
    if open_:
        yield _unanswered(open_, len(messages))


def _unanswered(ids: Collection[str], place: int) -> ChatAnswer:
    return _refused(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(sorted(ids))}",
        param=f"messages.[{place}].role",
    )


def _long_ids(messages: Sequence[Mapping[str, Any]]) -> Iterator[ChatAnswer]:
    """Iterate over the errors for call ids longer than OpenAI's maximum."""
    for place, message in enumerate(messages):
        for n, call in enumerate(_calls(message)):
            if len(str(call.get("id"))) > _MAX_ID:
                at = f"messages[{place}].tool_calls[{n}].id"
                yield _refused(
                    f"Invalid '{at}': string too long. Expected a string with maximum length {_MAX_ID}, but got a string "
                    f"with length {len(str(call.get('id')))} instead.",
                    code="string_above_max_length",
                    param=at,
                )


def _mistral_ids(messages: Sequence[Mapping[str, Any]]) -> Iterator[ChatAnswer]:
    """Iterate over the errors for ids that Mistral rejects."""
    for message in messages:
        ids = [str(call.get("id")) for call in _calls(message)]
        for id_ in [*ids, str(message.get("tool_call_id"))] if message.get("role") == "tool" else ids:
            if not re.fullmatch("[a-zA-Z0-9]{9}", id_):
                why = f"Tool call id was {id_} but must be a-z, A-Z, 0-9, with a length of 9."
                yield _refused(why, type="invalid_function_call", code="3280")


def _thinking_lost(
    messages: Sequence[Mapping[str, Any]], body: Mapping[str, Any], thought: Collection[str]
) -> Iterator[ChatAnswer]:
    """Iterate over the errors for calls that DeepSeek made after thinking and that lack this thinking."""
    thinking: Any = body.get("thinking")
    if is_mapping(thinking) and thinking.get("type") == "disabled":
        return
    for message in messages:
        if message.get("reasoning_content") is None and any(str(call.get("id")) in thought for call in _calls(message)):
            why = "The `reasoning_content` in the thinking mode must be passed back to the API."
            yield _refused(why, code="invalid_request_error")


def _calls(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    calls: Any = message.get("tool_calls")
    return [call for call in calls if is_mapping(call)] if is_list(calls) else []


def _refused(
    message: str, *, type: str = "invalid_request_error", code: str | None = None, param: str | None = None
) -> ChatAnswer:
    return ChatAnswer(status=400, error={"message": message, "type": type, "code": code, "param": param})
