"""What a tool is to an agent: what the model is told of it, how it may be used, and the call itself.

Protocols and values; how a function, a model class or a server becomes a tool is told in the files beside this one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeAlias, cast

import typing_extensions as te

from graphrt.harness.messages import ToolCall, ToolSpec

__all__ = ["EffectClass", "Tool", "ToolContext", "ToolPolicy", "ToolResult"]

EffectClass: TypeAlias = Literal["pure", "idempotent", "once"]
"""What may happen to a call whose outcome got lost, as for `Context.effect`: the first two are made again, one of class
"once" never is without a person's decision."""


D_co = te.TypeVar("D_co", covariant=True, default=Any)
"""Type of `ToolContext.deps`; covariant, so a tool that needs only a base class accepts a subclass."""


def _emit_nothing(_item: Any) -> None:
    """Nobody watches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPolicy:
    """How an agent may use a tool."""

    effect: EffectClass = "idempotent"
    timeout_s: float | None = None
    """Seconds that a call may take; the model is then told that it took too long. None: as long as the agent may."""
    on_error: Literal["return", "raise"] = "return"
    """Whether the model is shown what the tool raised, or the agent's run fails with it (ToolError)."""
    approval: bool | Callable[[Mapping[str, Any]], bool | Awaitable[bool]] = False
    """Whether a person has to agree to each call, or to those whose checked arguments a function, sync or async, picks."""
    max_result_chars: int | None = None
    """Most characters of a result that the model is shown; the text then says how much was cut. None: all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext(Generic[D_co]):
    """Information about a tool call that the model cannot set, passed to the tool beside its arguments.

    Annotate the parameter as `ToolContext[Deps]` to give `deps` the type `Deps`.
    """

    call: ToolCall
    """As the model made it."""
    deps: D_co = field(default=cast("Any", None))
    """What the caller passed as `deps`."""
    idempotency_key: str = ""
    """For the outside world: the same if the call is made again after a crash."""
    depth: int = 0
    """Agents above the one that calls: 0 for the outermost."""
    node: str | None = None
    """Name of the graph's node that the agent works for; None outside of a graph."""
    thread: str | None = None
    emit: Callable[[Any], None] = field(default=_emit_nothing, compare=False, repr=False)
    """Hands an item to whoever streams the mode `custom` of the graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a tool may return where the model is to read something else than the program."""

    text: str
    """For the model."""
    value: Any = None
    """For the program: on the stream and in events, never for the model."""
    error: bool = False
    """Whether the model is to know that it went wrong."""


class Tool(Protocol):
    """Something that a model may ask for and an agent does.

    It may be called from several tasks, event loops and worker threads at once.
    """

    @property
    def spec(self) -> ToolSpec:
        """What the model is told: name, description and the JSON schema of the arguments."""
        ...

    @property
    def policy(self) -> ToolPolicy:
        """How it may be used."""
        ...

    def check(self, arguments: Mapping[str, Any], /) -> Mapping[str, Any]:
        """The arguments as `call` wants them, by name. Nothing is done yet.

        Raises:
            ToolArgumentsError: They do not fit; its text is written for the model.
        """
        ...

    async def call(self, arguments: Mapping[str, Any], context: ToolContext, /) -> Any:
        """Do it, with what `check` returned.

        Returns:
            A text, a ToolResult, or anything that becomes JSON for the model.
        """
        ...
