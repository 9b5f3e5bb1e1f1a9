"""Rule R15: every assignment of a node to its state is detected, and allowed operations are not reported."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import Callable
from typing import Annotated, Any

import pydantic
import pytest

from graphrt import END, START, GraphBuilder, Limits, Runtime, Send, UpdateError
from graphrt.reducers import add, append

from .support import Face, get, parallel, sequence, state_class


def assign(state: Any, name: str, value: Any) -> None:
    if isinstance(state, dict):
        state[name] = value
    else:
        setattr(state, name, value)


def a_state(kind: str) -> Any:
    return state_class(kind, n=(int, 0), x=(Any, None), notes=(Annotated[list[Any], append], []))


def refused(run: Callable[[], Any]) -> UpdateError:
    with pytest.raises(UpdateError) as caught:
        run()
    assert caught.value.code == "mutated-state"
    return caught.value


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("returned", [None, {"n": 1}])
def test_assignment_to_a_field_is_detected(face: Face, made: Any, kind: str, beside: bool, returned: Any) -> None:
    def node(state: Any) -> Any:
        assign(state, "x", "new")
        return returned

    others = [("other", made(lambda s: None)), ("third", made(lambda s: None))] if beside else []
    graph = parallel(("node", made(node)), *others, state=a_state(kind))

    error = refused(lambda: face.run(graph, {"x": "old"}))

    assert (error.node, error.nodes, error.field) == ("node", ("node",), "x")
    assert "Node 'node' assigned to the state it was given: 'x'." in str(error)
    assert "x was 'old', is 'new'" in str(error)


@pytest.mark.parametrize("store", ["memory:", pytest.param("sqlite", marks=pytest.mark.full)])
def test_assignment_is_detected_before_the_outcome_is_stored(
    face: Face, made: Any, kind: str, store: str, tmp_path: Any
) -> None:
    runs: list[str] = []

    def node(state: Any) -> Any:
        runs.append("node")
        if len(runs) < 3:
            assign(state, "n", 5)
        return {"x": len(runs)}

    def other(state: Any) -> Any:
        return {"notes": ["other"]}

    graph = parallel(("other", made(other)), ("node", made(node)), state=a_state(kind))
    with Runtime(graph, store=f"sqlite:///{tmp_path}/runs.db" if store == "sqlite" else store) as runtime:
        refused(lambda: face.run(runtime, {}, thread="t"))
        refused(lambda: face.retry(runtime, "t"))
        state = face.retry(runtime, "t").state

    assert (get(state, "x"), get(state, "n", 0), get(state, "notes")) == (3, 0, ["other"])


def test_removed_or_added_key_is_detected(face: Face) -> None:
    for change, field in (
        (lambda s: s.pop("x"), "x"),
        (lambda s: s.clear(), "x"),
        (lambda s: s.update(unknown=1), "unknown"),
        (lambda s: s.setdefault("n", 3), "n"),
    ):
        error = refused(
            lambda change=change: face.run(sequence(("node", change), state=a_state("typeddict")), {"x": 1})
        )
        assert error.field == field


def test_assignment_to_an_unknown_attribute_is_detected(face: Face) -> None:
    def node(state: Any) -> Any:
        state.unknown = 1

    class Loose(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="allow")
        x: int = 0

    for state in (a_state("dataclass"), Loose):
        assert refused(lambda state=state: face.run(sequence(("node", node), state=state), {})).field == "unknown"


def test_assignment_to_an_extra_value_is_detected(face: Face) -> None:
    class Loose(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="allow")
        x: int = 0

    def node(state: Any) -> Any:
        state.more = 2

    assert refused(lambda: face.run(sequence(("node", node), state=Loose), {"more": 1})).field == "more"
    assert face.run(sequence(("node", lambda s: {"x": s.more}), state=Loose), {"more": 1}).state.x == 1


@dataclasses.dataclass(slots=True)
class Slots:
    n: int = 0
    x: Any = None


@dataclasses.dataclass(slots=True)
class OneSlot:
    x: Any = None


@pytest.mark.parametrize("state", [Slots, OneSlot])
def test_assignment_to_a_slot_is_detected(face: Face, state: Any) -> None:
    def node(s: Any) -> Any:
        s.x = 2

    def taken(s: Any) -> Any:
        del s.x

    assert refused(lambda: face.run(sequence(("node", node), state=state), {"x": 1})).field == "x"
    assert refused(lambda: face.run(sequence(("node", taken), state=state), {"x": 1})).field == "x"
    assert face.run(sequence(("node", lambda s: {"x": 3}), ("next", lambda s: None), state=state), {}).state.x == 3


def test_assignment_of_an_equal_value_is_not_a_change(face: Face, made: Any, kind: str) -> None:
    def node(state: Any) -> Any:
        assign(state, "n", 3)
        assign(state, "notes", ["a"])
        return {"x": 1}

    graph = sequence(("node", made(node)), state=a_state(kind))

    assert get(face.run(graph, {"n": 3, "notes": ["a"]}).state, "x") == 1


class Array:
    """A value that refuses comparison, like an array."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]


