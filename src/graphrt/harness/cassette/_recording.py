"""`Recording`, one recorded call as a value: the request, and its reply or failure.

Which errors are recorded, and how secrets are removed from a recording, is decided here. `_stored_form` knows the form
in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeGuard

from pydantic_core import PydanticSerializationError, to_jsonable_python

from graphrt import errors
from graphrt._arguments import is_list, is_mapping
from graphrt.errors import GraphrtError, HarnessError, LimitError, ScriptError
from graphrt.errors._codes.cassettes import OUTPUT_WITHOUT_JSON
from graphrt.events import Usage
from graphrt.harness._doubles.reply_pieces import Piece
from graphrt.harness.cassette._redaction import Redactor
from graphrt.harness.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from graphrt.harness.protocol import AgentReply

_SAID: Final = frozenset({"what", "code", "where", "known", "fix", "messages", "usage"})
"""Attributes of an error that have a field of their own in `Failure`."""
_MESSAGES: Final = (SystemMessage, UserMessage, AssistantMessage, ToolMessage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error of a model as a value; each replay raises a new exception."""

    kind: str
    """Name of its class in `graphrt.errors`."""
    what: str
    code: str
    where: str = ""
    known: str = ""
    fix: str = ""
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Its other attributes, as far as they are JSON data."""
    messages: tuple[Message, ...] = ()
    """0..n messages of the conversation, where the error carries them."""
    usage: Usage | None = None
    """What the provider reported for the failed call; None if it reported nothing."""

    def error(self) -> GraphrtError:
        """Return a new exception."""
        kind: type[GraphrtError] = getattr(errors, self.kind)
        data = {**self.data, "messages": self.messages or None, "usage": self.usage}  # None values are left out
        return kind(self.what, code=self.code, where=self.where, known=self.known, fix=self.fix, **data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A recorded call. Exactly one of `reply` and `failure` is set."""

    request: Mapping[str, Any]
    """The canonical request."""
    reply: AgentReply | None = None
    """The reply without secrets; None if the call failed."""
    failure: Failure | None = None
    """The error; None if there was a reply."""
    pieces: tuple[Piece, ...] | None = None
    """Pieces that the stream yielded before its end; None if the call was not streamed."""
    output_type: str = ""
    """Name of the type of `reply.output` before it was converted to JSON data; "" if it was JSON data."""
    line: int = 0
    """First line in the file, from 1; 0 if it was not read from a file."""


def is_recordable(error: BaseException) -> TypeGuard[GraphrtError]:
    """Return whether *error* is an outcome of the model call, and not a mistake of the caller or of a test double."""
    return isinstance(error, GraphrtError) and recordable_kind(type(error).__name__) is type(error)


def recordable_kind(name: str) -> type[GraphrtError] | None:
    """Return the error class with that name if its errors are recorded, else None."""
    kind = getattr(errors, name, None)
    if not isinstance(kind, type) or not issubclass(kind, (HarnessError, LimitError)) or issubclass(kind, ScriptError):
        return None
    return kind


def clean_reply(
    request: Mapping[str, Any], reply: AgentReply, pieces: Iterable[Piece] | None, redactor: Redactor
) -> Recording:
    """Return the recording of a call that got a reply, without secrets.

    Raises:
        InputError: The reply's output has no JSON form (`cassette-unstorable`).
    """
    output, output_type = reply.output, ""
    if not _is_json(output):
        output, output_type = _jsonable(output), type(output).__name__
    return Recording(
        request=request,
        reply=replace(redactor.clean(reply), output=redactor.data(output)),
        pieces=None if pieces is None else tuple(redactor.pieces(list(pieces))),
        output_type=output_type,
    )


def clean_failure(
    request: Mapping[str, Any], error: GraphrtError, pieces: Iterable[Piece] | None, redactor: Redactor
) -> Recording:
    """Return the recording of a call that failed, without secrets."""
    known = {name: value for name, value in vars(error).items() if name not in _SAID and value is not None}
    messages: Any = vars(error).get("messages") or ()
    usage: Any = vars(error).get("usage")
    failure = Failure(
        kind=type(error).__name__,
        what=redactor.text(error.what),
        code=error.code,
        where=redactor.text(str(vars(error).get("where", ""))),
        known=redactor.text(error.known),
        fix=redactor.text(error.fix),
        data={name: redactor.data(value) for name, value in known.items() if _is_json(value)},
        messages=tuple(redactor.clean(message) for message in messages if isinstance(message, _MESSAGES)),
        usage=usage if isinstance(usage, Usage) else None,
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
        raise OUTPUT_WITHOUT_JSON(value=value) from error


def _is_json(value: object) -> bool:
    """Return whether *value* survives a round trip through JSON: no tuples, no enums, no keys other than strings."""
    if is_list(value):
        return all(_is_json(item) for item in value)
    kind = type(value)
    if kind is dict and is_mapping(value):
        return all(type(name) is str and _is_json(item) for name, item in value.items())
    return value is None or kind in (str, int, float, bool)
