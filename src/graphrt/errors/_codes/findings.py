"""Findings of `compile()`: schemas, fields, nodes, edges and routes, and judgements of what routers could do."""

from __future__ import annotations

from graphrt.errors import DefinitionError
from graphrt.errors._error_code import ErrorCode, Finding

BAD_ANNOTATION = Finding(
    "bad-annotation",
    "The annotations of {cls} cannot be resolved: {problem}.",
    fix="Define the named types before GraphBuilder(...), at module level or in the same function.",
)
UNCHECKABLE_TYPE = BAD_ANNOTATION.variant(
    "The type of field {field!r}, {annotation}, cannot be checked: {problem}",
    fix="Use a type that pydantic knows, or Any.",
)

BAD_STATE = Finding(
    "bad-state", "{cls} cannot be a state.", fix="Use a pydantic model, a dataclass or a TypedDict class."
)
EXTRA_FIELDS = BAD_STATE.variant(
    "{state} allows extra fields, which a node that returns the full state cannot change.",
    fix="Declare the fields, or use GraphBuilder(...) with partial updates.",
)

BAD_UPDATE_TYPE = Finding(
    "bad-update-type",
    "{cls} cannot be the Update of a graph.",
    fix="Use a TypedDict with total=False, a pydantic model or a dataclass of partial updates.",
)
UNKNOWN_FIELDS_OF_UPDATE = BAD_UPDATE_TYPE.variant(
    "{who} names {unknown}, which the state does not have.", fix="Known: {fields:names}."
)
UNKNOWN_WRITE = BAD_UPDATE_TYPE.variant(
    "{writer} writes {name}, which is not a field of {of}.", fix="Known: {fields:names}."
)
UPDATE_WITH_DEFAULTS = BAD_UPDATE_TYPE.variant(
    "Fields of the dataclass {cls} would be written even if a node does not set them: {fields:names}.",
    fix="Give every field of a dataclass used as Update the default UNSET.",
)
NESTED_UPDATES = BAD_UPDATE_TYPE.variant(
    "The updates of nested graph {node!r} are {inner}, and those of the graph around it {outer}.",
    fix="Give the node update_of= to convert its updates to those of the outer graph, or output= to convert its last state.",
)


BAD_LIMIT_IN_GRAPH = Finding("bad-limit", "{owner}: {problem}.", fix="Correct the value.")
BAD_LIMIT_OPTION = BAD_LIMIT_IN_GRAPH.variant("The {owner} has {option}={given}.", fix="Use {wanted}.")


BAD_POLICY = Finding("bad-policy", "{owner}: {problem}.", fix="Correct the value.")
POLICY_OF_WRONG_KIND = BAD_POLICY.variant("Node {name!r}: {option} cannot be {given!r}.", fix="Use {wanted}.")
WRITES_BESIDE_STATE_REDUCER = BAD_POLICY.variant(
    "Node {node!r} declares writes= of {fields:names}, but the graph has a reducer for the whole state.",
    fix="Remove writes= and return an update for the reducer, or put the node in a nested graph without reducer=.",
)
UNKNOWN_POLICY = BAD_POLICY.variant("Node {name!r} has no policy {option!r}.", fix="Known: {known_options:names}.")

ENDLESS_LOOP = Finding(
    "endless-loop",
    "The loop {loop} has no conditional way out: once entered, it runs until a limit.",
    fix="Put a conditional edge on it that can lead out, or declare goto=[..., END] on a node of it.",
    judgement=True,
)

BAD_REDUCER = Finding("bad-reducer", "Reducer {reducer!r} of {owner} {problem}.")
QUOTED_REDUCER = BAD_REDUCER.variant(
    "Field {field!r} has the text {mark!r} beside its type: the name of a reducer or marker does nothing.",
    fix="Write it without quotes, after `from graphrt.reducers import {mark}`. Any other text is a note for readers.",
)
INNER_REDUCER = BAD_REDUCER.variant(
    "{mark!r} is inside the type of field {field!r}, where it has no effect.",
    fix="Put it around the whole type: Annotated[<the type>, <the reducer>].",
)
SEVERAL_REDUCERS = BAD_REDUCER.variant(
    "Field {field!r} has {number} reducers: {reducers}.", fix="Keep one reducer in its Annotated[...]."
)
FIELD_BESIDE_STATE_REDUCER = BAD_REDUCER.variant(
    "Field {field!r} is marked {mark!r}, but the graph has a reducer for the whole state.",
    fix="Remove the mark, since reducer= computes every field and the journal stores whole updates; or remove reducer=.",
)
FIELD_NEEDS_DEFAULT = BAD_REDUCER.variant("Field {field!r} is {problem}.", fix="Give the field a default.")

DEPTH_LIMIT_OF_GRAPH = Finding(
    "depth-limit",
    "Node {node!r} nests graphs {depth:count level} deep, and max_depth is {limit}.",
    fix="Nest fewer graphs in one another, or raise the limit: compile(limits=Limits(max_depth={depth})).",
)

UNTRACKED_LEAK = Finding(
    "untracked-leak",
    "Nested graph {name!r} {verb} field {out_of!r}, which is untracked, for field {into!r}, whose values are stored.",
    fix="Mark field {into!r} of {state} untracked too, or name the fields that are shared with {option}=.",
)

BAD_SIGNATURE = Finding(
    "bad-signature",
    "{who} cannot be called as fn(state) or fn(state, ctx): {problem}.",
    fix="Take the state, and the context as a second positional parameter without default.",
)
COMMAND_OF_TARGETS = BAD_SIGNATURE.variant(
    "Node {node!r} is annotated as Command[Literal[{targets}]], but the parameter of a Command is the update, not its targets.",
    fix="Declare the targets where the node is added: goto=[{targets}]; and annotate it as Command.",
)
BAD_ROUTER_SIGNATURE = BAD_SIGNATURE.variant(
    "The router of the {branch} cannot be called as router(state) or router(state, ctx): {problem}.",
    fix="Take the state, and return a label, a list of labels or a list of Sends.",
)

