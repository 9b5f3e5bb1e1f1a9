"""Test doubles of models: `ScriptedModel` follows a script, `FunctionModel` calls a function.

Only the methods of a model live here. `script` defines what a script may contain, `_doubles` how it is followed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, final, overload

from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.events import Usage
from graphrt.harness._doubles.playback import Recorder, ScriptPlayer
from graphrt.harness._doubles.reply_pieces import pieces
from graphrt.harness._doubles.unused import note
from graphrt.harness.protocol import ModelProfile, ModelResponse, StreamItem
from graphrt.harness.request import ModelRequest
from graphrt.harness.script import Answer, Expectation, Reply

__all__ = ["FunctionModel", "ScriptedModel"]


@final
class ScriptedModel(ScriptPlayer):
    """A model that answers from a script, and raises ScriptError when the calls differ from the script.

    Script and rules are those of `MockHarness`, and as strict. It stands in for the model of an agent, where
    MockHarness stands in for the agent. Like a real model it may call tools that were not offered; the agent's
    `unknown_tool=` decides what follows.
    It may be called from several tasks, event loops and worker threads at once. An ordered script answers calls in
    order of arrival, so use rules for calls that are made at the same time.

    Args:
        script: The ordered replies, or the mapping of rules.
        rules: The rules, if there is an ordered script too.
        usage: Usage of responses that have none: "words" counts words (of all messages in, of the response out), a
            Usage is used as is, None reports unknown usage.
        profile: Profile of the model; its name goes into responses that have no model name.
        check_calls: Whether a call of a tool that does not fit the tool's present schema raises ScriptError, whatever
            the agent does about wrong calls of real models. False for a test of such a call.
    """

    @overload
    def __init__(
        self,
        script: Mapping[Any, Answer | Sequence[Answer]],
        *,
        usage: Usage | Literal["words"] | None = "words",
        profile: ModelProfile | None = None,
        check_calls: bool = True,
    ) -> None: ...
    @overload
    def __init__(
        self,
        script: Iterable[Answer | Expectation] = (),
        *,
        rules: Mapping[Any, Answer | Sequence[Answer]] | None = None,
        usage: Usage | Literal["words"] | None = "words",
        profile: ModelProfile | None = None,
        check_calls: bool = True,
    ) -> None: ...
    def __init__(
        self,
        script: Iterable[Answer | Expectation] | Mapping[Any, Answer | Sequence[Answer]] = (),
        *,
        rules: Mapping[Any, Answer | Sequence[Answer]] | None = None,
        usage: Usage | Literal["words"] | None = "words",
        profile: ModelProfile | None = None,
        check_calls: bool = True,
    ) -> None:
        self._profile: Final = profile or ModelProfile(name="scripted")
        untyped: Any = script
        super().__init__(untyped, rules=rules, usage=usage, model=self._profile.name, check_calls=check_calls)

    @property
    def profile(self) -> ModelProfile:
        """The given profile, or one with the name "scripted" alone."""
        return self._profile

    async def invoke(self, request: ModelRequest, /) -> ModelResponse:
        """Answer from the script.

        Raises:
            ScriptError: The script does not expect this call.
            BaseException: The scripted exception.
        """
        return await self._answer(request)

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamItem, None]:
        """Answer from the script, word by word; a scripted exception is raised before the first word."""
        response = await self._answer(request)
        for piece in pieces(response):
            yield piece
        yield response


@final
class FunctionModel(Recorder):
    """A model that calls a function, sync or async, which makes a reply from the request: a text, ToolCall, AgentReply.

    A sync function runs in a worker thread, so that one that waits does not block the event loop.
    Like a real model it may call tools that were not offered; the agent's `unknown_tool=` decides what follows.
    It may be called from several tasks, event loops and worker threads at once, if the function may.

    Args:
        fn: The function. Its exceptions are raised to the caller.
        usage: Usage of responses that have none, as for `ScriptedModel`.
        profile: Profile of the model; its name goes into responses that have no model name.
        check_calls: As for `ScriptedModel`, but off by default: a function may try out wrong calls, as a model does.

    Raises:
        InputError: *fn* is not callable, or is a class.
    """

    def __init__(
        self,
        fn: Callable[[ModelRequest], Reply | Awaitable[Reply]],
        *,
        usage: Usage | Literal["words"] | None = "words",
        profile: ModelProfile | None = None,
        check_calls: bool = False,
    ) -> None:
        self._profile: Final = profile or ModelProfile(name="function")
        super().__init__(usage=usage, model=self._profile.name, check_calls=check_calls)
        value: Any = fn  # untyped: callers without a type checker pass anything
        if not callable(value) or isinstance(value, type):
            raise INVALID_ARGUMENT(
                argument="The function of a FunctionModel",
                value=fn,
                wanted="a function from ModelRequest to a reply, or use ScriptedModel([...])",
            )
        self._fn: Final = fn
        calls = self._book.calls
        self._noted = note(self._name, lambda: [] if calls else ["it was never called"])

    @property
    def profile(self) -> ModelProfile:
        """The given profile, or one with the name "function" alone."""
        return self._profile

    async def invoke(self, request: ModelRequest, /) -> ModelResponse:
        """Answer with the reply that the function returns.

        Raises:
            BaseException: The function raised it.
        """
        with self._lock:
            number = self._record(request)
        return await self._finish(self._fn, request, number)

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamItem, None]:
        """Answer with the reply that the function returns, word by word."""
        response = await self.invoke(request)
        for piece in pieces(response):
            yield piece
        yield response

    def __repr__(self) -> str:
        return f"FunctionModel({self._profile.name!r}, calls={len(self.calls)})"
