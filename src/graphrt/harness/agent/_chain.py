"""A chain of links around a call of a model, each with the signature `async (call, next) -> response`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias, final

from graphrt.events import Usage
from graphrt.harness.protocol import ModelProfile, ModelResponse, StreamItem
from graphrt.harness.request import ModelRequest

__all__ = ["Link", "Next", "PendingCall", "chained", "profile_of"]


@final
class PendingCall:
    """One call on its way through the chain. It is one object from end to end: links note in it what they find out."""

    __slots__ = ("began", "digest", "failed", "key", "model", "number", "request", "source")

    def __init__(self, request: ModelRequest, key: str, *, digest: str = "", number: int = 1) -> None:
        self.request: ModelRequest = request
        """What is asked; a fallback model may be asked in other words."""
        self.key: str = key
        """Identifies the call within the task: the same at every execution."""
        self.digest: str = digest
        """Digest of the request as it came; empty if nothing needs it."""
        self.number: int = number
        """Number of the call in its agent run, from 1."""
        self.model: Any = None
        """The model, or harness, that is asked; None before it is chosen."""
        self.began: list[StreamItem] = []
        """Items of the response that came in this attempt, if it is streamed."""
        self.failed: list[Usage] = []
        """Usage of each attempt that left no reply and was billed, those of earlier executions included."""
        self.source: Literal["model", "cache", "journal"] = "model"
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
