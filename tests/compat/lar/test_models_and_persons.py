"""Node objects that call models and ask persons, beyond the examples of Lár's documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from graphrt.compat.lar import (
    AddValueNode,
    BaseNode,
    BatchNode,
    FunctionalNode,
    GraphExecutor,
    HumanJuryNode,
    LLMNode,
    RouterNode,
    TokenTracker,
    ToolNode,
)
from graphrt.errors import InputError, TransientModelError
from graphrt.harness import AgentReply, FunctionModel, ModelRequest, ScriptedModel

from .support import asking, busy, echo, model, prompt_of, run


@pytest.mark.parametrize("state", [{}, {"topic": None}])
def test_prompt_with_a_missing_key_is_not_sent(state: dict[str, Any]) -> None:
    silent = echo()

    assert run(asking("about {topic}", "x"), state, model=silent).records[0]["outcome"] == "error"
    assert silent.calls == []


@pytest.mark.parametrize(
    ("said", "text", "thinking"),
    [
        ("<think>two</think> Four.", "Four.", "two"),
        ("two</think> Four.", "Four.", "two"),
        ("Four. <think>two and", "Four.", "two and"),
        (" Four.\n", "Four.", None),
    ],
)
def test_thinking_is_kept_out_of_the_answer(said: str, text: str, thinking: str | None) -> None:
    outcome = run(asking("2 + 2", "x"), model=model(said))

    assert outcome.state == {"x": text}
    assert outcome.records[0]["run_metadata"].get("reasoning_content") == thinking


BRACED = {
    'Answer as {{"a": 1}} about {t}': 'Answer as {"a": 1} about tea',
    '{"a": {"b": {t}}}': '{"a": {"b": tea}}',
    '{{"a": {{"b": {{t}}}}}}': '{"a": {"b": tea}}',
    '{{"a": {"b": {t}}}}': '{"a": {"b": tea}}',
    "{{t}} {{ t }} {{{t}}}": "tea tea {tea}",
    "Write {{{{query}}}}, not {{query.text}} or {{}}.": "Write {query}, not {query.text} or {}.",
    "{} } {{": "{} } {",
    '{{{{"a": {t}}}}}': '{"a": tea}',
}


@pytest.mark.parametrize("prompt", BRACED)
def test_doubled_braces_are_braces_or_a_field(prompt: str) -> None:
    asked = echo()

    run(asking(prompt, "x"), {"t": "tea"}, model=asked)

    assert prompt_of(asked.calls[0]) == BRACED[prompt]


def test_reassigned_prompt_is_used() -> None:
    asked, start = echo(), asking("about {t}", "x")
    start.prompt_template += " and {{more}}"

    run(start, {"t": "tea", "more": "milk"}, model=asked)

    assert prompt_of(asked.calls[0]) == "about tea and milk"


def test_answer_with_thinking_only_is_an_error() -> None:
    assert run(asking("2 + 2", "x"), model=model("<think>two")).records[0]["outcome"] == "error"


def test_options_of_a_model_reach_it() -> None:
    asked: list[ModelRequest] = []

    def note(request: ModelRequest) -> str:
        asked.append(request)
        return "ok"

    config = {"max_tokens": 9, "temperature": 0.5, "top_k": 3}
    start = LLMNode("m", "hello", "x", system_instruction="Be {kind}.", generation_config=config)

    run(start, model=model(note))

    (request,) = asked
    assert (request.max_tokens, request.temperature) == (9, 0.5)
    assert dict(request.options or {}) == {"top_k": 3}
    assert request.messages[0].text == "Be {kind}."


def test_max_tokens_of_a_node_are_reduced_to_the_rest_of_a_budget() -> None:
    start = LLMNode("m", "hello", "x", generation_config={"max_tokens": 500})
    greedy = model(prompt_tokens=10, output_tokens=None)

    assert run(start, {"token_budget": 60}, model=greedy).state["token_budget"] == 0
    assert greedy.calls[0].max_tokens == 50


def test_nodes_can_set_raise_and_remove_a_budget() -> None:
    greedy = model(prompt_tokens=10, output_tokens=None)
    spend = asking("hello", "x", AddValueNode("token_budget", 40, asking("hello", "y")))
    assert run(spend, {"token_budget": 20}, model=greedy).state["token_budget"] == 0
    assert [call.max_tokens for call in greedy.calls] == [10, 30]

    free = model()
    end = FunctionalNode(lambda state: state.delete("token_budget"), next_node=asking("hello", "x"))
    assert run(end, {"token_budget": 0}, model=free).state == {"x": "TEXT"}

    begin = FunctionalNode(lambda state: state.set("token_budget", 50), next_node=asking("hello", "x"))
    assert run(begin, model=model(prompt_tokens=10)).state == {"x": "TEXT", "token_budget": 39}


def test_response_format_of_the_provider_is_passed_to_the_provider() -> None:
    form = {"type": "json_object"}
    asked = model("{}")

    run(LLMNode("m", "who?", "raw", response_format=form), model=asked)

    assert dict(asked.calls[0].options or {}) == {"response_format": form}


def test_answer_is_parsed_as_json_of_the_declared_type() -> None:
    class Person(BaseModel):
        name: str

    start = LLMNode("m", "who?", "raw", response_format=Person)

    assert run(start, model=ScriptedModel(['{"name": "Ann"}'])).state == {"raw": '{"name": "Ann"}'}


def test_fallback_answers_when_the_first_model_has_failed() -> None:
    start = LLMNode("m", "hello", "x", fallbacks=["spare"], max_retries=0)
    executor = GraphExecutor(models={"m": FunctionModel(busy), "spare": model()})

    outcome = executor.run(start, {})

    assert outcome.records[0]["run_metadata"]["model"] == "spare"
    assert executor.tracker.get_summary()["tokens_by_model"] == {"spare": 43}


def test_call_that_succeeds_after_retries_is_a_success() -> None:
    answers: list[Any] = [TransientModelError("overloaded"), TransientModelError("overloaded"), AgentReply(text="ok")]
    flaky = ScriptedModel(answers)

    outcome = run(asking("hello", "x"), model=flaky, sleep=lambda seconds: None)

    assert outcome.state == {"x": "ok"}
    assert len(flaky.calls) == 3


def test_cached_answer_is_requested_once() -> None:
    once = echo()
    start = LLMNode("m", "hello", "x", caching=True)
    executor = GraphExecutor(models={"m": once})

    executor.run(start, {})
    executor.run(start, {})

    assert len(once.calls) == 1


def test_only_a_streaming_node_writes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    run(LLMNode("m", "hello", "x", stream=True), model=ScriptedModel(["Good day"]))
    assert capsys.readouterr().out == "Good day"

    run(asking("hello", "x", BatchNode([ToolNode(len, ["x"], "n")])), model=ScriptedModel(["Good day"]))
    assert capsys.readouterr() == ("", "")


def test_tracker_can_be_reset() -> None:
    tracker = TokenTracker()
    run(asking("hello", "x"), model=model(), tracker=tracker)
    tracker.add_tokens({"prompt_tokens": 3, "output_tokens": 4, "model": "m"})
    tracker.add_tokens(None)
    assert repr(tracker) == "TokenTracker(50 tokens)"
    assert (tracker.total_prompt_tokens, tracker.total_completion_tokens) == (45, 5)
    assert tracker.tokens_by_model == {"m": 50}
    assert tracker.get_summary()["calls"] == 2

    tracker.reset()

    assert tracker.get_summary()["total_tokens"] == 0


# -- persons ---------------------------------------------------------------------------------------------------------


def jury(next_node: Any = None) -> HumanJuryNode:
    return HumanJuryNode("Send it?", ["Approve", "reject"], "verdict", ["letter"], next_node=next_node)


def test_person_is_asked_until_the_choice_is_valid() -> None:
    shown: list[str] = []
    lines = iter(["maybe", " REJECT "])

    def ask(question: str) -> str:
        shown.append(question)
        return next(lines)

    assert run(jury(), {"letter": "Dear Ann"}, ask=ask).state["verdict"] == "reject"
    assert shown[0] == "letter: Dear Ann\nSend it? (approve/reject): "
    assert shown[1].startswith("'maybe' is not a choice.")


def test_run_pauses_without_a_terminal_and_continues_with_the_answer() -> None:
    def ended(question: str) -> str:
        raise EOFError

    executor = GraphExecutor(ask=ended, models={"m": echo()})
    paused = executor.run(asking("hello", "letter", jury(AddValueNode("done", True))), {"token_budget": 500})
    assert paused.outcome == "interrupted"
    assert paused.raise_for_error() is paused
    assert paused.records[-1]["questions"][0]["choices"] == ["approve", "reject"]

    with pytest.raises(InputError) as caught:
        executor.resume("perhaps")
    assert caught.value.code == "bad-answer"
    assert [record["node"] for record in executor.resume_step_by_step("approve")] == ["HumanJuryNode", "AddValueNode"]
    done = executor.result

    assert done is not None
    assert done.outcome == "success"
    assert done.state["done"] is True
    assert [record["step"] for record in done.records] == [0, 1, 2, 3]
    assert executor.logger.get_history() == done.records
    assert executor.tracker.get_summary()["calls"] == 1


def letter() -> BaseNode:
    """A program, as each process builds it."""
    sent, kept = AddValueNode("sent", "{letter}"), AddValueNode("sent", False)
    route = RouterNode(lambda state: str(state["verdict"]), {"approve": sent, "reject": kept})
    batch = BatchNode([AddValueNode("a", 1), AddValueNode("b", 2)], jury(route))
    return AddValueNode("letter", "Dear Ann", batch)


def test_pause_is_answered_by_another_executor(tmp_path: Path) -> None:
    """Like in another process: it has only the store. The run continues, with its log and records."""
    store = f"sqlite:///{tmp_path}/runs.db"
    run_id = GraphExecutor(tmp_path / "log", store=store).run(letter(), {"token_budget": 50}).run_id

    executor = GraphExecutor(tmp_path / "log", store=store)
    with pytest.raises(InputError):
        executor.resume("perhaps", run_id=run_id, start_node=letter())
    done = executor.resume("approve", run_id=run_id, start_node=letter())

    assert done.outcome == "success"
    assert done.state["sent"] == "Dear Ann"
    assert done.state["token_budget"] == 50
    records = done.records
    assert [(one["step"], one["node"]) for one in records] == [
        (0, "AddValueNode"),
        (1, "BatchNode"),
        (3, "HumanJuryNode"),
        (4, "RouterNode"),
        (5, "AddValueNode"),
    ]
    assert [one["state_diff"]["added"] for one in records[1]["inner"]] == [{"a": 1}, {"b": 2}]
    assert records[-1]["reads"] == {"letter": 0}
    (file,) = (tmp_path / "log").iterdir()
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "step"] == [0, 1, 2, 3, 4, 5]


def test_questions_of_several_branches_are_answered_by_their_ids() -> None:
    one, two = (HumanJuryNode(f"{n}?", ["yes", "no"], f"answer{n}") for n in (1, 2))
    executor = GraphExecutor()
    paused = executor.run(BatchNode([one, two]), {})
    ids = {asked["question"]: asked["id"] for asked in paused.records[-1]["questions"]}

    done = executor.resume({ids["1?"]: "yes", ids["2?"]: "no"})

    assert done.state == {"answer1": "yes", "answer2": "no"}


def test_prompts_reach_the_records() -> None:
    outcome = run(LLMNode("m", "say {n}", "x", system_instruction="Be brief."), {"n": 1}, model=model(prompt_of))

    assert (outcome.records[0]["prompt"], outcome.records[0]["system_instruction"]) == ("say 1", "Be brief.")


def test_run_that_pauses_while_another_is_resumed_can_also_be_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask() -> HumanJuryNode:
        return HumanJuryNode("ok?", ["y", "n"], "verdict", [], next_node=None)

    executor = GraphExecutor(ask=None)
    assert executor.run(ask(), {"id": "A"}).outcome == "interrupted"
    paused = executor._paused
    assert paused is not None
    real, beside = paused.runtime.steps, []

    def steps(*args: Any, **options: Any) -> Any:
        beside.append(executor.run(ask(), {"id": "B"}).outcome)  # another thread may do the same
        return real(*args, **options)

    monkeypatch.setattr(paused, "runtime", Proxy(paused.runtime, steps))

    first = executor.resume("y")

    assert beside == ["interrupted"]
    assert first.state["id"] == "A"
    assert executor.resume("y").state["id"] == "B"


class Proxy:
    """A runtime whose `steps` is another function."""

    def __init__(self, runtime: Any, steps: Any) -> None:
        self._runtime, self.steps = runtime, steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)
