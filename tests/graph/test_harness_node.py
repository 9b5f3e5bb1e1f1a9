"""An agent or harness as the argument of `add_node`."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel

from graphrt import START, DefinitionError, GraphBuilder, InputError, MockHarness
from graphrt.harness import Agent, Message, ScriptedModel, Template, ToolCall, UserMessage
from graphrt.reducers import append, messages


class Chat(TypedDict):
    chat: Annotated[list[Message], messages]


class State(BaseModel):
    question: str = ""
    answer: str = ""
    why: str = ""
    rows: Annotated[list[Any], append] = []


def built(harness: Any, state: Any = State, **policy: Any) -> Any:
    return GraphBuilder(state).add_node("ask", harness, **policy).add_edge(START, "ask").compile()


def area(width: int) -> int:
    """The area."""
    return width * width


def test_an_agent_continues_the_conversation_of_the_state() -> None:
    agent = Agent(ScriptedModel([ToolCall(id="1", name="area", arguments={"width": 3}), "Nine."]), tools=[area])

    result = built(agent, Chat).run({"chat": [UserMessage(text="How large is 3?")]})

    assert [message.role for message in result.state["chat"]] == ["user", "assistant", "tool", "assistant"]
    assert result.usage.calls == 2


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ({"text": "Hi."}, "Field 'role' required"),
        ({"role": "person", "text": "Hi."}, "Field 'role' should be 'system', 'user', 'assistant', 'tool'"),
        ({"role": "assistant", "content": "Hi."}, "The text of a message belongs to 'text', not to 'content'"),
        ({"role": "assistant", "txt": "Hi."}, r"assistant\.txt: Unexpected keyword argument"),
        ("Hi.", "Input should be a dictionary or an instance"),
    ],
)
def test_mapping_that_is_no_message_is_refused(message: Any, problem: str) -> None:
    graph = built(MockHarness(["Hello."]), Chat)
    with pytest.raises(InputError, match=problem):
        graph.run({"chat": [message]})


def test_mapping_becomes_the_message_of_its_role() -> None:
    given = [{"role": "user", "text": "Hi."}, {"role": "assistant", "text": "Hello."}, {"role": "user", "text": "How?"}]
    result = built(MockHarness(["So."]), Chat).run({"chat": given})
    assert [message.role for message in result.state["chat"]] == ["user", "assistant", "user", "assistant"]


def test_field_named_messages_is_also_a_conversation() -> None:
    class Named(BaseModel):
        messages: Annotated[list[Any], append] = []

    result = built(MockHarness(["Hello."]), Named).run({"messages": [UserMessage(text="Hi.")]})

    assert [message.text for message in result.state.messages] == ["Hi.", "Hello."]


@pytest.mark.parametrize(
    "source", ["question", Template("{question}"), lambda state: state.question], ids=["field", "template", "function"]
)
def test_input_is_the_prompt_and_output_the_field(source: Any) -> None:
    mock = MockHarness(["Green."])

    assert built(mock, input=source, output="answer").run({"question": "Which tea?"}).state.answer == "Green."
    assert mock.calls[0].text == "Which tea?"


def test_output_maps_fields_to_parts_of_the_reply() -> None:
    graph = built(MockHarness(["Green."]), input="question", output={"answer": "text", "rows": "new_messages"})

    state = graph.run({"question": "Which?"}).state
    assert (state.answer, state.rows[0].text) == ("Green.", "Green.")
    assert graph.topology()["nodes"][0]["writes"] == ["answer", "rows"]


def test_node_offers_only_the_tools_that_it_names() -> None:
    model = ScriptedModel(["None."])

    built(Agent(model, tools=[area]), input="question", output="answer", tools=[]).run({"question": "?"})

    assert model.calls[0].tools == ()


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ({}, "no field for its prompt"),
        ({"input": "question"}, "no field for its answer"),
        ({"input": 3, "output": "answer"}, "has the input 3"),
        ({"input": "question", "output": 3}, "has the output 3"),
        ({"input": "question", "output": {"answer": "txt"}}, "has the output 'txt'"),
    ],
    ids=str,
)
def test_ambiguous_prompt_or_answer_is_a_finding(policy: Any, text: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        built(MockHarness(["x"]), **policy)

    [problem] = [one for one in caught.value.problems if one.code == "bad-harness-node"]
    assert text in problem.message.replace("the state has no", "has no")


def test_misspelled_field_is_a_finding() -> None:
    with pytest.raises(DefinitionError) as caught:
        built(MockHarness(["x"]), input="qestion", output="anwser")

    assert [problem.code for problem in caught.value.problems] == ["unknown-read", "bad-update-type"]
