"""Answers in the format of OpenAI's POST /v1/responses: one JSON document, or server-sent events.

Pure functions from an answer and its request to bytes; `chat_server` sends them. An answer is a list of output items:
reasoning, calls of hosted tools, the message, and the calls of functions. A stream describes the same items step by
step. The ids of items are derived from the request and their place, so that whole and streamed answers have the same
ids.

Source:
    https://platform.openai.com/docs/api-reference/responses/object and /docs/api-reference/responses-streaming
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, TypeAlias

from graphrt._arguments import is_list
from graphrt.events import Usage
from graphrt.harness.messages import ProviderPart, ThinkingBlock, ToolCall
from graphrt.testing.chat_answers import ChatAnswer, ChatRequest, cut, spent

_Event: TypeAlias = tuple[str, dict[str, Any]]
"""Type of an event, and its fields except `type` and `sequence_number`."""

_REASONS: Final[Mapping[str, str]] = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Maps the finish reason of a `ChatAnswer` to the reason of an incomplete response."""
_CODES: Final[Mapping[int, str]] = {400: "invalid_prompt", 429: "rate_limit_exceeded"}
"""Maps an HTTP status to the code of a failed response; others are `server_error`."""
_ANNOTATIONS: Final = ("url_citation", "file_citation", "container_file_citation", "file_path")
"""Types of parts that belong to the text of the message; all others are separate items."""
_PREFIXES: Final[Mapping[str, str]] = {
    "reasoning": "rs",
    "message": "msg",
    "function_call": "fc",
    "web_search_call": "ws",
    "file_search_call": "fs",
    "code_interpreter_call": "ci",
    "image_generation_call": "ig",
    "mcp_call": "mcp",
}
"""Maps the type of an item to the prefix of its id."""
_STAGES: Final[Mapping[str, str]] = {
    "web_search_call": "searching",
    "file_search_call": "searching",
    "code_interpreter_call": "interpreting",
    "image_generation_call": "generating",
}
"""Maps the type of a hosted tool's call to the event between `in_progress` and `completed`."""
_KEPT: Final[Mapping[str, tuple[str, ...]]] = {
    "items": ("response.created", "response.output_item.done"),
    "end": ("response.created",),
}
"""Maps the level of detail of a stream to its events besides the end."""


def failure(answer: ChatAnswer) -> bytes:
    """Return the JSON document of an error."""
    return json.dumps({"error": answer.error}).encode()


def document(answer: ChatAnswer, request: ChatRequest) -> bytes:
    """Return the whole answer as one JSON document; with an error it is a failed response."""
    return json.dumps(_response(answer, request)).encode()


def events(answer: ChatAnswer, request: ChatRequest) -> Iterator[bytes]:
    """Iterate over the answer as server-sent events."""
    kinds = _KEPT.get(answer.stream_detail)
    place = 0
    for kind, body in _all_events(answer, request):
        if kinds is not None and kind not in kinds:
            continue
        if answer.stream_detail == "done" and kind.endswith(".delta"):
            continue
        yield _encoded(kind, place, body)
        place += 1
    if not answer.unfinished:
        response = _response(answer, request)
        yield _encoded(_end_of(response), place, {"response": response})


def error_event(answer: ChatAnswer, request: ChatRequest, place: int) -> bytes:
    """Return the event that ends a stream with the error of *answer*; *place* is its number in the stream."""
    if answer.error_event:
        error = answer.error or {}
        return _encoded("error", place, {key: error.get(key) for key in ("code", "message", "param")})
    return _encoded("response.failed", place, {"response": _response(answer, request)})


def output(answer: ChatAnswer, request: ChatRequest) -> list[dict[str, Any]]:
    """Return the output items of *answer*, 0..n, as in the complete response."""
    status = "incomplete" if answer.finish_reason in _REASONS else "completed"
    parts = [part for part in answer.parts if part.provider == "openai"]
    bare = (ThinkingBlock(text=answer.thinking),) if answer.thinking else ()
    items = [_reasoning(block) for block in answer.thinking_blocks or bare]
    items += [_hosted(part) for part in parts if part.type not in _ANNOTATIONS]
    items += _message(answer, [part for part in parts if part.type in _ANNOTATIONS])
    items += [_function_call(call) for call in answer.tool_calls]
    items = _placed(items)
    include: Any = request.body.get("include")
    sealing = is_list(include) and "reasoning.encrypted_content" in include
    for place, item in enumerate(items):
        item.setdefault("id", _id(_PREFIXES.get(item["type"], "item"), request, place))
        if item["type"] != "reasoning":
            item.setdefault("status", status if place == len(items) - 1 else "completed")
        elif sealing:
            item["encrypted_content"] = item.get("encrypted_content") or f"gAAAA{_digest(item['id'])}"
        else:  # the API leaves it out unless the request asks for it
            item.pop("encrypted_content", None)
    return items


