"""Views: the state object that a node or router receives, and the detection of assignments to it (R15).

The engine holds the state as a dict of values. A view is a new instance of the user's state class with these values,
created without validation; for a TypedDict it is a copy of the dict. The values themselves are shared between views, so
a node must not change them. The engine, not this module, detects changes inside containers.

A node must not assign to its view either: the assignment would be lost, so it is an error (R15, decision 0052). When a
node returns, the engine compares its view with the values, and calls the result of `finder` if they seem to differ.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from operator import attrgetter
from types import MemberDescriptorType
from typing import Any, Final, TypeAlias, cast

from pydantic import BaseModel

Values: TypeAlias = dict[str, Any]
"""The state as held by the engine: field name to value. An absent TypedDict key is also missing here."""
EXTRA: Final = ""
"""Key of the extra values of a pydantic state with `extra="allow"`, as a dict. No field can have this name."""


def pydantic_view(cls: type[BaseModel], field_names: tuple[str, ...]) -> Callable[[Values], Any]:
    """Return a function that creates instances of a pydantic model with all fields marked as set."""
    new, put = cls.__new__, object.__setattr__
    # One set serves all views: assigning a field adds its name, which is in the set already.
    everything = set(field_names)

    def view(values: Values) -> Any:
        """Make a view of an ordinary model by setting pydantic's instance attributes."""
        instance = new(cls)
        put(instance, "__dict__", values.copy())
        put(instance, "__pydantic_fields_set__", everything)
        put(instance, "__pydantic_extra__", None)
        put(instance, "__pydantic_private__", None)
        return instance

    def full_view(values: Values) -> Any:
        """Make a view of a model with `extra="allow"`, private attributes or `model_post_init`."""
        own_values = values.copy()
        extra = own_values.pop(EXTRA, None)
        instance = new(cls)
        put(instance, "__dict__", own_values)
        put(instance, "__pydantic_fields_set__", set(everything))  # a copy: assigning an extra adds its name
        put(instance, "__pydantic_extra__", ({**extra} if extra else {}) if allows_extra else None)
        put(instance, "__pydantic_private__", None)
        # It sets the private attributes and does whatever else the class does after validation.
        if cls.__pydantic_post_init__:
            instance.model_post_init(None)
        return instance

    allows_extra = cls.model_config.get("extra") == "allow"
    return full_view if allows_extra or cls.__pydantic_post_init__ or cls.__private_attributes__ else view


def dataclass_view(cls: Any, field_names: tuple[str, ...]) -> Callable[[Values], Any]:
    """Return a function that makes instances of a dataclass; `__init__` and `__post_init__` do not run."""
    new, put = object.__new__, object.__setattr__
    simple = cls.__setattr__ is put  # else the class is frozen, or defines a `__setattr__`, which must not run
    set_ = setattr if simple else put

    def view(values: Values) -> Any:
        """Make a view of an ordinary class, in one step."""
        instance = new(cls)
        instance.__dict__ = values.copy()
        return instance

    def frozen_view(values: Values) -> Any:
        """Make a view of a frozen class, or of one that defines `__setattr__`."""
        instance = new(cls)
        instance.__dict__.update(values)
        return instance

    def slots_view(values: Values) -> Any:
        """Make a view of a class that keeps fields in slots."""
        instance = new(cls)
        for name, value in values.items():
            set_(instance, name, value)
        return instance

    if _in_slots(cls, field_names):
        return slots_view
    return view if simple else frozen_view


def _in_slots(cls: Any, field_names: tuple[str, ...]) -> bool:
    """Return True if a field of *cls* is kept in a slot, or if its instances have no `__dict__`."""
    return any(
        isinstance(base.__dict__.get(name), MemberDescriptorType) for base in cls.__mro__ for name in field_names
    ) or not any("__dict__" in base.__dict__ for base in cls.__mro__)


# -- what was assigned -------------------------------------------------------------------------------------------

IS_MAPPING, HAS_MAPPING, NEITHER = range(3)
"""Where a view keeps its values: in itself, as a dict; in its `__dict__`; or also elsewhere, in slots or extras.

In the first two cases the engine compares view and values with one comparison of dicts (decision 0052).
"""


