"""Mistakes of users: each gives a clear error or correct work, never a hang, a wrong result or a bare KeyError."""

from __future__ import annotations

import asyncio
import gc
from typing import Annotated, Any

import pytest

from graphrt import END, START, GraphBuilder, GraphrtError, Interrupt, NodeError, RouteError, Runtime, Send, UpdateError
from graphrt.reducers import untracked

from .support import Face, general, get, note, parallel, sequence, state_class


@pytest.mark.parametrize(
    "returned",
    [
        ["text"],
        [None],
        ({"x": 1}, 7),
        "text",
        7,
        True,
        object(),
        {"x"},
        Send("node", 1),
        [Send("node", 1)],
        END,
        START,
        Interrupt,
        ValueError("returned, not raised"),
        dict,
        lambda: {"x": 1},
        (n for n in ()),
    ],
    ids=lambda v: type(v).__name__,
)
@pytest.mark.parametrize("beside", [False, True])
def test_return_value_that_is_not_an_update_is_refused_by_name(
    face: Face, made: Any, returned: Any, beside: bool
) -> None:
    others = [("other", note("other"))] if beside else []
    graph = parallel(("node", made(lambda s: returned)), *others)

    with pytest.raises(UpdateError) as caught:
        face.run(graph, {})

    assert (caught.value.code, caught.value.node) == ("bad-update", "node")
    assert "Node 'node'" in str(caught.value)


@pytest.mark.parametrize("context", [False, True])
@pytest.mark.parametrize("beside", [False, True])
def test_coroutine_from_a_sync_node_is_awaited_on_every_path(face: Face, context: bool, beside: bool) -> None:
    """`lambda s: fetch(s)` is a sync function that returns a coroutine."""

    async def fetch(state: Any) -> Any:
        await asyncio.sleep(0)
        return {"x": 1}

    node: Any = (lambda s, ctx: fetch(s)) if context else (lambda s: fetch(s))  # noqa: PLW0108 - sync, unlike fetch
    others = [("other", note("other"))] if beside else []

    assert get(face.run(parallel(("node", node), *others), {}).state, "x") == 1
    gc.collect()  # a coroutine that was never awaited would warn here


def test_coroutine_inside_an_update_is_refused_or_kept_but_never_lost_silently(face: Face) -> None:
    async def fetch() -> int:
        return 1

    kept: list[Any] = []

    def node(state: Any) -> Any:
        kept.append(fetch())
        return {"n": kept[0]}

    try:
        with pytest.raises(UpdateError) as caught:
            face.run(sequence(("node", node)), {})
    finally:
        kept[0].close()

    assert (caught.value.code, caught.value.field) == ("wrong-type", "n")


def test_async_node_that_returns_a_list_with_other_values_than_updates_is_refused(face: Face) -> None:
    async def node(state: Any) -> Any:
        return [{"x": 1}, "text"]

    with pytest.raises(UpdateError):
        face.run(sequence(("node", node)), {})


@pytest.mark.parametrize("error", [KeyError("lost"), AttributeError("lost"), IndexError(), RecursionError()], ids=repr)
def test_bug_in_a_node_is_a_node_error_with_its_cause(face: Face, made: Any, error: Exception) -> None:
    def bad(state: Any) -> Any:
        raise error

    with pytest.raises(NodeError) as caught:
        face.run(sequence(("bad", made(bad))), {})

    assert caught.value.__cause__ is error
    assert "'bad'" in str(caught.value)


def test_missing_key_of_the_state_is_a_node_error_and_not_a_bare_key_error(face: Face, made: Any) -> None:
    with pytest.raises(NodeError) as caught:
        face.run(sequence(("bad", made(lambda s: {"x": s["x"]}))), {})

    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("returned", [{"x": float("nan")}, {"x": ...}, {"x": print}], ids=repr)
def test_unusual_values_that_fit_the_field_are_kept(face: Face, returned: Any) -> None:
    graph = sequence(("node", lambda s: dict(returned)))

    assert face.run(graph, {}).status == "completed"


def test_generator_for_a_list_field_is_read_once_and_completely(face: Face) -> None:
    graph = sequence(("node", lambda s: {"notes": (c for c in "ab")}), ("next", note("c")))

    assert get(face.run(graph, {}).state, "notes") == ["a", "b", "c"]


def test_a_mapping_that_is_not_a_dict_is_an_update(face: Face, made: Any) -> None:
    from collections import ChainMap, OrderedDict
    from types import MappingProxyType

    graph = sequence(
        ("a", made(lambda s: OrderedDict(notes=["a"]))),
        ("b", made(lambda s: MappingProxyType({"notes": ["b"]}))),
        ("c", made(lambda s: ChainMap({"notes": ["c"]}))),
    )

    assert get(face.run(graph, {}).state, "notes") == ["a", "b", "c"]


def test_returning_the_whole_state_names_the_alternative(face: Face) -> None:
    graph = sequence(("node", lambda s: s), state=general("pydantic"))

    with pytest.raises(UpdateError) as caught:
        face.run(graph, {})

    assert "Return only what changes" in str(caught.value)


