"""What litellm knows of a model without asking anybody: its provider, limits, prices, abilities and tokens.

Look-ups in litellm's bundled tables and its token counter; litellm is handed in. No call is made, no network used.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from math import inf
from typing import Any, Final

from graphrt.harness.litellm import _openai_format
from graphrt.harness.litellm._client import LiteLLM
from graphrt.harness.protocol import ModelProfile
from graphrt.harness.request import ModelRequest

_ONE_KEY: Final = frozenset(
    {"openai", "anthropic", "gemini", "groq", "mistral", "deepseek", "xai", "openrouter", "cerebras", "moonshot"}
)
"""Providers that want one key and have no other way in, so that its absence is certain to be a mistake."""
_OTHER_WAYS: Final = ("key", "token", "auth", "credential", "headers", "client", "secret")
"""Parts of options' names that may bring a credential along."""
IF_IT_CAN: Final = frozenset({"seed", "reasoning_effort"})
"""Fields that ask for what a model does if it can; a call is not to fail for them."""
_FORM_TOOL: Final = "json_tool_call"
"""The name of the tool that litellm makes of a schema."""
_CLOSED_FORMS: Final = frozenset({"output_format", "outputConfig"})
"""What a schema goes into where its objects have to be closed: Anthropic's interface, and Bedrock's."""
_PROBE_TOOL: Final = {
    "type": "function",
    "function": {"name": "look", "description": "", "parameters": {"type": "object"}},
}
_PROBE_FORM: Final[Mapping[str, Any]] = {
    "type": "json_schema",
    "json_schema": {"name": "found", "schema": {"type": "object", "properties": {}, "additionalProperties": False}},
}
_MARGIN_TOKENS: Final = 64
"""What a chat template adds to a conversation, and to each message of it, at most."""


def provider_of(
    litellm: LiteLLM, model: str, *, api_base: str | None, options: Mapping[str, Any]
) -> tuple[str, str, str | None]:
    """The model's name at its provider, the provider, and the key that litellm found for it.

    Raises:
        Exception: litellm's own, if it knows no such provider.
    """
    provider: Any = options.get("custom_llm_provider")
    name, provider, key, _ = litellm.get_llm_provider(model, custom_llm_provider=provider, api_base=api_base)
    return name, provider, key


def missing_key(litellm: LiteLLM, model: str, provider: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    """The environment variables of which one should hold the key of *provider*, if it is certain that none does."""
    if provider not in _ONE_KEY or any(part in name.lower() for name in options for part in _OTHER_WAYS):
        return ()
    if litellm.api_key or litellm.secret_manager_client or getattr(litellm, f"{provider}_key", None):
        return ()
    names = litellm.validate_environment(model)["missing_keys"]
    return tuple(names) if not any(os.environ.get(name) for name in names) else ()


def profile_of(litellm: LiteLLM, model: str, *, api_base: str | None, options: Mapping[str, Any]) -> ModelProfile:
    """What the tables say of *model*; the bare name if they do not know it."""
    try:
        name, provider, _ = provider_of(litellm, model, api_base=api_base, options=options)
        fields = set(litellm.get_supported_openai_params(name, provider) or ())
        known = _entry(litellm, model, name, provider)
        schema = "response_format" in fields and (not known or litellm.supports_response_schema(name, provider))
        tools = "tools" in fields and known.get("supports_function_calling", True) is not False
        beside, closes = _made_of_schemas(litellm, name, provider) if schema else (True, False)
    except Exception:  # noqa: BLE001 - the call will say what is wrong with the name
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


def _made_of_schemas(litellm: LiteLLM, name: str, provider: str) -> tuple[bool, bool]:
    """What litellm makes of a schema for this model: whether tools may stand beside it, and whether it is closed.

    For some providers litellm makes a tool of the schema that the model is forced to call: it never calls another.
    For others every object has to be closed, or litellm closes it, so that nothing can be in an open one.
    """
    try:
        made = litellm.get_optional_params(
            model=name, custom_llm_provider=provider, tools=[_PROBE_TOOL], response_format=_PROBE_FORM, drop_params=True
        )
    except Exception:  # noqa: BLE001 - for some litellm refuses one beside the other; words always go
        return False, False
    return _FORM_TOOL not in str(made), not _CLOSED_FORMS.isdisjoint(made)


def left_out(litellm: LiteLLM, name: str, provider: str) -> frozenset[str]:
    """Those of `IF_IT_CAN` that litellm says this model cannot."""
    fields = set(litellm.get_supported_openai_params(name, provider) or ())
    return IF_IT_CAN - fields if fields else frozenset()


def count_tokens(litellm: LiteLLM, model: str, request: ModelRequest) -> int:
    """Tokens that *request* takes, by litellm's tokenizer for *model*; if that fails, more than they can be."""
    try:
        body = _openai_format.wire_request(request)
        messages, tools = body["messages"], body.get("tools")
        count = litellm.token_counter(model=model, messages=messages, tools=tools)
        for message in messages:  # it counts the arguments of calls, not their names and ids
            for call in message.get("tool_calls") or ():
                count += litellm.token_counter(model=model, text=call["id"] + call["function"]["name"])
        for message in request.messages:
            for block in getattr(message, "thinking", ()):  # a signature stands for more than the text shows
                count += litellm.token_counter(model=model, text=block.text + block.signature + block.redacted)
        if request.output is not None:
            count += litellm.token_counter(model=model, text=json.dumps(body["response_format"]))
    except Exception:  # noqa: BLE001 - a counter that fails must not keep a budget from being kept
        return most_tokens(request)
    return count if count > 0 else most_tokens(request)


def most_tokens(request: ModelRequest) -> int:
    """A bound that no tokenizer exceeds: one token for each byte, and a margin for what stands between messages."""
    body = _openai_format.wire_request(request, blocks=True)
    text = json.dumps(body, ensure_ascii=False, default=str)
    return len(text.encode(errors="replace")) + _MARGIN_TOKENS * (1 + len(request.messages))


def _entry(litellm: LiteLLM, model: str, name: str, provider: str) -> Mapping[str, Any]:
    for key in (model, name, f"{provider}/{name}"):
        entry = litellm.model_cost.get(key)
        if entry is not None and str(entry.get("litellm_provider", "")).startswith(provider):
            return entry
    return {}


def _limit(entry: Mapping[str, Any], name: str) -> int | None:
    value = entry.get(name)
    return value if isinstance(value, int) and value > 0 else None


def _price(entry: Mapping[str, Any], name: str) -> float | None:
    value = entry.get(name)
    return float(value) if isinstance(value, (int, float)) and 0 <= value < inf else None