def keeping(kind: str, cls: Any, field_names: tuple[str, ...]) -> int:
    """Return where views of *cls*, a state class of *kind*, keep their values.

    *kind* is "unknown" for a class that cannot be a state, which `compile()` reports.
    """
    if kind == "typeddict":
        return IS_MAPPING
    if kind == "dataclass":
        return NEITHER if _in_slots(cls, field_names) else HAS_MAPPING
    return NEITHER if kind == "unknown" or cls.model_config.get("extra") == "allow" else HAS_MAPPING


def finder(
    kind: str, cls: Any, field_names: tuple[str, ...], make: Callable[[Values], Any]
) -> Callable[[Any, Values], list[str]]:
    """Return a function from a view and its values to the names that a node assigned: changed fields, then added names.

    Assigning an equal value is not a change. Names that begin with an underscore, and names for which the class has a
    descriptor such as a cached property, are ignored.

    Args:
        kind: Kind of the state class: "pydantic", "dataclass", "typeddict" or "unknown".
        cls: The state class.
        field_names: The fields, in the order in which the dict of values has them.
        make: Makes a fresh view. It shows what `model_post_init` assigns to fields, which is not a change.
    """
    if keeping(kind, cls, field_names) != NEITHER:  # then the engine has already done the quick comparison
        return lambda view, values: _assigned(view, values, field_names, make)
    # `__class__` in addition: with a single name, attrgetter returns the value and not a tuple.
    read: Callable[[Any], Any] = _read_model if kind == "pydantic" else attrgetter(*field_names, "__class__")

    def find(view: Any, values: Values) -> list[str]:
        """Return the assigned fields; in the common case, one quick comparison of all values finds none."""
        try:
            # Tuple comparison checks identity first. If it fails, _assigned compares by name.
            is_unchanged = read(view) == (*values.values(), cls)
        except Exception:  # noqa: BLE001 - an attribute was deleted, or __eq__ of a value raised
            is_unchanged = False
        return [] if is_unchanged else _assigned(view, values, field_names, make)

    return find


def _read_model(view: Any) -> Any:
    """Return the values of a model view and its class as a tuple; None, which equals no tuple, if it has extras."""
    return None if view.__pydantic_extra__ else (*view.__dict__.values(), view.__class__)


def _assigned(view: Any, values: Values, field_names: Collection[str], make: Callable[[Values], Any]) -> list[str]:
    """Return the names that were assigned to *view*, compared one by one; the arguments as for `finder`."""
    kind: type[Any] = view.__class__
    if isinstance(view, dict):
        current = cast("dict[str, Any]", view)
        added = [name for name in current if name not in field_names]
    else:
        attributes: dict[str, Any] | None = getattr(view, "__dict__", None)
        current = dict(attributes or {})
        added = [name for name in current if name not in field_names and not _is_own(kind, name)]
        current.update(
            {name: getattr(view, name) for name in field_names if name not in current and hasattr(view, name)}
        )
        added += _extras(view, values.get(EXTRA) or {})  # attributes that a model with extra="allow" keeps apart
    changed = [name for name in field_names if not _same(current.get(name, _NONE), values.get(name, _NONE))]
    if changed and getattr(kind, "__pydantic_post_init__", None):
        # With a `model_post_init`, a field counts if a fresh view has another value.
        once, twice = make(values), make(values)
        changed = [
            name
            for name in changed
            if _same(getattr(once, name, _NONE), getattr(twice, name, _NONE))  # else each view has a different value
            and not _same(current.get(name, _NONE), getattr(once, name, _NONE))
        ]
    return changed + added


_NONE: Final = object()
"""Placeholder for a missing value."""


def _extras(view: Any, previous: Mapping[str, Any]) -> list[str]:
    """Return the names of undeclared attributes of a model that were added, changed or deleted since *previous*."""
    current: Mapping[str, Any] = getattr(view, "__pydantic_extra__", None) or {}
    return [name for name in {**previous, **current} if not _same(current.get(name, _NONE), previous.get(name, _NONE))]


def _is_own(cls: type, name: str) -> bool:
    """Return True if attribute *name* belongs to the class and not to the state: private, or set by a descriptor."""
    if name.startswith("_"):
        return True
    for base in cls.__mro__:  # a cached property stores its value in `__dict__` under its own name
        if name in base.__dict__:
            return hasattr(base.__dict__[name], "__get__")
    return False


def _same(value: Any, other: Any) -> bool:
    """Return True if the two are identical or equal, since assigning an equal value is not a change."""
    if value is other:
        return True
    try:
        return bool(value == other)
    except Exception:  # noqa: BLE001 - __eq__ of a value raised: it is another object, so it counts as assigned
        return False
