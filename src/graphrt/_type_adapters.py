"""Checks of values by pydantic that lose nothing: a key that a dataclass does not have is an error (decision 0008)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import typing_extensions as te
from pydantic import ConfigDict, PydanticUserError, TypeAdapter


def adapter_of(hint: Any, options: Mapping[str, Any] | None = None) -> TypeAdapter[Any]:
    """Return a pydantic adapter for values of the type *hint*, in which dataclasses reject unknown keys.

    Pydantic ignores such keys by default, and a misspelt one would vanish. A dataclass, model or TypedDict that has
    pydantic settings of its own keeps them.

    Args:
        options: More settings of pydantic, for a *hint* that has none of its own.

    Raises:
        PydanticUserError: pydantic cannot make a schema for *hint*.
        PydanticUndefinedAnnotation, NameError, TypeError: *hint* is not a type, or a name in it cannot be resolved.
    """
    config: Any = ConfigDict(**{"extra": "forbid", **(options or {})})  # type: ignore[typeddict-item]  # any settings
    candidate: object = hint
    annotation = hint
    if dataclasses.is_dataclass(candidate) and not hasattr(hint, "__pydantic_config__"):
        alias: Any = te.TypeAliasType  # Any, since type checkers accept only a literal call
        annotation = alias("annotation", hint)  # pydantic takes no settings for a dataclass as such
    try:
        return TypeAdapter(annotation, config=config)
    except PydanticUserError as error:
        if error.code != "type-adapter-config-unused":
            raise
        return TypeAdapter(hint)  # a type with settings of its own
