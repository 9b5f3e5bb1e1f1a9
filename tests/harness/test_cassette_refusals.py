"""Invalid models and harnesses are refused when a cassette wraps them, not at their first call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphrt.errors import InputError
from graphrt.harness import Agent, Cassette, MockHarness, ScriptedModel


@pytest.fixture(params=["record", "live"])
def cassette(tmp_path: Path, request: Any) -> Cassette:
    return Cassette(tmp_path / "x.cassette", mode=request.param)


@pytest.mark.parametrize(
    ("harness", "told"),
    [
        (Agent, ("the class Agent", "instances")),
        (ScriptedModel(["x"]), ("ScriptedModel", "cassette.model(", "Agent(")),
        ("openai/x", ("'openai/x'", "Agent(")),
        (5, ("int", "no run()")),
    ],
)
def test_harness_that_cannot_be_run_is_refused(cassette: Cassette, harness: Any, told: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as caught:
        cassette.harness(harness)

    assert caught.value.code == "bad-harness"
    assert [word for word in told if word not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("openai/x", ("'openai/x'", "LiteLLMModel('openai/x')")),
        (Agent(ScriptedModel(["x"])), ("Agent", "cassette.harness(")),
        (MockHarness(["x"]), ("MockHarness", "cassette.harness(")),
        (ScriptedModel, ("the class ScriptedModel", "instances")),
        (None, ("NoneType", "no invoke()")),
    ],
)
def test_model_that_cannot_be_invoked_is_refused(cassette: Cassette, model: Any, told: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as caught:
        cassette.model(model)

    assert caught.value.code == "no-model"
    assert [word for word in told if word not in str(caught.value)] == []


def test_invalid_path_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        Cassette("a\0b")

    assert caught.value.code == "bad-path"
