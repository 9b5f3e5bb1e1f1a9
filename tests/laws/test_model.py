"""The reference model against examples computed by hand from the rules of execution."""

from __future__ import annotations

from typing import Literal

import pytest

from .description import (
    END,
    MISSING,
    Answer,
    Caps,
    Conditional,
    Field,
    Graph,
    Missing,
    Node,
    Reducer,
    Router,
    SendTo,
    State,
    Target,
    Turn,
    Value,
    Write,
)
from .model import Result, interpret
from .model_fold import reduce

LOG = Field("log", "append")
LAST = Field("last")
N = Field("n", "add")


def writes(*each: Write) -> Node:
    return Node("a", (Turn(each),))


def goes(name: str, *gotos: tuple[Target, ...] | None) -> Node:
    """A node whose visits take these gotos in turn, or its edges for None."""
    return Node(name, tuple(Turn(goto=goto) for goto in gotos))


def trace(result: Result) -> list[str]:
    """Each superstep as one word: the names of its tasks in order, a Send with its arg."""
    return [" ".join(t.node + (f":{t.arg}" if t.sent else "") for t in each.tasks) for each in result.supersteps]


def failure(result: Result) -> tuple[str, set[str], str | None]:
    assert result.status == "failed"
    first = result.failures[0]
    return first.kind, set(first.nodes), first.field


def plain(*names: str) -> tuple[Node, ...]:
    return tuple(Node(name) for name in names)


def test_tasks_of_a_superstep_see_the_last_commit_and_no_writes_of_each_other() -> None:
    a = Node("a", (Turn((Write("n", 1, "n"),)),))
    b = Node("b", (Turn((Write("m", 1, "n"),)),))
    graph = Graph((N, Field("m")), (a, b), ((None, "a"), (None, "b")), given=(("n", 2),))

    result = interpret(graph)

    assert result.state == {"n": 5, "m": 3}  # n: 2 + (1 + 2), m: 1 + 2


def test_updates_fold_in_task_order_plain_by_node_then_sends_by_emission() -> None:
    sender = Node("s", (Turn((Write("log", 1),), goto=(SendTo("a", 4), SendTo("a", 2), "b", "a")),))
    a = Node("a", (Turn((Write("log", 3),), goto=()),))
    b = Node("b", (Turn((Write("log", 1),)),))
    graph = Graph((LOG,), (sender, b, a), ((None, "s"),))

    result = interpret(graph)

    assert trace(result) == ["s", "b a a:4 a:2"]
    assert result.state == {"log": [1, 1, 3, 7, 5]}


def test_every_static_edge_is_followed_and_plain_activations_of_a_node_merge() -> None:
    graph = Graph((), plain("a", "b", "c", "d"), ((None, "a"), ("a", "c"), ("a", "b"), ("b", "d"), ("c", "d")))

    assert trace(interpret(graph)) == ["a", "b c", "d"]


def test_node_without_successors_ends_its_branch_and_so_does_end() -> None:
    graph = Graph((), plain("a", "b", "c"), ((None, "a"), (None, "b"), ("b", END)))

    result = interpret(graph)

    assert (result.status, trace(result)) == ("completed", ["a b"])


@pytest.mark.parametrize(
    ("answer", "then"),
    [
        ("x", ["a", "b"]),
        (("x", "y"), ["a", "b c"]),
        (("y", "stop"), ["a", "c"]),
        ((), ["a"]),
        ("stop", ["a"]),
        ((SendTo("c", 5), SendTo("b"), SendTo("c", 5)), ["a", "c:5 b:None c:5"]),
        ("other", ["a", "c"]),
    ],
)
def test_router_answers_with_a_label_labels_or_sends(answer: Answer, then: list[str]) -> None:
    routes = (("x", "b"), ("y", "c"), ("stop", END))
    edge = Conditional("a", Router((answer,)), routes, default="c")

    assert trace(interpret(Graph((), plain("a", "b", "c"), ((None, "a"),), (edge,)))) == then


@pytest.mark.parametrize("answer", [None, "other", ("x", "other"), (SendTo(END),), (SendTo("deaf", 1),)])
def test_router_without_a_possible_target_is_a_route_error_and_commits_nothing(answer: Answer) -> None:
    edge = Conditional("a", Router((answer,)), (("x", "deaf"),))
    nodes = (writes(Write("n", 1)), Node("deaf", context=False))
    graph = Graph((N,), nodes, ((None, "a"),), (edge,), given=(("n", 4),))

    result = interpret(graph)

    assert failure(result) == ("RouteError", {"a"}, None)
    assert (result.state, result.supersteps) == ({"n": 4}, ())
    assert [task.node for task in result.attempted] == ["a"]


