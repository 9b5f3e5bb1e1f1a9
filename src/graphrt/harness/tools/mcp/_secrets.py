"""Credentials of a connection to an MCP server, and how they are kept out of errors and log lines.

`_sensitive_texts` knows what a credential looks like in general, and does the redaction.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qsl

from graphrt._sensitive_texts import RedactingFilter, remember

_LOGGERS: Final = ("httpx2", "mcp.client.streamable_http", "mcp.client.stdio")
_SHORTEST: Final = 4
"""Minimum length of a text that is redacted: shorter ones would match inside ordinary words."""


def of_query(query: str) -> tuple[str, ...]:
    """Return the values in the query of a URL, both raw and decoded. Many are API keys."""
    return (*(value for _, value in parse_qsl(query)), *(part.partition("=")[2] for part in query.split("&")))


def keep_out_of_logs(secrets: tuple[str, ...]) -> None:
    """Redact *secrets* in log lines of the MCP SDK and its HTTP client, which both log URLs."""
    remember(secrets)
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(known, RedactingFilter) for known in logger.filters):
            logger.addFilter(RedactingFilter())


def worth_hiding(secrets: Sequence[str]) -> tuple[str, ...]:
    """Return the texts and the words in them, such as `abc` in `Bearer abc`, longest first and without short ones.

    The longest go first so that a shorter text inside a longer one does not leave parts of it behind.
    """
    words = {part for secret in secrets for part in (secret, *secret.split())}
    return tuple(sorted((text for text in words if len(text) >= _SHORTEST), key=len, reverse=True))
