"""Findings of compile() together: all at once, in order, the same in any process, with any names, at any size."""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import graphrt
from graphrt import END, START, DefinitionError, GraphBuilder, Limits
from graphrt.errors import Problem

from .planting import a, ab, found, g, go, lost, text, texts, verdict, work

SECONDS = 60
"""Time limit of a test of size before it counts as hung."""


@pytest.fixture
def limited() -> Iterator[None]:
    """End the process, with a traceback, if the test hangs."""
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def many_mistakes() -> Any:
    builder = g("first", "second", "first")  # duplicate-node
    builder.add_edge("second", "third")  # unknown-node
    builder.add_node("END", work)  # reserved-name
    builder.add_edge("first", START)  # start-as-target
    builder.add_node("lost", lost, writes=["none"], max_visits=0)  # bad-signature, bad-limit, bad-update-type
    builder.add_edge(END, "first")  # end-as-source
    builder.add_edge("first", "second").add_edge("first", "second")  # duplicate-edge
    builder.add_conditional_edges("first", verdict, {"good": END, "bad": "second"})  # unknown-, dead-route, mixed
    builder.add_conditional_edges("lost", go, {})  # empty-routes
    return builder.add_node("", work)  # bad-name


ORDER = [
    "duplicate-node",
    "unknown-node",
    "reserved-name",
    "start-as-target",
    "bad-signature",
    "bad-limit",
    "bad-update-type",
    "end-as-source",
    "duplicate-edge",
    "unknown-route",
    "dead-route",
    "mixed-edges",
    "empty-routes",
    "bad-name",
    "no-entry",
    "bad-limit",
    "bad-allow",
]


def test_all_errors_at_once_in_the_order_of_the_calls() -> None:
    problems = found(many_mistakes(), limits=Limits(max_steps=0), allow=["nothing"])

    assert [problem.code for problem in problems] == ORDER


def test_state_and_update_come_before_the_calls() -> None:
    class Bad(BaseModel):
        x: int = 0

    builder: Any = GraphBuilder(Bad, int, name="g")  # type: ignore[type-var]
    builder.add_node("x", lost)

    assert [problem.code for problem in found(builder)] == ["bad-update-type", "bad-signature", "no-entry"]


def test_places_are_those_of_the_calls() -> None:
    builder = a()
    line = sys._getframe().f_lineno
    builder.add_edge("a", "x")
    builder.add_edge("y", "a")

    assert [problem.where for problem in found(builder)] == [
        f"{Path(__file__).name}:{line + 1}",
        f"{Path(__file__).name}:{line + 2}",
    ]


def test_second_compile_has_the_same_findings() -> None:
    builder = many_mistakes()

    assert found(builder) == found(builder)


def test_second_compile_returns_an_equal_graph() -> None:
    builder = ab()
    one, two = builder.compile(), builder.compile()

    assert one is not two
    assert (one.topology(), one.fingerprint) == (two.topology(), two.fingerprint)


def test_failure_does_not_change_the_builder() -> None:
    builder = g("a")
    before = repr(builder)
    assert texts(builder)

    assert repr(builder) == before
    assert builder.set_entry("a").compile().nodes == ("a",)


def test_a_compiled_graph_does_not_follow_its_builder() -> None:
    builder = a()
    graph = builder.compile()
    before = graph.to_json()
    builder.add_node("b", work).add_edge("a", "b")

    assert graph.to_json() == before
    assert graph.nodes == ("a",)


def test_text_of_the_error_lists_all_problems() -> None:
    with pytest.raises(DefinitionError) as caught:
        many_mistakes().compile()
    lines = str(caught.value).split("\n")

    assert lines[0] == f"Graph 'g' has {len(ORDER) - 2} problems."
    assert lines[1].startswith("  Where: defined at ")
    assert lines[-1] == "  See: python -m graphrt.errors CODE, for each code in brackets"
    numbered = [f"  {n}. {problem}" for n, problem in enumerate(caught.value.problems, 1)]
    assert "\n".join(lines[2:-1]) == "\n".join(numbered)
    assert caught.value.code == "definition"


def test_single_problem_is_in_the_singular() -> None:
    with pytest.raises(DefinitionError) as caught:
        g("a").compile()

    assert str(caught.value).startswith("Graph 'g' has 1 problem.\n")


def test_graph_analysis_waits_until_there_are_no_errors() -> None:
    builder = g("a", "island").add_node("", work)

    assert [problem.code for problem in found(builder)] == ["bad-name", "no-entry"]


def test_a_problem_is_a_value() -> None:
    problem = found(g("a"))[0]

    assert isinstance(problem, Problem)
    assert hash(problem) == hash(found(g("a"))[0])


# -- names -----------------------------------------------------------------------------------------------------------

HOSTILE = ["it's", 'say "hi"', "two\nlines", "\t", "🦜 parrot", "a\\b", "{x}", "%s", "[bold]", "\x1b[31m"]


@pytest.mark.parametrize("name", [name for name in HOSTILE if name.strip()])
def test_hostile_names_are_quoted_in_messages(name: str) -> None:
    (problem,) = found(g(name).set_entry(name).add_edge(name, "nowhere"))

    assert problem.message == f"The edge {name!r} -> 'nowhere' names a node that was never added: 'nowhere'."
    assert text(problem).count("\n") == 1