def test_routers_see_the_folded_state_and_several_are_evaluated_in_order() -> None:
    by_n = Router(("low", "high"), reads="n")
    sends = Router(((SendTo("c", 1),),))
    edges = (
        Conditional("a", sends, (("z", "b"),)),
        Conditional("a", by_n, (("low", "b"), ("high", "c"))),
        Conditional("a", Router(((SendTo("c", 2),),)), (("z", "b"),)),
    )
    graph = Graph((N,), (writes(Write("n", 1)), *plain("b", "c")), ((None, "a"),), edges, given=(("n", 0),))

    assert trace(interpret(graph)) == ["a", "c c:1 c:2"]


def test_a_conditional_entry_is_evaluated_on_the_input() -> None:
    entry = Conditional(None, Router(("x", (SendTo("b", 3),)), reads="n"), (("x", "a"),))

    def entered(n: int) -> list[str]:
        return trace(interpret(Graph((N,), plain("a", "b"), conditionals=(entry,), given=(("n", n),))))

    assert (entered(0), entered(1)) == (["a"], ["b:3"])


def test_a_goto_replaces_the_edges_of_its_node() -> None:
    graph = Graph((), (goes("a", ("c",)), *plain("b", "c")), ((None, "a"), ("a", "b")))

    assert trace(interpret(graph)) == ["a", "c"]


def test_an_empty_goto_ends_the_branch() -> None:
    assert trace(interpret(Graph((), (goes("a", ()), Node("b")), ((None, "a"), ("a", "b"))))) == ["a"]


def test_edges_of_a_node_with_several_tasks_are_followed_once_by_those_without_goto() -> None:
    """One superstep: a plain a and two Sends to a; the router of a emits once, at the first of them."""
    s = goes("s", ("a", SendTo("a", 1), SendTo("a", 2), SendTo("b", 1)))
    edges = (Conditional("a", Router(((SendTo("c", 1),),)), (("z", "c"),)),)
    graph = Graph((), (s, *plain("a", "b", "c")), ((None, "s"), ("b", "c")), edges)

    assert trace(interpret(graph)) == ["s", "a a:1 a:2 b:1", "c c:1"]


def test_sends_of_gotos_and_routers_are_emitted_in_task_order() -> None:
    a = goes("a", (SendTo("z", 1),))
    c = goes("c", (SendTo("z", 3),))
    edges = (Conditional("b", Router(((SendTo("z", 2),),)), (("z", "z"),)),)
    graph = Graph((), (a, Node("b"), c, Node("z")), ((None, "c"), (None, "b"), (None, "a")), edges)

    assert trace(interpret(graph)) == ["a b c", "z:1 z:2 z:3"]


@pytest.mark.parametrize("target", ["c", END, SendTo("c", 1)])
def test_a_goto_outside_the_declared_targets_is_a_route_error(target: Target) -> None:
    a = Node("a", (Turn(goto=("b", target)),), declared=("b",))

    assert failure(interpret(Graph((), (a, *plain("b", "c")), ((None, "a"),)))) == ("RouteError", {"a"}, None)


@pytest.mark.parametrize("op", ["set", "overwrite", "delete"])
@pytest.mark.parametrize("beside", ["set", "overwrite", "delete"])
def test_two_writes_conflict_unless_both_go_through_an_aggregating_reducer(
    op: Literal["set", "overwrite", "delete"], beside: Literal["set", "overwrite", "delete"]
) -> None:
    for name, aggregates in (("log", True), ("lead", True), ("last", False)):
        fields = (LOG, LAST, Field("lead", "first"))
        a = Node("a", (Turn((Write(name, 1, op=op),)),))
        b = Node("b", (Turn((Write(name, 1, op=beside),)),))
        result = interpret(Graph(fields, (a, b), ((None, "a"), (None, "b")), given=(("last", 4),)))

        if aggregates and op == beside == "set":
            assert result.status == "completed"
        else:
            assert failure(result) == ("ConcurrentUpdateError", {"a", "b"}, name)
            assert (result.state, result.supersteps) == ({"last": 4, "log": []}, ())


