"""One call through a cassette: answered from its recording, or asked live and kept before the caller has it.

The order of these steps lives here; which recording it is, and what it looks like in the file, does not.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from graphrt.errors import GraphrtError, ScriptError
from graphrt.harness._doubles.reply_pieces import Piece
from graphrt.harness._doubles.reply_pieces import pieces as cut
from graphrt.harness.cassette._canonical import canonical
from graphrt.harness.cassette._recording import Recording, clean_failure, clean_reply, is_recordable
from graphrt.harness.cassette._recordings import Recordings
from graphrt.harness.cassette._redaction import Redactor
from graphrt.harness.protocol import AgentReply, StreamItem, TextDelta, ThinkingDelta, ToolCallDelta
from graphrt.harness.request import ModelRequest


class Exchange:
    """One call that a cassette answers, or that is asked live and kept."""

    def __init__(
        self,
        recordings: Recordings,
        hook: Callable[[str], str] | None,
        request: ModelRequest,
        *,
        model: str | None = None,
        harness: str = "",
        alone: bool = False,
    ) -> None:
        self._recordings: Final = recordings
        self._redactor: Final = Redactor(hook, options=request.options)
        self._form: Final = canonical(request, self._redactor, model=model, harness=harness)

        def bare() -> Mapping[str, Any]:
            without = Redactor(hook, environment=False, options=request.options)
            return canonical(request, without, model=model, harness=harness)

        self._found: Final = recordings.ask(self._form, bare, alone=alone)

    async def answer(self, live: Callable[[], Awaitable[AgentReply]], output: TypeAdapter[Any] | None) -> AgentReply:
        """The whole reply, from the recording or from *live*; *output* is the type that its output has."""
        found = self._found
        if isinstance(found, Recording):
            return _told(found, output)
        kept = False
        try:
            reply = await live()
            recording = clean_reply(self._form, reply, None, self._redactor)
            kept = True
        except Exception as error:
            if not is_recordable(error):
                raise
            recording = clean_failure(self._form, error, None, self._redactor)
            kept = True
        finally:
            if not kept:
                self._recordings.drop(found)
        self._recordings.keep(found, recording)
        return _told(recording, output)

    async def stream(
        self, live: Callable[[], AsyncIterator[Any]], output: TypeAdapter[Any] | None
    ) -> AsyncGenerator[StreamItem, None]:
        """The same in pieces."""
        found = self._found
        if isinstance(found, Recording):
            for piece in _pieces(found):
                yield piece
            yield _told(found, output)
            return
        seen: list[Piece] = []
        kept = False
        items = live()
        try:
            async for item in items:
                if kept:
                    continue  # the reply is the last item; what a faulty harness says after it is not heard
                if not issubclass(type(item), AgentReply):
                    # an agent tells more, which is not recorded
                    if isinstance(item, (TextDelta, ThinkingDelta, ToolCallDelta)):
                        seen.append(item)
                    yield item
                    continue
                recording = clean_reply(self._form, item, seen, self._redactor)
                kept = True
                self._recordings.keep(found, recording)  # before the reader has it, who may stop here
                yield _told(recording, output)
        except Exception as error:
            if kept or not is_recordable(error):
                raise
            recording = clean_failure(self._form, error, seen, self._redactor)
            kept = True
            self._recordings.keep(found, recording)
            raise _raised(recording) from None
        finally:
            if not kept:
                self._recordings.drop(found)
            await close(items)


def _told(recording: Recording, output: TypeAdapter[Any] | None) -> AgentReply:
    """What the caller gets of *recording*: the reply, or a new one of its error."""
    reply = recording.reply
    if reply is None:
        raise _raised(recording)
    if reply.output is None or (output is None and not recording.output_type):
        return reply
    if output is None:
        raise _no_output(f"it is a {recording.output_type}, a type that was not given to the cassette")
    try:
        return replace(reply, output=output.validate_python(reply.output))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise _no_output(f"{f'{where}: ' if where else ''}{first['msg']}") from None


def _raised(recording: Recording) -> GraphrtError:
    assert recording.failure is not None  # noqa: S101 - a recording has a reply or a failure
    return recording.failure.error()


def _no_output(why: str) -> ScriptError:
    return ScriptError(
        f"The recorded output of a reply cannot be given back: {why}.",
        fix="give the type that it has: cassette.harness(..., output=Type)",
        code="cassette-output",
    )


def _pieces(recording: Recording) -> Iterable[Piece]:
    if recording.pieces is not None or recording.reply is None:
        return recording.pieces or ()
    return cut(recording.reply)


async def close(items: AsyncIterator[Any]) -> None:
    """End a stream that may not have been read to its end: now, and not when it is collected."""
    end = getattr(items, "aclose", None)
    if end is not None:
        await end()
