"""Protocols of harnesses and models, their replies and stream items, and the profile of a model.

Requests are defined in `request`. Nothing that knows a provider, a script or a network belongs here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, Unpack

import typing_extensions as te

from graphrt._arguments import check_amount, check_whole
from graphrt.errors._codes.models import MEDIA_NOT_TAKEN
from graphrt.events import Usage
from graphrt.harness._frozen_generics import refuse_assignment
from graphrt.harness._surrogates import whole
from graphrt.harness.media import KINDS, MediaKind
from graphrt.harness.messages import (
    AssistantMessage,
    LeftOut,
    MediaPart,
    Message,
    Part,
    Prompt,
    ProviderPart,
    SystemMessage,
    ThinkingBlock,
    ToolCall,
    ToolSpec,
    UserMessage,
    parts_of,
)
from graphrt.harness.request import AgentRequest, ModelRequest, ReasoningEffort, RunOptions

__all__ = [
    "AgentHarness",
    "AgentReply",
    "AgentRequest",
    "ChatModel",
    "FinishReason",
    "ModelProfile",
    "ModelRequest",
    "ModelResponse",
    "RunOptions",
    "StreamItem",
    "StreamingHarness",
    "TextDelta",
    "ThinkingDelta",
    "ToolCallDelta",
]

OutputT_co = te.TypeVar("OutputT_co", default=Any, covariant=True)
"""Type of a reply's `output`. Covariant: a reply is only read, and Agents and bound harnesses only return replies."""

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter", "unknown"]
"""Why the model stopped writing."""


