"""The reference model: a naive, slow interpreter of the rules of execution over a description of a graph.

It is written to be read beside the rules, not to be fast: it copies the whole state at every access, keeps every
superstep, and recomputes everything from plain lists. It does not import graphrt: a misread rule there is not repeated
here. The numbers (R1, R2, ...) are those of the rules of execution.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from .description import END, MISSING, Answer, Conditional, Graph, Join, Node, SendTo, State, Target, thaw
from .model_fold import Failure, Task, Update, find_conflicts, fold, identity, undeletable, update_of


@dataclass(frozen=True)
class Superstep:
    """One committed superstep."""

    tasks: tuple[Task, ...]
    """In task order."""
    outcomes: tuple[str, ...]
    """"success" or "error", one for each task."""
    updates: tuple[Update, ...]
    """Field -> (op, value), one for each task."""
    state: State
    """As committed."""
    visits: tuple[int, ...]
    """The visit number of each task's node."""
    fired: tuple[int, ...] = ()
    """Joins that fired at the end of it, by index."""


@dataclass(frozen=True)
class Result:
    """All results of a run."""

    status: str
    """"completed" or "failed"."""
    state: State
    """As committed last."""
    supersteps: tuple[Superstep, ...]
    failures: tuple[Failure, ...] = ()
    """Empty if completed.

    Several if the failed superstep allows several: the rules do not determine which one is raised.
    """
    attempted: tuple[Task, ...] = ()
    """The tasks of the superstep that failed and was not committed."""
    rescued: tuple[int, ...] = ()
    """Joins that quiescence fired with the arrived sources."""


class FailedError(Exception):
    """The run cannot continue."""

    def __init__(self, *failures: Failure) -> None:
        self.failures = failures


@dataclass
class Due:
    """The tasks that run next: names of plain activations (merged, R4) and Sends in emission order."""

    plain: set[str] = field(default_factory=set[str])
    sends: list[Task] = field(default_factory=list[Task])
    emptied: list[Conditional] = field(default_factory=list[Conditional])
    """Conditional edges whose router returned an empty list."""

    def tasks(self, graph: Graph) -> list[Task]:
        """R2: plain activations in the order of their nodes, then Sends in emission order."""
        return [Task(node.name) for node in graph.nodes if node.name in self.plain] + list(self.sends)


@dataclass
class Generation:
    """The open generation of a join (R5). Without arrivals and unfired, it does not exist."""

    arrived: set[str] = field(default_factory=set[str])
    fired: bool = False
    emptied: bool = False
    """An empty map was the only possible route to its sources."""


def interpret(graph: Graph) -> Result:
    """Run *graph* on its input."""
    state = first_state(graph)
    supersteps: list[Superstep] = []
    generations = [Generation() for _ in graph.joins]
    visits = {node.name: 0 for node in graph.nodes}
    rescued: list[int] = []
    attempted: tuple[Task, ...] = ()
    waiting: set[str] = set()
    try:
        due = leave_start(graph, copy.deepcopy(state))
        empty(graph, generations, due)
        while True:
            due, waiting = part(graph, due, waiting)
            relieved = relieve(graph, due, visits)
            if relieved.tasks(graph) != due.tasks(graph):
                due = relieved  # the replacements of exhausted nodes may be deferred, and be alone
                continue
            tasks = due.tasks(graph)
            if not tasks:
                saved = quiesce(graph, generations)
                if not saved:
                    return Result("completed", state, tuple(supersteps), rescued=tuple(rescued))
                rescued += saved
                due = Due(plain={graph.joins[index].dst for index in saved})
                continue
            check_limits(graph, tasks, len(supersteps))
            attempted = tuple(tasks)
            for name in {task.node for task in tasks}:
                visits[name] += 1
            superstep, due, generations = run_superstep(graph, state, tasks, dict(visits), generations)
            attempted = ()
            supersteps.append(superstep)
            state = copy.deepcopy(superstep.state)
    except FailedError as failed:
        return Result("failed", state, tuple(supersteps), failed.failures, attempted, tuple(rescued))


def part(graph: Graph, due: Due, waiting: set[str]) -> tuple[Due, set[str]]:
    """The tasks that start now, and plain activations of deferred nodes, which wait while any other task is due."""
    plain = due.plain | waiting
    later = {name for name in plain if graph.node(name).defer}
    now = Due(plain - later, due.sends, due.emptied)
    return (now, later) if now.plain or now.sends else (Due(plain, due.sends, due.emptied), set())


def first_state(graph: Graph) -> State:
    """R7: the input is the initial state, with defaults; no reducer runs.

    A key of a TypedDict that may be missing because its reducer has an identity starts with it.
    """
    state: State = {}
    for each in graph.fields:
        if each.default is not MISSING:
            state[each.name] = thaw(each.default)
        elif graph.style == "typeddict" and each.has_identity:
            state[each.name] = identity(each)
    for name, value in graph.given:
        state[name] = thaw(value)
    return state


