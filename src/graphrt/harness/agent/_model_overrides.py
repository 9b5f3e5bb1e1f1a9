"""Which model an agent asks: its own, or one that a test or a runtime has put in its place.

Replacements stand in a context variable, innermost last: asyncio tasks and the worker threads that graphrt starts see
those of whoever started them. What a replaced model is asked, and what is remembered of it, is the agent's business.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, final

from graphrt._ambient import REPLACED
from graphrt.errors import InputError, a_type, closest, names
from graphrt.harness.agent._arguments import checked_model

if TYPE_CHECKING:
    from types import TracebackType

    from graphrt.harness.agent.agent import Agent
    from graphrt.harness.protocol import ChatModel

__all__ = ["NamedModels", "Override", "Replaceable", "models_of"]

F = TypeVar("F", bound=Callable[..., Any])


def models_of(agent: Agent[Any]) -> tuple[ChatModel, ...]:
    """The models that *agent* asks here, in turn; one that replaces its model has no fallbacks.

    An override names the agent itself, a runtime only its name: the innermost override decides, then the innermost
    runtime.
    """
    layers = REPLACED.get()
    if not layers:
        return agent.models
    found = [(layer.precise, model) for layer in layers if (model := layer.of(agent)) is not None]
    precise = [model for is_precise, model in found if is_precise]
    return (precise[-1] if precise else found[-1][1],) if found else agent.models


@final
class NamedModels:
    """The models of a runtime, by the names of the agents that are to use them.

    Raises:
        InputError: It is not a mapping from names of agents to models (`no-model` for what is not a model).
    """

    __slots__ = ("_asked", "models")
    precise: ClassVar[bool] = False

    def __init__(self, models: Mapping[Any, Any]) -> None:
        given: Any = models  # callers without a type checker get here too
        if not isinstance(given, Mapping):
            raise InputError(
                f"models= must be a mapping from names of agents to models, not {a_type(given)}.",
                code="bad-models",
                fix='Pass models={"writer": ScriptedModel([...])}, where an agent is named Agent(..., name="writer").',
                value=models,
            )
        wrong = [name for name in models if not isinstance(name, str) or not name or "/" in name]
        if wrong:
            raise InputError(
                f"models= has the key {wrong[0]!r}, which cannot be the name of an agent.",
                code="bad-models",
                known="the name of an agent is a text without '/'",
                fix='Use the name that the agent was given: Agent(..., name="writer").',
                value=wrong[0],
            )
        self.models: Final[Mapping[str, ChatModel]] = {
            name: checked_model(model, of=f"models= for agent {name!r}") for name, model in models.items()
        }
        self._asked: Final[dict[str, None]] = {}

    def of(self, agent: Agent[Any]) -> ChatModel | None:
        """The model that *agent* is to use; None leaves its own."""
        self._asked[agent.name] = None
        return self.models.get(agent.name)

    def unmet(self) -> list[str]:
        """A warning for each name that no agent had which was run so far, in the order in which they were given."""
        asked = sorted(self._asked)
        told: list[str] = []
        for name in self.models:
            if name in self._asked:
                continue
            near = closest(name, asked)
            meant = f"; did you mean {near!r}?" if near else "."
            told.append(
                f"models= has {name!r}, but no agent of that name was run. Agents that were: {names(asked) or 'none'}{meant}"
            )
        return told


@final
class Override:
    """A model in the place of one agent's own, inside a `with` block or a decorated function: see `Agent.override`."""

    __slots__ = ("_agent", "_model")
    precise: ClassVar[bool] = True

    def __init__(self, agent: Agent[Any], model: ChatModel | str) -> None:
        self._agent = agent
        self._model: ChatModel = checked_model(model)

    def of(self, agent: Agent[Any]) -> ChatModel | None:
        """The model that *agent* is to use; None leaves its own."""
        return self._model if agent is self._agent else None

    def __enter__(self) -> ChatModel:
        REPLACED.set((*REPLACED.get(), self))
        return self._model

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        layers = REPLACED.get()
        mine = [place for place, layer in enumerate(layers) if layer is self]
        if mine:  # none, if a fixture leaves the block in another context than it entered it
            REPLACED.set((*layers[: mine[-1]], *layers[mine[-1] + 1 :]))

    def __call__(self, fn: F, /) -> F:
        """Decorate a function, sync or async: the model is replaced during each call of it.

        Raises:
            InputError: *fn* is a generator, whose body runs after the call.
        """
        if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
            raise InputError(
                f"override() cannot decorate {fn.__qualname__}(), which is a generator: its body runs after the call.",
                code="bad-override",
                fix="Write `with agent.override(model=...):` inside of it.",
            )
        if inspect.iscoroutinefunction(fn):

            @wraps(fn)
            async def during(*args: Any, **kwargs: Any) -> Any:
                with Override(self._agent, self._model):
                    return await fn(*args, **kwargs)

            wrapped: Any = during
        else:

            @wraps(fn)
            def around(*args: Any, **kwargs: Any) -> Any:
                with Override(self._agent, self._model):
                    return fn(*args, **kwargs)

            wrapped = around
        decorated: F = wrapped
        return decorated

    def __repr__(self) -> str:
        return f"{self._agent!r}.override(model={self._model!r})"


class Replaceable:
    """What an Agent has of this."""

    __slots__ = ()

    def override(self, *, model: ChatModel | str) -> Override:
        """Put *model* in the place of this agent's own, and of its fallbacks, inside a `with` block: for tests.

        `with agent.override(model=ScriptedModel([...])) as model:` is seen by everything that is called inside of the
        block: asyncio tasks, the worker threads that graphrt starts, graphs, and agents that have this one as a tool.
        Blocks nest, and the innermost one decides; it also wins over the `models=` of a runtime. It decorates functions,
        sync and async, too.

        Args:
            model: The model, or the name of one for `LiteLLMModel`.

        Raises:
            InputError: It is not a model (`no-model`).
        """
        agent: Any = self  # the Agent has the rest
        return Override(agent, model)
