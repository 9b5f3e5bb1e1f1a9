"""Graphs as plain data, with nodes and routers as small scripts.

The reference model interprets a description, `build` turns the same description into a real graph. This module has what
a user would write: data, and the pure functions of the scripts. It must not contain rules of execution.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from typing import Any, Literal, TypeAlias

Value: TypeAlias = int | list[int] | None
State: TypeAlias = dict[str, Value]
Reducer: TypeAlias = Literal["overwrite", "append", "add", "union", "first", "min", "max", "mix"]
Op: TypeAlias = Literal["set", "overwrite", "delete"]
Style: TypeAlias = Literal["typeddict", "pydantic", "dataclass"]
Kind: TypeAlias = Literal["pure", "idempotent", "once"]

END = "END"
"""In a description, END is this string, which no node may have as its name."""


class Missing(Enum):
    """The type of MISSING."""

    MISSING = "missing"

    def __repr__(self) -> str:
        return "MISSING"


MISSING = Missing.MISSING
"""No default: the field is absent (TypedDict) or required (the other styles)."""


class Plain:
    """A base whose repr shows only non-default values: shrunk examples fit on a screen."""

    def __repr__(self) -> str:
        fields: tuple[dataclasses.Field[object], ...] = dataclasses.fields(self)  # type: ignore[arg-type]  # all are dataclasses
        shown = [
            (field.name, getattr(self, field.name)) for field in fields if getattr(self, field.name) != field.default
        ]
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown)})"

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """Hypothesis calls this one."""
        printer.text(repr(self))


@dataclasses.dataclass(frozen=True, repr=False)
class Field(Plain):
    """One field of the state. `append` and `union` hold lists of int, all others an int or None."""

    name: str
    reducer: Reducer = "overwrite"
    default: int | tuple[int, ...] | Missing | None = MISSING
    ephemeral: bool = False
    untracked: bool = False

    @property
    def is_list(self) -> bool:
        return self.reducer in ("append", "union")

    @property
    def has_identity(self) -> bool:
        """Whether the reducer has one: a TypedDict's key with such a reducer may be missing from the input."""
        return self.is_list or self.reducer == "add"


@dataclasses.dataclass(frozen=True, repr=False)
class Write(Plain):
    """One field of an update: a small number computed from *base*, the value of *reads*, and the arg of the task."""

    field: str
    base: int = 0
    reads: str | None = None
    op: Op = "set"

    def number(self, snapshot: Mapping[str, Value], arg: int | None) -> int:
        return (self.base + measure(snapshot, self.reads) + (arg or 0)) % 10

    def value(self, graph: Graph, snapshot: Mapping[str, Value], arg: int | None) -> Value:
        """The written value: the number, or a list of none, one or two numbers, sometimes with a duplicate."""
        number = self.number(snapshot, arg)
        if not graph.field(self.field).is_list:
            return number
        return [] if number == 9 else [number, number % 4] if number % 2 == 0 else [number]


@dataclasses.dataclass(frozen=True, repr=False)
class SendTo(Plain):
    """One Send."""

    node: str
    arg: int | None = None


Target: TypeAlias = str | SendTo


@dataclasses.dataclass(frozen=True, repr=False)
class Turn(Plain):
    """The action of a node in one visit. *goto* None keeps the edges in force, () ends the branch."""

    writes: tuple[Write, ...] = ()
    goto: tuple[Target, ...] | None = None
    fails: bool = False
    apart: bool = False
    """It returns a list with an update for each of its writes, with the same meaning."""


@dataclasses.dataclass(frozen=True, repr=False)
class Node(Plain):
    """One node: visit v plays turn `(v - 1) % len(turns)`; a node without context always plays the first.

    *declared* is the policy `goto=[...]`, or None. Only `steady` nodes use the later fields, and only with a context:
    the answers and results that they get are added to the numbers that they write.
    """

    name: str
    turns: tuple[Turn, ...] = (Turn(),)
    context: bool = True
    max_visits: int | None = None
    on_error: str | None = None
    on_fatigue: str | None = None
    declared: tuple[str, ...] | None = None
    defer: bool = False
    asks: int = 0
    """Questions that it asks by `ctx.interrupt`, one after another."""
    returns: bool = False
    """It first returns an Interrupt with a number as its answer, and continues with `ctx.answer`."""
    flaky: int = 0
    """Attempts that fail before one succeeds; its retry policy allows one more."""
    effects: tuple[Kind, ...] = ()
    """Its `ctx.effect` calls, before it asks."""
    pauses: Literal["", "before", "after"] = ""
    """The policy `interrupt_before` or `interrupt_after`."""
    child: Graph | None = None
    """The nested graph: then the node has no turns."""

    def turn(self, visit: int) -> Turn:
        return self.turns[(visit - 1) % len(self.turns)] if self.context else self.turns[0]


Answer: TypeAlias = str | tuple[str, ...] | tuple[SendTo, ...] | None
"""The result of a router: a label, labels, Sends, or (a mistake) None."""


@dataclasses.dataclass(frozen=True, repr=False)
class Router(Plain):
    """A pure function of the state: the answer at `(measure of *reads* + *shift*) % len(answers)`.

    One that *hears* takes a context, and adds the arg of the task.
    """

    answers: tuple[Answer, ...]
    reads: str | None = None
    shift: int = 0
    hears: bool = False

    def answer(self, state: Mapping[str, Value], arg: int | None) -> Answer:
        shift = self.shift + (arg or 0 if self.hears else 0)
        return self.answers[(measure(state, self.reads) + shift) % len(self.answers)]


@dataclasses.dataclass(frozen=True, repr=False)
class Conditional(Plain):
    """A conditional edge from *src* (None: from START)."""

    src: str | None
    router: Router
    routes: tuple[tuple[str, str], ...]
    default: str | None = None


@dataclasses.dataclass(frozen=True, repr=False)
class Join(Plain):
    """A join of *sources* at *dst*."""

    sources: tuple[str, ...]
    dst: str
    when: Literal["all", "any"] | int = "all"
    starved: Literal["error", "ignore", "run"] = "error"


@dataclasses.dataclass(frozen=True, repr=False)
class Caps(Plain):
    """The limits of R8 that are counted."""

    max_steps: int = 1000
    max_visits: int | None = 50
    max_tasks: int = 10_000


@dataclasses.dataclass(frozen=True, repr=False)
class Graph(Plain):
    """A whole graph and its input: nodes in the order of their addition; an edge from None is from START."""

    fields: tuple[Field, ...]
    nodes: tuple[Node, ...]
    edges: tuple[tuple[str | None, str], ...] = ()
    conditionals: tuple[Conditional, ...] = ()
    joins: tuple[Join, ...] = ()
    caps: Caps = Caps()
    given: tuple[tuple[str, int | tuple[int, ...] | None], ...] = ()
    style: Style = "typeddict"

    def node(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)

    def field(self, name: str) -> Field:
        return next(field for field in self.fields if field.name == name)


def measure(state: Mapping[str, Value], name: str | None) -> int:
    """A number for the value of the field *name*: 0 if empty; it distinguishes lists by order and length."""
    value = None if name is None else state.get(name)
    if isinstance(value, list):
        return sum((place + 1) * item for place, item in enumerate(value)) + len(value)
    return value or 0


def thaw(value: int | tuple[int, ...] | None) -> Value:
    """The value as in a state: real lists, new ones each time."""
    return list(value) if isinstance(value, tuple) else value


def mix(current: int, incoming: int) -> int:
    """A user's reducer that is neither commutative nor associative, which reveals any other order."""
    return (current * 7 + incoming) % 1009
