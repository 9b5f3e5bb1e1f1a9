"""replay and diff compare values that contain themselves, are very deep, or refuse to be compared."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from typing import Annotated, Any

import pydantic
import pytest
import typing_extensions as te

from graphrt import Runtime
from graphrt._runs.deep_equal import alike
from graphrt.errors import InputError, ReplayDivergedError

from .support import line, refused


def ring(*values: Any) -> list[Any]:
    """A list of *values* that ends with itself."""
    made = [*values]
    made.append(made)
    return made


def table(**values: Any) -> dict[str, Any]:
    """A dict that contains itself."""
    values["self"] = values
    return values


def deep(levels: int, end: Any = 0) -> Any:
    made: Any = end
    for _ in range(levels):
        made = [made]
    return made


class Model(pydantic.BaseModel):
    x: Any = None


@dataclasses.dataclass
class Point:
    x: Any = None
    note: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(eq=False)
class Thing:
    x: Any = None


class Never:
    def __eq__(self, other: object) -> bool:
        raise TypeError("never ask")

    __hash__ = None  # type: ignore[assignment]  # as it is


def holding(cls: type[Any], end: Any = 1) -> Any:
    """An instance that contains itself."""
    made = cls()
    made.x = [end, made]
    return made


def unrolled(value: Any) -> list[Any]:
    """The same endless list as `ring(value)`, of two."""
    inner: list[Any] = [value]
    outer = [value, inner]
    inner.append(outer)
    return outer


NAN = float("nan")

ALIKE = [
    (1, 1),
    (NAN, -float("nan")),
    ([1, {"a": NAN}], [1, {"a": float("nan")}]),
    ((NAN, 2), (float("nan"), 2)),
    ({NAN, 1}, {float("nan"), 1}),
    ({NAN: 1}, {float("nan"): 1}),
    (complex(NAN, 1), complex(float("nan"), 1)),
    (Decimal("NaN"), Decimal("NaN")),
    (Model(x=[NAN]), Model(x=[float("nan")])),
    (Point(x=NAN), Point(x=float("nan"))),
    ([1, {"a": 2}], [1, {"a": 2}]),
    (ring(1), ring(1)),
    (ring(1), unrolled(1)),
    (table(a=1), table(a=1)),
    ((ring(1), table()), (ring(1), table())),
    (deep(50_000), deep(50_000)),
    (holding(Model), holding(Model)),
    (holding(Point), holding(Point)),
    ([ring(), Point(1, "a")], [ring(), Point(1, "b")]),
]
UNLIKE = [
    (1, 2),
    (NAN, 1.0),
    ([NAN], [1.0]),
    ([NAN, 1], [NAN, 2]),
    ({NAN, 1}, {float("nan"), 2}),
    ({"a": NAN}, {"b": NAN}),
    (NAN, Decimal("NaN")),
    ([1, Never()], [2, Never()]),
    (ring(1), ring(2)),
    (ring(1), ring(1, 1)),
    (ring(1), unrolled(2)),
    (ring(), ()),
    (table(a=1), table(a=2)),
    (table(a=1), table(b=1)),
    (table(a=None), table()),
    ((ring(), 1), (ring(), 2)),
    (deep(50_000), deep(50_000, 1)),
    (deep(50_000), deep(49_999)),
    (holding(Model), holding(Model, 2)),
    (holding(Model), holding(Point)),
    (holding(Point), holding(Point, 2)),
    ([ring(), Thing(1)], [ring(), Thing(1)]),
]


@pytest.mark.parametrize("at", range(len(ALIKE)))
def test_equivalent_values_are_equal(at):
    one, other = ALIKE[at]
    assert alike(one, other) is alike(other, one) is True


@pytest.mark.parametrize("at", range(len(UNLIKE)))
def test_different_values_are_unequal(at):
    one, other = UNLIKE[at]
    assert alike(one, other) is alike(other, one) is False


def test_values_that_cannot_be_compared_raise():
    same = Never()
    assert alike([ring(), same], [ring(), same])
    error = refused("not-comparable", lambda: alike([Never()], [Never()]), "Never", "never ask", error=InputError)
    assert isinstance(error.__cause__, TypeError)


class State(te.TypedDict, total=False):
    x: Any
    all: Annotated[list[Any], lambda current, incoming: [*current, *incoming]]


def in_memory(make: Any) -> Runtime[Any]:
    """Two threads in memory whose state holds the result of *make*: a reducer's result is not validated again."""
    fields = {
        "x": Annotated[Any, lambda current, incoming: make()],
        "all": Annotated[list[Any], lambda current, incoming: [*current, make()]],
    }
    made: Any = te.TypedDict("Made", fields, total=False)  # type: ignore[operator]  # of no fixed fields
    runtime = Runtime(line(("a", lambda state: {"x": 1, "all": [1]}), state=made), store="memory:")
    for thread in ("t", "u"):
        runtime.run({"all": []}, thread=thread)
    return runtime


@pytest.mark.parametrize("make", [lambda: ring(1), lambda: table(a=1), lambda: holding(Model), lambda: deep(5_000)])
def test_replay_and_diff_of_values_that_contain_themselves(make):
    with in_memory(make) as runtime:
        assert runtime.replay("t").status == "completed"
        assert runtime.diff("t", "u") is None


def test_diff_names_the_place_of_the_difference():
    made = iter([1, 2])
    with Runtime(line(("a", lambda state: {"x": next(made)}), state=State), store="memory:") as runtime:
        for thread in ("t", "u"):
            runtime.run({"all": []}, thread=thread)
        found = runtime.diff("t", "u")

    assert found is not None
    assert (found.left.event.node, found.fields) == ("a", ("updates",))


numbers: list[int] = []
"""The values from which the reducer below builds rings, one after another."""


def fickle(current: list[Any], incoming: list[Any]) -> list[Any]:
    return ring(numbers.pop(0))


class Fickle(te.TypedDict, total=False):
    x: Annotated[list[Any], fickle]


def test_replay_reports_a_changed_reducer():
    with Runtime(line(("a", lambda state: {"x": [1]}), state=Fickle), store="memory:") as runtime:
        numbers[:] = [1]
        runtime.run({"x": []}, thread="t")
        numbers[:] = [1, 1]
        same = runtime.replay("t").status
        numbers[:] = [1, 2]
        with pytest.raises(ReplayDivergedError, match="state"):
            runtime.replay("t")

    assert same == "completed"


def test_values_that_refuse_comparison_are_an_error_of_the_call():
    with in_memory(Never) as runtime:
        refused("not-comparable", lambda: runtime.replay("t"), "Never", error=InputError)


def test_a_state_with_a_nan_is_replayed_and_compared(world):
    runtime = world.runtime(line(("a", lambda state: {"x": float("nan"), "all": [{"y": float("nan")}]}), state=State))
    for thread in ("t", "u"):
        runtime.run({"all": []}, thread=thread)

    assert runtime.replay("t").status == "completed"
    assert runtime.diff("t", "u") is None
    runtime.prune("t")
    assert runtime.replay("t").values["x"] != 0
