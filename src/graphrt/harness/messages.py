"""What is said between an agent and a model: messages, tools and calls of tools, as frozen values.

Values and what makes them valid live here. No provider's wire format, no call and no reply does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from graphrt.errors import BadResponseError, InputError
from graphrt.harness._surrogates import whole, whole_values

__all__ = [
    "AssistantMessage",
    "Message",
    "Prompt",
    "SystemMessage",
    "ThinkingBlock",
    "ToolCall",
    "ToolMessage",
    "ToolSpec",
    "UserMessage",
]


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
            raise InputError(
                "A tool has an empty name.", known=f"description {self.description!r}", fix="name the tool"
            )
        if not _is_mapping(self.parameters):
            raise InputError(
                f"The parameters of tool {self.name!r} are of type {type(self.parameters).__name__}.",
                fix="give the JSON schema of the arguments as a mapping",
                value=self.parameters,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call of a tool that the model asks for.

    Give `arguments` or `arguments_text`; the other one follows. Text that is not a JSON object does not raise: models
    write such text, and the usual answer is to show them the error. `arguments` is then empty and `error` says why.
    """

    id: str
    """Ties the call to the `ToolMessage` that answers it."""
    name: str
    """Name of the tool, as the model wrote it: it may be one that was never offered."""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)
    """The parsed arguments. Empty if `error` is set: check before use, or call `checked_arguments()`."""
    arguments_text: str = ""
    """The arguments as the model wrote them."""
    error: str | None = None
    """Why `arguments_text` is not a JSON object; None if it is."""

    def __post_init__(self) -> None:
        put = object.__setattr__  # frozen: only here, before anyone else holds the value
        for name in ("id", "name", "arguments_text"):
            text: Any = getattr(self, name)
            if isinstance(text, str) and not text.isascii():
                put(self, name, whole(text))
        if self.arguments or self.error is not None:
            if not self.arguments_text and self.error is None:
                text = _arguments_text(self)
                if whole(text) != text:
                    put(self, "arguments", whole_values(dict(self.arguments)))
                put(self, "arguments_text", whole(text))
            return
        arguments, error = _parse_arguments(self.arguments_text)
        put(self, "arguments", arguments)
        put(self, "error", error)
        put(self, "arguments_text", self.arguments_text or "{}")

    def checked_arguments(self) -> Mapping[str, Any]:
        """Return `arguments`, or raise if the model's text was no JSON object.

        Raises:
            BadResponseError: `error` is set.
        """
        if self.error is not None:
            raise BadResponseError(
                f"The model called tool {self.name!r} with arguments that are not a JSON object: {self.error}.",
                known=f"call {self.id!r}, text {self.arguments_text!r}",
                fix="answer the call with a ToolMessage that shows the model this error",
                code="bad-tool-arguments",
                value=self.arguments_text,
            )
        return self.arguments


def _arguments_text(call: ToolCall) -> str:
    try:
        return json.dumps(call.arguments, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"The arguments of the call of tool {call.name!r} are not JSON: {error}.",
            known=repr(call.arguments),
            fix="give strings, numbers, booleans, None, lists and mappings",
            value=call.arguments,
        ) from error


def _parse_arguments(text: str) -> tuple[dict[str, Any], str | None]:
    if not text.strip():
        return {}, None  # several providers send nothing for a tool without arguments
    try:
        value: Any = json.loads(text)
        if "\\ud" in text.lower():  # half of a pair may be written as an escape, within the text of the arguments
            value = whole_values(value)
    except ValueError as error:
        return {}, str(error)
    except RecursionError:
        return {}, "it is nested too deeply"
    if not _is_mapping(value):
        return {}, f"expected a JSON object, got {type(value).__name__}"
    return value, None


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemMessage:
    """Instructions that stand above the conversation."""

    text: str
    id: str | None = None
    """Identity in a list with the `messages` reducer; providers never see it."""
    role: Literal["system"] = "system"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage:
    """What the user, or the node in its place, says."""

    text: str
    id: str | None = None
    """Identity in a list with the `messages` reducer; providers never see it."""
    role: Literal["user"] = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingBlock:
    """A piece of what the model wrote for itself, with the proof of its provider that the model wrote it.

    A model that thinks, and calls tools, must be shown its blocks again, unchanged, with the answers of the tools.
    """

    text: str = ""
    """What may be read of it; empty where the provider shows nothing."""
    signature: str = ""
    """The provider's proof, opaque."""
    redacted: str = ""
    """The block itself where the provider shows it to nobody, opaque; then the others are empty."""

    @property
    def sealed(self) -> bool:
        """Whether the provider can tell that it is its own: only such blocks go back to it."""
        return bool(self.signature or self.redacted)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessage:
    """What the model said: text, calls of tools, or both."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    """0..n calls, in the order the model made them."""
    thinking: tuple[ThinkingBlock, ...] = ()
    """0..n blocks that came before the text and the calls, for the provider that sealed them; others never see them."""
    id: str | None = None
    """Identity in a list with the `messages` reducer; providers never see it."""
    role: Literal["assistant"] = "assistant"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMessage:
    """What a tool returned: the answer to one `ToolCall`."""

    tool_call_id: str
    text: str
    id: str | None = None
    """Identity in a list with the `messages` reducer; providers never see it."""
    error: bool = False
    """Whether the text says what went wrong."""
    role: Literal["tool"] = "tool"


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolMessage
"""One message. `role` tells the kinds apart, in Python and in stored JSON."""

Prompt: TypeAlias = str | Sequence[Message]
"""What a model is asked: one text from the user, or a conversation."""
