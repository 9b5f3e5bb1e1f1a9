"""The answers of a cassette: errors, streams, replies of harnesses, each as recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.harness.cassettes import ask, counting, read, record, refused, req

from graphrt.errors import AgentLimitError, InputError, RateLimitError, RefusalError, ScriptError
from graphrt.events import Usage
from graphrt.harness import (
    AgentReply,
    FunctionModel,
    MockHarness,
    TextDelta,
    ToolCall,
    ToolSpec,
    UserMessage,
)
from graphrt.harness.cassette import Cassette
from graphrt.harness.protocol import ModelProfile
from graphrt.harness.request import ModelRequest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "er" / "tea.cassette"


# ------------------------------------------------------------------------------------------------ errors and streams


def test_errors_of_models_are_replayed_with_their_class(path: Path) -> None:
    error = RateLimitError("slow down", retry_after_s=1.5, status_code=429, model="m", known="k")
    limit = AgentLimitError("too many", limit="model_calls", messages=(UserMessage(text="hi"),))
    refusal = RefusalError("no", billed=True, usage=Usage(input_tokens=1500, calls=1))
    for failure in (error, limit, refusal):
        for mode in ("rewrite", "replay"):
            cassette = Cassette(path, mode=mode)  # type: ignore[arg-type]
            with pytest.raises(type(failure)) as caught:
                ask(cassette.model(FunctionModel(lambda _, failure=failure: failure)), "a")
            assert vars(caught.value) == vars(failure)
            assert str(caught.value) == str(failure)
            cassette.assert_done()


@pytest.mark.parametrize("failure", [ScriptError("no"), ValueError("no"), type("Own", (RateLimitError,), {})("no")])
def test_other_exceptions_are_not_recorded(path: Path, failure: Exception) -> None:
    cassette = Cassette(path, mode="record")
    with pytest.raises(type(failure)):
        ask(cassette.model(FunctionModel(lambda _: failure)), "a")
    with pytest.raises(type(failure)):
        asyncio.run(read(cassette.model(FunctionModel(lambda _: failure)).stream(req("a"))))

    assert not path.exists()


@dataclass
class Cut:
    """Streams that end in various ways."""

    end: Any
    profile = ModelProfile(name="cut")

    async def invoke(self, request: ModelRequest) -> AgentReply:
        return AgentReply(text="whole")

    async def stream(self, request: ModelRequest) -> Any:
        for text in ("", "one", "  two\n"):
            yield TextDelta(text=text)
        if isinstance(self.end, Exception):
            raise self.end
        if self.end is not None:
            yield self.end


def test_stream_is_replayed_delta_by_delta(path: Path) -> None:
    cut = Cut(AgentReply(text="one  two\n"))
    with Cassette(path, mode="record") as cassette:
        live = asyncio.run(read(cassette.model(cut).stream(req("a"))))
    with Cassette(path) as cassette:
        assert asyncio.run(read(cassette.model(cut).stream(req("a")))) == live
    with Cassette(path) as cassette:
        assert ask(cassette.model(cut), "a") == ["one  two\n"]

    assert [item.text for item in live] == ["", "one", "  two\n", "one  two\n"]  # type: ignore[union-attr]


def test_answer_that_was_recorded_whole_can_also_be_streamed(path: Path) -> None:
    record(path, "a")
    with Cassette(path) as cassette:
        items = asyncio.run(read(cassette.model(counting()).stream(req("a"))))

    assert [item.text for item in items] == ["a", " 1", "a 1"]  # type: ignore[union-attr]


def test_interrupted_stream_is_replayed_up_to_the_break(path: Path) -> None:
    async def go(cassette: Cassette) -> list[str]:
        texts: list[str] = []
        try:
            async for item in cassette.model(Cut(RateLimitError("down"))).stream(req("a")):
                texts += [item.text]  # type: ignore[union-attr]
        except RateLimitError as error:
            texts += [error.what]
        return texts

    with Cassette(path, mode="record") as cassette:
        assert asyncio.run(go(cassette)) == ["", "one", "  two\n", "down"]
    with Cassette(path) as cassette:
        assert asyncio.run(go(cassette)) == ["", "one", "  two\n", "down"]


@pytest.mark.parametrize("most", [1, 4, 5])
def test_reader_that_stops_early_loses_no_part_of_the_answer(path: Path, most: int) -> None:
    async def go() -> None:
        stream = cassette.model(Cut(AgentReply(text="one  two\n"))).stream(req("a"))
        for _ in range(most):
            await anext(stream, None)
        await stream.aclose()

    cassette = Cassette(path, mode="record")
    asyncio.run(go())

    assert path.exists() == (most >= 4)


def test_stream_without_a_reply_is_not_recorded(path: Path) -> None:
    asyncio.run(read(Cassette(path, mode="record").model(Cut(None)).stream(req("a"))))

    assert not path.exists()


# -------------------------------------------------------------------------------------------------------- harnesses


class Plain:
    """A harness that cannot stream."""

    async def run(self, prompt: Any, **options: Any) -> AgentReply:
        return AgentReply(text=f"to {prompt}")


def both(path: Path, use: Callable[[Any], Coroutine[Any, Any, Any]], live: Any, **options: Any) -> tuple[Any, Any]:
    with Cassette(path, mode="record") as cassette:
        one = asyncio.run(use(cassette.harness(live, **options)))
    with Cassette(path) as cassette:
        return one, asyncio.run(use(cassette.harness(**options)))


@pytest.mark.parametrize("live", [Plain(), MockHarness({"tea": "green leaves"})])
def test_recorded_harness_can_be_replayed_without_a_harness(path: Path, live: Any) -> None:
    async def use(harness: Any) -> Any:
        return [await harness.run("tea", system="s", max_tokens=5), await read(harness.stream("tea", temperature=1))]

    one, two = both(path, use, live)

    assert one == two
    assert len(one[1]) > 2


def test_harness_validates_its_arguments_like_every_harness(path: Path) -> None:
    with pytest.raises(InputError, match="temprature"):
        asyncio.run(Cassette(path, mode="record").harness(Plain()).run("a", temprature=1))  # type: ignore[call-arg]


def test_harness_is_optional_in_replay_only(path: Path) -> None:
    with pytest.raises(InputError, match="needs a harness"):
        Cassette(path, mode="record").harness()


def test_harnesses_with_names_are_distinguished(path: Path) -> None:
    with Cassette(path, mode="record") as cassette:
        for name in ("one", "two"):
            asyncio.run(cassette.harness(MockHarness([name]), name=name).run("a"))

    with Cassette(path) as cassette:
        assert [asyncio.run(cassette.harness(name=name).run("a")).text for name in ("two", "one")] == ["two", "one"]


class Answer(BaseModel):
    score: int
    tags: tuple[str, ...] = ()


TYPED = AgentReply(
    text="{}", output=Answer(score=1, tags=("a", "b")), stopped="depth", messages=(UserMessage(text="x"),)
)


def test_output_of_a_type_is_replayed_as_that_type(path: Path) -> None:
    async def use(harness: Any) -> Any:
        return await harness.run("a")

    one, two = both(path, use, MockHarness([TYPED]), output=Answer)

    assert one == two
    assert two.output == TYPED.output
    assert (two.messages, two.stopped) == (TYPED.messages, "depth")


def test_output_of_an_unregistered_type_is_recorded_and_refused(path: Path) -> None:
    """The paid answer is in the file; only the decoding is missing."""
    error = refused(lambda: asyncio.run(Cassette(path, mode="record").harness(MockHarness([TYPED])).run("a")))
    assert error.code == "cassette-output"
    assert "Answer" in str(error)

    assert refused(lambda: asyncio.run(Cassette(path).harness().run("a"))).code == "cassette-output"
    assert refused(lambda: asyncio.run(Cassette(path).harness(output=int).run("a"))).code == "cassette-output"
    assert asyncio.run(Cassette(path).harness(output=Answer).run("a")).output == TYPED.output


def test_output_without_a_json_form_is_refused(path: Path) -> None:
    with pytest.raises(InputError) as caught:
        asyncio.run(Cassette(path, mode="record").harness(MockHarness([AgentReply(output=object())])).run("a"))

    assert caught.value.code == "cassette-unstorable"


def test_replay_needs_no_event_loop(path: Path) -> None:
    record(path, "a")
    coroutine = Cassette(path).model(counting()).invoke(req("a"))

    with pytest.raises(StopIteration) as stopped:
        coroutine.send(None)

    assert stopped.value.value.text == "a 1"


def test_calls_of_tools_keep_their_ids_in_replies(path: Path) -> None:
    call = ToolCall(id="call_x7", name="t", arguments={"a": 1.5})
    request = req("a", tools=(ToolSpec(name="t"),))
    for mode in ("record", "replay"):
        model = Cassette(path, mode=mode).model(FunctionModel(lambda _: call))  # type: ignore[arg-type]
        assert asyncio.run(model.invoke(request)).tool_calls == (call,)
