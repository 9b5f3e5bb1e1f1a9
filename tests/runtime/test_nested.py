"""Rule R17: a compiled graph as a node of another one."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import pytest

from graphrt import (
    END,
    START,
    DefinitionError,
    GraphBuilder,
    InputError,
    LimitError,
    Limits,
    NodeError,
    Runtime,
    Send,
    UpdateError,
)
from graphrt.errors import NodeFatigueError, StepLimitError
from graphrt.reducers import add, append
from graphrt.stores import MemoryStore

from .support import Face, general, get, note, parallel, sequence, state_class


def nesting(child: Any, state: Any = None, **policy: Any) -> Any:
    return sequence(("before", note("before")), ("child", child), ("after", note("after")), state=state, child=policy)


def test_nested_graph_starts_with_the_shared_fields_and_its_updates_fold(face: Face, made: Any, kind: str) -> None:
    seen: list[Any] = []

    def look(state: Any) -> Any:
        seen.append((list(get(state, "notes")), get(state, "x")))
        return {"notes": ["one"], "n": 1}

    child = sequence(("look", made(look)), ("two", made(note("two"))), state=general(kind))

    result = face.run(nesting(child, general(kind)), {"x": "given"})

    assert seen == [(["before"], "given")]
    assert get(result.state, "notes") == ["before", "one", "two", "after"]
    assert get(result.state, "n") == 1


def test_only_shared_fields_are_passed(face: Face) -> None:
    child_state = state_class("pydantic", notes=(Annotated[list[Any], append], []), private=(int, 0))
    child = sequence(
        ("a", lambda s: {"notes": [s.private], "private": 9}),
        ("b", lambda s: {"notes": [s.private]}),
        state=child_state,
    )

    assert get(face.run(nesting(child), {}).state, "notes") == ["before", 0, 9, "after"]


def test_write_of_a_shared_field_that_the_update_of_the_parent_lacks_is_refused(face: Face) -> None:
    """A lost write would be silent otherwise; with `output=` the parent says which fields it takes."""

    class Notes(TypedDict, total=False):
        notes: list[Any]

    child = sequence(("a", lambda s: {"notes": ["a"], "n": 1}), state=general())
    g = GraphBuilder(general(), Notes).add_node("child", child).set_entry("child")
    mapped = GraphBuilder(general(), Notes).add_node("child", child, output={"notes": "notes"}).set_entry("child")

    with pytest.raises(UpdateError, match=r"Node 'child' wrote 'n'") as caught:
        face.run(g.compile(), {})

    assert (caught.value.code, caught.value.field) == ("unknown-key", "n")
    assert "output=" in caught.value.fix
    assert get(face.run(mapped.compile(), {}).state, "notes") == ["a"]


def test_graph_of_whole_states_returns_the_fields_that_the_update_of_the_parent_has(face: Face) -> None:
    class Notes(TypedDict, total=False):
        notes: list[Any]

    state = general("pydantic")
    inner = GraphBuilder.overwrite(state).add_node("a", lambda s: {"notes": ["a"]}).set_entry("a")
    g = GraphBuilder(state, Notes).add_node("child", inner.compile()).set_entry("child")

    assert face.run(g.compile(), {}).state.notes == ["a"]


def test_updates_fold_through_the_parents_reducers(face: Face) -> None:
    """The nested graph appends; the parent adds up the writes of its commits."""
    child_state = state_class("pydantic", log=(Annotated[list[int], append], []))

    def sum_up(old: int, new: list[int]) -> int:
        return old + sum(new)

    parent_state = state_class("pydantic", log=(Annotated[int, sum_up], 0))
    child = sequence(("a", lambda s: {"log": [1, 2]}), ("b", lambda s: {"log": [3]}), state=child_state)

    def read(state: Any) -> Any:
        return {"log": []}

    graph = sequence(("child", child), state=parent_state, child={"input": read})

    assert face.run(graph, {"log": 10}).state.log == 16


def test_input_and_output_may_be_maps_of_names(face: Face) -> None:
    child_state = state_class("pydantic", question=(str, ""), answer=(str, ""))
    child = sequence(("a", lambda s: {"answer": s.question.upper()}), state=child_state)
    graph = nesting(child, input={"question": "x"}, output={"y": "answer"})

    state = face.run(graph, {"x": "why"}).state

    assert (get(state, "x"), get(state, "y")) == ("why", "WHY")


def test_input_and_output_may_be_functions(face: Face) -> None:
    child_state = state_class("pydantic", question=(str, ""), answer=(str, ""))
    child = sequence(("a", lambda s: {"answer": s.question.upper()}), state=child_state)
    graph = nesting(
        child, input=lambda s: {"question": s["x"] + "?"}, output=lambda s: {"notes": [s.answer]} if s.answer else None
    )

    assert get(face.run(graph, {"x": "why"}).state, "notes") == ["before", "WHY?", "after"]


@pytest.mark.parametrize(
    ("policy", "cls"),
    [
        ({"input": lambda s: 7}, InputError),
        ({"input": lambda s: {"nope": 1}}, InputError),
        ({"input": lambda s: s["lost"]}, InputError),
        ({"output": lambda s: 7}, InputError),
        ({"output": lambda s: s["lost"]}, InputError),
        ({"output": lambda s: {"nope": 1}}, UpdateError),
    ],
    ids=["input-no-mapping", "input-unknown", "input-raises", "output-no-mapping", "output-raises", "output-unknown"],
)
def test_invalid_mappings_are_clear_errors(face: Face, policy: Any, cls: Any) -> None:
    with pytest.raises(cls) as caught:
        face.run(nesting(sequence(("a", note("a"))), **policy), {})

    assert caught.value.node == "child"
    assert "child" in str(caught.value)


def test_missing_field_of_the_nested_graph_is_an_error_that_names_it(face: Face) -> None:
    import pydantic

    class Needs(pydantic.BaseModel):
        need: int

    with pytest.raises(InputError) as caught:
        face.run(nesting(sequence(("a", lambda s: None), state=Needs)), {})

    assert caught.value.code == "missing-field"
    assert "need" in str(caught.value)
    assert "child" in str(caught.value)


def test_failure_inside_names_the_inner_node_and_its_path(face: Face, made: Any) -> None:
    def bad(state: Any) -> Any:
        raise ValueError("inside")

    with pytest.raises(NodeError) as caught:
        face.run(nesting(sequence(("a", note("a")), ("bad", made(bad)))), {})

    error = caught.value
    assert isinstance(error.__cause__, ValueError)
    assert error.node == "bad"
    assert error.task_id == "2.0:child/2.0:bad"


def test_retry_continues_the_nested_graph_from_its_last_commit(face: Face, made: Any) -> None:
    ran: list[str] = []
    mood = {"broken": True}

    def node(name: str) -> Any:
        def run(state: Any) -> Any:
            ran.append(name)
            if name == "bad" and mood["broken"]:
                raise ValueError
            return {"notes": [name]}

        return (name, made(run))

    runtime = Runtime(nesting(sequence(node("a"), node("bad"), node("c"))), store="memory:")
    with pytest.raises(NodeError):
        face.run(runtime, {}, thread="t")
    assert get(runtime.state("t").values, "notes") == ["before"]
    mood["broken"] = False

    result = face.retry(runtime, "t")

    assert get(result.state, "notes") == ["before", "a", "bad", "c", "after"]
    assert ran == ["a", "bad", "bad", "c"]


def test_interrupt_inside_pauses_the_whole_run_and_resume_continues_there(face: Face, made: Any) -> None:
    ran: list[str] = []

    def first(state: Any) -> Any:
        ran.append("first")
        return {"notes": ["first"]}

    child = sequence(("first", made(first)), ("ask", made(lambda s, ctx: {"notes": [ctx.interrupt("?")]})))
    runtime = Runtime(nesting(child), store="memory:")
    paused = face.run(runtime, {}, thread="t")
    [question] = paused.interrupts

    assert (question.node, question.payload) == ("ask", "?")
    assert "child/" in question.id
    result = face.resume(runtime, "t", {question.id: "yes"})
    assert get(result.state, "notes") == ["before", "first", "yes", "after"]
    assert ran == ["first"]


def test_several_interrupts_inside_and_outside_a_nested_graph_are_answered(face: Face, made: Any) -> None:
    def ask(name: str) -> Any:
        return (name, made(lambda s, ctx: {"notes": [ctx.interrupt(name)]}))

    runtime = Runtime(parallel(("child", parallel(ask("a"), ask("b"))), ask("c")), store="memory:")
    questions = face.run(runtime, {}, thread="t").interrupts
    assert [q.payload for q in questions] == ["a", "b", "c"]

    half = face.resume(runtime, "t", {q.id: q.payload.upper() for q in questions if q.payload != "a"})
    assert [q.payload for q in half.interrupts] == ["a"]

    assert get(face.resume(runtime, "t", "A").state, "notes") == ["A", "B", "C"]


def test_nested_graph_has_its_own_steps_and_visits(face: Face) -> None:
    def looping(limits: Limits) -> Any:
        g: Any = GraphBuilder(state_class("pydantic", k=(Annotated[int, add], 0)))
        g.add_node("loop", lambda s: {"k": 1}).add_edge(START, "loop")
        g.add_conditional_edges("loop", lambda s: s.k < 5, {True: "loop", False: END})
        return g.compile(limits=limits)

    assert face.run(nesting(looping(Limits())), {}, limits=Limits(max_steps=3)).status == "completed"
    with pytest.raises(StepLimitError):
        face.run(nesting(looping(Limits(max_steps=4))), {})
    with pytest.raises(NodeFatigueError):
        face.run(nesting(looping(Limits(max_visits=4))), {})


def test_depth_is_limited(face: Face) -> None:
    graph = sequence(("leaf", note("leaf")))
    for _ in range(3):
        graph = sequence(("child", graph))

    assert get(face.run(graph, {}, limits=Limits(max_depth=3)).state, "notes") == ["leaf"]
    with pytest.raises(LimitError) as caught:
        face.run(graph, {}, limits=Limits(max_depth=2))
    assert (caught.value.code, caught.value.limit) == ("depth-limit", 2)


def test_graphs_that_are_nested_too_deeply_are_refused_by_compile() -> None:
    graph = sequence(("leaf", note("leaf")))
    for _ in range(16):
        graph = sequence(("child", graph))
    g: Any = GraphBuilder(state_class("pydantic", notes=(Annotated[list[str], append], [])))
    g.add_node("child", graph).add_edge(START, "child")

    with pytest.raises(DefinitionError, match="nests graphs 17 levels deep, and max_depth is 16") as caught:
        g.compile()
    assert [problem.code for problem in caught.value.problems] == ["depth-limit"]
    assert g.compile(limits=Limits(max_depth=17)).run({}).state.notes == ["leaf"]


def test_sends_to_a_nested_graph_carry_its_input(face: Face, made: Any) -> None:
    child = sequence(("a", made(lambda s: {"notes": [s["x"]]})))
    g: Any = GraphBuilder(general())
    g.add_node("begin", lambda s: None).add_node("child", child).add_edge(START, "begin").add_edge("child", END)
    g.add_conditional_edges("begin", lambda s: [Send("child", {"x": n}) for n in range(3)], ["child"])

    assert get(face.run(g.compile(), {}).state, "notes") == [0, 1, 2]


def test_input_function_of_two_parameters_builds_the_whole_input_from_the_argument(face: Face, made: Any) -> None:
    child = sequence(("a", made(lambda s: {"notes": [s["x"]]})))
    g: Any = GraphBuilder(general())
    g.add_node("begin", lambda s: None).add_edge(START, "begin")
    g.add_node("child", child, input=lambda state, arg: {"x": "plain" if arg is None else arg})
    g.add_conditional_edges("begin", lambda s: ["child", Send("child", 1), Send("child", "two")], ["child"])

    assert get(face.run(g.compile(), {"x": "not seen", "notes": ["kept"]}).state, "notes") == [
        "kept",
        "plain",
        1,
        "two",
    ]


def test_input_from_an_argument_is_computed_again_after_a_restart(face: Face) -> None:
    asking = sequence(("a", note("a")), ("b", lambda s, ctx: {"notes": [s["x"], ctx.interrupt("go on?")]}))
    g: Any = GraphBuilder(general()).add_node("child", asking, input=lambda state, arg: {"x": arg})
    g.set_conditional_entry(lambda s: [Send("child", "given")], ["child"])
    graph, store = g.compile(), MemoryStore()
    with Runtime(graph, store=store) as runtime:
        face.run(runtime, {}, thread="t")
    with Runtime(graph, store=store) as runtime:
        assert get(face.resume(runtime, "t", "yes").state, "notes") == ["a", "given", "yes"]


@pytest.mark.parametrize(
    "made", [lambda: None, lambda a, b, c: {}, lambda *, key: {}], ids=["none", "three", "keyword"]
)
def test_input_function_with_other_parameters_is_refused_by_compile(made: Any) -> None:
    with pytest.raises(DefinitionError, match="input= cannot be called as fn"):
        GraphBuilder(general()).add_node("child", sequence(("a", note("a"))), input=made).add_edge(
            START, "child"
        ).compile()


def test_send_to_a_nested_graph_that_is_not_a_mapping_is_a_clear_error(face: Face) -> None:
    g: Any = GraphBuilder(general())
    g.add_node("begin", lambda s: None).add_node("child", sequence(("a", note("a"))))
    g.add_edge(START, "begin").add_edge("child", END)
    g.add_conditional_edges("begin", lambda s: [Send("child", 7)], ["child"])

    with pytest.raises(InputError) as caught:
        face.run(g.compile(), {})

    assert caught.value.node == "child"


def test_two_parallel_nested_graphs_that_write_one_last_value_field_conflict(face: Face) -> None:
    from graphrt import ConcurrentUpdateError

    child = sequence(("a", lambda s: {"x": 1}))

    with pytest.raises(ConcurrentUpdateError):
        face.run(parallel(("one", child), ("two", child), allow=["write-conflict"]), {})


def test_failure_of_a_nested_graph_may_be_handled_by_the_parents_on_error(face: Face, made: Any) -> None:
    def bad(state: Any) -> Any:
        raise ValueError("inside")

    seen: list[Any] = []
    g: Any = GraphBuilder(general())
    g.add_node("child", sequence(("bad", made(bad))), on_error="mend")
    g.add_node("mend", lambda s, ctx: seen.append(ctx.error))
    g.add_edge(START, "child").add_edge("child", END).add_edge("mend", END)

    assert face.run(g.compile(), {}).status == "completed"
    assert isinstance(seen[0], NodeError)


def test_a_step_of_a_nested_graph_has_its_writes_merged(face: Face) -> None:
    child = sequence(("a", note("a")), ("b", lambda s: {"n": 2}))
    steps = face.steps(nesting(child), {})

    assert [s.node for s in steps] == ["before", "child", "after"]
    assert get(steps[1].after, "notes") == ["before", "a"]
    assert get(steps[1].after, "n") == 2
