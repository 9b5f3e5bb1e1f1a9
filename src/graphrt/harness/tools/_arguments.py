"""The arguments of a function as a pydantic model: its JSON schema, and the check of what a model sent.

pydantic's work is done here, at the first tool that is made; no function is called and nothing is injected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Optional, TypeVar, get_args

import pydantic_core
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError

from graphrt.errors import ToolError
from graphrt.harness._output.typed_dicts import accepted
from graphrt.harness.tools._argument_errors import from_pydantic, misfit
from graphrt.harness.tools._signature import EMPTY, Parameter

T = TypeVar("T")

_CONFIG: Final = ConfigDict(extra="forbid")


class _Schema(GenerateJsonSchema):
    """Without the titles that pydantic makes up of names: they tell a model nothing and cost tokens."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic's own attribute

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - the signature is pydantic's
        return False


class Arguments:
    """What a tool's arguments have to be.

    Args:
        parameters: 0..n, each of which a schema can be made of; see `unmakeable`.
    """

    def __init__(self, parameters: Iterable[Parameter]) -> None:
        self._parameters: Final = tuple(parameters)
        self._adapter: Final[TypeAdapter[BaseModel]] = TypeAdapter(_model(self._parameters))
        self.schema: Final = json_schema(self._adapter)
        """JSON schema of the arguments: an object that forbids what it does not name."""
        self.names: Final = tuple(parameter.name for parameter in self._parameters)

    def check(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The values by name: those that were given, and those whose default only pydantic knows.

        Raises:
            ToolArgumentsError: They do not fit.
            ToolError: A validator of the program failed by itself.
        """
        found = validated(tool, self._adapter, arguments, self.names)
        checked: dict[str, Any] = {}
        for n, parameter in enumerate(self._parameters):
            field = f"p{n}"
            if field in found.model_fields_set or parameter.default is EMPTY or _is_field(parameter.default):
                checked[parameter.name] = getattr(found, field)
        return checked


def unmakeable(parameters: Iterable[Parameter]) -> list[str]:
    """One text for each parameter of which no schema can be made."""
    problems: list[str] = []
    for parameter in parameters:
        try:
            Arguments([parameter])
        except Exception as error:  # noqa: BLE001 - types of the program may raise anything here
            shown = _shown(parameter.annotation)
            why = (str(error).splitlines() or [type(error).__name__])[0].split(". ", 1)[0].strip(" .")
            problems.append(
                f"{parameter.name}: no JSON schema can be made of {shown} ({why}); take something that JSON has, "
                "a pydantic model or a dataclass, or mark it as Annotated[..., Injected(...)]"
            )
    return problems


def _shown(annotation: Any) -> str:
    plain = isinstance(annotation, type) and not get_args(annotation)
    return annotation.__name__ if plain else str(annotation).replace("typing.", "")


def json_schema(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """The schema of *adapter* with an object at its root where there is one, without made-up titles."""
    schema = adapter.json_schema(schema_generator=_Schema)
    reference = schema.get("$ref", "")
    if reference.startswith("#/$defs/"):  # a recursive model: providers want the object itself at the root
        schema = {**schema["$defs"][reference.removeprefix("#/$defs/")], "$defs": schema["$defs"]}
    schema.pop("title", None)
    if schema.get("type") == "object":
        schema.setdefault("properties", {})
    return schema


def validated(tool: str, adapter: TypeAdapter[T], arguments: Mapping[str, Any], known: tuple[str, ...]) -> T:
    """*arguments* as what *adapter* makes of them, read as JSON, in pydantic's lax mode.

    Raises:
        ToolArgumentsError: They do not fit.
        ToolError: A validator of the program failed by itself.
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
        raise ToolError(
            f"A validator of tool {tool!r} failed: {type(error).__name__}.",
            fix="let validators raise ValueError for what does not fit",
            tool=tool,
        ) from error


def _model(parameters: tuple[Parameter, ...]) -> type[BaseModel]:
    # The fields have names of our own and the parameters' names as aliases: so any name will do, also `schema`,
    # `copy`, `model_config` and `_x`, which pydantic keeps to itself.
    fields: dict[str, Any] = {}
    for n, parameter in enumerate(parameters):
        annotation = accepted(parameter.annotation)
        mine = Field(alias=parameter.name, validation_alias=parameter.name, serialization_alias=parameter.name)
        if _is_field(parameter.default):
            fields[f"p{n}"] = Annotated[annotation, parameter.default, mine]
        elif parameter.default is EMPTY:
            fields[f"p{n}"] = Annotated[annotation, mine]
        else:
            if parameter.default is None and not _takes_none(annotation):
                # `when: date = None`: the function takes None, whatever it says, and models send it.
                annotation = Optional[annotation]  # noqa: UP045 - an annotation need not be a type, which `|` asks for
            fields[f"p{n}"] = (Annotated[annotation, mine], parameter.default)
    made: type[BaseModel] = create_model("Arguments", __config__=_CONFIG, **fields)
    return made


def _takes_none(annotation: Any) -> bool:
    try:
        TypeAdapter(annotation).validate_python(None)
    except ValidationError:
        return False
    return True


def _is_field(default: object) -> bool:
    return isinstance(default, FieldInfo)
