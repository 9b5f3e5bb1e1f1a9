"""`Cassette` and the model and harness that it wraps: the public face of recording and replay.

MCP servers are wrapped in `_mcp`. `_exchange` handles the single call, `_recordings` the order of recordings,
`_canonical` the comparison of requests, and `_cassette_file` the file.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias, Unpack, final, get_args

from pydantic import TypeAdapter

from graphrt._arguments import checked_path
from graphrt.errors import ToolArgumentsError, names
from graphrt.errors._codes.agents import NO_MODEL
from graphrt.errors._codes.arguments import ARGUMENT_NEEDS_ANOTHER, INVALID_ARGUMENT
from graphrt.errors._codes.doubles import SCRIPT_WRONG_CALL
from graphrt.harness._doubles.reply_pieces import pieces as cut
from graphrt.harness._doubles.unused import excuse, note_cassette
from graphrt.harness._harness_checks import check_harness, kind, lack, usable
from graphrt.harness.cassette._cassette_file import CassetteFile
from graphrt.harness.cassette._exchange import Exchange, close
from graphrt.harness.cassette._recordings import Recordings
from graphrt.harness.messages import AssistantMessage, Prompt, ToolMessage
from graphrt.harness.protocol import AgentHarness, AgentReply, ChatModel, ModelProfile, ModelResponse, StreamItem
from graphrt.harness.request import ModelRequest, RunOptions
from graphrt.harness.tools.registry import ToolRegistry, needing_graph

if TYPE_CHECKING:
    from graphrt.harness.cassette._mcp import RecordedMcpServer
    from graphrt.harness.tools.mcp._server import McpServer
    from graphrt.harness.tools.protocol import Tool

__all__ = ["Cassette", "CassetteMode", "RecordedHarness", "RecordedModel"]

CassetteMode: TypeAlias = Literal["replay", "record", "rewrite", "live"]
"""When the live model is called: never ("replay"), for calls that are not recorded ("record"), for every call, which
replaces the recordings ("rewrite"), or for every call without a file ("live")."""

_VARIABLE: Final = "GRAPHRT_CASSETTE"


@final
class Cassette:
    """Replies of models and harnesses, and results of MCP servers, recorded in a file and replayed in tests.

    If the same call is made several times, it gets its recordings in the order in which the calls were started; different
    calls may come in any order. In mode "replay" a call that is not recorded raises ScriptError, with the difference to
    the closest recording. A cassette may be used from several tasks, event loops and worker threads at once.

    Modes:

    * "replay", the default: only the file is used.
    * "record": calls that are in the file are replayed; others are made live and added to it.
    * "rewrite": every call is made live; the first reply replaces all that was in the file.
    * "live": every call is made live, and the file is neither read nor written.

    While recording, the caller gets each reply as it is written: without secrets, exactly as a replay returns it.
    Replies are recorded, and errors of `graphrt.errors` that models raise. Not recorded are errors of doubles, other
    exceptions, cancelled calls, and streams that were not read to the end.

    Args:
        path: The file. Its folders are created when it is written.
        mode: One of the modes above. None: the environment variable GRAPHRT_CASSETTE, else "replay".
        redact: Returns the text that may be written for a text from which credentials were removed already. It must be
            pure.
        strict: Whether the end of a `with` block fails if recordings were not used.

    Raises:
        InputError: The mode is unknown (`input`).
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
        self.path: Final = Path(checked_path(path)).resolve()
        self.mode: Final[CassetteMode] = _mode(mode)
        self._strict: Final = strict
        self._hook: Final = redact
        self._recordings: Final = (
            None
            if self.mode == "live"
            else Recordings(CassetteFile(self.path), records=self.mode != "replay", rewrites=self.mode == "rewrite")
        )

        if self._recordings is not None and self.mode == "replay":
            note_cassette(str(self.path), self._recordings.unused_lines)

    def model(self, model: ChatModel) -> RecordedModel:
        """Wrap *model* with this cassette. In mode "replay" only its profile is used.

        Raises:
            InputError: *model* is not a ChatModel (`no-model`).
        """
        self._excuse(model)
        return RecordedModel(self, _checked_model(model))

    def harness(self, harness: AgentHarness | None = None, *, name: str = "", output: Any = None) -> RecordedHarness:
        """Wrap *harness* with this cassette.

        Args:
            harness: The harness that is called live. It may be left out in mode "replay", unless it has `defaults`:
                RunOptions of its own, which are part of each request.
            name: Distinguishes several harnesses of one cassette, if they may receive equal calls.
            output: The type of `reply.output`, if that is not JSON data: anything that `TypeAdapter` accepts.

        Raises:
            InputError: The harness is missing in a mode that may call it, or is not a harness.
        """
        if harness is None and self.mode != "replay":
            raise ARGUMENT_NEEDS_ANOTHER(
                argument=f"A cassette in mode {self.mode!r}",
                missing="a harness to ask",
                fix="Give the live harness: cassette.harness(LiteLLMHarness(...)).",
            )
        self._excuse(harness)
        return RecordedHarness(self, _checked_harness(harness), name=name, output=output)

    def mcp(self, server: McpServer) -> RecordedMcpServer:
        """Wrap *server* with this cassette: its list of tools and its calls. In mode "replay" it is never started.

        `async with cassette.mcp(server) as recorded:` gives `await recorded.tools()` to an agent, as without a cassette.

        Raises:
            InputError: *server* is not an McpServer (`input`).
        """
        from graphrt.harness.cassette._mcp import RecordedMcpServer

        return RecordedMcpServer(server, self._recordings, self._hook, is_live=self.mode != "replay")

    def _excuse(self, double: Any) -> None:
        """Keep *double* out of the session's summary of unused doubles, if recordings may answer in its place."""
        if self.mode in ("replay", "record"):
            excuse(double)

    @property
    def remaining(self) -> int:
        """Number of recordings that have not been used yet."""
        return 0 if self._recordings is None else len(self._recordings.unused)

    def assert_done(self) -> None:
        """Check that every call was recorded and every recording was used.

        Raises:
            ScriptError: A call was not recorded (`cassette-miss`, the first one again), or recordings were not used
                (`cassette-unused`, with their prompts).
        """
        if self._recordings is not None:
            self._recordings.check(unused=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None and self._recordings is not None:  # otherwise the exception in flight is more informative
            self._recordings.check(unused=self._strict)

    def __repr__(self) -> str:
        return f"Cassette({str(self.path)!r}, mode={self.mode!r}, remaining={self.remaining})"


@final
class RecordedModel:
    """A ChatModel with a cassette around it; made by `Cassette.model`."""

    def __init__(self, cassette: Cassette, model: ChatModel) -> None:
        self._cassette: Final = cassette
        self._model: Final = model

    @property
    def profile(self) -> ModelProfile:
        """Profile of the live model."""
        return self._model.profile

    async def invoke(self, request: ModelRequest, /) -> ModelResponse:
        """Return the recorded reply, or call the live model if the mode allows it.

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
        """Yield the reply in pieces; one that was recorded without a stream comes word by word. Errors as `invoke`."""
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
    """An AgentHarness with a cassette around it; made by `Cassette.harness`."""

    def __init__(self, cassette: Cassette, harness: AgentHarness | None, *, name: str, output: Any) -> None:
        self._cassette: Final = cassette
        self._harness: Final[Any] = harness
        self._name: Final = name
        self._output: Final[TypeAdapter[Any] | None] = None if output is None else TypeAdapter(output)

    async def run(self, prompt: Prompt, /, **options: Unpack[RunOptions]) -> AgentReply:
        """Return the recorded reply, or call the live harness if the mode allows it.

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
        reply = await exchange.answer(lambda: self._harness.run(prompt, **options), self._output)
        self._check_calls(recordings, reply)
        return reply

    async def stream(self, prompt: Prompt, /, **options: Unpack[RunOptions]) -> AsyncGenerator[StreamItem, None]:
        """Yield the reply in pieces; one that was recorded without a stream comes word by word. Errors as `run`."""
        recordings = self._cassette._recordings
        if recordings is None:
            items = self._live(prompt, options)
        else:
            exchange = self._exchange(recordings, prompt, options)
            items = exchange.stream(lambda: self._live(prompt, options), self._output)
        try:
            async for item in items:
                if recordings is not None and isinstance(item, AgentReply):
                    self._check_calls(recordings, item)
                yield item
        finally:
            await close(items)

    def _check_calls(self, recordings: Recordings, reply: AgentReply) -> None:
        """Check the tool calls in a recorded conversation against the tools that the agent has now.

        The calls were made during the recording, and are not repeated: without this check the test would still pass
        after a parameter was renamed. Calls that failed then are skipped.

        Raises:
            ScriptError: A call does not fit its tool now (`script-wrong-call`).
        """
        if not isinstance(getattr(self._harness, "tools", None), ToolRegistry):
            return
        tools = {
            tool.spec.name: tool for tool in reversed(self._harness.__graphrt_tools__())
        }  # of all its handoffs, too
        failed = {
            message.tool_call_id for message in reply.messages if isinstance(message, ToolMessage) and message.error
        }
        calls = (
            call for message in reply.messages if isinstance(message, AssistantMessage) for call in message.tool_calls
        )
        for call in calls:
            if call.id in failed or call.error is not None:
                continue
            try:
                problem = "" if call.name in tools else f"the agent has the tools {names(tools) or 'none'}."
                if not problem:
                    tools[call.name].check(call.arguments)
            except ToolArgumentsError as error:
                problem = error.what
            if problem:
                raise recordings.failed(
                    SCRIPT_WRONG_CALL(
                        double="cassette",
                        tool=call.name,
                        problem=problem,
                        arguments=list(call.arguments),
                        got=call.arguments_text,
                        where=str(self._cassette.path),
                        fix="Re-record the conversation: GRAPHRT_CASSETTE=rewrite asks the live model.",
                    )
                ) from None

    def __getattr__(self, name: str) -> Any:
        """Return other public attributes of the live harness, such as its profile."""
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
        raise NO_MODEL(
            of="The model of cassette.model()",
            given=kind(model),
            lack=lack(model, "invoke"),
            value=model,
            fix=fix,
        )
    checked: ChatModel = model
    return checked


def _tools_of(harness: Any) -> Iterable[Tool]:
    """Return the tools that an agent, and those that it may hand over to, can call; nothing for another harness."""
    tools: Iterable[Tool] = harness.__graphrt_tools__() if hasattr(harness, "__graphrt_tools__") else ()
    return tools


def _checked_harness(harness: Any) -> AgentHarness | None:
    if harness is not None:
        check_harness(
            harness,
            taker="cassette.harness() takes a harness",
            of_model="it is a model: use cassette.model(...), or give an agent that asks it: cassette.harness(Agent(...))",
            otherwise="give a harness: cassette.harness(Agent(...)), or any object with an async run()",
        )
    tool = next((tool for tool, _ in needing_graph(_tools_of(harness))), None)
    if tool is not None:  # a replay runs no tools, so their writes to the state would be missing
        raise INVALID_ARGUMENT(
            argument="The harness of cassette.harness()",
            value=harness,
            wanted="an agent whose tools leave the state alone; put the cassette below this one: "
            "Agent(cassette.model(...), tools=[...])",
            known=f"tool {tool.spec.name!r} uses the state of the graph",
        )
    checked: AgentHarness | None = harness
    return checked


def _mode(argument: CassetteMode | None) -> CassetteMode:
    mode: Any = argument or os.environ.get(_VARIABLE) or "replay"
    if mode not in get_args(CassetteMode):
        raise INVALID_ARGUMENT(
            argument="The mode of a cassette",
            value=mode,
            wanted=f"one of {names(get_args(CassetteMode))}",
            where="the argument mode" if argument else f"the environment variable {_VARIABLE}",
        )
    chosen: CassetteMode = mode
    return chosen
