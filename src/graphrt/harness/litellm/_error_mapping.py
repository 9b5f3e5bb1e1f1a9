"""Mapping of litellm's exceptions to HarnessError classes, by what really happened.

The classes of litellm's exceptions are unreliable: a 401 may arrive as a bad request, a malformed body as a 500. What
decides is, in this order: error codes and phrases with one meaning (`_by_words`); without a status, the chain of causes
(`_without_status`); the status that the provider sent (`_KINDS`).

Pure functions over exceptions. litellm is not imported: foreign classes are recognized by the names of their bases.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from graphrt._sensitive_texts import redact
from graphrt.errors import (
    AuthenticationError,
    BadRequestError,
    HarnessError,
    RateLimitError,
    TransientModelError,
)
from graphrt.errors._codes.models import (
    ANSWER_OUT_OF_BOUNDS,
    BAD_MODEL_REQUEST,
    BAD_RESPONSE,
    CALL_UNAUTHORIZED,
    CONTEXT_OVERFLOW,
    HARNESS_CANNOT_SEND,
    LIBRARY_FAILED,
    MODEL_TIMEOUT,
    NO_API_KEY,
    RATE_LIMITED,
    REDIRECTED,
    REFUSAL,
    TRANSIENT_MODEL,
    UNKNOWN_MODEL,
)
from graphrt.errors._error_code import ErrorCode
from graphrt.harness.litellm._http_exchange import RedirectedError, UnreadableAnswerError
from graphrt.harness.litellm._wire._failures import UNUSABLE, Failure
from graphrt.harness.litellm._wire._seen import Seen

_TEXT_CHARS: Final = 500
"""Longest text of a provider in an error, in characters."""
_SEARCHED_CHARS: Final = 20_000
"""Longest part of an error's text that is searched for known phrases, in characters."""
_TRANSPORT: Final = frozenset(
    {"TransportError", "APIConnectionError", "ClientError", "ConnectionError", "TimeoutError"}
)
"""Base classes (httpx, openai, aiohttp, built in) of errors of the connection."""
_STATUS: Final = frozenset({"HTTPStatusError", "APIStatusError", "ClientResponseError"})
"""Base classes (httpx, openai, aiohttp) of errors that carry the status of the provider's answer."""
_NO_ANSWER: Final = (
    "Empty or invalid response from LLM endpoint",
    "Unable to get json response",
    "provider returned 'choices' that is not a list",
    "provider returned a response with no 'choices'",
)
"""Phrases of litellm for an answer that it cannot read."""
_UNREADABLE: Final = (json.JSONDecodeError, UnicodeDecodeError, RecursionError, UnreadableAnswerError)
"""Errors of reading an answer. RecursionError comes from JSON that is nested too deeply."""
_OUT_OF_BOUNDS: Final = (RecursionError, UnreadableAnswerError)
"""Errors of answers that a retry would get again; the code `unreadable-answer` keeps an agent from paying for one."""
_WRONG_ADDRESS: Final = frozenset({"InvalidURL", "UnsupportedProtocol", "LocalProtocolError"})
"""Base classes (httpx, aiohttp) of errors of a request that cannot be sent anywhere."""
_READERS: Final = frozenset(
    {"transform_response", "transform_parsed_response", "convert_to_model_response_object", "chunk_parser"}
)
"""Functions of litellm that read answers. A built-in exception from one of them means that the answer is unreadable."""
_PREFIX: Final = re.compile(
    r"^(?:(?:litellm\.)?[A-Za-z]*(?:Error|Exception|Timeout)(?: Error)?(?:: | - | (?=[A-Za-z]+Error - )))+"
)
"""Class names that litellm and the SDKs put before the provider's text."""
_SUFFIX: Final = re.compile(
    r"\s*(?:Original exception:|Handle with `litellm|Traceback \(most recent call last\)|Received Model Group=).*",
    re.DOTALL,
)
"""Advice and tracebacks that litellm puts after the provider's text."""
_MESSAGE: Final = re.compile(r"""^b?'?\{.*?"error".*?"message":\s*"((?:[^"\\]|\\.)*)\"""", re.DOTALL)
"""The message in an error's JSON document, which some adapters of litellm pass on unparsed."""
_BYTES: Final = re.compile(r"""^b('|")(?:[^\\]|\\.)*?\1""", re.DOTALL)
"""An error's document as the repr of Python bytes, with its own escapes; some adapters pass it on so for streams."""
_TOO_LONG: Final = re.compile(
    r"\b(?:prompt is too long: \d|maximum context length is \d|exceeds? (?:the )?context (?:limit|window|length)"
    r"|context_length_exceeded)",
    re.IGNORECASE,
)
"""Phrases of providers for a conversation that is too long, some of which litellm does not recognize."""
_NO_KEY: Final = re.compile(
    r"\b(?:missing|no|must be set|please pass)\b.{0,40}\b(?:api[_ ]?key|credentials)", re.IGNORECASE
)
"""Phrases of libraries that look for a credential before the call and find none."""
_NO_PROVIDER: Final = re.compile("LLM Provider NOT provided|GetLLMProvider Exception")
"""Phrases of litellm for a model name whose provider it does not know."""
_NO_MODEL: Final = re.compile(r"\bmodel\b.{0,80}\b(?:does not exist|not found)|^model: ", re.IGNORECASE)
"""Phrases of providers for an unknown model."""


