"""Reasoning that is sent back: the provider of a block, its form for litellm, and the parsing of Claude's blocks.

Blocks are sent to the provider that they came from and to no other (decision 0200). Forms, by `Recipient`:

- Claude on any of its platforms: `thinking_blocks`, signed or redacted.
- OpenAI's Responses, also at other providers: `reasoning_items`, each before the call that follows it.
- Gemini: `thought_signatures` of the text. The signatures of calls travel in the ids of the calls.
- Chat completions: the field that the provider documents, such as `reasoning_content`.

Pure functions and one builder. `_openai_format` does the rest of the wire format.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from graphrt.harness._surrogates import json_copy
from graphrt.harness.litellm._wire._values import mappings
from graphrt.harness.litellm._wire._values import text as text_of
from graphrt.harness.media import MediaKind
from graphrt.harness.messages import AssistantMessage, Message, ThinkingBlock, ToolMessage, UserMessage

Api: TypeAlias = Literal["chat", "messages", "responses", "gemini"]
"""The API of a provider, as far as conversations differ by it; "messages" is Anthropic's, also on Bedrock."""
_OF_CLAUDE: Final = ("claude", "anthropic", "arn:")
"""Parts of the names of Claude models. An ARN may denote any Bedrock model, but only Claude models seal blocks."""
_HOSTS: Final = frozenset(
    {"bedrock", "bedrock_converse", "vertex_ai", "vertex_ai_beta", "azure_ai", "snowflake", "litellm_proxy"}
)
"""Providers that offer Claude among other models, and to which litellm passes thinking blocks."""
_GOOGLE: Final = frozenset({"gemini", "vertex_ai", "vertex_ai_beta"})
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "deepseek": ("reasoning_content",),  # api-docs.deepseek.com/guides/thinking_mode: required in turns with tools
    "moonshot": ("reasoning_content",),
    "zai": ("reasoning_content",),  # docs.z.ai/guides/capabilities/thinking-mode
    "together_ai": ("reasoning_content",),
    "ollama_chat": ("reasoning_content",),  # litellm makes it `thinking`, as Ollama's API calls it
    "hosted_vllm": ("reasoning", "reasoning_content"),  # the second is the name before vLLM 0.11.2
    "groq": ("reasoning",),  # in its OpenAPI description of assistant messages
    "openrouter": ("reasoning",),
}
"""Fields of an assistant message in which a provider of chat completions takes its reasoning back as text.

Only what providers document: others refuse fields that they do not know, as Cerebras does and OpenAI does."""
_DETAILS: Final[Mapping[str, str]] = {"openrouter": "reasoning_details"}
"""Fields for reasoning in a provider's own form, which `ThinkingBlock.data` has under the same name; they replace text."""
CALL_ID: Final = "call_id"
"""Key in the `data` of a Responses item: the id of the call that the item stands directly before, if it is not the first.

It is not part of the provider's item. A reply has its text, its reasoning and its calls separately, so the text
between two calls is not marked."""


class IdForm(NamedTuple):
    """The form of the ids of tool calls that a provider accepts."""

    pattern: str
    """Regular expression of the whole id."""
    chars: int
    """Length of an id that is made in place of one that does not match; it has hexadecimal digits."""


_IDS: Final[Mapping[str, IdForm]] = {
    "mistral": IdForm("[a-zA-Z0-9]{9}", 9),
    "openai": IdForm(".{1,40}", 40),
    "azure": IdForm(".{1,40}", 40),
}


class Recipient(NamedTuple):
    """The model and provider that a conversation is written for."""

    provider: str = ""
    """The provider whose blocks are sent, as in `ThinkingBlock.provider`; empty for none."""
    api: Api = "chat"
    encrypts: bool = False
    """Whether a request for Responses has to ask for reasoning in the encrypted form that can be sent back."""
    stores: bool = True
    """Whether the provider stores items of Responses, so that one may be sent by its id alone."""
    ids: IdForm | None = None
    """The form of the ids of calls that it accepts; None for any."""
    named: str = ""
    """The provider as litellm names it."""
    takes: frozenset[MediaKind] = frozenset({"image", "audio", "document"})
    """The form in which the model is shown its earlier messages."""


