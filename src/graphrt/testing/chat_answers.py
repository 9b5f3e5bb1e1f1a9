"""What a fake chat server is told to answer, and what it was asked: the same values for every wire format.

Values live here. How they look on a wire (`_openai_wire`, `_anthropic_wire`) and how they are sent (`chat_server`)
does not.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, TypeVar

from graphrt.errors import InputError
from graphrt.events import Usage
from graphrt.harness.messages import ThinkingBlock, ToolCall
from graphrt.harness.protocol import AgentReply
from graphrt.harness.script import Expectation, show_pattern

__all__ = ["ChatAnswer", "ChatRequest"]

T = TypeVar("T", str, bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One request that the server got."""

    method: str
    path: str
    headers: Mapping[str, str] = field(hash=False)
    """Names in lower case."""
    body: Mapping[str, Any] = field(hash=False)
    """The JSON document; empty if the body was none."""

    @property
    def text(self) -> str:
        """The text of the last message; empty if there is none."""
        messages = self._messages()
        return _text(messages[-1].get("content")) if messages else ""

    @property
    def system(self) -> str | None:
        """The instructions: the texts of the system messages, or of Anthropic's `system`; None without any."""
        texts = [_text(self.body.get("system"))]
        texts += [_text(one.get("content")) for one in self._messages() if one.get("role") in ("system", "developer")]
        return "\n".join(text for text in texts if text) or None

    @property
    def model(self) -> str:
        """The model that is asked, without the name of its provider."""
        return str(self.body.get("model") or "")

    def _messages(self) -> list[Mapping[str, Any]]:
        given: Any = self.body.get("messages")
        several = issubclass(type(given), list)
        return [one for one in given if issubclass(type(one), Mapping)] if several else []


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAnswer:
    """What the server does with one request. The class methods make the usual kinds.

    A request with `"stream": true` gets the same answer as server-sent events, unless it is an error or `raw`.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    """0..n calls; `arguments_text` goes out as it is, so that broken arguments can be sent."""
    usage: Usage | Literal["words"] | None = "words"
    """Tokens to report; "words" counts words; None sends no usage at all."""
    finish_reason: str | None = None
    """None: `tool_calls` if there are some, else `stop`. In OpenAI's words; others go out as they are."""
    refusal: str | None = None
    thinking: str = ""
    """What the model writes for itself; sent before the text."""
    thinking_blocks: tuple[ThinkingBlock, ...] = ()
    """The same in blocks, for Anthropic's wire, where one without a signature gets that of the server. Empty: one
    block of `thinking`, if there is some."""
    status: int = 200
    error: Mapping[str, Any] | None = field(default=None, hash=False)
    """Body of an error: `message`, `type`, `code`."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    raw: bytes | None = None
    """Sent as the body instead of everything above."""
    delay_s: float = 0.0
    """Seconds before the first byte."""
    gap_s: float = 0.0
    """Seconds between the pieces of the body."""
    pieces: int = 4
    """Most pieces that a streamed text or the arguments of a streamed call are cut into."""
    drop_after: int | None = None
    """Cut the connection after so many pieces; 0 sends nothing, not even a status line."""
    unfinished: bool = False
    """Leave out what says that a stream has come to its end: `[DONE]`, or the events `message_delta` and `message_stop`.

    Whoever reads the stream has a part of an answer then: graphrt's models raise TransientModelError.
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
        """An error in the wire format's own form; *retry_after* is seconds or an HTTP date."""
        headers = {} if retry_after is None else {"Retry-After": f"{retry_after}"}
        error = {"message": message, "type": type, "code": code, "param": None}
        return cls(status=status, error=error, headers=headers)

    @classmethod
    def malformed(cls) -> ChatAnswer:
        """Status 200 and a body that stops being JSON in the middle."""
        return cls(raw=b'{"id": "chatcmpl-1", "choices": [{"index"')

    @classmethod
    def html(cls) -> ChatAnswer:
        """Status 200 and a page: what a proxy answers that has lost its server."""
        return cls(raw=b"<html><body>Bad gateway</body></html>", headers={"Content-Type": "text/html"})

    @classmethod
    def no_choices(cls) -> ChatAnswer:
        """Status 200 and a document without a single answer in it."""
        body = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "fake"}
        return cls(raw=json.dumps({**body, "choices": ()}).encode())

    @classmethod
    def drop(cls, *, after: int = 0) -> ChatAnswer:
        """Cut the connection after *after* pieces."""
        return cls(text="one two three four", drop_after=after)


