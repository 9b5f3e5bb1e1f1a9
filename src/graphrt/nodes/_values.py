"""`set_value`, `clear_error` and `record_error`: nodes that write values, and turn errors into values and back."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import Field
from typing_extensions import TypedDict

from graphrt._drivers.context import Context
from graphrt.commands import DELETE
from graphrt.errors import GraphrtError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.graph import declare_fields
from graphrt.harness import Template
from graphrt.nodes._state_access import SyncNode, checked_names, read
from graphrt.specs import Form, FunctionRef, Parts, SpecEntry, TemplateRef, Writer, declare_form
from graphrt.specs.manifest import Name, Number


class ErrorRecord(TypedDict):
    """An error as plain data, which any state can hold."""

    type: str
    """Name of its class."""
    code: str | None
    """Stable slug, if it is an error of graphrt."""
    message: str
    """The problem, without advice."""
    node: str
    """The node that failed."""
    task_id: str
    item: Any
    """Argument of the Send that started the task; None if no Send did."""


@dataclass(frozen=True, slots=True)
class FieldCopy:
    """The result of `copy_of`."""

    name: str


def copy_of(name: str) -> FieldCopy:
    """Return a value for `set_value` that is a copy of another field.

    Raises:
        InputError: *name* is not a name (`input`).
    """
    return FieldCopy(*checked_names("name", name, "copy_of()", least=1))


def set_value(**values: Any) -> SyncNode:
    """Return a node that writes values.

    Args:
        **values: By field: a value, copied for each run; `copy_of(field)`; a Template over fields; or a function of the
            state.

    Raises:
        InputError: No value was given (`input`).
    """
    if not values:
        raise INVALID_ARGUMENT(
            argument="what set_value() sets",
            value={},
            wanted="at least one field with its value: set_value(status='done')",
        )

    def write(state: Any, ctx: Context[Any]) -> dict[str, Any]:  # noqa: ARG001
        return {field: _made(value, state) for field, value in values.items()}

    reads = [value.name for value in values.values() if isinstance(value, FieldCopy)]
    reads += [field for value in values.values() if isinstance(value, Template) for field in value.fields]
    declare_form(write, SetValueForm, values)
    return declare_fields(write, reads=dict.fromkeys(reads), writes=values)


class CopyRef(SpecEntry):
    """A copy of another field."""

    copy_of: Name


class DataValue(SpecEntry):
    """Any data."""

    value: Any


class Deleted(SpecEntry):
    """Deletes the field, which then has its default again."""

    delete: Literal[True]


class SetValueForm(Form):
    """Writes values into fields."""

    kind: Literal["set_value"] = "set_value"
    values: dict[Name, str | bool | Number | DataValue | TemplateRef | CopyRef | FunctionRef | Deleted | None]
    """Maps a field to its value. Lists and objects are written as {"value": ...}."""

    def make(self, parts: Parts) -> Any:
        """Return the node."""
        values = {field: self._value(value, parts, field) for field, value in self.values.items()}
        return None if parts.failed else set_value(**values)

    def _value(self, value: Any, parts: Parts, field: str) -> Any:
        match value:
            case CopyRef(copy_of=name):
                return copy_of(name)
            case Deleted():
                return DELETE
            case DataValue(value=data):
                return data
            case _:
                return parts.value(value, None, f"values.{field}")

    @classmethod
    def written(cls, arguments: Mapping[str, Any], writer: Writer) -> dict[str, Any]:
        """Return the values as data."""
        values: dict[str, Any] = {}
        for field, value in arguments.items():
            if isinstance(value, FieldCopy):
                values[field] = {"copy_of": value.name}
            elif value is DELETE:
                values[field] = {"delete": True}
            else:
                data = writer.value(value, None, f"values.{field}")
                values[field] = {"value": data} if isinstance(value, (list, tuple, dict)) else data
        return {"values": values}


def _made(value: Any, state: Any) -> Any:
    if isinstance(value, FieldCopy):
        return deepcopy(read(state, value.name))
    if isinstance(value, Template):
        return value.render(state)
    if callable(value):
        return value(state)
    return value if value is DELETE else deepcopy(value)


def clear_error(*fields: str) -> SyncNode:
    """Return a node that deletes fields, such as the one that `record_error` wrote, so that each has its default again.

    A handled error leaves no flag behind. This node is for errors that you keep as values.

    Args:
        *fields: 1..n fields; "error" by default.

    Raises:
        InputError: A field is not a name (`input`).
    """
    names = checked_names("fields", fields or ("error",), "clear_error()", least=1)

    def clear(state: Any, ctx: Context[Any]) -> dict[str, Any]:  # noqa: ARG001
        return dict.fromkeys(names, DELETE)

    declare_form(clear, ClearErrorForm, {"fields": fields})
    return declare_fields(clear, writes=names)


class ClearErrorForm(Form):
    """Deletes fields, such as the one with a handled error."""

    kind: Literal["clear_error"] = "clear_error"
    fields: list[Name] = Field(default=[])
    """The fields; "error" if there are none."""

    def make(self, parts: Parts) -> Any:  # noqa: ARG002 - it needs no names
        """Return the node."""
        return clear_error(*self.fields)


def record_error(*, into: str = "error", as_list: bool = False) -> SyncNode:
    """Return a node for `on_error=` that writes the failure as an `ErrorRecord`.

    Args:
        into: The field.
        as_list: Write a list with a record for each failed task. Otherwise the field gets the first record, whose
            message gives the number of others.

    Raises:
        InputError: *into* is not a name (`input`).
    """
    (field,) = checked_names("into", into, "record_error()", least=1)

    def keep(state: Any, ctx: Context[Any]) -> dict[str, Any]:  # noqa: ARG001
        records = [error_record(failure.error, failure.node, failure.task_id, failure.arg) for failure in ctx.failures]
        if as_list:
            return {field: records}
        if not records:
            return {}
        first = records[0]
        if len(records) > 1:
            first["message"] += f" (and {len(records) - 1} more)"
        return {field: first}

    declare_form(keep, RecordErrorForm, {"into": into, "as_list": as_list})
    return declare_fields(keep, writes=(field,))


class RecordErrorForm(Form):
    """For `on_error`: writes the failure into a field, as data."""

    kind: Literal["record_error"] = "record_error"
    into: Name = "error"
    as_list: bool = False

    factory: ClassVar[Any] = staticmethod(record_error)


def error_record(error: BaseException, node: str, task_id: str, item: Any) -> ErrorRecord:
    """Return *error* as plain data."""
    # An error of a foreign class that was read from a journal is a RecordedError with the name of its class.
    type_name: str | None = getattr(error, "type_name", None)
    message: str = getattr(error, "message", "") if type_name else str(error)
    return ErrorRecord(
        type=type_name or type(error).__name__,
        code=error.code if isinstance(error, GraphrtError) else None,
        message=error.what if isinstance(error, GraphrtError) else message,
        node=node,
        task_id=task_id,
        item=item,
    )
