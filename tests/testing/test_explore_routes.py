"""`explore_routes` finds planted bugs in routes, replays them, writes them as tests, and has no findings in correct
graphs.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest
from tests.testing.langgraph_examples import EXAMPLES, Example
from tests.testing.planted_routes import PLANTED, Planted

from graphrt import InputError
from graphrt.testing import Exploration, explore_routes


def names(planted: Planted, graph: Any) -> dict[str, Any]:
    return {"explore_routes": explore_routes, "graph": graph, "input": {}, **planted.given}


BY_NAME = {str(planted): planted for planted in PLANTED}


@functools.cache
def explored(name: str) -> Exploration:
    """The search of the graph with the bug of this name, which two tests use."""
    planted = BY_NAME[name]
    return explore_routes(planted.make(bug=True), {}, **planted.given)


@pytest.mark.slow
@pytest.mark.parametrize("planted", PLANTED, ids=str)
def test_planted_bug_is_the_only_kind_found_and_its_line_replays_it(planted: Planted) -> None:
    graph = planted.make(bug=True)
    found = explored(str(planted))

    assert {finding.kind for finding in found.findings} == {planted.kind}, str(found)
    for finding in found.findings:
        again = eval(finding.replay, names(planted, graph))
        assert planted.kind in {one.kind for one in again.findings}, str(again)
        assert again.tried <= 2  # a question is asked again with the other answers


@pytest.mark.parametrize("planted", PLANTED, ids=str)
def test_graph_without_the_planted_bug_has_no_finding(planted: Planted) -> None:
    assert str(explore_routes(planted.make(bug=False), {}, **planted.given).check())


@pytest.mark.slow
@pytest.mark.parametrize("planted", PLANTED, ids=str)
def test_generated_test_fails_with_the_bug_and_passes_without_it(planted: Planted) -> None:
    found = explored(str(planted))
    text = found.tests[found.findings[0].replay]
    module: dict[str, Any] = {}
    exec(compile(text, "test_found.py", "exec"), module)
    (test,) = (value for name, value in module.items() if name.startswith("test_"))
    wanted = test.__code__.co_varnames[: test.__code__.co_argcount]

    def run(*, bug: bool) -> None:
        given = {**names(planted, planted.make(bug=bug))}
        test(**{name: given[name] for name in wanted})

    assert ("explore_routes(graph" in text) is not planted.by_itself
    with pytest.raises((AssertionError, InputError)):
        run(bug=True)
    if planted.by_itself:
        run(bug=False)


LONG = {"handoff", "customer-support"}
"""Examples whose answered questions have as many routes as those of all the others: explored in full runs."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "example",
    [pytest.param(one, id=str(one), marks=pytest.mark.full if str(one) in LONG else ()) for one in EXAMPLES],
)
def test_correct_example_of_langgraph_has_no_finding(example: Example) -> None:
    found = explore_routes(
        example.graph(),
        example.input,
        alternatives=example.alternatives,
        replies=example.replies,
        answers=example.possible,
        questions=2,
    )

    found.check()
    assert found.noted == ()
    assert found.unreached == ()


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_labels_alone_of_a_correct_example_have_no_finding(example: Example) -> None:
    assert explore_routes(example.graph(), example.input).check().tried >= 1
