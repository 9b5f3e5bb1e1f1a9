"""Canonical form of a request: plain data with sorted keys that is equal for calls that ask the same.

Its SHA-256 is the key under which a cassette finds a recording. Everything that differs between two runs of one test is
left out: message ids, ids of tool calls, timeouts, addresses, headers and credentials. So are fields at their defaults,
so that a new field of `ModelRequest` changes no existing key (decision 0032). Pure functions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, Final

from pydantic import BaseModel

from graphrt._arguments import is_mapping, is_sequence
from graphrt._sensitive_texts import is_secret_option
from graphrt.errors import InputError
from graphrt.errors._codes.cassettes import CASSETTE_UNSTORABLE
from graphrt.harness.cassette._redaction import Redactor
from graphrt.harness.messages import AssistantMessage, Message, ProviderPart, TextPart, ToolCall, ToolMessage, ToolSpec
from graphrt.harness.request import ModelRequest, OutputSpec

_NOT_ASKED: Final = frozenset({"timeout_s"})
"""Fields of a request that do not influence the answer."""
NAMES: Final = frozenset({"harness", *(field.name for field in fields(ModelRequest) if field.name not in _NOT_ASKED)})
"""Keys that a canonical request may have."""


def canonical(
    request: ModelRequest, redactor: Redactor, *, model: str | None = None, harness: str = ""
) -> dict[str, Any]:
    """Return the canonical form of *request*.

    Args:
        request: The call.
        redactor: Removes secrets from every text.
        model: Name of the model, if the request does not name one.
        harness: Name of the harness, if a cassette is used with several.

    Raises:
        InputError: The request contains an object that is not data (`cassette-unstorable`).
    """
    form: dict[str, Any] = {"harness": harness} if harness else {}
    for field in fields(ModelRequest):
        value = getattr(request, field.name)
        if field.name == "model":
            value = value or model
        if field.name in _NOT_ASKED or value == _default(field):
            continue
        form[field.name] = value
    try:
        shaped: dict[str, Any] = plain(
            {name: _FORMS.get(name, _any)(value, redactor) for name, value in form.items()}, "request"
        )
    except RecursionError:
        raise CASSETTE_UNSTORABLE(path="this request", problem="it is circular or nested too deeply") from None
    return shaped


def key(form: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a canonical request, as hex digits."""
    return hashlib.sha256(json.dumps(form, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def plain(value: Any, path: str) -> Any:
    """Return *value* as JSON data with sorted keys, with whole floats as ints, so that 1.0 and 1 are equal.

    Args:
        value: Data, pydantic models or model classes.
        path: Path of *value*, for errors.

    Raises:
        InputError: Something in *value* is not data (`cassette-unstorable`).
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return (
            int(value) if value.is_integer() and abs(value) < 2**53 else value
        )  # larger floats cannot represent every int
    if is_mapping(value):
        for name in value:
            if not isinstance(name, str):
                raise _no_data(name, f"a key of {path}")
        return {name: plain(value[name], f"{path}.{name}") for name in sorted(value)}
    if is_sequence(value):
        return [plain(item, f"{path}[{n}]") for n, item in enumerate(value)]
    if isinstance(value, type) and issubclass(value, BaseModel):
        return {"class": value.__name__, "schema": plain(value.model_json_schema(), path)}
    if isinstance(value, BaseModel):
        return plain(value.model_dump(mode="json"), path)
    raise _no_data(value, path)


def _no_data(value: Any, path: str) -> InputError:
    return CASSETTE_UNSTORABLE(path=path, problem=f"{type(value).__name__} is not plain data", value=value)


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _any(value: Any, redactor: Redactor) -> Any:
    return redactor.data(value)


def _messages(messages: tuple[Message, ...], redactor: Redactor) -> list[Any]:
    """Return the canonical messages. Tool calls and their answers are numbered, because their ids are random."""
    numbers: dict[str, int] = {}
    call_number = 0
    forms: list[Any] = []
    for message in messages:
        message = redactor.clean(message)
        form: dict[str, Any] = {"role": message.role, "text": message.text}
        if isinstance(message, AssistantMessage) and message.thinking:
            form["thinking"] = [block.text for block in message.thinking]  # signatures differ from run to run
        if isinstance(message, AssistantMessage) and message.tool_calls:
            form["tool_calls"] = calls = list[Any]()
            for call in message.tool_calls:
                call_number += 1
                numbers[call.id] = call_number  # if a provider reuses an id, the answer belongs to the later call
                calls.append(_call(call, call_number))
        if message.media:
            form["parts"] = _parts(message, redactor)
        if isinstance(message, ToolMessage):
            form["call"] = numbers.get(message.tool_call_id, 0)
            if message.error:
                form["error"] = True
        forms.append(form)
    return forms


def _parts(message: Message, redactor: Redactor) -> list[Any]:
    """Return the parts of a message with images, audio or documents in order, with hashes in place of their bytes."""
    return [
        part.text if isinstance(part, TextPart) else redactor.data(part.outline())
        for part in message.parts
        if not isinstance(part, ProviderPart)
    ]


def _call(call: ToolCall, number: int) -> dict[str, Any]:
    content: dict[str, Any] = {"arguments": call.arguments} if call.error is None else {"text": call.arguments_text}
    return {"call": number, "name": call.name, **content}


def _tools(tools: tuple[ToolSpec, ...], redactor: Redactor) -> list[Any]:
    return [
        {
            "name": tool.name,
            "description": redactor.text(tool.description),
            "parameters": redactor.data(tool.parameters),
        }
        for tool in tools
    ]


def _output(output: OutputSpec, redactor: Redactor) -> dict[str, Any]:
    return {"name": output.name, "schema": redactor.data(output.schema), "strict": output.strict}


def _options(options: Mapping[str, Any], redactor: Redactor) -> Any:
    return redactor.data({name: _without(value) for name, value in options.items() if not is_secret_option(str(name))})


def _without(value: Any) -> Any:
    """Remove credentials in nested options: texts and headers only, since a schema may describe a field `password`."""
    if is_mapping(value):
        return {
            name: _without(item)
            for name, item in value.items()
            if not (is_secret_option(str(name)) and (isinstance(item, str) or "header" in str(name).lower()))
        }
    return [_without(item) for item in value] if is_sequence(value) else value


_FORMS: Final[Mapping[str, Any]] = {
    "messages": _messages,
    "tools": _tools,
    "output": _output,
    "options": _options,
}
