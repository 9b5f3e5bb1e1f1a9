"""Models without a provider: one that follows a script, and one that is a function.

Only the protocol of a model lives here; what a script may contain is `script`'s, how it is followed `playback`'s.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, final, overload

from graphrt.errors import InputError
from graphrt.events import Usage
from graphrt.harness._doubles.playback import Recorder, ScriptPlayer
from graphrt.harness._doubles.reply_pieces import pieces
from graphrt.harness.protocol import ModelProfile, ModelResponse, StreamItem
from graphrt.harness.request import ModelRequest
from graphrt.harness.script import Answer, Expectation, Reply

__all__ = ["FunctionModel", "ScriptedModel"]


@final
class ScriptedModel(ScriptPlayer):
    """A model that answers from a script, and fails loudly when the calls are not those of the script.

    Script and rules are those of `MockHarness`, as strict as there; it stands in for the model of an agent, where
    MockHarness stands in for the agent. Like a model it may call tools that were not offered: what becomes of such a
    call is the agent's `unknown_tool=`.
    It may be called from several tasks, event loops and worker threads at once; an ordered script answers them in the
    order in which they come, so give rules where several ask at once.

    Args:
        script: The ordered replies, or the mapping of rules.
        rules: The rules, when there is an ordered script too.
        usage: What a response without usage reports: "words" counts words (of all messages in, of the response out),
            a Usage is taken as it is, None reports unknown.
        profile: What the model says of itself; its name is in responses that do not say theirs.
    """

    @overload
    def __init__(
        self,
        script: Mapping[Any, Answer | Sequence[Answer]],
        *,
        usage: Usage | Literal["words"] | None = "words",
        profile: ModelProfile | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        script: Iterable[Answer | Expectation] = (),
        *,
        rules: Mapping[Any, Answer | Sequence[Answer]] | None = None,
        usage: Usage | Literal["words"] | None = "words",
        profile: ModelProfile | None = None,
    ) -> None: ...
    def __init__(
        self,
        script: Iterable[Answer | Expectation] | Mapping[Any, Answer | Sequence[Answer]] = (),
        *,
        rules: Mapping[Any, Answer | Sequence[Answer]] | None = None,
        usage: Usage | Literal["words"] | None = "words",
        profile: ModelProfile | None = None,
    ) -> None:
        self._profile: Final = profile or ModelProfile(name="scripted")
        super().__init__(script, rules, usage=usage, model=self._profile.name)

    @property
    def profile(self) -> ModelProfile:
        """What the model says of itself."""
        return self._profile

    async def invoke(self, request: ModelRequest, /) -> ModelResponse:
        """Answer from the script.

        Raises:
            ScriptError: The script does not expect this call.
            BaseException: The script says so.
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
    """A model that is a function, sync or async, from the request to a reply: a text, a ToolCall, an AgentReply.

    Like a model it may call tools that were not offered: what becomes of such a call is the agent's `unknown_tool=`.
    It may be called from several tasks, event loops and worker threads at once; then the function must bear it too.

    Args:
        fn: The function. What it raises is raised to the caller.
        usage: What a response without usage reports, as for `ScriptedModel`.
        profile: What the model says of itself; its name is in responses that do not say theirs.

    Raises:
        InputError: *fn* cannot be called.
    """

    def __init__(
        self,
        fn: Callable[[ModelRequest], Reply | Awaitable[Reply]],
        *,
        usage: Usage | Literal["words"] | None = "words",
        profile: ModelProfile | None = None,
    ) -> None:
        self._profile: Final = profile or ModelProfile(name="function")
        super().__init__(usage=usage, model=self._profile.name)
        given: Any = fn  # callers without a type checker get here too
        if not callable(given) or isinstance(given, type):
            raise InputError(
                f"A FunctionModel needs a function, not a value of type {type(fn).__name__}.",
                fix="give a function from ModelRequest to a reply, or use ScriptedModel([...])",
                value=fn,
            )
        self._fn: Final = fn

    @property
    def profile(self) -> ModelProfile:
        """What the model says of itself."""
        return self._profile

    async def invoke(self, request: ModelRequest, /) -> ModelResponse:
        """Answer with what the function returns.

        Raises:
            BaseException: The function raised it.
        """
        with self._lock:
            number = self._record(request)
        return await self._finish(self._fn, request, number)

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamItem, None]:
        """Answer with what the function returns, word by word."""
        response = await self.invoke(request)
        for piece in pieces(response):
            yield piece
        yield response

    def __repr__(self) -> str:
        return f"FunctionModel({self._profile.name!r}, calls={len(self.calls)})"
