"""Base classes of the test doubles: they record calls, complete answers into replies, and fail on mismatches.

`MockHarness`, `ScriptedModel` and `FunctionModel` only add the methods of their protocols.
Nothing here sleeps, draws a random number or opens a connection: the same calls get the same replies.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, Self, overload

from graphrt._arguments import is_list
from graphrt._forks import FreshLock
from graphrt.errors import ScriptError
from graphrt.errors._codes.arguments import ARGUMENT_OUT_OF_BOUNDS, INVALID_ARGUMENT
from graphrt.errors._codes.doubles import (
    SCRIPT_LEFT_OVER,
    SCRIPT_OUTPUT,
    SCRIPT_WRONG_CALL,
)
from graphrt.events import Usage
from graphrt.harness._doubles.script_items import Book
from graphrt.harness._doubles.unused import note
from graphrt.harness._harness_checks import reply_problem
from graphrt.harness.messages import AssistantMessage, ToolCall
from graphrt.harness.protocol import AgentReply
from graphrt.harness.request import ModelRequest
from graphrt.harness.script import (
    REPLIES,
    Answer,
    Expectation,
    clip,
    kind_of,
)
from graphrt.harness.tools._invoke import invoke


class Recorder:
    """Base of all doubles: records calls, and completes answers into replies.

    Args:
        usage: Usage of replies that have none: "words" counts words, None reports unknown usage.
        model: Model name of replies that have none.
        check_calls: Whether tool calls must fit the schemas of these tools.

    Raises:
        InputError: *usage* is something else.
    """

    def __init__(self, *, usage: Usage | Literal["words"] | None, model: str, check_calls: bool = True) -> None:
        value: Any = usage  # untyped: callers without a type checker pass anything
        if value is not None and value != "words" and not isinstance(value, Usage):
            raise INVALID_ARGUMENT(
                argument="usage",
                value=value,
                wanted='"words" to count words, Usage(...) to report that, or None to report nothing',
            )
        self._usage: Final = usage
        self._model: Final = model
        self._check_calls: Final = check_calls
        self._lock: Final = FreshLock()  # reentrant: patterns run under it, and may read `calls` of the double
        self._book = Book(self._name)

    @property
    def calls(self) -> list[ModelRequest]:
        """All 0..n requests so far, including unexpected ones, in order of arrival."""
        with self._lock:
            return list(self._book.calls)

    def _record(self, request: ModelRequest) -> int:
        """Record *request* and return the number of the call, from 1. The caller holds the lock."""
        self._book.calls.append(request)
        return len(self._book.calls)

    async def _finish(self, answer: Answer, request: ModelRequest, number: int) -> AgentReply:
        """Return the complete reply for *answer*. The lock is not held, because *answer* may be code of the user.

        A sync function runs in a worker thread.
        """
        value: Any = answer
        if callable(value) and not isinstance(value, type):
            value = _called(value, request)
            if inspect.isawaitable(value):
                value = await value
        reply = self._reply(value, request, number)
        self._check(reply, request, number)
        usage = _counted_words(request, reply) if self._usage == "words" else self._usage
        return replace(
            reply,
            usage=usage if reply.usage is None else reply.usage,
            model=reply.model or request.model or self._model,
        )

    def refuse_call(self, call: ToolCall, problem: str) -> ScriptError | None:
        """Return the error for a scripted *call* that does not fit the current schema of its tool, and record it.

        Otherwise a renamed parameter would look like a mistake of the model, which the agent lets it correct, and the
        test would continue with the next reply of the script.

        Args:
            call: The call.
            problem: The mismatch, as the tool describes it to the model.

        Returns:
            The error; None with `check_calls=False`.
        """
        if not self._check_calls:
            return None
        failure = SCRIPT_WRONG_CALL(
            double=self._name, tool=call.name, problem=problem, arguments=list(call.arguments), got=call.arguments_text
        )
        with self._lock:
            self._book.failures.append(failure)
        return failure

    def _check(self, reply: AgentReply, request: ModelRequest, number: int) -> None:
        """Check the reply to call *number*. Here every reply passes: a model may also call tools that do not exist."""

    def _reply(self, answer: Any, request: ModelRequest, number: int) -> AgentReply:
        """Turn *answer* into a reply, or raise it if it is an exception.

        Raises:
            InputError: It is None or a class, or a reply with a wrong value.
            ScriptError: It is a value that the `output=` of the call does not allow (`script-output`).
        """
        if issubclass(type(answer), AgentReply):
            return self._sound(answer)
        match answer:
            case type() if issubclass(answer, BaseException):
                raise answer
            case BaseException():
                # A rule may raise the same exception many times, and tracebacks would accumulate.
                raise answer.with_traceback(None)
            case str():
                return AgentReply(text=answer)
            case ToolCall():
                return self._sound(AgentReply(tool_calls=(answer,)))
            case _ if answer is None or issubclass(type(answer), type):
                raise INVALID_ARGUMENT(
                    argument=f"A reply of the {self._name}",
                    value=answer,
                    wanted="one of the known replies",
                    known=REPLIES,
                )
            case _:
                return AgentReply(text=self._written(answer, request, number))

    def _sound(self, reply: AgentReply) -> AgentReply:
        """Return *reply* if an agent can continue it.

        Raises:
            InputError: It cannot. As the answer of a model (`bad-response`), it would be requested again, and the next
                reply of the script would hide it.
        """
        problem = reply_problem(reply)
        if problem is not None:
            raise ARGUMENT_OUT_OF_BOUNDS(
                problem=f"A reply of the {self._name} has {problem}",
                wanted="texts as text= and id=, and tuples as tool_calls= and media=",
                value=reply,
            )
        return reply

    def _written(self, value: Any, request: ModelRequest, number: int) -> str:
        """Return the text that a model would write for *value*, given the `output=` of the call.

        Raises:
            ScriptError: The call has no `output=`, or *value* does not fit it (`script-output`).
        """
        if request.output is None:
            problem, fix = "the call has no output=", _fix(value)
        else:
            from graphrt.harness._output.form import written  # imports pydantic, which only scripted values need

            try:
                return written(value, request.output)
            except ValueError as error:
                problem = f"the call has output={request.output.name}: {error}"
                fix = "Correct the value in the script, or the output= of the call."
        failure = SCRIPT_OUTPUT(
            double=self._name,
            number=number,
            reply=kind_of(value),
            problem=problem,
            expected=None if request.output is None else request.output.name,
            got=type(value).__name__,
            known=clip(repr(value), 200),
            fix=fix,
        )
        with self._lock:  # kept for assert_done(), in case the code under test swallows it
            self._book.failures.append(failure)
        raise failure

    @property
    def _name(self) -> str:
        return type(self).__name__


def _fix(value: Any) -> str:
    """Return what to reply instead of *value*, which is not a reply to a call without `output=`."""
    if isinstance(value, AssistantMessage):
        return "Reply with AgentReply(text=..., tool_calls=(...)): a message is a part of a conversation."
    if is_list(value) and any(isinstance(item, ToolCall) for item in value):
        return "Reply with AgentReply(tool_calls=(...)), which holds several calls."
    return "Reply with a text, or pass output= to the call."


def _called(fn: Callable[[ModelRequest], Any], request: ModelRequest) -> Any:
    """Return the answer of *fn*, or an awaitable of it. A sync function must not block an event loop that runs."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return fn(request)
    return invoke(fn, (request,), {})


