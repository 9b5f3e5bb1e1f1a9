"""Credentials: which texts are credentials, and how they are kept out of errors and log lines.

Functions take a text and return it redacted. The only state is the set of credentials that this process has used:
other libraries write log lines about them later, which a `RedactingFilter` cleans. Which call used which credential
is not recorded.
"""

from __future__ import annotations

import json
import logging
import os
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

_REDACTED: Final = "[redacted]"
_SHORTEST: Final = 4
"""Characters. Redacting a shorter credential would remove parts of ordinary words."""
_SHORTEST_FOUND: Final = 8
"""Characters. Likewise, for environment variables that only have the name of a credential."""
_MOST_CHARS: Final = 20_000
"""Longest text that is searched, in characters; the rest is cut off."""
_EDGE_CHARS: Final = 4_000
"""Characters dropped before the cut as well, because a credential that the cut split would not be found there."""
_REMEMBERED: Final = 1_000
"""Most credentials kept for log lines; the one used first is forgotten first."""
LOOKS_SECRET: Final = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai)[-_][\w*.-]{6,}|\bAIza[\w-]{10,}|\bBearer\s+[^\s'\",}]+", re.IGNORECASE
)
"""Credentials known by their form: keys with a usual prefix (`sk-...`, `AIza...`), and bearer tokens."""
_IN_URL: Final = re.compile(
    r"(?<=://)[^/\s@'\"]+(?=@)"
    r"|(?<=[?&])(?P<name>key|api[-_]?key|(?:access[-_]?)?token|secret|sig|signature|password|code)=[^&\s'\"]+",
    re.IGNORECASE,
)
"""Credentials within an address: user information before `@`, and query parameters with the name of a credential."""
SECRET_NAME: Final = re.compile(
    r"(?:KEY|KEY_ID|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTHORIZATION|COOKIE|SIGNATURE)$", re.IGNORECASE
)
"""Names of variables, options and headers whose value is a credential."""
_URL_NAME: Final = re.compile(r"(?:URL|BASE|ENDPOINT|PROXY)$", re.IGNORECASE)
"""Names of environment variables that hold an address, which may contain a credential."""
_HEADERS: Final = frozenset({"headers", "extra_headers", "default_headers"})
"""Options of litellm that hold HTTP headers."""
_PLAIN_HEADERS: Final = re.compile(
    r"(?:type|version|agent|beta|accept|encoding|language|id|name|title)$", re.IGNORECASE
)
"""Names of headers whose value is not a credential; the values of all other headers are taken for credentials."""


def credentials(*, api_key: str | None, api_base: str | None, options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the credentials among the arguments of a call: 0..n texts of 4 characters or more, sorted."""
    found = {api_key or ""}
    found |= set(_of_url(api_base or ""))
    found |= set(_of_options(options))
    return tuple(sorted(secret for secret in found if len(secret) >= _SHORTEST))


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Return *text* without *secrets*, credentials of the environment, and what looks like a credential.

    A text of 20,000 characters or more is cut off.
    """
    if len(text) > _MOST_CHARS:
        text = text[:_MOST_CHARS]
    cut = len(text) == _MOST_CHARS
    known = {form for secret in (*secrets, *_of_environment()) for form in _forms(secret)}
    for secret in sorted(known, key=len, reverse=True):  # longest first: one credential may contain another
        text = text.replace(secret, _REDACTED)
    text = _IN_URL.sub(lambda found: f"{found['name']}={_REDACTED}" if found["name"] else _REDACTED, text)
    text = LOOKS_SECRET.sub(_REDACTED, text)
    return text[:-_EDGE_CHARS] if cut else text


def remember(secrets: Iterable[str]) -> None:
    """Remember *secrets*: each `RedactingFilter` removes them from log lines from now on."""
    for secret in secrets:
        _used[secret] = None
        if len(_used) > _REMEMBERED:
            _used.pop(next(iter(_used)), None)


class RedactingFilter(logging.Filter):
    """Log filter that removes credentials from all records of the logger it is attached to; it drops no record."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite *record* in place, its exception included."""
        record.msg, record.args = redact(record.getMessage(), tuple(_used)), None
        if record.exc_info:
            record.exc_text = redact(logging.Formatter().formatException(_checked(record.exc_info)), tuple(_used))
            record.exc_info = None  # a handler that formats the exception itself would show the credentials
        return True


_used: Final[dict[str, None]] = {}
"""Credentials that this process has used, in order of their first use: a dict as an ordered set."""


def _checked(info: Any) -> Any:
    return info if _is_a(info, tuple) else (None, None, None)


def _of_environment() -> Iterator[str]:
    for name, value in os.environ.items():
        if SECRET_NAME.search(name):
            if len(value) >= _SHORTEST_FOUND:
                yield value
        elif "@" in value and _URL_NAME.search(name):
            yield from _of_url(value)


def _of_url(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return  # not a URL: the call itself will fail and say so
    found = [parts.password or "", parts.username if parts.password is None else ""]
    # Any query parameter may be a credential, but for the version of the interface (api-version for Azure).
    found += [value for name, value in parse_qsl(parts.query) if name.lower() not in {"api-version", "version"}]
    for secret in found:
        if secret:
            yield unquote(secret)
    if parts.password:  # HTTP clients send user information as Basic authentication (RFC 7617)
        yield b64encode(f"{unquote(parts.username or '')}:{unquote(parts.password)}".encode()).decode()


def _of_options(options: Any, *, secret: bool = False) -> Iterator[str]:
    """Yield the texts under names of credentials, at any depth, those inside addresses, and values of headers.

    Args:
        options: Options of a call, or a value in them.
        secret: Whether an enclosing name is that of a credential, so that all texts below it are credentials.
    """
    if _is_a(options, Mapping):
        for name, value in options.items():
            name = str(name)
            if name.lower() in _HEADERS:
                yield from _of_headers(value)
            elif isinstance(value, str) and not secret and not SECRET_NAME.search(name):
                yield from _of_url(value) if "://" in value else ()
            else:
                yield from _of_options(value, secret=secret or bool(SECRET_NAME.search(name)))
    elif _is_a(options, (list, tuple)):
        for item in options:
            yield from _of_options(item, secret=secret)
    elif secret and isinstance(options, str):
        yield options


def _of_headers(headers: Any) -> Iterator[str]:
    for name, value in headers.items() if _is_a(headers, Mapping) else ():
        if isinstance(value, str) and not _PLAIN_HEADERS.search(str(name)):
            yield value
            yield value.rpartition(" ")[2]  # the token alone, without a scheme such as "Bearer"


def _is_a(value: object, kinds: type | tuple[type, ...]) -> bool:
    return isinstance(value, kinds)  # not narrowed: for the type checker the values stay Any


def _forms(secret: str) -> Iterator[str]:
    """Yield the spellings of *secret* inside a text: as is, escaped as JSON once and twice, and quoted for a URL."""
    if len(secret) >= _SHORTEST:
        yield secret
        yield json.dumps(secret)[1:-1]
        yield json.dumps(json.dumps(secret)[1:-1])[1:-1]
        yield quote(secret, safe="")
