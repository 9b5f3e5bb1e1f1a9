"""The object that nodes and routers see: an instance of the user's class, made of values without validating them.

A view shares the values; the containers are everyone's, and nobody's to change (rule R15). Here is also told what a
node assigned to the view it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from operator import attrgetter
from types import MemberDescriptorType
from typing import Any, Final, TypeAlias, cast

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
    simple = cls.__setattr__ is put
    set_ = setattr if simple else put

    def view(values: Values) -> Any:
        made = new(cls)
        made.__dict__ = values.copy()
        return made

    def frozen_view(values: Values) -> Any:
        """For a class whose attributes cannot be set, or not so simply."""
        made = new(cls)
        made.__dict__.update(values)
        return made

    def slots_view(values: Values) -> Any:
        made = new(cls)
        for name, value in values.items():
            set_(made, name, value)
        return made

    if _in_slots(cls, field_names):
        return slots_view
    return view if simple else frozen_view


def _in_slots(cls: Any, field_names: tuple[str, ...]) -> bool:
    return any(
        isinstance(base.__dict__.get(name), MemberDescriptorType) for base in cls.__mro__ for name in field_names
    ) or not any("__dict__" in base.__dict__ for base in cls.__mro__)


# -- what was assigned -------------------------------------------------------------------------------------------

IS_MAPPING, HAS_MAPPING, NEITHER = range(3)
"""Where a view keeps its values: it is a dict of them, its `__dict__` is one, or they stand in slots and extras."""


def keeping(kind: str, cls: Any, field_names: tuple[str, ...]) -> int:
    """Where views of *cls*, a state class of *kind*, keep their values."""
    if kind == "typeddict":
        return IS_MAPPING
    if kind == "dataclass":
        return NEITHER if _in_slots(cls, field_names) else HAS_MAPPING
    return NEITHER if kind == "unknown" or cls.model_config.get("extra") == "allow" else HAS_MAPPING


def finder(
    kind: str, cls: Any, field_names: tuple[str, ...], make: Callable[[Values], Any]
) -> Callable[[Any, Values], list[str]]:
    """Makes what finds the fields of a view that are not what the values say, and names that it was not made with.

    An equal value is no change. Private names and cached properties are the class's own business.

    Args:
        make: Makes views. Where the class changes fields in `model_post_init`, what it makes each time is no change.
    """
    if keeping(kind, cls, field_names) != NEITHER:
        return lambda view, values: _assigned(view, values, field_names, make)
    # The class beside the fields: an attrgetter of one name would not give a tuple.
    read: Callable[[Any], Any] = _read_model if kind == "pydantic" else attrgetter(*field_names, "__class__")

    def find(view: Any, values: Values) -> list[str]:
        try:
            same = read(view) == (*values.values(), cls)
        except Exception:  # noqa: BLE001 - a value is gone, or refuses to be compared
            same = False
        return [] if same else _assigned(view, values, field_names, make)

    return find


def _read_model(view: Any) -> Any:
    return None if view.__pydantic_extra__ else (*view.__dict__.values(), view.__class__)


def _assigned(view: Any, values: Values, field_names: Collection[str], make: Callable[[Values], Any]) -> list[str]:
    kind: type[Any] = view.__class__
    if isinstance(view, dict):
        seen = cast("dict[str, Any]", view)
        added = [name for name in seen if name not in field_names]
    else:
        attributes: dict[str, Any] | None = getattr(view, "__dict__", None)
        seen = dict(attributes or {})
        added = [name for name in seen if name not in field_names and not _is_own(kind, name)]
        seen.update({name: getattr(view, name) for name in field_names if name not in seen and hasattr(view, name)})
        added += _extras(view, values.get(EXTRA) or {})
    changed = [name for name in field_names if not _same(seen.get(name, _NONE), values.get(name, _NONE))]
    if changed and getattr(kind, "__pydantic_post_init__", None):
        once, twice = make(values), make(values)
        changed = [
            name
            for name in changed
            if _same(getattr(once, name, _NONE), getattr(twice, name, _NONE))  # else it is made anew each time
            and not _same(seen.get(name, _NONE), getattr(once, name, _NONE))
        ]
    return changed + added


_NONE: Final = object()


def _extras(view: Any, before: Mapping[str, Any]) -> list[str]:
    now: Mapping[str, Any] = getattr(view, "__pydantic_extra__", None) or {}
    return [name for name in {**before, **now} if not _same(now.get(name, _NONE), before.get(name, _NONE))]


def _is_own(cls: type, name: str) -> bool:
    if name.startswith("_"):
        return True
    for base in cls.__mro__:  # a cached property keeps its value under its own name
        if name in base.__dict__:
            return hasattr(base.__dict__[name], "__get__")
    return False


def _same(one: Any, two: Any) -> bool:
    if one is two:
        return True
    try:
        return bool(one == two)
    except Exception:  # noqa: BLE001 - values that refuse to be compared: another object was put there
        return False
