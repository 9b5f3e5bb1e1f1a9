"""Errors of ready-made nodes: arguments of their factories, parts of results, and batches."""

from __future__ import annotations

from graphrt.errors import InputError, LimitError, NodeError, UpdateError
from graphrt.errors._codes.agents import AGENT_LIMIT
from graphrt.errors._error_code import ErrorCode, Finding

BAD_INTO = ErrorCode(
    "bad-ready-node",
    InputError,
    "into= of {factory} must be a field, or a mapping of fields to parts of the result, not {given!r}.",
    fix="Name a field: into='answer'.",
)
NO_FIELD_NAMES = BAD_INTO.variant(
    "{option} of {factory} must be names of fields, not {given!r}.", fix="Give the fields as strings."
)
TOO_FEW_FIELDS = BAD_INTO.variant("{option} of {factory} is empty.", fix="Name at least one field.")
FIELD_NAMED_TWICE = BAD_INTO.variant("{option} of {factory} has a name twice: {given!r}.", fix="Name each field once.")
NOTHING_TO_SET = BAD_INTO.variant("set_value() was given nothing.", fix="Name a field: set_value(status='done').")
BAD_ROUTER_FIELD = BAD_INTO.variant(
    "router() was given {given!r}.", fix="Give the name of a field, or a function of the state."
)

UNKNOWN_MODEL_OPTION = BAD_INTO.variant("{factory}() has no option {option!r}.", fix="Known: {options:names}.")
BAD_NODE_PROMPT = BAD_INTO.variant(
    "The prompt of {factory}() is {given!r}.", fix="Give a text, a Template or a function of the state."
)
MODEL_OPTION_WITHOUT_MODEL = BAD_INTO.variant(
    "{factory}() was given fallbacks= or name= without model=.",
    fix="Give them to the agent: Agent(model, fallbacks=...).",
)
MODEL_AND_HARNESS = BAD_INTO.variant("{factory}() was given a model and a harness.", fix="Give one of them.")
PARTS_OF_TEXT = BAD_INTO.variant(
    "into= of llm() maps parts of an answer that is a text.", fix="Give output=, or name one field."
)
NO_AGENT = BAD_INTO.variant(
    "subagent() was given {given!r}, which is not an Agent.", fix="For any harness use llm(harness=...)."
)
TWO_RESULTS_IN_ONE_FIELD = BAD_INTO.variant(
    "Two results of {factory} go to one field: {written!r}.", fix="Name different fields."
)

KEEPS_NO_SOURCE = BAD_INTO.variant(
    "reduce() is to keep {field_name!r}, which is not a source.", fix="Name a source, or leave it out."
)
PROMPT_OR_FUNCTION = BAD_INTO.variant("reduce() needs a prompt or a function, and not both.", fix="Give one of them.")
UNUSED_SOURCE = BAD_INTO.variant(
    "reduce() would delete {field_name!r}, which its prompt does not use.",
    fix="Use it in the prompt, or leave it out of the sources.",
)
MODEL_OPTION_OF_FUNCTION = BAD_INTO.variant(
    "reduce() was given options of a model, and a function.", fix="Leave them out, or give a prompt."
)
BAD_REDUCE_FUNCTION = BAD_INTO.variant(
    "function= of reduce() is {given!r}.", fix="Give a function of the sources' values."
)

NO_TOOL_FUNCTION = BAD_INTO.variant("tool() was given {given!r}.", fix="Give a function.")
BAD_EFFECT = BAD_INTO.variant("effect= of tool() is {given!r}.", fix="Use 'pure', 'idempotent', 'once' or None.")
LIST_WITHOUT_FIELD = BAD_INTO.variant(
    "as_list= of tool() says nothing without into=.", fix="Name the field: into='results'."
)
UNKNOWN_PARAMETERS = BAD_INTO.variant(
    "The parameters of {function}() are unknown.", fix="Name the fields: inputs=('field',), or inputs=() for none."
)

EDIT_OF_NO_FIELDS = BAD_INTO.variant(
    "human() offers the choice 'edit' and names no fields.", fix="Name them: edit=('letter',)."
)
ROLE_OF_NO_CHOICE = BAD_INTO.variant(
    "roles= of human() names {choice!r}, which is not a choice.", fix="The choices are {choices!r}."
)

