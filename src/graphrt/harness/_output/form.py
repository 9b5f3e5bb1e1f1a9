"""Structured output: `output=` becomes a JSON schema for the model, and the text of an answer a value of the type.

`exchange` handles requests that carry a form, and the replies to them.
"""

from __future__ import annotations

import re
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, Final, final

from graphrt.errors._codes.requests import BAD_OUTPUT_TYPE, NOT_AN_OUTPUT_TYPE
from graphrt.harness._output.spec import OutputSpec
from graphrt.harness._output.strict_schema import strict_form

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

__all__ = ["OutputForm", "form_of", "parsed", "written"]

_FENCED: Final = re.compile(r"^\s*```[\w-]*\s*\n(.*?)\n?\s*```\s*$", re.DOTALL)
"""An answer that is one fenced code block of Markdown; its group is the content."""
_PROBLEMS: Final = 5
"""Maximum number of validation errors shown to the model."""
_TYPING: Final = ("typing", "typing_extensions", "types")
"""Modules of the types of `list[int]`, `Literal[...]`, `NewType` and so on: not classes, although some are callable."""


@final
class OutputForm:
    """The required form of an answer: a type that pydantic can validate, or any JSON.

    Args:
        wanted: A pydantic model, a dataclass, a TypedDict, or any other type with a JSON schema. Or an OutputSpec:
            its schema is only sent to the provider, and any JSON is accepted.

    Raises:
        InputError: No JSON schema can be made of *wanted* (`bad-output-type`).
    """

    def __init__(self, output_type: Any) -> None:
        self._adapter: TypeAdapter[Any] | None = None
        self._wrapped = False
        """Whether the value is the field `value` of the JSON object that the model writes."""
        self.spec: OutputSpec
        """The request for this form."""
        if isinstance(output_type, OutputSpec):
            self.spec = output_type
            return
        _check_type(output_type)
        from graphrt.harness._output.typed_dicts import adapter_of  # imports pydantic, which only output= needs

        try:
            self._adapter = adapter_of(output_type)
            schema = self._adapter.json_schema()
        except Exception as error:  # pydantic raises many kinds of errors for types without a schema
            raise BAD_OUTPUT_TYPE(value=output_type, reason=str(error).splitlines()[0]) from error
        name = re.sub(r"[^A-Za-z0-9_-]", "_", getattr(output_type, "__name__", "output"))[:64] or "output"
        self._wrapped = schema.get("type") != "object"
        if self._wrapped:  # at the top level, providers accept only objects
            inner = {key: value for key, value in schema.items() if key != "$defs"}
            definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
            schema = {"type": "object", "properties": {"value": inner}, "required": ["value"], **definitions}
        strict = strict_form(schema)
        self.spec = OutputSpec(name=name, schema=schema if strict is None else strict, strict=strict is not None)
        self.spec._made(self)

    def read(self, text: str) -> Any:
        """Parse *text* into a value of the type.

        Raises:
            ValueError: The text does not fit; the message is written for the model.
        """
        from pydantic import ValidationError

        value = parsed(text)
        if self._adapter is None:
            return value
        if self._wrapped:
            if not issubclass(type(value), dict) or "value" not in value:
                raise ValueError('it must be an object with the key "value"')
            value = value["value"]
        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            raise ValueError(_told(error)) from None


def written(value: Any, spec: OutputSpec) -> str:
    """Return the text that a model would write for *value* if asked for *spec*; for scripts of test doubles.

    Raises:
        ValueError: The value does not fit, or its text would be parsed into another value.
    """
    from pydantic import ValidationError
    from pydantic_core import PydanticSerializationError, to_json

    form: OutputForm | None = spec._made_by
    adapter = None if form is None else form._adapter
    try:
        if form is None or adapter is None:
            return to_json(value).decode()
        checked = adapter.validate_python(value)
        data = adapter.dump_python(checked, mode="json", by_alias=True)
        text = to_json({"value": data} if form._wrapped else data).decode()
    except ValidationError as error:
        raise ValueError(_told(error)) from None
    except PydanticSerializationError as error:
        raise ValueError(str(error)) from None
    reparsed = form.read(text)
    # Objects without their own `__eq__` are only equal to themselves, so the check is meaningless for them.
    equality: Any = type(checked).__eq__
    if reparsed != checked and equality is not object.__eq__:
        raise ValueError(f"what a model writes for it, {text[:80]}, is read as another value")
    return text


def form_of(output: Any) -> OutputForm | None:
    """Return the form for the argument `output=`, or None if there is none.

    Raises:
        InputError: *output* is neither an OutputSpec nor a type with a JSON schema.
    """
    return output if output is None or isinstance(output, OutputForm) else OutputForm(output)


def parsed(text: str) -> Any:
    """Parse *text* as JSON, which may be inside a fenced code block.

    Raises:
        ValueError: It is not JSON.
    """
    from pydantic_core import from_json

    fenced = _FENCED.match(text)
    try:
        return from_json(fenced[1] if fenced else text.strip())
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from None


def _told(error: ValidationError) -> str:
    """Summarize *error* for the model in one line."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    texts = [
        f"{'.'.join(map(str, problem['loc'])) or 'the answer'}: {problem['msg']}" for problem in problems[:_PROBLEMS]
    ]
    more = f" (and {len(problems) - _PROBLEMS} more)" if len(problems) > _PROBLEMS else ""
    return f"{'; '.join(texts)}{more}"


def _check_type(value: object) -> None:
    """Check that *value* is a type. pydantic would accept a function, and reject a value with an unclear error.

    Raises:
        InputError: It is a function, or a value instead of its class (`bad-output-type`).
    """
    kind = type(value)
    if isinstance(value, type) or kind.__module__ in _TYPING:
        return
    if is_dataclass(value) or hasattr(kind, "__pydantic_core_schema__"):
        described, fix = f"a value of type {kind.__name__}", f"Give the class: output={kind.__name__}."
    elif isinstance(value, dict):
        described, fix = "a dictionary", "Give a type; for a JSON schema, output=OutputSpec(name=..., schema=...)."
    elif callable(value):
        name = getattr(value, "__name__", kind.__name__)
        described, fix = f"the function {name!r}", "Give the type that the answer has to be, not what makes one."
    else:
        return
    raise NOT_AN_OUTPUT_TYPE(given=described, value=value, fix=fix)
