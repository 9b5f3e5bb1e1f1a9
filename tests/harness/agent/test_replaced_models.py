"""Models of agents that a test, or a runtime, replaces: by the agent itself, and by its name."""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from graphrt import END, START, Budget, Context, GraphBuilder, Runtime, Send
from graphrt.errors import BudgetExceededError, InputError, ScriptError, TransientModelError
from graphrt.harness import (
    Agent,
    FunctionModel,
    GraphTool,
    ModelProfile,
    ScriptedModel,
    ToolCall,
)
from graphrt.reducers import append


class State(BaseModel):
    said: Annotated[list[str], append] = []


class City(BaseModel):
    name: str


def unasked(_: Any) -> str:
    raise AssertionError("the agent's own model was asked")


def agent(name: str, **options: Any) -> Agent[Any]:
    return Agent(FunctionModel(unasked), name=name, max_tokens=9, retry=None, **options)


def asks(name: str, tool: str) -> ToolCall:
    return ToolCall(id=name, name=tool, arguments={"question": "well?"})


def graph(*nodes: Any, name: str = "talk") -> Any:
    builder = GraphBuilder(State, name=name)
    names = [f"n{number}" for number in range(len(nodes))]
    for known, node in zip(names, nodes, strict=True):
        builder.add_node(known, node)
    builder.add_sequence([START, *names, END])
    return builder.compile()


writer, critic = agent("writer"), agent("critic")


async def bare(state: State) -> Any:
    return {"said": [(await writer.run("write")).text]}


async def direct(state: State, ctx: Context) -> Any:
    return {"said": [(await writer.run("write")).text]}


async def bound(state: State, ctx: Context) -> Any:
    return {"said": [(await ctx.bind(writer).run("write")).text]}


def called(state: State, ctx: Context) -> Any:
    return {"said": [ctx.call(writer.run, "write").text]}


def called_bound(state: State, ctx: Context) -> Any:
    return {"said": [ctx.call(ctx.bind(writer).run, "write").text]}


async def harness(state: State, ctx: Context) -> Any:
    return {"said": [(await ctx.harness.run("write")).text]}


NODES = pytest.mark.parametrize("node", [bare, direct, bound, called, called_bound, harness])


def drive(runtime: Runtime[Any], verb: str) -> list[str]:
    async def collect(items: Any) -> list[Any]:
        return [item async for item in items]

    match verb:
        case "run":
            return runtime.run({}).state.said
        case "arun":
            return asyncio.run(runtime.arun({})).state.said
        case "steps":
            return [said for step in runtime.steps({}) for said in step.update["said"]]
        case "asteps":
            return [said for step in asyncio.run(collect(runtime.asteps({}))) for said in step.update["said"]]
        case "stream":
            return list(runtime.stream({}, modes=["values", "messages"]))[-1][1].said
        case _:
            return asyncio.run(collect(runtime.astream({}, modes=["values", "messages"])))[-1][1].said


VERBS = pytest.mark.parametrize("verb", ["run", "arun", "steps", "asteps", "stream", "astream"])


@VERBS
@NODES
def test_models_of_a_runtime_are_used_for_every_access_to_the_agent(node, verb):
    with ScriptedModel(["scripted"]) as model:
        runtime = Runtime(graph(node), harness=writer, models={"writer": model})

        assert drive(runtime, verb) == ["scripted"]


@VERBS
@NODES
def test_override_is_used_for_every_access_to_the_agent(node, verb):
    with ScriptedModel(["scripted"]) as model, writer.override(model=model):
        assert drive(Runtime(graph(node), harness=writer), verb) == ["scripted"]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_parallel_tasks_see_the_replaced_model(asynchronous):
    async def later(state: State, ctx: Context) -> Any:
        return {"said": [(await writer.run(f"write {ctx.arg}")).text]}

    def here(state: State, ctx: Context) -> Any:
        return {"said": [ctx.call(writer.run, f"write {ctx.arg}").text]}

    builder = GraphBuilder(State)
    builder.add_node("plan", lambda state: None)
    builder.add_node("work", later if asynchronous else here)
    builder.add_conditional_edges("plan", lambda state: [Send("work", n) for n in range(3)], ["work"])
    builder.set_entry("plan")
    builder.set_finish("work")
    built, model = builder.compile(), FunctionModel(lambda request: request.text)

    assert built.run({}, models={"writer": model}).state.said == ["write 0", "write 1", "write 2"]
    with writer.override(model=model):
        assert asyncio.run(built.arun({})).state.said == ["write 0", "write 1", "write 2"]


