"""Arguments of a graph that is a tool: their JSON schema for the model, and the check of what the model sends.

The type of the arguments is a pydantic model, a dataclass, a TypedDict or another type that pydantic can validate. Its
fields may have *aliases*: names in JSON that differ from the names in Python. Only fields in the schema are passed to
the graph. This module does not run the graph.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, final, get_origin

import typing_extensions as te
from pydantic import BaseModel, RootModel

from graphrt.errors._codes.tools import TOOL_SCHEMA
from graphrt.harness._output.typed_dicts import adapter_of
from graphrt.harness.tools._arguments import TypedArguments

__all__ = ["GraphInput"]

_COLLECTIONS: Final[Any] = (list, tuple, set, frozenset)
"""Classes whose items are converted to plain data. A subclass, such as a named tuple, stays as it is."""


@final
class GraphInput:
    """Schema and check of the arguments of a graph as a tool.

    Args:
        graph: The compiled graph.
        wanted: The type of the arguments. None: the graph's declared input type, else its state.

    Raises:
        InputError: No JSON schema can be made of the type (`tool-schema`).
    """

    def __init__(self, graph: Any, input_type: Any) -> None:
        plan: Any = graph.__graphrt_plan__  # the compiled form; `plan.state` describes the graph's state class
        self._fields: Final[frozenset[str]] = frozenset(plan.state.fields)
        self._is_state: Final[bool] = input_type is None and plan.spec.input is None
        """Whether the type is the graph's state class, so that the graph itself validates the arguments."""
        if input_type is None:
            input_type = plan.state.cls if self._is_state else plan.spec.input
        try:
            # pydantic would ignore unknown arguments: refuse them by name instead, and say so in the schema.
            self._arguments: Final = TypedArguments(adapter_of(input_type), closed=_is_closed(input_type))
        except Exception as error:  # pydantic raises many kinds of errors for types without a schema
            raise TOOL_SCHEMA(
                problems=f"Graph {graph.name!r} cannot be a tool: no JSON schema can be made of {input_type!r}.",
                known=str(error).split("\n", 1)[0],
                fix="Give input=, a type that a model can fill in.",
            ) from error
        self.schema: Final = self._arguments.schema
        """JSON schema of the arguments."""

    def read(self, arguments: Mapping[str, Any], tool: str) -> dict[str, Any]:
        """Return the graph's input for *arguments*, which a model sent to the tool named *tool*.

        Raises:
            ToolArgumentsError: They do not fit the type.
            ToolError: A user-defined validator raised an error of another kind.
        """
        value = self._arguments.check(tool, arguments)
        if self._is_state:
            return dict(arguments)
        names = _fields_of(value)
        if names is None:  # a TypedDict, a union or a similar type: its value is already a mapping
            plain: dict[str, Any] = _plain(value)
            return plain
        # Match each argument to the state field with the same Python name, else to the one with its JSON name: both
        # classes may use aliases.
        values = {name if name in self._fields else alias: _plain(item) for name, alias, item in names}
        return {**values, **_more(value)}


def _is_closed(input_type: Any) -> bool:
    """Return whether *input_type* is a class that accepts only its declared fields; False for a union, for example.

    For such a class, unknown arguments can be refused by name.
    """
    cls: Any = get_origin(input_type) or input_type  # the class of a parametrised generic, such as `Ask[int]`
    if not (_is_model(cls) or _is_dataclass(cls) or te.is_typeddict(cls)):
        return False
    # pydantic reads a model's configuration from the first attribute, and that of other classes from the second.
    configs: list[Any] = [getattr(cls, name, None) for name in ("model_config", "__pydantic_config__")]
    return not any(config and config.get("extra") == "allow" for config in configs)


def _plain(value: Any) -> Any:
    """Convert *value* to plain data, recursively: the graph's state may declare other classes for the same fields."""
    # Not pydantic's dump: it leaves out fields that are excluded from output.
    cls: Any = value.__class__
    names = _fields_of(value)
    if names is not None:
        return {alias: _plain(item) for _, alias, item in names} | _more(value)
    if issubclass(cls, RootModel):
        return _plain(value.root)
    if issubclass(cls, Enum):
        return value.value
    if issubclass(cls, dict):
        return {key: _plain(item) for key, item in value.items()}
    if cls in _COLLECTIONS:
        return cls(map(_plain, value))
    return value


def _fields_of(value: Any) -> list[tuple[str, str, Any]] | None:
    """Return the name, JSON name and value of each field of *value*; None if it is not a model or dataclass."""
    cls: Any = value.__class__
    infos: Mapping[str, Any] = getattr(cls, "__pydantic_fields__", {})  # pydantic's description of the fields, by name
    if _is_model(cls):
        names = list(infos)
    elif _is_dataclass(cls):
        names = [field.name for field in dataclasses.fields(cls) if field.init]
    else:
        return None
    return [(name, _in_json(infos.get(name), name), getattr(value, name)) for name in names]


def _is_model(cls: Any) -> bool:
    """Return whether *cls* is a pydantic model with fields. A RootModel has a single value, `root`, and no fields."""
    return isinstance(cls, type) and issubclass(cls, BaseModel) and not issubclass(cls, RootModel)


def _is_dataclass(cls: Any) -> bool:
    """Return whether *cls* is a dataclass, and not an instance of one."""
    return isinstance(cls, type) and dataclasses.is_dataclass(cls)


def _in_json(info: Any, name: str) -> str:
    """Return the JSON name of the field *name*: its alias if it has one, else *name*.

    Args:
        info: pydantic's `FieldInfo`; None for a field that pydantic does not describe.
        name: Name of the field in Python.
    """
    # If an argument has several aliases (`AliasChoices`), the first counts. An `AliasPath` into nested data is not a
    # name.
    alias: Any = getattr(info, "validation_alias", None)
    choice: Any = getattr(alias, "choices", [alias])[0]
    return choice if isinstance(choice, str) else name


def _more(value: Any) -> dict[str, Any]:
    """Return the extra values of a model that allows extra fields."""
    extra: Mapping[str, Any] = getattr(value, "__pydantic_extra__", None) or {}
    return {key: _plain(item) for key, item in extra.items()}
