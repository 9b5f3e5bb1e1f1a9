"""Cassettes: the answers of a model, recorded once and replayed in every test.

What a user holds lives here. Forms, file, order and the single call are the business of `_canonical`, `_cassette_file`, `_recordings`
and `_exchange`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias, Unpack, final, get_args

from pydantic import TypeAdapter

from graphrt.errors import InputError, names
from graphrt.harness._doubles.reply_pieces import pieces as cut
from graphrt.harness._harness_checks import check_harness, kind, lack, usable
from graphrt.harness.cassette._cassette_file import CassetteFile
from graphrt.harness.cassette._exchange import Exchange, close
from graphrt.harness.cassette._recordings import Recordings
from graphrt.harness.messages import Prompt
from graphrt.harness.protocol import AgentHarness, AgentReply, ChatModel, ModelProfile, ModelResponse, StreamItem
from graphrt.harness.request import ModelRequest, RunOptions

__all__ = ["Cassette", "CassetteMode", "RecordedHarness", "RecordedModel"]

CassetteMode: TypeAlias = Literal["replay", "record", "rewrite", "live"]
"""Whether the live model may be asked: never, for what is not recorded yet, for everything anew, always."""

_VARIABLE: Final = "GRAPHRT_CASSETTE"


@final
class Cassette:
    """Answers of models and harnesses, kept in a file that stands beside the test.

    The same call asked several times gets its answers in the order in which they were asked for; different calls may
    come in any order. A call that is not recorded never reaches the live model: it raises ScriptError, with the
    difference to the nearest recording. It may be used from several tasks, event loops and worker threads at once.

    Modes:

    * "replay", the default: only the file answers.
    * "record": the file answers; what it does not have is asked live and added.
    * "rewrite": everything is asked live; the first answer takes the place of all that the file had.
    * "live": everything is asked live, and the file is not looked at.

    While recording, a run gets the answers as they are written: without secrets, just as every replay will give them.
    Recorded are replies and the errors of `graphrt.errors` that models raise; not those of doubles, nor other
    exceptions, cancelled calls and streams that nobody read to the end.

    Args:
        path: The file; folders are made when it is written.
        mode: As above. None: what the environment variable GRAPHRT_CASSETTE says, else "replay".
        redact: From a text to the text that may be written, after credentials were taken out. It must be pure.
        strict: Whether the end of a `with` block fails if nobody asked for some of the recordings.

    Raises:
        InputError: There is no such mode.
        ScriptError: The file is missing, damaged, of a newer version, or cannot be read or written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        mode: CassetteMode | None = None,
        redact: Callable[[str], str] | None = None,
        strict: bool = True,
    ) -> None:
        self.path: Final = Path(path).resolve()
        self.mode: Final[CassetteMode] = _mode(mode)
        self._strict: Final = strict
        self._hook: Final = redact
        self._recordings: Final = (
            None
            if self.mode == "live"
            else Recordings(CassetteFile(self.path), records=self.mode != "replay", anew=self.mode == "rewrite")
        )

    def model(self, model: ChatModel) -> RecordedModel:
        """*model*, with this cassette between it and its caller; in replay only its profile is looked at.

        Raises:
            InputError: It is no model.
        """
        return RecordedModel(self, _checked_model(model))

    def harness(self, harness: AgentHarness | None = None, *, name: str = "", output: Any = None) -> RecordedHarness:
        """*harness*, with this cassette between it and its caller.

        Args:
            harness: Who is asked live. May be left out in replay, unless it has `defaults`, RunOptions of its own
                that belong to what is asked.
            name: Tells several harnesses of one cassette apart, if they may be asked the same.
            output: The type of `reply.output`, if it is anything but JSON data; what a `TypeAdapter` takes.

        Raises:
            InputError: There is no harness, and the mode may need one; or it is none.
        """
        if harness is None and self.mode != "replay":
            raise InputError(
                f"The cassette is in mode {self.mode!r} and was given no harness to ask.",
                fix="give the live harness: cassette.harness(LiteLLMHarness(...))",
            )
        return RecordedHarness(self, _checked_harness(harness), name=name, output=output)

    @property
    def remaining(self) -> int:
        """Recordings that nobody asked for yet."""
        return 0 if self._recordings is None else len(self._recordings.unused)

    def assert_done(self) -> None:
        """Check that every call was recorded and every recording asked for.

        Raises:
            ScriptError: It was not so; the text names what was left over, or repeats the first miss.
        """
        if self._recordings is not None:
            self._recordings.check(unused=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None and self._recordings is not None:  # else the exception on its way says more
            self._recordings.check(unused=self._strict)

    def __repr__(self) -> str:
        return f"Cassette({str(self.path)!r}, mode={self.mode!r}, remaining={self.remaining})"


@final
class RecordedModel:
    """A ChatModel behind a cassette: what `Cassette.model` makes."""

    def __init__(self, cassette: Cassette, model: ChatModel) -> None:
        self._cassette: Final = cassette
        self._model: Final = model

    @property
    def profile(self) -> ModelProfile:
        """What the live model says of itself."""
        return self._model.profile

    async def invoke(self, request: ModelRequest, /) -> ModelResponse:
        """Answer from the cassette, or live where its mode says so.

        Raises:
            ScriptError: The call is not recorded.
            HarnessError: The call failed, now or when it was recorded.
        """
        recordings = self._cassette._recordings
        if recordings is None:
            return await self._model.invoke(request)
        exchange = Exchange(recordings, self._cassette._hook, request, model=self.profile.name)
        return await exchange.answer(lambda: self._model.invoke(request), None)

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamItem, None]:
        """The same in pieces; an answer that was recorded whole comes word by word."""
        recordings = self._cassette._recordings
        if recordings is None:
            items = self._model.stream(request)
        else:
            exchange = Exchange(recordings, self._cassette._hook, request, model=self.profile.name)
            items = exchange.stream(lambda: self._model.stream(request), None)
        try:
            async for item in items:
                yield item
        finally:
            await close(items)


