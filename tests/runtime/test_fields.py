"""Rule R16: ephemeral fields live for one superstep; untracked ones are never stored."""

from __future__ import annotations

import threading
from typing import Annotated, Any

import pytest

from graphrt import END, START, DefinitionError, GraphBuilder, Runtime
from graphrt.reducers import append, ephemeral, reduced, untracked

from .support import Face, get, sequence, state_class


def flashing(kind: str) -> Any:
    return state_class(kind, flash=(Annotated[str | None, ephemeral], None), seen=(Annotated[list[Any], append], []))


def look(state: Any) -> Any:
    return {"seen": [get(state, "flash")]}


def test_an_ephemeral_field_is_seen_by_the_next_superstep_only(face: Face, made: Any, kind: str) -> None:
    graph = sequence(
        ("set", made(lambda s: {"flash": "on"})),
        ("one", made(look)),
        ("two", made(look)),
        state=flashing(kind),
    )

    result = face.run(graph, {})

    assert get(result.state, "seen") == ["on", None]
    assert get(result.state, "flash") is None


def test_routers_of_its_superstep_see_an_ephemeral_field(face: Face, kind: str) -> None:
    g: Any = GraphBuilder(flashing(kind))
    g.add_node("set", lambda s: {"flash": "left"}).add_node("left", look).add_node("right", look)
    g.add_edge(START, "set").add_edge("left", END).add_edge("right", END)
    g.add_conditional_edges("set", lambda s: get(s, "flash"), ["left", "right"])

    assert get(face.run(g.compile(), {}).state, "seen") == ["left"]


def test_ephemeral_field_is_reset_before_the_next_fold(face: Face, kind: str) -> None:
    state = state_class(
        kind, flash=(Annotated[list[int], append, ephemeral], []), seen=(Annotated[list[Any], append], [])
    )
    graph = sequence(
        ("a", lambda s: {"flash": [1]}),
        ("b", lambda s: {"flash": [2], "seen": [list(get(s, "flash"))]}),
        ("c", lambda s: {"seen": [list(get(s, "flash"))]}),
        state=state,
    )

    assert get(face.run(graph, {}).state, "seen") == [[1], [2]]


def test_ephemeral_field_survives_a_resume(face: Face, kind: str) -> None:
    graph = sequence(
        ("set", lambda s: {"flash": "on"}),
        ("ask", lambda s, ctx: {"seen": [get(s, "flash"), ctx.interrupt("?"), get(s, "flash")]}),
        state=flashing(kind),
    )
    runtime = Runtime(graph, store="memory:")
    face.run(runtime, {}, thread="t")

    assert get(face.resume(runtime, "t", "answer").state, "seen") == ["on", "answer", "on"]


def test_untracked_field_may_hold_any_value(face: Face, made: Any, kind: str) -> None:
    lock = threading.Lock()
    state = state_class(kind, client=(Annotated[Any, untracked], None), x=(Any, None))
    graph = sequence(
        ("open", made(lambda s: {"client": lock})),
        ("use", made(lambda s: {"x": get(s, "client") is lock})),
        state=state,
    )

    assert get(face.run(graph, {}).state, "x") is True


def test_an_untracked_field_needs_a_default() -> None:
    import pydantic

    class State(pydantic.BaseModel):
        client: Annotated[Any, untracked]

    with pytest.raises(DefinitionError) as caught:
        sequence(("a", lambda s: None), state=State)

    assert [problem.code for problem in caught.value.problems] == ["bad-reducer"]


def test_an_untracked_field_has_its_default_after_a_resume(face: Face) -> None:
    import pydantic

    class State(pydantic.BaseModel):
        client: Annotated[str, untracked] = "default"
        x: Any = None

    graph = sequence(
        ("open", lambda s: {"client": "opened"}),
        ("ask", lambda s, ctx: {"x": (ctx.interrupt("?"), s.client)}),
        state=State,
    )
    runtime = Runtime(graph, store="memory:")
    face.run(runtime, {}, thread="t")

    assert face.resume(runtime, "t", "answer").state.x == ("answer", "default")


def test_reduced_is_another_spelling_of_annotated(face: Face) -> None:
    import dataclasses

    import pydantic

    def last(current: str | None, incoming: str | None) -> str | None:
        return incoming

    class Model(pydantic.BaseModel):
        notes: list[int] = reduced(append, default_factory=list)
        flash: str | None = reduced(last, ephemeral, default=None)

    @dataclasses.dataclass
    class Data:
        notes: list[int] = reduced(append, default_factory=list)  # noqa: RUF009 - it returns a dataclasses.field
        flash: str | None = reduced(last, ephemeral, default=None)

    for cls in (Model, Data):
        graph = sequence(("a", lambda s: {"notes": [1], "flash": "on"}), ("b", lambda s: {"notes": [2]}), state=cls)
        state = face.run(graph, {}).state
        assert (state.notes, state.flash) == ([1, 2], None)
