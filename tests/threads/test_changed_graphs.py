"""Threads of an older graph: identical, compatible, refused, or migrated (rule R14); `check_threads` reports it
beforehand.
"""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest
import typing_extensions as te

from graphrt import START, Command, Context, Send
from graphrt.errors import InputError, NodeError
from graphrt.migrations import Migration
from graphrt.reducers import add, append

from .support import State, ask, builder, line, note, refused


class New(te.TypedDict, total=False):
    notes: Annotated[list[Any], append]
    n: Annotated[int, add]
    x: Any
    y: Any
    extra: str


class Less(te.TypedDict, total=False):
    notes: Annotated[list[Any], append]
    n: Annotated[int, add]


class Retyped(te.TypedDict, total=False):
    notes: Annotated[list[Any], append]
    n: Annotated[int, add]
    x: int
    y: Any


class Reduced(te.TypedDict, total=False):
    notes: Annotated[list[Any], append]
    n: Annotated[int, operator.mul]
    x: Any
    y: Any


def old(state: Any = State):
    return line(("a", note("a")), ("q", ask("q")), ("b", note("b")), state=state)


def paused(world, graph=None):
    graph = graph or old()
    world.runtime(graph).run({"notes": [], "x": "1"}, thread="t")
    return graph


def verdict(world, graph, **options):
    (found,) = world.runtime(graph, **options).check_threads()
    return found


def test_check_does_not_see_a_reworded_question_before_the_thread_continues(world):
    """A verdict does not compare code; it names the node that waits, also in the first superstep of a run."""
    paused(world, line(("q", ask("one?"))))
    reworded = line(("q", ask("two?")))
    found = verdict(world, reworded)
    again = world.runtime(reworded).resume("t", "yes")

    assert (found.kind, found.ok, found.reasons, found.pending) == ("identical", True, (), ("q",))
    assert (again.status, [info.payload for info in again.interrupts]) == ("interrupted", [{"q": "two?"}])


def test_unchanged_graph_is_identical(world):
    paused(world)
    found = verdict(world, old())

    assert (found.kind, found.ok, found.thread, found.status, found.pending) == (
        "identical",
        True,
        "t",
        "interrupted",
        ("q",),
    )


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (line(("a", note("a")), ("q", ask("q")), ("b", note("b")), ("c", note("c"))), ["'c'", "new"]),
        (line(("q", ask("q")), ("b", note("b")), version=1), ["'a'", "gone"]),
        (old(New), ["'extra'", "new"]),
        (line(("a", note("a")), ("q", ask("q")), ("b", note("b")), b={"version": "2"}), []),
    ],
    ids=["node added", "finished node removed", "field added", "version of another node"],
)
def test_compatible_changes_continue_and_name_the_changes(world, changed, words):
    paused(world)
    found = verdict(world, changed)
    assert (found.kind, found.ok) == ("compatible", True)
    assert found.reasons
    assert all(word in " ".join(found.reasons) for word in words)
    runtime = world.runtime(changed)
    end = runtime.resume("t", "yes").state["notes"]

    assert end[:3] == ["a", "q=yes", "b"]
    migrated = [e.event for e in runtime.entries("t") if type(e.event).__name__ == "ThreadMigrated"]
    assert len(migrated) == 1
    assert migrated[0].why.startswith("compatible")
    assert len(runtime.history("t")) >= 4
    assert runtime.state("t", at=1).values["notes"] == []
    assert world.runtime(changed).check_threads() == ()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (line(("a", note("a")), ("ask", ask("q")), ("b", note("b"))), ["'q'", "pending"]),
        (line(("a", note("a")), ("q", line(("in", ask("q")), name="inner")), ("b", note("b"))), ["'q'", "changed"]),
        (old(Retyped), ["'x'"]),
        (old(Less), ["'x'", "gone"]),
        (old(Reduced), ["'n'", "reducer", "mul"]),
    ],
    ids=["pending node renamed", "pending node is another kind", "field retyped", "field removed", "reducer changed"],
)
def test_incompatible_changes_are_refused_without_a_change_of_the_thread(world, changed, words):
    graph = paused(world)
    found = verdict(world, changed)
    assert (found.kind, found.ok, found.pending) == ("incompatible", False, ("q",))
    before = list(world.runtime(graph).entries("t"))
    runtime = world.runtime(changed)

    for call in (
        lambda: runtime.resume("t", "yes"),
        lambda: runtime.state("t"),
        lambda: runtime.update("t", {"n": 1}),
        lambda: runtime.fork("t", to="f"),
        lambda: runtime.replay("t"),
    ):
        error = refused("graph-changed", call, "'t'", "Migration(", *words, error=InputError)
        assert error.nodes == ("q",)
    verification = runtime.verify(replay=True)
    assert (verification.ok, [(one.kind, one.code) for one in verification.findings]) == (True, [("skipped", "replay")])
    assert list(world.runtime(graph).entries("t")) == before
    assert [info.thread for info in runtime.threads()] == ["t"]
    assert world.runtime(graph).resume("t", "yes").state["notes"] == ["a", "q=yes", "b"]


