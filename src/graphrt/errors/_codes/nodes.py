"""Errors of a run: updates, routes, effects, interrupts and failures of nodes, reducers, and limits."""

from __future__ import annotations

from graphrt.errors import (
    ConcurrentUpdateError,
    DeadlineError,
    InputError,
    LimitError,
    NodeError,
    NodeFatigueError,
    RouteError,
    StarvedJoinError,
    StepLimitError,
    UpdateError,
)
from graphrt.errors._codes.arguments import MISSING_FIELD, UNKNOWN_KEY
from graphrt.errors._error_code import ErrorCode

CACHE_KEY = ErrorCode(
    "cache-key",
    UpdateError,
    "The inputs of cached node {node!r} have no canonical form: {error}",
    fix="Give the node key=lambda state: ... of the values that its result depends on, and Sends hashable arguments.",
    boundary=True,
)

WRONG_TYPE = ErrorCode("wrong-type", UpdateError, "Node {node!r} returned an update of a wrong type: {problems}.")

MISSING_FIELD_OF_NODE = MISSING_FIELD.variant(
    "The full state that node {node!r} returned lacks {missing:names}.", error=UpdateError
)

CANNOT_DELETE = ErrorCode(
    "cannot-delete",
    UpdateError,
    "Node {node!r} deletes field {field!r}, which has no default to return to.",
    fix="Give the field a default, without a factory that takes other fields, or write a value.",
)

UNKNOWN_KEY_OF_NODE = UNKNOWN_KEY.variant(
    "Node {node!r} wrote {name}, which is not a field of the update.",
    error=UpdateError,
    known="fields {fields:names}",
    fix="Remove the key, or declare the field.",
)

UNDECLARED_WRITE = ErrorCode(
    "undeclared-write",
    UpdateError,
    "{who} wrote field {field!r}, which its writes= does not declare.",
    known="declared {declared:names}",
    fix="Declare the field in its writes=[...], or leave it out of the update.",
)

NODE_FAILED = ErrorCode(
    "node-failed",
    NodeError,
    "Node {node!r} failed{tried}: {cause}",
    fix="Correct the node. The exception that it raised is this error's __cause__; a traceback shows it above.",
)

NODE_TIMEOUT = ErrorCode(
    "node-timeout",
    NodeError,
    "Node {node!r} failed{tried}: {cause}",
    fix="Raise timeout_s or idle_timeout_s, or set retry= or on_error=. The worker thread of a sync node keeps running.",
)

UNKNOWN_TARGET = ErrorCode(
    "unknown-target",
    RouteError,
    "{who} names a node that does not exist: {target_text}.",
    known="nodes {known_nodes:names}",
    fix="Name a node of the graph.",
)

REDUCER_FAILED = ErrorCode(
    "reducer-failed",
    UpdateError,
    "Reducer {reducer!r} of {of} {problem}",
    fix="Correct the reducer, or what the node returns, then retry.",
)
REDUCER_RETURNED_NONE = REDUCER_FAILED.variant(
    "Reducer {reducer!r} of field {field!r} returned None, which the field cannot be.",
    known="{field}: {annotation}",
    fix="Return the new value: a method that changes its object, such as list.append, returns None. Then retry.",
)

CONCURRENT_UPDATE = ErrorCode(
    "concurrent-update",
    ConcurrentUpdateError,
    "Two tasks of one superstep wrote field {field!r}, {why}: {writers}.",
    fix="Give the field a reducer (Annotated[T, append], ...), or let one node write it.",
)
STATEFUL_TASKS = CONCURRENT_UPDATE.variant(
    "Two tasks of node {node!r} ran in one superstep, and each continued the state that it keeps in field {field!r}.",
    fix="Let one task of the node run at a time, or leave out stateful=.",
)

STARVED_JOIN = ErrorCode(
    "starved-join",
    StarvedJoinError,
    "No task is due, and {waiting}.",
    known="arrived: {arrived:names}; needed: {need}",
    fix="Route to every source of the join, or give it starved='run', starved='ignore' or when='any'.",
)

STEP_LIMIT = ErrorCode(
    "step-limit",
    StepLimitError,
    "The run made {steps:count superstep}, and more work remains: {due}.",
    known="max_steps={limit}",
    fix="If the loop is meant to run longer, raise Limits(max_steps=...); otherwise correct its way out.",
)