Scripted: TypeAlias = str | ToolCall | AgentReply | ChatAnswer
"""What a script may hold; a text or a call is the whole of its answer."""

Answering: TypeAlias = Scripted | Callable[[ChatRequest], Scripted]
"""The same, or a function of the request that makes it."""

_KINDS: Final = "a text, a ToolCall, an AgentReply, a ChatAnswer or a function of the request that makes one of these"


def script_of(script: Any) -> list[Any]:
    """The items of *script*, each an answer, a function that makes one, or an Expectation of one of these.

    Raises:
        InputError: It is no collection, or an item stands for no answer.
    """
    if issubclass(type(script), (str, Mapping)) or not hasattr(script, "__iter__"):
        raise InputError(
            f"The script of a FakeChatServer is a value of type {type(script).__name__}: {script!r}.",
            known=f"a script is a list; each item is {_KINDS}",
            fix="put the answers into a list, in the order of the requests",
            value=script,
        )
    return [_item(item, f"item {place} of its script") for place, item in enumerate(script, 1)]


def rules_of(rules: Any) -> dict[Any, Any]:
    """The *rules*, each with an answer, or with a list of answers that are used once.

    Raises:
        InputError: They are no mapping, or stand for no answers.
    """
    if not issubclass(type(rules), Mapping):
        raise InputError(
            f"The rules of a FakeChatServer are a value of type {type(rules).__name__}: {rules!r}.",
            fix="give a mapping from patterns to answers",
            value=rules,
        )
    given: Mapping[Any, Any] = rules
    made: dict[Any, Any] = {}
    for pattern, answers in given.items():
        where = f"the rule {show_pattern(pattern)}"
        several = issubclass(type(answers), Sequence) and not issubclass(type(answers), str)
        made[pattern] = [_item(one, where) for one in answers] if several else _item(answers, where)
    return made


def _item(item: Any, where: str) -> Any:
    if isinstance(item, Expectation):
        return Expectation(pattern=item.pattern, reply=_item(item.reply, where))
    if callable(item) and not isinstance(item, type):
        if not inspect.iscoroutinefunction(item):
            return item
        raise InputError(
            "A FakeChatServer cannot answer with an async function.",
            where=where,
            fix="give a sync one: each request is answered on a worker thread of its own",
            value=item,
        )
    return answer_of(item, where)


def answer_of(item: Any, where: str) -> ChatAnswer:
    """The answer that *item* stands for.

    Raises:
        InputError: It stands for none.
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
            raise InputError(
                f"A FakeChatServer cannot answer with a value of type {type(item).__name__}: {item!r}.",
                where=where,
                known=f"an item is {_KINDS}",
                fix="give one of these; ChatAnswer.failure(500), .drop() and .malformed() make failures",
                value=item,
            )


def _text(content: Any) -> str:
    """The text of *content*, a text or blocks of it, on either wire; results of tools may have blocks of their own."""
    if isinstance(content, str):
        return content
    several = issubclass(type(content), list)
    blocks: list[Any] = [one for one in content if issubclass(type(one), Mapping)] if several else []
    texts = [_text(one.get("text") or one.get("content")) for one in blocks]
    return "\n".join(text for text in texts if text)


def spent(answer: ChatAnswer, request: ChatRequest) -> Usage | None:
    """The usage to report for *answer*, in whatever form the wire has for it."""
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
    """*value* in at most *most* pieces of one length; 0 pieces if it is empty."""
    size = max(1, -(-len(value) // max(1, most)))
    return [value[start : start + size] for start in range(0, len(value), size)]
