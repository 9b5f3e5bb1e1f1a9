"""Shared parts of the tests of node objects: models that answer by rule, and readers of records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphrt.compat.lar import AddValueNode, GraphExecutor, LLMNode, RunOutcome
from graphrt.errors import RateLimitError
from graphrt.events import Usage
from graphrt.harness import AgentReply, FunctionModel, ModelProfile, ModelRequest

NOTHING = {"added": {}, "removed": {}, "updated": {}, "modified": {}}


def three_steps() -> AddValueNode:
    return AddValueNode("a", 1, AddValueNode("b", [1, 2], AddValueNode("a", 2)))


def asking(prompt: str, key: str, next_node: Any = None) -> LLMNode:
    return LLMNode("m", prompt, key, next_node)


def broken() -> None:
    raise ValueError("no route to host")


def busy(request: ModelRequest) -> str:
    raise RateLimitError("slow down", status_code=429)


def prompt_of(request: ModelRequest) -> str:
    return request.messages[-1].text


def model(
    answer: Callable[[ModelRequest], str] | str = "TEXT", *, prompt_tokens: int = 42, output_tokens: int | None = 1
) -> FunctionModel:
    """A model that reports the same usage for each call, bounded by `max_tokens` as a real one.

    Args:
        answer: The answer, or a function of the request.
        prompt_tokens: Tokens that each prompt takes.
        output_tokens: Tokens that each answer takes; None uses the whole limit.
    """

    def reply(request: ModelRequest) -> AgentReply:
        most = request.max_tokens if request.max_tokens is not None else 10**6
        written = most if output_tokens is None else min(most, output_tokens)
        text = answer if isinstance(answer, str) else answer(request)
        return AgentReply(text=text, usage=Usage(input_tokens=prompt_tokens, output_tokens=written, calls=1))

    return FunctionModel(reply, profile=ModelProfile(name="scripted", count_tokens=lambda request: prompt_tokens))


def echo() -> FunctionModel:
    """A model that answers with its prompt in capitals."""
    return model(lambda request: prompt_of(request).upper())


def run(start: Any, state: dict[str, Any] | None = None, **options: Any) -> RunOutcome:
    """Run node objects whose model is named "m" and answers by *model*, if set."""
    answering = options.pop("model", None)
    max_steps = options.pop("max_steps", 100)
    models = {"m": answering} if answering is not None else None
    return GraphExecutor(models=models, **options).run(start, state or {}, max_steps=max_steps)


def path(outcome: RunOutcome) -> list[tuple[str, str]]:
    """Classes and outcomes of the steps."""
    return [(record["node"], record["outcome"]) for record in outcome.records]
