"""The `Tool` protocol of agents, and the values that go with it: policy, call context and result.

Only protocols and values live here. `function`, `from_model` and `mcp` make tools.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeAlias, cast

import typing_extensions as te

from graphrt.commands import EndType
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.harness._frozen_generics import refuse_assignment
from graphrt.harness.messages import Content, ToolCall, ToolSpec

__all__ = ["EffectClass", "Tool", "ToolContext", "ToolPolicy", "ToolResult"]

EffectClass: TypeAlias = Literal["pure", "idempotent", "once"]
"""Whether a call may be repeated if a crash lost its outcome, as for `Context.effect`. "pure" and "idempotent" calls
are repeated; a "once" call is repeated only if a person decides so."""


D_co = te.TypeVar("D_co", covariant=True, default=Any)
"""Type of `ToolContext.deps`; covariant, so a tool that needs only a base class accepts a subclass."""
S_co = te.TypeVar("S_co", covariant=True, default=Any)
"""Type of `ToolContext.state`; covariant, since it is only read."""


def _emit_nothing(_item: Any) -> None:
    """Drop the item, because no stream is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPolicy:
    """How an agent may use a tool."""

    effect: EffectClass = "idempotent"
    """Whether a call may be repeated if a crash lost its outcome."""
    timeout_s: float | None = None
    """Seconds that a call may take; after a timeout, the model gets an error that says so. None: no limit but the
    agent's own."""
    on_error: Literal["return", "raise"] = "return"
    """The handling of an exception in the tool: "return" shows the model the error, "raise" fails the agent's run
    with a ToolError."""
    approval: bool | Callable[[Mapping[str, Any]], bool | Awaitable[bool]] = False
    """Whether a person must approve each call. A function, sync or async, decides it by the validated arguments."""
    max_result_chars: int | None = None
    """Maximum number of characters of a result that the model is sent; it can read the rest. None:
    `AgentLimits.result_chars`."""
    reads: tuple[str, ...] = ()
    """Fields of the graph's state that the tool reads, as `ToolContext.state`."""
    writes: tuple[str, ...] = ()
    """Fields that the update of a `Command` of the tool may write."""
    goto: tuple[str | EndType, ...] = ()
    """Names of the nodes, or END, that a `Command` of the tool may lead to."""

    @property
    def needs_graph(self) -> bool:
        """Whether the tool reads or writes the state, or routes, so that its agent must run in a node of a graph."""
        return bool(self.reads or self.writes or self.goto)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext(Generic[D_co, S_co]):
    """Information about a tool call that the model cannot set, passed to the tool along with its arguments.

    Annotate the parameter as `ToolContext[Deps, State]` to give `deps` the type `Deps`, and `state` the type `State`.
    """

    call: ToolCall
    """The call as the model made it."""
    deps: D_co = field(default=cast("Any", None))
    """What the caller passed as `deps`; None without."""
    idempotency_key: str = ""
    """Key for external systems: the same if the call is repeated after a crash."""
    depth: int = 0
    """Number of agents above the calling agent: 0 for the outermost one."""
    node: str | None = None
    """Name of the graph node that the agent works for; None outside of a graph."""
    thread: str | None = None
    """Id of the thread that the graph runs on; None outside of a graph, or in a run without a thread."""
    state: S_co = field(default=cast("Any", None), compare=False, repr=False)
    """The state of the graph, to read the fields that the tool declares in `reads=`; a test may pass any value.

    It is the state that the node was given, with what the tools of earlier replies of this run have written. All calls
    of one reply see the same. A field that is not declared is a ToolStateError.
    """
    emit: Callable[[Any], None] = field(default=_emit_nothing, compare=False, repr=False)
    """Sends an item to the graph's stream in mode `custom`; does nothing if that is not streamed."""


ToolContext.__setattr__ = refuse_assignment  # type: ignore[method-assign]  # see there


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """Result of a tool with separate contents for the model and for the program."""

    text: str = ""
    """Text that the model reads; with `content`, its texts, as in a `ToolMessage`."""
    content: Sequence[Content] = ()
    """The parts of the result for the model in order, if it has images, audio or documents; else empty."""
    value: Any = None
    """Value for the program, in stream items and events. The model never sees it."""
    error: bool = False
    """Whether the result is marked as an error for the model."""

    def __post_init__(self) -> None:
        text: Any = self.text
        if not isinstance(text, str):
            raise INVALID_ARGUMENT(
                argument="The text of a ToolResult", value=text, wanted="a text, and a value for the program as value="
            )


class Tool(Protocol):
    """A tool: the model requests calls of it, and the agent makes them.

    A tool may be called from several tasks, event loops and worker threads at once.
    """

    @property
    def spec(self) -> ToolSpec:
        """Name, description and JSON schema of the arguments, which are sent to the model."""
        ...

    @property
    def policy(self) -> ToolPolicy:
        """How an agent may use the tool."""
        ...

    def check(self, arguments: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Validate *arguments* and return them by name, in the form that `call` takes. Must have no side effects.

        Raises:
            ToolArgumentsError: The arguments are invalid; its text is written for the model.
        """
        ...

    async def call(self, arguments: Mapping[str, Any], context: ToolContext, /) -> Any:
        """Run the tool.

        Args:
            arguments: The result of `check`.
            context: The call that this is.

        Returns:
            A string, an Image, Audio or Document, a list of texts and these, a ToolResult, or any value that can be
            serialized as JSON for the model; or a `Command`, whose `result` is such a value.
        """
        ...
