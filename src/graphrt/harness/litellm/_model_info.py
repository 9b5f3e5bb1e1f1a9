"""Facts about a model from litellm's bundled tables, and token counts: provider, limits, prices, abilities.

litellm is an argument. No model is called, and no network used.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from math import inf
from typing import Any, Final, NamedTuple

from graphrt.harness.budget._media_tokens import tokens_of_media, without_media
from graphrt.harness.litellm import _openai_format
from graphrt.harness.litellm._client import LiteLLM
from graphrt.harness.litellm._thinking import Recipient, recipient, written
from graphrt.harness.media import KINDS, MediaKind
from graphrt.harness.protocol import ModelProfile
from graphrt.harness.request import ModelRequest

_ONE_KEY: Final = frozenset(
    {"openai", "anthropic", "gemini", "groq", "mistral", "deepseek", "xai", "openrouter", "cerebras", "moonshot"}
)
"""Providers that only accept an API key, so that a missing key is certainly a mistake."""
_OTHER_WAYS: Final = ("key", "token", "auth", "credential", "headers", "client", "secret")
"""Parts of the names of options that may carry a credential."""
IF_IT_CAN: Final = frozenset({"seed", "reasoning_effort"})
"""Optional fields of a request: they are dropped for a model that does not support them, so that no call fails."""
_BY_RESPONSES: Final = "responses/"
"""Prefix of the name of a model that litellm should call through OpenAI's Responses API."""
_AMAZONS_ROUTES: Final = ("converse/", "invoke/")
"""Prefixes of the names of Bedrock's models, for the API that litellm should call them through."""
_FORM_TOOL: Final = "json_tool_call"
"""Name of the tool into which litellm turns an output schema."""
_CLOSED_FORMS: Final = frozenset({"output_format", "outputConfig"})
"""Fields of Anthropic's and Bedrock's APIs for an output schema; there, all objects must be closed."""
_PROBE_TOOL: Final = {
    "type": "function",
    "function": {"name": "look", "description": "", "parameters": {"type": "object"}},
}
_PROBE_FORM: Final[Mapping[str, Any]] = {
    "type": "json_schema",
    "json_schema": {"name": "found", "schema": {"type": "object", "properties": {}, "additionalProperties": False}},
}
_ENCRYPTING: Final = frozenset({"openai", "azure", "xai"})
"""Providers whose Responses give the reasoning in encrypted form, if a request asks for it."""
_ABILITIES: Final[Mapping[MediaKind, tuple[str, str]]] = {
    "image": ("supports_vision", "image"),
    "audio": ("supports_audio_input", "audio"),
    "document": ("supports_pdf_input", "pdf"),
}
"""Where the tables list the media that a model takes beside text: a flag, or an item of `supported_modalities`."""
_MARGIN_TOKENS: Final = 64
"""Maximum number of tokens that a chat template adds to a conversation, and to each of its messages."""


class Found(NamedTuple):
    """litellm's reading of the name of a model."""

    name: str
    """The model's name at its provider, perhaps with the API that litellm is to use for it."""
    provider: str
    has_key: bool
    """Whether litellm found an API key."""

    @property
    def plain(self) -> str:
        """The name without the API; prices and abilities are the same."""
        return self.name.removeprefix(_BY_RESPONSES)

    @property
    def listed(self) -> str:
        """The name in the tables, which name no API at all."""
        routes = _AMAZONS_ROUTES if self.provider == "bedrock" else ()
        return next((self.plain.removeprefix(route) for route in routes if self.plain.startswith(route)), self.plain)