def run_superstep(
    graph: Graph, state: State, tasks: list[Task], visits: dict[str, int], generations: list[Generation]
) -> tuple[Superstep, Due, list[Generation]]:
    """R1 and R3: every task sees *state*; fold, routes and next tasks are committed together or not at all."""
    turns = [graph.node(task.node).turn(visits[task.node]) for task in tasks]
    updates: list[Update] = []
    failures: list[Failure] = []
    broken: list[bool] = []
    for task, turn in zip(tasks, turns, strict=True):
        node = graph.node(task.node)
        update = update_of(graph, task, copy.deepcopy(state), visits)
        refused = undeletable(graph, task, update) + misdirected(graph, node, turn.goto or ())
        if turn.fails:
            refused = [Failure("NodeError", frozenset({task.node}))]
        broken.append(bool(refused))
        updates.append({} if refused else update)
        failures += [] if node.on_error else refused
    conflicts = find_conflicts(graph, tasks, updates)
    if any(failure.kind == "NodeError" for failure in failures):
        raise FailedError(*failures)  # a failure leaves the superstep open: nothing was folded
    if failures or conflicts:
        raise FailedError(*failures, *conflicts)

    folded = fold(graph, state, updates)
    gotos: list[tuple[Target, ...] | None] = []
    for task, turn, failed in zip(tasks, turns, broken, strict=True):
        on_error = graph.node(task.node).on_error
        gotos.append((on_error,) if failed and on_error is not None else turn.goto)
    due, sources = route(graph, folded, tasks, gotos)
    generations = copy.deepcopy(generations)
    fired = [index for source in sources for index in arrive(graph, generations, source)]
    empty(graph, generations, due)
    due.plain |= {graph.joins[index].dst for index in fired}
    outcomes = tuple("error" if failed else "success" for failed in broken)
    numbers = tuple(visits[task.node] for task in tasks)
    return Superstep(tuple(tasks), outcomes, tuple(updates), folded, numbers, tuple(fired)), due, generations


# R3 and R4: routes ---------------------------------------------------------------------------------------------------


def leave_start(graph: Graph, state: State) -> Due:
    """The start of a run: the edges of START, with routers evaluated on the initial state."""
    due = Due()
    failures = follow_edges(graph, state, None, due)
    if failures:
        raise FailedError(*failures)
    return due


def route(
    graph: Graph, state: State, tasks: list[Task], gotos: list[tuple[Target, ...] | None]
) -> tuple[Due, list[str]]:
    """The next tasks, and the nodes that arrive at their joins, in task order.

    A task with a goto follows it instead of the routes of its node; the first of the other tasks of a node follows the
    node's edges and routers, once. Routers with a context are called for each of them.
    """
    due = Due()
    sources: list[str] = []
    failures: list[Failure] = []
    for task, goto in zip(tasks, gotos, strict=True):
        if goto is not None:
            failures += add_targets(graph, task.node, goto, due)
        elif task.node not in sources:
            sources.append(task.node)
            failures += follow_edges(graph, copy.deepcopy(state), task.node, due, task.arg)
        else:
            failures += follow_hearing(graph, copy.deepcopy(state), task.node, due, task.arg)
    if failures:
        raise FailedError(*failures)
    return due, sources


def follow_edges(graph: Graph, state: State, source: str | None, due: Due, arg: int | None = None) -> list[Failure]:
    """Static edges, or conditional edges in order; None is START."""
    failures: list[Failure] = []
    for src, dst in graph.edges:
        if src == source:
            failures += add_targets(graph, source, (dst,), due)
    for conditional in graph.conditionals:
        if conditional.src == source:
            failures += follow_router(graph, conditional, conditional.router.answer(state, arg), due)
    return failures


def follow_hearing(graph: Graph, state: State, source: str, due: Due, arg: int | None) -> list[Failure]:
    """Only the conditional edges whose routers take a context, for one more task of their node."""
    failures: list[Failure] = []
    for each in graph.conditionals:
        if each.src == source and each.router.hears:
            failures += follow_router(graph, each, each.router.answer(state, arg), due)
    return failures


def follow_router(graph: Graph, conditional: Conditional, answer: Answer, due: Due) -> list[Failure]:
    """A label, labels or Sends; () ends the branch, None is a RouteError, `default` handles any other label."""
    wrong = Failure("RouteError", frozenset({conditional.src} if conditional.src else ()))
    if answer is None:
        return [wrong]
    failures: list[Failure] = []
    if answer == ():
        due.emptied.append(conditional)
    for choice in (answer,) if isinstance(answer, str) else answer:
        if isinstance(choice, SendTo):
            failures += add_targets(graph, conditional.src, (choice,), due)
            continue
        target = dict(conditional.routes).get(choice, conditional.default)
        failures += [wrong] if target is None else add_targets(graph, conditional.src, (target,), due)
    return failures


