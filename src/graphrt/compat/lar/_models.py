"""The models that answer an `LLMNode`, by the names that nodes use; and the bound on a call by the remaining budget."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Final
from weakref import WeakKeyDictionary

from pydantic_core import to_json

from graphrt._arguments import is_mapping
from graphrt._drivers.context import Context
from graphrt.compat.lar._nodes import LLMNode
from graphrt.errors import HarnessError
from graphrt.errors._codes.compat import EMPTY_ANSWER, MODEL_GAVE_UP, OFFLINE_MODEL
from graphrt.harness import (
    Agent,
    AgentReply,
    ChatModel,
    LiteLLMModel,
    Middleware,
    ModelProfile,
    ModelRequest,
    ModelResponse,
    ResponseCache,
    StreamItem,
    TextDelta,
)
from graphrt.limits import RetryPolicy

_THOUGHTS: Final = re.compile(r"<think>(.*?)(?:</think>|\Z)", re.DOTALL)
"""Thinking inside a text. It has no end tag if the model was cut off."""
_OWN_OPTIONS: Final = ("max_tokens", "temperature", "top_p", "stop", "seed")
"""Keys of `generation_config` that every harness knows."""
_TOKENS_AROUND_A_MESSAGE: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """Finds the models of an executor.

    An unknown name is a model of litellm, unless the run is offline.
    """

    given: Mapping[str, ChatModel] = field(default_factory=dict[str, ChatModel])
    offline: bool = False
    caches: WeakKeyDictionary[LLMNode, ResponseCache] = field(default_factory=WeakKeyDictionary[LLMNode, ResponseCache])
    """Caches of node objects with `caching`, for the lifetime of the objects."""

    def named(self, name: str, tries: list[str]) -> NamedModel:
        """Return the model of that name.

        Args:
            name: As nodes use it.
            tries: Collects the name whenever the model is called.

        Raises:
            InputError: It would be called over the network, and the run is offline (`offline`).
        """
        known = self.given.get(name)
        if known is None:
            if self.offline:
                raise OFFLINE_MODEL(name=name, models=self.given)
            known = LiteLLMModel(name)
        return NamedModel(known, name, tries)

    def cache_of(self, node: LLMNode) -> ResponseCache | None:
        """Return the cache of a node object; None if it has none."""
        return self.caches.setdefault(node, ResponseCache()) if node.caching else None


class NamedModel:
    """A model under the name that nodes use, so that tokens are counted under this name."""

    def __init__(self, model: ChatModel, name: str, tries: list[str]) -> None:
        self._model: Final = model
        self._name: Final = name
        self._tries: Final = tries

    @property
    def profile(self) -> ModelProfile:
        """The model's profile under the other name, with an upper bound of tokens if the model cannot count."""
        known = self._model.profile
        return replace(known, name=self._name, count_tokens=known.count_tokens or _at_most)

    @property
    def cache_identity(self) -> str:
        """The name, since it identifies one model within an executor, and so within a cache."""
        return self._name

    async def invoke(self, request: ModelRequest, /) -> ModelResponse:
        """Ask the model."""
        self._tries.append(self._name)
        return replace(await self._model.invoke(request), model=self._name)

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamItem, None]:
        """Ask the model and yield the pieces of its answer."""
        self._tries.append(self._name)
        items: Any = self._model.stream(request)
        async with aclosing(items):
            async for item in items:
                yield self._renamed(item)

    def _renamed(self, item: Any) -> Any:
        reply_class: Any = AgentReply  # untyped, because narrowing would make the item a reply with an unknown output
        return replace(item, model=self._name) if isinstance(item, reply_class) else item

    def __graphrt_check_real__(self, request: ModelRequest | None = None) -> None:
        """Let the model check a real request, as it would under its own name."""
        check = getattr(self._model, "__graphrt_check_real__", None)
        if check is not None:
            check(request)


def _at_most(request: ModelRequest) -> int:
    """Return an upper bound of the tokens of *request*: one per byte, plus some for each message."""
    texts = sum(len(message.text.encode()) for message in request.messages)
    around = _TOKENS_AROUND_A_MESSAGE * len(request.messages)
    return texts + around + (len(to_json(request.output, fallback=repr)) if request.output is not None else 0)


