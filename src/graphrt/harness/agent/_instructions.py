"""The first request of an agent's run: its own instructions, then the prompt (decision 0038).

`_digest` looks up whether answers to such a request are remembered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from graphrt.harness._output.exchange import without_words
from graphrt.harness.messages import SystemMessage
from graphrt.harness.request import ModelRequest, RunOptions

__all__ = ["asked_first"]


def asked_first(prompt: Any, given: Mapping[str, Any], defaults: RunOptions) -> ModelRequest:
    """Return the request that begins a run.

    Instructions come first, whatever system messages *prompt* has. They are only left out if *prompt* begins with an
    identical message, so that `reply.messages` of the same agent can be continued without a second copy.

    Args:
        prompt: As given to the run.
        given: Options of the run.
        defaults: Options of the agent.

    Raises:
        InputError: The prompt or an option is wrong.
    """
    options: Any = given
    if isinstance(prompt, str) or not hasattr(prompt, "__iter__"):
        return ModelRequest.build(prompt, options, defaults=defaults)
    said = tuple(prompt)
    if not any(isinstance(one, SystemMessage) for one in said):
        return ModelRequest.build(said, options, defaults=defaults)
    said = _plain(said)
    request = ModelRequest.build(said, options, defaults=defaults)
    own, *rest = request.messages
    if len(rest) == len(said) and isinstance(rest[0], SystemMessage) and rest[0].text == own.text:
        return replace(request, messages=tuple(rest))
    return request


def _plain(said: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the conversation *said* without a request for a form of answer at the end of its first system message.

    An earlier run added that request, for its own answer.
    """
    first = said[0]
    if not isinstance(first, SystemMessage):
        return said
    text = without_words(first.text)
    if text == first.text:
        return said
    return (replace(first, text=text), *said[1:]) if text else said[1:] or said
