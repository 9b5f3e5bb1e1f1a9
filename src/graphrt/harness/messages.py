"""Messages, tools and tool calls between an agent and a model, as frozen values that check themselves.

A user message or a tool result may hold images, audio and documents (`media`) between texts; `content` has them in
order. `text` then contains only the texts, for code that reads nothing else.

Wire formats of providers, requests and replies do not belong here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypeGuard, final

from graphrt._arguments import is_mapping
from graphrt.errors import InputError, a_type
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.requests import (
    BAD_CONVERSATION,
    BAD_TOOL_ARGUMENTS,
    TOO_MANY_MEDIA,
)
from graphrt.harness._surrogates import json_copy, whole, whole_values
from graphrt.harness.media import MAX_MEDIA, Audio, Document, Image, Media

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

__all__ = [
    "AssistantMessage",
    "Content",
    "LeftOut",
    "Message",
    "Part",
    "Prompt",
    "ProviderPart",
    "SystemMessage",
    "TextPart",
    "ThinkingBlock",
    "ToolCall",
    "ToolMessage",
    "ToolSpec",
    "UserMessage",
]


def as_conversation(value: object) -> tuple[Message, ...] | None:
    """Return the result of a user's function as 1..n messages; None if it is something else."""
    items: Any = value
    if isinstance(value, str) or not isinstance(value, Iterable):
        return None
    messages = tuple(items)
    return messages if messages and all(isinstance(item, _MESSAGES) for item in messages) else None


def check_conversation(messages: Sequence[Message], *, conversation: str = "the conversation") -> None:
    """Check that each tool call of *messages* has one result, right after the message that made the calls.

    Providers answer any other conversation with an error that does not say which message is wrong.

    Args:
        messages: The messages.
        conversation: Noun for the values, for the error text.

    Raises:
        InputError: A call has no result, or a result no call (`bad-conversation`); `index` is that of the message.
    """
    pending: dict[str, str] = {}
    caller = 0  # index of the message whose calls are open
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if pending.pop(message.tool_call_id, None) is None:
                raise BAD_CONVERSATION(
                    index=index,
                    conversation=conversation,
                    problem=f"is the result of call {message.tool_call_id!r}, which is not open there",
                )
        elif pending:
            break
        elif isinstance(message, AssistantMessage) and message.tool_calls:
            caller, pending = index, {call.id: call.name for call in message.tool_calls}
    if pending:
        id_, name = next(iter(pending.items()))
        raise BAD_CONVERSATION(
            index=caller, conversation=conversation, problem=f"calls tool {name!r} ({id_!r}), and no result follows"
        )


def _no_parameters() -> Mapping[str, Any]:
    return {"type": "object", "properties": {}}


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool that the model may call.

    Raises:
        InputError: The name is empty, or `parameters` is not a mapping.
    """

    name: str
    description: str = ""
    """Tells the model when and how to use the tool."""
    parameters: Mapping[str, Any] = field(default_factory=_no_parameters, hash=False)
    """JSON schema of the arguments, an object. Default: no arguments."""

    def __post_init__(self) -> None:
        if not self.name:
            raise INVALID_ARGUMENT(
                argument=f"The name of the tool with the description {self.description!r}",
                value=self.name,
                wanted="a name",
            )
        if not _is_mapping(self.parameters):
            raise INVALID_ARGUMENT(
                argument=f"The parameters of tool {self.name!r}",
                value=self.parameters,
                wanted="the JSON schema of the arguments as a mapping",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool call that the model asks for.

    Give `arguments` or `arguments_text`; the other one is derived. A text that is not a JSON object does not raise:
    models write such texts, and the usual answer is to show them the error. `arguments` is then empty, and `error`
    gives the reason. Lone surrogates become U+FFFD.
    """

    id: str
    """Identifies the call in the `ToolMessage` that answers it."""
    name: str
    """Name of the tool as the model wrote it; perhaps of a tool that was never offered."""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)
    """The parsed arguments. Empty if `error` is set: check it before use, or call `checked_arguments()`."""
    arguments_text: str = ""
    """The arguments as the model wrote them."""
    error: str | None = None
    """Why `arguments_text` is not a JSON object; None if it is one."""

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # frozen: fields are only set here, before any other code holds the value
        given: Any = self.arguments_text
        if not isinstance(given, str):
            raise INVALID_ARGUMENT(
                argument="arguments_text of a tool call", value=given, wanted="the JSON text of an object"
            )
        for name in ("id", "name", "arguments_text"):
            text: Any = getattr(self, name)
            if isinstance(text, str) and not text.isascii():
                set_field(self, name, whole(text))
        if self.arguments or self.error is not None:
            if not self.arguments_text and self.error is None:
                text = _arguments_text(self)
                if whole(text) != text:
                    set_field(self, "arguments", whole_values(dict(self.arguments)))
                set_field(self, "arguments_text", whole(text))
            return
        arguments, error = _parse_arguments(self.arguments_text or "")
        set_field(self, "arguments", arguments)
        set_field(self, "error", error)
        set_field(self, "arguments_text", self.arguments_text or "{}")

    def checked_arguments(self) -> Mapping[str, Any]:
        """Return `arguments`, or raise if the model's text was not a JSON object.

        Raises:
            BadResponseError: `error` is set.
        """
        if self.error is not None:
            raise BAD_TOOL_ARGUMENTS(name=self.name, error=self.error, call=self.id, value=self.arguments_text)
        return self.arguments


