"""Rule R15: only the engine changes a state. Retained values stay unchanged, or the change is detected."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from graphrt import Runtime, UpdateError
from graphrt.reducers import append

from .support import Face, general, get, note, only_mutated, parallel, sequence, state_class


def test_retained_old_state_is_unchanged_by_appends(face: Face, made: Any, kind: str) -> None:
    kept: list[Any] = []

    def node(state: Any) -> Any:
        kept.append(state)
        return {"notes": [len(kept)]}

    graph = sequence(*((f"n{i}", made(node)) for i in range(10)), state=general(kind))
    result = face.run(graph, {})

    assert [get(state, "notes") for state in kept] == [list(range(1, n + 1)) for n in range(10)]
    assert get(result.state, "notes") == list(range(1, 11))


def test_retained_list_is_unchanged_by_appends(face: Face, kind: str) -> None:
    """Retaining only the list, without its state, is enough."""
    kept: list[Any] = []

    def node(state: Any) -> Any:
        kept.append(get(state, "notes"))
        return {"notes": [len(kept)]}

    face.run(sequence(*((f"n{i}", node) for i in range(10)), state=general(kind)), {})

    assert kept == [list(range(1, n + 1)) for n in range(10)]


def test_generator_over_a_list_keeps_reading_the_old_one(face: Face) -> None:
    kept: list[Any] = []

    def node(state: Any) -> Any:
        kept.append(iter(state["notes"]))
        return {"notes": [len(kept)]}

    face.run(sequence(*((f"n{i}", node) for i in range(5))), {"notes": ["in"]})

    assert [len(list(it)) for it in kept] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda s: get(s, "notes").append("x"), id="append"),
        pytest.param(lambda s: get(s, "notes").clear(), id="clear"),
        pytest.param(lambda s: get(s, "table").update(b=2), id="dict"),
        pytest.param(lambda s: get(s, "seen").add(2), id="set"),
    ],
)
@pytest.mark.parametrize("beside", [False, True])
def test_node_that_changes_a_container_of_the_state_is_detected(
    face: Face, made: Any, kind: str, change: Any, beside: bool
) -> None:
    state = state_class(
        kind, notes=(Annotated[list[Any], append], []), table=(dict[str, int], {}), seen=(set[int], set())
    )

    def node(s: Any) -> Any:
        change(s)

    others = [("other", made(lambda s: None))] if beside else []
    graph = parallel(("node", made(node)), *others, state=state)

    with pytest.raises(UpdateError) as caught:
        face.run(graph, {"notes": ["in"], "table": {"a": 1}, "seen": {1}})

    assert caught.value.code == "mutated-state"
    assert "node" in caught.value.nodes


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda s: get(s, "notes").__setitem__(0, "x"), id="item"),
        pytest.param(lambda s: get(s, "deep")["list"].append(1), id="deep"),
    ],
)
def test_check_state_detects_changes_that_keep_the_length(face: Face, made: Any, kind: str, change: Any) -> None:
    state = state_class(kind, notes=(Annotated[list[Any], append], []), deep=(Any, None))

    def node(s: Any) -> Any:
        change(s)

    graph = sequence(("node", made(node)), state=state)

    with pytest.raises(UpdateError) as caught:
        face.run(graph, {"notes": ["in"], "deep": {"list": []}}, check_state=True)

    assert (caught.value.code, caught.value.node) == ("mutated-state", "node")


def test_list_that_a_node_returns_and_keeps_is_not_shared_with_the_state(face: Face, kind: str) -> None:
    kept: list[Any] = []

    def one(state: Any) -> Any:
        kept.append([1])
        return {"notes": kept[0]}

    def two(state: Any) -> Any:
        kept[0].append("spoilt")

    graph = sequence(("one", one), ("two", two), ("three", note("three")), state=general(kind))
    try:
        assert get(face.run(graph, {}).state, "notes") == [1, "three"]
    except UpdateError as error:
        only_mutated(error)


def test_results_of_a_thread_are_not_shared_with_the_thread(face: Face, kind: str) -> None:
    runtime = Runtime(sequence(("a", note("a")), state=general(kind)), store="memory:")
    result = face.run(runtime, {"x": [1]}, thread="t")
    get(result.state, "notes").append("spoilt")
    get(result.state, "x").append("spoilt")
    snapshot = runtime.state("t")
    get(snapshot.values, "notes").append("spoilt")

    state = face.run(runtime, {}, thread="t").state

    assert get(state, "notes") == ["a", "a"]
    assert get(state, "x") == [1]


def test_reducer_that_changes_its_first_argument_does_not_change_old_states(face: Face, kind: str) -> None:
    def rude(current: list[int], incoming: list[int]) -> list[int]:
        current.extend(incoming)
        return current

    kept: list[Any] = []

    def node(state: Any) -> Any:
        kept.append(state)
        return {"v": [len(kept)]}

    state = state_class(kind, v=(Annotated[list[int], rude], []))
    result = face.run(sequence(*((f"n{i}", node) for i in range(4)), state=state), {"v": []})

    assert [get(s, "v") for s in kept] == [[], [1], [1, 2], [1, 2, 3]]
    assert get(result.state, "v") == [1, 2, 3, 4]


def test_parallel_writers_share_no_list(face: Face, made: Any) -> None:
    shared = ["x"]
    graph = parallel(("a", made(lambda s: {"notes": shared})), ("b", made(lambda s: {"notes": shared})))

    assert get(face.run(graph, {}).state, "notes") == ["x", "x"]
    assert shared == ["x"]
