"""Names of spans, attributes and metrics: the GenAI semantic conventions v0.1.0, and graphrt's own names.

The conventions are under development, and their package marks every GenAI constant as moved. So the names are constants
in this file. If the conventions change, only this file and its snapshot test change; no other module spells a name.
"""

from __future__ import annotations

from typing import Final

__all__: list[str] = []

SCOPE: Final = "graphrt"
"""Name of the instrumentation scope of all spans and metrics."""

# -- operations, and the spans named after them ------------------------------------------------------------------------

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
"""Span `graphrt.edit GRAPH`: a fork or an edit that began a thread."""

# -- GenAI attributes ----------------------------------------------------------------------------------------------------

OPERATION_NAME: Final = "gen_ai.operation.name"
"""`invoke_workflow`, `chat` or `execute_tool`. On runs, model calls, tool calls."""
AGENT_NAME: Final = "gen_ai.agent.name"
"""Name of the graph. On runs."""
PROVIDER_NAME: Final = "gen_ai.provider.name"
"""The provider, if the name of the model begins with it (`openai/gpt-5`), else `unknown`. On model calls."""
CONVERSATION_ID: Final = "gen_ai.conversation.id"
"""Id of the thread, with its tenant (`acme~t`). On all spans of a thread."""
REQUEST_MODEL: Final = "gen_ai.request.model"
"""The requested model. On model calls."""
RESPONSE_MODEL: Final = "gen_ai.response.model"
"""The model that answered. On model calls."""
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
"""Why the model stopped. On model calls."""
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
"""Tokens that were sent. On model calls."""
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
"""Tokens that the model wrote. On model calls."""
CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
"""Sent tokens that the provider had in its cache. On model calls."""
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
"""Tokens written that were spent on thinking. On model calls."""
TOKEN_MODALITY: Final = "gen_ai.token.modality"  # noqa: S105 - a name
"""`unknown`: usage is not split by text, images and audio. On counters of tokens."""
TOOL_NAME: Final = "gen_ai.tool.name"
"""Name of the tool. On tool calls."""
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
"""Id of the call, assigned by the model. On tool calls."""
TOOL_TYPE: Final = "gen_ai.tool.type"
"""`function`. On tool calls."""
INPUT_MESSAGES: Final = "gen_ai.input.messages"
"""The request, as JSON; only with `content=`. On model calls."""
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
"""The reply, as JSON; only with `content=`. On model calls."""
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
"""The arguments, as JSON; only with `content=`. On tool calls."""
TOOL_RESULT: Final = "gen_ai.tool.call.result"
"""The result for the model; only with `content=`. On tool calls."""
ERROR_TYPE: Final = "error.type"
"""Class of the error; `OwnerDied` for a run whose owner died, `tool_error` for a failure that the model received. On
failed spans."""

# -- attributes of graphrt -----------------------------------------------------------------------------------------------

RUN_ID: Final = "graphrt.run.id"
"""Id of the run. On runs."""
RUN_VERB: Final = "graphrt.run.verb"
"""`run`, `resume` or `retry`. On runs."""
RUN_STATUS: Final = "graphrt.run.status"
"""`completed`, `interrupted`, `cancelled`, `failed`, or `lost` if its owner died. On runs."""
TAKEN_OVER: Final = "graphrt.run.taken_over"
"""True if the run took the thread over from a dead owner. On runs."""
NODE_NAME: Final = "graphrt.node.name"
"""Name of the node. On tasks."""
TASK_ID: Final = "graphrt.task.id"
"""Id of the task. On tasks."""
SUPERSTEP_NUMBER: Final = "graphrt.superstep"
"""Number of the superstep. On supersteps, tasks."""
ATTEMPT: Final = "graphrt.attempt"
"""Attempts that the run made. On tasks."""
OUTCOME: Final = "graphrt.outcome"
"""`success`, `error`, `interrupted` or `stopped`. On tasks."""
ROUTE_TAKEN: Final = "graphrt.route.taken"
"""Names of the nodes that became due. On tasks."""
BUSY_S: Final = "graphrt.node.busy_s"
"""Seconds of the attempts, without the waits between them. On tasks, live."""
TIMES: Final = "graphrt.times"
"""`bounded` if the span was not measured, and has the times of its superstep. On tasks, model calls."""
COST_USD: Final = "graphrt.usage.cost_usd"
"""Price of the call, if it is known. On model calls."""
UNREPORTED_CALLS: Final = "graphrt.usage.unreported_calls"
"""Calls without usage reported by the provider, including failed attempts that were billed. On model calls."""
FIRST_SEQ: Final = "graphrt.commit.first_seq"
"""Number of the first entry. On commits."""
LAST_SEQ: Final = "graphrt.commit.last_seq"
"""Number of the last entry. On commits."""
SIZE: Final = "graphrt.commit.size"
"""Bytes. On commits."""
LINK: Final = "graphrt.link"
"""`previous-run`, `forked-from`, `caller` or `parent-thread`. On links."""
FORKED_AT: Final = "graphrt.fork.at"
"""Entry of the source that a fork is based on. On `graphrt.edit`."""
DELAY_S: Final = "graphrt.retry.delay_s"
"""Seconds until the next attempt. On `graphrt.retry`."""
GRAPH: Final = "graphrt.graph"
"""Name of the graph. On metrics."""
STATUS: Final = "graphrt.thread.status"
"""Status of the threads. On `graphrt.threads`."""

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
RETRIES: Final = ("graphrt.retries", "{retry}", "Attempts of tasks that failed and were followed by another attempt")
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
"""Prefixes of models that the conventions spell differently."""


def provider_of(model: str) -> str:
    """Return the `gen_ai.provider.name` of a *model*, whose name may begin with its provider: `openai/gpt-5`."""
    prefix, slash, _ = model.partition("/")
    return _PROVIDERS.get(prefix, prefix) if slash and prefix else "unknown"
