"""State classes of a manifest: those of the registry, and classes made from described fields.

The grammar of types is closed: no part of the text is evaluated.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal, Union

import typing_extensions as te
from pydantic import Field, create_model

from graphrt import reducers
from graphrt._plan.fields import describe
from graphrt._plan.state import StateSchema
from graphrt.errors import Problem
from graphrt.errors._codes.specs import BAD_FIELD_TYPE, BAD_SPEC, FIELD_OF_CODE, OTHER_STATE, UNKNOWN_PART
from graphrt.specs.manifest import FieldSpec, StateSpec
from graphrt.specs.plain_data import joined
from graphrt.specs.registry import Registry, known_names

_PLAIN: Final[Mapping[str, Any]] = {"str": str, "int": int, "float": float, "bool": bool, "bytes": bytes, "Any": Any}
_GENERIC: Final[Mapping[str, tuple[Any, int | None]]] = {
    "list": (list, 1), "dict": (dict, 2), "set": (set, 1), "frozenset": (frozenset, 1), "tuple": (tuple, None)
}  # fmt: skip
"""Generic types, and how many parameters each takes; None for any number."""
_MARKS: Final = ("ephemeral", "redacted", "untracked")
_OWN: Final = frozenset({"spend"})
"""Reducers that a field can use by name alone."""


class StateClasses:
    """Finds and makes the state classes of one manifest; equal descriptions get the same class."""

    def __init__(self, registry: Registry, problems: list[Problem]) -> None:
        self._registry = registry
        self._problems = problems
        self._made: dict[str, Any] = {}

    def of(self, spec: str | StateSpec | None, path: str, given: Any) -> Any:
        """Return the state class: *given*, one of the registry, or one made of the fields; None with problems.

        Args:
            spec: Its part of the manifest.
            path: Path of that part.
            given: A class to use instead; its fields must be those of the manifest.
        """
        if isinstance(spec, str):
            spec = StateSpec.model_validate({"class": spec})
        if spec is None:
            return given
        known = self._registry.section("types")
        cls = given
        if cls is None and spec.class_name is not None:
            cls = known.get(spec.class_name)
        if cls is not None:
            self._compare(cls, spec.fields or {}, path)
            return cls
        if spec.fields is None:
            if spec.class_name is not None:
                self._problems.append(
                    UNKNOWN_PART(section="types", name=spec.class_name, known_names=known_names(known), where=path)
                )
            return None
        key = spec.model_dump_json()
        if key not in self._made:
            self._made[key] = self._make(spec, spec.fields, path)
        return self._made[key]

    def part(self, state: Any, names: list[str], path: str) -> Any:
        """Return a class with some fields of *state*, for `input=` and `output=` of a builder."""
        known = StateSchema(state).fields
        for at, name in enumerate(names):
            if name not in known:
                self._problems.append(
                    BAD_SPEC(problem=f"The state has no field {name!r}", where=f"{path}[{at}]", fix="Correct it.")
                )
                return None
        return part_of(state, names, f"{state.__name__}_{'_'.join(names)}")

    def _compare(self, cls: Any, fields: Mapping[str, FieldSpec], path: str) -> None:
        if not fields:
            return
        schema = StateSchema(cls)
        declared = {name: _described(field.type, field.reducer) for name, field in fields.items()}
        actual = {
            name: _described(describe(field.annotation), field.reducer_name) for name, field in schema.fields.items()
        }
        for name in dict.fromkeys((*declared, *actual)):
            in_manifest, in_class = declared.get(name, "missing"), actual.get(name, "missing")
            if in_manifest != in_class:
                where = joined(joined(path, "fields"), name)
                self._problems.append(
                    OTHER_STATE(field=name, declared=in_manifest, found=in_class, cls=cls.__name__, where=where)
                )

    def _make(self, spec: StateSpec, fields: Mapping[str, FieldSpec], path: str) -> Any:
        before = len(self._problems)
        hints: dict[str, Any] = {}
        for name, field in fields.items():
            where = joined(joined(path, "fields"), name)
            if not name.isidentifier() or name.startswith("_"):
                self._problems.append(
                    BAD_SPEC(problem=f"{name!r} cannot be a field", where=where, fix="Use a name of Python.")
                )
                continue
            if not field.required and "default" not in field.model_fields_set and spec.kind != "typeddict":
                self._problems.append(FIELD_OF_CODE(field=name, where=where))
            hints[name] = self._hint(name, field, where)
        if len(self._problems) > before:
            return None
        title = spec.class_name or "State"
        if spec.kind == "typeddict":
            keys = {name: hint if fields[name].required else te.NotRequired[hint] for name, hint in hints.items()}
            return te.TypedDict(title, keys)  # type: ignore[operator]  # made from data
        if spec.kind == "dataclass":
            parts = [(name, hint, _dataclass_default(fields[name])) for name, hint in hints.items()]
            return dataclasses.make_dataclass(title, parts, kw_only=True)
        try:
            definitions: Any = {name: (hint, _pydantic_default(fields[name])) for name, hint in hints.items()}
            return create_model(title, **definitions)
        except (NameError, TypeError, ValueError) as error:  # a field that hides a method of pydantic, for instance
            self._problems.append(BAD_SPEC(problem=str(error).splitlines()[0].rstrip("."), where=path))
            return None

    def _hint(self, name: str, field: FieldSpec, path: str) -> Any:
        """Return the annotation of a field, with its reducer and markers; None with a problem."""
        try:
            hint = _Types(self._registry).parse(field.type)
        except ValueError as error:
            self._problems.append(
                BAD_FIELD_TYPE(text=field.type, field=name, problem=error, where=joined(path, "type"))
            )
            return None
        marks: list[Any] = [getattr(reducers, mark) for mark in _MARKS if getattr(field, mark)]
        if field.reducer not in ("overwrite", *_OWN):
            known = self._registry.section("reducers")
            reducer = known.get(field.reducer) or reducers.by_name(field.reducer)
            if reducer is None:
                self._problems.append(
                    UNKNOWN_PART(
                        section="reducers",
                        name=field.reducer,
                        known_names=known_names(known),
                        where=joined(path, "reducer"),
                    )
                )
            marks.insert(0, reducer)
        for mark in marks:
            hint = Annotated[hint, mark]
        return hint


def part_of(state: Any, names: Iterable[str], title: str) -> Any:
    """Return a TypedDict with some fields of a state, none of them required."""
    known = StateSchema(state).fields
    hints: dict[str, Any] = {name: te.NotRequired[known[name].annotation] for name in names}
    return te.TypedDict(title, hints)  # type: ignore[operator]  # made from data


def fields_of(state: Any) -> dict[str, bool]:
    """Return the names of a state's fields, and whether an input must have each."""
    return {name: field.required for name, field in StateSchema(state).fields.items()}


