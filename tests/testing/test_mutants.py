"""Mutations and mutants: the list for a graph, and the behaviour of each mutant. No test starts pytest."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypedDict

import pytest

from graphrt import END, START, Command, Context, GraphBuilder, Interrupt, Limits, RetryPolicy, Runtime, Send
from graphrt.errors import DefinitionError, LimitError, NodeError, RouteError, StarvedJoinError
from graphrt.harness import Budget
from graphrt.reducers import add, append
from graphrt.testing.mutate import OPERATORS, MutantError, Mutation, mutant, mutations


class State(TypedDict, total=False):
    way: str
    log: Annotated[list[str], append]
    count: Annotated[int, add]


def note(text: str) -> Callable[[State], Any]:
    return lambda state: {"log": [text]}


def graph_of(build: Callable[[GraphBuilder[Any, Any]], Any], *names: str, **options: Any) -> Any:
    g: GraphBuilder[Any, Any] = GraphBuilder(State, name="g")
    for name in names:
        g.add_node(name, note(name))
    build(g)
    return g.compile(**options)


def ids(graph: Any, operator: str = "", **options: Any) -> list[str]:
    return [one.id for one in mutations(graph.topology(), **options) if one.operator == operator or not operator]


def made(graph: Any, id: str, on_difference: Callable[[], None] = lambda: None) -> Any:
    """The mutant with this id, whose mutation was serialized as JSON like between processes."""
    (found,) = [one for one in mutations(graph.topology()) if one.id == id]
    return mutant(graph, Mutation.of(json.loads(json.dumps(found.to_json()))), on_difference)


def log(graph: Any, **given: Any) -> list[str]:
    return list(graph.run(given).state.get("log", []))


def fork() -> Any:
    """a, then the node in the field `way`, or d."""

    def build(g: Any) -> None:
        g.add_edge(START, "a")
        g.add_conditional_edges("a", lambda state: state["way"], {"b": "b", "c": "c", "also c": "c"}, default="d")
        for name in ("b", "c", "d"):
            g.add_edge(name, END)

    return graph_of(build, "a", "b", "c", "d")


def pair(**join: Any) -> Any:
    """left, and right unless `way` is "left", joined by both."""

    def build(g: Any) -> None:
        g.add_edge(START, "a")
        g.add_conditional_edges("a", lambda state: state["way"].split(), ["left", "right"])
        g.add_edge("left", "more")
        g.add_join(["more", "right"], "both", **join)

    return graph_of(build, "a", "left", "more", "right", "both", allow=["starving-join"])


# -- the list ----------------------------------------------------------------------------------------------------


def test_list_has_every_mutation_counted_by_hand() -> None:
    assert ids(fork()) == [
        "drop-edge:START->a",
        "drop-edge:a:b->b",
        "drop-edge:a:c->c",
        "drop-edge:a:also c->c",
        *ids(fork(), "redirect-edge"),
        "swap-labels:a:b<>c",
        "swap-labels:a:also c<>b",
        "drop-default:a:*->d",
        "drop-reducer:log",
        "drop-reducer:count",
        "keep-latest:log",
        *[f"{operator}:{node}" for operator in ("raise", "no-update") for node in "abcd"],
    ]
    assert len(ids(fork(), "redirect-edge")) == 8  # START, three labels, the default, and three edges to END


def test_listed_policies_and_limits() -> None:
    def build(g: Any) -> None:
        g.add_node("a", note("a"), retry=2, timeout_s=3, max_visits=4, on_fatigue="b", on_error=END,
                   interrupt_before=True, budget=Budget(calls=1))  # fmt: skip
        g.add_node("b", note("b"), interrupt_after=True, goto=["a", "b", END])
        g.add_edge(START, "a")

    graph = graph_of(build, limits=Limits(max_steps=9, deadline_s=60), allow=["no-way-out", "endless-loop"])

    assert [one for operator in list(OPERATORS)[-3:] for one in ids(graph, operator)] == [
        "drop-limit:a:max_visits",
        "drop-limit:a:retry",
        "drop-limit:a:timeout_s",
        "drop-limit:a:budget",
        "drop-limit:max_steps",
        "drop-limit:deadline_s",
        "drop-interrupt:a:interrupt_before",
        "drop-interrupt:b:interrupt_after",
        "drop-handler:a:on_error",
        "drop-handler:a:on_fatigue",
    ]
    assert [one.partition("=>")[0] for one in ids(graph, "redirect-goto")] == [
        "redirect-goto:b->END",
        "redirect-goto:b->a",
        "redirect-goto:b->b",
    ]


def test_undetectable_mutations_are_not_listed() -> None:
    def build(g: Any) -> None:
        g.add_edge(START, "a")
        g.add_conditional_edges("a", lambda state: state["way"], {"x": "b", "y": "b"}, default="b")
        g.add_edge("b", END)

    listed = ids(graph_of(build, "a", "b"))

    assert "drop-edge:b->END" not in listed  # without it the branch ends as well
    assert not [one for one in listed if one.startswith(("drop-edge:a:", "swap-labels"))]  # all labels lead to b


def test_seed_draws_other_targets_deterministically() -> None:
    first = ids(fork(), "redirect-edge", seed=1)

    assert first == ids(fork(), "redirect-edge", seed=1)
    assert any(ids(fork(), "redirect-edge", seed=seed) != first for seed in range(2, 5))


def test_every_mutation_describes_its_change() -> None:
    for one in mutations(fork().topology()):
        assert one.operator in OPERATORS
        assert one.words[-1:] not in ("", ".")


def test_building_a_mutant_does_not_change_the_graph() -> None:
    graph = fork()
    before = graph.topology()
    for one in mutations(before):
        try:
            mutant(graph, one)
        except DefinitionError:
            continue

    assert graph.topology() == before
    assert log(graph, way="b") == ["a", "b"]


# -- the behaviour -----------------------------------------------------------------------------------------------


def test_dropped_edge_is_not_followed() -> None:
    def build(g: Any) -> None:
        g.add_sequence([START, "a", "b", END])

    graph = graph_of(build, "a", "b", allow=["unreachable-node"])

    assert log(made(graph, "drop-edge:a->b")) == ["a"]


def test_dropped_label_goes_to_the_default() -> None:
    assert log(made(fork(), "drop-edge:a:also c->c"), way="also c") == ["a", "d"]


def test_dropped_default_refuses_other_labels() -> None:
    def build(g: Any) -> None:
        g.add_edge(START, "a")
        g.add_conditional_edges("a", lambda state: state["way"], {"b": "b"}, default="b")
        g.add_edge("b", END)

    graph = graph_of(build, "a", "b")

    assert log(graph, way="x") == ["a", "b"]
    with pytest.raises(RouteError):
        made(graph, "drop-default:a:*->b").run({"way": "x"})


def test_swapped_labels_lead_to_each_others_targets() -> None:
    swapped = made(fork(), "swap-labels:a:b<>c")

    assert [log(swapped, way=way)[-1] for way in ("b", "c", "also c")] == ["c", "b", "c"]


def test_redirected_edges_lead_to_the_other_target() -> None:
    graph = fork()
    for one in mutations(graph.topology()):
        if one.operator != "redirect-edge" or one.node != "a":
            continue
        label = one.arcs[0].label.replace("*", "anything")
        try:
            other = mutant(graph, one)
        except DefinitionError:
            continue  # its target is reached only by this edge
        assert other.route("a", {"way": label}) == (END if one.args["to"] == "END" else one.args["to"],)


def test_mutant_that_compile_refuses_raises() -> None:
    with pytest.raises(DefinitionError, match="no-entry"):
        made(fork(), "drop-edge:START->a")


def commanding() -> Any:
    def a(state: State) -> Any:
        ways: dict[str, Any] = {"one": "b", "end": END, "several": ["b", Send("c", 1)], "none": None}
        return Command(update={"log": ["a"]}, goto=ways[state["way"]])

    def c(state: State, ctx: Context) -> Any:
        return {"log": [f"c {ctx.arg}"]}

    g = GraphBuilder(State, name="g")
    g.add_node("a", a, goto=["b", "c", END])
    g.add_node("b", note("b"))
    g.add_node("c", c)
    g.add_edge(START, "a")
    return g.compile()


def test_commands_go_to_another_declared_target() -> None:
    graph = commanding()
    told: list[str] = []
    by_target = {one.args["target"]: one for one in mutations(graph.topology()) if one.operator == "redirect-goto"}
    other = mutant(graph, by_target["b"], lambda: told.append("acted"))
    to = by_target["b"].args["to"]

    assert log(other, way="end") == ["a"]
    assert told == []
    assert log(other, way="one") == (["a"] if to == "END" else ["a", "c None"])
    assert told == ["acted"]


def test_sends_of_commands_also_move() -> None:
    graph = commanding()
    (one,) = [one for one in mutations(graph.topology()) if one.args.get("target") == "c"]
    moved = Mutation(one.operator, one.detail, one.words, one.node, one.arcs, {**one.args, "to": "c"})
    both = Mutation(one.operator, one.detail, one.words, one.node, one.arcs, {**one.args, "target": "b", "to": "c"})

    assert log(mutant(graph, moved), way="several") == ["a", "b", "c 1"]
    assert log(mutant(graph, both), way="several") == ["a", "c None", "c 1"]


def line(first: Any, **policy: Any) -> Any:
    g = GraphBuilder(State, name="g")
    g.add_node("a", first, **policy)
    g.add_node("b", note("b"))
    g.add_sequence([START, "a", "b", END])
    return g.compile()


def test_field_without_its_reducer_takes_the_last_value() -> None:
    assert log(line(note("a"))) == ["a", "b"]
    assert log(made(line(note("a")), "drop-reducer:log")) == ["b"]


def test_field_that_keeps_the_latest_update_still_takes_parallel_writes() -> None:
    def build(g: Any) -> None:
        g.add_edge(START, "a")
        g.add_edge(START, "b")

    graph = graph_of(build, "a", "b")

    assert log(made(graph, "keep-latest:log")) == ["b"]


async def acall(state: State) -> Any:
    return {"log": ["a"]}


def with_context(state: State, ctx: Context) -> Any:
    return {"log": [ctx.node]}


class Called:
    def __call__(self, state: State) -> Any:
        return {"log": ["a"]}


@pytest.mark.parametrize("first", [note("a"), acall, with_context, Called()])
def test_nodes_of_every_kind_fail_or_return_nothing(first: Any) -> None:
    told: list[str] = []

    assert log(made(line(first), "no-update:a", lambda: told.append("acted"))) == ["b"]
    assert told == ["acted"]
    with pytest.raises(NodeError) as caught:
        made(line(first), "raise:a", lambda: told.append("raised")).run({})
    assert isinstance(caught.value.__cause__, MutantError)
    assert told == ["acted", "raised"]


def test_failing_mutant_is_not_saved_by_a_retry() -> None:
    g = GraphBuilder(State, name="g")
    g.add_node("a", note("a"), retry=RetryPolicy(attempts=5, wait_initial_s=60))
    g.add_sequence([START, "a", END])

    with pytest.raises(NodeError):
        made(g.compile(), "raise:a").run({})


def test_node_that_returns_no_update_is_not_mutated() -> None:
    told: list[str] = []

    for result in (None, {}, Command(goto="b")):
        graph = line(lambda state, result=result: result)
        assert log(made(graph, "no-update:a", lambda: told.append("acted"))) == ["b"]
    assert told == []


def test_command_without_an_update_still_routes_and_an_interrupt_still_asks() -> None:
    commands = made(commanding(), "no-update:a")
    asks = made(line(lambda state, ctx: Interrupt("?") if ctx.answer is None else {"log": ["x"]}), "no-update:a")

    assert log(commands, way="one") == ["b"]
    with Runtime(asks, store="memory:") as runtime:
        assert runtime.run({}, thread="t").status == "interrupted"
        assert runtime.resume("t", answer="yes").state["log"] == ["b"]


def test_nested_graph_fails_or_returns_nothing() -> None:
    outer = line(line(note("inner")))

    assert log(outer) == ["inner", "b", "b"]
    assert log(made(outer, "no-update:a")) == ["b"]
    with pytest.raises(NodeError):
        made(outer, "raise:a").run({})


def test_widened_join_does_not_wait_for_the_others() -> None:
    assert log(pair(), way="left right") == ["a", "left", "right", "more", "both"]
    assert log(made(pair(), "widen-join:more,right->both"), way="left right") == ["a", "left", "right", "more", "both"]
    with pytest.raises(StarvedJoinError):
        pair().run({"way": "left"})
    assert log(made(pair(), "widen-join:more,right->both"), way="left") == ["a", "left", "more", "both"]


@pytest.mark.parametrize("starved", ["run", "ignore"])
def test_starved_join_fails_the_run_when_starved_is_dropped(starved: Literal["run", "ignore"]) -> None:
    graph = pair(starved=starved)

    assert "both" in log(graph, way="left") or starved == "ignore"
    with pytest.raises(StarvedJoinError):
        made(graph, "drop-starved:more,right->both").run({"way": "left"})


def test_dropped_limits_no_longer_apply() -> None:
    def build(g: Any) -> None:
        g.add_node("a", lambda state: {"count": 1}, max_visits=2)
        g.add_edge(START, "a")
        g.add_conditional_edges("a", lambda state: state["count"] < 5, {True: "a", False: END})

    visits, steps = graph_of(build), graph_of(build, limits=Limits(max_steps=1, max_visits=None))
    with pytest.raises(LimitError):
        visits.run({})
    assert made(visits, "drop-limit:a:max_visits").run({}).state["count"] == 5
    assert made(steps, "drop-limit:max_steps").limits == Limits(max_visits=None)
    assert ids(steps, "drop-limit") == ["drop-limit:a:max_visits", "drop-limit:max_steps"]  # None is no limit


def test_dropped_retry_or_handler_exposes_the_first_failure() -> None:
    def flaky(state: State, ctx: Context) -> Any:
        if ctx.attempt == 1:
            raise ConnectionError("lost")
        return {"log": ["a"]}

    def broken(state: State) -> Any:
        raise ConnectionError

    retried = line(flaky, retry=RetryPolicy(attempts=2, wait_initial_s=0.0, jitter=False))
    handled = line(broken, on_error="b")

    assert (log(retried), log(handled)) == (["a", "b"], ["b"])
    for graph, name in ((retried, "drop-limit:a:retry"), (handled, "drop-handler:a:on_error")):
        with pytest.raises(NodeError):
            made(graph, name).run({})


@pytest.mark.parametrize("flag", ["interrupt_before", "interrupt_after"])
def test_dropped_interrupt_does_not_pause(flag: str) -> None:
    g = GraphBuilder(State, name="g")
    g.add_node("a", note("a"), **{flag: True})
    g.add_sequence([START, "a", END])
    graph = g.compile()

    with Runtime(graph, store="memory:") as runtime:
        assert runtime.run({}, thread="t").status == "interrupted"
    assert log(made(graph, f"drop-interrupt:a:{flag}")) == ["a"]
