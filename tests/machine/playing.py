"""The model of one execution of a task: the actions of a steady node, and a nested graph as the body of a task (R9,
R10, R17)."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from laws import model, model_fold
from laws.description import Node, State
from laws.model import FailedError
from laws.model_fold import Failure, Update

from .flow import Flow
from .parts import Job, Outside, Question


def script(flow: Flow, job: Job, node: Node, outside: Outside) -> bool | None:  # noqa: C901, PLR0911 - one return for each act
    """One execution of a scripted node, from its start; True if its run halts before it acts (R9)."""
    name, task = node.name, job.item.task
    job.loose = set()
    if name in outside.cancels:
        outside.halted = True
    broken = Failure("NodeError", frozenset({name}))
    if name in outside.broken:
        return flow.fail(job, node, broken)
    turn = node.turn(flow.superstep)
    heard = 0
    if node.context:
        if job.attempt <= node.flaky:
            return flow.fail(job, node, broken)
        if turn.fails:
            return flow.fail(job, node, broken)
        if outside.halted and (node.effects or node.asks):
            return True
        for number, kind in enumerate(node.effects):
            if number not in job.results and not act(flow, job, node, number, kind, outside):
                return None
            heard += job.results[number]
        for number in range(node.asks):
            answer = answered(job, str(number))
            if answer is None:
                return flow.ask(job, str(number), {"ask": number})
            heard += answer.answer
        if node.returns:
            answer = answered(job, "returned0")
            if answer is None:
                return flow.ask(job, "returned0", {"back": name}, typed=True)
            heard += answer.answer
        heard += job.item.rescues
    elif turn.fails:
        return flow.fail(job, node, broken)
    given = replace(task, arg=(task.arg or 0) + heard) if node.context else task
    steps = dict.fromkeys((each.name for each in flow.graph.nodes), flow.superstep)
    update = model_fold.update_of(flow.graph, given, copy.deepcopy(flow.state), steps)
    refused = model_fold.undeletable(flow.graph, task, update) + model.misdirected(flow.graph, node, turn.goto or ())
    if refused:
        return flow.fail(job, node, *refused, hopeless=True)
    return flow.end(job, node, [update] if update else [], turn.goto)


def answered(job: Job, key: str) -> Question | None:
    """The answer to the question with the name *key*, which the task hereby uses."""
    for question in job.questions:
        if question.base == key and question.answered and not question.closed:
            question.fate = "used"
            return question
    return None


def act(flow: Flow, job: Job, node: Node, number: int, kind: str, outside: Outside) -> bool:
    """Perform an effect; False if a person has to decide first, or refused."""
    starts = job.starts.get(number, 0)
    if kind == "once" and starts:
        key = f"effect=act{number}#0" + ("" if starts == 1 else f":{starts}")
        decided = answered(job, key)
        if decided is None:
            what = {"effect": f"act{number}", "problem": "outcome unknown"}
            flow.ask(job, key, {**what, "idempotency_key": f"{outside.thread}/{job.id}"}, typed=True)
            return False
        if isinstance(decided.answer, dict):
            job.results[number] = decided.answer["result"]
            job.heard[number] = job.answers
            return True
        if decided.answer != "run":
            job.starts[number] = starts + 1  # decided for this execution: the next one asks again
            job.heard[number] = job.answers
            outside.stored()
            flow.fail(job, node, Failure("NodeError", frozenset({node.name})), hopeless=True)
            return False
    job.heard[number] = job.answers
    if kind == "once":
        job.starts[number] = starts + 1
        outside.stored()
    outside.done[f"{outside.thread}/{job.id} {number}"] += 1
    job.results[number] = number + 1
    if kind == "pure":
        job.loose.add(number)
    else:
        outside.stored()
    return True


def nested(flow: Flow, job: Job, node: Node, outside: Outside) -> bool:
    """Drive the graph that is nested in a task; True if it was stopped in the middle."""
    assert node.child is not None
    child = job.child
    if child is None:
        child = job.child = Flow(node.child, f"{job.id}/")
        child.known = {one.id: one for one in (*job.questions, *flow.known.values()) if one.id.startswith(child.path)}
        job.questions = [one for one in job.questions if one.id not in child.known]
        child.begin(handed_down(flow, node))
    else:
        child.retry()
    try:
        status = child.drive(outside)
    except FailedError as failed:
        child.tell("run-failed")
        child.flush(outside)
        flow.fail(job, node, *failed.failures, hopeless=True)
        return False
    child.tell(f"run-{status}")
    if status == "completed":
        flow.end(job, node, trail(child), None)
        return False
    if status == "interrupted":
        pause(flow, job, child)
    child.flush(outside)
    return status == "cancelled"


def handed_down(flow: Flow, node: Node) -> State:
    """R17: a nested graph starts with its parent's values of the shared fields."""
    assert node.child is not None
    start = model.first_state(node.child)
    shared = {each.name for each in node.child.fields}
    return {**start, **{name: copy.deepcopy(value) for name, value in flow.state.items() if name in shared}}


def begin_again(flow: Flow) -> None:
    """R18: after an edit, the nested graphs of unfinished tasks have the edited values as their starting point."""
    for job in flow.jobs:
        child = job.child
        if child is None or job.ended:
            continue
        state = handed_down(flow, flow.graph.node(job.item.task.node))
        updates: list[Update] = []
        for entry in child.log:
            if entry.path != child.path:
                continue
            if entry.kind == "task-succeeded":
                updates += entry.data[0]
            elif entry.kind == "superstep-committed":
                state, updates = model_fold.fold(child.graph, state, updates), []
        child.state = state
        begin_again(child)


def trail(child: Flow) -> list[Update]:
    """The updates of a nested graph in the order of its commits: they fold through its parent's reducers."""
    found: list[Any] = []
    for entry in child.log:
        if entry.path == child.path and entry.kind == "task-succeeded":
            found += entry.data[0]
    return found


def pause(flow: Flow, job: Job, child: Flow) -> None:
    """The questions of a nested graph are those of its task; earlier answers to it are kept."""
    paused = [question for inner in child.jobs if inner.status == "paused" for question in inner.questions]
    job.questions = list(child.after) if child.held else paused
    job.status = "paused"
    if any(question.answered for question in job.questions):
        flow.unpause(job)
