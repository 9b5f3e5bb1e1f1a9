"""`ChatAnswer` and `ChatRequest`: what a fake chat server answers, and what it was asked, for every wire format.

Values only, and the reading of scripts into them. `_openai_wire` and `_anthropic_wire` encode answers; `chat_server`
sends them.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, TypeVar

from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.events import Usage
from graphrt.harness.messages import ThinkingBlock, ToolCall
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
        """Text of the last message; empty without one."""
        messages = self._messages()
        return _text(messages[-1].get("content")) if messages else ""

    @property
    def system(self) -> str | None:
        """The instructions: the texts of system messages, or of Anthropic's `system`; None without instructions."""
        texts = [_text(self.body.get("system"))]
        texts += [_text(one.get("content")) for one in self._messages() if one.get("role") in ("system", "developer")]
        return "\n".join(text for text in texts if text) or None

    @property
    def model(self) -> str:
        """Name of the requested model, without its provider; empty without a model."""
        return str(self.body.get("model") or "")

    def _messages(self) -> list[Mapping[str, Any]]:
        given: Any = self.body.get("messages")
        several = issubclass(type(given), list)
        return [one for one in given if issubclass(type(one), Mapping)] if several else []


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAnswer:
    """How the server answers one request. The class methods make the usual kinds of failures.

    A request with `"stream": true` gets the answer as server-sent events, unless it is an error or `raw`.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    """0..n tool calls. `arguments_text` is sent as it is, so that broken arguments can be sent."""
    usage: Usage | Literal["words"] | None = "words"
    """Token usage to report. "words" counts the words of request and answer; None sends no usage."""
    finish_reason: str | None = None
    """Finish reason in OpenAI's words; other words are sent as they are. None: `tool_calls` if there are any, else
    `stop`."""
    refusal: str | None = None
    """Text of the model's refusal; None if it does not refuse."""
    thinking: str = ""
    """The model's thinking, sent before the text."""
    thinking_blocks: tuple[ThinkingBlock, ...] = ()
    """The thinking in blocks, for Anthropic's format. A block without a signature gets one from the server. If empty,
    `thinking` is sent as one block."""
    status: int = 200
    """HTTP status."""
    error: Mapping[str, Any] | None = field(default=None, hash=False)
    """Body of an error: `message`, `type`, `code`; None for an answer."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    """Further HTTP headers."""
    raw: bytes | None = None
    """Body that is sent instead of everything above; None sends the above."""
    delay_s: float = 0.0
    """Seconds before the first byte."""
    gap_s: float = 0.0
    """Seconds between the pieces of the body."""
    pieces: int = 4
    """Maximum number of pieces that a streamed text, or the arguments of a streamed call, is cut into."""
    drop_after: int | None = None
    """Number of pieces after which the connection is cut; 0 sends nothing, not even a status line. None never cuts."""
    unfinished: bool = False
    """Leave out the end of a stream: `[DONE]`, or the events `message_delta` and `message_stop`.

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
    ) -> ChatAnswer:
        """Return an error in the form of the wire format.

        Args:
            status: HTTP status.
            message: Text of the error.
            type: Type of the error. Anthropic's format replaces "error" by the usual type of the status.
            code: Code of the error, for OpenAI's format.
            retry_after: Value of the header Retry-After: seconds or an HTTP date; None leaves it out.
        """
        headers = {} if retry_after is None else {"Retry-After": f"{retry_after}"}
        error = {"message": message, "type": type, "code": code, "param": None}
        return cls(status=status, error=error, headers=headers)

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
"""An item of a script. A text or a tool call becomes an answer with nothing else in it."""

Answering: TypeAlias = Scripted | Callable[[ChatRequest], Scripted]
"""An item of a script, or a function of the request that returns one."""

_KINDS: Final = "a text, a ToolCall, an AgentReply, a ChatAnswer or a function of the request that makes one of these"


def any_other(request: ChatRequest) -> bool:  # noqa: ARG001 - the signature of a pattern
    """Match every request: the pattern of a function that is the whole script of a server."""
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
    """Return *rules* with their answers read: each pattern has one answer, or a list of answers that are used once.

    Raises:
        InputError: *rules* is not a mapping, or a value cannot be made into an answer.
    """
    if not issubclass(type(rules), Mapping):
        raise INVALID_ARGUMENT(
            argument="The rules of a FakeChatServer", value=rules, wanted="a mapping from patterns to answers"
        )
    given: Mapping[Any, Any] = rules
    made: dict[Any, Any] = {}
    for pattern, answers in given.items():
        where = f"the rule {show_pattern(pattern)}"
        several = issubclass(type(answers), Sequence) and not issubclass(type(answers), str)
        made[pattern] = [_item(one, where) for one in answers] if several else _item(answers, where)
    return made


def _item(item: Any, where: str) -> Any:
    """Return one item of a script: a ChatAnswer, a sync function, or an Expectation of one of these.

    Raises:
        InputError: It cannot be made into an answer; *where* is its place in the script.
    """
    if isinstance(item, Expectation):
        return Expectation(pattern=item.pattern, reply=_item(item.reply, where))
    if callable(item) and not isinstance(item, type):
        if not inspect.iscoroutinefunction(item):
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
            )
        case _:
            raise INVALID_ARGUMENT(
                argument="An answer of a FakeChatServer",
                value=item,
                wanted="one of these; ChatAnswer.failure(500), .drop() and .malformed() make failures",
                known=f"an item is {_KINDS}",
                where=where,
            )


def _text(content: Any) -> str:
    """Return the text of a message's content in either format: a text, or blocks, of which tool results nest more."""
    if isinstance(content, str):
        return content
    several = issubclass(type(content), list)
    blocks: list[Any] = [one for one in content if issubclass(type(one), Mapping)] if several else []
    texts = [_text(one.get("text") or one.get("content")) for one in blocks]
    return "\n".join(text for text in texts if text)


def spent(answer: ChatAnswer, request: ChatRequest) -> Usage | None:
    """Return the usage to report for *answer*, before it is encoded; None reports no usage."""
    if answer.usage != "words":
        return answer.usage
    asked = sum(_words(message.get("content")) for message in request.body.get("messages", ()))
    told = len(answer.text.split()) + sum(len(call.arguments_text.split()) for call in answer.tool_calls)
    return Usage(input_tokens=asked, output_tokens=told)


def _words(content: Any) -> int:
    if content is None or isinstance(content, str):
        return len((content or "").split())
    return sum(_words(block.get("text")) for block in content)


def cut(value: T, most: int) -> list[T]:
    """Cut *value* into at most *most* pieces of equal length (the last may be shorter); an empty value gives none."""
    size = max(1, -(-len(value) // max(1, most)))
    return [value[start : start + size] for start in range(0, len(value), size)]
