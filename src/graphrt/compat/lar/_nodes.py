"""The node objects, which a Lár program creates, links by attributes and passes to a `GraphExecutor`.

They hold arguments, check them, and do their work in `execute(state)`, which changes the state and returns the
node that follows. `_lowering` makes them a graph, and `_functions` has the graph's node functions, which call
`execute`. Links may be set after a node was created, so that loops are possible: `fix.next_node = test`.

`execute` may also be called outside a run, as in a unit test, and by a program's own classes. The data that it needs
from a run is in `state.step`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias, overload

from graphrt._arguments import is_async, is_mapping
from graphrt._forks import FreshLock
from graphrt.compat.lar._prompts import Prompt
from graphrt.compat.lar._state import StateView, is_items
from graphrt.errors import GraphrtError, NodeError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.compat import NO_KEY_FOR_RESULT, NO_PATH, NODE_OBJECT_FAILED

Ask: TypeAlias = Callable[[str], str]
"""Shows a question and returns a line, as `input` does; EOFError if there is no more."""
LAST_ERROR: Final = "last_error"
ROUTER_DECISION: Final = "_router_decision"
"""The key with the most recent choice of a RouterNode."""
_terminal: Final = FreshLock()
"""Branches of a batch may ask at the same time, but a terminal shows one question at a time."""
_PACKAGE: Final = "graphrt.compat.lar"


class BaseNode:
    """Base of the node objects.

    A class of your own has `execute(state)`, which changes the state and returns the next node or None. The
    nodes that may follow must be held by its attributes, in lists or dicts too, so that the graph is known before it
    runs.
    """

    links: ClassVar[tuple[str, ...]] = ()
    """Attributes that hold a node which may follow. For a class with its own `execute`, all attributes are searched."""

    def execute(self, state: Any) -> BaseNode | None:
        """Do the node's work on *state*, and return the node that follows; None if none does.

        Args:
            state: A `GraphState`; typed as Any, so that a program's class may declare another type.

        Raises:
            Exception: The work failed, with any exception.
        """
        raise NotImplementedError(f"{type(self).__name__} has no execute(state)")

    def successors(self) -> tuple[BaseNode, ...]:
        """Return the nodes that may follow, each once, in the order of the attributes."""
        known = self.links and not has_own_execute(self)
        held = [getattr(self, name) for name in self.links] if known else list(vars(self).values())
        nodes: dict[int, BaseNode] = {}
        for value in held:
            for successor in _held(value):
                nodes.setdefault(id(successor), successor)
        return tuple(nodes.values())

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

    def execute(self, state: Any) -> BaseNode | None:
        """Set the key.

        Raises:
            NodeError: The key to be copied is missing or None (`node-object-failed`).
        """
        value: Any = self.value
        if isinstance(value, str) and len(value) > 2 and value[0] == "{" and value[-1] == "}":
            key = value.strip("{}")
            value = state.get(key)
            if value is None:
                raise NODE_OBJECT_FAILED(key=key)
        state.set(self.key, value)
        return self.next_node


class LLMNode(BaseNode):
    """Calls a model and writes its answer, a text.

    Args:
        model_name: Name of the model: a key of `GraphExecutor(models=...)`, else a model of litellm.
        prompt_template: A text with keys of the state in braces: `{key}` or `{{key}}`. `{{` and `}}` around anything
            else are single braces, and `{{{{key}}}}` is `{key}` as text; other braces are text. A key that is missing
            or None is an error, and the model is not called.
        output_key: The key for the answer. Thinking in the model's text goes to `run_metadata`.
        next_node: The node that follows.
        max_retries: How often a call is retried after a transient error.
        system_instruction: Instructions, which are not a template.
        generation_config: `max_tokens`, `temperature`, `top_p`, `stop` and `seed`; other options go to the provider.
        stream: Write the answer to stdout as it arrives.
        response_format: A type whose JSON form the answer must have, or a mapping that is passed to the provider. The
            key gets the text.
        fallbacks: Models that are called in turn if the first one failed permanently.
        caching: Cache the answers of this node object in memory, so that equal questions are asked once.
        success_callbacks: Names of litellm's callbacks, which are passed to the provider as an option.

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
        stream: bool = False,  # noqa: FBT001, FBT002 - the order of Lár's arguments
        response_format: Any = None,
        fallbacks: Sequence[str] | None = None,
        caching: bool = False,  # noqa: FBT001, FBT002 - as above
        success_callbacks: Sequence[str] | None = None,
    ) -> None:
        self.model_name: str = name("model_name", model_name, self)
        self.prompt_template: str = name("prompt_template", prompt_template, self)
        Prompt(prompt_template)  # rejects an invalid prompt now; it may be set again later
        self.output_key: str = name("output_key", output_key, self)
        self.next_node: BaseNode | None = link("next_node", next_node, self)
        self.max_retries: int = whole("max_retries", max_retries, self, least=0)
        self.system_instruction = system_instruction
        unchecked: Any = generation_config
        if unchecked is not None and not isinstance(unchecked, Mapping):
            raise INVALID_ARGUMENT(
                argument=f"generation_config of {type(self).__name__}",
                value=unchecked,
                wanted="a mapping of options, or None",
            )
        self.generation_config: dict[str, Any] = dict(generation_config or {})
        if success_callbacks is not None:
            self.generation_config["success_callbacks"] = names("success_callbacks", success_callbacks, self)
        self.stream = stream
        self.response_format = response_format
        self.fallbacks: list[str] = names("fallbacks", [] if fallbacks is None else fallbacks, self)
        self.caching = caching

    @property
    def template(self) -> Prompt:
        """The current prompt."""
        return Prompt(self.prompt_template)

    def execute(self, state: Any) -> BaseNode | None:
        """Call the model and write its answer.

        In a run, the call counts there, and against its budgets.

        Raises:
            GraphrtError: The model was not called, or did not answer; see `GraphExecutor`.
        """
        state.step.ask_model(self, state)
        return self.next_node


