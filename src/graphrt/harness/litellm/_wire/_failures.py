"""Errors in the provider's own words: read from the documents and events that report them, before any library does.

Libraries lose the text, replace the status or the class, or fail to read the error at all. Only the reading is here;
`_error_mapping` decides what kind of failure it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import islice
from math import isfinite
from typing import Any, Final

from graphrt._arguments import is_mapping, is_sequence
from graphrt.harness.litellm._wire._values import mapping, parsed, text

_TEXTS: Final = (
    *("message", "Message", "detail", "msg", "error_message", "errorMessage", "error_description", "title"),
    *("raw", "error", "errors"),
)
"""Fields in which providers and gateways put the text of an error; the first non-empty one counts."""
_CODES: Final = ("code", "type", "status", "__type", "error_type", "reason", "finish_reason")
"""Fields for its name."""
_NUMBERS: Final = (*_CODES, "status_code", "raw_status_code")
"""Fields for its status."""
_WITHIN: Final = ("error", "response", "message", "detail", "metadata", "raw", "delta")
"""Fields for the wrapped error, which is more informative."""
_BESIDE: Final = ("details", "errors", "innererror", "choices")
"""Fields for more details of the same error."""
_MOST_LAYERS: Final = 20
_MOST_DEEP: Final = 6
_BROKEN: Final = frozenset({"error", "insufficient_system_resource", "ERROR", "TIMEOUT"})
"""Finish reasons for an error during the answer: of OpenRouter and Mistral, of DeepSeek, and of Cohere."""
_TITLE: Final = re.compile(r"<title[^<>]{0,200}>([^<]{1,200})</title>", re.IGNORECASE)
"""The title of an HTML page, which says more about the error than the beginning of the page."""

UNUSABLE: Final = "unusable_answer"
"""Name of the failure for an unusable answer, which the provider itself does not report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error as a provider reported it."""

    text: str = ""
    """The provider's message; may be empty."""
    names: frozenset[str] = frozenset()
    """Its codes, types and statuses as text, as they were sent: `rate_limit_exceeded`, `INVALID_ARGUMENT`."""
    status: int | None = None
    """The status of the answer, or, within a stream, the one that the error itself names; None if there is none."""
    retry_after_s: float | None = None
    """Seconds to wait that a header or the body of the error asks for; None if they ask for none."""


class ReportedError(Exception):
    """A provider reported an error within an answer; raised below litellm, which would change its meaning."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure: Final = failure


def unusable(text: str) -> ReportedError:
    """Return the error for an answer that cannot be used; *text* says why."""
    return ReportedError(Failure(text=text, names=frozenset({UNUSABLE})))


def failure_of(body: Any, *, status: int | None = None, headers: Mapping[str, str] | None = None) -> Failure:
    """Return the error that a document or an event reports.

    Args:
        body: Its JSON value, or its text if it is not JSON.
        status: Status of the answer; None within a stream, where the error's own number counts.
        headers: Headers of an answer that is an error as a whole. They may name it, and ask for a wait.
    """
    layers = list(islice(_layers(body), _MOST_LAYERS))
    numbers = (value for layer in layers for name in _NUMBERS if (value := _number(layer.get(name))))
    names = {layer[name] for layer in layers for name in _CODES if _is_word(layer.get(name))}
    waits = (wait for layer in layers if (wait := _wait_s(layer.get("retryDelay"))) is not None)
    page = _TITLE.search(body) if isinstance(body, str) else None
    rest = text(body) if page is None else page[1]
    message = next((words for layer in layers for name in _TEXTS if (words := _words(layer.get(name)))), rest)
    # Groq reports here the text that the model wrote in place of a call.
    failed = next((words for layer in layers if (words := text(layer.get("failed_generation")))), "")
    header_wait_s = None if headers is None else _asked_wait_s(headers)
    if headers is not None and headers.get("x-amzn-errortype"):
        names.add(headers["x-amzn-errortype"])
    return Failure(
        text=f"{message} (failed_generation: {failed})" if failed else message,
        names=frozenset(names),
        status=status if status is not None else next(numbers, None),
        retry_after_s=next(waits, None) if header_wait_s is None else header_wait_s,
    )


def reports_error(body: Any) -> bool:
    """Return whether a document or an event with status 200 reports an error and has no answer."""
    if not is_mapping(body):
        return False
    reported = mapping(body.get("error")) or text(body.get("error"))
    if choices := body.get("choices"):
        return is_sequence(choices) and all(
            _is_broken(mapping(choice)) or mapping(mapping(choice).get("error")) for choice in choices
        )
    if body.get("status") == "failed":  # in Responses: the output before the failure is not an answer
        return bool(reported)
    if _is_broken(body) or _is_broken(mapping(body.get("delta"))):  # in Cohere
        return True
    named = "error" in (body.get("type"), body.get("object")) or body.get("type") == "response.failed"
    return (named or bool(reported)) and not (body.get("candidates") or body.get("output"))


def _is_broken(answer: Mapping[str, Any]) -> bool:
    """Return whether an error ended an answer, or a choice. Its earlier output may have been passed on."""
    return text(answer.get("finish_reason")) in _BROKEN


def _layers(body: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield the mappings that may have an error's fields, innermost first. Errors may be wrapped or in a list."""
    if isinstance(body, str) and body[:1] in "{[":
        body = parsed(body)  # OpenRouter and gateways put the upstream's document into a text
    if depth > _MOST_DEEP:
        return
    if is_sequence(body):
        for item in body[:3]:
            yield from _layers(item, depth + 1)
    elif is_mapping(body):
        for name in _WITHIN:
            if not is_sequence(body.get(name)):
                yield from _layers(body.get(name), depth + 1)
        yield body
        for name in _BESIDE:
            yield from _layers(body.get(name), depth + 1)


def _words(value: Any) -> str:
    """Return the text in *value*: a text, or a list of texts or of FastAPI's problems, with their places."""
    if isinstance(value, str) or not is_sequence(value):
        return text(value)
    return "; ".join(words for item in value if (words := text(item) or _problem(mapping(item))))


def _problem(problem: Mapping[str, Any]) -> str:
    place, words = problem.get("loc"), text(problem.get("msg"))
    return f"{'.'.join(map(str, place))}: {words}" if words and is_sequence(place) else words


def _number(value: Any) -> int | None:
    """Return *value* as an HTTP status of an error; None if it is not one."""
    if isinstance(value, str) and value.isdecimal() and len(value) == 3:
        value = int(value)
    return value if isinstance(value, int) and 400 <= value < 600 else None


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and not value.isdecimal()


def _wait_s(delay: Any) -> float | None:
    """Return the seconds of a `retryDelay`, such as "34s" (google.rpc.RetryInfo); None if it is invalid."""
    return _seconds(delay[:-1]) if isinstance(delay, str) and delay.endswith("s") else None


def _asked_wait_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds, 0 or more, of `retry-after-ms` or `retry-after`; None if absent or malformed.

    RFC 9110 allows a date in `retry-after`.
    """
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        wait = _seconds(headers.get(name, ""))
        if wait is not None:
            return wait * unit_s
    try:
        at = parsedate_to_datetime(headers["retry-after"])
    except (KeyError, ValueError):
        return None
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _seconds(number: str) -> float | None:
    """Return *number*, at least 0; None if it is not a finite number."""
    try:
        seconds = float(number)
    except ValueError:
        return None
    return max(0.0, seconds) if isfinite(seconds) else None
