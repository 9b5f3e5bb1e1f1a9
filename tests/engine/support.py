"""An engine under the control of a test: nodes are never called, outcomes are reported by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, TypedDict

from graphrt import Context, GraphBuilder, Limits
from graphrt._engine.engine import Engine
from graphrt._engine.task import Task
from graphrt._flows.verbs import drive
from graphrt.reducers import add, append, union

JUDGEMENTS = ("unreachable-node", "no-way-out", "starving-join", "write-conflict", "endless-loop")


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]
    pair: Annotated[tuple[Any, ...], append]
    seen: Annotated[list[int], union]
    n: Annotated[int, add]
    last: Any
    other: Any


def never(state: Any, ctx: Context) -> Any:
    raise AssertionError("the engine called a node")


def never_plain(state: Any) -> Any:
    raise AssertionError("the engine called a node")


def engine(
    names: str,
    edges: Iterable[tuple[Any, Any]] = (),
    *,
    more: Callable[[GraphBuilder[Any, Any]], object] = lambda _: None,
    plain: str = "",
    given: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    thread: str | None = None,
    check_state: bool = False,
    state: Any = State,
    **policies: Mapping[str, Any],
) -> Engine:
    """A started engine with a node for each letter of *names*; those in *plain* take no context."""
    g: GraphBuilder[Any, Any] = GraphBuilder(state, name="test")
    for name in names:
        g.add_node(name, never_plain if name in plain else never, **policies.get(name, {}))
    for src, dst in edges:
        g.add_edge(src, dst)
    more(g)
    plan = g.compile(allow=JUDGEMENTS).__graphrt_plan__
    made = Engine(plan, limits or plan.limits, thread=thread, check_state=check_state)
    made.start(plan.state.initial(given or {}, where="test"))
    return made


def reply(engine: Engine, **replies: Any) -> list[str]:
    """Drive once, report these replies by node (None for the others), and drive again; return the due nodes."""
    tasks = drive(engine).tasks
    for task in tasks:
        assert engine.report(task, task.execution, replies.get(task.node.name))
    return names(drive(engine).tasks, again=engine)


def names(tasks: Iterable[Task], *, again: Engine | None = None) -> list[str]:
    """Names of the nodes; with *again* the tasks are made due again, as if they had not been dispatched."""
    found = []
    for task in tasks:
        found.append(task.node.name)
        if again is not None:
            task.status = 0
    return found


def values(engine: Engine) -> dict[str, Any]:
    """The nonempty values."""
    return {name: value for name, value in engine.values.items() if value not in ([], (), 0)}
