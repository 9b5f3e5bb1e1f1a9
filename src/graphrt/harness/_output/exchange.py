"""Requests for answers in a given form, and the replies to them.

Agents use this module, as do graphs for all other harnesses of their nodes. The caller decides what to do if an answer
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

_INSTRUCTION: Final = "Answer with JSON alone, without any other text, that fits this JSON schema: "
"""Beginning of the instruction for models whose provider cannot enforce a schema.

It is part of request digests, so if it changed, a paused thread would not find its recorded replies.
"""
_DATA: Final = (bool, int, float, str, list, dict)
"""Types of parsed JSON. An output of any other type was created by the harness itself."""


def asked_of(form: OutputForm, model: ChatModel, request: ModelRequest) -> ModelRequest:
    """Return *request* with *form*: as a schema if the provider of *model* can enforce it, else in the instructions."""
    request = replace(request, output=form.spec)
    return request if model.profile.holds_to_output(request) else in_words(request)


def in_words(request: ModelRequest) -> ModelRequest:
    """Return *request* with its form as part of the instructions, for models whose provider cannot enforce it."""
    from pydantic_core import to_json

    if request.output is None:
        return request
    schema = to_json(request.output.schema).decode()
    instruction = f"{_INSTRUCTION}{schema}"
    first, *rest = request.messages
    if isinstance(first, SystemMessage):
        messages = (replace(first, text=f"{first.text}\n\n{instruction}"), *rest)
    else:
        messages = (SystemMessage(text=instruction), *request.messages)
    return replace(request, output=None, messages=messages)


def without_words(text: str) -> str:
    """Return the instructions *text* without the last line, if `in_words` added it."""
    at = text.rfind(_INSTRUCTION)
    return text if at < 0 or "\n" in text[at:] else text[:at].removesuffix("\n\n")


def with_output(reply: Any, form: OutputForm, *, of: str, where: str, prompt: Any) -> Any:
    """Return the *reply* of a harness with `output` parsed from its text.

    An output created by the harness is kept, unless it is merely the parsed JSON of the text. Replies with tool calls,
    or cut short by a limit, have no output.

    Args:
        reply: The result of the harness.
        form: The requested form.
        of: Name of the harness, for the error.
        where: Place of the call, for the error.
        prompt: The request to the harness, for the error text.

    Raises:
        BadResponseError: The text does not have the form.
    """
    if not issubclass(type(reply), AgentReply):
        return reply  # a custom harness may return something else, which the node gets unchanged
    answer: AgentReply = reply
    if answer.tool_calls or answer.stopped is not None or _is_made(answer):
        return answer
    try:
        return replace(answer, output=form.read(answer.text))
    except ValueError as error:
        problem = str(error)
    prompt_messages: tuple[Message, ...] = (UserMessage(text=prompt),) if isinstance(prompt, str) else tuple(prompt)
    raise misfit(problem, answer, of=of, where=where, said=(*prompt_messages, answer.message))


def misfit(
    problem: str, reply: AgentReply, *, of: str, where: str, said: Sequence[Message], note: str = ""
) -> BadResponseError:
    """Return the error for an answer that does not have the requested form.

    Args:
        problem: Why it does not.
        reply: The answer.
        of: Name of the harness or agent.
        where: Place of the call.
        said: The whole conversation.
        note: The action that was taken about it, ending with "; "; may be empty.
    """
    cut = "the answer was cut off at max_tokens; " if reply.finish_reason == "length" else ""
    return BAD_OUTPUT(
        of=of,
        problem=problem,
        note=f"{note}{cut}",
        beginning=reply.text[:80],
        model=reply.model,
        messages=tuple(said),
        where=where,
    )


def _is_made(reply: AgentReply) -> bool:
    """Return whether the harness itself created the output of *reply*, rather than parsing the JSON of its text."""
    output: Any = reply.output
    if output is None or type(output) not in _DATA:
        return output is not None
    try:
        return bool(output != parsed(reply.text))
    except ValueError:
        return True
