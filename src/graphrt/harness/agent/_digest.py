"""Names for requests and arguments that are the same in every process: what was asked, not when or by whom."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from graphrt.harness._output.form import OutputForm, in_words
from graphrt.harness.messages import AssistantMessage, ToolCall
from graphrt.harness.protocol import ChatModel
from graphrt.harness.request import ModelRequest

if TYPE_CHECKING:
    from graphrt.harness.agent._services import AgentServices

__all__ = ["as_known", "of_arguments", "of_call", "of_request", "of_run"]


def of_request(request: ModelRequest) -> str:
    """32 hex digits of the SHA-256 of all that the model is asked."""
    return sha256(_bytes(_asked(request))).hexdigest()[:32]


def of_run(agent: str, request: ModelRequest) -> str:
    """16 hex digits of the SHA-256 of who is asked, and what it is asked first."""
    return sha256(_bytes([agent, _asked(request)])).hexdigest()[:16]


def as_known(
    host: AgentServices,
    path: str,
    agent: str,
    requests: Sequence[ModelRequest],
    form: OutputForm | None,
    model: ChatModel,
) -> ModelRequest:
    """The first of *requests*, which asks *model* for an answer of *form*; or the one whose answers *host* remembers.

    A model that cannot be held to a form is asked for it in words, and such a request has another digest. Where a
    model replaces another one on a paused thread, what was remembered is looked for under both.

    Args:
        host: Of the agent.
        path: Of the agent that calls, empty if none does.
        agent: The name of the agent.
        requests: 1..n ways to begin, today's first.
        form: What the answer has to be.
        model: The first that is asked.
    """
    ways = [way for request in requests for way in _ways(request, form, model)]
    if not host.remembers or len(ways) == 1:
        return ways[0]
    return next((way for way in ways if host.knows(f"{path}{of_run(agent, way)}.")), ways[0])


def _ways(request: ModelRequest, form: OutputForm | None, model: ChatModel) -> tuple[ModelRequest, ...]:
    if form is None:
        return (request,)
    asked = form.asked_of(model, request)
    held = replace(request, output=form.spec)
    return asked, in_words(held) if asked.output is not None else held


def of_arguments(arguments: Mapping[str, Any]) -> str:
    """16 hex digits of the SHA-256 of the arguments, whatever their order."""
    try:
        text = json.dumps(arguments, sort_keys=True, separators=(",", ":"), default=repr).encode()
    except (TypeError, ValueError):
        text = _bytes(arguments)
    return sha256(text).hexdigest()[:16]


def of_call(prompt: Any, options: Mapping[str, Any]) -> str:
    """32 hex digits of the SHA-256 of what a harness is asked."""
    return sha256(_bytes([_said(prompt), options])).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Thoughtless:
    """An AssistantMessage as it was before it had `thinking`: journals know calls by the digest of that form."""

    text: str
    tool_calls: tuple[ToolCall, ...]
    id: str | None
    role: str = "assistant"


_Thoughtless.__qualname__ = AssistantMessage.__qualname__  # in its repr, of which digests are made too


def _asked(request: ModelRequest) -> ModelRequest:
    return replace(request, messages=_said(request.messages))


def _said(prompt: Any) -> Any:
    """*prompt* in the form that digests have always been made of; only what is new in it adds to that form."""
    return type(prompt)(map(_message, prompt)) if type(prompt) in (list, tuple) else prompt


def _message(message: Any) -> Any:
    match message:
        case AssistantMessage(thinking=()):
            return _Thoughtless(text=message.text, tool_calls=message.tool_calls, id=message.id)
        case _:
            return message


def _bytes(value: Any) -> bytes:
    try:
        return to_json(value, fallback=repr)
    except ValueError:  # a text with half of a surrogate pair: some models write it
        return repr(value).encode("utf-8", "surrogatepass")
