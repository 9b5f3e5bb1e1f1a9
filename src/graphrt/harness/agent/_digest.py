"""Names for requests and arguments that are the same in every process: what was asked, not when or by whom."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from pydantic_core import to_json

from graphrt.harness.request import ModelRequest

__all__ = ["of_arguments", "of_call", "of_request", "of_run"]


def of_request(request: ModelRequest) -> str:
    """32 hex digits of the SHA-256 of all that the model is asked."""
    return sha256(_bytes(request)).hexdigest()[:32]


def of_run(agent: str, request: ModelRequest) -> str:
    """16 hex digits of the SHA-256 of who is asked, and what it is asked first."""
    return sha256(_bytes([agent, request])).hexdigest()[:16]


def of_arguments(arguments: Mapping[str, Any]) -> str:
    """16 hex digits of the SHA-256 of the arguments, whatever their order."""
    try:
        text = json.dumps(arguments, sort_keys=True, separators=(",", ":"), default=repr).encode()
    except (TypeError, ValueError):
        text = _bytes(arguments)
    return sha256(text).hexdigest()[:16]


def of_call(prompt: Any, options: Mapping[str, Any]) -> str:
    """32 hex digits of the SHA-256 of what a harness is asked."""
    return sha256(_bytes([prompt, options])).hexdigest()[:32]


def _bytes(value: Any) -> bytes:
    try:
        return to_json(value, fallback=repr)
    except ValueError:  # a text with half of a surrogate pair: some models write it
        return repr(value).encode("utf-8", "surrogatepass")
