"""The object that nodes and routers see: an instance of the user's class, made of values without validating them.

A view shares the values; the containers are everyone's, and nobody's to change (rule R15).
"""

from __future__ import annotations

from collections.abc import Callable
from types import MemberDescriptorType
from typing import Any, Final, TypeAlias

from pydantic import BaseModel

Values: TypeAlias = dict[str, Any]
"""The state as the engine holds it: field name to value; an absent TypedDict key is not there."""
EXTRA: Final = ""
"""Key under which a pydantic state with extra="allow" keeps what its fields do not name; never a field name."""


def pydantic_view(cls: type[BaseModel], field_names: tuple[str, ...]) -> Callable[[Values], Any]:
    """Makes instances of a model as if all fields were set."""
    new, put = cls.__new__, object.__setattr__
    # Every field counts as set; one set serves all views, since assigning a field adds only a name that is there.
    everything = set(field_names)

    def view(values: Values) -> Any:
        made = new(cls)
        put(made, "__dict__", values.copy())
        put(made, "__pydantic_fields_set__", everything)
        put(made, "__pydantic_extra__", None)
        put(made, "__pydantic_private__", None)
        return made

    def full_view(values: Values) -> Any:
        """For extra="allow", private attributes and model_post_init."""
        own_values = values.copy()
        extra = own_values.pop(EXTRA, None)
        made = new(cls)
        put(made, "__dict__", own_values)
        put(made, "__pydantic_fields_set__", set(everything))
        put(made, "__pydantic_extra__", ({**extra} if extra else {}) if allows_extra else None)
        put(made, "__pydantic_private__", None)
        if cls.__pydantic_post_init__:
            made.model_post_init(None)
        return made

    allows_extra = cls.model_config.get("extra") == "allow"
    return full_view if allows_extra or cls.__pydantic_post_init__ or cls.__private_attributes__ else view


def dataclass_view(cls: Any, field_names: tuple[str, ...]) -> Callable[[Values], Any]:
    """Makes instances of a dataclass; `__init__` and `__post_init__` do not run."""
    new, put = object.__new__, object.__setattr__

    def view(values: Values) -> Any:
        made = new(cls)
        made.__dict__.update(values)
        return made

    def slots_view(values: Values) -> Any:
        made = new(cls)
        for name, value in values.items():
            put(made, name, value)
        return made

    in_slots = any(
        isinstance(base.__dict__.get(name), MemberDescriptorType) for base in cls.__mro__ for name in field_names
    )
    return slots_view if in_slots or not any("__dict__" in base.__dict__ for base in cls.__mro__) else view