class BoundByBudget(Middleware):
    """Lowers `max_tokens` to the remaining budgets of the task, so that no call can exceed them.

    Without it, a call without `max_tokens` could not be made under a budget at all.
    """

    def __init__(self, ctx: Context[Any], models: tuple[NamedModel, ...]) -> None:
        self._ctx: Final = ctx
        self._models: Final = models

    async def before_model(self, request: ModelRequest) -> ModelRequest:
        """Return the request with the bound."""
        ledger = self._ctx.budget
        remaining = [level.remaining_tokens for level in ledger.chain()] if ledger is not None else []
        limited = [tokens for tokens in remaining if tokens is not None]
        if not limited:
            return request
        profiles = [model.profile for model in self._models]
        reads = max(profile.count_tokens(request) for profile in profiles if profile.count_tokens is not None)
        # With less than one token left, the budget itself refuses the call and gives the reason.
        bounds = [request.max_tokens, profiles[0].max_output_tokens, max(1, min(limited) - reads)]
        return replace(request, max_tokens=min(bound for bound in bounds if bound is not None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A model's answer, with its thinking separated."""

    text: str
    thinking: str
    reply: AgentReply
    model: str
    """The name of the model that answered, as nodes use it."""


async def answer(node: LLMNode, prompt: str, ctx: Context[Any], models: Models, agent_name: str) -> Answer:
    """Ask the model of *node*.

    Raises:
        HarnessError: The call failed; `model-gave-up` after retries.
        BudgetExceededError: The call does not fit a budget, and was not made.
        NodeError: The answer is empty (`node-object-failed`).
        InputError: The run is offline, and the model was not given (`offline`).
    """
    tries: list[str] = []
    known = tuple(models.named(name, tries) for name in (node.model_name, *node.fallbacks))
    agent = Agent(
        known[0],
        name=agent_name,
        fallbacks=known[1:],
        retry=RetryPolicy(node.max_retries + 1, wait_initial_s=1.0),
        cache=models.cache_of(node),
        middleware=[BoundByBudget(ctx, known)],
        sinks=[_to_stdout] if node.stream else [],
    )
    try:
        reply = await ctx.bind(agent).run(prompt, **_options(node))
    except HarnessError as error:
        last = tries.count(tries[-1]) - 1 if tries else 0
        if not last:
            raise
        status = f"{error.status_code} " if error.status_code else ""
        gave_up: dict[str, Any] = {"model": tries[-1], "status_code": error.status_code}
        raise MODEL_GAVE_UP(
            status=status, node=type(node).__name__, retries=last, cause=error.what, **gave_up
        ) from error
    text, thinking = _apart(reply.text, reply.thinking)
    if not text:
        raise EMPTY_ANSWER(model=node.model_name)
    return Answer(text=text, thinking=thinking, reply=reply, model=reply.model or node.model_name)


def _options(node: LLMNode) -> Any:
    config = dict(node.generation_config)
    options: dict[str, Any] = {key: config.pop(key) for key in _OWN_OPTIONS if key in config}
    if node.system_instruction is not None:
        options["system"] = node.system_instruction
    form: Any = node.response_format
    if is_mapping(form):
        config["response_format"] = form
    elif form is not None:
        options["output"] = form
    if config:
        options["options"] = config
    return options


def _apart(text: str, thinking: str) -> tuple[str, str]:
    """Split a model's text into the answer and the thinking."""
    thoughts = [part.strip() for part in _THOUGHTS.findall(text)]
    visible = _THOUGHTS.sub("", text)
    if "</think>" in visible:  # the opening tag is missing, so everything before the closing tag is thinking
        before, _, visible = visible.partition("</think>")
        thoughts.append(before.strip())
    return visible.strip(), "\n".join(part for part in (thinking, *thoughts) if part)


def _to_stdout(item: Any) -> None:
    if isinstance(item, TextDelta):
        import sys

        sys.stdout.write(item.text)
        sys.stdout.flush()
