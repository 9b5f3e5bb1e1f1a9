"""Errors of model calls through litellm, and of the switch that forbids real model requests."""

from __future__ import annotations

from typing import Final

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
from graphrt.errors._error_code import ErrorCode

MODEL_REQUEST_FORBIDDEN = ErrorCode(
    "model-request-forbidden",
    ModelRequestForbiddenError,
    "A real request{sender}{inside} to model {model!r} is forbidden.",
    fix="Replace the model: Runtime(graph, models={{{name}: ScriptedModel([...])}}), or `with "
    "agent.override(model=...)`. If the agent is the harness of the run, harness=MockHarness([...]) replaces it.",
)

_FAILED: Final = "The model call failed{with_status}: {reason}"

CALL_UNAUTHORIZED = ErrorCode(
    "authentication",
    AuthenticationError,
    _FAILED,
    fix="Check the api_key of the model, or the provider's environment variable.",
)
NO_API_KEY = ErrorCode(
    "no-api-key", AuthenticationError, _FAILED, fix="Pass api_key=, or set the provider's environment variable."
)
CONTEXT_OVERFLOW = ErrorCode(
    "context-overflow",
    ContextOverflowError,
    _FAILED,
    fix="Shorten the conversation, or choose a model with a longer context.",
)
RATE_LIMITED = ErrorCode(
    "rate-limit", RateLimitError, _FAILED, fix="Wait and retry, or raise the account's rate limit."
)
NO_CREDIT = ErrorCode(
    "no-credit", BadRequestError, _FAILED, fix="Add credit to the account, or raise its limit. A retry would not help."
)
NO_QUOTA = NO_CREDIT.variant(_FAILED, error=RateLimitError, fix=NO_CREDIT.fix)
NO_CREDIT_FOR_KEY = NO_CREDIT.variant(_FAILED, error=AuthenticationError, fix=NO_CREDIT.fix)
TRANSIENT_MODEL = ErrorCode(
    "transient-model",
    TransientModelError,
    _FAILED,
    fix="Retry; if it persists, check the address and the network, and look at the provider's status page.",
)
BAD_REQUEST = ErrorCode(
    "bad-request", BadRequestError, _FAILED, fix="Check the model's name, the options of the call, and api_base."
)
NOT_SENT = BAD_REQUEST.variant(
    _FAILED, fix="Follow the text, which is litellm's: the provider has not seen the request."
)
UNKNOWN_MODEL = ErrorCode(
    "unknown-model",
    BadRequestError,
    _FAILED,
    fix='Write the model as "provider/model", such as "openai/gpt-4o-mini", with a name that the provider offers.',
)
REFUSAL = ErrorCode("refusal", RefusalError, _FAILED, fix="Change the request; repeating it will not help.")
BAD_RESPONSE = ErrorCode(
    "bad-response",
    BadResponseError,
    _FAILED,
    fix="Try again. If the answer does not come from a model, correct api_base.",
)
NOT_A_STREAM = BAD_RESPONSE.variant(
    _FAILED, fix="Call the model without streaming, unless the answer shows that api_base is wrong."
)
ANSWER_OUT_OF_BOUNDS = ErrorCode(
    "unreadable-answer", BadResponseError, _FAILED, fix="Check what answers at api_base: a retry would get the same."
)
HARNESS_CANNOT_SEND = ErrorCode(
    "harness",
    HarnessError,
    _FAILED,
    fix="Check api_base, which begins with http:// or https://, and the headers in options.",
)
REDIRECTED = ErrorCode(
    "redirected",
    BadRequestError,
    "The provider's address answered with status {status_code}, a redirect{to_origin}. It was not followed.",
    fix="Set api_base to the final address, if you trust it. Redirects are not followed, since they could leak the prompt.",
)

MEDIA_NOT_TAKEN = ErrorCode(
    "media-not-taken",
    BadRequestError,
    "Model {model!r} takes no {kinds}. The request has {part!r}, and was not sent.",
    fix="Choose another model. If this one does take them, say so: "
    "LiteLLMModel(..., profile=dataclasses.replace(model.profile, {kinds}=True)).",
)
MEDIA_URL_NOT_TAKEN = MEDIA_NOT_TAKEN.variant(
    "Provider {provider!r} does not fetch {part!r} itself, and graphrt fetches no URL. The request was not sent.",
    fix="Download the file where that is safe, and pass its bytes: Image.from_bytes(...).",
)
MEDIA_LEFT_OUT = MEDIA_NOT_TAKEN.variant(
    "For model {model!r}, litellm would leave out {part!r}. The request was not sent.",
    fix="Choose a model that takes it, or describe it in words.",
)
AUDIO_FORMAT_NOT_TAKEN = MEDIA_NOT_TAKEN.variant(
    "Provider {provider!r} takes {takes}. The request has {part!r}, and was not sent.",
    fix="Convert the audio, or choose another model.",
)

MODEL_TIMEOUT = ErrorCode(
    "model-timeout",
    TransientModelError,
    "The model call timed out: {what_for} took longer than {timeout_s:g} s.",
    fix="Retry, or give the harness a longer timeout_s.",
)
