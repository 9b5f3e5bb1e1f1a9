"""`golden_divergence`: the first difference of two golden traces is explained, and bad files are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.testing.support import State, asking, report, reported, research

from graphrt import START, Context, GraphBuilder, MockHarness
from graphrt.errors import InputError
from graphrt.harness import AssistantMessage, ModelRequest, ScriptedModel, ToolCall
from graphrt.testing import golden_divergence, golden_trace, record

# -- a difference is explained -----------------------------------------------------------------------------------


def test_equal_traces_do_not_differ_with_any_formatting() -> None:
    text = reported(report())
    assert golden_divergence(text, text) is None
    assert golden_divergence(json.dumps(json.loads(text), indent=3, sort_keys=True), text) is None


def test_changed_prompt_is_shown_in_its_request() -> None:
    assert golden_divergence(reported(report()), reported(report("What, in one word, is {}?"))) == (
        "Model request that differs: request 1 of 'writer'.\n"
        "  messages[1].text\n"
        "    expected  'What is tea?'\n"
        "    found     'What, in one word, is tea?'"
    )


def test_changed_route_is_shown_with_its_target() -> None:
    assert golden_divergence(reported(report()), reported(report(again=True))) == (
        "First difference: what runs after superstep 2 (check).\n"
        "  expected  send\n"
        "  found     draft\n"
        "Extra model request: request 3 of 'writer', which the golden trace does not have.\n"
        "  user: 'What is tea?'"
    )


def test_changed_update_is_shown_with_its_node_and_field() -> None:
    assert golden_divergence(reported(report()), reported(report(upper=False))) == (
        "First difference: superstep 2, task-succeeded of 'check' (task 2.0:check).\n"
        "  update.answer\n"
        "    expected  'A LEAF.'\n"
        "    found     'A leaf.'"
    )


def test_extra_node_is_shown_where_it_became_due() -> None:
    assert golden_divergence(reported(report()), reported(report(extra=True))) == (
        "First difference: what runs after superstep 1 (draft).\n  expected  check\n  found     extra"
    )


def test_failure_is_shown_with_its_error_and_the_next_event() -> None:
    def fails(state: State) -> None:
        raise ValueError("no sources")

    expected = golden_trace(record(research(), {}))
    found = golden_trace(record(research().with_nodes({"answer": fails}), {}))
    assert golden_divergence(expected, found) == (
        "First difference: superstep 3.\n"
        "  expected  task-succeeded of 'answer' (task 3.0:answer)\n"
        "  found     task-failed of 'answer' (task 3.0:answer): ValueError: no sources\n"
        "  expected then: superstep-committed; run-completed\n"
        "  found then: run-failed: NodeError: Node 'answer' failed: ValueError: no sources"
    )


def test_premature_end_is_shown() -> None:
    run = record(asking(), {})
    assert golden_divergence(golden_trace(run.resume("yes")), golden_trace(run)) == (
        "First difference: superstep 2.\n"
        "  expected  run-resumed\n"
        "  found     nothing more\n"
        "  expected then: interrupt-answered (2.0:review#key=review); answer-used (2.0:review#key=review)"
    )


def test_difference_in_a_long_text_shows_the_text_around_it() -> None:
    def of(word: str) -> str:
        return golden_trace(record(research(), {"question": "tea and " * 60 + word + " and so on" * 30}))

    assert golden_divergence(of("milk"), of("coffee")) == (
        "First difference: superstep 0, run-started.\n"
        "  input.question\n"
        "    expected  ...'a and tea and tea and tea and milk and so on and so on and so on and so on and so on "
        "and so on and s'...\n"
        "    found     ...'a and tea and tea and tea and coffee and so on and so on and so on and so on and so on "
        "and so on and'...\n"
        "    the first 480 characters are equal"
    )


def test_longer_list_is_shown_with_its_lengths() -> None:
    graph = research()

    def search(state: State) -> dict[str, Any]:
        return {"notes": ["on tea", "and more"], "calls": 1}

    longer = graph.with_nodes({"search": search})
    assert golden_divergence(golden_trace(record(graph, {})), golden_trace(record(longer, {}))) == (
        "First difference: superstep 1, task-succeeded of 'search' (task 1.0:search).\n"
        "  update.notes[1]\n"
        "    expected  nothing\n"
        "    found     'and more'\n"
        "    update.notes has 2 items, not 1"
    )


@pytest.mark.parametrize(("one", "other"), [(True, 1), (1, 1.0), (False, 0.0)])
def test_bool_int_and_float_are_different(one: Any, other: Any) -> None:
    def of(value: Any) -> str:
        return golden_trace(record(asking(), {}).resume([value]))

    difference = golden_divergence(of(one), of(other))
    assert difference is not None
    assert f"answer[0]\n    expected  {json.dumps(one)}\n    found     {json.dumps(other)}" in difference


def test_requests_that_differ_only_in_bool_and_int_are_different() -> None:
    def of(*values: Any) -> str:
        calls = [ToolCall(id="c1", name="price", arguments={"full": value}) for value in values]
        turns = [AssistantMessage(tool_calls=(call,)) for call in calls]
        requests = [ModelRequest(messages=(turn,) * number) for number, turn in enumerate(turns, 1)]
        return golden_trace(record(research(), {}), requests=requests)

    assert '"continues": 1' in of(1, 1)
    for found in (of(1, True), of(True, 1)):
        assert '"continues": 1' not in found
        assert golden_divergence(of(1, 1), found) is not None


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ("at 2026-11-24T10:00:00", "at 2026-11-25T11:00:00", "a time or a random id"),
        ("id 0123456789abcdef0123456789abcdef", "id 1123456789abcdef0123456789abcdef", "a time or a random id"),
        (1_700_000_000.5, 1_700_000_001.5, "a time: fix it"),
    ],
)
def test_varying_value_is_named_as_such(one: Any, other: Any, told: str) -> None:
    def of(value: Any) -> str:
        return golden_trace(record(asking(), {}).resume(value))

    difference = golden_divergence(of(one), of(other))
    assert difference is not None
    assert told in difference


def test_changed_prompt_without_requests_explains_how_to_see_it() -> None:
    def of(prompt: str) -> str:
        model = ScriptedModel([ToolCall(id="c1", name="price", arguments={"of": "tea"}), "A leaf."])
        return golden_trace(record(report(prompt), {}, models={"writer": model}))

    difference = golden_divergence(of("What is {}?"), of("What in the world is {}?"))
    assert difference is not None
    assert "usage.input_tokens" in difference
    assert "with requests=model.calls" in difference


def test_requests_of_parallel_tasks_are_compared_with_the_most_similar_one() -> None:
    def of(*words: str) -> str:
        g = GraphBuilder(State, name="parallel")

        def asker(word: str) -> Any:
            async def ask(state: State, ctx: Context) -> None:
                await ctx.harness.run(f"Tell me all that you know about {word}.")

            return ask

        for at, word in enumerate(words):
            g.add_node(f"n{at}", asker(word))
            g.add_edge(START, f"n{at}")
        mock = MockHarness({"Tell": "yes"})
        return golden_trace(record(g.compile(), {}, harness=mock), requests=mock.calls)

    assert of("tea", "milk", "honey") == of("honey", "tea", "milk")
    difference = golden_divergence(of("tea", "milk", "honey"), of("a honeycomb", "a city", "tea"))
    assert difference is not None
    assert "'Tell me all that you know about honey.'" in difference
    assert "'Tell me all that you know about a honeycomb.'" in difference
    assert "Missing model request: request 3 of 'model'" in (golden_divergence(of("a", "b", "c"), of("a", "b")) or "")


# -- bad input ---------------------------------------------------------------------------------------------------


def test_different_graph_is_named() -> None:
    difference = golden_divergence(golden_trace(record(research(), {})), golden_trace(record(asking(), {})))
    assert difference == "The golden trace is of graph 'research', and the run is of graph 'asking'."


def test_missing_line_is_a_difference() -> None:
    text = reported(report())
    lines = [line for line in text.splitlines() if '"task": "2.0:check"' not in line]
    assert golden_divergence("\n".join(lines), text) == (
        "First difference: superstep 2.\n"
        "  expected  superstep-committed\n"
        "  found     task-succeeded of 'check' (task 2.0:check)\n"
        "  expected then: task-succeeded of 'send' (task 3.0:send); superstep-committed\n"
        "  found then: superstep-committed; task-succeeded of 'send' (task 3.0:send)"
    )


BAD_EDITS: list[tuple[Callable[[str], str], str]] = [
    (lambda text: text[:200], "it is not valid JSON"),
    (lambda text: f"{'<' * 7} ours\n{text}", "it has the marks of a merge conflict"),
    (lambda text: text.replace('"version": 1', '"version": 7'), "its version is 7"),
    (lambda text: text.replace("golden trace", "trace"), 'it does not have "format"'),
    (lambda text: "[]", 'it does not have "format"'),
    (lambda text: "[" * 100_000, "it is"),
    (lambda text: text.replace('"trace": [', '"traces": ['), "trace is not a list"),
    (lambda text: text.replace('"superstep": 2, "events"', '"events"'), 'trace[2] is not a mapping with a "super'),
    (lambda text: text.replace('"event": "run-started", ', ""), "trace[0].events[0] is not a mapping with an"),
    (
        lambda text: text.replace('"continues": 1', '"continues": 9'),
        "a line of requests.writer continues request 9",
    ),
    (lambda text: text.replace('"messages": [', '"message": [', 1), "requests.writer[0].messages is not a list"),
    (lambda text: text.replace('"requests": {', '"requests": 3, "x": {'), "requests is not a mapping"),
    (lambda text: text.replace('"writer": [', '"writer": [1, '), "requests.writer[0] is not a mapping"),
]


@pytest.mark.parametrize(("change", "told"), BAD_EDITS)
def test_invalid_edit_of_a_file_is_refused_with_the_reason(change: Callable[[str], str], told: str) -> None:
    text = reported(report())
    with pytest.raises(InputError) as raised:
        golden_divergence(change(text), text)
    assert raised.value.code == "bad-golden-trace"
    assert told in raised.value.what
