"""The form of an answer: asked for as a schema, checked as a value, and told to the model once if it does not fit."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final, final

from graphrt.errors import InputError
from graphrt.harness.messages import SystemMessage
from graphrt.harness.request import ModelRequest, OutputSpec

__all__ = ["OutputForm", "in_words"]

_FENCED: Final = re.compile(r"^\s*```[\w-]*\s*\n(.*?)\n?\s*```\s*$", re.DOTALL)
_PROBLEMS: Final = 5


@final
class OutputForm:
    """What an answer has to be: a type that pydantic can check.

    Args:
        wanted: A pydantic model, a dataclass, a TypedDict, or any other type with a JSON schema.

    Raises:
        InputError: No schema can be made of it.
    """

    def __init__(self, wanted: Any) -> None:
        from pydantic import TypeAdapter  # only agents with an output need it

        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(wanted)
            schema = self._adapter.json_schema()
        except Exception as error:  # pydantic has many ways to say so
            raise InputError(
                f"No JSON schema can be made of output={wanted!r}: {str(error).splitlines()[0]}",
                code="bad-output-type",
                fix="Give a pydantic model, a dataclass, a TypedDict or a simple type.",
                value=wanted,
            ) from error
        name = re.sub(r"[^A-Za-z0-9_-]", "_", getattr(wanted, "__name__", "output"))[:64] or "output"
        self._wrapped = schema.get("type") != "object"
        if self._wrapped:  # providers take objects only
            inner = {key: value for key, value in schema.items() if key != "$defs"}
            definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
            schema = {"type": "object", "properties": {"value": inner}, "required": ["value"], **definitions}
        self.spec: Final = OutputSpec(name=name, schema=schema)

    def read(self, text: str) -> Any:
        """The value that *text* stands for.

        Raises:
            ValueError: It is none; its text is written for the model.
        """
        from pydantic import ValidationError
        from pydantic_core import from_json

        fenced = _FENCED.match(text)
        try:
            value: Any = from_json(fenced[1] if fenced else text.strip())
        except ValueError as error:
            raise ValueError(f"it is no JSON: {error}") from None
        if self._wrapped:
            if not issubclass(type(value), dict) or "value" not in value:
                raise ValueError('it must be an object with the key "value"')
            value = value["value"]
        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            told = [f"{'.'.join(map(str, one['loc'])) or 'the answer'}: {one['msg']}" for one in found[:_PROBLEMS]]
            more = f" (and {len(found) - _PROBLEMS} more)" if len(found) > _PROBLEMS else ""
            raise ValueError(f"{'; '.join(told)}{more}") from None


def in_words(request: ModelRequest) -> ModelRequest:
    """*request*, for a model that no provider can hold to a form: asked for in the instructions."""
    from pydantic_core import to_json

    if request.output is None:
        return request
    schema = to_json(request.output.schema).decode()
    told = f"Answer with JSON alone, without any other text, that fits this JSON schema: {schema}"
    first, *rest = request.messages
    if isinstance(first, SystemMessage):
        messages = (replace(first, text=f"{first.text}\n\n{told}"), *rest)
    else:
        messages = (SystemMessage(text=told), *request.messages)
    return replace(request, output=None, messages=messages)
