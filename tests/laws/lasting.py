"""Random graphs for threads: those of `graphs`, whose nodes ask, wait, fail at first, have effects, nest another graph.

The probabilities decide which bugs the laws can find. No node reads an untracked field: an interrupted run that
continues ends like an uninterrupted one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from .description import MISSING, Caps, Conditional, Field, Graph, Node, Router, SendTo, Turn, Write
from .graphs import Draw, chance, graphs, pick

__all__ = ["lasting_graphs"]


@st.composite
def lasting_graphs(draw: Draw, *, once: bool = False, asking: int = 30) -> Graph:
    """A description of a graph for a thread.

    Args:
        draw: Hypothesis.
        once: Whether some effects are of the kind `once`.
        asking: How many of a hundred nodes ask something.
    """
    graph: Graph = draw(graphs(fatal=False, mistakes=False, narrow=draw(st.booleans())))
    fields = graph.fields
    ghost: Field | None = None
    if chance(draw, 40):
        reducer = pick(draw, "append", "add", "overwrite")
        default: Any = MISSING if graph.style == "typeddict" else () if reducer == "append" else 0
        ghost = Field("ghost", reducer, default, untracked=True)
    kinds = ("idempotent", "pure", *(("once",) * 2 if once else ()))
    nodes: list[Node] = []
    place_of_child = draw(st.integers(0, 2 * len(graph.nodes)))
    for place, node in enumerate(graph.nodes):
        if place == place_of_child and not sent_to(graph, node.name):
            plain = replace(node, turns=(Turn(),), context=False, declared=None)
            made = replace(plain, child=child(draw, graph, kinds, asking))
        else:
            made = habits(draw, node, kinds, asking) if node.context else node
        if made.child is None and ghost is not None and chance(draw, 40 if ghost.reducer != "overwrite" else 15):
            made = replace(made, turns=tuple(with_write(turn, ghost.name, place) for turn in made.turns))
        nodes.append(replace(made, pauses=pick(draw, "before", "after")) if chance(draw, asking // 4) else made)
    return replace(graph, nodes=tuple(nodes), fields=(*fields, ghost) if ghost is not None else fields)


def habits(draw: Draw, node: Node, kinds: tuple[Any, ...], asking: int) -> Node:
    """*node*, which perhaps fails at first, has effects, or asks."""
    flaky = pick(draw, 1, 2) if chance(draw, 20) else 0
    effects = tuple(draw(st.lists(st.sampled_from(kinds), max_size=2))) if chance(draw, 25) else ()
    asks, returns = 0, False
    if chance(draw, asking):
        asks, returns = pick(draw, (1, False), (2, False), (0, True), (1, True))
    return replace(node, flaky=flaky, effects=effects, asks=asks, returns=returns)


def with_write(turn: Turn, field: str, number: int) -> Turn:
    return replace(turn, writes=(*turn.writes, Write(field, number)))


def sent_to(graph: Graph, name: str) -> bool:
    """Whether a Send may name the node: its arg would not be a mapping, which a nested graph requires."""
    targets = [target for node in graph.nodes for turn in node.turns for target in turn.goto or ()]
    for conditional in graph.conditionals:
        for answer in conditional.router.answers:
            targets += answer if isinstance(answer, tuple) else ()
    return any(isinstance(target, SendTo) and target.node == name for target in targets)


def child(draw: Draw, graph: Graph, kinds: tuple[Any, ...], asking: int) -> Graph:
    """A small graph to nest: P, then Q and perhaps R, which write fields that several nodes may write."""
    fields = tuple(each for each in graph.fields if not each.ephemeral)
    shared = [each for each in fields if each.reducer != "overwrite"]

    def turn(number: int) -> Turn:
        if not shared or not chance(draw, 75):
            return Turn()
        return Turn((Write(pick(draw, *shared).name, number, pick(draw, None, *(each.name for each in fields))),))

    made = [habits(draw, Node(name, (turn(n), turn(n + 1))), kinds, asking) for n, name in enumerate("PQR")]
    nodes = tuple(
        replace(node, pauses=pick(draw, "before", "after")) if chance(draw, asking // 2) else node for node in made
    )
    static: tuple[tuple[str | None, str], ...] = ((None, "P"),)
    shape = pick(draw, "line", "fan", "sends", "both")
    if shape == "sends":
        router = Router(
            ((SendTo("Q", 1), SendTo("R", 2), SendTo("Q", None)), ("on",)), pick(draw, None, *names(fields))
        )
        return Graph(fields, nodes, static, (Conditional("P", router, (("on", "R"),)),), style=graph.style, caps=Caps())
    static += {"line": (("P", "Q"), ("Q", "R")), "fan": (("P", "Q"), ("P", "R")), "both": (("P", "Q"),)}[shape]
    if shape == "both":
        static += ((None, "R"),)
    return Graph(fields, nodes, static, style=graph.style)


def names(fields: tuple[Field, ...]) -> tuple[str, ...]:
    return tuple(each.name for each in fields)
