"""The functions of the graph's nodes: each calls `execute` of its node object, and returns the update.

A function gets the graph's state, works on a `StateView`, and returns the changes that the view collected. The field
`note` holds data for the step's record that is not part of the state, such as a rendered prompt or a decision.

An LLMNode runs in an async function, so that the branches of a batch wait for their models concurrently.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from graphrt._drivers.context import Context
from graphrt.commands import END, Command
from graphrt.compat.lar._inside import Inside, Outcome
from graphrt.compat.lar._models import Models, answer
from graphrt.compat.lar._nodes import (
    Ask,
    BaseNode,
    HumanJuryNode,
    LLMNode,
    ReduceNode,
    RouterNode,
    asked,
    has_own_execute,
)
from graphrt.compat.lar._state import BUDGET, Changes, StateView
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.compat import UNLINKED_NODE
from graphrt.events import Usage

Function: TypeAlias = Callable[[Any, Context[Any]], Any]

_ASKED: Final = "ask"
"""Name of the effect that asks at the terminal: a person is asked once, even if the node runs again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """Data from outside the graph of node objects that nodes need."""

    state: type[StateView] = StateView
    """Class of the state that functions receive."""
    run_graph: Callable[[BaseNode, StateView], None] | None = None
    """Runs a BatchNode or an AdaptiveNode whose `execute` was called, in a separate run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The position of a node object in its graph."""

    name: str
    """Name of its node."""
    targets: Mapping[int, Any]
    """Maps ids of node objects to the names of their nodes in this graph, or to END."""
    models: Models
    ask: Ask | None
    branch: bool
    """Whether the graph is a branch, which also collects all writes."""
    outside: Outside
    inside: Inside
    """Collects the outcomes of failed tasks and of tasks in branches."""

    def ended(self, task: str, update: dict[str, Any], usage: Usage | None = None) -> dict[str, Any]:
        """Record that a task succeeded, and return its update."""
        if self.branch:
            spent = (
                () if usage is None or BUDGET in update else ({BUDGET: -(usage.total_tokens + usage.reserved_tokens)},)
            )
            self.inside.note(Outcome(node=self.name, task=task, updates=(update, *spent), usage=usage))
        return update

    def failed(self, task: str, view: StateView, error: Exception) -> None:
        """Record that a task failed, since it leaves no update that could hold its reads."""
        note = {"note": {"reads": view.reads()}}
        self.inside.note(Outcome(node=self.name, task=task, updates=(note,), error=error))


