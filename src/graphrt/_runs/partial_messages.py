"""The text of stopped replies, as partial messages of the state (rule R10, decision 0183).

Cancelling a run may cut off a model's reply after a reader has seen part of its text. The task records that text
(`events.ReplyStopped`). While the task may run again, the state does not contain it. When a new input abandons the
task, the text becomes an `AssistantMessage` with `partial=True` before the input is folded, so that the conversation
contains what the person read.
"""

from __future__ import annotations

from typing import Any, get_args

from graphrt import reducers
from graphrt._engine.abandoning import stopped_replies
from graphrt._engine.engine import Engine
from graphrt._plan.fields import Field
from graphrt._runs.run_config import RunConfig


def partial_messages(config: RunConfig, engine: Engine) -> dict[str, Any]:
    """Return the messages by field, to be folded; empty if there is no text, or no field for it."""
    if config.recorded is not None:  # the thread is re-executed from its log; the cut came from outside
        recorded = config.recorded.abandoned()
        if recorded is not None:
            return dict(recorded)
    texts = stopped_replies(engine.tasks)
    field = _conversation(engine) if texts and engine.reducer is None else None
    if field is None:
        return {}
    from graphrt.harness.messages import AssistantMessage  # imported late: most runs have no agent

    replies: Any = [AssistantMessage(text=text, partial=True) for text in texts]
    try:
        return {field.name: engine.plan.update._check_one(field, replies, "START", engine.where())}
    except ValueError:  # messages of another class, which no rule here can make
        return {}


def _conversation(engine: Engine) -> Field | None:
    """Return the conversation field: the only one with the reducer `messages`, else the only list of messages.

    A list of messages has the reducer `append`, and a type that names `AssistantMessage`, as `list[Message]` does. Fields
    that are not stored do not count.
    """
    from graphrt.harness.messages import AssistantMessage  # as above

    stored = [field for field in engine.fields.values() if not field.untracked]
    by_id = [field for field in stored if field.reduce is reducers.messages]
    lists = [
        field for field in stored if field.reduce is reducers.append and _names(field.annotation, AssistantMessage)
    ]
    candidates = by_id or lists
    return candidates[0] if len(candidates) == 1 else None


def _names(annotation: Any, cls: type) -> bool:
    """Return whether the type *annotation* is *cls*, or names it at any depth."""
    return annotation is cls or any(_names(part, cls) for part in get_args(annotation))
