"""Answers in the format of Gemini's generateContent and streamGenerateContent: a JSON document, or server-sent events.

Pure functions from an answer and its request to bytes; `chat_server` sends them. An answer is one candidate, whose
content is a list of parts: thoughts, parts of hosted tools, the text, and function calls. An event of a stream is a
document of the same form with the next part; the last one has the finish reason.

Source:
    https://ai.google.dev/api/generate-content and https://ai.google.dev/gemini-api/docs/thought-signatures
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

from graphrt.events import Usage
from graphrt.harness.messages import ThinkingBlock, ToolCall
from graphrt.testing.chat_answers import ChatAnswer, ChatRequest, cut, parsed_arguments, reason_of, spent

_REASONS: Final[Mapping[str, str]] = {
    "stop": "STOP",
    "tool_calls": "STOP",
    "length": "MAX_TOKENS",
    "content_filter": "SAFETY",
}
"""Maps the finish reason of a `ChatAnswer` to Gemini's."""
_STATUSES: Final[Mapping[int, str]] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
"""Maps an HTTP status to Gemini's error status."""
_UNSIGNED: Final = ("gemini-1", "gemini-2")
"""Name prefixes of models that need no signatures; the server signs calls of all others."""


def failure(answer: ChatAnswer) -> bytes:
    """Return the JSON document of an error."""
    return json.dumps({"error": _error(answer)}).encode()


def document(answer: ChatAnswer, request: ChatRequest) -> bytes:
    """Return the whole answer as one JSON document; for a stream without `alt=sse`, as the list of its documents."""
    if is_stream(request):
        return json.dumps(list(_chunks(answer, request))).encode()
    parts = _parts(answer, request, pieces=1)
    return json.dumps(_body(answer, request, parts, last=True)).encode()


def events(answer: ChatAnswer, request: ChatRequest) -> Iterator[bytes]:
    """Iterate over the answer as server-sent events."""
    for chunk in _chunks(answer, request):
        yield _encoded(chunk)


def error_event(answer: ChatAnswer, request: ChatRequest, place: int) -> bytes:  # noqa: ARG001 - as for each format
    """Return the event that ends a stream with the error of *answer*."""
    return _encoded({"error": _error(answer)})


def is_stream(request: ChatRequest) -> bool:
    """Return whether the path of *request* asks for a stream."""
    return request.path.partition("?")[0].endswith(":streamGenerateContent")


def sent_parts(answer: ChatAnswer, request: ChatRequest) -> list[dict[str, Any]]:
    """Return the parts of *answer* as in a whole document, 0..n."""
    return _parts(answer, request, pieces=1)


def _chunks(answer: ChatAnswer, request: ChatRequest) -> Iterator[dict[str, Any]]:
    parts = _parts(answer, request, pieces=answer.pieces)
    # A text's signature follows in a final part with an empty text.
    sealed = parts and "text" in parts[-1] and parts[-1].pop("thoughtSignature", None)
    for part in parts:
        yield _body(answer, request, [part], last=False)
    if not answer.unfinished:
        end = {"text": "", "thoughtSignature": sealed} if sealed else {"text": ""}
        yield _body(answer, request, [end], last=True)


def _parts(answer: ChatAnswer, request: ChatRequest, *, pieces: int) -> list[dict[str, Any]]:
    """Return the parts of the content, with texts in at most *pieces* parts. The last one, or the first call, is signed."""
    if answer.refusal is not None:
        return []
    bare = (ThinkingBlock(text=answer.thinking),) if answer.thinking else ()
    parts: list[dict[str, Any]] = []
    for block in answer.thinking_blocks or bare:
        if block.provider == "google" and block.data:
            parts.append(dict(block.data))
        else:
            parts += [{"text": piece, "thought": True} for piece in cut(block.text, pieces)]
    parts += [
        {part.type: dict(part.data)} for part in answer.parts if part.provider == "google" and not _beside(part.type)
    ]
    text_parts: list[dict[str, Any]] = [{"text": piece} for piece in cut(answer.text, pieces)]
    calls: list[dict[str, Any]] = [{"functionCall": _call(call)} for call in answer.tool_calls]
    signature = next((thought.signature for thought in reversed(answer.thinking_blocks) if thought.signature), "")
    if calls:
        if not signature and not request.model.startswith(_UNSIGNED):
            signature = sha256(f"{answer.thinking}{calls}".encode(errors="replace")).hexdigest()
        signed = calls[0]
    else:
        signed = text_parts[-1] if text_parts else {}
    if signature:
        signed["thoughtSignature"] = signature
    return [*parts, *text_parts, *calls]


