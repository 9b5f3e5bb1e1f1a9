"""Facts about a model from litellm's bundled tables, and token counts: provider, limits, prices, abilities.

The functions receive litellm as an argument. They call no model and use no network.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from math import inf
from typing import Any, Final

from graphrt.harness.litellm import _openai_format
from graphrt.harness.litellm._client import LiteLLM
from graphrt.harness.litellm._thinking import Recipient, recipient, written
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
"""Stands before the name of a model that litellm is to call by OpenAI's Responses."""
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
_MARGIN_TOKENS: Final = 64
"""Most tokens that a chat template adds to a conversation, and to each of its messages."""


def provider_of(
    litellm: LiteLLM, model: str, *, api_base: str | None, options: Mapping[str, Any]
) -> tuple[str, str, str | None]:
    """Return the model's name at its provider, the provider, and the API key that litellm found, or None.

    Raises:
        Exception: litellm does not know the provider.
    """
    provider: Any = options.get("custom_llm_provider")
    name, provider, key, _ = litellm.get_llm_provider(model, custom_llm_provider=provider, api_base=api_base)
    return name, provider, key


def recipient_of(
    litellm: LiteLLM, request: ModelRequest, model: str, *, api_base: str | None, options: Mapping[str, Any]
) -> Recipient:
    """Return whom a request to *model* is written for.

    litellm calls some models by the API of OpenAI's Responses: those that have no other, and those that are named so.

    Raises:
        Exception: litellm does not know the provider.
    """
    name, provider, _ = provider_of(litellm, model, api_base=api_base, options=options)
    to = recipient(name, provider, responses=_by_responses(litellm, request, name, provider, api_base, options))
    if to.api != "responses":
        return to
    reasons = litellm.supports_reasoning(_plain(name), provider)  # others refuse the question
    encrypts = reasons and provider in _ENCRYPTING and "include" not in options
    return to._replace(encrypts=encrypts, stores=options.get("store") is not False)


def _by_responses(
    litellm: LiteLLM,
    request: ModelRequest,
    name: str,
    provider: str,
    api_base: str | None,
    options: Mapping[str, Any],
) -> bool:
    try:
        found, _ = litellm.main.responses_api_bridge_check(
            model=name,
            custom_llm_provider=provider,
            tools=_openai_format.wire_tools(request.tools) or None,
            reasoning_effort=options.get("reasoning_effort", request.reasoning),
            web_search_options=options.get("web_search_options"),
            api_base=api_base,
        )
    except Exception:  # noqa: BLE001 - not part of litellm's public interface: other versions may have other arguments
        return name.startswith(_BY_RESPONSES)
    return bool(found.get("mode") == "responses")


