"""Answers in the format of OpenAI's POST /v1/chat/completions: one JSON document, or server-sent events.

Pure functions from an answer and its request to bytes; `chat_server` sends them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from graphrt._usage.usage import Usage, reported_form
from graphrt.harness.messages import ToolCall
from graphrt.testing.chat_answers import ChatAnswer, ChatRequest, cut, spent


def failure(answer: ChatAnswer) -> bytes:
    """Return the JSON document of an error."""
    return json.dumps({"error": answer.error}).encode()


def document(answer: ChatAnswer, request: ChatRequest) -> bytes:
    """Return the whole answer as one JSON document."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if answer.thinking:
        message["reasoning_content"] = answer.thinking
    if answer.refusal is not None:
        message["refusal"] = answer.refusal
    if answer.tool_calls:
        message["tool_calls"] = [_wire_call(call, call.arguments_text) for call in answer.tool_calls]
    body = _head("chat.completion", request)
    body["choices"] = [{"index": 0, "message": message, "finish_reason": _reason(answer)}]
    if (usage := _usage(answer, request)) is not None:
        body["usage"] = usage
    return json.dumps(body).encode()


def events(answer: ChatAnswer, request: ChatRequest) -> Iterator[bytes]:
    """Iterate over the answer as 2..n server-sent events."""

    def event(choices: list[dict[str, Any]], **more: Any) -> bytes:
        body = {**_head("chat.completion.chunk", request), "choices": choices, **more}
        return b"data: %s\n\n" % json.dumps(body).encode()

    def delta(finish_reason: str | None = None, **content: Any) -> bytes:
        return event([{"index": 0, "delta": content, "finish_reason": finish_reason}])

    yield delta(role="assistant", content="")
    for piece in cut(answer.thinking, answer.pieces):
        yield delta(reasoning_content=piece)
    for piece in cut(answer.text, answer.pieces):
        yield delta(content=piece)
    for piece in cut(answer.refusal or "", answer.pieces):
        yield delta(refusal=piece)
    for index, call in enumerate(answer.tool_calls):
        yield delta(tool_calls=[{"index": index, **_wire_call(call, "")}])
        for piece in cut(call.arguments_text, answer.pieces):
            yield delta(tool_calls=[{"index": index, "function": {"arguments": piece}}])
    if answer.unfinished:
        return
    yield delta(_reason(answer))
    usage = _usage(answer, request)
    if usage is not None and _wants_usage(request.body.get("stream_options")):
        yield event([], usage=usage)
    yield b"data: [DONE]\n\n"


def error_event(answer: ChatAnswer, request: ChatRequest, place: int) -> bytes:  # noqa: ARG001 - as for each format
    """Return the event that ends a stream with the error of *answer*."""
    return b"data: %s\n\n" % failure(answer)


def _usage(answer: ChatAnswer, request: ChatRequest) -> dict[str, Any] | None:
    usage = spent(answer, request)
    if usage is None:
        return None
    return dict(reported_form(usage) if isinstance(usage, Usage) else usage)


def _wants_usage(options: Any) -> bool:
    """Return whether `stream_options` ask for usage, which OpenAI leaves out of streams by default."""
    return bool(options and options.get("include_usage"))


def _reason(answer: ChatAnswer) -> str:
    return answer.finish_reason or ("tool_calls" if answer.tool_calls else "stop")


def _wire_call(call: ToolCall, arguments: str) -> dict[str, Any]:
    """Return a tool call in the JSON form of the API, with *arguments* as its text."""
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _head(kind: str, request: ChatRequest) -> dict[str, Any]:
    """Return the fields that every document or event begins with."""
    return {"id": "chatcmpl-fake", "object": kind, "created": 1_700_000_000, "model": request.body.get("model", "fake")}