@pytest.mark.parametrize(
    "changed",
    [line(("z", note("z")), ("q", ask("q")), ("b", note("b"))), line(("z", ask("z")), ("b", note("b")))],
    ids=["another node is first", "the pending node is replaced"],
)
def test_answer_to_the_first_node_does_not_reach_another_node(world, changed):
    graph = paused(world, line(("q", ask("q")), ("b", note("b"))))
    renamed = line(("ask", ask("q")), ("b", note("b")))
    moved = Migration(source=graph.fingerprint, nodes={"q": "ask"})

    refused("graph-changed", lambda: world.runtime(changed).resume("t", "yes"), "'q'", "pending", error=InputError)
    end = world.runtime(renamed, migrations=[moved]).resume("t", "yes")
    assert end.state["notes"] == ["q=yes", "b"]


def test_first_node_that_only_failed_may_be_replaced(world):
    def broken(state):
        raise ValueError

    with pytest.raises(NodeError):
        paused(world, line(("a", broken), ("b", note("b"))))
    mended = line(("z", note("z")), ("a", note("a")), ("b", note("b")))

    assert world.runtime(mended).retry("t").state["notes"] == ["z", "a", "b"]


def test_different_graph_is_refused_by_name(world):
    paused(world)
    other = line(("z", note("z")), name="other")

    error = refused("other-graph", lambda: world.runtime(other).state("t"), "'other'", "'g'", error=InputError)
    assert "Use the runtime of the graph" in str(error)
    (found,) = world.runtime(other).check_threads()
    assert found.kind == "incompatible"


def test_migration_renames_a_pending_node(world):
    graph = paused(world)
    changed = line(("a", note("a")), ("ask", ask("q")), ("b", note("b")))
    moved = Migration(source=graph.fingerprint, nodes={"q": "ask"}, name="rename q")
    found = verdict(world, changed, migrations=[moved])
    assert (found.kind, found.ok) == ("migrated", True)
    runtime = world.runtime(changed, migrations=[moved])

    assert runtime.state("t").next == ("ask",)
    assert runtime.resume("t", {i.id: "yes" for i in runtime.state("t").interrupts}).state["notes"] == [
        "a",
        "q=yes",
        "b",
    ]
    migrated = [e.event for e in runtime.entries("t") if type(e.event).__name__ == "ThreadMigrated"]
    assert [m.why for m in migrated] == ["rename q"]
    assert world.runtime(changed).state("t").status == "completed", "the migration is not needed any more"
    assert next(s.values["notes"] for s in world.runtime(changed).history("t")) == ["a", "q=yes", "b"]


def command_beside_a_question(target: str, *, send: bool):
    """A finished task whose Command leads to *target* is pending next to one that asks, so the superstep is not committed."""
    made = builder()
    made.add_node(
        "a",
        lambda state: Command(update={"notes": ["a"]}, goto=[Send(target, dict(state)) if send else target]),
        goto=[target],
    )
    made.add_node("q", ask("q"))
    made.add_node(target, lambda state, ctx: {"notes": [target]})
    return made.add_edge(START, "a").add_edge(START, "q").compile()


@pytest.mark.parametrize("send", [False, True], ids=["name", "send"])
def test_node_that_a_finished_task_routes_to_has_to_exist(world, send):
    paused(world, command_beside_a_question("b", send=send))
    changed = command_beside_a_question("c", send=send)

    found = verdict(world, changed)
    assert (found.kind, found.pending) == ("incompatible", ("a", "q"))
    refused(
        "graph-changed",
        lambda: world.runtime(changed).resume("t", "yes"),
        "a finished task of node 'a' leads to node 'b', which no longer exists in this graph",
        error=InputError,
    )


@pytest.mark.parametrize("send", [False, True], ids=["name", "send"])
def test_migration_renames_a_node_that_a_finished_task_routes_to(world, send):
    graph = paused(world, command_beside_a_question("b", send=send))
    changed = command_beside_a_question("c", send=send)
    moved = Migration(source=graph.fingerprint, nodes={"b": "c"}, name="rename b")
    runtime = world.runtime(changed, migrations=[moved])

    assert runtime.resume("t", "yes").state["notes"] == ["a", "q=yes", "c"]


