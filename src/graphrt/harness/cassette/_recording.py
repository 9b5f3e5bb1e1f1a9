"""One recorded call, as a value: what was asked, and what came of it.

What may be recorded and how it is made fit to be written live here; the form in the file is `_stored_form`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeGuard

from pydantic_core import PydanticSerializationError, to_jsonable_python

from graphrt import errors
from graphrt.errors import GraphrtError, HarnessError, InputError, LimitError, ScriptError
from graphrt.harness._doubles.reply_pieces import Piece
from graphrt.harness.cassette._json_values import is_json
from graphrt.harness.cassette._redaction import Redactor
from graphrt.harness.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from graphrt.harness.protocol import AgentReply

_SAID: Final = frozenset({"what", "code", "where", "known", "fix", "messages"})
_MESSAGES: Final = (SystemMessage, UserMessage, AssistantMessage, ToolMessage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error of a model as a value; every replay raises a new one."""

    kind: str
    """Name of the class in `graphrt.errors`."""
    what: str
    code: str
    where: str = ""
    known: str = ""
    fix: str = ""
    data: Mapping[str, Any]
    """Its further attributes, those that are JSON data."""
    messages: tuple[Message, ...] = ()

    def error(self) -> GraphrtError:
        """The error."""
        kind: type[GraphrtError] = getattr(errors, self.kind)
        data = {**self.data, "messages": self.messages} if self.messages else self.data
        return kind(self.what, code=self.code, where=self.where, known=self.known, fix=self.fix, **data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What was asked, and what came of it: a reply or a failure."""

    request: Mapping[str, Any]
    """The canonical request."""
    reply: AgentReply | None = None
    failure: Failure | None = None
    pieces: tuple[Piece, ...] | None = None
    """What a stream yielded before its end; None if nobody asked for a stream."""
    output_type: str = ""
    """Name of the type that `reply.output` had, if it was no JSON data; it is JSON data now."""
    line: int = 0
    """Where it stands in the file, from 1; 0 if it was not read from one."""


def is_recordable(error: BaseException) -> TypeGuard[GraphrtError]:
    """Whether *error* is the model's answer, and not a mistake of the caller or of a double."""
    return isinstance(error, GraphrtError) and recordable_kind(type(error).__name__) is type(error)


def recordable_kind(name: str) -> type[GraphrtError] | None:
    """The class of that name, if its errors are recorded."""
    kind = getattr(errors, name, None)
    if not isinstance(kind, type) or not issubclass(kind, (HarnessError, LimitError)) or issubclass(kind, ScriptError):
        return None
    return kind


def clean_reply(
    request: Mapping[str, Any], reply: AgentReply, pieces: Iterable[Piece] | None, redactor: Redactor
) -> Recording:
    """The recording of a call that was answered, without secrets.

    Raises:
        InputError: The reply's output cannot be written as JSON.
    """
    output, output_type = reply.output, ""
    if not is_json(output):
        output, output_type = _jsonable(output), type(output).__name__
    return Recording(
        request=request,
        reply=replace(redactor.reply(reply), output=redactor.data(output)),
        pieces=None if pieces is None else tuple(redactor.pieces(list(pieces))),
        output_type=output_type,
    )


def clean_failure(
    request: Mapping[str, Any], error: GraphrtError, pieces: Iterable[Piece] | None, redactor: Redactor
) -> Recording:
    """The recording of a call that failed, without secrets."""
    known = {name: value for name, value in vars(error).items() if name not in _SAID and value is not None}
    messages: Any = vars(error).get("messages") or ()
    failure = Failure(
        kind=type(error).__name__,
        what=redactor.text(error.what),
        code=error.code,
        where=redactor.text(error.where),
        known=redactor.text(error.known),
        fix=redactor.text(error.fix),
        data={name: redactor.data(value) for name, value in known.items() if is_json(value)},
        messages=tuple(redactor.message(message) for message in messages if isinstance(message, _MESSAGES)),
    )
    return Recording(
        request=request,
        failure=failure,
        pieces=None if pieces is None else tuple(redactor.pieces(list(pieces))),
    )


def _jsonable(value: Any) -> Any:
    try:
        return to_jsonable_python(value)
    except (PydanticSerializationError, ValueError) as error:
        raise InputError(
            f"A Cassette cannot write down the output of a reply: it is of type {type(value).__name__}, "
            "which has no JSON form.",
            fix="put the cassette around the model of the agent: cassette.model(...)",
            code="cassette-unstorable",
            value=value,
        ) from error