@VERBS
def test_stream_does_not_change_the_context_of_its_reader(verb):
    runtime = Runtime(graph(bare), models={"writer": ScriptedModel(["scripted"])})
    drive(runtime, verb)

    with pytest.raises(AssertionError):
        asyncio.run(writer.run("write"))


def test_reader_of_steps_has_its_own_models_between_them():
    outside = Agent(ScriptedModel(["own"]), name="writer")
    steps = Runtime(graph(bare, bare), models={"writer": ScriptedModel(["one", "two"])}).steps({})

    next(steps)
    reply = asyncio.run(outside.run("write"))

    assert (reply.text, [step.update["said"] for step in steps]) == ("own", [["two"]])


def test_sub_agent_is_also_replaced():
    above = agent("chief", tools=[writer.as_tool("helper", description="Writes.")])
    chief, below = ScriptedModel([asks("1", "helper"), "done"]), ScriptedModel(["written"])

    async def node(state: State, ctx: Context) -> Any:
        return {"said": [(await ctx.bind(above).run("go")).text]}

    result = graph(node).run({}, models={"chief": chief, "writer": below})
    assert (result.state.said, below.calls[0].text, result.warnings) == (["done"], "well?", ())

    with (
        above.override(model=ScriptedModel([asks("1", "helper"), "done"])),
        writer.override(model=ScriptedModel(["x"])),
    ):
        assert asyncio.run(above.run("go")).text == "done"


def test_nested_graphs_and_graphs_as_tools_see_the_models_of_the_run():
    inner = graph(direct, name="inner")
    chief = agent("chief", tools=[GraphTool(inner, description="Writes.", input=State)])

    async def node(state: State, ctx: Context) -> Any:
        return {"said": [(await ctx.bind(chief).run("go")).text]}

    outer = graph(inner, node)
    scripts = {
        "writer": ScriptedModel(["nested", "as a tool"]),
        "chief": ScriptedModel([ToolCall(id="1", name="inner", arguments={}), "done"]),
    }

    result = outer.run({}, models=scripts)

    assert (result.state.said, result.warnings) == (["nested", "done"], ())
    assert [model.remaining for model in scripts.values()] == [0, 0]


def test_blocks_nest_and_the_innermost_wins():
    with writer.override(model=ScriptedModel(["outer"])) as outer:
        with writer.override(model=ScriptedModel(["inner"])) as inner:
            assert asyncio.run(writer.run("write")).text == "inner"
        assert asyncio.run(writer.run("write")).text == "outer"

    assert (inner.calls, outer.calls) == (inner.calls[:1], outer.calls[:1])


def test_override_wins_over_the_models_of_a_runtime_without_a_warning():
    with writer.override(model=ScriptedModel(["override"])):
        result = graph(direct).run({}, models={"writer": FunctionModel(unasked)})

    assert (result.state.said, result.warnings) == (["override"], ())


def test_inner_of_two_runtimes_wins():
    inner = graph(bare, name="inner")

    async def node(state: State) -> Any:
        result = await inner.arun({}, models={"writer": ScriptedModel(["inner"])})
        return {"said": [*result.state.said, (await writer.run("write")).text]}

    assert graph(node).run({}, models={"writer": ScriptedModel(["outer"])}).state.said == ["inner", "outer"]


def test_own_model_is_restored_after_an_exception():
    with pytest.raises(ZeroDivisionError), writer.override(model=ScriptedModel()):
        raise ZeroDivisionError

    with pytest.raises(AssertionError):
        asyncio.run(writer.run("write"))