class ProviderModel:
    """A model at its provider. litellm determines the provider once per call.

    Args:
        litellm: The library.
        model: The model, as litellm names it.
        api_base: Address of the provider's API.
        options: Further arguments of the call.
    """

    def __init__(self, litellm: LiteLLM, model: str, *, api_base: str | None, options: Mapping[str, Any]) -> None:
        self._litellm: Final = litellm
        self._model: Final = model
        self._api_base: Final = api_base
        self._options: Final = options

    @cached_property
    def found(self) -> Found:
        """The model and its provider.

        Raises:
            Exception: litellm does not know the provider.
        """
        provider: Any = self._options.get("custom_llm_provider")
        name, provider, key, _ = self._litellm.get_llm_provider(
            self._model, custom_llm_provider=provider, api_base=self._api_base
        )
        return Found(name, provider, bool(key))

    def recipient(self, request: ModelRequest) -> Recipient:
        """Return the recipient for which to write a *request* to the model.

        litellm calls some models by the API of OpenAI's Responses: those that have no other, and those that are named so.

        Raises:
            Exception: litellm does not know the provider.
        """
        found, options = self.found, self._options
        to = recipient(found.name, found.provider, responses=self._by_responses(request))
        to = to._replace(named=found.provider)
        if to.api != "responses":
            return to
        reasons = self._litellm.supports_reasoning(found.plain, found.provider)  # others refuse the question
        encrypts = reasons and found.provider in _ENCRYPTING and "include" not in options
        return to._replace(encrypts=encrypts, stores=options.get("store") is not False)

    def _takes(self) -> frozenset[MediaKind]:
        """Return the media that the model takes beside text, by the tables; all kinds if they do not have the model."""
        known = self._entry()
        if not known:
            return frozenset(KINDS)
        modalities: Any = known.get("supported_modalities") or ()
        return frozenset[MediaKind](
            kind for kind, (flag, modality) in _ABILITIES.items() if known.get(flag) is True or modality in modalities
        )

    def _by_responses(self, request: ModelRequest) -> bool:
        try:
            info, _ = self._litellm.main.responses_api_bridge_check(
                model=self.found.name,
                custom_llm_provider=self.found.provider,
                tools=_openai_format.wire_tools(request.tools) or None,
                reasoning_effort=self._options.get("reasoning_effort", request.reasoning),
                web_search_options=self._options.get("web_search_options"),
                api_base=self._api_base,
            )
        except Exception:  # noqa: BLE001 - not part of litellm's public interface: other versions may have other arguments
            return self.found.name.startswith(_BY_RESPONSES)
        return bool(info.get("mode") == "responses")

    def missing_key(self) -> tuple[str, ...]:
        """Return the environment variables of which one should hold the key of the provider.

        The result is empty if litellm has a key, or if one may be given in another way; the provider's own error then
        decides.
        """
        litellm, provider = self._litellm, self.found.provider
        in_options = any(part in name.lower() for name in self._options for part in _OTHER_WAYS)
        if self.found.has_key or provider not in _ONE_KEY or in_options:
            return ()
        if litellm.api_key or litellm.secret_manager_client or getattr(litellm, f"{provider}_key", None):
            return ()
        names = litellm.validate_environment(self._model)["missing_keys"]
        return tuple(names) if not any(os.environ.get(name) for name in names) else ()

    def profile(self) -> ModelProfile:
        """Return the profile by the tables; only its name is set if litellm does not know the provider."""
        litellm = self._litellm
        try:
            name, provider = self.found.plain, self.found.provider
            fields = set(litellm.get_supported_openai_params(name, provider) or ())
            known = self._entry()
            schema = "response_format" in fields and (not known or litellm.supports_response_schema(name, provider))
            tools = "tools" in fields and known.get("supports_function_calling", True) is not False
            takes = self._takes()
            with_tools, closes = self._made_of_schemas() if schema else (True, False)
        except Exception:  # noqa: BLE001 - the call itself will report what is wrong with the name
            return ModelProfile(name=self._model)
        return ModelProfile(
            name=self._model,
            provider=provider,
            max_input_tokens=_limit(known, "max_input_tokens"),
            max_output_tokens=_limit(known, "max_output_tokens"),
            tools=tools,
            images="image" in takes,
            audio="audio" in takes,
            documents="document" in takes,
            output_schema=schema,
            output_schema_with_tools=with_tools,
            open_output_schema=not closes,
            input_usd_per_token=_price(known, "input_cost_per_token"),
            output_usd_per_token=_price(known, "output_cost_per_token"),
        )

    def price(self, usage: Any, tier: str | None) -> float | None:
        """Return the cost of *usage* in dollars, by the tables; None if they have no prices for the model.

        Args:
            usage: The usage that was reported, in OpenAI's chat form: a mapping, or litellm's own object.
            tier: The provider's service tier, which has its own prices; None for the usual ones.
        """
        litellm = self._litellm
        try:
            known = self._entry()
            if known.get("tiered_pricing") is None and _price(known, "input_cost_per_token") is None:
                return None  # for some models litellm returns 0.0, which would count as free
            counted = litellm.Usage(**usage) if isinstance(usage, Mapping) else usage
            found = self.found
            costs = litellm.cost_per_token(
                model=found.listed, custom_llm_provider=found.provider, usage_object=counted, service_tier=tier
            )
            cost = sum(costs)
        except Exception:  # noqa: BLE001 - litellm raises for a model that it does not know
            return None
        return cost if 0 <= cost < inf else None

    def _made_of_schemas(self) -> tuple[bool, bool]:
        """Return how litellm sends an output schema to this model, determined with a probe request that is not sent.

        For some providers litellm turns the schema into a tool that the model is forced to call, so that it never calls
        another one. For others all objects must be closed, or litellm closes them, so that an open mapping stays empty.

        Returns:
            Whether tools can be used beside the schema, and whether its objects must be closed.
        """
        try:
            params = self._litellm.get_optional_params(
                model=self.found.plain,
                custom_llm_provider=self.found.provider,
                tools=[_PROBE_TOOL],
                response_format=_PROBE_FORM,
                drop_params=True,
            )
        except Exception:  # noqa: BLE001 - for some models litellm refuses tools with a schema: use the instructions
            return False, False
        return _FORM_TOOL not in str(params), not _CLOSED_FORMS.isdisjoint(params)

    def left_out(self) -> frozenset[str]:
        """Return the fields of `IF_IT_CAN` that this model does not support, by litellm's tables."""
        fields = set(self._litellm.get_supported_openai_params(self.found.plain, self.found.provider) or ())
        return IF_IT_CAN - fields if fields else frozenset()

    def _entry(self) -> Mapping[str, Any]:
        """Return the table entry of the model; empty if there is none."""
        name, provider = self.found.listed, self.found.provider
        for key in (self._model, name, f"{provider}/{name}"):
            entry = self._litellm.model_cost.get(key)
            if entry is not None and str(entry.get("litellm_provider", "")).startswith(provider):
                return entry
        return {}