def _counted_words(request: ModelRequest, reply: AgentReply) -> Usage:
    """Return a deterministic usage: words of all messages as input tokens, words of the reply as output tokens."""
    input_words = sum(len(message.text.split()) for message in request.messages)
    for message in request.messages:
        if isinstance(message, AssistantMessage):
            input_words += sum(len(call.arguments_text.split()) for call in message.tool_calls)
    output_words = len(reply.text.split()) + sum(len(call.arguments_text.split()) for call in reply.tool_calls)
    return Usage(input_tokens=input_words, output_tokens=output_words, calls=1)


class ScriptPlayer(Recorder):
    """Base of the doubles with a script: follows ordered items and rules, and raises ScriptError on other calls.

    Args:
        script: The ordered items, or the mapping of rules.
        rules: Further rules.
        usage: As for `Recorder`.
        model: As for `Recorder`.

    Raises:
        InputError: The script is a string or not iterable, or contains something that is not a reply.
    """

    @overload
    def __init__(
        self,
        script: Mapping[Any, Answer | Sequence[Answer]],
        *,
        usage: Usage | Literal["words"] | None = "words",
        model: str = "mock",
        check_calls: bool = True,
    ) -> None: ...
    @overload
    def __init__(
        self,
        script: Iterable[Answer | Expectation] = (),
        *,
        rules: Mapping[Any, Answer | Sequence[Answer]] | None = None,
        usage: Usage | Literal["words"] | None = "words",
        model: str = "mock",
        check_calls: bool = True,
    ) -> None: ...
    def __init__(
        self,
        script: Iterable[Answer | Expectation] | Mapping[Any, Answer | Sequence[Answer]] = (),
        *,
        rules: Mapping[Any, Answer | Sequence[Answer]] | None = None,
        usage: Usage | Literal["words"] | None = "words",
        model: str = "mock",
        check_calls: bool = True,
    ) -> None:
        super().__init__(usage=usage, model=model, check_calls=check_calls)
        if isinstance(script, str):
            raise INVALID_ARGUMENT(
                argument=f"The script of a {self._name}", value=script, wanted=f"a list: [{script!r}]"
            )
        if isinstance(script, Mapping):
            rules, script = {**script, **(rules or {})}, ()
        script = self._items(script)
        self._book = Book(self._name, script, rules)
        self._noted = note(self._name, self._book.left_over)

    def _items(self, script: Any) -> list[Any]:
        """Return the items of *script*, checked now, since a later error would be far from where they were written."""
        if not isinstance(script, Iterable):
            raise INVALID_ARGUMENT(
                argument=f"The script of a {self._name}",
                value=script,
                wanted="a list of replies, or a mapping from patterns to replies",
            )
        items: list[Any] = list(script)  # pyright: ignore[reportUnknownArgumentType]  # each is checked below
        for position, item in enumerate(items, 1):
            is_unfit = item is None or (issubclass(type(item), type) and not issubclass(item, BaseException))
            if is_unfit:
                raise INVALID_ARGUMENT(
                    argument=f"A reply of the {self._name}",
                    value=item,
                    wanted="one of the known replies",
                    where=f"item {position} of its script",
                    known=REPLIES,
                )
        return items

    @property
    def remaining(self) -> int:
        """Number of replies that calls must still use up; 0 if `assert_done()` has nothing left over to report."""
        with self._lock:
            return len(self._book.left_over())

    def assert_done(self) -> None:
        """Check that every reply was used and every call was expected.

        Raises:
            ScriptError: The first mismatch, if there was one; else an error that names the replies left over.
        """
        if self._noted is not None:
            self._noted.checked = True
        with self._lock:
            failures, unused, calls = list(self._book.failures), self._book.left_over(), len(self._book.calls)
        if failures:
            raise failures[0].with_traceback(None)
        if unused:
            raise SCRIPT_LEFT_OVER(
                double=self._name,
                number=len(unused),
                calls=calls,
                items="; ".join(unused[:12]),
                and_more=f"; and {len(unused) - 12} more" if len(unused) > 12 else "",
                expected=unused,
                got=[request.text for request in self._book.calls],
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None:  # an exception leaving the block is more informative than leftover replies
            self.assert_done()

    def __repr__(self) -> str:
        return f"{self._name}(calls={len(self._book.calls)}, remaining={self.remaining})"

    async def _answer(self, request: ModelRequest) -> AgentReply:
        with self._lock:
            number = self._record(request)
            answer = self._book.take(request)
            if isinstance(answer, ScriptError):
                self._book.failures.append(answer)
                raise answer
        return await self._finish(answer, request, number)