class ReduceNode(LLMNode):
    """Calls a model with several keys, writes its answer, and deletes those keys in the same step.

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

    The name is written to the key `_router_decision`. A name without a path goes to `default_node`; without one the
    step fails.

    Args:
        decision_function: Gets the `GraphState` and returns a text.
        path_map: Maps names to nodes, or to None where nothing follows: 1..n paths.
        default_node: Where any other name leads.
    """

    links: ClassVar[tuple[str, ...]] = ("path_map", "default_node")

    def __init__(
        self,
        decision_function: Callable[[Any], Any],
        path_map: Mapping[str, BaseNode | None],
        default_node: BaseNode | None = None,
    ) -> None:
        self.decision_function: Callable[..., Any] = function("decision_function", decision_function, self)
        unchecked: Any = path_map
        if not isinstance(unchecked, Mapping) or not unchecked or not all(map(_is_path, path_map.items())):
            raise INVALID_ARGUMENT(
                argument="path_map of RouterNode",
                value=unchecked,
                wanted="a mapping of texts to node objects: path_map={'done': node}",
            )
        self.path_map: dict[str, BaseNode | None] = dict(path_map)
        self.default_node: BaseNode | None = link("default_node", default_node, self)

    def execute(self, state: Any) -> BaseNode | None:
        """Decide, and return the node of the path.

        Raises:
            RouteError: No path has the name, and there is no default_node (`no-path`).
        """
        decision: Any = self.decision_function(state)
        state.set(ROUTER_DECISION, decision)
        state.step.note["decision"] = decision
        if isinstance(decision, str) and decision in self.path_map:
            return self.path_map[decision]
        if self.default_node is None:
            raise NO_PATH(name=type(self).__name__, decision=decision, paths=self.path_map)
        return self.default_node


