"""Names of spans, attributes and metrics: the GenAI semantic conventions v0.1.0, and graphrt's own beside them.

The conventions are under development, and their package marks every GenAI constant as moved. So the names are constants
here, in one file; a change of the conventions is a change of this file and of its snapshot test. No other module spells
a name.
"""

from __future__ import annotations

from typing import Final

__all__: list[str] = []

SCOPE: Final = "graphrt"
"""Name of the instrumentation scope of all spans and metrics."""

# -- operations, and the spans that are named after them -----------------------------------------------------------------

INVOKE_WORKFLOW: Final = "invoke_workflow"
"""Operation and span `invoke_workflow GRAPH`: one run."""
CHAT: Final = "chat"
"""Operation and span `chat MODEL`: one model call."""
EXECUTE_TOOL: Final = "execute_tool"
"""Operation and span `execute_tool TOOL`: one tool call."""
SUPERSTEP: Final = "graphrt.superstep"
"""Span `graphrt.superstep N`: a superstep with several tasks."""
NODE: Final = "graphrt.node"
"""Span `graphrt.node NODE`: one task, with all its attempts in one run."""
COMMIT: Final = "graphrt.commit"
"""Span `graphrt.commit`: a store takes entries."""
EDIT: Final = "graphrt.edit"
"""Span `graphrt.edit GRAPH`: a thread began with a fork or an edit instead of a run."""

# -- GenAI attributes ----------------------------------------------------------------------------------------------------

OPERATION_NAME: Final = "gen_ai.operation.name"
AGENT_NAME: Final = "gen_ai.agent.name"
PROVIDER_NAME: Final = "gen_ai.provider.name"
"""Provider of the model, as the conventions spell it; `unknown` if the name of the model has none."""
CONVERSATION_ID: Final = "gen_ai.conversation.id"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
TOKEN_MODALITY: Final = "gen_ai.token.modality"  # noqa: S105 - a name
"""Always `unknown`: usage is not split by text, images and audio."""
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_TYPE: Final = "gen_ai.tool.type"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
ERROR_TYPE: Final = "error.type"

# -- attributes of graphrt -----------------------------------------------------------------------------------------------

RUN_ID: Final = "graphrt.run.id"
RUN_VERB: Final = "graphrt.run.verb"
"""`run`, `resume` or `retry`."""
RUN_STATUS: Final = "graphrt.run.status"
"""`completed`, `interrupted`, `cancelled`, `failed`, or `lost` if the owner of the run died."""
TAKEN_OVER: Final = "graphrt.run.taken_over"
NODE_NAME: Final = "graphrt.node.name"
TASK_ID: Final = "graphrt.task.id"
SUPERSTEP_NUMBER: Final = "graphrt.superstep"
ATTEMPT: Final = "graphrt.attempt"
OUTCOME: Final = "graphrt.outcome"
"""`success`, `error`, `interrupted` or `stopped`."""
ROUTE_TAKEN: Final = "graphrt.route.taken"
BUSY_S: Final = "graphrt.node.busy_s"
"""Seconds that the attempts of a task took, waits between them left out. Measured, so absent from stored traces."""
TIMES: Final = "graphrt.times"
"""`bounded` if nothing measured a span: it has the times of the superstep around it."""
COST_USD: Final = "graphrt.usage.cost_usd"
UNREPORTED_CALLS: Final = "graphrt.usage.unreported_calls"
FIRST_SEQ: Final = "graphrt.commit.first_seq"
LAST_SEQ: Final = "graphrt.commit.last_seq"
SIZE: Final = "graphrt.commit.size"
LINK: Final = "graphrt.link"
"""Of a link: `previous-run`, `forked-from` or `caller`."""
FORKED_AT: Final = "graphrt.fork.at"
DELAY_S: Final = "graphrt.retry.delay_s"
GRAPH: Final = "graphrt.graph"
STATUS: Final = "graphrt.thread.status"

# -- events of spans -----------------------------------------------------------------------------------------------------

RETRY: Final = "graphrt.retry"
ANSWERED: Final = "graphrt.answered"
MIGRATED: Final = "graphrt.migrated"
ABANDONED: Final = "graphrt.abandoned"
GRANTED: Final = "graphrt.budget.granted"

# -- metrics: name, unit, description ------------------------------------------------------------------------------------

INFERENCE_DURATION: Final = ("gen_ai.client.inference.duration", "s", "Duration of model calls")
USED_INPUT: Final = ("gen_ai.client.inference.usage.input_tokens", "{token}", "Tokens that were sent to models")
USED_OUTPUT: Final = ("gen_ai.client.inference.usage.output_tokens", "{token}", "Tokens that models wrote")
USED_CACHED: Final = (
    "gen_ai.client.inference.usage.cache_read.input_tokens",
    "{token}",
    "Tokens sent that providers had in their caches",
)
USED_REASONING: Final = (
    "gen_ai.client.inference.usage.reasoning.output_tokens",
    "{token}",
    "Tokens written that were spent on thinking",
)
CALL_INPUT: Final = ("gen_ai.client.inference.operation.input_tokens", "{token}", "Tokens sent in one model call")
CALL_OUTPUT: Final = ("gen_ai.client.inference.operation.output_tokens", "{token}", "Tokens written in one model call")
INVOKE_DURATION: Final = ("gen_ai.invoke_agent.duration", "s", "Duration of runs")
TOOL_DURATION: Final = ("gen_ai.execute_tool.duration", "s", "Duration of tool calls")
NODE_DURATION: Final = ("graphrt.node.duration", "s", "Time that the attempts of a task took")
COMMIT_DURATION: Final = ("graphrt.commit.duration", "s", "Duration of commits to the store")
THREAD_WRITTEN: Final = ("graphrt.thread.written", "By", "Bytes that a run wrote to its thread")
COST: Final = ("graphrt.cost", "{USD}", "Cost of model calls whose price is known")
RETRIES: Final = ("graphrt.retries", "{retry}", "Attempts of tasks that failed and were followed by another one")
CONFLICTS: Final = (
    "graphrt.conflicts",
    "{conflict}",
    "Threads that could not be claimed, or were lost to another owner",
)
TAKEOVERS: Final = ("graphrt.takeovers", "{takeover}", "Threads that were taken over from an owner that died")
OPEN_QUESTIONS: Final = ("graphrt.questions.open", "{question}", "Questions of paused threads that wait for an answer")
THREADS: Final = ("graphrt.threads", "{thread}", "Threads of the store, by status")
ORPHANED: Final = ("graphrt.threads.orphaned", "{thread}", "Threads left running by an owner that died")

# -- providers -----------------------------------------------------------------------------------------------------------

_PROVIDERS: Final = {
    "azure": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "vertex_ai": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}
"""Prefixes of models that the conventions spell in another way."""


def provider_of(model: str) -> str:
    """Return the `gen_ai.provider.name` of a *model*, whose name may begin with its provider: `openai/gpt-5`."""
    prefix, slash, _ = model.partition("/")
    return _PROVIDERS.get(prefix, prefix) if slash and prefix else "unknown"
