"""Arguments of a tool as a pydantic model: their JSON schema, and the validation of what the language model sent.

Imported when the first tool is made, because building pydantic models takes time. This module calls no function, and
injects no value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Generic, Optional, TypeVar, get_args

import pydantic_core
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError

from graphrt.errors._codes.tools import TOOL_FAILED_BY_VALIDATOR
from graphrt.harness._output.typed_dicts import accepted
from graphrt.harness.tools._argument_errors import from_pydantic, misfit, unknown
from graphrt.harness.tools._signature import EMPTY, Parameter

T = TypeVar("T")

_CONFIG: Final = ConfigDict(extra="forbid")


class _Schema(GenerateJsonSchema):
    """JSON schema generator that leaves out pydantic's generated titles: they cost tokens and say nothing new."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic's own attribute

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - the signature is pydantic's
        return False


class Arguments:
    """Schema and validator of one tool's arguments.

    Args:
        parameters: 0..n parameters. Pydantic must be able to make a schema for all of them; see `unmakeable`.
    """

    def __init__(self, parameters: Iterable[Parameter]) -> None:
        self._parameters: Final = tuple(parameters)
        self._adapter: Final[TypeAdapter[BaseModel]] = TypeAdapter(_model(self._parameters))
        self.schema: Final = json_schema(self._adapter)
        """JSON schema of the arguments: an object with `additionalProperties: false`."""
        self.names: Final = tuple(parameter.name for parameter in self._parameters)

    def check(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the validated values by parameter name.

        A parameter that the model left out is missing from the result, so that the function applies its own default.
        The exception is a default that is a pydantic `Field`, which only pydantic can resolve.

        Raises:
            ToolArgumentsError: The arguments are invalid.
            ToolError: One of the program's validators raised something other than a validation error.
        """
        instance = validated(tool, self._adapter, arguments, self.names)
        checked: dict[str, Any] = {}
        for n, parameter in enumerate(self._parameters):
            field = f"p{n}"
            if field in instance.model_fields_set or parameter.default is EMPTY or _is_field(parameter.default):
                checked[parameter.name] = getattr(instance, field)
        return checked


class TypedArguments(Generic[T]):
    """Schema and validator of arguments that are the fields of one type.

    Args:
        adapter: The type.
        closed: Whether unknown arguments are refused by name; pydantic would ignore them.
    """

    def __init__(self, adapter: TypeAdapter[T], *, closed: bool) -> None:
        schema = json_schema(adapter)
        self._adapter: Final = adapter
        self._closed: Final = closed
        self.names: Final[tuple[str, ...]] = tuple(schema.get("properties", ()))
        """Names of the arguments in JSON."""
        self.schema: Final = {**schema, "additionalProperties": False} if closed else schema
        """JSON schema of the arguments."""

    def check(self, tool: str, arguments: Mapping[str, Any]) -> T:
        """Return *arguments* as a value of the type.

        Raises:
            ToolArgumentsError: The arguments are invalid.
            ToolError: One of the program's validators raised something other than a validation error.
        """
        unknown_names = [name for name in arguments if name not in self.names] if self._closed else []
        if unknown_names:
            raise misfit(tool, [f"{name}: {unknown(name, self.names)}" for name in unknown_names])
        return validated(tool, self._adapter, arguments, self.names)


def unmakeable(parameters: Iterable[Parameter]) -> list[str]:
    """Return one text for each parameter that pydantic cannot make a JSON schema of."""
    problems: list[str] = []
    for parameter in parameters:
        try:
            Arguments([parameter])
        except Exception as error:  # noqa: BLE001 - the program's own types may raise anything
            type_text = _shown(parameter.annotation)
            reason = (str(error).splitlines() or [type(error).__name__])[0].split(". ", 1)[0].strip(" .")
            problems.append(
                f"{parameter.name}: no JSON schema can be made of {type_text} ({reason}); "
                "take something that JSON has, a pydantic model or a dataclass, "
                "or mark it as Annotated[..., Injected(...)]"
            )
    return problems


def _shown(annotation: Any) -> str:
    plain = isinstance(annotation, type) and not get_args(annotation)
    return annotation.__name__ if plain else str(annotation).replace("typing.", "")


def json_schema(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """Return the JSON schema of *adapter*, without generated titles and without a `$ref` at its root."""
    schema = adapter.json_schema(schema_generator=_Schema)
    reference = schema.get("$ref", "")
    if reference.startswith("#/$defs/"):  # a recursive model; providers want an object at the root
        schema = {**schema["$defs"][reference.removeprefix("#/$defs/")], "$defs": schema["$defs"]}
    schema.pop("title", None)
    if schema.get("type") == "object":
        schema.setdefault("properties", {})
    return schema


def validated(tool: str, adapter: TypeAdapter[T], arguments: Mapping[str, Any], known: tuple[str, ...]) -> T:
    """Validate *arguments* with *adapter*, in pydantic's lax mode.

    They are validated as JSON text and not as Python objects, because JSON is what the model sent (decision 0031).

    Args:
        tool: Name of the tool, for errors.
        adapter: The type that the arguments are validated as.
        arguments: What the model sent, by name.
        known: Names of the tool's arguments, for the message about an unknown one.

    Raises:
        ToolArgumentsError: The arguments are invalid.
        ToolError: One of the program's validators raised something other than a validation error.
    """
    try:
        text = pydantic_core.to_json(dict(arguments), inf_nan_mode="constants")
    except (PydanticSerializationError, ValueError) as error:
        raise misfit(tool, ["they are nested too deeply, or hold text that is no Unicode"]) from error
    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        findings = from_pydantic(error.errors(include_url=False, include_context=False), arguments, known)
        raise misfit(tool, findings) from None
    except Exception as error:
        raise TOOL_FAILED_BY_VALIDATOR(tool=tool, error=error) from error


def _model(parameters: tuple[Parameter, ...]) -> type[BaseModel]:
    # The fields are named p0, p1, ... and have the parameters' names as aliases. So a parameter may have any name,
    # even `schema`, `copy`, `model_config` or `_x`, which pydantic reserves or refuses as field names.
    fields: dict[str, Any] = {}
    for n, parameter in enumerate(parameters):
        annotation = accepted(parameter.annotation)
        alias_field = Field(alias=parameter.name, validation_alias=parameter.name, serialization_alias=parameter.name)
        if _is_field(parameter.default):
            fields[f"p{n}"] = Annotated[annotation, parameter.default, alias_field]
        elif parameter.default is EMPTY:
            fields[f"p{n}"] = Annotated[annotation, alias_field]
        else:
            if parameter.default is None and not _takes_none(annotation):
                # `when: date = None` accepts None in spite of its annotation, and models do send null for it.
                annotation = Optional[annotation]  # noqa: UP045 - `|` needs a type, and an annotation may be any object
            fields[f"p{n}"] = (Annotated[annotation, alias_field], parameter.default)
    model: type[BaseModel] = create_model("Arguments", __config__=_CONFIG, **fields)
    return model


def _takes_none(annotation: Any) -> bool:
    try:
        TypeAdapter(annotation).validate_python(None)
    except ValidationError:
        return False
    return True


def _is_field(default: object) -> bool:
    return isinstance(default, FieldInfo)
