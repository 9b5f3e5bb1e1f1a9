"""Servers that speak OpenAI's chat completions with extra fields: one class per server, with its differences.

The forms follow the providers' documentation or, where that is silent, what their servers send.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

from graphrt.events import Usage
from graphrt.harness.messages import ThinkingBlock
from graphrt.testing._openai_wire import OPENAI, ChatCompletions, thinking_of
from graphrt.testing.chat_answers import ChatAnswer, ChatRequest, cut, reason_of


class Mistral(ChatCompletions):
    """Content as a list of parts, calls in one piece, ids of nine letters and digits.

    Source:
        https://docs.mistral.ai/api/ (AssistantMessage, ContentChunk, UsageInfo)
    """

    provider = "mistral"

    def message(self, answer: ChatAnswer) -> dict[str, Any]:
        parts = _mistral_parts(answer)
        plain = all(part["type"] == "text" for part in parts)
        message: dict[str, Any] = {"role": "assistant", "content": answer.text if plain else parts, "tool_calls": None}
        if answer.tool_calls:
            message["tool_calls"] = self._calls(answer)
        return message

    def deltas(self, answer: ChatAnswer) -> Iterator[dict[str, Any]]:
        yield {"role": "assistant", "content": ""}
        for part in _mistral_parts(answer):
            if part["type"] == "text":
                yield from ({"content": piece} for piece in cut(str(part["text"]), answer.pieces))
            elif part["type"] == "thinking":
                for piece in cut(thinking_of(answer), answer.pieces):
                    yield {"content": [_mistral_thinking(piece)]}
            else:
                yield {"content": [part]}

    def end(self, answer: ChatAnswer, request: ChatRequest) -> Iterator[dict[str, Any]]:
        # Calls, finish reason and usage come together, and usage is sent without a request.
        delta: dict[str, Any] = {"content": ""}
        if answer.tool_calls:
            delta["tool_calls"] = self._calls(answer)
        usage = self.usage(answer, request)
        body = self.chunk(request, delta, reason_of(answer))
        yield body if usage is None else {**body, "usage": usage}

    def usage_form(self, usage: Usage) -> dict[str, Any]:
        return {**_plain_usage(usage), "num_cached_tokens": usage.cached_tokens}

    def failure(self, answer: ChatAnswer) -> bytes:
        error = answer.error or {}
        form = {"object": "error", **error, "raw_status_code": answer.status}
        return json.dumps(form).encode()

    def _calls(self, answer: ChatAnswer) -> list[dict[str, Any]]:
        calls = [replace(call, id=nine_letters(call.id)) for call in answer.tool_calls]
        return [{**self.call(call, call.arguments_text), "index": index} for index, call in enumerate(calls)]


class Groq(ChatCompletions):
    """`reasoning`, usage with times, and in streams under `x_groq`; errors in streams are events with a name.

    Source:
        https://console.groq.com/docs/api-reference#chat-create and /docs/errors
    """

    provider = "groq"
    reasoning_key = "reasoning"
    cuts_arguments = False

    def annotations(self, answer: ChatAnswer) -> list[dict[str, Any]]:  # noqa: ARG002 - Groq has none
        return []

    def message(self, answer: ChatAnswer) -> dict[str, Any]:
        executed = _executed(answer)
        return {**super().message(answer), **({"executed_tools": executed} if executed else {})}

    def text_deltas(self, answer: ChatAnswer) -> Iterator[dict[str, Any]]:
        if executed := _executed(answer):
            yield {"executed_tools": executed}
        yield from super().text_deltas(answer)

    def finished(self, body: dict[str, Any], answer: ChatAnswer) -> dict[str, Any]:  # noqa: ARG002 - as declared
        return {**body, "system_fingerprint": "fp_fake", "x_groq": {"id": "req_fake"}}

    def chunks(self, answer: ChatAnswer, request: ChatRequest) -> Iterator[dict[str, Any]]:
        more: dict[str, Any] = {"x_groq": {"id": "req_fake"}}
        for body in super().chunks(answer, request):
            yield {**body, **more}
            more = {}

    def end(self, answer: ChatAnswer, request: ChatRequest) -> Iterator[dict[str, Any]]:
        usage = self.usage(answer, request)
        group = {"id": "req_fake"} if usage is None else {"id": "req_fake", "usage": usage}
        last, *asked = super().end(answer, request)
        yield {**last, "x_groq": group}
        yield from asked

    def usage_form(self, usage: Usage) -> dict[str, Any]:
        times = {"queue_time": 0.1, "prompt_time": 0.1, "completion_time": 0.2, "total_time": 0.3}
        form: dict[str, Any] = {**_plain_usage(usage), **times}
        if usage.cached_tokens:
            form["prompt_tokens_details"] = {"cached_tokens": usage.cached_tokens}
        if usage.reasoning_tokens:
            form["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
        return form

    def error_event(self, answer: ChatAnswer, request: ChatRequest, place: int) -> bytes:  # noqa: ARG002 - as declared
        error = {**self.error(answer), "status_code": answer.status}
        return b"event: error\ndata: %s\n\n" % json.dumps({"error": error}).encode()


class DeepSeek(ChatCompletions):
    """`reasoning_content` with a null content; cached tokens as hits and misses; usage always in the last event.

    Source:
        https://api-docs.deepseek.com/api/create-chat-completion and /guides/thinking_mode
    """

    provider = "deepseek"

    def message(self, answer: ChatAnswer) -> dict[str, Any]:
        return {**super().message(answer), "content": answer.text}

    def thinking_deltas(self, answer: ChatAnswer) -> Iterator[dict[str, Any]]:
        for delta in super().thinking_deltas(answer):
            yield {"content": None, **delta}

    def end(self, answer: ChatAnswer, request: ChatRequest) -> Iterator[dict[str, Any]]:
        usage = self.usage(answer, request)
        body = self.chunk(request, {"content": "", "reasoning_content": None}, reason_of(answer))
        yield body if usage is None else {**body, "usage": usage}

    def usage_form(self, usage: Usage) -> dict[str, Any]:
        missed = usage.input_tokens - usage.cached_tokens
        hits = {"prompt_cache_hit_tokens": usage.cached_tokens, "prompt_cache_miss_tokens": missed}
        return {**super().usage_form(usage), **hits}


class OpenRouter(ChatCompletions):
    """`reasoning` and `reasoning_details`, the native finish reason, costs, comments, and errors within answers.

    Source:
        https://openrouter.ai/docs/api/reference/overview, /streaming, /errors-and-debugging, and
        https://openrouter.ai/docs/use-cases/reasoning-tokens
    """

    provider = "openrouter"
    reasoning_key = "reasoning"
    first_comment = b": OPENROUTER PROCESSING\n\n" * 2
    fails_inside = True

    def head(self, kind: str, request: ChatRequest) -> dict[str, Any]:
        return {**super().head(kind, request), "id": "gen-fake", "provider": "Fake"}

    def message(self, answer: ChatAnswer) -> dict[str, Any]:
        message = {"refusal": None, "reasoning": None, **super().message(answer)}
        details = _reasoning_details(answer)
        return {**message, "reasoning_details": details} if details else message

    def finished(self, body: dict[str, Any], answer: ChatAnswer) -> dict[str, Any]:
        choice = body["choices"][0]
        choice["native_finish_reason"] = choice["finish_reason"]
        if answer.error is not None:
            choice |= {"finish_reason": "error", "native_finish_reason": "error", "error": self.error(answer)}
        return body

    def chunk(self, request: ChatRequest, delta: Mapping[str, Any], reason: str | None = None) -> dict[str, Any]:
        body = super().chunk(request, {"role": "assistant", "content": "", **delta}, reason)
        body["choices"][0]["native_finish_reason"] = reason
        return body

    def thinking_deltas(self, answer: ChatAnswer) -> Iterator[dict[str, Any]]:
        for detail in _reasoning_details(answer):
            key = next((key for key in ("text", "summary") if detail.get(key)), None)
            if key is None:
                yield {"reasoning_details": [detail]}
                continue
            *pieces, last = cut(str(detail[key]), answer.pieces)
            bare = {name: value for name, value in detail.items() if name != "signature"}
            for piece in pieces:
                yield {"reasoning": piece, "reasoning_details": [{**bare, key: piece}]}
            yield {"reasoning": last, "reasoning_details": [{**detail, key: last}]}  # the signature comes at the end

    def end(self, answer: ChatAnswer, request: ChatRequest) -> Iterator[dict[str, Any]]:
        yield self.chunk(request, {}, reason_of(answer))
        if (usage := self.usage(answer, request)) is not None:  # sent unasked
            yield {**self.head("chat.completion.chunk", request), "choices": [], "usage": usage}

    def usage_form(self, usage: Usage) -> dict[str, Any]:
        return {**super().usage_form(usage), "cost": usage.cost_usd or 0, "is_byok": False}

    def error(self, answer: ChatAnswer) -> Mapping[str, Any]:
        """Return the error; its code is the HTTP status, unless the answer gives one."""
        error = answer.error or {}
        more = {key: value for key, value in error.items() if key not in ("type", "code", "param", "message")}
        return {"code": error.get("code") or answer.status, "message": error.get("message", ""), **more}

    def error_event(self, answer: ChatAnswer, request: ChatRequest, place: int) -> bytes:
        if answer.error_event:
            return super().error_event(answer, request, place)
        body = {**self.chunk(request, {}, "error"), "error": self.error(answer)}
        return b"data: %s\n\n" % json.dumps(body).encode()


class Ollama(ChatCompletions):
    """The OpenAI-compatible API of Ollama: never a null content, calls in one piece, usage without details.

    Source:
        https://docs.ollama.com/api/openai-compatibility
    """

    provider = "ollama"
    reasoning_key = "reasoning"
    cuts_arguments = False

    def head(self, kind: str, request: ChatRequest) -> dict[str, Any]:
        return {**super().head(kind, request), "id": "chatcmpl-1", "system_fingerprint": "fp_ollama"}

    def message(self, answer: ChatAnswer) -> dict[str, Any]:
        return {**super().message(answer), "content": answer.text}

    def chunk(self, request: ChatRequest, delta: Mapping[str, Any], reason: str | None = None) -> dict[str, Any]:
        return super().chunk(request, {"role": "assistant", "content": "", **delta}, reason)

    def usage_form(self, usage: Usage) -> dict[str, Any]:
        return _plain_usage(usage)


class LlamaCpp(ChatCompletions):
    """The server of llama.cpp: `timings`, usage without details, errors with their status as code.

    Source:
        https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md
    """

    provider = "llama.cpp"

    def head(self, kind: str, request: ChatRequest) -> dict[str, Any]:
        return {**super().head(kind, request), "system_fingerprint": "b1-fake"}

    def finished(self, body: dict[str, Any], answer: ChatAnswer) -> dict[str, Any]:  # noqa: ARG002 - as declared
        return {**body, "timings": _timings(body.get("usage"))}

    def deltas(self, answer: ChatAnswer) -> Iterator[dict[str, Any]]:
        first, *others = super().deltas(answer)
        yield {**first, "content": None}
        yield from others

    def end(self, answer: ChatAnswer, request: ChatRequest) -> Iterator[dict[str, Any]]:
        *before, last = super().end(answer, request)
        yield from before
        yield {**last, "timings": _timings(self.usage(answer, request))}

    def usage_form(self, usage: Usage) -> dict[str, Any]:
        return _plain_usage(usage)

    def error(self, answer: ChatAnswer) -> Mapping[str, Any]:
        error = answer.error or {}
        return {"code": answer.status, "message": error.get("message", ""), "type": error.get("type")}


DIALECTS: Final[Mapping[str, ChatCompletions]] = {
    "openai": OPENAI,
    "mistral": Mistral(),
    "groq": Groq(),
    "deepseek": DeepSeek(),
    "openrouter": OpenRouter(),
    "ollama": Ollama(),
    "llama.cpp": LlamaCpp(),
}


def nine_letters(id_: str) -> str:
    """Return *id_* if it has Mistral's form, else a derived id of nine letters and digits."""
    return id_ if re.fullmatch("[a-zA-Z0-9]{9}", id_) else sha256(id_.encode(errors="replace")).hexdigest()[:9]


