"""Programs like Lár's documented examples give the same results as Lár 2.1.0, where Lár is right.

`RESULTS` has the results of Lár itself: steps, final state and tokens. Where Lár is installed, it runs again. Keys with
a leading underscore belong to Lár and are dropped.
"""

from __future__ import annotations

import builtins
import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from graphrt.compat import lar as ours
from graphrt.events import Usage
from graphrt.harness import AgentReply, FunctionModel, ModelProfile, ModelRequest

from .programs import PROGRAMS, answer

RESULTS: dict[str, Any] = json.loads((Path(__file__).parent / "results_of_lar.json").read_text(encoding="utf-8"))
PROMPT_TOKENS, OUTPUT_TOKENS = 10, 5


def visible(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if not key.startswith("_")}


def shown(records: list[dict[str, Any]]) -> dict[str, Any]:
    """The compared values, as restored from JSON."""
    found = {
        "steps": [
            {
                "node": record["node"],
                "outcome": record["outcome"],
                "added": visible(record["state_diff"]["added"]),
                "removed": sorted(visible(record["state_diff"]["removed"])),
                "updated": visible(record["state_diff"]["updated"]),
            }
            for record in records
        ],
        "state": visible(records[-1]["state_after"]),
    }
    result: dict[str, Any] = json.loads(json.dumps(found))
    return result


def run_ours(name: str) -> tuple[list[dict[str, Any]], int]:
    usage = Usage(input_tokens=PROMPT_TOKENS, output_tokens=OUTPUT_TOKENS, calls=1)

    def reply(request: ModelRequest) -> AgentReply:
        return AgentReply(text=answer(request.messages[-1].text), usage=usage)

    model = FunctionModel(reply, profile=ModelProfile(name="m", count_tokens=lambda request: PROMPT_TOKENS))
    executor = ours.GraphExecutor(models={"m": model}, ask=lambda question: "reject")
    start, state = PROGRAMS[name](ours)
    return list(executor.run_step_by_step(start, state)), executor.tracker.get_summary()["total_tokens"]


def run_lar(name: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[dict[str, Any]]:
    import lar  # type: ignore[import-not-found]

    def complete(*, messages: list[dict[str, str]], **options: Any) -> Any:
        message = SimpleNamespace(content=answer(messages[-1]["content"]), reasoning_content=None)
        usage = SimpleNamespace(prompt_tokens=PROMPT_TOKENS, completion_tokens=OUTPUT_TOKENS)
        return SimpleNamespace(choices=[SimpleNamespace(message=message)], usage=usage)

    monkeypatch.setattr(sys.modules["lar.node"], "completion", complete)
    monkeypatch.setattr(builtins, "input", lambda question="": "reject")
    start, state = PROGRAMS[name](lar)
    # Its fatigue counts classes, and the long line needs room.
    executor = lar.GraphExecutor(log_dir=str(folder), max_node_fatigue=100)
    return list(executor.run_step_by_step(start, state))


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_gives_the_results_of_lar(name: str) -> None:
    records, tokens = run_ours(name)

    assert shown(records) == RESULTS[name]
    asked = str(records).count("'prompt': ")
    assert tokens == asked * (PROMPT_TOKENS + OUTPUT_TOKENS)


@pytest.mark.skipif(importlib.util.find_spec("lar") is None, reason="pip install lar-engine==2.1.0 to compare again")
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore")
def test_lar_gives_these_results(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert shown(run_lar(name, monkeypatch, tmp_path)) == RESULTS[name]


def test_thinking_goes_to_the_metadata() -> None:
    records, _ = run_ours("thinking")

    assert records[0]["run_metadata"]["reasoning_content"] == "two and two"