@final
class RecordedHarness:
    """An AgentHarness behind a cassette: what `Cassette.harness` makes."""

    def __init__(self, cassette: Cassette, harness: AgentHarness | None, *, name: str, output: Any) -> None:
        self._cassette: Final = cassette
        self._harness: Final[Any] = harness
        self._name: Final = name
        self._output: Final[TypeAdapter[Any] | None] = None if output is None else TypeAdapter(output)

    async def run(self, prompt: Prompt, /, **options: Unpack[RunOptions]) -> AgentReply:
        """Answer from the cassette, or live where its mode says so.

        Raises:
            InputError: The prompt or an option is wrong.
            ScriptError: The call is not recorded.
            HarnessError: The call failed, now or when it was recorded.
        """
        recordings = self._cassette._recordings
        if recordings is None:
            reply: AgentReply = await self._harness.run(prompt, **options)
            return reply
        exchange = self._exchange(recordings, prompt, options)
        return await exchange.answer(lambda: self._harness.run(prompt, **options), self._output)

    async def stream(self, prompt: Prompt, /, **options: Unpack[RunOptions]) -> AsyncGenerator[StreamItem, None]:
        """The same in pieces; an answer that was recorded whole comes word by word."""
        recordings = self._cassette._recordings
        if recordings is None:
            items = self._live(prompt, options)
        else:
            exchange = self._exchange(recordings, prompt, options)
            items = exchange.stream(lambda: self._live(prompt, options), self._output)
        try:
            async for item in items:
                yield item
        finally:
            await close(items)

    def __getattr__(self, name: str) -> Any:
        """What else the live harness has, such as its profile; not its ways around the cassette."""
        if name.startswith("_") or self._harness is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._harness, name)

    def _exchange(self, recordings: Recordings, prompt: Prompt, options: RunOptions) -> Exchange:
        request = ModelRequest.build(prompt, options, defaults=getattr(self._harness, "defaults", None))
        return Exchange(recordings, self._cassette._hook, request, harness=self._name, alone=self._harness is None)

    async def _live(self, prompt: Prompt, options: RunOptions) -> AsyncGenerator[StreamItem, None]:
        if hasattr(self._harness, "stream"):
            items = self._harness.stream(prompt, **options)
            try:
                async for item in items:
                    yield item
            finally:
                await close(items)
            return
        reply: AgentReply = await self._harness.run(prompt, **options)
        for piece in cut(reply):
            yield piece
        yield reply


def _checked_model(model: Any) -> ChatModel:
    if not usable(model, "invoke"):
        if isinstance(model, str):
            fix = f"make the model: cassette.model(LiteLLMModel({model!r}))"
        elif usable(model, "run"):
            fix = "it is a harness: use cassette.harness(...), or put the cassette around the model that it asks"
        else:
            fix = "give a ChatModel: cassette.model(LiteLLMModel(...))"
        raise InputError(
            f"cassette.model() takes a ChatModel, not {kind(model)}.",
            known=lack(model, "invoke"),
            fix=fix,
            code="no-model",
            value=model,
        )
    checked: ChatModel = model
    return checked


def _checked_harness(harness: Any) -> AgentHarness | None:
    if harness is not None:
        check_harness(
            harness,
            taker="cassette.harness() takes a harness",
            of_model="it is a model: use cassette.model(...), or give an agent that asks it: cassette.harness(Agent(...))",
            otherwise="give a harness: cassette.harness(Agent(...)), or any object with an async run()",
        )
    checked: AgentHarness | None = harness
    return checked


def _mode(given: CassetteMode | None) -> CassetteMode:
    mode: Any = given or os.environ.get(_VARIABLE) or "replay"
    if mode not in get_args(CassetteMode):
        raise InputError(
            f"There is no mode {mode!r} of a cassette.",
            where="the argument mode" if given else f"the environment variable {_VARIABLE}",
            known=names(get_args(CassetteMode)),
            fix="use one of these",
            code="cassette-mode",
            value=mode,
        )
    chosen: CassetteMode = mode
    return chosen