UNREACHABLE_NODE = Finding(
    "unreachable-node",
    "Node {node!r} can never run: no path leads to it from START.",
    fix="Add an edge to it, declare it in goto= of the node that commands it, or remove it.",
    judgement=True,
)

NO_WAY_OUT = Finding(
    "no-way-out",
    "From node {node!r} neither END nor a node without edges can be reached.",
    fix="Give a router on the way a route to END.",
    judgement=True,
)

STARVING_JOIN = Finding(
    "starving-join",
    "The join before {node!r} can starve: some choice of routes runs {runs!r} and not {skipped!r}.",
    fix="Join nodes that always run together, or pass starved='ignore', starved='run' or when='any'.",
    judgement=True,
)

NO_ENTRY = Finding(
    "no-entry",
    "Graph {graph!r} has no edge from START{nodes}.",
    fix="Call add_edge(START, node), set_entry(node) or set_conditional_entry(...).",
)

BAD_NAME = Finding("bad-name", "{name} cannot be the name of {owner}.", fix="Use {wanted}.")

RESERVED_NAME = Finding(
    "reserved-name", "A node cannot be named {node!r}: that is an end of every graph.", fix="Choose another name."
)

DUPLICATE_NODE = Finding(
    "duplicate-node",
    "Node {node!r} is defined twice; the first definition is{at}.",
    fix="Rename one of them; to replace a node in a test, use graph.with_nodes().",
)

START_TO_END = Finding(
    "start-to-end",
    "The {edge} leads past every node: nothing would run.",
    fix="Lead START to a node; for runs that may end at once, give START a router with a route to END.",
)

DUPLICATE_EDGE = Finding("duplicate-edge", "The {edge} is declared twice; the first is{at}.", fix="Remove one of them.")
DUPLICATE_SOURCE = DUPLICATE_EDGE.variant("The {join} {problem}.", fix="Name each source once.")

EMPTY_ROUTES = Finding(
    "empty-routes",
    "The {branch} has no routes.",
    fix="Map each label to a node or END, list the possible nodes, or annotate the router to return a Literal of names.",
)
JOIN_WITHOUT_SOURCES = EMPTY_ROUTES.variant("The {join} has no sources.", fix="Name the sources.")

UNKNOWN_NODE = Finding("unknown-node", "The {edge} names a node that was never added: {name}.")
JOIN_OF_START = UNKNOWN_NODE.variant(
    "The {join} waits for START, which never runs.", fix="Join nodes; what START leads to runs by itself."
)

DEAD_ROUTE = Finding("dead-route", "Route {label} of the {branch} is never taken: the router returns {labels} only.")
IMPOSSIBLE_LABEL = DEAD_ROUTE.variant(
    "Route {label} of the {branch} is never taken: labels are strings, booleans, integers and members of an Enum.",
    fix="Use one of these as the label, and let the router return it.",
)

LABEL_WITHOUT_ROUTE = Finding(
    "unknown-route",
    "The router of the {branch} can return {label}, which has no route; known: {known_labels}.",
    fix="Add a route for it, or a default=.",
)

END_AS_SOURCE = Finding(
    "end-as-source",
    "The {edge} starts at END, where every branch is over.",
    fix="Start it at the node that leads to END.",
)

START_AS_TARGET = Finding(
    "start-as-target",
    "The {edge} leads to START, which is only where the input comes in.",
    fix="Lead it to the node that START leads to.",
)

MIXED_EDGES = Finding(
    "mixed-edges",
    "{source} has both static and conditional edges.",
    fix="Let the router return a list that holds the fixed target too, or put a node in between.",
)

WRITE_CONFLICT = Finding(
    "write-conflict",
    "{tasks} can run in one superstep, and {all_of_them} write {fields:names}, {fields:which has|which "
    "have} no aggregating reducer.",
    fix="Give the field{fields:|s} a reducer, write different fields, or run the nodes one after the other.",
    judgement=True,
)

BAD_HARNESS_NODE = Finding(
    "bad-harness-node",
    "Node {name!r} is an agent or harness, and the state has no field for its {part}.",
    fix="Name the fields, add_node(name, agent, input='question', output='answer'), or give one the reducer messages.",
)
BAD_HARNESS_PART = BAD_HARNESS_NODE.variant("Node {name!r} has the {part} {given!r}.", fix="Pass {wanted}.")

TOOL_STATE_IN_NODE = Finding(
    "tool-state",
    "Tool {tool!r} of node {node!r} {problem}.",
    fix="Correct what the tool declares, or offer it in another node.",
)

UNKNOWN_READ = Finding(
    "unknown-read", "{reader} reads {name}, which is not a field of {of}.", fix="Known: {fields:names}."
)

DELETED_SOURCE = Finding(
    "deleted-source",
    "Node {node!r} deletes {fields:names}, which node {reader!r} reads in another branch, before or after that.",
    fix="Join {reader!r} before {node!r}, or let the node keep its sources.",
    judgement=True,
)

BAD_ALLOW = Finding(
    "bad-allow",
    "allow= names {accepted!r}, which is not a judgement that can be accepted.",
    fix="Known: {judgements:names}.",
)

NOT_CARRIED_OVER = Finding("not-carried-over", "{feature} is not carried over: {reason}")

DEFINITION = ErrorCode("definition", DefinitionError, "{who} has {problems:count problem}.")
