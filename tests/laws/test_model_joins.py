"""The generations of joins in the reference model against examples computed by hand (R5)."""

from __future__ import annotations

from typing import Literal

import pytest

from .description import END, Caps, Graph, Join, Node, SendTo, Turn
from .model import Generation, Result, arrive, interpret
from .test_model import failure, goes, plain, trace

When = Literal["all", "any"] | int


def script(arrivals: str, when: When, sources: str = "abc") -> str:
    """Sources arrive one after the other; an upper-case letter in the answer is an arrival that fired."""
    graph = Graph((), plain(*sources, "z"), joins=(Join(tuple(sources), "z", when),))
    generations = [Generation()]
    return "".join(each.upper() if arrive(graph, generations, each) else each for each in arrivals)


@pytest.mark.parametrize(
    ("when", "fired"),
    [
        # all: once all three have arrived; a repeat before firing counts once; then the next generation
        ("all", "abC abC"),
        ("all", "aabbC"),
        ("all", "caB abC"),
        # any: the first fires, the first arrivals of the others are absorbed, all three close the generation
        ("any", "Abc Abc"),
        ("any", "Abc Bca"),
        # any: a counted source opens the next before the others arrived
        ("any", "A A A"),
        ("any", "Ab A b c B"),
        ("any", "Ab B c B a c A"),
        # two of three: the third is absorbed; a counted one opens the next
        (2, "aB c aB c"),
        (2, "aaB aC b"),
        (2, "aB aB"),
        (2, "aB bA c cB"),
        (3, "abC"),
        (1, "A A"),
    ],
)
def test_a_join_fires_once_per_generation(when: When, fired: str) -> None:
    fired = fired.replace(" ", "")

    assert script(fired.lower(), when) == fired


def run(nodes: tuple[Node, ...], edges: str, *joins: Join, caps: Caps | None = None) -> Result:
    """Edges as "ab": from a to b; ">a": from START."""
    pairs = tuple((None if edge[0] == ">" else edge[0], edge[1]) for edge in edges.split())
    return interpret(Graph((), nodes, pairs, joins=joins, caps=caps or Caps(max_steps=9)))


def test_join_waits_over_any_number_of_supersteps() -> None:
    result = run(plain("a", "b", "c", "z"), ">a >b bc", Join(("a", "c"), "z"))

    assert trace(result) == ["a b", "c", "z"]


def test_all_tasks_of_one_source_in_a_superstep_are_one_arrival() -> None:
    s = goes("s", (SendTo("a", 1), SendTo("a", 2)))

    assert trace(run((s, *plain("a", "z")), ">s", Join(("a",), "z", 1))) == ["s", "a:1 a:2", "z"]
    assert failure(run((s, *plain("a", "b", "z")), ">s", Join(("a", "b"), "z", 2)))[0] == "StarvedJoinError"


def test_a_goto_replaces_the_arrival_unless_another_task_of_the_source_had_none() -> None:
    a = goes("a", (END,))
    assert failure(run((a, *plain("b", "z")), ">a >b", Join(("a", "b"), "z"))) == ("StarvedJoinError", {"z"}, None)

    # In superstep 2 node a runs twice on its second visit, without goto; b arrived in superstep 1.
    a = goes("a", (SendTo("a"), SendTo("a")), None)
    assert trace(run((a, *plain("b", "z")), ">a >b", Join(("a", "b"), "z"))) == ["a b", "a:None a:None", "z"]


def test_a_failing_source_does_not_arrive() -> None:
    a = Node("a", (Turn(fails=True), Turn()), on_error="a")

    assert trace(run((a, *plain("b", "z")), ">a >b", Join(("a", "b"), "z"))) == ["a b", "a", "z"]


def test_a_plain_activation_of_the_joins_node_consumes_no_arrival_and_merges_with_the_joins() -> None:
    # superstep 2 runs z because of the edge a -> z; the join has a only and fires when c has run.
    alone = run(plain("a", "b", "c", "z"), ">a >b az bc", Join(("b", "c"), "z"))
    # here the edge c -> z and the join fall together
    merged = run(plain("a", "b", "c", "d", "z"), ">a >d ab bc dz", Join(("a", "c"), "z"))
    together = run(plain("a", "b", "z"), ">a >b az", Join(("b",), "z", 1))

    assert trace(alone) == ["a b", "c z", "z"]
    assert trace(merged) == ["a d", "b z", "c", "z"]
    assert trace(together) == ["a b", "z"]


