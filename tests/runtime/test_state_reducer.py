"""A reducer of the whole state: updates of any type, folded in task order, on every path and by every reader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

import pytest
from pydantic import BaseModel

from graphrt import (
    DELETE,
    END,
    START,
    Command,
    CompiledGraph,
    Context,
    DefinitionError,
    GraphBuilder,
    InputError,
    NodeError,
    Overwrite,
    Runtime,
    UpdateError,
)
from graphrt.audit import AuditLog, Redaction
from graphrt.commands import ERASED
from graphrt.reducers import append, ephemeral, redacted, untracked
from graphrt.specs import Registry
from graphrt.stores import EncryptedStore, MemoryStore

from .support import Face


class Counter(BaseModel):
    n: int = 0
    log: list[str] = []


def apply(state: Counter, update: int) -> Counter:
    return Counter(n=state.n * 10 + update, log=[*state.log, str(update)])


def counting(
    *, reducer: Callable[[Counter, int], Counter] = apply, last: Callable[[Counter], Any] | None = None
) -> CompiledGraph[Counter, int]:
    """One node, then two in parallel, then one."""
    g = GraphBuilder(Counter, int, reducer=reducer, name="counting")
    for name, number in (("a", 1), ("b", 2), ("c", 3)):
        g.add_node(name, lambda s, number=number: number)
    g.add_node("d", last or (lambda s: 4))
    return g.add_edge(START, "a").add_edge("a", "b").add_edge("a", "c").add_edge(["b", "c"], "d").compile()


def test_updates_fold_in_task_order_with_any_listener(face: Face) -> None:
    silent = face.run(counting(), {"n": 5})
    runtime = Runtime(counting(), store="memory:")
    steps = face.steps(runtime, {"n": 5}, thread="t")

    assert silent.state == Counter(n=51234, log=["1", "2", "3", "4"])
    assert [(step.node, step.update, step.after.n) for step in steps] == [
        ("a", 1, 51), ("b", 2, 512), ("c", 3, 5123), ("d", 4, 51234),
    ]  # fmt: skip
    assert steps[1].diff.to_dict() == {"added": {}, "removed": {}, "updated": {"n": 512, "log": ["1", "2"]}}
    assert steps[1].before == steps[0].after
    assert runtime.state("t").values == silent.state == runtime.replay("t").values
    assert face.stream(counting(), {"n": 5}, modes=("updates",)) == [{"a": 1}, {"b": 2}, {"c": 3}, {"d": 4}]


def test_none_is_not_a_change_and_a_command_carries_an_update() -> None:
    g = GraphBuilder(Counter, int, reducer=apply)
    g.add_node("none", lambda s: None).add_node("command", lambda s: Command(update=7, goto="end"))
    g.add_node("end", lambda s: Command(goto=END))
    graph = g.add_edge(START, "none").add_edge("none", "command").compile(allow=["unreachable-node"])

    assert graph.run({}).state == Counter(n=7, log=["7"])


def test_inputs_of_finished_threads_and_edits_are_validated_updates() -> None:
    runtime = Runtime(counting(), store="memory:")
    runtime.run({"n": 0}, thread="t")
    runtime.run(9, thread="t")
    runtime.update("t", 8)

    assert runtime.state("t").values.n == 1234912348
    runtime.update("t", None, as_node="b")
    assert runtime.state("t").values.n == 1234912348
    for wrong in ("x", {"n": 1}, Counter(), DELETE, None):
        with pytest.raises(InputError, match="int") as caught:
            runtime.run(wrong, thread="t")
        assert caught.value.code == "bad-input"
    with pytest.raises(InputError, match="int"):
        runtime.update("t", {"n": 1})


@pytest.mark.parametrize("wrong", ["x", {"n": 1}, Counter(), [1], DELETE, Overwrite(1)])
@pytest.mark.parametrize("store", [None, "memory:"])
def test_an_update_of_another_type_is_refused_at_the_node(wrong: Any, store: str | None) -> None:
    with pytest.raises(UpdateError, match=r"Node 'd' returned") as caught:
        Runtime(counting(last=lambda s: wrong), store=store).run({})

    assert caught.value.code in ("wrong-type", "bad-update")
    assert "int" in str(caught.value)


def test_markers_inside_an_update_of_any_type_are_refused() -> None:
    g = GraphBuilder(Counter, dict[str, Any], reducer=lambda s, u: s)
    g.add_node("a", lambda s: {"log": DELETE})

    with pytest.raises(UpdateError, match="DELETE is a marker"):
        g.add_edge(START, "a").compile().run({})


# --- Types of updates and states


@dataclass(frozen=True)
class Add:
    text: str


class Clear(BaseModel):
    below: int


class Move(Enum):
    UP = "up"
    DOWN = "down"


class Board(TypedDict):
    notes: list[str]
    level: int
    memo: NotRequired[str]


Change = Add | Clear | Move


def turn(state: Board, change: Change) -> Board:
    match change:
        case Add(text):
            return {**state, "notes": [*state["notes"], text], "memo": text}
        case Clear(below=below):
            left: Board = {"notes": state["notes"][below:], "level": state["level"]}
            return left
        case Move():
            return {**state, "level": state["level"] + (1 if change is Move.UP else -1)}


def board(asks: bool = False) -> CompiledGraph[Board, Change]:
    g = GraphBuilder(Board, Change, reducer=turn, name="board")

    def ask(state: Board, ctx: Context) -> Change | None:
        return Add(ctx.interrupt("what?")) if asks else None

    g.add_node("add", lambda s: Add("one")).add_node("up", lambda s: Move.UP).add_node("ask", ask)
    g.add_node("clear", lambda s: Clear(below=1))
    return g.add_edge(START, "add").add_edge("add", "up").add_edge("up", "ask").add_edge("ask", "clear").compile()


def test_updates_may_be_unions_of_classes_and_remove_keys(tmp_path: Path) -> None:
    """Stored exactly, resumed by another process, executed again, and a dropped key is removed."""
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    with Runtime(board(asks=True), store=url) as first:
        steps = list(first.steps({"notes": ["zero"], "level": 0}, thread="t"))
        assert [step.update for step in steps] == [Add("one"), Move.UP, None]
    with Runtime(board(asks=True), store=url, audit=AuditLog(tmp_path / "audit")) as second:
        result = second.resume("t", "two")
        fork = second.fork("t", at=3)

        assert result.state == {"notes": ["one", "two"], "level": 1}
        assert second.state(fork).values == {"notes": ["zero", "one"], "level": 0, "memo": "one"}
        assert [entry.event.update for entry in second.entries("t") if type(entry.event).__name__ == "TaskSucceeded"] == [
            {"*": Add("one")}, {"*": Move.UP}, {"*": Add("two")}, {"*": Clear(below=1)},
        ]  # fmt: skip
        assert [write.value for write in second.why("t", "level").writes][-1] == Move.UP


@dataclass(frozen=True, slots=True)
class Frozen:
    n: int = 0
    seen: tuple[str, ...] = ()
    flash: Annotated[int, ephemeral] = 0


def test_an_empty_mapping_is_an_update_and_ephemeral_fields_are_reset(face: Face) -> None:
    class Note(TypedDict, total=False):
        text: str

    seen: list[int] = []

    def note(state: Frozen, update: Note) -> Frozen:
        seen.append(state.flash)
        return Frozen(state.n + 1, (*state.seen, update.get("text", "-")), flash=state.n + 1)

    g = GraphBuilder(Frozen, Note, reducer=note)
    g.add_node("a", lambda s: {}).add_node("b", lambda s: {"text": "b"}).add_sequence(["a", "b"]).add_edge(START, "a")

    assert face.run(g.compile(), {}).state == Frozen(2, ("-", "b"), 2)
    assert seen == [0, 0]


# ----- Mistakes of reducers


def fails(state: Counter, update: int) -> Any:
    raise ValueError("no")


@pytest.mark.parametrize(
    ("reducer", "text"),
    [
        (fails, "raised ValueError: no"),
        (lambda s, u: None, "returned a NoneType, not an instance of Counter"),
        (lambda s, u: {"n": u}, "returned a dict, not an instance of Counter"),
        (lambda s, u: Counter.model_construct(n=None, log=[]), "field 'n' is None"),
    ],
)
@pytest.mark.parametrize("store", [None, "memory:"])
def test_reducer_that_does_not_return_a_state_fails_the_task(reducer: Any, text: str, store: str | None) -> None:
    with pytest.raises(UpdateError, match=text) as caught:
        Runtime(counting(reducer=reducer), store=store).run({"n": 1})

    assert (caught.value.code, caught.value.node) == ("reducer-failed", "a")


@pytest.mark.parametrize("store", [None, "memory:"])
def test_reducer_that_changes_the_state_in_place_is_detected_and_named(store: str | None) -> None:
    def grows(state: Counter, update: int) -> Counter:
        state.log.append("x")
        return state

    for check in (False, True):
        with pytest.raises(UpdateError, match=r"[Rr]educer .*grows.* changed the state .* in place: 'log'") as caught:
            Runtime(counting(reducer=grows), store=store, check_state=check).run({"log": ["in"]})
        assert (caught.value.code, caught.value.field) == ("mutated-state", "log")


def test_thread_continues_after_a_wrong_reducer_was_corrected() -> None:
    wrong = [True]

    def reducer(state: Counter, update: int) -> Counter:
        if wrong and update == 3:
            state.log.append("x")
        return apply(state, update)

    runtime = Runtime(counting(reducer=reducer), store="memory:", check_state=False)
    with pytest.raises(UpdateError):
        runtime.run({}, thread="t")
    assert runtime.state("t").values == Counter(n=1, log=["1"])
    wrong.clear()

    assert runtime.retry("t").state == Counter(n=1234, log=["1", "2", "3", "4"])


def test_changes_inside_values_are_detected_with_check_state() -> None:
    class Deep(BaseModel):
        rows: list[list[int]] = [[0]]

    def deep(state: Deep, update: int) -> Deep:
        state.rows[0][0] = update
        return state

    g = GraphBuilder(Deep, int, reducer=deep).add_node("a", lambda s: 1).add_edge(START, "a")
    with pytest.raises(UpdateError, match="in place: 'rows'"):
        g.compile().run({}, check_state=True)


# -- Findings of `compile()`


class Reduced(BaseModel):
    log: Annotated[list[str], append] = []


class Untracked(BaseModel):
    secret: Annotated[str, untracked] = ""


class Redacted(BaseModel):
    name: Annotated[str, redacted] = ""


def builder(state: Any, update: Any = int, reducer: Any = apply, **policy: Any) -> GraphBuilder[Any, Any]:
    return GraphBuilder(state, update, reducer=reducer).add_node("a", lambda s: 1, **policy).add_edge(START, "a")


@pytest.mark.parametrize(
    ("made", "code", "text"),
    [
        (builder(Reduced), "bad-reducer", "Field 'log' is marked 'append'"),
        (builder(Untracked), "bad-reducer", "Field 'secret' is marked 'untracked'"),
        (builder(Redacted), "bad-reducer", "Field 'name' is marked 'redacted'"),
        (builder(Counter, reducer=lambda s: s), "bad-reducer", "cannot be called as reducer"),
        (builder(Counter, reducer=5), "bad-reducer", "is not a function"),
        (builder(Counter, None), "bad-update-type", "None cannot be the Update"),
        (builder(Counter, writes=["n"]), "bad-policy", "declares writes= of 'n'"),
    ],
)
def test_options_that_conflict_with_a_state_reducer_are_refused_by_compile(made: Any, code: str, text: str) -> None:
    with pytest.raises(DefinitionError, match=text) as caught:
        made.compile()

    assert [problem.code for problem in caught.value.problems] == [code]


# --- Nested graphs


class Words(BaseModel):
    words: Annotated[list[str], append] = []
    n: int = 0


def plain() -> CompiledGraph[Words, Any]:
    g = GraphBuilder(Words, name="plain")
    g.add_node("x", lambda s: {"words": ["x"]}).add_node("y", lambda s: {"words": ["y", "z"]})
    return g.add_sequence(["x", "y"]).add_edge(START, "x").compile()


def around(child: Any, **policy: Any) -> CompiledGraph[Counter, int]:
    g = GraphBuilder(Counter, int, reducer=apply, name="around")
    g.add_node("before", lambda s: 9).add_node("child", child, **policy)
    return g.add_edge(START, "before").add_edge("before", "child").compile()


def test_updates_of_a_nested_graph_of_the_same_type_fold_in_the_parent_in_commit_order(face: Face) -> None:
    steps = face.steps(Runtime(around(counting()), store="memory:"), {}, thread="t")

    assert steps[-1].after.n == 91234
    assert steps[-1].update == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("policy", "n"),
    [
        ({"update_of": lambda u: len(u["words"])}, 912),
        ({"output": lambda s: s.n + 5}, 95),
        ({"update_of": lambda u: None}, 9),
    ],
)
def test_updates_of_another_type_are_converted_by_a_function(face: Face, policy: Any, n: int) -> None:
    assert face.run(around(plain(), input=lambda s: {}, **policy), {}).state.n == n


def test_graph_with_a_state_reducer_can_be_nested_in_a_graph_without() -> None:
    g = GraphBuilder(Words, name="outer")
    g.add_node("child", counting(), input={"n": "n"}, update_of=lambda number: {"words": [str(number)], "n": number})

    assert g.add_edge(START, "child").compile().run({"n": 5}).state == Words(words=["1", "2", "3", "4"], n=4)


def test_nested_updates_that_cannot_be_folded_are_refused_by_compile() -> None:
    other = (
        GraphBuilder(Counter, str, reducer=lambda s, u: s).add_node("a", lambda s: "x").add_edge(START, "a").compile()
    )
    outer = GraphBuilder(Counter).add_node("child", counting()).add_edge(START, "child")
    for compiled in (
        lambda: around(plain()),
        lambda: around(other),
        lambda: around(counting(), output={"n": "n"}),
        outer.compile,
    ):
        with pytest.raises(DefinitionError, match="update_of=") as caught:
            compiled()
        assert [problem.code for problem in caught.value.problems] == ["bad-update-type"]


def test_result_of_update_of_is_validated() -> None:
    with pytest.raises(UpdateError, match="Node 'child' returned an update of a wrong type"):
        around(plain(), input=lambda s: {}, update_of=lambda u: "x").run({})
    with pytest.raises(InputError, match="update_of= of nested graph 'child' raised ZeroDivisionError"):
        around(plain(), input=lambda s: {}, update_of=lambda u: 1 // 0).run({})


# ---- Readers of the graph and of the journal


def test_topology_fingerprint_and_manifest_name_the_reducer() -> None:
    def other(state: Counter, update: int) -> Counter:
        return state

    graph = counting()

    def one(state: Counter) -> int:
        return 1

    registry = Registry(functions={"one": one}, reducers={"apply": apply}, types={"Counter": Counter, "int": int})
    g = GraphBuilder(Counter, int, reducer=apply).add_node("a", one).add_edge(START, "a").compile()
    spec = g.to_spec(registry)

    assert graph.topology()["update"] == {"type": "int", "reducer": "apply"}
    assert graph.fingerprint != counting(reducer=other).fingerprint
    assert spec.reducer == "apply"
    again = GraphBuilder.from_spec(spec, registry).compile()
    assert again.fingerprint == g.fingerprint
    assert again.run({}).state.n == 1


def test_other_reducer_cannot_continue_entries_that_it_did_not_fold() -> None:
    def other(state: Counter, update: int) -> Counter:
        return state

    store = Runtime(counting(), store="memory:")
    store.run({}, thread="t")

    with pytest.raises(InputError, match="the reducer") as caught:
        Runtime(counting(reducer=other), store=store.store).run(1, thread="t")
    assert caught.value.code == "graph-changed"


def test_second_execution_repeats_inputs_and_edits() -> None:
    with Runtime(counting(), store="memory:", chain=True) as runtime:
        runtime.run({}, thread="t")
        runtime.update("t", 6)
        runtime.run(7, thread="t")

        assert runtime.reexecute("t").same


def test_texts_in_updates_are_redacted_and_encrypted_before_they_are_stored(tmp_path: Path) -> None:
    class Note(BaseModel):
        name: str

    def note(state: Counter, update: Note) -> Counter:
        return Counter(n=state.n, log=[*state.log, update.name])

    g = GraphBuilder(Counter, Note, reducer=note).add_node("a", lambda s: Note(name="anna@example.org"))
    graph = g.add_edge(START, "a").compile()
    audit = AuditLog(tmp_path / "audit", redact=Redaction(patterns=["email"]))
    with (
        EncryptedStore(MemoryStore(), {"k": bytes(range(32))}) as store,
        Runtime(graph, store=store, audit=audit) as runtime,
    ):
        assert runtime.run({}, thread="t").state.log == ["<email>"]
        assert runtime.replay("t").values.log == ["<email>"]


def test_erased_update_erases_the_state_that_was_computed_from_it() -> None:
    runtime = Runtime(board(), store="memory:")
    runtime.run({"notes": [], "level": 0}, thread="t")
    runtime.erase("one", threads=["t"])

    assert runtime.state("t").values == {"notes": ERASED, "level": ERASED, "memo": ERASED}
    with pytest.raises(InputError, match="erased"):
        runtime.run(Move.UP, thread="t")


def test_unfinished_run_continues_only_with_the_update_that_started_it() -> None:
    broken = [False]

    def last(state: Counter) -> int:
        if broken:
            raise ValueError("no")
        return 4

    runtime: Any = Runtime(counting(last=last), store="memory:")
    broken.clear()
    runtime.run({}, thread="t")
    broken.append(True)
    with pytest.raises(NodeError):
        runtime.run(7, thread="t")
    broken.clear()
    for other in (8, {}):
        with pytest.raises(InputError) as caught:
            runtime.run(other, thread="t", if_exists="continue")
        assert caught.value.code == "other-input"

    assert runtime.run(7, thread="t", if_exists="continue").state.n == 123471234
