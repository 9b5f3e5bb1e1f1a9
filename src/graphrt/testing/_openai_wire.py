"""Answers in the format of OpenAI's POST /v1/chat/completions: one JSON document, or server-sent events.

Converts an answer and its request to bytes, which `chat_server` sends. Many servers speak this format with extra
fields: `_chat_dialects` has a subclass for each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from graphrt._arguments import is_mapping
from graphrt._usage.usage import Usage
from graphrt.harness.messages import ToolCall
from graphrt.testing.chat_answers import ChatAnswer, ChatRequest, cut, reason_of, spent


class ChatCompletions:
    """OpenAI's own form."""

    provider = "openai"
    """The `provider` of the parts of an answer that are sent."""
    reasoning_key = "reasoning_content"
    """Field of a message with its reasoning. OpenAI has none; most other servers use this name."""
    cuts_arguments = True
    """Whether the arguments of a streamed call come in several pieces."""
    first_comment = b""
    """Sent before the first event of a stream."""
    fails_inside = False
    """Whether an error in the middle of an answer is part of a document with status 200."""

    def failure(self, answer: ChatAnswer) -> bytes:
        """Return the JSON document of an error."""
        return json.dumps({"error": self.error(answer)}).encode()

    def document(self, answer: ChatAnswer, request: ChatRequest) -> bytes:
        """Return the whole answer as one JSON document."""
        body = self.head("chat.completion", request)
        body["choices"] = [{"index": 0, "message": self.message(answer), "finish_reason": reason_of(answer)}]
        if (usage := self.usage(answer, request)) is not None:
            body["usage"] = usage
        return json.dumps(self.finished(body, answer)).encode()

    def events(self, answer: ChatAnswer, request: ChatRequest) -> Iterator[bytes]:
        """Iterate over the answer as 2..n server-sent events."""
        before = self.first_comment
        for body in self.chunks(answer, request):
            yield before + b"data: %s\n\n" % json.dumps(body).encode()
            before = b""
        if not answer.unfinished:
            yield b"data: [DONE]\n\n"

    def error_event(self, answer: ChatAnswer, request: ChatRequest, place: int) -> bytes:  # noqa: ARG002 - any format's
        """Return the event that ends a stream with the error of *answer*."""
        return b"data: %s\n\n" % self.failure(answer)

    # ----------------------------------------------------------------------------- parts that dialects change

    def head(self, kind: str, request: ChatRequest) -> dict[str, Any]:
        """Return the fields at the start of every document or event."""
        model = request.body.get("model", "fake")
        return {"id": "chatcmpl-fake", "object": kind, "created": 1_700_000_000, "model": model}

    def message(self, answer: ChatAnswer) -> dict[str, Any]:
        """Return the message of a whole answer."""
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
        if thinking := thinking_of(answer):
            message[self.reasoning_key] = thinking
        if answer.refusal is not None:
            message["refusal"] = answer.refusal
        if answer.tool_calls:
            message["tool_calls"] = [self.call(call, call.arguments_text) for call in answer.tool_calls]
        if annotations := self.annotations(answer):
            message["annotations"] = annotations
        return message

    def call(self, call: ToolCall, arguments: str) -> dict[str, Any]:
        """Return a tool call, with *arguments* as its text."""
        return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}

    def annotations(self, answer: ChatAnswer) -> list[dict[str, Any]]:
        """Return the citations of the text, 0..n."""
        parts = [part for part in answer.parts if part.provider == self.provider]
        return [{"type": part.type, part.type: dict(part.data)} for part in parts]

    def finished(self, body: dict[str, Any], answer: ChatAnswer) -> dict[str, Any]:  # noqa: ARG002 - for dialects
        """Add the fields of a whole document besides the choice and usage."""
        return body

    def usage(self, answer: ChatAnswer, request: ChatRequest) -> dict[str, Any] | None:
        """Return the usage to report; None for none."""
        usage = spent(answer, request)
        if isinstance(usage, Usage):
            return self.usage_form(usage)
        return None if usage is None else dict(usage)

    def usage_form(self, usage: Usage) -> dict[str, Any]:
        return {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.total_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
            "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        }

    def error(self, answer: ChatAnswer) -> Mapping[str, Any]:
        """Return the object that describes the error of *answer*."""
        return answer.error or {}

    def chunks(self, answer: ChatAnswer, request: ChatRequest) -> Iterator[dict[str, Any]]:
        """Iterate over the documents of a stream."""
        for delta in self.deltas(answer):
            yield self.chunk(request, delta)
        if not answer.unfinished:
            yield from self.end(answer, request)

    def chunk(self, request: ChatRequest, delta: Mapping[str, Any], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return {**self.head("chat.completion.chunk", request), "choices": [choice]}

    def deltas(self, answer: ChatAnswer) -> Iterator[dict[str, Any]]:
        """Iterate over the changes of the message: role, reasoning, text, refusal, calls."""
        yield {"role": "assistant", "content": ""}
        yield from self.thinking_deltas(answer)
        yield from self.text_deltas(answer)
        for piece in cut(answer.refusal or "", answer.pieces):
            yield {"refusal": piece}
        for index, call in enumerate(answer.tool_calls):
            if not self.cuts_arguments:
                yield {"tool_calls": [{"index": index, **self.call(call, call.arguments_text)}]}
                continue
            yield {"tool_calls": [{"index": index, **self.call(call, "")}]}
            for piece in cut(call.arguments_text, answer.pieces):
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}

    def thinking_deltas(self, answer: ChatAnswer) -> Iterator[dict[str, Any]]:
        for piece in cut(thinking_of(answer), answer.pieces):
            yield {self.reasoning_key: piece}

    def text_deltas(self, answer: ChatAnswer) -> Iterator[dict[str, Any]]:
        for piece in cut(answer.text, answer.pieces):
            yield {"content": piece}
        if annotations := self.annotations(answer):
            yield {"annotations": annotations}

    def end(self, answer: ChatAnswer, request: ChatRequest) -> Iterator[dict[str, Any]]:
        """Iterate over the documents after the message: the finish reason, and the usage if requested."""
        yield self.chunk(request, {}, reason_of(answer))
        usage = self.usage(answer, request)
        if usage is not None and wants_usage(request):
            yield {**self.head("chat.completion.chunk", request), "choices": [], "usage": usage}


OPENAI: Final = ChatCompletions()


def wants_usage(request: ChatRequest) -> bool:
    """Return whether `stream_options` request usage, which OpenAI omits from streams by default."""
    options: Any = request.body.get("stream_options")
    return is_mapping(options) and bool(options.get("include_usage"))


def thinking_of(answer: ChatAnswer) -> str:
    """Return the readable thinking as one text."""
    return answer.thinking or "".join(block.text for block in answer.thinking_blocks)
