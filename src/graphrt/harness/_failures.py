"""What litellm raises, mapped to the HarnessError family by what really happened.

Classes are not to be trusted there (a 401 may come as a bad request, a malformed body as a 500), so status codes and
the chain of causes decide. Pure functions over exceptions; litellm is not imported here.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Container, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from graphrt.errors import (
    AuthenticationError,
    BadRequestError,
    BadResponseError,
    ContextOverflowError,
    HarnessError,
    RateLimitError,
    RefusalError,
    TransientModelError,
)

_TEXT_CHARS: Final = 500
_TRANSPORT: Final = frozenset(
    {"TransportError", "APIConnectionError", "ClientError", "ConnectionError", "TimeoutError"}
)
"""Names of base classes (httpx, openai, aiohttp, built in) that mean: the connection failed."""
_STATUS: Final = frozenset({"HTTPStatusError", "APIStatusError", "ClientResponseError"})
"""Names of base classes (httpx, openai, aiohttp) that mean: the provider answered with a status."""
_NO_ANSWER: Final = ("Empty or invalid response from LLM endpoint", "Unable to get json response")
_PREFIX: Final = re.compile(r"^(?:(?:litellm\.)?[A-Za-z]*(?:Error|Exception|Timeout)(?: Error)?(?:: | - ))+")
_SUFFIX: Final = re.compile(
    r"\s*(?:Original exception:|Traceback \(most recent call last\)|Received Model Group=).*", re.DOTALL
)
_SECRET: Final = re.compile(r"\b(?:sk|pk|rk|gsk|xai)[-_][\w*.-]{6,}|\bAIza[\w-]{10,}|\bBearer\s+\S+", re.IGNORECASE)
_SECRET_NAME: Final = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS)$", re.IGNORECASE)


def harness_error(
    error: Exception,
    *,
    model: str,
    secrets: tuple[str, ...] = (),
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> HarnessError:
    """The HarnessError that says what *error* means.

    The result has no cause: the text of the original may contain credentials, which are taken out here.

    Args:
        error: What the library raised.
        model: The model that was asked.
        secrets: Texts that must not appear in the result, besides those that look like credentials.
        now: Reads the clock; only if the provider says when to come back as a date.

    Returns:
        An error of the kind that the status code, or the lack of one, calls for.
    """
    chain = list(_causes(error))
    status = _status(error, chain)
    kind, fix = _kind(error, chain, status)
    retry_after_s = _retry_after_s(chain, now) if kind in (RateLimitError, TransientModelError) else None
    what = redact(_SUFFIX.sub("", _PREFIX.sub("", str(error))) or type(error).__name__, secrets)
    return kind(
        f"The model call failed{'' if status is None else f' with status {status}'}: {_clip(what)}",
        where=f"model {model!r}",
        known="" if retry_after_s is None else f"the provider asks to wait {retry_after_s:g} s",
        fix=fix,
        status_code=status,
        retry_after_s=retry_after_s,
        model=model,
        provider=getattr(error, "llm_provider", None) or None,
    )


def timed_out(model: str, timeout_s: float, *, what: str) -> TransientModelError:
    """The error for *what* that took longer than *timeout_s* seconds."""
    return TransientModelError(
        f"The model call timed out: {what} took longer than {timeout_s:g} s.",
        where=f"model {model!r}",
        fix="retry, or give the harness a longer timeout_s",
        code="model-timeout",
        model=model,
    )


def redact(text: str, secrets: tuple[str, ...] = ()) -> str:
    """*text* without *secrets*, credentials of the environment, and what looks like a credential."""
    known = {value for name, value in os.environ.items() if _SECRET_NAME.search(name) and len(value) >= 8}
    known |= {secret for secret in secrets if len(secret) >= 4}
    for secret in sorted(known, key=len, reverse=True):
        text = text.replace(secret, "[redacted]")
    return _SECRET.sub("[redacted]", text)


_KINDS: Final[tuple[tuple[Container[int], type[HarnessError], str], ...]] = (
    ((401, 403), AuthenticationError, "check the api_key of the harness, or the provider's environment variable"),
    ((429,), RateLimitError, "wait and retry, or check the quota of the account"),
    ((408, 409), TransientModelError, "retry"),
    (range(500, 1000), TransientModelError, "retry; if it persists, look at the provider's status page"),
)


def _kind(error: Exception, chain: list[BaseException], status: int | None) -> tuple[type[HarnessError], str]:
    name = type(error).__name__
    codes = {str(getattr(cause, "code", "")) for cause in chain}
    if name == "ContextWindowExceededError" or "context_length_exceeded" in codes:
        return ContextOverflowError, "shorten the conversation, or choose a model with a longer context"
    if name == "ContentPolicyViolationError" or "content_filter" in codes:
        return RefusalError, "change the request; repeating it will not help"
    if status is None:
        if _is_no_answer(chain):
            return BadResponseError, "check that the address is that of a chat completions endpoint"
        if _is_transport(chain):
            return TransientModelError, "retry; if it persists, check the address and the network"
        return HarnessError, "look at the text above; it came from the provider's library, not from the provider"
    for statuses, kind, fix in _KINDS:
        if status in statuses:
            return kind, fix
    return BadRequestError, "check the model's name and the options of the call"


def _status(error: Exception, chain: list[BaseException]) -> int | None:
    """The status the provider sent; None if none came, whatever litellm made up."""
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        return None
    if any(not _STATUS.isdisjoint(_bases(cause)) for cause in chain):
        return status
    told = next((code for cause in chain for code in [_told_code(cause)] if code), None)
    if told is not None:
        return told
    if _is_no_answer(chain) or _is_transport(chain):
        return None
    return None if status >= 500 and _is_mistake(chain) else status


def _told_code(cause: BaseException) -> int | None:
    """The status inside an error that came as part of a stream whose own status was 200."""
    body: Any = getattr(cause, "body", None)
    code = body.get("code") if hasattr(body, "get") else None
    return code if isinstance(code, int) and 400 <= code < 600 else None


def _is_no_answer(chain: list[BaseException]) -> bool:
    return any(isinstance(cause, json.JSONDecodeError) for cause in chain) or any(
        phrase in str(cause) for cause in chain for phrase in _NO_ANSWER
    )


def _is_transport(chain: list[BaseException]) -> bool:
    return any(not _TRANSPORT.isdisjoint(_bases(cause)) for cause in chain)


def _is_mistake(chain: list[BaseException]) -> bool:
    return any(isinstance(cause, (TypeError, AttributeError, NameError, ImportError)) for cause in chain)


def _bases(error: BaseException) -> frozenset[str]:
    """Names of the classes that *error* is one of; none for litellm's own, which say nothing about what happened."""
    kind = type(error)
    return frozenset() if kind.__module__.startswith("litellm") else frozenset(base.__name__ for base in kind.__mro__)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """*error*, then all that caused it, nearest first, at most 20."""
    found: list[BaseException] = [error]
    for cause in found:  # grows while it is read
        yield cause
        links = (cause.__cause__, cause.__context__, getattr(cause, "original_exception", None))
        found += [link for link in dict.fromkeys(links) if isinstance(link, BaseException) and link not in found]
        if len(found) > 20:
            return


def _retry_after_s(chain: list[BaseException], now: Callable[[], datetime]) -> float | None:
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


def _clip(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _TEXT_CHARS else f"{text[: _TEXT_CHARS - 3]}..."