def test_value_whose_repr_raises_does_not_hide_the_error(face: Face) -> None:
    class Shy:
        def __repr__(self) -> str:
            raise RuntimeError("no repr")

    with pytest.raises(UpdateError) as caught:
        face.run(sequence(("node", lambda s: Shy())), {})

    assert "'node'" in str(caught.value)


@pytest.mark.filterwarnings("ignore:Field '.' of graph:UserWarning")
def test_value_that_refuses_comparison_is_accepted(face: Face) -> None:
    class Array:
        def __eq__(self, other: object) -> Any:
            raise ValueError("ambiguous")

        __hash__ = None  # type: ignore[assignment]

    graph = sequence(("node", lambda s: {"x": Array()}), ("next", note("n")))

    assert face.run(graph, {"y": Array()}, check_state=True).status == "completed"
    assert len(face.steps(graph, {"y": Array()})) == 2
    graph = sequence(
        ("ask", lambda s, ctx: {"x": ctx.interrupt({"a": 1})}),
        state=state_class("pydantic", x=(Any, None), y=(Annotated[Any, untracked], None)),
    )
    runtime = Runtime(graph, store="memory:")
    face.run(runtime, {"y": Array()}, thread="t")
    assert face.resume(runtime, "t", 1).status == "completed"


def test_error_whose_text_raises_is_still_raised(face: Face) -> None:
    class OddError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no str")

    def bad(state: Any) -> Any:
        raise OddError

    with pytest.raises(GraphrtError) as caught:
        face.run(Runtime(sequence(("bad", bad)), store="memory:"), {}, thread="t")

    assert isinstance(caught.value.__cause__, OddError)


def test_none_from_a_reducer_is_accepted(face: Face) -> None:
    from typing import Annotated

    from .support import state_class

    state = state_class("pydantic", v=(Annotated[Any, lambda old, new: None], 0))

    assert face.run(sequence(("a", lambda s: {"v": 1}), state=state), {"v": 5}).state.v is None


@pytest.mark.parametrize("at", ["a", START])
def test_router_that_assigns_to_the_state_is_reported(face: Face, at: Any) -> None:
    def router(state: Any) -> str:
        state["x"] = "changed"
        return "b"

    g: Any = GraphBuilder(general())
    g.add_node("a", note("a")).add_node("b", lambda s: {"y": s.get("x")}).add_edge("b", END)
    if at == "a":
        g.add_edge(START, "a")
    else:
        g.add_edge("a", END)
    g.add_conditional_edges(at, router, ["b"])

    with pytest.raises(GraphrtError, match="assigned to the state it was given: 'x'") as caught:
        face.run(g.compile(allow=["unreachable-node"]), {"x": "right"})
    assert (caught.value.code, caught.value.field) == ("mutated-state", "x")


@pytest.mark.parametrize(
    "update", [{}, {"notes": ["new"], "x": ["new"], "y": {"new": 0}}], ids=["unwritten", "written"]
)
@pytest.mark.parametrize("at", ["a", START])
@pytest.mark.parametrize(
    ("field", "change", "checked"),
    [
        ("notes", lambda s: s["notes"].append("changed"), False),
        ("x", lambda s: s["x"].clear(), False),
        ("y", lambda s: s["y"].update(changed=1), False),
        ("x", lambda s: s["x"].__setitem__(0, "changed"), True),
        ("y", lambda s: s["y"].update(dict.fromkeys(s["y"], "changed")), True),
    ],
)
def test_router_that_changes_a_value_of_the_state_in_place_is_reported_and_called_again(
    face: Face, field: str, change: Any, checked: bool, at: Any, update: dict[str, Any]
) -> None:
    mends = False

    def router(state: Any) -> str:
        if not mends:
            change(state)
        return "b"

    g: Any = GraphBuilder(general())
    g.add_node("a", lambda s: update).add_node("b", lambda s: {}).add_edge("b", END)
    g.add_edge("a", END) if at is START else g.add_edge(START, "a")
    g.add_conditional_edges(at, router, ["b"])
    graph = g.compile(allow=["unreachable-node"])
    runtime = Runtime(graph, store="memory:", check_state=checked)
    given = {"notes": ["old"], "x": ["old"], "y": {"old": 0}}

    with pytest.raises(
        RouteError, match=rf"A router after .* changed a value of the state in place: '{field}'"
    ) as caught:
        face.run(runtime, given, thread="t")
    assert (caught.value.code, caught.value.field) == ("mutated-state", field)
    mends = True
    whole = given if at is START else {**given, **update}
    if at == "a" and update:
        whole["notes"] = ["old", "new"]
    assert {name: value for name, value in face.retry(runtime, "t").state.items() if name in whole} == whole


def test_async_router_is_refused_by_compile() -> None:
    from graphrt import DefinitionError

    async def router(state: Any) -> str:
        return "b"

    g: Any = GraphBuilder(general())
    g.add_node("a", note("a")).add_node("b", note("b")).add_edge(START, "a").add_edge("b", END)
    g.add_conditional_edges("a", router, ["b"])

    with pytest.raises(DefinitionError) as caught:
        g.compile()

    assert "async" in str(caught.value)