def paying(name: str, calls: list[str], *, first: bool, nested: bool) -> Any:
    """Two nodes that begin with *name*, in one superstep: one has finished, the other has paid and asks."""

    def pay(state, ctx: Context):
        ctx.effect("pay", lambda: calls.append(f"pay {ctx.idempotency_key}"), kind="once")
        return {"notes": [f"paid, {ctx.interrupt('fine?')}"]}

    def count(state, ctx: Context):
        calls.append("count")
        return {"notes": ["counted"]}

    inside = line(("pay", pay), name="inside")
    made = builder()
    made.add_node("a", note("a"))
    made.add_node(f"{name}count", count)
    made.add_node(f"{name}pay", inside if nested else pay)
    if not first:
        made.add_edge(START, "a")
    for node in ("count", "pay"):
        made.add_edge(START if first else "a", f"{name}{node}")
    return made.compile(allow=["unreachable-node"])


@pytest.mark.parametrize("nested", [False, True], ids=["function", "graph"])
@pytest.mark.parametrize("first", [False, True], ids=["later", "first"])
def test_renamed_node_repeats_nothing_that_its_pending_task_has_done(world, first, nested):
    """Effects, questions, finished tasks and idempotency keys stay, over two renames, an edit and a fork."""
    calls: list[str] = []
    graphs = [paying(name, calls, first=first, nested=nested) for name in ("x_", "y_", "z_")]
    paused(world, graphs[0])
    begun = list(calls)
    migrations = [
        Migration(source=old.fingerprint, nodes={f"{a}_{node}": f"{b}_{node}" for node in ("count", "pay")})
        for old, (a, b) in zip(graphs, ("xy", "yz"), strict=False)
    ]
    world.runtime(graphs[1], migrations=migrations).update("t", {"n": 1})
    runtime = world.runtime(graphs[2], migrations=migrations)

    assert runtime.state("t").next == ("z_pay",)
    forked = runtime.fork("t", at=runtime.state("t").seq, to="f")
    for thread in ("t", forked):
        notes = runtime.resume(thread, "yes").state["notes"]
        assert notes[-2:] == ["counted", "paid, yes"]
    assert len(begun) == 2
    assert calls == begun
    assert runtime.verify(replay=True).ok


def test_renamed_node_has_the_idempotency_key_of_its_pending_task(world):
    """A service that charged before its answer was lost recognises the request after the release."""
    keys: list[str] = []

    def charge(state, ctx: Context):
        keys.append(ctx.idempotency_key)
        if len(keys) == 1:
            raise TimeoutError
        return {"notes": ["charged"]}

    graph = line(("a", note("a")), ("charge", charge))
    with pytest.raises(NodeError):
        paused(world, graph)
    changed = line(("a", note("a")), ("debit", charge))
    world.runtime(changed, migrations=[Migration(source=graph.fingerprint, nodes={"charge": "debit"})]).retry("t")

    assert keys == [keys[0]] * 2


def moved_on(world, *graphs: Any, **renamed: str) -> Any:
    """Pause a thread of the first graph, take it over to each later one, and return a runtime of the last."""
    first, *later = graphs
    paused(world, first)
    migrations: list[Migration] = []
    for before, now in zip(graphs, later, strict=False):
        nodes = {old: new for old, new in renamed.items() if old in before.nodes and new in now.nodes}
        migrations.append(Migration(source=before.fingerprint, nodes=nodes, name=f"rename {nodes}"))
        runtime = world.runtime(now, migrations=migrations)
        runtime.update("t", {"n": 1})
    return runtime


def test_a_pending_node_can_be_renamed_by_two_releases(world):
    graphs = [line(("a", note("a")), (name, ask("q")), ("b", note("b"))) for name in ("first", "second", "third")]
    runtime = moved_on(world, *graphs, first="second", second="third")

    assert verdict(world, graphs[2]).pending == ("third",)
    assert runtime.resume("t", "yes").state["notes"] == ["a", "q=yes", "b"]


def test_thread_whose_pending_node_was_renamed_continues_with_later_releases(world):
    first, second = (line(("a", note("a")), (name, ask("q")), ("b", note("b"))) for name in ("first", "second"))
    moved_on(world, first, second, first="second")
    third = line(("a", note("a")), ("second", ask("q")), ("b", note("b")), ("c", note("c")))

    found = verdict(world, third)
    assert (found.kind, found.pending) == ("compatible", ("second",))
    assert world.runtime(third).resume("t", "yes").state["notes"] == ["a", "q=yes", "b", "c"]


