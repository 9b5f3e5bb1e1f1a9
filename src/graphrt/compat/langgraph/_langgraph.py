"""The private names of LangGraph that a converted graph needs while it runs.

Nodes read what LangGraph puts into `config["configurable"]` under these keys. All of them are imported here, so that a
version of LangGraph that lacks one fails at once.
"""

from __future__ import annotations

from typing import Any, Final

from langchain_core.runnables.config import var_child_runnable_config
from langgraph._internal import _constants
from langgraph._internal._constants import (
    CONFIG_KEY_CALL,
    CONFIG_KEY_CHECKPOINT_ID,
    CONFIG_KEY_CHECKPOINT_NS,
    CONFIG_KEY_CHECKPOINTER,
    CONFIG_KEY_NODE_ERROR,
    CONFIG_KEY_READ,
    CONFIG_KEY_RUNTIME,
    CONFIG_KEY_SCRATCHPAD,
    CONFIG_KEY_SEND,
    CONFIG_KEY_TASK_ID,
    CONFIG_KEY_THREAD_ID,
)
from langgraph._internal._fields import get_cached_annotated_keys, get_update_as_tuples
from langgraph._internal._runnable import RunnableCallable
from langgraph.errors import ErrorCode, GraphInterrupt, InvalidUpdateError, ParentCommand
from langgraph.errors import NodeError as HandledError
from langgraph.func import _TaskFunction as TaskFunction
from langgraph.pregel import _utils

CONFIG_KEY_READ_STATE: Final[str] = getattr(_constants, "CONFIG_KEY_READ_STATE", "__pregel_read_state")
"""A placeholder for versions of LangGraph without this key, where nothing reads it."""


_utilities: Any = _utils
names_around: Final[Any] = _utilities.get_function_nonlocals
"""Returns the non-local values that a function uses, among which LangGraph finds the graphs that it calls."""


def is_a(value: object, *kinds: Any) -> bool:
    """Return whether *value* is an instance, without narrowing its type: for type checkers it stays `Any`."""
    return isinstance(value, kinds)


__all__ = [
    "CONFIG_KEY_CALL",
    "CONFIG_KEY_CHECKPOINTER",
    "CONFIG_KEY_CHECKPOINT_ID",
    "CONFIG_KEY_CHECKPOINT_NS",
    "CONFIG_KEY_NODE_ERROR",
    "CONFIG_KEY_READ",
    "CONFIG_KEY_READ_STATE",
    "CONFIG_KEY_RUNTIME",
    "CONFIG_KEY_SCRATCHPAD",
    "CONFIG_KEY_SEND",
    "CONFIG_KEY_TASK_ID",
    "CONFIG_KEY_THREAD_ID",
    "ErrorCode",
    "GraphInterrupt",
    "HandledError",
    "InvalidUpdateError",
    "ParentCommand",
    "RunnableCallable",
    "TaskFunction",
    "get_cached_annotated_keys",
    "get_update_as_tuples",
    "is_a",
    "names_around",
    "var_child_runnable_config",
]
