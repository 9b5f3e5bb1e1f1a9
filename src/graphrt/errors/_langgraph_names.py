"""Names of LangGraph, and what graphrt has for each: for the text of the error when one of them is used.

No name is accepted in place of graphrt's own, and no call is checked. The guide for users of LangGraph is
docs/how-to/from-langgraph.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_RUNS: Final = "run", "arun", "steps", "asteps", "stream", "astream"
_THREADS: Final = "resume", "aresume", "retry", "state", "history", "update", "fork", "replay", "cancel", "threads"

ATTRIBUTES: Final[Mapping[str, str]] = {
    "invoke": "run(input)",
    "ainvoke": "arun(input)",
    "astream_events": "astream(input, modes=...)",
    "get_graph": "CompiledGraph.to_mermaid() or topology()",
    "get_state": "Runtime.state(thread)",
    "aget_state": "Runtime.astate(thread)",
    "get_state_history": "Runtime.history(thread)",
    "aget_state_history": "Runtime.ahistory(thread)",
    "update_state": "Runtime.update(thread, values)",
    "aupdate_state": "Runtime.aupdate(thread, values)",
    "set_entry_point": "set_entry(node)",
    "set_finish_point": "set_finish(node)",
    "set_conditional_entry_point": "set_conditional_entry(router, routes)",
    # Names of graphrt on the wrong object: a builder does not run, and a graph keeps no threads.
    **{verb: f"compile().{verb}(...)" for verb in _RUNS},
    **{verb: f"Runtime(graph, store=...).{verb}(...)" for verb in _THREADS},
}
"""The name to use instead, by an attribute that a builder, a graph or a runtime does not have."""
OPTIONS: Final[Mapping[str, str]] = {
    "thread_id": "thread=",
    "config": "thread=, deps= or limits=",
    "context": "deps=",
    "stream_mode": "modes=",
    "checkpointer": "store=",
    "recursion_limit": "limits=Limits(max_steps=...)",
    "interrupt_before": "interrupt_before=True on the node",
    "interrupt_after": "interrupt_after=True on the node",
    "subgraphs": 'modes="live"',
    "callbacks": "sinks=",
}
"""The argument to use instead, by a keyword argument that a graph or a runtime does not take."""
POLICIES: Final[Mapping[str, str]] = {
    "retry_policy": "retry=RetryPolicy(...)",
    "cache_policy": "cache=True, or a number of results",
    "error_handler": "on_error=, with the name of a node",
    "destinations": "goto=[...]",
}
"""The argument to use instead, by a keyword argument that a node does not take."""
EXPORTS: Final[Mapping[str, str]] = {
    "StateGraph": "GraphBuilder",
    "interrupt": "the method interrupt() of a node's Context",
    "add_messages": "graphrt.reducers.messages",
    "MemorySaver": 'Runtime(graph, store="memory:")',
    "InMemorySaver": 'Runtime(graph, store="memory:")',
    "SqliteSaver": 'Runtime(graph, store="sqlite:///runs.db")',
    "PostgresSaver": 'Runtime(graph, store="postgresql://...")',
    "AsyncSqliteSaver": 'Runtime(graph, store="sqlite:///runs.db")',
    "AsyncPostgresSaver": 'Runtime(graph, store="postgresql://...")',
    "InMemoryStore": "the attribute memory of a node's Context",
    "MessagesState": "a field messages: Annotated[list[Message], graphrt.reducers.messages]",
    "RemoveMessage": "Overwrite([...]) with the messages that stay",
    "create_agent": "graphrt.harness.Agent",
    "create_react_agent": "graphrt.harness.Agent",
    "ToolNode": "graphrt.harness.Agent",
    "tools_condition": "graphrt.harness.Agent",
    "get_stream_writer": "the method emit() of a node's Context",
    "entrypoint": "a graph with one node",
    "task": "the method effect() of a node's Context",
    "GraphRecursionError": "graphrt.errors.StepLimitError",
    "InvalidUpdateError": "UpdateError",
}
"""The name to use instead, by a name that the package does not export."""


def has_class_of_langgraph(value: object) -> bool:
    """Return whether the class of *value* belongs to LangGraph, which need not be installed."""
    return type(value).__module__.partition(".")[0] == "langgraph"


def no_export(module: str, name: str) -> Exception:
    """Return the error for *name*, which *module* does not have: an ImportError with what to use, if it is LangGraph's.

    Not an AttributeError, because `from graphrt import ...` replaces its text. Any other name is an AttributeError.
    """
    if name in EXPORTS:
        return ImportError(f"{module} has no {name!r}. Use {EXPORTS[name]}.", name=module)
    return AttributeError(f"module {module!r} has no attribute {name!r}")


def no_attribute(owner: object, name: str) -> AttributeError:
    """Return the error for the attribute *name*, which *owner* does not have."""
    text = f"{type(owner).__name__!r} object has no attribute {name!r}"
    return AttributeError(f"{text}. Use {ATTRIBUTES[name]}." if name in ATTRIBUTES else text, name=name, obj=owner)
