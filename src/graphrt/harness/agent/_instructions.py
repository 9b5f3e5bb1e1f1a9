"""What an agent asks first: its own instructions, then what it was given.

Only the beginning of a conversation is made here; what is remembered of one is looked up in `_digest`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from graphrt.harness._output.form import without_words
from graphrt.harness.messages import SystemMessage
from graphrt.harness.request import ModelRequest, RunOptions

__all__ = ["asked_first"]


def asked_first(prompt: Any, given: Mapping[str, Any], defaults: RunOptions) -> tuple[ModelRequest, ...]:
    """The request that begins a run, and as the second, where it is another one, that of graphrt 0.1.

    Instructions come first, whatever system messages *prompt* has (decision 0038). Only an identical one at its
    beginning is not repeated: so `reply.messages` of the same agent goes on without a second copy. Version 0.1 left
    the instructions of the agent out of every conversation that had a system message; what it remembered of a run on
    a paused thread is found under that request.

    Raises:
        InputError: The prompt or an option is wrong.
    """
    options: Any = given
    if isinstance(prompt, str) or not hasattr(prompt, "__iter__"):
        return (ModelRequest.build(prompt, options, defaults=defaults),)
    said = tuple(prompt)
    if not any(isinstance(one, SystemMessage) for one in said):
        return (ModelRequest.build(said, options, defaults=defaults),)
    before = ModelRequest.build(said, options, defaults={**defaults, "system": None})
    said = _plain(said)
    now = ModelRequest.build(said, options, defaults=defaults)
    own, *rest = now.messages
    if len(rest) == len(said) and isinstance(rest[0], SystemMessage) and rest[0].text == own.text:
        now = replace(now, messages=tuple(rest))
    return (now,) if now == before else (now, before)


def _plain(said: tuple[Any, ...]) -> tuple[Any, ...]:
    """*said*, whose first system message asks for no form: one was asked for in the run that *said* comes from."""
    first = said[0]
    if not isinstance(first, SystemMessage):
        return said
    text = without_words(first.text)
    if text == first.text:
        return said
    return (replace(first, text=text), *said[1:]) if text else said[1:] or said
