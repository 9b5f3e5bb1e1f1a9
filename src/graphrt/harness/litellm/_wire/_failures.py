"""Errors in the provider's own words: read from the documents and events that report them, before any library does.

Libraries lose the text, replace the status or the class, or fail to read the error at all. Only the reading is here;
`_error_mapping` decides what kind of failure it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_TEXTS: Final = ("message", "Message", "detail", "msg", "error_description", "errorMessage", "title", "error")
"""Where providers and gateways put the text of an error; the first that holds one counts."""
_CODES: Final = ("code", "type", "status", "__type", "error_type", "reason")
"""Where they put its name."""

UNUSABLE: Final = "unusable_answer"
"""Name of a failure that the provider did not report: what it sent cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error as a provider reported it."""

    text: str = ""
    """What it says; empty if it says nothing."""
    names: frozenset[str] = frozenset()
    """Its codes, types and statuses in words, as they were sent: `rate_limit_exceeded`, `INVALID_ARGUMENT`."""
    status: int | None = None
    """The status of the answer, or, within a stream, the one that the error itself names; None if there is none."""
    retry_after_s: float | None = None
    """Seconds to wait that the body of the error asks for; None if it asks for none."""
    streamed: bool = False
    """Whether it came within a stream that had begun with status 200."""


class ReportedError(Exception):
    """A provider reported an error within an answer; raised below litellm, which would change its meaning."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure: Final = failure


def unusable(text: str) -> ReportedError:
    """Return the error for an answer that cannot be used; *text* says why."""
    return ReportedError(Failure(text=text, names=frozenset({UNUSABLE})))


def failure_of(body: Any, *, status: int | None = None, streamed: bool = False) -> Failure:
    """Return the error that a document or an event reports.

    Args:
        body: Its JSON value, or its text if it is no JSON.
        status: Status of the answer; None within a stream, where the error's own number counts.
        streamed: Whether it came within a stream.
    """
    found = list(_layers(body))
    numbers = (value for layer in found for name in (*_CODES, "status_code") if (value := _number(layer.get(name))))
    names = {layer[name] for layer in found for name in _CODES if _is_word(layer.get(name))}
    text = next((told for layer in found for name in _TEXTS if (told := _words(layer.get(name)))), "")
    return Failure(
        text=text or (body if isinstance(body, str) else ""),
        names=frozenset(names),
        status=status if status is not None else next(numbers, None),
        retry_after_s=next((wait for layer in found if (wait := _wait_s(layer)) is not None), None),
        streamed=streamed,
    )


def reports_error(body: Any) -> bool:
    """Return whether a document or an event with status 200 reports an error: it has one, and no answer beside it."""
    if not isinstance(body, Mapping):
        return False
    told: Any = body.get("error")
    if body.get("type") == "error" or (isinstance(told, (Mapping, str)) and told):
        return not any(body.get(name) for name in ("choices", "candidates", "output"))
    return False


def _layers(body: Any) -> list[Mapping[str, Any]]:
    """Return the mappings in which an error's fields stand, innermost first: errors are wrapped, and lists of one."""
    found: list[Mapping[str, Any]] = []
    todo: list[Any] = [body]
    while todo and len(found) < 10:
        one = todo.pop(0)
        if isinstance(one, str) and one[:1] in "{[":
            one = _parsed(one)  # OpenRouter and gateways put the upstream's document into a text
        if isinstance(one, Sequence) and not isinstance(one, str):
            todo += one[:3]
        elif isinstance(one, Mapping):
            found.insert(0, one)
            todo += [one.get("error"), one.get("metadata"), one.get("raw"), one.get("details"), one.get("errors")]
    return found


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _words(value: Any) -> str:
    """Return the text in *value*: a text, or FastAPI's list of problems, each with a place and a message."""
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence):
        several = (one for one in value if isinstance(one, Mapping) and isinstance(one.get("msg"), str))
        return "; ".join(f"{_place(one.get('loc'))}{one['msg']}" for one in several)
    return ""


def _place(loc: Any) -> str:
    return f"{'.'.join(map(str, loc))}: " if isinstance(loc, Sequence) and not isinstance(loc, str) else ""


def _number(value: Any) -> int | None:
    """Return *value* as an HTTP status of an error; None if it is none."""
    if isinstance(value, str) and value.isdecimal() and len(value) == 3:
        value = int(value)
    return value if isinstance(value, int) and 400 <= value < 600 else None


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and not value.isdecimal()


def _wait_s(layer: Mapping[str, Any]) -> float | None:
    """Return the seconds of a `retryDelay`, such as "34s" (google.rpc.RetryInfo); None if there is none."""
    told: Any = layer.get("retryDelay")
    if not isinstance(told, str) or not told.endswith("s"):
        return None
    try:
        return max(0.0, float(told[:-1]))
    except ValueError:
        return None