def _arguments_text(call: ToolCall) -> str:
    try:
        return json.dumps(call.arguments, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise INVALID_ARGUMENT(
            argument=f"The arguments of the call of tool {call.name!r}",
            value=call.arguments,
            wanted="strings, numbers, booleans, None, lists and mappings",
            known=f"they are not JSON: {error}",
        ) from error


def _parse_arguments(text: str) -> tuple[dict[str, Any], str | None]:
    if not text.strip():
        return {}, None  # several providers send nothing for a tool without arguments
    try:
        value: Any = json.loads(text)
        if "\\ud" in text.lower():  # an escape may name a lone surrogate that the text itself does not contain
            value = whole_values(value)
    except ValueError as error:
        return {}, str(error)
    except RecursionError:
        return {}, "it is nested too deeply"
    if not _is_mapping(value):
        return {}, f"expected a JSON object, got {type(value).__name__}"
    return value, None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPart:
    """A part of a message, or of a model's reply, that is text."""

    text: str
    kind: Literal["text"] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderPart:
    """A part of a model's reply in the provider's own form that is not text: a citation, the call of a hosted tool.

    Journals and cassettes keep it. It is never sent to another provider.
    """

    provider: str
    """Whose form `data` has: "openai", "google", "anthropic", ..."""
    type: str
    """The provider's name of the kind: "url_citation", "web_search_call", ..."""
    data: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)
    """The part as JSON data, as the provider sent it. A copy; values that JSON cannot express become null."""
    kind: Literal["provider"] = "provider"

    def __post_init__(self) -> None:
        _clean(self, "provider", "type")


def _clean(value: Any, *texts: str) -> None:
    """Normalize the texts of a new *value*, and copy its `data` as JSON."""
    set_field = object.__setattr__  # frozen: fields are only set here, before anyone else holds the value
    for name in texts:
        text: Any = getattr(value, name)
        if isinstance(text, str) and not text.isascii():
            set_field(value, name, whole(text))
    data: Any = json_copy(value.data)
    set_field(value, "data", data if isinstance(data, dict) else {})


MediaPart: TypeAlias = Image | Audio | Document
"""A part that is not text."""
Part: TypeAlias = TextPart | Image | Audio | Document | ProviderPart
"""Any part of a message. `kind` distinguishes them, in Python and in stored JSON."""
Content: TypeAlias = str | TextPart | Image | Audio | Document
"""An item of the content of a message, as written: a text may be a plain string."""
_CONTENT: Final = (str, TextPart, Media)
_FILES: Final = (Image, Audio, Document)


def parts_of(text: str, others: tuple[MediaPart | ProviderPart, ...] = ()) -> tuple[Part, ...]:
    """Return *text* as parts, none if it is empty, and then the *others*."""
    return (TextPart(text=text), *others) if text else others


def is_content(value: object) -> TypeGuard[Content]:
    """Return whether *value* is an item of the content of a message."""
    return isinstance(value, _CONTENT)


def check_media(media: Sequence[object], taker: str) -> None:
    """Check that all of *media* are images, audio or documents, and that there are not too many for one message.

    Raises:
        InputError: They are not (`input`), or there are too many (`bad-media`).
    """
    for part in media:
        if not isinstance(part, Media):
            raise INVALID_ARGUMENT(
                argument=f"The media of {taker}", value=part, wanted="Image, Audio or Document values"
            )
    if len(media) > MAX_MEDIA:
        raise TOO_MANY_MEDIA(number=len(media), limit=MAX_MEDIA)


