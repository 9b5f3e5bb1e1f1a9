"""Digests of requests and arguments: keys under which a task remembers model calls and tool calls (decision 0033).

A digest depends on the content only, so it is the same in every process and at every execution of the task. Stored
journals contain digests: the bytes that are hashed for a given content are part of the stored form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from graphrt.harness._output.exchange import asked_of, in_words
from graphrt.harness._output.form import OutputForm
from graphrt.harness.media import Media
from graphrt.harness.protocol import ChatModel
from graphrt.harness.request import ModelRequest

if TYPE_CHECKING:
    from graphrt.harness.agent._host import Host

__all__ = ["as_known", "of_arguments", "of_call", "of_request", "of_run"]


def of_request(request: ModelRequest) -> str:
    """Return 32 hex digits of the SHA-256 of the whole request."""
    return sha256(_bytes(request)).hexdigest()[:32]


def of_run(agent: str, request: ModelRequest) -> str:
    """Return 16 hex digits of the SHA-256 of the agent's name and the first request of its run."""
    return sha256(_bytes([agent, request])).hexdigest()[:16]


def as_known(
    host: Host,
    path: str,
    agent: str,
    request: ModelRequest,
    form: OutputForm | None,
    model: ChatModel,
) -> ModelRequest:
    """Return *request*, which begins a run, with the form of the answer, as *host* remembers answers to it.

    The form of the answer is part of the request: as a schema, or in the instructions if *model* cannot be held to a
    schema. The two have different digests. When another model replaces the first on a paused thread, the answers may
    be remembered under either (decision 0039).

    Args:
        host: What the agent runs for.
        path: Key path of the calling agent, empty if none calls.
        agent: Name of the agent.
        request: The request without a form of the answer.
        form: Required form of the answer; None for free text.
        model: The model that is asked first.
    """
    if form is None:
        return request
    formed = asked_of(form, model, request)
    replies = host.replies
    if not replies:
        return formed
    with_schema = replace(request, output=form.spec)
    other = in_words(with_schema) if formed.output is not None else with_schema  # the form for the other kind of model
    candidates = ((candidate, f"{path}{of_run(agent, candidate)}.") for candidate in (formed, other))
    return next(
        (candidate for candidate, prefix in candidates if any(key.startswith(prefix) for key in replies)), formed
    )


def of_arguments(arguments: Mapping[str, Any]) -> str:
    """Return 16 hex digits of the SHA-256 of *arguments*, in any order of their keys."""
    try:
        text = json.dumps(arguments, sort_keys=True, separators=(",", ":"), default=repr).encode()
    except (TypeError, ValueError):  # keys that cannot be sorted, or a value that contains itself
        text = _bytes(arguments)
    return sha256(text).hexdigest()[:16]


def of_call(prompt: Any, options: Mapping[str, Any]) -> str:
    """Return 32 hex digits of the SHA-256 of one call of a plain harness."""
    return sha256(_bytes([prompt, options])).hexdigest()[:32]


def _bytes(value: Any) -> bytes:
    try:
        return to_json(value, fallback=_of_another)
    except ValueError:  # a text with a lone surrogate, which UTF-8 cannot encode; some models write it
        return repr(value).encode("utf-8", "surrogatepass")


def _of_another(value: Any) -> Any:
    """Return a replacement for a value without a JSON form: for an image, audio or a document, its type and hash."""
    return value.outline() if isinstance(value, Media) else repr(value)