class ToolNode(BaseNode):
    """Calls a function with values of the state.

    Args:
        tool_function: The function, sync or async.
        input_keys: Keys for its positional parameters; a missing key gives None. `["__state__"]` passes the
            `GraphState` itself.
        output_key: The key for the result. None expects the result to be a mapping of keys.
        next_node: The node that follows.
        error_node: The node that follows if the function raises; it finds the error text in the key `last_error`.
            Without it the run stops.
        action_type: Name of the action. Like the following arguments, it is stored as an attribute and otherwise
            unused.
        credential_vault: Must be None; see below.
        credential_key: As *action_type*.
        affected_parties: As *action_type*.
        transparency_engine: Must be None; see below.

    Raises:
        InputError: An argument is wrong, or is an object of Lár's compliance pack, which is not supported (`input`).
    """

    links: ClassVar[tuple[str, ...]] = ("next_node", "error_node")

    def __init__(
        self,
        tool_function: Callable[..., Any],
        input_keys: Sequence[str],
        output_key: str | None,
        next_node: BaseNode | None = None,
        error_node: BaseNode | None = None,
        action_type: str | None = None,
        credential_vault: None = None,
        credential_key: str | None = None,
        affected_parties: str = "USER_ONLY",
        transparency_engine: None = None,
    ) -> None:
        self.tool_function: Callable[..., Any] = function("tool_function", tool_function, self)
        self.input_keys: list[str] = names("input_keys", input_keys, self)
        self.output_key: str | None = None if output_key is None else name("output_key", output_key, self)
        self.next_node: BaseNode | None = link("next_node", next_node, self)
        self.error_node: BaseNode | None = link("error_node", error_node, self)
        self.action_type = action_type
        self.credential_key = credential_key
        self.affected_parties = affected_parties
        not_here("credential_vault", credential_vault, self)
        not_here("transparency_engine", transparency_engine, self)

    def execute(self, state: Any) -> BaseNode | None:
        """Call the function, and write its result.

        Raises:
            Exception: The exception of the function, if there is no error_node. Its earlier writes are not kept.
            NodeError: There is no key for the result (`node-object-failed`).
        """
        mark = state.mark()
        takes_state = self.input_keys == ["__state__"]
        inputs = [state] if takes_state else [state.get(key) for key in self.input_keys]
        try:
            _take(state, _called(state, self.tool_function, *inputs), self.output_key, self.tool_function)
        except Exception as error:
            if self.error_node is None:
                raise
            return _failed(state, mark, error, self.error_node)
        return self.next_node


class ClearErrorNode(BaseNode):
    """Sets `last_error` to None."""

    links: ClassVar[tuple[str, ...]] = ("next_node",)

    def __init__(self, next_node: BaseNode | None = None) -> None:
        self.next_node: BaseNode | None = link("next_node", next_node, self)

    def execute(self, state: Any) -> BaseNode | None:
        """Set `last_error` to None if it has a value."""
        if state.get(LAST_ERROR) is not None:
            state.set(LAST_ERROR, None)
        return self.next_node


class BatchNode(BaseNode):
    """Runs branches in parallel, each on the state at the start of the step, and merges their writes.

    A branch begins at a node of *nodes* and ends at a node without a successor, or where the batch itself continues.
    All branches run to their end. If one fails, or two write different values to one key, nothing is written and the
    step fails. Keys that branches delete stay deleted. Under a `token_budget` each branch with a model gets an equal
    share; amounts that a program's own nodes deduct from their share are deducted from the budget. The
    `_router_decision` of the first branch is kept.

    Args:
        nodes: 0..n nodes.
        next_node: The node that follows.
        error_node: The node that follows if branches fail; it finds the error text in the key `last_error`.
    """

    links: ClassVar[tuple[str, ...]] = ("next_node", "error_node")

    def __init__(
        self, nodes: Sequence[BaseNode], next_node: BaseNode | None = None, error_node: BaseNode | None = None
    ) -> None:
        unchecked: Any = nodes
        if not isinstance(unchecked, (list, tuple)):
            raise INVALID_ARGUMENT(
                argument="nodes of BatchNode",
                value=unchecked,
                wanted="a node such as LLMNode(...), or None where nothing follows",
            )
        self.nodes: list[BaseNode] = [required(f"nodes[{at}]", branch, self) for at, branch in enumerate(nodes)]
        self.next_node: BaseNode | None = link("next_node", next_node, self)
        self.error_node: BaseNode | None = link("error_node", error_node, self)

    def execute(self, state: Any) -> BaseNode | None:
        """Run the branches in a separate run, with the models of the run that *state* belongs to, if any.

        Raises:
            GraphrtError: Branches failed, and there is no error_node; see `GraphExecutor`.
        """
        return run_or_fail(self, state, self.next_node, self.error_node)