def test_value_that_refuses_comparison_may_stay_but_not_be_replaced(face: Face, kind: str) -> None:
    def node(state: Any) -> Any:
        assign(state, "x", Array())

    given = {"x": Array()}
    assert face.run(sequence(("node", lambda s: {"n": 1}), state=a_state(kind)), given).steps == 1
    refused(lambda: face.run(sequence(("node", node), state=a_state(kind)), given))
    refused(lambda: face.run(parallel(("a", node), ("b", lambda s: None), state=a_state(kind)), given))


class Rich(pydantic.BaseModel):
    n: int = 0
    _hits: int = pydantic.PrivateAttr(0)

    @functools.cached_property
    def twice(self) -> int:
        return 2 * self.n

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @functools.cached_property
    def thrice(self) -> int:
        return 3 * self.n


class Plain:
    def __init__(self, n: int = 0) -> None:
        self.n = n


@dataclasses.dataclass
class RichData:
    n: int = 0

    @functools.cached_property
    def twice(self) -> int:
        return 2 * self.n

    @property
    def thrice(self) -> int:
        return 3 * self.n


class Settled(pydantic.BaseModel):
    """A model that changes fields when it is created, one of them to a different value each time."""

    n: int = 0
    twice: int = 0
    thrice: int = 0
    serial: object = None

    def model_post_init(self, context: Any, /) -> None:
        self.twice, self.thrice, self.serial = 2 * self.n, 3 * self.n, object()


@pytest.mark.parametrize("state", [Rich, RichData, Settled])
def test_private_attributes_cached_properties_and_changes_by_the_class_are_not_reported(
    face: Face, made: Any, state: Any
) -> None:
    def node(s: Any) -> Any:
        if state is not Settled:
            s._hits = s.twice + s.thrice
        return {"n": s.n + 1}

    graph = sequence(("one", made(node)), ("two", made(node)), state=state)

    assert face.run(graph, {"n": 1}).state.n == 3


def test_field_of_a_model_that_changes_itself_is_detected(face: Face) -> None:
    def node(s: Any) -> Any:
        s.twice = 100

    assert refused(lambda: face.run(sequence(("node", node), state=Settled), {"n": 1})).field == "twice"


def test_class_constant_that_an_attribute_hides_is_detected(face: Face) -> None:
    @dataclasses.dataclass
    class Limited:
        limit = 3
        n: int = 0

    def node(s: Any) -> Any:
        s.limit = 4

    assert refused(lambda: face.run(sequence(("node", node), state=Limited), {})).field == "limit"


def test_frozen_state_is_read_like_any_other(face: Face) -> None:
    @dataclasses.dataclass(frozen=True)
    class Frozen:
        n: int = 0

    def forced(s: Any) -> Any:
        object.__setattr__(s, "n", 9)

    assert face.run(sequence(("a", lambda s: {"n": s.n + 1}), state=Frozen), {"n": 1}).state.n == 2
    assert refused(lambda: face.run(sequence(("a", forced), state=Frozen), {})).field == "n"


def test_tasks_of_one_superstep_do_not_see_assignments_of_others(face: Face, kind: str) -> None:
    seen: list[Any] = []

    def rude(state: Any) -> Any:
        assign(state, "n", 5)

    def looks(state: Any) -> Any:
        seen.append(get(state, "n", 0))

    graph = parallel(("rude", rude), ("looks", looks), ("again", looks), state=a_state(kind))
    refused(lambda: face.run(graph, {}, limits=Limits(max_concurrency=1)))

    assert set(seen) <= {0}


