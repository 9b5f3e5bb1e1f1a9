"""One call through a cassette: replayed from a recording, or made live and recorded.

A live reply is written to the file before the caller gets it, and the caller gets the redacted reply. So a run that
records sees the same as every replay. `_recordings` chooses the recording, and `_stored_form` knows its stored form.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from graphrt.errors import GraphrtError, ScriptError
from graphrt.errors._codes.cassettes import CASSETTE_OUTPUT
from graphrt.harness._doubles.reply_pieces import Piece
from graphrt.harness._doubles.reply_pieces import pieces as cut
from graphrt.harness.cassette._canonical import canonical
from graphrt.harness.cassette._recording import Recording, clean_failure, clean_reply, is_recordable
from graphrt.harness.cassette._recordings import Recordings
from graphrt.harness.cassette._redaction import Redactor
from graphrt.harness.protocol import AgentReply, StreamItem, TextDelta, ThinkingDelta, ToolCallDelta
from graphrt.harness.request import ModelRequest


class Exchange:
    """One call that is replayed, or made live and recorded.

    Args:
        recordings: The recordings of the cassette.
        hook: The user's `redact` function.
        request: The call.
        model: Name of the model, if the request does not name one.
        harness: Name of the harness, if the cassette has several.
        alone: Whether the cassette was given no live harness, whose defaults could be missing in the request.

    Raises:
        ScriptError: The call is not recorded, and the mode does not record.
    """

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

        # The environment of the replaying machine has other credentials than the recording one. A second look-up
        # without the environment's values finds recordings that were made where they were not set.
        def bare() -> Mapping[str, Any]:
            redactor = Redactor(hook, environment=False, options=request.options)
            return canonical(request, redactor, model=model, harness=harness)

        self._found: Final = recordings.ask(self._form, bare, alone=alone)

    async def answer(self, live: Callable[[], Awaitable[AgentReply]], output: TypeAdapter[Any] | None) -> AgentReply:
        """Return the whole reply, from the recording or by calling *live*.

        Args:
            live: Makes the live call.
            output: Type of `reply.output`; None for JSON data.

        Raises:
            GraphrtError: The recorded error, or the live one.
            ScriptError: The recorded output does not fit its type (`cassette-output`), or the file cannot be written.
        """
        entry = self._found
        if isinstance(entry, Recording):
            return _told(entry, output)
        try:
            try:
                recording = clean_reply(self._form, await live(), None, self._redactor)
            except Exception as error:
                if not is_recordable(error):
                    raise
                recording = clean_failure(self._form, error, None, self._redactor)
            self._recordings.keep(entry, recording)
        finally:
            self._recordings.give_back(entry)
        return _told(recording, output)

    async def stream(
        self, live: Callable[[], AsyncIterator[Any]], output: TypeAdapter[Any] | None
    ) -> AsyncGenerator[StreamItem, None]:
        """Yield the reply in pieces, and the whole reply as the last item. Arguments and errors are as in `answer`."""
        entry = self._found
        if isinstance(entry, Recording):
            for piece in _pieces(entry):
                yield piece
            yield _told(entry, output)
            return
        seen: list[Piece] = []
        items = live()
        try:
            async for item in items:
                if entry.recording is not None:
                    continue  # the reply is the last item; anything that a faulty harness yields after it is dropped
                if not issubclass(type(item), AgentReply):
                    # The stream of an agent has more kinds of items; they are passed on, but not recorded.
                    if isinstance(item, (TextDelta, ThinkingDelta, ToolCallDelta)):
                        seen.append(item)
                    yield item
                    continue
                recording = clean_reply(self._form, item, seen, self._redactor)
                self._recordings.keep(entry, recording)  # before the yield: the reader may stop there
                yield _told(recording, output)
        except Exception as error:
            if entry.recording is not None or not is_recordable(error):
                raise
            recording = clean_failure(self._form, error, seen, self._redactor)
            self._recordings.keep(entry, recording)
            raise _raised(recording) from None
        finally:
            self._recordings.give_back(entry)
            await close(items)


def _told(recording: Recording, output: TypeAdapter[Any] | None) -> AgentReply:
    """Return the recorded reply with its typed output, or raise the recorded error."""
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
        problem = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, problem["loc"]))
        raise _no_output(f"{f'{where}: ' if where else ''}{problem['msg']}") from None


def _raised(recording: Recording) -> GraphrtError:
    assert recording.failure is not None  # noqa: S101 - a recording has a reply or a failure
    return recording.failure.error()


def _no_output(reason: str) -> ScriptError:
    return CASSETTE_OUTPUT(why=reason)


def _pieces(recording: Recording) -> Iterable[Piece]:
    if recording.pieces is not None or recording.reply is None:
        return recording.pieces or ()
    return cut(recording.reply)


async def close(items: AsyncIterator[Any]) -> None:
    """Close a stream that may not have been read to its end, without waiting for the garbage collector."""
    end = getattr(items, "aclose", None)
    if end is not None:
        await end()