def add_targets(graph: Graph, source: str | None, targets: tuple[Target, ...], due: Due) -> list[Failure]:
    """R4: plain activations merge, Sends never do; END starts nothing."""
    failures: list[Failure] = []
    for target in targets:
        if isinstance(target, SendTo):
            if target.node == END or not graph.node(target.node).context:
                failures.append(Failure("RouteError", frozenset({source} if source else ())))
            else:
                due.sends.append(Task(target.node, target.arg, sent=True))
        elif target != END:
            due.plain.add(target)
    return failures


def misdirected(graph: Graph, node: Node, goto: tuple[Target, ...]) -> list[Failure]:
    """A goto to an invalid target, or outside the declared targets."""
    failures = add_targets(graph, node.name, goto, Due())
    for target in goto:
        name = target.node if isinstance(target, SendTo) else target
        if node.declared is not None and name not in node.declared:
            failures.append(Failure("RouteError", frozenset({node.name})))
    return failures


# R5: joins -----------------------------------------------------------------------------------------------------------


def threshold(join: Join) -> int:
    """The number of distinct sources that fires it."""
    return {"all": len(join.sources), "any": 1}[join.when] if isinstance(join.when, str) else join.when


def arrive(graph: Graph, generations: list[Generation], source: str) -> list[int]:
    """Let *source* arrive at each of its joins; return those that fire, by index. Changes *generations*."""
    fired: list[int] = []
    for index, join in enumerate(graph.joins):
        if source not in join.sources:
            continue
        if generations[index].fired and source in generations[index].arrived:
            generations[index] = Generation()  # a counted source arrives again, which opens the next generation
        generation = generations[index]
        generation.emptied = False
        generation.arrived.add(source)  # a repeat before firing counts once; after firing it is absorbed
        if not generation.fired and len(generation.arrived) >= threshold(join):
            generation.fired = True
            fired.append(index)
        if generation.fired and generation.arrived == set(join.sources):
            generations[index] = Generation()  # all have arrived: closed
    return fired


def empty(graph: Graph, generations: list[Generation], due: Due) -> None:
    """R5, an empty map: joins are notified whose sources it could have started, directly or by static edges."""
    for conditional in due.emptied:
        reached = {target for _, target in conditional.routes}
        if conditional.default is not None:
            reached.add(conditional.default)
        while more := {dst for src, dst in graph.edges if src in reached} - reached:
            reached |= more
        for generation, join in zip(generations, graph.joins, strict=True):
            if not generation.arrived and reached & set(join.sources):
                generation.emptied = True


def quiesce(graph: Graph, generations: list[Generation]) -> list[int]:
    """Nothing is due: fail if a join starves without permission, else fire those that may run. Changes *generations*."""
    starved = [index for index, each in enumerate(generations) if each.arrived and not each.fired]
    hopeless = [graph.joins[index] for index in starved if graph.joins[index].starved == "error"]
    if hopeless:
        raise FailedError(*[Failure("StarvedJoinError", frozenset({join.dst})) for join in hopeless])
    saved = [index for index in starved if graph.joins[index].starved == "run"]
    for index in saved:
        generations[index].fired = True  # arrivals stay: later first arrivals are absorbed
    emptied = [index for index, each in enumerate(generations) if each.emptied and graph.joins[index].starved == "run"]
    for index in emptied:
        generations[index].emptied = False  # no arrival: the next one opens a separate generation
    return saved + emptied


# R8: limits ----------------------------------------------------------------------------------------------------------


def relieve(graph: Graph, due: Due, visits: dict[str, int]) -> Due:
    """Replace every exhausted node by a plain activation of its on_fatigue target; chains are followed."""

    def tired(name: str) -> bool:
        own = graph.node(name).max_visits
        allowed = graph.caps.max_visits if own is None else own
        return allowed is not None and visits[name] + 1 > allowed

    relieved = Due()
    failures: list[Failure] = []
    for task in due.tasks(graph):
        target: str = task.node
        passed: list[str] = []
        while target != END and tired(target):
            passed.append(target)
            following = graph.node(target).on_fatigue
            if following is None or following in passed:
                failures.append(Failure("NodeFatigueError", frozenset(passed)))
                break
            target = following
        if not passed and task.sent:
            relieved.sends.append(task)
        elif target != END:
            relieved.plain.add(target)
    if failures:
        raise FailedError(*failures)
    return relieved


def check_limits(graph: Graph, tasks: list[Task], steps: int) -> None:
    """max_steps fails only if more work remains; max_tasks counts the tasks of one superstep."""
    if steps >= graph.caps.max_steps:
        raise FailedError(Failure("StepLimitError", frozenset(task.node for task in tasks)))
    if len(tasks) > graph.caps.max_tasks:
        raise FailedError(Failure("LimitError", frozenset(task.node for task in tasks)))