def test_two_sends_of_one_node_conflict_and_supersteps_apart_do_not() -> None:
    a = Node("a", (Turn((Write("last", 1),)),))
    twice = Graph((LAST,), (goes("s", (SendTo("a"), SendTo("a"))), a), ((None, "s"),))
    apart = Graph((LAST,), (Node("s", (Turn((Write("last", 3),), ("a",)),)), a), ((None, "s"),))

    assert failure(interpret(twice)) == ("ConcurrentUpdateError", {"a"}, "last")
    assert interpret(apart).state == {"last": 1}


@pytest.mark.parametrize(
    ("reducer", "current", "incoming", "new"),
    [
        ("overwrite", 4, 1, 1),
        ("append", [1], [1], [1, 1]),
        ("append", None, [1], [1]),
        ("add", 4, 1, 5),
        ("add", None, 1, 1),
        ("union", [3, 1], [2, 1, 2], [3, 1, 2]),
        ("union", None, [2, 2], [2]),
        ("union", [1, 1], [2], [1, 2]),
        ("first", 4, 1, 4),
        ("first", 0, 1, 0),
        ("first", None, 1, 1),
        ("min", 4, 1, 1),
        ("min", None, 1, 1),
        ("max", 4, 1, 4),
        ("max", None, 1, 1),
        ("mix", 2, 3, 17),
    ],
)
def test_reducers_compute_the_expected_values(reducer: Reducer, current: Value, incoming: Value, new: Value) -> None:
    assert reduce(Field("f", reducer), current, incoming) == new


@pytest.mark.parametrize(
    ("style", "default", "after"),
    [("typeddict", None, {}), ("pydantic", 6, {"n": 6}), ("dataclass", None, {"n": None})],
)
def test_delete_restores_the_default_or_removes_the_value(
    style: Literal["typeddict", "pydantic", "dataclass"], default: int | None, after: State
) -> None:
    each = N if style == "typeddict" else Field("n", "add", default)
    graph = Graph((each,), (writes(Write("n", op="delete")),), ((None, "a"),), given=(("n", 4),), style=style)

    assert interpret(graph).state == after


def test_delete_without_a_default_is_an_update_error_and_overwrite_bypasses_the_reducer() -> None:
    deletes = Graph((N,), (writes(Write("n", op="delete")),), ((None, "a"),), given=(("n", 4),), style="pydantic")
    overwrites = Graph((N,), (writes(Write("n", 1, op="overwrite")),), ((None, "a"),), given=(("n", 4),))

    assert failure(interpret(deletes)) == ("UpdateError", {"a"}, "n")
    assert interpret(overwrites).state == {"n": 1}


def test_an_ephemeral_field_lives_until_the_next_fold() -> None:
    """Written at k: seen by the routers of k and the tasks of k+1; reset before the fold of k+1."""
    flash = Field("flash", "add", ephemeral=True)
    a = Node("a", (Turn((Write("flash", 1),)),))
    b = Node("b", (Turn((Write("log", 0, "flash"), Write("flash", 3))),))
    c = Node("c", (Turn((Write("log", 0, "flash"),)),))
    edges = (Conditional("a", Router(("no", "yes"), reads="flash"), (("no", "c"), ("yes", "b"))),)
    graph = Graph((flash, LOG), (a, b, c), ((None, "a"), ("b", "c")), edges, given=(("flash", 4),))

    result = interpret(graph)

    assert [each.state for each in result.supersteps] == [
        {"flash": 1, "log": []},
        {"flash": 3, "log": [1]},
        {"flash": 0, "log": [1, 3]},
    ]


@pytest.mark.parametrize(
    ("reducer", "style", "default", "after"),
    [
        ("append", "typeddict", MISSING, {"f": []}),
        ("union", "typeddict", MISSING, {"f": []}),
        ("add", "typeddict", MISSING, {"f": 0}),
        ("overwrite", "typeddict", MISSING, {}),
        ("max", "typeddict", MISSING, {}),
        ("append", "pydantic", (2, 1), {"f": [2, 1]}),
        ("add", "dataclass", None, {"f": None}),
    ],
)
def test_ephemeral_field_is_reset_to_its_default_or_identity_or_removed(
    reducer: Literal["append", "union", "add", "overwrite", "max"],
    style: Literal["typeddict", "pydantic", "dataclass"],
    default: tuple[int, ...] | Missing | None,
    after: State,
) -> None:
    each = Field("f", reducer, default, ephemeral=True)
    given = (("f", (4, 1) if each.is_list else 4),)
    graph = Graph((each,), plain("a"), ((None, "a"),), given=given, style=style)

    assert interpret(graph).state == after


