"""What an agent is made of, checked: its model, name, policies. Nothing is asked here."""

from __future__ import annotations

from typing import Any

from graphrt.errors import InputError
from graphrt.harness.protocol import ChatModel
from graphrt.limits import RetryPolicy

__all__ = ["checked_choice", "checked_model", "checked_name", "checked_retry"]


def checked_model(given: Any) -> ChatModel:
    if isinstance(given, str):
        from graphrt.harness.litellm_model import LiteLLMModel

        return LiteLLMModel(given)
    a_class = isinstance(given, type)
    missing = [name for name in ("invoke", "stream", "profile") if a_class or not hasattr(given, name)]
    if missing:
        raise InputError(
            f"An agent's model is the class {given.__name__}."
            if a_class
            else f"An agent's model is {type(given).__name__}, which has no {', '.join(missing)}.",
            code="no-model",
            known="a class is no model: its instances are" if a_class else "",
            fix='Give a ChatModel, or the name of a model such as "openai/gpt-4o-mini".',
            value=given,
        )
    model: ChatModel = given
    return model


def checked_name(name: Any) -> str:
    if not isinstance(name, str) or not name or "/" in name:
        raise InputError(f"The name of an agent must be a text without '/', not {name!r}.", value=name)
    return name


def checked_choice(option: str, value: Any) -> Any:
    if value not in ("return", "raise"):
        raise InputError(f"{option} must be 'return' or 'raise', not {value!r}.", value=value)
    return value


def checked_retry(policy: RetryPolicy | None) -> RetryPolicy:
    if policy is None:
        return RetryPolicy(attempts=1)
    problems = list(policy.problems())
    if problems:
        raise InputError(f"The retry policy of an agent is wrong: {'; '.join(problems)}.", value=policy)
    return policy
