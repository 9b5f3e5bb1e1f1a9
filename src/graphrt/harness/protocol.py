"""How a model is spoken to: the protocols of harnesses and models, and what comes back.

Protocols and replies live here; what goes in is `request`'s. Nothing that knows a provider, a script or a network does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import FrozenInstanceError, dataclass, field
from typing import Any, Final, Generic, Literal, NoReturn, Protocol, TypeAlias, Unpack

import typing_extensions as te

from graphrt.events import Usage
from graphrt.harness._arguments import check_amount, check_whole
from graphrt.harness._surrogates import whole
from graphrt.harness.messages import (
    AssistantMessage,
    Message,
    Prompt,
    SystemMessage,
    ThinkingBlock,
    ToolCall,
    ToolSpec,
    UserMessage,
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
"""Type of an answer's output. Covariant: a reply is only read, and Agents and bound harnesses only give replies."""

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter", "unknown"]
"""Why the model stopped writing."""


_NO_OUTPUT: Final[Any] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReply(Generic[OutputT_co]):
    """What a model answered: an `AgentReply[Person]` where the answer had to be a `Person`.

    Lone surrogates in its texts become U+FFFD when it is made, since no store and no socket takes them.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    """0..n calls the model asks for, in its order."""
    usage: Usage | None = None
    """Tokens and cost of this call. None means unknown, never free."""
    finish_reason: FinishReason = "stop"
    """Why the model stopped; with tool calls "stop" reads as "tool_calls", whichever of the two the provider said."""
    model: str | None = None
    """The model that answered, as the provider names it."""
    thinking: str = ""
    """What the model wrote for itself before it answered, where the provider shows it."""
    thinking_blocks: tuple[ThinkingBlock, ...] = ()
    """0..n blocks that the provider wants back, unchanged, while the conversation goes on; `message` has them."""
    output: OutputT_co = field(default=_NO_OUTPUT, hash=False)
    """What the text stands for, where the answer had to have a form; made and checked by an Agent, or by a graph for
    the harnesses of its nodes. None where there is none: no form, calls of tools, or a limit that ended the loop."""
    messages: tuple[Message, ...] = field(default=(), repr=False)
    """The whole conversation with the reply at its end, where an Agent led it: 0..n messages."""
    stopped: str | None = None
    """The limit that ended an Agent's loop early; None if it came to its end."""
    prompt_messages: int | None = field(default=None, repr=False)
    """How many of `messages` were there before the first answer, instructions included; None where nobody says."""

    def __post_init__(self) -> None:
        for name in ("text", "thinking", "model"):
            said: Any = getattr(self, name)
            if isinstance(said, str) and not said.isascii():
                object.__setattr__(self, name, whole(said))
        if self.tool_calls and self.finish_reason == "stop":
            object.__setattr__(self, "finish_reason", "tool_calls")

    @property
    def message(self) -> AssistantMessage:
        """The reply as a message, to go on with the conversation."""
        sealed = tuple(block for block in self.thinking_blocks if block.sealed)
        return AssistantMessage(text=self.text, tool_calls=self.tool_calls, thinking=sealed)

    @property
    def new_messages(self) -> tuple[Message, ...]:
        """What was said since the prompt, to keep beside it: 0..n messages.

        Answers, results of tools and, where an Agent had an answer repaired, what the model was told of it; never the
        prompt, nor instructions. Where nobody led a conversation it is `message` alone.
        """
        if self.prompt_messages is not None:
            return self.messages[self.prompt_messages :]
        if not self.messages:
            return (self.message,)
        said = self.messages
        asked = (n for n, one in enumerate(said, 1) if isinstance(one, (SystemMessage, UserMessage)))
        return said[max(asked, default=0) :]


def _refuse(self: AgentReply, name: str, value: object) -> NoReturn:  # noqa: ARG001
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


