"""A cassette answers from its file, calls the live model only if its mode allows it, and is strict."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import pytest
from tests.harness.cassettes import ask, counting, read, record, refused, req

from graphrt.errors import InputError, ScriptError
from graphrt.harness import (
    AgentReply,
    FunctionModel,
    ToolSpec,
    UserMessage,
)
from graphrt.harness.cassette import Cassette, CassetteMode
from graphrt.harness.cassette._canonical import NAMES
from graphrt.harness.protocol import ModelProfile
from graphrt.harness.request import ModelRequest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "er" / "tea.cassette"


# ---------------------------------------------------------------------------------------------------------- modes


def test_replay_returns_recorded_answers_without_a_live_call(path: Path) -> None:
    record(path, "a", "b")
    model = counting()

    with Cassette(path) as cassette:
        assert ask(cassette.model(model), "b", "a") == ["b 2", "a 1"]

    assert model.calls == []
    assert cassette.remaining == 0


def test_same_request_gets_its_answers_in_order(path: Path) -> None:
    record(path, "a", "b", "a", "a")

    with Cassette(path) as cassette:
        assert ask(cassette.model(counting()), "a", "a", "b", "a") == ["a 1", "a 3", "b 2", "a 4"]


def test_record_adds_only_missing_answers(path: Path) -> None:
    record(path, "a", "b")
    before = path.read_text()

    model = record(path, "a", "c", "b", "a")

    assert [call.text for call in model.calls] == ["c", "a"]
    assert path.read_text().startswith(before.rstrip("\n"))
    with Cassette(path) as cassette:
        assert ask(cassette.model(counting()), "a", "a", "b", "c") == ["a 1", "a 2", "b 2", "c 1"]


def test_rewrite_records_everything_again_and_drops_the_rest(path: Path) -> None:
    record(path, "x", "a", "old")
    with Cassette(path, mode="rewrite") as cassette:
        assert ask(cassette.model(counting()), "a") == ["a 1"]

    with Cassette(path) as cassette:
        assert ask(cassette.model(counting()), "a") == ["a 1"]


def test_rewrite_without_calls_changes_nothing(path: Path) -> None:
    record(path, "a")
    before = path.read_bytes()
    with Cassette(path, mode="rewrite"):
        pass

    assert path.read_bytes() == before


def test_live_neither_reads_nor_writes(path: Path) -> None:
    model = counting()
    with Cassette(path, mode="live") as cassette:
        assert ask(cassette.model(model), "a", "a") == ["a 1", "a 2"]
        assert asyncio.run(read(cassette.model(model).stream(req("b"))))[-1].text == "b 3"  # type: ignore[union-attr]

    assert not path.exists()


@pytest.mark.parametrize("mode", ["record", "rewrite", "live"])
def test_environment_sets_the_mode_and_the_argument_wins(
    path: Path, monkeypatch: pytest.MonkeyPatch, mode: CassetteMode
) -> None:
    record(path, "a")
    monkeypatch.setenv("GRAPHRT_CASSETTE", mode)

    assert Cassette(path).mode == mode
    assert Cassette(path, mode="replay").mode == "replay"
    monkeypatch.setenv("GRAPHRT_CASSETTE", "")
    assert Cassette(path).mode == "replay"


def test_unknown_mode_is_refused_with_its_origin(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="argument mode") as caught:
        Cassette(path, mode="once")  # type: ignore[arg-type]
    assert caught.value.code == "input"

    monkeypatch.setenv("GRAPHRT_CASSETTE", "1")
    with pytest.raises(InputError, match="GRAPHRT_CASSETTE"):
        Cassette(path)


# --------------------------------------------------------------------------------------------------------- strict


def test_missing_cassette_is_reported_before_the_first_call(path: Path) -> None:
    error = refused(lambda: Cassette(path))

    assert error.code == "cassette-missing"
    assert "GRAPHRT_CASSETTE=record" in str(error)


def test_miss_never_goes_live_and_shows_the_difference(path: Path) -> None:
    record(path, "Write of cats.\nBe short.", "something else entirely")
    model = counting()
    cassette = Cassette(path)

    error = refused(lambda: ask(cassette.model(model), req("Write of dogs.\nBe short.", temperature=0.5)))

    assert model.calls == []
    assert error.code == "cassette-miss"
    assert '-        "Write of cats."' in str(error)
    assert '+        "Write of dogs."' in str(error)
    assert '+  "temperature": 0.5' in str(error)
    assert "something else" not in str(error)
    assert "line 2" in str(error)


class Careful:
    """A harness with a default."""

    defaults: Final = {"system": "Be careful."}

    async def run(self, prompt: Any, /, **options: Any) -> AgentReply:
        return AgentReply(text="hello")


def test_miss_without_the_harness_that_had_defaults_suggests_it(path: Path) -> None:
    with Cassette(path, mode="record") as cassette:
        asyncio.run(cassette.harness(Careful()).run("hi"))

    with pytest.raises(ScriptError) as caught:
        asyncio.run(Cassette(path).harness().run("hi"))
    with Cassette(path) as cassette:
        assert asyncio.run(cassette.harness(Careful()).run("hi")).text == "hello"

    assert caught.value.fix.startswith(
        "If it was recorded around a harness with a model, instructions or other defaults"
    )


def test_miss_after_the_last_answer_reports_it(path: Path) -> None:
    record(path, "a", "a")
    cassette = Cassette(path)

    error = refused(lambda: ask(cassette.model(counting()), "a", "a", "a"))

    assert "has 2 answers for this call, and it was made once more" in str(error)


def test_miss_of_an_empty_cassette_and_of_long_texts(path: Path) -> None:
    record(path, "word " * 2000)
    error = refused(lambda: ask(Cassette(path).model(counting()), "word " * 1000 + "new " + "word " * 999))
    assert "new" in error.known
    assert len(str(error)) < 8000

    path.write_text('{"graphrt_cassette": 1}\n')
    assert "empty" in str(refused(lambda: ask(Cassette(path).model(counting()), "a")))


def test_swallowed_miss_is_reported_at_the_end(path: Path) -> None:
    record(path, "a")

    with pytest.raises(ScriptError) as caught, Cassette(path) as cassette:
        refused(lambda: ask(cassette.model(counting()), "swallowed"))

    assert caught.value.code == "cassette-miss"


def test_unused_recordings_fail_unless_allowed(path: Path) -> None:
    record(path, "a", "b", "b")

    with pytest.raises(ScriptError) as caught, Cassette(path) as cassette:
        ask(cassette.model(counting()), "b")
    assert caught.value.code == "cassette-unused"
    assert caught.value.expected == ["a", "b"]

    with Cassette(path, strict=False) as cassette:
        ask(cassette.model(counting()), "b")
    assert cassette.remaining == 2
    assert refused(cassette.assert_done).code == "cassette-unused"


def test_exception_that_leaves_the_block_is_not_hidden(path: Path) -> None:
    record(path, "a")

    with pytest.raises(ZeroDivisionError), Cassette(path):
        raise ZeroDivisionError


# ------------------------------------------------------------------------------------------------------ equal calls


SAME: list[tuple[str, Any, Any]] = [
    ("time limits", req("a", timeout_s=1.0), req("a", timeout_s=2.5)),
    ("message ids", ModelRequest(messages=(UserMessage(text="a", id="1"),)), req("a")),
    ("numbers", req("a", temperature=0), req("a", temperature=0.0)),
    ("the order of names", req("a", options={"x": 1, "y": 2}), req("a", options={"y": 2, "x": 1})),
    ("credentials", req("a", options={"api_key": "1"}), req("a", options={"extra_headers": {"x": "y"}})),
    ("the model's own name", req("a"), req("a", model="function")),
]


@pytest.mark.parametrize(("what", "one", "other"), SAME, ids=[case[0] for case in SAME])
def test_irrelevant_differences_do_not_change_a_call(path: Path, what: str, one: Any, other: Any) -> None:
    record(path, one)

    with Cassette(path) as cassette:
        assert ask(cassette.model(counting()), other) == ["a 1"]


OTHER = [
    req("b"),
    req("a", temperature=1),
    req("a", model="other"),
    req("a", seed=0),
    req("a", stop=("x",)),
    req("a", tools=(ToolSpec(name="t"),)),
    req("a", options={"x": 1}),
    req("a", max_tokens=1),
    ModelRequest(messages=(UserMessage(text="a"), UserMessage(text="a"))),
]


@pytest.mark.parametrize("other", OTHER, ids=str)
def test_any_relevant_difference_changes_a_call(path: Path, other: ModelRequest) -> None:
    record(path, "a")

    assert refused(lambda: ask(Cassette(path).model(counting()), other)).code == "cassette-miss"


def test_models_with_different_names_have_different_calls(path: Path) -> None:
    small, big = (FunctionModel(lambda _, name=name: name, profile=ModelProfile(name=name)) for name in ("s", "b"))
    with Cassette(path, mode="record") as cassette:
        ask(cassette.model(small), "a")
        ask(cassette.model(big), "a")

    with Cassette(path) as cassette:
        assert ask(cassette.model(big), "a") + ask(cassette.model(small), "a") == ["b", "s"]
        assert cassette.model(big).profile.name == "b"


def test_request_that_cannot_be_serialized_is_refused_before_the_call(path: Path) -> None:
    model = counting()
    loop: dict[str, Any] = {}
    loop["x"] = loop
    for options in ({"client": object()}, {"x": {1: 2}}, loop):
        with pytest.raises(InputError) as caught:
            ask(Cassette(path, mode="record").model(model), req("a", options=options))
        assert caught.value.code == "cassette-unstorable"

    assert model.calls == []


def test_every_field_of_requests_is_known() -> None:
    """A field that a cassette ignored would be lost, or distinguish two calls without being stored."""
    assert {field.name for field in fields(ModelRequest)} - {"timeout_s"} | {"harness"} == NAMES
