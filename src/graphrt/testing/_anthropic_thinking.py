"""Thinking blocks in the format of POST /v1/messages: signs them, and refuses requests that do not return them.

Claude signs its thinking, and refuses tool results unless the signed blocks come back unchanged (decision 0200). The
fake server does the same, so that a client that loses blocks fails in tests. Pure functions over answers and request
bodies; `_anthropic_wire` sends the blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

from graphrt.harness.messages import ThinkingBlock
from graphrt.testing.chat_answers import ChatAnswer

_KINDS: Final = ("thinking", "redacted_thinking")


def blocks_of(answer: ChatAnswer) -> list[ThinkingBlock]:
    """Return the thinking blocks of *answer*, each with a signature."""
    bare = (ThinkingBlock(text=answer.thinking),) if answer.thinking else ()
    return [
        block if block.sealed else replace(block, signature=_signature(block.text))
        for block in answer.thinking_blocks or bare
    ]


def wire_block(block: ThinkingBlock) -> dict[str, Any]:
    """Return *block* in the JSON form of the API."""
    if block.redacted:
        return {"type": "redacted_thinking", "data": block.redacted}
    return {"type": "thinking", "thinking": block.text, "signature": block.signature}


def refusal_of(body: Mapping[str, Any], sealed: Sequence[ThinkingBlock]) -> str | None:
    """Return the API's error message for an invalid request; None if it would accept the request.

    Args:
        body: The JSON document of the request.
        sealed: All blocks that the server has sent.

    Source:
        https://docs.claude.com/en/docs/build-with-claude/extended-thinking: signatures are always checked. With
        thinking enabled, the assistant turn before the last tool results has to begin with a thinking block.
    """
    messages: list[Any] = list(body.get("messages") or ())
    for place, n, block in _blocks(messages):
        if block.get("type") == "thinking" and not _is_sealed(block, sealed):
            return f"messages.{place}.content.{n}: Invalid `signature` in `thinking` block"
        if block.get("type") == "redacted_thinking" and block.get("data") not in {
            sealed_block.redacted for sealed_block in sealed
        }:
            return f"messages.{place}.content.{n}: Invalid `data` in `redacted_thinking` block"
    thinking: Any = body.get("thinking")
    if not thinking or thinking.get("type") == "disabled":
        return None
    turn = _turn(messages)
    kind = next((block.get("type") for place, _, block in _blocks(messages) if place == turn), None)
    if kind is None or kind in _KINDS:
        return None
    return (
        f"messages.{turn}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{kind}`. When "
        "`thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost "
        "set of `tool_use` and `tool_result` blocks)."
    )


def _signature(text: str) -> str:
    return sha256(f"fake chat server: {text}".encode(errors="replace")).hexdigest()


def _is_sealed(block: Mapping[str, Any], sealed: Sequence[ThinkingBlock]) -> bool:
    text, signature = block.get("thinking"), block.get("signature")
    return any((sealed_block.text, sealed_block.signature) == (text, signature) for sealed_block in sealed)


def _turn(messages: list[Any]) -> int | None:
    """Return the index of the message that began the current assistant turn; None unless the last one has tool results.

    A message with tool results does not end a turn: it continues the one that called the tools.
    """
    if not messages or not _has_results(messages[-1]):
        return None
    began: int | None = None
    for place, message in enumerate(messages):
        if message.get("role") == "assistant":
            began = place if began is None else began
        elif not _has_results(message):
            began = None
    return began


def _has_results(message: Any) -> bool:
    return any(block.get("type") == "tool_result" for block in _content(message))


def _blocks(messages: list[Any]) -> Iterator[tuple[int, int, Mapping[str, Any]]]:
    """Iterate over the blocks of the assistant: index of the message, index in its content, and the block."""
    for place, message in enumerate(messages):
        if message.get("role") == "assistant":
            for n, block in enumerate(_content(message)):
                yield place, n, block


def _content(message: Any) -> list[Any]:
    """Return the content blocks of a message; a plain text as one block."""
    content: Any = message.get("content") or ""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
