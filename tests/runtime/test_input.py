"""Rule R7, the input: the whole state on a new thread, an update on a finished one; never aliased."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal, TypedDict

import pydantic
import pytest

from graphrt import END, START, GraphBuilder, GraphrtError, InputError, Overwrite, Runtime
from graphrt.reducers import add, append, redacted

from .support import Face, general, get, note, sequence, state_class


def graph_over(state: Any) -> Any:
    return sequence(("a", lambda s: None), state=state)


def test_the_input_is_the_initial_state_and_no_reducer_runs(face: Face, kind: str) -> None:
    def explode(current: Any, incoming: Any) -> Any:
        raise AssertionError("no reducer runs on the input of a new thread")

    state = state_class(kind, v=(Annotated[list[int], explode], []))

    assert get(face.run(graph_over(state), {"v": [1]}).state, "v") == [1]


def test_defaults_fill_missing_fields_of_the_input(face: Face, kind: str) -> None:
    state = face.run(sequence(("a", lambda s: None), state=general(kind)), {"n": 4}).state

    assert (get(state, "notes"), get(state, "n"), get(state, "x")) == ([], 4, None)


def test_instance_of_the_state_class_is_a_valid_input(face: Face, kind: str) -> None:
    cls = general(kind)

    state = face.run(sequence(("a", note("a")), state=cls), cls(notes=["in"])).state

    assert get(state, "notes") == ["in", "a"]


class Needs(TypedDict):
    need: int
    also: str
    log: Annotated[list[str], append]
    total: Annotated[int, add]


def needing(kind: str) -> Any:
    if kind == "typeddict":
        return Needs
    if kind == "pydantic":
        return pydantic.create_model("Needs", need=(int, ...), also=(str, ...), log=(Annotated[list[str], append], []))
    return dataclasses.make_dataclass("Needs", [("need", int), ("also", str)])


def test_missing_fields_are_all_named(face: Face, kind: str) -> None:
    with pytest.raises(InputError) as caught:
        face.run(graph_over(needing(kind)), {})

    error = caught.value
    assert error.code == "missing-field"
    assert "'need'" in str(error)
    assert "'also'" in str(error)


def test_typeddict_key_may_be_missing_if_its_reducer_has_an_identity(face: Face) -> None:
    assert face.run(graph_over(Needs), {"need": 1, "also": "x"}).state == {
        "need": 1,
        "also": "x",
        "log": [],
        "total": 0,
    }


def test_unknown_keys_are_refused(face: Face, kind: str) -> None:
    with pytest.raises(InputError) as caught:
        face.run(sequence(("a", note("a")), state=general(kind)), {"nots": ["x"]})

    assert (caught.value.code, caught.value.field) == ("unknown-key", "nots")
    assert "Did you mean 'notes'?" in str(caught.value)


@pytest.mark.parametrize("given", [None, 3, "text", ["a"], object()], ids=lambda v: type(v).__name__)
def test_input_that_is_not_a_state_is_refused(face: Face, kind: str, given: Any) -> None:
    with pytest.raises(InputError) as caught:
        face.run(sequence(("a", note("a")), state=general(kind)), given)

    assert caught.value.code == "bad-input"


def test_a_wrong_type_in_the_input_is_refused_with_its_path(face: Face, kind: str) -> None:
    state = state_class(kind, tags=(list[int], []), n=(int, 0))

    with pytest.raises(InputError) as caught:
        face.run(graph_over(state), {"tags": [1, "x"], "n": "y"})

    assert caught.value.code == "bad-input"
    assert "tags[1]" in str(caught.value) or "tags.1" in str(caught.value)


def test_containers_of_the_caller_are_never_aliased(face: Face, kind: str) -> None:
    state = state_class(kind, deep=(Any, None), notes=(Annotated[list[Any], append], []))
    given = {"deep": {"list": [1, {"set": {2}}]}, "notes": [["in"]]}
    seen: list[Any] = []

    def spoil(s: Any) -> Any:
        given["deep"]["list"].append("spoilt")
        given["deep"]["list"][1]["set"].add("spoilt")
        given["notes"].append("spoilt")
        given["notes"][0].append("spoilt")

    def look(s: Any) -> Any:
        seen.append((get(s, "deep"), list(get(s, "notes"))))

    face.run(sequence(("spoil", spoil), ("look", look), state=state), given)

    assert seen == [({"list": [1, {"set": {2}}]}, [["in"]])]


def test_instance_as_input_is_never_aliased(face: Face, kind: str) -> None:
    cls = state_class(kind, deep=(Any, None), notes=(Annotated[list[Any], append], []))
    given = cls(deep=[1, [2]], notes=["in"])

    result = face.run(sequence(("a", note("a")), state=cls), given)
    get(given, "deep")[1].append("spoilt")

    assert get(given, "notes") == ["in"]
    assert get(result.state, "deep") == [1, [2]]
    assert get(result.state, "notes") == ["in", "a"]


def test_values_that_cannot_be_copied_are_passed_by_reference(face: Face, kind: str) -> None:
    import threading

    lock, numbers = threading.Lock(), (n for n in range(3))
    state = state_class(kind, lock=(Any, None), numbers=(Any, None))
    graph = sequence(("a", lambda s: {"numbers": get(s, "numbers")}), ("b", lambda s: None), state=state)

    result = face.run(graph, {"lock": lock, "numbers": numbers})

    assert get(result.state, "lock") is lock
    assert list(get(result.state, "numbers")) == [0, 1, 2]


def test_input_may_be_any_mapping(face: Face) -> None:
    from types import MappingProxyType

    assert get(face.run(sequence(("a", note("a"))), MappingProxyType({"x": 1})).state, "x") == 1


# -- a finished thread -----------------------------------------------------------------------------------------------


def test_the_input_of_a_finished_thread_is_an_update(face: Face, kind: str) -> None:
    runtime = Runtime(sequence(("a", note("a")), state=general(kind)), store="memory:")
    face.run(runtime, {"notes": ["one"], "x": 1, "y": 1}, thread="t")

    state = face.run(runtime, {"notes": ["two"], "x": 2}, thread="t").state

    assert get(state, "notes") == ["one", "a", "two", "a"]
    assert (get(state, "x"), get(state, "y")) == (2, 1)


def test_only_set_fields_of_a_model_are_the_update(face: Face) -> None:
    cls = general("pydantic")
    runtime = Runtime(sequence(("a", lambda s: None), state=cls), store="memory:")
    face.run(runtime, {"x": 1, "n": 5}, thread="t")

    state = face.run(runtime, cls(y=2), thread="t").state

    assert (state.x, state.y, state.n) == (1, 2, 5)


def test_aliases_are_names_of_the_input_of_a_finished_thread(face: Face) -> None:
    class Aliased(pydantic.BaseModel):
        ref: int = pydantic.Field(0, alias="REF")

    runtime = Runtime(sequence(("a", lambda s: None), state=Aliased), store="memory:")
    face.run(runtime, {"REF": 1}, thread="t")

    assert face.run(runtime, {"REF": 2}, thread="t").state.ref == 2
    runtime.update("t", {"REF": 3})
    assert runtime.state("t").values.ref == 3


def test_an_instance_for_a_finished_thread_is_not_converted_again_and_loses_no_field(face: Face) -> None:
    class Price(pydantic.BaseModel):
        cents: Annotated[int, pydantic.AfterValidator(lambda euros: euros * 100)] = 0

    class More(Price):
        urgent: bool = False

    runtime = Runtime(sequence(("a", lambda s: None), state=Price), store="memory:")
    face.run(runtime, {}, thread="t")

    assert face.run(runtime, Price(cents=5), thread="t").state.cents == 500
    with pytest.raises(InputError, match="not a field of the state: 'urgent'"):
        face.run(runtime, More(urgent=True), thread="t")


@pytest.mark.parametrize("given", [{"nope": 1}, {"notes": 3}, 7, None], ids=repr)
def test_bad_input_leaves_a_finished_thread_unchanged(face: Face, kind: str, given: Any) -> None:
    runtime = Runtime(sequence(("a", note("a")), state=general(kind)), store="memory:")
    face.run(runtime, {}, thread="t")

    with pytest.raises(InputError):
        face.run(runtime, given, thread="t")

    assert runtime.state("t").status == "completed"
    assert get(runtime.state("t").values, "notes") == ["a"]


def test_reducer_that_refuses_the_input_of_a_finished_thread_raises_a_typed_error(face: Face) -> None:
    def picky(current: int, incoming: int) -> int:
        if incoming == 13:
            raise ValueError("unlucky")
        return current + incoming

    runtime = Runtime(graph_over(state_class("pydantic", v=(Annotated[int, picky], 0))), store="memory:")
    face.run(runtime, {"v": 1}, thread="t")

    with pytest.raises(GraphrtError) as caught:
        face.run(runtime, {"v": 13}, thread="t")

    assert "unlucky" in str(caught.value)
    assert runtime.state("t").status == "completed"
    assert face.run(runtime, {"v": 2}, thread="t").state.v == 3


def test_entry_router_that_fails_on_a_finished_thread_keeps_no_input_or_can_be_retried(
    face: Face,
) -> None:
    """Either the input is not stored, or the thread is failed and retry calls the router again."""
    g = GraphBuilder(general())
    g.add_node("a", note("a")).add_edge("a", END)
    mood = {"broken": False}

    def entry(state: Any) -> str:
        if mood["broken"]:
            raise RuntimeError("not now")
        return "a"

    g.set_conditional_entry(entry, ["a"])
    runtime = Runtime(g.compile(), store="memory:")
    face.run(runtime, {"n": 1}, thread="t")
    mood["broken"] = True
    with pytest.raises(GraphrtError):
        face.run(runtime, {"n": 5}, thread="t")
    mood["broken"] = False

    if runtime.state("t").status == "failed":
        assert get(face.retry(runtime, "t").state, "n") == 6
    else:
        assert get(runtime.state("t").values, "n") == 1


def test_overwrite_in_the_input_of_a_finished_thread_bypasses_the_reducer_and_is_not_aliased(face: Face) -> None:
    runtime = Runtime(sequence(("a", note("a"))), store="memory:")
    face.run(runtime, {"notes": ["old"]}, thread="t")
    given: list[Any] = [["new"]]
    result = face.run(runtime, {"notes": Overwrite(given)}, thread="t")
    given[0].append("spoilt")

    assert get(result.state, "notes") == [["new"], "a"]


def test_input_and_output_schemas_narrow_the_fields(face: Face) -> None:
    class Whole(pydantic.BaseModel):
        question: str = ""
        work: int = 0
        answer: str = ""

    class In(pydantic.BaseModel):
        question: str

    class Out(pydantic.BaseModel):
        answer: str

    g: Any = GraphBuilder(Whole, input=In, output=Out)
    g.add_node("a", lambda s: {"answer": s.question.upper(), "work": 1}).add_edge(START, "a").add_edge("a", END)
    graph = g.compile()

    result = face.run(graph, {"question": "why"})

    assert result.output == Out(answer="WHY")
    with pytest.raises(InputError) as caught:
        face.run(graph, {"question": "why", "work": 3})
    assert caught.value.code == "unknown-key"


class Question(pydantic.BaseModel):
    topic: Annotated[str, pydantic.Field(min_length=3)]
    depth: int = 7


def test_an_input_is_validated_by_the_class_given_as_input(face: Face) -> None:
    class Whole(pydantic.BaseModel):
        topic: str
        depth: int = 3
        work: int = 0

    g: Any = GraphBuilder(Whole, input=Question)
    runtime = Runtime(g.add_node("a", lambda s: {"work": 1}).add_edge(START, "a").compile(), store="memory:")

    for thread, given in (("t", {"topic": "tea"}), ("u", Question(topic="tea"))):
        assert face.run(runtime, given, thread=thread).state == Whole(topic="tea", depth=7, work=1)
    assert runtime.schedules.add("s", "0 8 * * *", {"topic": "tea"}).input == {"topic": "tea"}
    with pytest.raises(InputError, match="does not fit Question: topic"):
        face.run(runtime, {"topic": "x"}, thread="v")
    with pytest.raises(InputError, match="lacks a field that has no default: 'topic'"):
        face.run(runtime, {}, thread="v")


def test_the_class_given_as_input_quotes_no_redacted_value(face: Face) -> None:
    class Whole(pydantic.BaseModel):
        topic: Annotated[str, redacted]
        depth: int = 3

    g: Any = GraphBuilder(Whole, input=Question)

    with pytest.raises(InputError) as caught:
        face.run(g.add_node("a", lambda s: None).add_edge(START, "a").compile(), {"topic": "Q7"})
    assert "Q7" not in str(caught.value)


def test_an_instance_of_the_input_class_is_an_update_of_a_finished_thread(face: Face) -> None:
    class Whole(pydantic.BaseModel):
        topic: str
        depth: int = 3

    g: Any = GraphBuilder(Whole, input=Question)
    runtime = Runtime(g.add_node("a", lambda s: None).add_edge(START, "a").compile(), store="memory:")
    face.run(runtime, Question(topic="tea", depth=1), thread="t")

    assert face.run(runtime, Question(topic="milk"), thread="t").state == Whole(topic="milk", depth=1)


class Cat(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(pydantic.BaseModel):
    kind: Literal["dog"] = "dog"
    name: str


class Pets(pydantic.BaseModel):
    pets: list[Cat | Dog] = []


@pytest.mark.parametrize(
    ("pet", "mistakes"),
    [
        ({"kind": "dog", "name": 1}, ["pets[0].Dog.name"]),
        ({"kind": "cow"}, ["pets[0].Cat.kind", "pets[0].Cat.lives", "pets[0].Dog.kind", "pets[0].Dog.name"]),
    ],
    ids=["the tag names one class", "the tag fits none"],
)
def test_mistakes_in_a_union_are_those_of_the_class_that_the_tag_names(pet: Any, mistakes: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        Runtime(graph_over(Pets)).run({"pets": [pet]})

    assert sorted(part.split(":")[0] for part in caught.value.what.partition("Pets: ")[2].split("; ")) == mistakes
