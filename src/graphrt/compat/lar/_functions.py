"""What each node object does: the function of the graph's node, from state to update.

A function gets the graph's state, works on a `GraphState`, and returns what that collected. Beside it stands the field
`note`: what the step's record says and the state does not, such as a rendered prompt or a decision.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from graphrt._arguments import is_mapping
from graphrt._drivers.context import Context
from graphrt._forks import FreshLock
from graphrt.commands import END, Command, Interrupt
from graphrt.compat.lar._models import Models, answer
from graphrt.compat.lar._nodes import (
    AddValueNode,
    BaseNode,
    ClearErrorNode,
    FunctionalNode,
    HumanJuryNode,
    LLMNode,
    ReduceNode,
    RouterNode,
    ToolNode,
)
from graphrt.compat.lar._state import BUDGET, GraphState
from graphrt.errors import GraphrtError, NodeError
from graphrt.errors._codes.compat import NO_KEY_FOR_RESULT, NO_PATH, NODE_OBJECT_FAILED, UNLINKED_NODE

Ask: TypeAlias = Callable[[str], str]
"""Shows a question and returns a line, as `input` does; EOFError if there is no more."""
Function: TypeAlias = Callable[[Any, Context[Any]], Any]

LAST_ERROR: Final = "last_error"
_terminal: Final = FreshLock()
"""Branches of a batch may ask at the same time, and a terminal shows one question at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a node object stands in its graph."""

    name: str
    """Name of its node."""
    targets: Mapping[int, Any]
    """Ids of node objects to the names of their nodes in this graph; END for those at which the graph ends."""
    models: Models
    ask: Ask | None
    branch: bool
    """Whether the graph is a branch, which also collects all that was written."""


def view_of(state: Mapping[str, Any]) -> GraphState:
    """Return the state as functions see it: the budget is a key like the others."""
    values: Mapping[str, Any] = state["values"]
    budget = state.get(BUDGET)
    return GraphState(values if budget is None else {**values, BUDGET: budget})


def update_of(view: GraphState, place: Place, note: Mapping[str, Any]) -> dict[str, Any]:
    """Return the update that a view has collected."""
    changes = view.changes()
    update: dict[str, Any] = {"note": dict(note)}
    if BUDGET in changes["written"]:
        update[BUDGET] = changes["written"].pop(BUDGET)
    elif BUDGET in changes["deleted"]:
        changes["deleted"].remove(BUDGET)
        update[BUDGET] = None
    update["values"] = changes
    if place.branch:
        update["written"] = changes
    return update


def function_of(node: BaseNode, place: Place) -> Function:
    """Return the function of a node object; of a BatchNode there is none, as it becomes a graph."""
    match node:
        case AddValueNode():
            return _sync(place, lambda view: _add_value(node, view))
        case LLMNode():
            return _llm(node, place)
        case RouterNode():
            return _sync(place, lambda view: _decide(node, view, place))
        case ToolNode():
            return _tool(node, place)
        case ClearErrorNode():
            return _sync(place, _clear_error)
        case HumanJuryNode():
            return _jury(node, place)
        case FunctionalNode():
            return _functional(node, place)
        case _:
            return _own(node, place)


def _sync(place: Place, work: Callable[[GraphState], Mapping[str, Any]]) -> Function:
    def run(state: Any, ctx: Context[Any]) -> Any:  # noqa: ARG001
        view = view_of(state)
        note = work(view)
        return update_of(view, place, note)

    return run


def _add_value(node: AddValueNode, view: GraphState) -> Mapping[str, Any]:
    value: Any = node.value
    if isinstance(value, str) and len(value) > 2 and value[0] == "{" and value[-1] == "}":
        key = value.strip("{}")
        if view.get(key) is None:
            raise NODE_OBJECT_FAILED(key=key)
        value = view.get(key)
    view.set(node.key, value)
    return {}


def _clear_error(view: GraphState) -> Mapping[str, Any]:
    if view.get(LAST_ERROR) is not None:
        view.set(LAST_ERROR, None)
    return {}


def _decide(node: RouterNode, view: GraphState, place: Place) -> Mapping[str, Any]:
    decision: Any = node.decision_function(view)
    if not (isinstance(decision, str) and decision in node.path_map) and node.default_node is None:
        raise NO_PATH(name=place.name, decision=decision, paths=node.path_map)
    return {"decision": decision}


def route_of(node: RouterNode) -> Callable[[Any], str]:
    """Return the router of a RouterNode: it reads the decision that the node has made."""
    other = "any other"
    while other in node.path_map:
        other += "!"

    def route(state: Any) -> str:
        decision: Any = state["note"]["decision"]
        return decision if isinstance(decision, str) and decision in node.path_map else other

    return route


# -- models --------------------------------------------------------------------------------------------------------


def _llm(node: LLMNode, place: Place) -> Function:
    async def ask(state: Any, ctx: Context[Any]) -> Any:
        view = view_of(state)
        prompt = node.template.render({key: view.get(key) for key in node.template.fields if key in view})
        said = await answer(node, prompt, ctx, place.models, place.name)
        if isinstance(node, ReduceNode):
            for key in node.input_keys:
                view.delete(key)
        view.set(node.output_key, said.text)
        note: dict[str, Any] = {"prompt": prompt, "model": said.model}
        if node.system_instruction is not None:
            note["system_instruction"] = node.system_instruction
        if said.thinking:
            note["reasoning_content"] = said.thinking
        if said.reply.finish_reason != "stop":
            note["finish_reason"] = said.reply.finish_reason
        return update_of(view, place, note)

    return ask


# -- functions -----------------------------------------------------------------------------------------------------


def _take(view: GraphState, result: Any, key: str | None, fn: Any) -> None:
    """Write the result of a function."""
    if key is not None:
        view.set(key, result)
    elif is_mapping(result):
        for name in result:
            view.set(name, result[name])
    elif result is not None and result is not view:
        raise NO_KEY_FOR_RESULT(function=getattr(fn, "__name__", type(fn).__name__), result=result)


def _tool(node: ToolNode, place: Place) -> Function:
    fn = node.tool_function

    def inputs(view: GraphState) -> list[Any]:
        whole = node.input_keys == ["__state__"]
        return [view] if whole else [view.get(key) for key in node.input_keys]

    def failed(state: Any, error: Exception) -> Any:
        if node.error_node is None:
            raise error
        view = view_of(state)  # what the function wrote before it failed is not kept
        view.set(LAST_ERROR, told(error))
        note = {"error": told(error), "error_type": type(error).__name__}
        return Command(update=update_of(view, place, note), goto=place.targets[id(node.error_node)])

    if inspect.iscoroutinefunction(fn):

        async def call_async(state: Any, ctx: Context[Any]) -> Any:  # noqa: ARG001
            view = view_of(state)
            try:
                _take(view, await fn(*inputs(view)), node.output_key, fn)
            except Exception as error:  # noqa: BLE001 - whatever the function raises goes to the error node
                return failed(state, error)
            return update_of(view, place, {})

        return call_async

    def call(state: Any, ctx: Context[Any]) -> Any:  # noqa: ARG001
        view = view_of(state)
        try:
            _take(view, fn(*inputs(view)), node.output_key, fn)
        except Exception as error:  # noqa: BLE001 - as above
            return failed(state, error)
        return update_of(view, place, {})

    return call


def _functional(node: FunctionalNode, place: Place) -> Function:
    fn: Any = node.func
    if inspect.iscoroutinefunction(fn):

        async def call_async(state: Any, ctx: Context[Any]) -> Any:  # noqa: ARG001
            view = view_of(state)
            _take(view, await fn(view), node.output_key, fn)
            return update_of(view, place, {})

        return call_async

    def call(view: GraphState) -> Mapping[str, Any]:
        _take(view, fn(view), node.output_key, fn)
        return {}

    return _sync(place, call)


def _own(node: BaseNode, place: Place) -> Function:
    """The function of a class that a program defined itself: its `execute` chooses the next node."""
    known: Any = node

    def run(state: Any, ctx: Context[Any]) -> Any:  # noqa: ARG001
        view = view_of(state)
        target = known.execute(view)
        if target is not None and id(target) not in place.targets:
            names = [place.targets[id(one)] for one in node.successors()]
            raise UNLINKED_NODE(name=type(node).__name__, target=target, paths=names)
        goto: Any = END if target is None else place.targets[id(target)]
        return Command(update=update_of(view, place, {}), goto=goto)

    return run


# -- persons -------------------------------------------------------------------------------------------------------


def _jury(node: HumanJuryNode, place: Place) -> Function:
    literal: Any = Literal
    answer_type: Any = literal[tuple(node.choices)]

    def ask(state: Any, ctx: Context[Any]) -> Any:
        view = view_of(state)
        choice: Any = ctx.answer
        if choice is None:
            context = {key: view.get(key) for key in node.context_keys}
            choice = None if place.ask is None else ctx.effect("ask", _asked, place.ask, node, context)
            if choice is None:
                payload = {"question": node.prompt, "choices": list(node.choices), "context": context}
                return Interrupt(payload, answer_type=answer_type)
        view.set(node.output_key, choice)
        return update_of(view, place, {"decision": choice})

    return ask


def _asked(ask: Ask, node: HumanJuryNode, context: Mapping[str, Any]) -> str | None:
    """Ask until the choice is one of those offered, and return it; None if the input has ended."""
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


def told(error: BaseException) -> str:
    """Return an error as the text of a record: what was raised in the node, without the wrapping."""
    while type(error) is NodeError and error.__cause__ is not None:
        error = error.__cause__
    text = error.what if isinstance(error, GraphrtError) else str(error)
    return text or type(error).__name__
