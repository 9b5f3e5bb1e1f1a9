"""Redaction of the model and tool call items in streams and journals (decision 0126).

Users may configure rules that replace texts, such as personal data, before they are stored or shown. Prompts are not
changed: the user decides what to send to a model. Replies are redacted before they are recorded, and the agent
continues with the recorded version.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from graphrt._codec import NotStorable
from graphrt._engine.redacting import redacted_value
from graphrt.harness.agent.events import SubAgentItem
from graphrt.harness.protocol import TextDelta, ThinkingDelta, ToolCallDelta

if TYPE_CHECKING:
    from graphrt._engine.task import Task

_PIECES = (TextDelta, ThinkingDelta, ToolCallDelta)
"""Items of a stream that carry a part of a reply."""


def redacted_reply(redacted: dict[str, Any], reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return the redacted data of a model's reply, without its thinking blocks if redaction changed one of them.

    Providers sign these blocks. They reject a later request with a changed block, but accept one without any.

    Args:
        redacted: The data after redaction.
        reply: The data before.
    """
    if redacted.get("thinking_blocks") == reply.get("thinking_blocks"):
        return redacted
    return {name: value for name, value in redacted.items() if name != "thinking_blocks"}


def redacted_item(task: Task, item: Any) -> Any:
    """Redact an item of the stream mode `messages`; return None if it must not be shown.

    Partial replies are not shown, because a pattern may begin in one piece and end in another. The reply is shown when
    it is complete. A value that cannot be encoded is not shown either, because no rule can inspect it.

    Args:
        task: The task that shows the item.
        item: A piece of a reply, a whole reply, an event of an agent, or an object that a user's harness yields.
    """
    if isinstance(item, _PIECES):
        return None
    if isinstance(item, SubAgentItem):
        inner = redacted_item(task, item.item)
        return None if inner is None else SubAgentItem(agent=item.agent, item=inner)
    if not dataclasses.is_dataclass(item) or isinstance(item, type):
        return _redacted(task, item)
    # Each field is redacted separately, so that the item keeps its class.
    values = {field.name: getattr(item, field.name) for field in dataclasses.fields(item) if field.init}
    redacted = {name: _redacted(task, value) for name, value in values.items()}
    return (
        item
        if all(redacted[name] is value for name, value in values.items())
        else dataclasses.replace(item, **redacted)
    )


def _redacted(task: Task, value: Any) -> Any:
    """Redact *value*; return None if it cannot be encoded as a stored value, because no rule can inspect it."""
    try:
        return redacted_value(task.engine, value, f"an item that node {task.node.name!r} shows")
    except NotStorable:
        return None
