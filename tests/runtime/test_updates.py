"""Rule R7, the update check: unknown keys and wrong types are refused at the node's boundary, with node and path."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, TypedDict

import pydantic
import pytest
import typing_extensions as te
from pydantic import BaseModel

from graphrt import DELETE, END, START, UNSET, Command, GraphBuilder, Overwrite, Runtime, UpdateError
from graphrt.errors import ConcurrentUpdateError, InputError
from graphrt.events import TaskSucceeded
from graphrt.graph import declare_fields
from graphrt.reducers import append
from graphrt.stores import MemoryStore

from .support import Face, get, parallel, sequence, state_class


def typed(kind: str) -> Any:
    return state_class(
        kind, name=(str, ""), count=(int, 0), tags=(list[str], []), notes=(Annotated[list[int], append], [])
    )


def refused(face: Face, returned: Any, kind: str = "pydantic", **given: Any) -> UpdateError:
    runtime = Runtime(sequence(("bad", lambda s: returned), state=typed(kind)), store="memory:")
    with pytest.raises(UpdateError) as caught:
        face.run(runtime, given, thread="t")
    assert caught.value.node == "bad"
    assert runtime.state("t").status == "failed"
    assert runtime.state("t").next == ("bad",)
    return caught.value


def test_unknown_key_is_refused_with_the_nearest_field(face: Face, kind: str) -> None:
    error = refused(face, {"cuont": 1}, kind)

    assert (error.code, error.field) == ("unknown-key", "cuont")
    assert "Did you mean 'count'?" in str(error)


class Trimmed(te.TypedDict):
    __pydantic_config__ = pydantic.ConfigDict(str_strip_whitespace=True, str_max_length=5)  # type: ignore[misc]
    name: str


def test_string_constraints_of_the_state_apply_to_updates(face: Face) -> None:
    assert face.run(sequence(("trim", lambda s: {"name": " Ada "}), state=Trimmed), {"name": ""}).state["name"] == "Ada"
    with pytest.raises(UpdateError):
        face.run(sequence(("trim", lambda s: {"name": "longer than five"}), state=Trimmed), {"name": ""})


@pytest.mark.parametrize("key", [3, None, ("a",), ""], ids=repr)
def test_a_key_that_is_not_a_field_name_is_refused(face: Face, key: Any) -> None:
    assert refused(face, {key: 1}).code == "unknown-key"


@pytest.mark.parametrize(
    ("update", "path"),
    [
        ({"count": "many"}, "count"),
        ({"count": None}, "count"),
        ({"name": 3}, "name"),
        ({"tags": "abc"}, "tags"),
        ({"tags": ["a", 2]}, "tags[1]"),
        ({"notes": 5}, "notes"),
        ({"notes": [1, "x"]}, "notes[1]"),
        ({"notes": Overwrite(["x"])}, "notes[0]"),
        ({"count": Overwrite("many")}, "count"),
    ],
    ids=repr,
)
def test_a_wrong_type_is_refused_with_its_path(face: Face, kind: str, update: Any, path: str) -> None:
    error = refused(face, update, kind)

    assert error.code == "wrong-type"
    assert f"{path}:" in str(error)
    assert error.field == path.split("[", maxsplit=1)[0]


def test_all_invalid_fields_are_reported_at_once(face: Face) -> None:
    text = str(refused(face, {"count": "many", "name": 3}))

    assert "count:" in text
    assert "name:" in text


def test_validated_value_is_used(face: Face, kind: str) -> None:
    """Pydantic's lax mode: "3" becomes 3."""
    graph = sequence(("a", lambda s: {"count": "3", "notes": ("4", 5)}), state=typed(kind))

    state = face.run(graph, {}).state

    assert (get(state, "count"), get(state, "notes")) == (3, [4, 5])


def test_strict_model_refuses_values_that_lax_mode_converts(face: Face) -> None:
    class Strict(BaseModel):
        model_config = pydantic.ConfigDict(strict=True)
        count: int = 0

    with pytest.raises(UpdateError):
        face.run(sequence(("a", lambda s: {"count": "3"}), state=Strict), {})


def test_constraints_of_the_field_apply_to_updates(face: Face) -> None:
    class Bound(BaseModel):
        count: int = pydantic.Field(default=0, le=10)

    with pytest.raises(UpdateError) as caught:
        face.run(sequence(("a", lambda s: {"count": 11}), state=Bound), {})

    assert caught.value.code == "wrong-type"


def test_values_are_validated_against_the_update_type(face: Face) -> None:
    class State(TypedDict, total=False):
        total: int

    class Update(TypedDict, total=False):
        total: str

    g: Any = GraphBuilder(State, Update)
    g.add_node("a", lambda s: {"total": "text"}).add_edge(START, "a").add_edge("a", END)

    assert face.run(g.compile(), {}).state == {"total": "text"}