class HumanJuryNode(BaseNode):
    """Asks a person to choose, and writes the choice.

    The question is asked at the terminal if there is one, or through `GraphExecutor(ask=...)`. Otherwise the run pauses
    with the outcome "interrupted", and `executor.resume(choice)` continues; with `GraphExecutor(store=...)`, in another
    process too. Follow the choice with a `RouterNode`.

    Args:
        prompt: The question.
        choices: 1..n choices, in lower case.
        output_key: The key for the choice.
        context_keys: Keys that are shown with the question.
        next_node: The node that follows.
        authority_ledger: Must be None: Lár's compliance pack is not supported.
        stakeholder_id: Who decides. Like the following arguments, it is stored as an attribute and otherwise unused.
        stakeholder_role: As *stakeholder_id*.
        action_description: As *stakeholder_id*.
        risk_score_key: As *stakeholder_id*.
    """

    links: ClassVar[tuple[str, ...]] = ("next_node",)

    def __init__(
        self,
        prompt: str,
        choices: Sequence[str],
        output_key: str,
        context_keys: Sequence[str] = (),
        next_node: BaseNode | None = None,
        authority_ledger: None = None,
        stakeholder_id: str = "UNKNOWN",
        stakeholder_role: str = "REVIEWER",
        action_description: str | None = None,
        risk_score_key: str | None = None,
    ) -> None:
        self.prompt: str = name("prompt", prompt, self)
        self.choices: list[str] = [choice.lower() for choice in names("choices", choices, self, least=1)]
        self.output_key: str = name("output_key", output_key, self)
        self.context_keys: list[str] = names("context_keys", context_keys, self)
        self.next_node: BaseNode | None = link("next_node", next_node, self)
        not_here("authority_ledger", authority_ledger, self)
        self.stakeholder_id = stakeholder_id
        self.stakeholder_role = stakeholder_role
        self.action_description: str = action_description or prompt
        self.risk_score_key = risk_score_key

    def execute(self, state: Any) -> BaseNode | None:
        """Ask, and write the choice. Outside a run, the question is asked with `input`.

        Raises:
            EOFError: The input ended, outside a run.
        """
        context = {key: state.get(key) for key in self.context_keys}
        state.set(self.output_key, state.step.ask_person(self, context))
        return self.next_node


class FunctionalNode(BaseNode):
    """Calls a function of the `GraphState`, as `@node` makes one.

    Args:
        func: The function, sync or async.
        output_key: The key for the result. None expects the result to be a mapping of keys.
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

    def execute(self, state: Any) -> BaseNode | None:
        """Call the function, and write its result.

        Raises:
            NodeError: There is no key for the result (`node-object-failed`).
        """
        _take(state, _called(state, self.func, state), self.output_key, self.func)
        return self.next_node


@overload
def node(output_key: Callable[[Any], Any]) -> FunctionalNode: ...
@overload
def node(
    output_key: str | None = None, next_node: BaseNode | None = None
) -> Callable[[Callable[[Any], Any]], FunctionalNode]: ...
def node(output_key: Any = None, next_node: BaseNode | None = None) -> Any:
    """Turn a function into a node object: `@node(output_key="summary")`, or just `@node`.

    Args:
        output_key: See `FunctionalNode`.
        next_node: The node that follows.
    """
    if callable(output_key):
        return FunctionalNode(output_key)

    def decorate(func: Callable[[Any], Any]) -> FunctionalNode:
        return FunctionalNode(func, output_key=output_key, next_node=next_node)

    return decorate


# -- what several of them do -----------------------------------------------------------------------------------------


def has_own_execute(node: BaseNode | type[BaseNode]) -> bool:
    """Return whether `execute` of *node*, or of a class, was defined outside this package."""
    return not str(getattr(node.execute, "__module__", "")).startswith(_PACKAGE)


def error_text(error: BaseException) -> str:
    """Return an error as text for a record: the node's own exception, unwrapped."""
    while type(error) is NodeError and error.__cause__ is not None:
        error = error.__cause__
    text = error.what if isinstance(error, GraphrtError) else str(error)
    return text or type(error).__name__


def asked(ask: Ask, node: HumanJuryNode, context: Mapping[str, Any]) -> str | None:
    """Ask until the choice is one of those offered, and return it; None if the input ended."""
    head = "".join(f"{key}: {value}\n" for key, value in context.items())
    while True:
        try:
            with _terminal:
                line = ask(f"{head}{node.prompt} ({'/'.join(node.choices)}): ").strip().lower()
        except EOFError:
            return None
        if line in node.choices:
            return line
        head = f"{line!r} is not a choice.\n"


