"""What litellm raises, mapped to the HarnessError family by what really happened.

Classes are not to be trusted there (a 401 may come as a bad request, a malformed body as a 500), so status codes and
the chain of causes decide. Pure functions over exceptions; litellm is not imported here.
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
from graphrt.harness._secrets import LOOKS_SECRET, SECRET_NAME, redact
from graphrt.harness.litellm._http_exchange import RedirectedError, UnreadableAnswerError

_TEXT_CHARS: Final = 500
_SEARCHED_CHARS: Final = 20_000
_TRANSPORT: Final = frozenset(
    {"TransportError", "APIConnectionError", "ClientError", "ConnectionError", "TimeoutError"}
)
"""Names of base classes (httpx, openai, aiohttp, built in) that mean: the connection failed."""
_STATUS: Final = frozenset({"HTTPStatusError", "APIStatusError", "ClientResponseError"})
"""Names of base classes (httpx, openai, aiohttp) that mean: the provider answered with a status."""
_NO_ANSWER: Final = (
    "Empty or invalid response from LLM endpoint",
    "Unable to get json response",
    "provider returned 'choices' that is not a list",
)
_UNREADABLE: Final = (json.JSONDecodeError, UnicodeDecodeError, RecursionError, UnreadableAnswerError)
"""What is raised where an answer is read: RecursionError by JSON that is nested too deeply."""
_OUT_OF_BOUNDS: Final = (RecursionError, UnreadableAnswerError)
"""What stays unreadable when it is asked for again."""
_UNREAD: Final[tuple[type[HarnessError], str, str | None]] = (
    BadResponseError,
    "check that the address is that of a chat completions endpoint",
    None,
)
_WRONG_ADDRESS: Final = frozenset({"InvalidURL", "UnsupportedProtocol", "LocalProtocolError"})
"""Names of base classes (httpx, aiohttp) that mean: this cannot be sent anywhere."""
_READERS: Final = frozenset(
    {"transform_response", "transform_parsed_response", "convert_to_model_response_object", "chunk_parser"}
)
"""Functions of litellm that read what a provider answered: whatever fails in them, the answer was none."""
_SECRET: Final = LOOKS_SECRET
_SECRET_NAME: Final = SECRET_NAME
_PREFIX: Final = re.compile(
    r"^(?:(?:litellm\.)?[A-Za-z]*(?:Error|Exception|Timeout)(?: Error)?(?:: | - | (?=[A-Za-z]+Error - )))+"
)
_SUFFIX: Final = re.compile(
    r"\s*(?:Original exception:|Handle with `litellm|Traceback \(most recent call last\)|Received Model Group=).*",
    re.DOTALL,
)
_MESSAGE: Final = re.compile(r"""^b?'?\{.*?"error".*?"message":\s*"((?:[^"\\]|\\.)*)\"""", re.DOTALL)
"""The message in the document of an error, which some adapters hand on as it is."""
_BYTES: Final = re.compile(r"""^b('|")(?:[^\\]|\\.)*?\1""", re.DOTALL)
"""The document of an error as Python shows bytes, with escapes of its own: what some adapters hand on of a stream."""
_TOO_LONG: Final = re.compile(
    r"\b(?:prompt is too long: \d|maximum context length is \d|exceeds? (?:the )?context (?:limit|window|length)"
    r"|context_length_exceeded)",
    re.IGNORECASE,
)
"""What providers say of too long a conversation, also where the library does not know it for that."""
_NO_KEY: Final = re.compile(
    r"\b(?:missing|no|must be set|please pass)\b.{0,40}\b(?:api[_ ]?key|credentials)", re.IGNORECASE
)
"""What libraries say that look for a credential before they call."""
_NO_PROVIDER: Final = re.compile("LLM Provider NOT provided|GetLLMProvider Exception")
_NO_MODEL: Final = re.compile(r"\bmodel\b.{0,80}\b(?:does not exist|not found)|^model: ", re.IGNORECASE)