TASK_LIMIT = ErrorCode(
    "task-limit",
    LimitError,
    "{number:count task} {number:is|are} due in one superstep: {due}.",
    known="max_tasks={limit}",
    fix="Send fewer tasks at once, or raise Limits(max_tasks=...).",
)

NODE_FATIGUE = ErrorCode(
    "node-fatigue",
    NodeFatigueError,
    "Node {node!r} is due again after {visits:count visit} in this run.",
    known="max_visits={limit}",
    fix="Correct the loop, raise max_visits, or give the node an on_fatigue= route.",
)

MUTATED_STATE_IN_ROUTER = ErrorCode(
    "mutated-state",
    RouteError,
    "A router after {nodes_text} {did}: {fields:names}.",
    fix="Let routers read the state only; a node returns what changes.",
)
NODE_MUTATED_STATE = MUTATED_STATE_IN_ROUTER.variant(
    "{who} {did}: {fields:names}.{and_raised}",
    error=UpdateError,
    fix="Return the new value in the update.",
)
STATE_REDUCER_MUTATED_STATE = MUTATED_STATE_IN_ROUTER.variant(
    "Reducer {reducer!r} of the whole state changed the state that it was given in place: {fields:names}.",
    error=UpdateError,
    fix="Build new lists and dictionaries, and return a new state: [*state.notes, note], not state.notes.append(note).",
)

BAD_ANSWER_TYPE = ErrorCode(
    "bad-answer-type",
    InputError,
    "Node {node!r} asks for an answer of a type that cannot be stored: it {why}",
    fix="Use plain types and containers of them, a class of the state, or one registered with graphrt.stores.register_type().",
    boundary=True,
)

BAD_UPDATE = ErrorCode(
    "bad-update",
    UpdateError,
    "{who} returned {form}; expected {wanted}.",
    known="fields {fields:names}",
)
RESULT_OF_A_NODE = BAD_UPDATE.variant(
    "Node {node!r} returned a Command with result={quoted}, which only tools have.",
    fix="Leave result= out, and write what the node made to a field of the state.",
)
NESTED_OUTPUT_NOT_AN_UPDATE = BAD_UPDATE.variant(
    "{option}= of nested graph {node!r} returned {quoted}, which is not an update of the graph around it.",
    error=InputError,
    fix="Return an update as the nodes of the graph around it do.",
)

ROUTER_FAILED = ErrorCode(
    "router-failed",
    RouteError,
    "Router {router}() after {source} raised {error:described}",
    fix="Correct the router. A retry calls only the router again; the nodes before it do not run again.",
)

BAD_ROUTE = ErrorCode(
    "bad-route",
    RouteError,
    "Router {router}() after {source} returned {quoted}; expected a label, a list of labels or a list of Sends.",
    known="routes {labels:names}",
    fix="Return a label, a list of labels or of Sends.",
)

UNKNOWN_ROUTE = ErrorCode(
    "unknown-route",
    RouteError,
    "Router {router}() after {source} returned {label}, which has no route.",
    known="routes {labels:names}",
    fix="Add a route for it, or a default=.",
)

UNDECLARED_GOTO = ErrorCode(
    "undeclared-goto",
    RouteError,
    "{who} is {target_text}, which its goto= does not declare.",
    known="declared {declared:names}",
    fix="Declare the target in goto=[...] of the {owner}.",
)
UNDECLARED_HAND_OVER = UNDECLARED_GOTO.variant(
    "{who} is {target_text}, which hands_over_to= of the nested graph does not declare.",
    known="declared {declared:names}",
    fix="Declare the target: GraphBuilder(..., hands_over_to=[...]), or hands_over_to=[...] of its {owner}.",
)
NO_GRAPH_ABOVE = UNDECLARED_GOTO.variant(
    "Node {node!r} returned a Command with graph=PARENT, and no graph is around graph {graph!r} in this run.",
    fix="Run the graph as a node of another graph, or test the node as a function.",
)
DIFFERENT_GOTOS = ErrorCode(
    "different-gotos",
    RouteError,
    "{who} lead to different targets: {first} and {second}.",
    fix="Let one of them route, or let all lead to the same targets. To start several nodes, return them as one list.",
)

