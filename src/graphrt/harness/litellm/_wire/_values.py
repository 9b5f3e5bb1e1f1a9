"""Accessors for JSON that providers sent. A value of an unexpected type counts as absent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeGuard

from graphrt._arguments import is_list, is_mapping

_NONE: Mapping[str, Any] = {}


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether *value* is a JSON object."""
    return isinstance(value, dict)


def mapping(value: Any) -> Mapping[str, Any]:
    """Return *value* if it is an object; else an empty one."""
    return value if is_mapping(value) else _NONE


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects in the array *value*; none if it is not an array."""
    return [item for item in value if is_mapping(item)] if is_list(value) else []


def text(value: Any) -> str:
    """Return *value* if it is a text; else an empty one."""
    return value if isinstance(value, str) else ""


def parsed(data: str | bytes) -> Any:
    """Return the JSON value of *data*; None if it is invalid."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def usage(*, sent: Any, written: Any, cached: Any = None, created: Any = None, reasoning: Any = None) -> dict[str, Any]:
    """Return a report of tokens in the form of OpenAI's chat completions.

    Args:
        sent: Tokens of the prompt, including those from a cache.
        written: Tokens of the answer, including those of its reasoning.
        cached: The part of *sent* that came from a cache; None if the provider did not say.
        created: The part of *sent* that was written to a cache, which has its own price; None if there was none.
        reasoning: The part of *written* that was reasoning; None if the provider did not say.
    """
    return {
        "prompt_tokens": sent,
        "completion_tokens": written,
        "prompt_tokens_details": {"cached_tokens": cached, "cache_creation_tokens": created},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }


def added(*counts: Any) -> Any:
    """Return the sum of a provider's separate counts, or a count that is not a number, which later checks reject."""
    invalid = [count for count in counts if count is not None and not isinstance(count, int)]
    return invalid[0] if invalid else sum(count or 0 for count in counts)
