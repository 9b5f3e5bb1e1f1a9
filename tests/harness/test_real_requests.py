"""Real model requests can be forbidden in a process: which requests are real, who decides, and the text of the refusal."""

from __future__ import annotations

import asyncio
import pickle
import sys
from collections.abc import Iterator
from typing import Any, TypedDict

import pytest

from graphrt import START, Budget, GraphBuilder, Runtime
from graphrt.errors import InputError, ModelRequestForbiddenError, NodeError
from graphrt.harness import (
    Agent,
    Cassette,
    GraphTool,
    LiteLLMHarness,
    LiteLLMModel,
    ScriptedModel,
    ToolCall,
    allow_model_requests,
)
from graphrt.harness.litellm import _client as adapter
from graphrt.harness.real_requests import forbidden
from graphrt.testing import FakeChatServer

VARIABLE = "GRAPHRT_ALLOW_MODEL_REQUESTS"


@pytest.fixture(autouse=True)
def _as_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(VARIABLE, raising=False)
    with allow_model_requests(None):
        yield


@pytest.fixture
def no_litellm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make an import of litellm fail."""
    adapter.load.cache_clear()
    monkeypatch.setitem(sys.modules, "litellm", None)
    yield
    adapter.load.cache_clear()


class State(TypedDict, total=False):
    said: str


def graph(node: Any) -> Any:
    builder = GraphBuilder(State, name="talk")
    builder.add_node("ask", node)
    builder.add_edge(START, "ask")
    return builder.compile()


def run(asked: Any, verb: str) -> None:
    async def stream() -> None:
        async for _ in asked.stream("hi"):
            pass

    asyncio.run(asked.run("hi") if verb == "run" else stream())


# -- refused requests ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_litellm")
@pytest.mark.parametrize("verb", ["run", "stream"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: LiteLLMHarness("openai/x"),
        lambda: Agent("openai/x", name="writer"),
        lambda: Agent("openai/x", name="writer", output=int, budget=Budget(usd=1)),
        lambda: Agent("openai/x", name="writer", retry=9, fallbacks=[ScriptedModel(["no"])]),
    ],
)
def test_real_request_is_refused_before_litellm_is_imported(make, verb):
    asked = make()

    with allow_model_requests(False), pytest.raises(ModelRequestForbiddenError) as refused:
        run(asked, verb)

    assert refused.value.code == "model-request-forbidden"
    assert "to model 'openai/x' is forbidden" in str(refused.value)
    assert "allow_model_requests(False) was called" in str(refused.value)
    assert ("agent 'writer'" in str(refused.value)) == isinstance(asked, Agent)
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


def asks_bound(agent: Any) -> Any:
    async def node(state: State, ctx: Any) -> State:
        return {"said": (await ctx.bind(agent).run("hi")).text}

    return node


def asks_directly(agent: Any) -> Any:
    async def node(state: State, ctx: Any) -> State:
        return {"said": (await agent.run("hi")).text}

    return node


def asks_from_a_sync_node(agent: Any) -> Any:
    def node(state: State, ctx: Any) -> State:
        return {"said": ctx.call(agent.run, "hi").text}

    return node


@pytest.mark.usefixtures("no_litellm")
@pytest.mark.parametrize("asks", [asks_bound, asks_directly, asks_from_a_sync_node])
@pytest.mark.parametrize("budget", [None, Budget(usd=1.0)])
@pytest.mark.parametrize("make", [lambda: Agent("openai/x", name="writer"), lambda: LiteLLMHarness("openai/x")])
def test_error_of_a_node_names_agent_node_graph_and_thread(make, asks, budget):
    asked = make()
    with (
        allow_model_requests(False),
        Runtime(graph(asks(asked)), store="memory:", budget=budget) as runtime,
        pytest.raises(ModelRequestForbiddenError) as refused,
    ):
        runtime.run({}, thread="t-1")

    error = refused.value
    assert (error.node, error.graph, error.thread, error.model) == ("ask", "talk", "t-1", "openai/x")
    assert "in node 'ask'" in error.what
    assert "graph 'talk'" in str(error)
    assert "thread 't-1'" in str(error)
    if isinstance(asked, Agent):
        assert "of agent 'writer'" in error.what
        assert "models={'writer': ScriptedModel([...])}" in error.fix


def test_names_of_replaced_models_are_known():
    agent = Agent("openai/x", name="writer")

    with allow_model_requests(False), pytest.raises(ModelRequestForbiddenError) as refused:
        graph(asks_bound(agent)).run({}, models={"writter": ScriptedModel(["hi"])})

    assert refused.value.known.endswith("; models= has 'writter'")


def test_outer_agents_are_also_named():
    below = Agent("openai/x", name="below")
    above = Agent(
        ScriptedModel([ToolCall(id="1", name="below", arguments={"question": "well?"})]),
        name="above",
        tools=[below.as_tool(description="Knows.")],
    )

    with allow_model_requests(False), pytest.raises(ModelRequestForbiddenError, match="agent 'above' > agent 'below'"):
        graph(asks_bound(above)).run({})


def test_node_without_a_context_is_named_by_the_outer_error():
    agent = Agent("openai/x", name="writer")

    async def node(state: State) -> State:
        return {"said": (await agent.run("hi")).text}

    with allow_model_requests(False), pytest.raises(NodeError, match=r"Node 'ask' failed.*agent 'writer'") as failed:
        graph(node).run({})

    assert isinstance(failed.value.__cause__, ModelRequestForbiddenError)


@pytest.mark.parametrize("with_context", [True, False])
def test_refusal_in_a_graph_as_a_tool_is_not_reported_to_the_model(with_context):
    agent = Agent("openai/x", name="writer")

    async def bare(state: State) -> State:
        return {"said": (await agent.run("hi")).text}

    inner = graph(asks_directly(agent) if with_context else bare)
    script = ScriptedModel([ToolCall(id="1", name="talk", arguments={})])
    above = Agent(script, name="above", tools=[GraphTool(inner, description="Talks.", input=State)])

    with allow_model_requests(False), pytest.raises((ModelRequestForbiddenError, NodeError)):
        asyncio.run(above.run("go"))
    assert len(script.calls) == 1


# -- allowed requests ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("api_base", "real"),
    [
        (None, True),
        ("https://api.openai.com/v1", True),
        ("http://10.0.0.7:8000", True),
        ("http://127.0.0.1:8000/v1", False),
        ("http://127.9.9.9", False),
        ("http://localhost:11434", False),
        ("http://LOCALHOST", False),
        ("http://model.localhost", False),
        ("http://[::1]:8000/v1", False),
        ("http://[::ffff:10.0.0.7]:8000/v1", True),
        ("http://localhost.example.com", True),
        ("http://127.0.0.1.example.com", True),
        ("http://127.0.0.1@example.com/", True),
        ("http://example.com\\@127.0.0.1/", True),
        ("http://[::1", True),
        ("localhost:8000", True),
        ("", True),
    ],
)
def test_address_of_this_machine_is_not_real(api_base, real):
    with allow_model_requests(False):
        assert forbidden(api_base) == real


@pytest.mark.needs("litellm")
def test_server_on_this_machine_is_called():
    with FakeChatServer(["fine"]) as server, allow_model_requests(False):
        model = LiteLLMModel("openai/x", api_base=server.url, api_key="none")

        assert asyncio.run(Agent(model).run("hi")).text == "fine"


@pytest.mark.usefixtures("no_litellm")
def test_replaying_cassette_is_called(tmp_path):
    path = tmp_path / "answers.json"
    with Cassette(path, mode="record") as cassette:
        asyncio.run(Agent(cassette.model(ScriptedModel(["recorded"]))).run("hi"))

    with allow_model_requests(False), Cassette(path, mode="replay") as cassette:
        agent = Agent(cassette.model(LiteLLMModel("scripted")), output=None)
        assert asyncio.run(agent.run("hi")).text == "recorded"


@pytest.mark.usefixtures("no_litellm")
def test_recording_cassette_is_refused(tmp_path):
    with (
        allow_model_requests(False),
        pytest.raises(ModelRequestForbiddenError),
        Cassette(tmp_path / "answers.json", mode="record") as cassette,
    ):
        asyncio.run(Agent(cassette.model(LiteLLMModel("openai/x"))).run("hi"))


def test_doubles_are_called():
    with allow_model_requests(False):
        assert asyncio.run(Agent(ScriptedModel(["fine"])).run("hi")).text == "fine"


@pytest.mark.slow
def test_recorded_answer_of_a_paused_thread_needs_no_request(monkeypatch):
    script = ScriptedModel(["remembered"])
    real = LiteLLMModel("openai/x")
    agent = Agent(real, name="writer")

    async def node(state: State, ctx: Any) -> State:
        said = (await agent.run("hi")).text
        ctx.interrupt("sure?")
        return {"said": said}

    with Runtime(graph(node), store="memory:") as runtime:
        with agent.override(model=script):
            runtime.run({}, thread="t")
        with allow_model_requests(False):
            assert runtime.resume("t", True).state["said"] == "remembered"


# -- who decides -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["0", "false", "False", " 0 ", "no", "OFF"])
def test_environment_can_forbid_requests(monkeypatch, value):
    monkeypatch.setenv(VARIABLE, value)

    with pytest.raises(ModelRequestForbiddenError, match=f"{VARIABLE} is {value!r}"):
        run(LiteLLMHarness("openai/x"), "run")


@pytest.mark.parametrize("value", [None, "", "1", "true", "YES", "on"])
def test_environment_can_allow_requests(monkeypatch, value):
    if value is not None:
        monkeypatch.setenv(VARIABLE, value)

    assert not forbidden(None)


@pytest.mark.parametrize("value", ["2", "never", "-"])
def test_unknown_value_of_the_environment_is_an_error(monkeypatch, value):
    monkeypatch.setenv(VARIABLE, value)

    with pytest.raises(InputError) as refused:
        run(LiteLLMHarness("openai/x"), "run")
    assert refused.value.code == "input"


def test_program_wins_over_the_environment(monkeypatch):
    monkeypatch.setenv(VARIABLE, "0")

    with allow_model_requests(True):
        assert not forbidden(None)
        with allow_model_requests(None):
            assert forbidden(None)
        assert not forbidden(None)
    assert forbidden(None)


def test_setting_without_a_block_applies_until_the_next_call():
    allow_model_requests(False)
    assert forbidden(None)

    allow_model_requests(True)
    assert not forbidden(None)


def test_invalid_setting_is_refused():
    with pytest.raises(InputError) as refused:
        allow_model_requests(0)  # type: ignore[arg-type]
    assert refused.value.code == "input"