def test_tasks_have_their_own_overrides():
    async def one(text: str, other: asyncio.Event, mine: asyncio.Event) -> str:
        with writer.override(model=ScriptedModel([text])):
            mine.set()
            await other.wait()
            return (await writer.run("write")).text

    async def both() -> list[str]:
        first, second = asyncio.Event(), asyncio.Event()
        return await asyncio.gather(one("a", first, second), one("b", second, first))

    assert asyncio.run(both()) == ["a", "b"]


def test_other_worker_threads_are_not_affected():
    found: list[Any] = []

    def elsewhere() -> None:
        try:
            asyncio.run(writer.run("write"))
        except AssertionError as error:
            found.append(error)

    with writer.override(model=ScriptedModel()):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()

    assert len(found) == 1


def test_override_decorates_sync_and_async_functions():
    model = ScriptedModel(["one", "two", "three"])

    @writer.override(model=model)
    def here(text: str) -> str:
        return asyncio.run(writer.run(text)).text

    @writer.override(model=model)
    async def later(text: str) -> str:
        return (await writer.run(text)).text

    assert (here("a"), asyncio.run(later("b")), here(text="c")) == ("one", "two", "three")
    assert here.__name__ == "here"


def test_override_refuses_to_decorate_a_generator():
    with pytest.raises(InputError, match="is a generator") as refused:

        @writer.override(model=ScriptedModel())
        def fixture() -> Any:
            yield

    assert refused.value.code == "bad-override"


def test_block_that_ends_in_another_context_removes_nothing_there():
    block = writer.override(model=ScriptedModel())

    with writer.override(model=ScriptedModel(["still there"])):
        block.__exit__(None, None, None)
        assert asyncio.run(writer.run("write")).text == "still there"


def test_a_replaced_model_has_no_fallbacks():
    with_fallback = agent("careful", fallbacks=[FunctionModel(unasked)])

    with with_fallback.override(model=ScriptedModel([TransientModelError("down")])), pytest.raises(TransientModelError):
        asyncio.run(with_fallback.run("go"))


# -- recorded replies and costs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["name", "override"])
@pytest.mark.parametrize("in_words", [(False, False), (True, False), (False, True)])
def test_recorded_replies_of_a_paused_thread_are_kept_when_its_model_is_replaced(tmp_path, by, in_words):
    before, after = (ModelProfile(name="m", output_schema=not words) for words in in_words)
    first = ScriptedModel(['{"name": "Rome"}'], profile=before)
    geographer = Agent(first, name="geographer", output=City, max_tokens=9)

    async def node(state: State, ctx: Context) -> Any:
        city = (await ctx.bind(geographer).run("where?")).output
        ctx.interrupt("sure?")
        return {"said": [city.name, (await geographer.run("and then?")).output.name]}

    store = f"sqlite:///{tmp_path / 'runs.db'}"
    with Runtime(graph(node), store=store, budget=Budget(calls=2)) as runtime:
        assert runtime.run({}, thread="t").status == "interrupted"

    with ScriptedModel(['{"name": "Bari"}'], profile=after) as model:
        if by == "name":
            with Runtime(graph(node), store=store, budget=Budget(calls=2), models={"geographer": model}) as runtime:
                result = runtime.resume("t", True)
        else:
            with Runtime(graph(node), store=store, budget=Budget(calls=2)) as runtime, geographer.override(model=model):
                result = runtime.resume("t", True)

    assert (result.state.said, len(first.calls), result.usage.calls) == (["Rome", "Bari"], 1, 2)


def test_replaced_model_is_limited_by_the_budget_of_the_run():
    with pytest.raises(BudgetExceededError):
        graph(direct).run({}, budget=Budget(calls=0), models={"writer": ScriptedModel(["x"])})


def test_replaced_model_stays_strict():
    with pytest.raises(Exception) as failed:
        graph(direct, direct).run({}, models={"writer": ScriptedModel(["one"])})

    assert isinstance(failed.value.__cause__, ScriptError)
