"""`ChatAnswer` and `ChatRequest`: answers of and requests to a fake chat server, for every wire format.

This module has values and the parsing of scripts into them. The modules `_..._wire` encode answers, one per format, and
`chat_server` sends them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, TypeVar

from graphrt._arguments import is_async, is_list, is_mapping
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.events import Usage
from graphrt.harness.messages import ProviderPart, ThinkingBlock, ToolCall
from graphrt.harness.protocol import AgentReply
from graphrt.harness.script import Expectation, show_pattern

__all__ = ["ChatAnswer", "ChatRequest"]

T = TypeVar("T", str, bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One request that the server received."""

    method: str
    path: str
    headers: Mapping[str, str] = field(hash=False)
    """HTTP headers; names in lower case."""
    body: Mapping[str, Any] = field(hash=False)
    """The JSON document; empty if the body was not a JSON object."""

    @property
    def text(self) -> str:
        """Text of the last message, or of the last result of a tool; empty without one."""
        messages = conversation(self.body)
        return messages[-1][1] if messages else ""

    @property
    def system(self) -> str | None:
        """The instructions; None without.

        The texts of system messages, of Anthropic's `system`, of `instructions` in the format of Responses, and of
        Gemini's `systemInstruction`.
        """
        texts = [_text(self.body.get(key)) for key in ("system", "instructions")]
        texts += [_parts_text(self.body.get(key)) for key in ("systemInstruction", "system_instruction")]
        texts += [text for role, text in conversation(self.body) if role in ("system", "developer")]
        return "\n".join(text for text in texts if text) or None

    @property
    def model(self) -> str:
        """Name of the requested model, without its provider; empty without a model. Gemini's is in the path."""
        in_path = re.search(r"/models/([^/:?]+):", self.path)
        return in_path[1] if in_path else str(self.body.get("model") or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAnswer:
    """How the server answers one request. The class methods make the usual kinds of failures.

    A request with `"stream": true` gets the answer as server-sent events, unless it is `raw` or an error without
    `error_after`.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    """0..n tool calls. `arguments_text` is sent as it is, so that broken arguments can be sent."""
    usage: Usage | Mapping[str, Any] | Literal["words"] | None = field(default="words", hash=False)
    """Token usage to report. "words" counts the words of request and answer; None sends no usage. A mapping is sent as
    it is, for fields that only one provider has."""
    finish_reason: str | None = None
    """Finish reason in the words of OpenAI's chat completions, which the other formats translate: `length` is
    `max_tokens` for Anthropic, `MAX_TOKENS` for Gemini, and `status: incomplete` with `max_output_tokens` in Responses.
    Other words, such as Gemini's `MALFORMED_FUNCTION_CALL`, are sent as they are; an empty text sends none. None:
    `tool_calls` if there are any, else `stop`."""
    refusal: str | None = None
    """Text of the model's refusal; None if it does not refuse. For Gemini, the prompt is then blocked, without a
    candidate: `finish_reason` is the `blockReason` (None: SAFETY), the text its message."""
    thinking: str = ""
    """The model's thinking, sent before the text: `reasoning_content` in chat completions, `reasoning` in some dialects."""
    thinking_blocks: tuple[ThinkingBlock, ...] = ()
    """The thinking in blocks. If empty, `thinking` is sent as one block.

    For Anthropic, a block without a signature gets one from the server. In OpenAI's Responses, each block is a
    reasoning item before the answer: `text` is its summary, `signature` its `encrypted_content`. As the API does, the
    server sends `encrypted_content` (its own, if there is no signature) only if `include` of the request asks for it.
    The `data` of a block with `provider="openai"` are further fields, such as a summary of several parts, or the
    readable reasoning of open models: `{"content": [{"type": "reasoning_text", "text": "..."}]}`. A `call_id` among
    them puts the item directly before this call.

    For Gemini, `text` is a part with `"thought": true`, and the last `signature` is the `thoughtSignature` of the first
    call, or of the text if there are no calls. First calls without one are signed by the server, but not for models
    whose names begin with gemini-1 or gemini-2. The `data` of a block with `provider="google"` are a whole part.

    For OpenRouter, each block is one of the `reasoning_details`: its text with its signature, or, without a text, its
    signature as encrypted data. The `data` of a block with `provider="openrouter"` are a whole one, or `{"reasoning_details":
    [...]}`. Other chat completions have the texts of the blocks if `thinking` is empty.
    """
    parts: tuple[ProviderPart, ...] = field(default=(), hash=False)
    """Citations, and tool calls that the provider makes itself, in the form of the API. Only those with the
    `provider` of the requested format are sent.

    OpenAI's Responses (`provider="openai"`): an annotation of the text, such as
    `ProviderPart(provider="openai", type="url_citation", data={"url": "...", "title": "...", "start_index": 0, "end_index": 4})`;
    or a separate item before the message, such as type `web_search_call` with
    `{"action": {"type": "search", "query": "..."}}`. Values of `id`, `type` and `status` that `data` lacks are filled
    in.

    Gemini (`provider="google"`): a field of the candidate, whose type ends in `Metadata` (`groundingMetadata`,
    `citationMetadata`, `urlContextMetadata`); or a part of the content before the text, such as type `executableCode`
    with `{"language": "PYTHON", "code": "..."}`.

    Anthropic (`provider="anthropic"`): a citation of the text, whose type ends in `_location`; or a block before the
    text, such as type `server_tool_use` with `{"id": "...", "name": "web_search", "input": {...}}`.

    Chat completions: an annotation of the message (`"openai"`, `"openrouter"`), with the data as above; a part of the
    content (`"mistral"`), such as type `reference` with `{"reference_ids": [1]}`, which stands between pieces of the
    text; an executed tool (`"groq"`).
    """
    status: int = 200
    """HTTP status."""
    error: Mapping[str, Any] | None = field(default=None, hash=False)
    """Body of an error: `message`, `type`, `code`; None for an answer."""
    error_after: int | None = None
    """Number of events of a stream before the error. The stream has status 200, and ends with the error in the form of
    the API. None sends the error with its status, in place of an answer.

    In OpenAI's Responses the error is the event `response.failed`, and a whole answer is then a document of status 200
    with `"status": "failed"`. For OpenRouter it is beside the choice of the last event, and in the choice of a whole
    answer with status 200. All others have whole answers with the error and its status.
    """
    error_event: bool = False
    """In streams, send the error as a separate event: `error` in place of `response.failed` in OpenAI's Responses,
    and without a choice for OpenRouter."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    """Further HTTP headers."""
    raw: bytes | None = None
    """Body to send instead of everything above; None sends the above."""
    delay_s: float = 0.0
    """Seconds before the first byte."""
    gap_s: float = 0.0
    """Seconds between the pieces of the body."""
    pieces: int = 4
    """Maximum number of pieces that a streamed text, or the arguments of a streamed call, is cut into."""
    stream_detail: Literal["deltas", "done", "items", "end"] = "deltas"
    """Which events a stream of OpenAI's Responses has: all; "done": all but the deltas; "items": of those, only finished
    items and the end; "end": only the first and the last one, `response.completed`. OpenAI sends all, and some
    compatible servers do not."""
    comment: str = ""
    """Text of a comment before each event of a stream, as servers and proxies send to keep a connection open."""
    drop_after: int | None = None
    """Number of pieces after which the connection is cut; 0 sends nothing, not even a status line. None never cuts."""
    unfinished: bool = False
    """Leave out the end of a stream: `[DONE]`, the events `message_delta` and `message_stop`, `response.completed`, or Gemini's document
    with `finishReason`.

    The client then has a part of an answer, for which graphrt's models raise TransientModelError.
    """

    @classmethod
    def failure(
        cls,
        status: int,
        message: str = "scripted failure",
        *,
        type: str = "error",
        code: str | None = None,
        retry_after: float | str | None = None,
        after: int | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> ChatAnswer:
        """Return an error in the form of the wire format.

        Args:
            status: HTTP status.
            message: Text of the error.
            type: Type of the error. The formats of Anthropic and Gemini replace "error" by the usual type of the status.
            code: Code of the error, for OpenAI's formats; for Gemini the reason of an `ErrorInfo`, such as
                API_KEY_INVALID.
            retry_after: Value of the header Retry-After: seconds or an HTTP date; None leaves it out. Gemini has it as
                the `retryDelay` of a `RetryInfo`, in place of the header.
            after: Number of events of a stream before the error (`error_after`), of the answer "one two three four".
            fields: Further fields of the error, such as Groq's `failed_generation` or OpenRouter's `metadata`.
        """
        headers = {} if retry_after is None else {"Retry-After": f"{retry_after}"}
        error = {"message": message, "type": type, "code": code, "param": None, **(fields or {})}
        text = "" if after is None else "one two three four"
        return cls(text=text, status=status, error=error, error_after=after, headers=headers)

    @classmethod
    def malformed(cls) -> ChatAnswer:
        """Return an answer of status 200 whose JSON body is cut off in the middle."""
        return cls(raw=b'{"id": "chatcmpl-1", "choices": [{"index"')

    @classmethod
    def html(cls) -> ChatAnswer:
        """Return an answer of status 200 with an HTML page, as from a proxy that cannot reach its server."""
        return cls(raw=b"<html><body>Bad gateway</body></html>", headers={"Content-Type": "text/html"})

    @classmethod
    def no_choices(cls) -> ChatAnswer:
        """Return an answer of status 200 with a document whose list of choices is empty."""
        body = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "fake"}
        return cls(raw=json.dumps({**body, "choices": ()}).encode())

    @classmethod
    def drop(cls, *, after: int = 0) -> ChatAnswer:
        """Return an answer that cuts the connection after *after* pieces; 0 sends nothing."""
        return cls(text="one two three four", drop_after=after)


Scripted: TypeAlias = str | ToolCall | AgentReply | ChatAnswer
"""An item of a script. A text or a tool call becomes an answer with only that content."""

Answering: TypeAlias = Scripted | Callable[[ChatRequest], Scripted]
"""An item of a script, or a function of the request that returns one."""

_KINDS: Final = "a text, a ToolCall, an AgentReply, a ChatAnswer or a function of the request that makes one of these"


def any_other(request: ChatRequest) -> bool:  # noqa: ARG001 - the signature of a pattern
    """Match every request: the pattern for a function that is the whole script of a server."""
    return True


def script_of(script: Any) -> list[Any]:
    """Return the items of *script*: each is a ChatAnswer, a function that makes an answer, or an Expectation of these.

    Raises:
        InputError: *script* is not a list, or an item cannot be made into an answer.
    """
    if issubclass(type(script), (str, Mapping)) or not hasattr(script, "__iter__"):
        raise INVALID_ARGUMENT(
            argument="The script of a FakeChatServer",
            value=script,
            wanted="a list with the answers, in the order of the requests",
            known=f"an item is {_KINDS}",
        )
    return [_item(item, f"item {place} of its script") for place, item in enumerate(script, 1)]


def rules_of(rules: Any) -> dict[Any, Any]:
    """Return *rules* with parsed answers: each pattern has one answer, or a list of answers that are used once each.

    Raises:
        InputError: *rules* is not a mapping, or a value cannot be made into an answer.
    """
    if not issubclass(type(rules), Mapping):
        raise INVALID_ARGUMENT(
            argument="The rules of a FakeChatServer", value=rules, wanted="a mapping from patterns to answers"
        )
    checked: Mapping[Any, Any] = rules
    parsed_rules: dict[Any, Any] = {}
    for pattern, answers in checked.items():
        where = f"the rule {show_pattern(pattern)}"
        several = issubclass(type(answers), Sequence) and not issubclass(type(answers), str)
        parsed_rules[pattern] = [_item(item, where) for item in answers] if several else _item(answers, where)
    return parsed_rules


def _item(item: Any, where: str) -> Any:
    """Return one item of a script: a ChatAnswer, a sync function, or an Expectation of one of these.

    Raises:
        InputError: It cannot be made into an answer; *where* is its place in the script.
    """
    if isinstance(item, Expectation):
        return Expectation(pattern=item.pattern, reply=_item(item.reply, where))
    if callable(item) and not isinstance(item, type):
        if not is_async(item):
            return item
        raise INVALID_ARGUMENT(
            argument="An answer of a FakeChatServer",
            value=item,
            wanted="a sync function: each request is answered on a worker thread of its own",
            where=where,
        )
    return answer_of(item, where)


def answer_of(item: Any, where: str) -> ChatAnswer:
    """Return *item* as a ChatAnswer.

    Raises:
        InputError: It cannot be made into one; *where* is its place in the script.
    """
    match item:
        case ChatAnswer():
            return item
        case str():
            return ChatAnswer(text=item)
        case ToolCall():
            return ChatAnswer(tool_calls=(item,))
        case AgentReply():
            return ChatAnswer(
                text=item.text,
                tool_calls=tuple(item.tool_calls),
                usage="words" if item.usage is None else item.usage,
                finish_reason=item.finish_reason,
                thinking=item.thinking,
                thinking_blocks=item.thinking_blocks,
                parts=item.provider_parts,
            )
        case _:
            raise INVALID_ARGUMENT(
                argument="An answer of a FakeChatServer",
                value=item,
                wanted="one of these; ChatAnswer.failure(500), .drop() and .malformed() make failures",
                known=f"an item is {_KINDS}",
                where=where,
            )


def conversation(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the messages of a request in any format: role and text of each, 0..n. Results of tools are messages too."""
    if isinstance(body.get("input"), str):
        return [("user", body["input"])]
    raw_messages: Any = body.get("messages", body.get("input", body.get("contents")))
    items: list[Mapping[str, Any]] = (
        [message for message in raw_messages if is_mapping(message)] if is_list(raw_messages) else []
    )
    return [(str(message.get("role") or ""), _message_text(message)) for message in items]


def _message_text(message: Mapping[str, Any]) -> str:
    if "parts" in message:
        return _parts_text(message)
    return _text(message.get("content") or message.get("output"))


def _parts_text(content: Any) -> str:
    """Return the text of a content in Gemini's format: texts, and values of the responses of functions."""
    parts: Any = content.get("parts") if is_mapping(content) else None
    texts: list[str] = []
    for part in parts if is_list(parts) else ():
        if not is_mapping(part):
            continue
        texts.append(str(part.get("text") or ""))
        result: Any = part.get("functionResponse", part.get("function_response"))
        response: Any = result.get("response") if is_mapping(result) else None
        values = response.values() if is_mapping(response) else ()
        texts += [value if isinstance(value, str) else json.dumps(value) for value in values]
    return "\n".join(text for text in texts if text)


def _text(content: Any) -> str:
    """Return the text of a message's content in any format: a text, or blocks, of which tool results nest more."""
    if isinstance(content, str):
        return content
    blocks: list[Any] = [block for block in content if is_mapping(block)] if is_list(content) else []
    texts = [_text(block.get("text") or block.get("content")) for block in blocks]
    return "\n".join(text for text in texts if text)


def spent(answer: ChatAnswer, request: ChatRequest) -> Usage | Mapping[str, Any] | None:
    """Return the usage to report for *answer*, before encoding; a mapping unchanged; None reports no usage."""
    if answer.usage != "words":
        return answer.usage
    asked = sum(len(text.split()) for _, text in conversation(request.body))
    output_words = len(answer.text.split()) + sum(len(call.arguments_text.split()) for call in answer.tool_calls)
    return Usage(input_tokens=asked, output_tokens=output_words)


def reason_of(answer: ChatAnswer) -> str | None:
    """Return the finish reason in terms of chat completions, or unchanged; None sends none."""
    if answer.finish_reason is None:
        return "tool_calls" if answer.tool_calls else "stop"
    return answer.finish_reason or None


def parsed_arguments(call: ToolCall) -> Any:
    """Return the arguments of *call* for a format in which they are an object.

    Deliberately broken arguments are sent as text instead of an object.
    """
    try:
        return json.loads(call.arguments_text)
    except ValueError:
        return call.arguments_text


def cut(value: T, most: int) -> list[T]:
    """Split *value* into at most *most* pieces of equal length (the last may be shorter); an empty value gives none."""
    size = max(1, -(-len(value) // max(1, most)))
    return [value[start : start + size] for start in range(0, len(value), size)]
