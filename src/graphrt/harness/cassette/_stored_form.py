"""The stored form of a recording: JSON data that people can review, and that is validated when it is read.

Fields at their defaults are left out, and a text of several lines is stored as a list of lines. The `_...Form` classes
validate what is read, because people edit these files. `_cassette_file` reads and writes the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from graphrt.events import Usage
from graphrt.harness._doubles.reply_pieces import Piece
from graphrt.harness.cassette._canonical import NAMES, plain
from graphrt.harness.cassette._json_values import is_list, is_sequence
from graphrt.harness.cassette._recording import Failure, Recording, recordable_kind
from graphrt.harness.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ThinkingBlock,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from graphrt.harness.protocol import AgentReply, FinishReason, TextDelta, ThinkingDelta, ToolCallDelta


def _join(value: Any) -> Any:
    if is_list(value) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    return value


Text: TypeAlias = Annotated[str, BeforeValidator(_join)]


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class _CallForm(_Form):
    id: str
    name: str
    arguments: dict[str, Any] = {}
    arguments_text: str = ""
    error: str | None = None


class _BlockForm(_Form):
    text: Text = ""
    signature: str = ""
    redacted: str = ""


class _MessageForm(_Form):
    role: Literal["system", "user", "assistant", "tool"]
    text: Text = ""
    id: str | None = None
    tool_calls: list[_CallForm] = []
    thinking: list[_BlockForm] = []
    tool_call_id: str = ""
    error: bool = False


class _UsageForm(_Form):
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    calls: int = 0
    cost_usd: float | None = None


class _ReplyForm(_Form):
    text: Text = ""
    tool_calls: list[_CallForm] = []
    usage: _UsageForm | None = None
    finish_reason: FinishReason = "stop"
    model: str | None = None
    thinking: Text = ""
    thinking_blocks: list[_BlockForm] = []
    output: Any = None
    output_type: str = ""
    messages: list[_MessageForm] = []
    stopped: str | None = None
    prompt_messages: int | None = None


class _FailureForm(_Form):
    kind: str
    what: Text
    code: str
    where: Text = ""
    known: Text = ""
    fix: Text = ""
    data: dict[str, Any] = {}
    messages: list[_MessageForm] = []


class _PieceForm(_Form):
    index: int
    id: str = ""
    name: str = ""
    arguments_text: str = ""


class _ThoughtForm(_Form):
    thinking: str


class _AskedForm(_Form):
    """A message of a canonical request."""

    role: Literal["system", "user", "assistant", "tool"]
    text: Text
    thinking: list[str] = []
    tool_calls: list[dict[str, Any]] = []
    call: int = 0
    error: bool = False


class _RequestForm(BaseModel):
    """A canonical request; `load` checks its other keys against `NAMES`."""

    model_config = ConfigDict(extra="allow", strict=True, hide_input_in_errors=True)
    messages: list[_AskedForm]


class _EntryForm(_Form):
    request: _RequestForm
    pieces: list[str | _ThoughtForm | _PieceForm] | None = None
    reply: _ReplyForm | None = None
    failure: _FailureForm | None = None


# -------------------------------------------------------------------------------------------------------- writing


def dump(recording: Recording) -> dict[str, Any]:
    """Return *recording* as JSON data."""
    entry: dict[str, Any] = {"request": show_request(recording.request)}
    if recording.pieces is not None:
        entry["pieces"] = [_brief_piece(piece) for piece in recording.pieces]
    if recording.reply is not None:
        entry["reply"] = _brief(recording.reply)
        if recording.output_type:
            entry["reply"]["output_type"] = recording.output_type
    if recording.failure is not None:
        entry["failure"] = _brief(recording.failure)
    return entry


def show_request(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return a canonical request with the texts of its messages as lists of lines."""
    messages = [{**message, "text": _split(message["text"])} for message in form["messages"]]
    return {**form, "messages": messages}


_TEXTS: Final = frozenset({"text", "thinking", "what", "where", "known", "fix"})