BATCH_WITHOUT_NODES = BAD_INTO.variant(
    "batch() was given no nodes.", fix="Give a node, or a mapping of names to nodes."
)
NODE_NAME_OF_BATCH = BAD_INTO.variant(
    "A node of a batch cannot be named {name!r}.", fix="The batch has a node of that name."
)
BAD_OVER = BAD_INTO.variant(
    "over= of batch() is {given!r}.", fix="Give a field with items, or a function that returns them."
)
ITEM_OF_FUNCTION = BAD_INTO.variant(
    "item= of batch() is for compiled graphs.", fix="A function finds its item as ctx.arg."
)
BAD_ON_FAILURE = BAD_INTO.variant("on_failure= of batch() is {given!r}.", fix="Use one of {policies!r}.")
HALF_A_QUORUM = BAD_INTO.variant(
    "on_failure='quorum' and quorum= of batch() belong together.", fix="Give both, or neither."
)
BAD_BATCH_NUMBER = BAD_INTO.variant("{option}= of batch() is {given!r}.", fix="Give a whole number of 1 or more.")
COLLECT_WITHOUT_FIELD = BAD_INTO.variant(
    "on_failure='collect' of batch() needs a field.", fix="Name it: failures='failed'."
)
FAILURES_WITHOUT_COLLECT = BAD_INTO.variant(
    "failures= of batch() says nothing with on_failure='raise'.", fix="Use 'collect'."
)
ON_ERROR_IN_BATCH = BAD_INTO.variant(
    "on_error= of batch() is the batch's own.", fix="Use on_failure=, and on_error= of add_node."
)

MISSING_PART = ErrorCode(
    "missing-part",
    UpdateError,
    "The result of {source} has no {part!r}.",
    known="it is of type {result:type} and has {parts}",
    fix="Correct into=, or let the result have that part.",
    carries=("field",),
)
RESULT_WITHOUT_FIELD = MISSING_PART.variant(
    "{function}() returned a value of type {result:type}, and no field takes it.",
    fix="Name the field, tool(fn, into='result'), or return a mapping of fields.",
    carries=(),
)

AGENT_WITHOUT_OUTPUT = AGENT_LIMIT.variant(
    "The agent of node {node!r} was stopped by its limit {limit!r} and has no output.",
    fix="Raise the limit of the agent, or route the error with on_error=.",
    where="",
    carries=(),
)

NO_BATCH_ITEMS = ErrorCode(
    "batch-items",
    NodeError,
    "Batch {name!r} is to run over a value of type {given:type}, which has no items.",
    fix="Give a list, or a function of the state that makes one.",
)

BATCH_LIMIT = ErrorCode(
    "batch-limit",
    LimitError,
    "Batch {name!r} has more than {limit:count item}.",
    known="max_items={limit}",
    fix="Split the items into several runs, or raise max_items= if so many tasks are meant.",
)

BATCH_QUORUM = ErrorCode(
    "batch-quorum",
    NodeError,
    "Only {succeeded} of {total:count task} of batch {name!r} succeeded, and its quorum is {limit}.",
    known="{failed}",
    fix="Look at error.values, which has each failed item. Route the error with on_error=, or lower the quorum.",
    carries=("values",),
    boundary=True,
)

BAD_VALIDATOR = BAD_INTO.variant("{option} of TopologyValidator is {given!r}.", fix="Give {wanted}.")
UNKNOWN_VALIDATOR_OPTION = BAD_INTO.variant("A validator has no {option!r}.", fix="Known: {options:names}.")
NO_DESIGNER = BAD_INTO.variant(
    "The designer of adaptive() is {given!r}.",
    fix="Give the text of a prompt for a model, a Template, or a function of the state and the request.",
)
BAD_ATTEMPTS = BAD_INTO.variant("attempts of adaptive() is {given!r}.", fix="Give a whole number of 1 or more.")
NO_REGISTRY = BAD_INTO.variant("The registry of adaptive() is {given!r}.", fix="Give graphrt.nodes.registry(...).")
NO_VALIDATOR = BAD_INTO.variant("The validator of adaptive() is {given!r}.", fix="Give a TopologyValidator(...).")
UNKNOWN_ALLOWED = BAD_INTO.variant(
    "The validator allows {option} that do not exist: {unknown:names}.", fix="Known: {known_names:names}."
)
UNREADABLE_REQUIRED = BAD_INTO.variant(
    "The state requires {fields:names}, which designs may not read: no design could start.",
    fix="Add them to reads= of the validator, or give the fields defaults.",
)

FORBIDDEN_DESIGN = Finding("forbidden-design", "{problem}.", fix="Design within the limits of the validator.")

DESIGN_REJECTED = ErrorCode(
    "design-rejected",
    NodeError,
    "No valid design was made in {attempts:count attempt}: {reasons}.",
    fix="Look at error.values, which has every reason. Route the error with on_error=, allow more, or say more in the "
    "prompt.",
    carries=("values",),
    boundary=True,
)
DESIGN_NO_LONGER_VALID = DESIGN_REJECTED.variant(
    "The design that was accepted before is refused now: {reasons}.",
    fix="The validator or the registry has changed since. Allow what the design uses, or let on_error= lead to a node that designs anew.",
)
