"""Bounds that litellm lacks: how often a request is sent, and how much of a text is searched for credentials.

Each change to a function of litellm takes effect in calls of graphrt only. `_http_exchange` bounds how much of an
answer is read, and from where; the caller bounds the time.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from importlib import import_module
from typing import Any, Final

from graphrt.harness.litellm._http_exchange import Exchange

_TEXT_CHARS: Final = 20_000
"""Longest text that litellm searches for credentials, in characters."""


def install(ours: ContextVar[Exchange | None]) -> None:
    """Apply the bounds to calls in whose context *ours* is set; other calls are not affected."""
    _send_once(ours)
    _search_so_much(ours)


def _send_once(ours: ContextVar[Exchange | None]) -> None:
    """Keep litellm's HTTP client from sending a request again after the connection broke.

    It would do so once, whatever `max_retries` says, although the provider may have charged for the first request.
    """
    handler: Any = import_module("litellm.llms.custom_httpx.http_handler").AsyncHTTPHandler
    again: Final[Any] = handler.single_connection_post_request

    async def single_connection_post_request(self: Any, *args: Any, **arguments: Any) -> Any:
        error = sys.exception()  # litellm calls this while it handles the first failure
        if ours.get() is not None and error is not None:
            raise error
        return await again(self, *args, **arguments)

    handler.single_connection_post_request = single_connection_post_request


def _search_so_much(ours: ContextVar[Exchange | None]) -> None:
    """Clip the texts that litellm searches for credentials: a search takes a second per megabyte, six times a call."""
    redaction: Any = import_module("litellm.litellm_core_utils.secret_redaction")
    search: Final[Any] = getattr(redaction, "_python_redact_string", None)
    if search is None:
        return  # this version of litellm searches elsewhere

    def clipped(value: str) -> str:
        result: str = search(value if ours.get() is None else value[:_TEXT_CHARS])
        return result

    redaction._python_redact_string = clipped
