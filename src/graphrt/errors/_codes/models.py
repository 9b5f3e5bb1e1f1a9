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
    where="model {model!r}",
)

NO_API_KEY = ErrorCode(
    "no-api-key",
    AuthenticationError,
    "The model call failed{with_status}: {reason}",
    fix="Give api_key=, or set the provider's environment variable.",
    where="model {model!r}",
)
API_KEY_NOT_SET = NO_API_KEY.variant(
    "There is no API key for {provider!r}: {variables} is not set.",
    fix="Set the environment variable {variables}, or give api_key=.",
)

CONTEXT_OVERFLOW = ErrorCode(
    "context-overflow",
    ContextOverflowError,
    "The model call failed{with_status}: {reason}",
    fix="Shorten the conversation, or choose a model with a longer context.",
    where="model {model!r}",
)

RATE_LIMITED = ErrorCode(
    "rate-limit",
    RateLimitError,
    "The model call failed{with_status}: {reason}",
    fix="Wait and retry, or check the quota of the account.",
    where="model {model!r}",
)

TRANSIENT_MODEL = ErrorCode(
    "transient-model",
    TransientModelError,
    "The model call failed{with_status}: {reason}",
    fix="Retry; if it persists, check the address and the network, and look at the provider's status page.",
    where="model {model!r}",
)

BAD_MODEL_REQUEST = ErrorCode(
    "bad-request",
    BadRequestError,
    "The model call failed{with_status}: {reason}",
    fix="Check the model's name and the options of the call.",
    where="model {model!r}",
)

UNKNOWN_MODEL = ErrorCode(
    "unknown-model",
    BadRequestError,
    "The model call failed{with_status}: {reason}",
    fix='Write the model as "provider/model", such as "openai/gpt-4o-mini", with a name that the provider offers.',
    where="model {model!r}",
)

REFUSAL = ErrorCode(
    "refusal",
    RefusalError,
    "The model call failed{with_status}: {reason}",
    fix="Change the request; repeating it will not help.",
    where="model {model!r}",
)

BAD_RESPONSE = ErrorCode(
    "bad-response",
    BadResponseError,
    "The model call failed{with_status}: {reason}",
    fix="Check that the address is that of a chat completions endpoint.",
    where="model {model!r}",
)
NO_ANSWER_OF_MODEL = BAD_RESPONSE.variant(
    "The provider sent {answer}.",
    fix="Check that the address is that of a chat completions endpoint, and that it can stream.",
)

ANSWER_OUT_OF_BOUNDS = ErrorCode(
    "unreadable-answer",
    BadResponseError,
    "The model call failed{with_status}: {reason}",
    fix="Check that the address is that of a chat completions endpoint.",
    where="model {model!r}",
)

HARNESS_CANNOT_SEND = ErrorCode(
    "harness",
    HarnessError,
    "The model call failed{with_status}: {reason}",
    fix="Check api_base, and the headers in options.",
    where="model {model!r}",
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
    where="model {model!r}",
)

MODEL_TIMEOUT = ErrorCode(
    "model-timeout",
    TransientModelError,
    "The model call timed out: {what_for} took longer than {timeout_s:g} s.",
    fix="Retry, or give the harness a longer timeout_s.",
    where="model {model!r}",
)

OPTIONS_CLASH = INVALID_ARGUMENT.variant(
    "options contains {value:names}, which the model sets itself.",
    fix="Use the argument of LiteLLMModel or the field of the request instead.",
)
UNGUARDED_PROVIDER = INVALID_ARGUMENT.variant(
    "{prefix!r} has an HTTP client of its own, which follows redirects and reads answers of any size.",
    fix='Write the model as "openai/...": it speaks the same format.',
)
