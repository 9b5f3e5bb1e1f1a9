"""The values of `models=` and `override`, and names in them that match no agent."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.errors import InputError
from graphrt.harness import Agent, Compaction, FunctionModel, LiteLLMModel, MockHarness, ScriptedModel
from graphrt.reducers import append
from graphrt.stores import MemoryStore


class State(BaseModel):
    said: Annotated[list[str], append] = []


writer = Agent(ScriptedModel(), name="writer")


async def bare(state: State) -> Any:
    return {"said": [(await writer.run("write")).text]}


async def direct(state: State, ctx: Context) -> Any:
    return {"said": [(await writer.run("write")).text]}


def graph(*nodes: Any) -> Any:
    builder = GraphBuilder(State)
    names = [f"n{number}" for number in range(len(nodes))]
    for known, node in zip(names, nodes, strict=True):
        builder.add_node(known, node)
    builder.add_sequence([START, *names, END])
    return builder.compile()


def test_doubles_of_unused_summary_and_handoff_agents_are_not_a_mistake() -> None:
    """No request was too long for a summary, and nothing was handed over."""
    second = Agent(ScriptedModel(), name="second")
    short = Compaction(tokens=1_000, summarise=ScriptedModel())
    first = Agent(ScriptedModel(["done"]), name="first", handoffs=[second], compaction=short)
    g = GraphBuilder(State)
    g.add_node("first", first, input=lambda state: "go", output={"said": "tool_calls"})
    doubles = {name: FunctionModel(lambda request: "done") for name in ("second", "first-summary", "third")}
    (warning,) = g.set_entry("first").compile().run({}, models=doubles).warnings

    assert "models= has 'third'" in warning


# -- the values ------------------------------------------------------------------------------------------------------


def test_string_names_a_model_of_litellm():
    runtime = Runtime(graph(bare), models={"writer": "openai/x"})

    assert isinstance(runtime.models["writer"], LiteLLMModel)


@pytest.mark.parametrize(
    ("models", "code", "told"),
    [
        ([], "input", "models= cannot be"),
        ({1: ScriptedModel()}, "input", "A name in models= cannot be 1"),
        ({"a/b": ScriptedModel()}, "input", "A name in models= cannot be 'a/b'"),
        ({"writer": 3}, "no-model", "models= for agent 'writer' is an int"),
        ({"writer": ScriptedModel}, "no-model", "models= for agent 'writer' is the class ScriptedModel"),
        ({"writer": MockHarness([])}, "no-model", "give a ScriptedModel where you would give a MockHarness"),
    ],
)
def test_value_that_cannot_be_a_model_is_refused_where_the_runtime_is_created(models, code, told):
    with pytest.raises(InputError) as refused:
        Runtime(graph(bare), models=models)

    assert refused.value.code == code
    assert told in str(refused.value)


def test_override_refuses_values_that_are_not_models():
    with pytest.raises(InputError) as refused:
        writer.override(model=MockHarness([]))  # type: ignore[arg-type]

    assert refused.value.code == "no-model"


# -- names without an agent ------------------------------------------------------------------------------------------


def test_name_without_an_agent_is_a_warning_of_the_result():
    result = graph(direct).run({}, models={"writer": ScriptedModel(["x"]), "wirter": ScriptedModel()})

    assert result.warnings == (
        "models= has 'wirter', but no agent of that name was run. Agents that were: 'writer'; did you mean 'writer'?",
    )


def test_runtime_remembers_over_a_pause_which_agents_it_has_run():
    def pause(state: State, ctx: Context) -> Any:
        ctx.interrupt("go on?")

    with Runtime(graph(direct, pause), store="memory:", models={"writer": ScriptedModel(["x"])}) as runtime:
        paused = runtime.run({}, thread="t")
        result = runtime.resume("t", "yes")

    assert (paused.status, paused.warnings, result.warnings) == ("interrupted", (), ())


def test_runtime_that_only_resumes_a_run_does_not_warn_about_names():
    def pause(state: State, ctx: Context) -> Any:
        ctx.interrupt("go on?")

    store = MemoryStore()
    with Runtime(graph(direct, pause), store=store, models={"writer": ScriptedModel(["x"])}) as runtime:
        runtime.run({}, thread="t")
    with Runtime(graph(direct, pause), store=store, models={"writer": ScriptedModel([])}) as other:
        assert other.resume("t", "yes").warnings == ()


def test_pause_is_too_early_for_a_warning_about_names():
    def pause(state: State, ctx: Context) -> Any:
        ctx.interrupt("go on?")

    with Runtime(graph(pause, direct), store="memory:", models={"writer": ScriptedModel(["x"])}) as runtime:
        assert runtime.run({}, thread="t").warnings == ()


def test_results_without_models_have_no_warnings():
    assert graph(lambda state: None).run({}).warnings == ()
