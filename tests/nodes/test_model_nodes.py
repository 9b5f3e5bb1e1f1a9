"""`llm` and `subagent`: prompts from fields, answers into fields."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from graphrt import END, START, DefinitionError, GraphBuilder, InputError, MockHarness, NodeError
from graphrt.errors import AgentLimitError, TransientModelError
from graphrt.harness import (
    Agent,
    AgentLimits,
    AgentReply,
    Budget,
    FunctionModel,
    ScriptedModel,
    Template,
    TextDelta,
    ToolCall,
)
from graphrt.nodes import llm, record_error, subagent

from .support import State, chain, one


class Title(BaseModel):
    title: str
    words: int


def area(width: int) -> int:
    """The area."""
    return width * width


def asked(mock: MockHarness) -> list[str]:
    return [call.text for call in mock.calls]


def test_prompt_and_instructions_are_filled_from_fields() -> None:
    mock = MockHarness(["Leaves."])
    node = llm("What is {topic}?", into="answer", system=Template("You know {topic}."))

    assert one(node).run({"topic": "tea"}, harness=mock).state.answer == "Leaves."
    assert (mock.calls[0].text, mock.calls[0].system) == ("What is tea?", "You know tea.")


def test_braces_of_json_and_of_values_stay_text() -> None:
    mock = MockHarness(["x"])

    one(llm('As {"a": 1}: {topic}', into="answer")).run({"topic": "{answer} {0.__class__}"}, harness=mock)

    assert asked(mock) == ['As {"a": 1}: {answer} {0.__class__}']


def test_template_that_accesses_attributes_is_refused_when_it_is_built() -> None:
    with pytest.raises(InputError) as caught:
        llm("{topic.__class__}", into="answer")

    assert caught.value.code == "template-field"


def test_unfilled_field_fails_before_the_model_is_called() -> None:
    mock = MockHarness(["x"])

    with pytest.raises(NodeError, match="cannot be filled"):
        one(llm("{verdict}", into="answer")).run({}, harness=mock)
    assert mock.calls == []


@pytest.mark.parametrize(("prompt", "into"), [("{topik}", "answer"), ("{topic}", "anwser")])
def test_misspelled_field_is_refused_by_compile(prompt: str, into: str) -> None:
    with pytest.raises(DefinitionError, match="Did you mean"):
        one(llm(prompt, into=into))


def test_a_prompt_may_be_a_function_of_the_state() -> None:
    mock = MockHarness(["x"])

    one(llm(lambda state: state.topic * 2, into="answer")).run({"topic": "ab"}, harness=mock)

    assert asked(mock) == ["abab"]


def test_parts_of_a_structured_answer_are_written_to_fields() -> None:
    node = llm("{topic}", into={"answer": "title", "words": "words"}, output=Title)

    state = one(node).run({}, harness=MockHarness(['{"title": "Tea", "words": 3}'])).state

    assert (state.answer, state.words) == ("Tea", 3)


def test_missing_part_of_the_answer_is_a_typed_error() -> None:
    node = llm("{topic}", into={"answer": "titel"}, output=Title)

    with pytest.raises(NodeError, match="has no 'titel'") as caught:
        one(node).run({}, harness=MockHarness(['{"title": "Tea", "words": 3}']))
    assert getattr(caught.value.__cause__, "code", "") == "missing-part"


@pytest.mark.parametrize(
    "reply",
    [AgentReply(text="Green.", thinking="Hm."), "<think>\nHm.\n</think>\n\nGreen."],
    ids=["reported", "written into the text"],
)
def test_thinking_is_written_to_its_own_field(reply: Any) -> None:
    state = one(llm("{topic}", into="answer", thinking="thinking")).run({}, harness=MockHarness([reply])).state

    assert (state.answer, state.thinking) == ("Green.", "Hm.")


def test_new_messages_are_written_to_a_field() -> None:
    state = one(llm("{topic}", into="answer", messages="rows")).run({}, harness=MockHarness(["Green."])).state

    assert [message.text for message in state.rows] == ["Green."]


def test_fallbacks_are_called_when_the_model_failed() -> None:
    def down(request: Any) -> str:
        raise TransientModelError("down", retry_after_s=0)

    node = llm(
        "{topic}", into="answer", model=FunctionModel(down), fallbacks=[ScriptedModel(["Spare."])], name="writer"
    )

    assert one(node).run({}, sleep=lambda seconds: None).state.answer == "Spare."


def test_a_runtime_may_replace_the_model_by_its_name() -> None:
    node = llm("{topic}", into="answer", model=ScriptedModel([]), name="writer")

    assert one(node).run({}, models={"writer": ScriptedModel(["Other."])}).state.answer == "Other."


def test_reply_is_streamed_to_a_reader() -> None:
    graph = one(llm("{topic}", into="answer", model=ScriptedModel(["Green tea."])))

    shown = [one.item for one in graph.stream({}, modes="messages")]
    pieces = [item.text for item in shown if isinstance(item, TextDelta)]

    assert "".join(pieces) == "Green tea."


def test_failed_call_follows_on_error_and_leaves_no_flag() -> None:
    def down(request: Any) -> str:
        raise TransientModelError("down", retry_after_s=0)

    g = GraphBuilder(State)
    g.add_node("ask", llm("{topic}", into="answer", harness=MockHarness([down])), on_error="keep")
    g.add_node("keep", record_error())
    g.add_edge(START, "ask").add_edge("keep", END)

    steps = list(g.compile().steps({}))

    assert [(step.node, step.outcome) for step in steps][-1] == ("keep", "success")
    assert steps[-1].after.error["type"] == "TransientModelError"


def test_limit_of_the_agent_without_an_output_is_an_error() -> None:
    call = ToolCall(id="1", name="area", arguments={"width": 1})
    limits = AgentLimits(model_calls=1, on_limit="stop")
    agent = Agent(ScriptedModel([call]), tools=[area], limits=limits)

    with pytest.raises(AgentLimitError, match="has no output"):
        one(llm("{topic}", into="answer", output=Title, harness=agent)).run({})


def test_subagent_works_with_its_own_tools_and_keeps_its_conversation() -> None:
    agent = Agent(ScriptedModel([ToolCall(id="1", name="area", arguments={"width": 3}), "Nine."]), tools=[area])

    result = one(subagent(agent, "Measure {topic}.", into="answer", messages="rows")).run({})

    assert result.state.answer == "Nine."
    assert [message.role for message in result.state.rows] == ["assistant", "tool", "assistant"]


def test_subagent_has_its_own_budget() -> None:
    agent = Agent(ScriptedModel([ToolCall(id="1", name="area", arguments={"width": 3}), "Nine."]), tools=[area])

    with pytest.raises(Exception, match="budget of one use"):
        one(subagent(agent, "{topic}", into="answer", budget=Budget(calls=1))).run({})


def test_later_nodes_read_the_writes_of_earlier_ones() -> None:
    mock = MockHarness(["a", "b"])

    chain(first=llm("{topic}", into="answer"), second=llm("then {answer}", into="verdict")).run({}, harness=mock)

    assert asked(mock) == ["tea", "then a"]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: llm(3, into="answer"), "The prompt of llm"),
        (lambda: llm("x", into=""), "into= of llm"),
        (lambda: llm("x", into={"answer": "title"}), "needs output="),
        (lambda: llm("x", into="answer", thinking="answer"), "another field for each result"),
        (lambda: llm("x", into="answer", modle="m"), "'modle', which is not an option"),
        (lambda: llm("x", into="answer", fallbacks=["m"]), "needs model="),
        (
            lambda: llm("x", into="answer", model=ScriptedModel([]), harness=MockHarness([])),
            "does not go with harness=",
        ),
        (lambda: subagent(MockHarness([]), "x", into="answer"), "cannot be MockHarness|Pass an Agent"),
    ],
)
def test_invalid_arguments_are_refused_at_once(make: Any, text: str) -> None:
    with pytest.raises(InputError, match=text) as caught:
        make()
    assert caught.value.code == "input"