def recipient(name: str, provider: str, *, responses: bool = False) -> Recipient:
    """Return whom a request to a model is written for.

    Claude's signatures are valid on all its platforms, so these count as one provider, "anthropic".

    Args:
        name: The model's name at its provider.
        provider: The provider as litellm names it.
        responses: Whether litellm calls the model by the API of OpenAI's Responses.
    """
    if provider == "anthropic" or (provider in _HOSTS and any(part in name.lower() for part in _OF_CLAUDE)):
        return Recipient("anthropic", "messages")
    if responses:
        return Recipient(provider, "responses", ids=IdForm(".{1,64}", 64))
    if provider in _GOOGLE and (provider == "gemini" or "gemini" in name.lower()):
        return Recipient("google", "gemini")
    return Recipient(provider if provider in _FIELDS else "", ids=_IDS.get(provider))


def kept(blocks: Sequence[ThinkingBlock], thinking: str, author: Recipient) -> tuple[ThinkingBlock, ...]:
    """Return the blocks of a reply that go back to *author*, who wrote it.

    Args:
        blocks: The blocks that were read.
        thinking: The readable thinking, which goes back as it is where a provider of chat completions wants text.
        author: Who wrote the reply.
    """
    own = tuple(block for block in blocks if block.provider == author.provider)
    if author.api == "responses":  # a reader of the API cannot know which provider speaks it
        own = tuple(replace(block, provider=author.provider) for block in blocks if block.provider == "openai")
    if not own and thinking and author.api == "chat" and author.provider:
        return (ThinkingBlock(text=thinking, provider=author.provider),)
    return own


def written(block: ThinkingBlock) -> str:
    """Return the text of a block as it is sent, to count its tokens: at most the item, or its texts."""
    return max(json.dumps(block.data), block.text + block.signature + block.redacted, key=len)


# ------------------------------------------------------------------------------------------------------------ writing


def wire_assistant(body: dict[str, Any], thinking: Iterable[ThinkingBlock], to: Recipient) -> list[dict[str, Any]]:
    """Return the messages on the wire for an assistant message: with the blocks of *thinking* that go back to *to*.

    Args:
        body: The message without its thinking; its `content` or its `tool_calls` are not empty.
        thinking: The blocks of the message, of any provider.
        to: Who the conversation is written for.

    Returns:
        1 message; for Responses 1..n, because litellm writes the reasoning of a message before all of its calls.
    """
    blocks = [block for block in thinking if block.sealed and block.provider == to.provider]
    match to.api:
        case "responses":
            return _with_items(body, [block for block in blocks if to.stores or _is_complete(block)])
        case "messages":
            return [{**body, "thinking_blocks": [_wire_block(block) for block in blocks]} if blocks else body]
        case "gemini":
            # One of the text, which comes with its last part. litellm puts it on the text, and writes no thoughts.
            last = [block.signature for block in blocks if block.signature and not block.text][-1:]
            return [{**body, "provider_specific_fields": {"thought_signatures": last}} if last else body]
        case "chat":
            return [{**body, **_chat_fields(blocks, to.provider, calls="tool_calls" in body)}]


def _wire_block(block: ThinkingBlock) -> dict[str, Any]:
    if block.redacted:
        return {"type": "redacted_thinking", "data": block.redacted}
    return {"type": "thinking", "thinking": block.text, "signature": block.signature}


def _chat_fields(blocks: Sequence[ThinkingBlock], provider: str, *, calls: bool) -> dict[str, Any]:
    """Return the fields that carry *blocks* in a message of chat completions; *calls*: it has tool calls."""
    name = _DETAILS.get(provider, "")
    details = [json_copy(detail) for block in blocks for detail in block.data.get(name) or ()]
    if details:
        return {name: details}
    text = "".join(block.text for block in blocks)
    if text or (calls and provider == "deepseek"):  # while it thinks, it refuses calls without the field
        return dict.fromkeys(_FIELDS[provider], text)
    return {}


