"""Checks of `ctx.call`, which runs an async function from a sync node.

Errors name the place of the task: `task.engine.where(task)` returns graph, node, task id and so on.
"""

from __future__ import annotations

import inspect
from typing import Any

from graphrt._engine.task import Task
from graphrt.errors import brief
from graphrt.errors._codes.nodes import CALL_IN_ASYNC_NODE, CALL_OF_NO_FUNCTION


def check_call(task: Task, given: Any) -> None:
    """Check that the node of *task* may call the async function *given*; `Context.call` begins with this.

    Raises:
        NodeError: The node is async (`call-in-async-node`).
        InputError: *given* is not a function, but for instance a coroutine (`call-of-no-function`).
    """
    if inspect.iscoroutine(given):  # refused in any case, by one of the errors below
        given.close()  # else Python warns that it was never awaited
    if task.node.is_async:
        raise CALL_IN_ASYNC_NODE(node=task.node.name, where=task.engine.where(task))
    if inspect.iscoroutine(given):
        raise CALL_OF_NO_FUNCTION(
            given="a coroutine", known=f"{given.__qualname__}() was called already", where=task.engine.where(task)
        )
    if not callable(given):
        raise CALL_OF_NO_FUNCTION(given=brief(given), where=task.engine.where(task))
