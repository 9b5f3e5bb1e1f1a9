"""Hints for users of other libraries, above all LangGraph: their names, and what to use in graphrt.

The names serve error messages only. None of them is accepted in place of graphrt's own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeVar

from graphrt.errors import InputError
from graphrt.errors._codes.arguments import CALL_DOES_NOT_FIT, NO_SUCH_PARAMETER, TOO_MANY_ARGUMENTS
from graphrt.errors._error_code import ErrorCode

_F = TypeVar("_F", bound=Callable[..., Any])

GRAPH: Final[Mapping[str, str]] = {
    "invoke": "Use run(input).",
    "ainvoke": "Use arun(input).",
    "batch": "Call run(input) for each of the inputs.",
    "abatch": "Await arun(input) for each of the inputs, for instance with asyncio.gather.",
    "astream_events": "Use astream(input, modes=('messages', 'custom', 'live')).",
    "astream_log": "Use astream(input, modes='events').",
    "with_config": "Pass options to the run, or to a Runtime: run(input, limits=..., deps=...).",
    "get_graph": "Use to_mermaid(), to_dot() or topology().",
    "get_state": "Use Runtime(graph, store=...).state(thread).",
    "aget_state": "Use Runtime(graph, store=...).astate(thread).",
    "get_state_history": "Use Runtime(graph, store=...).history(thread).",
    "aget_state_history": "Use Runtime(graph, store=...).ahistory(thread).",
    "update_state": "Use Runtime(graph, store=...).update(thread, values).",
    "aupdate_state": "Use Runtime(graph, store=...).aupdate(thread, values).",
    "compile": "This graph is compiled already.",
    **{
        verb: f"A graph keeps no threads: use Runtime(graph, store=...).{verb}(...)."
        for verb in ("resume", "aresume", "retry", "state", "history", "update", "fork", "replay", "cancel", "threads")
    },
}
"""Names that a CompiledGraph does not have, and what to do."""
RUNTIME: Final[Mapping[str, str]] = {
    name: fix.replace("Runtime(graph, store=...).", "") for name, fix in GRAPH.items() if not fix.startswith("A graph")
} | {
    "get_graph": "Use runtime.graph.to_mermaid(), to_dot() or topology().",
    "compile": "A runtime drives a graph that is compiled already: runtime.graph.",
}
"""Names that a Runtime does not have, and what to do."""
BUILDER: Final[Mapping[str, str]] = {
    "set_entry_point": "Use set_entry(node), or add_edge(START, node).",
    "set_finish_point": "Use set_finish(node), or add_edge(node, END).",
    "set_conditional_entry_point": "Use set_conditional_entry(router, routes).",
    "get_graph": "Call compile() first: builder.compile().to_mermaid().",
    **{
        verb: f"A builder only declares the graph. Call compile() first: builder.compile().{ours}(...)."
        for verb, ours in (
            *((name, name) for name in ("run", "arun", "steps", "asteps", "stream", "astream", "route", "with_nodes")),
            *((name, name) for name in ("to_mermaid", "to_dot", "to_json", "topology")),
            ("invoke", "run"),
            ("ainvoke", "arun"),
        )
    },
}
"""Names that a GraphBuilder does not have, and what to do."""
PACKAGE: Final[Mapping[str, str]] = {
    "StateGraph": "from graphrt import GraphBuilder",
    "MessageGraph": "from graphrt import GraphBuilder",
    "interrupt": "call ctx.interrupt(payload) on the Context, a node's second parameter",
    "RunnableConfig": "a node's second parameter is a graphrt.Context",
    "add_messages": "from graphrt.reducers import messages",
    "MemorySaver": 'use Runtime(graph, store="memory:")',
    "InMemorySaver": 'use Runtime(graph, store="memory:")',
    "SqliteSaver": 'use Runtime(graph, store="sqlite:///runs.db")',
    "PostgresSaver": 'use Runtime(graph, store="postgresql://...")',
    "create_react_agent": "from graphrt.harness import Agent",
    "ToolNode": "from graphrt.harness import Agent, which runs the tools that it is given",
}
"""Names that the package does not export, and what to do."""
KEYWORDS: Final[Mapping[str, str]] = {
    "config": "Name the thread by thread=, and pass what nodes need as deps= of the Runtime.",
    "configurable": "Name the thread by thread=, and pass what nodes need as deps= of the Runtime.",
    "context": "Pass what nodes need as deps= of the Runtime; they find it as ctx.deps.",
    "thread_id": "Use thread=.",
    "checkpoint_id": "Use Runtime.fork(thread, at=seq), and run the new thread.",
    "stream_mode": "Use modes=: 'updates', 'values', 'messages', 'custom', 'events', 'live' or 'result'.",
    "subgraphs": "Use modes='live', whose items name the nested graph.",
    "recursion_limit": "Use limits=Limits(max_steps=...).",
    "max_iterations": "Use limits=Limits(max_steps=...).",
    "checkpointer": 'Give the store to the runtime: Runtime(graph, store="sqlite:///runs.db").',
    "state_schema": "Pass the class first: GraphBuilder(State).",
    "context_schema": "Annotate the node's second parameter, ctx: Context[Deps], and pass deps= to the Runtime.",
    "config_schema": "Annotate the node's second parameter, ctx: Context[Deps], and pass deps= to the Runtime.",
    "input_schema": "Use input=.",
    "output_schema": "Use output=.",
    "path_map": "Use routes=: a mapping of labels to nodes, or a list of nodes.",
    "path": "Use router=.",
    "then": "Add an edge from each of the nodes to the next, or use add_join().",
    "retry_policy": "Use retry=, a number of attempts or a RetryPolicy.",
    "cache_policy": "Use cache= and key=.",
    "defer": "Use add_join([sources], node), which waits for all of them.",
    "destinations": "Use goto=[...].",
    "ends": "Use goto=[...].",
    "metadata": "There is none; keep it beside the graph, by the name of the node.",
    "debug": "Read steps(input), or stream(input, modes='events').",
}
"""Parameters that no function of graphrt has, and what to do."""
_ON_NODES: Final = "Name it where the node is added: add_node(name, fn, {word}=True)."
_POSITIONAL: Final[Mapping[str, str]] = {
    "add_node": "Name the node: add_node('plan', plan). Or decorate the function with @g.node, which takes its name.",
    "add_conditional_edges": "Say where each label leads: add_conditional_edges(node, router, {'label': target}), or "
    "list the targets.",
    "set_conditional_entry": "Say where each label leads: set_conditional_entry(router, {'label': target}).",
    **dict.fromkeys(
        ("run", "arun", "stream", "astream", "steps", "asteps"),
        "Everything after the input has a name: run(input, thread='t'). There is no config: pass what nodes need as "
        "deps= of the Runtime, and limits as limits=.",
    ),
}
"""Functions that are called with too many positional arguments, or too few, and what to do."""


class UnknownNameError(InputError, AttributeError):
    """An attribute that the object does not have, with its name in graphrt."""

    default_code = "unknown-name"


_UNKNOWN_NAME: Final = ErrorCode("unknown-name", UnknownNameError, "A {kind} has no {name}().", fix="{advice}")
"""Declared here and not in `_codes`, beside its class, which only this module needs."""


def no_such(owner: object, name: str, words: Mapping[str, str]) -> NoReturn:
    """Raise the error for the attribute *name*, which *owner* does not have.

    Raises:
        AttributeError: Always. It is an `UnknownNameError` with a hint if *words* has the name.
    """
    kind = type(owner).__name__
    if name not in words:
        error = AttributeError(f"{kind!r} object has no attribute {name!r}")
        error.name, error.obj = name, owner  # Python's "Did you mean" needs both
        raise error
    raise _UNKNOWN_NAME(kind=kind, name=name, advice=words[name])


def keyword(function: str, word: str) -> str:
    """Return what to do instead of passing *word* to *function*; empty if there is no hint."""
    if function == "compile" and word in ("interrupt_before", "interrupt_after"):
        return _ON_NODES.format(word=word)
    if function == "compile" and word in ("store", "cache"):
        return 'Give it to the runtime: Runtime(graph, store="sqlite:///runs.db").'
    return KEYWORDS.get(word, "")


def check_call(owner: object, function: str, more: Sequence[Any], words: Mapping[str, Any]) -> None:
    """Refuse a call of *function* with too many arguments (*more*), or with unknown keywords (*words*).

    Raises:
        InputError: There are too many arguments, or there is a hint for a keyword.
        TypeError: There is no hint for the keyword; the text is Python's own.
    """
    if not more and not words:
        return
    shown = f"{type(owner).__name__}.{function}"
    for word in words:
        fix = keyword(function, word)
        if fix:
            raise NO_SUCH_PARAMETER(function=shown, word=word, advice=fix)
        raise TypeError(f"{shown}() got an unexpected keyword argument {word!r}")
    raise TOO_MANY_ARGUMENTS(function=shown, number=1 + len(more), advice=_POSITIONAL[function])


def told(fn: _F) -> _F:
    """Decorate *fn* so that a call with another library's parameters raises an error with a hint.

    The function keeps its signature, and a call that fits runs unchanged.
    """

    @functools.wraps(fn)
    def called(*args: Any, **given: Any) -> Any:
        try:
            return fn(*args, **given)
        except TypeError as error:
            _tell(fn, error, args, given)
            raise

    return called  # type: ignore[return-value]  # the wrapper has the same signature


def _tell(fn: Any, error: TypeError, args: tuple[Any, ...], given: Mapping[str, Any]) -> None:
    """Raise an error with a hint if *error* comes from a call that did not fit the parameters of *fn*.

    Raises:
        InputError: There is a hint for a keyword or for the positional arguments.
    """
    trace = error.__traceback__
    if trace is None or trace.tb_next is not None:  # *fn* itself raised: the call did fit
        return
    name = fn.__name__
    kind = type(args[0]).__name__ if args else ""
    shown = kind if name == "__init__" else f"{kind}.{name}"
    for word in given:
        fix = keyword(name, word)
        if fix:
            raise NO_SUCH_PARAMETER(function=shown, word=word, advice=fix) from None
    if name in _POSITIONAL and "positional argument" in str(error):
        what = str(error).rpartition(f"{name}() ")[2]
        raise CALL_DOES_NOT_FIT(function=shown, problem=what, advice=_POSITIONAL[name]) from None
