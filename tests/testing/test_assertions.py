"""`assert_run`: true expectations pass, and false ones are explained."""

from __future__ import annotations

import pytest
from tests.testing.support import RETRY, asking, mapped, research

from graphrt import END, START, InputError, MockHarness
from graphrt.events import SuperstepCommitted
from graphrt.testing import VirtualClock, assert_run, failing, record, scripted


def test_true_expectations_pass_in_any_order():
    run = record(research(), {})
    (
        assert_run(run)
        .completed()
        .state("calls", 2)
        .state("notes", lambda notes: len(notes) == 2)
        .state_after("search", "calls", 1)
        .state_after("search", "calls", 2, nth=2)
        .visited("search", "search", "answer")
        .visited_in_order("search", "answer")
        .routed(START, "search")
        .routed("search", "search", times=1)
        .routed("answer", END)
        .never_routed("answer", "search")
        .usage(tokens=0, calls=0)
        .without_warnings()
        .events(SuperstepCommitted, lambda event: event.superstep == 3)
    )
    assert_run(record(asking(), {})).interrupted().never_visited("send")
    assert_run(record(asking(), {})).interrupted("review", payload={"draft": "a draft"}, kind="question", count=1)


@pytest.mark.parametrize(
    ("check", "told"),
    [
        (lambda run: run.visited("search", "answer"), ["visited is not", "+'search'", " 'answer'"]),
        (
            lambda run: run.visited_in_order("answer", "search"),
            ["'search' did not run after answer", "search -> search"],
        ),
        (lambda run: run.never_visited("answer"), ["'answer' ran", "search -> search -> answer"]),
        (lambda run: run.routed("search", END), ["search -> END never", "superstep 1: search -> search"]),
        (lambda run: run.routed("search", "search", times=2), ["1 times, not 2 times"]),
        (lambda run: run.never_routed("search", "answer"), ["1 times, not 0 times"]),
        (lambda run: run.state("calls", 3), ["state.calls is not", "-3", "+2"]),
        (lambda run: run.state("notes", ["on tea"]), ["state.notes", "+'on tea'"]),
        (lambda run: run.state("notes", lambda notes: not notes), ["predicate", "'on tea'"]),
        (lambda run: run.state_after("search", "calls", 5, nth=2), ["after search, task 2", "-5", "+2"]),
        (lambda run: run.state_after("search", "calls", 5, nth=3), ["no task number 3"]),
        (lambda run: run.usage(calls=1), ["usage", "'calls': 1", "'calls': 0"]),
        (lambda run: run.interrupted(), ["is completed, not interrupted", "search -> search -> answer"]),
        (lambda run: run.failed(), ["is completed, not failed"]),
        (lambda run: run.cancelled(), ["is completed, not cancelled"]),
        (lambda run: run.retried("search"), ["retried 0 times"]),
        (lambda run: run.warned("odd"), ["No warning"]),
        (lambda run: run.events(SuperstepCommitted, lambda event: False), ["no SuperstepCommitted that passes"]),
    ],
)
def test_false_expectation_is_explained(check, told):
    run = record(research(), {})
    with pytest.raises(AssertionError) as caught:
        check(assert_run(run))
    assert [part for part in told if part not in str(caught.value)] == [], str(caught.value)


def test_questions_that_do_not_match_are_shown():
    run = record(asking(), {})
    for wanted in ({"node": "draft"}, {"payload": "other"}, {"kind": "approval"}, {"count": 2}):
        with pytest.raises(AssertionError, match=r"review \(question\): \{'draft': 'a draft'\}"):
            assert_run(run).interrupted(**wanted)
    with pytest.raises(AssertionError, match="open questions"):
        assert_run(run).completed()


def test_failures_are_reported_with_their_cause():
    run = record(research().with_nodes({"answer": scripted(ValueError("no tea"))}), {})
    assert_run(run).failed().failed(ValueError, match="no tea", node="answer")
    with pytest.raises(AssertionError, match=r"(?s)did not fail with KeyError.*caused by ValueError: no tea"):
        assert_run(run).failed(KeyError)
    with pytest.raises(AssertionError, match="No error of the run matches"):
        assert_run(run).failed(match="coffee")
    with pytest.raises(AssertionError, match="'search' did not fail"):
        assert_run(run).failed(node="search")
    with pytest.raises(AssertionError, match=r"(?s)is failed, not completed.*no tea"):
        assert_run(run).completed()


def test_retries_are_counted():
    clock = VirtualClock()
    graph = research(retry=RETRY).with_nodes({"search": failing(2, {"calls": 2})})
    run = record(graph, {}, clock=clock, sleep=clock.sleep)
    assert_run(run).completed().retried("search", times=2)
    with pytest.raises(AssertionError, match=r"(?s)2 times, not 1 times.*attempt 1: ConnectionError"):
        assert_run(run).retried("search", times=1)


def test_unknown_names_are_mistakes_of_the_test():
    run = record(mapped(), {"question": "a"})
    with pytest.raises(InputError, match="Did you mean 'fetch'"):
        assert_run(run).visited("fetsh")
    with pytest.raises(InputError, match="Did you mean 'notes'"):
        assert_run(run).state("note", [])
    with pytest.raises(InputError, match="names 'call', which is not an amount of usage") as caught:
        assert_run(run).usage(call=1)
    assert caught.value.fix == "Did you mean 'calls'?"
    with pytest.raises(InputError, match="The run of assert_run"):
        assert_run(run.result)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (lambda run: run.state_after("search", "calls", 2, nth=0), r"nth= of state_after\(\) must be at least 1"),
        (lambda run: run.failed(ValueError("x")), r"error of failed\(\) cannot be ValueError"),
        (lambda run: run.events("superstep-committed"), r"kind for events\(\) cannot be"),
    ],
)
def test_assertion_about_something_impossible_is_a_mistake_of_the_test(check, text):
    with pytest.raises(InputError, match=text):
        check(assert_run(record(research(), {})))


def test_async_predicates_are_refused():
    async def never(_value):
        return False

    run = record(research(), {})
    with pytest.raises(InputError, match=r"predicate of state\(\) returned a coroutine"):
        assert_run(run).state("notes", never)
    with pytest.raises(InputError, match=r"check of events\(\) returned a coroutine"):
        assert_run(run).events(SuperstepCommitted, never)


def test_usage_of_models_is_asserted():
    with MockHarness(["Black."]) as mock:
        graph = research().with_nodes({"answer": lambda s, ctx: {"answer": ctx.call(ctx.harness.run, "?").text}})
        run = record(graph, {}, harness=mock)
    assert_run(run).usage(calls=1)