def harness_error(
    error: Exception,
    *,
    model: str,
    secrets: tuple[str, ...] = (),
    sent: int | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> HarnessError:
    """The HarnessError that says what *error* means.

    The result has no cause: the text of the original may contain credentials, which are taken out here.

    Args:
        error: What the library raised.
        model: The model that was asked.
        secrets: Texts that must not appear in the result, besides those that look like credentials.
        sent: The status of the provider's latest answer, as it came; None if there was none, or nobody knows.
        now: Reads the clock; only if the provider says when to come back as a date.

    Returns:
        An error of the kind that the status code, or the lack of one, calls for.
    """
    chain = list(_causes(error))
    redirected = next((cause for cause in chain if isinstance(cause, RedirectedError)), None)
    if redirected is not None:
        return _redirect(redirected, error, model)
    if sent is not None and 200 <= sent < 300 and _is_misread(chain):
        status = None  # whatever the library made up
        kind, fix, code = _UNREAD
    else:
        status = _status(error, chain)
        kind, fix, code = _kind(error, chain, status)
    retry_after_s = _retry_after_s(chain, now) if kind in (RateLimitError, TransientModelError) else None
    plain = (cause for cause in chain if type(cause) is ValueError or isinstance(cause, UnreadableAnswerError))
    told = next(plain, error) if status is None else error  # "Connection error", say others who wrap these
    # Twice: what was escaped within an escaped text only shows when that has been read.
    what = redact(_said(redact(str(told), secrets)), secrets) or type(error).__name__
    if any(isinstance(cause, _OUT_OF_BOUNDS) for cause in chain):
        code = "unreadable-answer"
    return kind(
        f"The model call failed{'' if status is None else f' with status {status}'}: {_clip(what)}",
        where=f"model {model!r}",
        known="" if retry_after_s is None else f"the provider asks to wait {retry_after_s:g} s",
        fix=fix,
        code=code,
        status_code=status,
        retry_after_s=retry_after_s,
        model=model,
        provider=getattr(error, "llm_provider", None) or None,
    )


def _redirect(redirected: RedirectedError, error: Exception, model: str) -> BadRequestError:
    target = f" to {redirected.origin}" if redirected.origin else ""
    return BadRequestError(
        f"The provider's address answered with status {redirected.status}, a redirect{target}. It was not followed.",
        where=f"model {model!r}",
        fix="set api_base to the final address, if you trust it: redirects are never followed, because the "
        "prompt would be sent to an address that you did not choose",
        code="redirected",
        status_code=redirected.status,
        model=model,
        provider=getattr(error, "llm_provider", None) or None,
        target=redirected.origin or None,
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


_KINDS: Final[tuple[tuple[Container[int], type[HarnessError], str], ...]] = (
    ((401, 403), AuthenticationError, "check the api_key of the model, or the provider's environment variable"),
    ((413,), ContextOverflowError, "shorten the conversation: the request is larger than the provider takes"),
    ((429,), RateLimitError, "wait and retry, or check the quota of the account"),
    ((408, 409), TransientModelError, "retry"),
    (range(500, 1000), TransientModelError, "retry; if it persists, look at the provider's status page"),
)


def _kind(
    error: Exception, chain: list[BaseException], status: int | None
) -> tuple[type[HarnessError], str, str | None]:
    """The class of the error, what to do, and its code if that is not the class's own."""
    text = _said(str(error)[:_SEARCHED_CHARS])
    codes = {str(getattr(cause, "code", "")) for cause in chain}
    found = _by_words(type(error).__name__, text, codes, status, answered=_is_answered(chain))
    if found is None and status is None:
        found = _without_status(chain)
    if found is None and status in (400, 404) and ("model_not_found" in codes or _NO_MODEL.search(text)):
        found = BadRequestError, "compare the model's name with those that the provider offers", "unknown-model"
    if found is None:
        found = next(((kind, fix, None) for statuses, kind, fix in _KINDS if status in statuses), None)
    return found or (BadRequestError, "check the model's name and the options of the call", None)


def _by_words(
    name: str, text: str, codes: set[str], status: int | None, *, answered: bool
) -> tuple[type[HarnessError], str, str | None] | None:
    too_long = status == 400 and _TOO_LONG.search(text)
    if name == "ContextWindowExceededError" or "context_length_exceeded" in codes or too_long:
        return ContextOverflowError, "shorten the conversation, or choose a model with a longer context", None
    if name == "ContentPolicyViolationError" or "content_filter" in codes:
        return RefusalError, "change the request; repeating it will not help", None
    if _NO_PROVIDER.search(text):
        return BadRequestError, 'write the model as "provider/model", such as "openai/gpt-4o-mini"', "unknown-model"
    if not answered and _NO_KEY.search(text):
        return AuthenticationError, "give api_key=, or set the provider's environment variable", "no-api-key"
    return None


def _without_status(chain: list[BaseException]) -> tuple[type[HarnessError], str, str | None]:
    if _is_no_answer(chain):
        return _UNREAD
    if _is_transport(chain):
        return TransientModelError, "retry; if it persists, check the address and the network", None
    if _is_unsendable(chain):
        return HarnessError, "check api_base, and the headers in options", None
    return HarnessError, "look at the text above; it came from the provider's library, not from the provider", None


def missing_key(model: str, variables: Sequence[str], provider: str) -> AuthenticationError:
    """The error for a call that cannot be made, since none of the environment's *variables* holds a credential."""
    return AuthenticationError(
        f"There is no API key for {provider!r}: {' or '.join(variables)} is not set.",
        where=f"model {model!r}",
        fix=f"set the environment variable {' or '.join(variables)}, or give api_key=",
        code="no-api-key",
        model=model,
        provider=provider,
    )


def _status(error: Exception, chain: list[BaseException]) -> int | None:
    """The status the provider sent; None if none came, whatever litellm made up."""
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        return None
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
    """The status inside an error that came as part of a stream whose own status was 200."""
    body: Any = getattr(cause, "body", None)
    code = body.get("code") if hasattr(body, "get") else None
    return code if isinstance(code, int) and 400 <= code < 600 else None


def _is_answered(chain: list[BaseException]) -> bool:
    return any(not _STATUS.isdisjoint(_bases(cause)) for cause in chain)


def _is_no_answer(chain: list[BaseException]) -> bool:
    """Whether something came that is no answer: it was unreadable, or litellm failed to make sense of it."""
    return (
        any(isinstance(cause, _UNREADABLE) for cause in chain)
        or any(phrase in str(cause) for cause in chain for phrase in _NO_ANSWER)
        or any(_is_builtin(cause) and not _READERS.isdisjoint(_passed(cause)) for cause in chain)
    )


def _is_misread(chain: list[BaseException]) -> bool:
    """Whether something built in failed after an answer had begun to come, and the connection did not."""
    mistakes = (TypeError, AttributeError, LookupError, ValueError)  # pydantic's ValidationError is a ValueError
    return not _is_transport(chain) and any(isinstance(cause, mistakes) for cause in chain)


def _passed(error: BaseException) -> Iterator[str]:
    """Names of the functions that *error* came through."""
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame.f_code.co_name
        trace = trace.tb_next


def _is_transport(chain: list[BaseException]) -> bool:
    return not _is_unsendable(chain) and any(not _TRANSPORT.isdisjoint(_bases(cause)) for cause in chain)


def _is_mistake(chain: list[BaseException]) -> bool:
    mistakes = (TypeError, AttributeError, NameError, ImportError)
    return _is_unsendable(chain) or any(isinstance(cause, mistakes) for cause in chain)


def _is_unsendable(chain: list[BaseException]) -> bool:
    """Whether a library refused to send the request: the address or a header is wrong."""
    return any(type(cause) is ValueError or not _WRONG_ADDRESS.isdisjoint(_bases(cause)) for cause in chain)


def _is_builtin(error: BaseException) -> bool:
    return type(error).__module__ == "builtins"


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


def _said(text: str) -> str:
    """What the provider said, without what litellm put around it."""
    text = _unescaped(_SUFFIX.sub("", _PREFIX.sub("", text)))
    found = _MESSAGE.match(text)
    if found is None:
        return text
    with suppress(ValueError):
        return str(json.loads(f'"{found[1]}"', strict=False))
    return found[1]


def _unescaped(text: str) -> str:
    """*text*, or the bytes that it shows as Python does."""
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