def test_node_that_changed_the_state_and_then_failed_is_not_retried(face: Face, made: Any, kind: str) -> None:
    runs: list[int] = []

    def node(state: Any) -> Any:
        runs.append(len(get(state, "notes")))
        get(state, "notes").append("x")
        raise OSError("lost")

    graph = sequence(("node", made(node)), state=a_state(kind), node={"retry": 3})

    error = refused(lambda: face.run(graph, {"notes": []}))

    assert runs == [0]
    assert "It then raised OSError, which is chained." in str(error)
    assert isinstance(error.__cause__, OSError)


def test_node_that_changed_the_state_and_then_asked_is_detected(face: Face, made: Any, kind: str) -> None:
    def node(state: Any, ctx: Any) -> Any:
        assign(state, "n", 5)
        return {"x": ctx.interrupt("?")}

    runtime = Runtime(sequence(("node", made(node)), state=a_state(kind)), store="memory:")

    refused(lambda: face.run(runtime, {}, thread="t"))
    assert runtime.state("t").status == "failed"


def test_change_in_a_nested_graph_names_its_node(face: Face, kind: str) -> None:
    def node(state: Any) -> Any:
        assign(state, "n", 5)

    child = sequence(("inner", node), state=a_state(kind))

    error = refused(lambda: face.run(sequence(("outer", child), state=a_state(kind)), {}))  # type: ignore[arg-type]
    assert error.node == "inner"


def test_failed_run_whose_state_was_changed_can_be_replayed(kind: str, tmp_path: Any) -> None:
    def merged(current: dict[str, int], incoming: dict[str, int]) -> dict[str, int]:
        return {**current, **incoming}

    state = state_class(kind, table=(Annotated[dict[str, int], merged], {}), n=(Annotated[int, add], 0))
    graph = sequence(("one", lambda s: {"table": {"a": 1}}), ("two", lambda s: get(s, "table").clear()), state=state)
    with Runtime(graph, store=f"sqlite:///{tmp_path}/runs.db") as runtime:
        refused(lambda: runtime.run({"table": {}}, thread="t"))

        assert get(runtime.replay("t").values, "table") == {"a": 1}


# -- arguments of Sends ------------------------------------------------------------------------------------------


def fan(arg: Callable[[Any], Any], node: Callable[[Any, Any], Any], *, by_command: bool, kind: str) -> Any:
    from graphrt import Command

    state = state_class(kind, seen=(Annotated[list[Any], append], []), items=(list[Any], []))
    g: Any = GraphBuilder(state)

    def sends(s: Any) -> Any:
        shared = arg(s)
        return [Send("work", shared) for _ in range(3)]

    g.add_node("work", node).add_edge("work", END)
    if by_command:
        g.add_node("start", lambda s: Command(goto=sends(s)), goto=["work"]).add_edge(START, "start")
    else:
        g.add_conditional_edges(START, sends, ["work"])
    return g.compile()


@pytest.mark.parametrize("by_command", [False, True])
def test_argument_of_a_send_belongs_to_its_task_alone(face: Face, made: Any, kind: str, by_command: bool) -> None:
    kept: dict[str, Any] = {"n": [0]}

    def node(state: Any, ctx: Any) -> Any:
        ctx.arg["n"].append(1)
        return {"seen": [len(ctx.arg["n"])]}

    graph = fan(lambda s: kept, made(node), by_command=by_command, kind=kind)

    assert get(face.run(graph, {}).state, "seen") == [2, 2, 2]
    assert kept == {"n": [0]}


def test_argument_of_a_send_is_not_shared_with_the_state(face: Face, made: Any, kind: str) -> None:
    def node(state: Any, ctx: Any) -> Any:
        ctx.arg["done"] = True
        return {"seen": [get(state, "items")]}

    graph = fan(lambda s: get(s, "items")[0], made(node), by_command=False, kind=kind)

    assert get(face.run(graph, {"items": [{"id": 1}]}, check_state=True).state, "items") == [{"id": 1}]


def test_changes_by_a_node_after_its_return_do_not_reach_the_run(kind: str) -> None:
    async def main() -> Any:
        kept: list[Any] = []

        async def node(state: Any) -> Any:
            kept.append(state)
            return {"n": 1}

        async def late(state: Any) -> Any:
            assign(kept[0], "n", 9)
            return {"x": get(state, "n")}

        return await sequence(("node", node), ("late", late), state=a_state(kind)).arun({})

    assert get(asyncio.run(main()).state, "x") == 1