def test_values_are_validated_against_the_annotated_second_parameter_of_a_reducer(face: Face, kind: str) -> None:
    def count(current: int, incoming: str) -> int:
        return current + len(incoming)

    state = state_class(kind, letters=(Annotated[int, count], 0))

    assert (
        get(face.run(sequence(("a", lambda s: {"letters": "abc"}), state=state), {"letters": 1}).state, "letters") == 4
    )
    with pytest.raises(UpdateError) as caught:
        face.run(sequence(("a", lambda s: {"letters": 3}), state=state), {"letters": 1})

    assert (caught.value.known, caught.value.fix) == ("letters: str", "Return 'letters' as str.")


def test_results_of_reducers_are_not_validated_again(face: Face) -> None:
    state = state_class("pydantic", v=(Annotated[int, lambda old, new: f"{old}{new}"], 0))

    assert face.run(sequence(("a", lambda s: {"v": 1}), state=state), {}).state.v == "01"


def test_model_validators_run_on_input_only(face: Face) -> None:
    class Checked(BaseModel):
        low: int = 0
        high: int = 10

        @pydantic.model_validator(mode="after")
        def ordered(self) -> Checked:
            if self.low > self.high:
                raise ValueError("low above high")
            return self

    graph = sequence(("a", lambda s: {"low": 20}), state=Checked)

    assert face.run(graph, {}).state.low == 20
    with pytest.raises(Exception, match="low above high"):
        face.run(graph, {"low": 11})


def test_an_update_narrower_than_the_state_refuses_the_other_fields(face: Face) -> None:
    class Update(TypedDict, total=False):
        count: int

    g: Any = GraphBuilder(typed("pydantic"), Update)
    g.add_node("a", lambda s: {"name": "x"}).add_edge(START, "a").add_edge("a", END)

    with pytest.raises(UpdateError) as caught:
        face.run(g.compile(), {})

    assert (caught.value.code, caught.value.field) == ("unknown-key", "name")


def test_dataclass_update_writes_all_but_unset_fields(face: Face) -> None:
    @dataclasses.dataclass
    class Update:
        name: str = UNSET
        count: int = UNSET

    g: Any = GraphBuilder(typed("dataclass"), Update)
    g.add_node("a", lambda s: Update(count=3)).add_edge(START, "a").add_edge("a", END)

    state = face.run(g.compile(), {"name": "kept"}).state

    assert (state.name, state.count) == ("kept", 3)


def test_pydantic_update_writes_only_the_set_fields(face: Face) -> None:
    class Update(BaseModel):
        name: str = "never written"
        count: int = 0

    g: Any = GraphBuilder(typed("pydantic"), Update)
    g.add_node("a", lambda s: Update(count=0)).add_edge(START, "a").add_edge("a", END)

    state = face.run(g.compile(), {"name": "kept", "count": 5}).state

    assert (state.name, state.count) == ("kept", 0)


def test_delete_restores_the_default_of_a_field_or_removes_it(face: Face, kind: str) -> None:
    graph = sequence(("a", lambda s: {"tags": DELETE, "notes": DELETE}), state=typed(kind))

    state = face.run(graph, {"tags": ["x"], "notes": [1]}).state

    if kind == "typeddict":
        assert "tags" not in state
    else:
        assert (state.tags, state.notes) == ([], [])


def test_delete_without_a_default_is_refused(face: Face) -> None:
    class Bare(BaseModel):
        v: int

    with pytest.raises(UpdateError) as caught:
        face.run(sequence(("a", lambda s: {"v": DELETE}), state=Bare), {"v": 1})

    assert (caught.value.code, caught.value.field) == ("cannot-delete", "v")


@pytest.mark.parametrize("hint", [int, float, str, bool, Any, int | str, int | None])
def test_delete_in_a_chain_of_plain_nodes_is_not_a_value(face: Face, hint: Any) -> None:
    """The fast path of single tasks must not accept a marker as a value (an Enum member passes as an int)."""
    state = state_class("pydantic", v=(hint, None), w=(Annotated[hint, max], None))
    graph = sequence(("a", lambda s: {"v": DELETE}), ("b", lambda s: {"w": DELETE}), state=state)

    end = face.run(graph, {"v": True if hint is bool else "1" if hint is str else 1}).state

    assert (end.v, end.w) == (None, None)


