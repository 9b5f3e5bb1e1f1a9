"""Scripts of stateless nodes: a run of them may die anywhere and continue in another process.

The actions of a node depend on the number of the superstep, its argument and its answers. Other modules interrupt the
runs, and the tests check the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from graphrt import Context, Interrupt

from .build import Pace, Script, ScriptedError
from .description import Graph, Node


@dataclass
class World:
    """The world outside a run: its broken nodes, and the recorded effects."""

    broken: set[str] = field(default_factory=set[str])
    """Nodes that fail."""
    done: Counter[str] = field(default_factory=Counter[str])
    """Idempotency key and number of an effect -> how often it was performed."""
    enter: Callable[[str], None] = lambda _: None
    """Called with its name when a node begins."""


class Steady(Script):
    """Plays nodes by the number of the superstep, with the habits in their description."""

    def __init__(self, graph: Graph, world: World | None = None, pace: Pace | None = None) -> None:
        super().__init__(graph, pace or Pace())
        self.world = world if world is not None else World()

    def inside(self, node: Node) -> Steady:
        assert node.child is not None
        return Steady(node.child, self.world, self.pace)

    def visit(self, node: Node, ctx: Context | None) -> int:
        return 1 if ctx is None else ctx.step

    def outcome(self, node: Node, visit: int, state: Any, ctx: Context | None) -> Any:
        self.world.enter(node.name)
        if node.name in self.world.broken:
            raise ScriptedError(node.name)
        if ctx is None:
            return super().outcome(node, visit, state, ctx)
        if ctx.attempt <= node.flaky:
            raise ConnectionError(node.name)
        turn = node.turn(visit)
        if turn.fails:
            raise ScriptedError(node.name)
        heard = [self.effect(ctx, number, kind) for number, kind in enumerate(node.effects)]
        heard += [ctx.interrupt({"ask": number}) for number in range(node.asks)]
        if node.returns:
            if ctx.answer is None:
                return Interrupt({"back": node.name}, answer_type=int)
            heard.append(ctx.answer)
        if ctx.error is not None:
            heard.append(1)
        return self.result(turn, state, (ctx.arg or 0) + sum(heard))

    def effect(self, ctx: Context, number: int, kind: Any) -> int:
        """Perform an effect on the world, once."""

        def act() -> int:
            self.world.done[f"{ctx.idempotency_key} {number}"] += 1
            return number + 1

        found: int = ctx.effect(f"act{number}", act, kind=kind)
        return found
