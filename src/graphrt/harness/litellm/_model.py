"""LiteLLMModel: one model of any provider that litellm supports.

A call is assembled and guarded here: arguments, timeouts, credentials, failures. `_client` imports litellm,
`_openai_format` reads and writes the wire format, `_error_mapping` maps errors, `_model_info` reads litellm's tables.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from graphrt import _sensitive_texts
from graphrt._ambient import surroundings
from graphrt._arguments import check_amount, check_text
from graphrt.errors import BadResponseError, HarnessError, MissingExtraError, names
from graphrt.errors._codes.arguments import ARGUMENTS_EXCLUDE_EACH_OTHER, INVALID_ARGUMENT
from graphrt.errors._codes.models import MEDIA_LEFT_OUT, MODEL_TIMEOUT, NO_API_KEY
from graphrt.events import Usage
from graphrt.harness import real_requests
from graphrt.harness._surrogates import whole
from graphrt.harness.litellm import _client, _error_mapping, _model_info, _openai_format, _thinking
from graphrt.harness.litellm._http_exchange import Exchange
from graphrt.harness.litellm._media import asked_with, taken_out
from graphrt.harness.litellm._model_info import ProviderModel
from graphrt.harness.litellm._request_body import correction_of
from graphrt.harness.messages import ProviderPart
from graphrt.harness.protocol import FinishReason, ModelProfile, ModelResponse, StreamItem, ThinkingDelta, cost_of
from graphrt.harness.request import ModelRequest

__all__ = ["LiteLLMModel"]

_OWN: Final = frozenset(
    {"messages", "model", "stream", "stream_options", "tools", "max_tokens", "temperature"}
    | {"timeout", "max_retries", "num_retries", "api_base", "base_url", "api_key"}
)
"""Arguments of litellm that LiteLLMModel sets itself."""
_UNGUARDED: Final = "aiohttp_openai"
"""The one provider of litellm whose requests bypass httpx (decision 0037)."""
_SLACK_S: Final = 30.0
"""Seconds by which litellm's timeout exceeds ours, so that ours always fires first and the error is always the same."""