def test_arrivals_count_in_task_order_within_a_superstep() -> None:
    """When any of a, b: a fires; then a and b arrive in one superstep; then b alone.

    a first: it opens the next generation and fires it, b is absorbed and closes it, so that b alone opens another.
    b first: it is absorbed and closes the first, a opens the next and fires it, and b alone is absorbed by that.
    """

    def fired(order: str) -> list[tuple[int, ...]]:
        chosen = {"a": Node("a"), "b": Node("b"), "z": goes("z", ("a", "b"), ("b",), ())}
        result = run(tuple(chosen[name] for name in order), ">a", Join(("a", "b"), "z", "any"))
        return [each.fired for each in result.supersteps]

    assert fired("abz") == [(0,), (), (0,), (), (0,), ()]
    assert fired("baz") == [(0,), (), (0,), (), ()]


def test_a_join_that_fires_twice_in_one_superstep_activates_its_node_once() -> None:
    """Two of b, x, c, with x arrived: b fires it; x again opens the next; c fires that one too."""
    nodes = (
        Node("b"),
        goes("x", None),
        Node("c"),
        goes("z", ()),
        goes("s", ("x", "y"), ()),
        goes("y", ("b", "x", "c")),
    )

    result = run(nodes, ">s", Join(("b", "x", "c"), "z", 2))

    assert trace(result) == ["s", "x y", "b x c", "z"]
    assert result.supersteps[2].fired == (0, 0)


@pytest.mark.parametrize(("starved", "then"), [("error", None), ("ignore", ["a", "b"]), ("run", ["a", "b", "z"])])
def test_a_starved_join_fails_ends_or_runs(starved: Literal["error", "ignore", "run"], then: list[str] | None) -> None:
    result = run(plain("a", "b", "c", "z"), ">a ab", Join(("a", "c"), "z", starved=starved))

    if then is None:
        assert failure(result) == ("StarvedJoinError", {"z"}, None)
        assert (trace(result), result.attempted) == (["a", "b"], ())
    else:
        assert (result.status, trace(result)) == ("completed", then)


def test_join_that_fired_or_that_no_source_reached_is_not_starved() -> None:
    assert trace(run(plain("a", "b", "z"), ">a", Join(("a", "b"), "z", "any"))) == ["a", "z"]
    assert trace(run(plain("a", "b", "c", "z"), ">a", Join(("b", "c"), "z"))) == ["a"]


def test_several_starved_joins_run_together_and_an_error_takes_precedence() -> None:
    y, z = Join(("a", "c"), "y", starved="run"), Join(("b", "c"), "z", starved="run")
    nodes = plain("a", "b", "c", "z", "y")

    assert trace(run(nodes, ">a >b", y, z)) == ["a b", "z y"]
    failed = run(nodes, ">a >b", y, Join(("b", "c"), "z"))
    assert (failure(failed), trace(failed)) == (("StarvedJoinError", {"z"}, None), ["a b"])


def test_join_run_while_starved_has_fired_and_absorbs_later_sources() -> None:
    z = goes("z", ("c",), ("a",), ())
    nodes = (goes("a", None), Node("c"), z)

    # a | z (starved, fires with a) | c is absorbed: closed | quiet
    assert trace(run(nodes, ">a", Join(("a", "c"), "z", starved="run"))) == ["a", "z", "c"]

    # a | z | a again: a counted source opens the next, which starves too | z | a ...
    again = (goes("a", None), Node("c"), goes("z", ("a",), ()))
    assert trace(run(again, ">a", Join(("a", "c"), "z", starved="run"))) == ["a", "z", "a", "z"]


def test_run_also_ends_when_fatigue_removes_its_tasks() -> None:
    nodes = (Node("a", max_visits=1, on_fatigue=END), Node("b"), Node("z"))

    assert trace(run(nodes, ">a aa", Join(("a", "b"), "z", starved="run"))) == ["a", "z"]


def test_loop_through_a_join_fires_it_once_per_pass() -> None:
    nodes = (goes("s", ("a", "b"), ("a", "b"), ()), *plain("a", "b"), goes("z", ("s",)))

    assert trace(run(nodes, ">s", Join(("a", "b"), "z"))) == ["s", "a b", "z", "s", "a b", "z", "s"]
