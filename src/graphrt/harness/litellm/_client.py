"""The only module that imports litellm: its guards, the event loop that it runs on, and its shutdown.

Requests and the meaning of answers live in other modules. litellm is imported at the first call. Its import alone
would fetch a price list, load `.env` and change warning filters and log handlers, and a later call would fetch a list
of Anthropic's beta headers. All of this is prevented here.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from typing import Any, Final, Protocol, TypeVar

from graphrt._sensitive_texts import RedactingFilter
from graphrt.errors._codes.arguments import MISSING_PACKAGE
from graphrt.harness._background_loop import LoopThread
from graphrt.harness.litellm import _http_exchange, _request_limits
from graphrt.harness.litellm._silence import QuietWarnings, quiet_import

T = TypeVar("T")


class LiteLLM(Protocol):
    """The part of litellm that is used here. litellm's own types take a type checker 18 s, and are mostly Any."""

    suppress_debug_info: bool
    disable_hf_tokenizer_download: bool
    model_cost: dict[str, dict[str, Any]]
    api_key: str | None
    secret_manager_client: Any
    Usage: Any
    main: Any

    async def acompletion(self, **arguments: Any) -> Any: ...
    def cost_per_token(self, **arguments: Any) -> tuple[float, float]: ...
    def get_llm_provider(self, model: str, **arguments: Any) -> tuple[str, str, str | None, str | None]: ...
    def get_optional_params(self, **arguments: Any) -> dict[str, Any]: ...
    def get_supported_openai_params(self, model: str, custom_llm_provider: str) -> list[str] | None: ...
    def supports_reasoning(self, model: str, custom_llm_provider: str) -> bool: ...
    def supports_response_schema(self, model: str, custom_llm_provider: str) -> bool: ...
    def token_counter(self, **arguments: Any) -> int: ...
    def validate_environment(self, model: str) -> dict[str, Any]: ...


loop: Final = LoopThread("graphrt-litellm")
"""Runs every call: litellm breaks when several event loops use it."""
quiet: Final = QuietWarnings(
    module=r"litellm(\.|$)",
    messages=(
        ".*`ReadOnly` qualifier",  # pydantic, building litellm's models at first use
        ".*protected namespace",
        "Pydantic serializer warnings",  # for answers of an unexpected form, which they quote
        # litellm makes its coroutine on a worker thread; a call that is cancelled meanwhile leaves it behind.
        r"coroutine '.*(acompletion|ChatCompletion\.async).*' was never awaited",
    ),
)
"""Filters of warnings, active during every call; entered on the loop only."""
ours: Final[ContextVar[_http_exchange.Exchange | None]] = ContextVar("graphrt_litellm_call", default=None)
"""The current call of graphrt; None in other calls to litellm, which the changes to litellm do not affect."""
_LOGGERS: Final = ("LiteLLM", "openai", "httpx", "httpcore", "aiohttp")
"""Prefixes of the loggers that write about requests; at DEBUG, with headers, addresses and bodies."""


@cache
def load() -> LiteLLM:
    """Return litellm, which the first call imports. Call it on the loop, so that there is one import at a time.

    Raises:
        MissingExtraError: litellm is not installed.
    """
    return _import_quietly()


def loaded() -> bool:
    """Return whether `load` has imported litellm."""
    return bool(load.cache_info().currsize)


def on_loop(work: Callable[[], T]) -> T:
    """Run *work* on the loop and return its result; callable from any worker thread, including that of the loop."""
    if threading.current_thread().name == loop.name:
        return work()

    async def run() -> T:
        with quiet:
            return work()

    future: Future[T] = loop.submit(run())
    return future.result()


def _import_quietly() -> LiteLLM:
    """Import litellm without its side effects: network, `.env`, warning filters, log handlers, banners.

    Raises:
        MissingExtraError: litellm is not installed.
    """
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # before the import, which fetches a price list
    os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")  # calls with an output schema fetch a list
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")  # before the import, which loads the project's .env
    try:
        with quiet_import("LiteLLM"):
            module: Any = import_module("litellm")
            _change()
    except ModuleNotFoundError as error:
        raise MISSING_PACKAGE(user="LiteLLMModel", package=error.name, extra="litellm", value=error.name) from error
    litellm: LiteLLM = module
    litellm.suppress_debug_info = True
    litellm.disable_hf_tokenizer_download = True
    for name in [name for name in list(logging.Logger.manager.loggerDict) if name.startswith(_LOGGERS)]:
        logging.getLogger(name).addFilter(_asked_for)
        logging.getLogger(name).addFilter(RedactingFilter())
    logging.getLogger("LiteLLM").addFilter(_take_unmapped)
    atexit.register(close)  # after the import, so that it runs before litellm's handlers, which find the loop gone
    return litellm


@cache
def _change() -> None:
    """Apply the changes to litellm and to the transports: once, since an answer must not pass through them twice."""
    _request_limits.install(ours)
    _http_exchange.install(ours)
    _log_quietly()


def _log_quietly() -> None:
    """Silence warnings of litellm's success log, which one of its tasks writes on our loop after the call has ended."""
    log: Any = import_module("litellm.litellm_core_utils.litellm_logging").Logging
    write: Final[Any] = log.async_success_handler

    async def async_success_handler(self: Any, *args: Any, **arguments: Any) -> Any:
        if ours.get() is None:
            return await write(self, *args, **arguments)
        with quiet:
            return await write(self, *args, **arguments)

    log.async_success_handler = async_success_handler


def _asked_for(record: logging.LogRecord) -> bool:
    """Return whether to log *record*. Records below INFO contain whole prompts and answers.

    They are only logged if the library's own logger, or one between it and the root, has a level. The level of the
    root logger asks for the records of no library in particular (decision 0037).
    """
    if record.levelno >= logging.INFO or ours.get() is None:
        return True
    logger = logging.getLogger(record.name)
    while not logger.level and logger.parent is not None:
        logger = logger.parent
    return logger.parent is not None  # the root logger has none


def _take_unmapped(record: logging.LogRecord) -> bool:
    """Move warnings about unknown finish reasons from the log to the call that they are about."""
    exchange = ours.get()
    if exchange is None or "Unmapped finish_reason" not in str(record.msg):
        return True
    exchange.has_unknown_reason = True
    return False


def close() -> None:
    """Close litellm's connections and stop the loop."""
    loop.close(_close_connections)


async def _close_connections() -> None:
    cleanup: Any = import_module("litellm.llms.custom_httpx.async_client_cleanup")
    await cleanup.close_litellm_async_clients()
