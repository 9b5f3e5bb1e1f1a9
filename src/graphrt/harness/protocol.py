"""How a model is spoken to: the two protocols of a harness, what goes in and what comes out.

Protocols and the values they exchange live here. Nothing that knows a provider, a script or a network does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias, TypedDict, Unpack

from graphrt.errors import InputError, closest, names
from graphrt.events import Usage
from graphrt.harness.messages import (
    AssistantMessage,
    Message,
    Prompt,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

__all__ = [
    "AgentHarness",
    "AgentReply",
    "AgentRequest",
    "FinishReason",
    "RunOptions",
    "StreamItem",
    "StreamingHarness",
    "TextDelta",
    "ToolCallDelta",
]

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter", "unknown"]
"""Why the model stopped writing."""


class RunOptions(TypedDict, total=False):
    """The keyword arguments of `AgentHarness.run`; every one may be left out."""

    tools: Sequence[ToolSpec]
    """0..n tools the model may call."""
    system: str | None
    """Instructions, put before the prompt. None: what the harness was made with."""
    model: str | None
    """Another model for this call. None: the harness's own."""
    max_tokens: int | None
    """Bound of the answer's length, in tokens."""
    temperature: float | None
    options: Mapping[str, Any] | None
    """What only this provider understands, passed on as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReply:
    """What a model answered."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    """0..n calls the model asks for, in its order."""
    usage: Usage | None = None
    """Tokens and cost of this call. None means unknown, never free."""
    finish_reason: FinishReason = "stop"
    """Why the model stopped; with tool calls "stop" reads as "tool_calls", whichever of the two the provider said."""
    model: str | None = None
    """The model that answered, as the provider names it."""

    def __post_init__(self) -> None:
        if self.tool_calls and self.finish_reason == "stop":
            object.__setattr__(self, "finish_reason", "tool_calls")

    @property
    def message(self) -> AssistantMessage:
        """The reply as a message, to go on with the conversation."""
        return AssistantMessage(text=self.text, tool_calls=self.tool_calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """The next piece of a streamed text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallDelta:
    """The next piece of a streamed tool call; the pieces with one `index` make one call."""

    index: int
    """Position of the call in the reply, from 0."""
    id: str = ""
    """Empty in the pieces after the first."""
    name: str = ""
    """Empty in the pieces after the first."""
    arguments_text: str = ""
    """The next characters of the arguments."""


StreamItem: TypeAlias = TextDelta | ToolCallDelta | AgentReply
"""What a stream yields: any number of deltas, then exactly one AgentReply."""


class AgentHarness(Protocol):
    """What a node needs from a model: a prompt goes in, a reply comes out.

    Any class with this one method will do; `async def run(self, prompt: Prompt, **options: Any) -> AgentReply`
    satisfies it and goes on doing so when options are added. It may be called from several tasks, event loops and
    worker threads at once.
    """

    async def run(self, prompt: Prompt, /, **options: Unpack[RunOptions]) -> AgentReply:
        """Ask the model once.

        Args:
            prompt: One text from the user, or a conversation of 1..n messages.
            **options: See `RunOptions`.

        Returns:
            The reply. Calls of tools are returned, never executed.

        Raises:
            InputError: The prompt or an option is wrong.
            HarnessError: The call failed; its subclasses say what kind of failure it was.
        """
        ...


class StreamingHarness(Protocol):
    """A harness that can also show the reply while it is being written. Separate, so that a fake needs only `run`."""

    def stream(self, prompt: Prompt, /, **options: Unpack[RunOptions]) -> AsyncIterator[StreamItem]:
        """Ask the model once and yield the reply in pieces.

        Yields:
            0..n TextDelta and ToolCallDelta, then exactly one AgentReply: the whole reply, with its usage.

        Raises:
            InputError: The prompt or an option is wrong.
            HarnessError: The call failed, also in the middle; then no AgentReply was yielded.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRequest:
    """One call of a harness, with everything checked: what `MockHarness.calls` records."""

    messages: tuple[Message, ...]
    """1..n messages; instructions given as `system` come first."""
    tools: tuple[ToolSpec, ...] = ()
    model: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)

    @property
    def text(self) -> str:
        """The text of the last message: what the model is to answer."""
        return self.messages[-1].text

    @property
    def system(self) -> str | None:
        """The instructions: the texts of the system messages, or None."""
        texts = [message.text for message in self.messages if isinstance(message, SystemMessage)]
        return "\n".join(texts) if texts else None

    @classmethod
    def build(cls, prompt: Prompt, options: RunOptions, *, defaults: RunOptions | None = None) -> AgentRequest:
        """Check the arguments of one `run` and put them into one value.

        Args:
            prompt: As given to `run`.
            options: As given to `run`.
            defaults: What the harness was made with; used for each option that is left out or None. Of `options`,
                the single keys are merged.

        Raises:
            InputError: An unknown option, an empty prompt, an item that is not a message, a tool given twice.
        """
        for name in options:
            if name not in RunOptions.__annotations__:
                raise _unknown_option(name)
        base: dict[str, Any] = {**(defaults or {})}
        given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        merged: dict[str, Any] = {**base, **given}
        extra: dict[str, Any] = {**(base.get("options") or {}), **(given.get("options") or {})}
        messages = _messages(prompt)
        if merged.get("system") is not None:
            messages = (SystemMessage(text=merged["system"]), *messages)
        max_tokens = merged.get("max_tokens")
        if max_tokens is not None and max_tokens < 1:
            raise InputError(f"max_tokens must be at least 1, not {max_tokens!r}.", value=max_tokens)
        return cls(
            messages=messages,
            tools=_tools(merged.get("tools", ())),
            model=merged.get("model"),
            max_tokens=max_tokens,
            temperature=merged.get("temperature"),
            options=extra,
        )


_KINDS: Final = (SystemMessage, UserMessage, AssistantMessage, ToolMessage)


def _is_a(value: object, kinds: type | tuple[type, ...]) -> bool:
    return isinstance(value, kinds)  # callers without a type checker get here too


def _unknown_option(name: str) -> InputError:
    guess = closest(name, RunOptions.__annotations__)
    hint = f"did you mean {guess!r}? " if guess else ""
    return InputError(
        f"A harness has no option {name!r}.",
        known=names(RunOptions.__annotations__),
        fix=f"{hint}What only one provider understands goes into options={{...}}",
        value=name,
    )


def _messages(prompt: Prompt) -> tuple[Message, ...]:
    if isinstance(prompt, str):
        return (UserMessage(text=prompt),)
    messages = tuple(prompt)
    for message in messages:
        if not _is_a(message, _KINDS):
            raise InputError(
                f"The prompt contains a value of type {type(message).__name__}, which is no message: {message!r}.",
                known=names(kind.__name__ for kind in _KINDS),
                fix='give a text, or a list of messages such as UserMessage(text="...")',
                value=message,
            )
    if not messages:
        raise InputError("The prompt has no messages.", fix="give a text, or at least one message")
    return messages


def _tools(tools: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    known: dict[str, ToolSpec] = {}
    for tool in tools:
        if not _is_a(tool, ToolSpec):
            raise InputError(f"A tool is of type {type(tool).__name__}.", fix="give ToolSpec values", value=tool)
        if tool.name in known:
            raise InputError(f"Two tools are named {tool.name!r}.", known=names(known), fix="rename one of them")
        known[tool.name] = tool
    return tuple(known.values())