def _with_items(body: dict[str, Any], blocks: Sequence[ThinkingBlock]) -> list[dict[str, Any]]:
    """Return *body* with its reasoning items, cut before each call that an item stands directly before."""
    by_call: dict[str, list[dict[str, Any]]] = {}
    for block in blocks:
        by_call.setdefault(str(block.data.get(CALL_ID) or ""), []).append(_item(block))
    first, calls = by_call.pop("", []), body.pop("tool_calls", [])
    messages = [{**body, "tool_calls": list[Any](), "reasoning_items": first}]
    for call in calls:
        items = by_call.pop(call["id"], [])
        if items and not (messages[-1]["tool_calls"] or messages[-1]["content"]):
            messages[-1]["reasoning_items"] += items
        elif items:
            messages.append({"role": "assistant", "content": None, "tool_calls": [], "reasoning_items": items})
        messages[-1]["tool_calls"].append(call)
    # Empty values are left out: litellm recognizes messages with calls by the field.
    return [
        {name: value for name, value in message.items() if value or name in ("role", "content")} for message in messages
    ]


def _is_complete(block: ThinkingBlock) -> bool:
    """Return whether an item says its reasoning itself: encrypted, or as the text of an open model."""
    return bool(block.signature or block.data.get("content"))


def _item(block: ThinkingBlock) -> dict[str, Any]:
    """Return a block as the reasoning item from which litellm makes one of `input`."""
    summary = block.data.get("summary") or ([{"type": "summary_text", "text": block.text}] if block.text else [])
    item = {"type": "reasoning", "summary": json_copy(summary)}
    return item | {name: value for name, value in (("id", block.id), ("encrypted_content", block.signature)) if value}


def cannot_go_on(messages: Iterable[Message]) -> bool:
    """Return whether Claude would refuse to think about *messages*: the current turn began without a sealed block.

    Another model began it, or thinking was off. A user message right after tool results is sent together with
    them, and belongs to their turn.
    """
    turn: list[AssistantMessage] = []
    previous: Message | None = None
    for message in messages:
        match message:
            case UserMessage():
                turn = turn if isinstance(previous, ToolMessage) else []
            case AssistantMessage():
                turn.append(message)
            case _:
                pass
        previous = message
    return bool(turn) and not any(block.sealed and block.provider == "anthropic" for block in turn[0].thinking)


# ------------------------------------------------------------------------------------------------- reading of Claude's


@dataclass(slots=True)
class BlockBuilder:
    """Assembles the blocks of one stream: pieces of a text and then its signature, or redacted data in one piece."""

    _done: list[ThinkingBlock] = field(default_factory=list[ThinkingBlock])
    """The complete blocks, in order."""
    _texts: list[str] = field(default_factory=list[str])
    """Pieces of the open block's text."""

    def add(self, blocks: Any) -> None:
        """Add the `thinking_blocks` of one chunk."""
        for block in mappings(blocks):
            redacted, signature, text = (text_of(block.get(name)) for name in ("data", "signature", "thinking"))
            if block.get("type") == "redacted_thinking":
                self.close()
                if redacted:
                    self._done.append(ThinkingBlock(redacted=redacted))
                continue
            earlier = "".join(self._texts)
            if signature and text.startswith(earlier):  # for Anthropic, litellm repeats the whole text here
                self._texts = [text] if text else self._texts
            elif text:
                self._texts.append(text)
            if signature:
                self._done.append(ThinkingBlock(text="".join(self._texts), signature=signature))
                self.close()

    def close(self) -> None:
        """End the open block. One without a signature is dropped, since no provider accepts it."""
        self._texts = []

    def blocks(self) -> tuple[ThinkingBlock, ...]:
        """Return the complete blocks, in order."""
        return tuple(self._done)
