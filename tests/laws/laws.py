"""The laws as plain functions of an example: they raise AssertionError if the engine breaks them.

The tests call them with random graphs; `test_planted_mistake_is_a_finding` with broken engines, to show that they detect bugs. They do not
use Hypothesis.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import random
from typing import Any

from graphrt import END, START, Context, GraphBuilder
from graphrt.errors import GraphrtError
from graphrt.testing import run_scripted

from . import hands, observe
from .build import Pace, Script, build, state_class, to_plain
from .description import Graph, Node, State
from .model import Result, interpret


def reference(graph: Graph) -> Result:
    """Steps of a journalled run (the general path) equal those of the model."""
    result = interpret(graph)
    observe.check(result, observe.observe(graph))
    return result


def straight_steps(graph: Graph) -> Result:
    """Steps of a run without a journal (the shortest form of a superstep) equal those of the model."""
    result = interpret(graph)
    observe.check(result, observe.observe(graph, silent=True))
    return result


def straight_end(graph: Graph) -> None:
    """A run without any reader ends like the model."""
    expected = interpret(graph)
    compiled = build(graph, Script(graph, Pace()))
    result = error = None
    try:
        result = compiled.run(observe.given(graph))
    except GraphrtError as raised:
        error = raised
    check_kind(expected, error)
    if result is not None:
        observe.same(to_plain(graph, result.state), expected.state, "state at the end")
        observe.same(result.steps, len(expected.supersteps), "supersteps")


def check_kind(expected: Result, error: GraphrtError | None) -> None:
    """Check for the same end: completed, or failed with an error of a kind that the model allows."""
    kinds = {failure.kind for failure in expected.failures} or {"NoneType"}
    assert type(error).__name__ in kinds, f"{error!r} instead of {kinds}"


class Keeper(Script):
    """Nodes that keep every state that they see."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph, Pace())
        self.kept: list[tuple[Any, State]] = []

    def outcome(self, node: Node, visit: int, state: Any, ctx: Context | None) -> Any:
        self.kept.append((state, copy.deepcopy(to_plain(self.graph, state))))
        return super().outcome(node, visit, state, ctx)


def ownership(graph: Graph, *, silent: bool) -> None:
    """Retained states are unchanged, and so are the steps, although nodes keep references."""
    keeper = Keeper(graph)
    seen = observe.observe(graph, script=keeper, silent=silent)
    for state, before in keeper.kept:
        observe.same(to_plain(graph, state), before, "a kept state")
    observe.check(interpret(graph), seen)


def journal_of(graph: Graph, *, times: int = 1, chance: random.Random | None = None) -> list[dict[str, Any]]:
    """The journal of a scripted run, whose tasks end in order or as *chance* decides, each reported so many times."""
    journal: list[dict[str, Any]] = []
    ended = itertools.count(1)

    def choose(tasks: Any) -> int:
        chosen = 0 if chance is None else chance.randrange(len(tasks))
        tasks[chosen].duration_s = float(next(ended))
        return chosen

    with contextlib.suppress(GraphrtError):  # the journal has that too
        run_scripted(
            build(graph, Script(graph, Pace())),
            observe.given(graph),
            choose=choose,
            times=times,
            check_state=False,
            **observe.options(journal),
        )
    return journal


def order(graph: Graph, chance: random.Random, *, times: int = 1) -> None:
    """Tasks may end in any order, and be reported several times: the journal is the same."""
    expected = journal_of(graph)
    shuffled = journal_of(graph, times=times, chance=chance)

    assert ruled(graph, shuffled) == ruled(graph, expected)


def ruled(graph: Graph, journal: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The part of *journal* that the rules determine: which of several failed tasks failed first is open."""
    return committed(journal) if len(interpret(graph).failures) > 1 else journal


def committed(journal: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The journal up to the last commit."""
    kept = [at for at, entry in enumerate(journal, 1) if entry["event"] == "superstep-committed"]
    return journal[: kept[-1] if kept else 0]


def duplicate(graph: Graph, salt: int, chance: random.Random) -> hands.End:
    """Messages that arrive late, twice and in any order lead to the end and the journal of a plain run."""
    plain = hands.by_flow(graph, salt)
    again = hands.by_hand(graph, salt, chance)

    assert type(again.error) is type(plain.error) or len(interpret(graph).failures) > 1
    assert again.state() == plain.state()
    if plain.error is None:
        assert again.journal == plain.journal
    else:
        assert committed(again.journal) == committed(plain.journal)
    return plain


def nesting(graph: Graph) -> None:
    """A graph that is the only node of another ends as it does on its own, and its only step has all its writes.

    Ephemeral fields are excluded: they live one superstep of the graph that they are in.
    """
    expected = interpret(graph)
    inner = build(graph, Script(graph, Pace()))
    builder: GraphBuilder[Any, Any] = GraphBuilder(state_class(graph), name="outer")
    outer = builder.add_node("inner", inner).add_edge(START, "inner").add_edge("inner", END).compile()
    steps: list[Any] = []
    error = None
    try:
        with observe.runtime(outer, None) as runtime:
            steps += runtime.steps(observe.given(graph))
    except GraphrtError as raised:
        error = raised
    check_kind(expected, error)
    if error is None:
        (step,) = steps
        observe.same(to_plain(graph, step.after), expected.state, "state at the end")
        observe.same(to_plain(graph, step.before), observe.first_state(graph), "state before")