class LiteLLMModel:
    """A `ChatModel` for every provider that litellm knows. Needs the extra `graphrt[litellm]`.

    The first call imports litellm, which takes a few seconds. litellm is kept quiet: it fetches nothing, reads no
    `.env` and prints nothing. It never retries, because the retry policy of the caller must see every attempt. A model
    holds no connection of its own and may be used from several tasks, event loops and worker threads at once.

    Args:
        model: Provider and model as litellm names them, for instance `"openai/gpt-4o-mini"`.
        api_base: Address of the provider's API. None: the provider's own.
        api_key: Credential. None: the provider's environment variable. Never part of an error, a repr or a log line.
        timeout_s: Seconds that `invoke` may take, and that `stream` may take until its next chunk.
        max_tokens: Default upper bound of an answer, in tokens.
        temperature: Default temperature.
        options: Further arguments of `litellm.acompletion`, for every call.
        profile: Facts about the model. None: those in litellm's bundled tables.

    Raises:
        InputError: An argument is invalid.
    """

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 60.0,
        max_tokens: int | None = None,
        temperature: float | None = None,
        options: Mapping[str, Any] | None = None,
        profile: ModelProfile | None = None,
    ) -> None:
        if not model:
            raise INVALID_ARGUMENT(argument="The model", value=model, wanted='its name, such as "openai/gpt-4o-mini"')
        _check_arguments(model, api_base, api_key, profile)
        _check_seconds(timeout_s)
        self._name: Final = model
        self._api_base: Final = api_base
        self._api_key: Final = api_key
        self._timeout_s: Final = timeout_s
        self._defaults: Final = ModelRequest.build(
            "check", {"max_tokens": max_tokens, "temperature": temperature, "options": options}
        )
        _refuse_own(self._defaults.options)
        _refuse_unguarded(model, self._defaults.options)
        self._secrets: Final = _sensitive_texts.credentials(
            api_key=api_key, api_base=api_base, options=self._defaults.options
        )
        self._given: Final = profile
        self._profile: ModelProfile | None = None

    @property
    def profile(self) -> ModelProfile:
        """Facts about the model: the given profile, else those in litellm's bundled tables.

        The first access imports litellm, which takes seconds. Without litellm only the name is known. While real
        requests are forbidden, litellm is not imported for this.
        """
        if self._profile is None:
            if real_requests.forbidden(self._api_base) and not _client.loaded():
                return self._given or ModelProfile(name=self._name)
            try:
                self._profile = _client.on_loop(self._look_up)
            except MissingExtraError:
                return self._given or ModelProfile(name=self._name)
        return self._profile

    async def invoke(self, request: ModelRequest, /) -> ModelResponse:
        """Ask once and return the whole response.

        If the caller is cancelled, so is the call.

        Raises:
            InputError: An option is invalid.
            ModelRequestForbiddenError: Real requests are forbidden in this process, and the address is not loopback.
            MissingExtraError: litellm is not installed.
            HarnessError: The call failed; its subclasses say what kind of failure it was.
        """
        self.__graphrt_check_real__(request)
        _refuse_own(request.options)
        return await _client.loop.call(self._invoke(request))

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamItem, None]:
        """Ask once and yield the response in pieces, the whole response last.

        If the reader stops or is cancelled, so is the call.

        Raises:
            InputError: An option is invalid.
            ModelRequestForbiddenError: Real requests are forbidden in this process, and the address is not loopback.
            MissingExtraError: litellm is not installed.
            HarnessError: The call failed, perhaps in the middle of the stream.
        """
        self.__graphrt_check_real__(request)
        _refuse_own(request.options)
        async with aclosing(_client.loop.iterate(lambda: self._stream(request))) as items:
            async for item in items:
                yield item

    def __graphrt_check_real__(self, request: ModelRequest | None = None) -> None:
        """Raise if this process forbids the request; nothing has been imported for it yet."""
        name = None if request is None else request.model
        real_requests.refuse_if_forbidden(name or self._name, self._api_base)

    def __repr__(self) -> str:
        return f"LiteLLMModel({self._name!r})"

    async def _invoke(self, request: ModelRequest) -> ModelResponse:
        litellm = _client.load()
        call = self._call(request)
        try:
            with _client.quiet:
                response = await call.in_time(litellm.acompletion(**self._arguments(request, call.target)))
                refusal = call.exchange.seen.refusal
                reply = _openai_format.read_reply(response, asked=call.model, clean=call.clean, refused=refusal)
                spent = call.spent(getattr(response, "usage", None))
                return call.completed(reply, spent, request)
        except Exception as error:  # noqa: BLE001 - whatever it is, it becomes a HarnessError
            failure = call.failure(error, "the reply")
        raise failure  # outside the except block, so that it has no context: the original may contain credentials

    async def _stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        litellm = _client.load()
        call = self._call(request)
        call.streamed = True
        builder = _openai_format.ReplyBuilder(asked=call.model, clean=call.clean)
        extra: Final = {"stream": True, "stream_options": {"include_usage": True}}
        stream: Any = None
        usage: Any = None
        try:
            with _client.quiet:
                stream = await call.in_time(litellm.acompletion(**self._arguments(request, call.target), **extra))
                chunks = aiter(stream)
                while (chunk := await call.in_time(anext(chunks, None))) is not None:
                    usage = getattr(chunk, "usage", None) or usage
                    for item in (*call.new_thoughts(), *builder.add(chunk)):
                        yield item
                for item in builder.rest():
                    yield item
                if not _provider_reported_usage(stream):
                    usage = None  # litellm's own estimate: unknown usage stays unknown
                spent = call.spent(usage)
                finished, ended = call.end_of(stream)
                refusal = call.exchange.seen.refusal
                reply = builder.reply(usage=spent, finished=finished, ended=ended, refused=refusal)
                yield call.completed(reply, spent, request)
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, it becomes a HarnessError
            failure = call.failure(error, "the next chunk")
        finally:
            if hasattr(stream, "aclose"):
                with suppress(Exception):  # the connection is abandoned either way
                    await stream.aclose()
        raise failure

    def _call(self, request: ModelRequest) -> _Call:
        """Begin a call: check its options, and mark this context as a call of graphrt for the guards on litellm."""
        secrets = self._secrets
        if request.options:
            secrets += _sensitive_texts.credentials(api_key=None, api_base=None, options=request.options)
        _sensitive_texts.remember(secrets)
        _refuse_unguarded(request.model or self._name, request.options)
        timeout_s = self._timeout_s if request.timeout_s is None else request.timeout_s
        _check_seconds(timeout_s)
        watcher = surroundings().watcher
        headers: Mapping[str, str] = {} if watcher is None else watcher.headers()
        name = request.model or self._name
        media = [part for message in request.messages for part in message.media]
        exchange = Exchange(
            headers=headers,
            correction=correction_of(request.messages, name),
            has_links=any(part.url for part in media),
            media=asked_with(request.messages),
        )
        call = _Call(name, self._at_provider(request), self._given, timeout_s, secrets, exchange)
        _client.ours.set(call.exchange)
        return call

    def _at_provider(self, request: ModelRequest | None = None) -> ProviderModel:
        """Return the model of *request*, or that of this object, as litellm finds it."""
        model, options = self._name, self._defaults.options
        if request is not None:
            model, options = request.model or model, {**options, **request.options}
        return ProviderModel(_client.load(), model, api_base=self._api_base, options=options)

    def _arguments(self, request: ModelRequest, target: ProviderModel) -> dict[str, Any]:
        """Return the arguments of `litellm.acompletion`. Do not keep them in a variable: a traceback might show it."""
        defaults = self._defaults
        model = request.model or self._name
        has_media = any(message.media for message in request.messages)
        profile = ModelProfile(name=model)  # facts that no other request needs
        if request.output is not None or has_media:
            profile = self._given if self._given is not None and model == self._name else target.profile()
        profile.check_media(request)
        to = target.recipient(request)._replace(takes=profile.media)
        body = {
            "max_tokens": defaults.max_tokens,
            "temperature": defaults.temperature,
            **_openai_format.wire_request(request, to=to),
        }
        if request.output is not None and not profile.holds_to_output(request):
            del body["response_format"]  # litellm would refuse the call, or change what it means
        if self._api_key is None and (missing := target.missing_key()):
            provider, unset = target.found.provider, " or ".join(missing)
            reason = f"there is no API key for {provider!r}, because {unset} is not set."
            raise NO_API_KEY(with_status="", reason=reason, provider=provider, model=model)
        if not _model_info.IF_IT_CAN.isdisjoint(body):
            for field in target.left_out():
                body.pop(field, None)
        if to.api == "messages" and _thinking.cannot_go_on(request.messages):  # Claude would refuse to think
            body.pop("reasoning_effort", None)
        if to.encrypts:  # without it, reasoning goes back only as long as the provider stores it
            body["include"] = ["reasoning.encrypted_content"]
        where = {"api_base": self._api_base, "api_key": self._api_key}
        timeout_s = self._timeout_s if request.timeout_s is None else request.timeout_s
        return {
            **defaults.options,
            **request.options,
            **{name: value for name, value in (body | where).items() if value is not None},
            "model": model,
            "timeout": timeout_s + _SLACK_S,
            "max_retries": 0,
            "num_retries": 0,
            # Without it, some versions of litellm need the package `mcp` for any tool.
            **({"_skip_mcp_handler": True} if request.tools else {}),
        }

    def _look_up(self) -> ModelProfile:
        profile = self._given or self._at_provider().profile()
        count: Callable[[ModelRequest], int] = partial(_model_info.count_tokens, _client.load(), self._name)
        return replace(profile, count_tokens=profile.count_tokens or count)


