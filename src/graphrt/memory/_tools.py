"""Two agent tools, `remember` and `recall`, which use the memory of the node that the agent works for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from graphrt._ambient import running_context
from graphrt._drivers.task_memory import Memory, search_filter
from graphrt.commands import check_expiry
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.memory import TOOL_WITHOUT_MEMORY
from graphrt.harness.tools.function import tool
from graphrt.harness.tools.protocol import Tool, ToolContext
from graphrt.stores.ids import check_namespace


def memory_tools(
    namespace: str | Callable[[ToolContext], str],
    *,
    reads: str | Iterable[str] = (),
    limit: int = 5,
    expires_s: float | None = None,
) -> list[Tool]:
    """Return the tools `remember` and `recall` for an agent: `Agent(tools=[*memory_tools("customers/42")])`.

    A model never chooses the namespace. Remembered facts are stored when the superstep of the node commits; a recall in
    the same task finds them at once.

    Args:
        namespace: Where they write and search, or a function that returns it for a call, for instance of
            `context.deps`, or of `context.state`.
        reads: Fields of the graph's state that the function reads, as for `@tool`.
        limit: Maximum number of items that a recall shows to the model.
        expires_s: Seconds after which facts expire; None keeps them.

    Raises:
        InputError: An argument is invalid.
    """
    if isinstance(namespace, str):
        check_namespace(namespace, bare=True)
    elif not callable(namespace):  # pyright: ignore[reportUnnecessaryComparison]  # callers need not be typed
        raise INVALID_ARGUMENT(
            argument="namespace= of memory_tools()",
            value=namespace,
            wanted="a namespace such as 'customers/42', or a function that returns it",
        )
    search_filter("", "", limit, bare=True)  # checked now: later, only the model would learn that the limit is wrong
    check_expiry(expires_s, "expires_s= of memory_tools()")

    def place(context: ToolContext) -> str:
        return namespace if isinstance(namespace, str) else namespace(context)

    fields = [reads] if isinstance(reads, str) else [*reads]

    @tool(reads=fields)
    async def remember(key: str, text: str, context: ToolContext) -> str:
        """Remember a fact for later conversations, in place of what was remembered under the same key.

        Args:
            key: A short name for the fact, such as "favourite drink". Use the same key to correct a fact.
            text: The fact, in one or two sentences.
        """
        await _memory(remember.spec.name).aput(place(context), key, text, expires_s=expires_s)
        return f"Remembered as {key!r}."

    @tool(reads=fields)
    async def recall(query: str, context: ToolContext) -> str:
        """Look up what was remembered in earlier conversations, by words that it may contain.

        Args:
            query: Words to look for. Leave it empty for the newest facts.
        """
        items = await _memory(recall.spec.name).asearch(place(context), query, limit=limit)
        return "\n".join(f"{item.key}: {item.value}" for item in items) or "Nothing was remembered about that."

    return [remember, recall]


def _memory(name: str) -> Memory:
    """Return the memory of the running node.

    Raises:
        InputError: No node with a context is running (`no-memory`), or its run has no memory.
    """
    context: Any = running_context()
    if context is None:
        raise TOOL_WITHOUT_MEMORY(tool=name)
    memory: Memory = context.memory
    return memory
