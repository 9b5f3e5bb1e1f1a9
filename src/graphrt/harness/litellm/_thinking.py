"""Blocks of thinking as litellm writes them: out of replies and streams, and into requests to who can read them.

Pure functions and one builder. No call is made here; the rest of the wire format is `_openai_format`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from graphrt.harness.messages import AssistantMessage, Message, ThinkingBlock, ToolMessage, UserMessage

_OF_CLAUDE: Final = ("claude", "anthropic", "arn:")  # an ARN may stand for any model; of Bedrock's, these are sealed
_HOSTS: Final = frozenset(
    {"bedrock", "bedrock_converse", "vertex_ai", "vertex_ai_beta", "azure_ai", "snowflake", "litellm_proxy"}
)
"""Providers that have Claude beside other models, and to which litellm passes blocks on."""


def keeps_blocks(name: str, provider: str) -> bool:
    """Whether blocks of thinking are read from the model, and written to it.

    They are Claude's, which seals them alike on every platform. To others litellm would send them as a field that no
    OpenAI-like interface knows; and what others seal, Claude would refuse.

    Args:
        name: Of the model, at its provider.
        provider: As litellm names it.
    """
    return provider == "anthropic" or (provider in _HOSTS and any(part in name.lower() for part in _OF_CLAUDE))


def wire_blocks(blocks: Iterable[ThinkingBlock]) -> list[dict[str, Any]]:
    """The `thinking_blocks` of a message: those that are sealed."""
    return [_wire_block(block) for block in blocks if block.sealed]


def _wire_block(block: ThinkingBlock) -> dict[str, Any]:
    if block.redacted:
        return {"type": "redacted_thinking", "data": block.redacted}
    return {"type": "thinking", "thinking": block.text, "signature": block.signature}


def cannot_go_on(messages: Iterable[Message]) -> bool:
    """Whether Claude would refuse to think about *messages*: the turn that goes on began without a sealed block.

    What the user says right after results of tools is sent with them, and belongs to their turn.
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
    """The sealed ones of *blocks*, the `thinking_blocks` of a whole message."""
    builder = BlockBuilder()
    for block in _mappings(blocks):
        builder.add([block])
        builder.close()
    return builder.blocks()


@dataclass(slots=True)
class BlockBuilder:
    """Puts the blocks of one stream together: pieces of a text, then its signature; or redacted data at once."""

    _done: list[ThinkingBlock] = field(default_factory=list[ThinkingBlock])
    _texts: list[str] = field(default_factory=list[str])

    def add(self, blocks: Any) -> None:
        """Take in the `thinking_blocks` of one chunk."""
        for block in _mappings(blocks):
            redacted, signature, text = (_text(block.get(name)) for name in ("data", "signature", "thinking"))
            if block.get("type") == "redacted_thinking":
                self.close()
                if redacted:
                    self._done.append(ThinkingBlock(redacted=redacted))
                continue
            before = "".join(self._texts)
            if signature and text.startswith(before):  # for Anthropic, litellm says the whole text again here
                self._texts = [text] if text else self._texts
            elif text:
                self._texts.append(text)
            if signature:
                self._done.append(ThinkingBlock(text="".join(self._texts), signature=signature))
                self.close()

    def close(self) -> None:
        """End the open block; without a signature nobody takes it back."""
        self._texts = []

    def blocks(self) -> tuple[ThinkingBlock, ...]:
        """Those that are whole, in their order."""
        return tuple(self._done)


def _mappings(blocks: Any) -> list[Mapping[str, Any]]:
    return [block for block in blocks if issubclass(type(block), Mapping)] if issubclass(type(blocks), list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
