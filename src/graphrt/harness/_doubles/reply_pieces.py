"""A whole reply cut into the pieces of a stream, and its usage counted in words.

Pure functions over replies: the same reply always has the same pieces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, TypeAlias

from graphrt.events import Usage
from graphrt.harness.messages import AssistantMessage
from graphrt.harness.protocol import AgentReply, TextDelta, ThinkingDelta, ToolCallDelta
from graphrt.harness.request import ModelRequest

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


def count_words(request: ModelRequest, reply: AgentReply) -> Usage:
    """Return a deterministic usage: words of all messages as input tokens, words of the reply as output tokens."""
    asked = sum(len(message.text.split()) for message in request.messages)
    for message in request.messages:
        if isinstance(message, AssistantMessage):
            asked += sum(len(call.arguments_text.split()) for call in message.tool_calls)
    told = len(reply.text.split()) + sum(len(call.arguments_text.split()) for call in reply.tool_calls)
    return Usage(input_tokens=asked, output_tokens=told, calls=1)