@pytest.mark.parametrize("send", [False, True], ids=["name", "send"])
def test_node_that_a_finished_task_routes_to_can_be_renamed_by_two_releases(world, send):
    graphs = [command_beside_a_question(name, send=send) for name in ("first", "second", "third")]
    runtime = moved_on(world, *graphs, first="second", second="third")

    assert runtime.resume("t", "yes").state["notes"] == ["a", "q=yes", "third"]


@pytest.mark.parametrize("earlier", [False, True], ids=["by this release", "by an earlier release"])
def test_due_node_whose_older_name_belongs_to_another_node_is_refused(world, earlier):
    """A stored name means the node that has it now: the thread would run another node."""
    graph = paused(world, line(("a", note("a")), ("q", ask("q")), ("b", note("b"))))
    migrations = [Migration(source=graph.fingerprint, nodes={"q": "ask"})]
    if earlier:
        graph = line(("a", note("a")), ("ask", ask("q")), ("b", note("b")))
        world.runtime(graph, migrations=migrations).update("t", {"n": 1})
    reused = line(("a", note("a")), ("ask", ask("q")), ("q", note("pay")), ("b", note("b")))

    runtime = world.runtime(reused, migrations=migrations)
    refused(
        "graph-changed",
        lambda: runtime.resume("t", "yes"),
        "node 'q' is 'ask' now, but this graph has another node 'q'",
        error=InputError,
    )
    assert world.runtime(graph).resume("t", "yes").state["notes"] == ["a", "q=yes", "b"]


@pytest.mark.parametrize("send", [False, True], ids=["name", "send"])
def test_target_of_a_finished_task_whose_older_name_belongs_to_another_node_is_refused(world, send):
    graph = paused(world, command_beside_a_question("b", send=send))
    changed = builder()
    changed.add_node("a", note("a"), goto=["c"])
    for node in ("q", "c", "b"):
        changed.add_node(node, ask(node))
    changed.add_edge(START, "a").add_edge(START, "q").add_edge("c", "b")
    moved = Migration(source=graph.fingerprint, nodes={"b": "c"})

    refused(
        "graph-changed",
        lambda: world.runtime(changed.compile(allow=["unreachable-node"]), migrations=[moved]).resume("t", "yes"),
        "node 'b' is 'c' now",
        error=InputError,
    )


def test_arrival_at_a_join_does_not_become_that_of_another_node(world):
    def joined(first: str, *more: str):
        made = builder()
        for node, fn in (("a", note("a")), (first, note("x")), ("mid", note("mid")), ("q", ask("q"))):
            made.add_node(node, fn)
        made.add_node("last", note("last"))
        made.add_edge(START, "a").add_edge("a", first).add_edge("a", "mid").add_edge("mid", "q")
        made.add_join([first, "q"], "last")
        for node in more:
            made.add_node(node, note("other")).add_edge("last", node)
        return made.compile()

    graph = paused(world, joined("x"))
    moved = Migration(source=graph.fingerprint, nodes={"x": "z"})
    refused(
        "graph-changed",
        lambda: world.runtime(joined("z", "x"), migrations=[moved]).resume("t", "yes"),
        "node 'x' is 'z' now, but this graph has another node 'x'",
        error=InputError,
    )
    assert world.runtime(joined("z"), migrations=[moved]).resume("t", "yes").state["notes"][-1] == "last"


def test_migration_to_a_name_that_the_graph_lacks_is_named(world):
    graph = paused(world)
    changed = line(("a", note("a")), ("ask", ask("q")), ("b", note("b")))
    moved = Migration(source=graph.fingerprint, nodes={"q": "aks"})

    refused(
        "graph-changed",
        lambda: world.runtime(changed, migrations=[moved]).resume("t", "yes"),
        "node 'q' is pending, but this graph has no 'aks', its name by the migration",
        error=InputError,
    )


def test_migration_computes_new_values(world):
    graph = paused(world)
    changed = old(Retyped)
    moved = Migration(source=graph.fingerprint[:12], values=lambda values: {**values, "x": int(values["x"]) + 1})
    runtime = world.runtime(changed, migrations=[moved])

    assert runtime.state("t").values["x"] == 2
    assert runtime.resume("t", "yes").state["x"] == 2
    later = world.runtime(changed)
    assert later.state("t").values["x"] == 2
    assert later.run({"notes": ["second"], "x": 5}, thread="t").status == "interrupted"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (lambda values: 1 / 0, ["ZeroDivisionError"]),
        (lambda values: None, ["None", "mapping"]),
        (lambda values: {**values, "x": "one"}, ["x"]),
        (lambda values: {**values, "nope": 1}, ["nope"]),
    ],
    ids=["raises", "returns nothing", "wrong type", "unknown field"],
)
def test_migration_that_fails_changes_nothing(world, values, words):
    graph = paused(world)
    runtime = world.runtime(old(Retyped), migrations=[Migration(source=graph.fingerprint, values=values)])
    before = list(world.runtime(graph).entries("t"))

    refused("migration-failed", lambda: runtime.resume("t", "yes"), *words, "'t'", "as it was", error=InputError)
    assert list(world.runtime(graph).entries("t")) == before
    assert world.runtime(graph).resume("t", "yes").status == "completed"


