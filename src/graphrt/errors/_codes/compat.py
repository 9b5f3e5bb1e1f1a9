"""Errors of `graphrt.compat`: node objects of Lár, their routes and models, and the network that a run must not use."""

from __future__ import annotations

from graphrt.errors import HarnessError, InputError, NodeError, RouteError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.ready_nodes import DESIGN_REJECTED
from graphrt.errors._error_code import ErrorCode

BATCH_IN_ITSELF = INVALID_ARGUMENT.variant(
    "A branch of {name} leads back to it, so it would start itself forever.",
    fix="End the branch with next_node=None; the batch continues with its own next_node.",
)
NOTHING_TO_RESUME = INVALID_ARGUMENT.variant(
    "This executor has no run that waits for an answer.", fix="Read `executor.result.outcome` first."
)
NO_STORE_TO_RESUME = INVALID_ARGUMENT.variant(
    "This executor has not started the run {run_id!r}, and has no store where another process could have stored it.",
    fix="Give both executors the same store: GraphExecutor(store='sqlite:///runs.db').",
)

NO_PATH = ErrorCode(
    "no-path",
    RouteError,
    "The decision of {name} is {decision!r}, and no path has that name.",
    known="paths {paths:names}",
    fix="Add the path to path_map, or give the router a default_node.",
    boundary=True,
)
UNLINKED_NODE = NO_PATH.variant(
    "{name}.execute() returned {target!r}, which is not a node that an attribute of it holds.",
    known="its attributes lead to {paths:names}",
    fix="Keep the nodes that may follow in attributes, so that the graph is known before it runs.",
)

NODE_OBJECT_FAILED = ErrorCode(
    "node-object-failed",
    NodeError,
    "AddValueNode copies the key {key!r}, which the state does not have.",
    fix="Set the key first, or give a value that is not a text in braces.",
    boundary=True,
)
NO_KEY_FOR_RESULT = NODE_OBJECT_FAILED.variant(
    "{function}() returned a value of type {result:type}, and no key takes it.",
    fix="Pass output_key=, or return a mapping of keys.",
)
EMPTY_ANSWER = NODE_OBJECT_FAILED.variant(
    "The model {model!r} answered nothing.", fix="Look at its finish_reason and its filters."
)
BRANCHES_FAILED = NODE_OBJECT_FAILED.variant(
    "{failed} of {total} branches failed: {details}.",
    known="no result of the batch was written",
    fix="Correct the branches, or give the batch an error_node.",
)
BRANCHES_CONFLICT = NODE_OBJECT_FAILED.variant(
    "Branches wrote different values to the key {key!r}: {details}.",
    known="no result of the batch was written",
    fix="Give each branch a key of its own, and join them in a node after the batch.",
)

NODES_REJECTED = DESIGN_REJECTED.variant(
    "The design of an AdaptiveNode was rejected for {number:count reason}: {reasons}",
    known="error.values has all reasons",
    fix="Allow more in the TopologyValidator, ask the model more precisely, or give the node an error_node.",
)

MODEL_GAVE_UP = ErrorCode(
    "model-gave-up",
    HarnessError,
    "{status}{node} failed after {retries} retries.",
    known="{cause}",
    fix="Raise max_retries, or give the node fallbacks.",
)

OFFLINE = ErrorCode(
    "offline",
    InputError,
    "{event} was refused: a run with offline_mode is under way in this process.",
    known="{target}",
    fix="Remove offline_mode, or provide what the node needs without a network.",
    boundary=True,
)
OFFLINE_MODEL = OFFLINE.variant(
    "The model {name!r} would be asked over the network, which offline_mode forbids.",
    known="models that were given: {models:names}",
    fix="Give it: GraphExecutor(offline_mode=True, models={{{name!r}: model}}).",
)
