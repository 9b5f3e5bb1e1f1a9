"""A chain of links around a call of a model, each with the signature `async (call, next) -> response`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias, final

from graphrt.events import Usage
from graphrt.harness.protocol import ModelProfile, ModelResponse, StreamItem
from graphrt.harness.request import ModelRequest

__all__ = ["Link", "Next", "PendingCall", "chained", "profile_of"]


@final
@dataclass(slots=True)
class PendingCall:
    """One call on its way through the chain. It is one object from end to end: links note in it what they find out."""

    request: ModelRequest
    """What is asked; a fallback model may be asked in other words."""
    key: str
    """Identifies the call within the task: the same at every execution."""
    digest: str = ""
    """Digest of the request as it came; empty if nothing needs it."""
    number: int = 1
    """Number of the call in its agent run, from 1."""
    model: Any = None
    """The model, or harness, that is asked; None before it is chosen."""
    began: list[StreamItem] = field(default_factory=list["StreamItem"])
    """Items of the response that came in this attempt, if it is streamed."""
    failed: list[Usage] = field(default_factory=list["Usage"])
    """Usage of each attempt that left no reply and was billed, those of earlier executions included."""
    source: Literal["model", "cache", "journal"] = "model"
    """Where the response came from."""

    @property
    def profile(self) -> ModelProfile:
        """Profile of the model; reading it may import litellm (decision 0041)."""
        return profile_of(self.model)


def profile_of(model: Any) -> ModelProfile:
    """Return the profile of a model or harness: name, prices and limits. If it has none, only a name is known."""
    profile: ModelProfile = getattr(model, "profile", None) or ModelProfile(name=type(model).__name__)
    return profile


Next: TypeAlias = Callable[[PendingCall], Awaitable[ModelResponse]]
"""The rest of the chain; a link may call it any number of times."""


class Link(Protocol):
    """A link of a chain."""

    async def __call__(self, call: PendingCall, next_: Next) -> ModelResponse:
        """Return the response to *call*, of *next_* or of its own."""
        ...


def chained(links: Sequence[Link], end: Next) -> Next:
    """Return the chain of *links*, outermost first, around *end*."""
    for link in reversed(links):
        end = partial(link, next_=end)
    return end