ROUTED: Final = "goto"
"""`AgentReply.stopped` of a run that ended because a tool led to another node."""
_NO_OUTPUT: Final[Any] = None
"""Default of `AgentReply.output`, typed `Any` so that it fits every `OutputT_co`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReply(Generic[OutputT_co]):
    """The reply of a model; an `AgentReply[Person]` if the answer had to be a `Person`.

    Lone surrogates in its texts become U+FFFD when it is made, since no store and no socket accepts them.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    """0..n calls that the model asks for, in its order."""
    usage: Usage | None = None
    """Tokens and cost of this call; in an Agent's reply, of its whole run. None means unknown, never free."""
    finish_reason: FinishReason = "stop"
    """Why the model stopped. With tool calls, "stop" becomes "tool_calls": providers differ in which one they send."""
    model: str | None = None
    """The model that answered, as the provider names it; None if unknown."""
    thinking: str = ""
    """The readable part of the model's thinking before the answer; empty if the provider shows none."""
    thinking_blocks: tuple[ThinkingBlock, ...] = ()
    """0..n blocks that the provider wants back unchanged in later requests; `message` has the sealed ones."""
    provider_parts: tuple[ProviderPart, ...] = ()
    """0..n parts in the provider's own form that are not text, in its order: citations, calls and results of hosted
    tools."""
    media: tuple[MediaPart, ...] = ()
    """0..n images, audio parts and documents that the model made, in its order."""
    output: OutputT_co = field(default=_NO_OUTPUT, hash=False)
    """The value of the text, if `output=` was given; parsed and checked by an Agent, or by a graph for the harnesses of
    its nodes. None without `output=`, with tool calls, and if a limit ended the run."""
    messages: tuple[Message, ...] = field(default=(), repr=False)
    """The whole conversation, this reply at its end, if an Agent led it; else empty."""
    stopped: str | None = None
    """The reason that ended an Agent's run early: the name of a limit, or "goto" if a tool led to another node. None
    if the run completed."""
    agent: str | None = None
    """Name of the Agent that answered; after a handoff, the second agent. None if no Agent did."""
    prompt_messages: int | None = field(default=None, repr=False)
    """How many of `messages` preceded the first answer, instructions included; None if unknown."""

    def __post_init__(self) -> None:
        for name in ("text", "thinking", "model"):
            text: Any = getattr(self, name)
            if isinstance(text, str) and not text.isascii():
                object.__setattr__(self, name, whole(text))
        if self.tool_calls and self.finish_reason == "stop":
            object.__setattr__(self, "finish_reason", "tool_calls")

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of the model's text: 0..n, without thinking and tool calls.

        The text is first, if there is one, then come `media`, and then `provider_parts`.
        """
        return parts_of(self.text, (*self.media, *self.provider_parts))

    @property
    def message(self) -> AssistantMessage:
        """The reply as a message, to continue the conversation with."""
        sealed = tuple(block for block in self.thinking_blocks if block.sealed)
        return AssistantMessage(
            text=self.text,
            tool_calls=self.tool_calls,
            thinking=sealed,
            provider_parts=self.provider_parts,
            media=self.media,
        )

    @property
    def left_out(self) -> LeftOut | None:
        """The messages that an Agent with a `Compaction` left out of the request; None if it sent all."""
        notes = (message.left_out for message in reversed(self.messages) if isinstance(message, AssistantMessage))
        return next((note for note in notes if note is not None), None)

    @property
    def new_messages(self) -> tuple[Message, ...]:
        """The messages after the prompt, to append to a stored conversation: 0..n.

        These are answers, tool results and, if an Agent had an answer repaired, the request for the repair. The prompt
        and instructions are never among them. Without a conversation it is `message` alone.
        """
        if self.prompt_messages is not None:
            return self.messages[self.prompt_messages :]
        if not self.messages:
            return (self.message,)
        # The length of the prompt is unknown: take what follows the last message that no model or tool wrote.
        messages = self.messages
        prompt_ends = (n for n, message in enumerate(messages, 1) if isinstance(message, (SystemMessage, UserMessage)))
        return messages[max(prompt_ends, default=0) :]


AgentReply.__setattr__ = refuse_assignment  # type: ignore[method-assign]  # see there


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """The next piece of a streamed text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingDelta:
    """The next piece of the model's streamed thinking; joined, the pieces are the reply's `thinking`."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallDelta:
    """The next piece of a streamed tool call; pieces with the same `index` belong to one call."""

    index: int
    """Position of the call in the reply, from 0."""
    id: str = ""
    """Empty in the pieces after the first."""
    name: str = ""
    """Empty in the pieces after the first."""
    arguments_text: str = ""
    """The next characters of the arguments."""


ModelResponse: TypeAlias = AgentReply
"""The response of a model is a reply, to which an Agent adds `output`, `messages`, `agent` and `stopped`."""

StreamItem: TypeAlias = TextDelta | ThinkingDelta | ToolCallDelta | AgentReply
"""An item of a stream: 0..n deltas, then exactly one AgentReply."""


class AgentHarness(Protocol):
    """The interface through which a node uses a model: a prompt goes in, a reply comes out.

    Any class with this one method is a harness. `async def run(self, prompt: Prompt, **options: Any) -> AgentReply`
    satisfies the protocol, and still does when options are added. The method may be called from several tasks, event
    loops and worker threads at once.
    """

    # The options are spelled out. pyright reads `**options: Unpack[RunOptions]` in a protocol as "any keyword", which
    # an Agent does not match: it has keyword arguments besides RunOptions. A harness may type `output` more narrowly.
    async def run(
        self,
        prompt: Prompt,
        /,
        *,
        tools: Sequence[ToolSpec] = ...,
        tool_choice: str | None = ...,
        output: Any = ...,
        system: str | None = ...,
        model: str | None = ...,
        max_tokens: int | None = ...,
        temperature: float | None = ...,
        top_p: float | None = ...,
        stop: Sequence[str] | None = ...,
        seed: int | None = ...,
        reasoning: ReasoningEffort | None = ...,
        timeout_s: float | None = ...,
        options: Mapping[str, Any] | None = ...,
    ) -> AgentReply:
        """Ask the model once. The options are those of `RunOptions`; each may be omitted.

        Args:
            prompt: One text from the user, or a conversation of 1..n messages.

        Returns:
            The reply. Tool calls are returned, not executed; an Agent executes those of its own tools.

        Raises:
            InputError: The prompt or an option is wrong.
            HarnessError: The call failed; its subclasses say what kind of failure it was.
        """
        ...


class StreamingHarness(Protocol):
    """A harness that can also stream its reply. It is a separate protocol, so that a fake needs only `run`."""

    def stream(self, prompt: Prompt, /, **options: Unpack[RunOptions]) -> AsyncIterator[StreamItem]:
        """Ask the model once and yield the reply in pieces.

        Yields:
            0..n deltas, then exactly one AgentReply: the whole reply, with its usage.

        Raises:
            InputError: The prompt or an option is wrong.
            HarnessError: The call failed, perhaps in the middle of the stream; no AgentReply was yielded then.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """Facts about a model that are known without calling it. None and the defaults mean: nothing in particular.

    Raises:
        InputError: A limit is not a whole number of 1 or more, or a price not a finite number of 0 or more.
    """

    name: str
    """The model's name in requests and replies."""
    provider: str = ""
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    tools: bool = True
    """Whether the model can call tools."""
    images: bool = True
    """Whether the model takes images. If not, a request with one is refused before it is sent."""
    audio: bool = True
    """Whether it takes audio."""
    documents: bool = True
    """Whether it takes documents, such as PDF files. Parts that are texts are sent as text, which every model takes."""
    output_schema: bool = True
    """Whether the provider can enforce an `OutputSpec`. If not, the instructions describe the schema."""
    output_schema_with_tools: bool = True
    """Whether it can do this while tools are offered. If not, the instructions ask for the schema whenever they are."""
    open_output_schema: bool = True
    """Whether it can enforce a schema that is not strict. If not, the instructions ask for such a schema."""
    input_usd_per_token: float | None = None
    output_usd_per_token: float | None = None
    count_tokens: Callable[[ModelRequest], int] | None = field(default=None, compare=False)
    """Counts the tokens of a request. None: unknown, so a budget reserves one token per byte."""

    def __post_init__(self) -> None:
        check_whole("max_input_tokens of a ModelProfile", self.max_input_tokens, least=1)
        check_whole("max_output_tokens of a ModelProfile", self.max_output_tokens, least=1)
        check_amount("input_usd_per_token of a ModelProfile", self.input_usd_per_token)
        check_amount("output_usd_per_token of a ModelProfile", self.output_usd_per_token)

    @property
    def media(self) -> frozenset[MediaKind]:
        """The kinds of media that the model takes."""
        flags: dict[MediaKind, bool] = {"image": self.images, "audio": self.audio, "document": self.documents}
        return frozenset(kind for kind, supported in flags.items() if supported)

    def check_media(self, request: ModelRequest) -> None:
        """Check that the model takes the images, audio and documents in *request*.

        Media that a model made before are allowed: they are described where they cannot be shown.

        Raises:
            BadRequestError: It does not (`media-not-taken`).
        """
        supported = self.media
        if len(supported) == len(KINDS):
            return
        for message in request.messages:
            for part in () if isinstance(message, AssistantMessage) else message.media:
                if part.kind not in supported and not (part.kind == "document" and part.is_text):
                    kinds = part.kind if part.kind == "audio" else f"{part.kind}s"
                    raise MEDIA_NOT_TAKEN(
                        model=self.name, kinds=kinds, part=part, provider=self.provider or None, status_code=None
                    )

    def holds_to_output(self, request: ModelRequest) -> bool:
        """Return whether the provider can enforce the output schema of *request*, given its tools and strictness."""
        form = request.output
        if form is None:
            return True
        with_tools = self.output_schema_with_tools or not request.tools
        return self.output_schema and with_tools and (self.open_output_schema or form.strict)