def _placed(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return *items* with each reasoning item moved before the call that its `ThinkingBlock.data` names, if any."""
    named = [item for item in items if item["type"] == "reasoning" and "call_id" in item]
    placed: list[dict[str, Any]] = []
    for item in items:
        if item["type"] != "reasoning":
            placed += [reasoning for reasoning in named if reasoning["call_id"] == item.get("call_id")]
        placed += [] if item in named else [item]
    for item in named:
        del item["call_id"]  # not a field of the API
    return placed


def _message(answer: ChatAnswer, annotations: list[ProviderPart]) -> list[dict[str, Any]]:
    """Return the message as an item; none if the answer has neither text nor refusal."""
    content: list[dict[str, Any]] = []
    if answer.text or annotations:
        annotation_items = [{"type": part.type, **part.data} for part in annotations]
        content.append({"type": "output_text", "text": answer.text, "annotations": annotation_items, "logprobs": []})
    if answer.refusal is not None:
        content.append({"type": "refusal", "refusal": answer.refusal})
    return [{"type": "message", "role": "assistant", "content": content}] if content else []


def _function_call(call: ToolCall) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments_text}


def _reasoning(block: ThinkingBlock) -> dict[str, Any]:
    item: dict[str, Any] = {"type": "reasoning", "id": block.id} if block.id else {"type": "reasoning"}
    item["summary"] = [{"type": "summary_text", "text": block.text}] if block.text else []
    item["encrypted_content"] = block.signature
    return {**item, **(block.data if block.provider == "openai" else {})}


def _hosted(part: ProviderPart) -> dict[str, Any]:
    return {"type": part.type, **part.data}


def _response(answer: ChatAnswer, request: ChatRequest) -> dict[str, Any]:
    """Return the response object at its end."""
    body = _begun(request)
    if answer.error is not None:
        code = answer.error.get("code") or _CODES.get(answer.status, "server_error")
        error = {"code": code, "message": answer.error.get("message", "")}
        usage = None if answer.usage == "words" else _usage(answer, request)  # a response that failed reports none
        return {**body, "status": "failed", "error": error, "usage": usage}
    reason = _REASONS.get(answer.finish_reason or "")
    status: str | None = "completed" if reason is None else "incomplete"
    if reason is None and answer.finish_reason not in (None, "stop", "tool_calls"):
        status = answer.finish_reason or None
    body |= {"status": status, "incomplete_details": None if reason is None else {"reason": reason}}
    return {**body, "output": output(answer, request), "usage": _usage(answer, request)}


def _begun(request: ChatRequest) -> dict[str, Any]:
    """Return the response object as it is at the start of a stream, with the settings of the request."""
    asked = request.body
    settings = {
        name: asked.get(name)
        for name in ("instructions", "max_output_tokens", "previous_response_id", "reasoning", "temperature", "top_p")
    }
    return {
        "id": _id("resp", request, 0),
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "model": asked.get("model", "fake"),
        "output": [],
        "parallel_tool_calls": asked.get("parallel_tool_calls", True),
        "store": asked.get("store", True),
        "text": asked.get("text", {"format": {"type": "text"}}),
        "tool_choice": asked.get("tool_choice", "auto"),
        "tools": asked.get("tools", []),
        "truncation": asked.get("truncation", "disabled"),
        "usage": None,
        "metadata": asked.get("metadata", {}),
        **settings,
    }


def _end_of(response: Mapping[str, Any]) -> str:
    """Return the type of the event that ends a stream with *response*."""
    return "response.incomplete" if response["status"] == "incomplete" else "response.completed"


def _all_events(answer: ChatAnswer, request: ChatRequest) -> Iterator[_Event]:
    """Iterate over the events of a stream up to its end, in the documented order."""
    yield "response.created", {"response": _begun(request)}
    yield "response.in_progress", {"response": _begun(request)}
    for index, item in enumerate(output(answer, request)):
        at = {"output_index": index, "item_id": item["id"]}
        yield "response.output_item.added", {"output_index": index, "item": _opened(item)}
        match item["type"]:
            case "message" | "reasoning":
                for place, summary in enumerate(item.get("summary") or ()):
                    yield from _summary(summary, {**at, "summary_index": place}, answer.pieces)
                for place, part in enumerate(item.get("content") or ()):
                    yield from _content(part, {**at, "content_index": place}, answer.pieces)
            case "function_call":
                for piece in cut(item["arguments"], answer.pieces):
                    yield "response.function_call_arguments.delta", {**at, "delta": piece}
                done = {"name": item["name"], "arguments": item["arguments"]}
                yield "response.function_call_arguments.done", {**at, **done}
            case _:
                yield from _tool_events(item, at, answer.pieces)
        yield "response.output_item.done", {"output_index": index, "item": item}


def _opened(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return *item* as it is when added, without the content of later events."""
    emptied: dict[str, Any] = {"content": [], "summary": [], "arguments": "", "code": ""}
    opened = {key: emptied.get(key, value) for key, value in item.items()}
    return {**opened, "status": "in_progress"} if "status" in item else opened


def _summary(summary: Mapping[str, Any], at: dict[str, Any], max_pieces: int) -> Iterator[_Event]:
    """Iterate over the events of one part of the summary of a reasoning item."""
    yield "response.reasoning_summary_part.added", {**at, "part": {**summary, "text": ""}}
    for piece in cut(str(summary["text"]), max_pieces):
        yield "response.reasoning_summary_text.delta", {**at, "delta": piece}
    yield "response.reasoning_summary_text.done", {**at, "text": summary["text"]}
    yield "response.reasoning_summary_part.done", {**at, "part": summary}


def _content(part: Mapping[str, Any], at: dict[str, Any], max_pieces: int) -> Iterator[_Event]:
    """Iterate over the events of one content part: `output_text`, `refusal`, or `reasoning_text` of a reasoning item."""
    kind = part["type"]
    key = "refusal" if kind == "refusal" else "text"
    more: dict[str, Any] = {"logprobs": []} if kind == "output_text" else {}
    blank: dict[str, Any] = {**part, key: ""}
    if "annotations" in part:
        blank["annotations"] = []
    yield "response.content_part.added", {**at, "part": blank}
    for piece in cut(str(part[key]), max_pieces):
        yield f"response.{kind}.delta", {**at, "delta": piece, **more}
    for place, annotation in enumerate(part.get("annotations") or ()):
        yield f"response.{kind}.annotation.added", {**at, "annotation_index": place, "annotation": annotation}
    yield f"response.{kind}.done", {**at, key: part[key], **more}
    yield "response.content_part.done", {**at, "part": part}


def _tool_events(item: Mapping[str, Any], at: dict[str, Any], max_pieces: int) -> Iterator[_Event]:
    """Iterate over the events of a hosted tool's call; an unknown item has none."""
    kind = item["type"]
    if kind not in _PREFIXES:
        return
    yield f"response.{kind}.in_progress", at
    if code := item.get("code"):
        for piece in cut(str(code), max_pieces):
            yield f"response.{kind}_code.delta", {**at, "delta": piece}
        yield f"response.{kind}_code.done", {**at, "code": code}
    if kind in _STAGES:
        yield f"response.{kind}.{_STAGES[kind]}", at
    yield f"response.{kind}.completed", at


def _encoded(kind: str, place: int, body: Mapping[str, Any]) -> bytes:
    data = json.dumps({"type": kind, "sequence_number": place, **body})
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), data.encode())


def _usage(answer: ChatAnswer, request: ChatRequest) -> dict[str, Any] | None:
    usage = spent(answer, request)
    if not isinstance(usage, Usage):
        return None if usage is None else dict(usage)
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }


def _id(kind: str, request: ChatRequest, place: int) -> str:
    """Return the id of an item or of the response, unique to the request."""
    # `stream` is left out, so that a whole and a streamed answer have the same ids.
    asked = {key: value for key, value in request.body.items() if key not in ("stream", "stream_options")}
    return f"{kind}_{_digest(asked)}{place}"


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:24]
