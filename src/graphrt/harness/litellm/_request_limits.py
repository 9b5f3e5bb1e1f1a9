"""Changes to litellm: how often a request is sent, how much of a text is searched for credentials, what a stream is.

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
"""Maximum number of characters of a text that litellm searches for credentials."""


def install(exchange: ContextVar[Exchange | None]) -> None:
    """Apply the changes to calls in whose context *exchange* is set; other calls are not affected."""
    _send_once(exchange)
    _search_so_much(exchange)
    _end_without_reason(exchange)
    _stream_if_asked(exchange)


def _send_once(exchange: ContextVar[Exchange | None]) -> None:
    """Keep litellm's HTTP client from sending a request again after the connection broke.

    It would retry once, whatever `max_retries` says, although the provider may have charged for the first request.
    """
    handler: Any = import_module("litellm.llms.custom_httpx.http_handler").AsyncHTTPHandler
    # The method that resends a request; litellm renamed it in 1.110.
    name = next(
        name for name in ("single_connection_request", "single_connection_post_request") if hasattr(handler, name)
    )
    original: Final[Any] = getattr(handler, name)

    async def send_again(self: Any, *args: Any, **arguments: Any) -> Any:
        error = sys.exception()  # litellm calls this while it handles the first failure
        if exchange.get() is not None and error is not None:
            raise error
        return await original(self, *args, **arguments)

    setattr(handler, name, send_again)


def _search_so_much(exchange: ContextVar[Exchange | None]) -> None:
    """Clip the texts that litellm searches for credentials: a search takes a second per megabyte, six times a call."""
    redaction: Any = import_module("litellm.litellm_core_utils.secret_redaction")
    search: Final[Any] = getattr(redaction, "_python_redact_string", None)
    if search is None:
        return  # this version of litellm searches elsewhere

    def clipped(value: str) -> str:
        result: str = search(value if exchange.get() is None else value[:_TEXT_CHARS])
        return result

    redaction._python_redact_string = clipped


def _end_without_reason(exchange: ContextVar[Exchange | None]) -> None:
    """Let a stream end without a finish reason: `ReplyBuilder` checks for the end mark of a complete answer."""
    wrapper: Any = import_module("litellm.litellm_core_utils.streaming_handler").CustomStreamWrapper
    fails: Final[Any] = getattr(wrapper, "_should_fail_on_clean_eof", None)
    if fails is None:
        return  # versions before 1.110 have no such check

    def ends(self: Any) -> bool:
        result: bool = exchange.get() is None and fails(self)
        return result

    wrapper._should_fail_on_clean_eof = ends


def _stream_if_asked(exchange: ContextVar[Exchange | None]) -> None:
    """Ask models of OpenAI's Responses for a stream, unless litellm's tables say that they have none.

    litellm (1.110, `supports_native_streaming`) takes each model that the tables do not have for one without streams,
    asks for the whole answer, and cuts that up.
    """
    config: Any = import_module("litellm.llms.openai.responses.transformation").OpenAIResponsesAPIConfig
    fakes: Final[Any] = config.should_fake_stream
    litellm: Final[Any] = import_module("litellm")

    def should_fake_stream(self: Any, model: Any, stream: Any, custom_llm_provider: Any = None) -> bool:
        keys = (model, f"{custom_llm_provider}/{model}")
        if exchange.get() is not None and not any(key in litellm.model_cost for key in keys):
            return False
        result: bool = fakes(self, model=model, stream=stream, custom_llm_provider=custom_llm_provider)
        return result

    config.should_fake_stream = should_fake_stream