class _Call:
    """Data of one call: its model, timeout, credentials and HTTP exchange, and the creation of its errors."""

    def __init__(
        self,
        model: str,
        target: ProviderModel,
        profile: ModelProfile | None,
        timeout_s: float,
        secrets: tuple[str, ...],
        exchange: Exchange,
    ) -> None:
        self.model: Final = model
        self.target: Final = target
        """The model at its provider."""
        self._given: Final = profile
        """The profile that the user gave; None for none."""
        self._timeout_s: Final = timeout_s
        self._secrets: Final = secrets
        self.streamed = False
        """Whether a stream was asked for."""
        self.exchange: Final = exchange
        self._shown = 0
        """How many of the thoughts seen below litellm have been passed on."""

    def spent(self, litellm_usage: Any = None) -> Usage | None:
        """Return the usage of the call, with its cost, as the provider reported it; None if it reported nothing.

        Args:
            litellm_usage: The usage that litellm reports. It counts only for APIs whose usage is not read below it.
        """
        seen = self.exchange.seen
        counted = seen.usage if seen.usage is not None or seen.api is not None else litellm_usage
        usage = _openai_format.read_usage(counted)
        return None if usage is None else replace(usage, cost_usd=self._cost(usage, counted))

    def _cost(self, usage: Usage, counted: Any) -> float | None:
        """Return the cost of the call in dollars; None if it is not known.

        It is known by the prices of the given profile, else by the provider's word, else by litellm's tables.

        Args:
            usage: What the call used.
            counted: The same as it was reported.
        """
        seen = self.exchange.seen
        cost = None if self._given is None else cost_of(self._given, usage.input_tokens, usage.output_tokens)
        cost = seen.cost_usd if cost is None else cost
        return self.target.price(counted, seen.service_tier) if cost is None else cost

    def completed(self, reply: ModelResponse, spent: Usage | None, request: ModelRequest) -> ModelResponse:
        """Return *reply*, as litellm read it, completed with the data seen below litellm, which takes precedence.

        Raises:
            RefusalError: The provider's filter held everything back.
            BadResponseError: The reply is empty, although the model came to its end.
        """
        seen = self.exchange.seen
        blocks = tuple(seen.blocks)
        if seen.refusal:  # beside a text or calls: alone, it has been raised as an error
            seen.parts.append(ProviderPart(provider="openai", type="refusal", data={"refusal": seen.refusal}))
        media, parts = taken_out(seen.parts)
        if seen.api == "chat" and (blocks or parts):  # many providers use it, and none identifies itself in it
            provider = self.target.found.provider
            blocks = tuple(replace(block, provider=provider) for block in blocks)
            parts = tuple(replace(part, provider=provider) for part in parts)
        complete = replace(
            reply,
            usage=spent,
            model=seen.model or reply.model,
            finish_reason=self._reason(reply),
            thinking=reply.thinking or "".join(seen.thoughts),
            thinking_blocks=(*reply.thinking_blocks, *blocks),
            provider_parts=parts,
            media=media,
        )
        reasoned = seen.api is None or seen.reason is not None
        _openai_format.check_reply(complete, asked=self.model, reasoned=reasoned, clean=self.clean)
        if not (complete.thinking_blocks or complete.thinking):
            return complete
        own_blocks = _thinking.kept(complete.thinking_blocks, complete.thinking, self.target.recipient(request))
        return replace(complete, thinking_blocks=own_blocks)  # those that the model wants back

    def _reason(self, reply: ModelResponse) -> FinishReason:
        """Return why the model stopped."""
        seen, reason = self.exchange.seen, reply.finish_reason
        # litellm turns the call of the tool that represents an output schema into a text.
        if seen.finish is not None and (seen.finish != "tool_calls" or reply.tool_calls):
            return seen.finish
        # litellm turns a reason that it does not know into "stop", and makes one up if there is none.
        is_made_up = self.exchange.has_unknown_reason or (seen.api is not None and seen.reason is None)
        return "unknown" if reason == "stop" and is_made_up else reason

    def new_thoughts(self) -> Iterator[ThinkingDelta]:
        """Yield the thinking that was seen below litellm since the last time."""
        thoughts = self.exchange.seen.thoughts
        while self._shown < len(thoughts):
            self._shown += 1
            yield ThinkingDelta(text=whole(thoughts[self._shown - 1]))

    def end_of(self, stream: Any) -> tuple[bool, bool]:
        """Return whether the provider said why the model stopped, and whether the stream ended regularly.

        litellm makes a reason up if there is none. Its reason counts only for APIs that are not read below it.
        """
        seen = self.exchange.seen
        return (_has_reason(stream), False) if seen.api is None else (seen.reason is not None, seen.ended)

    async def in_time(self, work: Awaitable[Any]) -> Any:
        async with asyncio.timeout(self._timeout_s):
            return await work

    def clean(self, text: str) -> str:
        return _sensitive_texts.redact(text, self._secrets)

    def failure(self, error: Exception, late_part: str) -> HarnessError:
        """Return the error for *error*, with the data seen of the answer; *late_part* is what a timeout waited for."""
        if (left_out := self.exchange.left_out) is not None:
            error = MEDIA_LEFT_OUT(part=left_out, model=self.model, provider=self.target.found.provider)
        elif isinstance(error, TimeoutError):
            error = MODEL_TIMEOUT(what_for=late_part, timeout_s=self._timeout_s, model=self.model)
        elif not isinstance(error, HarnessError):
            status, seen = self.exchange.status, self.exchange.seen
            error = _error_mapping.harness_error(error, model=self.model, secrets=self._secrets, sent=status, seen=seen)
        return self._told(error)

    def _reported(self) -> Usage | None:
        """Return the usage of a call that failed; None if the provider has not reported the total.

        A stream that broke has at most counted what it had cost so far: one of Anthropic begins with a single token of
        output. To a budget that would be the price of the whole answer.
        """
        seen = self.exchange.seen
        is_complete = not self.streamed or seen.is_document or seen.ended or seen.reason is not None
        return self.spent() if is_complete else None

    def _told(self, error: HarnessError) -> HarnessError:
        """Return *error* with the data seen of the provider's answer.

        `billed` follows from the status. `request_id` is the provider's id, which its support asks for first. If an
        answer cannot be used, and does not say why, its beginning is shown.
        """
        if isinstance(error, BadResponseError) and not error.known and self.exchange.seen.failure is None:
            error.known = _error_mapping.beginning(self.exchange.seen, self.clean)
        if self.exchange.status is not None and 200 <= self.exchange.status < 300:
            error.billed = True
            error.usage = error.usage or self._reported()
        if self.exchange.request_id is not None:
            name = self.clean(self.exchange.request_id)
            error.__dict__["request_id"] = name  # part of the error's data, as its other attributes
            error.where += f", request {name!r}"
        return error