def harness_error(
    error: Exception,
    *,
    model: str,
    secrets: tuple[str, ...] = (),
    sent: int | None = None,
    seen: Seen | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> HarnessError:
    """Return the HarnessError for *error*.

    The result has no cause, because the text of the original may contain credentials. They are removed from its own.

    Args:
        error: The exception that litellm raised.
        model: The model that was called.
        secrets: Texts that must not appear in the result, besides those that look like credentials.
        sent: HTTP status of the provider's latest answer, seen below the client; None if unknown.
        seen: What was read of the answer below the client.
        now: Reads the clock; called only if a Retry-After is a date.

    Returns:
        An error of the class for what happened, with `retry_after_s` in seconds if the provider asks for a wait.
    """
    chain = list(_causes(error))
    redirected = next((cause for cause in chain if isinstance(cause, RedirectedError)), None)
    if redirected is not None:
        return _redirect(redirected, error, model)
    if seen is not None and seen.is_document:
        return _no_stream(seen, error, model, secrets)
    told = None if seen is None else seen.failure
    if told is not None and (told.text or told.names):
        return _reported(told, error, chain, model=model, secrets=secrets, now=now)
    if sent is not None and 200 <= sent < 300 and _is_misread(chain):
        status = None  # the answer was a success, and litellm failed to read it: ignore the status that it made up
        declared: ErrorCode[HarnessError] = BAD_RESPONSE
    else:
        status = _status(error, chain)
        declared = _kind(error, chain, status)
    waits = declared.error in (RateLimitError, TransientModelError)
    retry_after_s = _retry_after_s(chain, now) if waits else None
    plain = (cause for cause in chain if type(cause) is ValueError or isinstance(cause, UnreadableAnswerError))
    cause = next(plain, error) if status is None else error  # libraries wrap these, and only say "Connection error"
    # Redact twice: a credential that was escaped within the text only shows once the text has been unescaped.
    what = redact(_said(redact(str(cause), secrets)), secrets) or type(error).__name__
    if any(isinstance(one, _OUT_OF_BOUNDS) for one in chain):
        declared = ANSWER_OUT_OF_BOUNDS.variant(
            declared.what, error=declared.error, fix=declared.fix, where=declared.where
        )
    return declared(
        with_status="" if status is None else f" with status {status}",
        reason=_clip(what),
        known="" if retry_after_s is None else f"the provider asks to wait {retry_after_s:g} s",
        status_code=status,
        retry_after_s=retry_after_s,
        model=model,
        provider=getattr(error, "llm_provider", None) or None,
    )


def _reported(
    told: Failure,
    error: Exception,
    chain: list[BaseException],
    *,
    model: str,
    secrets: tuple[str, ...],
    now: Callable[[], datetime],
) -> HarnessError:
    """Return the error for a failure that the provider reported in its own words."""
    found = _by_words(type(error).__name__, told.text, set(told.names), told.status, answered=True)
    if found is None and told.status in (400, 404) and ("model_not_found" in told.names or _NO_MODEL.search(told.text)):
        found = UNKNOWN_MODEL
    kinds = (declared for statuses, declared in _KINDS if told.status in statuses)
    words = (declared for names, declared in _NAMES if not names.isdisjoint(told.names))
    by_status = next(kinds, None) if told.status is not None else next(words, TRANSIENT_MODEL)
    declared: ErrorCode[HarnessError] = found or by_status or BAD_MODEL_REQUEST
    waits = declared.error in (RateLimitError, TransientModelError)
    asked_s = _retry_after_s(chain, now) if waits else None
    wait_s = asked_s if asked_s is not None or not waits else told.retry_after_s
    return declared(
        with_status="" if told.status is None else f" with status {told.status}",
        reason=_clip(redact(redact(told.text, secrets), secrets)) or ", ".join(sorted(told.names)),
        known="" if wait_s is None else f"the provider asks to wait {wait_s:g} s",
        status_code=told.status,
        retry_after_s=wait_s,
        model=model,
        provider=getattr(error, "llm_provider", None) or None,
    )


def _no_stream(seen: Seen, error: Exception, model: str, secrets: tuple[str, ...]) -> HarnessError:
    """Return the error for a document in place of a stream."""
    start = redact(seen.start.decode(errors="replace"), secrets)
    return BAD_RESPONSE(
        with_status="",
        reason=f"a stream was asked for, and the answer is one document: {_clip(start)}",
        model=model,
        provider=getattr(error, "llm_provider", None) or None,
    )


def _redirect(redirected: RedirectedError, error: Exception, model: str) -> BadRequestError:
    # Path and query of the target may be signed, so only its origin is named (decision 0037).
    target = f" to {redirected.origin}" if redirected.origin else ""
    return REDIRECTED(
        status_code=redirected.status,
        to_origin=target,
        model=model,
        provider=getattr(error, "llm_provider", None) or None,
        target=redirected.origin or None,
    )


def timed_out(model: str, timeout_s: float, *, what: str) -> TransientModelError:
    """Return the error for *what* (such as "the reply") that took longer than *timeout_s* seconds."""
    return MODEL_TIMEOUT(what_for=what, timeout_s=timeout_s, model=model)


_KINDS: Final[tuple[tuple[Container[int], ErrorCode[HarnessError]], ...]] = (
    ((401, 403), CALL_UNAUTHORIZED),
    ((413,), CONTEXT_OVERFLOW),
    ((429,), RATE_LIMITED),
    ((408, 409), TRANSIENT_MODEL),
    (range(500, 1000), TRANSIENT_MODEL),
)
"""Status codes with their errors."""


_NAMES: Final[tuple[tuple[frozenset[str], ErrorCode[HarnessError]], ...]] = (
    (frozenset({"authentication_error", "invalid_api_key", "permission_error"}), CALL_UNAUTHORIZED),
    (
        frozenset({"rate_limit_error", "rate_limit_exceeded", "RESOURCE_EXHAUSTED", "throttlingException"}),
        RATE_LIMITED,
    ),
    (
        frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MISSING_THOUGHT_SIGNATURE", UNUSABLE}),
        BAD_RESPONSE,
    ),
    (frozenset({"invalid_request_error", "INVALID_ARGUMENT", "not_found_error"}), BAD_MODEL_REQUEST),
)
"""Types and codes of errors within streams, which have no status, with their errors; all others are transient."""


def _kind(error: Exception, chain: list[BaseException], status: int | None) -> ErrorCode[HarnessError]:
    """Return the declaration of the error."""
    text = _said(str(error)[:_SEARCHED_CHARS])
    codes = {str(getattr(cause, "code", "")) for cause in chain}
    found = _by_words(type(error).__name__, text, codes, status, answered=_is_answered(chain))
    if found is None and status is None:
        found = _without_status(chain)
    if found is None and status in (400, 404) and ("model_not_found" in codes or _NO_MODEL.search(text)):
        found = UNKNOWN_MODEL
    if found is None:
        found = next((declared for statuses, declared in _KINDS if status in statuses), None)
    return found or BAD_MODEL_REQUEST


def _by_words(
    name: str, text: str, codes: set[str], status: int | None, *, answered: bool
) -> ErrorCode[HarnessError] | None:
    """Decide by error codes and phrases; None if they have no clear meaning.

    Args:
        name: Class of litellm's exception.
        text: Its text, without what litellm put around it.
        codes: Error codes in the chain of causes.
        status: Status that the provider sent; None if unknown.
        answered: Whether the provider answered at all. If so, a phrase about keys is not about a missing one.
    """
    too_long = status == 400 and _TOO_LONG.search(text)
    if name == "ContextWindowExceededError" or "context_length_exceeded" in codes or too_long:
        return CONTEXT_OVERFLOW
    if name == "ContentPolicyViolationError" or "content_filter" in codes:
        return REFUSAL
    if _NO_PROVIDER.search(text):
        return UNKNOWN_MODEL
    if not answered and _NO_KEY.search(text):
        return NO_API_KEY
    return None


def _without_status(chain: list[BaseException]) -> ErrorCode[HarnessError]:
    """Decide for a failure to which the provider sent no status."""
    if _is_no_answer(chain):
        return BAD_RESPONSE
    if _is_transport(chain):
        return TRANSIENT_MODEL
    if _is_unsendable(chain):
        return HARNESS_CANNOT_SEND
    return LIBRARY_FAILED


def missing_key(model: str, variables: Sequence[str], provider: str) -> AuthenticationError:
    """Return the error for a call without a credential: none of the environment variables *variables* is set."""
    return NO_API_KEY(
        with_status="",
        reason=f"there is no API key for {provider!r}, because {' or '.join(variables)} is not set.",
        provider=provider,
        model=model,
    )


def _status(error: Exception, chain: list[BaseException]) -> int | None:
    """Return the status that the provider sent; None if it sent none, although litellm may have made one up."""
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        return None
    # The client's own error is nearest to the wire, then a code inside the body. litellm's status is the last resort.
    for cause in chain:
        if not _STATUS.isdisjoint(_bases(cause)):
            sent = getattr(getattr(cause, "response", None), "status_code", None)
            return sent if isinstance(sent, int) else status
    told = next((code for cause in chain for code in [_told_code(cause)] if code), None)
    if told is not None:
        return told
    if _is_no_answer(chain) or _is_transport(chain):
        return None
    return None if status >= 500 and _is_mistake(chain) else status


def _told_code(cause: BaseException) -> int | None:
    """Return the status in the body of an error, as sent within a stream whose own status was 200; None if none."""
    body: Any = getattr(cause, "body", None)
    code = body.get("code") if hasattr(body, "get") else None
    return code if isinstance(code, int) and 400 <= code < 600 else None


def _is_answered(chain: list[BaseException]) -> bool:
    """Return whether the provider answered with a status."""
    return any(not _STATUS.isdisjoint(_bases(cause)) for cause in chain)


def _is_no_answer(chain: list[BaseException]) -> bool:
    """Return whether the provider's answer was unreadable, or litellm failed to interpret it."""
    return (
        any(isinstance(cause, _UNREADABLE) for cause in chain)
        or any(phrase in str(cause) for cause in chain for phrase in _NO_ANSWER)
        or any(_is_builtin(cause) and not _READERS.isdisjoint(_passed(cause)) for cause in chain)
    )


def _is_misread(chain: list[BaseException]) -> bool:
    """Return whether litellm failed to read an answer: the chain has a built-in error, but none of the connection."""
    mistakes = (TypeError, AttributeError, LookupError, ValueError)  # pydantic's ValidationError is a ValueError
    return not _is_transport(chain) and any(isinstance(cause, mistakes) for cause in chain)


def _passed(error: BaseException) -> Iterator[str]:
    """Yield the names of the functions in the traceback of *error*."""
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame.f_code.co_name
        trace = trace.tb_next


def _is_transport(chain: list[BaseException]) -> bool:
    return not _is_unsendable(chain) and any(not _TRANSPORT.isdisjoint(_bases(cause)) for cause in chain)


def _is_mistake(chain: list[BaseException]) -> bool:
    """Return whether a bug or an unsendable request caused the failure, for which litellm makes up a status of 5xx."""
    mistakes = (TypeError, AttributeError, NameError, ImportError)
    return _is_unsendable(chain) or any(isinstance(cause, mistakes) for cause in chain)


def _is_unsendable(chain: list[BaseException]) -> bool:
    """Return whether a library refused to send the request, because the address or a header is invalid."""
    return any(type(cause) is ValueError or not _WRONG_ADDRESS.isdisjoint(_bases(cause)) for cause in chain)


def _is_builtin(error: BaseException) -> bool:
    return type(error).__module__ == "builtins"


def _bases(error: BaseException) -> frozenset[str]:
    """Return the names of the classes of *error*; none for litellm's classes, which do not tell what happened."""
    kind = type(error)
    return frozenset() if kind.__module__.startswith("litellm") else frozenset(base.__name__ for base in kind.__mro__)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield *error*, then its direct and indirect causes, nearest first, at most 20."""
    found: list[BaseException] = [error]
    for cause in found:  # the list grows while it is read
        yield cause
        links = (cause.__cause__, cause.__context__, getattr(cause, "original_exception", None))
        found += [link for link in dict.fromkeys(links) if isinstance(link, BaseException) and link not in found]
        if len(found) > 20:
            return


def _retry_after_s(chain: list[BaseException], now: Callable[[], datetime]) -> float | None:
    """Return the wait in seconds that the provider asks for in a header; None if it asks for none."""
    for cause in chain:
        places: list[Any] = [cause, getattr(cause, "response", None)]
        for place, name in zip(places, ("litellm_response_headers", "headers"), strict=True):
            headers: Any = getattr(place, name, None)
            found = _read_retry_after(_lower(headers), now) if hasattr(headers, "items") else None
            if found is not None:
                return found
    return None


def _lower(headers: Any) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in headers.items()}


def _read_retry_after(headers: Mapping[str, str], now: Callable[[], datetime]) -> float | None:
    """Return the seconds, 0 or more, of `retry-after-ms` or `retry-after`; None if absent or malformed.

    RFC 9110 allows a date in `retry-after`, for which *now* reads the clock. Names in *headers* are in lower case.
    """
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) * unit_s)
        except (KeyError, ValueError):
            continue
    try:
        at = parsedate_to_datetime(headers["retry-after"])
    except (KeyError, ValueError):
        return None
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - now()).total_seconds())


def _said(text: str) -> str:
    """Return the provider's message in *text*, without what litellm put around it."""
    text = _unescaped(_SUFFIX.sub("", _PREFIX.sub("", text)))
    found = _MESSAGE.match(text)
    if found is None:
        return text
    with suppress(ValueError):
        return str(json.loads(f'"{found[1]}"', strict=False))
    return found[1]


def _unescaped(text: str) -> str:
    """Return *text*; if it is the repr of bytes, their content."""
    shown = _BYTES.match(text)
    if shown is None:
        return text
    with suppress(ValueError, SyntaxError):
        value: bytes = ast.literal_eval(shown[0])
        return value.decode(errors="replace")
    return text


def _clip(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _TEXT_CHARS else f"{text[: _TEXT_CHARS - 3]}..."
