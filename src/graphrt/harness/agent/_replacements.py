"""Replacement of agents' models by `Agent.override` and `Runtime(models=)`, and of tools by `Runtime(tools=)`, in tests.

Decisions 0039 and 0187.

Replacements are kept in the ambient context, innermost last. asyncio tasks and the worker threads that graphrt starts
copy them, so nested graphs, tools and sync nodes see them. A `threading.Thread` of the user does not.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeVar, final

from graphrt._ambient import SURROUNDINGS, surroundings
from graphrt._arguments import is_mapping
from graphrt.errors import ScriptError, closest, names
from graphrt.errors._codes.agents import OVERRIDE_OF_A_GENERATOR
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.harness._doubles.tool_doubles import DoubledTool, checked_double
from graphrt.harness.agent._arguments import checked_model
from graphrt.harness.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from types import TracebackType

    from graphrt.harness.protocol import ChatModel
    from graphrt.harness.tools.protocol import Tool

__all__ = ["NamedDoubles", "Override", "models_of", "tools_of"]

F = TypeVar("F", bound=Callable[..., Any])


class Modelled(Protocol):
    """The replaced parts of an `Agent`."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def models(self) -> tuple[ChatModel, ...]:
        """Its model and the fallbacks."""
        ...


def models_of(agent: Modelled) -> tuple[ChatModel, ...]:
    """Return the models that *agent* uses in this context, in order of fallback. A replacement has no fallbacks.

    An override identifies the agent object, and a runtime only the name. So the innermost override wins, then the
    innermost runtime.
    """
    layers = surroundings().doubles
    if not layers:
        return agent.models
    replacements = [(layer.precise, model) for layer in layers if (model := layer.of(agent)) is not None]
    precise = [model for is_precise, model in replacements if is_precise]
    return (precise[-1] if precise else replacements[-1][1],) if replacements else agent.models


def tools_of(registry: ToolRegistry) -> ToolRegistry:
    """Return *registry* with the doubles that the runtimes around give its tools. The innermost runtime decides."""
    layers = [layer for layer in surroundings().doubles if isinstance(layer, NamedDoubles)]
    if not layers or not registry:
        return registry
    return ToolRegistry(
        next((double for layer in reversed(layers) if (double := layer.tool(tool)) is not None), tool)
        for tool in registry
    )


@final
class NamedDoubles:
    """The replacements of a runtime: models by the names of agents, and tool results by the names of tools.

    Args:
        models: Maps names of agents to the models that they use; None for none.
        tools: Names of tools to their replacements: a function, a tool, or the result of `graphrt.testing.scripted`;
            None for none.

    Raises:
        InputError: *models* or *tools* is not a mapping from names (`input`), or has a value that is not a model
            (`no-model`) or cannot replace a tool (`input`).
    """

    __slots__ = ("_asked", "_called", "_offered", "for_one_run", "models", "saw_start", "tools")
    precise: ClassVar[bool] = False
    """Whether a replacement applies to one agent object rather than to all agents with a name."""

    def __init__(self, models: Mapping[Any, Any] | None, tools: Mapping[Any, Any] | None) -> None:
        self.models: Final[Mapping[str, ChatModel]] = {
            name: checked_model(model, of=f"models= for agent {name!r}")
            for name, model in _by_name("models=", models, _MODELS, without="/").items()
        }
        self.tools: Final[Mapping[str, Any]] = {
            name: checked_double(name, double) for name, double in _by_name("tools=", tools, _TOOLS, without="").items()
        }
        self.for_one_run: bool = False
        """Whether they belong to a single run of a graph, whose end then checks that tool scripts were used up."""
        self.saw_start: bool = False
        """Whether the runtime began a run. If it only resumed runs, their earlier agents may have used the replacements."""
        self._asked: Final[dict[str, None]] = {}
        """Names of all agents that ran in the runtime, or could have followed one that did, as an ordered set. A resume
        must not warn about earlier ones."""
        self._offered: Final[dict[str, None]] = {}
        """Names of all tools that these agents had, as an ordered set."""
        self._called: Final[dict[str, None]] = {}
        """Names of the tools that were called in place of the real ones."""

    def of(self, agent: Modelled) -> ChatModel | None:
        """Return the model that replaces those of *agent*; None for no replacement."""
        self._asked[agent.name] = None
        return self.models.get(agent.name)

    def tool(self, tool: Tool) -> Tool | None:
        """Return the double of *tool*, with its name, schema and policy; None for no replacement."""
        name = tool.spec.name
        self._offered[name] = None
        double = self.tools.get(name)
        return None if double is None else DoubledTool(tool, double, called=lambda: self._called.setdefault(name))

    def unmet(self) -> list[str]:
        """Return a warning for each replacement that the runs so far did not use, in the order of the mappings.

        These are names of models that no agent had, and of tools that no agent had or that no agent called.
        """
        warnings = [
            f"models= has {name!r}, but no agent of that name was run. Agents that were: {_known(name, self._asked)}"
            for name in self.models
            if name not in self._asked
        ]
        return [*warnings, *filter(None, map(self._unused, self.tools))]

    def _unused(self, name: str) -> str:
        """Return the warning for a tool that the runs so far did not replace; empty if they did."""
        if name not in self._offered:
            return (
                f"tools= has {name!r}, but no agent that was run has a tool of that name. Tools that they have: "
                f"{_known(name, self._offered)}"
            )
        return "" if name in self._called else f"tools= has {name!r}, but no agent called that tool."

    def assert_done(self) -> None:
        """Check that the scripts of tools were used up. Replacements of models are checked by their own `with` blocks.

        Raises:
            ScriptError: Results are left over, or a call did not fit (`script`).
        """
        for name, double in self.tools.items():
            if not hasattr(double, "assert_done"):
                continue
            try:
                double.assert_done()
            except ScriptError as error:
                error.where = self._unused(name) or f"tools={{{name!r}: ...}}"
                raise


