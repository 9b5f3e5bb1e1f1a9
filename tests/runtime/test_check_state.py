"""Rule R15: `check_state` detects every change of a storable value; with None it is on in tests only."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, TypedDict

import pytest

from graphrt import MockHarness, Runtime, UpdateError
from graphrt.reducers import append
from graphrt.testing import run_scripted

from .support import Face, get, parallel, sequence, state_class


@dataclasses.dataclass(eq=False)
class Note:
    """Compares by identity: a copy is not equal."""

    text: str = ""


class Handle:
    """A value that cannot be stored."""


def a_state(kind: str) -> Any:
    return state_class(
        kind,
        deep=(dict[str, list[int]], {}),
        rows=(list[dict[str, int]], []),
        note=(Note | None, None),
        notes=(Annotated[list[str], append], []),
        handle=(Any, None),
    )


GIVEN: dict[str, Any] = {"deep": {"x": [1]}, "rows": [{"n": 1}], "note": Note("a"), "notes": ["a"], "handle": None}


def deep(state: Any) -> Any:
    get(state, "deep")["x"][0] = 2


def item(state: Any) -> Any:
    get(state, "notes")[0] = "b"


def row(state: Any) -> Any:
    get(state, "rows")[0]["n"] = 2


def note(state: Any) -> Any:
    get(state, "note").text = "b"


CHANGES: dict[str, Any] = {"deep": deep, "notes": item, "rows": row, "note": note}


@pytest.mark.parametrize("field", CHANGES)
@pytest.mark.parametrize("beside", [False, True])
def test_change_of_the_same_length_is_detected(face: Face, made: Any, kind: str, field: str, beside: bool) -> None:
    others = [("other", made(lambda s: None))] if beside else []
    graph = parallel(("node", made(CHANGES[field])), *others, state=a_state(kind))

    with pytest.raises(UpdateError) as caught:
        face.run(graph, GIVEN, check_state=True)

    assert (caught.value.code, caught.value.field) == ("mutated-state", field)
    assert "node" in caught.value.nodes


def test_change_is_detected_in_later_supersteps_and_after_a_resume(
    face: Face, made: Any, kind: str, tmp_path: Any
) -> None:
    def asks(state: Any, ctx: Any) -> Any:
        ctx.interrupt("?")
        item(state)

    graph = sequence(
        ("one", made(lambda s: {"notes": ["b"]})),
        ("two", made(lambda s: None)),
        ("ask", made(asks)),
        state=a_state(kind),
    )
    with Runtime(graph, store=f"sqlite:///{tmp_path}/runs.db", check_state=True) as runtime:
        face.run(runtime, GIVEN, thread="t")
        with pytest.raises(UpdateError, match="mutated-state"):
            face.resume(runtime, "t", "yes")

        assert get(runtime.state("t").values, "notes") == ["a", "b"]


def test_unchanged_and_unstorable_values_are_not_reported(face: Face, made: Any, kind: str) -> None:
    def node(state: Any) -> Any:
        assert get(state, "note").text == "a"
        return {"notes": ["b"], "rows": [*get(state, "rows"), {"n": 2}]}

    graph = sequence(("one", made(node)), ("two", made(node)), state=a_state(kind))

    with pytest.warns(UserWarning, match="handle"):
        result = face.run(graph, {**GIVEN, "handle": Handle()}, check_state=True)
    assert len(get(result.state, "rows")) == 3
    [warning] = result.warnings
    assert warning.startswith("Field 'handle' of graph 'graph' has a value that no store takes: it is a")


def test_writes_of_the_last_superstep_are_also_checked(face: Face, made: Any, kind: str) -> None:
    graph = sequence(("one", made(lambda s: {"handle": Handle()})), state=a_state(kind))

    with pytest.warns(UserWarning, match="handle"):
        result = face.run(graph, GIVEN, check_state=True)
    [warning] = result.warnings
    assert warning.startswith("Field 'handle' of graph 'graph' has a value that no store takes: it is a")


def test_writes_of_the_last_superstep_of_a_nested_graph_are_also_checked(face: Face) -> None:
    class Inner(TypedDict, total=False):
        notes: Annotated[list[str], append]
        secret: Any

    inner = sequence(("one", lambda s: {"secret": Handle()}), state=Inner)
    graph = sequence(("sub", inner), state=a_state("typeddict"))

    with pytest.warns(UserWarning, match="secret"):
        assert len(face.run(graph, GIVEN, check_state=True).warnings) == 1


def test_unchecked_run_reports_no_values(face: Face, kind: str) -> None:
    graph = sequence(("one", lambda s: None), state=a_state(kind))

    assert face.run(graph, {**GIVEN, "handle": Handle()}, check_state=False).warnings == ()


# -- when it is on -----------------------------------------------------------------------------------------------


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An empty environment, outside any test."""
    monkeypatch.delenv("GRAPHRT_CHECK_STATE")
    return monkeypatch


def leave_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clear the variable with which pytest announces each phase of a test."""
    monkeypatch.delenv("PYTEST_CURRENT_TEST")


def checks(**options: Any) -> bool:
    graph = sequence(("node", item), state=a_state("typeddict"))
    try:
        graph.run(GIVEN, **options)
    except UpdateError:
        return True
    return False


def test_check_is_off_in_a_program(nobody: pytest.MonkeyPatch) -> None:
    leave_the_test(nobody)

    assert not checks()
    assert not checks(harness=None)


def test_check_is_on_in_a_test(nobody: pytest.MonkeyPatch) -> None:
    assert checks()
    assert not checks(check_state=False)


def test_check_is_on_with_a_mock(nobody: pytest.MonkeyPatch) -> None:
    leave_the_test(nobody)

    assert checks(harness=MockHarness())
    assert not checks(harness=MockHarness(), check_state=False)


def test_environment_overrides_all_but_the_caller(nobody: pytest.MonkeyPatch) -> None:
    nobody.setenv("GRAPHRT_CHECK_STATE", "0")
    assert not checks()
    assert not checks(harness=MockHarness())
    assert checks(check_state=True)

    leave_the_test(nobody)
    nobody.setenv("GRAPHRT_CHECK_STATE", "1")
    assert checks()
    assert not checks(check_state=False)


def test_environment_is_read_when_a_run_starts(nobody: pytest.MonkeyPatch) -> None:
    nobody.setenv("GRAPHRT_CHECK_STATE", "0")
    runtime = Runtime(sequence(("node", item), state=a_state("typeddict")))
    assert not runtime.check_state

    nobody.delenv("GRAPHRT_CHECK_STATE")
    assert runtime.check_state
    with pytest.raises(UpdateError):
        runtime.run(GIVEN)


def test_scripted_runs_check_regardless_of_the_environment() -> None:
    with pytest.raises(UpdateError):
        run_scripted(sequence(("node", item), state=a_state("typeddict")), GIVEN)