@pytest.mark.parametrize("name", [name for name in HOSTILE if name.strip()])
def test_hostile_unknown_names_stay_on_one_line(name: str) -> None:
    (problem,) = found(a().add_edge("a", name))

    assert (problem.code, problem.node) == ("unknown-node", name)
    assert text(problem).count("\n") == 1
    assert "\x1b" not in str(problem)


def test_names_that_differ_by_normalisation_are_two_nodes() -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"

    assert g(composed, decomposed).add_sequence([START, composed, decomposed]).compile().nodes == (composed, decomposed)


# -- the same in any process -----------------------------------------------------------------------------------------

SCRIPT = """
import enum, sys
from graphrt import END, START, DefinitionError, GraphBuilder
class State:
    pass
from pydantic import BaseModel
class State(BaseModel):
    text: str = ""
    title: str = ""
def work(state): ...
def go(state): return "a"
def show(builder, **options):
    try:
        builder.compile(**options)
    except DefinitionError as error:
        print(error)
    else:
        print("fine")
names = ["n%d" % n for n in range(12)]
def g():
    builder = GraphBuilder(State, name="g")
    for name in names:
        builder.add_node(name, work, writes=("text", "title"))
    return builder
wrong = g()
for name in names:
    wrong.add_edge(name, name + "x").add_node(name, work, zzz=1)
show(wrong, allow={"x", "y", "z", "w"})
fan = g()
for name in names[:4]:
    fan.add_edge(START, name)
show(fan.add_join(names[:4], "n5"))
choice = g().set_conditional_entry(go, names[:6])
for name in names[6:]:
    choice.add_join(names[:6], name, when=3)
show(choice)
loops = g().add_sequence([START, *names, "n0"]).add_edge("n3", "n1").add_edge("n9", "n7")
show(loops)
show(g().set_entry("n0"), allow={"no-way-out"})
"""


def run_script(seed: str) -> str:
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(graphrt.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, check=True, timeout=SECONDS)
    return done.stdout.decode()


@pytest.mark.slow
def test_findings_do_not_depend_on_the_hash_seed() -> None:
    one, two = run_script("1"), run_script("4242")

    assert one == two
    for code in ("unknown-node", "bad-policy", "bad-allow", "write-conflict", "starving-join", "endless-loop"):
        assert f"[{code}]" in one


# -- size ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("limited")
def test_a_chain_of_3_000_nodes_compiles() -> None:
    names = [f"n{n}" for n in range(3_000)]

    graph = g(*names).add_sequence([START, *names, END]).compile()

    assert len(graph.nodes) == 3_000


@pytest.mark.slow
@pytest.mark.usefixtures("limited")
def test_loop_of_3_000_nodes_is_analysed() -> None:
    names = [f"n{n}" for n in range(3_000)]

    problems = texts(g(*names).add_sequence([START, *names, "n0"]), allow=["no-way-out"])

    assert [problem.split("]")[0] for problem in problems] == ["[endless-loop"]


@pytest.mark.slow
@pytest.mark.usefixtures("limited")
def test_3_000_consecutive_loops_are_analysed() -> None:
    """Components close one by one while the stack is deep."""
    names = [f"n{n}" for n in range(3_000)]
    builder = g(*names).set_entry("n0")
    for one, two in zip(names, [*names[1:], END], strict=True):
        builder.add_conditional_edges(one, go, {"a": one, "b": two})

    assert len(builder.compile().nodes) == 3_000


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize("after", ["static", "conditional"])
def test_a_join_of_2_000_after_a_fan_out_compiles(after: str) -> None:
    names = [f"n{n}" for n in range(2_000)]
    builder = g("split", "end", *names).set_entry("split")
    if after == "static":
        for name in names:
            builder.add_edge("split", name)
        assert len(builder.add_join(names, "end").compile().nodes) == 2_002
    else:
        builder.add_conditional_edges("split", go, names).add_join(names, "end")
        (problem,) = texts(builder)
        assert problem.startswith("[starving-join] The join before 'end' can starve: some choice of routes runs 'n1'")


@pytest.mark.slow
@pytest.mark.usefixtures("limited")
def test_2_000_arms_with_choices_that_meet_again_compile() -> None:
    """No source follows from the split alone, and each is checked; only a few can be missing together."""
    count = 2_000
    builder = g("split", "end").set_entry("split")
    for n in range(count):
        for kind in ("arm", "left", "right", "meet"):
            builder.add_node(f"{kind}{n}", work)
        builder.add_edge("split", f"arm{n}")
        builder.add_conditional_edges(f"arm{n}", go, [f"left{n}", f"right{n}"])
        builder.add_edge(f"left{n}", f"meet{n}").add_edge(f"right{n}", f"meet{n}")

    assert len(builder.add_join([f"meet{n}" for n in range(count)], "end").compile().nodes) == 4 * count + 2


@pytest.mark.usefixtures("limited")
def test_fan_out_of_2_000_writers_is_analysed() -> None:
    names = [f"n{n}" for n in range(2_000)]
    builder = g()
    for name in names:
        builder.add_node(name, work, writes=("notes",)).set_entry(name)

    assert len(builder.compile().nodes) == 2_000


@pytest.mark.usefixtures("limited")
def test_10_000_mistakes_are_reported() -> None:
    names = [f"n{n}" for n in range(2_000)]
    builder = g(*names).set_entry("n0")
    for n in range(10_000):
        builder.add_edge("n0", f"m{n}")

    assert len(found(builder)) == 10_000
