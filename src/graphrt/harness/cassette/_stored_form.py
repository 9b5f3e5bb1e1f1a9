"""The stored form of a recording: JSON data that people can review, and that is validated when it is read.

Fields at their defaults are left out, and a text of several lines is stored as a list of lines. Both directions follow
from the dataclasses of messages and replies. `dump` reads their fields, and `_form_of` makes a pydantic model of each
class. The models validate the files, because people edit them. `_cassette_file` reads and writes the file.

Images, audio and documents are stored as type, size and SHA-256, and their bytes in separate files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields
from hashlib import sha256
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias, get_type_hints

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    create_model,
)

from graphrt._arguments import is_list, is_mapping, is_sequence, is_tuple, mistake
from graphrt.errors import InputError
from graphrt.events import Usage
from graphrt.harness._doubles.reply_pieces import Piece
from graphrt.harness.cassette._canonical import NAMES, plain
from graphrt.harness.cassette._recording import Failure, Recording, recordable_kind
from graphrt.harness.media import KINDS, Media
from graphrt.harness.messages import (
    AssistantMessage,
    Message,
    ProviderPart,
    SystemMessage,
    TextPart,
    ThinkingBlock,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from graphrt.harness.protocol import AgentReply, TextDelta, ThinkingDelta, ToolCallDelta


def _join(value: Any) -> Any:
    if is_list(value) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    return value


Text: TypeAlias = Annotated[str, BeforeValidator(_join)]
_TEXTS: Final = frozenset({"text", "thinking", "what", "where", "known", "fix"})
"""Fields of the classes that are stored as lists of lines if they have several."""
_STRICT: Final = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class _Form(BaseModel):
    """The stored form of a dataclass; `_form_of` makes one for each class."""

    model_config = _STRICT
    makes: ClassVar[type[Any]]

    def made(self) -> Any:
        """Return the value. A field that the file leaves out has the default of its class."""
        set_names = {field.name for field in fields(self.makes)} & self.model_fields_set
        return self.makes(**{name: _made(getattr(self, name)) for name in set_names})


def _made(value: Any) -> Any:
    if isinstance(value, _Form):
        return value.made()
    # Arguments, outputs and data are JSON, which has no tuples: a tuple is always one of forms.
    return tuple(map(_made, value)) if is_tuple(value) else value


def _form_of(cls: type[Any], **forms: Any) -> Any:
    """Return the form of *cls*: its fields with their types, texts as `Text`, and what *forms* adds or replaces.

    pydantic validates the class itself strictly only as JSON text. Its parser refuses lone surrogates and more than 200
    levels, which cassettes have, and it accepts a message without a role (decision 0090).
    """
    hints = get_type_hints(cls)
    texts = {field.name: Text for field in fields(cls) if field.name in _TEXTS}
    required = {field.name for field in fields(cls) if field.default is MISSING and field.default_factory is MISSING}
    kinds = {**hints, **texts, **forms}
    definitions: Any = {name: (kind, ... if name in required else None) for name, kind in kinds.items()}
    form: Any = create_model(cls.__name__, __base__=_Form, **definitions)
    form.makes = cls
    return form


def _many(form: Any) -> Any:
    return Annotated[tuple[form, ...], Field(strict=False)]  # a list in the file, which a strict tuple would refuse


def _file(value: Any, info: ValidationInfo) -> Media:
    """Return the image, audio or document of which *value* is the outline. The context reads its bytes."""
    outline: dict[str, Any] = dict(value) if is_mapping(value) else {}
    kind: Any = outline.pop("kind", None)
    cls = KINDS.get(kind)
    size, digest = outline.pop("size", None), outline.pop("sha256", None)
    if cls is None or outline.keys() - {"url", "media_type", "name"} or ("url" in outline) != (digest is None):
        raise ValueError("this is not an image, audio or document")
    try:
        if digest is None:
            return cls(**outline)
        fetch: Any = info.context
        data: bytes = fetch(digest, outline.get("media_type"))
        if (len(data), sha256(data).hexdigest()) != (size, digest):
            raise ValueError(f"the bytes of the file {digest} are not what was recorded")
        return cls.from_bytes(data, **outline, max_bytes=len(data))
    except (InputError, TypeError) as error:
        raise ValueError(str(getattr(error, "what", error))) from None


_Media: Final[Any] = Annotated[Any, PlainValidator(_file)]
_Content: Final = _many(Text | _Media)
_Call: Final = _many(_form_of(ToolCall))
_Block: Final = _many(_form_of(ThinkingBlock))
_Usage: Final = _form_of(Usage)
_Part: Final = _many(_form_of(ProviderPart))
_Message: Final = _many(
    Annotated[
        _form_of(SystemMessage)
        | _form_of(UserMessage, content=_Content)
        | _form_of(AssistantMessage, tool_calls=_Call, thinking=_Block, provider_parts=_Part, media=_many(_Media))
        | _form_of(ToolMessage, content=_Content),
        Discriminator("role"),
    ]
)
_Reply: Final = _form_of(
    AgentReply,
    tool_calls=_Call,
    usage=_Usage | None,
    thinking_blocks=_Block,
    provider_parts=_Part,
    media=_many(_Media),
    output=Any,
    messages=_Message,
    output_type=str,  # belongs to the recording
)


class _Thought(_Form):
    makes = ThinkingDelta
    text: str = Field(alias="thinking")


class _AskedForm(BaseModel):
    """A message of a canonical request, which stays plain data."""

    model_config = _STRICT
    role: Literal["system", "user", "assistant", "tool"]
    text: Text
    parts: list[str | dict[str, Any]] = []
    thinking: list[str] = []
    tool_calls: list[dict[str, Any]] = []
    call: int = 0
    error: bool = False


class _RequestForm(BaseModel):
    """A canonical request; `load` checks its other keys against `NAMES`."""

    model_config = ConfigDict(extra="allow", strict=True, hide_input_in_errors=True)
    messages: list[_AskedForm]


_PARTS: Final[Any] = {
    "request": (_RequestForm, ...),
    "pieces": (_many(str | _Thought | _form_of(ToolCallDelta)) | None, None),
    "reply": (_Reply | None, None),
    "failure": (_form_of(Failure, messages=_Message, usage=_Usage | None) | None, None),
}
_Entry: Final[Any] = create_model("_Entry", __config__=_STRICT, **_PARTS)


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


def files_of(recording: Recording) -> Iterator[Media]:
    """Yield the images, audio and documents of *recording* whose bytes it needs; a request has their hashes alone."""
    sources: list[AgentReply | Message] = []
    if recording.reply is not None:
        sources += [recording.reply, *recording.reply.messages]
    if recording.failure is not None:
        sources += recording.failure.messages
    for source in sources:
        yield from (part for part in source.media if part.data is not None)


def show_request(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return a canonical request with the texts of its messages as lists of lines."""
    messages = [{**message, "text": _split(message["text"])} for message in form["messages"]]
    return {**form, "messages": messages}