def cost_of(profile: ModelProfile, read: int, written: int) -> float | None:
    """Return the cost in dollars of *read* input tokens and *written* output tokens; None if a price is unknown."""
    if profile.input_usd_per_token is None or profile.output_usd_per_token is None:
        return None
    return read * profile.input_usd_per_token + written * profile.output_usd_per_token


def priced(usage: Usage, profile: ModelProfile) -> Usage:
    """Return *usage* with a cost at the profile's prices, unless it already has one or a price is unknown.

    A cost that the provider reports wins over these prices. A usage without tokens was not reported, and has no price.
    """
    if usage.cost_usd is not None or not (usage.input_tokens or usage.output_tokens):
        return usage
    cost = cost_of(profile, usage.input_tokens, usage.output_tokens)
    return usage if cost is None else replace(usage, cost_usd=cost, unpriced_calls=usage.unreported_calls)


class ChatModel(Protocol):
    """A model of some provider: one request goes in, one response comes out. It executes no tools and never retries.

    It may be called from several tasks, event loops and worker threads at once.
    """

    @property
    def profile(self) -> ModelProfile:
        """Facts about the model."""
        ...

    async def invoke(self, request: ModelRequest, /) -> ModelResponse:
        """Ask once and return the whole response.

        Raises:
            HarnessError: The call failed; its subclasses say what kind of failure it was.
        """
        ...

    def stream(self, request: ModelRequest, /) -> AsyncIterator[StreamItem]:
        """Ask once and yield the response in pieces.

        Yields:
            0..n deltas, then exactly one ModelResponse: the whole response, with its usage.

        Raises:
            HarnessError: The call failed, perhaps in the middle of the stream; no ModelResponse was yielded then.
        """
        ...