def _called(state: StateView, fn: Callable[..., Any], *args: Any) -> Any:
    """Return the result of a sync or async function."""
    return state.step.call(fn, *args) if is_async(fn) else fn(*args)


def _take(state: StateView, result: Any, key: str | None, fn: Any) -> None:
    """Write the result of a function."""
    if key is not None:
        state.set(key, result)
    elif is_mapping(result):
        for name in result:
            state.set(name, result[name])
    elif result is not None and result is not state:
        raise NO_KEY_FOR_RESULT(function=getattr(fn, "__name__", type(fn).__name__), result=result)


def _failed(state: StateView, mark: Any, error: Exception, error_node: BaseNode) -> BaseNode:
    """Undo the writes since *mark*, write the error, and return the node that handles it."""
    state.back_to(mark)
    state.set(LAST_ERROR, error_text(error))
    state.step.note |= {"error": error_text(error), "error_type": type(error).__name__}
    return error_node


def run_or_fail(
    node: BaseNode, state: StateView, next_node: BaseNode | None, error_node: BaseNode | None
) -> BaseNode | None:
    """Run a node that is itself a graph, and return the node that follows."""
    mark = state.mark()
    try:
        state.step.run_graph(node, state)
    except Exception as error:
        if error_node is None:
            raise
        return _failed(state, mark, error, error_node)
    return next_node


# -- checks of arguments -------------------------------------------------------------------------------------------


def name(option: str, value: Any, owner: BaseNode) -> str:
    """Return *value* if it is a non-empty text.

    Raises:
        InputError: It is not (`input`). This holds for all functions below.
    """
    if not isinstance(value, str) or not value:
        raise INVALID_ARGUMENT(
            argument=f"{option} of {type(owner).__name__}",
            value=value,
            wanted="a text that is not empty: a key of the state",
        )
    return value


def names(option: str, value: Any, owner: BaseNode, *, least: int = 0) -> list[str]:
    """Return *value* as a list if it has at least *least* texts."""
    texts: Sequence[Any] = value if is_items(value) else (None,)
    if len(texts) < least or not all(isinstance(text, str) and text for text in texts):
        raise INVALID_ARGUMENT(argument=f"{option} of {type(owner).__name__}", value=value, wanted="a list of texts")
    checked: list[str] = list(texts)
    return checked


def function(option: str, value: Any, owner: BaseNode) -> Callable[..., Any]:
    """Return *value* if it can be called."""
    if not callable(value):
        raise INVALID_ARGUMENT(argument=f"{option} of {type(owner).__name__}", value=value, wanted="a function")
    checked: Callable[..., Any] = value
    return checked


def whole(option: str, value: Any, owner: BaseNode | str, *, least: int) -> int:
    """Return *value* if it is a whole number of *least* or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        shown = owner if isinstance(owner, str) else type(owner).__name__
        raise INVALID_ARGUMENT(
            argument=f"{option} of {shown}", value=value, wanted=f"a whole number of {least} or more"
        )
    return value


def link(option: str, value: Any, owner: BaseNode) -> BaseNode | None:
    """Return *value* if it is a node object or None."""
    return None if value is None else required(option, value, owner)


def required(option: str, value: Any, owner: BaseNode | str) -> BaseNode:
    """Return *value* if it is a node object."""
    if not isinstance(value, BaseNode):
        shown = owner if isinstance(owner, str) else type(owner).__name__
        raise INVALID_ARGUMENT(
            argument=f"{option} of {shown}",
            value=value,
            wanted="a node such as LLMNode(...), or None where nothing follows",
        )
    return value


def not_here(option: str, value: Any, owner: BaseNode | str) -> None:
    """Check that no object of Lár's compliance pack was given."""
    if value is not None:
        shown = owner if isinstance(owner, str) else type(owner).__name__
        raise INVALID_ARGUMENT(
            argument=f"{option} of {shown}", value=value, wanted="None: Lár's compliance pack is not in graphrt"
        )


def _is_path(path: tuple[Any, Any]) -> bool:
    return isinstance(path[0], str) and (path[1] is None or isinstance(path[1], BaseNode))


def _held(value: Any) -> list[BaseNode]:
    if isinstance(value, BaseNode):
        return [value]
    values: Iterable[Any] = value.values() if is_mapping(value) else value if is_items(value) else ()
    return [item for item in values if isinstance(item, BaseNode)]
