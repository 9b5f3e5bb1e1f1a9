"""Rule R7: a reducer may not return None for a field that cannot be None, nor a class that cannot be stored.

Other results are not validated again.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, field_validator

from graphrt import START, DefinitionError, GraphBuilder, InputError, Overwrite, Runtime, UpdateError
from graphrt.reducers import append, union, untracked

from .support import Face, get, parallel, sequence, state_class


def forgets(current: Any, incoming: Any) -> Any:
    """The usual mistake: list.append returns None."""
    current.append(incoming)


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("hint", [list[str], list[str] | dict[str, str], Literal["a"]])
def test_reducer_that_returns_none_is_refused(face: Face, made: Any, kind: str, beside: bool, hint: Any) -> None:
    state = state_class(kind, log=(Annotated[hint, lambda current, incoming: None], []), n=(int, 0))
    others = [("other", made(lambda s: {"n": 1}))] if beside else []
    graph = parallel(("node", made(lambda s: {"log": "a" if hint == Literal["a"] else ["x"]})), *others, state=state)
    given = {"log": "a" if hint == Literal["a"] else ["in"]}

    with pytest.raises(UpdateError, match="returned None, which the field cannot be") as caught:
        face.run(graph, given)

    assert (caught.value.code, caught.value.field, caught.value.node) == ("reducer-failed", "log", "node")


def test_usual_mistake_is_reported_and_can_be_corrected(face: Face, kind: str) -> None:
    slips = [True]

    def reducer(current: list[str], incoming: list[str]) -> Any:
        return current.extend(incoming) if slips else [*current, *incoming]  # type: ignore[func-returns-value]

    graph = sequence(
        ("node", lambda s: {"log": ["x"]}), state=state_class(kind, log=(Annotated[list[str], reducer], []))
    )
    runtime = Runtime(graph, store="memory:")
    with pytest.raises(UpdateError, match="returned None"):
        face.run(runtime, {"log": ["in"]}, thread="t")
    slips.clear()

    assert get(face.retry(runtime, "t").state, "log") == ["in", "x"]


def tally(current: dict[str, int], incoming: dict[str, int]) -> Any:
    return Counter(current) + Counter(incoming)


def test_reducer_that_returns_an_unstorable_class_is_refused_with_a_store(face: Face, kind: str) -> None:
    """The update can be stored and the result cannot, so that the thread could be neither forked nor pruned."""
    state = state_class(kind, words=(Annotated[dict[str, int], tally], {}))
    graph = sequence(("node", lambda s: {"words": {"x": 1}}), state=state)

    with pytest.raises(UpdateError, match="'tally' of field 'words' returned a value that cannot be stored") as caught:
        face.run(Runtime(graph, store="memory:"), {"words": {}}, thread="t")

    assert (caught.value.code, caught.value.field, caught.value.node) == ("reducer-failed", "words", "node")
    assert "store dict(it)" in str(caught.value)


def test_reducer_of_the_state_that_returns_an_unstorable_field_is_refused_with_a_store(face: Face) -> None:
    class State(BaseModel):
        words: Any = None

    def count(state: State, update: State) -> State:
        return State(words=Counter(update.words))

    builder = GraphBuilder(State, State, reducer=count)
    builder.add_node("node", lambda s: State(words="x")).add_edge(START, "node")

    with pytest.raises(UpdateError, match="returned a state whose field 'words' cannot be stored"):
        face.run(Runtime(builder.compile(), store="memory:"), State(), thread="t")


def test_unstorable_result_of_a_reducer_is_allowed_where_it_is_never_stored(face: Face, kind: str) -> None:
    state = state_class(kind, words=(Annotated[dict[str, int], tally, untracked], {}))
    graph = sequence(("node", lambda s: {"words": {"x": 1}}), state=state)

    assert get(face.run(Runtime(graph, store="memory:"), {}, thread="t").state, "words") == {"x": 1}


@pytest.mark.parametrize("reducer", [append, union])
@pytest.mark.parametrize(
    ("current", "incoming"),
    [([1], None), ([1], 5), ([1], "text"), ([1], {"key": 1}), (5, [1]), ("text", [1]), ({1: 1}, [1])],
)
def test_value_without_items_is_refused(face: Face, made: Any, reducer: Any, current: Any, incoming: Any) -> None:
    state = state_class("pydantic", log=(Annotated[Any, reducer], None))
    runtime = Runtime(parallel(("node", made(lambda s: {"log": incoming})), state=state), store="memory:")

    with pytest.raises(UpdateError, match=f"{reducer.__name__!r} of field 'log' raised TypeError") as caught:
        face.run(runtime, {"log": current}, thread="t")

    assert (caught.value.code, caught.value.field, caught.value.node) == ("reducer-failed", "log", "node")
    assert runtime.state("t").status == "failed"


@pytest.mark.parametrize("hint", [Any, object, int | None, Literal["a"] | None, list[str] | None])
def test_optional_field_may_be_reduced_to_none(face: Face, kind: str, hint: Any) -> None:
    state = state_class(kind, v=(Annotated[hint, lambda current, incoming: None], None))

    assert get(face.run(sequence(("node", lambda s: {"v": None}), state=state), {"v": None}).state, "v") is None


def test_reducer_may_return_and_leave_a_default_of_none(face: Face) -> None:
    def last(current: Any, incoming: Any) -> Any:
        return incoming

    class State(BaseModel):
        v: Annotated[int, last] = None  # type: ignore[assignment]

    assert face.run(sequence(("node", lambda s: {"v": 1}), state=State), {}).state.v == 1


def test_edit_that_a_reducer_turns_into_none_is_refused(kind: str) -> None:
    state = state_class(kind, log=(Annotated[list[str], lambda current, incoming: None], []))
    runtime = Runtime(sequence(("node", lambda s: None), state=state), store="memory:")
    runtime.run({"log": []}, thread="t")

    with pytest.raises(UpdateError, match="returned None"):
        runtime.update("t", {"log": ["x"]})
    runtime.update("t", {"log": Overwrite(["y"])})
    assert get(runtime.state("t").values, "log") == ["y"]


def test_results_of_reducers_are_not_validated_again_and_validators_of_models_run_on_the_input_only(face: Face) -> None:
    class State(BaseModel):
        n: Annotated[int, lambda current, incoming: current + incoming] = Field(0, le=3)
        m: int = Field(0, ge=0)
        word: str = ""

        @field_validator("word")
        @classmethod
        def short(cls, word: str) -> str:
            if len(word) > 3:
                raise ValueError("too long")
            return word

    assert face.run(sequence(("node", lambda s: {"n": 3, "word": "longer"}), state=State), {"n": 3}).state.n == 6
    with pytest.raises(InputError, match="too long"):
        face.run(sequence(("node", lambda s: None), state=State), {"word": "longer"})
    with pytest.raises(UpdateError, match="greater than or equal to 0"):
        face.run(sequence(("node", lambda s: {"m": -1}), state=State), {})


@pytest.mark.parametrize("name", ["append", "add", "union", "merge", "messages", "overwrite", "untracked", "ephemeral"])
def test_annotation_text_that_names_a_reducer_is_a_finding(kind: str, name: str) -> None:
    g: Any = GraphBuilder(state_class(kind, log=(Annotated[list[str], name], [])))
    g.add_node("node", lambda s: None).add_edge(START, "node")

    with pytest.raises(DefinitionError) as caught:
        g.compile()

    [problem] = caught.value.problems
    assert problem.code == "bad-reducer"
    assert problem.message.startswith(f"Field 'log' has the text {name!r} beside its type")
    assert f"from graphrt.reducers import {name}" in problem.hint


def test_other_annotation_texts_are_documentation(face: Face, kind: str) -> None:
    state = state_class(kind, log=(Annotated[list[str], "what was append-ed", append, "oldest first"], []))

    assert get(face.run(sequence(("node", lambda s: {"log": ["x"]}), state=state), {"log": ["a"]}).state, "log") == [
        "a",
        "x",
    ]
