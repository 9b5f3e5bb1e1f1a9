"""Replacement of agents' models by `Agent.override`, in tests, and by `Runtime(models=)` (decision 0039).

Replacements are kept in a context variable, innermost last. asyncio tasks and the worker threads that graphrt starts
copy it, so nested graphs, tools and sync nodes see them; a `threading.Thread` of the user does not.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, final

from graphrt._ambient import REPLACED
from graphrt.errors import closest, names
from graphrt.errors._codes.agents import OVERRIDE_OF_A_GENERATOR
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.harness.agent._arguments import checked_model

if TYPE_CHECKING:
    from types import TracebackType

    from graphrt.harness.agent.agent import Agent
    from graphrt.harness.protocol import ChatModel

__all__ = ["NamedModels", "Override", "Replaceable", "models_of"]

F = TypeVar("F", bound=Callable[..., Any])


def models_of(agent: Agent[Any]) -> tuple[ChatModel, ...]:
    """Return the models that *agent* uses in this context, in order of fallback. A replacement has no fallbacks.

    An override names the agent itself, a runtime only its name. So the innermost override wins, then the innermost
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
    """The replacements of a runtime: models by the names of the agents that shall use them.

    Raises:
        InputError: *models* is not a mapping from names of agents to models (`input`; `no-model` for a value that
            is not a model).
    """

    __slots__ = ("_asked", "models")
    precise: ClassVar[bool] = False
    """Whether a replacement is for one agent object, and not for all agents of a name."""

    def __init__(self, models: Mapping[Any, Any]) -> None:
        given: Any = models  # untyped: callers without a type checker pass anything
        if not isinstance(given, Mapping):
            raise INVALID_ARGUMENT(
                argument="models=",
                value=type(given),
                wanted='a mapping from names of agents to models, where a name is a text without "/": models={"writer": ScriptedModel([...])}',
            )
        wrong = [name for name in models if not isinstance(name, str) or not name or "/" in name]
        if wrong:
            raise INVALID_ARGUMENT(
                argument="A name in models=",
                value=wrong[0],
                wanted='a mapping from names of agents to models, where a name is a text without "/": models={"writer": ScriptedModel([...])}',
            )
        self.models: Final[Mapping[str, ChatModel]] = {
            name: checked_model(model, of=f"models= for agent {name!r}") for name, model in models.items()
        }
        self._asked: Final[dict[str, None]] = {}
        """Names of all agents that ran in the runtime, as an ordered set; a resume must not warn of earlier ones."""

    def of(self, agent: Agent[Any]) -> ChatModel | None:
        """Return the model that replaces those of *agent*; None for no replacement."""
        self._asked[agent.name] = None
        return self.models.get(agent.name)

    def unmet(self) -> list[str]:
        """Return a warning for each name that no agent of the runs so far had, in the order of the mapping."""
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
    """The replacement of one agent's model, inside a `with` block or a decorated function: see `Agent.override`."""

    __slots__ = ("_agent", "_model")
    precise: ClassVar[bool] = True

    def __init__(self, agent: Agent[Any], model: ChatModel | str) -> None:
        self._agent = agent
        self._model: ChatModel = checked_model(model)

    def of(self, agent: Agent[Any]) -> ChatModel | None:
        """Return the model that replaces those of *agent*; None for no replacement."""
        return self._model if agent is self._agent else None

    def __enter__(self) -> ChatModel:
        REPLACED.set((*REPLACED.get(), self))
        return self._model

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        layers = REPLACED.get()
        mine = [place for place, layer in enumerate(layers) if layer is self]
        if mine:  # empty if a fixture leaves the block in another context than it entered it in
            REPLACED.set((*layers[: mine[-1]], *layers[mine[-1] + 1 :]))

    def __call__(self, fn: F, /) -> F:
        """Decorate *fn*, sync or async: the model is replaced during each of its calls.

        Raises:
            InputError: *fn* is a generator function, whose body runs after the call (`bad-override`).
        """
        if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
            raise OVERRIDE_OF_A_GENERATOR(function=fn.__qualname__)
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
    """The method `override` of an Agent."""

    __slots__ = ()

    def override(self, *, model: ChatModel | str) -> Override:
        """Replace this agent's model, and its fallbacks, by *model* inside a `with` block: for tests.

        `with agent.override(model=ScriptedModel([...])) as model:` applies to everything that the block calls: asyncio
        tasks, the worker threads that graphrt starts, graphs, and agents that have this one as a tool. Blocks nest, and
        the innermost decides; it also wins over the `models=` of a runtime. The result also decorates functions, sync
        and async.

        Args:
            model: The model, or a model name for `LiteLLMModel`.

        Raises:
            InputError: It is not a model (`no-model`).
        """
        agent: Any = self  # the class Agent, which derives from this one
        return Override(agent, model)