SEND_WITHOUT_CONTEXT = ErrorCode(
    "send-without-context",
    RouteError,
    "A Send of {emitter} goes to node {target!r}, which takes no context and so cannot see its argument.",
    fix="Define it as {target}(state, ctx) and read ctx.arg, or route to it by its name.",
)

NOT_STORABLE = ErrorCode(
    "not-storable",
    UpdateError,
    "{who} {did} that cannot be stored{place}: it {why}",
    known="the thread is as it was at the last commit; no result of this task was stored",
    fix="{advice}. Then retry: finished tasks do not run again.",
    boundary=True,
)

STATE_NOT_STORABLE = NOT_STORABLE.variant(
    "The state has a value that cannot be stored{place}: it {why}",
    known="{maker} made it; {verb}() changed nothing",
    fix="Correct the reducer, so that it returns values that can be stored, then call {verb}() again: "
    "the state is folded anew.",
)

DEPTH_LIMIT = ErrorCode(
    "depth-limit",
    LimitError,
    "Node {node!r} nests graph {nested!r} {depth:count level} deep.",
    known="max_depth={limit}",
    fix="Raise Limits(max_depth=...) if the nesting is meant.",
)

BAD_MAPPING = ErrorCode(
    "bad-mapping",
    InputError,
    "{mapping} raised {error:described}",
    fix="Correct what {mapping} does, or the values of the state that it gets.",
)

DEADLINE = ErrorCode(
    "deadline",
    DeadlineError,
    "The run took longer than {limit:g} s; open: {open_nodes}.",
    known="deadline_s={limit:g}, {steps:count superstep} made",
    fix="Raise Limits(deadline_s=...), or give slow nodes a timeout_s.{then_retry}",
)

SWALLOWED_INTERRUPT = ErrorCode(
    "swallowed-interrupt",
    NodeError,
    "Node {node!r} caught the pause that ctx.interrupt() or ctx.sleep() raised, and returned.",
    fix="Catch Exception, not BaseException, around these calls, or re-raise.",
)

NO_HARNESS = ErrorCode(
    "no-harness",
    InputError,
    "Node {node!r} uses ctx.harness, but the run has no harness.",
    fix="Pass one: graph.run(input, harness=MockHarness([...])).",
    boundary=True,
)

CALL_IN_ASYNC_NODE = ErrorCode(
    "call-in-async-node",
    NodeError,
    "Node {node!r} is async and used ctx.call() or run_sync(), which would block the event loop.",
    fix="Await the function instead: `await ctx.harness.run(...)`.",
    boundary=True,
)

EFFECT_UNKNOWN = ErrorCode(
    "effect-unknown",
    NodeError,
    "Effect {effect!r} of node {node!r} was started before, and its outcome is unknown.",
    known="effects of the kind 'once' are never repeated silently",
    fix="Find out whether it happened. On a thread, retry(thread) asks again: answer with resume(thread, 'run'), or with"
    " resume(thread, answer={{'result': ...}}) if it has happened.",
    boundary=True,
)

EFFECT_CHANGED = ErrorCode(
    "effect-changed",
    NodeError,
    "{effect!r} of node {node!r} was called before with other arguments.",
    known="the node runs again, and what it has recorded belongs to those arguments",
    fix="Call it with the same arguments at every execution, or give the call a key: ctx.effect(..., key=...).",
    boundary=True,
)

ATTEMPT_OVER = ErrorCode(
    "attempt-over",
    NodeError,
    "Attempt {attempt} of node {node!r} is over, and may not act any more: {why}.",
    known="nothing was sent, stored or charged; what the attempt had recorded before stays",
    fix="Return when ctx.cancelled is true, await what the node starts, and do not use ctx after the node has returned.",
    boundary=True,
)

BAD_CHOICE = ErrorCode(
    "bad-choice",
    NodeError,
    "Node {node!r} chose {given}, which is not a compiled graph.",
    fix="Return what compile() returned.",
    boundary=True,
)
STATE_OF_CHOICE = BAD_CHOICE.variant(
    "Node {node!r} chose a graph over the state {state_class}, whose values the store of the run may not know.",
    known="{classes:names}",
    fix="Name the class: chosen_graph(choose, states=[{state_class}]).",
)
