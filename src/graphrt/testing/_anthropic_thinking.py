"""Thinking on the wire of POST /v1/messages: blocks as the server seals them, and requests that do not bring them back.

Pure functions over answers and bodies of requests. How blocks are sent is `_anthropic_wire`'s.
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
    """The blocks that *answer* begins with, each of them sealed."""
    bare = (ThinkingBlock(text=answer.thinking),) if answer.thinking else ()
    return [
        block if block.sealed else replace(block, signature=_signature(block.text))
        for block in answer.thinking_blocks or bare
    ]


def wire_block(block: ThinkingBlock) -> dict[str, Any]:
    """*block* as the wire has it."""
    if block.redacted:
        return {"type": "redacted_thinking", "data": block.redacted}
    return {"type": "thinking", "thinking": block.text, "signature": block.signature}


def refusal_of(body: Mapping[str, Any], sealed: Sequence[ThinkingBlock]) -> str | None:
    """Why the interface would refuse *body*, the document of a request; None if it would not.

    Args:
        body: The document.
        sealed: Blocks that the server has sent.

    Source:
        https://docs.claude.com/en/docs/build-with-claude/extended-thinking: signatures are checked always; with
        thinking enabled, the turn that tools' results go on with has to begin with a block.
    """
    messages: list[Any] = list(body.get("messages") or ())
    for place, n, block in _blocks(messages):
        if block.get("type") == "thinking" and not _is_sealed(block, sealed):
            return f"messages.{place}.content.{n}: Invalid `signature` in `thinking` block"
        if block.get("type") == "redacted_thinking" and block.get("data") not in {one.redacted for one in sealed}:
            return f"messages.{place}.content.{n}: Invalid `data` in `redacted_thinking` block"
    thinking: Any = body.get("thinking")
    if not thinking or thinking.get("type") == "disabled":
        return None
    turn = _turn(messages)
    found = next((block.get("type") for place, _, block in _blocks(messages) if place == turn), None)
    if found is None or found in _KINDS:
        return None
    return (
        f"messages.{turn}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{found}`. When "
        "`thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost "
        "set of `tool_use` and `tool_result` blocks)."
    )


def _signature(text: str) -> str:
    return sha256(f"fake chat server: {text}".encode(errors="replace")).hexdigest()


def _is_sealed(block: Mapping[str, Any], sealed: Sequence[ThinkingBlock]) -> bool:
    text, signature = block.get("thinking"), block.get("signature")
    return any((one.text, one.signature) == (text, signature) for one in sealed)


def _turn(messages: list[Any]) -> int | None:
    """Where the assistant's turn began that the last message goes on with, if that has results of tools."""
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
    """Of the assistant: where the message is, where in it, and the block."""
    for place, message in enumerate(messages):
        if message.get("role") == "assistant":
            for n, block in enumerate(_content(message)):
                yield place, n, block


def _content(message: Any) -> list[Any]:
    content: Any = message.get("content") or ""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
