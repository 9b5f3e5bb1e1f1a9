"""The messages of a turn that is given up, for the state (rule R10, decision 0183).

Cancelling a run may cut off an agent between two tool calls, or in a reply of which a reader has seen a part. Its task
has recorded the replies, the results of the tools and that text. While the task may run again, the state contains none
of it. When a new input abandons the task, the messages are folded before the input, so that the conversation contains
what was said and done; the text that was cut off becomes an `AssistantMessage` with `partial=True`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, get_args

from graphrt import reducers
from graphrt._engine.engine import Engine
from graphrt._engine.open_interrupt import SIGNAL, OpenInterrupt
from graphrt._engine.task import DONE, HANDLED, Task
from graphrt._plan.fields import Field
from graphrt._runs.run_config import RunConfig
from graphrt.commands import ERASED

if TYPE_CHECKING:
    from graphrt.harness.agent._unfinished import Turn


def partial_messages(config: RunConfig, engine: Engine) -> dict[str, Any]:
    """Return the messages by field, to be folded; empty if there are none, or no field for them."""
    if config.recorded is not None:  # the thread is re-executed from its log; the cut came from outside
        recorded = config.recorded.abandoned()
        if recorded is not None:
            return dict(recorded)
    turns = list(_turns(engine.tasks))
    field = _conversation(engine) if turns and engine.reducer is None else None
    if field is None:
        return {}
    ids = {call.id for message in engine.values.get(field.name) or () for call in getattr(message, "tool_calls", ())}
    all_messages = [message for turn in turns for message in (*turn.messages(ids), *turn.cut_off())]
    partial_texts = [message for turn in turns for message in turn.cut_off()]
    # A field may take the messages of a model, and not those of tools and people.
    for messages in (all_messages, partial_texts):
        if messages:
            with suppress(ValueError):  # the field takes other messages
                return {field.name: engine.plan.update._check_one(field, messages, "START", engine.where())}
    return {}


def _turns(tasks: list[Task]) -> Iterator[Turn]:
    """Yield what each of *tasks* recorded about its agents, nested graphs included, in task order."""
    for task in tasks:
        extra = task.extra
        if extra is None:
            continue
        questions = [item for item in extra.interrupts if item.current]
        if extra.models is not None or any(item.kind == SIGNAL for item in questions):
            from graphrt.harness.agent._unfinished import Reply, Turn  # imported late: most runs have no agent

            models = extra.models
            replies = [] if models is None else models.recorded_replies()
            yield Turn(
                replies=[Reply(item.key, item.agent, item.reply, item.failed_attempts) for item in replies],
                partial=[] if models is None or task.status in (DONE, HANDLED) else models.said(),
                results={key: item.result for key, item in extra.effects.items()},
                answers={_key(item): item.answer for item in questions if item.answered and item.answer is not ERASED},
                asked=[_key(item) for item in questions if not item.answered],
            )
        if extra.child is not None:  # the engine of the task's nested graph
            yield from _turns(extra.child.tasks)


def _key(question: OpenInterrupt) -> str:
    """Return the key of a question as its caller chose it."""
    return question.base.removeprefix("key=")


def _conversation(engine: Engine) -> Field | None:
    """Return the conversation field: the only one with the reducer `messages`, else the only list of messages.

    A list of messages has the reducer `append`, and a type that names `AssistantMessage`, as `list[Message]` does. Fields
    that are not stored do not count.
    """
    from graphrt.harness.messages import AssistantMessage  # imported late, as above

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