def _described(type_text: str, reducer: str) -> str:
    return type_text if reducer == "overwrite" else f"{type_text} with the reducer {reducer}"


def _pydantic_default(field: FieldSpec) -> Any:
    if "default" not in field.model_fields_set:
        return ...
    return Field(default_factory=_fresh(field.default))


def _dataclass_default(field: FieldSpec) -> Any:
    if "default" not in field.model_fields_set:
        return dataclasses.field()
    return dataclasses.field(default_factory=_fresh(field.default))


def _fresh(value: Any) -> Any:
    from copy import deepcopy

    return lambda: deepcopy(value)


class _Types:
    """Parses types. The text is parsed to a syntax tree, of which only a few forms are accepted."""

    def __init__(self, registry: Registry) -> None:
        self._known = registry.section("types")

    def parse(self, text: str) -> Any:
        """Return the type.

        Raises:
            ValueError: The text is not a valid type; the message says why.
        """
        try:
            tree = ast.parse(text, mode="eval")
            return self._of(tree.body)
        except (SyntaxError, MemoryError, RecursionError):
            raise ValueError("it is not a type") from None

    def _of(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=None):
                return None
            case ast.Name(id=name) if name in _PLAIN:
                return _PLAIN[name]
            case ast.Name(id=name) if name in _GENERIC:
                return _GENERIC[name][0]
            case ast.Name(id=name) if isinstance(self._known.get(name), type):
                return self._known[name]
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return Union[self._of(left), self._of(right)]  # noqa: UP007 - two types that are known at run time only
            case ast.Subscript(value=ast.Name(id="Literal"), slice=inside):
                return Literal[tuple(self._constant(item) for item in _items(inside))]
            case ast.Subscript(value=ast.Name(id=name), slice=inside) if name in _GENERIC:
                return self._generic(name, _items(inside))
            case _:
                raise ValueError(f"{ast.unparse(node)[:60]} is not a known type")

    def _generic(self, name: str, items: list[ast.expr]) -> Any:
        origin: Any
        origin, number = _GENERIC[name]
        if number is not None and len(items) != number:
            raise ValueError(f"{name} takes {number} types")
        parts = [... if _is_dots(item) and name == "tuple" else self._of(item) for item in items]
        return origin[tuple(parts)] if len(parts) > 1 else origin[parts[0]]

    def _constant(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, int, bool, type(None))):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            value: Any = node.operand.value
            if isinstance(value, int):
                return -value
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            members: Any = getattr(self._known.get(node.value.id), "__members__", {})
            if node.attr in members:
                return members[node.attr]
        raise ValueError(f"{ast.unparse(node)[:60]} is not a value of a Literal")


def _items(node: ast.expr) -> list[ast.expr]:
    return list(node.elts) if isinstance(node, ast.Tuple) else [node]


def _is_dots(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...
