"""A value in a script of a double stands for the answer with that output."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypedDict

import pytest
from pydantic import BaseModel, Field, SecretStr

from graphrt import START, Context, GraphBuilder, Runtime
from graphrt.errors import InputError, NodeError, ScriptError
from graphrt.harness import (
    Agent,
    FunctionModel,
    MockHarness,
    ModelProfile,
    ModelRequest,
    OutputSpec,
    ScriptedModel,
    expect,
)


class Label(BaseModel):
    name: str
    score: float = Field(alias="howSure", default=0.5)


class Other(BaseModel):
    name: str


class Locked(BaseModel):
    key: SecretStr


@dataclass
class Point:
    x: int
    y: int = 0


class Named(TypedDict):
    name: str


class Tone(Enum):
    KIND = "kind"


LABEL = Label(name="spam", howSure=0.9)
VALUES: list[tuple[Any, Any]] = [
    (Label, LABEL),
    (Point, Point(3)),
    (Named, {"name": "x"}),
    (list[Label], [LABEL, LABEL]),
    (list[str], []),
    (dict[str, int], {"a": 1}),
    (int, 3),
    (bool, False),
    (float, 0.5),
    (Tone, Tone.KIND),
    (Literal["a", 1], 1),
    (Label | Point, Point(1, 2)),
    (tuple[int, str], (1, "a")),
]
DOUBLES = pytest.mark.parametrize(
    "make",
    [
        lambda value: ScriptedModel([value]),
        lambda value: ScriptedModel({"which": [value]}),
        lambda value: ScriptedModel([expect("which", reply=value)]),
        lambda value: ScriptedModel([lambda request: value]),
        lambda value: FunctionModel(lambda request: value),
    ],
    ids=["item", "rule", "expected", "made", "function"],
)


class State(TypedDict, total=False):
    said: Any


def graph(wanted: Any) -> Any:
    async def node(state: State, ctx: Context) -> State:
        return {"said": (await ctx.harness.run("which?", output=wanted)).output}

    builder = GraphBuilder(State)
    builder.add_node("ask", node)
    builder.add_edge(START, "ask")
    return builder.compile()


@DOUBLES
@pytest.mark.parametrize(("wanted", "value"), VALUES)
def test_agent_parses_the_value_in_the_script_of_its_model(wanted, value, make):
    reply = asyncio.run(Agent(make(value), output=wanted).run("which?"))

    assert reply.output == value
    assert type(reply.output) is type(value)
    assert reply.output is not value or isinstance(value, (int, float, Enum))
    assert reply.messages[-1].text == reply.text


@pytest.mark.parametrize(("wanted", "value"), VALUES)
def test_graph_parses_the_value_in_the_script_of_its_harness(wanted, value):
    with MockHarness([value]) as mock:
        assert graph(wanted).run({}, harness=mock).state["said"] == value


def test_text_is_what_a_model_would_have_written():
    def text(value: Any, wanted: Any) -> Any:
        return json.loads(asyncio.run(MockHarness([value]).run("which?", output=wanted)).text)

    assert text(LABEL, Label) == {"name": "spam", "howSure": 0.9}
    assert text([1, 2], list[int]) == {"value": [1, 2]}
    assert text({"any": None}, OutputSpec(name="any", schema={})) == {"any": None}


def test_typed_answer_is_recorded_like_any_answer():
    async def node(state: State, ctx: Context) -> State:
        label = (await ctx.harness.run("which?", output=Label)).output
        ctx.interrupt("sure?")
        return {"said": label.name}

    builder = GraphBuilder(State)
    builder.add_node("ask", node)
    builder.add_edge(START, "ask")
    with MockHarness([LABEL]) as mock, Runtime(builder.compile(), store="memory:", harness=mock) as runtime:
        runtime.run({}, thread="t")
        assert runtime.resume("t", True).state["said"] == "spam"


def test_typed_answer_is_streamed_and_counted_as_its_text():
    async def last() -> Any:
        return [item async for item in MockHarness([{"a": 1}]).stream("which?", output=dict[str, int])]

    *pieces, reply = asyncio.run(last())

    assert "".join(piece.text for piece in pieces) == reply.text
    assert reply.usage.output_tokens == 1


def test_list_as_a_rule_is_several_replies_and_a_nested_list_is_one():
    model = ScriptedModel({"which": [["a", "b"], ["c"]]})
    agent = Agent(model, output=list[str])

    assert [asyncio.run(agent.run("which?")).output for _ in range(2)] == [["a", "b"], ["c"]]


def test_value_requires_a_form_that_is_requested_by_its_schema():
    """If the form is requested in words, a double cannot read it."""
    model = ScriptedModel([LABEL], profile=ModelProfile(name="m", output_schema=False))

    with pytest.raises(ScriptError, match="the call has no output="):
        asyncio.run(Agent(model, output=Label).run("which?"))


# -- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "value", "told"),
    [
        (Label, Other(name="x"), "a value of type Other: the call has output=Label: .*instance of Label"),
        (Label, {"title": "x"}, "output=Label: name: Field required"),
        (int, 3.5, "output=int: the answer: .*fractional"),
        (list[int], [1, "b"], r"output=list: 1: Input should be a valid integer"),
        (Locked, Locked(key=SecretStr("hunter2")), "is read as another value"),
        (None, LABEL, "a value of type Label: the call has no output="),
        (None, 3, "a value of type int: the call has no output="),
        (OutputSpec(name="any", schema={}), {"a": object()}, "output=any: Unable to serialize"),
    ],
)
@pytest.mark.parametrize("double", [MockHarness, ScriptedModel])
def test_value_of_another_form_fails_the_call_and_the_test(double, wanted, value, told):
    made = double([value])
    harness = made if double is MockHarness else Agent(made)

    with pytest.raises(ScriptError, match=told) as failed:
        asyncio.run(harness.run("which?", output=wanted))
    assert failed.value.code == "script-output"
    with pytest.raises(ScriptError, match=told):
        made.assert_done()


def test_value_of_another_form_fails_a_run():
    with pytest.raises(NodeError, match="the call has output=Label"):
        graph(Label).run({}, harness=MockHarness([Other(name="x")]))


@pytest.mark.parametrize("script", [[Label], ["fine", Point], [None], [int]])
def test_class_and_none_are_refused_where_the_script_is_written(script):
    with pytest.raises(InputError, match="item"):
        MockHarness(script)


def test_function_without_a_return_value_is_refused_at_the_call():
    def forgot(request: ModelRequest) -> Any:
        return None

    with pytest.raises(InputError, match=r"A reply of the .* cannot be None"):
        asyncio.run(ScriptedModel([forgot]).invoke(ModelRequest.build("which?", {})))
