"""Errors of model calls through litellm, and of the switch that forbids real model requests."""

from __future__ import annotations

from graphrt.errors import (
    AuthenticationError,
    BadRequestError,
    BadResponseError,
    ContextOverflowError,
    HarnessError,
    ModelRequestForbiddenError,
    RateLimitError,
    RefusalError,
    TransientModelError,
)
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._error_code import ErrorCode

MODEL_REQUEST_FORBIDDEN = ErrorCode(
    "model-request-forbidden",
    ModelRequestForbiddenError,
    "A real request{sender}{inside} to model {model!r} is forbidden.",
    fix="Replace the model: Runtime(graph, models={{{name}: ScriptedModel([...])}}), or `with "
    "agent.override(model=...)`; or replace the harness: harness=MockHarness([...]).",
)

CALL_UNAUTHORIZED = ErrorCode(
    "authentication",
    AuthenticationError,
    "The model call failed{with_status}: {reason}",
    fix="Check the api_key of the model, or the provider's environment variable.",
)

NO_API_KEY = ErrorCode(
    "no-api-key",
    AuthenticationError,
    "The model call failed{with_status}: {reason}",
    fix="Give api_key=, or set the provider's environment variable.",
)

CONTEXT_OVERFLOW = ErrorCode(
    "context-overflow",
    ContextOverflowError,
    "The model call failed{with_status}: {reason}",
    fix="Shorten the conversation, or choose a model with a longer context.",
)

RATE_LIMITED = ErrorCode(
    "rate-limit",
    RateLimitError,
    "The model call failed{with_status}: {reason}",
    fix="Wait and retry, or check the quota of the account.",
)

TRANSIENT_MODEL = ErrorCode(
    "transient-model",
    TransientModelError,
    "The model call failed{with_status}: {reason}",
    fix="Retry; if it persists, check the address and the network, and look at the provider's status page.",
)

BAD_MODEL_REQUEST = ErrorCode(
    "bad-request",
    BadRequestError,
    "The model call failed{with_status}: {reason}",
    fix="Check the model's name and the options of the call.",
)

UNKNOWN_MODEL = ErrorCode(
    "unknown-model",
    BadRequestError,
    "The model call failed{with_status}: {reason}",
    fix='Write the model as "provider/model", such as "openai/gpt-4o-mini", with a name that the provider offers.',
)

REFUSAL = ErrorCode(
    "refusal",
    RefusalError,
    "The model call failed{with_status}: {reason}",
    fix="Change the request; repeating it will not help.",
)

BAD_RESPONSE = ErrorCode(
    "bad-response",
    BadResponseError,
    "The model call failed{with_status}: {reason}",
    fix="Check that the address is that of a chat completions endpoint, and for a stream, that it can stream.",
)

ANSWER_OUT_OF_BOUNDS = ErrorCode(
    "unreadable-answer",
    BadResponseError,
    "The model call failed{with_status}: {reason}",
    fix="Check that the address is that of a chat completions endpoint.",
)

HARNESS_CANNOT_SEND = ErrorCode(
    "harness",
    HarnessError,
    "The model call failed{with_status}: {reason}",
    fix="Check api_base, and the headers in options.",
)
LIBRARY_FAILED = HARNESS_CANNOT_SEND.variant(
    "The model call failed{with_status}: {reason}",
    fix="Look at the text above; it came from the provider's library, not from the provider.",
)


REDIRECTED = ErrorCode(
    "redirected",
    BadRequestError,
    "The provider's address answered with status {status_code}, a redirect{to_origin}. It was not followed.",
    fix="Set api_base to the final address, if you trust it: redirects are never followed, because the "
    "prompt would be sent to an address that you did not choose.",
)

MODEL_TIMEOUT = ErrorCode(
    "model-timeout",
    TransientModelError,
    "The model call timed out: {what_for} took longer than {timeout_s:g} s.",
    fix="Retry, or give the harness a longer timeout_s.",
)

OPTIONS_CLASH = INVALID_ARGUMENT.variant(
    "options contains {value:names}, which the model sets itself.",
    fix="Use the argument of LiteLLMModel or the field of the request instead.",
)
UNGUARDED_PROVIDER = INVALID_ARGUMENT.variant(
    "{prefix!r} has an HTTP client of its own, which follows redirects and reads answers of any size.",
    fix='Write the model as "openai/...": it speaks the same format.',
)
