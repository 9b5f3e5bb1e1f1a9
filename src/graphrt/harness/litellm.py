"""The litellm adapter: LiteLLMHarness, and the guards behind which litellm is imported at its first call.

The only file of graphrt that touches litellm. What it sends and reads is shaped in `_wire.py`, what it raises is
mapped in `_failures.py`, and every call runs on the one loop of `_bridge.py`, because litellm breaks with several.
"""

from __future__ import annotations

import asyncio
import atexit
import os
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import aclosing, suppress
from functools import cache
from importlib import import_module
from typing import Any, Final, Protocol, Unpack

from graphrt.errors import HarnessError, InputError, MissingExtraError, names
from graphrt.harness import _failures, _wire
from graphrt.harness._bridge import LoopThread
from graphrt.harness._quiet import QuietWarnings, quiet_import
from graphrt.harness.messages import Prompt
from graphrt.harness.protocol import AgentReply, AgentRequest, RunOptions, StreamItem

__all__ = ["LiteLLMHarness"]

_OWN: Final = frozenset(
    {"messages", "model", "stream", "stream_options", "tools", "max_tokens", "temperature"}
    | {"timeout", "max_retries", "num_retries", "api_base", "base_url", "api_key"}
)
"""Arguments of litellm that the harness sets itself."""
_SLACK_S: Final = 30.0
"""litellm's own timeout comes later than ours, so that one place decides and the error is always the same."""


class LiteLLMHarness:
    """A harness for every provider that litellm knows. Needs the extra `graphrt[litellm]`.

    litellm is imported by the first call, takes a few seconds for it, and is kept quiet: it fetches nothing, reads no
    `.env`, prints nothing. It never retries: retrying is the node's policy, which must see every attempt. A harness
    holds no connection of its own and may be used from several tasks, event loops and worker threads at once.

    Args:
        model: Provider and model as litellm writes them, for instance `"openai/gpt-4o-mini"`.
        api_base: Address of the provider's interface. None: the provider's own.
        api_key: Credential. None: the provider's environment variable. Never part of an error's text.
        timeout_s: Seconds that `run` may take, and that `stream` may take until its next chunk.
        system: Instructions for calls that give none.
        max_tokens: Bound of an answer, in tokens, for calls that give none.
        temperature: For calls that give none.
        options: Further arguments of `litellm.acompletion`, for every call.

    Raises:
        InputError: An argument is wrong.
    """

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 60.0,
        system: str | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if not model:
            raise InputError("The model of a LiteLLMHarness is empty.", fix='name one, such as "openai/gpt-4o-mini"')
        if not timeout_s > 0:
            raise InputError(f"timeout_s must be more than 0, not {timeout_s!r}.", value=timeout_s)
        self._model: Final = model
        self._api_base: Final = api_base
        self._api_key: Final = api_key
        self._timeout_s: Final = timeout_s
        self._defaults: Final[RunOptions] = {
            "model": model,
            "system": system,
            "max_tokens": max_tokens,
            "temperature": temperature,
            "options": options,
        }
        AgentRequest.build("check", self._defaults)
        _refuse_own(options or {})

    async def run(self, prompt: Prompt, /, **options: Unpack[RunOptions]) -> AgentReply:
        """Ask the model once and wait for the whole reply.

        If the caller is cancelled, so is the call.

        Raises:
            InputError: The prompt or an option is wrong.
            MissingExtraError: litellm is not installed.
            HarnessError: The call failed; its subclasses say what kind of failure it was.
        """
        return await _loop.call(self._run(self._request(prompt, options)))

    async def stream(self, prompt: Prompt, /, **options: Unpack[RunOptions]) -> AsyncGenerator[StreamItem, None]:
        """Ask the model once and yield the reply in pieces, the whole reply last.

        If the reader stops or is cancelled, so is the call.

        Raises:
            InputError: The prompt or an option is wrong.
            MissingExtraError: litellm is not installed.
            HarnessError: The call failed, also in the middle.
        """
        request = self._request(prompt, options)
        async with aclosing(_loop.iterate(lambda: self._stream(request))) as items:
            async for item in items:
                yield item

    def __repr__(self) -> str:
        return f"LiteLLMHarness({self._model!r})"

    def _request(self, prompt: Prompt, options: RunOptions) -> AgentRequest:
        _refuse_own(options.get("options") or {})
        return AgentRequest.build(prompt, options, defaults=self._defaults)

    async def _run(self, request: AgentRequest) -> AgentReply:
        litellm = _litellm()
        model = request.model or self._model
        try:
            with _quiet:
                response = await self._in_time(litellm.acompletion(**self._arguments(request)))
                return _wire.read_reply(response, cost_usd=_known_cost(response))
        except HarnessError:
            raise
        except TimeoutError:
            failure: HarnessError = _failures.timed_out(model, self._timeout_s, what="the reply")
        except Exception as error:  # noqa: BLE001 - whatever it is, it becomes a HarnessError
            failure = self._failure(error, model)
        raise failure  # outside of the except block: the original's text may contain credentials

    async def _stream(self, request: AgentRequest) -> AsyncGenerator[StreamItem, None]:
        litellm = _litellm()
        model = request.model or self._model
        arguments = {**self._arguments(request), "stream": True, "stream_options": {"include_usage": True}}
        builder = _wire.ReplyBuilder()
        stream: Any = None
        usage: Any = None
        try:
            with _quiet:
                stream = await self._in_time(litellm.acompletion(**arguments))
                chunks = aiter(stream)
                while (chunk := await self._in_time(anext(chunks, None))) is not None:
                    usage = getattr(chunk, "usage", None) or usage
                    for item in builder.add(chunk):
                        yield item
                if not _provider_reported_usage(stream):
                    usage = None  # litellm fills a missing usage with an estimate
                spent = _wire.read_usage(usage, cost_usd=_price(litellm, model, usage))
                yield builder.reply(usage=spent, finished=_provider_finished(stream))
            return
        except HarnessError:
            raise
        except TimeoutError:
            failure: HarnessError = _failures.timed_out(model, self._timeout_s, what="the next chunk")
        except Exception as error:  # noqa: BLE001 - whatever it is, it becomes a HarnessError
            failure = self._failure(error, model)
        finally:
            if hasattr(stream, "aclose"):
                with suppress(Exception):  # the connection is given up either way
                    await stream.aclose()
        raise failure

    async def _in_time(self, work: Awaitable[Any]) -> Any:
        async with asyncio.timeout(self._timeout_s):
            return await work

    def _failure(self, error: Exception, model: str) -> HarnessError:
        secrets = () if self._api_key is None else (self._api_key,)
        return _failures.harness_error(error, model=model, secrets=secrets)

    def _arguments(self, request: AgentRequest) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            **request.options,
            "model": request.model,
            "messages": _wire.wire_messages(request.messages),
            "timeout": self._timeout_s + _SLACK_S,
            "max_retries": 0,
            "num_retries": 0,
        }
        optional: dict[str, Any] = {
            "api_base": self._api_base,
            "api_key": self._api_key,
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
        }
        arguments |= {name: value for name, value in optional.items() if value is not None}
        if request.tools:
            arguments["tools"] = _wire.wire_tools(request.tools)
            arguments["_skip_mcp_handler"] = True  # else some versions need the package `mcp` for any tool
        return arguments


