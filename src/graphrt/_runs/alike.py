"""Whether two values are alike, also where they contain themselves or are nested deeper than `==` can follow.

Only the comparison; what is compared with what, and what a difference means, is decided elsewhere.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import BaseModel

from graphrt.errors import InputError


def alike(one: Any, other: Any) -> bool:
    """Whether *one* and *other* are equal. Two values that contain themselves are, if no way into them differs.

    Raises:
        InputError: Somewhere in them, two values refuse to be compared.
    """
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - what containers make of it is no answer; their parts may give one
        return _walked(one, other)


def _walked(one: Any, other: Any) -> bool:
    """The same, part by part, without recursion."""
    assumed: set[tuple[int, int]] = set()
    kept: list[Any] = []  # an id must not be used again while it stands for a value
    todo: list[tuple[Any, Any]] = [(one, other)]
    while todo:
        left, right = todo.pop()
        if left is right or (id(left), id(right)) in assumed:
            continue
        parts = _parts(left, right)
        if parts is not None:
            assumed.add((id(left), id(right)))
            kept.append((left, right))
            todo += parts
        elif not _equal(left, right):
            return False
    return True


def _parts(left: Any, right: Any) -> list[tuple[Any, Any]] | None:
    """What has to be alike for two containers of one class to be; None for what is no container."""
    cls: Any = left.__class__
    if cls is not right.__class__:
        return None
    if cls is list or cls is tuple:
        return [*zip(left, right, strict=False), (len(left), len(right))]
    if cls is dict:
        return [*((value, right.get(key)) for key, value in left.items()), (left.keys(), right.keys())]
    if issubclass(cls, BaseModel):
        return [(left.__dict__, right.__dict__), (left.__pydantic_extra__, right.__pydantic_extra__)]
    if is_dataclass(cls) and cls.__eq__ is not object.__eq__:
        return [(getattr(left, f.name), getattr(right, f.name)) for f in fields(cls) if f.compare]
    return None


def _equal(left: Any, right: Any) -> bool:
    try:
        return bool(left == right)
    except Exception as error:
        raise InputError(
            f"Two values of type {type(left).__name__} cannot be compared: {type(error).__name__}: {error}",
            code="not-comparable",
            fix="Give the class an __eq__ that answers with True or False, or mark the field untracked.",
        ) from error
