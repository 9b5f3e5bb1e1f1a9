"""`Runtime.why`: the writes that led to a value, compared with values that carry their own ancestry."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import TypedDict

from graphrt import DELETE, END, START, Context, GraphBuilder, Overwrite, Runtime
from graphrt.errors import InputError
from graphrt.graph import declare_fields
from graphrt.harness import MockHarness
from graphrt.reducers import append


class State(TypedDict, total=False):
    a: Any
    b: Any
    c: Any
    many: Annotated[list[Any], append]


def told(found: Any) -> list[tuple[str, str | None, str]]:
    return [(one.kind, one.node, one.field) for one in found.writes]


def chain(**nodes: Any) -> Any:
    g: Any = GraphBuilder(State, name="g")
    for name, fn in nodes.items():
        g.add_node(name, fn)
    g.add_edge(START, next(iter(nodes)))
    if len(nodes) > 1:
        g.add_sequence(list(nodes))
    return g.compile()


def reading(*names: str) -> Any:
    return lambda fn: declare_fields(fn, reads=names)


def test_value_is_traced_through_the_nodes_back_to_the_input() -> None:
    graph = chain(
        first=reading("a")(lambda s: {"b": s["a"] + 1}),
        beside=reading("a")(lambda s: {"many": [s["a"]]}),
        last=reading("b")(lambda s: {"c": s["b"] * 2}),
    )
    with Runtime(graph, store="memory:") as runtime:
        runtime.run({"a": 1}, thread="t")
        found = runtime.why("t", "c")

        assert told(found) == [("task", "last", "c")]
        assert [(one.kind, one.node, one.field, one.value) for one in found.all()] == [
            ("task", "last", "c", 4),
            ("task", "first", "b", 2),
            ("input", None, "a", 1),
        ]
        assert "= entry 6, task 3.0:last: c = 4" in str(found)
        assert found.to_dict()["all"][0]["inputs"] == [2]
        assert runtime.why("t", "c", at=3).writes == ()
        assert "its default" in str(runtime.why("t", "c", at=3))


def test_thread_of_another_graph_is_refused() -> None:
    other = GraphBuilder(State, name="other").add_node("n", lambda state: None).set_entry("n").compile()
    with Runtime(chain(n=lambda state: {"a": 1}), store="memory:") as runtime:
        runtime.run({}, thread="t")
        with pytest.raises(InputError, match="belongs to graph 'g', this one is 'other'"):
            Runtime(other, store=runtime.store).why("t", "a")


def test_node_without_declared_reads_has_read_every_field() -> None:
    graph = chain(first=lambda _: {"b": 1}, last=lambda _: {"c": 2})
    with Runtime(graph, store="memory:") as runtime:
        runtime.run({"a": 1}, thread="t")

        assert [one.field for one in runtime.why("t", "c").writes[0].inputs] == ["a", "many", "b"]


def test_reduced_field_has_all_its_writes_since_its_last_replacement() -> None:
    graph = chain(
        one=lambda _: {"many": [1]},
        two=lambda _: {"many": Overwrite([2])},
        three=lambda _: {"many": [3]},
        four=lambda _: {"many": DELETE},
        five=lambda _: {"many": [5]},
    )
    with Runtime(graph, store="memory:") as runtime:
        runtime.run({"many": [0]}, thread="t")
        nodes = lambda at=None: [one.node for one in runtime.why("t", "many", at=at).writes]

        assert nodes() == ["four", "five"]
        assert nodes(at=7) == ["two", "three"]
        assert nodes(at=3) == [None, "one"]


def test_calls_answers_and_effects_of_a_task_are_listed_with_its_write() -> None:
    async def think(_: State, ctx: Context) -> Any:
        reply = await ctx.harness.run("think")
        return {"b": reply.text}

    def ask(_: State, ctx: Context) -> Any:
        ctx.effect("look", lambda: 7)
        return {"c": ctx.interrupt("sure?")}

    with Runtime(chain(think=think, ask=ask), store="memory:", harness=MockHarness(["deep"])) as runtime:
        runtime.run({"a": 1}, thread="t")
        runtime.resume("t", "yes")
        kinds = lambda name: [type(one.event).__name__ for one in runtime.why("t", name).writes[0].calls]

        assert "ModelReplied" in kinds("b")
        assert sorted(kinds("c")) == ["EffectRecorded", "InterruptAnswered"]
        assert "effect 'look" in str(runtime.why("t", "c"))


def test_edit_fork_and_second_input_are_distinguished() -> None:
    with Runtime(chain(only=lambda _: {"b": 1}), store="memory:") as runtime:
        runtime.run({"a": 1}, thread="t")
        runtime.update("t", {"a": 2})
        assert told(runtime.why("t", "a")) == [("edit", None, "a")]
        runtime.fork("t", at=3, to="f")
        assert told(runtime.why("f", "b")) == [("fork", None, "b")]
        runtime.run({"a": 3}, thread="t")
        assert told(runtime.why("t", "a")) == [("input", None, "a")]


def test_write_of_a_nested_graph_is_attributed_to_its_node() -> None:
    inner = chain(x=lambda _: {"many": ["x"]}, y=lambda _: {"many": ["y"]})
    with Runtime(chain(outer=inner), store="memory:") as runtime:
        runtime.run({"a": 1}, thread="t")

        found = [(one.node, one.value) for one in runtime.why("t", "many").writes]
        assert found == [(None, []), ("outer", ["x"]), ("outer", ["y"])]


def test_pruned_entries_are_reported(tmp_path: Path) -> None:
    with Runtime(chain(only=lambda _: {"b": 1}), store=f"sqlite:///{tmp_path}/runs.db") as runtime:
        runtime.run({"a": 1}, thread="t")
        runtime.prune("t")
        runtime.run({"c": 3}, thread="t")

        [write] = runtime.why("t", "a").writes
        assert write.kind == "pruned"
        assert str(write).endswith("pruned: a")  # and not "a = None": the value is not known
        assert [one.kind for one in runtime.why("t", "c").writes] == ["input"]


def test_user_from_the_audit_log_is_named(tmp_path: Path) -> None:
    from graphrt.audit import AuditLog

    with Runtime(chain(only=lambda _: {"b": 1}), audit=AuditLog(user="anna")) as runtime:
        runtime.run({"a": 1}, thread="t")

        assert "by anna" in str(runtime.why("t", "b"))


@pytest.mark.parametrize(("name", "at"), [("nothing", None), ("a", 99), ("a", 0)])
def test_unknown_field_or_entry_is_refused(name: str, at: int | None) -> None:
    with Runtime(chain(only=lambda _: {"b": 1}), store="memory:") as runtime:
        runtime.run({"a": 1}, thread="t")
        with pytest.raises(InputError) as caught:
            runtime.why("t", name, at=at)
        assert caught.value.code in ("input", "unknown-entry")


FIELDS = ["a", "b", "c", "many"]


@st.composite
def plans(draw: st.DrawFn) -> list[list[tuple[tuple[str, ...], str, bool]]]:
    """Supersteps of 1 to 3 nodes; each reads some fields, and writes one that no other node of its step writes."""
    steps = []
    for _ in range(draw(st.integers(1, 5))):
        targets = draw(st.lists(st.sampled_from(FIELDS), min_size=1, max_size=3, unique=True))
        steps.append(
            [
                (
                    tuple(draw(st.sets(st.sampled_from(FIELDS), min_size=1))),
                    target,
                    draw(st.booleans()) if target == "many" else False,
                )
                for target in targets
            ]
        )
    return steps


@pytest.mark.slow
@settings(deadline=None)
@given(plan=plans())
def test_answer_equals_the_ancestry_that_the_values_carry(plan: list[list[tuple[tuple[str, ...], str, bool]]]) -> None:
    """Each value is the set of names of everything that it was made from, computed by the nodes themselves."""

    def ancestry(state: Any, name: str) -> set[str]:
        value = state.get(name)
        return set() if value is None else set().union(*value) if name == "many" else set(value)

    def node(name: str, reads: tuple[str, ...], target: str, whole: bool) -> Any:
        def fn(state: State) -> Any:
            made = sorted({name}.union(*(ancestry(state, one) for one in reads)))
            value: Any = [made] if target == "many" else made
            return {target: Overwrite(value) if whole else value}

        return declare_fields(fn, reads=reads)

    g: Any = GraphBuilder(State, name="g")
    before: Any = START
    for level, step in enumerate(plan):
        names = [f"n{level}_{at}" for at in range(len(step))]
        for name, (reads, target, whole) in zip(names, step, strict=True):
            g.add_node(name, node(name, reads, target, whole))
            g.add_edge(before, name)
        g.add_node(f"m{level}", declare_fields(lambda _: None, reads=("a",)))
        g.add_edge(names, f"m{level}") if len(names) > 1 else g.add_edge(names[0], f"m{level}")
        before = f"m{level}"
    g.add_edge(before, END)
    with Runtime(g.compile(), store="memory:") as runtime:
        result = runtime.run({"a": ["in"], "many": [["in2"]]}, thread="t")
        for name in FIELDS:
            found = runtime.why("t", name)
            named = {one.node or {"a": "in", "many": "in2"}[one.field] for one in found.all()}
            assert named == ancestry(result.state, name)


def test_all_updates_of_a_task_are_listed_newest_first() -> None:
    graph = chain(several=lambda s: [{"many": [1]}, {"many": [2]}, {"a": 3}])
    with Runtime(graph, store="memory:") as runtime:
        runtime.run({"many": [0]}, thread="t")
        found = runtime.why("t", "many")

    assert [one.value for one in found.writes] == [[0], [1], [2]]
    assert [one.value for one in found.all()] == [[2], [1], [0]]
