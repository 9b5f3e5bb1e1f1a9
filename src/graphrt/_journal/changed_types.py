"""Changes of the types of a state and of the classes that they lead to, and whether stored values still fit.

Compares the types in two topologies: `type` is the text of an annotation, and `classes` has the data of each class by
name (`_plan.state_classes`). A change fits if every value that was stored under the older type is also valid for the
current type and can be read, for instance if the type was widened, or if an enum has a new member or a class a new
field with a default. A finding has the path of the field that leads to the class, such as `order.price.amount`; the
items of containers add nothing to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, final

from graphrt._arguments import is_mapping
from graphrt.errors import names

__all__ = ["Change", "changed_classes", "classes_with", "type_change", "widens", "without_classes"]

Typed = Mapping[str, Any]
"""A field in a topology: `type`, and `classes` if there are any."""


class Change(NamedTuple):
    """One difference between an older graph and the present one."""

    what: str
    """The change and its location, as a sentence without a final period."""
    fits: bool
    """Whether every stored value still fits."""
    classes: tuple[str, ...] = ()
    """Names of the classes whose stored values may not fit; empty if they do, or if it concerns no class."""


def type_change(path: str, before: Typed, now: Typed) -> Change | None:
    """Return the difference between the types of the field at *path*; None if they have the same text."""
    older, present = str(before["type"]), str(now["type"])
    if older == present:
        return None
    return Change(f"the type of field {path!r} changed ({path}: {older} -> {present})", widens(older, present))


def changed_classes(
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    roots: Mapping[str, tuple[Typed, Typed]],
    bare: Mapping[str, Collection[str]],
    custom: Collection[str] = (),
) -> list[Change]:
    """Return the changes of the classes reachable from the *roots*, each with the first path that leads to it.

    Args:
        before: Data of the older classes by name.
        now: Data of the present classes by name.
        roots: By path, the older type and the present one, into which the older one fits.
        bare: By name of a present class, its fields without a default.
        custom: Names of classes with user functions for their stored form: their fields are not compared.
    """
    return _Comparison(before, now, bare, custom).of(roots)


def classes_with(changed: Iterable[str], before: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the classes *changed*, and those whose values may contain their instances; *before* has the older data."""
    classes = set(changed)
    while more := {name for name, data in before.items() if name not in classes and classes & _leads_to(data)}:
        classes |= more
    return tuple(sorted(classes))


def _leads_to(data: Mapping[str, Any]) -> set[str]:
    """Return the names of the classes in the types of a class or alias."""
    return {name for typed in (data, *data.get("fields", {}).values()) for name in typed.get("classes", ())}


