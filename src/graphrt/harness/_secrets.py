"""Credentials: which texts are some, and how they are kept out of errors and log lines.

Texts go in and come out clean. Who calls what with which credential is not known here, and nothing is stored but
the credentials that were used, so that log lines which other libraries write about them can be cleaned as well.
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
"""Characters: shorter credentials would take parts of ordinary words with them."""
_SHORTEST_FOUND: Final = 8
"""Likewise, for what only has the name of a credential."""
_MOST_CHARS: Final = 20_000
"""Longest text that is searched; what comes after is cut off, with a margin for a credential on the edge."""
_EDGE_CHARS: Final = 4_000
_REMEMBERED: Final = 1_000
LOOKS_SECRET: Final = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai)[-_][\w*.-]{6,}|\bAIza[\w-]{10,}|\bBearer\s+[^\s'\",}]+", re.IGNORECASE
)
"""What is a credential by its form."""
_IN_URL: Final = re.compile(
    r"(?<=://)[^/\s@'\"]+(?=@)"
    r"|(?<=[?&])(?P<name>key|api[-_]?key|(?:access[-_]?)?token|secret|sig|signature|password|code)=[^&\s'\"]+",
    re.IGNORECASE,
)
SECRET_NAME: Final = re.compile(
    r"(?:KEY|KEY_ID|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTHORIZATION|COOKIE|SIGNATURE)$", re.IGNORECASE
)
"""What is a credential by the name of its variable, option or header."""
_URL_NAME: Final = re.compile(r"(?:URL|BASE|ENDPOINT|PROXY)$", re.IGNORECASE)
_HEADERS: Final = frozenset({"headers", "extra_headers", "default_headers"})
_PLAIN_HEADERS: Final = re.compile(
    r"(?:type|version|agent|beta|accept|encoding|language|id|name|title)$", re.IGNORECASE
)


def credentials(*, api_key: str | None, api_base: str | None, options: Mapping[str, Any]) -> tuple[str, ...]:
    """The texts among the arguments of a call that nobody may see: 0..n."""
    found = {api_key or ""}
    found |= set(_of_url(api_base or ""))
    found |= set(_of_options(options))
    return tuple(sorted(secret for secret in found if len(secret) >= _SHORTEST))


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """*text* without *secrets*, credentials of the environment, and what looks like a credential."""
    if len(text) > _MOST_CHARS:
        text = text[:_MOST_CHARS]
    cut = len(text) == _MOST_CHARS
    known = {form for secret in (*secrets, *_of_environment()) for form in _forms(secret)}
    for secret in sorted(known, key=len, reverse=True):
        text = text.replace(secret, _REDACTED)
    text = _IN_URL.sub(lambda found: f"{found['name']}={_REDACTED}" if found["name"] else _REDACTED, text)
    text = LOOKS_SECRET.sub(_REDACTED, text)
    return text[:-_EDGE_CHARS] if cut else text


def remember(secrets: Iterable[str]) -> None:
    """Keep *secrets* out of the log lines that pass a `RedactingFilter` from now on."""
    for secret in secrets:
        _used[secret] = None
        if len(_used) > _REMEMBERED:
            _used.pop(next(iter(_used)), None)


class RedactingFilter(logging.Filter):
    """Takes credentials out of every record that is logged by the logger it is attached to; drops none."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite *record*, its exception included."""
        record.msg, record.args = redact(record.getMessage(), tuple(_used)), None
        if record.exc_info:
            record.exc_text = redact(logging.Formatter().formatException(_checked(record.exc_info)), tuple(_used))
            record.exc_info = None
        return True


_used: Final[dict[str, None]] = {}


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
        return  # no URL; the call will say so
    found = [parts.password or "", parts.username if parts.password is None else ""]
    found += [value for name, value in parse_qsl(parts.query) if name.lower() not in {"api-version", "version"}]
    for secret in found:
        if secret:
            yield unquote(secret)
    if parts.password:
        yield b64encode(f"{unquote(parts.username or '')}:{unquote(parts.password)}".encode()).decode()


def _of_options(options: Any, *, secret: bool = False) -> Iterator[str]:
    """Texts under names that look like credentials, however deep, and all of the headers but the plainest."""
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
            yield value.rpartition(" ")[2]  # without "Bearer"


def _is_a(value: object, kinds: type | tuple[type, ...]) -> bool:
    return isinstance(value, kinds)  # a plain bool: the values stay Any


def _forms(secret: str) -> Iterator[str]:
    """*secret* as it may stand in a text: as it is, in JSON, in JSON within JSON, in a URL."""
    if len(secret) >= _SHORTEST:
        yield secret
        yield json.dumps(secret)[1:-1]
        yield json.dumps(json.dumps(secret)[1:-1])[1:-1]
        yield quote(secret, safe="")