def _check_text(message: Any) -> None:
    """Check that the text of a new *message* is one; other programs say None if there is none.

    Raises:
        InputError: It is not (`input`).
    """
    if not isinstance(message.text, str):
        raise _no_text(message)


def _no_text(message: Any) -> InputError:
    argument = f"The text of {a_type(message)}"
    return INVALID_ARGUMENT(argument=argument, value=message.text, wanted="a text; '' if there is none")


def _settle(message: Any) -> None:
    """Derive `text` and `content` of a new *message* from each other."""
    if not isinstance(message.text, str):
        raise _no_text(message)
    content: Any = message.content
    if content.__class__ is tuple and not content:
        return
    if isinstance(content, str) or not isinstance(content, Iterable):
        raise _no_content(content)
    items: list[Any] = [*content]  # pyright: ignore[reportUnknownVariableType]  # anything: it is checked here
    for item in items:
        if not is_content(item):
            raise _no_content(item)
    parts: list[Any] = [TextPart(text=item) if isinstance(item, str) else item for item in items]
    parts = [part for part in parts if not isinstance(part, TextPart) or part.text]
    text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
    media = [part for part in parts if isinstance(part, Media)]
    check_media(media, "a message")
    set_field = object.__setattr__  # frozen: fields are only set here, before anyone else holds the value
    if message.text and message.text != text:  # as `replace(message, text=...)` gives it: it replaces the texts
        text, parts = message.text, [TextPart(text=message.text), *media]
    set_field(message, "text", text)
    set_field(message, "content", tuple(parts) if media else ())  # a text alone is `text` alone


def _no_content(value: Any) -> InputError:
    expected = 'a list of texts and media, such as ["What is this?", Image.from_path("x.png")]'
    return INVALID_ARGUMENT(argument="The content of a message", value=value, wanted=expected)


def _parts(message: Any) -> tuple[Part, ...]:
    content: tuple[Part, ...] = message.content
    return content or parts_of(message.text)


