"""A harness that follows a script: for tests, examples and continuous integration.

What the script may contain, how calls are matched with it and how a mismatch is reported live here.
Nothing here sleeps, draws a random number or opens a connection: the same calls get the same replies.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self, TypeAlias, Unpack, overload

from graphrt.errors import InputError, ScriptError, names
from graphrt.events import Usage
from graphrt.harness.messages import AssistantMessage, Prompt, ToolCall
from graphrt.harness.protocol import AgentReply, AgentRequest, RunOptions, StreamItem, TextDelta, ToolCallDelta

__all__ = ["Expectation", "MockHarness", "Pattern", "Reply", "expect"]

Pattern: TypeAlias = str | re.Pattern[str] | Callable[[AgentRequest], bool]
"""Which calls are meant: by a part of the last message's text, a search in it, or a look at the whole request."""

Reply: TypeAlias = str | ToolCall | AgentReply | BaseException | type[BaseException]
"""What a call gets: a text, one tool call, a whole reply, or an exception that is raised."""

Answer: TypeAlias = Reply | Callable[[AgentRequest], Reply]
"""A reply, or a pure function that makes it from the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """One place of a script with a condition: what `expect` makes."""

    pattern: Pattern
    reply: Answer


def expect(pattern: Pattern, *, reply: Answer) -> Expectation:
    """One place of a script: the call must match *pattern*, and gets *reply*."""
    return Expectation(pattern=pattern, reply=reply)


@dataclass(slots=True)
class _Rule:
    pattern: Pattern
    replies: deque[Answer] | None
    """What is left, each used once; None if `always` answers any number of calls."""
    always: Answer = ""
    used: int = 0

    def __str__(self) -> str:
        left = "any number of calls" if self.replies is None else f"{len(self.replies)} replies left"
        return f"{_show_pattern(self.pattern)} ({left})"


@dataclass(slots=True)
class _Book:
    """Everything that changes; only touched under the lock."""

    script: deque[Answer | Expectation]
    rules: list[_Rule]
    calls: list[AgentRequest] = field(default_factory=list[AgentRequest])
    failures: list[ScriptError] = field(default_factory=list[ScriptError])
    served: int = 0
    """Places of the script that were used."""


class MockHarness:
    """A harness that answers from a script, and fails loudly when the calls are not those of the script.

    Two forms, which may be combined; a call that matches a rule never touches the ordered script:

    * *script*, a list: call n gets item n. An item is a reply, a function from the request to a reply, or
      `expect(pattern, reply=...)`, which also checks the call.
    * *rules*, a mapping from pattern to reply, for calls whose order is not fixed (parallel tasks). The first pattern
      that matches decides. A single reply answers any number of calls, but at least one; a list answers exactly as
      many as it has items, in the order of arrival.

    Nothing repeats by itself: a call that the script does not expect raises ScriptError, and so does the end of a
    `with` block (or `assert_done()`) if replies are left over or a ScriptError was swallowed on the way.
    It may be called from several tasks, event loops and worker threads at once.

    Args:
        script: The ordered replies, or the mapping of rules.
        rules: The rules, when there is an ordered script too.
        usage: What a reply without usage reports: "words" counts words (of all messages in, of the reply out),
            a Usage is taken as it is, None reports unknown.
        model: Name of the model, in replies that do not say it and for calls that do not choose one.
    """

    @overload
    def __init__(
        self,
        script: Mapping[Any, Answer | Sequence[Answer]],
        *,
        usage: Usage | Literal["words"] | None = "words",
        model: str = "mock",
    ) -> None: ...
    @overload
    def __init__(
        self,
        script: Iterable[Answer | Expectation] = (),
        *,
        rules: Mapping[Any, Answer | Sequence[Answer]] | None = None,
        usage: Usage | Literal["words"] | None = "words",
        model: str = "mock",
    ) -> None: ...
    def __init__(
        self,
        script: Iterable[Answer | Expectation] | Mapping[Any, Answer | Sequence[Answer]] = (),
        *,
        rules: Mapping[Any, Answer | Sequence[Answer]] | None = None,
        usage: Usage | Literal["words"] | None = "words",
        model: str = "mock",
    ) -> None:
        if isinstance(script, str):
            raise InputError("The script of a MockHarness is one string.", fix=f"put it into a list: [{script!r}]")
        if isinstance(script, Mapping):
            rules, script = {**script, **(rules or {})}, ()
        self._usage: Final = usage
        self._model: Final = model
        self._lock: Final = threading.RLock()  # a pattern may look at the harness
        self._book: Final = _Book(script=deque(script), rules=[_rule(*item) for item in (rules or {}).items()])

    async def run(self, prompt: Prompt, /, **options: Unpack[RunOptions]) -> AgentReply:
        """Answer from the script.

        Raises:
            ScriptError: The script does not expect this call, or replies with a tool that the call does not offer.
            BaseException: The script says so.
        """
        return self._answer(AgentRequest.build(prompt, options, defaults={"model": self._model}))

    async def stream(self, prompt: Prompt, /, **options: Unpack[RunOptions]) -> AsyncGenerator[StreamItem, None]:
        """Answer from the script, word by word; a scripted exception is raised before the first word."""
        reply = await self.run(prompt, **options)
        for piece in re.findall(r"\s*\S+|\s+$", reply.text):
            yield TextDelta(text=piece)
        for index, call in enumerate(reply.tool_calls):
            half = (len(call.arguments_text) + 1) // 2
            yield ToolCallDelta(index=index, id=call.id, name=call.name, arguments_text=call.arguments_text[:half])
            yield ToolCallDelta(index=index, arguments_text=call.arguments_text[half:])
        yield reply

    @property
    def calls(self) -> list[AgentRequest]:
        """0..n requests so far, the unexpected ones included, in the order of their arrival."""
        with self._lock:
            return list(self._book.calls)

    @property
    def remaining(self) -> int:
        """Replies that must still be asked for: 0 if `assert_done()` has nothing left over to report."""
        with self._lock:
            return len(self._left_over())

    def assert_done(self) -> None:
        """Check that every reply was used and every call was expected.

        Raises:
            ScriptError: It was not so; the text names what was left over, or repeats the first mismatch.
        """
        with self._lock:
            failures, left, calls = list(self._book.failures), self._left_over(), len(self._book.calls)
        if failures:
            raise failures[0].with_traceback(None)
        if left:
            raise ScriptError(
                f"The script of the MockHarness was not used up: {len(left)} left over after {calls} calls.",
                known="; ".join(left[:12]) + (f"; and {len(left) - 12} more" if len(left) > 12 else ""),
                fix="remove them from the script, or find out why the calls were not made",
                code="script-left-over",
                expected=left,
                got=[request.text for request in self._book.calls],
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None:  # else the exception on its way says more
            self.assert_done()

    def __repr__(self) -> str:
        return f"MockHarness(calls={len(self._book.calls)}, remaining={self.remaining})"

    def _left_over(self) -> list[str]:
        book = self._book
        left = [f"item {n}: {_show(item)}" for n, item in enumerate(book.script, book.served + 1)]
        for rule in book.rules:
            if rule.replies is None and not rule.used:
                left.append(f"rule {_show_pattern(rule.pattern)}: never matched")
            left += [f"rule {_show_pattern(rule.pattern)}: {_show(item)}" for item in rule.replies or ()]
        return left

    def _answer(self, request: AgentRequest) -> AgentReply:
        with self._lock:
            self._book.calls.append(request)
            found = self._take(request)
            if isinstance(found, ScriptError):
                self._book.failures.append(found)
                raise found
        reply = self._finish(found, request)  # outside the lock: may call user code
        unbound = [call.name for call in reply.tool_calls if call.name not in {tool.name for tool in request.tools}]
        if unbound:
            failure = ScriptError(
                f"The script replies with a call of tool {unbound[0]!r}, which call {len(self.calls)} does not offer.",
                known=f"offered: {names(tool.name for tool in request.tools) or 'no tools'}",
                fix="pass the ToolSpec in tools=[...], or correct the script",
                code="script-unknown-tool",
                expected=unbound,
                got=[tool.name for tool in request.tools],
            )
            with self._lock:
                self._book.failures.append(failure)
            raise failure
        return reply

    def _take(self, request: AgentRequest) -> Answer | ScriptError:
        book = self._book
        for rule in book.rules:
            if _matches(rule.pattern, request):
                if rule.replies is None:
                    rule.used += 1
                    return rule.always
                if not rule.replies:
                    return self._mismatch(request, f"no more calls that match {_show_pattern(rule.pattern)}")
                return rule.replies.popleft()
        if not book.script:
            return self._mismatch(request, "no more calls" if book.served or not book.rules else "a call of a rule")
        item = book.script[0]
        if isinstance(item, Expectation):
            if not _matches(item.pattern, request):
                return self._mismatch(request, f"a call that matches {_show_pattern(item.pattern)}")
            item = item.reply
        book.script.popleft()
        book.served += 1
        return item

    def _mismatch(self, request: AgentRequest, expected: str) -> ScriptError:
        book = self._book
        rules = f"; rules {', '.join(map(str, book.rules))}" if book.rules else ""
        return ScriptError(
            f"The MockHarness expected {expected}, but got a call with {_clip(request.text, 200)!r}.",
            where=f"call {len(book.calls)}, after {book.served} items of the script",
            known=f"{len(book.script)} items of the script left{rules}",
            fix="add the reply to the script, or find out why the call was made",
            code="script-unexpected-call",
            expected=expected,
            got=request.text,
        )

    def _finish(self, answer: Answer, request: AgentRequest) -> AgentReply:
        if callable(answer) and not isinstance(answer, type):
            answer = answer(request)
        match answer:
            case type() if issubclass(answer, BaseException):
                raise answer
            case BaseException():
                raise answer.with_traceback(None)
            case str():
                reply = AgentReply(text=answer)
            case ToolCall():
                reply = AgentReply(tool_calls=(answer,))
            case AgentReply():
                reply = answer
            case _:
                raise InputError(
                    f"The script of the MockHarness contains a value of type {type(answer).__name__}.",
                    known="a reply is a text, a ToolCall, an AgentReply, an exception or a function that makes one",
                    value=answer,
                )
        usage = _count_words(request, reply) if self._usage == "words" else self._usage
        return AgentReply(
            text=reply.text,
            tool_calls=reply.tool_calls,
            usage=usage if reply.usage is None else reply.usage,
            finish_reason=reply.finish_reason,
            model=reply.model or request.model,
        )


def _rule(pattern: Pattern, replies: Answer | Sequence[Answer]) -> _Rule:
    given: Any = replies  # a plain bool below: a checker cannot tell that no Answer is a sequence
    several = isinstance(replies, Sequence) and not isinstance(replies, str)
    return _Rule(pattern, deque(given)) if several else _Rule(pattern, None, given)


def _matches(pattern: Pattern, request: AgentRequest) -> bool:
    if isinstance(pattern, str):
        return pattern in request.text
    if isinstance(pattern, re.Pattern):
        return pattern.search(request.text) is not None
    return bool(pattern(request))


def _show_pattern(pattern: Pattern) -> str:
    if isinstance(pattern, str):
        return repr(_clip(pattern, 80))
    if isinstance(pattern, re.Pattern):
        return f"/{pattern.pattern}/"
    return f"{getattr(pattern, '__qualname__', pattern)}(request)"


def _show(item: Answer | Expectation) -> str:
    if isinstance(item, Expectation):
        return f"expect {_show_pattern(item.pattern)}"
    return f"reply {_clip(item if isinstance(item, str) else repr(item), 80)!r}"


def _clip(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _count_words(request: AgentRequest, reply: AgentReply) -> Usage:
    asked = sum(len(message.text.split()) for message in request.messages)
    for message in request.messages:
        if isinstance(message, AssistantMessage):
            asked += sum(len(call.arguments_text.split()) for call in message.tool_calls)
    told = len(reply.text.split()) + sum(len(call.arguments_text.split()) for call in reply.tool_calls)
    return Usage(input_tokens=asked, output_tokens=told, calls=1)
