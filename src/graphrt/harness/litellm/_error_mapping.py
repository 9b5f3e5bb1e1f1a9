"""The kind of a failed call, as a HarnessError, from the answer that was seen below litellm.

litellm's own classification is ignored: it turns a 401 into a bad request, and reports its own refusals as status 500.

| What was seen | The error |
|---|---|
| an error of the provider (`Failure`) | by its meaning (`_MEANINGS`), else its status (`_KINDS`), else its names (`_NAMES`) |
| an answer with status 200 | litellm cannot read it, unless the connection was lost |
| nothing | litellm or a client refused the request, unless there was no connection |

Pure functions over exceptions. litellm is not imported: foreign classes are recognized by the names of their bases.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Final, NamedTuple

from graphrt._sensitive_texts import redact
from graphrt.errors import AuthenticationError, BadRequestError, HarnessError, RateLimitError, TransientModelError
from graphrt.errors._codes.models import (
    ANSWER_OUT_OF_BOUNDS,
    BAD_REQUEST,
    BAD_RESPONSE,
    CALL_UNAUTHORIZED,
    CONTEXT_OVERFLOW,
    HARNESS_CANNOT_SEND,
    NO_API_KEY,
    NO_CREDIT,
    NO_CREDIT_FOR_KEY,
    NO_QUOTA,
    NOT_A_STREAM,
    NOT_SENT,
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
"""Maximum number of characters of a provider's text in an error."""
_START_CHARS: Final = 200
"""Maximum number of characters from the beginning of an answer in an error."""
_SEARCHED_CHARS: Final = 20_000
"""Maximum number of characters of an error's text that are searched for known phrases."""
_TRANSPORT: Final = frozenset(
    {"TransportError", "APIConnectionError", "ClientError", "ConnectionError", "TimeoutError"}
)
"""Base classes (httpx, openai, aiohttp, built in) of errors of the connection."""
_WRONG_ADDRESS: Final = frozenset({"InvalidURL", "NonHttpUrlClientError", "UnsupportedProtocol", "LocalProtocolError"})
"""Base classes (httpx, aiohttp) of errors of a request that cannot be sent anywhere."""
_OUT_OF_BOUNDS: Final = (RecursionError, UnreadableAnswerError)
"""Errors of answers that a retry would get again. RecursionError comes from JSON that is nested too deeply."""
_INCOMPLETE: Final = "Response payload is not completed"
"""Beginning of aiohttp's text for a connection that ended within an answer."""
_TLS: Final = re.compile(r" ssl:(?:<[^<>]*>|\w+)")
"""The TLS context in a text of aiohttp, with its address in memory."""
_PREFIX: Final = re.compile(r"^(?:(?:litellm\.)?\w*(?:Error|Exception|Timeout)(?: Error)?(?:: | - ))+")
"""Class names that litellm and the SDKs put before a text."""
_SUFFIX: Final = re.compile(
    r"\s*(?:Original exception:|Handle with `litellm|Traceback \(most recent call last\)|Received Model Group=).*",
    re.DOTALL,
)
"""Advice and tracebacks that litellm puts after a text."""
_NO_KEY: Final = re.compile(
    r"\b(?:missing|no|must be set|please pass|unable to locate)\b.{0,40}\b(?:api[_ ]?key|credentials)", re.IGNORECASE
)
"""Phrases of libraries that find no credential before the call."""
_NO_PROVIDER: Final = re.compile("LLM Provider NOT provided|GetLLMProvider Exception")
"""Phrases of litellm for a model name whose provider it does not know."""


class _Meaning(NamedTuple):
    """An error that is recognized by its names or its words, whatever its status."""

    declared: ErrorCode[HarnessError]
    names: frozenset[str]
    words: re.Pattern[str]
    statuses: Container[int | None]
    """Statuses with which the names or the words have this meaning. None: within a stream."""


