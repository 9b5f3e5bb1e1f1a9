"""Errors of the memory that threads share: its namespaces, its items, and runs without it."""

from __future__ import annotations

from graphrt.errors import InputError
from graphrt.errors._error_code import ErrorCode

BAD_NAMESPACE = ErrorCode(
    "bad-namespace",
    InputError,
    "{problem}",
    known="1 to 200 of the characters A-Z a-z 0-9 _ . : @ + = - in segments separated by /, each starting with a letter, digit or _",
    fix="Pass a namespace such as 'customers/42'; if yours cannot be written in these characters, use a hash of it.",
    boundary=True,
)
NAMESPACE_OF_TENANT = BAD_NAMESPACE.variant(
    "The namespace {given} has '~', which stands between a tenant and its namespaces.",
    known="the memory of one tenant has no items of another one",
    fix="Leave the tenant out: it is that of the store, or of the thread that runs.",
)
BAD_MEMORY = ErrorCode(
    "bad-memory",
    InputError,
    "{what} cannot be {given}.",
    fix="Pass {wanted}.",
    boundary=True,
)
OTHER_VECTORS = BAD_MEMORY.variant(
    "A search by a vector of {length} numbers found {number} items whose vectors have another length.",
    known="embed= was another function when they were written; the search was in the namespace {namespace!r}",
    fix="Embed them again with the current function: runtime.memory.embed_again(namespace).",
)
NO_MEMORY = ErrorCode(
    "no-memory",
    InputError,
    "{user} has no thread in a store, and so no memory.",
    known="the memory is kept by the store of the runtime",
    fix="Run the graph with a store. In a test, store='memory:' keeps everything in this process.",
    boundary=True,
)
GRAPH_TOOL_WITHOUT_MEMORY = NO_MEMORY.variant(
    "Node {node!r} uses ctx.memory in a graph that is a tool of an agent, whose thread lasts as long as the call.",
    known="the memory is kept by a store, and the graph has none of its own",
    fix="Pass a store for the memory, GraphTool(graph, store=...), or use it in a function tool or the agent's node.",
)
UNUSABLE_IN_NODE = NO_MEMORY.variant("Node {node!r} {did}.", fix="{advice}")
TOOL_WITHOUT_MEMORY = NO_MEMORY.variant(
    "The tool {tool!r} works for no node that has a context, and so has no memory.",
    fix="Call the agent in a node by ctx.harness or ctx.bind(agent), in a run with a store.",
)