def _check_arguments(model: Any, api_base: Any, api_key: Any, profile: Any) -> None:
    check_text("model", model)
    check_text("api_base", api_base)
    if api_key is not None and not isinstance(api_key, str):  # only its type is shown: it may be a credential
        raise INVALID_ARGUMENT(argument="api_key", value=type(api_key), wanted="the key itself, as a text")
    if profile is not None and not isinstance(profile, ModelProfile):
        raise INVALID_ARGUMENT(argument="profile", value=profile, wanted='ModelProfile(name="...")')


def _check_seconds(timeout_s: Any) -> None:
    if timeout_s is None:
        raise INVALID_ARGUMENT(
            argument="timeout_s", value=timeout_s, wanted="seconds above 0: a call never waits for ever"
        )
    check_amount("timeout_s", timeout_s, above=True)


def _refuse_own(options: Mapping[str, Any]) -> None:
    conflicts = sorted(_OWN.intersection(options))
    if conflicts:
        raise ARGUMENTS_EXCLUDE_EACH_OTHER(
            argument=f"options= with {names(conflicts)}",
            other="what the model sets itself",
            superfluous="these, and use the argument of LiteLLMModel or the field of the request instead",
            value=conflicts,
        )
    if options.get("n") not in (None, 1):
        raise INVALID_ARGUMENT(
            argument="options['n']", value=options["n"], wanted="1, or leave it out: a reply is one answer"
        )


def _refuse_unguarded(model: str, options: Mapping[str, Any]) -> None:
    """Raise for the one provider whose requests bypass httpx, where redirects and sizes are guarded."""
    if _UNGUARDED in (model.partition("/")[0], options.get("custom_llm_provider")):
        raise INVALID_ARGUMENT(
            argument="A model whose requests are guarded",
            value=model,
            wanted='"openai/...", which speaks the same format',
            known=f"{_UNGUARDED!r} has an HTTP client of its own, which follows redirects and reads answers of any size",
        )


def _provider_reported_usage(stream: Any) -> bool:
    """Return whether a chunk of *stream* had a usage: litellm fills in an estimate if none had."""
    return any(getattr(chunk, "usage", None) is not None for chunk in getattr(stream, "chunks", None) or ())


def _has_reason(stream: Any) -> bool:
    """Return whether the provider sent a finish reason: litellm makes one up if it did not."""
    reasons = ("received_finish_reason", "intermittent_finish_reason")
    return any(getattr(stream, name, None) is not None for name in reasons)
