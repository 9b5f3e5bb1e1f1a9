"""The programs of Lár's documents run as printed, with the import changed: one test for each block."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from graphrt.compat import lar
from graphrt.compat.lar import (
    AuditLogger,
    BatchNode,
    LLMNode,
    ReduceNode,
    RouterNode,
    TokenTracker,
    ToolNode,
    WeakSecretWarning,
)
from graphrt.errors import RateLimitError
from graphrt.harness import FunctionModel, ModelRequest

from .support import echo, model, prompt_of

MODELS = {"ollama/phi4": echo(), "openai/gpt-4o": model("TEXT")}
GraphExecutor = partial(lar.GraphExecutor, models=MODELS)
"""The programs name real models, which are replaced by scripts here. Otherwise the programs are unchanged."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The programs write logs into their working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def count_words(text: str) -> int:
    return len(text.split())


def agent(output_key: str = "plan", prompt: str = "What is the capital of France?") -> LLMNode:
    return LLMNode(model_name="openai/gpt-4o", prompt_template=prompt, output_key=output_key)


# -- the page of the executor ----------------------------------------------------------------------------------------


def test_program_with_logger_tracker_user_and_fatigue(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry_point_node = agent()

    with pytest.warns(WeakSecretWarning, match="too short"):
        audit_logger = AuditLogger(log_dir="logs/", hmac_secret="super-secret")
    token_tracker = TokenTracker()

    executor = GraphExecutor(
        logger=audit_logger,
        tracker=token_tracker,
        user_id="customer-123",
        max_node_fatigue=25,  # Triggers abort if graph loops > 25 times
    )

    for step_log in executor.run_step_by_step(
        start_node=entry_point_node,
        initial_state={"token_budget": 50000},
    ):
        node_name = step_log.get("node")
        diff = step_log.get("state_diff", {})
        metadata = step_log.get("run_metadata")

        print(f"[{node_name}] Executed. GraphState updated: {diff.get('added')}")

    assert capsys.readouterr().out == "[LLMNode] Executed. GraphState updated: {'plan': 'TEXT'}\n"
    assert metadata["total_tokens"] == 43
    (file,) = (folder / "logs").glob("run_*.jsonl")
    text = file.read_text(encoding="utf-8")
    assert "customer-123" in text
    assert "super-secret" not in text


def test_anatomy_of_a_step_log() -> None:
    def five_steps() -> ToolNode:
        counting = ToolNode(count_words, ["text"], "word_count", None)
        node: Any = counting
        for _ in range(4):
            node = ToolNode(lambda: None, [], None, node)
        return node

    text = " ".join(["word"] * 25)
    *_, step_log = GraphExecutor().run_step_by_step(five_steps(), {"token_budget": 5000, "text": text})

    for shown in ("state_before", "state_after"):
        del step_log[shown]["text"]
    assert step_log["step"] == 4
    assert step_log["node"] == "ToolNode"
    assert step_log["state_before"] == {"token_budget": 5000}
    assert {key: step_log["state_diff"][key] for key in ("added", "removed", "updated")} == {
        "added": {"word_count": 25},
        "removed": {},
        "updated": {},
    }
    assert step_log["state_after"] == {"token_budget": 5000, "word_count": 25}
    assert step_log["outcome"] == "success"
    assert step_log["run_metadata"]["total_tokens"] == 0


def test_summary_of_the_token_tracker(capsys: pytest.CaptureFixture[str]) -> None:
    token_tracker = TokenTracker()
    GraphExecutor(tracker=token_tracker).run(agent(), {})

    summary = token_tracker.get_summary()
    print(summary["total_tokens"])

    assert capsys.readouterr().out == "43\n"


def test_table_of_parameters() -> None:
    executor = lar.GraphExecutor()

    assert isinstance(executor.logger, AuditLogger)
    assert isinstance(executor.tracker, TokenTracker)
    assert executor.user_id is None
    assert executor.max_node_fatigue == 50
    assert executor.offline_mode is False
    with pytest.warns(WeakSecretWarning):
        assert lar.GraphExecutor(hmac_secret="secret").logger.audit is not None


# -- the page of the log ---------------------------------------------------------------------------------------------


def test_log_of_a_model_step() -> None:
    (step_log,) = GraphExecutor().run_step_by_step(agent(prompt="{task}"), {"task": "What is the capital of France?"})

    assert step_log["step"] == 0
    assert step_log["node"] == "LLMNode"
    assert step_log["outcome"] == "success"
    assert step_log["state_before"] == {"task": "What is the capital of France?"}
    assert {key: step_log["state_diff"][key] for key in ("added", "removed", "modified")} == {
        "added": {"plan": "TEXT"},
        "removed": {},
        "modified": {},
    }
    metadata = step_log["run_metadata"]
    assert {key: metadata[key] for key in ("prompt_tokens", "output_tokens", "total_tokens")} == {
        "prompt_tokens": 42,
        "output_tokens": 1,
        "total_tokens": 43,
    }


def test_log_of_a_failed_model_step() -> None:
    def busy(request: ModelRequest) -> str:
        raise RateLimitError("slow down", status_code=429)

    node: Any = agent()
    for _ in range(3):
        node = ToolNode(lambda: None, [], None, node)
    executor = lar.GraphExecutor(models={"openai/gpt-4o": FunctionModel(busy)}, sleep=lambda seconds: None)
    *_, step_log = executor.run_step_by_step(node, {"task": "write"})

    assert step_log["step"] == 3
    assert step_log["node"] == "LLMNode"
    assert step_log["outcome"] == "error"
    assert step_log["error"] == "429 LLMNode failed after 3 retries."
    assert step_log["state_before"] == {"task": "write"}
    assert step_log["state_diff"] == {"added": {}, "removed": {}, "updated": {}, "modified": {}}
    assert step_log["run_metadata"] == {}


def test_default_use_of_the_logger(folder: Path) -> None:
    executor = GraphExecutor(log_dir="my_logs")
    executor.run(agent(), {})
    # AuditLogger created automatically
    history = executor.logger.get_history()

    assert [step["node"] for step in history] == ["LLMNode"]
    assert len(list((folder / "my_logs").iterdir())) == 1


def test_injected_logger(capsys: pytest.CaptureFixture[str]) -> None:
    custom_logger = AuditLogger(log_dir="compliance_logs")
    executor = GraphExecutor(logger=custom_logger)
    executor.run(agent(), {})

    # Direct access to audit history
    for step in custom_logger.get_history():
        print(f"Step {step['step']}: {step['node']} - {step['outcome']}")

    assert capsys.readouterr().out == "Step 0: LLMNode - success\n"


def test_default_use_of_the_tracker(capsys: pytest.CaptureFixture[str]) -> None:
    executor = GraphExecutor()
    executor.run(agent(), {})
    summary = executor.tracker.get_summary()
    print(f"Total tokens: {summary['total_tokens']}")
    print(f"By model: {summary['tokens_by_model']}")

    assert capsys.readouterr().out == "Total tokens: 43\nBy model: {'openai/gpt-4o': 43}\n"


def test_shared_tracker(capsys: pytest.CaptureFixture[str]) -> None:
    agent1, state1, agent2, state2 = agent(), {}, agent(), {}

    # Share one tracker across multiple executors
    shared_tracker = TokenTracker()

    executor1 = GraphExecutor(log_dir="workflow1", tracker=shared_tracker)
    executor2 = GraphExecutor(log_dir="workflow2", tracker=shared_tracker)

    # Run both workflows
    executor1.run(agent1, state1)
    executor2.run(agent2, state2)

    # Get aggregated cost
    total = shared_tracker.get_summary()
    print(f"Total cost across both workflows: {total['total_tokens']} tokens")

    assert capsys.readouterr().out == "Total cost across both workflows: 86 tokens\n"


# -- the page of the constraints -------------------------------------------------------------------------------------


def test_program_with_batch_and_reduce() -> None:
    # 1. The Map Phase: Three agents researching in parallel
    researcher_1 = LLMNode(
        model_name="ollama/phi4", prompt_template="Research AI in healthcare.", output_key="healthcare"
    )
    researcher_2 = LLMNode(model_name="ollama/phi4", prompt_template="Research AI in finance.", output_key="finance")
    researcher_3 = LLMNode(model_name="ollama/phi4", prompt_template="Research AI in robotics.", output_key="robotics")

    # 2. The Reduce Phase: Read the 3 heavy reports, extract insights, and delete the raw text
    reducer = ReduceNode(
        model_name="ollama/phi4",
        prompt_template="Summarize the core themes: 1. {healthcare} 2. {finance} 3. {robotics}",
        input_keys=["healthcare", "finance", "robotics"],  # These keys will be DELETED after execution
        output_key="executive_summary",
    )

    # Batch them together, and route directly to the reducer
    map_phase = BatchNode(nodes=[researcher_1, researcher_2, researcher_3], next_node=reducer)

    first, second = GraphExecutor().run_step_by_step(map_phase, {})

    assert first["state_after"] == {
        "healthcare": "RESEARCH AI IN HEALTHCARE.",
        "finance": "RESEARCH AI IN FINANCE.",
        "robotics": "RESEARCH AI IN ROBOTICS.",
    }
    assert list(second["state_after"]) == ["executive_summary"]
    assert second["state_after"]["executive_summary"].startswith("SUMMARIZE THE CORE THEMES: 1. RESEARCH AI IN HEALTH")
    assert sorted(second["state_diff"]["removed"]) == ["finance", "healthcare", "robotics"]


def test_program_with_a_token_budget(capsys: pytest.CaptureFixture[str]) -> None:
    endless = {"openai/gpt-4o": model("Chapter 1 ...", prompt_tokens=20, output_tokens=None)}
    GraphExecutor = partial(lar.GraphExecutor, models=endless)  # noqa: N806 - the name in the program

    executor = GraphExecutor()

    # Give the agent a strict max budget of 2500 tokens
    initial_state = {"task": "Write a 50 page book about the Roman Empire.", "token_budget": 2500}

    book_writer = LLMNode(model_name="openai/gpt-4o", prompt_template="{task}", output_key="book_draft")
    book_writer.next_node = LLMNode("openai/gpt-4o", "Continue: {book_draft}", "more")

    # The next LLMNode in the chain will immediately refuse to run and yield an error log.
    logs = []
    for log in executor.run_step_by_step(book_writer, initial_state):
        print(log["outcome"])
        logs.append(log)

    assert capsys.readouterr().out == "success\nerror\n"
    assert logs[0]["run_metadata"]["total_tokens"] == 2500
    assert logs[1]["state_after"]["token_budget"] == 0
    assert len(endless["openai/gpt-4o"].calls) == 1


def test_program_with_node_fatigue() -> None:
    fix_code = LLMNode(model_name="ollama/phi4", prompt_template="Fix it.", output_key="code")
    done = LLMNode(model_name="ollama/phi4", prompt_template="Say: done.", output_key="said")
    fix_code.next_node = RouterNode(lambda state: "again", {"again": fix_code, "done": done})

    # Set the maximum times any single node can be executed in one graph run to 5
    executor = GraphExecutor(max_node_fatigue=5)
    logs = list(executor.run_step_by_step(fix_code, {}))

    # If an agent gets stuck in a self-correction loop passing over the same
    # LLMNode 6 times, the executor will intercept it and throw a FATIGUE Error.
    assert [log["node"] for log in logs if log["outcome"] == "success"].count("LLMNode") == 5
    assert logs[-1]["outcome"] == "error"
    assert "FATIGUE" in logs[-1]["error"]


def test_prompts_of_the_examples_reach_the_model_unchanged() -> None:
    asked: list[str] = []

    def note(request: ModelRequest) -> str:
        asked.append(prompt_of(request))
        return "ok"

    lar.GraphExecutor(models={"m": model(note)}).run(
        LLMNode("m", 'Answer as {"a": {"b": 1}} about {topic} and {{topic}}.', "x"), {"topic": "{tea}"}
    )

    assert asked == ['Answer as {"a": {"b": 1}} about {tea} and {tea}.']
