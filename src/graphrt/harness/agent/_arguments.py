"""Checks of the arguments of an Agent: model, name, policies, middleware. No model or tool is called here."""

from __future__ import annotations

from inspect import signature
from typing import Any

from graphrt._arguments import each, is_number
from graphrt.errors import a_type
from graphrt.errors._codes.agents import (
    BAD_MIDDLEWARE,
    LAYER_SIGNATURE,
    NO_MODEL,
)
from graphrt.errors._codes.arguments import ARGUMENT_OUT_OF_BOUNDS, INVALID_ARGUMENT
from graphrt.harness._harness_checks import usable
from graphrt.harness.agent.events import EventSink
from graphrt.harness.agent.middleware import HOOKS, LAYER, Middleware
from graphrt.harness.protocol import ChatModel, ModelProfile
from graphrt.limits import RetryPolicy

__all__ = [
    "checked_choice",
    "checked_fallbacks",
    "checked_layers",
    "checked_model",
    "checked_name",
    "checked_retry",
    "checked_sinks",
]


def checked_model(value: Any, *, of: str = "An agent's model") -> ChatModel:
    """Return *value* if it is a model, or the `LiteLLMModel` that it names.

    Args:
        value: A ChatModel, or a name such as "openai/gpt-4o-mini".
        of: Beginning of the error's sentence: whose model it is.

    Raises:
        InputError: It is a class, or lacks a method or property of a ChatModel (`no-model`).
    """
    if isinstance(value, str):
        from graphrt.harness.litellm._model import LiteLLMModel

        return LiteLLMModel(value)
    is_class = isinstance(value, type)
    missing = [name for name in ("invoke", "stream", "profile") if is_class or not hasattr(value, name)]
    if missing:
        if isinstance(value, type):
            raise NO_MODEL(
                of=of,
                given=f"the class {value.__name__}",
                lack="a class is not a model: its instances are",
                value=value,
            )
        harness_hint = "That is a harness: give a ScriptedModel where you would give a MockHarness."
        raise NO_MODEL(
            of=of,
            given=a_type(value),
            lack=f"it has no {', '.join(missing)}",
            value=value,
            fix=harness_hint if usable(value, "run") else None,
        )
    if not isinstance(value.profile, ModelProfile):  # a chat model of LangChain has these three names too
        raise NO_MODEL(of=of, given=a_type(value), lack="its profile is not a ModelProfile", value=value)
    model: ChatModel = value
    return model


def checked_name(name: Any) -> str:
    if not isinstance(name, str) or not name or "/" in name:  # "/" joins the names of nested agents
        raise INVALID_ARGUMENT(
            argument="The name of an agent", value=name, wanted="a text without '/', such as 'helper'"
        )
    return name


def checked_choice(option: str, value: Any) -> Any:
    if value not in ("return", "raise"):
        raise INVALID_ARGUMENT(argument=option, value=value, wanted="'return' or 'raise'")
    return value


def checked_fallbacks(fallbacks: Any) -> tuple[ChatModel, ...]:
    return tuple(checked_model(fallback) for fallback in each("fallbacks", fallbacks))


def checked_retry(policy: Any) -> RetryPolicy:
    """Return *policy* as a RetryPolicy: a number sets the attempts, as for nodes, and None allows one attempt.

    Raises:
        InputError: It is something else, or has invalid values.
    """
    if policy is None:
        return RetryPolicy(attempts=1)
    if is_number(policy, whole=True):
        policy = RetryPolicy(policy)
    if not isinstance(policy, RetryPolicy):
        raise INVALID_ARGUMENT(
            argument="retry",
            value=policy,
            wanted="RetryPolicy(attempts=...), a number of attempts, or None to never repeat",
        )
    problems = list(policy.problems())
    if problems:
        raise ARGUMENT_OUT_OF_BOUNDS(
            problem=f"The retry policy of an agent is wrong: {'; '.join(problems)}",
            wanted="a correct one; RetryPolicy(attempts=1), or None, never repeats",
            value=policy,
        )
    return policy


def checked_sinks(value: Any) -> tuple[EventSink, ...]:
    sinks = each("sinks", value)
    for sink in sinks:
        if not callable(sink):
            raise INVALID_ARGUMENT(argument="A sink", value=sink, wanted="functions of one item")
    return sinks


def checked_layers(value: Any) -> tuple[Middleware, ...]:
    layers = each("middleware", value)
    for layer in layers:
        missing = [name for name in LAYER if isinstance(layer, type) or not callable(getattr(layer, name, None))]
        if missing:
            described = (
                f"the class {layer.__name__}" if isinstance(layer, type) else f"a value of type {type(layer).__name__}"
            )
            raise BAD_MIDDLEWARE(
                given=described,
                value=layer,
                known="a class is not a layer: its instances are"
                if isinstance(layer, type)
                else f"it has no {', '.join(missing)}",
            )
        _check_parameters(layer)
    return layers


def _check_parameters(layer: Any) -> None:
    """Check that the agent can call the methods of *layer*, before any model call is paid for.

    Raises:
        InputError: The parameters of a method do not fit (`bad-middleware`).
    """
    for name in HOOKS:
        method: Any = getattr(layer, name, None)
        parameters = [parameter for parameter in signature(getattr(Middleware, name)).parameters if parameter != "self"]
        try:
            shape = signature(method) if callable(method) else None
        except (TypeError, ValueError):
            continue  # written in C, without a signature
        try:
            if shape is not None:
                shape.bind(*parameters)
        except TypeError as error:
            raise LAYER_SIGNATURE(
                value=layer, name=name, shape=shape, arguments=", ".join(parameters), error=error
            ) from None
