"""The node objects: what a program of Lár makes, links by attributes and hands to a `GraphExecutor`.

They hold arguments and check them. What each does in a graph is in `_functions`, and how they become a graph in
`_lowering`. Links may be set after a node was made, so that loops can be written: `fix.next_node = test`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, overload

from graphrt._arguments import is_mapping
from graphrt.compat.lar._state import is_items
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.harness import Template

_DOUBLED: Final = re.compile(r"\{\{(\s*)([A-Za-z_]\w*)\1\}\}")
"""A name in double braces, which Lár accepts as a field. Other double braces stay text, as in nested JSON."""


class BaseNode:
    """Base of the node objects.

    A class of your own has `execute(state)`, which changes the `GraphState` and returns the next node or None. The
    nodes that may follow must be held by its attributes, in lists or dicts too, so that the graph is known before it
    runs.
    """

    links: ClassVar[tuple[str, ...]] = ()
    """Attributes that hold a node which may follow; of a class with `execute` all attributes are looked at."""

    def successors(self) -> tuple[BaseNode, ...]:
        """Return the nodes that may follow, each once, in the order of the attributes."""
        held = [getattr(self, name) for name in self.links] if self.links else list(vars(self).values())
        found: dict[int, BaseNode] = {}
        for value in held:
            for one in _held(value):
                found.setdefault(id(one), one)
        return tuple(found.values())

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class AddValueNode(BaseNode):
    """Sets a key; a value such as "{other}" copies the key `other`.

    Args:
        key: The key.
        value: The value, or the name of a key in braces.
        next_node: The node that follows.
    """

    links: ClassVar[tuple[str, ...]] = ("next_node",)

    def __init__(self, key: str, value: Any, next_node: BaseNode | None = None) -> None:
        self.key: str = name("key", key, self)
        self.value = value
        self.next_node: BaseNode | None = link("next_node", next_node, self)


class LLMNode(BaseNode):
    """Asks a model and writes its answer, a text.

    Args:
        model_name: Name of the model: a key of `GraphExecutor(models=...)`, else a model of litellm.
        prompt_template: A text with keys of the state in braces. Only `{key}` and `{{key}}` are fields; other braces
            are text. A key that is missing or None is an error, and the model is not asked.
        output_key: The key for the answer. Thinking that the model wrote into it goes to `run_metadata`.
        next_node: The node that follows.
        max_retries: How often a call that failed for a transient reason is made again.
        system_instruction: Instructions, which are not a template.
        generation_config: `max_tokens`, `temperature`, `top_p`, `stop` and `seed`; other options go to the provider.
        stream: Write the answer to stdout while it arrives.
        response_format: A type that the answer must be JSON of, or a mapping that goes to the provider. The key has
            the text.
        fallbacks: Models that are asked in turn if the first one has failed for good.
        caching: Keep the answers of this node object in memory, and ask an equal question once.

    Raises:
        InputError: An argument is wrong (`input`), or the template (`template-field`).
    """

    links: ClassVar[tuple[str, ...]] = ("next_node",)

    def __init__(
        self,
        model_name: str,
        prompt_template: str,
        output_key: str,
        next_node: BaseNode | None = None,
        max_retries: int = 3,
        system_instruction: str | None = None,
        generation_config: Mapping[str, Any] | None = None,
        *,
        stream: bool = False,
        response_format: Any = None,
        fallbacks: Sequence[str] | None = None,
        caching: bool = False,
    ) -> None:
        self.model_name: str = name("model_name", model_name, self)
        self.prompt_template: str = name("prompt_template", prompt_template, self)
        self.template: Template = Template(_DOUBLED.sub(r"{\2}", prompt_template))
        self.output_key: str = name("output_key", output_key, self)
        self.next_node: BaseNode | None = link("next_node", next_node, self)
        self.max_retries: int = whole("max_retries", max_retries, self, least=0)
        self.system_instruction = system_instruction
        given: Any = generation_config
        if given is not None and not isinstance(given, Mapping):
            raise INVALID_ARGUMENT(
                argument=f"generation_config of {type(self).__name__}",
                value=given,
                wanted="a mapping of options, or None",
            )
        self.generation_config: dict[str, Any] = dict(generation_config or {})
        self.stream = stream
        self.response_format = response_format
        self.fallbacks: list[str] = names("fallbacks", [] if fallbacks is None else fallbacks, self)
        self.caching = caching


class ReduceNode(LLMNode):
    """Asks a model about several keys, writes its answer, and deletes those keys in the same step.

    The keys stay if the call fails. A key that is also the output key is replaced.

    Args:
        input_keys: 1..n keys that are deleted.
        **options: See `LLMNode`.
    """

    def __init__(
        self,
        model_name: str,
        prompt_template: str,
        input_keys: Sequence[str],
        output_key: str,
        next_node: BaseNode | None = None,
        **options: Any,
    ) -> None:
        super().__init__(model_name, prompt_template, output_key, next_node, **options)
        self.input_keys: list[str] = names("input_keys", input_keys, self, least=1)


class RouterNode(BaseNode):
    """Chooses the next node by a function of the state that returns the name of a path.

    A name without a path goes to `default_node`; without one the step fails.

    Args:
        decision_function: Gets the `GraphState` and returns a text.
        path_map: Name to node: 1..n paths.
        default_node: Where any other name leads.
    """

    links: ClassVar[tuple[str, ...]] = ("path_map", "default_node")

    def __init__(
        self,
        decision_function: Callable[[Any], Any],
        path_map: Mapping[str, BaseNode],
        default_node: BaseNode | None = None,
    ) -> None:
        self.decision_function: Callable[..., Any] = function("decision_function", decision_function, self)
        given: Any = path_map
        if not isinstance(given, Mapping) or not given or not all(map(_is_path, path_map.items())):
            raise INVALID_ARGUMENT(
                argument="path_map of RouterNode",
                value=given,
                wanted="a mapping of texts to node objects: path_map={'done': node}",
            )
        self.path_map: dict[str, BaseNode] = dict(path_map)
        self.default_node: BaseNode | None = link("default_node", default_node, self)


class ToolNode(BaseNode):
    """Calls a function with values of the state.

    Args:
        tool_function: The function, sync or async.
        input_keys: Keys for its positional parameters, None for a key that is missing. `["__state__"]` passes the
            `GraphState` itself.
        output_key: The key for the result. None takes a result that is a mapping of keys.
        next_node: The node that follows.
        error_node: The node that follows if the function raises; it finds the text as the key `last_error`. Without
            it the run stops.
    """

    links: ClassVar[tuple[str, ...]] = ("next_node", "error_node")

    def __init__(
        self,
        tool_function: Callable[..., Any],
        input_keys: Sequence[str],
        output_key: str | None,
        next_node: BaseNode | None = None,
        error_node: BaseNode | None = None,
    ) -> None:
        self.tool_function: Callable[..., Any] = function("tool_function", tool_function, self)
        self.input_keys: list[str] = names("input_keys", input_keys, self)
        self.output_key: str | None = None if output_key is None else name("output_key", output_key, self)
        self.next_node: BaseNode | None = link("next_node", next_node, self)
        self.error_node: BaseNode | None = link("error_node", error_node, self)


class ClearErrorNode(BaseNode):
    """Sets `last_error` to None."""

    links: ClassVar[tuple[str, ...]] = ("next_node",)

    def __init__(self, next_node: BaseNode | None = None) -> None:
        self.next_node: BaseNode | None = link("next_node", next_node, self)


class BatchNode(BaseNode):
    """Runs branches side by side, each on the state as it was, and joins what they wrote.

    A branch begins at a node of *nodes* and ends where nothing follows, or where the batch itself goes on. All
    branches run to their end. If one fails, or two write different values to one key, nothing is written and the step
    fails. What branches delete stays deleted. Under a `token_budget` each branch with a model gets an equal share.

    Args:
        nodes: 0..n nodes.
        next_node: The node that follows.
        error_node: The node that follows if branches fail; it finds the text as the key `last_error`.
    """

    links: ClassVar[tuple[str, ...]] = ("next_node", "error_node")

    def __init__(
        self, nodes: Sequence[BaseNode], next_node: BaseNode | None = None, error_node: BaseNode | None = None
    ) -> None:
        given: Any = nodes
        if not isinstance(given, (list, tuple)):
            raise INVALID_ARGUMENT(
                argument="nodes of BatchNode",
                value=given,
                wanted="a node such as LLMNode(...), or None where nothing follows",
            )
        self.nodes: list[BaseNode] = [required(f"nodes[{at}]", one, self) for at, one in enumerate(nodes)]
        self.next_node: BaseNode | None = link("next_node", next_node, self)
        self.error_node: BaseNode | None = link("error_node", error_node, self)


class HumanJuryNode(BaseNode):
    """Asks a person to choose, and writes the choice.

    The question is asked at the terminal if there is one, or through `GraphExecutor(ask=...)`. Otherwise the run pauses
    with the outcome "interrupted", and `executor.resume(choice)` goes on. Follow the choice with a `RouterNode`.

    Args:
        prompt: The question.
        choices: 1..n choices, in lower case.
        output_key: The key for the choice.
        context_keys: Keys that are shown with the question.
        next_node: The node that follows.
    """

    links: ClassVar[tuple[str, ...]] = ("next_node",)

    def __init__(
        self,
        prompt: str,
        choices: Sequence[str],
        output_key: str,
        context_keys: Sequence[str] = (),
        next_node: BaseNode | None = None,
    ) -> None:
        self.prompt: str = name("prompt", prompt, self)
        self.choices: list[str] = [choice.lower() for choice in names("choices", choices, self, least=1)]
        self.output_key: str = name("output_key", output_key, self)
        self.context_keys: list[str] = names("context_keys", context_keys, self)
        self.next_node: BaseNode | None = link("next_node", next_node, self)


class FunctionalNode(BaseNode):
    """Calls a function of the `GraphState`, as `@node` makes one.

    Args:
        func: The function, sync or async.
        output_key: The key for the result. None takes a result that is a mapping of keys.
        next_node: The node that follows.
    """

    links: ClassVar[tuple[str, ...]] = ("next_node",)

    def __init__(
        self, func: Callable[[Any], Any], output_key: str | None = None, next_node: BaseNode | None = None
    ) -> None:
        self.func: Callable[..., Any] = function("func", func, self)
        self.output_key: str | None = None if output_key is None else name("output_key", output_key, self)
        self.next_node: BaseNode | None = link("next_node", next_node, self)
        self.__name__: str = str(getattr(func, "__name__", type(func).__name__))
        self.__doc__ = getattr(func, "__doc__", None)


@overload
def node(output_key: Callable[[Any], Any]) -> FunctionalNode: ...
@overload
def node(
    output_key: str | None = None, next_node: BaseNode | None = None
) -> Callable[[Callable[[Any], Any]], FunctionalNode]: ...
def node(output_key: Any = None, next_node: BaseNode | None = None) -> Any:
    """Make a function a node object: `@node(output_key="summary")`, or `@node` alone.

    Args:
        output_key: See `FunctionalNode`.
        next_node: The node that follows.
    """
    if callable(output_key):
        return FunctionalNode(output_key)

    def decorate(func: Callable[[Any], Any]) -> FunctionalNode:
        return FunctionalNode(func, output_key=output_key, next_node=next_node)

    return decorate


# -- checks of arguments -------------------------------------------------------------------------------------------


def name(option: str, given: Any, owner: BaseNode) -> str:
    """Return *given* if it is a text that is not empty.

    Raises:
        InputError: It is not (`input`); so in all these functions.
    """
    if not isinstance(given, str) or not given:
        raise INVALID_ARGUMENT(
            argument=f"{option} of {type(owner).__name__}",
            value=given,
            wanted="a text that is not empty: a key of the state",
        )
    return given


def names(option: str, given: Any, owner: BaseNode, *, least: int = 0) -> list[str]:
    """Return *given* as a list if it has at least *least* texts."""
    texts: Sequence[Any] = given if is_items(given) else (None,)
    if len(texts) < least or not all(isinstance(one, str) and one for one in texts):
        raise INVALID_ARGUMENT(argument=f"{option} of {type(owner).__name__}", value=given, wanted="a list of texts")
    found: list[str] = list(texts)
    return found


def function(option: str, given: Any, owner: BaseNode) -> Callable[..., Any]:
    """Return *given* if it can be called."""
    if not callable(given):
        raise INVALID_ARGUMENT(argument=f"{option} of {type(owner).__name__}", value=given, wanted="a function")
    checked: Callable[..., Any] = given
    return checked


def whole(option: str, given: Any, owner: BaseNode | str, *, least: int) -> int:
    """Return *given* if it is a whole number of *least* or more."""
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        shown = owner if isinstance(owner, str) else type(owner).__name__
        raise INVALID_ARGUMENT(
            argument=f"{option} of {shown}", value=given, wanted=f"a whole number of {least} or more"
        )
    return given


def link(option: str, given: Any, owner: BaseNode) -> BaseNode | None:
    """Return *given* if it is a node object or None."""
    return None if given is None else required(option, given, owner)


def required(option: str, given: Any, owner: BaseNode | str) -> BaseNode:
    """Return *given* if it is a node object."""
    if not isinstance(given, BaseNode):
        shown = owner if isinstance(owner, str) else type(owner).__name__
        raise INVALID_ARGUMENT(
            argument=f"{option} of {shown}",
            value=given,
            wanted="a node such as LLMNode(...), or None where nothing follows",
        )
    return given


def _is_path(path: tuple[Any, Any]) -> bool:
    return isinstance(path[0], str) and isinstance(path[1], BaseNode)


def _held(value: Any) -> list[BaseNode]:
    if isinstance(value, BaseNode):
        return [value]
    found: Iterable[Any] = value.values() if is_mapping(value) else value if is_items(value) else ()
    return [one for one in found if isinstance(one, BaseNode)]