_ANY: Final[Container[int | None]] = (None, *range(400, 600))
_MEANINGS: Final = (
    _Meaning(
        NO_CREDIT,
        frozenset(
            {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error"}
            | {"insufficient_balance", "insufficient_credits", "payment_required"}
        ),
        re.compile(
            r"credit balance is too low|insufficient (?:account )?(?:credit|balance|fund)|used all available credits"
            r"|requires more credits|billing hard limit",
            re.IGNORECASE,
        ),
        _ANY,
    ),
    _Meaning(
        CONTEXT_OVERFLOW,
        frozenset({"context_length_exceeded", "context_window_exceeded", "exceed_context_size_error"}),
        re.compile(
            r"(?:prompt|input) is too long|too many tokens: size|maximum (?:context|prompt|input) length is|context_length_exceeded"
            r"|exceeds? (?:the )?(?:available )?context (?:limit|window|length|size)|\d maximum context length"
            r"|longer than the model's context|exceeds the maximum number of (?:input )?tokens"
            r"|current length is \d+ while limit is|tokens in the prompt cannot exceed",
            re.IGNORECASE,
        ),
        _ANY,
    ),
    _Meaning(
        REFUSAL,
        frozenset(
            {"content_filter", "content_policy_violation", "responsible_aipolicy_violation", "moderation_blocked"}
            | {"image_content_policy_violation", "data_inspection_failed"}
        ),
        re.compile(
            r"content management policy|content filter(?:ing)? policy|input was flagged|prompt was flagged"
            r"|content exists risk|rejected as a result of our safety system",
            re.IGNORECASE,
        ),
        _ANY,
    ),
    _Meaning(
        CALL_UNAUTHORIZED,
        frozenset({"api_key_invalid", "invalid_api_key", "unrecognized_client_exception", "expired_token_exception"}),
        re.compile(r"api[ _]key (?:is )?(?:not valid|invalid|expired)|(?:invalid|incorrect) api[ _]key", re.IGNORECASE),
        (None, 400),
    ),
    _Meaning(
        UNKNOWN_MODEL,
        frozenset(
            {"model_not_found", "invalid_model", "unknown_model", "model_decommissioned", "deployment_not_found"}
        ),
        re.compile(
            r"\bmodels?\b.{0,80}\b(?:not exist|not found|decommissioned)|^model: |(?:invalid|unknown) model\b"
            r"|model identifier is invalid|not a valid model|no endpoints found for ",
            re.IGNORECASE,
        ),
        (None, 400, 404),
    ),
)
"""The first one counts."""
_KINDS: Final[tuple[tuple[Container[int], ErrorCode[HarnessError]], ...]] = (
    ((401, 403), CALL_UNAUTHORIZED),
    ((413,), CONTEXT_OVERFLOW),
    ((429,), RATE_LIMITED),
    ((408, 409, 424, 498, 499, *range(500, 1000)), TRANSIENT_MODEL),  # 424: Amazon's models, 498: Groq's capacity
)
"""Status codes with their errors; all others are bad requests."""
_NAMES: Final[tuple[tuple[re.Pattern[str], ErrorCode[HarnessError]], ...]] = (
    (
        re.compile(r"authentication|permission|unauthori[sz]ed|unauthenticated|access_denied|api_key|^forbidden"),
        CALL_UNAUTHORIZED,
    ),
    (re.compile(r"rate_limit|resource_exhausted|too_many_requests|throttl|quota|^model_not_ready"), RATE_LIMITED),
    (re.compile(r"^request_too_large"), CONTEXT_OVERFLOW),
    (
        re.compile(rf"^(?:malformed_function_call|unexpected_tool_call|missing_thought_signature|{UNUSABLE})$"),
        BAD_RESPONSE,
    ),
    (
        re.compile(
            r"^(?:invalid|unsupported|empty|image|failed_to_download|bad_request|validation|unprocessable)_"
            r"|not_found|^(?:bad_request|failed_precondition|out_of_range|billing_error|tool_use_failed)$"
        ),
        BAD_REQUEST,
    ),
)
"""Names of errors that have no status, as within streams, with their errors; all others are transient."""
_WITHOUT_CREDIT: Final[Mapping[type[HarnessError], ErrorCode[HarnessError]]] = {
    RateLimitError: NO_QUOTA,
    AuthenticationError: NO_CREDIT_FOR_KEY,
}
"""By the class that the error would have otherwise, which it keeps."""


def harness_error(
    error: Exception,
    *,
    model: str,
    secrets: tuple[str, ...] = (),
    sent: int | None = None,
    seen: Seen | None = None,
) -> HarnessError:
    """Return the HarnessError for *error*.

    The result has no cause, because the text of the original may contain credentials. They are removed from its own.

    Args:
        error: The exception that litellm raised.
        model: The model that was called.
        secrets: Texts that must not appear in the result, besides those that look like credentials.
        sent: HTTP status of the provider's latest answer, seen below the client; None if there was none.
        seen: What was read of the answer below the client.

    Returns:
        An error of the class for what happened, with `retry_after_s` in seconds if the provider asks for a wait.
    """
    seen = Seen() if seen is None else seen
    chain = list(_causes(error))
    call = _Failed(model, getattr(error, "llm_provider", None) or None, secrets)
    redirected = next((cause for cause in chain if isinstance(cause, RedirectedError)), None)
    if redirected is not None:
        return _redirect(redirected, call)
    if seen.failure is not None:
        return call.reported(seen.failure)
    if sent is None:
        return call.unsent(error, chain)
    if _is_transport(chain):
        return call.made(TRANSIENT_MODEL, _broken(chain))
    return call.unread(chain, seen)


class _Failed:
    """A failed call, which creates its error."""

    def __init__(self, model: str, provider: str | None, secrets: tuple[str, ...]) -> None:
        self.model: Final = model
        self.provider: Final = provider
        self._secrets: Final = secrets

    def made(self, declared: ErrorCode[HarnessError], reason: str, failure: Failure | None = None) -> HarnessError:
        """Return the error of a kind, for *reason*, with the status and the wait that the provider sent."""
        status = None if failure is None else failure.status
        wait_s = failure.retry_after_s if failure and declared.error in (RateLimitError, TransientModelError) else None
        return declared(
            with_status="" if status is None else f" with status {status}",
            reason=_clip(self._clean(reason)),
            known="" if wait_s is None else f"the provider asks to wait {wait_s:g} s",
            status_code=status,
            retry_after_s=wait_s,
            model=self.model,
            provider=self.provider,
        )

    def reported(self, failure: Failure) -> HarnessError:
        """Return the error for a failure that the provider reported in its own words."""
        names = ", ".join(sorted(failure.names))
        return self.made(_kind(failure), failure.text or names or "the provider does not say why.", failure)

    def unsent(self, error: Exception, chain: list[BaseException]) -> HarnessError:
        """Return the error for a request without any answer."""
        text = _said(error)
        plain = next((cause for cause in chain if type(cause) is ValueError), None)  # wrapped in "Connection error"
        if _NO_PROVIDER.search(text):
            return self.made(UNKNOWN_MODEL, text)
        if _NO_KEY.search(text):
            return self.made(NO_API_KEY, text)
        if plain is not None or _is_unsendable(chain):
            reason = f"the address is invalid: {_broken(chain)}" if plain is None else _said(plain)
            return self.made(HARNESS_CANNOT_SEND, reason)
        if _is_transport(chain):
            return self.made(TRANSIENT_MODEL, _broken(chain))
        return self.made(NOT_SENT, f"litellm refused the request, which was not sent: {text}")

    def unread(self, chain: list[BaseException], seen: Seen) -> HarnessError:
        """Return the error for an answer with status 200 that litellm cannot read."""
        unreadable = next((cause for cause in chain if isinstance(cause, UnreadableAnswerError)), None)
        if unreadable is not None:
            return self.made(ANSWER_OUT_OF_BOUNDS, str(unreadable))
        if seen.is_document:
            return self.made(NOT_A_STREAM, "a stream was asked for, and the answer is one document.")
        if not seen.begun:
            return self.made(BAD_RESPONSE, "the answer is empty.")
        # The causes' own texts, because litellm's message repeats the whole answer.
        plain = (cause for cause in chain if _is_builtin(cause) and str(cause))
        is_out_of_bounds = any(isinstance(cause, _OUT_OF_BOUNDS) for cause in chain)
        declared = ANSWER_OUT_OF_BOUNDS if is_out_of_bounds else BAD_RESPONSE
        return self.made(declared, f"litellm cannot read the answer: {_said(next(plain, chain[0]))}")

    def _clean(self, text: str) -> str:
        # Twice: a credential that was escaped within the text only shows once the text has been unescaped.
        return redact(redact(text, self._secrets), self._secrets)


def _kind(failure: Failure) -> ErrorCode[HarnessError]:
    """Return the declaration of the error that a provider reported."""
    names = {_plain(name) for name in failure.names}
    text, status = failure.text[:_SEARCHED_CHARS], failure.status
    if status is None:
        default = next((kind for form, kind in _NAMES if any(map(form.search, names))), TRANSIENT_MODEL)
    else:
        default = next((kind for statuses, kind in _KINDS if status in statuses), BAD_REQUEST)
    specific = next((meaning.declared for meaning in _MEANINGS if _has(meaning, names, text, status)), None)
    if specific is NO_CREDIT or status == 402:
        return _WITHOUT_CREDIT.get(default.error, NO_CREDIT)
    return specific or default


def _has(meaning: _Meaning, names: set[str], text: str, status: int | None) -> bool:
    if status not in meaning.statuses:
        return False
    # The text of a server failure does not describe the request.
    match = (status is None or status < 500) and meaning.words.search(text)
    return bool(match) or not meaning.names.isdisjoint(names)


def _plain(name: str) -> str:
    """Return *name* in lower case, with its words joined by underscores: `ThrottlingException` is `throttling_exception`.

    Amazon puts the name of its library before `#` and an address after `:`.
    """
    name = name.partition(":")[0].rpartition("#")[2]
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower()


def _redirect(redirected: RedirectedError, call: _Failed) -> BadRequestError:
    # Path and query of the target may be signed, so only its origin is named (decision 0037).
    target = f" to {redirected.origin}" if redirected.origin else ""
    return REDIRECTED(
        status_code=redirected.status,
        to_origin=target,
        model=call.model,
        provider=call.provider,
        target=redirected.origin or None,
    )


def beginning(seen: Seen, clean: Callable[[str], str]) -> str:
    """Return the beginning of an unreadable answer for the error; empty if there is nothing to show."""
    start = _clip(clean(clean(seen.start.decode(errors="replace"))), _START_CHARS)
    return f"the answer begins: {start}" if start else ""


def _is_transport(chain: list[BaseException]) -> bool:
    return not _is_unsendable(chain) and any(not _TRANSPORT.isdisjoint(_bases(cause)) for cause in chain)


def _is_unsendable(chain: list[BaseException]) -> bool:
    """Return whether a library refused to send the request, because the address or a header is invalid."""
    return any(type(cause) is ValueError or not _WRONG_ADDRESS.isdisjoint(_bases(cause)) for cause in chain)


def _is_builtin(error: BaseException) -> bool:
    return type(error).__module__ == "builtins" or isinstance(error, json.JSONDecodeError)


def _bases(error: BaseException) -> frozenset[str]:
    """Return the names of the classes of *error*; none for litellm's classes, which do not describe the failure."""
    kind = type(error)
    return frozenset() if kind.__module__.startswith("litellm") else frozenset(base.__name__ for base in kind.__mro__)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield *error*, then its direct and indirect causes, nearest first, at most 20."""
    chain: list[BaseException] = [error]
    for cause in chain:  # the list grows while it is read
        yield cause
        links = (cause.__cause__, cause.__context__, getattr(cause, "original_exception", None))
        chain += [link for link in dict.fromkeys(links) if isinstance(link, BaseException) and link not in chain]
        if len(chain) > 20:
            return


def _said(error: BaseException) -> str:
    """Return the text of *error*, without litellm's additions; its class if it has no text."""
    return _SUFFIX.sub("", _PREFIX.sub("", str(error)[:_SEARCHED_CHARS])) or type(error).__name__


def _broken(chain: list[BaseException]) -> str:
    """Return why a connection failed, in the words of the library that made it.

    OpenAI's replaces them by "Connection error", and those of aiohttp contain objects.
    """
    plain = (cause for cause in chain if type(cause).__module__.startswith(("httpx", "aiohttp")) and str(cause))
    text = _said(next(plain, chain[0]))
    if text.startswith(_INCOMPLETE):
        return "the connection broke before the answer was complete"
    return _TLS.sub("", text).removesuffix(" [None]")


def _clip(text: str, max_chars: int = _TEXT_CHARS) -> str:
    text = " ".join(text.split())
    return text if len(text) <= max_chars else f"{text[: max_chars - 3]}..."