@final
class _Comparison:
    """One breadth-first walk over the classes that two graphs have in common. Arguments as for `changed_classes`."""

    def __init__(
        self,
        before: Mapping[str, Any],
        now: Mapping[str, Any],
        bare: Mapping[str, Collection[str]],
        custom: Collection[str],
    ) -> None:
        self._before = before
        self._now = now
        self._bare = bare
        self._custom = custom
        self._found: list[Change] = []
        self._met: set[str] = set()
        self._queue: deque[tuple[str, str]] = deque()
        """Path and name of each class that is still to be compared."""
        self._owner: tuple[str, ...] = ()
        """The class that is being compared; empty for an alias, whose values may be anywhere."""

    def of(self, roots: Mapping[str, tuple[Typed, Typed]]) -> list[Change]:
        """Return the changes behind *roots*."""
        for path, (before, now) in roots.items():
            self._follow(path, before, now)
        while self._queue:
            path, name = self._queue.popleft()
            self._owner = (name,)
            self._class(path, name, self._before[name], self._now[name])
        return self._found

    def _add(self, what: str, *, fits: bool) -> None:
        self._found.append(Change(what, fits, () if fits else self._owner))

    def _follow(self, path: str, before: Typed, now: Typed) -> None:
        """Queue the classes that are in both types; a class that only the older type has was replaced."""
        older, present = before.get("classes", ()), now.get("classes", ())
        removed = tuple(name for name in older if name not in present)
        if removed:
            what = f"field {path!r} leads to other classes ({path}: {names(older)} -> {names(present)})"
            self._found.append(Change(what, False, (*self._owner, *removed)))
        for name in older:
            if name in present and name not in self._met and name not in self._custom:
                self._met.add(name)
                self._queue.append((path, name))

    def _type(self, path: str, before: Typed, now: Typed) -> None:
        """Compare two types, and the types behind them unless the older one does not fit."""
        change = type_change(path, before, now)
        if change is not None:
            self._add(change.what, fits=change.fits)
        if change is None or change.fits:
            self._follow(path, before, now)

    def _class(self, path: str, name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        """Compare the older and the present data of the class *name*, which the field at *path* leads to."""
        if before["kind"] != now["kind"]:
            self._add(f"{name}, in field {path!r}, changed its kind ({before['kind']} -> {now['kind']})", fits=False)
        elif now["kind"] == "alias":
            self._type(path, before, now)
        elif now["kind"] == "enum":
            self._enum(path, name, before["members"], now["members"])
        else:
            self._fields(path, name, before, now)

    def _enum(self, path: str, name: str, before: Any, now: Any) -> None:
        """Compare the members of an enum: a list of names, or the numbers of a Flag by name."""
        removed = [member for member in before if member not in now]
        if removed:
            self._add(f"members {names(removed)} of {name}, in field {path!r}, are gone", fits=False)
        added = [member for member in now if member not in before]
        if added:
            self._add(f"members {names(added)} of {name}, in field {path!r}, are new", fits=True)
        if is_mapping(before) != is_mapping(now):
            self._add(f"{name}, in field {path!r}, became a Flag, or is none any more", fits=False)
        elif is_mapping(before):
            moved = [member for member in before if member in now and before[member] != now[member]]
            if moved:  # combined members are stored as a number
                self._add(f"members {names(moved)} of {name}, in field {path!r}, have other numbers", fits=False)

    def _fields(self, path: str, name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        """Compare the fields of a model, dataclass, named tuple or TypedDict."""
        older, present = before["fields"], now["fields"]
        for field, typed in older.items():
            if field not in present:
                self._add(f"field {f'{path}.{field}'!r} is gone from {name}", fits=False)
            else:
                self._type(f"{path}.{field}", typed, present[field])
        for field in present:
            if field not in older:
                bare = field in self._bare.get(name, ())
                what = " and has no default" if bare else ""
                self._add(f"field {f'{path}.{field}'!r} is new in {name}{what}", fits=not bare)
        order, known = now.get("order", ()), before.get("order", ())
        # Values of a named tuple are stored by position. A removed field was already reported.
        if set(known) <= set(order) and list(order[: len(known)]) != list(known):
            self._add(f"the fields of {name}, in field {path!r}, have another order", fits=False)
        for key in now.get("required", ()):
            if key in older and key not in before.get("required", ()):
                self._add(f"key {f'{path}.{key}'!r} of {name} is required now", fits=False)
        for attribute in before.get("private", ()):
            if attribute not in now.get("private", ()):
                self._add(f"the private attribute {f'{path}.{attribute}'!r} is gone from {name}", fits=False)
        if before.get("extra") and not now.get("extra"):
            self._add(f"{name}, in field {path!r}, allows no undeclared fields any more", fits=False)


def without_classes(topology: Mapping[str, Any]) -> dict[str, Any]:
    """Return *topology* without the classes of it and its nested graphs; types remain as texts."""
    bare = {key: value for key, value in topology.items() if key != "classes"}
    bare["state"] = {name: _without(field) for name, field in topology["state"].items()}
    if "update" in topology:
        bare["update"] = _without(topology["update"])
    bare["nodes"] = [
        {**node, "graph": without_classes(node["graph"])} if "graph" in node else node for node in topology["nodes"]
    ]
    return bare


def _without(typed: Typed) -> dict[str, Any]:
    return {key: value for key, value in typed.items() if key != "classes"}


# -- types as text -----------------------------------------------------------------------------------------------


def widens(older: str, present: str) -> bool:
    """Return whether every value of the type *older* is also valid for *present*; both are texts of `hints.describe`.

    Recognises members added to a union or a Literal, including inside the arguments of a container, and Any and object.
    """
    options = list(_split(present, "|"))
    return all(any(_fits(member, option) for option in options) for member in _split(older, "|"))


def _fits(older: str, present: str) -> bool:
    """Return whether *older*, one member of a union, fits into *present*, one member of another."""
    if older == present or present in ("Any", "object"):
        return True
    outer, _, inside = older.partition("[")
    outer_now, _, inside_now = present.partition("[")
    if outer != outer_now or not inside or not inside_now:
        return False
    args, args_now = list(_split(inside[:-1], ",")), list(_split(inside_now[:-1], ","))
    if outer == "Literal":
        return set(args) <= set(args_now)
    # A Callable is narrowed where its parameters are widened; it is never stored.
    return outer != "Callable" and len(args) == len(args_now) and all(map(widens, args, args_now))


def _split(text: str, at: str) -> Iterator[str]:
    """Split *text* at the separators *at* that are outside brackets and quoted texts."""
    depth, quote, begin = 0, "", 0
    skip = False
    for place, char in enumerate(text):
        if skip:
            skip = False
        elif quote:
            skip = char == "\\"
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "[(":
            depth += 1
        elif char in "])":
            depth -= 1
        elif char == at and depth == 0:
            yield text[begin:place].strip()
            begin = place + 1
    yield text[begin:].strip()
