"""Answers in the format of Anthropic's POST /v1/messages: one JSON document, or server-sent events.

Pure functions from an answer and its request to bytes; `chat_server` sends them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from graphrt.events import Usage
from graphrt.testing._anthropic_thinking import blocks_of, wire_block
from graphrt.testing.chat_answers import ChatAnswer, ChatRequest, cut, parsed_arguments, reason_of, spent

_REASONS: Final[Mapping[str, str]] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
"""Maps OpenAI's finish reason, which `ChatAnswer` uses, to Anthropic's stop reason."""
_ERRORS: Final[Mapping[int, str]] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
"""Maps an HTTP status to the type of the error."""


def failure(answer: ChatAnswer) -> bytes:
    """Return the JSON document of an error. Its type follows from the status, unless the answer names one."""
    error_fields = answer.error or {}
    kind = error_fields.get("type")
    kind = kind if kind not in (None, "error") else _ERRORS.get(answer.status, "api_error")
    error = {"type": kind, "message": error_fields.get("message", "")}
    return json.dumps({"type": "error", "error": error, "request_id": "req_fake"}).encode()


def document(answer: ChatAnswer, request: ChatRequest) -> bytes:
    """Return the whole answer as one JSON document."""
    content = [*map(wire_block, blocks_of(answer)), *_hosted(answer)]
    if answer.text:
        content.append(
            {"type": "text", "text": answer.text, **({"citations": cited} if (cited := _citations(answer)) else {})}
        )
    content += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": parsed_arguments(call)}
        for call in answer.tool_calls
    ]
    body = {**_head(request), "content": content, "stop_reason": _reason(answer), "stop_sequence": None}
    usage = _usage(answer, request)
    return json.dumps(body if usage is None else {**body, "usage": usage}).encode()


def events(answer: ChatAnswer, request: ChatRequest) -> Iterator[bytes]:
    """Iterate over the answer as 2..n server-sent events."""
    usage = _usage(answer, request)
    start: dict[str, Any] = {**_head(request), "content": [], "stop_reason": None, "stop_sequence": None}
    if usage is not None:
        start["usage"] = {**usage, "output_tokens": 1}  # the real number follows in message_delta
    yield _event("message_start", message=start)
    yield _event("ping")
    for index, (block, deltas) in enumerate(_blocks(answer)):
        yield _event("content_block_start", index=index, content_block=block)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    if answer.unfinished:
        return
    end: dict[str, Any] = {"delta": {"stop_reason": _reason(answer), "stop_sequence": None}}
    if usage is not None:
        end["usage"] = {"output_tokens": usage.get("output_tokens", 0)}
    yield _event("message_delta", **end)
    yield _event("message_stop")


def error_event(answer: ChatAnswer, request: ChatRequest, place: int) -> bytes:  # noqa: ARG001 - as for each format
    """Return the event that ends a stream with the error of *answer*."""
    return b"event: error\ndata: %s\n\n" % failure(answer)


def _blocks(answer: ChatAnswer) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Iterate over the content blocks: the block as it begins, and the deltas that complete it."""
    for thought in blocks_of(answer):
        if thought.redacted:
            yield wire_block(thought), []
            continue
        deltas = _deltas("thinking", thought.text, answer.pieces)
        sealed = {"type": "signature_delta", "signature": thought.signature}
        yield {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, sealed]
    for block in _hosted(answer):
        if "input" in block:
            yield (
                {**block, "input": {}},
                _deltas("input_json", json.dumps(block["input"]), answer.pieces, name="partial_json"),
            )
        else:
            yield block, []
    if answer.text:
        cited = [{"type": "citations_delta", "citation": citation} for citation in _citations(answer)]
        yield {"type": "text", "text": ""}, [*_deltas("text", answer.text, answer.pieces), *cited]
    for call in answer.tool_calls:
        use: dict[str, Any] = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        yield use, _deltas("input_json", call.arguments_text, answer.pieces, name="partial_json")


def _citations(answer: ChatAnswer) -> list[dict[str, Any]]:
    """Return the citations of the text, 0..n."""
    parts = [part for part in answer.parts if part.provider == "anthropic" and part.type.endswith("_location")]
    return [{"type": part.type, **part.data} for part in parts]


def _hosted(answer: ChatAnswer) -> list[dict[str, Any]]:
    """Return the blocks of tools that Anthropic runs itself, 0..n."""
    parts = [part for part in answer.parts if part.provider == "anthropic" and not part.type.endswith("_location")]
    return [{"type": part.type, **part.data} for part in parts]


def _deltas(kind: str, value: str, max_pieces: int, *, name: str | None = None) -> list[dict[str, Any]]:
    """Return *value* as at most *max_pieces* deltas of a kind; *name* is the key of the text, if not the kind."""
    return [{"type": f"{kind}_delta", name or kind: piece} for piece in cut(value, max_pieces)]


def _event(kind: str, **body: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), json.dumps({"type": kind, **body}).encode())


def _usage(answer: ChatAnswer, request: ChatRequest) -> dict[str, Any] | None:
    usage = spent(answer, request)
    if not isinstance(usage, Usage):
        return None if usage is None else dict(usage)
    return {
        "input_tokens": usage.input_tokens - usage.cached_tokens,  # Anthropic counts cached tokens separately
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": usage.output_tokens,
    }


def _reason(answer: ChatAnswer) -> str | None:
    if answer.refusal is not None:
        return "refusal"
    reason = reason_of(answer)
    return None if reason is None else _REASONS.get(reason, reason)


def _head(request: ChatRequest) -> dict[str, Any]:
    """Return the fields at the start of every answer."""
    return {"id": "msg_fake", "type": "message", "role": "assistant", "model": request.body.get("model", "fake")}
