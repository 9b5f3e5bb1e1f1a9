"""What a stream and a journal are shown of model and tool calls where the runtime redacts (decision 0126).

The user may give rules by which texts, such as personal data, are replaced before they are stored or shown. A prompt is
not changed: the user decides what a model is sent. Replies are redacted before they are recorded, and the agent goes on
with what is recorded.
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

    A provider signs these blocks. It refuses a later request that contains a changed block, and accepts one without
    them.

    Args:
        redacted: The data after redaction.
        reply: The data before.
    """
    if redacted.get("thinking_blocks") == reply.get("thinking_blocks"):
        return redacted
    return {name: value for name, value in redacted.items() if name != "thinking_blocks"}


def redacted_item(task: Task, item: Any) -> Any:
    """Return an item of the stream mode `messages` redacted; None if it is not to be shown.

    Pieces of a reply are not shown: a pattern may begin in one piece and end in another. The whole reply is shown when
    it is complete. A value that has no encoded form is not shown either, because no rule can look into it.

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
    # Each field is redacted on its own, so that the item keeps its class.
    values = {field.name: getattr(item, field.name) for field in dataclasses.fields(item) if field.init}
    made = {name: _redacted(task, value) for name, value in values.items()}
    return item if all(made[name] is value for name, value in values.items()) else dataclasses.replace(item, **made)


def _redacted(task: Task, value: Any) -> Any:
    """Return *value* redacted; None if it cannot be encoded as a stored value, so that no rule can look into it."""
    try:
        return redacted_value(task.engine, value, f"an item that node {task.node.name!r} shows")
    except NotStorable:
        return None