def _call(call: ToolCall) -> dict[str, Any]:
    form = {"name": call.name, "args": parsed_arguments(call)}
    return {**form, "id": call.id} if call.id else form


def _beside(kind: str) -> bool:
    """Return whether a part of a *kind* is a field of the candidate, such as `groundingMetadata`, not of its content."""
    return kind.endswith("Metadata")


def _body(answer: ChatAnswer, request: ChatRequest, parts: list[dict[str, Any]], *, last: bool) -> dict[str, Any]:
    """Return one document with *parts*; the *last* one of an answer has the finish reason."""
    body: dict[str, Any] = {}
    if answer.refusal is not None:
        reason = answer.finish_reason
        blocked = {"blockReason": "SAFETY" if reason in (None, "content_filter") else reason}
        body["promptFeedback"] = {**blocked, **({"blockReasonMessage": answer.refusal} if answer.refusal else {})}
    else:
        candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"} if parts else {"role": "model"}}
        if last and (finish := reason_of(answer)) is not None:
            candidate["finishReason"] = _REASONS.get(finish, finish)
        candidate["index"] = 0
        if last:
            metadata = [part for part in answer.parts if part.provider == "google" and _beside(part.type)]
            candidate |= {part.type: dict(part.data) for part in metadata}
        body["candidates"] = [candidate]
    if (usage := _usage(answer, request, last=last)) is not None:
        body["usageMetadata"] = usage
    return {**body, "modelVersion": request.model or "fake", "responseId": "fake"}


def _usage(answer: ChatAnswer, request: ChatRequest, *, last: bool) -> dict[str, Any] | None:
    """Return the usage so far: before the *last* document, only that of the prompt."""
    usage = spent(answer, request)
    if not isinstance(usage, Usage):
        return None if usage is None else dict(usage)
    form = {"promptTokenCount": usage.input_tokens, "totalTokenCount": usage.input_tokens}
    if usage.cached_tokens:
        form["cachedContentTokenCount"] = usage.cached_tokens
    if last:
        form["totalTokenCount"] = usage.total_tokens
        form["candidatesTokenCount"] = usage.output_tokens - usage.reasoning_tokens  # thoughts are counted separately
        if usage.reasoning_tokens:
            form["thoughtsTokenCount"] = usage.reasoning_tokens
    details = [{"modality": "TEXT", "tokenCount": usage.input_tokens}]
    return {**form, "promptTokensDetails": details}


def _error(answer: ChatAnswer) -> dict[str, Any]:
    """Return an error, with a retry delay and a code as its details."""
    error_fields = answer.error or {}
    kind = error_fields.get("type")
    status = _STATUSES.get(answer.status, "UNKNOWN") if kind in (None, "error", "script") else kind
    error: dict[str, Any] = {"code": answer.status, "message": error_fields.get("message", ""), "status": status}
    details: list[dict[str, Any]] = []
    if error_fields.get("code"):
        service = {"service": "generativelanguage.googleapis.com"}
        reason = {"reason": error_fields["code"], "domain": "googleapis.com", "metadata": service}
        details.append({"@type": "type.googleapis.com/google.rpc.ErrorInfo", **reason})
    if wait := answer.headers.get("Retry-After"):
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{wait}s"})
    return {**error, "details": details} if details else error


def _encoded(body: Mapping[str, Any]) -> bytes:
    return b"data: %s\r\n\r\n" % json.dumps(body).encode()  # with CRLF, as Google's servers send them