@pytest.mark.parametrize("hint", [int, Any])
def test_unset_in_a_mapping_is_not_written(face: Face, hint: Any) -> None:
    state = state_class("pydantic", v=(hint, 0))

    assert face.run(sequence(("a", lambda s: {"v": UNSET}), state=state), {"v": 3}).state.v == 3


def test_overwrite_bypasses_the_reducer(face: Face, kind: str) -> None:
    graph = sequence(("a", lambda s: {"notes": Overwrite([9])}), ("b", lambda s: {"notes": [10]}), state=typed(kind))

    assert get(face.run(graph, {"notes": [1, 2]}).state, "notes") == [9, 10]


# --- Several updates


def test_list_of_updates_folds_in_its_order(face: Face, kind: str) -> None:
    updates = [{"notes": [1], "count": 1}, {"notes": Overwrite([2])}, {}, {"notes": [3], "count": 2}]
    graph = sequence(("a", lambda s: updates), ("b", lambda s: []), state=typed(kind))

    state = face.run(graph, {"notes": [0]}).state

    assert (get(state, "notes"), get(state, "count")) == ([2, 3], 2)


def test_list_of_updates_is_stored_and_loaded_unchanged(face: Face) -> None:
    graph = sequence(
        ("a", lambda s: Command(update=[{"notes": [1]}, {"notes": DELETE}, {"notes": [2], "count": 3}])),
        state=typed("pydantic"),
    )
    store = MemoryStore()
    with Runtime(graph, store=store) as runtime:
        steps = list(runtime.steps({"notes": [0]}, thread="t"))
        updates = [entry.event.updates for entry in runtime.entries("t") if isinstance(entry.event, TaskSucceeded)]

    with Runtime(graph, store=store) as another:
        state = another.state("t").values

    assert updates == [({"notes": [1]}, {"notes": DELETE}, {"notes": [2], "count": 3})]
    assert (state.notes, state.count) == ([2], 3)
    assert (steps[0].before.notes, steps[0].after.notes) == ([0], [2])


def test_two_tasks_conflict_regardless_of_the_rest_of_their_lists(face: Face) -> None:
    graph = parallel(
        ("a", lambda s: [{"notes": [1]}, {"notes": Overwrite([2])}]),
        ("b", lambda s: {"notes": [3]}),
        state=typed("pydantic"),
    )

    with pytest.raises(ConcurrentUpdateError):
        face.run(graph, {})


@pytest.mark.parametrize("bad", [[{"count": 1}, None], [{"count": 1}, 3], [Command(update={})], ["count"]], ids=repr)
def test_list_with_other_values_than_updates_is_refused(face: Face, bad: Any) -> None:
    assert refused(face, bad).code == "bad-update"


def test_each_update_of_a_list_is_validated(face: Face) -> None:
    error = refused(face, [{"count": 1}, {"count": "many"}])

    assert (error.code, error.path) == ("wrong-type", "count")


def _deep(value: Any) -> Any:
    return {"deep": value["deep"]}  # a TypeError for a number


class Checked(TypedDict):
    a: Annotated[Any, pydantic.BeforeValidator(_deep)]


def test_validator_that_raises_another_error_than_a_value_error_is_reported_with_its_place(face: Face) -> None:
    runtime: Any = Runtime(sequence(("bad", lambda s: {"a": 5}), state=Checked), store="memory:")
    with pytest.raises(UpdateError, match=r"a: TypeError: 'int' object is not subscriptable"):
        face.run(runtime, {"a": {"deep": 1}}, thread="t")
    for call in (lambda: face.run(runtime, {"a": 5}, thread="u"), lambda: runtime.update("t", {"a": 5})):
        with pytest.raises(InputError, match=r"a: TypeError: 'int' object is not subscriptable"):
            call()


def test_an_empty_list_changes_nothing(face: Face) -> None:
    graph = sequence(("a", lambda s: []), state=typed("pydantic"))

    assert face.run(graph, {"count": 4}).state.count == 4


def test_list_of_updates_is_cached() -> None:
    ran: list[int] = []

    def node(state: Any) -> Any:
        ran.append(1)
        return [{"notes": [1]}, {"notes": [2]}]

    g = GraphBuilder(typed("pydantic")).add_node("a", node, cache=True).add_edge(START, "a")
    graph = g.compile()

    assert [graph.run({}).state.notes for _ in range(2)] == [[1, 2], [1, 2]]
    assert len(ran) == 1


def test_graph_whose_fields_use_overwrite_takes_the_full_next_state(face: Face, kind: str) -> None:
    state = state_class(kind, a=(int, 0), b=(int, 0))

    def step(s: Any) -> Any:
        return state(a=get(s, "b") + 1, b=5)

    g = GraphBuilder.overwrite(state)
    g.add_node("step", step).add_edge(START, "step").add_edge("step", END)

    result = face.run(g.compile(), {"a": 1, "b": 2}).state

    assert (get(result, "a"), get(result, "b")) == (3, 5)


