"""Requests that ask for a form, and the replies to them.

Agents use it, and so do graphs for all other harnesses of their nodes. The caller decides what follows if an answer
does not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from graphrt.errors import BadResponseError
from graphrt.errors._codes.requests import BAD_OUTPUT
from graphrt.harness._output.form import OutputForm, parsed
from graphrt.harness.messages import Message, SystemMessage, UserMessage
from graphrt.harness.protocol import AgentReply, ChatModel
from graphrt.harness.request import ModelRequest

__all__ = ["asked_of", "in_words", "misfit", "with_output", "without_words"]

_TOLD: Final = "Answer with JSON alone, without any other text, that fits this JSON schema: "
"""Beginning of the instruction for models whose provider cannot enforce a schema.

Digests of requests include it: with another text, a paused thread would not find what it remembers.
"""
_DATA: Final = (bool, int, float, str, list, dict)
"""Types of parsed JSON. An output of any other type was made by the harness itself."""


def asked_of(form: OutputForm, model: ChatModel, request: ModelRequest) -> ModelRequest:
    """Return *request* with *form*: as a schema if *model* can be held to it, else in the instructions."""
    request = replace(request, output=form.spec)
    return request if model.profile.holds_to_output(request) else in_words(request)


def in_words(request: ModelRequest) -> ModelRequest:
    """Return *request* with its form as part of the instructions, for models whose provider cannot enforce it."""
    from pydantic_core import to_json

    if request.output is None:
        return request
    schema = to_json(request.output.schema).decode()
    told = f"{_TOLD}{schema}"
    first, *rest = request.messages
    if isinstance(first, SystemMessage):
        messages = (replace(first, text=f"{first.text}\n\n{told}"), *rest)
    else:
        messages = (SystemMessage(text=told), *request.messages)
    return replace(request, output=None, messages=messages)


def without_words(text: str) -> str:
    """Return the instructions *text* without the last line, if `in_words` added it."""
    at = text.rfind(_TOLD)
    return text if at < 0 or "\n" in text[at:] else text[:at].removesuffix("\n\n")


def with_output(reply: Any, form: OutputForm, *, of: str, where: str, prompt: Any) -> Any:
    """Return the *reply* of a harness with `output` parsed from its text.

    An output that the harness made itself is kept, unless it is merely the parsed JSON of the text. Replies with tool
    calls, or that a limit ended, have no output.

    Args:
        reply: What the harness returned.
        form: The form that was asked for.
        of: Name of the harness, for the error.
        where: Place of the call, for the error.
        prompt: What the harness was asked, for the error.

    Raises:
        BadResponseError: The text does not have the form.
    """
    if not issubclass(type(reply), AgentReply):
        return reply  # a harness that is written by hand may return something else: the node gets it as it is
    answer: AgentReply = reply
    if answer.tool_calls or answer.stopped is not None or _is_made(answer):
        return answer
    try:
        return replace(answer, output=form.read(answer.text))
    except ValueError as error:
        problem = str(error)
    asked: tuple[Message, ...] = (UserMessage(text=prompt),) if isinstance(prompt, str) else tuple(prompt)
    raise misfit(problem, answer, of=of, where=where, said=(*asked, answer.message))


def misfit(
    problem: str, reply: AgentReply, *, of: str, where: str, said: Sequence[Message], told: str = ""
) -> BadResponseError:
    """Return the error for an answer that does not have the form that was asked for.

    Args:
        problem: Why it does not.
        reply: The answer.
        of: Name of the harness or agent.
        where: Place of the call.
        said: The whole conversation.
        told: What was done about it, ending with "; "; may be empty.
    """
    return BAD_OUTPUT(
        of=of,
        problem=problem,
        told=told,
        beginning=reply.text[:80],
        model=reply.model,
        messages=tuple(said),
        where=where,
    )


def _is_made(reply: AgentReply) -> bool:
    """Return whether the harness itself made the output of *reply*, which is more than the parsed JSON of its text."""
    made: Any = reply.output
    if made is None or type(made) not in _DATA:
        return made is not None
    try:
        return bool(made != parsed(reply.text))
    except ValueError:
        return True
