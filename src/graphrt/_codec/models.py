"""Encoder and decoder of pydantic models: fields, the set of explicitly set fields, extras and private attributes.

A model is rebuilt without its validators and without `__init__`: it was valid when it was stored, and is restored
exactly (decision 0024). The stored form is an object with these keys:

- "$t": the tag, which is the name of the class in stored data; "v": the values of the declared fields, by name.
- "set": the names in `model_fields_set`, the fields that were set explicitly. Missing if there are no other fields.
- "extra": the fields that the class does not declare, by name. Missing unless it has `extra="allow"`.
- "private": the private attributes, by name. Missing if the class has none.
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import RootModel
from pydantic_core import PydanticUndefined

from graphrt._codec.entry import NONE, Entry, complete, strangers
from graphrt._codec.refusal import TAG, ClassChangedError, DamagedError, NotStorable
from graphrt._codec.walk import TAGGED_BYTES, Reader, Writer

__all__ = ["model_entry"]

_KEYS: Final = frozenset({TAG, "v", "set", "extra", "private"})


def model_entry(cls: Any, tag: str) -> Entry:
    """Return the entry of the pydantic model *cls*."""
    shape = _Shape(cls, tag)
    return Entry(cls, tag, shape.encode, shape.decode)


class _Shape:
    """Encoder and decoder of one model.

    Fields are looked up lazily: a model may be completed after the codec was created.

    *depth* counts the containers around a value. A Writer's methods get the depth of the parts; a Reader's get that of
    the container, and add 1. Decoders receive the whole stored object as *node*; any error that they raise means that
    the data is damaged.
    """

    __slots__ = ("_fields", "cls", "is_root", "tag")

    def __init__(self, cls: Any, tag: str) -> None:
        self.cls = cls
        self.tag = tag
        self.is_root = issubclass(cls, RootModel)
        """True for a RootModel: on the class itself, extras and private attributes are None."""
        self._fields: dict[str, Any] | None = None

    def fields(self) -> dict[str, Any]:
        """Return the declared fields by name. Cached once the model is complete, because `model_fields` is slow."""
        fields = self._fields
        if fields is None:
            fields = self.cls.model_fields
            if self.cls.__pydantic_complete__:
                self._fields = fields
        return fields

    def encode(self, writer: Writer, value: Any, depth: int) -> dict[str, Any]:
        """Return the stored form of the model *value*, without parts that carry no information.

        Raises:
            NotStorable: The model could not be restored exactly.
        """
        writer.enter(depth, TAGGED_BYTES)
        fields = self.fields()
        data: dict[str, Any] = {TAG: self.tag, "v": writer.named(self._state(value.__dict__, fields), depth + 1)}
        set_fields: set[str] = value.__pydantic_fields_set__
        extra: dict[str, Any] | None = None if self.is_root else value.__pydantic_extra__
        if set_fields != fields.keys():
            data["set"] = self._given(writer, set_fields, [*fields, *(extra or ())], depth + 1)
        if extra is not None:
            data["extra"] = writer.named(extra, depth + 1)
        private: dict[str, Any] | None = value.__pydantic_private__
        if private is not None:
            self._check_private(private)
            data["private"] = writer.named(private, depth + 1)
        return data

    def _state(self, state: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
        """Return the values of the fields; reject a model that lacks one or has other attributes.

        *state* is the model's `__dict__`. Values of cached properties are left out, because they are computed again.
        """
        if state.keys() == fields.keys():
            return state
        for name in fields:
            if name not in state:
                raise NotStorable(f"is a {self.cls.__qualname__} without a value for its field {name!r}")
        if reason := strangers(self.cls, [name for name in state if name not in fields]):
            raise NotStorable(reason)
        return {name: state[name] for name in fields}

    def _given(self, writer: Writer, set_fields: set[str], names: list[str], depth: int) -> list[Any]:
        """Return the names in "set": those of *set_fields*, the model's `model_fields_set`, in the order of *names*.

        Args:
            writer: Encodes the names.
            set_fields: Names of the fields that were set explicitly.
            names: Names of all declared fields, then of the extras.
            depth: Containers around the names.

        Raises:
            NotStorable: A name in *set_fields* is not a field.
        """
        strange = set_fields.difference(names)
        if strange:
            raise NotStorable(
                f"is a {self.cls.__qualname__} in which {min(strange)!r} was set, which is not a field of it"
            )
        # In the order of the fields: a set's own order depends on PYTHONHASHSEED.
        return writer.items([name for name in names if name in set_fields], depth)

    def _check_private(self, private: dict[str, Any]) -> None:
        """Reject a model that lacks a private attribute with a default: the decoder would fill in the default."""
        for name, attribute in self.cls.__private_attributes__.items():
            if name not in private and (attribute.default is not PydanticUndefined or attribute.default_factory):
                raise NotStorable(
                    f"is a {self.cls.__qualname__} without a value for its private attribute {name!r}, "
                    "which would come back with its default"
                )

    def decode(self, reader: Reader, node: dict[str, Any], depth: int) -> Any:
        """Return the model; no validator runs.

        Raises:
            DamagedError: *node* does not describe an instance of the class.
        """
        if not node.keys() <= _KEYS:
            raise DamagedError(f"{sorted(node)!r} are not the keys of a model")
        fields = self.fields()
        values = reader.named(node["v"], depth)
        # Read before `complete` adds the defaults of fields that were added to the class later.
        set_fields = set(values)
        # The last argument says that every field of a model needs a value.
        complete(self.cls, values, fields, lambda name: _default(fields[name], values), lambda _: False)
        extra = self._extra(reader, node, depth)
        if "set" in node:
            set_fields = set(reader.items(node["set"], depth))
            if not set_fields <= {*fields, *(extra or ())}:
                raise ClassChangedError(f"fields of {self.cls.__qualname__} were set that it does not have")
        private = self._private(reader.named(node["private"], depth) if "private" in node else {})
        # Creates the instance in the same way as pydantic's `model_copy`.
        instance = object.__new__(self.cls)
        put = object.__setattr__  # bypasses frozen models and `validate_assignment`
        put(instance, "__dict__", {name: values[name] for name in fields})
        put(instance, "__pydantic_fields_set__", set_fields)
        if not self.is_root:
            put(instance, "__pydantic_extra__", extra)
        if private is not None or not self.is_root:
            put(instance, "__pydantic_private__", private)
        return instance

    def _extra(self, reader: Reader, node: dict[str, Any], depth: int) -> dict[str, Any] | None:
        """Return the extras in *node*; None for a class that does not allow any, as in pydantic.

        Raises:
            ClassChangedError: *node* has extras that the class does not allow.
        """
        allowed = not self.is_root and self.cls.model_config.get("extra") == "allow"
        if "extra" not in node:
            return {} if allowed else None
        if not allowed:
            raise ClassChangedError(f"{self.cls.__qualname__} allows no fields that it does not declare")
        return reader.named(node["extra"], depth)

    def _private(self, stored: dict[str, Any]) -> dict[str, Any] | None:
        """Return the private attributes *stored*, with defaults for those that were added to the class later.

        Returns:
            The attributes by name; None if the class declares no private attribute, as in pydantic.

        Raises:
            ClassChangedError: *stored* has an attribute that the class does not declare.
        """
        declared: dict[str, Any] = self.cls.__private_attributes__
        unknown = stored.keys() - declared.keys()
        if unknown:
            raise ClassChangedError(f"{self.cls.__qualname__} has no private attribute {min(unknown)!r}")
        if not declared:
            return None
        for name, attribute in declared.items():
            value = NONE if name in stored else attribute.get_default()
            if value is not NONE and value is not PydanticUndefined:
                stored[name] = value
        return stored


def _default(field: Any, values: dict[str, Any]) -> Any:
    """Return the default of a field that is missing in stored data; NONE if it is required.

    Args:
        field: pydantic's FieldInfo.
        values: The values so far, which a default factory may take as its argument.
    """
    if field.is_required():
        return NONE
    return field.get_default(call_default_factory=True, validated_data=values)