def test_a_failing_task_with_on_error_updates_nothing_and_activates_its_target_instead_of_its_edges() -> None:
    a = Node("a", (Turn((Write("n", 1),), goto=("b",), fails=True),), on_error="c")
    graph = Graph((N,), (a, *plain("b", "c", "d")), ((None, "a"), (None, "b"), ("a", "b"), ("b", "c")))

    result = interpret(graph)

    assert (trace(result), result.state) == (["a b", "c"], {"n": 0})
    assert result.supersteps[0].outcomes == ("error", "success")


def test_a_failing_task_without_on_error_fails_the_run_and_commits_nothing() -> None:
    a = Node("a", (Turn(), Turn(fails=True)))
    graph = Graph((N,), (a, Node("b", (Turn((Write("n", 1),)),))), ((None, "a"), ("a", "b"), ("b", "a"), ("b", "b")))

    result = interpret(graph)

    assert failure(result) == ("NodeError", {"a"}, None)
    assert (trace(result), result.state) == (["a", "b"], {"n": 1})


def test_max_steps_fails_only_if_more_work_remains() -> None:
    def steps(count: int) -> Result:
        return interpret(Graph((), plain("a", "b"), ((None, "a"), ("a", "b")), caps=Caps(max_steps=count)))

    assert steps(2).status == "completed"
    assert (failure(steps(1)), trace(steps(1))) == (("StepLimitError", {"b"}, None), ["a"])


def test_max_tasks_counts_the_tasks_of_one_superstep() -> None:
    def tasks(count: int) -> Result:
        s = goes("s", ("a", SendTo("a"), SendTo("a")))
        return interpret(Graph((), (s, Node("a")), ((None, "s"),), caps=Caps(max_tasks=count)))

    assert tasks(3).status == "completed"
    assert (failure(tasks(2)), trace(tasks(2))) == (("LimitError", {"a"}, None), ["s"])


def test_max_visits_trips_on_the_visit_after_and_counts_supersteps() -> None:
    s = goes("s", (SendTo("a"), SendTo("a")), ("a",), ("b",))
    nodes = (s, Node("a"), Node("b"))

    def visits(own: int | None, caps: int | None) -> Result:
        a = Node("a", max_visits=own)
        return interpret(Graph((), (s, a, nodes[2]), ((None, "s"), ("a", "s")), caps=Caps(max_visits=caps)))

    assert trace(visits(2, None)) == ["s", "a:None a:None", "s", "a", "s", "b"]
    assert failure(visits(1, None)) == ("NodeFatigueError", {"a"}, None)
    assert trace(visits(None, 2)) == ["s", "a:None a:None", "s", "a"]
    assert failure(visits(9, 2)) == ("NodeFatigueError", {"s"}, None)


def test_on_fatigue_replaces_all_activations_by_one_plain_one_and_follows_chains() -> None:
    s = Node("s", (Turn(goto=("a", SendTo("a", 1), "b")),))
    a = Node("a", max_visits=0, on_fatigue="b")
    b = Node("b", max_visits=1, on_fatigue="c")
    graph = Graph((), (s, a, b, Node("c")), ((None, "s"), ("b", "a")))

    assert trace(interpret(graph)) == ["s", "b", "c"]


def test_sends_of_an_exhausted_node_also_become_one_plain_activation() -> None:
    s = Node("s", (Turn(goto=(SendTo("a", 1), SendTo("a", 2), SendTo("b", 3))),))
    a = Node("a", max_visits=0, on_fatigue="b")

    assert trace(interpret(Graph((), (s, a, Node("b")), ((None, "s"),)))) == ["s", "b b:3"]


def test_on_fatigue_end_removes_the_activations_before_max_steps_is_checked() -> None:
    a = Node("a", max_visits=2, on_fatigue=END)
    graph = Graph((), (a,), ((None, "a"), ("a", "a")), caps=Caps(max_steps=2))

    result = interpret(graph)

    assert (result.status, trace(result)) == ("completed", ["a", "a"])
