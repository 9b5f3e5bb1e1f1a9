"""What of a connection to an MCP server nobody may see: texts that are kept out of errors and log lines.

What a credential looks like in general is told in `harness._secrets`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qsl

from graphrt.harness._secrets import RedactingFilter, remember

_LOGGERS: Final = ("httpx2", "mcp.client.streamable_http", "mcp.client.stdio")
_SHORTEST: Final = 4
"""Characters of a text that is kept out of errors: shorter ones would take parts of ordinary words with them."""


def of_query(query: str) -> tuple[str, ...]:
    """The values in the query of an address, as they are and decoded: many are keys."""
    return (*(value for _, value in parse_qsl(query)), *(part.partition("=")[2] for part in query.split("&")))


def keep_out_of_logs(secrets: tuple[str, ...]) -> None:
    """See that no line holds them that the SDK, or what it speaks HTTP with, logs: both log addresses."""
    remember(secrets)
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(known, RedactingFilter) for known in logger.filters):
            logger.addFilter(RedactingFilter())


def worth_hiding(secrets: Sequence[str]) -> tuple[str, ...]:
    """The texts and their words (of `Bearer abc`), the longest first."""
    found = {part for secret in secrets for part in (secret, *secret.split())}
    return tuple(sorted((text for text in found if len(text) >= _SHORTEST), key=len, reverse=True))