# What dataclass writes there for a class with slots raises TypeError for names that are no fields: before Python 3.12.3
# AgentReply[Person](...) would fail, which sets one (python/cpython#115165).
AgentReply.__setattr__ = _refuse  # type: ignore[assignment, method-assign]  # dataclass takes no method of that name


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """The next piece of a streamed text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingDelta:
    """The next piece of what the model writes for itself; all of them make the reply's `thinking`."""

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


ModelResponse: TypeAlias = AgentReply
"""What a model gives back is a reply; an Agent adds to it what it made of it."""

StreamItem: TypeAlias = TextDelta | ThinkingDelta | ToolCallDelta | AgentReply
"""What a stream yields: any number of deltas, then exactly one AgentReply."""


class AgentHarness(Protocol):
    """What a node needs from a model: a prompt goes in, a reply comes out.

    Any class with this one method will do; `async def run(self, prompt: Prompt, **options: Any) -> AgentReply`
    satisfies it and goes on doing so when options are added. It may be called from several tasks, event loops and
    worker threads at once.
    """

    # Written out: pyright takes `**options: Unpack[RunOptions]` of a protocol for anything, which an Agent, with
    # keyword arguments of its own beside those of RunOptions, does not fit. `output` may be taken more narrowly.
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
        """Ask the model once. The options are those of `RunOptions`, each of which may be left out.

        Args:
            prompt: One text from the user, or a conversation of 1..n messages.

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
            0..n deltas, then exactly one AgentReply: the whole reply, with its usage.

        Raises:
            InputError: The prompt or an option is wrong.
            HarnessError: The call failed, also in the middle; then no AgentReply was yielded.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """What is known of a model without asking it. None and the defaults mean: nothing in particular is known.

    Raises:
        InputError: A limit is no whole number of 1 or more, or a price no finite number of 0 or more.
    """

    name: str
    """As requests and replies name it."""
    provider: str = ""
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    tools: bool = True
    """Whether it can call tools."""
    output_schema: bool = True
    """Whether the provider can hold it to an `OutputSpec`; else the form is asked for in words."""
    output_schema_with_tools: bool = True
    """Whether it can also while tools are offered; else the form is asked for in words where they are."""
    open_output_schema: bool = True
    """Whether it can also be held to a schema that is not strict; else such a form is asked for in words."""
    input_usd_per_token: float | None = None
    output_usd_per_token: float | None = None
    count_tokens: Callable[[ModelRequest], int] | None = field(default=None, compare=False)
    """Tokens that a request takes; None: nobody knows, and a budget reserves one for each byte."""

    def __post_init__(self) -> None:
        check_whole("max_input_tokens of a ModelProfile", self.max_input_tokens, least=1)
        check_whole("max_output_tokens of a ModelProfile", self.max_output_tokens, least=1)
        check_amount("input_usd_per_token of a ModelProfile", self.input_usd_per_token)
        check_amount("output_usd_per_token of a ModelProfile", self.output_usd_per_token)

    def holds_to_output(self, request: ModelRequest) -> bool:
        """Whether the provider can hold the model to the form that *request* asks for, with all else that it asks."""
        form = request.output
        if form is None:
            return True
        with_tools = self.output_schema_with_tools or not request.tools
        return self.output_schema and with_tools and (self.open_output_schema or form.strict)


class ChatModel(Protocol):
    """A model of some provider: one request goes in, one response comes out. It calls no tools and retries nothing.

    It may be called from several tasks, event loops and worker threads at once.
    """

    @property
    def profile(self) -> ModelProfile:
        """What is known of the model."""
        ...

    async def invoke(self, request: ModelRequest, /) -> ModelResponse:
        """Ask once and wait for the whole response.

        Raises:
            HarnessError: The call failed; its subclasses say what kind of failure it was.
        """
        ...

    def stream(self, request: ModelRequest, /) -> AsyncIterator[StreamItem]:
        """Ask once and yield the response in pieces.

        Yields:
            0..n deltas, then exactly one ModelResponse: the whole of it, with its usage.

        Raises:
            HarnessError: The call failed, also in the middle; then no ModelResponse was yielded.
        """
        ...
