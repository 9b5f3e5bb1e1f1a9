"""A whole reply cut into the pieces of a stream: the same reply always has the same pieces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, TypeAlias

from graphrt.harness.protocol import AgentReply, TextDelta, ThinkingDelta, ToolCallDelta

Piece: TypeAlias = TextDelta | ThinkingDelta | ToolCallDelta
"""An item of a stream before its reply."""

_WORD: Final = re.compile(r"\s*\S+|\s+$")


def pieces(reply: AgentReply) -> Iterator[Piece]:
    """Cut *reply* into deltas: thinking and text word by word, each tool call in two pieces."""
    for piece in _WORD.findall(reply.thinking):
        yield ThinkingDelta(text=piece)
    for piece in _WORD.findall(reply.text):
        yield TextDelta(text=piece)
    for index, call in enumerate(reply.tool_calls):
        half = (len(call.arguments_text) + 1) // 2
        yield ToolCallDelta(index=index, id=call.id, name=call.name, arguments_text=call.arguments_text[:half])
        yield ToolCallDelta(index=index, arguments_text=call.arguments_text[half:])