_MODELS: Final = 'a mapping from names of agents to models, where a name is a text without "/": models={"writer": ScriptedModel([...])}'
_TOOLS: Final = 'a mapping from names of tools to doubles, where a name is a text: tools={"charge": scripted("paid")}'


def _by_name(argument: str, value: Any, expected: str, *, without: str) -> Mapping[str, Any]:
    """Return *value*, a mapping by names; an empty one for None.

    Args:
        argument: The argument, for errors.
        value: What the caller passed.
        expected: What it should be.
        without: A text that no name may have; empty for none.

    Raises:
        InputError: It is not a mapping, or a name is not a text or not allowed (`input`).
    """
    if value is None:
        return {}
    if not is_mapping(value):
        raise INVALID_ARGUMENT(argument=argument, value=type(value), wanted=expected)
    for name in value:
        if not isinstance(name, str) or not name or (without and without in name):
            raise INVALID_ARGUMENT(argument=f"A name in {argument}", value=name, wanted=expected)
    return value


def _known(name: str, known: Iterable[str]) -> str:
    """Return the names that are known, and the one that *name* may stand for, as the end of a warning."""
    known_names = sorted(known)
    guess = closest(name, known_names)
    return f"{names(known_names) or 'none'}" + (f"; did you mean {guess!r}?" if guess else ".")


@final
class Override:
    """The replacement of one agent's model, inside a `with` block or a decorated function: see `Agent.override`."""

    __slots__ = ("_agent", "_model")
    precise: ClassVar[bool] = True

    def __init__(self, agent: Modelled, model: ChatModel | str) -> None:
        self._agent = agent
        self._model: ChatModel = checked_model(model)

    def of(self, agent: Modelled) -> ChatModel | None:
        """Return the model that replaces those of *agent*; None for no replacement."""
        return self._model if agent is self._agent else None

    def __enter__(self) -> ChatModel:
        current = surroundings()
        SURROUNDINGS.set(current.replaced(doubles=(*current.doubles, self)))
        return self._model

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        current = surroundings()
        layers = current.doubles
        positions = [position for position, layer in enumerate(layers) if layer is self]
        if positions:  # empty if a fixture leaves the block in a different context
            SURROUNDINGS.set(current.replaced(doubles=(*layers[: positions[-1]], *layers[positions[-1] + 1 :])))

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