def _brief(value: Any) -> Any:
    """Return the fields of a value that differ from their defaults, with `role` first."""
    if isinstance(value, ToolCall):
        return _brief_call(value)
    if is_sequence(value):
        return [_brief(item) for item in value]
    if not hasattr(value, "__dataclass_fields__"):
        return value
    found: dict[str, Any] = {}
    for field in fields(value):
        given = getattr(value, field.name)
        if field.name == "role":
            found = {"role": given, **found}
        elif field.default is MISSING or given != field.default:
            found[field.name] = _split(given) if field.name in _TEXTS and isinstance(given, str) else _brief(given)
    return found


def _brief_call(call: ToolCall) -> dict[str, Any]:
    found: dict[str, Any] = {"id": call.id, "name": call.name, "arguments": dict(call.arguments)}
    if call.error is not None or call.arguments_text != json.dumps(found["arguments"], ensure_ascii=False):
        found["arguments_text"] = call.arguments_text
    if call.error is not None:
        found["error"] = call.error
    return found


def _brief_piece(piece: Piece) -> Any:
    match piece:
        case TextDelta():
            return piece.text
        case ThinkingDelta():
            return {"thinking": piece.text}
        case ToolCallDelta():
            return _brief(piece)


def _split(text: str) -> str | list[str]:
    return text.split("\n") if "\n" in text else text


# -------------------------------------------------------------------------------------------------------- reading


def load(data: Mapping[str, Any], line: int) -> Recording:
    """Return the recording that is stored as *data*, with *line* as its first line in the file.

    Raises:
        ValueError: *data* does not have the stored form; the text says where and why.
    """
    try:
        entry = _EntryForm.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    if (entry.reply is None) == (entry.failure is None):
        raise ValueError("a recording has either a reply or a failure")
    request = entry.request.model_dump(exclude_unset=True)
    for name in request:
        if name not in NAMES:
            raise ValueError(f"request.{name}: no request has this")
    return Recording(
        request=plain(request, "request"),
        reply=None if entry.reply is None else _reply(entry.reply),
        failure=None if entry.failure is None else _failure(entry.failure),
        pieces=None if entry.pieces is None else tuple(_piece(piece) for piece in entry.pieces),
        output_type="" if entry.reply is None else entry.reply.output_type,
        line=line,
    )


def _reply(form: _ReplyForm) -> AgentReply:
    return AgentReply(
        text=form.text,
        tool_calls=tuple(_call(call) for call in form.tool_calls),
        usage=None if form.usage is None else Usage(**form.usage.model_dump()),
        finish_reason=form.finish_reason,
        model=form.model,
        thinking=form.thinking,
        thinking_blocks=tuple(map(_block, form.thinking_blocks)),
        output=form.output,
        messages=tuple(_message(message) for message in form.messages),
        stopped=form.stopped,
        prompt_messages=form.prompt_messages,
    )


def _failure(form: _FailureForm) -> Failure:
    if recordable_kind(form.kind) is None:
        raise ValueError(f"failure.kind: {form.kind!r} is not an error of a model")
    return Failure(
        kind=form.kind,
        what=form.what,
        code=form.code,
        where=form.where,
        known=form.known,
        fix=form.fix,
        data=form.data,
        messages=tuple(_message(message) for message in form.messages),
    )


def _call(form: _CallForm) -> ToolCall:
    return ToolCall(
        id=form.id,
        name=form.name,
        arguments=form.arguments,
        arguments_text=form.arguments_text,
        error=form.error,
    )


def _message(form: _MessageForm) -> Message:
    match form.role:
        case "system":
            return SystemMessage(text=form.text, id=form.id)
        case "user":
            return UserMessage(text=form.text, id=form.id)
        case "assistant":
            return AssistantMessage(
                text=form.text,
                tool_calls=tuple(map(_call, form.tool_calls)),
                thinking=tuple(map(_block, form.thinking)),
                id=form.id,
            )
        case "tool":
            return ToolMessage(tool_call_id=form.tool_call_id, text=form.text, id=form.id, error=form.error)


def _block(form: _BlockForm) -> ThinkingBlock:
    return ThinkingBlock(text=form.text, signature=form.signature, redacted=form.redacted)


def _piece(form: str | _ThoughtForm | _PieceForm) -> Piece:
    if isinstance(form, str):
        return TextDelta(text=form)
    if isinstance(form, _ThoughtForm):
        return ThinkingDelta(text=form.thinking)
    return ToolCallDelta(index=form.index, id=form.id, name=form.name, arguments_text=form.arguments_text)