def missing_key(litellm: LiteLLM, model: str, provider: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the environment variables of which one should hold the key of *provider*.

    The result is empty if a key may be given in another way; the provider's own error then decides.
    """
    if provider not in _ONE_KEY or any(part in name.lower() for name in options for part in _OTHER_WAYS):
        return ()
    if litellm.api_key or litellm.secret_manager_client or getattr(litellm, f"{provider}_key", None):
        return ()
    names = litellm.validate_environment(model)["missing_keys"]
    return tuple(names) if not any(os.environ.get(name) for name in names) else ()


def profile_of(litellm: LiteLLM, model: str, *, api_base: str | None, options: Mapping[str, Any]) -> ModelProfile:
    """Return the profile of *model* by the tables; only its name is set if litellm does not know its provider."""
    try:
        name, provider, _ = provider_of(litellm, model, api_base=api_base, options=options)
        name = _plain(name)
        fields = set(litellm.get_supported_openai_params(name, provider) or ())
        known = _entry(litellm, model, name, provider)
        schema = "response_format" in fields and (not known or litellm.supports_response_schema(name, provider))
        tools = "tools" in fields and known.get("supports_function_calling", True) is not False
        beside, closes = _made_of_schemas(litellm, name, provider) if schema else (True, False)
    except Exception:  # noqa: BLE001 - the call itself will report what is wrong with the name
        return ModelProfile(name=model)
    return ModelProfile(
        name=model,
        provider=provider,
        max_input_tokens=_limit(known, "max_input_tokens"),
        max_output_tokens=_limit(known, "max_output_tokens"),
        tools=tools,
        output_schema=schema,
        output_schema_with_tools=beside,
        open_output_schema=not closes,
        input_usd_per_token=_price(known, "input_cost_per_token"),
        output_usd_per_token=_price(known, "output_cost_per_token"),
    )


def price_of(
    litellm: LiteLLM,
    model: str,
    usage: Any,
    *,
    api_base: str | None,
    options: Mapping[str, Any],
    tier: str | None = None,
) -> float | None:
    """Return what *usage* of *model* costs in dollars, by the tables; None if they have no prices for the model.

    Args:
        litellm: The library.
        model: The model, as litellm names it.
        usage: The usage that was reported, in OpenAI's chat form: a mapping, or litellm's own object.
        api_base: Address of the provider's API.
        options: Further arguments of the call.
        tier: The provider's service tier, which has its own prices; None for the usual ones.
    """
    try:
        name, provider, _ = provider_of(litellm, model, api_base=api_base, options=options)
        known = _entry(litellm, model, name, provider)
        if known.get("tiered_pricing") is None and _price(known, "input_cost_per_token") is None:
            return None  # for some models litellm returns 0.0, which would pass for free
        counted = litellm.Usage(**usage) if isinstance(usage, Mapping) else usage
        costs = litellm.cost_per_token(
            model=_plain(name),
            custom_llm_provider=provider,
            usage_object=counted,
            service_tier=tier,
        )
        cost = sum(costs)
    except Exception:  # noqa: BLE001 - litellm raises for a model that it does not know
        return None
    return cost if 0 <= cost < inf else None


def _made_of_schemas(litellm: LiteLLM, name: str, provider: str) -> tuple[bool, bool]:
    """Return how litellm sends an output schema to this model, found out by a trial with a probe.

    For some providers litellm turns the schema into a tool that the model is forced to call, so that it never calls
    another one. For others all objects must be closed, or litellm closes them, so that an open mapping stays empty.

    Returns:
        Whether tools can be used beside the schema, and whether its objects must be closed.
    """
    try:
        made = litellm.get_optional_params(
            model=name, custom_llm_provider=provider, tools=[_PROBE_TOOL], response_format=_PROBE_FORM, drop_params=True
        )
    except Exception:  # noqa: BLE001 - for some models litellm refuses tools with a schema: use the instructions
        return False, False
    return _FORM_TOOL not in str(made), not _CLOSED_FORMS.isdisjoint(made)


def left_out(litellm: LiteLLM, name: str, provider: str) -> frozenset[str]:
    """Return the fields of `IF_IT_CAN` that this model does not support, by litellm's tables."""
    fields = set(litellm.get_supported_openai_params(_plain(name), provider) or ())
    return IF_IT_CAN - fields if fields else frozenset()


def count_tokens(litellm: LiteLLM, model: str, request: ModelRequest) -> int:
    """Return the tokens of *request* by litellm's tokenizer for *model*; if that fails, an upper bound."""
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
        return most_tokens(request)
    return count if count > 0 else most_tokens(request)


def most_tokens(request: ModelRequest) -> int:
    """Return an upper bound for any tokenizer that works on bytes: one token per byte, plus a margin per message."""
    blocks = [written(block) for message in request.messages for block in getattr(message, "thinking", ())]
    text = json.dumps([_openai_format.wire_request(request), blocks], ensure_ascii=False, default=str)
    return len(text.encode(errors="replace")) + _MARGIN_TOKENS * (1 + len(request.messages))


def _entry(litellm: LiteLLM, model: str, name: str, provider: str) -> Mapping[str, Any]:
    """Return the table entry of a model of *provider*; empty if there is none."""
    name = _plain(name)
    for key in (model, name, f"{provider}/{name}"):
        entry = litellm.model_cost.get(key)
        if entry is not None and str(entry.get("litellm_provider", "")).startswith(provider):
            return entry
    return {}


def _plain(name: str) -> str:
    """Return the name of a model without the API that litellm is to use for it; prices and abilities are the same."""
    return name.removeprefix(_BY_RESPONSES)


def _limit(entry: Mapping[str, Any], name: str) -> int | None:
    value = entry.get(name)
    return value if isinstance(value, int) and value > 0 else None


def _price(entry: Mapping[str, Any], name: str) -> float | None:
    value = entry.get(name)
    return float(value) if isinstance(value, (int, float)) and 0 <= value < inf else None