def _plain_usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
    }


def _timings(usage: Mapping[str, Any] | None) -> dict[str, Any]:
    counts = usage or {}
    prompt, predicted = counts.get("prompt_tokens", 0), counts.get("completion_tokens", 0)
    return {"prompt_n": prompt, "prompt_ms": 1.0, "predicted_n": predicted, "predicted_ms": 1.0}


def _mistral_parts(answer: ChatAnswer) -> list[dict[str, Any]]:
    """Return the content in parts: the thinking, then the text with a reference between its pieces."""
    parts = [_mistral_thinking(thinking)] if (thinking := thinking_of(answer)) else []
    references = [part for part in answer.parts if part.provider == "mistral"]
    texts: Sequence[str] = cut(answer.text, len(references) + 1)
    for place in range(max(len(texts), len(references))):
        parts += [{"type": "text", "text": text} for text in texts[place : place + 1]]
        parts += [{"type": part.type, **part.data} for part in references[place : place + 1]]
    return parts


def _mistral_thinking(text: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}


def _executed(answer: ChatAnswer) -> list[dict[str, Any]]:
    parts = [part for part in answer.parts if part.provider == "groq"]
    return [{"index": index, "type": part.type, **part.data} for index, part in enumerate(parts)]


def _reasoning_details(answer: ChatAnswer) -> list[dict[str, Any]]:
    """Return OpenRouter's `reasoning_details`, 0..n."""
    bare = (ThinkingBlock(text=answer.thinking),) if answer.thinking else ()
    details: list[dict[str, Any]] = []
    for block in answer.thinking_blocks or bare:
        if block.provider == "openrouter" and block.data:
            raw_details: Any = block.data.get("reasoning_details", [block.data])
            details += [dict(detail) for detail in raw_details]
        elif block.text:
            sealed = {"signature": block.signature} if block.signature else {}
            details.append({"type": "reasoning.text", "text": block.text, **sealed})
        elif block.signature or block.redacted:
            details.append({"type": "reasoning.encrypted", "data": block.signature or block.redacted})
    return [{"format": "unknown", "index": index, **detail} for index, detail in enumerate(details)]