@dataclass(slots=True, kw_only=True)
class Working:
    """The step of a run that a node object works in; see `StepOfNode`."""

    place: Place
    ctx: Context[Any]
    note: dict[str, Any] = field(default_factory=dict[str, Any])
    usage: Usage | None = None

    def ask_model(self, node: LLMNode, state: StateView) -> None:
        """Call the model of *node* in this step, and write the answer."""
        note, usage = self.ctx.call(_ask_model, node, state, self.ctx, self.place)
        self.note |= note
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage

    def ask_person(self, node: HumanJuryNode, context: Mapping[str, Any]) -> str:
        """Return a person's choice. Without a terminal, the run pauses."""
        ask = self.place.ask
        choice = None if ask is None else self.ctx.effect(_ASKED, lambda: asked(ask, node, context))
        if choice is None:
            payload = {"question": node.prompt, "choices": list(node.choices), "context": context}
            literal: Any = Literal
            choice = self.ctx.interrupt(payload, answer_type=literal[tuple(node.choices)])
        self.note["decision"] = choice
        return str(choice)

    def run_graph(self, node: BaseNode, state: StateView) -> None:
        """Run a node that is itself a graph, in a separate run."""
        run = self.place.outside.run_graph
        if run is not None:
            run(node, state)

    def call(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Return the result of an async function."""
        return self.ctx.call(fn, *args)


def view_of(state: Mapping[str, Any], step: Working | None = None, kind: type[StateView] = StateView) -> StateView:
    """Return the state as functions see it, with the budget as a key like any other."""
    values: Mapping[str, Any] = state["values"]
    budget = state.get(BUDGET)
    return kind(values if budget is None else {**values, BUDGET: budget}, step)


def update_of(view: StateView, place: Place, note: Mapping[str, Any]) -> dict[str, Any]:
    """Return the update with the changes that a view collected."""
    changes = view.changes()
    everything = Changes(written=dict(changes["written"]), deleted=list(changes["deleted"]))
    update: dict[str, Any] = {"note": {**note, "reads": view.reads()}, "values": changes}
    if BUDGET in changes["written"]:
        budget = _budget(changes["written"].pop(BUDGET))
        update[BUDGET] = None if budget is None else max(0, budget)
        if budget is not None and view.budget is not None:
            # A branch has a share of the budget, so the run counts the amount by which the node lowered it.
            del everything["written"][BUDGET]
            if place.branch:
                update["spent"] = view.budget - budget
        else:
            everything["written"][BUDGET] = update[BUDGET]
    elif BUDGET in changes["deleted"]:
        changes["deleted"].remove(BUDGET)
        update[BUDGET] = None
    if place.branch:
        update["written"] = everything
    return update


def _budget(value: Any) -> int | None:
    """Return a budget that a node has set, rounded down.

    Raises:
        InputError: It is not a number (`input`).
    """
    if isinstance(value, float) and math.isfinite(value):
        return math.floor(value)
    return checked_budget(value)


def checked_budget(value: Any) -> int | None:
    """Return *value* if it is a whole number or None.

    Raises:
        InputError: It is not (`input`).
    """
    if value is not None and type(value) is not int:
        raise INVALID_ARGUMENT(argument=BUDGET, value=value, wanted="a whole number of tokens, or None for no limit")
    return value


def function_of(node: BaseNode, place: Place) -> Function:
    """Return the function of a node object; None for a BatchNode or AdaptiveNode, which become graphs."""
    if isinstance(node, LLMNode) and not has_own_execute(node):
        return _llm(node, place)
    return _executed(node, place)


def _llm(node: LLMNode, place: Place) -> Function:
    async def ask(state: Any, ctx: Context[Any]) -> Any:
        view = view_of(state)
        try:
            note, usage = await _ask_model(node, view, ctx, place)
        except Exception as error:
            place.failed(ctx.task_id, view, error)
            raise
        return place.ended(ctx.task_id, update_of(view, place, note), usage)

    return ask


def _executed(node: BaseNode, place: Place) -> Function:
    """Return the function that calls `execute`."""

    def work(state: Any, ctx: Context[Any], step: Working) -> tuple[dict[str, Any], BaseNode | None]:
        view = view_of(state, step, place.outside.state)
        try:
            target = node.execute(view)
            update = update_of(view, place, step.note)
        except Exception as error:
            place.failed(ctx.task_id, view, error)
            raise
        return place.ended(ctx.task_id, update, step.usage), target

    def run(state: Any, ctx: Context[Any]) -> Any:
        return work(state, ctx, Working(place=place, ctx=ctx))[0]

    def choose(state: Any, ctx: Context[Any]) -> Any:
        step = Working(place=place, ctx=ctx)
        update, target = work(state, ctx, step)
        # A ready-made node follows its edges, unless its error_node handles an error.
        chooses = has_own_execute(node) or "error" in step.note
        return Command(update=update, goto=_target(node, target, place)) if chooses else update

    # Two functions, because `compile()` assumes that a node whose function creates Commands may lead anywhere.
    return choose if has_own_execute(node) or getattr(node, "error_node", None) is not None else run


def _target(node: BaseNode, target: BaseNode | None, place: Place) -> Any:
    """Return the target of a node from the result of its `execute`."""
    if target is None:
        return END
    known = {id(candidate) for candidate in ways(node)}
    if id(target) not in known or id(target) not in place.targets:
        names = [place.targets[id(candidate)] for candidate in ways(node) if id(candidate) in place.targets]
        raise UNLINKED_NODE(name=type(node).__name__, target=target, paths=names)
    return place.targets[id(target)]


def ways(node: BaseNode) -> list[BaseNode]:
    """Return the nodes that `execute` of *node* may return, each once.

    A class with its own `execute` may call `execute` of a node that it holds, and return the result.
    """
    nodes = {id(successor): successor for successor in node.successors()}
    if has_own_execute(node):
        waiting = list(nodes.values())
        while waiting:
            held = waiting.pop(0)
            for successor in held.successors():
                if id(successor) not in nodes:
                    nodes[id(successor)] = successor
                    if has_own_execute(held):  # otherwise it is only a possible result of the held node
                        waiting.append(successor)
    return list(nodes.values())


def route_of(node: RouterNode) -> Callable[[Any], str]:
    """Return the router of a RouterNode, which reads the node's decision."""
    other = "any other"
    while other in node.path_map:
        other += "!"

    def route(state: Any) -> str:
        decision: Any = state["note"]["decision"]
        return decision if isinstance(decision, str) and decision in node.path_map else other

    return route


# -- models --------------------------------------------------------------------------------------------------------


async def _ask_model(
    node: LLMNode, view: StateView, ctx: Context[Any], place: Place
) -> tuple[dict[str, Any], Usage | None]:
    """Call the model of *node*, write its answer, and return the data for the record and the usage."""
    template = node.template
    prompt = template.render({key: view.get(key) for key in template.fields if key in view})
    model_answer = await answer(node, prompt, ctx, place.models, place.name)
    if model_answer.reply.usage is not None:
        view.charge(model_answer.reply.usage.total_tokens + model_answer.reply.usage.reserved_tokens)
    if isinstance(node, ReduceNode):
        for key in node.input_keys:
            view.delete(key)
    view.set(node.output_key, model_answer.text)
    note: dict[str, Any] = {"prompt": prompt, "model": model_answer.model}
    if node.system_instruction is not None:
        note["system_instruction"] = node.system_instruction
    if model_answer.thinking:
        note["reasoning_content"] = model_answer.thinking
    if model_answer.reply.finish_reason != "stop":
        note["finish_reason"] = model_answer.reply.finish_reason
    return note, model_answer.reply.usage
