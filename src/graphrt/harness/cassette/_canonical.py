"""What a call asks, in the one form that every call asking the same has: plain data with sorted keys.

Ids, time limits, addresses and credentials are not in it. Pure functions; who compares the forms is not known here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, Final

from pydantic import BaseModel

from graphrt.errors import InputError
from graphrt.harness.cassette._json_values import is_mapping, is_sequence
from graphrt.harness.cassette._redaction import Redactor, is_secret_option
from graphrt.harness.messages import AssistantMessage, Message, ToolCall, ToolMessage, ToolSpec
from graphrt.harness.request import ModelRequest, OutputSpec

_NOT_ASKED: Final = frozenset({"timeout_s"})
"""Fields of a request that change no answer."""
NAMES: Final = frozenset({"harness", *(field.name for field in fields(ModelRequest) if field.name not in _NOT_ASKED)})
"""Names that a canonical request may have."""


def canonical(
    request: ModelRequest, redactor: Redactor, *, model: str | None = None, harness: str = ""
) -> dict[str, Any]:
    """What *request* asks; fields at their defaults are left out, so that a new field changes no old form.

    Args:
        request: The call.
        redactor: Takes secrets out of every text.
        model: Who is asked if the request does not say it.
        harness: Name of the harness, where several are asked.

    Raises:
        InputError: The request holds something that is no data.
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
        raise InputError(
            "A Cassette cannot write down this request: something in it contains itself, or is nested too deeply.",
            fix="give plain data",
            code="cassette-unstorable",
        ) from None
    return shaped


def key(form: Mapping[str, Any]) -> str:
    """SHA-256 of a canonical request."""
    return hashlib.sha256(json.dumps(form, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def plain(value: Any, path: str) -> Any:
    """*value* as JSON data with sorted keys, where 1.0 and 1 are one number.

    Raises:
        InputError: Something in it is no data.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
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
    return InputError(
        f"A Cassette cannot write down {path}: it is of type {type(value).__name__}, which is not data.",
        fix="give such objects to the model or harness when it is made, not to the single call",
        code="cassette-unstorable",
        path=path,
        value=value,
    )


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _any(value: Any, redactor: Redactor) -> Any:
    return redactor.data(value)


def _messages(messages: tuple[Message, ...], redactor: Redactor) -> list[Any]:
    """Calls of tools are numbered, and their answers say the number: providers draw the ids by chance."""
    numbers: dict[str, int] = {}
    made = 0
    found: list[Any] = []
    for message in messages:
        message = redactor.message(message)
        form: dict[str, Any] = {"role": message.role, "text": message.text}
        if isinstance(message, AssistantMessage) and message.thinking:
            form["thinking"] = [block.text for block in message.thinking]  # seals are drawn by chance too
        if isinstance(message, AssistantMessage) and message.tool_calls:
            form["tool_calls"] = calls = list[Any]()
            for call in message.tool_calls:
                made += 1
                numbers[call.id] = made  # an id that a provider uses again means the later call
                calls.append(_call(call, made))
        elif isinstance(message, ToolMessage):
            form["call"] = numbers.get(message.tool_call_id, 0)
            if message.error:
                form["error"] = True
        found.append(form)
    return found


def _call(call: ToolCall, number: int) -> dict[str, Any]:
    said: dict[str, Any] = {"arguments": call.arguments} if call.error is None else {"text": call.arguments_text}
    return {"call": number, "name": call.name, **said}


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
    """Further down only texts and headers are credentials: a schema may well describe a field named `password`."""
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
