"""Bounds that litellm does not keep by itself: how often a request is sent, how much of an answer is read, to what end.

Changes to litellm's functions live here, each holding for our own calls only. Time is bounded elsewhere.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from contextvars import ContextVar
from importlib import import_module
from typing import Any, Final, Literal, TypeAlias

Kind: TypeAlias = Literal["whole", "stream"]
"""Whether an answer is read as one document or as a stream of events."""
_WHOLE_BYTES: Final = 16 * 2**20
_STREAM_BYTES: Final = 256 * 2**20
_LINE_BYTES: Final = 4 * 2**20
"""Longest line of a stream: an event has one or two, and a client puts each together in memory, piece by piece."""
_TEXT_CHARS: Final = 20_000
_END_MARK: Final = re.compile(rb"(?:^|[\r\n])data: ?\[DONE\]")
_MARK_BYTES: Final = 16
"""So much of what was read may be the beginning of a mark."""


class ResponseTooLongError(Exception):
    """A provider answered with more bytes than any model writes."""


def install(ours: ContextVar[Kind | None], ends: ContextVar[list[bytes] | None]) -> None:
    """Keep the bounds in every call in whose context *ours* is set; others go on as they did.

    What says that a stream is over, which no library hands on, is added to the list that *ends* holds.
    """
    _send_once(ours)
    _read_so_much(ours, ends)
    _search_so_much(ours)


def _send_once(ours: ContextVar[Kind | None]) -> None:
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


def _read_so_much(ours: ContextVar[Kind | None], ends: ContextVar[list[bytes] | None]) -> None:
    """Stop reading an answer that cannot be one, before it is parsed, quoted and searched in all its length."""
    stream: Any = import_module("litellm.llms.custom_httpx.aiohttp_transport").AiohttpResponseStream
    read: Final[Any] = stream.__aiter__

    async def bounded(self: Any) -> AsyncGenerator[bytes, None]:
        kind = ours.get()
        found, tail = ends.get(), b""
        total = line = 0
        async with aclosing(read(self)) as chunks:
            async for chunk in chunks:
                total += len(chunk)
                start = chunk.rfind(b"\n") + 1
                line = len(chunk) - start if start else line + len(chunk)
                if kind == "whole" and total > _WHOLE_BYTES:
                    raise ResponseTooLongError(f"The answer has more than {_WHOLE_BYTES:,} bytes.")
                if kind == "stream" and (line > _LINE_BYTES or total > _STREAM_BYTES):
                    raise ResponseTooLongError("The stream, or one line of it, is longer than any model writes.")
                if kind == "stream" and found is not None:
                    found += _END_MARK.findall(tail + chunk)
                    tail = (tail + chunk)[-_MARK_BYTES:]
                yield chunk
                await asyncio.sleep(0)  # what has arrived is read without waiting, and then no timeout could end it

    stream.__aiter__ = bounded


def _search_so_much(ours: ContextVar[Kind | None]) -> None:
    """Clip the texts that litellm searches for credentials: it takes a second for each megabyte, six times a call."""
    redaction: Any = import_module("litellm.litellm_core_utils.secret_redaction")
    search: Final[Any] = getattr(redaction, "_python_redact_string", None)
    if search is None:
        return  # a version that does it elsewhere

    def clipped(value: str) -> str:
        result: str = search(value if ours.get() is None else value[:_TEXT_CHARS])
        return result

    redaction._python_redact_string = clipped