class _LiteLLM(Protocol):
    """The part of litellm that is used; litellm's own types cost a type checker 18 s and say Any."""

    suppress_debug_info: bool
    disable_hf_tokenizer_download: bool

    async def acompletion(self, **arguments: Any) -> Any: ...
    def cost_per_token(self, **arguments: Any) -> tuple[float, float]: ...


_loop: Final = LoopThread("graphrt-litellm")
_quiet: Final = QuietWarnings(
    module=r"litellm(\.|$)",
    messages=(".*`ReadOnly` qualifier", ".*protected namespace"),  # pydantic, building litellm's models at first use
)


@cache
def _litellm() -> _LiteLLM:  # only called on the one loop: two imports at once cannot be
    return _import_quietly()


def _import_quietly() -> _LiteLLM:
    """Import litellm without its side effects: network, `.env`, warning filters, log handlers, banners."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # before: else it fetches a price list
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")  # before: else it loads the project's .env
    try:
        with quiet_import("LiteLLM"):
            module: Any = import_module("litellm")
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"LiteLLMHarness needs a package that is not installed: {error.name}.",
            fix='pip install "graphrt[litellm]"',
            value=error.name,
        ) from error
    litellm: _LiteLLM = module
    litellm.suppress_debug_info = True
    litellm.disable_hf_tokenizer_download = True
    atexit.register(_close)  # after the import: runs before litellm's own, which come too late for our loop
    return litellm


def _close() -> None:
    """Close litellm's connections and end the loop."""
    _loop.close(_close_connections)


async def _close_connections() -> None:
    cleanup: Any = import_module("litellm.llms.custom_httpx.async_client_cleanup")
    await cleanup.close_litellm_async_clients()


def _refuse_own(options: Mapping[str, Any]) -> None:
    clash = sorted(_OWN.intersection(options))
    if clash:
        raise InputError(
            f"options contains {names(clash)}, which the harness sets itself.",
            fix="use the argument of LiteLLMHarness or of run() instead",
            value=clash,
        )


def _known_cost(response: Any) -> float | None:
    hidden: Any = getattr(response, "_hidden_params", None) or {}
    cost: Any = hidden.get("response_cost")
    return float(cost) if isinstance(cost, (int, float)) else None


def _price(litellm: _LiteLLM, model: str, usage: Any) -> float | None:
    """The price of a stream; None where litellm's bundled list has none."""
    if usage is None:
        return None
    try:
        return sum(litellm.cost_per_token(model=model, usage_object=usage))
    except Exception:  # noqa: BLE001 - litellm's way to say that it does not know the model
        return None


def _provider_reported_usage(stream: Any) -> bool:
    return any(getattr(chunk, "usage", None) is not None for chunk in getattr(stream, "chunks", None) or ())


def _provider_finished(stream: Any) -> bool:
    reasons = ("received_finish_reason", "intermittent_finish_reason")
    return any(getattr(stream, name, None) is not None for name in reasons)
