"""Thinking blocks in litellm's format: read from replies and streams, and written for Claude only (decision 0034).

Pure functions and one builder. `_openai_format` does the rest of the wire format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from graphrt.harness.messages import AssistantMessage, Message, ThinkingBlock, ToolMessage, UserMessage

_OF_CLAUDE: Final = ("claude", "anthropic", "arn:")
"""Parts of the names of Claude models. An ARN may stand for any model of Bedrock, but only Claude's seal blocks."""
_HOSTS: Final = frozenset(
    {"bedrock", "bedrock_converse", "vertex_ai", "vertex_ai_beta", "azure_ai", "snowflake", "litellm_proxy"}
)
"""Providers that offer Claude among other models, and to which litellm passes thinking blocks."""


def keeps_blocks(name: str, provider: str) -> bool:
    """Return whether thinking blocks are read from the model's replies and sent back to it: only for Claude.

    Claude's signatures are valid on all its platforms. To other models litellm would send the blocks in a field that
    no OpenAI-like API knows, and Claude would refuse blocks that others sealed.

    Args:
        name: The model's name at its provider.
        provider: The provider as litellm names it.
    """
    return provider == "anthropic" or (provider in _HOSTS and any(part in name.lower() for part in _OF_CLAUDE))


def wire_blocks(blocks: Iterable[ThinkingBlock]) -> list[dict[str, Any]]:
    """Return the `thinking_blocks` of a message on the wire: the sealed ones of *blocks*."""
    return [_wire_block(block) for block in blocks if block.sealed]


def _wire_block(block: ThinkingBlock) -> dict[str, Any]:
    if block.redacted:
        return {"type": "redacted_thinking", "data": block.redacted}
    return {"type": "thinking", "thinking": block.text, "signature": block.signature}


def cannot_go_on(messages: Iterable[Message]) -> bool:
    """Return whether Claude would refuse to think about *messages*: the current turn began without a sealed block.

    Another model began it, or thinking was off. A user message right after results of tools is sent together with
    them, and belongs to their turn.
    """
    turn: list[AssistantMessage] = []
    before: Message | None = None
    for message in messages:
        match message:
            case UserMessage():
                turn = turn if isinstance(before, ToolMessage) else []
            case AssistantMessage():
                turn.append(message)
            case _:
                pass
        before = message
    return bool(turn) and not any(block.sealed for block in turn[0].thinking)


def read_blocks(blocks: Any) -> tuple[ThinkingBlock, ...]:
    """Return the sealed blocks in *blocks*, the `thinking_blocks` of a whole message."""
    builder = BlockBuilder()
    for block in _mappings(blocks):
        builder.add([block])
        builder.close()
    return builder.blocks()


@dataclass(slots=True)
class BlockBuilder:
    """Assembles the blocks of one stream: pieces of a text and then its signature, or redacted data in one piece."""

    _done: list[ThinkingBlock] = field(default_factory=list[ThinkingBlock])
    """The complete blocks, in order."""
    _texts: list[str] = field(default_factory=list[str])
    """Pieces of the open block's text."""

    def add(self, blocks: Any) -> None:
        """Add the `thinking_blocks` of one chunk."""
        for block in _mappings(blocks):
            redacted, signature, text = (_text(block.get(name)) for name in ("data", "signature", "thinking"))
            if block.get("type") == "redacted_thinking":
                self.close()
                if redacted:
                    self._done.append(ThinkingBlock(redacted=redacted))
                continue
            before = "".join(self._texts)
            if signature and text.startswith(before):  # for Anthropic, litellm repeats the whole text here
                self._texts = [text] if text else self._texts
            elif text:
                self._texts.append(text)
            if signature:
                self._done.append(ThinkingBlock(text="".join(self._texts), signature=signature))
                self.close()

    def close(self) -> None:
        """End the open block. One without a signature is dropped, since no provider takes it back."""
        self._texts = []

    def blocks(self) -> tuple[ThinkingBlock, ...]:
        """Return the complete blocks, in order."""
        return tuple(self._done)


def _mappings(blocks: Any) -> list[Mapping[str, Any]]:
    return [block for block in blocks if issubclass(type(block), Mapping)] if issubclass(type(blocks), list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
