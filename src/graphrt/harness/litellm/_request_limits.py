"""Bounds that litellm does not keep by itself: how often a request is sent, how much of a text is searched.

Changes to litellm's functions live here, each holding for our own calls only. How much of an answer is read, and from
where, is `_http_exchange`'s; time is bounded by the caller.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from importlib import import_module
from typing import Any, Final

from graphrt.harness.litellm._http_exchange import Exchange

_TEXT_CHARS: Final = 20_000


def install(ours: ContextVar[Exchange | None]) -> None:
    """Keep the bounds in every call in whose context *ours* is set; others go on as they did."""
    _send_once(ours)
    _search_so_much(ours)


def _send_once(ours: ContextVar[Exchange | None]) -> None:
    """Keep litellm's HTTP client from sending a request again when the connection breaks.

    It does so once, whatever `max_retries` says; a provider may have charged for the first time.
    """
    handler: Any = import_module("litellm.llms.custom_httpx.http_handler").AsyncHTTPHandler
    again: Final[Any] = handler.single_connection_post_request

    async def single_connection_post_request(self: Any, *args: Any, **arguments: Any) -> Any:
        error = sys.exception()  # it is called where the first failure is handled
        if ours.get() is not None and error is not None:
            raise error
        return await again(self, *args, **arguments)

    handler.single_connection_post_request = single_connection_post_request


def _search_so_much(ours: ContextVar[Exchange | None]) -> None:
    """Clip the texts that litellm searches for credentials: it takes a second for each megabyte, six times a call."""
    redaction: Any = import_module("litellm.litellm_core_utils.secret_redaction")
    search: Final[Any] = getattr(redaction, "_python_redact_string", None)
    if search is None:
        return  # a version that does it elsewhere

    def clipped(value: str) -> str:
        result: str = search(value if ours.get() is None else value[:_TEXT_CHARS])
        return result

    redaction._python_redact_string = clipped