def _brief(value: Any) -> Any:
    """Return the fields of a value that differ from their defaults, with `role` first."""
    if isinstance(value, ToolCall):
        return _brief_call(value)
    if isinstance(value, Media):
        return value.outline()
    if isinstance(value, TextPart):
        return _split(value.text)
    if is_sequence(value):
        return [_brief(item) for item in value]
    if not hasattr(value, "__dataclass_fields__"):
        return value
    data: dict[str, Any] = {}
    for field in fields(value):
        field_value = getattr(value, field.name)
        if field.name == "role":
            data = {"role": field_value, **data}
        elif field_value != (field.default if field.default_factory is MISSING else field.default_factory()):
            data[field.name] = (
                _split(field_value) if field.name in _TEXTS and isinstance(field_value, str) else _brief(field_value)
            )
    return data


def _brief_call(call: ToolCall) -> dict[str, Any]:
    data: dict[str, Any] = {"id": call.id, "name": call.name, "arguments": dict(call.arguments)}
    if call.error is not None or call.arguments_text != json.dumps(data["arguments"], ensure_ascii=False):
        data["arguments_text"] = call.arguments_text
    if call.error is not None:
        data["error"] = call.error
    return data


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


def _no_files(digest: str, _media_type: str | None) -> bytes:
    raise ValueError(f"there is no file {digest}")


def load(data: Mapping[str, Any], line: int, fetch: Callable[[str, str | None], bytes] = _no_files) -> Recording:
    """Return the recording that is stored as *data*, with *line* as its first line in the file.

    Args:
        data: What `dump` returned.
        line: First line of the recording in the file.
        fetch: Returns the bytes of an image, audio or document by SHA-256 and media type; raises ValueError if it has
            none.

    Raises:
        ValueError: *data* does not have the stored form; the text says where and why.
    """
    try:
        entry = _Entry.model_validate(data, context=fetch)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise ValueError(f"{'.'.join(map(str, problem['loc']))}: {mistake(problem['msg'])}") from None
    if (entry.reply is None) == (entry.failure is None):
        raise ValueError("a recording has either a reply or a failure")
    request = entry.request.model_dump(exclude_unset=True)
    for name in request:
        if name not in NAMES:
            raise ValueError(f"request.{name}: no request has this")
    if entry.failure is not None and recordable_kind(entry.failure.kind) is None:
        raise ValueError(f"failure.kind: {entry.failure.kind!r} is not an error of a model")
    return Recording(
        request=plain(request, "request"),
        reply=_made(entry.reply),
        failure=_made(entry.failure),
        pieces=None if entry.pieces is None else tuple(map(_piece, entry.pieces)),
        output_type=getattr(entry.reply, "output_type", None) or "",
        line=line,
    )


def _piece(form: Any) -> Piece:
    piece: Piece = TextDelta(text=form) if isinstance(form, str) else _made(form)
    return piece
