"""Errors of the memory that threads share: its namespaces, its items, and runs without it."""

from __future__ import annotations

from graphrt.errors import InputError
from graphrt.errors._error_code import ErrorCode

BAD_NAMESPACE = ErrorCode(
    "bad-namespace",
    InputError,
    "{problem}",
    known="a namespace has 1 to 200 of the characters A-Z a-z 0-9 _ . : @ + = - in segments that are separated by /, each"
    " of which begins with a letter, a digit or _",
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
    "{what} of an item of the memory cannot be {given}.",
    fix="Pass {wanted}.",
    boundary=True,
)
OTHER_VECTORS = BAD_MEMORY.variant(
    "A search by a vector of {length} numbers found {number} items whose vectors have another length.",
    known="embed= was another function when they were written; the search was in the namespace {namespace!r}",
    fix="Embed them again with the present function: runtime.memory.embed_again(namespace).",
)
BAD_VECTORS = BAD_MEMORY.variant(
    "What embed= returned for {texts} texts cannot be {given}.",
    fix="Return a list with a vector for each text, in their order: 1 to 4,096 finite numbers each.",
)
NO_EMBEDDING = BAD_MEMORY.variant(
    "The runtime has no embed=, and so no items can be embedded.",
    fix="Pass embed= to the runtime: a function that takes a list of texts and returns a vector for each.",
)
NO_MEMORY = ErrorCode(
    "no-memory",
    InputError,
    "Node {node!r} uses ctx.memory, and its run has no thread in a store.",
    known="the memory is kept by the store of the runtime",
    fix="Run the graph with a store. In a test, store='memory:' keeps everything in this process.",
    boundary=True,
)
GRAPH_TOOL_WITHOUT_MEMORY = NO_MEMORY.variant(
    "Node {node!r} uses ctx.memory in a graph that is a tool of an agent, whose thread lasts as long as the call.",
    known="the memory is kept by a store, and the graph has none of its own",
    fix="Pass the store that is to keep the memory, GraphTool(graph, store=...). Or use the memory in a tool that is a "
    "function, or in the node that runs the agent.",
)
RUNTIME_WITHOUT_MEMORY = NO_MEMORY.variant("The runtime has no store, and so no memory.")
TOOL_WITHOUT_MEMORY = NO_MEMORY.variant(
    "The tool {tool!r} works for no node that has a context, and so has no memory.",
    fix="Call the agent in a node by ctx.harness or ctx.bind(agent), in a run with a store.",
)