def _media(message: Any) -> tuple[MediaPart, ...]:
    return tuple([part for part in message.content if isinstance(part, _FILES)]) if message.content else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemMessage:
    """Instructions to the model."""

    text: str
    id: str | None = None
    """Identity in a list with the `messages` reducer; providers never see it."""
    role: Literal["system"] = "system"

    def __post_init__(self) -> None:
        _check_text(self)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of the message: 0..n, none for an empty text."""
        return parts_of(self.text)

    @property
    def media(self) -> tuple[MediaPart, ...]:
        """None: instructions are text."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage:
    """A message from the user, or from a node on the user's behalf: a text, or texts and media in order.

    `UserMessage(text="What is this?")`, or `UserMessage(content=["What is this?", Image.from_path("x.png")])`.

    Raises:
        InputError: The content has something else, or too many media (`bad-media`).
    """

    text: str = ""
    """The text; with `content`, its texts, one per line. A text that differs from them takes their place, before the
    media, so that `dataclasses.replace(message, text=...)` keeps the media."""
    content: Sequence[Content] = ()
    """The parts of the message in order, if it has media; else empty. `parts` has it with texts as `TextPart`s."""
    id: str | None = None
    """Identity in a list with the `messages` reducer; providers never see it."""
    role: Literal["user"] = "user"

    def __post_init__(self) -> None:
        _settle(self)

    @property
    def parts(self) -> tuple[Part, ...]:
        """What the message says, part by part: 0..n, none for an empty text."""
        return _parts(self)

    @property
    def media(self) -> tuple[MediaPart, ...]:
        """Its images, audio and documents, in order: 0..n."""
        return _media(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingBlock:
    """A part of the model's thinking, in the form in which its provider wants it back.

    A model that called tools while it was thinking must get its blocks back unchanged, with the results of the tools:
    Claude refuses the request otherwise, and other models forget why they called. Blocks are sent to the provider that
    they came from, and to no other.
    """

    text: str = ""
    """The readable text; empty if the provider shows none."""
    signature: str = ""
    """The provider's signature or encrypted thinking, opaque; empty if it gave none."""
    redacted: str = ""
    """The whole block as opaque data if Anthropic hides its text; `text` and `signature` are then empty."""
    provider: str = "anthropic"
    """Whose form the block is in: "anthropic", "openai", "google", "deepseek", "openrouter", ..."""
    id: str = ""
    """The provider's id of the item; empty if it has none."""
    data: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)
    """The whole item as JSON data in the provider's form, if `text` and `signature` do not cover all of it; else
    empty. A copy; values that JSON cannot express become null."""

    def __post_init__(self) -> None:
        _clean(self, "text", "signature", "redacted", "provider", "id")

    @property
    def sealed(self) -> bool:
        """Whether the provider wants the block back; only such blocks are sent.

        Anthropic accepts only thinking that it can verify as its own, by a signature or hidden data. For other
        providers, a block exists only because they want it back.
        """
        if self.provider == "anthropic":
            return bool(self.signature or self.redacted)
        return bool(self.text or self.signature or self.redacted or self.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """The messages that were left out of a conversation that was too long; see `Compaction`."""

    messages: int = 0
    """Number of messages at the beginning that were not sent. The initial instructions are sent and not counted. The
    user's last message before the run is sent even if it is among the counted ones."""
    results: int = 0
    """Number of messages at the beginning whose tool results were sent without their texts."""
    summary: str = ""
    """The summary sent in their place; empty if there is none."""
    digest: str = ""
    """Digest of the messages that this is about. A later run continues from here if its conversation begins with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessage:
    """A message from the model: text, tool calls, or both."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    """0..n calls, in the order the model made them."""
    thinking: tuple[ThinkingBlock, ...] = ()
    """0..n blocks that preceded the text and the calls; each is sent only to the provider that it came from."""
    provider_parts: tuple[ProviderPart, ...] = ()
    """0..n parts in the provider's own form, such as citations and calls of hosted tools."""
    media: tuple[MediaPart, ...] = ()
    """0..n images, audio parts and documents that the model made, in its order."""
    id: str | None = None
    """Identity in a list with the `messages` reducer; providers never see it."""
    partial: bool = False
    """Whether the reply was cut off: the run was cancelled while the model spoke. Providers never see it."""
    left_out: LeftOut | None = None
    """Messages left out of the conversation from here on, if that changed with this message; providers never see it."""
    role: Literal["assistant"] = "assistant"

    def __post_init__(self) -> None:
        _check_text(self)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of the message: 0..n.

        The text is first, if there is one, then come `media`, and then `provider_parts`.
        """
        return parts_of(self.text, (*self.media, *self.provider_parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMessage:
    """The result of a tool, in answer to one `ToolCall`: a text, or texts and media in order, as in a `UserMessage`."""

    tool_call_id: str
    text: str = ""
    content: Sequence[Content] = ()
    """The parts of the result in order, if it has media; else empty. See `UserMessage.content`."""
    id: str | None = None
    """Identity in a list with the `messages` reducer; providers never see it."""
    error: bool = False
    """Whether the text describes a failure. It is sent to providers that have a field for it: Anthropic, Gemini, and
    Amazon Bedrock if its requests are not signed."""
    role: Literal["tool"] = "tool"

    def __post_init__(self) -> None:
        _settle(self)

    @property
    def parts(self) -> tuple[Part, ...]:
        """What the message says, part by part: 0..n, none for an empty text."""
        return _parts(self)

    @property
    def media(self) -> tuple[MediaPart, ...]:
        """Its images, audio and documents, in order: 0..n."""
        return _media(self)


@final
class _ByRole:
    """Marks `Message` for pydantic: a mapping becomes the message of its role, which it has to name."""

    def __repr__(self) -> str:
        return "by role"

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Choose by the role, which is not guessed: a mapping with a text alone would become a system message."""
        from pydantic import Field
        from pydantic_core import PydanticCustomError, core_schema

        def check(value: Any) -> Any:
            if is_mapping(value) and "text" not in value and isinstance(value.get("content"), str):
                raise PydanticCustomError("message_text", "The text of a message belongs to 'text', not to 'content'")
            return value

        chosen = handler(Annotated[source, Field(discriminator="role")])
        return core_schema.no_info_before_validator_function(check, chosen)


Message: TypeAlias = Annotated[SystemMessage | UserMessage | AssistantMessage | ToolMessage, _ByRole()]
"""Any message. `role` distinguishes the kinds, in Python and in stored JSON."""
_MESSAGES: Final = (SystemMessage, UserMessage, AssistantMessage, ToolMessage)

Prompt: TypeAlias = str | Sequence[Message] | Sequence[Content]
"""The input of a model: one text from the user, texts and media that make one message, or a conversation."""