def test_source_of_a_migration_is_a_text():
    """Otherwise each thread that it is compared with would be reported as damaged."""
    with pytest.raises(InputError, match="source= of a Migration"):
        Migration(source=3)


@pytest.mark.parametrize("source", ["", "abc", "zzzzzzzzzzzz"])
def test_migration_for_another_graph_does_not_apply(world, source):
    paused(world)
    changed = line(("a", note("a")), ("ask", ask("q")), ("b", note("b")))

    refused(
        "graph-changed",
        lambda: world.runtime(changed, migrations=[Migration(source=source, nodes={"q": "ask"})]).resume("t", "yes"),
    )


def test_completed_threads_of_an_older_graph_take_new_runs(world):
    graph = line(("a", note("a")))
    world.runtime(graph).run({"notes": []}, thread="t")
    changed = line(("a", note("a")), ("b", note("b")), state=New)
    runtime = world.runtime(changed)

    assert runtime.check_threads() == ()
    assert runtime.run({"notes": ["again"]}, thread="t").state["notes"] == ["a", "again", "a", "b"]
    assert runtime.replay("t").status == "completed"


def test_changed_nested_graph_under_a_pending_node_gets_a_verdict(world):
    def graph(*inner):
        return line(("a", note("a")), ("child", line(*inner, name="inner")))

    before = graph(("in1", note("in1")), ("in2", ask("in2")))
    world.runtime(before).run({"notes": []}, thread="t")
    renamed = graph(("in1", note("in1")), ("other", ask("in2")))

    found = verdict(world, renamed)
    assert found.kind == "incompatible"
    assert found.reasons[0] == "node 'child' is pending, and its nested graph was changed"
    assert world.runtime(before).resume("t", "yes").state["notes"] == ["a", "in1", "in2=yes"]


def test_edits_forks_and_prunes_take_a_thread_over_to_a_compatible_graph(world):
    """The first write journals the change, and both kinds of values fit afterwards."""
    changed = old(New)
    for verb in ("update", "fork", "prune", "copy"):
        graph = old()
        world.runtime(graph).run({"notes": []}, thread=verb)
        runtime = world.runtime(changed)
        thread = verb
        match verb:
            case "update":
                runtime.update(thread, {"extra": "e"})
            case "fork":
                thread = runtime.fork(thread)
            case "prune":
                assert runtime.prune(thread) > 0
            case _:
                thread = runtime.copy_thread(thread)
        assert runtime.state(thread).next == ("q",)
        assert runtime.resume(thread, "yes").state["notes"] == ["a", "q=yes", "b"]
        assert runtime.replay(thread).status == "completed"
        assert world.runtime(changed).state(thread).values["notes"] == ["a", "q=yes", "b"]


def test_fork_at_an_entry_whose_due_node_is_gone_is_refused_without_a_new_thread(world):
    world.runtime(line(("a", note("a")), ("b", note("b")))).run({"notes": []}, thread="t")
    runtime = world.runtime(line(("a", note("a"))))
    (at,) = (shot.seq for shot in runtime.history("t") if shot.next == ("b",))

    error = refused("graph-changed", lambda: runtime.fork("t", at=at, to="f"), "'b'", "'a'", error=InputError)
    assert (error.nodes, error.seq) == (("b",), at)
    assert [info.thread for info in runtime.threads()] == ["t"]


def test_check_threads_covers_all_live_threads(world):
    graph = old()
    for thread in ("t1", "t2", "t3"):
        world.runtime(graph).run({"notes": []}, thread=thread)
    world.runtime(graph).resume("t2", "yes")
    changed = line(("a", note("a")), ("ask", ask("q")), ("b", note("b")))
    found = world.runtime(changed).check_threads()

    assert [(v.thread, v.ok) for v in found] == [("t1", False), ("t3", False)]
    assert {v.source for v in found} == {graph.fingerprint}
    assert {v.target for v in found} == {changed.fingerprint}