def count_tokens(litellm: LiteLLM, model: str, request: ModelRequest) -> int:
    """Return the tokens of *request* by litellm's tokenizer for *model*; if that fails, an upper bound.

    Media are estimated: litellm would fetch an image to count it.
    """
    media = tokens_of_media(request.messages)
    request = replace(request, messages=tuple(map(without_media, request.messages)))
    try:
        body = _openai_format.wire_request(request)
        messages, tools = body["messages"], body.get("tools")
        count = litellm.token_counter(model=model, messages=messages, tools=tools)
        for message in messages:  # litellm counts the arguments of tool calls, but not their names and ids
            for call in message.get("tool_calls") or ():
                count += litellm.token_counter(model=model, text=call["id"] + call["function"]["name"])
        for message in request.messages:
            for block in getattr(message, "thinking", ()):  # a signature may stand for more than the readable text
                count += litellm.token_counter(model=model, text=written(block))
        if request.output is not None:
            count += litellm.token_counter(model=model, text=json.dumps(body["response_format"]))
    except Exception:  # noqa: BLE001 - a counter that fails must not break the budget
        return most_tokens(request) + media
    return (count if count > 0 else most_tokens(request)) + media


def most_tokens(request: ModelRequest) -> int:
    """Return an upper bound for any tokenizer that works on bytes: one token per byte, plus a margin per message."""
    blocks = [written(block) for message in request.messages for block in getattr(message, "thinking", ())]
    text = json.dumps([_openai_format.wire_request(request), blocks], ensure_ascii=False, default=str)
    return len(text.encode(errors="replace")) + _MARGIN_TOKENS * (1 + len(request.messages))


def _limit(entry: Mapping[str, Any], name: str) -> int | None:
    value = entry.get(name)
    return value if isinstance(value, int) and value > 0 else None


def _price(entry: Mapping[str, Any], name: str) -> float | None:
    value = entry.get(name)
    return float(value) if isinstance(value, (int, float)) and 0 <= value < inf else None