def test_retry_after_a_bad_update_runs_only_the_offending_task(face: Face) -> None:
    ran: list[str] = []
    mood: dict[str, Any] = {"update": {"nope": 1}}

    def bad(state: Any) -> Any:
        ran.append("bad")
        return mood["update"]

    def good(state: Any) -> Any:
        ran.append("good")
        return {"notes": [1]}

    runtime = Runtime(parallel(("good", good), ("bad", bad), state=typed("pydantic")), store="memory:")
    with pytest.raises(UpdateError):
        face.run(runtime, {}, thread="t")
    assert ran.count("good") == 1
    ran.clear()
    mood["update"] = {"count": 4}

    result = face.retry(runtime, "t")

    assert ran == ["bad"]
    assert (result.state.count, result.state.notes) == (4, [1])


# --- Declared writes


class Both(BaseModel):
    n: int = 0
    text: str = ""


class Set(BaseModel):
    text: str = ""


@dataclasses.dataclass
class Put:
    text: str = UNSET


def writing(made: Any, *, update: Any = None, alone: bool = True, child: bool = False, **policy: Any) -> Any:
    g: Any = GraphBuilder(Both, update) if update is not None else GraphBuilder(Both)
    g.add_node("node", lambda state: made, **({} if child else policy)).add_edge(START, "node")
    if child:
        g = GraphBuilder(Both).add_node("node", g.compile(), **policy).add_edge(START, "node")
    if not alone:
        g.add_node("other", lambda state: None).add_edge(START, "other")
    return g.compile()


@pytest.mark.parametrize("store", [None, "memory:"])
@pytest.mark.parametrize(
    "options",
    [
        {"made": {"text": "x"}},
        {"made": {"n": 1, "text": "x"}, "alone": False},
        {"made": {"text": DELETE}},
        {"made": Command(update={"text": "x"})},
        {"made": Set(text="x"), "update": Set},
        {"made": Put(text="x"), "update": Put},
        {"made": {"text": "x"}, "child": True},
        {"made": {"n": 1, "text": "x"}, "child": True, "alone": False},
    ],
)
def test_write_that_the_node_does_not_declare_is_refused(face: Face, options: Any, store: str | None) -> None:
    graph = writing(**options, writes=["n"])

    with pytest.raises(
        UpdateError, match=r"Node 'node' wrote field 'text', which its writes= does not declare"
    ) as caught:
        face.run(Runtime(graph, store=store), {})

    assert (caught.value.code, caught.value.node, caught.value.field) == ("undeclared-write", "node", "text")
    assert face.run(writing(**options, writes=["n", "text"]), {}).status == "completed"


def test_node_that_declares_no_write_may_write_nothing(face: Face) -> None:
    with pytest.raises(UpdateError) as caught:
        face.run(writing(made={"text": "x"}, writes=()), {})

    assert caught.value.known == "declared none"


def test_function_may_write_only_the_fields_that_it_declares() -> None:
    def work(state: Both) -> dict[str, Any]:
        return {"n": 1, "text": "x"}

    g = GraphBuilder(Both).add_node("node", declare_fields(work, writes=["n"])).add_edge(START, "node")

    with pytest.raises(UpdateError, match="writes= does not declare"):
        g.compile().run({})


def test_node_that_returns_whole_states_writes_only_its_declared_fields(face: Face) -> None:
    """Fields that it returns unchanged are not writes, and two such nodes can share a superstep."""
    g = GraphBuilder.overwrite(Both)
    g.add_node("a", lambda state: Both(n=1, text=state.text), writes=["n"]).add_edge(START, "a")
    g.add_node("b", lambda state: Both(n=state.n, text="b"), writes=["text"]).add_edge(START, "b")
    wrong = (
        GraphBuilder.overwrite(Both)
        .add_node("a", lambda state: Both(n=1, text="new"), writes=["n"])
        .add_edge(START, "a")
    )

    assert face.run(g.compile(), {"n": 5, "text": "old"}).state == Both(n=1, text="b")
    with pytest.raises(UpdateError, match="writes= does not declare"):
        face.run(wrong.compile(), {"text": "old"})


def test_an_empty_mapping_is_not_a_whole_state(face: Face, made: Any) -> None:
    class Key(TypedDict):
        n: int

    g = GraphBuilder.overwrite(Key)
    g.add_node("a", made(lambda state: {})).add_edge(START, "a")

    with pytest.raises(UpdateError, match="lacks 'n'"):
        face.run(g.compile(), {"n": 1})
