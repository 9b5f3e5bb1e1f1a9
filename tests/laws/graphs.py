"""Random graphs for the laws: Hypothesis strategies of descriptions, mostly valid, all of them terminating.

The probabilities decide which bugs the laws can find: forward edges more than loops, one owner for each
last-value field (else every fan-out would conflict), few mistakes. `max_steps` and `max_tasks` end every run.
Choices list the simplest first: examples shrink towards small graphs without special features.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from hypothesis import strategies as st

from .description import (
    END,
    MISSING,
    Answer,
    Caps,
    Conditional,
    Field,
    Graph,
    Join,
    Missing,
    Node,
    Op,
    Reducer,
    Router,
    SendTo,
    Style,
    Target,
    Turn,
    Write,
)

__all__ = ["graphs", "joined_graphs"]

Draw = st.DrawFn

PALETTE: tuple[tuple[str, Reducer, bool], ...] = (
    ("log", "append", False),
    ("last", "overwrite", False),
    ("total", "add", False),
    ("memo", "overwrite", False),
    ("seen", "union", False),
    ("lead", "first", False),
    ("low", "min", False),
    ("high", "max", False),
    ("mixed", "mix", False),
    ("flash", "overwrite", True),
    ("spark", "append", True),
    ("burst", "add", True),
)
NAMES = "dagbfce"
"""Not in alphabetical order: the order of addition differs from that of names."""
STYLES: tuple[Style, ...] = ("typeddict", "pydantic", "dataclass")


def chance(draw: Draw, percent: int) -> bool:
    """True in about *percent* of the examples; shrinks to False."""
    return draw(st.integers(0, 99)) >= 100 - percent


def pick(draw: Draw, *choices: Any) -> Any:
    """One of *choices*; shrinks to the first."""
    return draw(st.sampled_from(choices))


class Maker:
    """Draws the parts of one graph, which depend on each other."""

    def __init__(self, draw: Draw, *, fatal: bool, mistakes: bool, narrow: bool) -> None:
        self.draw = draw
        self.fatal = fatal
        self.narrow = narrow
        self.wild = mistakes and chance(draw, 25)
        self.names = tuple(NAMES[: draw(st.integers(2, 7))])
        self.deaf = tuple(name for name in self.names if chance(draw, 35 if self.wild else 10))
        self.style: Style = pick(draw, *STYLES)
        choices = [each for each in PALETTE if not (narrow and each[2])]
        palette = draw(st.lists(st.sampled_from(choices), min_size=1, max_size=6, unique=True))
        self.fields = tuple(self.field(*each) for each in palette)

    def field(self, name: str, reducer: Reducer, ephemeral: bool) -> Field:
        if self.style == "typeddict":
            return Field(name, reducer, MISSING, ephemeral)
        default: int | tuple[int, ...] | Missing | None
        if reducer == "mix":
            default = pick(self.draw, 1, 0)
        elif Field(name, reducer).is_list:
            default = pick(self.draw, (), (2, 1))
        else:
            default = pick(self.draw, None, 0, 3)
        if not ephemeral and chance(self.draw, 10):
            default = MISSING
        return Field(name, reducer, default, ephemeral)

    def given(self) -> tuple[tuple[str, int | tuple[int, ...] | None], ...]:
        """The input: all fields that have no default and need a value, and some of the rest."""
        values: list[tuple[str, int | tuple[int, ...] | None]] = []
        for each in self.fields:
            needed = each.default is MISSING and (self.style != "typeddict" or each.reducer == "mix")
            if needed or chance(self.draw, 40):
                values.append((each.name, pick(self.draw, (), (5,), (4, 1)) if each.is_list else pick(self.draw, 1, 4)))
        return tuple(values)

    def some(self, count: int) -> tuple[str, ...]:
        """0..count names, distinct."""
        return tuple(self.draw(st.lists(st.sampled_from(self.names), max_size=count, unique=True)))

    def onward(self, place: int) -> str:
        """A node or END, mostly after *place*: most graphs move towards their end."""
        later = self.names[place + 1 :] or (END,)
        return str(pick(self.draw, END, *later * (2 if self.narrow else 6), *self.names))

    def send(self) -> SendTo:
        hearing = [name for name in self.names if name not in self.deaf]
        choices = [*hearing, *self.deaf, END] if self.wild else hearing
        return SendTo(pick(self.draw, *choices), pick(self.draw, *((2, 1) if self.narrow else ()), None, 0, 1, 2))

    def sends(self) -> tuple[SendTo, ...]:
        if len(self.deaf) == len(self.names):
            return ()
        return tuple(self.send() for _ in range(self.draw(st.integers(0, 3))))

    # nodes

    def writes(self, place: int) -> tuple[Write, ...]:
        owned = [each for n, each in enumerate(self.fields) if n % len(self.names) == place]
        shared = [each for each in self.fields if each.reducer != "overwrite" or chance(self.draw, 15)]
        found: dict[str, Write] = {}
        for _ in range(self.draw(st.integers(1 if self.narrow else 0, 3))):
            lists = [each for each in shared if each.is_list] if self.narrow else []
            each = pick(self.draw, *lists, *shared, *owned, *lists) if shared or owned else None
            if each is not None and each.name not in found:
                reads = pick(self.draw, None, *(other.name for other in self.fields))
                alone = (each in owned or self.narrow) and each.reducer != "mix" and chance(self.draw, 30)
                op: Op = pick(self.draw, "delete", "overwrite") if alone else "set"
                found[each.name] = Write(each.name, self.draw(st.integers(0, 5)), reads, op)
        return tuple(found.values())

    def goto(self, place: int) -> tuple[Target, ...]:
        plain: tuple[Target, ...] = tuple(self.onward(place) for _ in range(self.draw(st.integers(0, 2))))
        sends = self.sends() if chance(self.draw, 50) else ()
        return (*sends, *plain) if chance(self.draw, 30) else (*plain, *sends)

    def turn(self, place: int, *, fails: bool) -> Turn:
        goto = self.goto(place) if chance(self.draw, 35 if self.wild else 8 if self.narrow else 22) else None
        return Turn(self.writes(place), goto, fails and chance(self.draw, 40), apart=chance(self.draw, 10))

    def node(self, place: int) -> Node:
        name = self.names[place]
        rescued = chance(self.draw, 18)
        fails = rescued or (self.fatal and chance(self.draw, 4))
        turns = tuple(self.turn(place, fails=fails) for _ in range(self.draw(st.integers(1, 3))))
        targets = {t.node if isinstance(t, SendTo) else t for each in turns for t in each.goto or ()}
        declared = None
        if targets and chance(self.draw, 80 if self.wild else 20):
            declared = tuple(sorted({*targets, *self.some(2)}))[: -1 if self.wild else None] or None
        later = self.names[place + 1 :]
        return Node(
            name,
            turns,
            context=name not in self.deaf,
            max_visits=pick(self.draw, 1, 2, 3) if chance(self.draw, 20) else None,
            on_error=pick(self.draw, *later, *self.names) if rescued else None,
            on_fatigue=pick(self.draw, END, *later, *later) if chance(self.draw, 50) else None,
            declared=declared,
        )

    # edges

    def conditional(self, src: str | None, place: int) -> Conditional:
        labels = ("x", "y", "z")[: self.draw(st.integers(1, 3))]
        routes = tuple((label, self.onward(place)) for label in labels)
        default = self.onward(place) if chance(self.draw, 20) else None
        strange = ("other",) * 2 if default or self.wild else ()
        answers = tuple(self.answer((*labels, *strange)) for _ in range(self.draw(st.integers(1, 4))))
        reads = pick(self.draw, None, *(each.name for each in self.fields))
        router = Router(answers, reads, self.draw(st.integers(0, 3)), hears=chance(self.draw, 25))
        return Conditional(src, router, routes, default)

    def answer(self, labels: tuple[str, ...]) -> Answer:
        plain = 8 if self.narrow else 5
        shape = pick(self.draw, *("label",) * plain, *("labels",) * 2, *("sends",) * 3, *("none",) * self.wild)
        if shape == "label":
            return str(pick(self.draw, *labels))
        if shape == "labels":
            return tuple(self.draw(st.lists(st.sampled_from(labels), max_size=2)))
        return self.sends() if shape == "sends" else None

    def edges(self, joins: tuple[Join, ...]) -> tuple[tuple[tuple[str | None, str], ...], tuple[Conditional, ...]]:
        """Out of START and of every node; sources of joins mostly have nothing else, which keeps joins in play."""
        arcs = {(source, join.dst) for join in joins for source in join.sources}
        static: list[tuple[str | None, str]] = []
        conditionals: list[Conditional] = []
        for place, src in enumerate((None, *self.names), -1):
            ends = 0 if src is None else 12 if any(src in join.sources for join in joins) else 1
            most = 1 if self.narrow else 3
            shape = pick(self.draw, *("static",) * 5, *("conditional",) * (1 if src is None else 3), *("none",) * ends)
            if shape == "conditional":
                conditionals += [self.conditional(src, place) for _ in range(min(most, pick(self.draw, 1, 1, 1, 2)))]
            elif shape == "static":
                for _ in range(self.draw(st.integers(1, most))):
                    later = self.names[place + 1 :] or (END,)
                    dst = str(pick(self.draw, *later * 6, *self.names))
                    if (src, dst) not in static and (src, dst) not in arcs:
                        static.append((src, dst))
        return tuple(static), tuple(conditionals)

    def joins(self) -> tuple[Join, ...]:
        found: list[Join] = []
        taken: set[tuple[str, str]] = set()
        for _ in range(pick(self.draw, 0, 0, 0, 1) if self.narrow else pick(self.draw, 0, 1, 1, 2)):
            dst = str(pick(self.draw, *reversed(self.names)))
            others = [name for name in self.names if name != dst and (name, dst) not in taken]
            sources = (
                tuple(
                    self.draw(st.lists(st.sampled_from(others), min_size=min(2, len(others)), max_size=4, unique=True))
                )
                if others
                else ()
            )
            if len(sources) < 2:
                continue
            when: Literal["all", "any"] | int = pick(self.draw, "all", "all", "any", *range(1, len(sources) + 1))
            found.append(Join(sources, dst, when, pick(self.draw, "ignore", "run", "run", "error")))
            taken |= {(source, dst) for source in sources}
        return tuple(found)

    def caps(self) -> Caps:
        steps = pick(self.draw, 12, 20, 5)
        return Caps(steps, pick(self.draw, 50, None, 4, 2), pick(self.draw, 3, 2, 4) if chance(self.draw, 25) else 40)


@st.composite
def graphs(draw: Draw, *, fatal: bool = True, mistakes: bool = True, narrow: bool = False) -> Graph:
    """A description.

    Args:
        draw: Hypothesis.
        fatal: Whether nodes without an `on_error` route may fail.
        mistakes: Whether some routers and gotos may name invalid targets.
        narrow: Whether most supersteps have one task, the simplest case.
    """
    maker = Maker(draw, fatal=fatal, mistakes=mistakes, narrow=narrow)
    nodes = tuple(maker.node(place) for place in range(len(maker.names)))
    joins = maker.joins()
    static, conditionals = maker.edges(joins)
    caps, given = maker.caps(), maker.given()
    if chance(draw, 40):
        nodes = tuple(replace(node, defer=chance(draw, 40)) for node in nodes)
    return Graph(maker.fields, nodes, static, conditionals, joins, caps, given, maker.style)


@st.composite
def joined_graphs(draw: Draw) -> Graph:
    """A description about joins: node s sends out some of the sources in each superstep, for a while."""
    sources = tuple("xwyv"[: draw(st.integers(2, 4))])
    ends = tuple("pq"[: draw(st.integers(1, 2))])
    some = st.lists(st.sampled_from(sources), unique=True)
    turns = [Turn(goto=(*draw(some), "s")) for _ in range(draw(st.integers(1, 8)))]
    starter = Node("s", (*turns, Turn(goto=tuple(draw(some)))))
    joins: list[Join] = []
    for dst in ends:
        chosen = tuple(draw(st.lists(st.sampled_from(sources), min_size=2, unique=True)))
        when = pick(draw, "all", "any", *range(2, len(chosen) + 1))
        joins.append(Join(chosen, dst, when, pick(draw, "run", "ignore", "error")))
    fields = (Field("log", "append"), Field("total", "add"))

    def turn(place: int) -> Turn:
        """Write a field; the ends sometimes start again from the beginning."""
        back = ("s",) if place >= len(sources) and chance(draw, 50) else None
        return Turn((Write("log", place, pick(draw, None, "total")), Write("total", 1)), back)

    writers = tuple(Node(name, (turn(n), turn(n), turn(n))) for n, name in enumerate((*sources, *ends)))
    nodes = tuple(draw(st.permutations((starter, *writers))))
    edges = ((None, "s"), *((ends[0], ends[1]) for _ in ends[1:] if chance(draw, 50)))
    nodes = tuple(replace(node, defer=chance(draw, 12)) for node in nodes)
    return Graph(fields, nodes, edges, joins=tuple(joins), caps=Caps(max_steps=20))
